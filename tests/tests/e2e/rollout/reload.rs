//! Another component is activated while the host runs, or is refused.

use std::time::Duration;

use hotshoe_core::model::digest::Digest;
use hotshoe_tests::faulty::{scene, scene_with_faults};
use hotshoe_tests::guests::{Folder, reworded, unusable};
use hotshoe_tests::kinds::{DEPLOYMENT, FAULT, MEMCACHED, SERVICE};
use hotshoe_tests::scene::{condition_parts, is_settled};
use hotshoe_tests::{Host, Scene, memcached, run};
use serde_json::{Value, json};

/// The message of the plugin in `Degraded` when all is well, in several wordings of the same length.
const WORDS: [&str; 4] = ["Nothing stands in", "Nowhere stands in", "No wall stands in", "No dust stands in"];

async fn all_show(scene: &Scene, count: usize, word: &str) {
    scene
        .until(&format!("all {count} show {word:?} and are settled"), async || {
            let objects = scene.admin.list(&MEMCACHED, &scene.namespace).await.map_err(|refused| refused.message)?;
            let right = objects
                .iter()
                .filter(|object| condition_parts(object, "Degraded").2.starts_with(word) && is_settled(object))
                .count();
            let sample = objects.iter().map(|object| condition_parts(object, "Degraded").2.to_owned()).next();
            if right == count { Ok(()) } else { Err(format!("{right} of {}, such as {sample:?}", objects.len())) }
        })
        .await;
}

async fn memcached_of(host: &Host) -> Value {
    host.plugin_named("memcached").await.expect("the plugin")
}

async fn children(scene: &Scene) -> Vec<Value> {
    let mut children = Vec::new();
    for kind in [DEPLOYMENT, SERVICE] {
        for child in scene.list(&kind).await {
            let metadata = &child["metadata"];
            children.push(json!([
                metadata["name"],
                metadata["uid"],
                metadata["generation"],
                metadata["annotations"]["hotshoe.dev/applied"]
            ]));
        }
    }
    children
}

#[test]
fn a_new_component_decides_every_parent_again_and_recreates_no_child() {
    run(async {
        let mut scene = scene("reload").await;
        let folder = Folder::of_memcached();
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        for number in 0..10 {
            scene.create(memcached(&format!("cache-{number}"), 1)).await;
        }
        all_show(&scene, 10, WORDS[0]).await;
        let before = (memcached_of(&host).await, children(&scene).await, scene.recorded_writes().await);
        folder.put(&reworded(folder.original(), WORDS[0], WORDS[1]));
        // The host notices the new file by itself.
        all_show(&scene, 10, WORDS[1]).await;
        let after = memcached_of(&host).await;
        assert_ne!(after["digest"], before.0["digest"]);
        assert!(after["refused"].is_null(), "{after:#}");
        assert_eq!(children(&scene).await, before.1, "no child was touched");
        let writes = scene.recorded_writes().await;
        let new: Vec<_> = writes[before.2.len()..].iter().collect();
        assert_eq!(new.len(), 10, "one status each: {new:#?}");
        assert!(new.iter().all(|write| write.is_about("memcacheds/status")), "{new:#?}");
        // `hotshoe reload` waits for the result.
        folder.put(&reworded(folder.original(), WORDS[0], WORDS[2]));
        let (status, said) = host.ask(&["reload", "memcached"]);
        assert!(status.success(), "{said}");
        all_show(&scene, 10, WORDS[2]).await;
        let lists = scene
            .audit()
            .into_iter()
            .filter(|entry| entry.verb == "list" && entry.by == hotshoe_tests::control_plane::HOST_USER);
        let lists: Vec<_> = lists.map(|entry| entry.uri).collect();
        // A component that converts is asked about the stored parents before it is activated.
        let (parents, others): (Vec<&String>, Vec<&String>) = lists.iter().partition(|uri| uri.contains("/memcacheds"));
        let begun = parents.iter().filter(|uri| !uri.contains("continue=")).count();
        assert!(begun <= 3 && others.len() <= 3, "no cache was filled again: {lists:#?}");
    });
}

