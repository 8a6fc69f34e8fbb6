//! Two field managers that write the same object: what becomes of it in the model is what the API server makes of it.

use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::simulation::Cluster;
use hotshoe_tests::control_plane::ControlPlane;
use hotshoe_tests::kinds::DEPLOYMENT;
use hotshoe_tests::{Scene, run};
use serde_json::{Value, json};

use super::numbers::Numbers;
use super::{compared, desired};

const SCRIPTS: u64 = 12;
const ROUNDS: usize = 4;
const PLUGIN: &str = "model";
const MANAGER: &str = "hotshoe/model";
const LABELS: [&str; 3] = ["x", "y", "z"];

impl Numbers {
    /// Returns a Deployment with one of two containers, or both. Their images are always the same: one that a manager has lost
    /// to another would leave a container without an image behind.
    fn shared(&mut self) -> Value {
        let containers: &[&str] = match self.next() % 3 {
            0 => &["a"],
            1 => &["b"],
            _ => &["a", "b"],
        };
        let mut deployment = self.deployment(containers, &LABELS);
        for container in deployment["spec"]["template"]["spec"]["containers"].as_array_mut().expect("a list") {
            container["image"] = "i".into();
        }
        deployment
    }

    /// Has another field manager write, by an apply or by an update.
    async fn write_as_another(&mut self, scene: &Scene) -> Value {
        let value = json!(format!("{}", self.next() % 3));
        match self.next() % 5 {
            0 | 1 => scene.apply("another", self.shared()).await,
            2 => scene.apply("third", self.shared()).await,
            3 => {
                let (label, of_pods) = (LABELS[(self.next() % 3) as usize], LABELS[(self.next() % 3) as usize]);
                let template = json!({ "metadata": { "labels": { of_pods: value } } });
                let gone = if self.chance() { Value::Null } else { json!("0") };
                let patch = json!({ "metadata": { "labels": { label: gone } }, "spec": { "template": template } });
                scene.merge(&DEPLOYMENT, "model", patch).await
            }
            _ => {
                let args = json!(self.some(&["-a", "-b"]));
                let patch = json!([{ "op": "add", "path": "/spec/template/spec/containers/0/args", "value": args }]);
                scene.json_patch(&DEPLOYMENT, "model", patch).await
            }
        }
    }
}

async fn both_share_ownership_in_the_same_way(scene: &Scene, seed: u64) {
    let mut numbers = Numbers(1_000 + seed);
    scene.create(numbers.shared()).await;
    for round in 0..ROUNDS {
        let mut real = numbers.write_as_another(scene).await;
        if numbers.chance() {
            real = numbers.write_as_another(scene).await;
        }
        // What the plugin applied before is known from the object alone.
        let mut model = Cluster::with(&[real], [], &[PLUGIN]).expect("an object");
        for apply in 0..2 {
            let body = numbers.shared();
            let real = scene.apply(MANAGER, body.clone()).await;
            model.carry_out(&[desired(ObjectRef::of(&real).expect("an object"), body)]);
            let place = format!("seed {seed}, round {round}, apply {apply}: {:#}", real["metadata"]["managedFields"]);
            assert_eq!(compared(&model.children()[0]), compared(&real), "{place}");
        }
    }
    scene.delete(&DEPLOYMENT, "model").await;
    scene.gone(&DEPLOYMENT, "model").await;
}

#[test]
fn fields_that_several_managers_own_stay_and_go_as_the_api_server_has_it() {
    run(async {
        let plane = ControlPlane::shared().await;
        let scripts = (0..SCRIPTS).map(|seed| async move {
            let scene = Scene::new(plane, "simulated-owners").await;
            both_share_ownership_in_the_same_way(&scene, seed).await;
        });
        futures::future::join_all(scripts).await;
    });
}
