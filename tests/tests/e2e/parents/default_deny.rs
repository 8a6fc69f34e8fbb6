//! The plugin `default-deny`: parents are Namespaces with a label, each the only place of its own child.

use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{EVENT, NAMESPACE, NETWORK_POLICY, SYSTEM};
use hotshoe_tests::only_host::OnlyHost;
use hotshoe_tests::{ControlPlane, Scene, run};
use serde_json::{Value, json};

use hotshoe_tests::scene::labels;

const LABEL: &str = "network.example.com/default-deny";
const POLICY: &str = "default-deny";

async fn relabel(scene: &Scene, namespace: &str, value: Value) {
    let patch = labels(&json!({ LABEL: value }));
    scene.admin.merge(&NAMESPACE, "", namespace, &patch).await.expect("a label");
}

#[test]
fn a_namespace_with_the_label_has_the_policy_and_loses_it_with_the_label() {
    run(async {
        let plane = ControlPlane::shared().await;
        let mut scene = Scene::new(plane, "default-deny").await;
        let other = Scene::new(plane, "default-deny-other").await;
        let mut only = OnlyHost::start(plane, Folder::of_plugin("default-deny"), "default-deny-host").await;
        scene.watch_log(&only.host);
        relabel(&scene, &scene.namespace, "all".into()).await;
        let policy = scene.until_object(&NETWORK_POLICY, POLICY, "is there", |_| true).await;
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        let owner = &policy["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["name"]), (&json!("Namespace"), &json!(scene.namespace)));
        assert!(other.list(&NETWORK_POLICY).await.is_empty(), "it asks for none");

        // An edit of the child requeues the parent, which is cluster-scoped.
        scene.merge(&NETWORK_POLICY, POLICY, json!({ "spec": { "policyTypes": ["Ingress"] } })).await;
        let is_whole = |policy: &Value| policy["spec"]["policyTypes"] == json!(["Ingress", "Egress"]);
        scene.until_object(&NETWORK_POLICY, POLICY, "is repaired", is_whole).await;
        scene.delete(&NETWORK_POLICY, POLICY).await;
        scene.until_object(&NETWORK_POLICY, POLICY, "is back", |_| true).await;

        relabel(&scene, &scene.namespace, "nothing".into()).await;
        let about = scene.namespace.clone();
        scene
            .until("an Event says what is wrong with the label", async || {
                let events = scene.admin.list(&EVENT, "default").await.map_err(|refused| refused.message)?;
                let is_it =
                    |event: &&Value| event["involvedObject"]["name"] == about.as_str() && event["reason"] == "Rejected";
                events.iter().find(is_it).map(|_| ()).ok_or_else(|| format!("{} Events", events.len()))
            })
            .await;
        relabel(&scene, &scene.namespace, Value::Null).await;
        scene.gone(&NETWORK_POLICY, POLICY).await;

        // A change while no host runs is noticed by the next host.
        relabel(&other, &other.namespace, "ingress".into()).await;
        other.until_object(&NETWORK_POLICY, POLICY, "is there", |_| true).await;
        only.restart_after(async || relabel(&other, &other.namespace, Value::Null).await).await;
        other.gone(&NETWORK_POLICY, POLICY).await;
    });
}

#[test]
fn the_namespace_of_the_host_is_no_parent_whatever_its_labels_are() {
    run(async {
        let plane = ControlPlane::shared().await;
        let mut scene = Scene::new(plane, "closed").await;
        let folder = Folder::of_plugin("default-deny");
        folder.edit(LABEL, "tests.example.com/closed");
        folder.edit("name: default-deny\n", "name: closed\n");
        let only = OnlyHost::start(plane, folder, "closed-host").await;
        scene.watch_log(&only.host);
        for namespace in [SYSTEM, &scene.namespace] {
            let patch = labels(&json!({ "tests.example.com/closed": "", LABEL: "ingress" }));
            plane.admin.merge(&NAMESPACE, "", namespace, &patch).await.expect("labels");
        }
        scene.until_object(&NETWORK_POLICY, POLICY, "is there", |_| true).await;
        assert_eq!(only.host.plugin().await["parents"], 1);
        let patch = labels(&json!({ "tests.example.com/closed": null, LABEL: null }));
        plane.admin.merge(&NAMESPACE, "", SYSTEM, &patch).await.expect("labels");
        assert!(plane.admin.list(&NETWORK_POLICY, SYSTEM).await.expect("a list").is_empty());
    });
}
