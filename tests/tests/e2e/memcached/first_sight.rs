//! From the creation of a Memcached to its first server.

use futures::StreamExt;
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED};
use hotshoe_tests::scene::{FINALIZER, condition_parts, is_settled};
use hotshoe_tests::{Scene, memcached, run};
use serde_json::{Value, json};

use super::scene;

/// Waits until the status of a Memcached fulfils a condition, and returns its first status.
async fn first_status(scene: &Scene, name: &str, ends: impl Fn(&Value) -> bool) -> Value {
    let mut changes = scene.watch(&MEMCACHED).await;
    scene.create(memcached(name, 1)).await;
    let mut first: Option<Value> = None;
    while let Some((_, object)) = changes.next().await {
        if first.is_none() && !object["status"]["conditions"].is_null() {
            first = Some(object.clone());
        }
        if ends(&object) {
            break;
        }
    }
    first.expect("a status was written")
}

fn assert_starts(first: &Value) {
    assert_eq!(condition_parts(first, "Available"), ("Unknown", "Reconciling", "Starting reconciliation"));
    assert_eq!(condition_parts(first, "Progressing").0, "True");
    assert_eq!(condition_parts(first, "Degraded").0, "False");
}

#[test]
fn the_first_status_says_that_reconciliation_starts() {
    run(async {
        let scene = scene("first-status").await;
        assert_starts(&first_status(&scene, "cache", is_settled).await);
    });
}

#[test]
fn the_first_status_of_an_unservable_object_says_that_reconciliation_starts_and_the_next_why_it_cannot() {
    run(async {
        let scene = scene("first-trouble").await;
        let is_told = |object: &Value| condition_parts(object, "Degraded").1 == "InvalidName";
        assert_starts(&first_status(&scene, "in.valid", is_told).await);
        scene.event("in.valid", "InvalidName", "in.valid").await;
        let writes = scene.recorded_writes().await;
        let count = |resource: &str| writes.iter().filter(|write| write.is_about(resource)).count();
        let counts = (count("memcacheds"), count("memcacheds/status"), count("events"));
        assert_eq!((counts, writes.len()), ((1, 2, 1), 4), "{writes:#?}");
    });
}

#[test]
fn a_memcached_in_the_namespace_of_the_host_is_left_alone() {
    run(async {
        let scene = scene("beside-the-host").await;
        let name = &scene.namespace;
        let mut theirs = memcached(name, 1);
        theirs["metadata"]["namespace"] = SYSTEM.into();
        let theirs = scene.admin.create(&theirs).await.expect("it is created");
        // One in another namespace that is created later is served.
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let now = scene.admin.get(&MEMCACHED, SYSTEM, name).await.expect("it is there");
        assert_eq!(now["metadata"]["resourceVersion"], theirs["metadata"]["resourceVersion"], "{now:#}");
        let refused = scene.admin.get(&DEPLOYMENT, SYSTEM, name).await.expect_err("no child was made");
        assert_eq!(refused.code, 404);
        scene.admin.delete(&MEMCACHED, SYSTEM, name).await.expect("it is deleted");
    });
}

#[test]
fn the_finalizer_is_added_before_any_child() {
    run(async {
        let scene = scene("finalizer-first").await;
        scene.create(memcached("cache", 1)).await;
        let object = scene.available("cache").await;
        assert_eq!(object["metadata"]["finalizers"], json!([FINALIZER]));
        let writes = scene.recorded_writes().await;
        let first = |resource: &str| {
            let found = writes.iter().find(|write| write.is_about(resource));
            found.unwrap_or_else(|| panic!("no write of {resource} in {writes:#?}")).at.clone()
        };
        let finalizer = first("memcacheds");
        for resource in ["deployments", "services", "memcacheds/status"] {
            assert!(finalizer < first(resource), "{resource} before the finalizer in {writes:#?}");
        }
    });
}

#[test]
fn a_finalizer_that_a_user_removes_is_restored() {
    run(async {
        let scene = scene("finalizer-back").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        scene.merge(&MEMCACHED, "cache", json!({ "metadata": { "finalizers": null } })).await;
        let has_it = |object: &Value| object["metadata"]["finalizers"] == json!([FINALIZER]);
        scene.until_object(&MEMCACHED, "cache", "has its finalizer again", has_it).await;
    });
}

#[test]
fn a_foreign_finalizer_stays_beside_ours() {
    run(async {
        let scene = scene("finalizer-beside").await;
        let mut object = memcached("cache", 1);
        object["metadata"]["finalizers"] = json!(["example.com/theirs"]);
        scene.create(object).await;
        let object = scene.available("cache").await;
        assert_eq!(object["metadata"]["finalizers"], json!(["example.com/theirs", FINALIZER]));
        scene.merge(&MEMCACHED, "cache", json!({ "metadata": { "finalizers": [FINALIZER] } })).await;
    });
}

#[test]
fn each_change_of_what_is_observed_costs_one_write_and_nothing_else_costs_any() {
    run(async {
        let scene = scene("writes").await;
        let mut changes = scene.watch(&MEMCACHED).await;
        scene.create(memcached("cache", 3)).await;
        let mut statuses: Vec<Value> = Vec::new();
        while let Some((_, object)) = changes.next().await {
            if !object["status"]["conditions"].is_null() && statuses.last() != Some(&object["status"]) {
                statuses.push(object["status"].clone());
            }
            if is_settled(&object) {
                break;
            }
        }
        let writes = scene.recorded_writes().await;
        let count = |resource: &str| writes.iter().filter(|write| write.is_about(resource)).count();
        assert!(writes.iter().all(|write| write.code < 300), "no write is refused: {writes:#?}");
        assert_eq!(count("memcacheds"), 1, "one patch of the finalizer: {writes:#?}");
        assert_eq!(count("deployments"), 1, "{writes:#?}");
        assert_eq!(count("services"), 1, "{writes:#?}");
        assert_eq!(count("events"), 0, "{writes:#?}");
        assert_eq!(count("memcacheds/status"), statuses.len(), "{writes:#?}\n{statuses:#?}");
        assert_eq!(writes.len(), 3 + statuses.len(), "{writes:#?}");
        // The start, the Deployment's creation, and the steps of its rollout, of which some may coincide.
        assert!(statuses.len() <= 9, "{statuses:#?}");
    });
}

#[test]
fn an_object_whose_managed_fields_were_reset_is_served_and_can_be_deleted() {
    run(async {
        let scene = scene("fields-reset").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        // The API server then has all fields set by `before-first-apply`, too.
        let reset = json!([{ "op": "replace", "path": "/metadata/managedFields", "value": [{}] }]);
        scene.admin.json_patch(&MEMCACHED, &scene.namespace, "cache", &reset).await.expect("they are reset");
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        scene.available("cache").await;
        scene.delete(&MEMCACHED, "cache").await;
        scene.gone(&MEMCACHED, "cache").await;
    });
}
