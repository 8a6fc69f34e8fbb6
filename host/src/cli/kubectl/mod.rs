//! `kubectl hotshoe`: the same program under the name `kubectl-hotshoe`, by which kubectl finds it. Its commands read
//! and change `Plugin` objects as their caller, so that RBAC decides who may.

mod change;
mod show;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use serde_json::Value;

use crate::cli::terminal::{self, Output};
use crate::cluster::client::{Cluster, ConnectOptions};
use crate::cluster::plugin_object;
use crate::config::manifest::KIND;
use crate::config::plugin_resource::{GROUP, PLURAL, PluginStatus, VERSION};

/// The number of digits of a digest that are shown.
const SHORT_DIGEST: usize = 12;
/// The name by which kubectl finds the program.
const NAME: &str = "kubectl-hotshoe";

/// The comfortable way to Plugin objects: what became of each, and which revision is active.
#[derive(Parser, Debug)]
#[command(
    name = "kubectl hotshoe",
    bin_name = "kubectl hotshoe",
    version,
    max_term_width = 100,
    after_help = "Each command is a change of a Plugin object that `kubectl patch` can make as well, and needs the right to patch plugins.hotshoe.dev.\n\nExit codes: 0 success, 1 failure (the reason is on standard error), 2 wrong usage."
)]
pub struct KubectlCli {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Show all plugins, or one with its conditions, its revisions and what waits for an approval
    #[command(after_help = "Example: kubectl hotshoe status memcached")]
    Status {
        /// The plugin [default: all]
        plugin: Option<String>,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Activate the component that waits for an approval (spec.approve)
    #[command(after_help = "Example: kubectl hotshoe approve memcached")]
    Approve {
        /// The plugin
        plugin: String,
        /// The digest of the component, or its beginning [default: the one that waits]
        digest: Option<String>,
    },
    /// Activate an earlier revision, and no other until `follow` (spec.revision)
    #[command(after_help = "Example: kubectl hotshoe rollback memcached 40a2692523ea")]
    Rollback {
        /// The plugin
        plugin: String,
        /// The digest of the revision, or its beginning [default: the last one that was active before]
        digest: Option<String>,
    },
    /// Activate what the source has, after a rollback (removes spec.revision)
    #[command(after_help = "Example: kubectl hotshoe follow memcached")]
    Follow {
        /// The plugin
        plugin: String,
    },
    /// Have nothing reconciled until `resume` (spec.paused)
    #[command(after_help = "Example: kubectl hotshoe pause memcached")]
    Pause {
        /// The plugin
        plugin: String,
    },
    /// Have everything reconciled again
    #[command(after_help = "Example: kubectl hotshoe resume memcached")]
    Resume {
        /// The plugin
        plugin: String,
    },
    /// Have other components compared with the active one, and activated only when they are approved (spec.mode)
    #[command(
        after_help = "Example: kubectl hotshoe shadow memcached\n         kubectl hotshoe shadow memcached --off"
    )]
    Shadow {
        /// The plugin
        plugin: String,
        /// Have them activated as soon as they are verified, as without it
        #[arg(long)]
        off: bool,
    },
}

/// Returns whether kubectl has started the program, by the program's name.
pub fn is_plugin_of_kubectl(program: Option<&OsStr>) -> bool {
    program.map(Path::new).and_then(Path::file_stem) == Some(OsStr::new(NAME))
}

impl KubectlCli {
    /// Runs the command.
    ///
    /// # Errors
    /// What happened, to what, and what to do next.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        terminal::quietly(super::runtime()?.block_on(self.begin()))
    }

    async fn begin(self) -> anyhow::Result<ExitCode> {
        let cluster = Cluster::connect(&self.connect).await?;
        let resource = plugin_object::resource(GROUP, VERSION, KIND, PLURAL);
        let objects = Objects { cluster, resource };
        match self.verb {
            Verb::Status { plugin: None, output } => show::all(&objects, output).await,
            Verb::Status { plugin: Some(plugin), output } => show::one(&objects, &plugin, output).await,
            Verb::Approve { plugin, digest } => change::approve(&objects, &plugin, digest).await,
            Verb::Rollback { plugin, digest } => change::roll_back(&objects, &plugin, digest).await,
            Verb::Follow { plugin } => change::follow(&objects, &plugin).await,
            Verb::Pause { plugin } => change::pause(&objects, &plugin, true).await,
            Verb::Resume { plugin } => change::pause(&objects, &plugin, false).await,
            Verb::Shadow { plugin, off } => change::shadow(&objects, &plugin, !off).await,
        }
    }
}

/// The `Plugin` objects of a cluster.
struct Objects {
    cluster: Cluster,
    resource: crate::cluster::discovery::Resource,
}

impl Objects {
    async fn get(&self, name: &str) -> anyhow::Result<Value> {
        let object = plugin_object::read(&self.cluster, &self.resource, Some(name)).await;
        object.with_context(|| format!("the Plugin {name} cannot be read; `kubectl hotshoe status` lists all Plugins"))
    }

    async fn list(&self) -> anyhow::Result<Vec<Value>> {
        let list = plugin_object::read(&self.cluster, &self.resource, None).await;
        let list = list.context("the Plugin objects cannot be listed; is the kind installed? `hotshoe crd --host | kubectl apply -f -` does that")?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    async fn patch(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let patched = plugin_object::patch_spec(&self.cluster, &self.resource, name, &spec).await;
        patched.with_context(|| format!("the Plugin {name} cannot be changed"))?;
        Ok(())
    }
}

/// Returns the status of an object; an empty one if no host has written it yet.
fn status_of(object: &Value) -> PluginStatus {
    object.get("status").cloned().and_then(|status| serde_json::from_value(status).ok()).unwrap_or_default()
}

/// Returns the short form of a digest.
fn short(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..SHORT_DIGEST).unwrap_or(digits)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_programs_name_decides_which_commands_it_has() {
        for (program, is_of_kubectl) in
            [("kubectl-hotshoe", true), ("/usr/bin/kubectl-hotshoe", true), ("hotshoe", false)]
        {
            assert_eq!(is_plugin_of_kubectl(Some(OsStr::new(program))), is_of_kubectl, "{program}");
        }
        KubectlCli::command().debug_assert();
    }
}
