//! Objects that a plugin needs by their names: they are watched under its own account for as long as a parent needs
//! them, and read again now and then where they cannot be.

use std::fs;
use std::time::Duration;

use hotshoe_core::model::limits::NEEDED_OBJECTS;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP, Kind, SECRET};
use hotshoe_tests::{Host, run};
use serde_json::{Value, json};

use super::rig::{Rig, with_spec};
use super::{HOSTILE, plane};

/// The time in which a change arrives by a watch, on a machine with much else to do. What is only read again is read 15 s
/// after the change before.
const BY_WATCH: Duration = Duration::from_secs(13);

/// A host with the plugin, whose account may also watch ConfigMaps, and the Secret that it may read.
async fn watching(name: &str) -> Rig {
    let folder = Folder::of_hostile();
    let secret = "    - {group: \"\", kind: Secret, verbs: [get], names: [password]}\n";
    folder.edit("  grants:\n", &format!("  grants:\n{secret}"));
    let rules = json!([
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "watch"] },
        { "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["password"], "verbs": ["get", "watch"] },
    ]);
    plane().await.create_role(WATCHES, &rules).await;
    let rig = Rig::with(name, HOSTILE, folder).await;
    rig.scene.plane.bind(HOSTILE, WATCHES, &rig.scene.namespace).await;
    rig
}

/// The name of the ClusterRole of such an account.
const WATCHES: &str = "tests-hostile-watches";

/// Returns how many sockets a host has open.
fn sockets(host: &Host) -> usize {
    let files = fs::read_dir(format!("/proc/{}/fd", host.process())).expect("the host runs");
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// A parent that needs these objects, and shows them in its status.
fn needing<'a>(parent: &str, kind: &Kind, names: impl IntoIterator<Item = &'a str>) -> Value {
    let need = |name| json!({ "group": kind.group, "version": kind.version, "kind": kind.kind, "name": name });
    let needs: Vec<_> = names.into_iter().map(need).collect();
    with_spec(parent, json!({ "attack": "needs", "needs": needs }))
}

fn object(kind: &Kind, name: &str, text: &str) -> Value {
    let metadata = json!({ "name": name, "annotations": { "says": text } });
    json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata })
}

/// Waits until the status of a parent shows an object with this text, or none.
async fn shows(rig: &Rig, within: Duration, parent: &str, text: Option<&str>) {
    let scene = &rig.scene;
    let is_shown = |word: &str| text.map_or(word == "[]", |text| word.contains(&format!("String({text:?})")));
    scene
        .until_within(within, &format!("{parent} shows {text:?}"), async || {
            let found = scene.admin.get(&ATTACK, &scene.namespace, parent).await.map_err(|error| error.message)?;
            let word = found["status"]["word"].as_str().unwrap_or_default();
            if is_shown(word) { Ok(()) } else { Err(format!("{:#}", found["status"])) }
        })
        .await;
}

#[test]
fn each_change_of_a_needed_object_arrives_by_its_watch() {
    run(async {
        let rig = watching("watched").await;
        for (kind, name) in [(&CONFIG_MAP, "settings"), (&SECRET, "password")] {
            let parents = ["one", "two"].map(|number| format!("{number}-of-{name}"));
            for parent in &parents {
                rig.scene.create(needing(parent, kind, [name])).await;
                shows(&rig, hotshoe_tests::wait::TIMEOUT, parent, None).await;
            }
            for text in ["it is there", "it is changed", "it is changed again"] {
                rig.scene.apply("tests", object(kind, name, text)).await;
                for parent in &parents {
                    shows(&rig, BY_WATCH, parent, Some(text)).await;
                }
            }
            rig.scene.delete(kind, name).await;
            for parent in &parents {
                shows(&rig, BY_WATCH, parent, None).await;
            }
            rig.scene.create(object(kind, name, "it is back")).await;
            for parent in &parents {
                shows(&rig, BY_WATCH, parent, Some("it is back")).await;
            }
        }
    });
}

#[test]
fn an_object_that_the_account_may_not_watch_is_read_again_until_it_may() {
    run(async {
        let rig = Rig::new("unwatched").await;
        rig.scene.create(needing("reader", &CONFIG_MAP, ["settings"])).await;
        shows(&rig, hotshoe_tests::wait::TIMEOUT, "reader", None).await;
        rig.host.until_logged(&["may not watch", "settings", "hotshoe rbac"]).await;
        for text in ["it is there", "it is changed"] {
            rig.scene.apply("tests", object(&CONFIG_MAP, "settings", text)).await;
            shows(&rig, hotshoe_tests::wait::TIMEOUT, "reader", Some(text)).await;
        }
        let log = rig.host.log();
        assert_eq!(log.matches("may not watch").count(), 1, "{log}");
    });
}

#[test]
fn the_watches_of_a_thousand_objects_share_a_few_connections_and_those_beyond_are_read_again() {
    run(async {
        let rig = watching("many-needs").await;
        let before = sockets(&rig.host);
        for from in (0..NEEDED_OBJECTS).step_by(100) {
            let names: Vec<_> = (from..from + 100).map(|number| format!("none-{number}")).collect();
            let parent = format!("hoarder-{from}");
            rig.scene.create(needing(&parent, &CONFIG_MAP, names.iter().map(String::as_str))).await;
            shows(&rig, hotshoe_tests::wait::TIMEOUT, &parent, None).await;
        }
        let more = sockets(&rig.host).saturating_sub(before);
        assert!(more < NEEDED_OBJECTS / 20, "{more} connections for {NEEDED_OBJECTS} watches");
        rig.scene.create(needing("reader", &CONFIG_MAP, ["settings"])).await;
        rig.host.until_logged(&["more objects and selections than are watched"]).await;
        for text in ["it is there", "it is changed"] {
            rig.scene.apply("tests", object(&CONFIG_MAP, "settings", text)).await;
            shows(&rig, hotshoe_tests::wait::TIMEOUT, "reader", Some(text)).await;
        }
        rig.is_well("more needs than are watched").await;
    });
}
