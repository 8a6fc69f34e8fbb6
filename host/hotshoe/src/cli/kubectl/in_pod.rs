//! Asks the host of a plugin where it runs: kubectl executes the program in the Pod of the host, so RBAC decides who may
//! (`create` of `pods/exec`), and the host opens no port for it.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::cli::kubectl::objects::Objects;
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::read;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::names;
use hotshoe_core::model::sanitize::clean;
use hotshoe_operator::config::plugin_resource::PluginStatus;

/// Where the program is in the image of the host.
const PROGRAM: &str = "/hotshoe";
/// Why a host is not found.
const NO_LEASE: &str = "does not name a Lease of its host, so it is not known where that runs; ask a host on this \
                        machine by `hotshoe`, and another one by `kubectl exec`";
/// The maximum length of a message of kubectl, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;

/// The Pods of the hosts that share the work for a plugin, by a Lease for each share.
pub(super) struct Hosts {
    namespace: String,
    pods: Vec<String>,
}

impl Hosts {
    /// Finds the hosts of a plugin, by the Leases that its object names.
    ///
    /// # Errors
    /// When the object or the Leases cannot be read, or no host holds one.
    pub(super) async fn of(cluster: &Cluster, objects: &Objects, plugin: &str) -> anyhow::Result<Self> {
        let object = objects.get(plugin).await?;
        let (namespace, lease) = claim(&object).with_context(|| format!("the object of {plugin} {NO_LEASE}"))?;
        Self::holding(cluster, namespace, lease).await
    }

    /// Finds the hosts of all plugins, if these have one Lease, or one for each shard.
    ///
    /// # Errors
    /// As for those of one plugin, or when the plugins have hosts of their own.
    pub(super) async fn of_all(cluster: &Cluster, objects: &Objects) -> anyhow::Result<Self> {
        let listed = objects.list().await?;
        let mut claims: Vec<(String, String)> = listed.iter().filter_map(claim).collect();
        claims.sort_unstable();
        claims.dedup();
        match (claims.pop(), claims.is_empty()) {
            (Some((namespace, lease)), true) => Self::holding(cluster, namespace, lease).await,
            (None, _) => bail!("there is no Plugin object with a host, or it {NO_LEASE}"),
            (Some(_), false) => bail!("the plugins have several hosts; name a plugin of one"),
        }
    }

    async fn holding(cluster: &Cluster, namespace: String, lease: String) -> anyhow::Result<Self> {
        let kind = Kind::new("coordination.k8s.io", "v1", "Lease");
        let leases = read::objects(cluster, &Kinds::default(), &kind, Some(&namespace), "").await;
        let leases = leases.with_context(|| format!("the Leases in {namespace} cannot be listed"))?;
        let mut pods: Vec<String> = leases.iter().filter_map(|found| pod_of(found, &lease)).collect();
        pods.sort_unstable();
        pods.dedup();
        ensure!(!pods.is_empty(), "no host holds the Lease {namespace}/{lease}; is it running?");
        Ok(Self { namespace, pods })
    }

    /// Asks each host for JSON until one gives an answer that is `wanted`, or the last of them any.
    ///
    /// # Errors
    /// When kubectl cannot be run, or no host answers.
    pub(super) fn ask(
        &self,
        connect: &ConnectOptions,
        arguments: &[String],
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let mut last = None;
        for pod in &self.pods {
            let answer = self.executed(connect, pod, arguments).and_then(|printed| {
                serde_json::from_str(&printed).with_context(|| {
                    format!(
                        "the Pod {pod} answered with something else; is the host of the same version as this program?"
                    )
                })
            });
            if answer.as_ref().is_ok_and(&wanted) {
                return answer;
            }
            last = Some(answer);
        }
        last.unwrap_or_else(|| bail!("no host is known"))
    }

