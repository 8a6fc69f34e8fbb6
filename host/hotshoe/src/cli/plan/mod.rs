//! `hotshoe plan`: shows what a plugin would decide for an object, and what that would change, without a host.

mod changes;
mod decide;
mod page;
pub(super) mod plugin;
pub(super) mod preview;
mod source;
mod subjects;
pub(super) mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::Value;

use crate::cli::terminal;
use changes::Changes;
use decide::{Decided, decide};
use hotshoe_core::model::decision::Event;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::simulation::status_after;
use page::{Output, Plan};
use plugin::Plugin;
use source::Source;
use subjects::{Named, Subject, name, set};

/// The exit code if something would change.
const EXIT_CHANGES: u8 = 3;
/// How many decisions are asked for, each of which writes the status alone.
const MAX_DECISIONS: usize = 4;

/// Show what a plugin would decide for an object, and what that would change
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe plan plugins/memcached -f crds/samples/cache_v1_memcached.yaml\n  \
    hotshoe plan memcached.wasm -f cr.yaml -o diff\n  \
    hotshoe plan plugins/memcached --from memcached/shop -n team-a\n  \
    hotshoe plan plugins/memcached -f changed.yaml --cluster -o markdown\n\n\
    The component is asked as a host asks it: with what it declares to read, all rounds of what it needs, the grant and \
    the configuration of its plugin.yaml, and the same checks of its answer. \
    Where a decision writes the status alone, the plan shows the next one, too. Nothing is written, and no host is needed. A \
    cluster is read with your own rights.\n\n\
    Into an object of a file the defaults are filled in that it would be stored with: those of its CRD, which is that of the \
    cluster or else of the project, and those of the plugin's own code.\n\n\
    The values of Secrets are hidden, and all values where the plugin is shown one. What the host adds to each child (owner \
    reference, labels, digest) is left out.\n\n\
    Exit code: 0 nothing would change, 3 something would, 1 the plugin does not decide or a host would deny it.")]
pub struct Args {
    /// A plugin: its folder, its plugin.yaml, or a component [default: the only plugin here]
    #[arg(value_name = "PLUGIN")]
    plugin: Option<PathBuf>,
    #[command(flatten)]
    named: Named,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Asks for the decisions and prints them.
    ///
    /// # Errors
    /// When the plugin, the object or the cluster cannot be read, the plugin does not decide, or a host would deny it.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let plugin = Plugin::open(self.plugin.as_deref()).await?;
        let (subjects, source) = self.named.subjects(&plugin).await?;
        let mut planned = Vec::new();
        for Subject { parent, filled_in } in subjects {
            let decided = plans(&plugin, &parent, &source).await;
            let mut plans = decided.with_context(|| format!("there is no plan for {}", name(&parent)))?;
            if let Some(first) = plans.first_mut() {
                first.filled_in = filled_in;
            }
            planned.extend(plans);
        }
        terminal::print(self.output.of(&planned)?)?;
        let is_empty = planned.iter().all(|plan| plan.changes.is_empty());
        Ok(if is_empty { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CHANGES) })
    }
}

/// Asks for a decision about a parent, and compares it with what exists. A first decision often states a condition
/// only, and the next one has children: so the plan goes on as if the status were written.
async fn plans(plugin: &Plugin, parent: &Value, source: &Source) -> anyhow::Result<Vec<Plan>> {
    let mut parent = parent.clone();
    let mut plans: Vec<Plan> = Vec::new();
    while plans.len() < MAX_DECISIONS {
        let (mut one, status) = plan(plugin, &parent, source).await?;
        let is_next = one.changes.writes_status_alone();
        one.follows = !plans.is_empty();
        plans.push(one);
        if !is_next {
            break;
        }
        set(Some(&mut parent), "status", status);
    }
    // What follows and changes nothing more says nothing.
    if plans.len() > 1 && plans.last().is_some_and(|plan| plan.changes.is_empty()) {
        plans.pop();
    }
    Ok(plans)
}

async fn plan(plugin: &Plugin, parent: &Value, source: &Source) -> anyhow::Result<(Plan, Value)> {
    let Decided { admitted, children, is_tainted } = decide(plugin, parent, source).await?;
    let changes = Changes::of(&admitted, parent, &children, &plugin.config, is_tainted);
    let shown = |event: &Event| format!("{} {}: {}", event.severity.as_str(), event.reason, event.message);
    let events = if is_tainted { Vec::new() } else { admitted.decision.events.iter().map(shown).collect() };
    let status = status_after(&admitted, parent);
    let planned = Plan {
        parent: ObjectRef::of(parent).map_err(anyhow::Error::msg)?,
        follows: false,
        filled_in: Vec::new(),
        plugin: plugin.config.name.to_string(),
        digest: plugin.revision.digest().to_string(),
        changes,
        events,
        requeue_after_seconds: admitted.decision.requeue_after.map(|after| after.as_secs()),
    };
    Ok((planned, status))
}
