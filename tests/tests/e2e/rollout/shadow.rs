//! `hotshoe shadow` shows what another component would change, and changes nothing.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hotshoe_tests::faulty::{SECRET, fault, hides_secret, scene, scene_with_faults};
use hotshoe_tests::guests::{Folder, reworded, unusable};
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, Scene, memcached, run};
use serde_json::{Value, json};

const WORDS: [&str; 2] = ["Nothing stands in", "Nowhere stands in"];
const REVISION: &str = "this revision works";

/// Writes a component to a file that no host follows.
pub(super) fn file(folder: &Folder, name: &str, component: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, component).expect("the component is written");
    path
}

/// Runs `hotshoe shadow -o json`, and returns its exit code and the document that it prints.
pub(super) fn shadow(host: &Host, plugin: &str, file: &Path) -> (Option<i32>, Value) {
    let (code, printed, said) = host.ask_for_output(&["shadow", plugin, &file.to_string_lossy(), "-o", "json"]);
    let document = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}{said}"));
    (code, document)
}

fn names(document: &Value) -> Vec<String> {
    let parents = document["parents"].as_array().expect("parents");
    let mut names: Vec<_> =
        parents.iter().map(|parent| parent["parent"]["name"].as_str().unwrap_or_default().to_owned()).collect();
    names.sort();
    names
}

/// Returns what a run must not change: the active digest, the watches, and whether the plugin is ready.
async fn state(host: &Host) -> Value {
    let status = host.status().await.expect("a status");
    let plugin = &status["plugins"][0];
    let watches: Vec<_> =
        plugin["watches"].as_array().expect("watches").iter().map(|watch| watch["kind"].clone()).collect();
    json!([plugin["digest"], plugin["ready"], plugin["refused"], plugin["breaker"], watches])
}

/// Creates parents of the faulty plugin, which the good revision serves, each with its ConfigMap.
async fn kept(name: &str, folder: &Folder, count: usize) -> (Scene, Host) {
    let mut scene = scene_with_faults(name).await;
    for number in 0..count {
        scene.create(fault(&format!("fault-{number}"), "")).await;
    }
    let host = scene.start().await.plugins(&[folder.path()]).ready().await;
    scene.watch_log(&host);
    for number in 0..count {
        let is_kept = |object: &Value| condition_parts(object, "Kept").0 == "True";
        scene.until_object(&FAULT, &format!("fault-{number}"), "is kept", is_kept).await;
    }
    (scene, host)
}

#[test]
fn a_changed_message_is_shown_for_each_object_and_nothing_is_written() {
    run(async {
        let mut scene = scene("shadow").await;
        let folder = Folder::of_memcached();
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        for number in 0..10 {
            scene.create(memcached(&format!("cache-{number}"), 1)).await;
        }
        for number in 0..10 {
            scene.available(&format!("cache-{number}")).await;
        }
        let (before, writes) = (state(&host).await, scene.recorded_writes().await.len());
        let new = file(&folder, "new.wasm", &reworded(folder.original(), WORDS[0], WORDS[1]));

        let (code, document) = shadow(&host, "memcached", &new);
        assert_eq!(code, Some(3), "{document:#}");
        let summary = &document["summary"];
        assert_eq!(
            (&summary["parents"], &summary["changed"], &summary["unchanged"]),
            (&json!(10), &json!(10), &json!(0))
        );
        assert_eq!(summary["statusChanges"], 10, "{summary:#}");
        assert_eq!(summary["children"], json!({ "created": 0, "changed": 0, "deleted": 0, "left": 0 }));
        assert_eq!(summary["failures"], json!({ "new": 0, "both": 0, "fixed": 0 }));
        assert_eq!((&summary["old"]["calls"], &summary["new"]["calls"]), (&json!(10), &json!(10)));
        assert_eq!(names(&document), (0..10).map(|number| format!("cache-{number}")).collect::<Vec<_>>());
        for parent in document["parents"].as_array().expect("parents") {
            let mut parent = parent.clone();
            let conditions = parent.as_object_mut().and_then(|parent| parent.remove("conditions")).expect("conditions");
            assert_eq!(conditions.as_array().map(Vec::len), Some(1), "{conditions:#}");
            assert_eq!(conditions[0]["path"], "Degraded.message");
            let text = |side: &str| conditions[0][side].as_str().unwrap_or_default().to_owned();
            assert!(text("old").contains(WORDS[0]) && text("new").contains(WORDS[1]), "{conditions:#}");
            assert_eq!(
                parent.as_object().map(|parent| parent.keys().cloned().collect()),
                Some(vec!["parent".to_owned()])
            );
        }

        let (code, printed, _) = host.ask_for_output(&["shadow", "memcached", &new.to_string_lossy(), "--show", "3"]);
        assert_eq!(code, Some(3));
        assert!(printed.contains("10: 10 would change, 0 not"), "{printed}");
        assert_eq!(printed.matches("~ condition Degraded.message").count(), 3, "{printed}");
        assert!(printed.contains("7 more objects change") && printed.contains("Nothing was written."), "{printed}");
        assert!(!printed.contains('\u{1b}'), "no colour where there is no terminal: {printed:?}");
        let (_, printed, _) = host.ask_for_output(&["shadow", "memcached", &new.to_string_lossy(), "-o", "jsonl"]);
        let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let parents: Vec<_> = lines.iter().filter_map(|line| line["parent"]["parent"]["name"].as_str()).collect();
        assert!(parents.len() == 10 && parents.is_sorted(), "{parents:?}");
        assert!(lines.last().is_some_and(|line| line["summary"].is_object()), "{printed}");

        assert_eq!(state(&host).await, before);
        let after = scene.recorded_writes().await;
        assert_eq!(after.len(), writes, "{:#?}", after.get(writes..));
    });
}

