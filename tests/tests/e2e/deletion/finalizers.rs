//! Ownership of finalizers: which ones a plugin may hold, and which ones the host removes.

use std::time::Duration;

use hotshoe_tests::faulty::{fault, scene_with_faults, serves, start};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, run};
use http::Method;
use serde_json::{Value, json};

const FINALIZER: &str = "fixtures.example.com/finalizer";
const NAMED: &str = "  finalizers: [{name: fixtures.example.com/finalizer}]\n";
/// The number of field managers that update the object: more than the ten entries that the API server keeps before it
/// merges the oldest.
const FIELD_MANAGERS: usize = 12;

fn holds_it(object: &Value) -> bool {
    object["metadata"]["finalizers"] == json!([FINALIZER])
}

/// Checks that the message about the refused component of a plugin says so.
async fn is_refused(host: &Host, plugin: &str, because: &str) -> Result<(), String> {
    let plugin = host.plugin_named(plugin).await?;
    let message = plugin["refused"]["message"].as_str().unwrap_or_default();
    if message.contains(because) { Ok(()) } else { Err(format!("{plugin:#}")) }
}

#[test]
fn a_finalizer_that_is_not_the_plugins_own_is_refused_until_plugin_yaml_names_it() {
    run(async {
        let mut scene = scene_with_faults("finalizer-of-others").await;
        let folder = Folder::of_faulty();
        folder.edit(NAMED, "");
        let host = scene.start().await.plugins(&[folder.path()]).start();
        scene.watch_log(&host);
        // An existing object has the finalizer from another operator, and the host must never remove it.
        let mut object = fault("one", "");
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        scene.create(object).await;
        let because = "neither carries the plugin's name, as fixtures.example.com/faulty does";
        let refused = async || is_refused(&host, "faulty", because).await;
        host.until("the component is refused", refused).await;
        scene.delete(&FAULT, "one").await;
        assert!(holds_it(&scene.get(&FAULT, "one").await));

        folder.edit("  grants:", &format!("{NAMED}  grants:"));
        host.ready().await;
        serves(&scene, "two").await;
        assert!(holds_it(&scene.get(&FAULT, "two").await));
        folder.edit(NAMED, "");
        host.until_logged(&["plugin.yaml is not applied", "the active revision holds the finalizer"]).await;
        scene.delete(&FAULT, "two").await;
        scene.gone(&FAULT, "two").await;
        assert!(holds_it(&scene.get(&FAULT, "one").await), "another client set it");
        scene.merge(&FAULT, "one", json!({ "metadata": { "finalizers": null } })).await;
    });
}

#[test]
fn two_plugins_never_have_the_same_finalizer() {
    run(async {
        let mut scene = scene_with_faults("finalizer-shared").await;
        let (first, second) = (Folder::of_faulty(), Folder::of_faulty());
        second.edit("name: faulty\n", "name: second\n");
        second.edit(NAMED, "");
        let host = scene.start().await.plugins(&[first.path(), second.path()]).start();
        scene.watch_log(&host);
        host.until_logged(&["the component is active", "faulty"]).await;
        second.edit("  grants:", &format!("{NAMED}  grants:"));
        let refused = async || is_refused(&host, "second", "which the plugin faulty of this host has").await;
        host.until("the second is refused", refused).await;
        // The plugin that has the finalizer cleans up as if there were no other.
        serves(&scene, "one").await;
        assert!(holds_it(&scene.get(&FAULT, "one").await));
        scene.delete(&FAULT, "one").await;
        scene.gone(&FAULT, "one").await;
    });
}

#[test]
fn a_finalizer_that_another_client_set_stays_and_the_condition_names_that_client() {
    run(async {
        let mut scene = scene_with_faults("finalizer-foreign").await;
        let folder = Folder::of_faulty();
        let _host = start(&mut scene, &folder).await;
        let mut object = fault("one", "");
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        scene.apply("old-operator", object).await;
        scene.until_object(&FAULT, "one", "is served", |object| condition_parts(object, "Kept").0 == "True").await;
        scene.delete(&FAULT, "one").await;
        let is_told = async || {
            let object = scene.get(&FAULT, "one").await;
            let (status, reason, message) = condition_parts(&object, "Reconciled");
            let is_told = (status, reason) == ("False", "CleanUpWaits")
                && message.contains("was set by old-operator and not by this plugin")
                && message.contains("alsoSetBy");
            is_told.then_some(()).ok_or_else(|| format!("{:#}", object["status"]))
        };
        scene.until_within(Duration::from_secs(75), "the condition says who set it", is_told).await;
        assert!(holds_it(&scene.get(&FAULT, "one").await));

        folder.edit("/finalizer}]", "/finalizer, alsoSetBy: [old-operator]}]");
        scene.gone(&FAULT, "one").await;
    });
}

#[test]
fn a_finalizer_that_the_host_added_stays_its_own_whatever_others_write_and_after_a_restart() {
    run(async {
        let mut scene = scene_with_faults("finalizer-kept").await;
        let folder = Folder::of_faulty();
        let mut host = start(&mut scene, &folder).await;
        for name in ["untouched", "applied", "replaced", "crowded", "lost"] {
            serves(&scene, name).await;
        }
        let untouched = scene.get(&FAULT, "untouched").await;
        let entries = untouched["metadata"]["managedFields"].as_array().expect("entries").iter();
        let ours: Vec<_> = entries.filter(|entry| !entry["fieldsV1"]["f:metadata"]["f:finalizers"].is_null()).collect();
        assert_eq!(ours.len(), 1, "{ours:#?}");
        assert_eq!((&ours[0]["manager"], &ours[0]["operation"]), (&json!("hotshoe/faulty"), &json!("Update")));

        let mut applied = fault("applied", "");
        applied["metadata"]["annotations"] = json!({ "a": "b" });
        scene.apply("another", applied).await;
        let mut replaced = scene.get(&FAULT, "replaced").await;
        replaced["metadata"]["annotations"] = json!({ "a": "b" });
        let path = FAULT.path(&scene.namespace, Some("replaced"));
        scene.admin.request(Method::PUT, &path, "application/json", &replaced).await.expect("it is replaced");
        for one in 0..FIELD_MANAGERS {
            let path = format!("{}?fieldManager=one-{one}", FAULT.path(&scene.namespace, Some("crowded")));
            let patch = json!({ "metadata": { "annotations": { format!("of-{one}"): "a" } } });
            let merge = "application/merge-patch+json";
            scene.admin.request(Method::PATCH, &path, merge, &patch).await.expect("it is annotated");
        }
        let forgotten = json!([{ "op": "replace", "path": "/metadata/managedFields", "value": [{}] }]);
        scene.json_patch(&FAULT, "lost", forgotten).await;
        host.stop();

        let _host = start(&mut scene, &folder).await;
        for name in ["untouched", "applied", "replaced", "crowded", "lost"] {
            assert!(holds_it(&scene.get(&FAULT, name).await), "{name}");
            scene.delete(&FAULT, name).await;
        }
        for name in ["untouched", "applied", "replaced", "crowded", "lost"] {
            scene.gone(&FAULT, name).await;
        }
    });
}
