//! The command line: one file a verb.

#![warn(clippy::print_stdout, reason = "it panics where nobody reads any more; there is stdout.rs")]

pub mod approve;
mod asked;
pub mod build;
mod colour;
pub mod compile;
mod folder;
pub mod grants;
pub mod history;
pub mod host_client;
mod judged;
mod one_plugin;
pub mod rbac;
pub mod reload;
pub mod rollback;
pub mod run;
pub mod shadow;
pub mod status;
mod stdout;
pub mod test;
pub mod version;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A Kubernetes operator host whose operators' logic is a sandboxed WebAssembly component.
#[derive(Parser, Debug)]
#[command(name = "hotshoe", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure (the reason is on standard error), 2 wrong usage, 141 nobody reads the output any more; `shadow` has two more, see its --help.";

#[derive(Subcommand, Debug)]
enum Verb {
    Run(run::Args),
    Build(build::Args),
    Test(test::Args),
    Grants(grants::Args),
    Rbac(rbac::Args),
    Reload(reload::Args),
    Rollback(rollback::Args),
    Approve(approve::Args),
    History(history::Args),
    Shadow(shadow::Args),
    Status(status::Args),
    Version(version::Args),
    /// Print a completion script for a shell
    #[command(after_help = "Example: hotshoe completion bash > /etc/bash_completion.d/hotshoe")]
    Completion {
        /// For which shell
        shell: clap_complete::Shell,
    },
    #[command(hide = true)]
    CompileComponent(compile::Args),
}

impl Cli {
    /// Runs the verb of a binary that was built from this commit.
    ///
    /// # Errors
    /// What happened, to what, and what to do next.
    pub fn run(self, commit: &str) -> anyhow::Result<ExitCode> {
        stdout::quietly(self.begin(commit))
    }

    fn begin(self, commit: &str) -> anyhow::Result<ExitCode> {
        match self.verb {
            Verb::Run(args) => args.run(),
            Verb::Build(args) => args.run(),
            Verb::Test(args) => runtime()?.block_on(args.run()),
            Verb::Grants(args) => runtime()?.block_on(args.run()),
            Verb::Rbac(args) => runtime()?.block_on(args.run()),
            Verb::Reload(args) => args.run(),
            Verb::Rollback(args) => args.run(),
            Verb::Approve(args) => args.run(),
            Verb::History(args) => args.run(),
            Verb::Shadow(args) => args.run(),
            Verb::Status(args) => args.run(),
            Verb::Version(args) => args.run(commit),
            Verb::Completion { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "hotshoe", &mut script);
                stdout::print(String::from_utf8_lossy(&script))?;
                Ok(ExitCode::SUCCESS)
            }
            Verb::CompileComponent(args) => args.run(),
        }
    }
}

/// A runtime of one thread: plugins are called on threads of their own, so nothing here computes.
///
/// # Errors
/// When the operating system refuses.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
