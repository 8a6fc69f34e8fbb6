//! The administrator's configuration, and how errors in it are reported.

use hotshoe_tests::faulty::scene;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED, REPLICA_SET, SERVICE};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, memcached, run};
use serde_json::{Value, json};

const NO_IMAGE: &str = "Failed to create Deployment for the custom resource (cache): (Unable to find MEMCACHED_IMAGE environment variable with the image)";

#[test]
fn without_an_image_nothing_is_created_and_what_is_there_is_left_alone() {
    run(async {
        let mut scene = scene("no-image").await;
        let mut host = scene.start().await.image(None).ready().await;
        scene.watch_log(&host);
        scene.create(memcached("cache", 1)).await;
        for (condition, status) in [("Available", "False"), ("Degraded", "True")] {
            let object = scene.until_condition("cache", condition, (status, "Reconciling", NO_IMAGE)).await;
            assert_eq!(condition_parts(&object, condition).2, NO_IMAGE);
        }
        assert!(scene.list(&DEPLOYMENT).await.is_empty());
        assert!(scene.list(&SERVICE).await.is_empty());
        scene.event("cache", "NoImage", "MEMCACHED_IMAGE").await;
        host.until_logged(&["WARN", "memcached", "config.fromEnv.image", "MEMCACHED_IMAGE", "is not set"]).await;
        host.stop();

        let mut host = scene.own_host().await;
        scene.available("cache").await;
        let before = scene.get(&DEPLOYMENT, "cache").await;
        host.stop();

        let host = scene.start().await.image(None).ready().await;
        scene.watch_log(&host);
        scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        scene.until_condition("cache", "Degraded", ("True", "Reconciling", NO_IMAGE)).await;
        let after = scene.get(&DEPLOYMENT, "cache").await;
        assert_eq!(after["spec"], before["spec"]);
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    });
}

#[test]
fn another_image_is_rolled_out_in_the_same_deployment() {
    run(async {
        let mut scene = scene("images").await;
        let mut host = scene.own_host().await;
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        let first = scene.get(&DEPLOYMENT, "cache").await;
        let digest = "0123456789abcdef".repeat(4);
        for (image, version) in [
            ("registry.example.com:5000/caches/memcached".to_owned(), "latest"),
            (format!("localhost:5000/memcached@sha256:{digest}"), "0123456789ab"),
            (format!("memcached:1.6.40@sha256:{digest}"), "1.6.40"),
        ] {
            host.stop();
            host = scene.start().await.image(Some(&image)).ready().await;
            scene.watch_log(&host);
            let runs = |deployment: &Value| {
                let template = &deployment["spec"]["template"];
                template["spec"]["containers"][0]["image"] == image.as_str()
                    && template["metadata"]["labels"]["app.kubernetes.io/version"] == version
                    && deployment["metadata"]["labels"]["app.kubernetes.io/version"] == version
            };
            let deployment = scene.until_object(&DEPLOYMENT, "cache", &format!("runs {image}"), runs).await;
            assert_eq!(deployment["metadata"]["uid"], first["metadata"]["uid"]);
            assert_eq!(deployment["spec"]["selector"], first["spec"]["selector"]);
            scene.available("cache").await;
        }
    });
}

