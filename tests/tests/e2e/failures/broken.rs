//! A plugin that fails costs its own parents a decision, and nothing else.

use hotshoe_tests::faulty::{fault, scene_with_faults};
use hotshoe_tests::guests::{self, Folder};
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT, MEMCACHED, SECRET};
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::{Host, Scene, memcached, run};
use serde_json::{Value, json};

/// Starts a host with a healthy plugin and the faulty one.
async fn both(name: &str) -> (Scene, Host) {
    let mut scene = scene_with_faults(name).await;
    let start = scene.start().await.plugins(&[&guests::memcached(), &guests::faulty()]);
    let host = start.ready().await;
    scene.watch_log(&host);
    (scene, host)
}

/// Each fault with the reasons that the host may report for it.
const FAULTS: [(&str, &[&str]); 17] = [
    ("trap", &["Trapped"]),
    ("loop", &["DeadlineExceeded"]),
    ("memory", &["LimitExceeded"]),
    ("recursion", &["Trapped", "LimitExceeded"]),
    ("much output", &["OutputTooLarge"]),
    ("broken JSON", &["InvalidOutput"]),
    ("no object", &["InvalidOutput", "Denied"]),
    ("another name", &["InvalidOutput", "Denied"]),
    ("another namespace", &["Denied"]),
    ("not granted", &["Denied"]),
    ("unknown kind", &["Denied"]),
    ("owner", &["Denied"]),
    ("broken status", &["InvalidOutput", "Denied"]),
    ("the host's condition", &["Denied"]),
    ("reject", &["Rejected"]),
    ("retry", &["RetryRequested"]),
    ("other", &["PluginFailed"]),
];

#[test]
fn a_failed_decision_writes_the_hosts_condition_and_an_event_and_nothing_else() {
    run(async {
        let (scene, host) = both("faults").await;
        for (number, (what, _)) in FAULTS.iter().enumerate() {
            scene.create(fault(&format!("fault-{number}"), what)).await;
        }
        scene.create(fault("healthy", "")).await;
        scene.create(memcached("cache", 2)).await;
        for (number, (what, reasons)) in FAULTS.iter().enumerate() {
            let name = format!("fault-{number}");
            // So many faults open the circuit breaker, which a parent with a long backoff reports first.
            let is_tried = |object: &Value| {
                let (truth, reason, _) = condition_parts(object, "Reconciled");
                truth == "False" && reason != "CircuitOpen"
            };
            let object = scene.until_object(&FAULT, &name, &format!("({what}) is reported as failing"), is_tried).await;
            let (_, reason, message) = condition_parts(&object, "Reconciled");
            assert!(reasons.contains(&reason), "{what}: {reason}: {message}");
            assert_eq!(object["status"]["conditions"].as_array().map(Vec::len), Some(3), "{what}: {object:#}");
            assert!(object["status"]["word"].is_null(), "{what}: {object:#}");
            scene.event(&name, reason, "").await;
        }
        let rejected = scene.get(&FAULT, "fault-14").await;
        assert!(
            condition_parts(&rejected, "Reconciled").2.contains("spec.fault: no plugin can serve this"),
            "{rejected:#}"
        );
        // The others are served.
        scene.until_object(&FAULT, "healthy", "is served", |object| condition_parts(object, "Kept").0 == "True").await;
        scene.available("cache").await;
        let maps: Vec<_> =
            scene.list(&CONFIG_MAP).await.into_iter().map(|map| map["metadata"]["name"].clone()).collect();
        assert_eq!(maps.iter().filter(|name| **name != "kube-root-ca.crt").collect::<Vec<_>>(), [&json!("healthy")]);
        assert!(scene.list(&SECRET).await.is_empty());
        let writes = scene.recorded_writes().await;
        let of_faults = writes.iter().filter(|write| write.name.starts_with("fault-"));
        for write in of_faults {
            let allowed = ["faults", "faults/status", "events"].iter().any(|resource| write.is_about(resource));
            assert!(allowed && write.user == hotshoe_tests::control_plane::HOST_USER, "{write:#?}");
        }
        host.ready().await;
        let log = host.log();
        assert!(!log.lines().any(|line| line.starts_with("thread '")), "the host itself is well: {log}");
    });
}

