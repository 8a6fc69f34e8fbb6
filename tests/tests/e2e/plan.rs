//! `hotshoe plan`: what a plugin would decide, and what that would change, without a host.

use std::path::Path;
use std::process::{Command, Output};

use hotshoe_tests::faulty::scene;
use hotshoe_tests::guests::{Folder, caches};
use hotshoe_tests::host::program;
use hotshoe_tests::kinds::{ATTACK, DEPLOYMENT, MEMCACHED};
use hotshoe_tests::{Scene, memcached, repository, run};
use serde_json::{Value, json};

/// Runs `hotshoe plan` for a plugin, as its author does.
fn plan(plugin: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program());
    command.arg("plan").arg(plugin).args(arguments).env("XDG_CACHE_HOME", caches());
    let Output { status, stdout, stderr } =
        command.env("MEMCACHED_IMAGE", "memcached:1.6-alpine").output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

fn file(folder: &Folder, object: &Value) -> String {
    let path = folder.path().join("object.yaml");
    std::fs::write(&path, object.to_string()).expect("it is written");
    path.display().to_string()
}

#[test]
fn of_a_file_alone_the_plan_shows_what_would_be_created_in_each_form() {
    let folder = Folder::of_memcached();
    let object = file(&folder, &memcached("cache", 2));
    let (code, text, errors) = plan(folder.path(), &["-f", &object]);
    assert_eq!(code, Some(3), "{text}{errors}");
    for line in ["+ Deployment default/cache\n", "status.conditions[Available]: Unknown (Reconciling)"] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert!(text.contains("Plan: 2 to create, 0 to change, 0 to delete."), "{text}");
    let (code, yaml, _) = plan(folder.path(), &["-f", &object, "-n", "shop", "-o", "yaml"]);
    assert_eq!(code, Some(3));
    assert!(yaml.contains("kind: Deployment") && yaml.contains("namespace: shop"), "{yaml}");
    assert!(!yaml.contains("hotshoe.dev/") && !yaml.contains("ownerReferences"), "{yaml}");
    let (_, diff, _) = plan(folder.path(), &["-f", &object, "-o", "diff"]);
    assert!(diff.contains("--- /dev/null\n+++ Deployment default/cache\n"), "{diff}");
    let (_, json, _) = plan(folder.path(), &["-f", &object, "-o", "json"]);
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json[0]["children"][0]["action"], "create", "{json:#}");
    // A component alone is granted what it asks for.
    let alone = tempfile::tempdir().expect("a folder");
    let component = alone.path().join("memcached.wasm");
    std::fs::copy(folder.component(), &component).expect("it is copied");
    let (code, _, errors) = plan(&component, &["-f", &object]);
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("counts as granted what it asks for"), "{errors}");
}

#[test]
fn a_plan_of_what_a_host_would_deny_or_the_plugin_rejects_fails_and_says_what_to_do() {
    let folder = Folder::of_memcached();
    let object = file(&folder, &memcached("cache", 2));
    folder.edit("      kind: Service\n", "      kind: Service\n      names: [other-*]\n");
    let (code, _, errors) = plan(folder.path(), &["-f", &object]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("a host would deny this") && errors.contains("cache-service"), "{errors}");
    assert!(errors.contains(r#"names: ["other-*", cache-service]"#), "{errors}");
    let (code, _, errors) = plan(folder.path(), &["-f", "nowhere.yaml"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("nowhere.yaml cannot be read"), "{errors}");
    let other = file(&folder, &json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } }));
    let (code, _, errors) = plan(folder.path(), &["-f", &other]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("none of the files has an object of Memcached.cache.example.com"), "{errors}");
    assert_eq!(plan(folder.path(), &[]).0, Some(2), "neither a file nor an object of a cluster");
}

