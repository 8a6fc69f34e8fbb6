//! Objects that a plugin needs by label selectors: they are listed and watched under its own account for as long as a
//! parent needs them, and what is too much, or not granted, fails that parent alone.

use std::time::Duration;

use futures::{StreamExt, stream};
use hotshoe_core::model::limits::{SELECTED_OBJECTS, SELECTOR_BYTES};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP, Kind, LIMIT_RANGE, NAMESPACE, SECRET};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::wait::TIMEOUT;
use serde_json::{Value, json};

use super::rig::{Rig, with_spec};
use super::{HOSTILE, plane};

/// The time in which a change arrives by a watch, on a machine with much else to do. What is only read again is read 15 s
/// after the change before.
const BY_WATCH: Duration = Duration::from_secs(13);
/// The name of the ClusterRole of an account that may list ConfigMaps in the namespace of its test.
const SELECTS: &str = "tests-hostile-selects";
/// The name of the ClusterRole of an account that may list LimitRanges everywhere.
const SELECTS_LIMITS: &str = "tests-hostile-selects-limits";
/// How many objects the widest selector finds.
const TOO_MANY: usize = 10_000;
/// The grant of LimitRanges, which the plugin does not own.
const LIMIT_RANGES: &str = "    - {group: \"\", kind: LimitRange, verbs: [list, watch], namespaces: cluster}\n";

/// A host with the plugin, whose account may list ConfigMaps, and LimitRanges in every namespace.
async fn selecting(name: &str) -> Rig {
    let folder = Folder::of_hostile();
    folder.edit("  grants:\n", &format!("  grants:\n{LIMIT_RANGES}"));
    let lists = |resource: &str| json!([{ "apiGroups": [""], "resources": [resource], "verbs": ["list", "watch"] }]);
    let plane = plane().await;
    plane.create_role(SELECTS, &lists("configmaps")).await;
    plane.grant(HOSTILE, SELECTS_LIMITS, &lists("limitranges")).await;
    let rig = Rig::with(name, HOSTILE, folder).await;
    plane.bind(HOSTILE, SELECTS, &rig.scene.namespace).await;
    rig
}

/// A parent that needs what a selector selects, and shows it in its status.
fn selecting_parent(name: &str, kind: &Kind, selector: &str) -> Value {
    let need =
        json!({ "group": kind.group, "version": kind.version, "kind": kind.kind, "name": format!("?{selector}") });
    with_spec(name, json!({ "attack": "needs", "needs": [need] }))
}

fn in_namespace(mut parent: Value, namespace: &str) -> Value {
    parent["spec"]["needs"][0]["namespace"] = namespace.into();
    parent
}

fn labelled(kind: &Kind, name: &str, labels: Value, text: &str) -> Value {
    let metadata = json!({ "name": name, "labels": labels, "annotations": { "says": text } });
    let mut object = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata });
    if kind.kind == LIMIT_RANGE.kind {
        object["spec"] = json!({ "limits": [{ "type": "Container" }] });
    }
    object
}

/// Waits until the status of a parent shows objects with exactly these texts.
async fn shows(rig: &Rig, within: Duration, parent: &str, texts: &[&str]) {
    let scene = &rig.scene;
    let is_shown = |word: &str| {
        let has = |text: &&str| word.contains(&format!("\"says\": String({text:?})"));
        word.starts_with('[') && texts.iter().all(has) && word.matches("\"says\": String(").count() == texts.len()
    };
    scene
        .until_within(within, &format!("{parent} shows {texts:?}"), async || {
            let found = scene.admin.get(&ATTACK, &scene.namespace, parent).await.map_err(|error| error.message)?;
            let word = found["status"]["word"].as_str().unwrap_or_default();
            if is_shown(word) { Ok(()) } else { Err(format!("{:#}", found["status"])) }
        })
        .await;
}

/// Waits until a parent reports a failure of this reason whose message has these words.
async fn fails(rig: &Rig, parent: &str, reason: &str, words: &str) {
    let says = |object: &Value| {
        let (status, found, message) = condition_parts(object, "Reconciled");
        (status, found) == ("False", reason) && message.contains(words)
    };
    rig.scene.until_object(&ATTACK, parent, &format!("fails with {reason}: {words}"), says).await;
}

#[test]
fn a_new_object_a_change_a_lost_label_and_a_deletion_arrive_by_the_watch_of_a_selector() {
    run(async {
        let rig = selecting("selected").await;
        for parent in ["one", "two"] {
            rig.scene.create(selecting_parent(parent, &CONFIG_MAP, "app=shop,tier in (a,b),!legacy")).await;
            shows(&rig, TIMEOUT, parent, &[]).await;
        }
        let shop = |tier: &str| json!({ "app": "shop", "tier": tier });
        let settings = |labels: Value, text: &str| labelled(&CONFIG_MAP, "settings", labels, text);
        let both = async |texts: &[&str]| {
            for parent in ["one", "two"] {
                shows(&rig, BY_WATCH, parent, texts).await;
            }
        };
        rig.scene.apply("tests", settings(shop("a"), "it is there")).await;
        both(&["it is there"]).await;
        rig.scene.apply("tests", settings(shop("a"), "it is changed")).await;
        both(&["it is changed"]).await;
        rig.scene.create(labelled(&CONFIG_MAP, "more", shop("b"), "another")).await;
        rig.scene.create(labelled(&CONFIG_MAP, "other", shop("c"), "of another tier")).await;
        both(&["it is changed", "another"]).await;
        rig.scene.apply("tests", settings(json!({ "app": "shop", "tier": "a", "legacy": "" }), "it is changed")).await;
        both(&["another"]).await;
        rig.scene.apply("tests", settings(shop("b"), "it is back")).await;
        both(&["it is back", "another"]).await;
        for name in ["settings", "more"] {
            rig.scene.delete(&CONFIG_MAP, name).await;
        }
        both(&[]).await;
    });
}