    /// Returns what the program prints in the Pod of the only host.
    ///
    /// # Errors
    /// When kubectl cannot be run, the host does not answer, or there are several.
    pub(super) fn print(&self, connect: &ConnectOptions, arguments: &[String]) -> anyhow::Result<String> {
        match &*self.pods {
            [pod] => self.executed(connect, pod, arguments),
            pods => bail!(
                "several hosts share the work, and each has a page of its own: `kubectl exec -n {} POD -- {PROGRAM} {}`, \
                 where POD is one of {}",
                self.namespace,
                arguments.join(" "),
                pods.join(", ")
            ),
        }
    }

    /// Runs the program in a Pod, and returns what it prints.
    fn executed(&self, connect: &ConnectOptions, pod: &str, arguments: &[String]) -> anyhow::Result<String> {
        let namespace = &self.namespace;
        let mut kubectl = Command::new("kubectl");
        kubectl.args(words(connect, namespace, pod, arguments));
        let output = kubectl.output().context("kubectl cannot be run; is it installed, and in PATH?")?;
        let said = clean(String::from_utf8_lossy(&output.stderr).into_owned(), MAX_MESSAGE_BYTES);
        ensure!(output.status.success(), "the host in the Pod {namespace}/{pod} did not answer: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Returns the namespace and name of the Lease of the host of a `Plugin` object.
fn claim(object: &Value) -> Option<(String, String)> {
    let lease = PluginStatus::of(object).lease?;
    lease.split_once('/').map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
}

fn words(connect: &ConnectOptions, namespace: &str, pod: &str, arguments: &[String]) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if let Some(kubeconfig) = &connect.kubeconfig {
        words.extend(["--kubeconfig".into(), kubeconfig.into()]);
    }
    if let Some(context) = &connect.context {
        words.extend(["--context".into(), context.into()]);
    }
    words.extend(["exec", "-n", namespace, pod, "--", PROGRAM].map(OsString::from));
    words.extend(arguments.iter().map(OsString::from));
    words
}

/// Returns the Pod of the host that holds a Lease, if it is that one or one of its shards. A host names itself by its Pod
/// and a random part.
fn pod_of(found: &Value, lease: &str) -> Option<String> {
    let name = found.pointer("/metadata/name")?.as_str()?;
    let shard = name.strip_prefix(lease)?;
    let is_one = shard.is_empty() || shard.strip_prefix('-').is_some_and(|shard| shard.parse::<u16>().is_ok());
    let (pod, _) = found.pointer("/spec/holderIdentity")?.as_str()?.rsplit_once('_')?;
    // Who may write the Lease must not choose options of kubectl.
    (is_one && names::is_subdomain(pod)).then(|| pod.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pods_of_a_host_are_those_that_hold_its_lease_or_a_shard_of_it() {
        let lease =
            |name: &str, holder: &str| json!({ "metadata": { "name": name }, "spec": { "holderIdentity": holder } });
        let pod = |name: &str, holder: &str| pod_of(&lease(name, holder), "hotshoe");
        assert_eq!(pod("hotshoe", "hotshoe-7d_0a1b2c3d").as_deref(), Some("hotshoe-7d"));
        assert_eq!(pod("hotshoe-3", "hotshoe-7d_0a1b2c3d").as_deref(), Some("hotshoe-7d"));
        for (name, holder) in [
            ("hotshoe-other", "hotshoe-7d_0a1b2c3d"),
            ("other", "hotshoe-7d_0a1b2c3d"),
            ("hotshoe", ""),
            ("hotshoe", "--as=admin_0a1b2c3d"),
        ] {
            assert_eq!(pod(name, holder), None, "{name} {holder}");
        }
    }

    #[test]
    fn kubectl_is_given_the_same_cluster_and_then_the_command() {
        let connect = ConnectOptions { kubeconfig: Some("k".into()), context: Some("c".to_owned()) };
        let words = words(&connect, "system", "hotshoe-7d", &["explain".to_owned(), "memcached/shop".to_owned()]);
        let expected = "--kubeconfig k --context c exec -n system hotshoe-7d -- /hotshoe explain memcached/shop";
        assert_eq!(words.join(" ".as_ref()), expected);
    }
}
