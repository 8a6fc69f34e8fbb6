//! A CRD whose status subresource is removed or added while the host runs: the API server's 404 then does not mean that
//! objects are gone.

use hotshoe_tests::faulty::{fault, install_faults_of, scene_with_faults, start};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::{CRD, FAULT, STATUSLESS_FAULT, UNSERVED_FAULT};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{repository, run};
use serde_json::json;

#[test]
fn an_object_is_served_again_after_its_status_subresource_was_removed_for_a_while() {
    run(async {
        let mut scene = scene_with_faults("unserved").await;
        let definition = std::fs::read_to_string(repository("tests/fixtures/faulty/crd.yaml")).expect("a CRD");
        install_faults_of(scene.plane, UNSERVED_FAULT.group, &definition).await;
        let folder = Folder::of_faulty();
        folder.edit(FAULT.group, UNSERVED_FAULT.group);
        folder.put(&reworded(folder.original(), FAULT.group, UNSERVED_FAULT.group));
        let host = start(&mut scene, &folder).await;
        let mut object = fault("one", "");
        object["apiVersion"] = UNSERVED_FAULT.api_version().into();
        scene.create(object).await;
        scene.until_object(&UNSERVED_FAULT, "one", "is served", |one| condition_parts(one, "Kept").0 == "True").await;

        let crd = format!("faults.{}", UNSERVED_FAULT.group);
        let without = json!([{ "op": "remove", "path": "/spec/versions/0/subresources" }]);
        scene.admin.json_patch(&CRD, "", &crd, &without).await.expect("the status has no place");
        scene
            .until("a status has no place", async || {
                let path = format!("{}/status", UNSERVED_FAULT.path(&scene.namespace, Some("one")));
                let tried = scene.admin.request(http::Method::GET, &path, "", &json!(null)).await;
                tried.err().filter(|refused| refused.code == 404).map(drop).ok_or_else(|| "it has one".to_owned())
            })
            .await;
        // First the plugin's status changes, and then the host's condition.
        scene.merge(&UNSERVED_FAULT, "one", json!({ "spec": { "fault": "another word" } })).await;
        host.until_logged(&["WARN", "one", "does not serve this kind, version or subresource"]).await;
        scene.merge(&UNSERVED_FAULT, "one", json!({ "spec": { "fault": "other" } })).await;
        scene.event("one", "PluginFailed", "").await;

        let with = json!([{ "op": "add", "path": "/spec/versions/0/subresources", "value": { "status": {} } }]);
        scene.admin.json_patch(&CRD, "", &crd, &with).await.expect("the status has its place");
        scene.until_condition_of(&UNSERVED_FAULT, "one", "Reconciled", "False", "PluginFailed").await;
        scene.merge(&UNSERVED_FAULT, "one", json!({ "spec": { "fault": "" } })).await;
        let is_well = |one: &serde_json::Value| {
            condition_parts(one, "Reconciled").0.is_empty() && condition_parts(one, "Kept").0 == "True"
        };
        scene.until_object(&UNSERVED_FAULT, "one", "is well", is_well).await;
        scene.delete(&UNSERVED_FAULT, "one").await;
        scene.gone(&UNSERVED_FAULT, "one").await;
    });
}

#[test]
fn a_definition_that_gets_its_status_subresource_while_the_host_runs_is_noticed_without_a_reload() {
    run(async {
        let mut scene = scene_with_faults("statusless").await;
        let definition = std::fs::read_to_string(repository("tests/fixtures/faulty/crd.yaml")).expect("a CRD");
        let statusless = definition.replace("subresources: { status: {}, scale:", "subresources: { scale:");
        assert_ne!(statusless, definition);
        install_faults_of(scene.plane, STATUSLESS_FAULT.group, &statusless).await;
        let mut object = fault("one", "");
        object["apiVersion"] = STATUSLESS_FAULT.api_version().into();
        scene.create(object).await;
        let folder = Folder::of_faulty();
        folder.edit(FAULT.group, STATUSLESS_FAULT.group);
        folder.put(&reworded(folder.original(), FAULT.group, STATUSLESS_FAULT.group));
        let host = scene.start().await.plugins(&[folder.path()]).start();
        scene.watch_log(&host);
        // The reason is in the status, in the log and on the parent.
        let says = |why: &serde_json::Value| why.as_str().is_some_and(|why| why.contains("no status subresource"));
        host.until_plugin("it says what it waits for", |plugin| says(&plugin["waiting"])).await;
        host.until_logged(&["WARN", "no status subresource", "subresources: {status: {}}"]).await;
        scene.event("one", "NoStatusSubresource", "subresources: {status: {}}").await;
        let with = json!([{ "op": "add", "path": "/spec/versions/0/subresources", "value": { "status": {} } }]);
        let crd = format!("faults.{}", STATUSLESS_FAULT.group);
        scene.admin.json_patch(&CRD, "", &crd, &with).await.expect("the status has its place");
        scene.until_object(&STATUSLESS_FAULT, "one", "is served", |one| condition_parts(one, "Kept").0 == "True").await;
        assert_eq!(scene.events("one", "NoStatusSubresource").await.len(), 1);
        scene.delete(&STATUSLESS_FAULT, "one").await;
        scene.gone(&STATUSLESS_FAULT, "one").await;
    });
}