#[test]
fn what_a_selector_may_not_find_fails_its_parent_alone_and_visibly() {
    run(async {
        let rig = selecting("unselected").await;
        let too_long = format!("a in ({})", "b".repeat(SELECTOR_BYTES));
        for (name, kind, selector, reason, words) in [
            ("secrets", &SECRET, "app=shop", "Denied", "Secrets are read by name only"),
            ("no-selector", &CONFIG_MAP, "app = = shop", "InvalidSelector", "in the object, or in the plugin"),
            ("too-long", &CONFIG_MAP, &too_long, "InvalidSelector", "more than 1024 bytes"),
        ] {
            rig.scene.create(selecting_parent(name, kind, selector)).await;
            fails(&rig, name, reason, words).await;
        }
        rig.scene.create(in_namespace(selecting_parent("elsewhere", &CONFIG_MAP, "app=shop"), "default")).await;
        fails(&rig, "elsewhere", "Denied", "{kind: ConfigMap, namespaces: [default], verbs: [list, watch]}").await;
        rig.scene.create(selecting_parent("reader", &CONFIG_MAP, "app=shop")).await;
        shows(&rig, TIMEOUT, "reader", &[]).await;
        rig.is_well("selectors that find nothing").await;
    });
}

#[test]
fn of_ten_thousand_selected_objects_the_host_keeps_none_and_the_parent_alone_fails_until_it_selects_fewer() {
    run(async {
        let rig = selecting("many-selected").await;
        let create = |number: usize| {
            let name = format!("many-{number}");
            rig.scene.create(labelled(&CONFIG_MAP, &name, json!({ "app": "many" }), "one of many"))
        };
        stream::iter(0..TOO_MANY).map(create).buffer_unordered(32).count().await;
        rig.scene.create(selecting_parent("hoarder", &CONFIG_MAP, "app=many")).await;
        let words = format!("more than {SELECTED_OBJECTS} objects");
        fails(&rig, "hoarder", "TooManySelected", &words).await;
        rig.scene.create(selecting_parent("reader", &CONFIG_MAP, "app=few")).await;
        shows(&rig, TIMEOUT, "reader", &[]).await;
        // Nor is there more memory in use than before.
        rig.is_well("ten thousand selected objects").await;
        let narrowed = selecting_parent("hoarder", &CONFIG_MAP, "app=few")["spec"].clone();
        rig.scene.merge(&ATTACK, "hoarder", json!({ "spec": narrowed })).await;
        shows(&rig, TIMEOUT, "hoarder", &[]).await;
    });
}

#[test]
fn a_grant_that_is_withdrawn_ends_what_a_selector_finds_until_the_advice_is_followed() {
    run(async {
        let rig = selecting("withdrawn").await;
        rig.scene.create(selecting_parent("reader", &LIMIT_RANGE, "app=shop")).await;
        shows(&rig, TIMEOUT, "reader", &[]).await;
        rig.scene.apply("tests", labelled(&LIMIT_RANGE, "limits", json!({ "app": "shop" }), "it is there")).await;
        shows(&rig, BY_WATCH, "reader", &["it is there"]).await;
        rig.folder.edit(LIMIT_RANGES, "");
        fails(&rig, "reader", "Denied", "{kind: LimitRange, verbs: [list, watch]}").await;
        rig.folder.edit("  grants:\n", "  grants:\n    - {kind: LimitRange, verbs: [list, watch]}\n");
        rig.scene.apply("tests", labelled(&LIMIT_RANGE, "limits", json!({ "app": "shop" }), "it is seen again")).await;
        shows(&rig, TIMEOUT, "reader", &["it is seen again"]).await;
        rig.scene.apply("tests", labelled(&LIMIT_RANGE, "limits", json!({ "app": "shop" }), "it is watched")).await;
        shows(&rig, BY_WATCH, "reader", &["it is watched"]).await;
    });
}

#[test]
fn the_objects_of_a_namespace_that_goes_are_gone() {
    run(async {
        let rig = selecting("selected-goes").await;
        let other = format!("{}-other", rig.scene.namespace);
        rig.scene.plane.create_namespace(&other).await;
        rig.scene.create(in_namespace(selecting_parent("reader", &LIMIT_RANGE, "app=shop"), &other)).await;
        let mut limits = labelled(&LIMIT_RANGE, "limits", json!({ "app": "shop" }), "it is elsewhere");
        limits["metadata"]["namespace"] = other.clone().into();
        rig.scene.admin.create(&limits).await.expect("a LimitRange");
        shows(&rig, TIMEOUT, "reader", &["it is elsewhere"]).await;
        rig.scene.admin.delete(&NAMESPACE, "", &other).await.expect("a deletion");
        shows(&rig, TIMEOUT, "reader", &[]).await;
        rig.is_well("a namespace that went").await;
    });
}

#[test]
fn without_the_right_to_list_the_failure_says_which_rights_to_apply() {
    run(async {
        let rig = Rig::new("may-not-list").await;
        rig.scene.create(selecting_parent("reader", &CONFIG_MAP, "app=shop")).await;
        fails(&rig, "reader", "Forbidden", "hotshoe rbac").await;
    });
}
