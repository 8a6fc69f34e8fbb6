//! `hotshoe approve`: activates a component that requires approval, or was rolled back.

use std::process::ExitCode;

use crate::cli::host_client::read;
use crate::cli::reload;
use crate::cli::target::OnePlugin;
use crate::server::verb::AdminVerb;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_operator::api::status::PluginStatus;

/// Activate a component that requires approval, or was rolled back
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: hotshoe approve memcached\n\
                  \n\
                  `hotshoe status` shows what requires approval, and why. What is not granted needs plugin.yaml, \
                  not approval.\n\
                  Exit code 1 means that the component was not activated.")]
pub struct Args {
    #[command(flatten)]
    plugin: OnePlugin,
    /// The beginning of the component's digest; no other component is approved then
    digest: Option<DigestPrefix>,
}

impl Args {
    /// Approves the component and prints what is active then.
    ///
    /// # Errors
    /// When no host answers, nothing requires approval, or another component than the named one becomes active.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let status = super::runtime()?.block_on(self.plugin.ask(AdminVerb::Approve, self.digest.as_ref()))?;
        let code = reload::print(&status, self.plugin.output)?;
        if let Some(wanted) = &self.digest {
            ensure_active(wanted, &read(&status)?)?;
        }
        Ok(code)
    }
}

/// Fails if another component than the wanted one is active: the file may have changed before the approval.
fn ensure_active(wanted: &DigestPrefix, plugin: &PluginStatus) -> anyhow::Result<()> {
    // An approved component may be the canary first.
    let is_canary = plugin.canary.as_ref().is_some_and(|canary| canary.digest.starts_with(&wanted.hex()));
    let is_other = |digest: &Digest| plugin.refused.is_none() && !is_canary && !wanted.is_of(*digest);
    let Some(active) = plugin.digest.filter(is_other) else { return Ok(()) };
    anyhow::bail!("the file does not hold {} any more; {} decides with {active}", wanted.hex(), plugin.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_active_component_than_the_wanted_one_is_an_error() {
        let status = json!({
            "name": "memcached", "source": "m.wasm", "pluginFile": { "file": "plugin.yaml" }, "ready": true,
            "digest": "3f".repeat(32), "version": "1", "parents": 0, "queued": 0, "running": 0,
            "breaker": { "state": "closed", "strikes": 0 }, "watches": []
        });
        let plugin = read(&status).unwrap();
        assert!(ensure_active(&"sha256:3F3f".parse().unwrap(), &plugin).is_ok());
        let error = ensure_active(&"3f2a".parse().unwrap(), &plugin).unwrap_err().to_string();
        assert!(error.contains("the file does not hold 3f2a any more; memcached decides with 3f3f"), "{error}");
    }
}
