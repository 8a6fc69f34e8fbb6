//! Outages of the API server, and kinds or rights that the host needs and are missing. These tests run one
//! after the other, because each of them changes the whole control plane.

use std::time::{Duration, Instant};

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::{CRD, DEPLOYMENT, MEMCACHED, NAMESPACE, SERVICE};
use hotshoe_tests::{ControlPlane, Host, Scene, memcached};
use serde_json::json;

use super::run_alone;

/// The duration of an outage of the API server.
const OUTAGE: Duration = Duration::from_secs(20);
/// The maximum time after the outage until the host acts on what changed.
const MAX_REACTION_TIME: Duration = Duration::from_secs(5);

async fn not_ready(host: &Host, words: &[&str]) {
    host.waits_for(words).await;
    assert_eq!(host.get("/healthz").await.expect("an answer").0, 200, "it lives");
}

#[test]
fn the_host_acts_within_seconds_of_the_return_of_the_api_server() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, "away").await;
        let host = scene.own_host().await;
        for name in ["resized", "deleted", "drifted"] {
            scene.create(memcached(name, 1)).await;
            scene.available(name).await;
        }
        let gone = Instant::now();
        plane.stop_api_server();
        tokio::time::sleep(OUTAGE.saturating_sub(gone.elapsed())).await;
        plane.start_api_server();
        let back = Instant::now();
        scene.merge(&MEMCACHED, "resized", json!({ "spec": { "size": 3 } })).await;
        scene.delete(&MEMCACHED, "deleted").await;
        scene.merge(&SERVICE, "drifted-service", json!({ "spec": { "selector": { "app": "other" } } })).await;
        scene.create(memcached("new", 2)).await;
        let timeout = MAX_REACTION_TIME.saturating_sub(back.elapsed());
        scene
            .until_within(timeout, "every change was acted upon", async || {
                let resized = scene.get(&DEPLOYMENT, "resized").await["spec"]["replicas"] == 3;
                let repaired = scene.get(&SERVICE, "drifted-service").await["spec"]["selector"]["app"] == "memcached";
                let made = scene.find(&DEPLOYMENT, "new").await.is_some();
                let gone = scene.find(&MEMCACHED, "deleted").await.is_none();
                let all = resized && repaired && made && gone;
                all.then_some(())
                    .ok_or_else(|| format!("resized {resized}, repaired {repaired}, made {made}, gone {gone}"))
            })
            .await;
        plane.restart_controllers();
        for name in ["resized", "drifted", "new"] {
            scene.available(name).await;
        }
        host.ready().await;
        assert!(!host.log().contains("panicked"), "{}", host.log());
    });
}

#[test]
fn a_crash_of_the_api_server_under_load_loses_nothing() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, "crash").await;
        let _host = scene.own_host().await;
        for number in 0..30 {
            scene.create(memcached(&format!("cache-{number}"), 1)).await;
        }
        plane.kill_api_server();
        plane.start_api_server();
        plane.restart_controllers();
        for number in 0..30 {
            scene.available(&format!("cache-{number}")).await;
        }
        let deployments = scene.list(&DEPLOYMENT).await;
        assert_eq!(deployments.len(), 30);
    });
}

#[test]
fn a_missing_kind_is_reported_and_waited_for() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let name = "memcacheds.cache.example.com";
        // No host runs that could finalize the remaining objects.
        for object in plane.admin.list(&MEMCACHED, "").await.expect("a list") {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text("namespace"), text("name"));
            let released = json!({ "metadata": { "finalizers": null } });
            plane.admin.merge(&MEMCACHED, &namespace, &name, &released).await.expect("it is released");
        }
        plane.admin.delete(&CRD, "", name).await.expect("the CRD is deleted");
        let mut scene = Scene::new(plane, "no-crd").await;
        scene
            .until("the CRD is gone", async || match plane.admin.get(&CRD, "", name).await {
                Ok(_) => Err("it is there".to_owned()),
                Err(_) => Ok(()),
            })
            .await;
        let host = scene.start().await.start();
        scene.watch_log(&host);
        not_ready(&host, &["Memcached", "CustomResourceDefinition"]).await;
        plane.install_crd().await;
        host.ready().await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        // And once more while it runs.
        plane.admin.delete(&CRD, "", name).await.expect("the CRD is deleted");
        not_ready(&host, &["Memcached", "CustomResourceDefinition"]).await;
        plane.install_crd().await;
        host.ready().await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
    });
}