#[test]
fn a_plan_of_a_cluster_that_is_away_names_it_and_says_what_to_do() {
    let folder = Folder::of_memcached();
    let object = file(&folder, &memcached("cache", 2));
    let kubeconfig = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "away",
        "clusters": [{ "name": "away", "cluster": { "server": "https://127.0.0.1:1" } }],
        "contexts": [{ "name": "away", "context": { "cluster": "away", "user": "author" } }],
        "users": [{ "name": "author", "user": { "token": "none" } }],
    });
    std::fs::write(&kubeconfig, config.to_string()).expect("it is written");
    let kubeconfig = kubeconfig.display().to_string();
    for arguments in [&["-f", &*object, "--cluster"][..], &["--from", "memcached/cache"]] {
        let (code, _, errors) = plan(folder.path(), &[arguments, &["--kubeconfig", &kubeconfig]].concat());
        assert_eq!(code, Some(1), "{errors}");
        for words in ["https://127.0.0.1:1", "context away does not answer", "--context"] {
            assert!(errors.contains(words), "{words}: {errors}");
        }
    }
}

#[test]
fn a_plan_that_needs_more_than_a_decision_may_fetch_fails_as_it_would_in_a_host() {
    let folder = Folder::of_hostile();
    let large = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "large", "namespace": "default" },
        "data": { "text": "x".repeat(1_000_000) },
    });
    let beside = folder.path().join("large.yaml");
    std::fs::write(&beside, large.to_string()).expect("it is written");
    let planned = |times: usize| {
        let need = json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": "large" });
        let object = json!({
            "apiVersion": ATTACK.api_version(), "kind": ATTACK.kind, "metadata": { "name": "greedy" },
            "spec": { "attack": "needs", "needs": vec![need; times] },
        });
        let object = file(&folder, &object);
        plan(folder.path(), &["-f", &object, "-f", beside.to_str().expect("a path in UTF-8")])
    };
    let (code, _, errors) = planned(10);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("the plugin reached its limit on fetched bytes (8Mi)"), "{errors}");
    let (_, _, errors) = planned(2);
    assert!(!errors.contains("fetched bytes"), "{errors}");
}

#[test]
fn a_plan_of_a_component_that_never_answers_ends_by_the_limit_of_a_host() {
    let folder = Folder::of_hostile();
    let planned = |attack: &str| {
        let object = json!({
            "apiVersion": ATTACK.api_version(), "kind": ATTACK.kind, "metadata": { "name": "endless" },
            "spec": { "attack": attack },
        });
        plan(folder.path(), &["-f", &file(&folder, &object)])
    };
    for (attack, limit) in [("loop", "the plugin ran for longer than its time limit of 500ms"), ("needs", "rounds")] {
        let (code, printed, errors) = planned(attack);
        assert_eq!((code, &*printed), (Some(1), ""), "{attack}: {errors}");
        assert!(errors.contains(limit) && errors.contains("endless"), "{attack}: {errors}");
    }
}

#[test]
fn the_defaults_of_the_crd_and_of_the_plugins_own_code_are_filled_in_first_and_shown() {
    let folder = Folder::of_memcached();
    let crds = folder.path().join("crds");
    std::fs::create_dir(&crds).expect("a folder");
    let crd = "cache.example.com_memcacheds.yaml";
    std::fs::copy(repository("crds").join(crd), crds.join(crd)).expect("the CRD is copied");
    let mut given = memcached("cache", 1);
    given["spec"] = json!({ "sise": 3 });
    let object = file(&folder, &given);
    let (code, text, errors) = plan(folder.path(), &["-f", &object]);
    assert_eq!(code, Some(3), "{text}{errors}");
    assert!(text.contains("  spec.containerPort: 11211 (default)\n  spec.size: 1 (default)\n"), "{text}");
    assert_eq!(text.matches("(default)").count(), 2, "what is left out is no default: {text}");
    assert!(errors.contains("the API server would leave out what the CRD does not know: spec.sise"), "{errors}");
    let (_, json, _) = plan(folder.path(), &["-f", &object, "-o", "json"]);
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json[0]["defaults"][1], json!({ "path": "spec.size", "new": "1" }), "{json:#}");
    let (_, yaml, _) = plan(folder.path(), &["-f", &object, "-o", "yaml"]);
    assert!(yaml.contains("containerPort: 11211"), "{yaml}");

    let folder = Folder::of_faulty();
    let fault = |name: &str| {
        let metadata = json!({ "name": "a", "namespace": "n" });
        json!({ "apiVersion": "fixtures.example.com/v1", "kind": "Fault", "metadata": metadata, "spec": { "fault": name } })
    };
    let object = file(&folder, &fault("none"));
    let (code, text, errors) = plan(folder.path(), &["-f", &object]);
    assert_eq!((code, text.contains("  spec.size: 1 (default)\n")), (Some(3), true), "{text}{errors}");
    let object = file(&folder, &fault("default: other"));
    let (code, _, errors) = plan(folder.path(), &["-f", &object]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("the plugin could not fill in its defaults: no idea"), "{errors}");
}

