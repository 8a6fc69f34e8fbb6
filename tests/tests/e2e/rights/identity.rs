//! Which account writes what, by the audit log, and what the accounts may not do.

use hotshoe_tests::control_plane::{CLOSED, HOST_USER, PLUGIN_USER, SYSTEM};
use hotshoe_tests::kinds::{DEPLOYMENT, EVENT, Kind, MEMCACHED, NAMESPACE, SECRET, SERVICE, SERVICE_ACCOUNT};
use hotshoe_tests::{ControlPlane, Kube, Refused, memcached, run};
use serde_json::{Value, json};

use crate::memcached::scene;

#[test]
fn children_and_status_are_the_plugins_finalizers_and_events_the_hosts() {
    run(async {
        let scene = scene("identity").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        scene.delete(&MEMCACHED, "cache").await;
        scene.gone(&MEMCACHED, "cache").await;
        scene.event("cache", "Deleting", "").await;
        let writes = scene.recorded_writes().await;
        for (resource, account) in [
            ("deployments", PLUGIN_USER),
            ("services", PLUGIN_USER),
            ("memcacheds/status", PLUGIN_USER),
            ("memcacheds", HOST_USER),
            ("events", HOST_USER),
        ] {
            let of: Vec<_> = writes.iter().filter(|write| write.is_about(resource)).collect();
            assert!(!of.is_empty(), "no write of {resource} in {writes:#?}");
            assert!(of.iter().all(|write| write.user == account), "{resource}: {of:#?}");
            assert!(of.iter().all(|write| write.agent.starts_with("hotshoe/")), "{resource}: {of:#?}");
        }
    });
}

async fn host_account() -> Kube {
    let plane = ControlPlane::of_one_host().await;
    Kube::of(&plane.kubeconfig_of(SYSTEM, "hotshoe").await).await
}

fn deployment(namespace: &str) -> Value {
    let labels = json!({ "a": "b" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "mine", "namespace": namespace },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "a", "image": "a" }] } },
        },
    })
}

fn is_forbidden<T>(what: &str, result: Result<T, Refused>) {
    match result {
        Ok(_) => panic!("{what} is allowed"),
        Err(refused) => assert_eq!(refused.code, 403, "{what}: {}", refused.message),
    }
}

#[test]
fn the_hosts_own_account_cannot_write_workloads_or_read_secrets() {
    run(async {
        let scene = scene("host-account").await;
        let host = host_account().await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let namespace = scene.namespace.as_str();
        is_forbidden("a Deployment", host.create(&deployment(namespace)).await);
        let service =
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "mine", "namespace": namespace } });
        is_forbidden("a Service", host.create(&service).await);
        let nothing = json!({ "metadata": { "annotations": { "a": "b" } } });
        is_forbidden("a patch of a Deployment", host.merge(&DEPLOYMENT, namespace, "cache", &nothing).await);
        is_forbidden("a patch of a Service", host.merge(&SERVICE, namespace, "cache-service", &nothing).await);
        is_forbidden("a deletion", host.delete(&DEPLOYMENT, namespace, "cache").await);
        is_forbidden("a deletion of a parent", host.delete(&MEMCACHED, namespace, "cache").await);
        is_forbidden(
            "a creation of a parent",
            host.create(&{
                let mut object = memcached("other", 1);
                object["metadata"]["namespace"] = namespace.into();
                object
            })
            .await,
        );
        is_forbidden("Secrets", host.list(&SECRET, namespace).await);
    });
}

#[test]
fn the_hosts_account_impersonates_its_plugins_only() {
    run(async {
        let scene = scene("impersonation").await;
        let host = host_account().await;
        let path = DEPLOYMENT.path(&scene.namespace, None);
        let body = deployment(&scene.namespace);
        let as_user = async |headers: &[(&str, &str)]| {
            let mut all = vec![("Content-Type", "application/json")];
            all.extend(headers);
            host.request_with(http::Method::POST, &format!("{path}?dryRun=All"), &all, &body).await
        };
        let as_plugin = as_user(&[("Impersonate-User", PLUGIN_USER)]).await;
        assert!(as_plugin.is_ok(), "{as_plugin:?}");
        for user in [
            "admin",
            "plain",
            "system:admin",
            "system:serviceaccount:hotshoe-system:default",
            "system:serviceaccount:hotshoe-system:hotshoe",
            "system:serviceaccount:default:memcached",
            "system:serviceaccount:kube-system:memcached",
            "system:serviceaccount:kube-system:deployment-controller",
        ] {
            is_forbidden(user, as_user(&[("Impersonate-User", user)]).await);
        }
        let with_group = [("Impersonate-User", PLUGIN_USER), ("Impersonate-Group", "system:masters")];
        is_forbidden("a group", as_user(&with_group).await);
    });
}