#[test]
fn the_same_component_changes_nothing() {
    run(async {
        let folder = Folder::of_faulty();
        let (scene, host) = kept("shadow-same", &folder, 3).await;
        scene.create(fault("rejected", "reject")).await;
        scene.until_condition_of(&FAULT, "rejected", "Reconciled", "False", "Rejected").await;
        let same = file(&folder, "same.wasm", folder.original());
        let (code, document) = shadow(&host, "faulty", &same);
        let summary = &document["summary"];
        assert_eq!(code, Some(0), "{document:#}");
        assert_eq!((&summary["unchanged"], &document["parents"]), (&json!(4), &json!([])), "{document:#}");
        // A parent that both revisions reject is no difference.
        assert_eq!(summary["failures"], json!({ "new": 0, "both": 1, "fixed": 0 }));
        assert_eq!(summary["old"]["digest"], summary["new"]["digest"]);
    });
}

#[test]
fn a_shadow_run_of_a_component_that_traps_names_the_objects_and_writes_nothing() {
    run(async {
        let folder = Folder::of_faulty();
        let (scene, host) = kept("shadow-trap", &folder, 7).await;
        let (before, writes) = (state(&host).await, scene.recorded_writes().await.len());
        let new = file(&folder, "new.wasm", &reworded(folder.original(), REVISION, "this revision traps"));
        let (code, printed, _) = host.ask_for_output(&["shadow", "faulty", &new.to_string_lossy()]);
        assert_eq!(code, Some(4), "{printed}");
        for number in 0..7 {
            assert!(printed.contains(&format!("/fault-{number}: Trapped: ")), "{printed}");
        }
        assert!(printed.contains("7 new, 0 of both revisions"), "{printed}");
        // These are more failures than would open the circuit breaker, and it is closed.
        assert_eq!(state(&host).await, before);
        assert_eq!(scene.recorded_writes().await.len(), writes);
        assert!(!host.log().contains("Trapped"), "{}", host.log());
        scene.create(fault("next", "")).await;
        scene.until_object(&FAULT, "next", "is kept", |object| condition_parts(object, "Kept").0 == "True").await;
    });
}

