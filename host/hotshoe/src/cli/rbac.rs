//! `hotshoe rbac`: prints exactly the accounts and rights that a host needs for its plugins.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::cli::inspect;
use crate::cli::inspect::{Inspected, LoadedPlugin};
use crate::cli::run::namespace;
use crate::cli::{project, terminal};
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_cluster::discovery;
use hotshoe_cluster::discovery::Kinds;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::names;
use hotshoe_core::model::watched_namespaces::WatchedNamespaces;
use hotshoe_core::rbac;
use hotshoe_core::rbac::{Installation, Plugin, Rights, Served};
use hotshoe_operator::config::HOST_NAMESPACE;

/// Print the accounts and rights that a host needs for these plugins
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe rbac plugins/memcached | kubectl apply -f -\n  \
    hotshoe rbac plugins/memcached --watch-namespace team-a # of a host in team-a\n  \
    hotshoe rbac plugins/memcached --offline                # asks no cluster\n  \
    hotshoe rbac --host-only                # of a host that follows Plugin objects\n  \
    hotshoe rbac --plugin-only plugins/memcached # of one more plugin of such a host\n\n\
    The components must be built. What RBAC cannot express is noted on standard error. Where a component asks \
    for more than it is granted, the rules that are missing are printed there instead, and the exit code is 1.")]
pub struct Args {
    /// Plugins: folders with a plugin.yaml, or such files [default: this folder, or all in plugins/]
    #[arg(value_name = "PLUGIN")]
    plugins: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Print the rights of a host that follows Plugin objects. They are the same for all plugins; --plugin-only prints
    /// what each plugin adds
    #[arg(long, conflicts_with_all = ["plugins", "components"])]
    host_only: bool,
    /// Print only what these plugins add to the rights of such a host
    #[arg(long, conflicts_with_all = ["host_only", "metrics_secure"])]
    plugin_only: bool,
    /// How to print
    #[arg(short, long, default_value = "yaml")]
    output: Output,
}

/// The options that rights depend on.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    pub(super) installed: Installed,
    /// Also print the rights for `hotshoe run --metrics-secure`
    #[arg(long)]
    pub(super) metrics_secure: bool,
    /// Also print the rights for `hotshoe run --webhooks` without --webhooks-cert-dir: to keep the CA of the webhooks,
    /// and to register them
    #[arg(long)]
    pub(super) webhooks: bool,
}

/// Where plugins are, and how their host is installed.
#[derive(clap::Args, Debug)]
pub(super) struct Installed {
    /// Read the components from this folder instead of where a host looks for them
    #[arg(long, value_name = "DIR")]
    components: Option<PathBuf>,
    /// The namespace of the host and of the plugins' ServiceAccounts
    #[arg(short, long, default_value = HOST_NAMESPACE, env = "HOTSHOE_SERVICE_ACCOUNT_NAMESPACE", value_parser = namespace)]
    pub(super) namespace: String,
    /// The host's ServiceAccount
    #[arg(long, default_value = "hotshoe", value_name = "NAME", value_parser = account)]
    pub(super) host_account: String,
    /// A namespace that the host watches; Roles in it replace ClusterRoles. Repeat it, or separate several by commas
    /// [default: all]
    #[arg(long = "watch-namespace", value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    watched: Vec<String>,
    /// Derive plural names and scopes by rule instead of asking a cluster
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// Checks the name of a ServiceAccount.
fn account(text: &str) -> Result<String, &'static str> {
    let is_valid = names::is_subdomain(text);
    is_valid.then(|| text.to_owned()).ok_or("a ServiceAccount's name has lower-case letters, digits, `-` and `.`")
}

/// What `kubectl apply` reads.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Json,
    Yaml,
}

