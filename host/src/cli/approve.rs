//! `hotshoe approve`: lets a component decide that is held, or was taken back.

use std::process::ExitCode;

use super::one_plugin::{self, OnePlugin};
use super::reload;

/// Let a component decide that waits for it
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example: hotshoe approve memcached\n\n`hotshoe status` shows what waits, and why. A grant is no matter of approval: that is plugin.yaml's.\nExit code 1 means that it was not taken even so."
)]
pub struct Args {
    #[command(flatten)]
    plugin: OnePlugin,
    /// The beginning of its digest, to be sure which one is meant
    #[arg(value_parser = one_plugin::digest)]
    digest: Option<String>,
}

impl Args {
    /// Asks and prints.
    ///
    /// # Errors
    /// When no host answers, or nothing waits.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let status = super::runtime()?.block_on(self.plugin.wish("approve", self.digest.as_deref()))?;
        reload::print(&status, self.plugin.output)
    }
}
