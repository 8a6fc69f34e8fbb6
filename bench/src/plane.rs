//! A control plane for one cell: new but warmed up, with the CRD and the accounts. Only etcd and the API server
//! run, whose speed is the limit of every subject.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use crate::client::Client;
use crate::process::processor_time;
use crate::{repository, warm};

const BIN: &str = "target/control-plane/bin";
const CRD: &str = "crds/cache.example.com_memcacheds.yaml";
const CONTROLLERS: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "kwok"];

/// The manifests that the subjects need.
#[derive(Clone, Debug)]
pub struct Manifests {
    /// The host's accounts and rights.
    pub host: PathBuf,
}

/// A control plane; it ends with this value, and with this process.
pub struct Plane {
    dir: TempDir,
    up: Up,
    /// The administrator, who may see everything and is never throttled.
    pub admin: Client,
    /// An ordinary user, who creates the CRs.
    pub user: Client,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Up {
    server: String,
    kubeconfig: PathBuf,
    plain_kubeconfig: PathBuf,
    ca: PathBuf,
    audit_log: PathBuf,
}

impl Plane {
    /// Starts one.
    ///
    /// # Errors
    /// When it is not built, or does not start.
    pub async fn up(manifests: &Manifests) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("hotshoe-bench-").tempdir()?;
        let owner = std::process::id().to_string();
        let answer = control_plane(&["up", "--owner-pid", &owner, "-o", "json"], dir.path()).await?;
        let up: Up = serde_json::from_str(&answer).context("what `control-plane up` says")?;
        let (admin, user) = (Client::of(&up.kubeconfig).await?, Client::of(&up.plain_kubeconfig).await?);
        let plane = Self { dir, up, admin, user };
        plane.install(manifests).await?;
        for component in CONTROLLERS {
            plane.stop(component).await?;
        }
        warm::up(&plane.admin).await?;
        Ok(plane)
    }

    async fn install(&self, manifests: &Manifests) -> Result<()> {
        let (crd, own) = (repository(CRD), repository("bench/accounts.yaml"));
        for manifest in [&crd, &own, &manifests.host] {
            self.kubectl(&["apply", "--server-side", "-f", &manifest.to_string_lossy()]).await?;
        }
        self.kubectl(&["wait", "--for=condition=Established", "-f", &crd.to_string_lossy()]).await.map(drop)
    }

    /// Applies a manifest, and waits for the CRDs in it.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn apply(&self, manifest: &Path) -> Result<()> {
        let manifest = manifest.to_string_lossy();
        self.kubectl(&["apply", "--server-side", "-f", &manifest]).await?;
        if manifest.ends_with("crd.yaml") {
            self.kubectl(&["wait", "--for=condition=Established", "-f", &manifest]).await?;
        }
        Ok(())
    }

    /// A kubeconfig of a ServiceAccount.
    ///
    /// # Errors
    /// When there is no such account.
    pub async fn account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.kubectl(&["create", "token", name, "--namespace", namespace, "--duration", "4h"]).await?;
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{ "name": name, "cluster": { "server": self.up.server, "certificate-authority": self.up.ca } }],
            "users": [{ "name": name, "user": { "token": token.trim() } }],
            "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
        });
        let path = self.file(&format!("{name}.kubeconfig"));
        fs::write(&path, kubeconfig.to_string())?;
        Ok(path)
    }

    /// The kubeconfig of its administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.up.kubeconfig
    }

    /// Where the API server records requests.
    pub fn audit_log(&self) -> &Path {
        &self.up.audit_log
    }

    /// Returns the processor time of all its processes, in seconds: of those with its folder in their arguments.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn cpu(&self) -> Result<f64> {
        let dir = self.dir.path().to_string_lossy().into_owned();
        let mut sum = 0.0;
        for process in fs::read_dir("/proc")? {
            let process = process?.path();
            // Some entries are no processes, and some processes end meanwhile.
            let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&arguments).contains(&dir) {
                let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
                sum += processor_time(&stat).unwrap_or_default();
            }
        }
        Ok(sum)
    }

    /// Returns the path of a file that is removed with the control plane.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Stops a component.
    ///
    /// # Errors
    /// When it cannot be stopped.
    pub async fn stop(&self, component: &str) -> Result<()> {
        control_plane(&["stop", component], self.dir.path()).await.map(drop)
    }

    /// Starts a component again.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(&self, component: &str) -> Result<()> {
        control_plane(&["start", component], self.dir.path()).await.map(drop)
    }

    /// Stops the control plane and waits for its end, so that the next one has the machine for itself.
    ///
    /// # Errors
    /// When something is left behind.
    pub async fn down(self) -> Result<()> {
        control_plane(&["down"], self.dir.path()).await.map(drop)
    }

    async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut kubectl = Command::new(repository(BIN).join("kubectl"));
        kubectl.arg("--kubeconfig").arg(&self.up.kubeconfig).args(args);
        output(kubectl).await
    }
}

async fn control_plane(args: &[&str], dir: &Path) -> Result<String> {
    let program = repository(BIN).join("control-plane");
    ensure!(program.exists(), "{} is missing; build it with tests/control-plane/build.sh", program.display());
    let mut command = Command::new(program);
    command.args(args).arg("--dir").arg(dir);
    output(command).await
}

async fn output(mut command: Command) -> Result<String> {
    let what = format!("{:?}", command.as_std());
    let output = command.stdin(Stdio::null()).output().await.with_context(|| what.clone())?;
    ensure!(output.status.success(), "{what} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
