//! The plugin `tenant`: parents are cluster-scoped, with children in several namespaces.

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::{NAMESPACE, NETWORK_POLICY, QUOTA, TENANT};
use hotshoe_tests::only_host::OnlyHost;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Scene, repository, run};
use serde_json::{Value, json};

use hotshoe_tests::scene::labels;

const GIVEN: &str = "platform.example.com/tenants";

async fn give(scene: &Scene) {
    let patch = labels(&json!({ GIVEN: "true" }));
    scene.admin.merge(&NAMESPACE, "", &scene.namespace, &patch).await.expect("a label");
}

fn tenant(name: &str, namespaces: &[&str]) -> Value {
    json!({
        "apiVersion": TENANT.api_version(), "kind": TENANT.kind, "metadata": { "name": name },
        "spec": { "namespaces": namespaces, "quota": { "pods": 5 } },
    })
}

async fn until_condition(scene: &Scene, name: &str, condition: &str, expected: (&str, &str)) -> Value {
    scene
        .until(&format!("{condition} of {name} is {expected:?}"), async || {
            let tenant = scene.admin.get(&TENANT, "", name).await.map_err(|refused| refused.message)?;
            let found = condition_parts(&tenant, condition);
            let is_it = found.0 == expected.0 && found.2.contains(expected.1);
            if is_it { Ok(tenant.clone()) } else { Err(format!("{:#}", tenant["status"])) }
        })
        .await
}

#[test]
fn a_tenant_has_children_in_its_namespaces_and_in_none_that_is_not_granted() {
    run(async {
        let plane = ControlPlane::shared().await;
        plane.install_definition(&repository("crds/platform.example.com_tenants.yaml")).await;
        let (mut scene, second) = (Scene::new(plane, "tenant").await, Scene::new(plane, "tenant-second").await);
        let foreign = Scene::new(plane, "tenant-foreign").await;
        give(&scene).await;
        give(&second).await;
        let only = OnlyHost::start(plane, Folder::of_plugin("tenant"), "tenant-host").await;
        scene.watch_log(&only.host);
        let name = scene.namespace.clone();
        let child = format!("tenant-{name}");
        let both = [scene.namespace.as_str(), second.namespace.as_str()];
        scene.admin.create(&tenant(&name, &both)).await.expect("a tenant");
        let served = until_condition(&scene, &name, "Ready", ("True", "2 namespaces")).await;
        assert_eq!(served["status"]["namespaces"], json!(both));
        for namespace in [&scene, &second] {
            let policy = namespace.get(&NETWORK_POLICY, &child).await;
            assert_eq!(policy["metadata"]["ownerReferences"][0]["kind"], "Tenant");
            assert_eq!(namespace.get(&QUOTA, &child).await["spec"]["hard"]["pods"], "5");
        }
        // A change of a child in any namespace requeues the parent.
        second.delete(&QUOTA, &child).await;
        second.until_object(&QUOTA, &child, "is back", |_| true).await;

        // All or nothing: where one namespace is not granted, nothing is written.
        for not_given in ["kube-system", foreign.namespace.as_str()] {
            let spec = json!({ "spec": { "namespaces": [both[0], not_given], "quota": { "pods": 7 } } });
            scene.admin.merge(&TENANT, "", &name, &spec).await.expect("a change");
            let tenant =
                until_condition(&scene, &name, "Reconciled", ("False", &format!("covers the namespace {not_given}")))
                    .await;
            assert_eq!(condition_parts(&tenant, "Reconciled").1, "Denied");
            assert!(plane.admin.list(&QUOTA, not_given).await.expect("a list").is_empty());
            assert_eq!(second.get(&QUOTA, &child).await["spec"]["hard"]["pods"], "5", "not even what may be written");
        }
        let spec = json!({ "spec": { "namespaces": [both[0]], "quota": { "pods": 7 } } });
        scene.admin.merge(&TENANT, "", &name, &spec).await.expect("a change");
        until_condition(&scene, &name, "Ready", ("True", "1 namespaces")).await;
        assert_eq!(scene.get(&QUOTA, &child).await["spec"]["hard"]["pods"], "7");
        second.gone(&QUOTA, &child).await;

        // An existing object of others with a child's name stays as it is.
        let other = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": child }, "spec": { "hard": { "pods": "1" } },
        });
        second.create(other).await;
        let spec = json!({ "spec": { "namespaces": both } });
        scene.admin.merge(&TENANT, "", &name, &spec).await.expect("a change");
        until_condition(&scene, &name, "Ready", ("False", &format!("missing in {}", both[1]))).await;
        let untouched = second.get(&QUOTA, &child).await;
        assert_eq!(untouched["spec"]["hard"]["pods"], "1");
        assert!(untouched["metadata"].get("ownerReferences").is_none());

        scene.admin.delete(&TENANT, "", &name).await.expect("a deletion");
        scene.gone(&QUOTA, &child).await;
        second.gone(&NETWORK_POLICY, &child).await;
        assert!(second.find(&QUOTA, &child).await.is_some());
    });
}

