//! What the host tells about itself.

use hotshoe_tests::kinds::MEMCACHED;
use hotshoe_tests::{memcached, run};
use serde_json::Value;

use crate::scene;

#[test]
fn health_readiness_metrics_and_status_are_served() {
    run(async {
        let mut scene = scene("telling").await;
        let mut host = scene.own_host().await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        assert_eq!(host.get("/healthz").await.expect("an answer"), (200, "ok\n".to_owned()));
        assert_eq!(host.get("/readyz").await.expect("an answer"), (200, "ok\n".to_owned()));
        let (code, metrics) = host.get("/metrics").await.expect("an answer");
        assert_eq!(code, 200);
        for name in [
            "controller_runtime_reconcile_total{controller=\"memcached\",result=\"success\"}",
            "controller_runtime_reconcile_time_seconds_count{controller=\"memcached\"}",
            "workqueue_depth{controller=\"memcached\"}",
            "hotshoe_plugin_call_seconds_count{controller=\"memcached\"}",
            "hotshoe_plugin_revisions_total{controller=\"memcached\",reason=\"Published\"} 1",
        ] {
            assert!(metrics.contains(name), "{name} in\n{metrics}");
        }
        assert!(metrics.ends_with("# EOF\n"), "OpenMetrics ends so");
        let (status, text) = host.ask(&["status", "-o", "json"]);
        assert!(status.success(), "{text}");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(told["ready"], true);
        let plugin = &told["plugins"][0];
        assert_eq!((&plugin["name"], &plugin["parents"]), (&"memcached".into(), &1.into()));
        let kinds: Vec<_> =
            plugin["watches"].as_array().unwrap().iter().map(|watch| watch["kind"].to_string()).collect();
        for kind in ["Memcached", "Deployment", "Service", "Pod"] {
            assert!(kinds.iter().any(|found| found.contains(kind)), "{kind} in {kinds:?}");
        }
        let (status, text) = host.ask(&["status"]);
        assert!(status.success() && text.contains("memcached"), "{text}");
        let (status, text) = host.ask(&["reload", "nonesuch"]);
        assert!(!status.success() && text.contains("nonesuch") && text.contains("memcached"), "{text}");
        let log = host.log();
        let first = log.lines().next().expect("a first line");
        assert!(first.contains("context tests"), "the first line names the context: {first}");
        assert!(host.stop().success(), "a signal ends it politely");
    });
}

#[test]
fn a_parent_in_another_namespace_is_not_touched_by_a_host_of_one_namespace() {
    run(async {
        let (mut mine, other) = (scene("mine").await, scene("other").await);
        other.create(memcached("cache", 1)).await;
        let _host = mine.own_host().await;
        mine.create(memcached("cache", 1)).await;
        mine.available("cache").await;
        let untouched = other.get(&MEMCACHED, "cache").await;
        assert!(untouched["status"].is_null() && untouched["metadata"]["finalizers"].is_null(), "{untouched:#}");
    });
}
