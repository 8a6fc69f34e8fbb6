//! Administration of a plugin's revisions, by `kubectl patch` and by `kubectl hotshoe`.

use std::process::Command;

use hotshoe_tests::host::program;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED, PLUGIN};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{guests, memcached, run};
use serde_json::{Value, json};

use super::rig::{Guest, Rig, file, kubectl_hotshoe};

fn digest(object: &Value) -> String {
    object["status"]["digest"].as_str().unwrap_or_default().to_owned()
}

/// Returns the first digits of a digest, which commands show.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// Puts another component in place, which decides the same.
fn put_another(guest: &Guest) {
    guest.folder.put(&guests::reworded(guest.folder.original(), "0.1.0", "0.1.1"));
}

#[test]
fn in_shadow_mode_a_component_waits_for_an_approval_with_a_verdict() {
    run(async {
        let rig = Rig::new("shadow").await;
        let guest = rig.memcached("shadowed").await;
        rig.apply(&guest).await;
        let first = digest(&rig.until_ready(&guest).await);
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;
        rig.merge(&guest, json!({ "spec": { "mode": "Shadow" } })).await;
        put_another(&guest);
        let waits =
            rig.until(&guest, "has a verdict", |object| object["status"]["pending"]["shadow"]["parents"] == 1).await;
        let pending = &waits["status"]["pending"];
        assert_eq!(
            (pending["reason"].as_str(), digest(&waits)),
            (Some("ApprovalRequired"), first.clone()),
            "{waits:#}"
        );
        assert_eq!(pending["shadow"]["comparedWith"], first, "{pending:#}");
        // A parent that is created later is counted, too.
        rig.scene.create(memcached("later", 1)).await;
        rig.until(&guest, "counts both parents", |object| object["status"]["pending"]["shadow"]["parents"] == 2).await;
        let second = pending["digest"].as_str().expect("a digest").to_owned();
        let approve = |digest: &str| kubectl_hotshoe(&rig.scene, &["approve", &guest.name, short(digest)]);
        let (code, text) = approve(&first);
        assert!(code == Some(1) && text.contains(&format!("{} waits for an approval", short(&second))), "{text}");
        let (code, text) = approve(&second);
        assert!(code == Some(0) && text.contains(&format!("decides with {}", short(&second))), "{text}");
        rig.until(&guest, "has the approved component", |object| digest(object) == second).await;
        // The next one waits again.
        guest.folder.put(&guests::reworded(guest.folder.original(), "0.1.0", "0.1.2"));
        rig.until(&guest, "waits again", |object| {
            let waiting = object["status"]["pending"]["digest"].as_str();
            waiting.is_some_and(|waiting| waiting != second) && digest(object) == second
        })
        .await;
    });
}

#[test]
fn a_pinned_revision_stays_active_until_it_is_unpinned() {
    run(async {
        let rig = Rig::new("pinned").await;
        let guest = rig.memcached("pinned").await;
        rig.apply(&guest).await;
        let first = digest(&rig.until_ready(&guest).await);
        put_another(&guest);
        let second = digest(&rig.until(&guest, "has the second", |object| digest(object) != first).await);
        rig.merge(&guest, json!({ "spec": { "revision": short(&first) } })).await;
        rig.until(&guest, "has the first again", |object| {
            digest(object) == first && object["status"]["pending"]["reason"] == "RevisionPinned"
        })
        .await;
        rig.until_condition(&guest, "Stalled", "False", "Settled").await;
        rig.merge(&guest, json!({ "spec": { "revision": null } })).await;
        rig.until(&guest, "has what its source has", |object| digest(object) == second).await;
        rig.merge(&guest, json!({ "spec": { "revision": "00000000" } })).await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "RevisionUnavailable").await;
        assert!(condition_parts(&stalled, "Stalled").2.contains("spec.revision 00000000"), "{stalled:#}");
        assert_eq!(digest(&stalled), second);
    });
}

#[test]
fn a_paused_plugin_changes_nothing_until_it_is_resumed() {
    run(async {
        let rig = Rig::new("paused").await;
        let guest = rig.memcached("paused").await;
        rig.apply(&guest).await;
        rig.until_ready(&guest).await;
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;
        assert_eq!(kubectl_hotshoe(&rig.scene, &["pause", &guest.name]).0, Some(0));
        rig.until_condition(&guest, "Ready", "False", "Paused").await;
        rig.scene.merge(&MEMCACHED, "served", json!({ "spec": { "size": 2 } })).await;
        rig.scene.delete(&DEPLOYMENT, "served").await;
        rig.scene.gone(&DEPLOYMENT, "served").await;
        // Another plugin, which is started and serves meanwhile, shows that time passes.
        rig.scene.admin.get(&MEMCACHED, &rig.scene.namespace, "served").await.expect("it is there");
        assert!(rig.scene.find(&DEPLOYMENT, "served").await.is_none());
        assert_eq!(kubectl_hotshoe(&rig.scene, &["resume", &guest.name]).0, Some(0));
        rig.scene.until_object(&DEPLOYMENT, "served", "is there", |object| object["spec"]["replicas"] == 2).await;
        rig.until_ready(&guest).await;
    });
}

