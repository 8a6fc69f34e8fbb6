//! The host that serves the samples: one that runs, or one that is started for the test alone.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::cli::host_client::{HostOptions, read};
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::read::objects;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::sanitize::clean;
use hotshoe_operator::api::HostStatus;
use hotshoe_platform::child::THIS_PROGRAM;

/// How long a host has until it serves the plugin: it compiles the component first.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a host has to end after a signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// The pause between two looks at a host that starts.
const PAUSE: Duration = Duration::from_millis(100);
/// How many of the last lines of a host's log are shown, and the maximum length of each in bytes.
const LOG_LINES: usize = 10;
const MAX_LOG_LINE_BYTES: usize = 500;
/// How the variables begin that are options of a host.
const VARIABLES: &str = "HOTSHOE_";

/// Says which host serves a plugin on this cluster, as far as that can be seen.
///
/// # Errors
/// When the cluster does not answer.
pub(super) async fn serving(
    cluster: &Cluster,
    kinds: &Kinds,
    plugin: &str,
    parent: &Kind,
) -> anyhow::Result<Option<String>> {
    for host in HostOptions::here() {
        let Ok(status) = host.get("/status").await.and_then(|status| read::<HostStatus>(&status)) else { continue };
        let is_of_cluster = status.context.rsplit('@').next() == cluster.context.rsplit('@').next();
        if is_of_cluster && status.plugins.iter().any(|serves| serves.name == plugin) {
            return Ok(Some("a host on this machine".to_owned()));
        }
    }
    let described = objects(cluster, kinds, &Kind::new("hotshoe.dev", "v1alpha1", "Plugin"), None, "").await?;
    let text = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let serves = described.iter().find(|object| {
        let group = text(object, "/spec/parent/group").unwrap_or_default();
        let kind = text(object, "/spec/parent/kind");
        kind.is_some_and(|kind| parent.is(&group, &kind)) || text(object, "/metadata/name").as_deref() == Some(plugin)
    });
    Ok(serves.map(|object| format!("the Plugin {}", text(object, "/metadata/name").unwrap_or_default())))
}

/// The plugin that a host of the test's own runs.
pub(super) struct Plugin<'a> {
    pub(super) name: &'a str,
    pub(super) manifest: &'a Path,
    pub(super) component: &'a Path,
}

/// A host of the test's own. It is killed when this value is dropped.
pub(super) struct OwnHost {
    process: Child,
    /// It has the plugin, the log, the socket and the cache.
    folder: TempDir,
}

impl OwnHost {
    /// Starts a host for a plugin. It watches one namespace, or all, and the plugin's account is in `accounts`.
    ///
    /// # Errors
    /// When the plugin cannot be copied, or the process does not start.
    pub(super) fn start(
        plugin: &Plugin<'_>,
        connect: &ConnectOptions,
        namespace: Option<&str>,
        accounts: &str,
    ) -> anyhow::Result<Self> {
        // Closed to other users, as the folder of a socket has to be.
        let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir();
        let folder = folder.context("a test cannot have a folder for its host")?;
        let at = |name: &str| folder.path().join(name);
        let name = format!("{}.wasm", plugin.name);
        fs::copy(plugin.component, at(&name)).context("the component cannot be copied for the test's host")?;
        fs::write(at("plugin.yaml"), description(plugin.manifest, &name)?).context("plugin.yaml cannot be copied")?;
        let log = File::create(at("log")).context("the test's host cannot have a log")?;
        let mut command = Command::new(THIS_PROGRAM);
        command.arg("run").arg(at("plugin.yaml")).arg("--socket").arg(at("socket")).arg("--cache").arg(at("cache"));
        command.args(["--no-lease", "--listen", "127.0.0.1:0", "--service-account-namespace", accounts]);
        command.args(namespace.into_iter().flat_map(|namespace| ["--namespace", namespace]));
        if let Some(kubeconfig) = &connect.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        command.args(connect.context.iter().flat_map(|context| ["--context", context]));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with(VARIABLES)) {
            command.env_remove(name);
        }
        // In a group of its own, so that it outlives a Ctrl-C until the samples are gone.
        command.process_group(0).kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = command.spawn().context("this program cannot be started as a host")?;
        Ok(Self { process, folder })
    }

    /// Waits until the host serves the plugin.
    ///
    /// # Errors
    /// When it ends or refuses the component, or it takes too long, with the end of its log.
    pub(super) async fn serves(&mut self, plugin: &str) -> anyhow::Result<()> {
        let (began, socket) = (Instant::now(), HostOptions::at(self.folder.path().join("socket")));
        loop {
            if let Some(ended) = self.process.try_wait().context("the test's host cannot be waited for")? {
                bail!("the test's host has ended with {ended}:{}", self.log());
            }
            let status = socket.get("/status").await.and_then(|status| read::<HostStatus>(&status));
            let serves = status.ok().and_then(|status| status.plugins.into_iter().find(|found| found.name == plugin));
            match serves {
                Some(found) if found.ready => return Ok(()),
                Some(found) if found.refused.is_some() => {
                    bail!("the test's host refuses the component:{}", self.log());
                }
                _ if began.elapsed() > START_TIMEOUT => {
                    bail!("the test's host does not serve {plugin} after {START_TIMEOUT:?}:{}", self.log());
                }
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Stops the host, by force if it does not end.
    pub(super) async fn stop(mut self) {
        if let Some(process) = self.process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            // It fails where the process has ended.
            let _ = kill_process(process, Signal::TERM);
        }
        if tokio::time::timeout(STOP_TIMEOUT, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
    }

    /// Returns the last lines of the log, each after a line break.
    pub(super) fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let all: Vec<&str> = log.lines().collect();
        let shown = all.iter().rev().take(LOG_LINES).rev();
        shown.map(|line| format!("\n  {}", clean((*line).to_owned(), MAX_LOG_LINE_BYTES))).collect()
    }
}

/// Returns the plugin.yaml of a plugin with the component beside it, and for the parents of any namespace.
fn description(manifest: &Path, component: &str) -> anyhow::Result<String> {
    let place = || format!("{} cannot be read", manifest.display());
    let text = fs::read_to_string(manifest).with_context(place)?;
    let mut described: Value = serde_saphyr::from_str(&text).with_context(place)?;
    if let Some(spec) = described.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("source".to_owned(), json!({ "file": component }));
        if let Some(parent) = spec.get_mut("parent").and_then(Value::as_object_mut) {
            parent.remove("namespaces");
        }
    }
    Ok(described.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_of_a_test_is_read_beside_its_description_and_has_parents_in_any_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("plugin.yaml");
        let parent = "parent: {group: example.com, kind: Test, namespaces: [a], selector: {}}";
        fs::write(&manifest, format!("kind: Plugin\nspec:\n  source: {{oci: a/b}}\n  {parent}\n")).unwrap();
        let described: Value = serde_saphyr::from_str(&description(&manifest, "a.wasm").unwrap()).unwrap();
        let parent = json!({ "group": "example.com", "kind": "Test", "selector": {} });
        assert_eq!(
            described,
            json!({ "kind": "Plugin", "spec": { "source": { "file": "a.wasm" }, "parent": parent } })
        );
    }
}
