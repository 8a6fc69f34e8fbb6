//! Servers that cannot start: which one, and why.

use std::sync::atomic::{AtomicUsize, Ordering};

use hotshoe_tests::kinds::{POD, QUOTA, REDIS, STATEFUL_SET, STORAGE_CLASS};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use serde_json::{Value, json};

use super::{held_up, redis, scene, serves};

/// A StorageClass. It is cluster-scoped, so its name contains the namespace of the test.
fn class(name: &str, provisioner: &str) -> Value {
    json!({
        "apiVersion": STORAGE_CLASS.api_version(), "kind": STORAGE_CLASS.kind,
        "metadata": { "name": name }, "provisioner": provisioner,
    })
}

#[test]
fn a_class_that_is_not_there_is_named_until_it_is() {
    run(async {
        let (scene, _host) = scene("no-class").await;
        let name = format!("class-{}", scene.namespace);
        scene.create(redis(json!({ "replicas": 2, "storage": { "storageClassName": name } }))).await;
        let message = held_up(&scene, 0, "StorageClassMissing").await;
        assert!(message.contains(&format!("there is no StorageClass {name}")), "{message}");
        assert_eq!(held_up(&scene, 1, "WaitsForOthers").await, "it starts once redis-0 is ready");
        let object = scene.until_condition_of(&REDIS, "redis", "Degraded", "True", "StorageClassMissing").await;
        let available = condition_parts(&object, "Available");
        assert!(available.0 == "False" && available.2.contains("redis-0 is not: StorageClassMissing"), "{available:?}");
        scene.admin.create(&class(&name, "kubernetes.io/host-path")).await.expect("a class");
        let object = serves(&scene, 2).await;
        assert_eq!(condition_parts(&object, "Degraded").0, "False");
    });
}

#[test]
fn a_claim_that_nobody_binds_is_named() {
    run(async {
        let (scene, _host) = scene("unbound").await;
        let name = format!("class-{}", scene.namespace);
        scene.admin.create(&class(&name, "example.com/nobody")).await.expect("a class");
        scene.create(redis(json!({ "replicas": 1, "storage": { "storageClassName": name } }))).await;
        let message = held_up(&scene, 0, "ClaimPending").await;
        assert!(message.contains(&format!("a volume of the class {name}")), "{message}");
    });
}

#[test]
fn a_quota_is_named_until_it_has_room() {
    run(async {
        let (scene, _host) = scene("quota").await;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "two-pods" }, "spec": { "hard": { "pods": "2" } },
        });
        scene.create(quota).await;
        // The API server enforces a quota only once its usage has been counted.
        scene.until_object(&QUOTA, "two-pods", "is counted", |quota| quota["status"]["used"]["pods"] == "0").await;
        scene.create(redis(json!({}))).await;
        let message = held_up(&scene, 2, "QuotaExceeded").await;
        assert!(message.contains("the ResourceQuota two-pods leaves no room: of pods 2 of 2 is used"), "{message}");
        scene.until_condition_of(&REDIS, "redis", "Degraded", "True", "QuotaExceeded").await;
        scene.merge(&QUOTA, "two-pods", json!({ "spec": { "hard": { "pods": "5" } } })).await;
        // The StatefulSet controller backs off exponentially; a change of the set makes it retry at once.
        let looks = AtomicUsize::new(0);
        scene
            .until("the third server is there", async || match scene.find(&POD, "redis-2").await {
                Some(_) => Ok(()),
                None => {
                    let look = looks.fetch_add(1, Ordering::Relaxed).to_string();
                    let annotations = json!({ "metadata": { "annotations": { "look": look } } });
                    scene.merge(&STATEFUL_SET, "redis", annotations).await;
                    Err(format!("{look} looks"))
                }
            })
            .await;
        serves(&scene, 3).await;
    });
}

#[test]
fn a_pod_that_no_node_takes_is_named_with_the_way_out() {
    run(async {
        let (scene, _host) = scene("too-large").await;
        let resources = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        scene.create(redis(resources("1M"))).await;
        let message = held_up(&scene, 0, "Unschedulable").await;
        assert!(message.contains("Insufficient cpu"), "{message}");
        scene.merge(&REDIS, "redis", json!({ "spec": resources("250m") })).await;
        let is_told = |object: &Value| {
            object["status"]["ordinals"][0]["message"].to_string().contains("kubectl delete pod redis-0")
        };
        scene.until_object(&REDIS, "redis", "says what to delete", is_told).await;
        scene.delete(&POD, "redis-0").await;
        serves(&scene, 3).await;
    });
}
