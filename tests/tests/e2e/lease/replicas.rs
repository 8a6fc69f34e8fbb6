//! Two hosts, of which one takes over from the other.

use std::time::{Duration, Instant};

use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED};
use hotshoe_tests::{memcached, run, wait};
use serde_json::json;

use super::{AFTER_CRASH, DURATION, holds, lease, lease_name, lease_status, requests, scene, stands_by, two};

/// The maximum time until another host takes over after a graceful stop.
const AFTER_STOP: Duration = Duration::from_secs(2);

#[test]
fn of_two_hosts_one_works_and_the_other_is_ready_and_names_it() {
    run(async {
        let scene = scene("lease-two").await;
        let (first, second) = two(&scene.start().await.shards(1)).await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        assert_eq!(second.get("/readyz").await.expect("an answer").0, 200, "it is ready to take over");
        let holder = lease(&scene).await.expect("a Lease")["spec"]["holderIdentity"].as_str().unwrap().to_owned();
        let seen = lease_status(&second).await.expect("a status");
        assert_eq!((&seen["held"], seen["holder"].as_str()), (&json!(false), Some(&*holder)), "{seen:#}");
        assert!(seen["seconds"].as_u64().is_some_and(|seconds| seconds <= DURATION.as_secs()), "{seen:#}");
        let (_, page) = second.ask(&["status"]);
        let name = lease_name(&scene);
        for words in [format!("Lease hotshoe-system/{name}: {holder} holds it"), "stands by".to_owned()] {
            assert!(page.contains(&words), "{page}");
        }
        let (_, page) = first.ask(&["status"]);
        assert!(page.contains("this host holds it"), "{page}");
        for (host, held) in [(&first, 1), (&second, 0)] {
            let (_, metrics) = host.get("/metrics").await.expect("metrics");
            let line = format!("leader_election_master_status{{name=\"hotshoe-system/{name}\"}} {held}");
            assert!(metrics.contains(&line), "{metrics}");
        }
        second.until_logged(&["INFO", "another host holds the Lease", &holder]).await;
        let process = format!("process {}", first.process());
        second.until_logged(&["INFO", "the other host writes the history", "memcached", &process]).await;
        let plugin = second.plugin().await;
        assert_eq!(plugin["ready"], true, "{plugin:#}");
        assert!(plugin["standingBy"].as_str().is_some_and(|why| why.contains(&holder)), "{plugin:#}");
        assert!(!second.log().contains("WARN"), "{}", second.log());
    });
}

#[test]
fn a_lease_costs_one_request_in_three_seconds_whatever_number_of_hosts_stand_by() {
    run(async {
        let scene = scene("lease-idle").await;
        let _hosts = two(&scene.start().await.shards(1)).await;
        let before = requests(&scene).len();
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(12)).await;
        let made = requests(&scene).split_off(before);
        let most = began.elapsed().as_secs() / 3 + 1;
        assert!((2..=most).contains(&(made.len() as u64)), "{made:#?}");
        assert!(made.iter().all(|entry| entry.verb == "update" && entry.code == 200), "{made:#?}");
    });
}

#[test]
fn after_a_crash_another_host_works_within_15_seconds_and_acts_on_what_changed_meanwhile() {
    run(async {
        let mut scene = scene("lease-crash").await;
        let (mut first, second) = two(&scene.start().await.shards(1)).await;
        for name in ["kept", "resized", "deleted"] {
            scene.create(memcached(name, 1)).await;
            scene.available(name).await;
        }
        scene.watch_log(&second);
        first.kill();
        let killed = Instant::now();
        scene.merge(&MEMCACHED, "resized", json!({ "spec": { "size": 3 } })).await;
        scene.delete(&MEMCACHED, "deleted").await;
        scene.create(memcached("new", 1)).await;
        scene
            .until_within(AFTER_CRASH, "the other host acts", async || {
                let resized = scene.get(&DEPLOYMENT, "resized").await["spec"]["replicas"] == 3;
                let gone = scene.find(&MEMCACHED, "deleted").await.is_none();
                let made = scene.find(&DEPLOYMENT, "new").await.is_some();
                let all = resized && gone && made;
                all.then_some(()).ok_or_else(|| format!("resized {resized}, gone {gone}, made {made}"))
            })
            .await;
        println!("it acts {:?} after the crash", killed.elapsed());
        assert!(killed.elapsed() <= AFTER_CRASH, "{:?}", killed.elapsed());
        second.until_logged(&["INFO", "this one writes the history of the plugin now"]).await;
    });
}

