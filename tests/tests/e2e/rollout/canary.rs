//! A canary: a new component decides for a share of the parents first. One of the two revisions decides for each
//! parent, whose status and child show which.

use std::collections::{BTreeMap, BTreeSet};

use hotshoe_core::flow::canary::Share;
use hotshoe_core::model::digest::Digest;
use hotshoe_tests::faulty::{
    WORKS, another, fault, grant_second_kind, install_faults_of, scene_with_faults, start, until_digest, words,
};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::{CANARY_FAULT, CONFIG_MAP, FAULT, Kind, LIMIT_RANGE, NAMESPACE};
use hotshoe_tests::only_host::OnlyHost;
use hotshoe_tests::scene::{condition_parts, labels};
use hotshoe_tests::{ControlPlane, Host, Scene, repository, run};
use serde_json::{Value, json};

const SLIPS: &str = "this revision slips";
const FREES: &str = "this revision frees";
const HOLDS: &str = "this revision holds";

fn digest(component: &[u8]) -> Digest {
    Digest::of(component)
}

/// The plugin, with a rollout by canary.
fn folder(rollout: &str) -> Folder {
    let folder = Folder::of_faulty();
    folder.edit("spec:\n", &format!("spec:\n  rollout: {rollout}\n"));
    folder
}

/// Creates parents that show which revision decided, or can be made to fail, and waits until the first has decided for
/// all.
async fn parents(scene: &Scene, count: usize, says: &str) {
    for number in 0..count {
        scene.create(fault(&format!("fault-{number}"), says)).await;
    }
    for number in 0..count {
        let is_served =
            |object: &Value| condition_parts(object, "Kept").0 == "True" || object["status"]["word"] == WORKS;
        scene.until_object(&FAULT, &format!("fault-{number}"), "is served", is_served).await;
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Returns the parents in the share of a component.
async fn share_of(scene: &Scene, percent: u8, component: &[u8]) -> BTreeSet<String> {
    let share = Share::Percent(percent);
    let is_in =
        |object: &Value| share.has(digest(component), object["metadata"]["uid"].as_str().unwrap_or_default(), None);
    scene.list(&FAULT).await.iter().filter(|object| is_in(object)).map(name).collect()
}

/// Returns the revision that each parent and its child show, and whether the condition names a canary.
async fn shown_revisions(scene: &Scene, kind: &Kind) -> BTreeMap<String, (String, String, bool)> {
    let children: BTreeMap<_, _> =
        scene.list(&CONFIG_MAP).await.iter().map(|child| (name(child), child["data"]["revision"].clone())).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_parent = |parent: &Value| {
        let (status, reason, _) = condition_parts(parent, "Reconciled");
        let child = children.get(&name(parent)).map(text).unwrap_or_default();
        (name(parent), (text(&parent["status"]["word"]), child, (status, reason) == ("True", "Canary")))
    };
    scene.list(kind).await.iter().map(of_parent).collect()
}

/// Waits until the canary has decided for its share, with the condition that names it, and the active revision for all
/// other parents.
async fn until_decided_by(scene: &Scene, canary: &BTreeSet<String>, words: (&str, &str)) {
    until_kind_decided_by(&FAULT, scene, canary, words).await;
}

async fn until_kind_decided_by(
    kind: &Kind,
    scene: &Scene,
    canary: &BTreeSet<String>,
    (of_canary, of_active): (&str, &str),
) {
    let expected = |name: &str| match canary.contains(name) {
        true => (of_canary.to_owned(), of_canary.to_owned(), true),
        false => (of_active.to_owned(), of_active.to_owned(), false),
    };
    scene
        .until(&format!("{} say {of_canary:?}", canary.len()), async || {
            let found = shown_revisions(scene, kind).await;
            match found.iter().find(|(name, said)| **said != expected(name)) {
                None if !found.is_empty() => Ok(()),
                other => Err(format!("{other:?} of {found:#?}")),
            }
        })
        .await;
}

async fn until_canary(host: &Host, component: &[u8]) -> Value {
    let wanted = digest(component).full();
    let plugin = host.until_plugin("it is the canary", |plugin| plugin["canary"]["digest"] == *wanted).await;
    plugin["canary"].clone()
}

async fn until_no_canary(host: &Host) -> Value {
    host.until_plugin("there is no canary", |plugin| plugin["canary"].is_null()).await
}

fn events(host: &Host) -> Vec<(String, String)> {
    let (_, words) = host.ask(&["history", "faulty", "-o", "json"]);
    let history: Value = serde_json::from_str(&words).expect("JSON");
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = history["entries"].as_array().expect("entries");
    entries.iter().map(|entry| (text(entry, "digest"), text(entry, "event"))).collect()
}

fn event(component: &[u8], event: &str) -> (String, String) {
    (digest(component).full(), event.to_owned())
}

/// Returns the objects of the namespace that the log names in lines of a revision.
fn touched(host: &Host, scene: &Scene, component: &[u8]) -> BTreeSet<String> {
    let (digest, here) = (format!("digest={} ", digest(component)), format!("{}/", scene.namespace));
    let object = |line: &str| {
        let object = line.split_once("object=")?.1.split_once(&here)?.1;
        Some(object.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect())
    };
    host.log().lines().filter(|line| line.contains(&digest)).filter_map(object).collect()
}

#[test]
fn a_good_canary_decides_for_its_share_and_after_its_duration_for_all() {
    run(async {
        const COUNT: usize = 40;
        let mut scene = scene_with_faults("canary-good").await;
        let folder = folder("{canary: {percent: 25}, duration: 60m}");
        let host = start(&mut scene, &folder).await;
        parents(&scene, COUNT, "say").await;
        let second = another(&folder, 1);
        folder.put(&second);
        let canary = until_canary(&host, &second).await;
        let share = share_of(&scene, 25, &second).await;
        assert!((1..COUNT / 2).contains(&share.len()), "{share:?}");
        assert_eq!((&canary["parents"], &canary["share"]), (&json!(share.len()), &json!("25%")));
        until_decided_by(&scene, &share, (&words(1), WORKS)).await;
        let (status, shown) = host.ask(&["status"]);
        assert!(status.success() && shown.contains("is the canary for 25%"), "{shown}");
        assert_eq!(host.digest().await, digest(folder.original()).full(), "the first component is still active");
        assert_eq!(events(&host), [event(folder.original(), "Activated")]);
        // A change of a parent, or a new parent, is decided by the revision in whose share the parent is.
        for name in (0..COUNT).map(|number| format!("fault-{number}")) {
            scene.merge(&FAULT, &name, json!({ "metadata": { "labels": { "changed": "yes" } } })).await;
        }
        scene.create(fault("later", "say")).await;
        let share = share_of(&scene, 25, &second).await;
        until_decided_by(&scene, &share, (&words(1), WORKS)).await;
        assert_eq!(touched(&host, &scene, &second), share);
        // A larger share contains the smaller one.
        folder.edit("percent: 25", "percent: 60");
        let larger = share_of(&scene, 60, &second).await;
        assert!(larger.is_superset(&share));
        until_decided_by(&scene, &larger, (&words(1), WORKS)).await;
        folder.edit("duration: 60m", "duration: 1s");
        until_digest(&host, &second).await;
        host.until_logged(&["the canary is activated: its time is over"]).await;
        scene
            .until("all say so, and none names a canary", async || {
                let found = shown_revisions(&scene, &FAULT).await;
                let is_other = |said: &&(String, String, bool)| **said != (words(1), words(1), false);
                match found.values().find(is_other) {
                    None => Ok(()),
                    Some(other) => Err(format!("{other:?} of {found:#?}")),
                }
            })
            .await;
        assert!(until_no_canary(&host).await["refused"].is_null());
        assert_eq!(events(&host), [event(folder.original(), "Activated"), event(&second, "Activated")]);
        // The canary began once, whatever was changed meanwhile.
        let log = host.log();
        let is_of_it = |line: &&str| {
            line.contains("the component is the canary") && line.contains(&format!("digest={} ", digest(&second)))
        };
        assert_eq!(log.lines().filter(is_of_it).count(), 1, "{log}");
        // It can be rolled back like any other revision.
        assert!(host.ask(&["rollback", "faulty"]).0.success());
        until_digest(&host, folder.original()).await;
    });
}

#[test]
fn a_bad_canary_is_rolled_back_and_has_touched_its_share_only() {
    run(async {
        const COUNT: usize = 24;
        let mut scene = scene_with_faults("canary-bad").await;
        let folder = folder("{canary: {percent: 50}, duration: 60m}");
        let mut host = start(&mut scene, &folder).await;
        parents(&scene, COUNT, "").await;
        let bad = reworded(folder.original(), WORKS, SLIPS);
        folder.put(&bad);
        until_canary(&host, &bad).await;
        let share = share_of(&scene, 50, &bad).await;
        assert!(!share.is_empty() && share.len() < COUNT, "{share:?}");
        // It served all existing parents. Now some change to what it cannot serve.
        for number in 0..COUNT {
            scene.merge(&FAULT, &format!("fault-{number}"), json!({ "spec": { "fault": "slip" } })).await;
        }
        let plugin = until_no_canary(&host).await;
        assert_eq!(plugin["digest"], *digest(folder.original()).full());
        for number in 0..COUNT {
            let is_served = |object: &Value| {
                object["status"]["word"] == "slip" && condition_parts(object, "Reconciled").0.is_empty()
            };
            scene.until_object(&FAULT, &format!("fault-{number}"), "is served by the first", is_served).await;
        }
        let plugin = host.until_plugin("it says so", |plugin| plugin["refused"].is_object()).await;
        let (refused, breaker) = (&plugin["refused"], &plugin["breaker"]);
        assert_eq!((&refused["reason"], &refused["digest"]), (&json!("RolledBack"), &json!(digest(&bad).full())));
        assert!(refused["message"].as_str().is_some_and(|why| why.contains("calls failed")), "{refused:#}");
        assert_eq!((&breaker["state"], &breaker["strikes"]), (&json!("closed"), &json!(0)), "{breaker:#}");
        let touched = touched(&host, &scene, &bad);
        assert!(!touched.is_empty() && touched.is_subset(&share), "{touched:?} of {share:?}");
        assert_eq!(events(&host), [event(folder.original(), "Activated"), event(&bad, "RolledBack")]);
        // Neither a reload nor another host starts the canary again; an approval does.
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("RolledBack"), "{words}");
        host.stop();
        let host = start(&mut scene, &folder).await;
        let plugin = host.until_plugin("it is refused", |plugin| plugin["refused"].is_object()).await;
        assert_eq!(plugin["canary"], Value::Null, "{plugin:#}");
        let (status, words) = host.ask(&["approve", "faulty", &digest(&bad).to_string()]);
        assert!(status.success() && words.contains("is the canary for 50%"), "{words}");
        let (status, words) = host.ask(&["rollback", "faulty"]);
        assert!(status.success() && !words.contains("canary"), "{words}");
        assert_eq!(host.plugin().await["refused"]["reason"], "RolledBack");
    });
}

#[test]
fn a_canary_stays_where_the_active_revision_fails_on_the_same_parents() {
    run(async {
        let mut scene = scene_with_faults("canary-no-worse").await;
        let folder = folder("{canary: {percent: 99}, duration: 60m}");
        let host = start(&mut scene, &folder).await;
        parents(&scene, 8, "").await;
        let second = reworded(folder.original(), WORKS, SLIPS);
        folder.put(&second);
        until_canary(&host, &second).await;
        for number in 0..8 {
            scene.merge(&FAULT, &format!("fault-{number}"), json!({ "spec": { "fault": "trap" } })).await;
        }
        host.until_logged(&["WARN", "the active revision fails on the same objects, so it stays the canary"]).await;
        until_canary(&host, &second).await;
        let failing = scene
            .until_object(&FAULT, "fault-0", "fails", |object| condition_parts(object, "Reconciled").1 == "Trapped")
            .await;
        let is_in = share_of(&scene, 99, &second).await.contains("fault-0");
        assert_eq!(condition_parts(&failing, "Reconciled").2.contains("decided by the canary"), is_in, "{failing:#}");
    });
}

#[test]
fn a_newer_component_takes_the_place_of_a_canary_and_each_parent_has_one_revision() {
    run(async {
        const COUNT: usize = 30;
        let mut scene = scene_with_faults("canary-newer").await;
        let folder = folder("{canary: {percent: 40}, duration: 60m}");
        let host = start(&mut scene, &folder).await;
        parents(&scene, COUNT, "say").await;
        for number in 1..=3 {
            let newer = another(&folder, number);
            folder.put(&newer);
            until_canary(&host, &newer).await;
            let share = share_of(&scene, 40, &newer).await;
            until_decided_by(&scene, &share, (&words(number), WORKS)).await;
        }
        // None of the replaced canaries was found to be bad.
        assert_eq!(events(&host), [event(folder.original(), "Activated")]);
        // The active component is put back in place.
        folder.put(folder.original());
        let plugin = until_no_canary(&host).await;
        assert!(plugin["refused"].is_null(), "{plugin:#}");
        until_decided_by(&scene, &BTreeSet::new(), ("", WORKS)).await;
        // Once spec.rollout is removed, the canary decides for the remaining parents at once.
        let last = another(&folder, 4);
        folder.put(&last);
        until_canary(&host, &last).await;
        folder.edit("  rollout: {canary: {percent: 40}, duration: 60m}\n", "");
        until_digest(&host, &last).await;
        until_decided_by(&scene, &BTreeSet::new(), ("", &words(4))).await;
    });
}

#[test]
fn a_rollback_or_a_pinned_revision_ends_a_canary() {
    run(async {
        let mut scene = scene_with_faults("canary-command").await;
        let folder = folder("{canary: {percent: 50}, duration: 60m}");
        let host = start(&mut scene, &folder).await;
        parents(&scene, 20, "say").await;
        let (second, third) = (another(&folder, 1), another(&folder, 2));
        folder.put(&second);
        until_canary(&host, &second).await;
        let (status, words_of_host) = host.ask(&["rollback", "faulty"]);
        assert!(status.success(), "{words_of_host}");
        until_decided_by(&scene, &BTreeSet::new(), ("", WORKS)).await;
        let plugin = until_no_canary(&host).await;
        assert_eq!(plugin["refused"]["reason"], "RolledBack", "{plugin:#}");
        assert_eq!(plugin["digest"], *digest(folder.original()).full());
        // The active revision is pinned: that ends the canary, which begins again once nothing is pinned.
        folder.put(&third);
        until_canary(&host, &third).await;
        let revision = format!("spec:\n  revision: {}\n", digest(folder.original()).full());
        folder.edit("spec:\n", &revision);
        let plugin = until_no_canary(&host).await;
        assert_eq!(plugin["digest"], *digest(folder.original()).full());
        host.until_plugin("it waits", |plugin| plugin["refused"]["reason"] == "RevisionPinned").await;
        folder.edit(&revision, "spec:\n");
        until_canary(&host, &third).await;
        // Pinned itself, it decides for all.
        folder.edit("spec:\n", &format!("spec:\n  revision: {}\n", digest(&third).full()));
        until_digest(&host, &third).await;
        until_decided_by(&scene, &BTreeSet::new(), ("", &words(2))).await;
    });
}

#[test]
fn a_restart_starts_the_canary_again_beside_the_active_revision() {
    run(async {
        let mut scene = scene_with_faults("canary-restart").await;
        let folder = folder("{canary: {percent: 30}, duration: 60m}");
        let mut host = start(&mut scene, &folder).await;
        parents(&scene, 30, "say").await;
        let second = another(&folder, 1);
        folder.put(&second);
        until_canary(&host, &second).await;
        let share = share_of(&scene, 30, &second).await;
        until_decided_by(&scene, &share, (&words(1), WORKS)).await;
        for kill in [true, false] {
            if kill {
                host.kill();
            } else {
                host.stop();
            }
            host = start(&mut scene, &folder).await;
            until_canary(&host, &second).await;
            assert_eq!(host.digest().await, digest(folder.original()).full());
            until_decided_by(&scene, &share, (&words(1), WORKS)).await;
        }
        assert_eq!(events(&host).iter().filter(|(of, _)| *of == digest(&second).full()).count(), 0);
    });
}

#[test]
fn a_canary_begins_anew_beside_the_revision_that_takes_the_place_of_a_bad_active_one() {
    run(async {
        const COUNT: usize = 24;
        let mut scene = scene_with_faults("canary-rollback").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        parents(&scene, COUNT, "").await;
        let (bad, fix) = (reworded(folder.original(), WORKS, SLIPS), another(&folder, 1));
        folder.put(&bad);
        until_digest(&host, &bad).await;
        folder.edit("spec:\n", "spec:\n  rollout: {canary: {percent: 30}, duration: 60m}\n");
        folder.put(&fix);
        until_canary(&host, &fix).await;
        for number in 0..COUNT {
            scene.merge(&FAULT, &format!("fault-{number}"), json!({ "spec": { "fault": "slip" } })).await;
        }
        until_digest(&host, folder.original()).await;
        until_canary(&host, &fix).await;
        let share = share_of(&scene, 30, &fix).await;
        for number in 0..COUNT {
            let name = format!("fault-{number}");
            let reason = if share.contains(&name) { "Canary" } else { "" };
            let is_served = |object: &Value| {
                object["status"]["word"] == "slip" && condition_parts(object, "Reconciled").1 == reason
            };
            scene.until_object(&FAULT, &name, "is served", is_served).await;
        }
        assert!(host.plugin().await["refused"].is_null());
        let rolled_back = event(&bad, "RolledBack");
        assert!(events(&host).contains(&rolled_back) && !events(&host).contains(&event(&fix, "RolledBack")));
    });
}

#[test]
fn a_changed_plugin_yaml_applies_to_the_canary_and_one_that_grants_it_less_ends_it() {
    run(async {
        let mut scene = scene_with_faults("canary-reload").await;
        let folder = folder("{canary: {percent: 50}, duration: 60m}");
        let host = start(&mut scene, &folder).await;
        parents(&scene, 20, "say").await;
        let second = another(&folder, 1);
        folder.put(&second);
        let since = until_canary(&host, &second).await["since"].clone();
        folder.edit("  grants:\n", "  config: {values: {a: 1}}\n  grants:\n");
        host.until_logged(&["plugin.yaml has changed and is applied"]).await;
        let share = share_of(&scene, 50, &second).await;
        until_decided_by(&scene, &share, (&words(1), WORKS)).await;
        assert_eq!(until_canary(&host, &second).await["since"], since, "it goes on");
        // An invalid file changes nothing.
        folder.edit("percent: 50", "percent: 500");
        host.until_plugin("it is refused", |plugin| plugin["pluginFile"]["refused"].is_string()).await;
        assert_eq!(until_canary(&host, &second).await["share"], "50%");
        folder.edit("percent: 500", "percent: 50");
        folder.edit("verbs: [get, list, watch, create, update, delete]", "verbs: [get, list, watch]");
        let plugin = until_no_canary(&host).await;
        assert_eq!(plugin["digest"], *digest(folder.original()).full());
        host.until_plugin("it lacks rights", |plugin| plugin["refused"]["reason"] == "NotGranted").await;
        folder.edit("verbs: [get, list, watch]", "verbs: [get, list, watch, create, update, delete]");
        until_canary(&host, &second).await;
        until_decided_by(&scene, &share, (&words(1), WORKS)).await;
    });
}

/// Waits until exactly these parents have a child of the kind that not every component owns.
async fn until_held(scene: &Scene, expected: &BTreeSet<String>) {
    scene
        .until("those have a LimitRange", async || {
            let found: BTreeSet<String> = scene.list(&LIMIT_RANGE).await.iter().map(name).collect();
            if found == *expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
        })
        .await;
}

#[test]
fn children_of_a_kind_that_only_a_canary_owns_are_pruned_and_do_not_block_a_newer_canary() {
    run(async {
        const COUNT: usize = 16;
        let mut scene = scene_with_faults("canary-children").await;
        let folder = folder("{canary: {percent: 50}, duration: 60m}");
        grant_second_kind(&scene, &folder).await;
        let host = start(&mut scene, &folder).await;
        parents(&scene, COUNT, "").await;
        let (holding, newer) = (reworded(folder.original(), WORKS, HOLDS), another(&folder, 1));
        folder.put(&holding);
        until_canary(&host, &holding).await;
        let share = share_of(&scene, 50, &holding).await;
        assert!(share.len() > COUNT / 10, "{share:?}");
        until_held(&scene, &share).await;
        // The parents of its share are now the newer canary's or the active revision's.
        folder.put(&newer);
        until_canary(&host, &newer).await;
        until_held(&scene, &BTreeSet::new()).await;
        folder.put(&holding);
        until_canary(&host, &holding).await;
        until_held(&scene, &share).await;
        assert!(host.ask(&["rollback", "faulty"]).0.success());
        until_held(&scene, &BTreeSet::new()).await;
        assert_eq!(
            scene.list(&CONFIG_MAP).await.iter().filter(|child| share.contains(&name(child))).count(),
            share.len()
        );
        // The kind is no longer watched.
        host.until_plugin("the kind is not watched", |plugin| {
            let watches = plugin["watches"].as_array().cloned().unwrap_or_default();
            !watches.iter().any(|watch| watch["kind"] == "LimitRange")
        })
        .await;
    });
}

#[test]
fn a_component_with_another_finalizer_is_no_canary_and_an_approval_activates_it_for_all() {
    run(async {
        let mut scene = scene_with_faults("canary-finalizer").await;
        let folder = folder("{canary: {percent: 50}}");
        let host = start(&mut scene, &folder).await;
        parents(&scene, 4, "").await;
        let other = reworded(folder.original(), WORKS, FREES);
        folder.put(&other);
        let plugin = host.until_plugin("it is refused", |plugin| plugin["refused"].is_object()).await;
        assert_eq!(plugin["refused"]["reason"], "ApprovalRequired", "{plugin:#}");
        let why = plugin["refused"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("its finalizer is none") && why.contains("all parents at once"), "{why}");
        assert!(host.ask(&["approve", "faulty"]).0.success());
        until_digest(&host, &other).await;
        assert_eq!(host.plugin().await["canary"], Value::Null);
    });
}

#[test]
fn a_component_that_waits_beside_a_canary_still_waits_once_the_canary_is_active() {
    run(async {
        let mut scene = scene_with_faults("canary-waiting").await;
        let folder = folder("{canary: {percent: 50}, duration: 5s}");
        let host = start(&mut scene, &folder).await;
        parents(&scene, 4, "").await;
        let (canary, other) = (another(&folder, 1), reworded(folder.original(), WORKS, FREES));
        let until_refused = async || {
            host.until_plugin("it is refused", |plugin| plugin["refused"]["reason"] == "ApprovalRequired").await
        };
        folder.put(&canary);
        until_canary(&host, &canary).await;
        folder.put(&other);
        until_refused().await;
        until_digest(&host, &canary).await;
        until_refused().await;
        assert!(host.ask(&["approve", "faulty"]).0.success());
        until_digest(&host, &other).await;
    });
}

#[test]
fn a_canary_by_namespaces_follows_their_labels() {
    run(async {
        const TIER: &str = "canary.example.com/tier";
        let (inside, outside) = (scene_with_faults("canary-inside").await, scene_with_faults("canary-outside").await);
        let plane = ControlPlane::shared().await;
        // The host watches all namespaces, so its parents are of a kind that no other test uses.
        let definition = std::fs::read_to_string(repository("tests/fixtures/faulty/crd.yaml")).expect("a CRD");
        install_faults_of(plane, CANARY_FAULT.group, &definition).await;
        let folder = folder(&format!("{{canary: {{namespaces: {{matchLabels: {{{TIER}: first}}}}}}, duration: 60m}}"));
        folder.edit(FAULT.group, CANARY_FAULT.group);
        let of_kind = |component: &[u8]| reworded(component, FAULT.group, CANARY_FAULT.group);
        folder.put(&of_kind(folder.original()));
        let (second, third) = (of_kind(&another(&folder, 1)), of_kind(&another(&folder, 2)));
        let relabel = async |scene: &Scene, tier: Value| {
            let patch = labels(&json!({ TIER: tier }));
            scene.admin.merge(&NAMESPACE, "", &scene.namespace, &patch).await.expect("a label");
        };
        relabel(&inside, json!("first")).await;
        for number in 0..3 {
            for (scene, name) in [(&inside, "in"), (&outside, "out")] {
                let mut object = fault(&format!("{name}-{number}"), "say");
                object["apiVersion"] = CANARY_FAULT.api_version().into();
                scene.create(object).await;
            }
        }
        let only = OnlyHost::start(plane, folder, "canary-host").await;
        let (host, folder) = (&only.host, &only.folder);
        let say = async |scene: &Scene, canary: &BTreeSet<String>, words: (&str, &str)| {
            until_kind_decided_by(&CANARY_FAULT, scene, canary, words).await;
        };
        let all = |scene: &str| (0..3).map(|number| format!("{scene}-{number}")).collect::<BTreeSet<_>>();
        let (ins, outs, none) = (all("in"), all("out"), BTreeSet::new());
        say(&inside, &none, ("", WORKS)).await;
        say(&outside, &none, ("", WORKS)).await;
        folder.put(&second);
        let canary = until_canary(host, &second).await;
        assert_eq!(
            (&canary["parents"], &canary["share"]),
            (&json!(3), &json!(format!("namespaces with {TIER}=first")))
        );
        say(&inside, &ins, (&words(1), WORKS)).await;
        say(&outside, &none, ("", WORKS)).await;
        assert_eq!(touched(host, &inside, &second), ins);
        assert!(touched(host, &outside, &second).is_empty());
        // The labels change during the canary.
        relabel(&inside, Value::Null).await;
        relabel(&outside, json!("first")).await;
        say(&inside, &none, ("", WORKS)).await;
        say(&outside, &outs, (&words(1), WORKS)).await;
        // The selector changes too, also for a newer component.
        folder.edit("first}", "second}");
        host.until_plugin("it has no parents", |plugin| plugin["canary"]["parents"] == 0).await;
        say(&outside, &none, ("", WORKS)).await;
        folder.put(&third);
        until_canary(host, &third).await;
        relabel(&inside, json!("second")).await;
        say(&inside, &ins, (&words(2), WORKS)).await;
        folder.edit("duration: 60m", "duration: 1s");
        until_digest(host, &third).await;
        for scene in [&inside, &outside] {
            say(scene, &none, ("", &words(2))).await;
        }
    });
}
