//! What happens to parents when a `Plugin` is deleted.

use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Scene, memcached, run};
use serde_json::json;

use super::rig::{Guest, Rig};

/// The finalizer of the Memcached plugin, which does not carry its name.
const FINALIZER: &str = "cache.example.com/finalizer";

/// Applies a plugin, and waits until it serves a parent.
async fn serving(name: &'static str, policy: &str) -> (Rig, Guest) {
    let rig = Rig::new(name).await;
    let guest = rig.memcached(name).await;
    if policy != "block" {
        guest.folder.edit("spec:\n", &format!("spec:\n  deletionPolicy: {policy}\n"));
        rig.grant(&guest).await;
    }
    rig.apply(&guest).await;
    rig.until_ready(&guest).await;
    rig.scene.create(memcached("served", 1)).await;
    rig.scene.available("served").await;
    (rig, guest)
}

/// Does the same, and deletes the `Plugin`.
async fn deleted(name: &'static str, policy: &str) -> (Rig, Guest) {
    let (rig, guest) = serving(name, policy).await;
    rig.delete(&guest).await;
    (rig, guest)
}

/// Deletes a `Plugin` while a parent has the plugin's finalizer from another operator, and checks that the `Plugin`
/// goes and that this finalizer stays.
async fn leaves_the_finalizer_of_another(name: &'static str, policy: &str) {
    let (rig, guest) = serving(name, policy).await;
    let mut theirs = memcached("theirs", 1);
    theirs["metadata"]["finalizers"] = json!([FINALIZER]);
    rig.scene.apply("old-operator", theirs).await;
    rig.scene.available("theirs").await;
    rig.delete(&guest).await;
    if policy == "block" {
        rig.until_condition(&guest, "Stalled", "True", "ParentsRemain").await;
        rig.scene.delete(&MEMCACHED, "served").await;
    }
    rig.until_gone(&guest).await;
    let finalizers = rig.scene.get(&MEMCACHED, "theirs").await["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!([FINALIZER]));
    if let Some(served) = rig.scene.find(&MEMCACHED, "served").await {
        assert!(served["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{served:#}");
    }
    rig.scene.merge(&MEMCACHED, "theirs", json!({ "metadata": { "finalizers": null } })).await;
}

#[test]
fn a_plugin_that_orphans_its_parents_leaves_the_finalizers_that_another_operator_set() {
    run(leaves_the_finalizer_of_another("orphaned-theirs", "orphan"));
}

#[test]
fn a_finalizer_that_another_operator_set_does_not_block_the_removal_of_a_plugin() {
    run(leaves_the_finalizer_of_another("blocked-theirs", "block"));
}

/// Deletes a `Plugin` while parents in another namespace have the finalizer of a plugin of the same name, which another host
/// runs from a folder, and checks that these parents stay as they are.
async fn leaves_the_parents_of_another_host(name: &'static str, policy: &str) {
    let (rig, guest) = serving(name, policy).await;
    let elsewhere = Scene::new(rig.scene.plane, &format!("{name}-there")).await;
    let mut other = rig.host_of_folder(&elsewhere, &guest).await;
    elsewhere.create(memcached("theirs", 1)).await;
    elsewhere.available("theirs").await;
    // Otherwise it would add the finalizer again.
    assert!(other.stop().success());
    let before = elsewhere.get(&MEMCACHED, "theirs").await;
    assert_eq!(before["metadata"]["finalizers"], json!([FINALIZER]));
    rig.delete(&guest).await;
    if policy == "block" {
        rig.until_condition(&guest, "Stalled", "True", "ParentsRemain").await;
        rig.scene.delete(&MEMCACHED, "served").await;
    }
    rig.until_gone(&guest).await;
    assert_eq!(elsewhere.get(&MEMCACHED, "theirs").await, before);
    elsewhere.merge(&MEMCACHED, "theirs", json!({ "metadata": { "finalizers": null } })).await;
}

#[test]
fn a_plugin_that_orphans_its_parents_leaves_those_in_namespaces_that_its_host_does_not_watch() {
    run(leaves_the_parents_of_another_host("orphaned-here", "orphan"));
}

#[test]
fn a_plugin_that_deletes_its_parents_leaves_those_in_namespaces_that_its_host_does_not_watch() {
    run(leaves_the_parents_of_another_host("deleted-here", "delete"));
}

#[test]
fn parents_in_namespaces_that_its_host_does_not_watch_do_not_block_the_removal_of_a_plugin() {
    run(leaves_the_parents_of_another_host("blocked-here", "block"));
}

#[test]
fn a_plugin_whose_parents_need_it_stays_until_they_are_gone() {
    run(async {
        let (rig, guest) = deleted("blocked", "block").await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "ParentsRemain").await;
        let message = condition_parts(&stalled, "Stalled").2;
        for words in ["1 object of the kind Memcached.cache.example.com", "served", "orphan", "delete"] {
            assert!(message.contains(words), "{message}");
        }
        // It continues to serve meanwhile, including clean-ups.
        rig.scene.merge(&MEMCACHED, "served", json!({ "spec": { "size": 2 } })).await;
        rig.scene.until_object(&DEPLOYMENT, "served", "is resized", |object| object["spec"]["replicas"] == 2).await;
        rig.scene.delete(&MEMCACHED, "served").await;
        rig.scene.gone(&MEMCACHED, "served").await;
        rig.until_gone(&guest).await;
    });
}

#[test]
fn a_plugin_whose_removal_is_blocked_serves_after_its_host_was_replaced() {
    run(async {
        let (mut rig, guest) = deleted("blocked-anew", "block").await;
        rig.until_condition(&guest, "Stalled", "True", "ParentsRemain").await;
        rig.replace_host().await;
        rig.scene.merge(&MEMCACHED, "served", json!({ "spec": { "size": 2 } })).await;
        rig.scene.until_object(&DEPLOYMENT, "served", "is resized", |object| object["spec"]["replicas"] == 2).await;
        rig.scene.delete(&MEMCACHED, "served").await;
        rig.scene.gone(&MEMCACHED, "served").await;
        rig.until_gone(&guest).await;
    });
}

#[test]
fn a_plugin_that_orphans_its_parents_leaves_them_as_they_are() {
    run(async {
        let (rig, guest) = deleted("orphaned", "orphan").await;
        rig.until_gone(&guest).await;
        let parent = rig.scene.get(&MEMCACHED, "served").await;
        assert!(parent["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{parent:#}");
        assert!(rig.scene.find(&DEPLOYMENT, "served").await.is_some());
        rig.scene.delete(&MEMCACHED, "served").await;
        rig.scene.gone(&MEMCACHED, "served").await;
    });
}

#[test]
fn a_plugin_that_deletes_its_parents_cleans_up_after_them_before_it_goes() {
    run(async {
        let (rig, guest) = deleted("deleting", "delete").await;
        rig.until_gone(&guest).await;
        assert!(rig.scene.find(&MEMCACHED, "served").await.is_none());
        rig.scene.gone(&DEPLOYMENT, "served").await;
    });
}

#[test]
fn a_blocked_deletion_continues_after_a_change_of_its_policy() {
    run(async {
        let (rig, guest) = deleted("way-out", "block").await;
        rig.until_condition(&guest, "Stalled", "True", "ParentsRemain").await;
        rig.merge(&guest, json!({ "spec": { "deletionPolicy": "orphan" } })).await;
        rig.until_gone(&guest).await;
        assert!(rig.scene.find(&MEMCACHED, "served").await.is_some());
    });
}

#[test]
fn a_plugin_that_is_being_deleted_follows_its_spec() {
    run(async {
        let (rig, guest) = serving("paused-deleted", "block").await;
        rig.merge(&guest, json!({ "spec": { "paused": true } })).await;
        rig.until_condition(&guest, "Ready", "False", "Paused").await;
        rig.delete(&guest).await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "ParentsRemain").await;
        assert!(condition_parts(&stalled, "Stalled").2.contains("spec.paused is true"), "{stalled:#}");
        rig.scene.delete(&MEMCACHED, "served").await;
        rig.merge(&guest, json!({ "spec": { "paused": false } })).await;
        rig.scene.gone(&MEMCACHED, "served").await;
        rig.until_gone(&guest).await;
    });
}