#[test]
fn a_namespace_that_is_deleted_and_created_again_gets_its_quota_and_policy_again() {
    run(async {
        let plane = ControlPlane::shared().await;
        plane.install_definition(&repository("crds/platform.example.com_tenants.yaml")).await;
        let mut scene = Scene::new(plane, "tenant-again").await;
        give(&scene).await;
        let only = OnlyHost::start(plane, Folder::of_plugin("tenant"), "tenant-again-host").await;
        scene.watch_log(&only.host);
        let name = scene.namespace.clone();
        let child = format!("tenant-{name}");
        scene.admin.create(&tenant(&name, &[&name])).await.expect("a tenant");
        until_condition(&scene, &name, "Ready", ("True", "1 namespaces")).await;
        scene.admin.delete(&NAMESPACE, "", &name).await.expect("a deletion");
        scene.gone_namespace().await;
        plane.create_namespace(&name).await;
        give(&scene).await;
        scene.until_object(&QUOTA, &child, "is there again", |_| true).await;
        scene.until_object(&NETWORK_POLICY, &child, "is there again", |_| true).await;
        until_condition(&scene, &name, "Ready", ("True", "1 namespaces")).await;
        scene.admin.delete(&TENANT, "", &name).await.expect("a deletion");
        scene.gone(&QUOTA, &child).await;
    });
}

#[test]
fn a_change_in_one_namespace_does_not_wait_until_all_forged_children_in_another_are_pruned() {
    const FORGED: usize = 120;
    run(async {
        let plane = ControlPlane::shared().await;
        plane.install_definition(&repository("crds/platform.example.com_tenants.yaml")).await;
        let (mut scene, greedy) = (Scene::new(plane, "tenant-good").await, Scene::new(plane, "tenant-forged").await);
        give(&scene).await;
        give(&greedy).await;
        let name = scene.namespace.clone();
        let parent = scene.admin.create(&tenant(&name, &[&name, &greedy.namespace])).await.expect("a tenant");
        for number in 0..FORGED {
            let owner = json!({
                "apiVersion": TENANT.api_version(), "kind": TENANT.kind, "name": name, "uid": parent["metadata"]["uid"],
                "controller": true,
            });
            let metadata = json!({
                "name": format!("tenant-forged-{number}"), "labels": { "hotshoe.dev/plugin": "tenant" },
                "ownerReferences": [owner],
            });
            let forged = json!({
                "apiVersion": NETWORK_POLICY.api_version(), "kind": NETWORK_POLICY.kind, "metadata": metadata,
                "spec": { "podSelector": {} },
            });
            greedy.create(forged).await;
        }
        let only = OnlyHost::start(plane, Folder::of_plugin("tenant"), "tenant-forged-host").await;
        scene.watch_log(&only.host);
        let forged = async || {
            let policies = greedy.list(&NETWORK_POLICY).await;
            let is_forged = |policy: &&Value| policy["metadata"]["name"].to_string().contains("tenant-forged-");
            policies.iter().filter(is_forged).count()
        };
        let pruning = async || match forged().await {
            FORGED => Err("all of them are there".to_owned()),
            left => Ok(left),
        };
        scene.until("the forged children are being pruned", pruning).await;
        scene.admin.merge(&TENANT, "", &name, &json!({ "spec": { "quota": { "pods": 6 } } })).await.expect("a change");
        let is_changed = |quota: &Value| quota["spec"]["hard"]["pods"] == "6";
        scene.until_object(&QUOTA, &format!("tenant-{name}"), "is changed", is_changed).await;
        assert!(forged().await > 0, "the change has waited for all of them");
        let pruned = async || match forged().await {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        };
        scene.until("all of them are pruned", pruned).await;
        scene.admin.delete(&TENANT, "", &name).await.expect("a deletion");
        scene.gone(&QUOTA, &format!("tenant-{name}")).await;
    });
}

#[test]
fn a_grant_that_covers_nothing_for_a_parent_without_a_namespace_is_refused_and_the_advice_is_right_when_pasted() {
    run(async {
        let plane = ControlPlane::shared().await;
        plane.install_definition(&repository("crds/platform.example.com_tenants.yaml")).await;
        let account = "tenant-advice-host";
        let mut only = OnlyHost::start(plane, Folder::of_plugin("tenant"), account).await;
        only.host.stop();
        only.folder.edit("      namespaces: {matchLabels: {platform.example.com/tenants: \"true\"}}\n", "");
        let kubeconfig = plane.kubeconfig_of(SYSTEM, account).await;
        let cache = tempfile::tempdir().expect("a folder");
        let start = Start::new(plane).await.plugins(&[only.folder.path()]).kubeconfig(&kubeconfig).cache(cache.path());
        let host = start.start();
        let refused = |plugin: &Value| plugin["refused"]["reason"] == "NotGranted";
        let plugin = host.until_plugin("the component is refused", refused).await;
        let message = plugin["refused"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("because the parents are in none"), "{message}");
        let advice = message.split_once("add to spec.grants: ").and_then(|(_, rest)| rest.split_once("; grant it"));
        let rules = advice.expect("there is advice").0.replace(" - {", "\n    - {");
        only.folder.edit("  grants:\n", &format!("  grants:\n    {rules}\n"));
        host.until_plugin("the component is active", |plugin| plugin["digest"].is_string()).await;
    });
}
