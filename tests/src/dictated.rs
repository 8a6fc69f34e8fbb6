//! A plugin that desires the children in its parent's spec, for tests about what becomes of children.

use crate::guests::Folder;
use crate::kinds::{ATTACK, CONFIG_MAP, DEPLOYMENT, Kind, REPLICA_SET, STATEFUL_SET};
use crate::{ControlPlane, Host, Scene, repository};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The name of the plugin.
pub const PLUGIN: &str = "lists";

/// Starts a host with the plugin, which may own this kind, too.
pub async fn host(name: &str, kind: &Kind) -> (Scene, Folder, Host) {
    let items = if kind.kind == "Secret" { "names: [one]" } else { "" };
    host_granting(name, kind, items).await
}

/// Starts a host with the plugin, which may own this kind, too; its rule has this item.
pub async fn host_granting(name: &str, kind: &Kind, item: &str) -> (Scene, Folder, Host) {
    let (mut scene, folder) = (scene(name).await, folder(kind));
    if !item.is_empty() {
        let line = format!("kind: {}\n", kind.kind);
        folder.edit(&line, &format!("{line}      {item}\n"));
    }
    let host = scene.start().await.plugins(&[folder.path()]).ready().await;
    scene.watch_log(&host);
    (scene, folder, host)
}

/// Creates a namespace, after the kinds, the accounts and the rights of the plugin are installed.
pub async fn scene(name: &str) -> Scene {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await;
    READY.get_or_init(|| install(plane)).await;
    Scene::new(plane, name).await
}

/// Returns the plugin, which may own this kind, too.
pub fn folder(kind: &Kind) -> Folder {
    let owned = [CONFIG_MAP, DEPLOYMENT, REPLICA_SET, STATEFUL_SET].map(|owned| owned.kind);
    let folder = if owned.contains(&kind.kind) { Folder::of_hostile() } else { Folder::of_hostile_owning(kind) };
    folder.edit("name: hostile\n", &format!("name: {PLUGIN}\n"));
    folder
}

/// Installs the kinds, the accounts and their rights.
async fn install(plane: &ControlPlane) {
    for fixture in ["hostile", "lists", "faulty", "choices"] {
        plane.install_definition(&repository(&format!("tests/fixtures/{fixture}/crd.yaml"))).await;
    }
    plane.create_account(PLUGIN).await;
    plane.allow_impersonation(PLUGIN).await;
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    plane.grant(PLUGIN, "tests-lists", &everything).await;
    let all = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let watch = ["get", "list", "watch"];
    let of_host = json!([
        all("fixtures.example.com", &["attacks"], &["get", "list", "watch", "patch"]),
        all("fixtures.example.com", &["attacks/status"], &["patch"]),
        all("fixtures.example.com", &["doors", "faults", "choices"], &watch),
        all("networking.k8s.io", &["networkpolicies"], &watch),
        all("", &["configmaps", "persistentvolumeclaims", "pods", "secrets"], &watch),
        all("apps", &["daemonsets", "replicasets", "statefulsets"], &watch),
    ]);
    plane.grant("hotshoe", "tests-lists-host", &of_host).await;
}

/// Returns a child as the parent's spec describes it.
pub fn child(kind: &Kind, name: &str, body: &Value) -> Value {
    json!({ "group": kind.group, "version": kind.version, "kind": kind.kind, "name": name, "body": body.to_string() })
}

/// Returns a patch of a parent's spec that has it desire these children.
pub fn dictating(children: &[Value]) -> Value {
    json!({ "spec": { "attack": "dictated", "children": children } })
}

/// Returns a parent with what such a patch has.
pub fn parent(name: &str, mut patch: Value) -> Value {
    patch["apiVersion"] = ATTACK.api_version().into();
    patch["kind"] = ATTACK.kind.into();
    patch["metadata"] = json!({ "name": name });
    patch
}

/// Creates the parent `one` with these children in its spec.
pub async fn create(scene: &Scene, children: &[Value]) {
    scene.create(parent("one", dictating(children))).await;
}

/// Lets the plugin decide again with one more child, and counts the writes of each kind in that reconcile.
pub async fn written_with_another(scene: &Scene, children: &[Value], resources: [&str; 2]) -> [usize; 2] {
    let before = scene.recorded_writes().await;
    let another = child(&CONFIG_MAP, "another", &json!({ "data": { "a": "b" } }));
    let all: Vec<Value> = children.iter().cloned().chain([another]).collect();
    scene.merge(&ATTACK, "one", dictating(&all)).await;
    scene.until_object(&CONFIG_MAP, "another", "is there", |_| true).await;
    // Once more without that child: once it is deleted, all earlier writes have been made.
    scene.merge(&ATTACK, "one", dictating(children)).await;
    scene.gone(&CONFIG_MAP, "another").await;
    let writes = scene.recorded_writes().await;
    resources.map(|resource| writes.iter().skip(before.len()).filter(|write| write.is_about(resource)).count())
}

/// Changes the children of the parent `one`.
pub async fn change(scene: &Scene, children: &[Value]) {
    scene.merge(&ATTACK, "one", dictating(children)).await;
}

/// The spec of a workload with one container that the gate admits.
pub fn workload(kind: &Kind) -> Value {
    let labels = json!({ "app": "one" });
    let container = json!({ "name": "main", "image": "registry.example.com/main:1", "securityContext": { "allowPrivilegeEscalation": false } });
    let pod = json!({ "automountServiceAccountToken": false, "containers": [container] });
    let template = json!({ "metadata": { "labels": labels }, "spec": pod });
    let mut spec = json!({ "selector": { "matchLabels": labels }, "template": template });
    if kind.kind == "StatefulSet" {
        spec["serviceName"] = "one".into();
    }
    spec
}
