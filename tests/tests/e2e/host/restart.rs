//! Restarts of the host.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use futures::StreamExt;
use hotshoe_tests::faulty::scene;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED, SERVICE};
use hotshoe_tests::scene::{FINALIZER, condition_parts, is_settled};
use hotshoe_tests::{Scene, memcached, run};
use serde_json::{Value, json};

#[test]
fn a_deletion_while_the_host_is_down_is_carried_out_after_the_restart() {
    run(async {
        let mut scene = scene("down").await;
        let mut host = scene.own_host().await;
        scene.create(memcached("cache", 1)).await;
        scene.create(memcached("other", 1)).await;
        scene.available("cache").await;
        scene.available("other").await;
        host.kill();
        scene.delete(&MEMCACHED, "cache").await;
        let held = scene.get(&MEMCACHED, "cache").await;
        assert!(!held["metadata"]["deletionTimestamp"].is_null(), "the finalizer holds it");
        let mut changes = scene.watch(&MEMCACHED).await;
        let _host = scene.own_host().await;
        let mut words: Vec<String> = Vec::new();
        while let Some((what, object)) = changes.next().await {
            if object["metadata"]["name"] != "cache" {
                continue;
            }
            let (status, reason, _) = condition_parts(&object, "Degraded");
            let word = format!("{status} {reason}");
            if words.last() != Some(&word) {
                words.push(word);
            }
            if what == "DELETED" {
                break;
            }
        }
        assert_eq!(words, ["False Reconciling", "Unknown Finalizing", "True Finalizing"]);
        scene.gone(&DEPLOYMENT, "cache").await;
        scene.gone(&SERVICE, "cache-service").await;
        scene.event("cache", "Deleting", "is being deleted").await;
        let events = scene.events("cache", "Deleting").await;
        assert_eq!(events.len(), 1, "{events:#?}");
        assert_eq!(events[0]["count"], 1, "{events:#?}");
        assert!(is_settled(&scene.get(&MEMCACHED, "other").await));
    });
}

#[test]
fn children_that_lost_their_controller_while_the_host_was_down_are_adopted_again_whatever_else_changed() {
    run(async {
        let mut scene = scene("stripped").await;
        let mut host = scene.own_host().await;
        let parent = scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        host.kill();
        let mut before = Vec::new();
        for (kind, name) in [(DEPLOYMENT, "cache"), (SERVICE, "cache-service")] {
            let edit = json!([{ "op": "remove", "path": "/metadata/ownerReferences" }]);
            before.push(scene.json_patch(&kind, name, edit).await["metadata"]["uid"].clone());
        }
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2, "containerPort": 12000 } })).await;
        let _host = scene.own_host().await;
        scene.available("cache").await;
        for ((kind, name), before) in [(DEPLOYMENT, "cache"), (SERVICE, "cache-service")].into_iter().zip(before) {
            let child = scene.get(&kind, name).await;
            assert_eq!(child["metadata"]["uid"], before, "it is the same");
            assert_eq!(child["metadata"]["ownerReferences"][0]["uid"], parent["metadata"]["uid"], "{child:#}");
        }
    });
}

#[test]
fn changes_while_the_host_was_down_are_repaired_after_the_restart() {
    run(async {
        let mut scene = scene("changed").await;
        let mut host = scene.own_host().await;
        for name in ["resized", "drifted", "orphaned"] {
            scene.create(memcached(name, 1)).await;
            scene.available(name).await;
        }
        assert!(host.stop().success(), "it ends politely");
        scene.merge(&MEMCACHED, "resized", json!({ "spec": { "size": 3 } })).await;
        scene.merge(&DEPLOYMENT, "drifted", json!({ "spec": { "replicas": 0 } })).await;
        scene.merge(&SERVICE, "drifted-service", json!({ "spec": { "selector": { "app": "other" } } })).await;
        scene.delete(&SERVICE, "orphaned-service").await;
        scene.create(memcached("new", 2)).await;
        let _host = scene.own_host().await;
        for name in ["resized", "drifted", "orphaned", "new"] {
            let has_size = |object: &Value| is_settled(object);
            scene.until_object(&MEMCACHED, name, "is settled", has_size).await;
        }
        let is_back = |service: &Value| service["spec"]["selector"]["app"] == "memcached";
        scene.until_object(&SERVICE, "drifted-service", "selects the servers again", is_back).await;
        scene.until_object(&SERVICE, "orphaned-service", "is back", |_| true).await;
        let has_one = |deployment: &Value| deployment["spec"]["replicas"] == 1;
        scene.until_object(&DEPLOYMENT, "drifted", "has its replica again", has_one).await;
        scene.available("drifted").await;
    });
}