#[test]
fn a_component_that_drops_a_child_is_shown_to_delete_it() {
    run(async {
        let folder = Folder::of_faulty();
        folder.edit("  grants:\n", "  pruneAll: true\n  grants:\n");
        let (scene, host) = kept("shadow-drop", &folder, 2).await;
        let new = file(&folder, "new.wasm", &reworded(folder.original(), REVISION, "this revision drops"));
        let (code, document) = shadow(&host, "faulty", &new);
        assert_eq!(code, Some(3), "{document:#}");
        let summary = &document["summary"];
        assert_eq!((&summary["children"]["deleted"], &summary["parentsLosingChildren"]), (&json!(2), &json!(2)));
        for (number, name) in names(&document).iter().enumerate() {
            let deleted = &document["parents"][number]["deleted"];
            assert_eq!(deleted[0]["kind"], CONFIG_MAP.kind, "{document:#}");
            assert_eq!(deleted.as_array().map(Vec::len), Some(1));
            assert!(scene.find(&CONFIG_MAP, name).await.is_some(), "{name} is still there");
        }
        let (_, printed, _) = host.ask_for_output(&["shadow", "faulty", &new.to_string_lossy()]);
        assert!(printed.contains(&format!("- ConfigMap {}/fault-0", scene.namespace)), "{printed}");
    });
}

#[test]
fn the_finalizers_that_a_component_would_leave_behind_are_counted() {
    run(async {
        let folder = Folder::of_faulty();
        let (_scene, host) = kept("shadow-frees", &folder, 2).await;
        let new = file(&folder, "new.wasm", &reworded(folder.original(), REVISION, "this revision frees"));
        let (code, document) = shadow(&host, "faulty", &new);
        assert_eq!(code, Some(3), "{document:#}");
        let finalizer =
            json!({ "old": "fixtures.example.com/finalizer", "new": null, "added": 0, "kept": 2, "stranded": 0 });
        assert_eq!(document["summary"]["finalizer"], finalizer, "{document:#}");
        let (_, printed, _) = host.ask_for_output(&["shadow", "faulty", &new.to_string_lossy()]);
        assert!(printed.contains("2 would keep fixtures.example.com/finalizer until"), "{printed}");
    });
}

/// What is shown in place of what a component chose that read one.
const HIDDEN: &str = "<hidden: this component was shown Secrets>";

/// Creates parents as [`kept`] does, each with a Secret of its name that the plugin may read.
async fn with_secrets(name: &str, folder: &Folder, count: usize) -> (Scene, Host) {
    folder.edit("  grants:", "  grants:\n    - {kind: Secret, verbs: [get], names: [\"fault-*\"]}");
    let (scene, host) = kept(name, folder, count).await;
    let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }]);
    scene.plane.grant("faulty", &format!("tests-faulty-{name}"), &rules).await;
    for number in 0..count {
        let metadata = json!({ "name": format!("fault-{number}") });
        let data = json!({ "word": SECRET[0] });
        scene.create(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data })).await;
    }
    (scene, host)
}

#[test]
fn no_output_of_a_component_that_read_a_secret_is_shown() {
    run(async {
        let folder = Folder::of_faulty();
        let (scene, host) = with_secrets("shadow-peeks", &folder, 3).await;
        for (name, word) in [("fault-1", "fail"), ("fault-2", "ask")] {
            scene.merge(&FAULT, name, json!({ "spec": { "fault": word } })).await;
        }
        let peeking = reworded(folder.original(), REVISION, "this revision peeks");
        let new = file(&folder, "new.wasm", &peeking);
        let (exit, document) = shadow(&host, "faulty", &new);
        assert_eq!(exit, Some(4), "{document:#}");
        assert_eq!(names(&document), ["fault-0", "fault-1", "fault-2"]);
        hides_secret(&document.to_string());
        let of = |name: &str| {
            let parents = document["parents"].as_array().expect("parents").iter();
            parents.filter(|parent| parent["parent"]["name"] == name).collect::<Vec<_>>()[0].clone()
        };
        let changed = of("fault-0");
        assert_eq!(changed["status"], json!([{ "path": "word", "old": HIDDEN, "new": HIDDEN }]), "{changed:#}");
        assert_eq!(changed["created"][0]["name"], HIDDEN);
        let fields = changed["changed"][0]["fields"].as_array().expect("fields");
        let paths: Vec<_> = fields.iter().map(|field| field["path"].as_str().unwrap_or_default()).collect();
        assert_eq!(paths, ["data['<hidden>']", "data.kept", "metadata.annotations['<hidden>']"], "{changed:#}");
        for (name, reason) in [("fault-1", "PluginFailed"), ("fault-2", "Denied")] {
            assert_eq!(of(name)["newFailure"], json!({ "reason": reason, "message": HIDDEN }), "{document:#}");
        }
        let (_, printed, _) = host.ask_for_output(&["shadow", "faulty", &new.to_string_lossy(), "--show", "0"]);
        hides_secret(&printed);

        // Nor do the messages about why the component is not activated show it anywhere.
        folder.put(&peeking);
        host.until_plugin("the component waits", |plugin| plugin["refused"]["reason"] == "ApprovalRequired").await;
        let (_, history) = host.ask(&["history", "faulty"]);
        for text in [host.status().await.expect("a status").to_string(), history, host.log()] {
            hides_secret(&text);
        }
    });
}

