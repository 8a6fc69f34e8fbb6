//! What another component makes of the stored objects where the API server asks about them: whether they are valid, what is
//! filled into them, and what is left of them after a way through another version.

use hotshoe_core::model::digest::Digest;
use hotshoe_tests::crews::Crews;
use hotshoe_tests::faulty::{WORKS, fault, scene_with_faults, serves, start, until_digest};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::{ControlPlane, Host, Scene, run};
use serde_json::{Value, json};

use super::shadow::{file, shadow};

/// Validates `slip` as wrong.
const CARES: &str = "this revision cares";
/// Fills in another size.
const AMPLE: &str = "this revision ample";
/// Loses what one version cannot say.
const LOSES: &str = "this revision loses";

/// Returns a folder with the plugin, whose answers about proposed parents have this effect.
fn folder(admission: &str) -> Folder {
    let folder = Folder::of_faulty();
    folder.edit("  grants:\n", &format!("  admission: {admission}\n  grants:\n"));
    folder
}

/// Creates parents of which so many would be refused by a component that cares.
async fn parents(scene: &Scene, slipping: usize, others: usize) {
    for number in 0..slipping {
        scene.create(fault(&format!("slips-{number:02}"), "slip")).await;
    }
    for number in 0..others {
        serves(scene, &format!("good-{number}")).await;
    }
}

