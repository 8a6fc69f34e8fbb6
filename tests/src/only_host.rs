//! A host for one plugin in all namespaces, with exactly the rights that it needs.

use std::process::Command;

use tempfile::TempDir;

use crate::control_plane::SYSTEM;
use crate::guests::Folder;
use crate::host::{Start, program};
use crate::kube::documents;
use crate::{ControlPlane, Host};

/// A host for one plugin in all namespaces, under an account of its own with exactly the rights that `hotshoe rbac`
/// prints.
pub struct OnlyHost {
    /// The process.
    pub host: Host,
    /// The folder of its plugin.
    pub folder: Folder,
    start: Start,
    _cache: Option<TempDir>,
}

impl OnlyHost {
    /// Starts it under this account, with a cache and a history of its own.
    pub async fn start(plane: &ControlPlane, folder: Folder, account: &str) -> Self {
        let cache = TempDir::new().expect("a folder");
        let start = prepared(plane, &folder, account).await.cache(cache.path());
        Self { host: start.ready().await, folder, start, _cache: Some(cache) }
    }

    /// Starts it as [`Self::start`] does, with the cache of all tests, where a large component is compiled already.
    pub async fn start_compiled(plane: &ControlPlane, folder: Folder, account: &str) -> Self {
        let start = prepared(plane, &folder, account).await;
        Self { host: start.ready().await, folder, start, _cache: None }
    }

    /// Ends the host, and starts it again after something has happened.
    pub async fn restart_after(&mut self, happens: impl AsyncFnOnce()) {
        self.host.stop();
        happens().await;
        self.host = self.start.ready().await;
    }
}

async fn prepared(plane: &ControlPlane, folder: &Folder, account: &str) -> Start {
    install_rights(plane, folder, account).await;
    let kubeconfig = plane.kubeconfig_of(SYSTEM, account).await;
    Start::new(plane).await.plugins(&[folder.path()]).kubeconfig(&kubeconfig)
}

/// Applies what `hotshoe rbac` prints, except for the policy that would close the host's namespace to other hosts.
async fn install_rights(plane: &ControlPlane, folder: &Folder, account: &str) {
    let mut command = Command::new(program());
    command.arg("rbac").arg(folder.path()).args(["--host-account", account]);
    command.arg("--kubeconfig").arg(plane.file("kubeconfig"));
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for manifest in documents(&String::from_utf8_lossy(&output.stdout)) {
        let kind = manifest["kind"].as_str().unwrap_or_default();
        if kind != "Namespace" && !kind.starts_with("Validating") {
            plane.admin.apply("tests", &manifest).await.expect("a right");
        }
    }
}
