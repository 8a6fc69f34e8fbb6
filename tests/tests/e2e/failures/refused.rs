//! Writes that the API server refuses: its message is reported, and the write is retried.

use hotshoe_tests::kinds::{DEPLOYMENT, Kind, MEMCACHED, QUOTA, SERVICE};
use hotshoe_tests::{Scene, memcached, run};
use serde_json::{Value, json};

use crate::memcached::{host, scene};

#[test]
fn a_refused_deployment_is_reported_with_its_cause_and_retried() {
    run(async {
        let scene = scene("refused").await;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "none" },
            "spec": { "hard": { "count/deployments.apps": "0" } },
        });
        scene.create(quota).await;
        let is_counted = |quota: &Value| quota["status"]["hard"]["count/deployments.apps"] == "0";
        scene.until_object(&QUOTA, "none", "is in force", is_counted).await;
        scene.create(memcached("cache", 1)).await;
        let message = "Failed to create Deployment for the custom resource (cache): (";
        for (condition, status) in [("Available", "False"), ("Degraded", "True")] {
            let object = scene.until_condition("cache", condition, (status, "Reconciling", message)).await;
            let said = hotshoe_tests::scene::condition_parts(&object, condition).2.to_owned();
            assert!(said.starts_with(message) && said.contains("exceeded quota") && said.ends_with(')'), "{said}");
        }
        // The refusal of one child does not stop the other.
        scene.get(&SERVICE, "cache-service").await;
        scene.event("cache", "Forbidden", "exceeded quota").await;
        scene.merge(&QUOTA, "none", json!({ "spec": { "hard": { "count/deployments.apps": "1" } } })).await;
        scene.available("cache").await;
    });
}

/// Creates an admission policy that allows Deployments in this namespace one replica at most.
async fn forbid_growth(scene: &Scene) -> String {
    let name = scene.forbid(&DEPLOYMENT, "object.spec.replicas <= 1", "one server is enough").await;
    let path = format!("{}?dryRun=All", DEPLOYMENT.path(&scene.namespace, Some("cache")));
    let growth = json!({ "spec": { "replicas": 2 } });
    scene
        .until("the rule is in force", async || {
            let tried = scene.admin.request(http::Method::PATCH, &path, "application/merge-patch+json", &growth).await;
            tried.err().map(drop).ok_or_else(|| "growth is allowed".to_owned())
        })
        .await;
    name
}

#[test]
fn a_refused_write_is_retried_at_once_when_the_parent_is_annotated() {
    run(async {
        let scene = scene("refused-marked").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let rule = forbid_growth(&scene).await;
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        scene.until_condition("cache", "Degraded", ("True", "Resizing", "one server is enough")).await;
        scene.allow(&rule).await;
        let tries = async |scene: &Scene| {
            let writes = scene.recorded_writes().await;
            writes.iter().filter(|write| write.is_about("deployments") && write.code == 422).count()
        };
        let before = tries(&scene).await;
        scene.merge(&MEMCACHED, "cache", json!({ "metadata": { "annotations": { "tried": "again" } } })).await;
        // Sooner than the regular retry, ten seconds after the first refusal.
        let soon = std::time::Duration::from_secs(5);
        scene
            .until_within(soon, "it is tried again", async || {
                let size = scene.get(&DEPLOYMENT, "cache").await["spec"]["replicas"].clone();
                let is_tried = size == 2 || tries(&scene).await > before;
                is_tried.then_some(()).ok_or_else(|| "not yet".to_owned())
            })
            .await;
        scene.available("cache").await;
    });
}

#[test]
fn children_are_applied_while_the_status_may_not_be_written() {
    run(async {
        let scene = scene("refused-status").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let status = Kind { plural: "memcacheds/status", ..MEMCACHED };
        scene.forbid(&status, "false", "nothing is to be said").await;
        let path = format!("{}/status?dryRun=All", MEMCACHED.path(&scene.namespace, Some("cache")));
        let word = json!({ "status": { "nodes": ["other"] } });
        scene
            .until("the rule is in force", async || {
                let tried =
                    scene.admin.request(http::Method::PATCH, &path, "application/merge-patch+json", &word).await;
                tried.err().map(drop).ok_or_else(|| "it may be written".to_owned())
            })
            .await;
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        let retries = |log: &str, pause: &str| {
            log.lines().any(|line| {
                line.contains(&scene.namespace) && line.contains("nothing is to be said") && line.contains(pause)
            })
        };
        // The longer the pause before the retry, the surer it is that something else causes the repair.
        host()
            .await
            .until("it rests for long", async || {
                retries(&host().await.log(), "retry=20s").then_some(()).ok_or_else(|| "not yet".to_owned())
            })
            .await;
        scene.delete(&SERVICE, "cache-service").await;
        let soon = std::time::Duration::from_secs(10);
        scene
            .until_within(soon, "the Service is back", async || {
                scene.find(&SERVICE, "cache-service").await.map(drop).ok_or_else(|| "none".to_owned())
            })
            .await;
    });
}

#[test]
fn a_refused_size_is_reported_with_its_cause_and_retried() {
    run(async {
        let scene = scene("refused-size").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let rule = forbid_growth(&scene).await;
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        let message = "Failed to update the size for the custom resource (cache): (";
        for (condition, status) in [("Available", "False"), ("Degraded", "True")] {
            let object = scene.until_condition("cache", condition, (status, "Resizing", message)).await;
            let said = hotshoe_tests::scene::condition_parts(&object, condition).2.to_owned();
            assert!(said.contains("one server is enough"), "{said}");
        }
        let deployment = scene.get(&DEPLOYMENT, "cache").await;
        assert_eq!(deployment["spec"]["replicas"], 1);
        scene.allow(&rule).await;
        scene.available("cache").await;
    });
}

#[test]
fn a_change_that_a_policy_refuses_changes_nothing_of_others_and_is_not_half_applied() {
    run(async {
        let scene = scene("refused-whole").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let port = json!({ "containerPort": 9150, "name": "metrics", "protocol": "TCP" });
        let add = json!([{ "op": "add", "path": "/spec/template/spec/containers/0/ports/-", "value": port }]);
        scene.json_patch(&DEPLOYMENT, "cache", add).await;
        forbid_growth(&scene).await;
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2, "containerPort": 12000 } })).await;
        let message = "Failed to update the size for the custom resource (cache): (";
        scene.until_condition("cache", "Degraded", ("True", "Resizing", message)).await;
        let deployment = scene.get(&DEPLOYMENT, "cache").await;
        let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
        let numbers: Vec<_> = ports.as_array().expect("ports").iter().map(|port| &port["containerPort"]).collect();
        assert_eq!(numbers, [11211, 9150], "{deployment:#}");
    });
}

#[test]
fn a_refused_size_that_the_user_reverts_leaves_nothing_behind() {
    run(async {
        let scene = scene("refused-back").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        forbid_growth(&scene).await;
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        let message = "Failed to update the size for the custom resource (cache): (";
        scene.until_condition("cache", "Degraded", ("True", "Resizing", message)).await;
        // All children are as desired, so that no write of a child requeues the parent.
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 1 } })).await;
        scene.available("cache").await;
    });
}
