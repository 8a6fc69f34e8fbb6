//! Parents whose CRD does not make the list of conditions a map: the API server treats the list as one value, with one
//! owner.

use hotshoe_tests::faulty::{fault, install_faults_of, scene_with_faults, start};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::{FAULT, OLD_FAULT};
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::{ControlPlane, Host, Scene, repository, run};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Starts a host with the faulty plugin, for its own kind, whose schema does not say how conditions are merged.
async fn host(name: &str) -> (Scene, Host, Folder) {
    static READY: OnceCell<()> = OnceCell::const_new();
    let mut scene = scene_with_faults(name).await;
    READY.get_or_init(|| install(scene.plane)).await;
    let folder = Folder::of_faulty();
    folder.edit(FAULT.group, OLD_FAULT.group);
    folder.put(&reworded(folder.original(), FAULT.group, OLD_FAULT.group));
    let host = start(&mut scene, &folder).await;
    (scene, host, folder)
}

async fn install(plane: &ControlPlane) {
    let typed = std::fs::read_to_string(repository("tests/fixtures/faulty/crd.yaml")).expect("a CRD");
    let untyped: Vec<_> = typed.lines().filter(|line| !line.contains("x-kubernetes-list")).collect();
    assert!(untyped.len() < typed.lines().count(), "the CRD has a list with a type");
    install_faults_of(plane, OLD_FAULT.group, &untyped.join("\n")).await;
}

fn old_fault(name: &str, word: &str) -> Value {
    let mut object = fault(name, word);
    object["apiVersion"] = OLD_FAULT.api_version().into();
    object
}

fn is_well(object: &Value) -> bool {
    condition_parts(object, "Kept").0 == "True" && condition(object, "Reconciled").is_none()
}

#[test]
fn the_plugins_conditions_are_not_erased_by_the_host_which_reports_in_an_event() {
    run(async {
        let (scene, host, _folder) = host("old-style").await;
        scene.create(old_fault("one", "")).await;
        let before = scene.until_object(&OLD_FAULT, "one", "is served", is_well).await;
        for (word, reason) in [("other", "PluginFailed"), ("trap", "Trapped")] {
            scene.merge(&OLD_FAULT, "one", json!({ "spec": { "fault": word } })).await;
            scene.event("one", reason, "").await;
        }
        // After a second failure the outcome of the first has been recorded.
        host.until_logged(&["WARN", "one", "retry=4s"]).await;
        let object = scene.get(&OLD_FAULT, "one").await;
        assert_eq!(object["status"]["conditions"], before["status"]["conditions"]);
        let writes = scene.recorded_writes().await;
        let tried = writes.iter().filter(|write| write.is_about("faults/status") && write.code == 409).count();
        assert_eq!(tried, 1, "the host finds out only once that its condition has no room: {writes:#?}");
        let log = host.log();
        assert!(!log.contains("conflict"), "{log}");
        scene.merge(&OLD_FAULT, "one", json!({ "spec": { "fault": "" } })).await;
        scene
            .until_object(&OLD_FAULT, "one", "is well", |object| is_well(object) && object["status"]["word"] == "")
            .await;
    });
}

#[test]
fn where_the_plugin_has_no_conditions_the_host_sets_its_own_and_removes_it_later() {
    run(async {
        let (scene, _host, _folder) = host("old-style-first").await;
        scene.create(old_fault("one", "other")).await;
        scene.until_condition_of(&OLD_FAULT, "one", "Reconciled", "False", "PluginFailed").await;
        // The plugin states no conditions, so that the host itself removes its own.
        scene.merge(&OLD_FAULT, "one", json!({ "spec": { "fault": "say" } })).await;
        let is_silent =
            |object: &Value| condition(object, "Reconciled").is_none() && !object["status"]["word"].is_null();
        scene.until_object(&OLD_FAULT, "one", "is well", is_silent).await;
        scene.create(old_fault("two", "other")).await;
        scene.until_condition_of(&OLD_FAULT, "two", "Reconciled", "False", "PluginFailed").await;
        scene.merge(&OLD_FAULT, "two", json!({ "spec": { "fault": "" } })).await;
        scene.until_object(&OLD_FAULT, "two", "is well", is_well).await;
    });
}