#[test]
fn a_host_that_is_killed_while_many_are_deleted_reports_each_deletion() {
    run(async {
        let mut scene = scene("farewell").await;
        let names: Vec<String> = (0..60).map(|number| format!("cache-{number}")).collect();
        let start = scene.start().await;
        let mut host = start.ready().await;
        scene.watch_log(&host);
        for name in &names {
            scene.create(memcached(name, 1)).await;
        }
        for name in &names {
            scene
                .until_object(&MEMCACHED, name, "is held", |object| {
                    object["metadata"]["finalizers"] == json!([FINALIZER])
                })
                .await;
        }
        let all = MEMCACHED.path(&scene.namespace, None);
        scene.admin.request(http::Method::DELETE, &all, "application/json", &json!({})).await.expect("a deletion");
        let has_begun = |object: &Value| condition_parts(object, "Degraded").1 == "Finalizing";
        scene
            .until("some are being cleaned up", async || {
                let left = scene.list(&MEMCACHED).await;
                let begun = names.len() - left.iter().filter(|object| !has_begun(object)).count();
                if begun < 5 { Err(format!("{begun} have begun")) } else { Ok(()) }
            })
            .await;
        host.kill();
        let _host = scene.own_host().await;
        for name in &names {
            scene.gone(&MEMCACHED, name).await;
        }
        for name in &names {
            assert_eq!(scene.events(name, "Deleting").await.len(), 1, "{name}");
        }
    });
}

#[test]
fn a_child_that_is_refused_before_and_after_a_restart_is_reported_all_the_time() {
    run(async {
        let mut scene = scene("refused").await;
        let mut host = scene.own_host().await;
        let theirs = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "cache-service" },
            "spec": { "selector": { "whose": "theirs" }, "ports": [{ "port": 80 }] },
        });
        scene.create(theirs).await;
        scene.create(memcached("cache", 1)).await;
        // The plugin says that all is rolled out, and the host, which says that last, that it goes on to try.
        let is_reported = |object: &Value| {
            condition_parts(object, "Degraded").1 == "Conflict"
                && condition_parts(object, "Progressing").0 == "False"
                && condition_parts(object, "Reconciling").1 == "ChildrenRefused"
        };
        let before = scene.until_object(&MEMCACHED, "cache", "says the conflict", is_reported).await;
        host.kill();
        let earlier = scene.recorded_writes().await.len();
        let _host = scene.own_host().await;
        let tried = scene
            .until("the Service is tried again and again", async || {
                let writes = scene.writes().split_off(earlier);
                let services = writes.iter().filter(|entry| entry.is_about("services")).count();
                if services < 2 { Err(format!("{writes:#?}")) } else { Ok(writes) }
            })
            .await;
        assert!(!tried.iter().any(|entry| entry.is_about("memcacheds/status")), "{tried:#?}");
        assert_eq!(scene.get(&MEMCACHED, "cache").await["status"], before["status"]);
    });
}

/// The desired objects, which are changed while hosts are killed and started.
struct Desired {
    sizes: std::collections::BTreeMap<String, u64>,
    made: usize,
}

impl Desired {
    async fn change(&mut self, scene: &Scene, random: u64) {
        for _ in 0..4 {
            let name = format!("cache-{}", self.made);
            self.made += 1;
            scene.create(memcached(&name, 1)).await;
            self.sizes.insert(name, 1);
        }
        let names: Vec<String> = self.sizes.keys().cloned().collect();
        let pick = |random: u64| names[usize::try_from(random).unwrap_or_default() % names.len()].clone();
        let (resized, deleted) = (pick(random), pick(random / 7 + 1));
        let size = random % 3 + 1;
        scene.merge(&MEMCACHED, &resized, json!({ "spec": { "size": size } })).await;
        self.sizes.insert(resized, size);
        if self.sizes.len() > 4 {
            scene.delete(&MEMCACHED, &deleted).await;
            self.sizes.remove(&deleted);
        }
    }
}