#[test]
fn the_plugins_account_can_write_its_children_and_little_else() {
    run(async {
        let scene = scene("plugin-account").await;
        let plane = ControlPlane::of_one_host().await;
        let plugin = Kube::of(&plane.kubeconfig_of(SYSTEM, "memcached").await).await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let namespace = scene.namespace.as_str();
        is_forbidden("Secrets", plugin.list(&SECRET, namespace).await);
        let nothing = json!({ "spec": { "size": 2 } });
        is_forbidden("the spec of a parent", plugin.merge(&MEMCACHED, namespace, "cache", &nothing).await);
        is_forbidden("a deletion of a parent", plugin.delete(&MEMCACHED, namespace, "cache").await);
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "mine", "namespace": namespace } });
        is_forbidden("a Pod", plugin.create(&pod).await);
        let map =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mine", "namespace": namespace } });
        is_forbidden("a ConfigMap", plugin.create(&map).await);
    });
}

/// Creates an object by a dry run.
async fn try_to_create(account: &Kube, kind: &Kind, object: &Value) -> Result<Value, Refused> {
    let namespace = object["metadata"]["namespace"].as_str().expect("a namespace");
    let path = format!("{}?dryRun=All", kind.path(namespace, None));
    account.request(http::Method::POST, &path, "application/json", object).await
}

fn is_closed<T>(what: &str, result: Result<T, Refused>) {
    match result {
        Ok(_) => panic!("{what} is allowed"),
        Err(refused) => {
            assert!(refused.code == 403 && refused.message.contains(CLOSED), "{what}: {}", refused.message);
        }
    }
}

#[test]
fn the_plugins_account_may_write_in_every_namespace_but_the_hosts() {
    run(async {
        let scene = scene("closed-namespace").await;
        let plane = ControlPlane::of_one_host().await;
        plane.until_closed().await;
        let plugin = Kube::of(&plane.kubeconfig_of(SYSTEM, "memcached").await).await;
        let there = try_to_create(&plugin, &DEPLOYMENT, &deployment(&scene.namespace)).await;
        assert!(there.is_ok(), "{there:?}");

        let mut takes_over = deployment(SYSTEM);
        takes_over["spec"]["template"]["spec"]["serviceAccountName"] = "hotshoe".into();
        is_closed("a Deployment under the host's account", try_to_create(&plugin, &DEPLOYMENT, &takes_over).await);
        is_closed("the same by apply", plugin.apply("hotshoe", &takes_over).await);
        let name = scene.namespace.as_str();
        let metadata = json!({ "name": name, "namespace": SYSTEM });
        let theirs = json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": { "ports": [{ "port": 80 }] } });
        scene.admin.create(&theirs).await.expect("the administrator may");
        let selector = json!({ "spec": { "selector": { "app": "mine" } } });
        is_closed("a change", plugin.merge(&SERVICE, SYSTEM, name, &selector).await);
        is_closed("a deletion", plugin.delete(&SERVICE, SYSTEM, name).await);
        scene.admin.delete(&SERVICE, SYSTEM, name).await.expect("the administrator may");
    });
}

#[test]
fn the_namespace_of_the_host_is_closed_whatever_rights_a_plugins_account_has() {
    run(async {
        let plane = ControlPlane::of_one_host().await;
        plane.until_closed().await;
        let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
        plane.create_account("everywhere").await;
        plane.grant("everywhere", "tests-everywhere", &everything).await;
        let plugin = Kube::of(&plane.kubeconfig_of(SYSTEM, "everywhere").await).await;
        let may = async || plugin.list(&NAMESPACE, "").await.map_err(|refused| refused.message);
        hotshoe_tests::wait::until("the rights are there", hotshoe_tests::wait::TIMEOUT, may).await;
        let post = async |path: String, body: Value| {
            plugin.request(http::Method::POST, &format!("{path}?dryRun=All"), "application/json", &body).await
        };
        let token = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
        is_closed("a token", post(SERVICE_ACCOUNT.path(SYSTEM, Some("hotshoe/token")), token).await);
        let labels = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": null } } });
        is_closed("the namespace itself", plugin.merge(&NAMESPACE, "", SYSTEM, &labels).await);
        is_closed("its end", plugin.delete(&NAMESPACE, "", SYSTEM).await);
        // Cluster-scoped objects are not in the host's namespace.
        let other = json!({ "metadata": { "name": "open-to-all" } });
        let other = post(NAMESPACE.path("", None), other).await;
        assert!(other.is_ok(), "{other:?}");
    });
}

#[test]
fn the_hosts_own_account_is_not_shut_out_of_its_namespace() {
    run(async {
        let plane = ControlPlane::of_one_host().await;
        plane.until_closed().await;
        let metadata = json!({ "name": "reported", "namespace": SYSTEM });
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": { "namespace": SYSTEM },
        });
        let created = try_to_create(&host_account().await, &EVENT, &event).await;
        assert!(created.is_ok(), "{created:?}");
    });
}
