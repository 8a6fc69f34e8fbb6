//! What is denied unless granted by name: the denial names the lines, and with these lines it is written.

use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::DEPLOYMENT;
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use serde_json::json;

use super::ADMIN;
use super::rig::{Rig, with_spec};

const RULE: &str = "      kind: Deployment\n";

#[test]
fn devices_labels_and_shared_processes_are_written_with_the_lines_that_their_denial_names() {
    run(async {
        let rig = Rig::with("opened", ADMIN, Folder::of_hostile()).await;
        let labels = json!({ "app": "web", "sidecar.istio.io/inject": "true", "fixtures.example.com/team": "a" });
        let container = json!({
            "name": "main", "image": "registry.example.com/main:1",
            "securityContext": { "allowPrivilegeEscalation": false },
            "resources": { "requests": { "cpu": "1m" }, "limits": { "devices.kubevirt.io/kvm": "1" } },
        });
        let pod =
            json!({ "automountServiceAccountToken": false, "shareProcessNamespace": true, "containers": [container] });
        let template = json!({ "metadata": { "labels": labels }, "spec": pod });
        let body = json!({ "spec": {
            "replicas": 0, "selector": { "matchLabels": { "app": "web" } }, "template": template,
        } });
        let child = json!({
            "group": DEPLOYMENT.group, "version": DEPLOYMENT.version, "kind": DEPLOYMENT.kind, "name": "web",
            "body": body.to_string(),
        });
        rig.scene.create(with_spec("web", json!({ "attack": "dictated", "children": [child] }))).await;
        let parent =
            rig.scene.until_condition_of(&hotshoe_tests::kinds::ATTACK, "web", "Reconciled", "False", "Denied").await;
        let message = condition_parts(&parent, "Reconciled").2;
        for words in [
            "template.spec.containers[0].resources.limits.devices.kubevirt.io/kvm is not granted",
            "pods: {resources: [devices.kubevirt.io/kvm]}",
            "pods: {shareProcessNamespace: true}",
            "labels: [sidecar.istio.io/inject]",
        ] {
            assert!(message.contains(words), "{words}: {message}");
        }
        assert!(!message.contains("fixtures.example.com/team"), "the plugin's own group: {message}");
        assert!(rig.scene.find(&DEPLOYMENT, "web").await.is_none());
        let opened = "      labels: [sidecar.istio.io/inject]\n      pods: {resources: [devices.kubevirt.io/kvm], shareProcessNamespace: true}\n";
        rig.folder.edit(RULE, &format!("{RULE}{opened}"));
        rig.scene
            .until_object(&DEPLOYMENT, "web", "is there", |live| {
                live["spec"]["template"]["spec"]["shareProcessNamespace"] == true
            })
            .await;
    });
}
