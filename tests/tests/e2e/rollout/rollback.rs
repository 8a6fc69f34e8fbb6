//! Rollbacks to an earlier component: by hand, and automatic.

use hotshoe_tests::faulty::{HOLDING, WORKS, fault, grant_second_kind, scene_with_faults, start};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT, LIMIT_RANGE};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, Scene, run};
use serde_json::{Value, json};

const SLIPS: &str = "this revision slips";
const DROPS: &str = "this revision drops";
const GRABS: &str = "this revision grabs";
const BALKS: &str = "this revision balks";
const RAVES: &str = "this revision raves";
const HOLDS: &str = "this revision holds";
const VIEWS: &str = "this revision views";
const FREES: &str = "this revision frees";

/// Returns the first digits of a digest, which commands show.
fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

fn history(host: &Host) -> Vec<(String, String)> {
    let (status, words) = host.ask(&["history", "faulty", "-o", "json"]);
    assert!(status.success(), "{words}");
    let history: Value = serde_json::from_str(&words).expect("JSON");
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = history["entries"].as_array().expect("entries");
    entries.iter().map(|entry| (text(entry, "digest"), text(entry, "event"))).collect()
}

fn is_kept(object: &Value) -> bool {
    condition_parts(object, "Kept").0 == "True"
}

#[test]
fn an_administrator_rolls_back_and_forth_between_components() {
    run(async {
        let mut scene = scene_with_faults("rollback").await;
        let folder = Folder::of_faulty();
        let mut host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        let (status, words) = host.ask(&["rollback", "faulty"]);
        assert!(!status.success() && words.contains("no earlier revision"), "{words}");
        folder.put(&reworded(folder.original(), WORKS, SLIPS));
        assert!(host.ask(&["reload", "faulty"]).0.success());
        let second = host.digest().await;
        let (status, words) = host.ask(&["rollback", "faulty"]);
        assert!(status.success() && words.contains(&short(&first)), "{words}");
        assert_eq!(host.digest().await, first);
        let events = [(&first, "Activated"), (&second, "Activated"), (&first, "Activated"), (&second, "RolledBack")];
        let events: Vec<_> = events.map(|(digest, event)| (digest.clone(), event.to_owned())).into();
        assert_eq!(history(&host), events);
        let (_, words) = host.ask(&["history", "faulty"]);
        assert!(words.lines().any(|line| line.starts_with('*') && line.contains(&short(&first))), "{words}");
        // The file still has the second component. It is not activated again automatically, not even by a new host.
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("RolledBack"), "{words}");
        host.stop();
        let host = start(&mut scene, &folder).await;
        assert_eq!(host.digest().await, first);
        scene.create(fault("one", "")).await;
        scene.until_object(&FAULT, "one", "is served", is_kept).await;
        let (_, words) = host.ask(&["status"]);
        assert!(words.contains("RolledBack") && words.contains(&short(&second)), "{words}");
        let (status, words) = host.ask(&["approve", "faulty", "00000000"]);
        assert!(!status.success() && words.contains(&short(&second)), "{words}");
        let (status, words) = host.ask(&["approve", "faulty"]);
        assert!(status.success(), "{words}");
        assert_eq!(host.digest().await, second);
        let (status, words) = host.ask(&["rollback", "faulty", "--to", &short(&first)]);
        assert!(status.success(), "{words}");
        assert_eq!(host.digest().await, first);
        let (status, words) = host.ask(&["rollback", "faulty", "--to", "123456"]);
        assert!(!status.success() && words.contains("hotshoe history"), "{words}");
    });
}

