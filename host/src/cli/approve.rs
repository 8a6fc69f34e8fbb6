//! `hotshoe approve`: lets a component decide that is held, or was taken back.

use std::process::ExitCode;

use super::host_client::{HostOptions, read};
use super::reload;

/// Let a component decide that waits for it
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example: hotshoe approve memcached\n\n`hotshoe status` shows what waits, and why. A grant is no matter of approval: that is plugin.yaml's.\nExit code 1 means that it was not taken even so."
)]
pub struct Args {
    /// Which plugin
    #[arg(default_value = "memcached")]
    plugin: String,
    /// The beginning of its digest, to be sure which one is meant
    digest: Option<String>,
    #[command(flatten)]
    host: HostOptions,
}

impl Args {
    /// Asks and prints.
    ///
    /// # Errors
    /// When no host answers, or nothing waits.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let path = reload::path("approve", &self.plugin, self.digest.as_deref());
        let status = super::runtime()?.block_on(self.host.post(&path))?;
        reload::print(&read(&status)?)
    }
}
