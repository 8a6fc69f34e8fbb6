//! The command line: one file a verb.

pub mod compile;

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
            Verb::CompileComponent(args) => args.run(),
        }
    }
}
