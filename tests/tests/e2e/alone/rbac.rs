//! The gate compared with the real API server: the same requests, checked by both, under the rights that
//! `hotshoe rbac` prints. The API server must allow whatever the gate allows, or the plugin could not
//! work; and only where RBAC cannot express a rule may it allow more.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use hotshoe_core::check::access_request::{Access, Request};
use hotshoe_core::check::grant::Grant;
use hotshoe_core::model::kind::{Kind as HostKind, ObjectRef};
use hotshoe_operator::config::{HostSettings, PluginConfig};
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{CONFIG_MAP, DEPLOYMENT, Kind, NAMESPACE, ROLE, SECRET, SERVICE};
use hotshoe_tests::{ControlPlane, Kube, Refused, host, wait};
use http::Method;
use serde_json::{Value, json};

use super::run_alone;

const NAMESPACES: [&str; 4] = ["alpha", "beta", "gamma", SYSTEM];
const NAMES: [&str; 3] = ["settings", "password", "other"];
const KINDS: [Kind; 6] = [CONFIG_MAP, SECRET, SERVICE, DEPLOYMENT, NAMESPACE, ROLE];
const ACCESSES: [&str; 3] = ["read", "apply", "delete"];

/// The grants that the component asks for, and some of every other sort.
const GRANTS: &str = r#"
  grants:
    - {group: apps, kind: Deployment, verbs: [get, list, watch, create, update, delete]}
    - {kind: Service, verbs: [get, list, watch, create, update]}
    - {kind: Pod, verbs: [get, list, watch]}
    - {kind: ConfigMap, verbs: [get, create, update, delete], namespaces: [alpha, beta], names: [settings]}
    - {kind: ConfigMap, verbs: [get], namespaces: [gamma]}
    - {kind: Secret, verbs: [get], names: [password]}
    - {kind: Secret, verbs: [create, update], namespaces: [alpha]}
    - {kind: Namespace, verbs: [get, delete], namespaces: cluster, pruneData: true}
    - {group: rbac.authorization.k8s.io, kind: Role, verbs: [get, create, update, delete], namespaces: cluster}
"#;

/// One request: kind, namespace (empty for none), name, and what is to be done.
type Sample = (&'static str, &'static str, &'static str, &'static str);

fn samples() -> impl Iterator<Item = (Kind, Sample)> {
    KINDS.into_iter().flat_map(|kind| {
        let namespaces = if kind.is_namespaced() { NAMESPACES.to_vec() } else { vec![""] };
        namespaces.into_iter().flat_map(move |namespace| {
            NAMES.into_iter().flat_map(move |name| ACCESSES.map(|access| (kind, (kind.kind, namespace, name, access))))
        })
    })
}

fn body(kind: &Kind, namespace: &str, name: &str) -> Value {
    let mut body = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name },
    });
    if !namespace.is_empty() {
        body["metadata"]["namespace"] = namespace.into();
    }
    match kind.kind {
        "Service" => body["spec"] = json!({ "ports": [{ "port": 80 }] }),
        "Deployment" => {
            let labels = json!({ "of": "parent" });
            let container =
                json!({ "name": "c", "image": "i", "securityContext": { "allowPrivilegeEscalation": false } });
            let spec = json!({ "automountServiceAccountToken": false, "containers": [container] });
            body["spec"] = json!({
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": spec },
            });
        }
        _ => {}
    }
    body
}

/// Whether the gate allows a request for a parent in this namespace.
fn gate_allows(grant: &Grant, parent: &str, kind: &Kind, (_, namespace, name, access): Sample) -> bool {
    let parent = ObjectRef {
        kind: HostKind::new("cache.example.com", "v1", "Memcached"),
        namespace: Some(parent.into()),
        name: "parent".into(),
    };
    let object = ObjectRef {
        kind: HostKind::new(kind.group, kind.version, kind.kind),
        namespace: (!namespace.is_empty()).then(|| namespace.into()),
        name: name.into(),
    };
    let body = body(kind, namespace, name);
    let access = match access {
        "read" => Access::Read,
        "apply" => Access::Apply(&body),
        _ => Access::Delete,
    };
    let request = Request { parent: &parent, object: &object, namespaced: kind.is_namespaced(), access };
    grant.authorise(&request, &|_, _| None).is_ok()
}

/// Whether the API server would allow the plugin a request: a dry run by the host, which impersonates the plugin.
async fn server_allows(client: &Kube, plugin: &str, kind: &Kind, (_, namespace, name, access): Sample) -> bool {
    let path = kind.path(namespace, Some(name));
    let user = format!("system:serviceaccount:{SYSTEM}:{plugin}");
    let with = async |method: Method, path: String, content: &str, body: Value| {
        let headers = [("Impersonate-User", user.as_str()), ("Content-Type", content)];
        client.request_with(method, &path, &headers, &body).await
    };
    let json = "application/json";
    let answer = match access {
        "read" => with(Method::GET, path, json, Value::Null).await,
        "apply" => {
            let path = format!("{path}?fieldManager=hotshoe%2F{plugin}&force=true&dryRun=All");
            with(Method::PATCH, path, "application/apply-patch+yaml", body(kind, namespace, name)).await
        }
        _ => with(Method::DELETE, format!("{path}?dryRun=All"), json, Value::Null).await,
    };
    match answer {
        Ok(_) => true,
        // The request was allowed, but there is no object to read or to delete.
        Err(Refused { code: 404, .. }) => true,
        Err(Refused { code: 403, message, .. }) => {
            assert!(!message.contains("impersonate"), "the host may not be the plugin: {message}");
            false
        }
        Err(refused) => panic!("{access} {path}: {refused:?}", path = kind.path(namespace, Some(name))),
    }
}