#[test]
fn after_two_rollbacks_the_component_in_the_file_can_be_approved() {
    run(async {
        let mut scene = scene_with_faults("rollback-twice").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        let mut digests = vec![host.digest().await];
        for words in [SLIPS, GRABS] {
            folder.put(&reworded(folder.original(), WORKS, words));
            assert!(host.ask(&["reload", "faulty"]).0.success());
            digests.push(host.digest().await);
        }
        for _ in 0..2 {
            assert!(host.ask(&["rollback", "faulty"]).0.success());
        }
        assert_eq!(host.digest().await, digests[0]);
        let (_, words) = host.ask(&["status"]);
        assert!(words.contains(&short(&digests[2])), "{words}");
        let (status, words) = host.ask(&["approve", "faulty", &short(&digests[2]).to_uppercase()]);
        assert!(status.success(), "{words}");
        assert_eq!(host.digest().await, digests[2]);
        // The component in the file is rolled back to, so it is no longer refused.
        assert!(host.ask(&["rollback", "faulty"]).0.success());
        assert!(host.ask(&["rollback", "faulty", "--to", &digests[2]]).0.success());
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(status.success() && words.contains(&short(&digests[2])), "{words}");
    });
}

#[test]
fn a_component_that_would_delete_much_requires_approval() {
    run(async {
        let mut scene = scene_with_faults("approval").await;
        let folder = Folder::of_faulty();
        folder.edit("spec:\n", "spec:\n  pruneAll: true\n");
        let mut host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        for number in 0..3 {
            scene.create(fault(&format!("fault-{number}"), "")).await;
        }
        for number in 0..3 {
            scene.until_object(&FAULT, &format!("fault-{number}"), "is served", is_kept).await;
        }
        folder.put(&reworded(folder.original(), WORKS, DROPS));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("ApprovalRequired") && words.contains("3 of 3 parents"), "{words}");
        assert_eq!(host.digest().await, first);
        // It still requires approval in a host that is started with it.
        host.stop();
        let host = start(&mut scene, &folder).await;
        assert_eq!(host.digest().await, first);
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("ApprovalRequired") && words.contains("3 of 3 parents"), "{words}");
        assert_eq!(history(&host).iter().filter(|(_, event)| event == "ApprovalRequired").count(), 1);
        scene.get(&CONFIG_MAP, "fault-0").await;
        let (status, words) = host.ask(&["approve", "faulty"]);
        assert!(status.success(), "{words}");
        assert_ne!(host.digest().await, first);
        for number in 0..3 {
            let name = format!("fault-{number}");
            scene
                .until("the child is gone", async || match scene.find(&CONFIG_MAP, &name).await {
                    None => Ok(()),
                    Some(_) => Err(name.clone()),
                })
                .await;
        }
        // The approval does not cover what it would delete the next time.
        folder.put(folder.original());
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(status.success(), "{words}");
        for number in 0..3 {
            scene.until_object(&FAULT, &format!("fault-{number}"), "is served again", is_kept).await;
        }
        folder.put(&reworded(folder.original(), WORKS, DROPS));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("ApprovalRequired") && words.contains("3 of 3 parents"), "{words}");
        // It is still the component that decided before.
        let (status, words) = host.ask(&["rollback", "faulty"]);
        assert!(status.success(), "{words}");
        assert_ne!(host.digest().await, first);
    });
}

#[test]
fn a_component_that_fails_where_the_active_one_does_not_requires_approval() {
    run(async {
        let mut scene = scene_with_faults("approval-failing").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        for number in 0..8 {
            scene.create(fault(&format!("fault-{number}"), if number == 7 { "slip" } else { "" })).await;
        }
        for number in 0..8 {
            scene.until_object(&FAULT, &format!("fault-{number}"), "is served", is_kept).await;
        }
        folder.put(&reworded(folder.original(), WORKS, SLIPS));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("ApprovalRequired"), "{words}");
        assert!(words.contains("fault-7"), "{words}");
        // Who reads the status and the history may not be allowed to read the object.
        let history = host.ask(&["history", "faulty"]).1;
        for text in [words, history, host.plugin().await.to_string()] {
            assert!(text.contains("Trapped") && !text.contains("slipped"), "{text}");
        }
        assert_eq!(host.digest().await, first);
    });
}