#[test]
fn a_component_that_is_built_decides_once_it_is_reloaded_and_not_before() {
    run(async {
        let mut scene = scene("on-reload").await;
        let folder = Folder::of_memcached();
        let host = scene.start().await.plugins(&[folder.path()]).on_reload().ready().await;
        scene.watch_log(&host);
        scene.create(memcached("cache", 1)).await;
        all_show(&scene, 1, WORDS[0]).await;
        let first = host.digest().await;
        folder.put(&reworded(folder.original(), WORDS[0], WORDS[1]));
        // plugin.yaml is followed, and applies to the active component.
        folder.edit("  source:", "  swap: {maxLosing: 20}\n  source:");
        host.until_logged(&["plugin.yaml has changed"]).await;
        let (_, words) = host.ask(&["approve", "memcached"]);
        assert!(words.contains("nothing waits"), "{words}");
        scene.create(memcached("second", 1)).await;
        all_show(&scene, 2, WORDS[0]).await;
        assert_eq!(host.digest().await, first);
        let (status, words) = host.ask(&["reload", "memcached"]);
        assert!(status.success(), "{words}");
        all_show(&scene, 2, WORDS[1]).await;
    });
}

#[test]
fn no_change_is_lost_while_components_come_and_go_under_load() {
    run(async {
        let mut scene = scene("reload-load").await;
        let folder = Folder::of_memcached();
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        let mut sizes = std::collections::BTreeMap::new();
        for round in 0..8_usize {
            for number in 0..4 {
                let name = format!("cache-{round}-{number}");
                scene.create(memcached(&name, 1)).await;
                sizes.insert(name, 1_usize);
            }
            folder.put(&reworded(folder.original(), WORDS[0], WORDS[round % 3 + 1]));
            for (number, (name, size)) in sizes.iter_mut().enumerate().filter(|(number, _)| number % 3 == round % 3) {
                *size = (number + round) % 2 + 1;
                scene.merge(&MEMCACHED, name, json!({ "spec": { "size": *size } })).await;
            }
            if round % 2 == 0 {
                host.ask(&["reload", "memcached"]);
            }
        }
        folder.put(&reworded(folder.original(), WORDS[0], WORDS[3]));
        all_show(&scene, sizes.len(), WORDS[3]).await;
        for (name, size) in sizes {
            assert_eq!(scene.get(&DEPLOYMENT, &name).await["spec"]["replicas"], json!(size), "{name}");
        }
        // A write of a parent may conflict with a user's edit at the same moment. Nobody edits children, but the status of
        // a Deployment changes: a write that was checked against an earlier version is made again.
        let of_children = |resource: &str| matches!(resource, "deployments" | "services");
        let writes = scene.recorded_writes().await;
        let refused: Vec<_> = writes
            .iter()
            .filter(|write| write.code >= 400 && write.code != 409 && of_children(&write.resource))
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
        assert!(!host.log().contains("panicked"), "{}", host.log());
    });
}

