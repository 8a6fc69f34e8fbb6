//! One decision on a Memcached with its Deployment, its Service and three Pods: in a fresh
//! instance of the component, as in production, and natively.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hotshoe::decision::{self, Call, Descriptor, Document};
use hotshoe::plugin::candidate::Candidate;
use hotshoe::plugin::compile::Compiler;
use hotshoe::plugin::engine::Engine;
use hotshoe::plugin::limits::Limits;
use hotshoe::plugin::revision::Revision;
use hotshoe::projection::Projection;
use serde::Serialize;
use serde_json::Value;

use super::live::percentile;
use crate::repository;

const CASE: &str = "plugins/memcached/cases/available.yaml";
const COMPONENT: &str = "target/plugins/memcached.wasm";
const WARM_UP: usize = 500;
const CALLS: usize = 4000;

/// Microseconds.
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
    let (engine, compiler) = (Engine::new()?, Compiler::new(host.to_owned(), Some(&cache)));
    let component = Candidate::of(fs::read(repository(COMPONENT)).context(COMPONENT)?);
    let revision = Arc::new(Revision::load(&engine, &compiler, component, Limits::default()).await?);
    let observation = Arc::new(observation(revision.descriptor())?);
    let wasm = sandboxed(&revision, &observation).await?;
    let native = native(&observation)?;
    let micro = |times: &[Duration], percent| percentile(times, percent) * 1e6;
    Ok(Times {
        wasm_p50: micro(&wasm, 50),
        wasm_p99: micro(&wasm, 99),
        native_p50: micro(&native, 50),
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
    let case: Value = serde_saphyr::from_str(&fs::read_to_string(repository(CASE)).context(CASE)?)?;
    let part = |pointer: &str| case.pointer(pointer).with_context(|| format!("{CASE} lacks {pointer}"));
    let list = |pointer: &str| part(pointer)?.as_array().with_context(|| format!("{CASE}: {pointer}"));
    let mut parent_fields = vec!["spec".to_owned()];
    parent_fields.extend(descriptor.parent_fields.iter().cloned());
    let children = list("/children")?.iter().map(|child| {
        let kind = kind(child);
        let fields = descriptor.owns.iter().find(|owned| owned.kind == kind).map(|owned| owned.fields.as_slice());
        document(child, fields.unwrap_or_default())
    });
    let read = descriptor.reads.first().context("the plugin reads no Pods")?;
    let pods = list("/related/pods")?.iter().map(|pod| document(pod, &read.fields));
    Ok(decision::Observation {
        parent: document(part("/parent")?, &parent_fields)?,
        children: children.collect::<Result<_>>()?,
        related: vec![decision::Related { key: read.key.clone(), objects: pods.collect::<Result<_>>()? }],
        refusals: Vec::new(),
        config: part("/config")?.to_string().into(),
        now: None,
        attempt: None,
    })
}

fn kind(object: &Value) -> decision::Kind {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    decision::Kind::new(group, version, text("kind"))
}

fn document(object: &Value, fields: &[String]) -> Result<Document> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let reference = decision::ObjectRef {
        kind: kind(object),
        namespace: text("/metadata/namespace").map(Into::into),
        name: text("/metadata/name").context("an object without a name")?.into(),
    };
    Ok(Document { reference, json: Projection::new(fields).project(&object.to_string())?.into() })
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