#[test]
fn shadow_reload_and_approve_agree_where_the_only_parent_fails() {
    run(async {
        let mut scene = scene_with_faults("only-failing").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        scene.create(fault("only", "slip")).await;
        scene.until_object(&FAULT, "only", "is served", is_kept).await;
        let slipping = reworded(folder.original(), WORKS, SLIPS);
        let file = folder.path().join("other.wasm");
        std::fs::write(&file, &slipping).expect("a component");
        let (_, shadow, _) = host.ask_for_output(&["shadow", "faulty", &file.to_string_lossy(), "-o", "json"]);
        let foretold: Value = serde_json::from_str(&shadow).expect("JSON");
        let foretold = foretold["summary"]["refused"].clone();
        assert_eq!(foretold["reason"], "ApprovalRequired", "{shadow}");
        let why = foretold["message"].as_str().unwrap_or_default().to_owned();
        let named = format!("it fails on 1 of 1 parents that the active revision serves: {}/only: ", scene.namespace);
        assert!(why.starts_with(&named) && why.contains("hotshoe approve"), "{why}");
        folder.put(&slipping);
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains(&why) && words.contains("ApprovalRequired"), "{words}");
        assert_eq!((host.digest().await, &host.plugin().await["refused"]), (first, &foretold));
        let last = history(&host).pop().expect("a line");
        let second = foretold["digest"].as_str().unwrap_or_default().to_owned();
        assert_eq!(last, (second.clone(), "ApprovalRequired".to_owned()));
        let (status, words) = host.ask(&["approve", "faulty"]);
        assert!(status.success(), "{words}");
        assert_eq!(host.digest().await, second);
    });
}

#[test]
fn a_first_component_that_fails_on_the_only_parent_can_be_approved_or_the_parent_fixed() {
    run(async {
        let mut scene = scene_with_faults("first-failing").await;
        scene.create(fault("only", "trap")).await;
        let folder = Folder::of_faulty();
        let host = scene.start().await.plugins(&[folder.path()]).start();
        scene.watch_log(&host);
        let refused = host.until_plugin("it says why", |plugin| plugin["refused"].is_object()).await;
        assert_eq!(refused["refused"]["reason"], "ApprovalRequired", "{refused:#}");
        assert_eq!(history(&host).pop().expect("a line").1, "ApprovalRequired");
        scene.merge(&FAULT, "only", json!({ "spec": { "fault": "" } })).await;
        host.until("a reload activates it", async || match host.ask(&["reload", "faulty"]) {
            (status, _) if status.success() => Ok(()),
            (_, words) => Err(words),
        })
        .await;
        scene.until_object(&FAULT, "only", "is served", is_kept).await;
    });
}

/// Waits until this parent fails.
async fn fails(scene: &Scene, name: &str) {
    let has_failed = |object: &Value| condition_parts(object, "Reconciled").1 == "Trapped";
    scene.until_object(&FAULT, name, "reports the failure", has_failed).await;
}

#[test]
fn objects_that_the_component_fails_on_do_not_keep_it_from_deciding_after_a_restart() {
    run(async {
        let mut scene = scene_with_faults("trapping-restart").await;
        let folder = Folder::of_faulty();
        let mut host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        // The component fails on the only existing parent.
        scene.create(fault("bad-0", "trap")).await;
        fails(&scene, "bad-0").await;
        host.kill();
        let mut host = start(&mut scene, &folder).await;
        assert_eq!(host.digest().await, first);
        scene.create(fault("good", "")).await;
        scene.until_object(&FAULT, "good", "is served", is_kept).await;
        for number in 1..4 {
            scene.create(fault(&format!("bad-{number}"), "trap")).await;
        }
        host.kill();
        // Nor do a few such parents keep a new component from deciding.
        folder.put(&reworded(folder.original(), WORKS, SLIPS));
        let host = start(&mut scene, &folder).await;
        assert_ne!(host.digest().await, first);
    });
}

#[test]
fn a_component_that_was_replaced_while_no_host_ran_is_checked_before_it_is_activated() {
    run(async {
        let mut scene = scene_with_faults("approval-start").await;
        let folder = Folder::of_faulty();
        folder.edit("spec:\n", "spec:\n  pruneAll: true\n");
        let mut host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        six_are_served(&scene).await;
        host.stop();
        folder.put(&reworded(folder.original(), WORKS, DROPS));
        let mut host = start(&mut scene, &folder).await;
        assert_eq!(host.digest().await, first, "the old component is still active once the host is ready");
        let refused = &host.plugin().await["refused"];
        assert_eq!(refused["reason"], "ApprovalRequired", "{refused:#}");
        scene.get(&CONFIG_MAP, "fault-0").await;
        // A component without failures is activated, and is on probation.
        host.stop();
        folder.put(&reworded(folder.original(), WORKS, SLIPS));
        let host = start(&mut scene, &folder).await;
        assert_ne!(host.digest().await, first);
        all_six_slip(&scene).await;
        until_digest(&host, &first).await;
    });
}

