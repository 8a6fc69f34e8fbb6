//! How often a failing reconcile is retried, and when the count starts again.

use hotshoe_tests::faulty::{fault, scene_with_faults, start};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::{Host, Scene, run};
use serde_json::{Value, json};

const THREE: &str = "  retry: {baseDelay: 100ms, maxDelay: 500ms, maxTries: 3}\n  grants:\n";

fn with_retry(retry: &str) -> Folder {
    let folder = Folder::of_faulty();
    folder.edit("  grants:\n", retry);
    folder
}

async fn figure(host: &Host, series: &str) -> u64 {
    let (_, metrics) = host.get("/metrics").await.expect("metrics");
    let found = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.and_then(|figure| figure.parse().ok()).unwrap_or_default()
}

async fn failures(host: &Host) -> u64 {
    figure(host, "controller_runtime_reconcile_errors_total{controller=\"faulty\",reason=\"PluginFailed\"}").await
}

async fn stalled(scene: &Scene, name: &str) -> Value {
    scene.until_condition_of(&FAULT, name, "Stalled", "True", "PluginFailed").await
}

fn is_well(object: &Value) -> bool {
    condition_parts(object, "Kept").0 == "True"
        && condition(object, "Reconciled").or(condition(object, "Stalled")).is_none()
}

#[test]
fn after_the_last_try_an_object_is_stalled_until_it_changes() {
    run(async {
        let mut scene = scene_with_faults("stalled").await;
        let folder = with_retry(THREE);
        let host = start(&mut scene, &folder).await;
        scene.create(fault("one", "count")).await;
        let object = stalled(&scene, "one").await;
        let (truth, reason, message) = condition_parts(&object, "Reconciled");
        assert_eq!((truth, reason), ("False", "PluginFailed"), "{object:#}");
        assert!(message.contains("attempt 2"), "the plugin was shown 0, 1 and 2: {message}");
        let why = condition_parts(&object, "Stalled").2;
        assert!(why.contains("after 3 tries") && why.contains("attempt 2"), "{why}");
        for attempt in ["attempt 0", "attempt 1", "attempt 2"] {
            scene.event("one", "PluginFailed", attempt).await;
        }
        scene.event("one", "Stalled", "after 3 tries").await;

        // Another object's timer shows that time passes while nothing is tried.
        scene.create(fault("clock", "tick")).await;
        scene
            .until("two ticks have passed", async || match scene.events("clock", "Tick").await.first() {
                Some(event) if event["count"].as_u64() >= Some(2) => Ok(()),
                event => Err(format!("{event:?}")),
            })
            .await;
        assert_eq!(failures(&host).await, 3, "{}", host.log());
        let of_plugin = "{controller=\"faulty\"}";
        assert_eq!(figure(&host, &format!("hotshoe_plugin_parents_stalled{of_plugin}")).await, 1);
        assert_eq!(figure(&host, &format!("controller_runtime_terminal_reconcile_errors_total{of_plugin}")).await, 1);
        let (_, page) = host.ask(&["status"]);
        assert!(page.contains("/one (PluginFailed, tries: 3)"), "{page}");

        scene.merge(&FAULT, "one", json!({ "spec": { "fault": "" } })).await;
        scene.until_object(&FAULT, "one", "is served", is_well).await;
        host.until_plugin("none is stalled", |plugin| plugin["stalled"].is_null()).await;
        assert_eq!(failures(&host).await, 3, "{}", host.log());
    });
}

#[test]
fn an_annotation_on_a_stalled_object_asks_for_another_round_of_tries() {
    run(async {
        let mut scene = scene_with_faults("touched").await;
        let folder = with_retry(THREE);
        let host = start(&mut scene, &folder).await;
        scene.create(fault("one", "count")).await;
        let before = stalled(&scene, "one").await;
        let touch = json!({ "metadata": { "annotations": { "example.com/retry": "now" } } });
        scene.merge(&FAULT, "one", touch).await;
        host.until("it was tried three times more", async || match failures(&host).await {
            6 => Ok(()),
            count => Err(format!("{count} failures")),
        })
        .await;
        let after = stalled(&scene, "one").await;
        assert!(condition_parts(&after, "Reconciled").2.contains("attempt 2"), "{after:#}");
        assert_eq!(before["metadata"]["generation"], after["metadata"]["generation"]);
    });
}

#[test]
fn plugin_yaml_may_allow_more_tries_while_the_host_runs() {
    run(async {
        let mut scene = scene_with_faults("more-tries").await;
        let folder = with_retry("  retry: {baseDelay: 100ms, maxTries: 1}\n  grants:\n");
        let host = start(&mut scene, &folder).await;
        scene.create(fault("one", "count")).await;
        let object = stalled(&scene, "one").await;
        assert!(condition_parts(&object, "Stalled").2.contains("after one try"), "{object:#}");
        folder.edit("maxTries: 1", "maxTries: 0");
        host.until_plugin("what cannot be meant is not applied", |plugin| {
            plugin["pluginFile"]["refused"].as_str().is_some_and(|why| why.contains("spec.retry.maxTries is 0"))
        })
        .await;
        folder.edit("maxTries: 0", "maxTries: 5");
        let has_five = |object: &Value| condition_parts(object, "Stalled").2.contains("after 5 tries");
        let object = scene.until_object(&FAULT, "one", "was tried five times", has_five).await;
        assert!(
            condition_parts(&object, "Reconciled").2.contains("attempt 4"),
            "the count of tries started again: {object:#}"
        );
        assert_eq!(failures(&host).await, 6, "{}", host.log());
    });
}

#[test]
fn without_max_tries_in_plugin_yaml_the_tries_are_unlimited() {
    run(async {
        let mut scene = scene_with_faults("no-last").await;
        let folder = with_retry("  retry: {baseDelay: 100ms, maxDelay: 100ms}\n  grants:\n");
        let _host = start(&mut scene, &folder).await;
        scene.create(fault("one", "count")).await;
        let tried = |object: &Value| condition_parts(object, "Reconciled").2.contains("attempt 20");
        let object = scene.until_object(&FAULT, "one", "was tried many times", tried).await;
        assert!(condition(&object, "Stalled").is_none(), "{object:#}");
    });
}

#[test]
fn a_stalled_object_can_be_deleted_and_its_clean_up_is_never_given_up() {
    run(async {
        let mut scene = scene_with_faults("stalled-deleting").await;
        let folder = with_retry("  retry: {baseDelay: 100ms, maxTries: 1}\n  grants:\n");
        let host = start(&mut scene, &folder).await;
        scene.create(fault("one", "count")).await;
        stalled(&scene, "one").await;
        scene.delete(&FAULT, "one").await;
        scene.gone(&FAULT, "one").await;

        scene.create(fault("two", "trap in clean-up")).await;
        scene.until_object(&FAULT, "two", "is served", |object| condition_parts(object, "Kept").0 == "True").await;
        scene.delete(&FAULT, "two").await;
        let object = scene.until_condition_of(&FAULT, "two", "Reconciled", "False", "Trapped").await;
        assert!(condition(&object, "Stalled").is_none(), "it is tried again in five minutes: {object:#}");
        host.until_plugin("none is stalled", |plugin| plugin["stalled"].is_null()).await;
        scene.merge(&FAULT, "two", json!({ "spec": { "fault": "" } })).await;
        scene.gone(&FAULT, "two").await;
    });
}
