//! Finalizers of components that the host no longer knows.

use std::time::Duration;

use hotshoe_tests::faulty::{fault, scene_with_faults};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn a_deleting_object_with_the_finalizer_of_an_unknown_component_says_so() {
    run(async {
        let mut scene = scene_with_faults("orphaned").await;
        // This component holds no finalizer, and the history has no component that did.
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        folder.put(&reworded(folder.original(), "this revision works", "this revision frees"));
        let host = scene.start().await.plugins(&[folder.path()]).cache(cache.path()).ready().await;
        scene.watch_log(&host);
        for (name, finalizer) in [("one", "fixtures.example.com/finalizer"), ("two", "example.com/theirs")] {
            let mut object = fault(name, "");
            object["metadata"]["finalizers"] = json!([finalizer]);
            scene.create(object).await;
            scene.until_object(&FAULT, name, "is served", |object| condition_parts(object, "Kept").0 == "True").await;
            scene.delete(&FAULT, name).await;
        }
        let is_told = async || {
            let object = scene.get(&FAULT, "one").await;
            let (status, reason, message) = condition_parts(&object, "Reconciled");
            let is_told =
                (status, reason) == ("False", "CleanUpWaits") && message.contains("fixtures.example.com/finalizer");
            is_told.then_some(()).ok_or_else(|| format!("{:#}", object["status"]))
        };
        scene.until_within(Duration::from_secs(75), "the condition names the finalizer", is_told).await;
        scene.event("one", "CleanUpWaits", "fixtures.example.com/finalizer").await;
        assert_eq!(
            condition_parts(&scene.get(&FAULT, "two").await, "Reconciled"),
            ("", "", ""),
            "the finalizer of the other object is foreign"
        );
        let released = |object: &Value| object["metadata"]["finalizers"].clone();
        assert_eq!(released(&scene.get(&FAULT, "one").await), json!(["fixtures.example.com/finalizer"]));
        for name in ["one", "two"] {
            scene.merge(&FAULT, name, json!({ "metadata": { "finalizers": null } })).await;
            scene.gone(&FAULT, name).await;
        }
    });
}
