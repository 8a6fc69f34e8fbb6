//! Several plugins that attack one host at once, beside a healthy one.

use hotshoe_components::slow_to_compile;
use hotshoe_core::model::digest::Digest;
use hotshoe_tests::attacks::named;
use hotshoe_tests::guests::{self, Folder, attacker};
use hotshoe_tests::kinds::{ATTACK, DEPLOYMENT, MEMCACHED};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, Scene, memcached, run};
use serde_json::{Value, json};

use super::plane;
use super::rig::attack;

/// As many plugins as may be slow at once, and two more.
const ATTACKERS: usize = 6;

/// The row of the table whose harm needs many parents.
const ROW: &str = "status of 60 KB for each of many parents";

/// How often the healthy parent is changed meanwhile.
const ROUNDS: usize = 12;

/// A parent of one of the attackers.
fn parent_of(number: usize, name: &str, word: &str) -> Value {
    let mut parent = attack(name, word);
    parent["metadata"]["labels"] = json!({ "attacker": attacker(number) });
    parent
}

/// Starts a host with a healthy plugin and these that attack.
async fn host(scene: &mut Scene, folders: &[Folder], memory: &'static str) -> Host {
    let plane = scene.plane;
    for name in (1..=folders.len()).map(attacker) {
        plane.create_account(&name).await;
        plane.allow_impersonation(&name).await;
        plane.bind(&name, "tests-hostile", &scene.namespace).await;
    }
    let healthy = guests::memcached();
    let plugins: Vec<_> = [healthy.as_path()].into_iter().chain(folders.iter().map(Folder::path)).collect();
    let host = scene.start().await.plugins(&plugins).memory(memory).start();
    // One after the other: each has its own component, which the first run of this test has to compile.
    for name in (1..=folders.len()).map(attacker) {
        host.until(&format!("{name} is ready"), async || {
            let plugin = host.plugin_named(&name).await?;
            if plugin["ready"] == true { Ok(()) } else { Err(format!("{plugin:#}")) }
        })
        .await;
    }
    host.ready().await;
    scene.watch_log(&host);
    host
}

/// Changes the healthy parent, and waits until its child is as desired.
async fn serves(scene: &Scene, round: usize) {
    let size = round % 2 + 1;
    scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": size } })).await;
    scene.until_object(&DEPLOYMENT, "cache", "is resized", |object| object["spec"]["replicas"] == json!(size)).await;
}

