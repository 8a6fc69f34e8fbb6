//! `hotshoe approve`: activates a component that requires approval, or was rolled back.

use std::process::ExitCode;

use crate::cli::host_client::read;
use crate::cli::reload;
use crate::cli::target;
use crate::cli::target::OnePlugin;
use crate::rollout::status::PluginStatus;
use crate::server::verb::AdminVerb;
use hotshoe_core::model::digest::Digest;

/// Activate a component that requires approval, or was rolled back
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example: hotshoe approve memcached\n\n`hotshoe status` shows what requires approval, and why. What is not granted needs plugin.yaml, not approval.\nExit code 1 means that the component was not activated."
)]
pub struct Args {
    #[command(flatten)]
    plugin: OnePlugin,
    /// The beginning of its digest, to be sure which one is meant
    #[arg(value_parser = target::digest)]
    digest: Option<String>,
}

impl Args {
    /// Asks and prints.
    ///
    /// # Errors
    /// When no host answers, nothing requires approval, or another component is active than the one that is meant.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let status = super::runtime()?.block_on(self.plugin.ask(AdminVerb::Approve, self.digest.as_deref()))?;
        let code = reload::print(&status, self.plugin.output)?;
        if let Some(wanted) = &self.digest {
            is_meant(wanted, &read(&status)?)?;
        }
        Ok(code)
    }
}

/// Fails if another component is active than the one that is meant: the file may hold another by now.
fn is_meant(wanted: &str, plugin: &PluginStatus) -> anyhow::Result<()> {
    let wanted = wanted.strip_prefix("sha256:").unwrap_or(wanted).to_ascii_lowercase();
    let is_it = |digest: &Digest| digest.begins(&wanted);
    // What was approved may be the canary first.
    let is_canary = plugin.canary.as_ref().is_some_and(|canary| is_it(&canary.digest));
    let Some(deciding) = plugin.digest.filter(|digest| plugin.refused.is_none() && !is_canary && !is_it(digest)) else {
        return Ok(());
    };
    anyhow::bail!("{wanted} is not what the file holds any more; {} decides with {deciding}", plugin.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_component_than_the_one_that_is_meant_is_an_error() {
        let status = json!({
            "name": "memcached", "source": "m.wasm", "pluginFile": { "file": "plugin.yaml" }, "ready": true,
            "digest": "3f".repeat(32), "version": "1", "parents": 0, "queued": 0, "running": 0,
            "breaker": { "state": "closed", "strikes": 0 }, "watches": []
        });
        let plugin = read(&status).unwrap();
        assert!(is_meant("sha256:3F3f", &plugin).is_ok());
        let error = is_meant("3f2a", &plugin).unwrap_err().to_string();
        assert!(error.contains("3f2a is not what the file holds any more; memcached decides with 3f3f"), "{error}");
    }
}
