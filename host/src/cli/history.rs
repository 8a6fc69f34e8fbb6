//! `hotshoe history`: which components decided, and what became of them.

use std::process::ExitCode;

use super::host_client::read;
use super::one_plugin::OnePlugin;
use super::stdout;
use crate::cluster::events;
use crate::plugin::history::{Entry, Event};
use crate::rollout::PluginHistory;

/// Show which components decided, and what became of them
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: hotshoe history memcached -o json\n\nThe one that decides is marked with *.")]
pub struct Args {
    #[command(flatten)]
    plugin: OnePlugin,
}

impl Args {
    /// Asks and prints.
    ///
    /// # Errors
    /// When no host answers, or it has no such plugin.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let answer = super::runtime()?.block_on(self.plugin.get("history"))?;
        match self.plugin.output {
            Some(output) => output.print(&answer)?,
            None => stdout::print(table(&read(&answer)?))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(PluginHistory { current, entries }: &PluginHistory) -> String {
    let mut table = format!("  {:<20} {:<14} {:<10} {:<11} WHY\n", "AT", "DIGEST", "VERSION", "EVENT");
    let began = |entry: &Entry| Some(entry.digest) == *current && entry.event == Event::Published;
    let decides = entries.iter().rposition(began);
    for (index, Entry { digest, version, at, event, message, .. }) in entries.iter().enumerate() {
        let at = i64::try_from(*at).ok().and_then(events::at).unwrap_or_default();
        let (digest, event) = (digest.to_string(), format!("{event:?}"));
        let mark = if decides == Some(index) { "*" } else { " " };
        let row = format!("{mark} {at:<20} {digest:<14} {version:<10} {event:<11} {message}");
        table.push_str(row.trim_end());
        table.push('\n');
    }
    table
}
