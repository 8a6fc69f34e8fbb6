//! The model in which `hotshoe test` carries decisions out is held to the real API server: both get the same applies.

mod defaults;
mod numbers;
mod owners;
mod pods;

use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::simulation::Cluster;
use hotshoe_tests::control_plane::ControlPlane;
use hotshoe_tests::kinds::DEPLOYMENT;
use hotshoe_tests::simulated::desired;
use hotshoe_tests::{Scene, run};
use numbers::Numbers;
use serde_json::{Map, Value, json};

const SCRIPTS: u64 = 12;
const APPLIES: usize = 6;

impl Numbers {
    fn container(&mut self, name: &str) -> Value {
        let env: Vec<_> = self
            .texts(&["A", "B", "C"])
            .into_iter()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        let ports: Vec<_> = self
            .some(&["TCP", "UDP"])
            .into_iter()
            .map(|protocol| json!({ "containerPort": 53, "protocol": protocol }))
            .collect();
        let mut container = json!({ "name": name, "image": format!("i:{}", self.next() % 3) });
        for (member, list) in [("env", env), ("ports", ports)] {
            // An empty list is another thing than none.
            if !list.is_empty() {
                container[member] = list.into();
            }
        }
        if self.chance() {
            container["args"] = self.some(&["-a", "-b", "-c"]).into();
        }
        container
    }

    fn deployment(&mut self, containers: &[&str], names: &[&str]) -> Value {
        let mut labels = self.texts(names);
        let (annotations, mut of_pods) = (self.texts(names), self.texts(names));
        for labels in [&mut labels, &mut of_pods] {
            labels.insert("app".to_owned(), json!("model"));
        }
        let containers: Vec<_> = containers.iter().map(|name| self.container(name)).collect();
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "model", "labels": labels, "annotations": annotations },
            "spec": {
                "replicas": 0, "selector": { "matchLabels": { "app": "model" } },
                "template": { "metadata": { "labels": of_pods }, "spec": { "containers": containers } },
            },
        })
    }
}

/// Returns what is compared: all that a script may set, without what the API server fills in.
fn compared(object: &Value) -> Value {
    let texts = |pointer: &str| {
        let texts = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
        let texts = texts.filter(|(key, _)| !key.starts_with("deployment.kubernetes.io/"));
        texts.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>()
    };
    let sorted = |list: &Value| {
        let mut list = list.as_array().cloned().unwrap_or_default();
        list.sort_by_key(Value::to_string);
        list
    };
    let mut containers = sorted(&object["spec"]["template"]["spec"]["containers"]);
    for container in &mut containers {
        *container = json!({
            "name": container["name"], "image": container["image"],
            "args": container["args"].as_array().cloned().unwrap_or_default(),
            "env": sorted(&container["env"]), "ports": sorted(&container["ports"]),
        });
    }
    containers.sort_by_key(|container| container["name"].to_string());
    json!({
        "labels": texts("/metadata/labels"), "annotations": texts("/metadata/annotations"),
        "of Pods": texts("/spec/template/metadata/labels"), "containers": containers,
    })
}

async fn both_get_the_same(scene: &Scene, seed: u64) {
    let mut numbers = Numbers(seed);
    // What others have set, by names of their own.
    let theirs = numbers.deployment(&["theirs"], &["theirs-1", "theirs-2"]);
    let created = scene.create(theirs.clone()).await;
    let mut model = Cluster::with(&[created], [], &[]).expect("an object");
    for number in 0..APPLIES {
        let mut body = numbers.deployment(&["a", "b"], &["x", "y", "z"]);
        if numbers.chance() {
            let containers = body["spec"]["template"]["spec"]["containers"].as_array_mut().expect("a list");
            containers.pop();
        }
        let real = scene.apply("model", body.clone()).await;
        let reference = ObjectRef::of(&real).expect("an object");
        model.carry_out(&[desired(reference, body)]);
        assert_eq!(compared(&model.children()[0]), compared(&real), "seed {seed}, apply {number}");
    }
    scene.delete(&DEPLOYMENT, "model").await;
    scene.gone(&DEPLOYMENT, "model").await;
}

#[test]
fn an_apply_makes_of_an_object_what_the_api_server_makes_of_it() {
    run(async {
        let scene = Scene::new(ControlPlane::shared().await, "simulated").await;
        for seed in 0..SCRIPTS {
            both_get_the_same(&scene, seed).await;
        }
    });
}
