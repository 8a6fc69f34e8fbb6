//! What an account can do that may write the status of `Plugin` objects, and nothing else.

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::guests::reworded;
use hotshoe_tests::kinds::PLUGIN;
use hotshoe_tests::kube::Kube;
use hotshoe_tests::run;
use serde_json::{Value, json};

use super::rig::{Guest, Rig};

const ACCOUNT: &str = "plugin-status-writer";

/// Returns a client of an account that may write the status of `Plugin` objects, and nothing else.
async fn forger(rig: &Rig) -> Kube {
    let plane = rig.scene.plane;
    plane.create_account(ACCOUNT).await;
    let rules = json!([{ "apiGroups": ["hotshoe.dev"], "resources": ["plugins/status"], "verbs": ["patch"] }]);
    plane.grant(ACCOUNT, ACCOUNT, &rules).await;
    Kube::of(&plane.kubeconfig_of(SYSTEM, ACCOUNT).await).await
}

/// Appends an entry to the history in the status.
async fn append(forger: &Kube, guest: &Guest, entry: &Value) {
    let patch = json!([{ "op": "add", "path": "/status/history/-", "value": entry }]);
    forger.patch_status(&PLUGIN, "", &guest.name, &patch).await.expect("the status is patched");
}

fn entry(digest: &Value, event: &str, at: impl Into<Value>) -> Value {
    json!({ "digest": digest, "version": "0.1.0", "at": at.into(), "event": event })
}

fn has_forged(object: &Value) -> bool {
    let history = object["status"]["history"].as_array().cloned().unwrap_or_default();
    history.iter().any(|entry| entry["at"].to_string().contains("9999") || entry["event"] == "Approved")
}

#[test]
fn who_may_write_the_status_alone_approves_nothing() {
    run(async {
        let mut rig = Rig::with_lease("forged-approval").await;
        let (forger, guest) = (forger(&rig).await, rig.memcached("forged").await);
        rig.apply(&guest).await;
        let first = rig.until_ready(&guest).await["status"]["digest"].clone();
        rig.merge(&guest, json!({ "spec": { "mode": "Shadow" } })).await;
        guest.folder.put(&reworded(guest.folder.original(), "0.1.0", "0.1.1"));
        let waits = |object: &Value| {
            object["status"]["pending"]["reason"] == "ApprovalRequired" && object["status"]["digest"] == first
        };
        let second = rig.until(&guest, "has one that waits", waits).await["status"]["pending"]["digest"].clone();
        let mut standby = rig.another_host().await;
        standby.until_logged(&["another host holds the Lease"]).await;

        // The living holder removes it; the other one must not take it over, whatever its time.
        append(&forger, &guest, &entry(&second, "Approved", "9999-12-31T00:00:00Z")).await;
        rig.until(&guest, "has lost the entry", |object| !has_forged(object)).await;
        rig.host.kill();
        for at in ["9999-12-31T00:00:00Z", "2026-11-26T14:00:00Z"] {
            append(&forger, &guest, &entry(&second, "Approved", at)).await;
            append(&forger, &guest, &entry(&second, "Activated", at)).await;
        }
        // The other one has the Lease now, and writes the status.
        let is_mended = |object: &Value| !has_forged(object) && waits(object);
        rig.until(&guest, "has no forged entry, and the second waits", is_mended).await;

        // A host without any files believes no status either.
        standby.kill();
        append(&forger, &guest, &entry(&second, "Approved", "2026-11-26T14:00:00Z")).await;
        append(&forger, &guest, &entry(&first, "RolledBack", "2026-11-26T14:00:00Z")).await;
        rig.replace_host().await;
        // The component of before was a file, which a host with an empty cache does not have.
        let still_waits = |object: &Value| {
            object["status"]["pending"]["reason"] == "ApprovalRequired" && object["status"]["digest"].is_null()
        };
        let after = rig.until(&guest, "waits still", |object| !has_forged(object) && still_waits(object)).await;
        let states = after["status"]["revisions"].to_string();
        assert!(!states.contains("RolledBack"), "{after:#}");
    });
}

#[test]
fn a_time_that_no_clock_reaches_stops_no_plugin() {
    run(async {
        let mut rig = Rig::new("forged-time").await;
        let (forger, guest) = (forger(&rig).await, rig.memcached("time").await);
        rig.apply(&guest).await;
        let first = rig.until_ready(&guest).await["status"]["digest"].clone();
        rig.host.kill();
        let other = json!("ab".repeat(32));
        let entries = [
            entry(&other, "Activated", "2026-11-26T14:00:00Z"),
            entry(&first, "Activated", 10_000_000_000_000_000_000_u64),
        ];
        for entry in &entries {
            append(&forger, &guest, entry).await;
        }
        // Not even an administrator's annotation with such a time stops the plugin.
        let object = rig.until(&guest, "is there", |_| true).await;
        let remembered = json!({ "uid": object["metadata"]["uid"], "history": entries }).to_string();
        rig.merge(&guest, json!({ "metadata": { "annotations": { "hotshoe.dev/history": remembered } } })).await;
        rig.replace_host().await;
        let ready = rig.until(&guest, "is mended", |object| {
            let text = object.to_string();
            object["status"]["digest"] == first && !text.contains("10000000000000000000") && !text.contains("1e+19")
        });
        ready.await;
        rig.until_ready(&guest).await;
    });
}
