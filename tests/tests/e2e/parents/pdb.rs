//! The plugin `pdb`: parents are Deployments that ask for it by a label.

use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{BUDGET, DEPLOYMENT};
use hotshoe_tests::only_host::OnlyHost;
use hotshoe_tests::{ControlPlane, Scene, run};
use serde_json::{Value, json};

use hotshoe_tests::scene::labels;

const ENABLED: &str = "pdb.example.com/enabled";

fn deployment(name: &str, replicas: i32, asks: bool) -> Value {
    let selector = json!({ "app": name });
    let container = json!({ "name": "web", "image": "nginx:1.27" });
    let template = json!({ "metadata": { "labels": selector }, "spec": { "containers": [container] } });
    let labels = if asks { json!({ ENABLED: "true" }) } else { json!({}) };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "labels": labels },
        "spec": { "replicas": replicas, "selector": { "matchLabels": selector }, "template": template },
    })
}

#[test]
fn a_deployment_that_asks_for_a_budget_gets_one_and_the_others_are_left_alone() {
    run(async {
        let plane = ControlPlane::shared().await;
        let mut scene = Scene::new(plane, "pdb").await;
        let only = OnlyHost::start(plane, Folder::of_plugin("pdb"), "pdb-host").await;
        scene.watch_log(&only.host);
        scene.create(deployment("other", 3, false)).await;
        scene.create(deployment("web", 3, true)).await;
        let budget = scene.until_object(&BUDGET, "web", "is there", |_| true).await;
        assert_eq!(budget["spec"]["maxUnavailable"], 1);
        assert_eq!(budget["spec"]["selector"]["matchLabels"]["app"], "web");
        assert_eq!(budget["metadata"]["ownerReferences"][0]["kind"], "Deployment");
        let parent = scene.get(&DEPLOYMENT, "web").await;
        assert!(parent["metadata"].get("finalizers").is_none(), "{parent:#}");

        scene
            .merge(
                &DEPLOYMENT,
                "web",
                json!({ "metadata": { "annotations": { "pdb.example.com/max-unavailable": "50%" } } }),
            )
            .await;
        scene.until_object(&BUDGET, "web", "has the share", |budget| budget["spec"]["maxUnavailable"] == "50%").await;
        scene.merge(&BUDGET, "web", json!({ "spec": { "maxUnavailable": 3 } })).await;
        scene.until_object(&BUDGET, "web", "is repaired", |budget| budget["spec"]["maxUnavailable"] == "50%").await;

        scene.merge(&DEPLOYMENT, "web", json!({ "spec": { "replicas": 1 } })).await;
        scene.gone(&BUDGET, "web").await;
        scene.merge(&DEPLOYMENT, "web", json!({ "spec": { "replicas": 2 } })).await;
        scene.until_object(&BUDGET, "web", "is back", |_| true).await;

        // An error is reported by an Event and not in the status, which belongs to the Deployment's own controller.
        scene
            .merge(
                &DEPLOYMENT,
                "web",
                json!({ "metadata": { "annotations": { "pdb.example.com/max-unavailable": "most" } } }),
            )
            .await;
        scene.event("web", "Rejected", "neither a number").await;
        let parent = scene.get(&DEPLOYMENT, "web").await;
        let conditions = parent["status"]["conditions"].to_string();
        assert!(!conditions.contains("Reconciled"), "{conditions}");

        scene.merge(&DEPLOYMENT, "web", labels(&json!({ ENABLED: null }))).await;
        scene.gone(&BUDGET, "web").await;
        assert!(scene.list(&BUDGET).await.is_empty());
        let of_plugin = scene.audit().into_iter().filter(|entry| entry.is_write() && entry.name == "other");
        assert!(
            of_plugin.filter(|entry| entry.by.contains("hotshoe-system")).count() == 0,
            "the other Deployment was not written"
        );
    });
}