#[test]
fn a_component_that_does_worse_is_rolled_back_also_after_a_restart() {
    run(async {
        let mut scene = scene_with_faults("worse-restart").await;
        let folder = Folder::of_faulty();
        let mut host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        six_are_served(&scene).await;
        folder.put(&reworded(folder.original(), WORKS, SLIPS));
        assert!(host.ask(&["reload", "faulty"]).0.success());
        host.kill();
        let host = start(&mut scene, &folder).await;
        assert_ne!(host.digest().await, first);
        all_six_slip(&scene).await;
        until_digest(&host, &first).await;
    });
}

#[test]
fn a_component_that_fails_only_where_its_predecessor_fails_is_not_rolled_back() {
    run(async {
        let mut scene = scene_with_faults("no-worse").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        six_are_served(&scene).await;
        folder.put(&reworded(folder.original(), WORKS, SLIPS));
        assert!(host.ask(&["reload", "faulty"]).0.success());
        let second = host.digest().await;
        for number in 0..6 {
            scene.merge(&FAULT, &format!("fault-{number}"), json!({ "spec": { "fault": "trap" } })).await;
        }
        host.until_logged(&["WARN", "the one before it fails on the same objects, so it stays active"]).await;
        assert_eq!(host.digest().await, second);
        assert_eq!(host.plugin().await["refused"], Value::Null);
    });
}

#[test]
fn failures_caused_by_an_administrator_do_not_roll_a_component_back() {
    run(async {
        let mut scene = scene_with_faults("narrowed").await;
        let folder = Folder::of_faulty();
        grant_second_kind(&scene, &folder).await;
        let host = start(&mut scene, &folder).await;
        six_are_served(&scene).await;
        folder.put(&reworded(folder.original(), WORKS, HOLDS));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(status.success(), "{words}");
        let second = host.digest().await;
        folder.edit(HOLDING, "");
        host.until_plugin("it has less", |plugin| plugin["pluginFile"]["notGranted"].is_string()).await;
        for number in 0..6 {
            let name = format!("fault-{number}");
            scene.merge(&FAULT, &name, json!({ "metadata": { "labels": { "a": "b" } } })).await;
            let is_denied = |object: &Value| condition_parts(object, "Reconciled").1 == "NotGranted";
            scene.until_object(&FAULT, &name, "is not decided", is_denied).await;
        }
        assert_eq!(host.digest().await, second);
        assert_eq!(host.plugin().await["refused"], Value::Null);
    });
}

async fn until_digest(host: &Host, digest: &str) {
    host.until("it decides", async || match host.digest().await {
        now if now == digest => Ok(()),
        now => Err(now),
    })
    .await;
}

/// Creates six parents that every revision serves.
async fn six_are_served(scene: &Scene) {
    for number in 0..6 {
        scene.create(fault(&format!("fault-{number}"), "")).await;
    }
    for number in 0..6 {
        scene.until_object(&FAULT, &format!("fault-{number}"), "is served", is_kept).await;
    }
}

/// Changes the six parents to what a new revision cannot serve.
async fn all_six_slip(scene: &Scene) {
    for number in 0..6 {
        scene.merge(&FAULT, &format!("fault-{number}"), json!({ "spec": { "fault": "slip" } })).await;
    }
}

