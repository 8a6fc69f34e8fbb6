//! A plugin that attacks, beside a healthy one in one host. For every row of the table of attacks
//! (`hotshoe_tests::attacks`), tests check the reported reason, that nothing is written, and that the host,
//! the plugin and the other plugin work afterwards.

mod calls;
mod clean_up;
mod forged;
mod hoarder;
mod identity;
mod loads;
mod namespaces;
mod needed;
mod opened;
mod over_time;
mod reads;
mod result;
mod rig;
mod selected;
mod several;
mod size;

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::{ControlPlane, repository};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The name of the plugin whose account has just the rights that it was granted.
const HOSTILE: &str = "hostile";
/// The name of the same plugin with an account that may do everything, so that RBAC does not stop it.
const ADMIN: &str = "hostile-admin";

/// Returns the control plane with the kind, the accounts and the rights of the plugin that attacks.
async fn plane() -> &'static ControlPlane {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await;
    READY.get_or_init(|| install(plane)).await;
    plane
}

async fn install(plane: &ControlPlane) {
    for fixture in ["hostile", "lists"] {
        plane.install_definition(&repository(&format!("tests/fixtures/{fixture}/crd.yaml"))).await;
    }
    for account in [HOSTILE, ADMIN] {
        plane.create_account(account).await;
        plane.allow_impersonation(account).await;
    }
    plane.create_role("tests-hostile", &rights_of_plugin()).await;
    plane
        .grant(ADMIN, "tests-hostile-admin", &json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]))
        .await;
    plane.grant("hotshoe", "tests-hostile-host", &rights_of_host()).await;
}

/// The RBAC rules of the plugin's grant, which are bound in one namespace only.
fn rights_of_plugin() -> Value {
    let group = json!(["fixtures.example.com"]);
    let core = json!(["configmaps", "persistentvolumeclaims", "pods", "services"]);
    let apps = json!(["deployments", "replicasets", "statefulsets"]);
    json!([
        { "apiGroups": [""], "resources": core, "verbs": ["create", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] },
        { "apiGroups": ["apps"], "resources": apps, "verbs": ["create", "patch", "delete"] },
        { "apiGroups": group, "resources": ["attacks/status"], "verbs": ["patch"] },
        { "apiGroups": group, "resources": ["attacks/finalizers"], "verbs": ["update"] },
    ])
}

fn rights_of_host() -> Value {
    let group = json!(["fixtures.example.com"]);
    let watched = json!(["configmaps", "persistentvolumeclaims", "pods", "secrets", "services"]);
    json!([
        { "apiGroups": group, "resources": ["attacks"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": group, "resources": ["attacks/status"], "verbs": ["patch"] },
        { "apiGroups": group, "resources": ["doors"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [""], "resources": watched, "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["apps"], "resources": ["replicasets", "statefulsets"], "verbs": ["get", "list", "watch"] },
    ])
}

/// Returns the user name of a plugin's account.
fn user(plugin: &str) -> String {
    format!("system:serviceaccount:{SYSTEM}:{plugin}")
}