#[test]
fn a_host_that_is_killed_again_and_again_reaches_the_desired_state() {
    run(async {
        let mut scene = scene("killed").await;
        let labels = json!({ "whose": "theirs" });
        let theirs = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "foreign-service", "labels": labels },
            "spec": { "selector": labels, "ports": [{ "port": 80 }] },
        });
        let theirs = scene.create(theirs).await;
        scene.create(memcached("foreign", 1)).await;
        let start = scene.start().await;
        let mut desired = Desired { sizes: std::collections::BTreeMap::new(), made: 0 };
        for round in 0..8_u64 {
            let mut host = start.start();
            if round % 2 == 0 {
                host.ready().await;
            }
            let random = RandomState::new().hash_one(round);
            desired.change(&scene, random).await;
            // Any moment: the test wants hosts to be killed in the midst of their work.
            tokio::time::sleep(Duration::from_millis(random % 600)).await;
            host.kill();
        }
        let _host = scene.own_host().await;
        scene
            .until("the desired state is reached", async || {
                let objects =
                    scene.admin.list(&MEMCACHED, &scene.namespace).await.map_err(|refused| refused.message)?;
                // The Service of this object is foreign, so it never settles.
                let ours = objects.iter().filter(|object| object["metadata"]["name"] != "foreign");
                let found = ours.clone().map(|object| {
                    let size = object["spec"]["size"].as_u64().unwrap_or_default();
                    (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), size)
                });
                let found: std::collections::BTreeMap<_, _> = found.collect();
                let settled = ours.clone().all(is_settled);
                let finalizers = ours.clone().all(|object| object["metadata"]["finalizers"] == json!([FINALIZER]));
                let is_it = found == desired.sizes && settled && finalizers;
                is_it.then_some(()).ok_or_else(|| format!("{found:?} for {:?}, settled: {settled}", desired.sizes))
            })
            .await;
        scene
            .until("each has its children and there are no others", async || {
                let mut expected: Vec<String> = desired.sizes.keys().cloned().collect();
                expected.push("foreign".to_owned());
                expected.sort();
                let mut deployments: Vec<_> = scene.list(&DEPLOYMENT).await.iter().map(name).collect();
                deployments.sort();
                let services: Vec<_> = scene.list(&SERVICE).await.iter().map(name).collect();
                let mut of_services: Vec<_> =
                    services.iter().filter_map(|name| name.strip_suffix("-service").map(str::to_owned)).collect();
                of_services.sort();
                let is_it = deployments == expected && of_services == expected;
                is_it.then_some(()).ok_or_else(|| format!("{deployments:?} {of_services:?} for {expected:?}"))
            })
            .await;
        let now = scene.get(&SERVICE, "foreign-service").await;
        assert_eq!(now["metadata"]["resourceVersion"], theirs["metadata"]["resourceVersion"], "it was not touched");
    });
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_second_host_for_the_same_plugin_stands_by_and_takes_over_when_the_first_ends() {
    run(async {
        let mut scene = hotshoe_tests::faulty::scene_with_faults("two-hosts").await;
        let folder = hotshoe_tests::guests::Folder::of_faulty();
        let mut first = hotshoe_tests::faulty::start(&mut scene, &folder).await;
        let second = scene.start().await.plugins(&[folder.path()]).start();
        scene.watch_log(&second);
        let process = format!("another host (process {})", first.process());
        second.until_logged(&["ERROR", "faulty", &process, "stop one of the two"]).await;
        let waits = |plugin: &Value| plugin["waiting"].as_str().is_some_and(|why| why.contains(&process));
        let standing_by = second.until_plugin("it says why", waits).await;
        assert_eq!((&standing_by["ready"], &standing_by["digest"]), (&json!(false), &Value::Null));
        hotshoe_tests::faulty::serves(&scene, "one").await;
        // After a crash the lock does not block the next host: it ends with the process.
        first.kill();
        second.ready().await;
        hotshoe_tests::faulty::serves(&scene, "two").await;
    });
}