#[test]
fn a_component_that_does_worse_than_the_one_before_it_is_rolled_back_automatically() {
    run(async {
        let mut scene = scene_with_faults("worse").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        six_are_served(&scene).await;
        folder.put(&reworded(folder.original(), WORKS, SLIPS));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(status.success(), "{words}");
        let second = host.digest().await;
        assert_ne!(first, second);
        // It served all existing parents. Now they change to what it cannot serve.
        all_six_slip(&scene).await;
        until_digest(&host, &first).await;
        for number in 0..6 {
            let is_served = |object: &Value| {
                object["status"]["word"] == "slip" && condition_parts(object, "Reconciled").0.is_empty()
            };
            scene.until_object(&FAULT, &format!("fault-{number}"), "is served by the first", is_served).await;
        }
        let status = host.status().await.expect("a status");
        let refused = &status["plugins"][0]["refused"];
        assert_eq!((&refused["reason"], &refused["digest"]), (&json!("RolledBack"), &json!(second)), "{status:#}");
        assert!(refused["message"].as_str().is_some_and(|why| why.contains("calls failed")), "{refused:#}");
        assert_eq!(history(&host)[2].1, "RolledBack");
        // The log has, in this order: what failed, that it is rolled back, and to which revision.
        host.until_logged(&["rolled back", &short(&second)]).await;
        let log = host.log();
        let at = |words: &[&str]| {
            let lines = log.lines().enumerate().filter(|(_, line)| words.iter().all(|words| line.contains(words)));
            lines.last().map(|(number, _)| number).unwrap_or_else(|| panic!("{words:?} is not in\n{log}"))
        };
        let cause = at(&["ERROR", "RolledBack", &short(&second), &format!("to={}", short(&first)), "calls failed"]);
        let active = at(&["INFO", "the component is active", &format!("digest={}", short(&first))]);
        let done = at(&["WARN", "rolled back", &format!("to={}", short(&first))]);
        assert!(cause < active && active < done, "{log}");
        // The same bytes, written again, are not activated again.
        folder.put(&reworded(folder.original(), WORKS, SLIPS));
        let (_, words) = host.ask(&["reload", "faulty"]);
        assert_eq!(host.digest().await, first, "{words}");
        // An administrator who approves it nevertheless knows what it does.
        let (_, words) = host.ask(&["approve", "faulty"]);
        assert_eq!(host.digest().await, second, "{words}");
        host.until("it is not called any more", async || {
            let status = host.status().await?;
            let state = status["plugins"][0]["breaker"]["state"].clone();
            if state == "open" { Ok(()) } else { Err(state.to_string()) }
        })
        .await;
        assert_eq!(host.digest().await, second, "it stays");
    });
}

#[test]
fn a_component_whose_decisions_are_denied_is_rolled_back_automatically() {
    is_rolled_back_where_all_slip("denied-worse", GRABS);
}

#[test]
fn a_component_that_returns_failures_is_rolled_back_automatically() {
    is_rolled_back_where_all_slip("stated-worse", BALKS);
}

#[test]
fn a_component_whose_children_every_api_server_rejects_is_rolled_back_automatically() {
    is_rolled_back_where_all_slip("invalid-worse", RAVES);
}

fn is_rolled_back_where_all_slip(name: &str, words: &str) {
    run(async {
        let mut scene = scene_with_faults(name).await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        let first = host.digest().await;
        six_are_served(&scene).await;
        folder.put(&reworded(folder.original(), WORKS, words));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(status.success(), "{words}");
        all_six_slip(&scene).await;
        until_digest(&host, &first).await;
        host.until_logged(&["ERROR", "RolledBack", "calls failed"]).await;
    });
}

#[test]
fn a_component_that_drops_its_finalizer_requires_approval_and_removes_it_where_it_is_set() {
    run(async {
        let mut scene = scene_with_faults("freed").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        for name in ["one", "two"] {
            scene.create(fault(name, "")).await;
            scene.until_object(&FAULT, name, "is served", is_kept).await;
        }
        folder.put(&reworded(folder.original(), WORKS, FREES));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("ApprovalRequired") && words.contains("2 of 2 parents"), "{words}");
        assert!(words.contains("fixtures.example.com/finalizer"), "{words}");
        let (status, words) = host.ask(&["approve", "faulty"]);
        assert!(status.success(), "{words}");
        scene.delete(&FAULT, "one").await;
        scene.gone(&FAULT, "one").await;
        // It is added again as soon as a revision asks for it again.
        let (status, words) = host.ask(&["rollback", "faulty"]);
        assert!(status.success(), "{words}");
        scene.delete(&FAULT, "two").await;
        scene.gone(&FAULT, "two").await;
    });
}

