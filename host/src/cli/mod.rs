//! The command line: one file a verb.

pub mod build;
pub mod compile;
mod folder;
pub mod test;

use std::process::ExitCode;

use clap::Parser;

/// A Kubernetes operator host whose operators' logic is a WebAssembly component
#[derive(Parser, Debug)]
#[command(name = "hotshoe", version)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    Build(build::Args),
    Test(test::Args),
    #[command(hide = true)]
    CompileComponent(compile::Args),
}

impl Cli {
    /// Does what was asked for.
    ///
    /// # Errors
    /// What went wrong, in words for the person at the keyboard.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.verb {
            Verb::Build(args) => args.run(),
            Verb::Test(args) => args.run().await,
            Verb::CompileComponent(args) => args.run(),
        }
    }
}