/// Returns the sum of a metric of a plugin over its other labels.
async fn metric(host: &Host, name: &str, plugin: &str) -> u64 {
    let line = format!("{name}{{controller=\"{plugin}\"");
    let (_, metrics) = host.get("/metrics").await.expect("metrics");
    let found = metrics.lines().filter(|found| found.starts_with(&line));
    found.filter_map(|found| found.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Returns the number of calls of a plugin that have ended.
async fn calls(host: &Host, plugin: &str) -> u64 {
    metric(host, "hotshoe_plugin_call_seconds_count", plugin).await
}

#[test]
fn six_plugins_that_are_slow_at_once_delay_no_seventh_that_is_quick() {
    run(async {
        let mut scene = Scene::new(plane().await, "several-slow").await;
        let folders: Vec<_> = (1..=ATTACKERS).map(Folder::of_attacker).collect();
        // The calls take seconds and succeed, so that neither the deadline nor the circuit breaker stops them.
        folders
            .iter()
            .for_each(|folder| folder.edit("    compileTime: 3s\n", "    compileTime: 3s\n    callTime: 5s\n"));
        let host = host(&mut scene, &folders, "1Gi").await;
        scene.create(memcached("cache", 1)).await;
        serves(&scene, 1).await;
        for number in 1..=ATTACKERS {
            for parent in ["a", "b"] {
                scene.create(parent_of(number, &format!("{parent}-{number}"), "very slow")).await;
            }
        }
        let ended = async || {
            let mut ended = 0;
            for name in (1..=ATTACKERS).map(attacker) {
                ended += calls(&host, &name).await;
            }
            ended
        };
        host.until("slow calls are made", async || match ended().await {
            0 => Err("none has ended".to_owned()),
            _ => Ok(()),
        })
        .await;
        let before = (calls(&host, "memcached").await, ended().await);
        for round in 0..ROUNDS {
            serves(&scene, round).await;
        }
        let (quick, slow) = (calls(&host, "memcached").await - before.0, ended().await - before.1);
        // If a call of the healthy plugin had to wait for the slot of a slow one, a slow one would end for each of them.
        assert!(slow < quick, "{slow} slow calls ended during {quick} calls of the healthy plugin");
        for number in 1..=ATTACKERS {
            for parent in ["a", "b"] {
                let is_served = |object: &Value| object["status"]["word"] == "good";
                scene.until_object(&ATTACK, &format!("{parent}-{number}"), "is served", is_served).await;
            }
        }
    });
}

#[test]
fn two_plugins_that_attack_at_once_in_two_ways_delay_no_third() {
    run(async {
        let mut scene = Scene::new(plane().await, "several-two").await;
        let folders = [Folder::of_attacker(1), Folder::of_attacker(2)];
        folders[0].edit("    compileTime: 3s\n", "    compileTime: 3s\n    callTime: 5s\n");
        let host = host(&mut scene, &folders, "1Gi").await;
        scene.create(memcached("cache", 1)).await;
        serves(&scene, 1).await;
        // One attack uses processor time, the other the API server.
        scene.create(parent_of(1, "slow", "very slow")).await;
        scene.create(parent_of(2, "large", "many large children")).await;
        host.until("both attack", async || {
            let slow = calls(&host, &attacker(1)).await;
            let delayed = metric(&host, "hotshoe_plugin_writes_delayed_total", &attacker(2)).await;
            if slow > 0 && delayed > 0 { Ok(()) } else { Err(format!("{slow} calls, {delayed} delayed writes")) }
        })
        .await;
        for round in 0..ROUNDS {
            serves(&scene, round).await;
        }
    });
}

#[test]
fn a_plugin_with_large_statuses_is_stopped_at_its_share_of_the_memory_and_another_is_not() {
    run(async {
        let mut scene = Scene::new(plane().await, "several-statuses").await;
        let folders = [Folder::of_attacker(1)];
        // The two plugins share 18Mi, of which each may have half: fewer than 160 such statuses.
        let (host, most, parents) = (host(&mut scene, &folders, "24Mi").await, 9 << 20, 200);
        host.until_logged(&["the plugins may take", "may have 24Mi (--memory)"]).await;
        scene.create(memcached("cache", 1)).await;
        for number in 0..parents {
            scene.create(parent_of(1, &format!("flood-{number}"), "large status")).await;
        }
        let last = format!("flood-{}", parents - 1);
        let refused = scene.until_condition_of(&ATTACK, &last, "Reconciled", "False", named(ROW).reason).await;
        let message = condition_parts(&refused, "Reconciled").2;
        assert!(message.contains("all plugins share (hostile "), "{message}");
        assert!(refused["status"]["word"].is_null(), "{:#}", refused["status"]["conditions"]);
        for round in 0..ROUNDS {
            serves(&scene, round).await;
        }
        let held = metric(&host, "hotshoe_plugin_memory_bytes", "hostile").await;
        // Ten reconciles may be under way at once, each of which was admitted without regard to the others.
        assert!(held < most + 10 * 64 * 1024, "{held} bytes are held for it");
        assert!(metric(&host, "hotshoe_plugin_memory_limit_bytes", "memcached").await > 4 << 20);
        let (_, words) = host.ask(&["status"]);
        assert!(words.contains("of the memory that all plugins share"), "{words}");
        // A change that needs no more memory is still written.
        let served = "flood-0";
        scene.until_object(&ATTACK, served, "is served", |object| object["status"]["word"].is_string()).await;
        scene.merge(&ATTACK, served, json!({ "spec": { "attack": "" } })).await;
        scene.until_object(&ATTACK, served, "is served", |object| object["status"]["word"] == "good").await;
    });
}

#[test]
fn two_plugins_that_hold_all_that_they_may_and_are_reloaded_at_once_stay_within_the_memory() {
    run(async {
        let mut scene = Scene::new(plane().await, "several-full").await;
        let folders = [Folder::of_attacker(1), Folder::of_attacker(2)];
        folders.iter().for_each(|folder| folder.edit("    compileTime: 3s\n", "    compileTime: 60s\n"));
        // The plugins share 72Mi, of which these two may have 24Mi each.
        let (host, memory, parents) = (host(&mut scene, &folders, "96Mi").await, 96 << 10, 45);
        scene.create(memcached("cache", 1)).await;
        serves(&scene, 1).await;
        let body = json!({ "data": { "text": "x".repeat(300_000) } }).to_string();
        for name in (0..parents).map(|number| format!("full-{number}")) {
            for attacker in 1..=2 {
                let name = format!("{name}-{attacker}");
                let mut parent = parent_of(attacker, &name, "dictated");
                parent["spec"]["children"] =
                    json!([{ "group": "", "version": "v1", "kind": "ConfigMap", "name": name, "body": body }]);
                scene.create(parent).await;
            }
        }
        for attacker in 1..=2 {
            let last = format!("full-{}-{attacker}", parents - 1);
            let refused = scene.until_condition_of(&ATTACK, &last, "Reconciled", "False", "LimitExceeded").await;
            let message = condition_parts(&refused, "Reconciled").2;
            assert!(message.contains("that all plugins share"), "{message}");
        }
        let large = |folder: &Folder| slow_to_compile(folder.original(), 1_000);
        folders.iter().for_each(|folder| folder.put(&large(folder)));
        for (number, folder) in folders.iter().enumerate() {
            let (name, digest) = (attacker(number + 1), Digest::of(&large(folder)).full());
            host.until(&format!("the component of {name} is active"), async || {
                let plugin = host.plugin_named(&name).await?;
                if plugin["digest"] == digest { Ok(()) } else { Err(format!("{plugin:#}")) }
            })
            .await;
        }
        for round in 0..ROUNDS {
            serves(&scene, round).await;
            // Pages of files can be evicted. They are those of the program and of native code.
            let anonymous = host.memory("RssAnon");
            assert!(anonymous < memory, "{anonymous} kB are resident");
        }
    });
}
