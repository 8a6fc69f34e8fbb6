//! Objects of others with the names of the plugin's children.

use std::collections::BTreeSet;
use std::time::Duration;

use hotshoe_tests::kinds::{DEPLOYMENT, Kind, MEMCACHED, SERVICE};
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::{Scene, memcached, run};
use serde_json::{Value, json};

use crate::memcached::scene;

fn deployment(owner: Option<&Value>) -> Value {
    let labels = json!({ "whose": "theirs" });
    let owners = owner.map(|owner| {
        json!([{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true,
        }])
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "cache", "labels": labels, "ownerReferences": owners.unwrap_or(json!([])) },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "a", "image": "a" }] } },
        },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "cache-service", "labels": { "whose": "theirs" } },
        "spec": { "selector": { "whose": "theirs" }, "ports": [{ "port": 80 }] },
    })
}

/// Returns the part of an object that must not change: all but what controllers write.
fn compared_part(object: &Value) -> Value {
    let managers: BTreeSet<_> = object["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["subresource"] != "status")
        .map(|entry| entry["manager"].as_str().unwrap().to_owned())
        .filter(|manager| manager != "kube-controller-manager")
        .collect();
    let metadata = &object["metadata"];
    json!({
        "uid": metadata["uid"],
        "labels": metadata["labels"],
        "owners": metadata["ownerReferences"],
        "managers": managers,
        "spec": object["spec"],
    })
}

async fn is_left_alone(scene: &Scene, kind: Kind, name: &str) {
    let theirs = scene.get(&kind, name).await;
    scene.create(memcached("cache", 1)).await;
    let words = format!("{} ({name})", kind.kind);
    scene.until_condition("cache", "Degraded", ("True", "Conflict", &words)).await;
    scene.event("cache", "Conflict", name).await;
    let now = scene.get(&kind, name).await;
    assert_eq!(compared_part(&now), compared_part(&theirs), "no field of it was changed");
    scene.delete(&kind, name).await;
    let object = scene.available("cache").await;
    let ours = scene.get(&kind, name).await;
    assert_eq!(ours["metadata"]["ownerReferences"][0]["uid"], object["metadata"]["uid"]);
    assert!(condition(&object, "Reconciled").is_none_or(|host| host["status"] != "False"), "{object:#}");
}

#[test]
fn a_foreign_deployment_is_left_alone_and_its_deletion_is_noticed() {
    run(async {
        let scene = scene("foreign-deployment").await;
        scene.create(deployment(None)).await;
        is_left_alone(&scene, DEPLOYMENT, "cache").await;
    });
}

#[test]
fn a_deployment_of_another_controller_is_left_alone_and_its_going_is_noticed() {
    run(async {
        let scene = scene("controlled-deployment").await;
        let owner =
            scene.create(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "owner" } })).await;
        scene.create(deployment(Some(&owner))).await;
        is_left_alone(&scene, DEPLOYMENT, "cache").await;
    });
}

#[test]
fn a_foreign_service_is_left_alone_and_its_deletion_is_noticed() {
    run(async {
        let scene = scene("foreign-service").await;
        scene.create(service()).await;
        is_left_alone(&scene, SERVICE, "cache-service").await;
    });
}

#[test]
fn a_foreign_service_does_not_keep_the_servers_from_running() {
    run(async {
        let scene = scene("foreign-beside").await;
        scene.create(service()).await;
        scene.create(memcached("cache", 2)).await;
        scene.until_condition("cache", "Available", ("True", "Reconciling", "with 2 replicas")).await;
        scene.until_condition("cache", "Degraded", ("True", "Conflict", "cache-service")).await;
    });
}

#[test]
fn a_memcached_that_is_deleted_leaves_a_foreign_object_behind() {
    run(async {
        let scene = scene("foreign-stays").await;
        scene.create(deployment(None)).await;
        let theirs = scene.get(&DEPLOYMENT, "cache").await;
        scene.create(memcached("cache", 1)).await;
        scene.until_condition("cache", "Degraded", ("True", "Conflict", "")).await;
        scene.delete(&MEMCACHED, "cache").await;
        scene.gone(&MEMCACHED, "cache").await;
        scene.gone(&SERVICE, "cache-service").await;
        assert_eq!(compared_part(&scene.get(&DEPLOYMENT, "cache").await), compared_part(&theirs));
    });
}

#[test]
fn a_leftover_child_of_an_earlier_object_of_this_name_is_reported_if_it_does_not_go() {
    run(async {
        let scene = scene("former").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        scene.merge(&DEPLOYMENT, "cache", json!({ "metadata": { "finalizers": ["example.com/held"] } })).await;
        scene.delete(&MEMCACHED, "cache").await;
        scene.gone(&MEMCACHED, "cache").await;
        scene.create(memcached("cache", 1)).await;
        scene
            .until_within(Duration::from_secs(90), "the conflict is reported", async || {
                let object = scene.get(&MEMCACHED, "cache").await;
                let (status, reason, message) = condition_parts(&object, "Degraded");
                let is_said = (status, reason) == ("True", "Conflict") && message.contains("Deployment (cache)");
                is_said.then_some(()).ok_or_else(|| format!("{object:#}"))
            })
            .await;
        scene.event("cache", "Conflict", "an earlier object of this name").await;
        scene.merge(&DEPLOYMENT, "cache", json!({ "metadata": { "finalizers": null } })).await;
        scene.available("cache").await;
    });
}

#[test]
fn an_orphaned_child_is_taken_over_by_the_next_object_of_this_name() {
    run(async {
        let scene = scene("left-behind").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let path = MEMCACHED.path(&scene.namespace, Some("cache"));
        let options = json!({ "propagationPolicy": "Orphan" });
        scene.admin.request(http::Method::DELETE, &path, "application/json", &options).await.expect("a deletion");
        scene.gone(&MEMCACHED, "cache").await;
        let left = scene.get(&DEPLOYMENT, "cache").await;
        assert!(left["metadata"]["ownerReferences"].is_null(), "{left:#}");
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        let now = scene.get(&DEPLOYMENT, "cache").await;
        assert_eq!(now["metadata"]["uid"], left["metadata"]["uid"], "it is not made anew: {now:#}");
        assert_eq!(now["spec"]["replicas"], 2, "{now:#}");
        let parent = scene.get(&MEMCACHED, "cache").await;
        assert_eq!(now["metadata"]["ownerReferences"][0]["uid"], parent["metadata"]["uid"], "{now:#}");
    });
}
