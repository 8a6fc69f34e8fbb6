//! `hotshoe explain`: why an object is as it is, and what holds it back.

use hotshoe_tests::faulty::{SECRET, fault, hides_secret, scene_with_faults, serves, start};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::{CONFIG_MAP, DEPLOYMENT, FAULT};
use hotshoe_tests::{ControlPlane, Host, Scene, memcached, run};
use serde_json::{Value, json};

/// Returns what a host explains about an object of a plugin.
fn explained(host: &Host, scene: &Scene, object: &str) -> Result<Value, String> {
    let (code, printed, errors) = host.ask_for_output(&["explain", object, "-n", &scene.namespace, "-o", "json"]);
    match code {
        Some(0) => serde_json::from_str(&printed).map_err(|error| format!("{error}: {printed}")),
        _ => Err(errors),
    }
}

/// Waits until a decision about an object is as it should be, and returns it.
async fn until_decided(
    host: &Host,
    scene: &Scene,
    object: &str,
    what: &str,
    fulfils: impl Fn(&Value) -> bool,
) -> Value {
    scene
        .until(what, async || {
            let explained = explained(host, scene, object)?;
            let decisions = explained["decisions"].as_array().cloned().unwrap_or_default();
            decisions.into_iter().find(|decided| fulfils(decided)).ok_or_else(|| format!("{explained:#}"))
        })
        .await
}

/// Waits until something holds an object back, and returns that.
async fn until_held(host: &Host, scene: &Scene, object: &str, held: &str) -> Value {
    scene
        .until(held, async || {
            let explained = explained(host, scene, object)?;
            let now = explained["now"].as_array().cloned().unwrap_or_default();
            now.into_iter().find(|hold| hold["what"] == held).ok_or_else(|| format!("{explained:#}"))
        })
        .await
}

/// Returns whether one of the notes of a decision has this word and object, and each of these fields.
fn has(notes: &Value, what: &str, object: &str, fields: &[&str]) -> bool {
    let notes = notes.as_array().into_iter().flatten();
    let mut alike = notes.filter(|note| note["what"] == what && note["object"].as_str().unwrap_or_default() == object);
    alike.any(|note| {
        let named = note["fields"].as_array().cloned().unwrap_or_default();
        fields.iter().all(|field| named.iter().any(|one| one == field))
    })
}

#[test]
fn what_was_created_and_what_changed_since_is_shown_by_name_and_path() {
    run(async {
        let mut scene = Scene::new(ControlPlane::shared().await, "explained").await;
        let host = scene.own_host().await;
        scene.create(memcached("cache", 1)).await;
        let child = format!("Deployment.apps {}/cache", scene.namespace);
        let first = until_decided(&host, &scene, "memcached/cache", "the first decision is shown", |decided| {
            has(&decided["because"], "first", "", &[])
        })
        .await;
        assert!(has(&first["wrote"], "created", &child, &[]), "{first:#}");
        assert!(has(&first["wrote"], "finalizerAdded", "", &["cache.example.com/finalizer"]), "{first:#}");
        assert_eq!(first["by"]["digest"], host.plugin().await["digest"], "{first:#}");
        scene.available("cache").await;

        // Another writer's edit of a child, which is reverted.
        let scaled = scene.kubectl(&["scale", "deployment/cache", "--replicas=3"]);
        assert!(scaled.status.success(), "{scaled:?}");
        until_decided(&host, &scene, "memcached/cache", "the edit of the child is shown", |decided| {
            has(&decided["because"], "changed", &child, &[])
                && has(&decided["wrote"], "changed", &child, &["spec.replicas"])
        })
        .await;

        // A change of the object itself.
        scene.merge(&hotshoe_tests::kinds::MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        until_decided(&host, &scene, "memcached/cache", "the change of the object is shown", |decided| {
            has(&decided["because"], "changed", "", &["spec.size"])
                && has(&decided["wrote"], "changed", &child, &["spec.replicas"])
        })
        .await;

        // Its child is deleted by another.
        scene.delete(&DEPLOYMENT, "cache").await;
        until_decided(&host, &scene, "memcached/cache", "the deletion of the child is shown", |decided| {
            has(&decided["because"], "gone", &child, &[]) && has(&decided["wrote"], "created", &child, &[])
        })
        .await;
        let (code, page, errors) = host.ask_for_output(&["explain", &format!("memcached/{}/cache", scene.namespace)]);
        assert_eq!(code, Some(0), "{errors}");
        for line in [
            format!("Memcached.cache.example.com {}/cache of memcached, decided by ", scene.namespace),
            format!("{child} is gone"),
            format!("created {child}"),
            "\nnow\n".to_owned(),
        ] {
            assert!(page.contains(&line), "{line:?} in {page}");
        }
    });
}

#[test]
fn a_failure_is_shown_with_its_reason_and_until_when_and_a_denial_with_its_rule() {
    run(async {
        let mut scene = scene_with_faults("explained-failures").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        serves(&scene, "one").await;
        for (word, reason, about) in
            [("other", "PluginFailed", json!(null)), ("not granted", "Denied", json!(["kind-not-owned"]))]
        {
            scene.merge(&FAULT, "one", json!({ "spec": { "fault": word } })).await;
            let failed = until_decided(&host, &scene, "faulty/one", "the failure is shown", |decided| {
                decided["ended"] == "failed" && decided["reason"] == reason
            })
            .await;
            assert_eq!(failed["about"], about, "{failed:#}");
            assert!(has(&failed["because"], "changed", "", &["spec.fault"]), "{failed:#}");
            assert!(!failed.to_string().contains("no idea"), "a message may quote values: {failed:#}");
            let held = until_held(&host, &scene, "faulty/one", "backOff").await;
            assert!(held["until"].is_string() && held["seconds"].is_u64(), "{held:#}");
        }
        let (_, page, _) = host.ask_for_output(&["explain", "faulty/one", "-n", &scene.namespace]);
        assert!(page.contains("failed, and nothing was written: Denied (kind-not-owned)"), "{page}");
        assert!(page.contains("backs off, until "), "{page}");
        let (code, report, errors) = host.ask_for_output(&["report"]);
        assert_eq!(code, Some(0), "{errors}");
        // A slash is escaped.
        let object = format!("Fault.fixtures.example.com {}&#x2f;one", scene.namespace);
        for words in ["<!doctype html>", &object, "Denied (kind-not-owned)", "backs off, until ", "Activated"] {
            assert!(report.contains(words), "{words:?} in {report}");
        }

        // It recovers, and that is shown too.
        scene.merge(&FAULT, "one", json!({ "spec": { "fault": "" } })).await;
        until_decided(&host, &scene, "faulty/one", "the recovery is shown", |decided| {
            has(&decided["because"], "retry", "", &[]) && decided["ended"] != "failed"
        })
        .await;
    });
}

#[test]
fn an_object_that_the_host_does_not_know_is_said_to_be_unknown_with_what_to_do() {
    run(async {
        let mut scene = scene_with_faults("unexplained").await;
        let host = start(&mut scene, &Folder::of_faulty()).await;
        let asked = |words: &[&str]| {
            let (code, _, errors) = host.ask_for_output(&[&["explain"], words].concat());
            (code, errors)
        };
        let (code, errors) = asked(&["faulty/none", "-n", &scene.namespace]);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("this host knows no Fault.fixtures.example.com"), "{errors}");
        assert!(
            errors.contains(&format!("kubectl -n {} get fault.fixtures.example.com/none", scene.namespace)),
            "{errors}"
        );
        let (code, errors) = asked(&["other/none"]);
        assert_eq!(code, Some(1));
        assert!(errors.contains("this host has no plugin other; it has faulty"), "{errors}");
        for wrong in ["faulty", "faulty/a?b", "faulty/a/b/c"] {
            assert_eq!(asked(&[wrong]).0, Some(2), "{wrong}");
        }
        let (code, errors) = asked(&["faulty/a/b", "-n", "c"]);
        assert_eq!((code, errors.contains("named twice")), (Some(1), true), "{errors}");
    });
}

