//! The host's own account, tried directly: it writes no workload, and impersonates its plugins only.

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::kinds::{
    CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, CRD, DEPLOYMENT, Kind, LEASE, MEMCACHED, NAMESPACE,
    PERSISTENT_VOLUME, POD, REPLICA_SET, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT,
};
use hotshoe_tests::{Kube, Refused, Scene, run};
use http::Method;
use serde_json::{Value, json};

use super::{ADMIN, HOSTILE, plane, user};

/// The kinds that create a workload, expose one, or raise rights.
const KINDS: [Kind; 14] = [
    DEPLOYMENT,
    REPLICA_SET,
    POD,
    SERVICE,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    NAMESPACE,
    PERSISTENT_VOLUME,
    CRD,
];

/// Subresources by which an object could be changed or used.
const SUBRESOURCES: [(Kind, &str, Method); 9] = [
    (POD, "exec", Method::POST),
    (POD, "attach", Method::POST),
    (POD, "portforward", Method::POST),
    (POD, "ephemeralcontainers", Method::PATCH),
    (POD, "eviction", Method::POST),
    (POD, "binding", Method::POST),
    (DEPLOYMENT, "scale", Method::PATCH),
    (DEPLOYMENT, "status", Method::PATCH),
    (SERVICE_ACCOUNT, "token", Method::POST),
];

async fn host_account() -> Kube {
    Kube::of(&plane().await.kubeconfig_of(SYSTEM, "hotshoe").await).await
}

fn is_forbidden(what: &str, result: Result<Value, Refused>) {
    match result {
        Ok(_) => panic!("{what} is allowed"),
        Err(refused) => assert_eq!(refused.code, 403, "{what}: {}", refused.message),
    }
}

fn content_type(method: &Method) -> &'static str {
    match *method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    }
}

async fn try_it(account: &Kube, method: Method, path: &str, headers: &[(&str, &str)]) -> Result<Value, Refused> {
    let mut all = vec![("Content-Type", content_type(&method))];
    all.extend(headers);
    let query = if path.contains('?') { "&" } else { "?" };
    account.request_with(method, &format!("{path}{query}dryRun=All"), &all, &json!({})).await
}

#[test]
fn the_hosts_own_account_is_refused_every_write_of_a_workload() {
    run(async {
        let scene = Scene::new(plane().await, "every-write").await;
        let host = host_account().await;
        for kind in KINDS {
            let (all, one) = (kind.path(&scene.namespace, None), kind.path(&scene.namespace, Some("any")));
            for (method, path) in [
                (Method::POST, &all),
                (Method::PUT, &one),
                (Method::PATCH, &one),
                (Method::DELETE, &one),
                (Method::DELETE, &all),
            ] {
                let what = format!("{method} {path}");
                is_forbidden(&what, try_it(&host, method, path, &[]).await);
            }
        }
        for (kind, subresource, method) in SUBRESOURCES {
            let path = kind.path(&scene.namespace, Some(&format!("any/{subresource}")));
            let what = format!("{method} {path}");
            is_forbidden(&what, try_it(&host, method, &path, &[]).await);
        }
        // It may set the finalizer and a condition of a parent, but neither create nor delete one.
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let name = (method != Method::POST).then_some("any");
            let path = MEMCACHED.path(&scene.namespace, name);
            is_forbidden(&format!("{method} {path}"), try_it(&host, method, &path, &[]).await);
        }
        let lease = LEASE.path("kube-system", Some("kube-controller-manager"));
        is_forbidden(&lease, try_it(&host, Method::PATCH, &lease, &[]).await);
    });
}

#[test]
fn the_hosts_account_can_impersonate_its_plugins_only() {
    run(async {
        let scene = Scene::new(plane().await, "every-face").await;
        plane().await.bind(HOSTILE, "tests-hostile", &scene.namespace).await;
        let host = host_account().await;
        let path = CONFIG_MAP.path(&scene.namespace, None);
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mine" } });
        let create = async |headers: &[(&str, &str)]| {
            let mut all = vec![("Content-Type", "application/json")];
            all.extend(headers);
            host.request_with(Method::POST, &format!("{path}?dryRun=All"), &all, &body).await
        };
        for plugin in [HOSTILE, ADMIN] {
            let answer = create(&[("Impersonate-User", &user(plugin))]).await;
            assert!(answer.is_ok(), "{plugin}: {answer:?}");
        }
        let plugin = user(HOSTILE);
        let as_plugin = ("Impersonate-User", plugin.as_str());
        for more in [
            ("Impersonate-Group", "system:masters"),
            ("Impersonate-Group", "system:serviceaccounts"),
            ("Impersonate-Uid", "00000000-0000-0000-0000-000000000000"),
            ("Impersonate-Extra-scopes", "everything"),
        ] {
            is_forbidden(&format!("{more:?}"), create(&[as_plugin, more]).await);
        }
        for other in [
            "admin",
            "kubernetes-admin",
            "system:admin",
            "system:anonymous",
            "system:kube-controller-manager",
            "system:kube-scheduler",
            "system:node:control-plane",
            "system:serviceaccount:hotshoe-system:default",
            "system:serviceaccount:hotshoe-system:hotshoe",
            "system:serviceaccount:hotshoe-system:no-plugin-yet",
            "system:serviceaccount:default:hostile",
            "system:serviceaccount:kube-system:hostile",
            "system:serviceaccount:kube-system:generic-garbage-collector",
            "SYSTEM:serviceaccount:hotshoe-system:hostile",
        ] {
            is_forbidden(other, create(&[("Impersonate-User", other)]).await);
        }
    });
}
