//! What a host that does not decide about the revisions of a plugin learns from the one that does.

use std::collections::BTreeSet;

use hotshoe_core::flow::shards::shard_of;
use hotshoe_tests::faulty::fault;
use hotshoe_tests::guests::reworded;
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT};
use hotshoe_tests::{Host, Scene, run};
use serde_json::{Value, json};

use super::rig::{Rig, file};

const PARENTS: usize = 24;

fn name(number: usize) -> String {
    format!("fault-{number}")
}

#[test]
fn a_host_that_stands_by_activates_the_canary_that_the_other_host_has_activated() {
    run(async {
        let rig = Rig::with_lease("follow-canary").await;
        let guest = rig.faulty("follow-canary").await;
        let mut object = rig.object(&guest, file(&guest));
        object["spec"]["rollout"] = json!({ "canary": { "percent": 50 }, "duration": "60m" });
        rig.create(&object).await;
        let first = rig.until_ready(&guest).await["status"]["digest"].clone();
        // Some of them are in the share of the canary, which the host that stands by never has decide about them.
        for number in 0..PARENTS {
            rig.scene.create(fault(&name(number), "")).await;
        }
        for number in 0..PARENTS {
            rig.scene.until_object(&CONFIG_MAP, &name(number), "is there", |_| true).await;
        }
        let standby = rig.another_host().await;
        standby.until_logged(&["another host holds the Lease"]).await;
        guest.folder.put(&reworded(guest.folder.original(), "this revision works", "this revision slips"));
        rig.until(&guest, "has a canary", |object| object["status"]["canary"].is_object()).await;
        standby.until_logged(&["the component is the canary"]).await;
        rig.merge(&guest, json!({ "spec": { "rollout": { "duration": "1s" } } })).await;
        let is_second = |object: &Value| {
            object["status"]["canary"].is_null()
                && object["status"]["digest"].is_string()
                && object["status"]["digest"] != first
        };
        rig.until(&guest, "has the second revision", is_second).await;
        standby.until_logged(&["the host that works for the plugin has activated it"]).await;
    });
}

/// Returns the parents that a host has written, by its log.
fn parents_written_by(host: &Host, scene: &Scene) -> BTreeSet<usize> {
    let log = host.log();
    let of_parent = |number: &usize| {
        let object = format!("object=Fault.fixtures.example.com {}/{} ", scene.namespace, name(*number));
        log.lines().any(|line| format!("{line} ").contains(&object))
    };
    (0..PARENTS).filter(of_parent).collect()
}

/// Returns whether a host holds the Lease of a shard.
async fn holds(host: &Host, shard: usize) -> Result<bool, String> {
    Ok(host.status().await?["leases"][shard]["held"] == true)
}

#[test]
fn a_rollback_by_the_host_that_does_not_report_reaches_the_one_that_does() {
    run(async {
        let rig = Rig::with_shards("follow-spread", 2).await;
        let guest = rig.faulty("follow-spread").await;
        let mut object = rig.object(&guest, file(&guest));
        object["spec"]["shardBy"] = json!("Parent");
        rig.create(&object).await;
        let first = rig.until_ready(&guest).await["status"]["digest"].clone();
        let other = rig.another_host().await;
        other
            .until("each host has a shard", async || {
                let held = [holds(&rig.host, 0).await?, holds(&rig.host, 1).await?];
                let other = [holds(&other, 0).await?, holds(&other, 1).await?];
                if held[0] != held[1] && other[0] != other[1] { Ok(()) } else { Err(format!("{held:?} {other:?}")) }
            })
            .await;
        for number in 0..PARENTS {
            rig.scene.create(fault(&name(number), "")).await;
        }
        for number in 0..PARENTS {
            rig.scene.until_object(&CONFIG_MAP, &name(number), "is there", |_| true).await;
        }
        let reports = holds(&rig.host, shard_of(&guest.name, 2)).await.expect("a status");
        let (reporting, silent) = if reports { (&rig.host, &other) } else { (&other, &rig.host) };
        let of_silent = parents_written_by(silent, &rig.scene);
        assert!(!of_silent.is_empty(), "{}", silent.log());

        guest.folder.put(&reworded(guest.folder.original(), "this revision works", "this revision slips"));
        let is_second = |object: &Value| object["status"]["digest"].is_string() && object["status"]["digest"] != first;
        rig.until(&guest, "has the second revision", is_second).await;
        silent.until_plugin("it has the second revision, too", |plugin| plugin["digest"] != first).await;
        // It fails for parents of the other host only.
        for number in &of_silent {
            rig.scene.merge(&FAULT, &name(*number), json!({ "spec": { "fault": "slip" } })).await;
        }
        silent.until_logged(&["rolled back; the component stays inactive"]).await;
        let is_rolled_back = |object: &Value| {
            object["status"]["digest"] == first
                && object["status"]["revisions"]
                    .as_array()
                    .is_some_and(|revisions| revisions.iter().any(|revision| revision["state"] == "RolledBack"))
        };
        rig.until(&guest, "has the first revision again", is_rolled_back).await;
        reporting.until_plugin("it has the first revision, too", |plugin| plugin["digest"] == first).await;
        for number in of_silent {
            let is_served = |object: &Value| object["status"]["word"] == "slip";
            rig.scene.until_object(&FAULT, &name(number), "is served by the first", is_served).await;
        }
    });
}
