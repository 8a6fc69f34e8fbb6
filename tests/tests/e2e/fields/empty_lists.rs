//! Children with empty lists and objects: these stay empty, and are not written over and over. The plugin desires the
//! children in its parent's spec.

use futures::StreamExt;
use hotshoe_tests::dictated::{child, create, dictating, host, written_with_another};
use hotshoe_tests::kinds::{ATTACK, DEPLOYMENT, DOOR, FAULT, NETWORK_POLICY};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition;
use serde_json::{Value, json};

#[test]
fn an_empty_list_of_a_custom_kind_stays_empty_whatever_its_type_and_its_default() {
    run(async {
        let (scene, _folder, _host) = host("empty-custom", &DOOR).await;
        let full = json!({
            "hosts": ["a"], "plain": ["a"], "guests": ["a"], "rooms": [{ "name": "a" }], "options": { "a": "b" },
        });
        let empty = json!({ "hosts": [], "plain": [], "guests": [], "rooms": [], "options": {} });
        let desired = |spec: &Value| [child(&DOOR, "front", &json!({ "spec": spec }))];
        create(&scene, &desired(&full)).await;
        scene.until_object(&DOOR, "front", "is as desired", |door| door["spec"] == full).await;
        let mut changes = scene.watch(&DOOR).await;
        scene.merge(&ATTACK, "one", dictating(&desired(&empty))).await;
        scene.until_object(&DOOR, "front", "is empty", |door| door["spec"] == empty).await;
        // At no time is it open.
        loop {
            let (_, door) = changes.next().await.expect("the watch goes on");
            assert!(!door["spec"].to_string().contains('*'), "{door:#}");
            if door["spec"] == empty {
                break;
            }
        }
        assert_eq!(written_with_another(&scene, &desired(&empty), ["doors", "pods"]).await, [0, 0]);
        assert_eq!(scene.get(&DOOR, "front").await["spec"], empty);
        scene.merge(&DOOR, "front", json!({ "spec": { "hosts": ["*"], "plain": null } })).await;
        scene.until_object(&DOOR, "front", "is repaired", |door| door["spec"] == empty).await;
    });
}

#[test]
fn a_spec_of_only_an_empty_list_is_written_once_and_stays() {
    run(async {
        let (scene, _folder, _host) = host("empty-alone", &DOOR).await;
        let desired = |spec: Value| [child(&DOOR, "front", &json!({ "spec": spec }))];
        create(&scene, &desired(json!({ "rooms": [{ "name": "a" }] }))).await;
        scene.until_object(&DOOR, "front", "has a room", |door| door["spec"]["rooms"][0]["name"] == "a").await;
        let empty = desired(json!({ "rooms": [] }));
        scene.merge(&ATTACK, "one", dictating(&empty)).await;
        scene.until_object(&DOOR, "front", "has none", |door| door["spec"]["rooms"] == json!([])).await;
        assert_eq!(written_with_another(&scene, &empty, ["doors", "pods"]).await, [0, 0]);
        assert_eq!(scene.get(&DOOR, "front").await["spec"]["rooms"], json!([]));
    });
}

#[test]
fn a_spec_without_fields_is_written_once_and_stays() {
    run(async {
        let (scene, _folder, _host) = host("empty-spec", &FAULT).await;
        let desired = |spec: Value| [child(&FAULT, "front", &json!({ "spec": spec }))];
        create(&scene, &desired(json!({ "fault": "a" }))).await;
        scene.until_object(&FAULT, "front", "has a field", |fault| fault["spec"]["fault"] == "a").await;
        // Fields with null are dropped.
        let empty = desired(json!({ "fault": null }));
        scene.merge(&ATTACK, "one", dictating(&empty)).await;
        scene.until_object(&FAULT, "front", "has none", |fault| fault["spec"] == json!({})).await;
        assert_eq!(written_with_another(&scene, &empty, ["faults", "pods"]).await, [0, 0]);
        assert_eq!(scene.get(&FAULT, "front").await["spec"], json!({}));
        let parent = scene.get(&ATTACK, "one").await;
        assert!(condition(&parent, "Reconciled").is_none(), "{parent:#}");
    });
}

#[test]
fn an_empty_list_of_a_built_in_kind_is_owned_by_the_plugin_and_written_once() {
    run(async {
        let (scene, _folder, _host) = host("empty-known", &NETWORK_POLICY).await;
        let labels = json!({ "app": "one" });
        let security = json!({
            "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
            "capabilities": { "add": [], "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
        });
        let container = json!({
            "name": "main", "image": "registry.example.com/main:1", "securityContext": security,
            "args": [], "env": [], "ports": [], "volumeMounts": [],
        });
        let pod = json!({
            "automountServiceAccountToken": false, "containers": [container], "volumes": [], "tolerations": [],
            "imagePullSecrets": [],
        });
        let template = json!({ "metadata": { "labels": labels }, "spec": pod });
        let deployment =
            json!({ "spec": { "replicas": 0, "selector": { "matchLabels": labels }, "template": template } });
        let policy = json!({ "spec": { "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [] } });
        let children = [child(&DEPLOYMENT, "one", &deployment), child(&NETWORK_POLICY, "closed", &policy)];
        create(&scene, &children).await;
        for (kind, name) in [(&DEPLOYMENT, "one"), (&NETWORK_POLICY, "closed")] {
            scene.until_object(kind, name, "is there", |_| true).await;
        }
        assert_eq!(written_with_another(&scene, &children, ["deployments", "networkpolicies"]).await, [0, 0]);
        // An entry that others add is removed: the plugin owns the empty list.
        scene.merge(&NETWORK_POLICY, "closed", json!({ "spec": { "ingress": [{}] } })).await;
        let is_closed = |policy: &Value| policy["spec"]["ingress"].is_null();
        scene.until_object(&NETWORK_POLICY, "closed", "is closed again", is_closed).await;
        let args = "/spec/template/spec/containers/0/args";
        scene.json_patch(&DEPLOYMENT, "one", json!([{ "op": "add", "path": args, "value": ["--open"] }])).await;
        let has_none = |deployment: &Value| deployment.pointer(args).is_none();
        scene.until_object(&DEPLOYMENT, "one", "has no arguments again", has_none).await;
        assert_eq!(written_with_another(&scene, &children, ["deployments", "networkpolicies"]).await, [0, 0]);
    });
}
