//! Makes a Pod for each index of an `IndexedJob`, a few at a time, until all have succeeded. A Pod that failed stays, to
//! be looked at; deleted, it is made again.

pub mod api;
#[cfg(feature = "crd")]
pub mod crd;

use std::collections::BTreeMap;

use hotshoe_sdk::apply::core_v1::Pod;
use hotshoe_sdk::{
    Answer, Condition, Decision, Descriptor, Failure, Object, Reconciler, Request, ResourceKind, Verb, harmless,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{IndexedJob, IndexedJobSpec, IndexedJobStatus};

/// The plugin.
pub struct IndexedJobs;

/// The fields of a Pod that the plugin reads.
#[derive(Deserialize)]
struct Observed {
    metadata: Named,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: String,
}

impl Reconciler for IndexedJobs {
    type Parent = IndexedJob;
    type Config = ();

    fn describe() -> Descriptor {
        let parent = ResourceKind::new(api::GROUP, api::VERSION, api::KIND);
        Descriptor::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), parent)
            .parent_fields(&["status"])
            .owns::<Pod>(&[Verb::Create, Verb::Delete], &["status.phase"])
    }

    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
        let IndexedJob { spec, status } = &request.parent;
        // The Pods of a job that is complete are collected some day, and must not be made again.
        if status.is_complete() {
            return decided(Decision::keep(), spec, &status.counted);
        }
        let observed = request.children_as::<Pod, Observed>()?.into_iter();
        let phases: BTreeMap<_, _> = observed.map(|pod| (pod.metadata.name, pod.status.phase)).collect();
        let (mut counted, mut children, mut missing) = (IndexedJobStatus::default(), Vec::new(), Vec::new());
        for index in 0..spec.completions {
            let name = format!("{}-{index}", request.name());
            let Some(phase) = phases.get(&name) else {
                missing.push((index, name));
                continue;
            };
            children.push(Object::kept::<Pod>(&name));
            match phase.as_str() {
                "Succeeded" => counted.succeeded += 1,
                "Failed" => counted.failed += 1,
                _ => counted.active += 1,
            }
        }
        let free = spec.parallelism.saturating_sub(counted.active);
        for (index, name) in missing.into_iter().take(free) {
            children.push(pod(&name, index, &spec.template)?);
        }
        decided(Decision::exactly(children), spec, &counted)
    }
}

fn decided(decision: Decision, spec: &IndexedJobSpec, counted: &IndexedJobStatus) -> Result<Answer, Failure> {
    let IndexedJobStatus { succeeded, failed, .. } = counted;
    let is_complete = *succeeded >= spec.completions;
    let reason = if is_complete { "AllSucceeded" } else { "NotAllSucceeded" };
    let message = format!("{succeeded} of {} succeeded, {failed} failed", spec.completions);
    let complete = Condition::new("Complete", is_complete.into(), reason, message);
    Ok(Answer::Decided(decision.status(counted)?.conditions([complete])))
}

/// Returns the Pod of an index, made of the user's template.
fn pod(name: &str, index: usize, template: &Value) -> Result<Object, Failure> {
    let (mut pod, removed) = harmless(template);
    if !removed.is_empty() {
        return Err(Failure::reject_field("spec.template", format!("remove {}", removed.join(", "))));
    }
    for container in pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut).into_iter().flatten() {
        let mut variables = container.get("env").and_then(Value::as_array).cloned().unwrap_or_default();
        variables.push(json!({ "name": "JOB_INDEX", "value": index.to_string() }));
        if let Value::Object(container) = container {
            container.insert("env".to_owned(), variables.into());
        }
    }
    Object::desired::<Pod>(name, &pod)
}

hotshoe_sdk::export!(IndexedJobs);
