//! `hotshoe history`: which components were activated, refused, approved and rolled back.

use std::process::ExitCode;

use crate::cli::host_client::read;
use crate::cli::target::OnePlugin;
use crate::server::verb::AdminVerb;
use hotshoe_cluster::time;
use hotshoe_operator::api::history::PluginHistory;
use hotshoe_operator::rollout::history::{Entry, Event};

/// Show which components were activated, refused, approved and rolled back
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example: hotshoe history memcached -o json\n\nThe active one is marked with *; `hotshoe rollback --to` activates one that is KEPT."
)]
pub struct Args {
    #[command(flatten)]
    plugin: OnePlugin,
}

impl Args {
    /// Reads the history from the host, and prints it.
    ///
    /// # Errors
    /// When no host answers, or it has no such plugin.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let answer = super::runtime()?.block_on(self.plugin.get(AdminVerb::History))?;
        self.plugin.output.print(&answer, || Ok(table(&read(&answer)?)))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Lists what happened, the newest last. The active revision is marked.
pub(super) fn table(PluginHistory { current, kept, entries }: &PluginHistory) -> String {
    let kept_column = |text: &str| kept.as_ref().map(|_| format!("{text:<5} ")).unwrap_or_default();
    let head = kept_column("KEPT");
    let mut table = format!("  {:<20} {:<14} {:<10} {:<16} {head}WHY\n", "AT", "DIGEST", "VERSION", "EVENT");
    let is_activation = |entry: &Entry| Some(entry.digest) == *current && entry.event == Event::Activated;
    let active = entries.iter().rposition(is_activation);
    for (index, Entry { digest, version, at, event, message, .. }) in entries.iter().enumerate() {
        let at = time::at(*at).unwrap_or_default();
        let is_kept = kept.as_ref().is_some_and(|kept| kept.contains(digest));
        let kept = kept_column(if is_kept { "yes" } else { "" });
        let (digest, event) = (digest.to_string(), format!("{event:?}"));
        let mark = if active == Some(index) { "*" } else { " " };
        let row = format!("{mark} {at:<20} {digest:<14} {version:<10} {event:<16} {kept}{message}");
        table.push_str(row.trim_end());
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kept_revisions_are_marked_and_so_is_the_active_one() {
        let [a, b, c] = ["aa", "bb", "cc"].map(|pair| pair.repeat(32));
        let entry = |digest: &str| json!({ "digest": digest, "version": "1", "at": 0, "event": "Activated" });
        let history = json!({ "current": c, "kept": [b], "entries": [entry(&a), entry(&b), entry(&c)] });
        let table = table(&read(&history).unwrap());
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert!(rows[0].starts_with(' ') && rows[0].ends_with("Activated"), "{table}");
        assert!(rows[1].starts_with(' ') && rows[1].ends_with("Activated        yes"), "{table}");
        assert!(rows[2].starts_with('*') && rows[2].ends_with("Activated"), "{table}");
        let of_object = super::table(&read(&json!({ "current": c, "entries": [entry(&c)] })).unwrap());
        assert!(!of_object.contains("KEPT") && of_object.contains("EVENT            WHY\n*"), "{of_object}");
    }
}