#[test]
fn kubectl_hotshoe_shows_plugins_and_rolls_them_back() {
    run(async {
        let rig = Rig::new("comfort").await;
        let guest = rig.memcached("comfort").await;
        rig.apply(&guest).await;
        let first = digest(&rig.until_ready(&guest).await);
        put_another(&guest);
        let second = digest(&rig.until(&guest, "has the second", |object| digest(object) != first).await);
        let (code, text) = kubectl_hotshoe(&rig.scene, &["status", &guest.name]);
        assert!(code == Some(0) && text.contains(short(&second)) && text.contains("Ready"), "{text}");
        let (code, text) = kubectl_hotshoe(&rig.scene, &["rollback", &guest.name, "--wait=false"]);
        assert!(code == Some(0) && text.contains(&format!("{} is to be active", short(&first))), "{text}");
        rig.until(&guest, "has the first again", |object| digest(object) == first).await;
        let (code, text) = kubectl_hotshoe(&rig.scene, &["follow", &guest.name, "--wait=false"]);
        assert!(code == Some(0), "{text}");
        rig.until(&guest, "has what its source has", |object| digest(object) == second).await;
        let (code, text) = kubectl_hotshoe(&rig.scene, &["status", "nothing-of-this-name"]);
        assert!(code == Some(1) && text.contains("nothing-of-this-name"), "{text}");
    });
}

#[test]
fn kubectl_hotshoe_explains_an_object_and_reports_by_asking_the_host_in_its_pod() {
    run(async {
        let rig = Rig::with_lease("explained").await;
        let guest = rig.memcached("explained").await;
        rig.apply(&guest).await;
        rig.until_ready(&guest).await;
        rig.scene.create(memcached("cache", 1)).await;
        rig.scene.available("cache").await;
        let object = format!("{}/{}/cache", guest.name, rig.scene.namespace);
        // No kubelet is there to execute anything in a Pod, so this kubectl runs the program beside the host.
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = folder.path().join("kubectl");
        let script =
            "#!/bin/sh\necho \"$@\" >&2\nuntil [ \"$1\" = -- ]; do shift; done\nshift 2\nexec \"$HOTSHOE\" \"$@\"\n";
        std::fs::write(&kubectl, script).expect("a script is written");
        std::fs::set_permissions(&kubectl, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it may run");
        let plugin = folder.path().join("kubectl-hotshoe");
        std::os::unix::fs::symlink(program(), &plugin).expect("a link");
        let asked = |arguments: &[&str]| {
            let mut command = Command::new(&plugin);
            command.args(arguments).env("KUBECONFIG", rig.scene.plane.file("kubeconfig")).env("PATH", folder.path());
            command
                .env("HOTSHOE", program())
                .env("HOTSHOE_SOCKET", rig.host.socket().expect("the host takes commands"));
            let output = command.output().expect("the program runs");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        let (code, page, errors) = asked(&["explain", &object]);
        assert_eq!(code, Some(0), "{errors}");
        let child = format!("created Deployment.apps {}/cache", rig.scene.namespace);
        assert!(page.contains(&child), "{page}");
        let (code, _, errors) = asked(&["explain", &format!("{}/none", guest.name)]);
        assert!(code == Some(1) && errors.contains("this host knows no Memcached.cache.example.com"), "{errors}");
        assert!(errors.contains(" -- /hotshoe explain "), "kubectl was asked to execute the program: {errors}");
        let (code, report, errors) = asked(&["report", &guest.name]);
        assert!(code == Some(0) && report.starts_with("<!doctype html>"), "{errors}");
        assert!(report.contains(&guest.name), "{report}");
        let (code, _, errors) = asked(&["explain", "nothing-of-this-name/a"]);
        assert!(code == Some(1) && errors.contains("nothing-of-this-name"), "{errors}");
    });
}

#[test]
fn kubectl_hotshoe_waits_for_the_outcome_and_fails_with_its_reason() {
    run(async {
        let mut rig = Rig::new("outcome").await;
        let guest = rig.memcached("outcome").await;
        rig.apply(&guest).await;
        let first = digest(&rig.until_ready(&guest).await);
        put_another(&guest);
        let second = digest(&rig.until(&guest, "has the second", |object| digest(object) != first).await);
        let name = guest.name.clone();
        let decides = |digest: &str| format!("{name} decides with {} (version ", short(digest));
        // As few digits as distinguish the two.
        let common = first.chars().zip(second.chars()).take_while(|(one, other)| one == other).count();
        let few = first.get(..=common).expect("digits").to_uppercase();
        let (code, text) = kubectl_hotshoe(&rig.scene, &["rollback", &guest.name, &few]);
        assert!(code == Some(0) && text.contains(&decides(&first)), "{text}");
        let pinned = rig.until(&guest, "has the first", |object| digest(object) == first).await;
        assert_eq!(pinned["spec"]["revision"], first, "{pinned:#}");
        let (code, text) = kubectl_hotshoe(&rig.scene, &["follow", &guest.name]);
        assert!(code == Some(0) && text.contains(&decides(&second)), "{text}");
        assert!(kubectl_hotshoe(&rig.scene, &["rollback", &guest.name, short(&first)]).1.contains(&decides(&first)));
        guest.folder.put(b"no component");
        rig.until(&guest, "sees what it does not activate", |object| {
            let pending = &object["status"]["pending"];
            pending["reason"] == "RevisionPinned" && pending["digest"] != second
        })
        .await;
        let (code, text) = kubectl_hotshoe(&rig.scene, &["follow", &guest.name]);
        assert!(code == Some(1) && text.contains("not activated: ") && text.contains("NotAComponent"), "{text}");
        assert!(text.contains(&format!("stays on {}", short(&first))), "{text}");
        rig.host.kill();
        let (code, text) = kubectl_hotshoe(&rig.scene, &["rollback", &guest.name, &second, "--timeout", "2s"]);
        assert!(code == Some(1) && text.contains("no host has seen the change yet"), "{text}");
    });
}

#[test]
fn a_canary_whose_source_is_replaced_ends_and_is_not_activated() {
    run(async {
        let rig = Rig::new("reverted").await;
        let guest = rig.memcached("reverted").await;
        let mut object = rig.object(&guest, file(&guest));
        object["spec"]["rollout"] = json!({ "canary": { "percent": 50 }, "duration": "60m" });
        rig.create(&object).await;
        let first = digest(&rig.until_ready(&guest).await);
        put_another(&guest);
        rig.until(&guest, "has a canary", |object| object["status"]["canary"].is_object()).await;
        // As a commit is reverted: the rollout is over, and the source names something that is not there.
        let source = json!({ "file": null, "configMap": { "name": guest.name, "key": "plugin.wasm" } });
        rig.merge(&guest, json!({ "spec": { "rollout": null, "source": source } })).await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "ConfigMapMissing").await;
        assert_eq!((digest(&stalled), &stalled["status"]["canary"]), (first, &Value::Null), "{stalled:#}");
        rig.host.until_logged(&["the canary ends: spec.source names another component now"]).await;
        assert!(!rig.host.log().contains("the canary is activated"), "{}", rig.host.log());
    });
}

#[test]
fn a_failure_of_the_revision_or_the_approval_that_is_wanted_ends_with_its_cause() {
    run(async {
        let rig = Rig::new("control-failing").await;
        let guest = rig.memcached("control").await;
        rig.apply(&guest).await;
        rig.until_ready(&guest).await;
        rig.merge(&guest, json!({ "spec": { "revision": "deadbeefdeadbeef" } })).await;
        rig.until_condition(&guest, "Stalled", "True", "RevisionUnavailable").await;
        // Another part of the definition changes at the same time.
        rig.merge(&guest, json!({ "spec": { "revision": null, "config": { "values": { "note": "other" } } } })).await;
        rig.until_condition(&guest, "Stalled", "False", "Settled").await;
        rig.merge(&guest, json!({ "spec": { "approve": "deadbeefdeadbeef" } })).await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "RevisionUnavailable").await;
        assert!(condition_parts(&stalled, "Stalled").2.contains("spec.approve deadbeefdeadbeef"), "{stalled:#}");
        rig.merge(&guest, json!({ "spec": { "approve": null } })).await;
        rig.until_condition(&guest, "Stalled", "False", "Settled").await;
        let (code, text) = kubectl_hotshoe(&rig.scene, &["rollback", &guest.name, "deadbeefdeadbeef"]);
        assert!(code == Some(1) && text.contains("no revision has a digest that begins with"), "{text}");
    });
}

