//! A Lease is deleted or edited by hand while hosts work by it.

use std::time::{Duration, Instant};

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::kinds::{DEPLOYMENT, LEASE, MEMCACHED};
use hotshoe_tests::{memcached, run};
use serde_json::json;

use super::{DURATION, holds, lease, lease_name, scene, two};

#[test]
fn a_deleted_lease_is_recreated_at_once_with_one_holder() {
    run(async {
        let mut scene = scene("lease-deleted").await;
        let (first, second) = two(&scene.start().await.shards(1)).await;
        scene.watch_log(&first);
        let before = lease(&scene).await.expect("a Lease");
        scene.admin.delete(&LEASE, SYSTEM, &lease_name(&scene)).await.expect("it is deleted");
        let after = scene
            .until_within(Duration::from_secs(3), "there is a new one", async || match lease(&scene).await {
                Some(lease) if lease["metadata"]["uid"] != before["metadata"]["uid"] => Ok(lease),
                lease => Err(format!("{lease:?}")),
            })
            .await;
        assert_eq!(after["spec"]["holderIdentity"], before["spec"]["holderIdentity"], "its holder was first");
        holds(&first, Duration::from_secs(5)).await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let both = [&first, &second].map(|host| host.log().matches("this host holds the Lease").count());
        assert_eq!(both, [2, 0], "the second never had it");
    });
}

#[test]
fn a_host_whose_lease_is_given_away_by_hand_stops_and_takes_it_back_once_it_expires() {
    run(async {
        let mut scene = scene("lease-edited").await;
        let host = scene.start().await.shards(1).ready().await;
        scene.watch_log(&host);
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let lists = || {
            let audit = scene.audit();
            audit.iter().filter(|entry| entry.is_about("memcacheds") && entry.verb == "list").count()
        };
        let (process, lists_before) = (host.process(), lists());
        // By this time it would have expired a year ago; but no host compares another host's clock with its own.
        let edit = json!({ "spec": { "holderIdentity": "stranger", "renewTime": "2020-01-01T00:00:00.000000Z" } });
        let edited = Instant::now();
        scene.admin.merge(&LEASE, SYSTEM, &lease_name(&scene), &edit).await.expect("it is edited");
        host.until_logged(&["WARN", "no longer holds the Lease"]).await;
        let said = host.until("it says who holds it", async || {
            let status = host.status().await?;
            let lease = status["leases"][0].clone();
            if lease["holder"] == "stranger" { Ok(status) } else { Err(format!("{lease:#}")) }
        });
        let status = said.await;
        assert_eq!(status["ready"], true, "it stands by: {status:#}");
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        let began = scene.recorded_writes().await.len();
        while edited.elapsed() < DURATION - Duration::from_secs(2) {
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(scene.get(&DEPLOYMENT, "cache").await["spec"]["replicas"], 1, "after {:?}", edited.elapsed());
        }
        assert_eq!(scene.recorded_writes().await.len(), began, "it writes nothing");
        holds(&host, Duration::from_secs(6)).await;
        assert!(edited.elapsed() >= DURATION - Duration::from_secs(1), "{:?}", edited.elapsed());
        scene.available("cache").await;
        assert_eq!(scene.get(&DEPLOYMENT, "cache").await["spec"]["replicas"], 2);
        assert_eq!((host.process(), lists()), (process, lists_before), "process and caches are the same");
    });
}

#[test]
fn a_lease_whose_renewal_lies_in_the_future_is_taken_when_it_has_not_changed_for_its_duration() {
    run(async {
        let mut scene = scene("lease-skewed").await;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": lease_name(&scene), "namespace": SYSTEM, "labels": { "hotshoe.dev/lease": lease_name(&scene) },
            },
            "spec": {
                "holderIdentity": "ahead", "leaseDurationSeconds": 10, "leaseTransitions": 3,
                "renewTime": "2999-01-01T00:00:00.000000Z",
            },
        });
        scene.admin.create(&lease).await.expect("a Lease");
        let began = Instant::now();
        let host = scene.start().await.shards(1).ready().await;
        scene.watch_log(&host);
        holds(&host, DURATION + Duration::from_secs(10)).await;
        assert!(began.elapsed() >= DURATION - Duration::from_secs(1), "{:?}", began.elapsed());
        let now = super::lease(&scene).await.expect("a Lease");
        assert_eq!(now["spec"]["leaseTransitions"], 4);
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
    });
}

#[test]
fn a_lease_without_the_label_of_the_hosts_is_found_and_labelled() {
    run(async {
        let mut scene = scene("lease-unlabelled").await;
        let (first, _second) = two(&scene.start().await.shards(1)).await;
        scene.watch_log(&first);
        let edit = json!({ "metadata": { "labels": null } });
        scene.admin.merge(&LEASE, SYSTEM, &lease_name(&scene), &edit).await.expect("it is edited");
        scene
            .until("it has its label again", async || {
                let label = lease(&scene).await.expect("a Lease")["metadata"]["labels"]["hotshoe.dev/lease"].clone();
                if label.is_string() { Ok(()) } else { Err(label.to_string()) }
            })
            .await;
        holds(&first, Duration::from_secs(15)).await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
    });
}
