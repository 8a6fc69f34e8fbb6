//! Writes that an admission webhook keeps failing: the parent says so, and they are tried less and less often.

use std::time::Duration;

use hotshoe_tests::faulty::{fault, scene_with_faults, serves, start};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT, Kind, VALIDATING_WEBHOOK};
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::{Scene, run};
use serde_json::{Value, json};

/// A time within which every refusal is in the condition.
const MINUTE: Duration = Duration::from_secs(60);
/// The longest pause between two tries, with its jitter, and what a busy machine takes.
const UNTIL_MENDED: Duration = Duration::from_secs(90);

/// Registers a webhook for writes of these resources of a namespace, at an address where nothing listens, and waits
/// until it is in force.
async fn failing_webhook(scene: &Scene, kind: &Kind, resource: &str) -> String {
    let name = format!("down-{}", scene.namespace);
    let configuration = json!({
        "apiVersion": VALIDATING_WEBHOOK.api_version(),
        "kind": VALIDATING_WEBHOOK.kind,
        "metadata": { "name": name },
        "webhooks": [{
            "name": "down.tests.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 3,
            "clientConfig": { "url": "https://127.0.0.1:1/" },
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": scene.namespace } },
            "rules": [{
                "apiGroups": [kind.group], "apiVersions": [kind.version], "resources": [resource],
                "operations": ["CREATE", "UPDATE"],
            }],
        }],
    });
    scene.admin.create(&configuration).await.expect("a webhook");
    name
}

async fn in_force(scene: &Scene) {
    let probe = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "probe" } });
    scene
        .until("the webhook is in force", async || match scene.try_create(probe.clone()).await {
            Err(refused) if refused.message.contains("failed calling webhook") => Ok(()),
            Ok(_) => {
                scene.delete(&CONFIG_MAP, "probe").await;
                Err("it may be created".to_owned())
            }
            Err(refused) => Err(refused.message),
        })
        .await;
}

#[test]
fn children_that_a_failing_webhook_refuses_are_named_within_a_minute_and_written_soon_after_it_is_mended() {
    run(async {
        let mut scene = scene_with_faults("webhook-down").await;
        let folder = Folder::of_faulty();
        let _host = start(&mut scene, &folder).await;
        let webhook = failing_webhook(&scene, &CONFIG_MAP, "configmaps").await;
        in_force(&scene).await;
        let names: Vec<String> = (0..10).map(|number| format!("fault-{number}")).collect();
        for name in &names {
            scene.create(fault(name, "")).await;
        }
        scene
            .until_within(MINUTE, "each parent says so", async || {
                for name in &names {
                    let object = scene.get(&FAULT, name).await;
                    let (status, reason, message) = condition_parts(&object, "Reconciled");
                    let child = format!("ConfigMap {}/{name}", scene.namespace);
                    let says = ["500", "InternalError", "failed calling webhook", "down.tests.example.com"];
                    let is_said = says.iter().chain([&child.as_str()]).all(|word| message.contains(word));
                    if (status, reason) != ("False", "ChildrenRefused") || !is_said {
                        return Err(format!("{object:#}"));
                    }
                }
                Ok(())
            })
            .await;
        scene.event("fault-0", "InternalError", "failed calling webhook").await;
        let tries = async |name: &str| {
            let writes = scene.recorded_writes().await;
            writes.iter().filter(|write| write.is_about("configmaps") && write.name == name).count()
        };
        for name in &names {
            let tried = tries(name).await;
            assert!(tried <= 10, "{name} was tried {tried} times in a minute");
        }
        scene.admin.delete(&VALIDATING_WEBHOOK, "", &webhook).await.expect("the webhook is mended");
        scene
            .until_within(UNTIL_MENDED, "all are served", async || {
                for name in &names {
                    let object = scene.get(&FAULT, name).await;
                    let is_well =
                        condition_parts(&object, "Kept").0 == "True" && condition(&object, "Reconciled").is_none();
                    if !is_well || scene.find(&CONFIG_MAP, name).await.is_none() {
                        return Err(format!("{object:#}"));
                    }
                }
                Ok(())
            })
            .await;
    });
}

#[test]
fn other_children_are_written_while_a_webhook_fails_and_a_child_that_is_desired_otherwise_is_tried_at_once() {
    run(async {
        let mut scene = scene_with_faults("webhook-others").await;
        let folder = Folder::of_faulty();
        let _host = start(&mut scene, &folder).await;
        serves(&scene, "before").await;
        let webhook = failing_webhook(&scene, &CONFIG_MAP, "configmaps").await;
        in_force(&scene).await;
        scene.create(fault("one", "")).await;
        scene.until_condition_of(&FAULT, "one", "Reconciled", "False", "ChildrenRefused").await;
        let before = scene.get(&FAULT, "before").await;
        assert!(condition(&before, "Reconciled").is_none(), "nothing of it is written: {before:#}");
        scene.admin.delete(&VALIDATING_WEBHOOK, "", &webhook).await.expect("the webhook is mended");
        // Whatever the pause is by now, a mark on the parent asks for another try.
        scene.merge(&FAULT, "one", json!({ "metadata": { "annotations": { "tried": "again" } } })).await;
        let is_well = |object: &Value| condition(object, "Reconciled").is_none();
        scene.until_object(&FAULT, "one", "is served", is_well).await;
    });
}

#[test]
fn a_status_that_a_failing_webhook_refuses_is_in_an_event_and_tried_less_and_less_often() {
    run(async {
        let mut scene = scene_with_faults("webhook-status").await;
        let folder = Folder::of_faulty();
        let _host = start(&mut scene, &folder).await;
        serves(&scene, "probe").await;
        let webhook = failing_webhook(&scene, &FAULT, "faults/status").await;
        status_is_refused(&scene, "probe").await;
        scene.create(fault("one", "")).await;
        scene.event("one", "Unavailable", "failed calling webhook").await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let writes = scene.recorded_writes().await;
        let tries = writes.iter().filter(|write| write.is_about("faults/status") && write.name == "one").count();
        assert!(tries <= 24, "the status and the host's condition were tried {tries} times: {writes:#?}");
        scene.get(&CONFIG_MAP, "one").await;
        scene.admin.delete(&VALIDATING_WEBHOOK, "", &webhook).await.expect("the webhook is mended");
        scene
            .until_within(UNTIL_MENDED, "it is served", async || {
                let object = scene.get(&FAULT, "one").await;
                let is_well =
                    condition_parts(&object, "Kept").0 == "True" && condition(&object, "Reconciled").is_none();
                is_well.then_some(()).ok_or_else(|| format!("{object:#}"))
            })
            .await;
    });
}

/// Waits until the webhook refuses the status of a parent.
async fn status_is_refused(scene: &Scene, name: &str) {
    let path = format!("{}/status?dryRun=All", FAULT.path(&scene.namespace, Some(name)));
    let word = json!({ "status": { "word": "probe" } });
    scene
        .until("the webhook is in force", async || {
            let tried = scene.admin.request(http::Method::PATCH, &path, "application/merge-patch+json", &word).await;
            match tried {
                Err(refused) if refused.message.contains("webhook") => Ok(()),
                Err(refused) => Err(refused.message),
                Ok(_) => Err("it may be written".to_owned()),
            }
        })
        .await;
}