impl Args {
    /// Loads the plugins and prints their rights.
    ///
    /// # Errors
    /// When a plugin cannot be loaded, or asks for more than it is granted. Rights are printed only for what is
    /// granted: the output is often applied unread, and a component must not be able to add to it.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let rights = if self.host_only {
            self.options.rights_of_host()?
        } else {
            let plugins = self.options.installed.load(&project::named_or_all(&self.plugins)?).await?;
            if self.plugin_only {
                self.options.rights_of_plugins(&plugins).await?
            } else {
                self.options.rights(&plugins).await?
            }
        };
        print_notes(&rights);
        match self.output {
            Output::Json => {
                let list = json!({ "apiVersion": "v1", "kind": "List", "items": rights.manifests });
                terminal::line(serde_json::to_string_pretty(&list)?)
            }
            Output::Yaml => terminal::print(to_yaml(&rights)?),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Options {
    /// Returns the rights of a host of these plugins.
    ///
    /// # Errors
    /// When the host could not watch the namespaces.
    pub(super) async fn rights(&self, plugins: &[LoadedPlugin]) -> anyhow::Result<Rights> {
        let (installation, served) = (self.installed.installation()?, self.installed.served(plugins).await);
        let plugins: Vec<_> = plugins.iter().map(LoadedPlugin::as_plugin).collect();
        let rights = rbac::rights(&plugins, &installation, &served);
        Ok(self.with_options(rights, &installation, &plugins, &served))
    }

    /// Returns the rights of a host that follows `Plugin` objects, without those that each plugin adds.
    ///
    /// # Errors
    /// When the host could not watch the namespaces.
    pub(super) fn rights_of_host(&self) -> anyhow::Result<Rights> {
        let installation = self.installed.installation()?;
        let rights = rbac::rights_of_host(&installation);
        Ok(self.with_options(rights, &installation, &[], &discovery::conventional))
    }

    /// Returns what these plugins add to the rights of such a host.
    async fn rights_of_plugins(&self, plugins: &[LoadedPlugin]) -> anyhow::Result<Rights> {
        let (installation, served) = (self.installed.installation()?, self.installed.served(plugins).await);
        let mut rights = Rights { manifests: Vec::new(), notes: Vec::new() };
        for plugin in plugins.iter().map(LoadedPlugin::as_plugin) {
            let plugin = rbac::rights_of_plugin(plugin, &installation, &served);
            rights.manifests.extend(plugin.manifests);
            rights.notes.extend(plugin.notes);
        }
        if self.webhooks {
            let plugins = plugins.iter().map(LoadedPlugin::as_plugin);
            let of = |plugin| rbac::webhooks::manifests_of_plugin(plugin, &installation, &served);
            rights.manifests.extend(plugins.flat_map(of));
        }
        Ok(rights)
    }

    /// Adds the rights for options of the host.
    fn with_options(
        &self,
        mut rights: Rights,
        installation: &Installation,
        plugins: &[Plugin<'_>],
        served: &dyn Fn(&Kind) -> Served,
    ) -> Rights {
        if self.metrics_secure {
            rights.manifests.extend(rbac::metrics::manifests(installation));
        }
        if self.webhooks {
            rights.manifests.extend(rbac::webhooks::manifests(plugins, installation, served));
        }
        rights
    }
}

impl Installed {
    /// Loads plugins whose rights can be printed.
    ///
    /// # Errors
    /// When a plugin cannot be loaded, asks for more than it is granted, or would share the host's account.
    pub(super) async fn load(&self, plugins: &[PathBuf]) -> anyhow::Result<Vec<LoadedPlugin>> {
        let inspected = Inspected { plugins: plugins.to_vec(), components: self.components.clone() };
        let plugins = inspect::load(&inspected, &self.namespace).await?;
        let lacking: Vec<String> = plugins.iter().filter_map(LoadedPlugin::lacking).collect();
        ensure!(lacking.is_empty(), "{}", lacking.join("\n"));
        ensure_apart(&self.host_account, plugins.iter().map(|asked| &*asked.config.name))?;
        Ok(plugins)
    }

    /// Returns where the host is installed.
    ///
    /// # Errors
    /// When the host could not watch the namespaces.
    pub(super) fn installation(&self) -> anyhow::Result<Installation> {
        let (namespace, account) = (self.namespace.clone(), self.host_account.clone());
        let watched = WatchedNamespaces::named(&self.watched).context("--watch-namespace")?;
        Ok(Installation { namespace, account, watched })
    }

    /// Returns how to find the plural and the scope of a kind.
    pub(super) async fn served(&self, plugins: &[LoadedPlugin]) -> impl Fn(&Kind) -> Served {
        let known = self.ask(plugins).await;
        move |kind| known.get(kind).cloned().unwrap_or_else(|| discovery::conventional(kind))
    }

    /// Asks the cluster for the plurals and scopes of the kinds. Returns nothing if there is no cluster.
    async fn ask(&self, plugins: &[LoadedPlugin]) -> HashMap<Kind, Served> {
        let mut known = HashMap::new();
        if self.offline {
            return known;
        }
        let cluster = match Cluster::connect(&self.connect).await {
            Ok(cluster) => cluster,
            Err(error) => {
                terminal::note(format_args!(
                    "note: plural names and scopes are derived by rule, not asked of a cluster: {error:#}"
                ));
                return known;
            }
        };
        let kinds = Kinds::default();
        for kind in plugins.iter().flat_map(|asked| rbac::kinds(&asked.as_plugin())) {
            match discovery::find_in_any_version(&cluster, &kinds, &kind).await {
                Ok(served) => drop(known.insert(kind, served)),
                Err(error) if error.code == 0 => {
                    terminal::note(format_args!(
                        "note: plural names and scopes are derived by rule, not asked of a cluster: {error}"
                    ));
                    break;
                }
                Err(error) => {
                    terminal::note(format_args!("note: the plural and scope of {kind} are derived by rule: {error}"))
                }
            }
        }
        known
    }
}

/// Fails if the host and a plugin would have the same account, which could do all that either may. A plugin's account
/// has the plugin's name.
fn ensure_apart<'a>(host_account: &str, mut plugins: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    ensure!(
        plugins.all(|plugin| plugin != host_account),
        "the host's account {host_account} (--host-account) would be that of the plugin {host_account} as well; give the host another one"
    );
    Ok(())
}

/// Prints what RBAC cannot express on standard error.
pub(super) fn print_notes(rights: &Rights) {
    rights.notes.iter().for_each(|note| terminal::note(format_args!("note: {note}")));
}

/// Returns the documents of the manifests.
///
/// # Errors
/// When an object cannot be serialised.
pub(super) fn to_yaml(rights: &Rights) -> anyhow::Result<String> {
    let documents = rights.manifests.iter().map(rbac::manifest::Manifest::to_yaml).collect::<Result<Vec<_>, _>>();
    let documents = documents.map_err(anyhow::Error::msg).context("the rights cannot be written as YAML")?;
    Ok(documents.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_and_a_plugin_never_share_an_account() {
        let plugins = ["memcached", "redis"];
        let refused = ensure_apart("redis", plugins.into_iter()).unwrap_err().to_string();
        assert!(refused.contains("the host's account redis") && refused.contains("the plugin redis"), "{refused}");
        assert!(ensure_apart("hotshoe", plugins.into_iter()).is_ok());
    }
}
