//! `hotshoe status`: how a running host is.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::Value;

use super::host_client::{HostOptions, short};
use super::stdout;

/// Show how a running host and its plugins are
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example: hotshoe status -o json\n\nExit code 1 means that the host is not ready, or not there."
)]
pub struct Args {
    #[command(flatten)]
    host: HostOptions,
    /// How to print
    #[arg(short, long)]
    output: Option<Output>,
}

/// A format for scripts.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Output {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

impl Output {
    /// Prints a value.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn print<T: serde::Serialize>(self, value: &T) -> anyhow::Result<()> {
        match self {
            Output::Json => stdout::line(serde_json::to_string_pretty(value)?),
            Output::Yaml => stdout::print(serde_saphyr::to_string(value)?),
        }
    }
}

impl Args {
    /// Asks and prints.
    ///
    /// # Errors
    /// When no host answers.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let status = super::runtime()?.block_on(self.host.get("/status"))?;
        match self.output {
            Some(output) => output.print(&status)?,
            None => {
                stdout::print(page(&status).context("the host's answer has another shape; is it of this version?")?)?
            }
        }
        let ready = status.get("ready").and_then(Value::as_bool) == Some(true);
        Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn page(status: &Value) -> Option<String> {
    let mut page = String::new();
    writeln!(page, "hotshoe {} on context {}", status.get("version")?.as_str()?, status.get("context")?.as_str()?)
        .ok()?;
    writeln!(
        page,
        "{:<16} {:<6} {:<10} {:<14} {:>7} {:>6}  NOTE",
        "PLUGIN", "READY", "VERSION", "DIGEST", "PARENTS", "QUEUED"
    )
    .ok()?;
    for plugin in status.get("plugins")?.as_array()? {
        plugin_lines(&mut page, plugin)?;
    }
    Some(page)
}

/// One plugin as a line, with what was refused or is awaited below it.
fn plugin_lines(page: &mut String, plugin: &Value) -> Option<()> {
    let text = |key: &str| plugin.get(key).and_then(Value::as_str);
    let digest = short(text("digest").unwrap_or("-"));
    writeln!(
        page,
        "{:<16} {:<6} {:<10} {:<14} {:>7} {:>6}  {}",
        text("name")?,
        if plugin.get("ready")?.as_bool()? { "yes" } else { "no" },
        text("version").unwrap_or("-"),
        digest,
        plugin.get("parents")?.to_string(),
        plugin.get("queued")?.to_string(),
        text("waiting").unwrap_or("")
    )
    .ok()?;
    let breaker = |key: &str| plugin.get("breaker")?.get(key);
    let state = breaker("state").and_then(Value::as_str).unwrap_or("closed");
    if state != "closed" {
        let left = breaker("seconds").map(|seconds| format!(" for another {seconds} s")).unwrap_or_default();
        writeln!(page, "  circuit {state}{left}: it failed too often to be called; a new component closes it").ok()?;
    }
    let of_file = |key: &str| plugin.get("pluginFile")?.get(key)?.as_str();
    if let Some(why) = of_file("refused") {
        writeln!(page, "  plugin.yaml not taken, what it said before holds: {why}").ok()?;
    }
    if let Some(lacking) = of_file("notGranted") {
        writeln!(page, "  less granted: {lacking}").ok()?;
    }
    let refused = plugin.get("refused").filter(|refused| !refused.is_null());
    if let Some(refused) = refused {
        let of = |key: &str| refused.get(key).and_then(Value::as_str).unwrap_or("-");
        let digest = short(of("digest"));
        writeln!(page, "  not taken: {digest}: {}: {}", of("reason"), of("message")).ok()?;
    }
    Some(())
}
