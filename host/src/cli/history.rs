//! `hotshoe history`: which components decided, and what became of them.

use std::process::ExitCode;

use anyhow::Context;
use serde_json::Value;

use super::host_client::{HostOptions, short};
use super::status::Output;
use super::stdout;
use crate::cluster::events;

/// Show which components decided, and what became of them
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: hotshoe history memcached -o json\n\nThe one that decides is marked with *.")]
pub struct Args {
    /// Which plugin
    #[arg(default_value = "memcached")]
    plugin: String,
    /// How to print
    #[arg(short, long)]
    output: Option<Output>,
    #[command(flatten)]
    host: HostOptions,
}

impl Args {
    /// Asks and prints.
    ///
    /// # Errors
    /// When no host answers, or it has no such plugin.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let history = super::runtime()?.block_on(self.host.get(&format!("/history/{}", self.plugin)))?;
        match self.output {
            Some(output) => output.print(&history)?,
            None => {
                stdout::print(table(&history).context("the host's answer has another shape; is it of this version?")?)?
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(history: &Value) -> Option<String> {
    let mut table = format!("  {:<20} {:<14} {:<10} {:<11} WHY\n", "AT", "DIGEST", "VERSION", "EVENT");
    let current = history.get("current").and_then(Value::as_str);
    let entries = history.get("entries")?.as_array()?;
    let decides = entries.iter().rposition(|entry| {
        entry.get("digest").and_then(Value::as_str) == current
            && entry.get("event").is_some_and(|event| event == "Published")
    });
    for (index, entry) in entries.iter().enumerate() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let at = entry.get("at")?.as_i64().and_then(events::at)?;
        let digest = short(text("digest"));
        let mark = if decides == Some(index) { "*" } else { " " };
        let (version, event, why) = (text("version"), text("event"), text("message"));
        let line = format!("{mark} {at:<20} {digest:<14} {version:<10} {event:<11} {why}");
        table.push_str(line.trim_end());
        table.push('\n');
    }
    Some(table)
}
