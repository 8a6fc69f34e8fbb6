//! `hotshoe version`: prints the version.

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::terminal::Output;
use hotshoe_sandbox::CONTRACTS;

/// Print version, commit, contract and platform
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: hotshoe version -o json")]
pub struct Args {
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Serialize)]
struct Version<'a> {
    version: &'static str,
    commit: &'a str,
    contract: String,
    platform: String,
}

impl Args {
    /// Prints the version, the commit, the contract and the platform.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn run(self, commit: &str) -> anyhow::Result<ExitCode> {
        let version = Version {
            version: env!("CARGO_PKG_VERSION"),
            commit,
            contract: CONTRACTS.join(" and "),
            platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        };
        let Version { version: number, contract, platform, .. } = &version;
        let text = format!("hotshoe {number} (commit {commit}, contract {contract}, {platform})\n");
        self.output.print(&version, || Ok(text))?;
        Ok(ExitCode::SUCCESS)
    }
}