#[test]
fn no_byte_of_a_secret_is_shown_whatever_a_plugin_that_reads_it_writes() {
    run(async {
        let mut scene = scene_with_faults("explained-secrets").await;
        let folder = Folder::of_faulty();
        folder.edit("  grants:", "  grants:\n    - {kind: Secret, verbs: [get], names: [\"fault-*\"]}");
        folder.put(&reworded(folder.original(), "this revision works", "this revision peeks"));
        let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }]);
        scene.plane.grant("faulty", "tests-explained-secrets", &rules).await;
        for (name, word) in [("fault-0", ""), ("fault-1", "fail"), ("fault-2", "ask")] {
            let (metadata, held) = (json!({ "name": name }), json!({ "word": SECRET[0] }));
            scene.create(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": held })).await;
            scene.create(fault(name, word)).await;
        }
        let host = start(&mut scene, &folder).await;
        let secret = format!("Secret {}/fault-0", scene.namespace);
        let child = format!("ConfigMap {}/fault-0", scene.namespace);
        let hidden = format!("ConfigMap {}/<hidden>", scene.namespace);
        let first = until_decided(&host, &scene, "faulty/fault-0", "what was written is shown", |decided| {
            has(&decided["wrote"], "created", &child, &[])
        })
        .await;
        assert!(has(&first["wrote"], "created", &hidden, &[]), "{first:#}");

        // A change of the Secret, and of what was made of it.
        let changed = json!({ "data": { "word": SECRET[0], "more": SECRET[0] } });
        scene.merge(&hotshoe_tests::kinds::SECRET, "fault-0", changed).await;
        until_decided(&host, &scene, "faulty/fault-0", "the change of the Secret is shown", |decided| {
            decided["repeated"].as_u64() > Some(0) || has(&decided["because"], "needed", &secret, &[])
        })
        .await;
        scene.merge(&CONFIG_MAP, "fault-0", json!({ "data": { "kept": "edited" } })).await;
        until_decided(&host, &scene, "faulty/fault-0", "the edit is shown", |decided| {
            has(&decided["wrote"], "changed", &child, &["data"])
        })
        .await;
        for (name, reason) in [("fault-1", "PluginFailed"), ("fault-2", "Denied")] {
            until_decided(&host, &scene, &format!("faulty/{name}"), "its failure is shown", |decided| {
                decided["reason"] == reason
            })
            .await;
        }
        for name in ["fault-0", "fault-1", "fault-2"] {
            let object = format!("faulty/{name}");
            hides_secret(&explained(&host, &scene, &object).expect("it is explained").to_string());
            let (_, page, _) = host.ask_for_output(&["explain", &object, "-n", &scene.namespace]);
            hides_secret(&page);
        }
        hides_secret(&host.ask_for_output(&["report"]).1);
        let needs = explained(&host, &scene, "faulty/fault-0").expect("it is explained")["needs"].clone();
        assert_eq!(needs, json!([secret]));
    });
}