#[test]
fn a_deployment_of_another_operator_with_another_selector_is_named_with_the_way_out() {
    run(async {
        let mut scene = scene("selector").await;
        let parent = scene.create(memcached("cache", 1)).await;
        let labels = json!({ "app": "memcached", "memcached_cr": "cache" });
        let owner = json!({
            "apiVersion": parent["apiVersion"], "kind": parent["kind"], "name": "cache",
            "uid": parent["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        });
        let pod = json!({
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "memcached", "image": "a",
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "cache", "ownerReferences": [owner] },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": pod },
            },
        });
        let theirs = scene.create(deployment).await;
        let folder = Folder::of_memcached();
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        scene.until_condition("cache", "Degraded", ("True", "Conflict", "Deployment (cache)")).await;
        scene.event("cache", "Conflict", "set in spec of plugin.yaml: adopt: true").await;
        assert_eq!(scene.get(&DEPLOYMENT, "cache").await["metadata"]["uid"], theirs["metadata"]["uid"]);
        folder.edit("  grants:", "  adopt: true\n  grants:");
        let object = scene.until_condition("cache", "Degraded", ("True", "SelectorImmutable", "spec.selector")).await;
        assert!(condition_parts(&object, "Degraded").2.contains("delete the Deployment"), "{object:#}");
        let now = scene.get(&DEPLOYMENT, "cache").await;
        assert_eq!(now["metadata"]["uid"], theirs["metadata"]["uid"], "it is not recreated");
        assert_eq!(now["spec"], theirs["spec"], "a part of it is changed");
        // Without the Deployment its ReplicaSet keeps the Pods, until the one of the host's has its own.
        let left = scene
            .until("its ReplicaSet has a Pod", async || {
                let sets = scene.list(&REPLICA_SET).await;
                let ready = sets.iter().find(|set| set["status"]["readyReplicas"] == 1);
                ready.cloned().ok_or_else(|| format!("{sets:#?}"))
            })
            .await;
        let path = format!("{}?propagationPolicy=Orphan", DEPLOYMENT.path(&scene.namespace, Some("cache")));
        scene
            .admin
            .request(http::Method::DELETE, &path, "application/json", &Value::Null)
            .await
            .expect("it is deleted");
        scene.available("cache").await;
        let name = left["metadata"]["name"].as_str().unwrap_or_default();
        let now = scene.get(&REPLICA_SET, name).await;
        assert_eq!((&now["metadata"]["ownerReferences"], &now["status"]["readyReplicas"]), (&Value::Null, &json!(1)));
        scene.delete(&REPLICA_SET, name).await;
        scene.gone(&REPLICA_SET, name).await;
        scene.available("cache").await;
    });
}

#[test]
fn a_plugin_without_an_account_is_reported_with_the_missing_right() {
    run(async {
        let mut scene = scene("no-account").await;
        let folder = Folder::of_memcached();
        folder.edit("name: memcached\n", "name: unprivileged\n");
        scene.create(memcached("cache", 1)).await;
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        let object = scene.until_condition("cache", "Reconciled", ("False", "Forbidden", "impersonate")).await;
        let message = condition_parts(&object, "Reconciled").2;
        assert!(
            message.contains("unprivileged") && message.contains("apply what `hotshoe rbac --plugin-only` prints"),
            "{message}"
        );
        assert!(scene.list(&DEPLOYMENT).await.is_empty());
        host.until_logged(&["WARN", "cache", "impersonate", "hotshoe rbac"]).await;
        let (_, page) = host.ask(&["status"]);
        assert!(page.contains("impersonate") && page.contains("hotshoe rbac"), "{page}");
    });
}

#[test]
fn an_account_that_may_not_create_deployments_is_reported() {
    run(async {
        let mut scene = scene("no-right").await;
        let plane = scene.plane;
        plane.create_account("limited").await;
        plane.allow_impersonation("limited").await;
        let rules = json!([
            { "apiGroups": [""], "resources": ["services"], "verbs": ["create", "patch", "delete"] },
            { "apiGroups": ["cache.example.com"], "resources": ["memcacheds/status"], "verbs": ["patch"] },
        ]);
        plane.grant("limited", "tests-limited", &rules).await;
        let folder = Folder::of_memcached();
        folder.edit("name: memcached\n", "name: limited\n");
        scene.create(memcached("cache", 1)).await;
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        let object =
            scene.until_condition("cache", "Degraded", ("True", "Reconciling", "Failed to create Deployment")).await;
        let message = condition_parts(&object, "Degraded").2;
        assert!(
            message.contains("system:serviceaccount:hotshoe-system:limited") && message.contains("deployments"),
            "{message}"
        );
        scene.until_object(&SERVICE, "cache-service", "is there all the same", |_| true).await;
        let rules =
            json!([{ "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "patch", "delete"] }]);
        plane.grant("limited", "tests-limited-more", &rules).await;
        scene.available("cache").await;
    });
}

/// Starts a host that must refuse to start, and returns its output.
async fn refuses_to_start(plugin: &std::path::Path) -> String {
    let scene = scene("refuses").await;
    let mut host: Host = scene.start().await.plugins(&[plugin]).start();
    let status = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        loop {
            if let Some(status) = host.ended() {
                return status;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("it goes on: {}", host.log()));
    assert_eq!(status.code(), Some(1), "{}", host.log());
    host.log()
}

#[test]
fn a_plugin_yaml_with_an_unknown_key_is_refused_by_name() {
    run(async {
        for (what, into, key) in [
            ("spec:\n", "spec:\n  sources: {}\n", "sources"),
            ("metadata:\n", "metadata:\n  namespace: a\n", "namespace"),
            ("  grants:\n", "  limits: { callTimes: 1s }\n  grants:\n", "callTimes"),
            ("kind: Pod\n", "kind: Pod\n      label: [a]\n", "label"),
            ("kind: Pod\n", "kind: Pod\n      namespaces: everywhere\n", "namespaces"),
            ("kind: Pod\n", "kind: Pod\n      namespaces: {matchLabels: {}}\n", "matchLabels is empty"),
            ("kind: Pod\n", "kind: Pod\n      pods: {hostNetworks: true}\n", "hostNetworks"),
            ("image: MEMCACHED_IMAGE", "image: DATABASE_PASSWORD", "--allow-env DATABASE_PASSWORD"),
        ] {
            let folder = Folder::of_memcached();
            folder.edit(what, into);
            let said = refuses_to_start(folder.path()).await;
            assert!(said.contains(key) && said.contains("plugin.yaml"), "{key}: {said}");
        }
    });
}

#[test]
fn a_plugin_that_is_not_there_is_named() {
    run(async {
        let said = refuses_to_start(std::path::Path::new("/nowhere/at/all")).await;
        assert!(said.contains("/nowhere/at/all"), "{said}");
    });
}

#[test]
fn a_plugin_that_asks_for_more_than_it_is_granted_does_not_start_and_says_what() {
    run(async {
        let mut scene = scene("grants").await;
        let folder = Folder::of_memcached();
        folder.edit("kind: Pod\n", "kind: Node\n");
        let host = scene.start().await.plugins(&[folder.path()]).start();
        scene.watch_log(&host);
        host.until_logged(&["NotGranted", "Pod"]).await;
        host.waits_for(&["Pod", "plugin.yaml"]).await;
    });
}
