//! What a grant allows, and what happens to a decision beyond it.

use hotshoe_tests::faulty::scene;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED, NAMESPACE, SERVICE};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{memcached, run};
use serde_json::json;

const SERVICE_RULE: &str = "      kind: Service\n";

async fn denied(host: &hotshoe_tests::Host, rule: &str) -> bool {
    let (_, metrics) = host.get("/metrics").await.expect("an answer");
    metrics.contains(&format!("hotshoe_denied_total{{controller=\"memcached\",rule=\"{rule}\"}}"))
}

#[test]
fn a_rule_with_a_selector_applies_as_soon_as_a_namespace_has_the_labels() {
    run(async {
        let mut scene = scene("selected").await;
        let namespaces = json!([{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"] }]);
        scene.plane.grant("hotshoe", "tests-namespaces", &namespaces).await;
        let folder = Folder::of_memcached();
        folder.edit(SERVICE_RULE, &format!("{SERVICE_RULE}      namespaces: {{matchLabels: {{team: blue}}}}\n"));
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        scene.create(memcached("cache", 1)).await;
        let object = scene.until_condition_of(&MEMCACHED, "cache", "Reconciled", "False", "Denied").await;
        let message = condition_parts(&object, "Reconciled").2;
        assert!(message.contains("no grant of `create` on this kind covers the namespace"), "{message}");
        assert!(scene.find(&DEPLOYMENT, "cache").await.is_none(), "a decision is refused as a whole");
        assert!(denied(&host, "namespace-not-granted").await);

        let labelled = json!({ "metadata": { "labels": { "team": "blue" } } });
        let namespace = scene.namespace.clone();
        scene.admin.merge(&NAMESPACE, "", &namespace, &labelled).await.expect("the namespace is labelled");
        scene.available("cache").await;
        scene.get(&SERVICE, "cache-service").await;
    });
}

#[test]
fn a_decision_with_a_name_that_is_not_granted_is_denied_by_name() {
    run(async {
        let mut scene = scene("named").await;
        let folder = Folder::of_memcached();
        folder.edit(SERVICE_RULE, &format!("{SERVICE_RULE}      names: [good-*]\n"));
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        scene.create(memcached("good", 1)).await;
        scene.create(memcached("bad", 1)).await;
        let object = scene.until_condition_of(&MEMCACHED, "bad", "Reconciled", "False", "Denied").await;
        assert!(condition_parts(&object, "Reconciled").2.contains("bad-service"), "{object:#}");
        scene.available("good").await;
        assert!(scene.find(&DEPLOYMENT, "bad").await.is_none());
        assert!(denied(&host, "name-not-granted").await);
    });
}

#[test]
fn a_child_that_another_plugin_made_of_the_same_parent_is_a_conflict() {
    run(async {
        let mut scene = scene("two-plugins").await;
        let plane = scene.plane;
        plane.create_account("second").await;
        plane.allow_impersonation("second").await;
        let rules = json!([
            { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "patch", "delete"] },
            { "apiGroups": [""], "resources": ["services"], "verbs": ["create", "patch", "delete"] },
            { "apiGroups": ["cache.example.com"], "resources": ["memcacheds/status"], "verbs": ["patch"] },
            { "apiGroups": ["cache.example.com"], "resources": ["memcacheds/finalizers"], "verbs": ["update"] },
        ]);
        plane.grant("second", "tests-second", &rules).await;
        let mut first = scene.own_host().await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        first.stop();
        let theirs = scene.get(&DEPLOYMENT, "cache").await;
        let folder = Folder::of_memcached();
        folder.edit("name: memcached\n", "name: second\n");
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        scene.event("cache", "Conflict", "Deployment.apps").await;
        let event = scene.event("cache", "Conflict", "the child of another plugin, memcached").await;
        assert!(event["message"].to_string().contains("Nothing of it was changed"), "{event:#}");
        let now = scene.get(&DEPLOYMENT, "cache").await;
        assert_eq!(now["metadata"]["generation"], theirs["metadata"]["generation"]);
        assert_eq!(now["metadata"]["labels"], theirs["metadata"]["labels"]);
        assert!(!now["metadata"]["managedFields"].to_string().contains("hotshoe/second"), "{now:#}");
    });
}
