//! The Pods of workloads are in the model those that the controllers of Kubernetes make, once all has settled.

use std::collections::BTreeSet;

use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::simulation::Cluster;
use hotshoe_tests::control_plane::ControlPlane;
use hotshoe_tests::kinds::{DAEMON_SET, DEPLOYMENT, JOB, Kind, POD, STATEFUL_SET};
use hotshoe_tests::{Scene, run};
use serde_json::{Map, Value, json};

use super::desired;
use super::numbers::Numbers;

const SCRIPTS: u64 = 3;
const APPLIES: usize = 5;
/// Labels whose values depend on a hash or a uid.
const RANDOM: [&str; 4] =
    ["pod-template-hash", "controller-revision-hash", "controller-uid", "batch.kubernetes.io/controller-uid"];
/// What is compared of a status.
const NUMBERS: [&str; 6] =
    ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas", "succeeded"];

fn workload(kind: &Kind, name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if kind.kind != "Job" {
        spec["selector"] = json!({ "matchLabels": { "of": name } });
    }
    json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name }, "spec": spec })
}

impl Numbers {
    fn template(&mut self, name: &str) -> Value {
        let mut labels = self.texts(&["x", "y"]);
        labels.insert("of".to_owned(), json!(name));
        let annotations: Map<_, _> = self.texts(&["note"]);
        // Namespaces here have the Pod Security Standard `restricted`.
        let restricted = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
        let image = format!("i:{}", self.next() % 2);
        json!({
            "metadata": { "labels": labels, "annotations": annotations },
            "spec": {
                "containers": [{ "name": "c", "image": image, "securityContext": restricted }],
                "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                "terminationGracePeriodSeconds": 0,
            },
        })
    }

    fn deployment_of_pods(&mut self) -> Value {
        let mut spec = json!({ "replicas": self.next() % 4, "template": self.template("deployment") });
        if self.next().is_multiple_of(4) {
            spec["paused"] = true.into();
        }
        workload(&DEPLOYMENT, "deployment", spec)
    }

    fn stateful_set_of_pods(&mut self) -> Value {
        let strategy = match self.next() % 4 {
            0 => json!({ "type": "OnDelete" }),
            1 => json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": self.next() % 3 } }),
            _ => json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } }),
        };
        let spec = json!({
            "replicas": self.next() % 4, "template": self.template("set"), "updateStrategy": strategy,
            "podManagementPolicy": "Parallel", "serviceName": "none",
        });
        workload(&STATEFUL_SET, "set", spec)
    }
}

/// Returns what is compared of the Pods of a workload: all that the controllers decide.
fn compared(pods: &[Value], name: &str) -> BTreeSet<String> {
    let label_of = |pod: &Value| pod["metadata"]["labels"]["of"] == name;
    let pods = pods.iter().filter(|pod| label_of(pod) && pod["metadata"]["deletionTimestamp"].is_null());
    pods.enumerate()
        .map(|(number, pod)| {
            let mut labels = pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            // Those of the node.
            labels.retain(|key, _| !key.starts_with("topology.kubernetes.io/"));
            for key in RANDOM {
                labels.entry(key).and_modify(|value| *value = "random".into());
            }
            let mut owner = pod["metadata"]["ownerReferences"][0].clone();
            let owned_by = owner["name"].as_str().unwrap_or_default().split('-').next().unwrap_or_default().to_owned();
            owner["name"] = owned_by.into();
            owner["uid"] = owner["uid"].is_string().into();
            let is_named = owner["kind"] == "StatefulSet";
            let ready = pod["status"]["conditions"].as_array().into_iter().flatten();
            let ready: Vec<_> = ready.filter(|one| one["type"] == "Ready").map(|one| &one["status"]).collect();
            // The simulated kubelet leaves the Pods of a Job ready.
            let ready = if owner["kind"] == "Job" { Vec::new() } else { ready };
            // Those of a DaemonSet are as many as there are nodes.
            let number = if owner["kind"] == "DaemonSet" { 0 } else { number };
            json!({
                "name": if is_named { pod["metadata"]["name"].clone() } else { number.into() },
                "labels": labels, "annotations": pod["metadata"]["annotations"], "owner": owner,
                "image": pod["spec"]["containers"][0]["image"], "phase": pod["status"]["phase"], "ready": ready,
            })
            .to_string()
        })
        .collect()
}

