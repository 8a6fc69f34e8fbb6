//! A plugin under a new name takes over the children of the former one: `spec.takesOverFrom`.

use hotshoe_tests::faulty::{fault, scene_with_faults, serves, start};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT};
use hotshoe_tests::scene::condition;
use hotshoe_tests::{ControlPlane, Scene, run};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The new name of the faulty plugin.
const HEIR: &str = "heir";
const FINALIZER: &str = "fixtures.example.com/finalizer";

async fn scene(name: &str) -> Scene {
    static READY: OnceCell<()> = OnceCell::const_new();
    let scene = scene_with_faults(name).await;
    READY.get_or_init(|| install(scene.plane)).await;
    scene
}

async fn install(plane: &ControlPlane) {
    plane.create_account(HEIR).await;
    let group = json!(["fixtures.example.com"]);
    let rules = json!([
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete"] },
        { "apiGroups": group, "resources": ["faults/status"], "verbs": ["patch"] },
        { "apiGroups": group, "resources": ["faults/finalizers"], "verbs": ["update"] },
    ]);
    plane.grant(HEIR, "tests-heir", &rules).await;
    plane.allow_impersonation(HEIR).await;
}

/// The same component under the new name, with this in `plugin.yaml`.
fn heir(more: &str) -> Folder {
    let folder = Folder::of_faulty();
    folder.edit("name: faulty\n", &format!("name: {HEIR}\n"));
    folder.edit("  grants:", &format!("{more}  grants:"));
    folder
}

/// Returns the field managers of plugins that applied an object. An added finalizer has its own entry, which is an
/// update.
fn managers(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let applied = entries.iter().filter(|entry| entry["operation"] == "Apply");
    let mut managers: Vec<_> = applied.filter_map(|entry| entry["manager"].as_str()).collect();
    managers.retain(|manager| manager.starts_with("hotshoe/"));
    managers.sort_unstable();
    managers.dedup();
    managers
}

fn made_by(object: &Value) -> &str {
    object["metadata"]["labels"]["hotshoe.dev/plugin"].as_str().unwrap_or_default()
}

#[test]
fn children_are_taken_over_in_place_with_all_fields_so_that_what_is_dropped_goes() {
    run(async {
        let mut scene = scene("heir").await;
        let mut host = start(&mut scene, &Folder::of_faulty()).await;
        for name in ["one", "two", "three"] {
            serves(&scene, name).await;
        }
        let before = scene.get(&CONFIG_MAP, "one").await;
        assert_eq!((made_by(&before), &before["data"]), ("faulty", &json!({ "kept": "yes" })));
        host.stop();
        // Another manager adds a field. The parent's change means that a field and a condition, which the plugin set
        // under its former name, are no longer desired.
        scene.merge(&CONFIG_MAP, "one", json!({ "data": { "others": "stay" } })).await;
        scene.merge(&FAULT, "one", json!({ "spec": { "fault": "say" } })).await;
        scene.merge(&FAULT, "three", json!({ "spec": { "fault": "nothing" } })).await;

        let folder = heir("  pruneAll: true\n  takesOverFrom: [{plugin: faulty}]\n");
        let host = start(&mut scene, &folder).await;
        let is_taken = |map: &Value| made_by(map) == HEIR && managers(map) == ["hotshoe/heir"];
        let one = scene.until_object(&CONFIG_MAP, "one", "is taken over", is_taken).await;
        assert_eq!(one["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(one["data"], json!({ "revision": "this revision works", "others": "stay" }));
        let two = scene.until_object(&CONFIG_MAP, "two", "is taken over", is_taken).await;
        assert_eq!(two["data"], json!({ "kept": "yes" }));
        scene.gone(&CONFIG_MAP, "three").await;
        let has_one_word =
            |fault: &Value| managers(fault) == ["hotshoe/heir"] && fault["status"]["word"] == "this revision works";
        let parent = scene.until_object(&FAULT, "one", "has the status of the new name alone", has_one_word).await;
        assert!(
            condition(&parent, "Kept").is_none(),
            "the condition of the former name is removed: {:#}",
            parent["status"]
        );
        assert!(scene.events("one", "Conflict").await.is_empty());
        host.until_logged(&["INFO", "child taken over", "heir"]).await;

        // From now on everything is as if the plugin had always had the new name.
        scene.merge(&FAULT, "one", json!({ "spec": { "fault": "" } })).await;
        let is_kept = |map: &Value| map["data"] == json!({ "kept": "yes", "others": "stay" });
        scene.until_object(&CONFIG_MAP, "one", "has dropped a field", is_kept).await;
        scene.delete(&FAULT, "one").await;
        scene.gone(&FAULT, "one").await;
        scene.gone(&CONFIG_MAP, "one").await;
    });
}

#[test]
fn nothing_is_taken_over_without_takes_over_from() {
    run(async {
        let mut scene = scene("no-heir").await;
        let mut host = start(&mut scene, &Folder::of_faulty()).await;
        serves(&scene, "one").await;
        host.stop();
        let folder = heir("  pruneAll: true\n  takesOverFrom: [{plugin: another}]\n");
        let _host = start(&mut scene, &folder).await;
        scene.event("one", "Conflict", "it is the child of another plugin, faulty").await;
        assert_eq!(made_by(&scene.get(&CONFIG_MAP, "one").await), "faulty");
        // It takes effect as soon as it is said.
        folder.edit("plugin: another", "plugin: faulty");
        scene.until_object(&CONFIG_MAP, "one", "is taken over", |map| made_by(map) == HEIR).await;
    });
}

#[test]
fn a_child_of_another_object_is_not_taken_over_whatever_its_label_says() {
    run(async {
        let mut scene = scene("foreign-heir").await;
        let owner = scene
            .create(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "owner" },
            }))
            .await;
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "controller": true,
        });
        let labels = json!({ "hotshoe.dev/plugin": "faulty" });
        let metadata = json!({ "name": "one", "labels": labels, "ownerReferences": [reference] });
        scene
            .create(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "its": "own" } }))
            .await;
        let _host = start(&mut scene, &heir("  pruneAll: true\n  takesOverFrom: [{plugin: faulty}]\n")).await;
        scene.create(fault("one", "")).await;
        scene.event("one", "Conflict", "its controller is ConfigMap owner").await;
        assert_eq!(scene.get(&CONFIG_MAP, "one").await["data"], json!({ "its": "own" }));
    });
}

#[test]
fn a_finalizer_of_the_former_name_is_removed_where_the_new_one_holds_none() {
    run(async {
        let mut scene = scene("heir-frees").await;
        let mut host = start(&mut scene, &Folder::of_faulty()).await;
        for name in ["one", "two"] {
            serves(&scene, name).await;
        }
        assert_eq!(scene.get(&FAULT, "one").await["metadata"]["finalizers"], json!([FINALIZER]));
        host.stop();
        scene.delete(&FAULT, "two").await;
        let folder = heir(&format!("  takesOverFrom: [{{plugin: faulty, finalizer: {FINALIZER}}}]\n"));
        folder.put(&reworded(folder.original(), "this revision works", "this revision frees"));
        let _host = start(&mut scene, &folder).await;
        scene
            .until_object(&FAULT, "one", "holds no finalizer", |one| one["metadata"].get("finalizers").is_none())
            .await;
        scene.gone(&FAULT, "two").await;
        scene.gone(&CONFIG_MAP, "two").await;
    });
}
