//! Makes a Pod for each index of an `IndexedJob`, a few at a time, until all have succeeded. A Pod that failed stays, to
//! be looked at; deleted, it is made again.

pub mod api;
#[cfg(feature = "crd")]
pub mod crd;

use hotshoe_sdk::apply::core_v1::Pod;
use hotshoe_sdk::{
    Answer, Condition, Decision, Descriptor, Failure, Object, Reconciler, Request, ResourceKind, Status, Verb,
    require_harmless,
};
use serde_json::{Value, json};

use crate::api::{IndexedJob, IndexedJobStatus};

const COMPLETE: &str = "Complete";

/// The plugin.
pub struct IndexedJobs;

impl Reconciler for IndexedJobs {
    type Parent = IndexedJob;
    type Config = ();

    fn describe() -> Descriptor {
        let parent = ResourceKind::new(api::GROUP, api::VERSION, api::KIND);
        Descriptor::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), parent)
            .parent_fields(&["status.conditions"])
            .owns::<Pod>(&[Verb::Create, Verb::Delete], &["status.phase"])
    }

    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
        // The Pods of a job that is complete are collected some day, and must not be made again.
        if let Some(complete) = request.condition(COMPLETE)?.filter(|condition| condition.status == Status::True) {
            return Ok(Decision::keep().conditions([complete]).into());
        }
        let spec = &request.parent.spec;
        let (mut counted, mut children, mut missing) = (IndexedJobStatus::default(), Vec::new(), Vec::new());
        for index in 0..spec.completions {
            let name = format!("{}-{index}", request.name());
            let Some(pod) = request.child_as::<Pod, Value>(&name)? else {
                missing.push((index, name));
                continue;
            };
            match pod.pointer("/status/phase").and_then(Value::as_str) {
                Some("Succeeded") => counted.succeeded += 1,
                Some("Failed") => counted.failed += 1,
                _ => counted.active += 1,
            }
            children.push(Object::kept::<Pod>(&name));
        }
        for (index, name) in missing.into_iter().take(spec.parallelism.saturating_sub(counted.active)) {
            children.push(Object::desired::<Pod>(&name, &pod(index, &spec.template)?)?);
        }
        let is_complete = counted.succeeded >= spec.completions;
        let reason = if is_complete { "AllSucceeded" } else { "NotAllSucceeded" };
        let IndexedJobStatus { succeeded, failed, .. } = counted;
        let message = format!("{succeeded} of {} succeeded, {failed} failed", spec.completions);
        let complete = Condition::new(COMPLETE, is_complete.into(), reason, message);
        Ok(Decision::exactly(children).status(&counted)?.conditions([complete]).into())
    }
}

/// Returns the Pod of an index, made of the user's template.
fn pod(index: usize, template: &Value) -> Result<Value, Failure> {
    let mut pod = require_harmless(template, "spec.template")?;
    for container in pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut).into_iter().flatten() {
        let mut variables = container["env"].as_array().cloned().unwrap_or_default();
        variables.push(json!({ "name": "JOB_INDEX", "value": index.to_string() }));
        container["env"] = variables.into();
    }
    Ok(pod)
}

hotshoe_sdk::export!(IndexedJobs);
