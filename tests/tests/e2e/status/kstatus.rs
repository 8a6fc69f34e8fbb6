//! What tools that wait for objects take a parent for, by the rules of kstatus.

use futures::StreamExt;
use hotshoe_tests::faulty::{fault, scene, scene_with_faults, start};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{FAULT, Kind, MEMCACHED, QUOTA};
use hotshoe_tests::kstatus::{Kstatus, kstatus};
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::{Scene, memcached, run};
use serde_json::{Value, json};

/// Waits until a tool takes the newest generation of an object for this.
async fn until(scene: &Scene, kind: &Kind, name: &str, expected: Kstatus) -> Value {
    let is_it = |object: &Value| {
        let is_seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        (is_seen || expected == Kstatus::Terminating) && kstatus(object) == expected
    };
    scene.until_object(kind, name, &format!("is {expected:?}"), is_it).await
}

#[test]
fn a_memcached_is_current_only_while_all_of_it_is_as_its_newest_generation_says() {
    run(async {
        let mut scene = scene("kstatus").await;
        scene.create(memcached("before", 1)).await;
        let new = scene.get(&MEMCACHED, "before").await;
        assert_eq!(kstatus(&new), Kstatus::InProgress, "no host has seen it: {new:#}");
        let _host = scene.own_host().await;
        let mut changes = scene.watch(&MEMCACHED).await;
        until(&scene, &MEMCACHED, "before", Kstatus::Current).await;
        scene.merge(&MEMCACHED, "before", json!({ "spec": { "size": 2 } })).await;
        let settled = until(&scene, &MEMCACHED, "before", Kstatus::Current).await;
        assert_eq!(condition_parts(&settled, "Ready").0, "True", "{settled:#}");
        for gone in ["Reconciling", "Stalled", "Reconciled"] {
            assert!(condition(&settled, gone).is_none(), "{settled:#}");
        }
        let version = settled["metadata"]["resourceVersion"].clone();
        while let Some((_, seen)) = changes.next().await {
            let ready = seen["status"]["readyReplicas"] == seen["spec"]["size"];
            assert!(ready || kstatus(&seen) != Kstatus::Current, "{seen:#}");
            if seen["metadata"]["resourceVersion"] == version {
                break;
            }
        }
    });
}

#[test]
fn a_memcached_that_a_quota_refuses_is_in_progress_until_there_is_room() {
    run(async {
        let mut scene = scene("kstatus-quota").await;
        let _host = scene.own_host().await;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "one" },
            "spec": { "hard": { "count/deployments.apps": "1" } },
        });
        scene.create(quota).await;
        let is_counted = |quota: &Value| quota["status"]["hard"]["count/deployments.apps"] == "1";
        scene.until_object(&QUOTA, "one", "is in force", is_counted).await;
        scene.create(memcached("first", 1)).await;
        until(&scene, &MEMCACHED, "first", Kstatus::Current).await;
        scene.create(memcached("second", 1)).await;
        scene.until_condition_of(&MEMCACHED, "second", "Reconciled", "False", "ChildrenRefused").await;
        // At first, the plugin says that it does not know yet.
        let object = scene.until_condition_of(&MEMCACHED, "second", "Ready", "False", "").await;
        assert_eq!(kstatus(&object), Kstatus::InProgress, "{object:#}");
        assert_eq!(condition_parts(&object, "Reconciling").0, "True", "{object:#}");
        scene.merge(&QUOTA, "one", json!({ "spec": { "hard": { "count/deployments.apps": "2" } } })).await;
        let object = until(&scene, &MEMCACHED, "second", Kstatus::Current).await;
        assert!(condition(&object, "Reconciled").is_none(), "{object:#}");
    });
}

#[test]
fn every_failure_of_the_host_or_of_the_plugin_is_seen_by_tools_that_wait() {
    run(async {
        let mut scene = scene_with_faults("kstatus-faults").await;
        let folder = Folder::of_faulty();
        let _host = start(&mut scene, &folder).await;
        for (name, what, reason, expected) in [
            ("rejected", "reject", "Rejected", Kstatus::Failed),
            ("denied", "owner", "Denied", Kstatus::Failed),
            ("not-granted", "not granted", "Denied", Kstatus::Failed),
            ("invalid", "unknown field", "ChildrenRefused", Kstatus::Failed),
            ("retried", "retry", "RetryRequested", Kstatus::InProgress),
            ("failing", "other", "PluginFailed", Kstatus::InProgress),
        ] {
            scene.create(fault(name, "")).await;
            until(&scene, &FAULT, name, Kstatus::Current).await;
            scene.merge(&FAULT, name, json!({ "spec": { "fault": what } })).await;
            let object = until(&scene, &FAULT, name, expected).await;
            assert_eq!(condition_parts(&object, "Reconciled").1, reason, "{object:#}");
            assert_eq!(condition_parts(&object, "Ready").0, "False", "the plugin states none: {object:#}");
            scene.merge(&FAULT, name, json!({ "spec": { "fault": "" } })).await;
            let object = until(&scene, &FAULT, name, Kstatus::Current).await;
            let of_host = ["Reconciled", "Ready", "Reconciling", "Stalled"];
            assert!(of_host.iter().all(|name| condition(&object, name).is_none()), "{object:#}");
        }
        scene.create(fault("going", "trap in clean-up")).await;
        until(&scene, &FAULT, "going", Kstatus::Current).await;
        scene.delete(&FAULT, "going").await;
        scene.until_condition_of(&FAULT, "going", "Reconciled", "False", "Trapped").await;
        until(&scene, &FAULT, "going", Kstatus::Terminating).await;
        scene.merge(&FAULT, "going", json!({ "spec": { "fault": "" } })).await;
        scene.gone(&FAULT, "going").await;
    });
}

#[test]
fn a_change_that_no_plugin_looks_at_is_in_progress() {
    run(async {
        let mut scene = scene_with_faults("kstatus-paused").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        scene.create(fault("one", "")).await;
        until(&scene, &FAULT, "one", Kstatus::Current).await;
        folder.edit("  grants:\n", "  paused: true\n  grants:\n");
        host.until_logged(&["the plugin is paused"]).await;
        let changed = scene.merge(&FAULT, "one", json!({ "spec": { "fault": "say" } })).await;
        assert_eq!(kstatus(&changed), Kstatus::InProgress, "{changed:#}");
        scene.create(fault("two", "")).await;
        let new = scene.get(&FAULT, "two").await;
        assert_eq!(kstatus(&new), Kstatus::InProgress, "{new:#}");
        scene.merge(&FAULT, "one", json!({ "spec": { "fault": "" } })).await;
        folder.edit("  paused: true\n", "");
        for name in ["one", "two"] {
            until(&scene, &FAULT, name, Kstatus::Current).await;
        }
    });
}
