//! Components made from a few lines of text, to be loaded by the real loader.

#![allow(dead_code, unreachable_pub, reason = "each test uses its own part of this")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hotshoe::decision::{Call, Document, Kind, ObjectRef, Observation};
use hotshoe::error::LoadError;
use hotshoe::plugin::call::{Aborted, Outcome};
use hotshoe::plugin::compile::Compiler;
use hotshoe::plugin::engine::Engine;
use hotshoe::plugin::limits::{Limits, Overrides};
use hotshoe::plugin::revision::Revision;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The binary under test.
pub const HOTSHOE: &str = env!("CARGO_BIN_EXE_hotshoe");

/// A plugin in text. The default answers `decided(exactly([]))` to everything.
///
/// The memory's first page holds, from 16 on, the descriptor, and from 256 on an answer that is all
/// zero: `ok(decided(exactly([])))` or `ok(waiting(exactly([])))`.
pub struct Guest {
    /// Statements of `reconcile`, which leave the address of the answer.
    pub reconcile: String,
    /// Statements of `describe`, which leave the address of the descriptor.
    pub describe: String,
    /// Statements of the allocator, which leave an address. Locals: `$old`, `$size`, `$align`, `$new`.
    pub realloc: String,
    /// Further fields of the core module.
    pub fields: String,
    /// Pages of memory at the start.
    pub pages: u32,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            reconcile: "(i32.const 256)".into(),
            describe: "(i32.const 16)".into(),
            realloc: "(global.set $top (i32.and (i32.add (global.get $top) (i32.add (local.get $new) (i32.const 15))) (i32.const -16)))
                      (i32.sub (global.get $top) (i32.and (i32.add (local.get $new) (i32.const 15)) (i32.const -16)))".into(),
            fields: String::new(),
            pages: 2,
        }
    }
}

/// A plugin whose `reconcile` is these statements.
pub fn reconcile(body: &str) -> Guest {
    Guest { reconcile: body.into(), ..Guest::default() }
}

/// A plugin that says of itself that it owns ConfigMaps, which it wants to create and to update.
pub fn owner_of_config_maps() -> Guest {
    let fields = r#"
        ;; owns: a list of one
        (data (i32.const 64) "\00\05\00\00\01\00\00\00")
        ;; group, version, kind; verbs, fields
        (data (i32.const 0x500) "\00\00\00\00\00\00\00\00" "\20\04\00\00\02\00\00\00" "\00\06\00\00\09\00\00\00"
            "\10\06\00\00\02\00\00\00" "\00\00\00\00\00\00\00\00")
        (data (i32.const 0x600) "ConfigMap") (data (i32.const 0x610) "\00\01")"#;
    Guest { fields: fields.into(), ..Guest::default() }
}

impl Guest {
    fn module(&self) -> String {
        let Guest { reconcile, describe, realloc, fields, pages } = self;
        format!(
            r#"(module
            (import "hotshoe:reconciler/log@0.1.0" "log" (func $log (param i32 i32 i32)))
            (memory (export "memory") {pages})
            (global $top (mut i32) (i32.const 4096))
            (data (i32.const 16)
                ;; name, version, parent {{group, version, kind}}
                "\00\04\00\00\04\00\00\00" "\08\04\00\00\05\00\00\00"
                "\10\04\00\00\0b\00\00\00" "\20\04\00\00\02\00\00\00" "\28\04\00\00\04\00\00\00")
            (data (i32.const 0x400) "test") (data (i32.const 0x408) "0.1.0")
            (data (i32.const 0x410) "example.com") (data (i32.const 0x420) "v1") (data (i32.const 0x428) "Test")
            (func (export "hotshoe:reconciler/reconciler@0.1.0#describe") (result i32) {describe})
            (func (export "hotshoe:reconciler/reconciler@0.1.0#reconcile") (param $request i32) (result i32) {reconcile})
            (func (export "hotshoe:reconciler/reconciler@0.1.0#finalize") (param i32) (result i32) (i32.const 256))
            (func (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
                {realloc})
            {fields})"#
        )
    }

    /// The component's bytes.
    pub fn component(&self) -> Vec<u8> {
        ComponentEncoder::default().module(&core_module(self)).unwrap().validate(true).encode().unwrap()
    }
}

/// A guest before it is made a component: a core module that says which world it is for.
pub fn core_module(guest: &Guest) -> Vec<u8> {
    let module = guest.module();
    let mut core = wat::parse_str(&module).unwrap_or_else(|error| panic!("{error}\n{module}"));
    let mut resolve = Resolve::default();
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    let (package, _) = resolve.push_dir(wit).unwrap();
    let world = resolve.select_world(&[package], Some("plugin")).unwrap();
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).unwrap();
    core
}

/// One engine for all tests of a file, as a host has one.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new().unwrap())
}

/// A compiler that caches below the build's own directory, so that tests share what is compiled.
pub fn compiler() -> Compiler {
    Compiler::new(HOTSHOE.into(), Some(Path::new(env!("CARGO_TARGET_TMPDIR"))))
}

/// Limits with these overrides, as JSON.
pub fn limits(overrides: &str) -> Limits {
    Limits::with(&serde_json::from_str::<Overrides>(overrides).unwrap()).unwrap()
}

/// Loads with the limits of production.
pub async fn load(bytes: Vec<u8>) -> Result<Arc<Revision>, LoadError> {
    load_with(bytes, Limits::default()).await
}

/// Loads with other limits.
pub async fn load_with(bytes: Vec<u8>, limits: Limits) -> Result<Arc<Revision>, LoadError> {
    Revision::load(engine(), &compiler(), bytes, limits).await.map(Arc::new)
}

/// An observation of an object with nothing around it.
pub fn observation() -> Arc<Observation> {
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
pub async fn call(guest: Guest) -> Result<Outcome, Aborted> {
    call_with(guest, Limits::default()).await
}

/// The same with other limits.
pub async fn call_with(guest: Guest, limits: Limits) -> Result<Outcome, Aborted> {
    let revision = load_with(guest.component(), limits).await.unwrap();
    revision.decide(Call::Reconcile, observation()).await
}

/// The reason and the message of a call that came to nothing.
pub async fn failure(guest: Guest) -> (&'static str, String) {
    let aborted = call(guest).await.unwrap_err();
    (aborted.error.reason(), aborted.to_string())
}

/// The reason and the message of a load that came to nothing.
pub async fn refusal(bytes: Vec<u8>) -> (&'static str, String) {
    let error = load(bytes).await.unwrap_err();
    (error.reason(), error.to_string())
}

/// A directory that goes with the test.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The only file with this ending in a directory.
pub fn only(directory: &Path, ending: &str) -> PathBuf {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found = files.filter(|path| path.to_string_lossy().ends_with(ending));
    let path = found.next().unwrap();
    assert!(found.next().is_none());
    path
}
