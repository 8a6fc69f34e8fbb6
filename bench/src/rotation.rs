//! A host that keeps the CA of its webhooks itself, and has to replace it soon.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hotshoe_tests::authority::{self, SECRET_TYPE};
use http::Method;
use serde_json::Value;
use tokio::time::Instant;

use crate::admission::Asked;
use crate::client::JSON;
use crate::native_webhook::until;
use crate::plane::Plane;
use crate::process::Process;
use crate::subject::{Programs, Subject, command_of_host, start};

/// How often the registration is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How much longer than the CA its replacement may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Such a host, whose registration has the CA and its successor.
pub(crate) struct Rotation {
    host: Process,
    /// How long the CA has left.
    left: Duration,
}

impl Rotation {
    /// Starts the host with a CA that has so much time left, and waits until the API server trusts the next one, too.
    ///
    /// # Errors
    /// When the host does not start, or does not register itself.
    pub(crate) async fn begin(plane: &Plane, programs: &Programs, plugin: &Path, left: Duration) -> Result<Self> {
        grant(plane, programs, plugin).await?;
        let (certificate, key) = authority::ca_that_ends_in(left);
        let (namespace, _) = Subject::Host.account();
        let secret = authority::secret(namespace, SECRET_TYPE, &certificate, &key).to_string().into_bytes();
        plane.admin.send(Method::POST, &format!("/api/v1/namespaces/{namespace}/secrets"), JSON, secret).await?;
        let mut command = command_of_host(programs, &[plugin]);
        command.args(["--namespace", Asked::Rotating.namespace()]);
        command.args(["--webhooks", "127.0.0.1:0", "--webhooks-url", "https://127.0.0.1"]);
        let host = start(plane, command, "admission-rotating").await?;
        until("the host is registered with both CAs", async || {
            // Until then there is no registration.
            let registration = registration(plane).await.unwrap_or_default();
            Ok((authority::bundle(&registration).len() == 2).then_some(()))
        })
        .await?;
        Ok(Self { host, left })
    }

    /// Waits until the API server trusts the next CA alone.
    ///
    /// # Errors
    /// When that takes too long.
    pub(crate) async fn end(&self, plane: &Plane) -> Result<()> {
        let ends = Instant::now() + self.left + PATIENCE;
        while authority::bundle(&registration(plane).await?).len() != 1 {
            if Instant::now() > ends {
                bail!("void: the CA is not replaced {PATIENCE:?} after its end");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Stops the host.
    ///
    /// # Errors
    /// When it does not end.
    pub(crate) fn stop(self) -> Result<()> {
        self.host.stop()
    }
}

/// Gives the host the right to keep its CA, and to register itself.
async fn grant(plane: &Plane, programs: &Programs, plugin: &Path) -> Result<()> {
    let mut print = Command::new(&programs.host);
    let watched = ["--watch-namespace", Asked::Rotating.namespace()];
    let output = print.arg("rbac").arg(plugin).args(["--webhooks", "--offline"]).args(watched).output()?;
    ensure!(output.status.success(), "hotshoe rbac: {}", String::from_utf8_lossy(&output.stderr));
    let manifest = plane.file("webhooks.yaml");
    std::fs::write(&manifest, output.stdout)?;
    plane.apply(&manifest).await
}

async fn registration(plane: &Plane) -> Result<Value> {
    let (_, account) = Subject::Host.account();
    let name = format!("{account}-memcached.{}", Asked::Rotating.namespace());
    plane.admin.get(&format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}")).await
}