#[test]
fn a_missing_right_is_reported_and_waited_for() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, "no-rights").await;
        plane.create_account("weak").await;
        let kubeconfig = plane.kubeconfig_of(SYSTEM, "weak").await;
        let host = Start::new(plane).await.namespace(&scene.namespace).kubeconfig(&kubeconfig).start();
        scene.watch_log(&host);
        not_ready(&host, &["forbidden", "cannot list", "system:serviceaccount:hotshoe-system:weak"]).await;
        let waiting = host.plugin().await["waiting"].to_string();
        assert!(!waiting.contains("Status {"), "the message is for human readers: {waiting}");
        let (_, body) = host.get("/readyz").await.expect("an answer");
        assert!(!body.contains("forbidden"), "the API server's message is not shown to unauthorized clients: {body}");
        for resource in ["memcacheds", "deployments", "services", "pods"] {
            host.until_logged(&["WARN", "forbidden", resource]).await;
        }
        let rules = json!([{ "apiGroups": ["cache.example.com"], "resources": ["memcacheds"], "verbs": ["get", "list", "watch"] }]);
        plane.grant("weak", "tests-weak", &rules).await;
        not_ready(&host, &["forbidden"]).await;
        let rules = json!([{ "apiGroups": ["apps", ""], "resources": ["deployments", "services", "pods"], "verbs": ["list", "watch"] }]);
        plane.grant("weak", "tests-weak-more", &rules).await;
        host.ready().await;
        let lines = host.log().lines().filter(|line| line.contains("forbidden")).count();
        assert!(lines <= 12, "each is logged once, and not at every attempt: {}", host.log());
    });
}

#[test]
fn an_api_server_that_cannot_be_reached_is_waited_for() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, "unreachable").await;
        let start = scene.start().await;
        plane.stop_api_server();
        let host = start.start();
        scene.watch_log(&host);
        not_ready(&host, &["API server"]).await;
        host.until_logged(&[
            "WARN",
            "the API server does not answer",
            "Connection refused",
            "check its address",
            "127.0.0.1",
        ])
        .await;
        plane.start_api_server();
        host.until_logged(&["INFO", "the API server answers again"]).await;
        host.ready().await;
        let lines = host.log().lines().filter(|line| line.contains("WARN hotshoe_cluster")).count();
        assert_eq!(lines, 1, "one clear line, and not one for each kind: {}", host.log());
        plane.restart_controllers();
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
    });
}

/// The duration of an outage in the tests of deletions right after it.
const SHORT_OUTAGE: Duration = Duration::from_secs(5);
/// A time after the outage that is within the half minute in which an API server may still be starting up.
const STILL_WAKING: Duration = Duration::from_secs(6);

#[test]
fn parents_whose_namespace_is_deleted_soon_after_a_crash_of_the_api_server_go() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, "crash-then-delete").await;
        let _host = scene.own_host().await;
        for number in 0..10 {
            scene.create(memcached(&format!("cache-{number}"), 1)).await;
        }
        for number in 0..10 {
            scene.available(&format!("cache-{number}")).await;
        }
        plane.kill_api_server();
        tokio::time::sleep(SHORT_OUTAGE).await;
        plane.start_api_server();
        tokio::time::sleep(STILL_WAKING).await;
        let namespace = scene.namespace.clone();
        plane.admin.delete(&NAMESPACE, "", &namespace).await.expect("the namespace is deleted");
        for number in 0..10 {
            // The namespace controller may have been faster.
            for (kind, name) in
                [(&DEPLOYMENT, format!("cache-{number}")), (&SERVICE, format!("cache-{number}-service"))]
            {
                drop(plane.admin.delete(kind, &namespace, &name).await);
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        for number in 0..10 {
            drop(plane.admin.delete(&MEMCACHED, &namespace, &format!("cache-{number}")).await);
        }
        scene
            .until("all Memcacheds are gone", async || match scene.list(&MEMCACHED).await.len() {
                0 => Ok(()),
                left => Err(format!("{left} are left")),
            })
            .await;
        plane.restart_controllers();
    });
}
