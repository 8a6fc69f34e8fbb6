//! Invalid `Plugin` objects, and objects that need something that is missing: a condition says so, and other plugins
//! are served.

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::kinds::{DEPLOYMENT, PLUGIN, ROLE_BINDING, SERVICE_ACCOUNT};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{memcached, run};
use serde_json::{Value, json};

use super::rig::{Rig, file};

#[test]
fn the_api_server_refuses_invalid_plugin_objects() {
    run(async {
        let rig = Rig::new("refused").await;
        let guest = rig.memcached("refused").await;
        let good = rig.object(&guest, file(&guest));
        let with = |path: &str, value: Value| {
            let mut object = good.clone();
            let (parent, key) = path.rsplit_once('/').expect("a path");
            object.pointer_mut(parent).expect("the parent is there")[key] = value;
            object
        };
        let path = format!("{}?fieldValidation=Strict", PLUGIN.path("", None));
        for (object, says) in [
            (with("/spec/unknown", json!(1)), "unknown field \"spec.unknown\""),
            (with("/spec/source", json!({})), "Exactly one of file, configMap and oci"),
            (
                with("/spec/source/configMap", json!({ "name": "a", "key": "b" })),
                "Exactly one of file, configMap and oci",
            ),
            (with("/metadata/name", json!("hotshoe")), "The name is that of a ServiceAccount"),
            (with("/metadata/name", json!("a.b")), "The name is that of a ServiceAccount"),
            (with("/spec/approve", json!("nothing")), "spec.approve"),
            (with("/spec/mode", json!("Other")), "Unsupported value"),
            (with("/spec/deletionPolicy", json!("keep")), "Unsupported value"),
            (with("/spec/limits", json!({ "callTime": "banana" })), "spec.limits.callTime"),
            (with("/spec/limits", json!({ "memory": "64MB" })), "spec.limits.memory"),
            (with("/spec/limits", json!({ "memory": -1 })), "spec.limits.memory"),
            (
                with("/spec/source", json!({ "oci": "oci://registry.example.com/a:1", "interval": "9999ms" })),
                "At least 10s must be given",
            ),
        ] {
            let refused = rig.scene.admin.request(http::Method::POST, &path, "application/json", &object).await;
            let refused = refused.expect_err(says);
            assert!(refused.message.contains(says), "{}", refused.message);
        }
        rig.apply(&guest).await;
        for (parent, says) in [
            (json!({ "kind": "Redis" }), "The kind of the parents cannot change"),
            (Value::Null, "parent cannot be removed"),
        ] {
            let other = json!({ "spec": { "parent": parent } });
            let refused = rig.scene.admin.merge(&PLUGIN, "", &guest.name, &other).await.expect_err(says);
            assert!(refused.message.contains(says), "{}", refused.message);
        }
        // A size is an integer or a text.
        rig.merge(
            &guest,
            json!({ "spec": { "limits": { "memory": 67_108_864, "heldBytes": "128Mi", "callTime": "2s" } } }),
        )
        .await;
    });
}

#[test]
fn a_plugin_that_cannot_start_keeps_no_other_from_serving() {
    run(async {
        let rig = Rig::new("unable").await;
        let [good, unserved, wrong] =
            [rig.memcached("good").await, rig.memcached("absent").await, rig.memcached("wrong").await];
        // A component that does not exist, and a limit above the maximum.
        good.folder.edit("    kind: Memcached\n", "    kind: Memcached\n    selector: {matchLabels: {of: good}}\n");
        unserved
            .folder
            .edit("    kind: Memcached\n", "    kind: Memcached\n    selector: {matchLabels: {of: absent}}\n");
        wrong.folder.edit("    kind: Memcached\n", "    kind: Memcached\n    selector: {matchLabels: {of: wrong}}\n");
        rig.create(&rig.object(&unserved, json!({ "file": "/nowhere/plugin.wasm" }))).await;
        let mut object = rig.object(&wrong, file(&wrong));
        object["spec"]["limits"] = json!({ "memory": "100Gi" });
        rig.create(&object).await;
        rig.apply(&good).await;
        rig.until_ready(&good).await;
        let stalled = rig.until_condition(&unserved, "Stalled", "True", "Unreadable").await;
        assert!(condition_parts(&stalled, "Stalled").2.contains("/nowhere/plugin.wasm"), "{stalled:#}");
        let stalled = rig.until_condition(&wrong, "Stalled", "True", "InvalidSpec").await;
        assert!(condition_parts(&stalled, "Stalled").2.contains("limits"), "{stalled:#}");
        let mut served = memcached("served", 1);
        served["metadata"]["labels"] = json!({ "of": "good" });
        rig.scene.create(served).await;
        rig.scene.available("served").await;
        // A correction is noticed.
        rig.merge(&wrong, json!({ "spec": { "limits": { "memory": "64Mi" } } })).await;
        rig.until(&wrong, "is checked again", |object| condition_parts(object, "Stalled").1 != "InvalidSpec").await;
    });
}

#[test]
fn a_plugin_without_its_account_says_so_and_works_once_it_has_one() {
    run(async {
        let rig = Rig::new("account").await;
        let guest = rig.memcached("account").await;
        rig.scene.admin.delete(&SERVICE_ACCOUNT, SYSTEM, &guest.name).await.expect("the account is there");
        let binding = format!("hotshoe-fleet-{}.impersonates", guest.name);
        rig.scene.admin.delete(&ROLE_BINDING, SYSTEM, &binding).await.expect("the binding is there");
        rig.apply(&guest).await;
        rig.scene.create(memcached("served", 1)).await;
        let unready = rig.until_condition(&guest, "Ready", "False", "AccountUnusable").await;
        assert!(condition_parts(&unready, "Ready").2.contains("hotshoe rbac"), "{unready:#}");
        rig.grant(&guest).await;
        rig.scene.until_object(&DEPLOYMENT, "served", "is there", |_| true).await;
        rig.until_ready(&guest).await;
    });
}