async fn until_it_waits(host: &Host, component: &[u8]) -> String {
    let digest = Digest::of(component).full();
    let waits =
        |plugin: &Value| plugin["refused"]["reason"] == "ApprovalRequired" && plugin["refused"]["digest"] == *digest;
    let plugin = host.until_plugin("it requires an approval", waits).await;
    plugin["refused"]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_component_by_which_stored_objects_are_no_longer_valid_waits_for_an_approval_that_names_ten() {
    run(async {
        let mut scene = scene_with_faults("stored-invalid").await;
        let folder = folder("Enforce");
        let host = start(&mut scene, &folder).await;
        parents(&scene, 12, 2).await;
        let caring = reworded(folder.original(), WORKS, CARES);
        let other = file(&folder, "other.wasm", &caring);
        scene
            .until("the host knows all parents", async || {
                let (code, document) = shadow(&host, "faulty", &other);
                let (stored, text) = (&document["summary"]["stored"], document.to_string());
                if stored["objects"] != 14 {
                    return Err(text);
                }
                assert_eq!((code, &stored["noLongerValid"]["count"]), (Some(3), &json!(12)), "{text}");
                let first = json!({ "object": format!("{}/slips-00", scene.namespace), "at": ["spec.fault"] });
                assert_eq!(stored["noLongerValid"]["first"][0], first, "{text}");
                assert_eq!(document["summary"]["refused"]["reason"], "ApprovalRequired", "{text}");
                Ok(())
            })
            .await;
        let (_, printed, _) = host.ask_for_output(&["shadow", "faulty", &other.to_string_lossy()]);
        assert!(printed.contains("  stored    12 of 14 would no longer be valid: "), "{printed}");
        folder.put(&caring);
        let why = until_it_waits(&host, &caring).await;
        assert!(why.starts_with("12 of 14 stored objects would no longer be valid: "), "{why}");
        for number in 0..12 {
            assert_eq!(why.contains(&format!("{}/slips-{number:02}", scene.namespace)), number < 10, "{why}");
        }
        assert!(why.contains("; and 2 more") && !why.contains("it slips"), "{why}");
        assert_eq!(host.digest().await, Digest::of(folder.original()).full());
        let (status, words) = host.ask(&["approve", "faulty"]);
        assert!(status.success(), "{words}");
        until_digest(&host, &caring).await;
    });
}

#[test]
fn where_validation_refuses_nothing_it_holds_no_component_up() {
    run(async {
        for admission in ["Off", "Warn"] {
            let mut scene = scene_with_faults(&format!("stored-{}", admission.to_lowercase())).await;
            let folder = folder(admission);
            let host = start(&mut scene, &folder).await;
            parents(&scene, 1, 1).await;
            let caring = reworded(folder.original(), WORKS, CARES);
            folder.put(&caring);
            until_digest(&host, &caring).await;
        }
    });
}

#[test]
fn other_defaults_for_stored_objects_are_shown_and_hold_no_component_up() {
    run(async {
        let mut scene = scene_with_faults("stored-defaults").await;
        let folder = folder("Enforce");
        let host = start(&mut scene, &folder).await;
        parents(&scene, 0, 2).await;
        let ample = reworded(folder.original(), WORKS, AMPLE);
        let other = file(&folder, "other.wasm", &ample);
        let (code, document) = shadow(&host, "faulty", &other);
        let filled_in = &document["summary"]["stored"]["filledInOtherwise"];
        assert_eq!((code, &filled_in["count"]), (Some(3), &json!(2)), "{document:#}");
        assert_eq!(filled_in["first"][0]["at"], json!(["spec.size"]), "{document:#}");
        folder.put(&ample);
        until_digest(&host, &ample).await;
    });
}

#[test]
fn a_component_by_which_a_round_trip_loses_fields_waits_for_an_approval_that_names_them() {
    run(async {
        let mut crews = Crews::stored_in(ControlPlane::shared().await, "stored-lost", "v1").await;
        let host = crews.host().await;
        crews.switch_on().await;
        for (name, ports) in [("many", json!([80, 81, 82])), ("one", json!([80]))] {
            crews.create(&crews.v1(), name, json!({ "replicas": 1, "ports": ports })).await;
            crews.seen(name, 1).await;
        }
        // The same logic in other words loses nothing.
        let same = crews.swap(1);
        until_digest(&host, &same).await;
        let losing = crews.put(LOSES);
        let why = until_it_waits(&host, &losing).await;
        let words = format!(
            "1 of 2 stored objects would lose fields on the way to another version and back: {}/many (in v1beta1: \
             spec.ports[1], spec.ports[2])",
            crews.scene.namespace
        );
        assert!(why.starts_with(&words), "{why}");
        let (status, words) = host.ask(&["approve", "converting"]);
        assert!(status.success(), "{words}");
        until_digest(&host, &losing).await;
        // What it does not keep is lost indeed. The API server may know the other object as it was converted before.
        crews.create(&crews.v1(), "later", json!({ "replicas": 1, "ports": [80, 81] })).await;
        crews.scene.merge(&crews.v1beta1(), "later", json!({ "spec": { "size": 2 } })).await;
        assert_eq!(crews.scene.get(&crews.v1(), "later").await["spec"], json!({ "replicas": 2, "ports": [80] }));
        crews.end().await;
    });
}

#[test]
fn a_component_that_no_longer_converts_waits_for_an_approval_and_the_stored_version_works_without_conversion() {
    run(async {
        let mut crews = Crews::stored_in(ControlPlane::shared().await, "stored-alone", "v1").await;
        let host = crews.host().await;
        crews.switch_on().await;
        let (v1, v1beta1) = (crews.v1(), crews.v1beta1());
        crews.create(&v1, "crew", json!({ "replicas": 1 })).await;
        crews.seen("crew", 1).await;
        // The host does not know this interface.
        let unable = crews.put_renamed("hotshoe:reconciler/conversion@0.2.0", "hotshoe:reconciler/conversing@0.2.0");
        let why = until_it_waits(&host, &unable).await;
        assert!(why.contains("v1beta1"), "{why}");
        assert_eq!(crews.try_get(&v1beta1, "crew").await.expect("it is converted as before")["spec"]["size"], 1);
        let (status, words) = host.ask(&["approve", "converting"]);
        assert!(status.success(), "{words}");
        until_digest(&host, &unable).await;
        let refused = crews.try_get(&v1beta1, "crew").await.expect_err("nothing converts it");
        assert!(refused.message.contains("does not convert"), "{refused:?}");
        crews.scene.merge(&v1, "crew", json!({ "spec": { "replicas": 2 } })).await;
        crews.seen("crew", 2).await;
        crews.end().await;
    });
}
