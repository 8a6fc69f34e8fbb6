//! A child that another writer reverts each time, and how that is reported.

use std::time::Duration;

use futures::StreamExt;
use hotshoe_tests::audit::Entry;
use hotshoe_tests::faulty::{scene_with_faults, serves, start};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT};
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::{Scene, run};
use serde_json::{Value, json};

const MERGE: &str = "application/merge-patch+json";

fn is_kept(config_map: &Value) -> bool {
    config_map["data"]["kept"] == "yes"
}

/// Reverts every repair of the ConfigMap of this name by the host, until it is cancelled.
async fn undo(scene: &Scene, name: &str, undone: Value) {
    let path = format!("{}?fieldManager=rival", CONFIG_MAP.path(&scene.namespace, Some(name)));
    let mut changes = scene.watch(&CONFIG_MAP).await;
    while let Some((_, config_map)) = changes.next().await {
        if config_map["metadata"]["name"] == name && is_kept(&config_map) {
            // The patch may conflict with a write of the host, and is then tried again.
            drop(scene.admin.request(http::Method::PATCH, &path, MERGE, &undone).await);
        }
    }
}

/// Counts the host's writes of ConfigMaps in the namespace.
async fn repairs(scene: &Scene) -> usize {
    let writes = scene.recorded_writes().await;
    writes.iter().filter(|write: &&Entry| write.is_about("configmaps")).count()
}

#[test]
fn a_child_that_another_manager_keeps_reverting_is_reported_and_repaired_ever_less_often_until_it_stops() {
    run(async {
        let mut scene = scene_with_faults("contended").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        serves(&scene, "one").await;
        serves(&scene, "two").await;
        let quarrel = async {
            let object = scene.until_condition_of(&FAULT, "one", "Reconciled", "False", "Contended").await;
            let message = condition_parts(&object, "Reconciled").2;
            assert!(message.contains("ConfigMap") && message.contains("data.kept by rival"), "{message}");
            scene.event("one", "Contended", "data.kept by rival").await;
            host.until_logged(&["WARN", "Contended", "data.kept by rival"]).await;
            let (_, metrics) = host.get("/metrics").await.expect("metrics");
            assert!(metrics.lines().any(|line| line.contains("reason=\"Contended\"")), "{metrics}");
            let before = repairs(&scene).await;
            tokio::time::sleep(Duration::from_secs(8)).await;
            let writes = repairs(&scene).await;
            assert!((before + 1..=before + 4).contains(&writes), "{before} writes, and {writes} after 8 s");
            // Meanwhile the plugin's other changes are applied, and another object is repaired at once.
            scene.merge(&FAULT, "one", json!({ "spec": { "fault": "fixed" } })).await;
            let heard = |object: &Value| object["status"]["word"] == "fixed";
            scene.until_object(&FAULT, "one", "says what the plugin says", heard).await;
            scene.merge(&CONFIG_MAP, "two", json!({ "data": { "kept": "no" } })).await;
            scene.until_object(&CONFIG_MAP, "two", "is repaired", is_kept).await;
            // Sixty repairs at once, and then ever fewer.
            let writes = repairs(&scene).await;
            assert!(writes < 80, "{writes}");
        };
        tokio::select! {
            () = undo(&scene, "one", json!({ "data": { "kept": "no" } })) => panic!("the watch ended"),
            () = quarrel => {}
        }
        let is_well = async || {
            let object = scene.get(&FAULT, "one").await;
            let is_well = is_kept(&scene.get(&CONFIG_MAP, "one").await) && condition(&object, "Reconciled").is_none();
            is_well.then_some(()).ok_or_else(|| format!("{:#}", object["status"]))
        };
        scene.until_within(Duration::from_secs(120), "all is well again", is_well).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let quiet = repairs(&scene).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(repairs(&scene).await, quiet, "nothing is written where nothing differs");
    });
}

#[test]
fn repeated_edits_by_a_user_are_repaired_at_once_each_time() {
    run(async {
        let mut scene = scene_with_faults("edits").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        serves(&scene, "one").await;
        for edit in 0..12 {
            scene.merge(&CONFIG_MAP, "one", json!({ "data": { "kept": format!("no {edit}") } })).await;
            let what = format!("edit {edit} is reverted");
            let is_back = async || {
                let config_map = scene.get(&CONFIG_MAP, "one").await;
                is_kept(&config_map).then_some(()).ok_or_else(|| format!("{config_map:#}"))
            };
            scene.until_within(Duration::from_secs(5), &what, is_back).await;
        }
        assert!(!host.log().contains("Contended"), "{}", host.log());
        assert!(condition(&scene.get(&FAULT, "one").await, "Reconciled").is_none());
    });
}
