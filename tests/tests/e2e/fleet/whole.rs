//! All of it together: a `Plugin` from a registry, a bad second version that is stopped as a canary, and two replicas,
//! one of which is killed.

use std::time::Duration;

use hotshoe_tests::faulty::fault;
use hotshoe_tests::guests::reworded;
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT};
use hotshoe_tests::{Registry, run};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::images::push;
use super::rig::Rig;

/// The maximum time until another replica takes over after a crash and has made its first decision.
const TAKEN_OVER: Duration = Duration::from_secs(20);

#[test]
fn a_plugin_of_a_registry_outlives_a_bad_version_and_a_killed_replica() {
    run(async {
        const COUNT: usize = 12;
        let mut rig = Rig::with_lease("whole").await;
        let (registry, docker) = (Registry::start(), TempDir::new().expect("a folder"));
        let guest = rig.faulty("whole").await;
        let image = push(&registry, guest.folder.original(), "stable", docker.path());
        let mut object = rig.object(&guest, json!({ "oci": image, "interval": "10s" }));
        object["spec"]["rollout"] = json!({ "canary": { "percent": 50 }, "duration": "60m" });
        rig.create(&object).await;
        let first = rig.until_ready(&guest).await["status"]["digest"].clone();
        for number in 0..COUNT {
            rig.scene.create(fault(&format!("fault-{number}"), "")).await;
        }
        let name = |number: usize| format!("fault-{number}");
        for number in 0..COUNT {
            rig.scene.until_object(&CONFIG_MAP, &name(number), "is there", |_| true).await;
        }
        let standby = rig.another_host().await;
        standby.until_logged(&["another host holds the Lease"]).await;

        // The second version serves the existing parents, and fails on later ones.
        let bad = reworded(guest.folder.original(), "this revision works", "this revision slips");
        push(&registry, &bad, "stable", docker.path());
        let canary = rig.until(&guest, "has a canary", |object| object["status"]["canary"].is_object()).await;
        assert_eq!(canary["status"]["digest"], first, "{:#}", canary["status"]);
        for number in 0..COUNT {
            rig.scene.merge(&FAULT, &name(number), json!({ "spec": { "fault": "slip" } })).await;
        }
        let is_rolled_back = |object: &Value| {
            object["status"]["canary"].is_null() && object["status"]["pending"]["reason"] == "RolledBack"
        };
        let stopped = rig.until(&guest, "has stopped the canary", is_rolled_back).await;
        assert_eq!(stopped["status"]["digest"], first, "{:#}", stopped["status"]);
        let event = rig.until_event(&guest, "RolledBack", "").await;
        assert_eq!(
            (&event["type"], &event["involvedObject"]["kind"]),
            (&json!("Warning"), &json!("Plugin")),
            "{event:#}"
        );
        for number in 0..COUNT {
            let is_served = |object: &Value| object["status"]["word"] == "slip";
            rig.scene.until_object(&FAULT, &name(number), "is served by the first", is_served).await;
        }

        rig.host.kill();
        rig.scene.merge(&FAULT, &name(0), json!({ "spec": { "fault": "after" } })).await;
        rig.scene
            .until_within(TAKEN_OVER, "the other replica serves", async || {
                let object = rig.scene.get(&FAULT, &name(0)).await;
                match object["status"]["word"].as_str() {
                    Some("after") => Ok(()),
                    _ => Err(format!("{:#}", object["status"])),
                }
            })
            .await;
        // The replica knows that the killed one had rolled back the second version.
        rig.until_ready(&guest).await;
        let is_known = |object: &Value| object["status"]["pending"]["reason"] == "RolledBack";
        let after = rig.until(&guest, "knows what was rolled back", is_known).await;
        assert_eq!(after["status"]["digest"], first, "{:#}", after["status"]);
    });
}