#[test]
fn the_history_keeps_no_failure_in_the_words_of_a_component_that_read_a_secret() {
    run(async {
        let folder = Folder::of_faulty();
        let (scene, host) = with_secrets("history-peeks", &folder, 6).await;
        folder.put(&reworded(folder.original(), REVISION, "this revision peeks"));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(status.success(), "{words}");
        for number in 0..6 {
            scene.merge(&FAULT, &format!("fault-{number}"), json!({ "spec": { "fault": "fail" } })).await;
        }
        host.until_plugin("it is rolled back", |plugin| plugin["refused"]["reason"] == "RolledBack").await;
        let (_, history) = host.ask(&["history", "faulty"]);
        for text in [host.status().await.expect("a status").to_string(), history] {
            hides_secret(&text);
            assert!(text.contains(HIDDEN), "{text}");
        }
    });
}

#[test]
fn a_decision_that_would_be_denied_is_reported_as_a_failure() {
    run(async {
        // Without a grant to prune all, an answer without any child is denied.
        let folder = Folder::of_faulty();
        let (_scene, host) = kept("shadow-denied", &folder, 1).await;
        let new = file(&folder, "new.wasm", &reworded(folder.original(), REVISION, "this revision drops"));
        let (code, document) = shadow(&host, "faulty", &new);
        assert_eq!(code, Some(4), "{document:#}");
        assert_eq!(document["parents"][0]["newFailure"]["reason"], "Denied", "{document:#}");
        assert_eq!(document["summary"]["parentsLosingChildren"], 0);
    });
}

#[test]
fn a_file_that_is_no_component_is_an_error_and_changes_nothing() {
    run(async {
        let folder = Folder::of_faulty();
        let (_scene, host) = kept("shadow-unusable", &folder, 1).await;
        let before = state(&host).await;
        for (number, (what, component, reason)) in unusable(folder.original()).into_iter().enumerate() {
            let file = file(&folder, &format!("new-{number}.wasm"), &component);
            let (code, printed, said) = host.ask_for_output(&["shadow", "faulty", &file.to_string_lossy()]);
            assert_eq!((code, &*printed), (Some(1), ""), "{what}: {said}");
            assert!(said.starts_with(&format!("error: {reason}: ")), "{what}: {said}");
        }
        let missing = folder.path().join("missing.wasm");
        let (code, _, said) = host.ask_for_output(&["shadow", "faulty", &missing.to_string_lossy()]);
        assert!(code == Some(1) && said.contains("cannot read the component"), "{said}");
        let same = file(&folder, "same.wasm", folder.original());
        let (code, _, said) = host.ask_for_output(&["shadow", "unknown", &same.to_string_lossy()]);
        assert!(code == Some(1) && said.contains("no plugin unknown"), "{said}");
        assert_eq!(host.ask_for_output(&["shadow"]).0, Some(2));
        // None of these is recorded as a component that was offered for activation.
        assert_eq!(state(&host).await, before);
    });
}

#[test]
fn only_one_shadow_run_is_under_way_until_its_client_disconnects() {
    run(async {
        let folder = Folder::of_faulty();
        let (_scene, host) = kept("shadow-busy", &folder, 1).await;
        let same = file(&folder, "same.wasm", folder.original());
        let socket = host.socket().expect("the host takes commands");
        let mut slow = UnixStream::connect(&socket).expect("a connection");
        write!(slow, "POST /shadow/faulty HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
            .expect("it is sent");
        host.until("the second is refused", async || {
            match host.ask_for_output(&["shadow", "faulty", &same.to_string_lossy()]) {
                (Some(1), _, said) if said.contains("under way") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        drop(slow);
        host.until("there is room", async || {
            match host.ask_for_output(&["shadow", "faulty", &same.to_string_lossy()]) {
                (Some(0), ..) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    });
}