/// Runs `hotshoe plan` against the cluster of a scene, as the administrator.
fn plan_in(scene: &Scene, plugin: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let kubeconfig = scene.plane.file("kubeconfig").display().to_string();
    let common = ["--kubeconfig", &kubeconfig, "--namespace", &scene.namespace];
    plan(plugin, &[arguments, &common].concat())
}

#[test]
fn of_an_object_in_a_cluster_nothing_would_change_until_it_or_a_child_is_changed() {
    run(async {
        let mut scene = scene("plan").await;
        let folder = Folder::of_memcached();
        let mut host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        host.stop();
        let (code, text, errors) = plan_in(&scene, folder.path(), &["--from", "memcached/cache"]);
        assert_eq!((code, text.contains("Nothing would change.")), (Some(0), true), "{text}{errors}");

        let mut changed = memcached("cache", 3);
        changed["metadata"]["namespace"] = scene.namespace.as_str().into();
        let object = file(&folder, &changed);
        let (code, text, errors) = plan_in(&scene, folder.path(), &["-f", &object, "--cluster"]);
        assert_eq!(code, Some(3), "{text}{errors}");
        let namespace = &scene.namespace;
        assert!(text.contains(&format!("~ Deployment {namespace}/cache\n      spec.replicas: 1 → 3\n")), "{text}");
        assert!(!text.contains("Service"), "what stays as it is is not named: {text}");
        let (_, page, _) = plan_in(&scene, folder.path(), &["-f", &object, "--cluster", "-o", "markdown"]);
        assert!(page.contains("| `spec.replicas` |") && page.contains("-  replicas: 1\n+  replicas: 3\n"), "{page}");

        // By the CRD of the cluster: the plugin's folder has none.
        changed["spec"] = json!({ "size": 3 });
        let object = file(&folder, &changed);
        let (_, text, errors) = plan_in(&scene, folder.path(), &["-f", &object, "--cluster"]);
        assert!(text.contains("  spec.containerPort: 11211 (default)\n"), "{text}{errors}");

        scene.delete(&DEPLOYMENT, "cache").await;
        let (code, text, errors) = plan_in(&scene, folder.path(), &["--from", "cache"]);
        assert_eq!(code, Some(3), "{text}{errors}");
        assert!(text.contains(&format!("+ Deployment {namespace}/cache\n")), "{text}");
        let before = scene.get(&MEMCACHED, "cache").await["metadata"]["resourceVersion"].clone();
        assert_eq!(scene.get(&MEMCACHED, "cache").await["metadata"]["resourceVersion"], before, "nothing is written");
        assert!(scene.find(&DEPLOYMENT, "cache").await.is_none(), "nothing is written");

        let (code, _, errors) = plan_in(&scene, folder.path(), &["--from", "memcached/other"]);
        assert_eq!(code, Some(1));
        assert!(errors.contains("there is no Memcached.cache.example.com"), "{errors}");
        let away = ["--from", "cache", "--kubeconfig", "/nowhere"];
        let (code, _, errors) = plan(folder.path(), &away);
        assert_eq!((code, errors.contains("/nowhere")), (Some(1), true), "{errors}");
        // The finalizer would keep the object: no host runs any more.
        scene.merge(&MEMCACHED, "cache", json!({ "metadata": { "finalizers": null } })).await;
    });
}