/// A plugin of this name with the grants of this file.
fn plugin(name: &str) -> (Folder, Grant) {
    let folder = Folder::of_memcached();
    let text = format!(
        "apiVersion: hotshoe.dev/v1alpha1\nkind: Plugin\nmetadata: {{name: {name}}}\nspec:\n  source: {{file: memcached.wasm}}\n  parent: {{group: cache.example.com, kind: Memcached}}\n  finalizers: [{{name: cache.example.com/finalizer}}]{GRANTS}"
    );
    std::fs::write(folder.path().join("plugin.yaml"), text).expect("plugin.yaml is written");
    let host = HostSettings { namespace: SYSTEM.into(), ..HostSettings::default() };
    let grant = PluginConfig::read(folder.path(), &host).expect("plugin.yaml is valid").grant;
    (folder, grant)
}

/// Returns what `hotshoe rbac` prints when it discovers the kinds from the API server.
async fn rights(plane: &ControlPlane, folder: &Path, options: &[&str]) -> String {
    let kubeconfig = plane.kubeconfig_of(SYSTEM, "hotshoe").await;
    let output = Command::new(host::program())
        .args(["rbac", "--kubeconfig"])
        .arg(kubeconfig)
        .args(options)
        .arg(folder)
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("by rule"), "a cluster was there to ask: {said}");
    assert!(said.contains("Role.rbac.authorization.k8s.io: this kind is denied to plugins"), "{said}");
    String::from_utf8(output.stdout).expect("text")
}

/// Checks every sample with the gate and the API server. Returns those that the API server allows and the gate
/// does not allow for any parent.
async fn compare(name: &str, parents: &[&str], options: &[&str]) -> BTreeSet<Sample> {
    let plane = ControlPlane::alone().await;
    for namespace in NAMESPACES.into_iter().filter(|namespace| *namespace != SYSTEM) {
        if plane.admin.get(&NAMESPACE, "", namespace).await.is_err() {
            plane.create_namespace(namespace).await;
        }
    }
    let (folder, grant) = plugin(name);
    plane.admin.apply_manifest(&rights(plane, folder.path(), options).await).await;
    let client = Kube::of(&plane.kubeconfig_of(SYSTEM, "hotshoe").await).await;
    plane.until_closed().await;
    // New rights take a moment to be in force.
    let first = (DEPLOYMENT.kind, "alpha", "other", "read");
    wait::until("the rights are there", wait::TIMEOUT, async || {
        let path = DEPLOYMENT.path("alpha", Some("other"));
        let user = format!("system:serviceaccount:{SYSTEM}:{name}");
        match client.request_with(Method::GET, &path, &[("Impersonate-User", &user)], &Value::Null).await {
            Err(refused) if refused.code == 403 => Err(refused.message),
            _ => Ok(()),
        }
    })
    .await;
    assert!(server_allows(&client, name, &DEPLOYMENT, first).await);
    let (mut beyond, mut both, mut neither) = (BTreeSet::new(), 0, 0);
    for (kind, sample) in samples() {
        let server = server_allows(&client, name, &kind, sample).await;
        let gate = parents.iter().any(|parent| gate_allows(&grant, parent, &kind, sample));
        assert!(server || !gate, "the gate allows {sample:?}, and the API server does not");
        match (server, gate) {
            (true, true) => both += 1,
            (true, false) => drop(beyond.insert(sample)),
            (false, _) => neither += 1,
        }
    }
    assert!(both >= 20 && neither >= 60, "both allow {both}, neither {neither}: the sample says too little");
    beyond
}

#[test]
fn gate_and_api_server_agree_except_where_rbac_cannot_express_the_rule() {
    run_alone(async {
        let beyond = compare("gated", &["alpha", "beta", "gamma"], &[]).await;
        // A grant in the parent's own namespace becomes a ClusterRole, which cannot have an exception for
        // the host's namespace. A policy refuses writes there; admission does not see reads, nor deletions
        // of objects that do not exist.
        let but_the_hosts: Vec<_> = beyond.iter().filter(|(_, namespace, ..)| *namespace != SYSTEM).collect();
        assert_eq!(but_the_hosts, [&("", "", "", ""); 0]);
        let written: Vec<_> = beyond.iter().filter(|(.., access)| *access == "apply").collect();
        assert_eq!(written, [&("", "", "", ""); 0]);
        assert!(!beyond.is_empty());

        // For a host that watches one namespace, there is a Role in each namespace that is granted, and nothing more.
        let beyond = compare("gated-alpha", &["alpha"], &["--watch-namespace", "alpha"]).await;
        assert_eq!(beyond, BTreeSet::new());
    });
}
