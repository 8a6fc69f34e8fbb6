//! Two hosts with Leases of their own that see the same `Plugin` object.

use hotshoe_tests::kinds::DEPLOYMENT;
use hotshoe_tests::{Host, memcached, run};
use serde_json::{Value, json};

use super::rig::{Guest, LABEL, Rig};

async fn until_claimed(rig: &Rig, guest: &Guest, lease: &str) -> Value {
    let lease = format!("hotshoe-system/{lease}-{}", rig.scene.namespace);
    rig.until(guest, &format!("is claimed by {lease}"), |object| object["status"]["lease"] == *lease).await
}

async fn serves(rig: &Rig, host: &Host, guest: &Guest, name: &str) {
    host.until("it runs the plugin", async || host.plugin_named(&guest.name).await.map(drop)).await;
    rig.scene.create(memcached(name, 1)).await;
    rig.scene.available(name).await;
}

#[test]
fn of_two_hosts_whose_selectors_overlap_one_serves_until_its_lease_has_expired() {
    run(async {
        let mut rig = Rig::with_lease("overlapping").await;
        let guest = rig.memcached("overlapping").await;
        rig.apply(&guest).await;
        rig.until_ready(&guest).await;
        until_claimed(&rig, &guest, "hotshoe").await;

        let second = rig.host_of_lease("second", &rig.scene.namespace).await;
        second.until_logged(&["WARN", &guest.name, "hosts of the Lease", "selectors"]).await;
        rig.until_event(&guest, "OtherHost", "waits until that Lease has expired").await;
        serves(&rig, &rig.host, &guest, "first").await;
        let nothing = second.plugin_named(&guest.name).await;
        assert!(nothing.is_err(), "{nothing:?}");

        rig.host.kill();
        until_claimed(&rig, &guest, "second").await;
        rig.until_ready(&guest).await;
        serves(&rig, &second, &guest, "second").await;
    });
}

#[test]
fn a_claim_that_is_written_into_the_status_by_hand_stops_no_plugin() {
    run(async {
        let rig = Rig::with_lease("claimed-by-hand").await;
        let guest = rig.memcached("claimed-by-hand").await;
        rig.apply(&guest).await;
        rig.until_ready(&guest).await;
        let forged = json!([{ "op": "replace", "path": "/status/lease", "value": "kube-system/elsewhere" }]);
        let kind = hotshoe_tests::kinds::PLUGIN;
        rig.scene.admin.patch_status(&kind, "", &guest.name, &forged).await.expect("the status is patched");
        until_claimed(&rig, &guest, "hotshoe").await;
        serves(&rig, &rig.host, &guest, "served").await;
        assert!(!rig.host.log().contains("the plugin is stopped"), "{}", rig.host.log());
    });
}

#[test]
fn a_relabelled_object_passes_to_the_host_that_selects_it_now() {
    run(async {
        let rig = Rig::with_lease("relabelled").await;
        let other = format!("{}-other", rig.scene.namespace);
        let second = rig.host_of_lease("second", &other).await;
        let guest = rig.memcached("relabelled").await;
        rig.apply(&guest).await;
        rig.until_ready(&guest).await;
        serves(&rig, &rig.host, &guest, "first").await;

        rig.merge(&guest, json!({ "metadata": { "labels": { LABEL: other } } })).await;
        until_claimed(&rig, &guest, "second").await;
        serves(&rig, &second, &guest, "second").await;
        assert!(rig.host.plugin_named(&guest.name).await.is_err(), "the first host has stopped it");
        assert!(rig.scene.find(&DEPLOYMENT, "first").await.is_some());
    });
}
