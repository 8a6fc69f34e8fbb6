//! What the host reports about itself.

use hotshoe_tests::faulty::{scene, scene_with_faults};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::{FAULT, MEMCACHED};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, Scene, memcached, run};
use serde_json::{Value, json};

#[test]
fn health_readiness_metrics_and_status_are_served() {
    run(async {
        let mut scene = scene("reporting").await;
        let mut host = scene.own_host().await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        assert_eq!(host.get("/healthz").await.expect("an answer"), (200, "ok\n".to_owned()));
        assert_eq!(host.get("/readyz").await.expect("an answer"), (200, "ok\n".to_owned()));
        let succeeded = "controller_runtime_reconcile_total{controller=\"memcached\",result=\"success\"}";
        // The watch event of its last status may not have arrived yet.
        let metrics = host
            .until("a reconcile has succeeded", async || match host.get("/metrics").await? {
                (200, metrics) if metrics.contains(succeeded) => Ok(metrics),
                (code, metrics) => Err(format!("{code} {metrics}")),
            })
            .await;
        for name in [
            "controller_runtime_reconcile_time_seconds_count{controller=\"memcached\"}",
            "workqueue_depth{controller=\"memcached\",name=\"memcached\",priority=\"0\"}",
            "hotshoe_plugin_call_seconds_count{controller=\"memcached\"}",
            "hotshoe_plugin_revisions_total{controller=\"memcached\",reason=\"Activated\"} 1",
        ] {
            assert!(metrics.contains(name), "{name} in\n{metrics}");
        }
        let (status, text) = host.ask(&["status", "-o", "json"]);
        assert!(status.success(), "{text}");
        let status: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(status["ready"], true);
        let plugin = &status["plugins"][0];
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
        assert!(host.stop().success(), "SIGTERM stops it gracefully");
    });
}

#[test]
fn a_host_whose_terminal_is_closed_shuts_down_cleanly() {
    run(async {
        let mut host = scene("hang-up").await.own_host().await;
        assert!(host.hang_up().success());
        assert!(host.log().contains("stopping"), "{}", host.log());
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
        assert!(
            untouched["status"] == json!({ "observedGeneration": -1 }) && untouched["metadata"]["finalizers"].is_null(),
            "{untouched:#}"
        );
    });
}

/// Returns the short digest of the active component, as commands and logs show it.
async fn digest(host: &Host) -> String {
    let status = host.status().await.expect("a status");
    status["plugins"][0]["digest"].as_str().unwrap_or_default().chars().take(12).collect()
}

async fn metrics_have(host: &Host, digest: &str, rejected: u32) {
    let infos = format!("hotshoe_plugin_info{{controller=\"faulty\",digest=\"{digest}\",version=\"0.1.0\"}} 1");
    let labels = format!("controller=\"faulty\",digest=\"{digest}\"");
    let failures = format!("hotshoe_plugin_revision_failures_total{{{labels},reason=\"Rejected\"}} {rejected}");
    let calls = format!("hotshoe_plugin_revision_call_seconds_count{{{labels},result=\"answered\"}} ");
    host.until(&format!("the metrics name {digest}"), async || {
        let (_, text) = host.get("/metrics").await?;
        let info: Vec<_> = text.lines().filter(|line| line.starts_with("hotshoe_plugin_info{")).collect();
        match info == [&infos] && text.contains(&failures) && text.contains(&calls) {
            true => Ok(()),
            false => Err(text),
        }
    })
    .await;
}

/// Waits until the only Event about the rejection has this count, with this component as the last one.
async fn rejected(scene: &Scene, times: u64, digest: &str) {
    scene
        .until(&format!("the rejection was reported {times} times, last by {digest}"), async || {
            let events = scene.events("one", "Rejected").await;
            let by = |event: &Value| event["metadata"]["annotations"]["hotshoe.dev/digest"] == digest;
            match &*events {
                [event] if event["count"] == times && by(event) => Ok(()),
                _ => Err(format!("{events:#?}")),
            }
        })
        .await;
}

#[test]
fn events_metrics_and_log_lines_name_the_component_that_decided() {
    run(async {
        let mut scene = scene_with_faults("digests").await;
        let folder = Folder::of_faulty();
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        let first = digest(&host).await;
        let with = |fault: &str| json!({ "spec": { "fault": fault } });
        scene
            .create(json!({
                "apiVersion": FAULT.api_version(), "kind": FAULT.kind,
                "metadata": { "name": "one" }, "spec": { "fault": "reject" },
            }))
            .await;
        rejected(&scene, 1, &first).await;
        metrics_have(&host, &first, 1).await;
        host.until_logged(&["WARN", "Rejected", &format!("digest={first}")]).await;
        scene.merge(&FAULT, "one", with("")).await;
        let recovered = |object: &Value| {
            condition_parts(object, "Kept").0 == "True" && condition_parts(object, "Reconciled").0.is_empty()
        };
        scene.until_object(&FAULT, "one", "is served", recovered).await;
        host.until_logged(&["recovered", &format!("digest={first}")]).await;

        folder.put(&reworded(folder.original(), "this revision works", "this revision slips"));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(status.success(), "{words}");
        let second = digest(&host).await;
        assert_ne!(first, second);
        scene.merge(&FAULT, "one", with("reject")).await;
        // It is the same Event, and one write as before.
        rejected(&scene, 2, &second).await;
        metrics_have(&host, &second, 1).await;
        host.until_logged(&["WARN", "Rejected", &format!("digest={second}")]).await;
        let (_, text) = host.get("/metrics").await.expect("metrics");
        assert!(text.contains(&format!("digest=\"{first}\"")), "the one before can be compared: {text}");

        folder.put(&reworded(folder.original(), "the ConfigMap is kept", "the ConfigMap is here"));
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(status.success(), "{words}");
        let third = digest(&host).await;
        metrics_have(&host, &third, 1).await;
        let (_, text) = host.get("/metrics").await.expect("metrics");
        assert!(text.contains(&second) && !text.contains(&first), "no more than two have series: {text}");
        // The new component rejects, too, and a swap does not repeat the report.
        rejected(&scene, 2, &second).await;
    });
}
