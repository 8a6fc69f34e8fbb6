//! A plugin whose clean-up does not end: its parent stays, with a reported reason for failures, until the
//! plugin is fixed. A clean-up cannot do what it may not do.

use std::time::Duration;

use hotshoe_tests::attacks::{ATTACKS, How, SERVED, named};
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use serde_json::json;

use super::rig::{Rig, with_spec};

const FINALIZER: &str = "fixtures.example.com/finalizer";

#[test]
fn a_clean_up_that_fails_keeps_the_finalizer_says_why_and_can_be_fixed() {
    run(async {
        let rig = Rig::new("clean-up").await;
        let rows = ATTACKS.iter().filter(|row| matches!(row.how, How::AtTheEnd(_)) && row.reason != SERVED);
        for (number, row) in rows.enumerate() {
            let How::AtTheEnd(word) = row.how else { continue };
            let name = format!("end-{number}");
            rig.scene.create(with_spec(&name, json!({ "atTheEnd": word }))).await;
            rig.serves(&name).await;
            rig.scene.delete(&ATTACK, &name).await;
            let object = rig.scene.until_condition_of(&ATTACK, &name, "Reconciled", "False", "").await;
            assert_eq!(condition_parts(&object, "Reconciled").1, row.reason, "{}: {object:#}", row.name);
            rig.scene.event(&name, row.reason, "").await;
            assert_eq!(object["metadata"]["finalizers"], json!([FINALIZER]), "{}", row.name);
            assert!(rig.scene.find(&CONFIG_MAP, &format!("{name}-outlives")).await.is_none(), "{}", row.name);
            rig.is_well(row.name).await;
            rig.scene.merge(&ATTACK, &name, json!({ "spec": { "atTheEnd": "" } })).await;
            rig.scene.gone(&ATTACK, &name).await;
        }
    });
}

#[test]
fn a_clean_up_that_always_waits_is_not_called_in_a_loop() {
    run(async {
        let rig = Rig::new("waiting").await;
        let row = named("clean-up that always waits");
        rig.scene.create(with_spec("one", json!({ "atTheEnd": "wait" }))).await;
        rig.serves("one").await;
        rig.scene.delete(&ATTACK, "one").await;
        rig.scene
            .until_object(&ATTACK, "one", "goes", |object| object["metadata"]["deletionTimestamp"].is_string())
            .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = rig.calls().await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        let calls = rig.calls().await - before;
        assert!((1..=3).contains(&calls), "{calls} calls");
        assert_eq!(rig.scene.get(&ATTACK, "one").await["metadata"]["finalizers"], json!([FINALIZER]));
        rig.is_well(row.name).await;
        rig.scene.merge(&ATTACK, "one", json!({ "spec": { "atTheEnd": "" } })).await;
        rig.scene.gone(&ATTACK, "one").await;
    });
}

#[test]
fn a_clean_up_that_claims_to_be_done_counts_only_once_its_children_are_gone() {
    run(async {
        let rig = Rig::new("done").await;
        let row = named("clean-up that is done while children exist");
        rig.scene.create(with_spec("one", json!({ "atTheEnd": "done at once" }))).await;
        rig.serves("one").await;
        // The child stays while a foreign finalizer holds it.
        rig.scene.merge(&CONFIG_MAP, "one", json!({ "metadata": { "finalizers": ["example.com/held"] } })).await;
        rig.scene.delete(&ATTACK, "one").await;
        rig.scene
            .until_object(&CONFIG_MAP, "one", "is being deleted", |object| {
                object["metadata"]["deletionTimestamp"].is_string()
            })
            .await;
        rig.is_well(row.name).await;
        assert_eq!(rig.scene.get(&ATTACK, "one").await["metadata"]["finalizers"], json!([FINALIZER]));
        let late = rig.scene.until_condition_of(&ATTACK, "one", "Reconciled", "False", "CleanUpWaits").await;
        assert!(condition_parts(&late, "Reconciled").2.contains("ConfigMap"), "{late:#}");
        rig.scene.event("one", "CleanUpWaits", "must go first").await;
        rig.scene.merge(&CONFIG_MAP, "one", json!({ "metadata": { "finalizers": null } })).await;
        rig.scene.gone(&CONFIG_MAP, "one").await;
        rig.scene.gone(&ATTACK, "one").await;
    });
}
