//! From the deletion of a Memcached to its last child.

use futures::StreamExt;
use hotshoe_tests::audit::Entry;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED, NAMESPACE, SERVICE};
use hotshoe_tests::scene::{FINALIZER, condition_parts};
use hotshoe_tests::{Scene, memcached, run};
use serde_json::{Value, json};

use crate::memcached::{host, scene};

const MERGE: &str = "application/merge-patch+json";
const BEGIN: &str = "Performing finalizer operations for the custom resource: cache ";
const END: &str = "Finalizer operations for custom resource cache name were successfully accomplished";

async fn is_one_event(scene: &Scene) {
    let words = format!("Custom Resource cache is being deleted from the namespace {}", scene.namespace);
    scene.event("cache", "Deleting", &words).await;
    let events = scene.events("cache", "Deleting").await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0]["type"], "Warning");
    assert_eq!(events[0]["message"], words);
    assert_eq!(events[0]["count"], 1, "{events:#?}");
}

#[test]
fn a_deletion_reports_its_steps_and_leaves_nothing() {
    run(async {
        let scene = scene("deletion").await;
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        let mut changes = scene.watch(&MEMCACHED).await;
        scene.delete(&MEMCACHED, "cache").await;
        let mut words: Vec<(String, String)> = Vec::new();
        while let Some((what, object)) = changes.next().await {
            let (status, reason, message) = condition_parts(&object, "Degraded");
            let word = (status.to_owned(), message.to_owned());
            if reason == "Finalizing" && words.last() != Some(&word) {
                words.push(word);
            }
            if what == "DELETED" {
                break;
            }
        }
        let expected = [("Unknown".to_owned(), BEGIN.to_owned()), ("True".to_owned(), END.to_owned())];
        assert_eq!(words, expected);
        is_one_event(&scene).await;
        scene.gone(&DEPLOYMENT, "cache").await;
        scene.gone(&SERVICE, "cache-service").await;
    });
}

#[test]
fn a_foreign_finalizer_keeps_the_object_and_does_not_block_the_host() {
    run(async {
        let scene = scene("held").await;
        let mut object = memcached("cache", 1);
        object["metadata"]["finalizers"] = json!(["example.com/theirs"]);
        scene.create(object).await;
        scene.available("cache").await;
        scene.delete(&MEMCACHED, "cache").await;
        let is_ours_gone = |object: &Value| object["metadata"]["finalizers"] == json!(["example.com/theirs"]);
        let object = scene.until_object(&MEMCACHED, "cache", "is held by the other only", is_ours_gone).await;
        assert_eq!(condition_parts(&object, "Degraded"), ("True", "Finalizing", END));
        is_one_event(&scene).await;
        let writes = scene.recorded_writes().await.len();
        // An edit requeues the object, for which the host has nothing left to do.
        scene.merge(&MEMCACHED, "cache", json!({ "metadata": { "annotations": { "a": "b" } } })).await;
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 3 } })).await;
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert_eq!(scene.recorded_writes().await.len(), writes, "nothing is left to do");
        scene.merge(&MEMCACHED, "cache", json!({ "metadata": { "finalizers": null } })).await;
        scene.gone(&MEMCACHED, "cache").await;
        scene.gone(&DEPLOYMENT, "cache").await;
        is_one_event(&scene).await;
    });
}

#[test]
fn a_finalizer_that_may_not_be_removed_is_reported_and_retried() {
    run(async {
        let scene = scene("kept").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let held = format!("has(object.metadata.finalizers) && '{FINALIZER}' in object.metadata.finalizers");
        let rule = scene.forbid(&MEMCACHED, &held, "this one stays").await;
        let path = format!("{}?dryRun=All", MEMCACHED.path(&scene.namespace, Some("cache")));
        let released = json!({ "metadata": { "finalizers": null } });
        scene
            .until("the rule is in force", async || {
                let tried = scene.admin.request(http::Method::PATCH, &path, MERGE, &released).await;
                tried.err().map(drop).ok_or_else(|| "the finalizer may go".to_owned())
            })
            .await;
        scene.delete(&MEMCACHED, "cache").await;
        scene.until_condition("cache", "Degraded", ("True", "Finalizing", END)).await;
        scene.until_condition("cache", "Reconciled", ("False", "Refused", "this one stays")).await;
        scene.event("cache", "Refused", "this one stays").await;
        let is_removal =
            |entry: &Entry| entry.is_about("memcacheds") && entry.code == 422 && !entry.uri.contains("dryRun");
        let writes = scene.recorded_writes().await;
        let removals = writes.iter().filter(|entry| is_removal(entry)).count();
        assert!((1..=3).contains(&removals), "it is no loop: {removals} times");
        scene.allow(&rule).await;
        scene.gone(&MEMCACHED, "cache").await;
    });
}

#[test]
fn a_memcached_that_is_deleted_at_once_leaves_nothing() {
    run(async {
        let scene = scene("at-once").await;
        for name in ["a", "b", "c", "d"] {
            scene.create(memcached(name, 1)).await;
            scene.delete(&MEMCACHED, name).await;
        }
        for name in ["a", "b", "c", "d"] {
            scene.gone(&MEMCACHED, name).await;
            scene.gone(&DEPLOYMENT, name).await;
            scene.gone(&SERVICE, &format!("{name}-service")).await;
        }
    });
}

#[test]
fn a_memcached_that_follows_one_of_its_name_gets_children_of_its_own() {
    run(async {
        let scene = scene("again").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let mut uids = std::collections::BTreeSet::new();
        for size in [2, 3, 1] {
            scene.delete(&MEMCACHED, "cache").await;
            scene.gone(&MEMCACHED, "cache").await;
            let created = scene.create(memcached("cache", size)).await;
            assert!(uids.insert(created["metadata"]["uid"].to_string()));
            scene.available("cache").await;
            for (kind, name) in [(DEPLOYMENT, "cache"), (SERVICE, "cache-service")] {
                let child = scene.get(&kind, name).await;
                assert_eq!(child["metadata"]["ownerReferences"][0]["uid"], created["metadata"]["uid"], "{child:#}");
            }
        }
    });
}

#[test]
fn a_deletion_in_the_foreground_ends_too() {
    run(async {
        let scene = scene("foreground").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let path = MEMCACHED.path(&scene.namespace, Some("cache"));
        let options = json!({ "propagationPolicy": "Foreground" });
        scene.admin.request(http::Method::DELETE, &path, "application/json", &options).await.expect("a deletion");
        scene.gone(&MEMCACHED, "cache").await;
        assert!(scene.find(&DEPLOYMENT, "cache").await.is_none(), "children go first in the foreground");
    });
}

#[test]
fn a_namespace_goes_without_an_error_of_the_host() {
    run(async {
        let scene = scene("namespace").await;
        for number in 0..8 {
            scene.create(memcached(&format!("cache-{number}"), 1)).await;
        }
        for number in 0..6 {
            scene.available(&format!("cache-{number}")).await;
        }
        // Some of them have only just been created.
        scene.create(memcached("late", 1)).await;
        scene.admin.delete(&NAMESPACE, "", &scene.namespace).await.expect("a deletion");
        scene.gone_namespace().await;
        let log = host().await.log();
        let of_namespace =
            |line: &&str| line.contains(&scene.namespace) && (line.contains("WARN") || line.contains("ERROR"));
        let said: Vec<_> = log.lines().filter(of_namespace).collect();
        assert!(said.is_empty(), "{said:#?}");
    });
}
