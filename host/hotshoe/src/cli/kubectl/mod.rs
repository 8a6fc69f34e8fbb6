//! `kubectl hotshoe`: the same program under the name `kubectl-hotshoe`, by which kubectl finds it. Its commands read
//! and change `Plugin` objects as their caller, so that RBAC decides who may.

mod change;
mod in_pod;
mod objects;
mod show;
mod wait;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::cli::explain;
use crate::cli::kubectl::in_pod::Hosts;
use crate::cli::kubectl::objects::Objects;
use crate::cli::kubectl::wait::Wait;
use crate::cli::terminal::{self, Output};
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_core::model::digest_prefix::DigestPrefix;

/// The name by which kubectl finds the program.
const NAME: &str = "kubectl-hotshoe";

/// Show what became of Plugin objects, and decide which revision of each is active
#[derive(Parser, Debug)]
#[command(
    name = "kubectl hotshoe",
    bin_name = "kubectl hotshoe",
    version,
    max_term_width = 100,
    after_help = "All but `status`, `history`, `explain` and `report` change a Plugin object, as `kubectl patch` can as well, \
                  and need the rights to get and patch plugins.hotshoe.dev; those need the rights to get and list \
                  them. The host of the plugin then does what the object says; `approve`, `rollback` and `follow` \
                  wait for that, unless `--wait=false` is given.\n\
                  \n\
                  Example: kubectl hotshoe status\n\
                  \n\
                  Exit codes: 0 success, 1 failure (the reason is on standard error), 2 wrong usage."
)]
pub struct KubectlCli {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Show all plugins, or one with its conditions, its canary, its revisions and what waits for an approval
    #[command(after_help = "Examples:\n  \
                      kubectl hotshoe status                      # all, one a line\n  \
                      kubectl hotshoe status memcached\n  \
                      kubectl hotshoe status memcached -o yaml    # the whole object")]
    Status {
        /// The name of the Plugin [default: all]
        plugin: Option<String>,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show which components were activated, refused, approved and rolled back
    #[command(after_help = "Example: kubectl hotshoe history memcached\n\n\
                      The active one is marked with *. Which ones a host keeps for a rollback, \
                      `hotshoe history` on that host shows.")]
    History {
        /// The name of the Plugin
        plugin: String,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Show why an object is as it is: the last decisions about it, and what holds it back
    #[command(after_help = "Examples:\n  \
                      kubectl hotshoe explain memcached/cache -n shop\n  \
                      kubectl hotshoe explain memcached/shop/cache -o json\n\
                      \n\
                      The host of the plugin is asked in its Pod, by `kubectl exec`: that needs the rights to get the \
                      Plugin object, to list leases in the namespace of the host, and to create pods/exec there. \
                      Only names and paths are shown, and no value of any object.")]
    Explain {
        /// Which object of which Plugin
        #[arg(value_name = "PLUGIN/[NAMESPACE/]NAME")]
        object: explain::Named,
        /// Its namespace [default: the only one with an object of this name]
        #[arg(short, long, value_parser = explain::part)]
        namespace: Option<String>,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Write the state of the host as an HTML page: plugins, what waits for approval, objects in trouble
    #[command(after_help = "Examples:\n  \
                      kubectl hotshoe report > report.html\n  \
                      kubectl hotshoe report memcached > report.html    # of the host of this Plugin\n\
                      \n\
                      The host is asked in its Pod, as by `kubectl hotshoe explain`, with the same rights.")]
    Report {
        /// A Plugin of the host [default: any, if all have the same host]
        plugin: Option<String>,
        /// Do not compare components that wait for an approval, so that the page has no value of an object
        #[arg(long)]
        no_diff: bool,
    },
    /// Activate a component that waits for an approval (spec.approve)
    #[command(after_help = "Examples:\n  \
                      kubectl hotshoe approve memcached                 # the component that waits\n  \
                      kubectl hotshoe approve memcached 40a2692523ea    # only if that is the one\n\
                      \n\
                      A component waits if it was rolled back, if it would delete children of many parents or fail, \
                      and always after `kubectl hotshoe shadow`. `kubectl hotshoe status NAME` shows why, \
                      and what it would change. An approval counts for one activation.")]
    Approve {
        /// The name of the Plugin
        plugin: String,
        /// The beginning of the component's digest [default: the one that waits]
        digest: Option<DigestPrefix>,
        #[command(flatten)]
        wait: Wait,
    },
    /// Activate an earlier revision or end the canary, and have no other activated until `follow` (spec.revision)
    #[command(after_help = "Examples:\n  \
                      kubectl hotshoe rollback memcached                 # what came last\n  \
                      kubectl hotshoe rollback memcached 40a2692523ea    # one that `status` lists\n\
                      \n\
                      Without a digest, a canary ends and the active revision stays. Without a canary, \
                      the revision that was active before is activated again.")]
    Rollback {
        /// The name of the Plugin
        plugin: String,
        /// The beginning of the revision's digest [default: with a canary the active one, else the one that was active
        /// before]
        digest: Option<DigestPrefix>,
        #[command(flatten)]
        wait: Wait,
    },
    /// Activate what the source has, after a rollback (removes spec.revision)
    #[command(after_help = "Example: kubectl hotshoe follow memcached\n\
                      \n\
                      The component of the source is verified as any other; a canary that the rollback ended begins \
                      anew.")]
    Follow {
        /// The name of the Plugin
        plugin: String,
        #[command(flatten)]
        wait: Wait,
    },
    /// Have nothing reconciled until `resume` (spec.paused)
    #[command(after_help = "Example: kubectl hotshoe pause memcached\n\
                      \n\
                      Children stay as they are. Parents that are deleted stay until `resume`, \
                      if they have the plugin's finalizer.")]
    Pause {
        /// The name of the Plugin
        plugin: String,
    },
    /// Have everything reconciled again after `pause` (spec.paused)
    #[command(after_help = "Example: kubectl hotshoe resume memcached")]
    Resume {
        /// The name of the Plugin
        plugin: String,
    },
    /// Have other components compared with the active one, and activated only when they are approved (spec.mode)
    #[command(after_help = "Examples:\n  \
                      kubectl hotshoe shadow memcached          # until --off\n  \
                      kubectl hotshoe shadow memcached --off\n\
                      \n\
                      `kubectl hotshoe status NAME` shows what a component that waits would change; \
                      `kubectl hotshoe approve NAME` activates it.")]
    Shadow {
        /// The name of the Plugin
        plugin: String,
        /// End that: have them activated as soon as they are verified, as is the default
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
        let objects = Objects::of(cluster.clone());
        match self.verb {
            Verb::Status { plugin: None, output } => show::all(&objects, output).await,
            Verb::Status { plugin: Some(plugin), output } => show::one(&objects, &plugin, output).await,
            Verb::History { plugin, output } => show::history(&objects, &plugin, output).await,
            Verb::Explain { object, namespace, output } => {
                let object = object.within(namespace)?;
                let hosts = Hosts::of(&cluster, &objects, &object.plugin).await?;
                explain::print(&hosts.ask(&self.connect, &object.arguments(), explain::is_of_its_host)?, output)
            }
            Verb::Report { plugin, no_diff } => {
                let hosts = match &plugin {
                    Some(plugin) => Hosts::of(&cluster, &objects, plugin).await?,
                    None => Hosts::of_all(&cluster, &objects).await?,
                };
                let verb = ["report"].into_iter().chain(no_diff.then_some("--no-diff"));
                terminal::print(hosts.print(&self.connect, &verb.map(str::to_owned).collect::<Vec<_>>())?)?;
                Ok(ExitCode::SUCCESS)
            }
            Verb::Approve { plugin, digest, wait } => change::approve(&objects, &plugin, digest, &wait).await,
            Verb::Rollback { plugin, digest, wait } => change::roll_back(&objects, &plugin, digest, &wait).await,
            Verb::Follow { plugin, wait } => change::follow(&objects, &plugin, &wait).await,
            Verb::Pause { plugin } => change::pause(&objects, &plugin, true).await,
            Verb::Resume { plugin } => change::pause(&objects, &plugin, false).await,
            Verb::Shadow { plugin, off } => change::shadow(&objects, &plugin, !off).await,
        }
    }
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

    #[test]
    fn the_cluster_is_chosen_before_or_after_the_command_as_with_kubectl() {
        for words in [["--context", "kind", "status"], ["status", "--context", "kind"]] {
            let kubectl = KubectlCli::try_parse_from([NAME].iter().chain(&words)).unwrap();
            assert_eq!(kubectl.connect.context.as_deref(), Some("kind"));
        }
    }

    #[test]
    fn what_is_no_digest_is_wrong_usage() {
        for verb in ["approve", "rollback"] {
            let parsed = |digest: &str| KubectlCli::try_parse_from([NAME, verb, "memcached", digest]).map(drop);
            assert!(parsed("sha256:40A26925").is_ok() && parsed(&"4".repeat(64)).is_ok(), "{verb}");
            for wrong in ["40a269g", "latest", "sha256:", &"4".repeat(65)] {
                assert_eq!(parsed(wrong).unwrap_err().exit_code(), 2, "{verb} {wrong}");
            }
        }
    }

    #[test]
    fn every_command_has_an_example() {
        let command = KubectlCli::command();
        for command in command.get_subcommands().chain([&command]) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "{}", command.get_name());
        }
    }
}
