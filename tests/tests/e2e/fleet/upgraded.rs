//! A host that takes over from one that offered another version of the contract.

use hotshoe_core::model::digest::Digest;
use hotshoe_tests::guests::reworded;
use hotshoe_tests::kinds::{DEPLOYMENT, FAULT, MEMCACHED, PLUGIN};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{faulty, memcached, run};
use serde_json::{Value, json};

use super::rig::{Guest, Rig};

/// The contract of the component, and one that this host does not offer.
const OFFERED: &str = "hotshoe:reconciler/reconciler@0.1.0";
const NOT_OFFERED: &str = "hotshoe:reconciler/reconciler@0.9.0";

/// Makes a guest's component one that was activated by a host which offered another contract: its file, and all that the
/// object remembers of it.
async fn activated_by_another_host(rig: &Rig, guest: &Guest) {
    let other = reworded(guest.folder.original(), OFFERED, NOT_OFFERED);
    let [before, after] = [guest.folder.original(), &other].map(|component| Digest::of(component).full());
    guest.folder.put(&other);
    let object = rig.scene.admin.get(&PLUGIN, "", &guest.name).await.expect("the Plugin");
    let of_other: Value = serde_json::from_str(&object.to_string().replace(&before, &after)).expect("JSON");
    assert_ne!(object["status"], of_other["status"]);
    let annotations = json!({ "metadata": { "annotations": of_other["metadata"]["annotations"] } });
    rig.merge(guest, annotations).await;
    let (path, status) =
        (format!("{}/status", PLUGIN.path("", Some(&guest.name))), json!({ "status": of_other["status"] }));
    let patched = rig.scene.admin.request(http::Method::PATCH, &path, "application/merge-patch+json", &status).await;
    patched.expect("the status is written");
}

/// Returns what identifies an object and its content: that it was neither written nor made anew.
fn identity(object: &Value) -> [Value; 3] {
    ["uid", "resourceVersion", "finalizers"].map(|field| object["metadata"][field].clone())
}

#[test]
fn a_host_that_does_not_offer_the_contract_of_an_active_component_says_so_and_leaves_its_parents_as_they_are() {
    run(async {
        let mut rig = Rig::new("upgraded").await;
        let (guest, beside) = (rig.memcached("upgraded").await, rig.faulty("beside").await);
        for plugin in [&guest, &beside] {
            rig.apply(plugin).await;
            rig.until_ready(plugin).await;
        }
        rig.scene.create(memcached("served", 2)).await;
        rig.scene.available("served").await;
        rig.host.kill();
        activated_by_another_host(&rig, &guest).await;
        let parent = rig.scene.get(&MEMCACHED, "served").await;
        let child = rig.scene.get(&DEPLOYMENT, "served").await;
        assert!(identity(&parent)[2].is_array(), "it has the finalizer: {parent:#}");

        rig.replace_host().await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "ContractMismatch").await;
        let message = condition_parts(&stalled, "Stalled").2;
        let needs = "needs hotshoe:reconciler@0.9.0, this host offers 0.1.0 and 0.2.0";
        let next = "build it again with an SDK for one of these, or keep the host that it ran on";
        assert!(message.contains(needs) && message.contains(next), "{message}");
        assert_eq!(condition_parts(&stalled, "Ready").0, "False", "{stalled:#}");
        // The other plugin serves, also what is made now.
        rig.until_ready(&beside).await;
        faulty::serves(&rig.scene, "other").await;
        rig.scene.delete(&FAULT, "other").await;
        rig.scene.gone(&FAULT, "other").await;
        // What was asked meanwhile waits: a parent that is deleted keeps its finalizer, and its children.
        assert_eq!(identity(&rig.scene.get(&MEMCACHED, "served").await), identity(&parent));
        assert_eq!(identity(&rig.scene.get(&DEPLOYMENT, "served").await), identity(&child));
        rig.scene.delete(&MEMCACHED, "served").await;
        rig.scene.create(memcached("later", 1)).await;
        faulty::serves(&rig.scene, "another").await;
        let deleted = rig.scene.get(&MEMCACHED, "served").await;
        assert!(deleted["metadata"]["deletionTimestamp"].is_string(), "{deleted:#}");
        assert_eq!(deleted["metadata"]["finalizers"], parent["metadata"]["finalizers"]);
        assert_eq!(identity(&rig.scene.get(&DEPLOYMENT, "served").await), identity(&child));

        // Built again.
        guest.folder.put(guest.folder.original());
        rig.until_ready(&guest).await;
        rig.scene.gone(&MEMCACHED, "served").await;
        rig.scene.gone(&DEPLOYMENT, "served").await;
        rig.scene.available("later").await;
    });
}
