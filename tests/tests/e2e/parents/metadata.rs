//! Labels and annotations of the parent that a plugin states.

use hotshoe_tests::audit::Entry;
use hotshoe_tests::kinds::{CONFIG_MAP, LIMIT_RANGE};
use hotshoe_tests::scene::labels;
use hotshoe_tests::{Scene, run};
use serde_json::{Value, json};

use super::labelled::{MARK, marked, served, start};

const TIER: &str = "tests.example.com/tier";
const NOTE: &str = "tests.example.com/note-1";
const MANAGER: &str = "hotshoe/marked/metadata";

/// A parent whose content asks for this label and annotation.
fn asking(name: &str, data: Value) -> Value {
    let mut parent = marked(name);
    parent["data"] = data;
    parent
}

fn label<'v>(parent: &'v Value, key: &str) -> &'v Value {
    &parent["metadata"]["labels"][key]
}

fn annotation<'v>(parent: &'v Value, key: &str) -> &'v Value {
    &parent["metadata"]["annotations"][key]
}

/// How often the plugin's account has written a parent.
async fn writes_as_plugin(scene: &Scene, parent: &str) -> usize {
    let is_it =
        |entry: &&Entry| entry.resource == "configmaps" && entry.name == parent && entry.user.ends_with(":marked");
    scene.recorded_writes().await.iter().filter(is_it).count()
}

#[test]
fn what_a_plugin_states_of_its_parent_is_set_restored_and_removed_and_the_rest_of_the_parent_stays() {
    run(async {
        let (mut scene, folder, host) = served("metadata").await;
        let data = json!({ "label": format!("{TIER}=gold"), "annotation": format!("{NOTE}=a note") });
        scene.create(asking("one", data.clone())).await;
        let is_stated = |parent: &Value| label(parent, TIER) == "gold" && annotation(parent, NOTE) == "a note";
        let parent = scene.until_object(&CONFIG_MAP, "one", "is labelled and annotated", is_stated).await;
        assert_eq!((&parent["data"], label(&parent, MARK)), (&data, &json!("yes")));
        let managers = parent["metadata"]["managedFields"].as_array().unwrap();
        let own = managers.iter().find(|entry| entry["manager"] == MANAGER).expect("a field manager of its own");
        assert_eq!(own["operation"], "Apply");

        // One that another removes is back, and then nothing more is written.
        scene.merge(&CONFIG_MAP, "one", labels(&json!({ TIER: null }))).await;
        scene.until_object(&CONFIG_MAP, "one", "is labelled again", is_stated).await;
        let written = writes_as_plugin(&scene, "one").await;
        let touch = json!({ "metadata": { "annotations": { "touched": "yes" } } });
        scene.merge(&CONFIG_MAP, "one", touch).await;
        scene.create(asking("two", json!({ "label": format!("{TIER}=iron") }))).await;
        scene.until_object(&CONFIG_MAP, "two", "is labelled", |parent| label(parent, TIER) == "iron").await;
        drop(host);
        let host = start(&mut scene, &folder).await;
        scene.create(asking("three", json!({ "label": format!("{TIER}=tin") }))).await;
        scene.until_object(&CONFIG_MAP, "three", "is labelled", |parent| label(parent, TIER) == "tin").await;
        assert_eq!(
            writes_as_plugin(&scene, "one").await,
            written,
            "neither a touch nor a restart is a reason to write"
        );

        // What is stated otherwise changes, and what is no longer stated goes.
        scene
            .merge(&CONFIG_MAP, "one", json!({ "data": { "label": format!("{TIER}=silver"), "annotation": null } }))
            .await;
        let is_changed = |parent: &Value| label(parent, TIER) == "silver" && annotation(parent, NOTE).is_null();
        let changed = scene.until_object(&CONFIG_MAP, "one", "is changed", is_changed).await;
        assert_eq!(annotation(&changed, "touched"), "yes");
        scene.merge(&CONFIG_MAP, "one", json!({ "data": { "label": null } })).await;
        let is_bare = |parent: &Value| label(parent, TIER).is_null();
        let bare = scene.until_object(&CONFIG_MAP, "one", "is no longer labelled", is_bare).await;
        assert_eq!(label(&bare, MARK), "yes");
        let managers = bare["metadata"]["managedFields"].as_array().unwrap();
        assert!(managers.iter().all(|entry| entry["manager"] != MANAGER), "{managers:#?}");

        // Of an object that is no parent any more, it goes, too.
        scene.merge(&CONFIG_MAP, "two", labels(&json!({ MARK: null }))).await;
        scene.until_object(&CONFIG_MAP, "two", "is released", is_bare).await;
        drop(host);
    });
}