#[test]
fn what_others_write_into_the_status_is_removed_but_for_conditions_and_causes_no_writes() {
    run(async {
        let rig = Rig::new("foreign-status").await;
        let guest = rig.memcached("foreign").await;
        rig.apply(&guest).await;
        rig.until_ready(&guest).await;
        let condition = json!({
            "type": "Theirs", "status": "True", "reason": "Set", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let pending = json!({ "digest": "beef", "reason": "SelfTestFailed", "message": "by hand" });
        let patch = json!([
            { "op": "add", "path": "/status/conditions/-", "value": condition },
            { "op": "add", "path": "/status/pending", "value": pending },
        ]);
        rig.scene.admin.patch_status(&PLUGIN, "", &guest.name, &patch).await.expect("the status is patched");
        let settled = rig
            .until(&guest, "has lost the pending component", |object| object["status"].get("pending").is_none())
            .await;
        assert_eq!(condition_parts(&settled, "Theirs").0, "True", "{settled:#}");
        let version = rig.until(&guest, "is settled", |_| true).await["metadata"]["resourceVersion"].clone();
        // The passes in which another plugin comes and goes would write, too.
        let second = rig.memcached("later").await;
        rig.apply(&second).await;
        rig.until_condition(&second, "Stalled", "True", "ParentsTaken").await;
        rig.delete(&second).await;
        rig.until_gone(&second).await;
        let later = rig.until(&guest, "is there", |_| true).await;
        assert_eq!(later["metadata"]["resourceVersion"], version, "{later:#}");
    });
}
