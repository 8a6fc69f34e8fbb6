//! `hotshoe reload`: asks a running host to look at a component now.

use std::process::ExitCode;

use serde_json::Value;

use super::host_client::HostOptions;

/// Have a running host take the component that is there now
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example: hotshoe build plugins/memcached && hotshoe reload memcached\n\nThe host notices a new component by itself within a second; this says what came of it.\nExit code 1 means that it was not taken, and the last good one goes on."
)]
pub struct Args {
    /// Which plugin
    #[arg(default_value = "memcached")]
    plugin: String,
    #[command(flatten)]
    host: HostOptions,
}

impl Args {
    /// Asks and prints.
    ///
    /// # Errors
    /// When no host answers, or it has no such plugin.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let status = super::runtime()?.block_on(self.host.post(&format!("/reload/{}", self.plugin)))?;
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
        let digest: String = text(&status, "digest").chars().take(12).collect();
        match status.get("refused").filter(|refused| !refused.is_null()) {
            Some(refused) => {
                eprintln!("not taken: {}: {}", text(refused, "reason"), text(refused, "message"));
                eprintln!("{} goes on with {digest}", self.plugin);
                Ok(ExitCode::FAILURE)
            }
            None => {
                println!("{} decides with {digest} (version {})", self.plugin, text(&status, "version"));
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