/// Starts a host whose component owns a second kind and has a child of it.
async fn host_with_second_kind(scene: &mut Scene, folder: &Folder) -> Host {
    grant_second_kind(scene, folder).await;
    folder.put(&reworded(folder.original(), WORKS, HOLDS));
    let host = start(scene, folder).await;
    scene.create(fault("one", "")).await;
    scene.until_object(&LIMIT_RANGE, "one", "is there", |_| true).await;
    host
}

/// Waits until the child of the kind that was dropped is gone, and its watch with it.
async fn drops_second_kind(scene: &Scene, host: &Host) {
    scene.gone(&LIMIT_RANGE, "one").await;
    scene.get(&CONFIG_MAP, "one").await;
    host.until("the kind is not watched any more", async || {
        let plugin = host.status().await?["plugins"][0].clone();
        let watches = plugin["watches"].as_array().cloned().unwrap_or_default();
        let is_watched = watches.iter().any(|watch| watch["kind"] == "LimitRange");
        if !is_watched && plugin["ready"] == true { Ok(()) } else { Err(format!("{plugin:#}")) }
    })
    .await;
}

#[test]
fn a_kind_that_a_component_drops_is_watched_until_its_children_are_gone() {
    run(async {
        let mut scene = scene_with_faults("dropped-kind").await;
        let folder = Folder::of_faulty();
        let host = host_with_second_kind(&mut scene, &folder).await;
        folder.put(folder.original());
        let (_, words) = host.ask(&["reload", "faulty"]);
        assert!(words.contains("ApprovalRequired"), "{words}");
        let (status, words) = host.ask(&["approve", "faulty"]);
        assert!(status.success(), "{words}");
        drops_second_kind(&scene, &host).await;
    });
}

#[test]
fn a_component_that_asks_for_more_fields_of_a_kind_is_shown_them() {
    run(async {
        let mut scene = scene_with_faults("more-fields").await;
        let folder = Folder::of_faulty();
        let host = host_with_second_kind(&mut scene, &folder).await;
        let limits = json!({ "spec": { "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] } });
        scene.merge(&LIMIT_RANGE, "one", limits).await;
        scene.create(fault("two", "")).await;
        scene.until_object(&FAULT, "two", "is served", |fault| fault["status"]["word"] == "unlimited").await;
        assert_eq!(scene.get(&FAULT, "one").await["status"]["word"], "unlimited", "its spec is not asked for");
        folder.put(&reworded(folder.original(), WORKS, VIEWS));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(status.success(), "{words}");
        scene
            .until_object(&FAULT, "one", "reports what it observes", |fault| fault["status"]["word"] == "limited")
            .await;
    });
}

#[test]
fn children_of_a_kind_that_was_dropped_are_pruned_also_after_a_restart() {
    run(async {
        let mut scene = scene_with_faults("dropped-restart").await;
        let folder = Folder::of_faulty();
        let mut host = host_with_second_kind(&mut scene, &folder).await;
        host.kill();
        folder.put(folder.original());
        let mut host = start(&mut scene, &folder).await;
        let (status, words) = host.ask(&["approve", "faulty"]);
        assert!(status.success(), "{words}");
        host.kill();
        let host = start(&mut scene, &folder).await;
        drops_second_kind(&scene, &host).await;
    });
}

#[test]
fn a_child_of_a_dropped_kind_that_may_no_longer_be_deleted_stays_and_is_reported() {
    run(async {
        let mut scene = scene_with_faults("dropped-grant").await;
        let folder = Folder::of_faulty();
        let host = host_with_second_kind(&mut scene, &folder).await;
        let before = host.digest().await;
        folder.edit(HOLDING, "");
        folder.put(folder.original());
        host.until_plugin("the other decides", |plugin| plugin["digest"] != before).await;
        host.until_logged(&["OutsideGrant", "is ignored: LimitRange", "/one;"]).await;
        scene.get(&LIMIT_RANGE, "one").await;
    });
}
