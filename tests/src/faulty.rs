//! The faulty plugin, which fails in the way that its parent asks for, and namespaces in which it runs.

use crate::guests::{Folder, reworded};
use crate::kinds::FAULT;
use crate::scene::condition_parts;
use crate::{ControlPlane, Host, Scene, repository};
use hotshoe_core::model::digest::Digest;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Creates a namespace on the control plane on which each host watches its own namespace.
pub async fn scene(name: &str) -> Scene {
    Scene::new(ControlPlane::shared().await, name).await
}

/// Creates a namespace on that control plane, after the CRD, the account and the rights of the faulty plugin are
/// installed.
pub async fn scene_with_faults(name: &str) -> Scene {
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
    let definitions = json!({
        "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
        "resourceNames": [format!("{}.{}", FAULT.plural, FAULT.group)], "verbs": ["get"],
    });
    let of_host = json!([
        definitions,
        { "apiGroups": group, "resources": ["faults"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": group, "resources": ["faults/status"], "verbs": ["patch"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"] },
    ]);
    plane.grant("faulty", "tests-faulty", &of_plugin).await;
    plane.grant("hotshoe", "tests-faulty-host", &of_host).await;
    plane.allow_impersonation("faulty").await;
}

/// Installs the kind of the faulty plugin's parents in another group, too, by this CRD.
pub async fn install_faults_of(plane: &ControlPlane, group: &str, definition: &str) {
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
pub fn fault(name: &str, fault: &str) -> Value {
    json!({
        "apiVersion": FAULT.api_version(), "kind": FAULT.kind,
        "metadata": { "name": name }, "spec": { "fault": fault },
    })
}

/// Scales a parent as `kubectl scale` does.
///
/// # Errors
/// What `kubectl` says if it fails.
pub fn scale(scene: &Scene, name: &str, replicas: i64) -> Result<(), String> {
    let parent = format!("{}.{}/{name}", FAULT.plural, FAULT.group);
    let scaled = scene.kubectl(&["scale", &parent, &format!("--replicas={replicas}")]);
    let words = String::from_utf8_lossy(&scaled.stderr).into_owned();
    scaled.status.success().then_some(()).ok_or(words)
}

/// Scales a parent from the first to the second number until that is refused with these words, which may take some: a
/// webhook is in force a moment after its registration, and a decision that takes long admits.
pub async fn until_scale_is_refused(scene: &Scene, name: &str, [from, to]: [i64; 2], words: &str) {
    scene
        .until("a scale is refused", async || match scale(scene, name, to) {
            Err(said) if said.contains(words) => Ok(()),
            other => Err(format!("{other:?}, and back: {:?}", scale(scene, name, from))),
        })
        .await;
}

/// Starts a host with the plugin in this folder.
pub async fn start(scene: &mut Scene, folder: &Folder) -> Host {
    let host = scene.start().await.plugins(&[folder.path()]).ready().await;
    scene.watch_log(&host);
    host
}

/// Creates a parent without a fault, and waits until it is served.
pub async fn serves(scene: &Scene, name: &str) {
    scene.create(fault(name, "")).await;
    scene.until_object(&FAULT, name, "is served", |object| condition_parts(object, "Kept").0 == "True").await;
}

/// The text that marks the revision of the plugin that works.
pub const WORKS: &str = "this revision works";

/// Returns the text that marks the revision of this number. The plugin ignores such a text, so all these revisions
/// decide the same.
pub fn words(number: usize) -> String {
    format!("this revision w{number:04}")
}

/// Makes a component with the same logic, another text and so another digest.
pub fn another(folder: &Folder, number: usize) -> Vec<u8> {
    reworded(folder.original(), WORKS, &words(number))
}

/// Waits until a host has activated a component.
pub async fn until_digest(host: &Host, component: &[u8]) {
    let digest = Digest::of(component).full();
    host.until_plugin("the component decides", |plugin| plugin["digest"] == *digest).await;
}

/// The rule of a grant for a second kind.
pub const HOLDING: &str = "    - kind: LimitRange\n      verbs: [get, list, watch, create, update, delete]\n";

/// Grants a second kind to the plugin.
pub async fn grant_second_kind(scene: &Scene, folder: &Folder) {
    let of_host = json!([{ "apiGroups": [""], "resources": ["limitranges"], "verbs": ["get", "list", "watch"] }]);
    let of_plugin =
        json!([{ "apiGroups": [""], "resources": ["limitranges"], "verbs": ["create", "patch", "delete"] }]);
    scene.plane.grant("hotshoe", "tests-limit-ranges-host", &of_host).await;
    scene.plane.grant("faulty", "tests-limit-ranges", &of_plugin).await;
    folder.edit("  grants:\n", &format!("  grants:\n{HOLDING}"));
}

/// A secret value in base64, and in plain text.
pub const SECRET: [&str; 2] = ["aHVudGVyMjc=", "hunter27"];

/// Checks that a text has the Secret neither as it is nor in the code of the revision that peeks.
pub fn hides_secret(text: &str) {
    let code: String = SECRET[0].chars().rev().filter(char::is_ascii_alphanumeric).collect();
    let words = [&code, &code.to_lowercase(), SECRET[0], SECRET[1]].map(|word| text.contains(word));
    assert_eq!(words, [false; 4], "{text}");
}