#[test]
fn a_parent_that_is_rejected_is_not_tried_again_before_it_changes() {
    run(async {
        let (scene, _host) = both("rejected").await;
        scene.create(fault("one", "reject")).await;
        scene
            .until_object(&FAULT, "one", "is rejected", |object| condition_parts(object, "Reconciled").1 == "Rejected")
            .await;
        scene.event("one", "Rejected", "").await;
        let writes = scene.recorded_writes().await.len();
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        let later = scene.recorded_writes().await;
        assert_eq!(later.len(), writes, "{later:#?}");
        // An annotation changes nothing that the plugin is shown, so the parent stays rejected.
        scene.merge(&FAULT, "one", json!({ "metadata": { "annotations": { "touched": "yes" } } })).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(condition_parts(&scene.get(&FAULT, "one").await, "Reconciled").1, "Rejected");
        scene.merge(&FAULT, "one", json!({ "spec": { "fault": "" } })).await;
        let is_well =
            |object: &Value| condition_parts(object, "Kept").0 == "True" && condition(object, "Reconciled").is_none();
        scene.until_object(&FAULT, "one", "is served", is_well).await;
    });
}

#[test]
fn the_plugins_last_status_stays_beside_the_hosts_condition_of_its_failure() {
    run(async {
        let (scene, _host) = both("beside").await;
        scene.create(fault("one", "")).await;
        let is_kept = |object: &Value| condition_parts(object, "Kept").0 == "True";
        let before = scene.until_object(&FAULT, "one", "is served", is_kept).await;
        for what in ["trap", "loop", "broken JSON"] {
            scene.merge(&FAULT, "one", json!({ "spec": { "fault": what } })).await;
            let fails = |object: &Value| {
                condition_parts(object, "Reconciled").0 == "False"
                    && object["metadata"]["generation"]
                        == condition(object, "Reconciled").unwrap()["observedGeneration"]
            };
            let object = scene.until_object(&FAULT, "one", "is reported as failing", fails).await;
            assert_eq!(condition(&object, "Kept"), condition(&before, "Kept"), "{object:#}");
            assert_eq!(object["status"]["word"], before["status"]["word"]);
            scene.get(&CONFIG_MAP, "one").await;
        }
        scene.merge(&FAULT, "one", json!({ "spec": { "fault": "" } })).await;
        scene.until_object(&FAULT, "one", "is well again", |object| condition(object, "Reconciled").is_none()).await;
    });
}

#[test]
fn a_plugin_that_keeps_failing_is_not_called_for_a_while() {
    run(async {
        let mut scene = scene_with_faults("breaker").await;
        let folder = Folder::of_faulty();
        let start = scene.start().await.plugins(&[&guests::memcached(), folder.path()]);
        let host = start.ready().await;
        scene.watch_log(&host);
        for number in 0..8 {
            scene.create(fault(&format!("fault-{number}"), "trap")).await;
        }
        circuit(&host, "open").await;
        let (status, said_so) = host.ask(&["status"]);
        assert!(status.success() && said_so.contains("circuit open for another"), "{said_so}");
        // Other parents are served, also those of this plugin, and that closes the circuit breaker.
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let calls = calls(&host).await;
        circuit(&host, "open").await;
        scene.create(fault("healthy", "")).await;
        scene.until_object(&FAULT, "healthy", "is served", |object| condition_parts(object, "Kept").0 == "True").await;
        for number in 0..8 {
            scene.until_condition_of(&FAULT, &format!("fault-{number}"), "Reconciled", "False", "Trapped").await;
        }
        assert!(calls < 40, "{calls} calls of a plugin that only traps");
        // A new revision starts with a closed circuit breaker.
        circuit(&host, "open").await;
        folder.put(&guests::reworded(folder.original(), "the ConfigMap is kept", "the ConfigMap is here"));
        let (status, said_so) = host.ask(&["reload", "faulty"]);
        assert!(status.success() && !said_so.contains("circuit"), "{said_so}");
    });
}

/// Waits until the plugin's circuit breaker is in this state, also in the metrics.
async fn circuit(host: &Host, state: &str) {
    host.until(&format!("the circuit is {state}"), async || {
        let plugin = host.plugin_named("faulty").await?;
        let (_, metrics) = host.get("/metrics").await?;
        let gauge = format!("hotshoe_plugin_breaker{{controller=\"faulty\",state=\"{state}\"}} 1");
        match plugin["breaker"]["state"] == state && metrics.contains(&gauge) {
            true => Ok(()),
            false => Err(format!("{plugin:#}")),
        }
    })
    .await;
}

