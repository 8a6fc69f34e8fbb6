//! From a `kubectl apply` of a `Plugin` to its deletion.

use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{memcached, run};
use serde_json::json;

use super::rig::Rig;

#[test]
fn a_plugin_that_is_applied_serves_and_goes_when_its_object_is_deleted() {
    run(async {
        let rig = Rig::new("applied").await;
        let guest = rig.memcached("whole").await;
        rig.apply(&guest).await;
        let object = rig.until_ready(&guest).await;
        let status = &object["status"];
        assert_eq!(status["digest"].as_str().map(str::len), Some(64), "{status:#}");
        assert_eq!(status["observedGeneration"], object["metadata"]["generation"], "{status:#}");
        assert_eq!(status["contract"], "hotshoe:reconciler@0.1.0, hotshoe:reconciler@0.2.0");
        assert_eq!(status["revisions"][0]["state"], "Active", "{status:#}");
        assert_eq!(
            (condition_parts(&object, "Reconciling").0, condition_parts(&object, "Stalled").0),
            ("False", "False"),
            "{status:#}"
        );

        rig.scene.create(memcached("served", 2)).await;
        rig.scene.available("served").await;
        rig.until(&guest, "counts its parent", |object| object["status"]["parents"] == 1).await;

        // What it says is followed.
        rig.merge(&guest, json!({ "spec": { "config": { "values": { "image": "memcached:9" }, "fromEnv": null } } }))
            .await;
        let has_image =
            |object: &serde_json::Value| object["spec"]["template"]["spec"]["containers"][0]["image"] == "memcached:9";
        rig.scene.until_object(&DEPLOYMENT, "served", "has the new image", has_image).await;

        rig.scene.delete(&MEMCACHED, "served").await;
        rig.scene.gone(&MEMCACHED, "served").await;
        rig.delete(&guest).await;
        rig.until_gone(&guest).await;
        rig.host.until_logged(&["the plugin is stopped", &guest.name]).await;
        let metrics = rig.host.get("/metrics").await.expect("metrics").1;
        let gauge = format!("workqueue_depth{{controller=\"{}\"", guest.name);
        assert!(!metrics.contains(&gauge), "a plugin that is gone has no queue: {metrics}");
        assert_eq!(rig.host.get("/readyz").await.expect("an answer").0, 200);
    });
}

#[test]
fn plugins_come_and_go_beside_others_that_serve_on() {
    run(async {
        let rig = Rig::new("beside").await;
        let [first, second] = [rig.memcached("first").await, rig.memcached("second").await];
        first.folder.edit("    kind: Memcached\n", "    kind: Memcached\n    selector: {matchLabels: {of: first}}\n");
        second.folder.edit("    kind: Memcached\n", "    kind: Memcached\n    selector: {matchLabels: {of: second}}\n");
        second.folder.edit("    - name: cache.example.com/finalizer\n", "    - name: cache.example.com/other\n");
        rig.apply(&first).await;
        rig.until_ready(&first).await;
        // Its component holds the finalizer that the first one has.
        rig.apply(&second).await;
        let stalled = rig.until_condition(&second, "Stalled", "True", "NotGranted").await;
        let message = condition_parts(&stalled, "Stalled").2;
        assert!(message.contains("cache.example.com/finalizer"), "{message}");
        let mut served = memcached("served", 1);
        served["metadata"]["labels"] = json!({ "of": "first" });
        rig.scene.create(served).await;
        rig.scene.available("served").await;
        rig.delete(&second).await;
        rig.until_gone(&second).await;
        rig.scene.merge(&MEMCACHED, "served", json!({ "spec": { "size": 2 } })).await;
        rig.scene.until_object(&DEPLOYMENT, "served", "is resized", |object| object["spec"]["replicas"] == 2).await;
    });
}
