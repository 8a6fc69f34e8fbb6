//! Components made from a few lines of text, loaded by the real loader.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::decision::{Call, Document, Observation};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::limits::{CACHE_BYTES, Limits, Overrides};
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::call::{Aborted, Outcome};
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::contract;
use hotshoe_sandbox::engine::Engine;
use hotshoe_sandbox::error::LoadError;
use hotshoe_sandbox::revision::Revision;

pub(crate) use hotshoe_components::{Guest, reconcile};

/// The binary under test.
pub(crate) const HOTSHOE: &str = env!("CARGO_BIN_EXE_hotshoe");

/// Returns the engine that all tests share, as a host has only one.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new().unwrap())
}

/// A compiler with a cache below the build directory, which the tests share.
pub(crate) fn compiler() -> Compiler {
    Compiler::new(HOTSHOE.into(), Some(Path::new(env!("CARGO_TARGET_TMPDIR"))), CACHE_BYTES)
}

/// The default limits with these overrides, in JSON.
pub(crate) fn limits(overrides: &str) -> Limits {
    Limits::with(&serde_json::from_str::<Overrides>(overrides).unwrap()).unwrap()
}

/// Loads a component with the default limits.
pub(crate) async fn load(bytes: Vec<u8>) -> Result<Arc<Revision>, LoadError> {
    load_with(bytes, Limits::default()).await
}

/// Loads a component with these limits.
pub(crate) async fn load_with(bytes: Vec<u8>, limits: Limits) -> Result<Arc<Revision>, LoadError> {
    Revision::load(engine(), &compiler(), Candidate::of(bytes), limits, Purpose::Trial, &Account::default())
        .await
        .map(|loaded| loaded.revision)
}

/// An observation of a parent without children and related objects.
pub(crate) fn observation() -> Arc<Observation> {
    let kind = Kind::new("example.com", "v1", "Test");
    Arc::new(Observation {
        parent: Document {
            reference: ObjectRef { kind, namespace: Some("default".into()), name: "sample".into() },
            json: r#"{"metadata":{"name":"sample"}}"#.into(),
        },
        children: Vec::new(),
        related: Vec::new(),
        refusals: Vec::new(),
        config: "{}".into(),
        now: None,
        attempt: None,
    })
}

/// Loads a guest and calls its `reconcile` once.
pub(crate) async fn call(guest: Guest) -> Result<Outcome, Aborted> {
    call_with(guest, Limits::default()).await
}

/// Loads a guest with these limits and calls its `reconcile` once.
pub(crate) async fn call_with(guest: Guest, limits: Limits) -> Result<Outcome, Aborted> {
    let revision = load_with(guest.component(), limits).await.unwrap();
    revision.decide(Call::Reconcile, observation()).await
}

/// Returns the reason and the message of a call that must fail.
pub(crate) async fn failure(guest: Guest) -> (&'static str, String) {
    let aborted = call(guest).await.unwrap_err();
    (aborted.error.reason(), aborted.to_string())
}

/// Returns the reason and the message of a load that must fail.
pub(crate) async fn refusal(bytes: Vec<u8>) -> (&'static str, String) {
    let error = load(bytes).await.unwrap_err();
    (error.reason().as_str(), error.to_string())
}

/// A temporary directory.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns the names of the contract's interfaces that a component exports, sorted.
pub(crate) fn exports(component: &Path) -> Vec<String> {
    let bytes = std::fs::read(component).unwrap();
    let outside = contract::inspect(&bytes, &Limits::default()).unwrap();
    let mut names: Vec<String> =
        outside.exports.iter().filter_map(|name| name.strip_prefix("hotshoe:reconciler/")).map(str::to_owned).collect();
    names.sort();
    names
}

/// Returns the only file with this extension in a directory.
pub(crate) fn only(directory: &Path, ending: &str) -> PathBuf {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found = files.filter(|path| path.to_string_lossy().ends_with(ending));
    let path = found.next().unwrap();
    assert!(found.next().is_none());
    path
}