async fn calls(host: &Host) -> u64 {
    let (_, metrics) = host.get("/metrics").await.expect("metrics");
    let counter = "hotshoe_plugin_call_seconds_count{controller=\"faulty\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(counter)?.parse().ok()).expect("a count of calls")
}

#[test]
fn children_are_not_deleted_all_at_once_without_a_grant_for_it() {
    run(async {
        let (scene, _host) = both("prune-all").await;
        scene.create(fault("one", "")).await;
        scene.until_object(&FAULT, "one", "is served", |object| condition_parts(object, "Kept").0 == "True").await;
        scene.merge(&FAULT, "one", json!({ "spec": { "fault": "nothing" } })).await;
        scene.until_condition_of(&FAULT, "one", "Reconciled", "False", "Denied").await;
        scene.get(&CONFIG_MAP, "one").await;
    });
}

#[test]
fn a_child_that_the_api_server_rejects_as_malformed_is_reported_in_an_event_and_a_condition() {
    run(async {
        let (scene, host) = both("misspelt").await;
        for (name, what, cause) in [("one", "unknown field", "datum"), ("two", "impossible value", "base64")] {
            scene.create(fault(name, what)).await;
            scene
                .until(&format!("an Event names the {what}"), async || {
                    let events = scene.list(&hotshoe_tests::kinds::EVENT).await;
                    let names_it = |event: &Value| {
                        event["involvedObject"]["name"] == name
                            && event["reason"] == "Invalid"
                            && event["message"].as_str().is_some_and(|message| message.contains(cause))
                    };
                    if events.iter().any(names_it) { Ok(()) } else { Err(format!("{events:#?}")) }
                })
                .await;
            assert!(scene.find(&CONFIG_MAP, name).await.is_none());
            let parent = scene.until_condition_of(&FAULT, name, "Reconciled", "False", "ChildrenRefused").await;
            assert!(parent.to_string().contains(cause), "{parent:#}");
        }
        host.until("the status counts the parent", async || {
            let (_, words) = host.ask(&["status"]);
            let is_counted = words.contains("children of 2 of 2 are refused: their conditions say why");
            is_counted.then_some(()).ok_or(words)
        })
        .await;
    });
}

#[test]
fn a_status_that_the_schema_rejects_is_reported_and_the_children_are_created() {
    run(async {
        let (scene, _host) = both("bad-status").await;
        scene.create(fault("one", "status of another schema")).await;
        scene.until_condition_of(&FAULT, "one", "Reconciled", "False", "").await;
        scene.get(&CONFIG_MAP, "one").await;
    });
}

#[test]
fn a_flood_of_log_lines_is_cut_short_and_cannot_forge_lines() {
    run(async {
        let (scene, host) = both("flood").await;
        scene.create(fault("one", "flood")).await;
        scene.until_object(&FAULT, "one", "is served", |object| object["status"]["word"] == "flood").await;
        let log = host.log();
        let lines = log.lines().filter(|line| line.contains("flood ")).count();
        assert!(lines <= 300, "{lines} lines of the flood");
        assert!(!log.contains('\u{1b}') && !log.contains('\u{202e}'), "control characters are gone");
    });
}

#[test]
fn a_clean_up_that_fails_keeps_the_finalizer_and_says_why() {
    run(async {
        let (scene, _host) = both("clean-up").await;
        scene.create(fault("one", "trap in clean-up")).await;
        scene.until_object(&FAULT, "one", "is served", |object| condition_parts(object, "Kept").0 == "True").await;
        scene.delete(&FAULT, "one").await;
        let object = scene.until_condition_of(&FAULT, "one", "Reconciled", "False", "Trapped").await;
        assert_eq!(object["metadata"]["finalizers"], json!(["fixtures.example.com/finalizer"]));
        // The way out is to fix the fault; other parents are served meanwhile.
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        scene.merge(&FAULT, "one", json!({ "spec": { "fault": "" } })).await;
        scene.gone(&FAULT, "one").await;
        scene.delete(&MEMCACHED, "cache").await;
        scene.gone(&MEMCACHED, "cache").await;
    });
}