#[test]
fn after_a_clean_stop_another_host_works_within_2_seconds() {
    run(async {
        let mut scene = scene("lease-stop").await;
        let (mut first, second) = two(&scene.start().await.shards(1)).await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        scene.watch_log(&second);
        assert!(first.stop().success());
        let ended = Instant::now();
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        scene
            .until_within(AFTER_STOP, "the other host acts", async || {
                let replicas = scene.get(&DEPLOYMENT, "cache").await["spec"]["replicas"].clone();
                if replicas == 2 { Ok(()) } else { Err(replicas.to_string()) }
            })
            .await;
        println!("it acts {:?} after the end", ended.elapsed());
        assert!(first.log().contains("this host has given up the Lease"), "{}", first.log());
    });
}

#[test]
fn a_host_that_was_cut_off_for_longer_than_its_lease_writes_nothing_of_what_it_had_begun() {
    run(async {
        let mut scene = scene("lease-frozen").await;
        // Each host has its own token, by which the audit log distinguishes them.
        let first = scene.start().await.shards(1).ready().await;
        holds(&first, wait::TIMEOUT).await;
        let second = scene.start().await.shards(1).ready().await;
        stands_by(&second).await;
        for number in 0..20 {
            scene.create(memcached(&format!("cache-{number}"), 1)).await;
        }
        let token = scene
            .until("it has begun to write", async || match scene.writes().first() {
                Some(entry) => Ok(entry.token.clone()),
                None => Err("no write yet".to_owned()),
            })
            .await;
        first.freeze();
        scene.watch_log(&second);
        // By then the first host's Lease has expired, which may have been renewed a while before the host was frozen.
        holds(&second, AFTER_CRASH).await;
        for number in 0..20 {
            scene.available(&format!("cache-{number}")).await;
            scene.merge(&MEMCACHED, &format!("cache-{number}"), json!({ "spec": { "size": 2 } })).await;
        }
        for number in 0..20 {
            scene.available(&format!("cache-{number}")).await;
        }
        let is_its = |entry: &&hotshoe_tests::audit::Entry| entry.token == token;
        let before = scene.recorded_writes().await.iter().filter(is_its).count();
        first.thaw();
        first.until_logged(&["WARN", "no longer holds the Lease"]).await;
        stands_by(&first).await;
        scene.merge(&MEMCACHED, "cache-0", json!({ "spec": { "size": 3 } })).await;
        scene.available("cache-0").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let writes = scene.recorded_writes().await;
        let after: Vec<_> = writes.iter().filter(is_its).skip(before).collect();
        assert!(after.is_empty(), "{after:#?}");
        assert!(writes.iter().any(|entry| entry.token != token), "the other has another token");
    });
}

#[test]
fn a_standby_for_a_host_with_other_plugins_reports_what_is_not_served_and_what_to_do() {
    run(async {
        let scene = scene("lease-others").await;
        let start = scene.start().await.shards(1);
        let first = start.ready().await;
        holds(&first, wait::TIMEOUT).await;
        let folder = Folder::of_faulty();
        let second = start.plugins(&[folder.path()]).start();
        second.until_logged(&["WARN", "does not run faulty", "--lease-name"]).await;
        let (_, page) = second.ask(&["status"]);
        assert!(page.contains("does not run faulty"), "{page}");
    });
}

#[test]
fn a_host_that_is_the_only_one_needs_no_lease() {
    run(async {
        let mut scene = scene("lease-none").await;
        let host = scene.own_host().await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        assert_eq!(host.status().await.expect("a status")["leases"], json!([]));
        assert!(lease(&scene).await.is_none());
    });
}
