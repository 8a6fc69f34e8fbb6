//! The arguments of commands about one plugin of a running host, how the plugin is chosen, and how progress is reported
//! while a command waits.

use std::convert::Infallible;
use std::time::Duration;

use serde_json::Value;

use crate::cli::host_client::{HostOptions, read};
use crate::cli::terminal;
use crate::cli::terminal::Output;
use crate::server::verb::AdminVerb;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_core::model::names;
use hotshoe_core::model::sanitize::clean;
use hotshoe_operator::api::HostStatus;
use hotshoe_operator::api::status::{InProgress, PluginStatus};

/// How often progress is polled.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum length of a progress line, in bytes: it may contain names that the component chose.
const MAX_PROGRESS_BYTES: usize = 1_000;

/// The arguments that name one plugin of one host.
#[derive(clap::Args, Debug)]
pub(super) struct OnePlugin {
    /// Which plugin [default: the only one of the host]
    #[arg(value_parser = plugin_name)]
    plugin: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
    #[command(flatten)]
    host: HostOptions,
}

impl OnePlugin {
    /// Requests a document about the plugin.
    ///
    /// # Errors
    /// When no host answers, or it has no such plugin.
    pub(super) async fn get(&self, verb: AdminVerb) -> anyhow::Result<Value> {
        self.host.get(&verb.path(&self.chosen().await?, None)).await
    }

    /// Returns the plugin that is named, or the only one of the host.
    ///
    /// # Errors
    /// When no host answers, or it has several, which are listed.
    async fn chosen(&self) -> anyhow::Result<String> {
        if let Some(named) = &self.plugin {
            return Ok(named.clone());
        }
        only(self.all().await?.into_iter().map(|plugin| plugin.name).collect())
    }

    /// Returns the plugins of the host.
    ///
    /// # Errors
    /// When no host answers.
    pub(super) async fn all(&self) -> anyhow::Result<Vec<PluginStatus>> {
        let status: HostStatus = read(&self.host.get("/status").await?)?;
        Ok(status.plugins)
    }

    /// Sends a command about the plugin, and reports its progress on standard error while it waits.
    ///
    /// # Errors
    /// When no host answers, or it refuses.
    pub(super) async fn ask(&self, verb: AdminVerb, digest: Option<&DigestPrefix>) -> anyhow::Result<Value> {
        self.ask_of(&self.chosen().await?, verb, digest).await
    }

    /// Sends a command about a plugin of the host, and reports its progress as [`Self::ask`] does.
    ///
    /// # Errors
    /// When no host answers, or it refuses.
    pub(super) async fn ask_of(
        &self,
        plugin: &str,
        verb: AdminVerb,
        digest: Option<&DigestPrefix>,
    ) -> anyhow::Result<Value> {
        let path = verb.path(plugin, digest);
        tokio::select! {
            answer = self.host.post(&path) => answer,
            never = self.report_progress(plugin) => match never {},
        }
    }

    async fn report_progress(&self, plugin: &str) -> Infallible {
        let mut reported = None;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let news = self.in_progress(plugin).await.filter(|news| reported.as_ref() != Some(news));
            let Some(news) = news else { continue };
            terminal::note(progress(&news));
            reported = Some(news);
        }
    }

    async fn in_progress(&self, plugin: &str) -> Option<InProgress> {
        let status: HostStatus = read(&self.host.get("/status").await.ok()?).ok()?;
        status.plugins.into_iter().find(|running| running.name == plugin)?.in_progress
    }
}

/// Returns the only plugin of a host.
fn only(mut plugins: Vec<String>) -> anyhow::Result<String> {
    match (plugins.pop(), plugins.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => anyhow::bail!("the host runs no plugin"),
        (Some(last), false) => {
            anyhow::bail!("no plugin is named, and the host runs {} and {last}; name one", plugins.join(", "))
        }
    }
}

/// Checks the name of a plugin, which becomes a part of a path.
pub(super) fn plugin_name(text: &str) -> Result<String, &'static str> {
    let is_valid = names::is_label(text);
    is_valid
        .then(|| text.to_owned())
        .ok_or("a plugin is named as in its plugin.yaml: lower-case letters, digits and `-`")
}

/// Describes what the revision that is being activated waits for.
pub(super) fn progress(in_progress: &InProgress) -> String {
    format!("activating: {}: {}", in_progress.digest, clean(in_progress.waits_for.clone(), MAX_PROGRESS_BYTES))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn an_invalid_name_of_a_plugin_is_wrong_usage() {
        for verb in ["reload", "rollback", "approve", "history"] {
            let parsed = |plugin: &str| Cli::try_parse_from(["hotshoe", verb, plugin]).map(drop);
            assert!(parsed("memcached").is_ok(), "{verb}");
            for bad in ["../../etc", "", "a b", "a?b", "Memcached"] {
                assert_eq!(parsed(bad).unwrap_err().exit_code(), 2, "{verb} {bad:?}");
            }
        }
        assert_eq!(Cli::try_parse_from(["hotshoe", "shadow", "../etc", "a.wasm"]).unwrap_err().exit_code(), 2);
    }
}
