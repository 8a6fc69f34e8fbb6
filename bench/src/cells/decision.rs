//! One decision on a Memcached with its Deployment, its Service and three Pods: in a fresh
//! instance of the component, as in production, and natively.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::decision;
use hotshoe_core::model::decision::{Call, Descriptor, Document};
use hotshoe_core::model::limits::{CACHE_BYTES, Limits};
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::cases::Case;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::engine::Engine;
use hotshoe_sandbox::revision::Revision;
use serde::Serialize;

use crate::figure::quantile;
use crate::repository;

const CASE: &str = "plugins/memcached/cases/available.yaml";
const COMPONENT: &str = "target/plugins/memcached.wasm";
const WARM_UP: usize = 500;
const CALLS: usize = 4000;

/// The times of a call, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
    /// A call in a fresh instance, half of them.
    pub wasm_p50: f64,
    /// The same, 99 of 100.
    pub wasm_p99: f64,
    /// The same code natively, half of them.
    pub native_p50: f64,
    /// The size of what crosses to the plugin, bytes.
    pub bytes: f64,
}

/// Measures on an idle machine.
///
/// # Errors
/// When the component cannot be loaded or does not decide.
pub async fn run(host: &Path) -> Result<Times> {
    let cache = repository("target/bench/cache");
    let (engine, compiler) = (Engine::new()?, Compiler::new(host.to_owned(), Some(&cache), CACHE_BYTES));
    let component = Candidate::of(fs::read(repository(COMPONENT)).context(COMPONENT)?);
    let (limits, memory) = (Limits::default(), Account::default());
    let revision = Revision::load(&engine, &compiler, component, limits, Purpose::Trial, &memory).await?.revision;
    let observation = Arc::new(observation(revision.descriptor())?);
    let wasm = sandboxed(&revision, &observation).await?;
    let native = native(&observation)?;
    let micro = |times: &[Duration], share| quantile(times, share).as_secs_f64() * 1e6;
    Ok(Times {
        wasm_p50: micro(&wasm, 0.5),
        wasm_p99: micro(&wasm, 0.99),
        native_p50: micro(&native, 0.5),
        bytes: size(&observation),
    })
}

async fn sandboxed(revision: &Arc<Revision>, observation: &Arc<decision::Observation>) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..WARM_UP + CALLS {
        let outcome = revision.decide(Call::Reconcile, observation.clone()).await?;
        ensure!(outcome.result.is_ok(), "the plugin failed: {:?}", outcome.result);
        times.push(outcome.elapsed);
    }
    Ok(sorted(times))
}

fn native(observation: &decision::Observation) -> Result<Vec<Duration>> {
    let observation = translated(observation);
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..WARM_UP + CALLS {
        let own = observation.clone();
        let began = Instant::now();
        let answer = hotshoe_sdk::reconcile::<memcached::Memcached>(own);
        times.push(began.elapsed());
        answer?;
    }
    Ok(sorted(times))
}

fn sorted(mut times: Vec<Duration>) -> Vec<Duration> {
    times.drain(..WARM_UP);
    times.sort_unstable();
    times
}

/// The observation of the case, with the fields that the host would show.
fn observation(descriptor: &Descriptor) -> Result<decision::Observation> {
    let case = fs::read_to_string(repository(CASE)).context(CASE)?;
    Case::from_yaml(&case).and_then(|case| case.observation(descriptor)).map_err(|error| anyhow!("{CASE}: {error}"))
}

/// The same, in the SDK's words.
fn translated(observation: &decision::Observation) -> hotshoe_sdk::Observation {
    let related = observation.related.iter().map(|related| hotshoe_sdk::Related {
        key: related.key.clone(),
        objects: related.objects.iter().map(object).collect(),
    });
    hotshoe_sdk::Observation {
        parent: object(&observation.parent),
        children: observation.children.iter().map(object).collect(),
        related: related.collect(),
        config: observation.config.to_string(),
        ..hotshoe_sdk::Observation::default()
    }
}

fn object(document: &Document) -> hotshoe_sdk::Object {
    let kind = &document.reference.kind;
    hotshoe_sdk::Object {
        reference: hotshoe_sdk::ObjectRef {
            kind: hotshoe_sdk::ResourceKind::new(&kind.group, &kind.version, &kind.kind),
            namespace: document.reference.namespace.as_deref().map(str::to_owned),
            name: document.reference.name.to_string(),
        },
        json: document.json.to_string(),
    }
}

fn size(observation: &decision::Observation) -> f64 {
    let related = observation.related.iter().flat_map(|related| &related.objects);
    let documents = observation.children.iter().chain(related).chain([&observation.parent]);
    documents.map(|document| document.json.len()).sum::<usize>() as f64
}
