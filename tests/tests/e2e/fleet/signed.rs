//! Which components may be active after the signers that `spec.source.verify` accepts have changed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotshoe_core::model::digest::Digest;
use hotshoe_tests::faulty::fault;
use hotshoe_tests::guests::reworded;
use hotshoe_tests::kinds::{CONFIG_MAP, DEPLOYMENT, FAULT, MEMCACHED};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Registry, memcached, run};
use serde_json::{Value, json};

use super::rig::{Guest, Rig};
use crate::registry::Desk;
use crate::registry::signatures::{PREDICATE, sign_simply, sign_with_bundle};

/// A registry, and a desk with the keys `old` and `new`.
struct Signers {
    registry: Registry,
    desk: Desk,
}

impl Signers {
    fn new() -> Self {
        let (registry, desk) = (Registry::start(), Desk::new());
        ["old", "new"].iter().for_each(|key| desk.key(key));
        Self { registry, desk }
    }

    /// Pushes a component under the one tag, and returns the digest of its image.
    fn push(&self, component: &[u8]) -> String {
        self.desk.write("a.wasm", component);
        self.desk.push(&self.registry)
    }

    fn sign(&self, key: &str, image: &str) {
        sign_simply(&self.desk, &self.registry, key, image, image);
    }

    /// Signs an image that is signed [simply](Self::sign) already.
    fn sign_too(&self, key: &str, image: &str) {
        sign_with_bundle(&self.desk, &self.registry, key, image, image, PREDICATE);
    }

    fn verify(&self, keys: &[&str]) -> Value {
        let keys = keys.iter().map(|key| String::from_utf8(self.desk.read(&format!("{key}.pub"))).expect("PEM"));
        json!({ "keys": keys.collect::<Vec<_>>() })
    }

    fn source(&self, keys: &[&str]) -> Value {
        json!({ "oci": self.registry.image("a:1"), "interval": "10s", "verify": self.verify(keys) })
    }

    /// The SHA-256 of a public key in DER.
    fn key_digest(&self, key: &str) -> String {
        let pem = String::from_utf8(self.desk.read(&format!("{key}.pub"))).expect("PEM");
        let text: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let der = STANDARD.decode(text).expect("base64");
        Digest::of(&der).full()
    }

    async fn accept(&self, rig: &Rig, guest: &Guest, keys: &[&str]) {
        rig.merge(guest, json!({ "spec": { "source": { "verify": self.verify(keys) } } })).await;
    }
}

async fn until_none_is_active(rig: &Rig, guest: &Guest) {
    let object = rig
        .until(guest, "has no active component, for its signature", |object| {
            let of = |condition| (condition_parts(object, condition).0, condition_parts(object, condition).1);
            object["status"]["digest"].is_null()
                && of("Ready") == ("False", "SignatureInvalid")
                && of("Stalled") == ("True", "SignatureInvalid")
        })
        .await;
    let why = condition_parts(&object, "Ready").2;
    assert!(why.contains("spec.source.verify") && why.contains("children stay as they are"), "{why}");
}

#[test]
fn a_component_that_only_a_replaced_key_signed_decides_no_more_with_and_without_a_restart() {
    run(async {
        let (mut rig, signers) = (Rig::new("replaced-key").await, Signers::new());
        let guest = rig.memcached("replaced").await;
        let image = signers.push(guest.folder.original());
        signers.sign("old", &image);
        rig.create(&rig.object(&guest, signers.source(&["old"]))).await;
        let first = rig.until_ready(&guest).await["status"]["digest"].clone();
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;

        signers.accept(&rig, &guest, &["new"]).await;
        until_none_is_active(&rig, &guest).await;
        assert!(rig.scene.find(&DEPLOYMENT, "served").await.is_some(), "children stay");
        // With the files of before.
        rig.host.kill();
        rig.host = rig.another_host().await;
        until_none_is_active(&rig, &guest).await;
        rig.replace_host().await;
        until_none_is_active(&rig, &guest).await;
        assert!(rig.scene.find(&DEPLOYMENT, "served").await.is_some(), "children stay");

        signers.sign("new", &image);
        let again = rig.until_ready(&guest).await;
        assert_eq!(again["status"]["digest"], first);
        rig.scene.merge(&MEMCACHED, "served", json!({ "spec": { "size": 2 } })).await;
        rig.scene
            .until_object(&DEPLOYMENT, "served", "has two replicas", |object| object["spec"]["replicas"] == 2)
            .await;
    });
}

#[test]
fn a_component_that_the_new_key_signed_too_goes_on_though_its_tag_has_moved_on_with_and_without_a_restart() {
    run(async {
        let (mut rig, signers) = (Rig::new("both-keys").await, Signers::new());
        let guest = rig.memcached("both").await;
        let image = signers.push(guest.folder.original());
        signers.sign("old", &image);
        signers.sign_too("new", &image);
        rig.create(&rig.object(&guest, signers.source(&["old"]))).await;
        let first = rig.until_ready(&guest).await["status"]["digest"].clone();
        signers.push(&reworded(guest.folder.original(), "0.1.0", "0.1.1"));
        rig.until_condition(&guest, "Stalled", "True", "SignatureMissing").await;

        signers.accept(&rig, &guest, &["new"]).await;
        let is_recorded = |object: &Value| {
            let last = object["status"]["history"].as_array().and_then(|history| history.last());
            last.is_some_and(|last| last["signedBy"] == json!([{ "key": signers.key_digest("new") }]))
                && object["status"]["digest"] == first
        };
        rig.until(&guest, "has a record of the new signer", is_recorded).await;
        rig.until_ready(&guest).await;
        rig.replace_host().await;
        let again = rig.until_ready(&guest).await;
        assert_eq!(again["status"]["digest"], first);
    });
}

#[test]
fn neither_an_automatic_rollback_nor_spec_revision_leads_to_what_only_a_replaced_key_signed() {
    run(async {
        let (rig, signers) = (Rig::new("old-key").await, Signers::new());
        let guest = rig.faulty("old-key").await;
        signers.sign("old", &signers.push(guest.folder.original()));
        rig.create(&rig.object(&guest, signers.source(&["old"]))).await;
        let first = rig.until_ready(&guest).await["status"]["digest"].clone();
        for number in 0..6 {
            let name = format!("fault-{number}");
            rig.scene.create(fault(&name, "")).await;
            rig.scene.until_object(&CONFIG_MAP, &name, "is there", |_| true).await;
        }
        signers.sign(
            "new",
            &signers.push(&reworded(guest.folder.original(), "this revision works", "this revision slips")),
        );
        signers.accept(&rig, &guest, &["new"]).await;
        let is_second = |object: &Value| object["status"]["digest"].is_string() && object["status"]["digest"] != first;
        let second = rig.until(&guest, "has the second revision", is_second).await["status"]["digest"].clone();
        for number in 0..6 {
            rig.scene.merge(&FAULT, &format!("fault-{number}"), json!({ "spec": { "fault": "slip" } })).await;
        }
        rig.host.until_logged(&["ERROR", "which was active before it, cannot be activated", "no signature of"]).await;
        let object = rig.until(&guest, "has an object", |_| true).await;
        assert_eq!(object["status"]["digest"], second, "{object:#}");

        rig.merge(&guest, json!({ "spec": { "revision": first } })).await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "RevisionUnavailable").await;
        assert!(condition_parts(&stalled, "Stalled").2.contains("no signature of"), "{stalled:#}");
        assert_eq!(stalled["status"]["digest"], second, "{stalled:#}");
    });
}