#[test]
fn a_label_that_another_has_set_is_not_overwritten_and_said_and_set_once_it_is_free() {
    run(async {
        let (scene, _folder, _host) = served("foreign-label").await;
        let mut parent = asking("one", json!({ "label": format!("{TIER}=gold") }));
        parent["metadata"]["labels"][TIER] = json!("theirs");
        scene.create(parent).await;
        scene.event("one", "Conflict", TIER).await;
        assert!(scene.find(&LIMIT_RANGE, "one").await.is_some(), "its children are there all the same");
        assert_eq!(label(&scene.get(&CONFIG_MAP, "one").await, TIER), "theirs");
        scene.merge(&CONFIG_MAP, "one", labels(&json!({ TIER: null }))).await;
        scene.until_object(&CONFIG_MAP, "one", "is labelled", |parent| label(parent, TIER) == "gold").await;
        // The same value may have two owners, and stays with the other.
        let mut parent = asking("two", json!({ "label": format!("{TIER}=gold") }));
        parent["metadata"]["labels"][TIER] = json!("gold");
        scene.create(parent).await;
        let is_owned = |parent: &Value| parent["metadata"]["managedFields"].to_string().contains(MANAGER);
        scene.until_object(&CONFIG_MAP, "two", "is owned by both", is_owned).await;
        scene.merge(&CONFIG_MAP, "two", json!({ "data": { "label": null } })).await;
        let left = scene.until_object(&CONFIG_MAP, "two", "is the other's", |parent| !is_owned(parent)).await;
        assert_eq!(label(&left, TIER), "gold");
    });
}

#[test]
fn keys_that_are_not_granted_and_other_fields_of_the_parent_are_denied_and_the_fix_is_named() {
    run(async {
        let (scene, folder, _host) = served("denied-label").await;
        for (name, data, words) in [
            ("ungranted", json!({ "label": "tests.example.com/other=a" }), "parentMetadata: {annotations:"),
            ("kubernetes", json!({ "label": "topology.kubernetes.io/zone=a" }), "that of Kubernetes; leave it out"),
            ("argo", json!({ "annotation": "argocd.argoproj.io/sync-options=Delete=false" }), "by which a tool knows"),
            ("host", json!({ "label": "hotshoe.dev/plugin=another" }), "the host's; leave it out"),
            ("selecting", json!({ "label": format!("{MARK}=no") }), "to allow it"),
            ("field", json!({ "field": "data" }), "labels and annotations of its parent, and not data"),
        ] {
            scene.create(asking(name, data)).await;
            scene.event(name, "Denied", words).await;
            assert!(scene.find(&LIMIT_RANGE, name).await.is_none(), "{name}: nothing of the decision is carried out");
        }
        folder.edit("labels: [tests.example.com/tier]", "labels: [tests.example.com/tier, tests.example.com/other]");
        scene.until_object(&LIMIT_RANGE, "ungranted", "is there", |_| true).await;
        let is_labelled = |parent: &Value| label(parent, "tests.example.com/other") == "a";
        scene.until_object(&CONFIG_MAP, "ungranted", "is labelled", is_labelled).await;
    });
}
