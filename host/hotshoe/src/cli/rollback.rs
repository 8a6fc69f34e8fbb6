//! `hotshoe rollback`: has a running host activate an earlier component.

use std::process::ExitCode;

use crate::cli::host_client::read;
use crate::cli::reload;
use crate::cli::target::OnePlugin;
use crate::server::verb::AdminVerb;
use hotshoe_core::model::digest_prefix::DigestPrefix;

/// Activate an earlier component again
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
                  hotshoe rollback memcached                  # the one that was active before\n  \
                  hotshoe rollback memcached --to 3f2a91c0    # one of `hotshoe history`\n\
                  \n\
                  It needs neither network nor compiler. The component that was active is not activated again until \
                  `hotshoe approve`.")]
pub struct Args {
    #[command(flatten)]
    plugin: OnePlugin,
    /// The beginning of the component's digest [default: the one that was active before]
    #[arg(long, value_name = "DIGEST")]
    to: Option<DigestPrefix>,
}

impl Args {
    /// Sends the command, and prints which component is active now.
    ///
    /// # Errors
    /// When no host answers, or there is no earlier component.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let status = super::runtime()?.block_on(self.plugin.ask(AdminVerb::Rollback, self.to.as_ref()))?;
        self.plugin.output.print(&status, || Ok(reload::decides_with(&read(&status)?)))?;
        Ok(ExitCode::SUCCESS)
    }
}
