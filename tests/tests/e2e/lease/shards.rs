//! Several hosts work at once, each for a part of the parents.

use std::collections::BTreeSet;
use std::time::Duration;

use hotshoe_tests::guests::Folder;
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED};
use hotshoe_tests::{Host, Scene, memcached, run, wait};
use serde_json::{Value, json};

use super::{AFTER_CRASH, scene};

const PARENTS: usize = 24;

/// Returns the number of Leases that a host holds.
async fn held(host: &Host) -> Result<usize, String> {
    let status = host.status().await?;
    let leases = status["leases"].as_array().cloned().unwrap_or_default();
    Ok(leases.iter().filter(|lease| lease["held"] == true).count())
}

async fn until_held(hosts: &[&Host], expected: &[usize]) {
    let what = format!("the hosts hold {expected:?} Leases");
    let shared = wait::attempt(wait::TIMEOUT, async || {
        let mut found = Vec::new();
        for host in hosts {
            found.push(held(host).await?);
        }
        found.sort_unstable();
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    });
    if let Err(seen) = shared.await {
        let logs: Vec<String> = hosts.iter().map(|host| host.log()).collect();
        panic!("waited until {what}; seen last: {seen}\n{}", logs.join("\n"));
    }
}

/// Returns the parents of a scene that a host has written, by its log.
fn parents_written_by(host: &Host, scene: &Scene) -> BTreeSet<String> {
    let log = host.log();
    let of_parent = |number: &usize| {
        let object = format!("object=Memcached.cache.example.com {}/cache-{number} ", scene.namespace);
        log.lines().any(|line| format!("{line} ").contains(&object))
    };
    (0..PARENTS).filter(of_parent).map(|number| format!("cache-{number}")).collect()
}

/// Returns the options for a host that shards the parents of its scene one by one.
async fn start_sharded(scene: &Scene, folder: &Folder) -> Start {
    scene.start().await.plugins(&[folder.path()]).shards(2)
}

fn folder() -> Folder {
    let folder = Folder::of_memcached();
    folder.edit("\nspec:\n", "\nspec:\n  shardBy: Parent\n");
    folder
}

#[test]
fn two_hosts_hold_a_shard_each_and_one_takes_over_when_the_other_ends() {
    run(async {
        let mut scene = scene("lease-shards").await;
        let folder = folder();
        let start = start_sharded(&scene, &folder).await;
        let first = start.ready().await;
        scene.watch_log(&first);
        until_held(&[&first], &[2]).await;
        for number in 0..PARENTS / 2 {
            scene.create(memcached(&format!("cache-{number}"), 1)).await;
        }
        let mut second = start.ready().await;
        until_held(&[&first, &second], &[1, 1]).await;
        for number in PARENTS / 2..PARENTS {
            scene.create(memcached(&format!("cache-{number}"), 1)).await;
        }
        for number in 0..PARENTS {
            scene.available(&format!("cache-{number}")).await;
        }
        let (of_first, of_second) = (parents_written_by(&first, &scene), parents_written_by(&second, &scene));
        assert!(!of_first.is_empty() && of_second.len() > 1, "{of_first:?} {of_second:?}");
        // Without changes, the two hosts write nothing.
        let writes = scene.recorded_writes().await.len();
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(scene.recorded_writes().await.len(), writes);
        second.kill();
        for number in 0..PARENTS {
            scene.merge(&MEMCACHED, &format!("cache-{number}"), json!({ "spec": { "size": 2 } })).await;
        }
        scene
            .until_within(AFTER_CRASH + Duration::from_secs(5), "one host serves all", async || {
                let is_resized = |deployment: &Value| deployment["spec"]["replicas"] == 2;
                let resized = scene.list(&DEPLOYMENT).await.iter().filter(|it| is_resized(it)).count();
                if resized == PARENTS { Ok(()) } else { Err(format!("{resized}")) }
            })
            .await;
        until_held(&[&first], &[2]).await;
    });
}

#[test]
fn hosts_that_shard_the_parents_differently_do_not_work_side_by_side() {
    run(async {
        let mut scene = scene("lease-mixed").await;
        let mut first = scene.start().await.shards(1).ready().await;
        super::holds(&first, wait::TIMEOUT).await;
        let second = scene.start().await.shards(2).ready().await;
        scene.watch_log(&second);
        second.until_logged(&["WARN", "spreads the parents over shards in another way", "stop all hosts"]).await;
        assert_eq!(held(&second).await, Ok(0));
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        assert!(first.stop().success());
        until_held(&[&second], &[2]).await;
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        scene.available("cache").await;
    });
}

#[test]
fn of_two_hosts_with_different_shard_counts_that_start_together_only_one_works() {
    run(async {
        let mut scene = scene("lease-at-once").await;
        let start = scene.start().await;
        let (first, second) = (start.clone().shards(1).start(), start.shards(2).start());
        scene.watch_log(&second);
        first.ready().await;
        second.ready().await;
        let alone = async || {
            let held = (held(&first).await?, held(&second).await?);
            if matches!(held, (1, 0) | (0, 2)) { Ok(held) } else { Err(format!("{held:?}")) }
        };
        let before = scene.until("one of them has all", alone).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(alone().await, Ok(before));
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
    });
}

#[test]
fn a_change_of_how_parents_are_sharded_is_refused_while_the_host_runs() {
    run(async {
        let mut scene = scene("lease-respread").await;
        let folder = folder();
        let host = start_sharded(&scene, &folder).await.ready().await;
        scene.watch_log(&host);
        folder.edit("\n  shardBy: Parent\n", "\n");
        let is_refused =
            |plugin: &Value| plugin["pluginFile"]["refused"].as_str().is_some_and(|it| it.contains("shardBy"));
        host.until_plugin("the file is refused", is_refused).await;
    });
}
