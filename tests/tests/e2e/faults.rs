//! The faulty plugin, which fails in the way that its parent asks for, and namespaces in which it runs.

use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Host, Scene, repository};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Creates a namespace on the control plane on which each host watches its own namespace.
pub(crate) async fn scene(name: &str) -> Scene {
    Scene::new(ControlPlane::shared().await, name).await
}

/// Creates a namespace on that control plane, after the CRD, the account and the rights of the faulty plugin are
/// installed.
pub(crate) async fn scene_with_faults(name: &str) -> Scene {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await;
    READY.get_or_init(|| install_faulty(plane)).await;
    Scene::new(plane, name).await
}

async fn install_faulty(plane: &ControlPlane) {
    plane.install_definition(&repository("tests/fixtures/faulty/crd.yaml")).await;
    plane.create_account("faulty").await;
    let group = json!(["fixtures.example.com"]);
    let of_plugin = json!([
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete"] },
        { "apiGroups": group, "resources": ["faults/status"], "verbs": ["patch"] },
        { "apiGroups": group, "resources": ["faults/finalizers"], "verbs": ["update"] },
    ]);
    let of_host = json!([
        { "apiGroups": group, "resources": ["faults"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": group, "resources": ["faults/status"], "verbs": ["patch"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"] },
    ]);
    plane.grant("faulty", "tests-faulty", &of_plugin).await;
    plane.grant("hotshoe", "tests-faulty-host", &of_host).await;
    plane.allow_impersonation("faulty").await;
}

/// Installs the kind of the faulty plugin's parents in another group, too, by this CRD.
pub(crate) async fn install_faults_of(plane: &ControlPlane, group: &str, definition: &str) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("crd.yaml");
    std::fs::write(&file, definition.replace(FAULT.group, group)).expect("a CRD is written");
    plane.install_definition(&file).await;
    let (role, groups) = (format!("tests-{group}"), json!([group]));
    let of_plugin = json!([
        { "apiGroups": groups, "resources": ["faults/status"], "verbs": ["patch"] },
        { "apiGroups": groups, "resources": ["faults/finalizers"], "verbs": ["update"] },
    ]);
    let of_host = json!([
        { "apiGroups": groups, "resources": ["faults"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": groups, "resources": ["faults/status"], "verbs": ["patch"] },
    ]);
    plane.grant("faulty", &role, &of_plugin).await;
    plane.grant("hotshoe", &format!("{role}-host"), &of_host).await;
}

/// A parent of the faulty plugin, with the fault that it asks for; empty for none.
pub(crate) fn fault(name: &str, fault: &str) -> Value {
    json!({
        "apiVersion": FAULT.api_version(), "kind": FAULT.kind,
        "metadata": { "name": name }, "spec": { "fault": fault },
    })
}

/// Starts a host with the plugin in this folder.
pub(crate) async fn start(scene: &mut Scene, folder: &Folder) -> Host {
    let host = scene.start().await.plugins(&[folder.path()]).ready().await;
    scene.watch_log(&host);
    host
}

/// Creates a parent without a fault, and waits until it is served.
pub(crate) async fn serves(scene: &Scene, name: &str) {
    scene.create(fault(name, "")).await;
    scene.until_object(&FAULT, name, "is served", |object| condition_parts(object, "Kept").0 == "True").await;
}
