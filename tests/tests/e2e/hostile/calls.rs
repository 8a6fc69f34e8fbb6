//! Attacks in a call: each costs that one decision, with a reported reason, and nothing else.

use hotshoe_tests::attacks::components::harmless;
use hotshoe_tests::attacks::{ATTACKS, Attack, How, SERVED};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use serde_json::{Value, json};

use super::HOSTILE;
use super::rig::{Rig, attack, with_spec};

/// The rows that have a test of their own.
const SEVERAL_CALLS: [&str; 4] = [
    "a trap after a hundred good calls",
    "no children after a good life",
    "retry after u64::MAX",
    "status of 60 KB for each of many parents",
];

fn rows(wanted: impl Fn(&How) -> bool) -> impl Iterator<Item = &'static Attack> {
    let here =
        move |attack: &&Attack| wanted(&attack.how) && attack.reason != SERVED && !SEVERAL_CALLS.contains(&attack.name);
    ATTACKS.iter().filter(here)
}

#[test]
fn an_attack_in_a_call_costs_that_decision_and_nothing_else() {
    run(async {
        let rig = Rig::new("calls").await;
        let mut children = vec!["first".to_owned()];
        for (number, row) in rows(|how| matches!(how, How::Called(_))).enumerate() {
            let How::Called(word) = row.how else { continue };
            let name = format!("call-{number}");
            rig.scene.create(attack(&name, word)).await;
            rig.reports(&name, row).await;
            assert!(rig.scene.find(&CONFIG_MAP, &name).await.is_none(), "{}: a child was written", row.name);
            rig.is_well(row.name).await;
            rig.recovers(&name).await;
            rig.forget(&name).await;
            children.push(name);
        }
        rig.wrote_only(&children).await;
    });
}

#[test]
fn a_plugin_whose_status_is_refused_again_and_again_is_not_called_for_a_while() {
    run(async {
        let rig = Rig::new("status").await;
        for number in 0..8 {
            rig.scene.create(attack(&format!("one-{number}"), "the host's condition")).await;
        }
        rig.host
            .until("the circuit is open", async || {
                let plugin = rig.plugin().await;
                if plugin["breaker"]["state"] == "open" { Ok(()) } else { Err(format!("{plugin:#}")) }
            })
            .await;
        rig.is_well("the host's condition").await;
    });
}

#[test]
fn text_that_yaml_would_read_differently_is_written_unchanged_and_once() {
    run(async {
        let rig = Rig::new("yaml").await;
        let odd = ('\u{7f}'..='\u{9f}').chain(['\u{2028}', '\u{2029}', '\u{feff}', '\u{fffe}', '\u{ffff}']);
        let text = format!("{0} a\n{0}", odd.collect::<String>());
        let body = json!({ "metadata": { "annotations": { "odd": text } }, "data": { "odd": text } });
        let child =
            json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": "odd", "body": body.to_string() });
        rig.scene.create(with_spec("one", json!({ "attack": "dictated", "children": [child] }))).await;
        let is_whole =
            |object: &Value| object["data"]["odd"] == text && object["metadata"]["annotations"]["odd"] == text;
        let written = rig.scene.until_object(&CONFIG_MAP, "odd", "has its text", is_whole).await;
        rig.scene.merge(&ATTACK, "one", json!({ "metadata": { "annotations": { "touched": "yes" } } })).await;
        rig.scene.create(attack("two", "")).await;
        rig.serves("two").await;
        let now = rig.scene.get(&CONFIG_MAP, "odd").await;
        assert_eq!(now["metadata"]["resourceVersion"], written["metadata"]["resourceVersion"], "{now:#}");
        let writes = rig.scene.recorded_writes().await;
        let applied = writes.iter().filter(|write| write.is_about("configmaps") && write.name == "odd");
        assert_eq!(applied.count(), 1, "{writes:#?}");
    });
}

#[test]
fn children_beyond_the_memory_limit_wait_until_others_are_gone() {
    run(async {
        let folder = Folder::of_hostile();
        folder.edit("    compileTime: 3s\n", "    compileTime: 3s\n    heldBytes: 1280Ki\n");
        let rig = Rig::with("room", HOSTILE, folder).await;
        let large = |name: &str| {
            let body = json!({ "data": { "text": "x".repeat(400_000) } }).to_string();
            let child = json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": name, "body": body });
            with_spec(name, json!({ "attack": "dictated", "children": [child] }))
        };
        for name in ["large-0", "large-1"] {
            rig.scene.create(large(name)).await;
            rig.scene.until_object(&CONFIG_MAP, name, "is there", |_| true).await;
        }
        rig.scene.create(large("large-2")).await;
        let object = rig.scene.until_condition_of(&ATTACK, "large-2", "Reconciled", "False", "LimitExceeded").await;
        let message = condition_parts(&object, "Reconciled").2;
        assert!(message.contains("limits.heldBytes"), "{message}");
        assert!(rig.scene.find(&CONFIG_MAP, "large-2").await.is_none(), "a child was written");
        // A parent that needs little memory, or less than before, is served.
        rig.scene.create(attack("small", "")).await;
        rig.serves("small").await;
        rig.recovers("large-1").await;
        rig.scene.until_object(&CONFIG_MAP, "large-2", "is there, as there is room again", |_| true).await;
        for name in ["large-0", "large-2"] {
            rig.recovers(name).await;
        }
        rig.is_well("children that there is no room for").await;
    });
}

#[test]
fn an_attack_that_no_compiler_writes_costs_that_decision_and_nothing_else() {
    run(async {
        let rig = Rig::new("components").await;
        let mut children = vec!["first".to_owned()];
        for (number, row) in rows(|how| matches!(how, How::Component(_))).enumerate() {
            let How::Component(component) = row.how else { continue };
            let (name, good) = (format!("component-{number}"), format!("good-{number}"));
            rig.publishes(&component()).await;
            rig.scene.create(attack(&name, "")).await;
            rig.reports(&name, row).await;
            rig.is_well(row.name).await;
            rig.scene.delete(&ATTACK, &name).await;
            rig.scene.gone(&ATTACK, &name).await;
            rig.publishes(rig.folder.original()).await;
            rig.scene.create(attack(&good, "")).await;
            rig.serves(&good).await;
            rig.forget(&good).await;
            children.push(good);
        }
        rig.wrote_only(&children).await;
    });
}

#[test]
fn a_component_that_fails_for_an_existing_parent_is_not_activated() {
    run(async {
        let rig = Rig::new("first-call").await;
        rig.scene.create(attack("one", "")).await;
        rig.serves("one").await;
        let good = rig.plugin().await["digest"].clone();
        for row in rows(|how| matches!(how, How::Component(_))).take(3) {
            let How::Component(component) = row.how else { continue };
            rig.folder.put(&component());
            let (status, words) = rig.host.ask(&["reload", "hostile"]);
            assert!(!status.success() && words.contains("ApprovalRequired"), "{}: {words}", row.name);
            assert_eq!(rig.plugin().await["digest"], good, "{}", row.name);
            rig.is_well(row.name).await;
        }
        rig.folder.put(&harmless());
        rig.folder.put(rig.folder.original());
        let (status, words) = rig.host.ask(&["reload", "hostile"]);
        assert!(status.success(), "{words}");
        rig.serves("one").await;
    });
}