/// Returns the numbers in the status of a workload, and whether all Pods have one template.
fn reported(object: &Value) -> Value {
    let status = &object["status"];
    let numbers: Map<_, _> =
        NUMBERS.iter().map(|name| ((*name).to_owned(), status[*name].as_u64().unwrap_or(0).into())).collect();
    json!({ "numbers": numbers, "is one": status["currentRevision"] == status["updateRevision"] })
}

/// Applies a workload on both, and waits until the real controllers have come to where the model is.
async fn both_have_the_same_pods(scene: &Scene, model: &mut Cluster, kind: &Kind, body: Value, script: &str) {
    let real = scene.apply("model", body.clone()).await;
    model.carry_out(&[desired(ObjectRef::of(&real).expect("an object"), body)]);
    model.run_controllers();
    let name = real["metadata"]["name"].as_str().expect("a name").to_owned();
    let expected = (compared(&model.made_pods(), &name), reported(&model.children()[0]));
    scene
        .until(&format!("{script}: the Pods are those of the model"), async || {
            let object = scene.get(kind, &name).await;
            let mut pods = scene.list(&POD).await;
            pods.sort_by_key(|pod| pod["metadata"]["name"].to_string());
            let found = (compared(&pods, &name), reported(&object));
            let is_observed =
                kind.kind == "Job" || object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let is_it = is_observed && found == expected;
            if is_it { Ok(()) } else { Err(format!("{found:#?}\nin the model: {expected:#?}")) }
        })
        .await;
}

async fn script(scene: &Scene, kind: &Kind, seed: u64, mut next: impl FnMut(&mut Numbers) -> Value) {
    let (mut numbers, mut model) = (Numbers(seed), Cluster::default());
    for number in 0..APPLIES {
        let body = next(&mut numbers);
        both_have_the_same_pods(scene, &mut model, kind, body, &format!("{} {seed}, apply {number}", kind.kind)).await;
    }
}

#[test]
fn the_pods_of_workloads_are_those_that_the_controllers_make() {
    run(async {
        let plane = ControlPlane::shared().await;
        let scripts = (0..SCRIPTS).map(|seed| async move {
            let scene = Scene::new(plane, "simulated-pods").await;
            let deployment = script(&scene, &DEPLOYMENT, seed, Numbers::deployment_of_pods);
            let set = script(&scene, &STATEFUL_SET, seed, Numbers::stateful_set_of_pods);
            futures::future::join(deployment, set).await;
            // They go with their workload.
            scene.delete(&DEPLOYMENT, "deployment").await;
            scene.delete(&STATEFUL_SET, "set").await;
            scene
                .until("no Pod is left", async || {
                    let left = scene.list(&POD).await.len();
                    if left == 0 { Ok(()) } else { Err(format!("{left} Pods")) }
                })
                .await;
        });
        futures::future::join_all(scripts).await;
    });
}

#[test]
fn the_pods_of_a_job_and_of_a_daemon_set_are_those_that_the_controllers_make() {
    run(async {
        let scene = Scene::new(ControlPlane::shared().await, "simulated-pods").await;
        let mut numbers = Numbers(1);
        for (place, mode) in ["NonIndexed", "Indexed"].into_iter().enumerate() {
            let name = format!("job{place}");
            let mut template = numbers.template(&name);
            template["spec"]["restartPolicy"] = "Never".into();
            let spec = json!({ "completions": 2, "parallelism": 2, "completionMode": mode, "template": template });
            let body = workload(&JOB, &name, spec);
            both_have_the_same_pods(&scene, &mut Cluster::default(), &JOB, body, mode).await;
        }
        let mut model = Cluster::default();
        for number in 0..2 {
            let body = workload(&DAEMON_SET, "daemons", json!({ "template": numbers.template("daemons") }));
            let script = format!("DaemonSet, apply {number}");
            both_have_the_same_pods(&scene, &mut model, &DAEMON_SET, body, &script).await;
        }
    });
}