#[test]
fn a_component_that_cannot_be_activated_leaves_the_last_good_one_active() {
    run(async {
        let mut scene = scene("broken-reload").await;
        let folder = Folder::of_memcached();
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        let good = memcached_of(&host).await["digest"].clone();
        for (number, (what, component, reason)) in unusable(folder.original()).into_iter().enumerate() {
            folder.put(&component);
            let (status, words) = host.ask(&["reload", "memcached"]);
            assert!(!status.success() && words.contains(reason), "{what}: {words}");
            let (_, words) = host.ask(&["status", "-o", "json"]);
            let status: Value = serde_json::from_str(&words).expect("JSON");
            let plugin = &status["plugins"][0];
            assert_eq!(plugin["refused"]["reason"], reason, "{what}: {plugin:#}");
            assert!(plugin["refused"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{plugin:#}");
            assert_eq!(plugin["digest"], good, "{what}");
            assert_eq!(plugin["ready"], true, "{what}: {plugin:#}");
            host.until_logged(&["ERROR", "memcached", reason]).await;
            let (_, history) = host.ask(&["history", "memcached", "-o", "json"]);
            let history: Value = serde_json::from_str(&history).expect("JSON");
            let last = history["entries"].as_array().and_then(|entries| entries.last()).expect("an entry");
            assert_eq!((&last["event"], &last["digest"]), (&json!("Refused"), &plugin["refused"]["digest"]), "{what}");
            assert!(last["message"].as_str().is_some_and(|why| why.starts_with(reason)), "{what}: {last}");
            // The last good one is active.
            let name = format!("cache-{number}");
            scene.create(memcached(&name, 1)).await;
            scene.available(&name).await;
        }
        let mine = scene.list(&MEMCACHED).await;
        assert!(mine.iter().all(|object| condition_parts(object, "Degraded").2.starts_with(WORDS[0])));
        folder.put(folder.original());
        let (status, words) = host.ask(&["reload", "memcached"]);
        assert!(status.success(), "{words}");
        assert!(memcached_of(&host).await["refused"].is_null());
    });
}

#[test]
fn a_component_file_that_is_removed_leaves_the_last_good_one_active() {
    run(async {
        let mut scene = scene("gone-component").await;
        let folder = Folder::of_memcached();
        folder.edit("file: memcached.wasm", &format!("file: {}", folder.path().join("memcached.wasm").display()));
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        std::fs::remove_file(folder.path().join("memcached.wasm")).expect("it is removed");
        let (status, words) = host.ask(&["reload", "memcached"]);
        assert!(!status.success() && words.contains("Unreadable"), "{words}");
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
    });
}

#[test]
fn a_host_without_a_good_component_says_so_and_starts_when_there_is_one() {
    run(async {
        let mut scene = scene("no-component").await;
        let folder = Folder::of_memcached();
        folder.put(b"not yet");
        scene.create(memcached("cache", 1)).await;
        let host = scene.start().await.plugins(&[folder.path()]).start();
        scene.watch_log(&host);
        host.waits_for(&["no WebAssembly component"]).await;
        assert!(host.get("/readyz").await.expect("an answer").1.starts_with("not ready: memcached;"));
        assert_eq!(host.get("/healthz").await.expect("an answer").0, 200);
        folder.put(folder.original());
        host.ready().await;
        scene.available("cache").await;
    });
}

#[test]
fn a_component_that_traps_at_its_first_call_is_not_activated() {
    run(async {
        let mut scene = scene_with_faults("trapping").await;
        let folder = Folder::of_faulty();
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        let fault = |name: &str| json!({ "apiVersion": "fixtures.example.com/v1", "kind": "Fault", "metadata": { "name": name }, "spec": { "fault": "" } });
        scene.create(fault("one")).await;
        let is_kept = |object: &Value| condition_parts(object, "Kept").0 == "True";
        scene.until_object(&FAULT, "one", "is served", is_kept).await;
        let before = scene.recorded_writes().await.len();
        let trapping = reworded(folder.original(), "this revision works", "this revision traps");
        folder.put(&trapping);
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("ApprovalRequired"), "{words}");
        let digest = Digest::of(&trapping);
        assert!(words.contains(&format!("not activated: {digest}: ")), "{words}");
        host.until_logged(&["ERROR", "ApprovalRequired", &format!("digest={digest} ")]).await;
        // The same bytes are not tried again and again.
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(scene.recorded_writes().await.len(), before, "nothing was written");
        scene.create(fault("two")).await;
        scene.until_object(&FAULT, "two", "is served", is_kept).await;
        let refusals = host.log().lines().filter(|line| line.contains("ApprovalRequired")).count();
        assert!(refusals <= 2, "{}", host.log());
    });
}
