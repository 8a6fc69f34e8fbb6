//! What the controllers of Kubernetes report of an object once all has gone well: Pods run, volumes are bound, Jobs are
//! complete. What goes wrong in a cluster belongs into the observation of a case.

use serde_json::{Value, json};

use super::kinds::{completions, replicas};
use super::reported::{TIME, condition, condition_with};
use super::workload::Count;
use crate::model::kind::ObjectRef;

/// Sets the status of an object of a kind that has a controller in Kubernetes. A workload has these Pods. Returns whether
/// that changed anything.
pub(super) fn run(reference: &ObjectRef, object: &mut Value, pods: &Count) -> bool {
    let kind = &reference.kind;
    let status = match (&*kind.group, &*kind.kind) {
        ("apps", "Deployment") => deployment(object, pods),
        ("apps", "ReplicaSet") => replica_set(object),
        ("apps", "StatefulSet") => stateful_set(object, pods),
        ("apps", "DaemonSet") => daemon_set(object, pods),
        ("batch", "Job") => job(object),
        ("policy", "PodDisruptionBudget") => budget(object),
        ("", "PersistentVolumeClaim") => json!({ "phase": "Bound" }),
        ("", "Namespace") => json!({ "phase": "Active" }),
        ("", "Pod") => json!({ "phase": "Running", "conditions": [condition("Ready", "PodReady")] }),
        ("", "Service") => return give_address(object),
        _ => return false,
    };
    let has_changed = object.get("status") != Some(&status);
    if let Some(members) = object.as_object_mut() {
        members.insert("status".to_owned(), status);
    }
    has_changed
}

fn deployment(object: &Value, pods: &Count) -> Value {
    let replicas = pods.all;
    let progressing = match object.pointer("/spec/paused") == Some(&json!(true)) {
        true => condition_with("Progressing", "Unknown", "DeploymentPaused"),
        false => condition("Progressing", "NewReplicaSetAvailable"),
    };
    let conditions = [condition("Available", "MinimumReplicasAvailable"), progressing];
    json!({
        "observedGeneration": generation(object), "replicas": replicas, "updatedReplicas": pods.updated,
        "readyReplicas": replicas, "availableReplicas": replicas, "conditions": conditions,
    })
}

fn replica_set(object: &Value) -> Value {
    let replicas = replicas(object);
    json!({
        "observedGeneration": generation(object), "replicas": replicas, "fullyLabeledReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
    })
}

fn stateful_set(object: &Value, pods: &Count) -> Value {
    let replicas = pods.all;
    json!({
        "observedGeneration": generation(object), "replicas": replicas, "currentReplicas": pods.current_ones,
        "updatedReplicas": pods.updated, "readyReplicas": replicas, "availableReplicas": replicas,
        "currentRevision": &*pods.current, "updateRevision": &*pods.newest,
    })
}

/// Reports a cluster of one node.
fn daemon_set(object: &Value, pods: &Count) -> Value {
    json!({
        "observedGeneration": generation(object), "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
        "updatedNumberScheduled": pods.updated, "numberReady": 1, "numberAvailable": 1, "numberMisscheduled": 0,
    })
}

fn job(object: &Value) -> Value {
    if object.pointer("/spec/suspend") == Some(&json!(true)) {
        return json!({ "conditions": [condition("Suspended", "JobSuspended")] });
    }
    json!({
        "startTime": TIME, "completionTime": TIME, "succeeded": completions(object), "ready": 0, "terminating": 0,
        "conditions": [condition("SuccessCriteriaMet", "CompletionsReached"), condition("Complete", "CompletionsReached")],
    })
}

fn budget(object: &Value) -> Value {
    let conditions = [condition("DisruptionAllowed", "SufficientPods")];
    json!({
        "observedGeneration": generation(object), "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1,
        "disruptionsAllowed": 1, "conditions": conditions,
    })
}

/// Gives a Service an address, unless it has one, or none on purpose.
fn give_address(object: &mut Value) -> bool {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return false };
    let is_elsewhere = spec.get("type").and_then(Value::as_str) == Some("ExternalName");
    if is_elsewhere || spec.contains_key("clusterIP") {
        return false;
    }
    spec.insert("clusterIP".to_owned(), json!("10.96.0.10"));
    true
}

fn generation(object: &Value) -> Value {
    object.pointer("/metadata/generation").cloned().unwrap_or_else(|| json!(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::workload::Workload;

    fn after(api_version: &str, kind: &str, spec: Value) -> Value {
        let metadata = json!({ "name": "a", "generation": 3 });
        let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec });
        object["spec"]["template"] = json!({});
        let reference = ObjectRef::of(&object).unwrap();
        let mut workload = Workload::default();
        workload.run(&reference, &object, &mut 0);
        let pods = workload.count(&reference, &object);
        run(&reference, &mut object, &pods);
        object
    }

    #[test]
    fn a_workload_is_as_large_as_it_is_meant_to_be() {
        for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
            let status = &after("apps/v1", kind, json!({ "replicas": 2 }))["status"];
            assert_eq!((&status["readyReplicas"], &status["observedGeneration"]), (&json!(2), &json!(3)), "{kind}");
        }
        assert_eq!(after("apps/v1", "Deployment", json!({}))["status"]["availableReplicas"], 1);
        let paused = after("apps/v1", "Deployment", json!({ "paused": true }));
        assert_eq!(paused["status"]["availableReplicas"], 0, "it has not begun to roll out");
        assert_eq!(after("apps/v1", "DaemonSet", json!({}))["status"]["numberReady"], 1);
    }

    #[test]
    fn a_job_is_complete_unless_it_is_suspended() {
        let condition = |spec: Value| {
            let conditions = after("batch/v1", "Job", spec)["status"]["conditions"].clone();
            conditions.as_array().and_then(|all| all.last()?["type"].as_str().map(str::to_owned))
        };
        assert_eq!(condition(json!({ "completions": 3 })).as_deref(), Some("Complete"));
        assert_eq!(condition(json!({ "suspend": true })).as_deref(), Some("Suspended"));
    }

    #[test]
    fn a_service_gets_an_address_and_keeps_the_one_that_it_has() {
        assert!(after("v1", "Service", json!({}))["spec"]["clusterIP"].is_string());
        assert_eq!(after("v1", "Service", json!({ "clusterIP": "None" }))["spec"]["clusterIP"], "None");
        assert!(after("v1", "Service", json!({ "type": "ExternalName" }))["spec"]["clusterIP"].is_null());
    }

    #[test]
    fn an_object_of_another_kind_is_left_alone() {
        assert!(after("example.com/v1", "Deployment", json!({})).get("status").is_none());
        assert!(after("v1", "ConfigMap", json!({})).get("status").is_none());
    }
}
