//! The command line: one module for each verb.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when the reader of the output has gone; terminal.rs does not"
)]

mod accept;
pub mod admit;
mod api_server;
pub mod approve;
mod as_stored;
mod attempt;
pub mod build;
pub mod check_rules;
mod closed_loop;
mod cluster_test;
pub mod compile;
mod confinement;
pub mod crd;
pub mod dev;
pub mod doctor;
mod documents;
pub mod explain;
pub mod fetch_component;
mod fresh;
pub mod grants;
pub mod history;
pub mod host_client;
mod idempotence;
pub mod inspect;
pub mod kubectl;
pub mod man_pages;
pub mod manifests;
pub mod new;
pub mod plan;
pub mod project;
pub mod pull;
pub mod push;
pub mod rbac;
mod registry_access;
pub mod reload;
pub mod report;
mod results;
pub mod rollback;
mod round_trip;
pub mod run;
pub mod runtime;
mod samples;
mod schema;
pub mod shadow;
pub mod simulate;
mod sources;
pub mod status;
pub mod storage_migrate;
pub mod target;
pub mod terminal;
pub mod test;
mod trial;
pub mod verify_image;
pub mod version;
pub mod webhooks;
mod webhooks_url;
mod wit;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A Kubernetes operator host whose operators' logic is a sandboxed WebAssembly component.
#[derive(Parser, Debug)]
#[command(name = "hotshoe", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure (the reason is on standard error), 2 wrong usage, \
                          141 the reader of the output has gone; `plan` and `shadow` have more, see their --help.";

#[derive(Subcommand, Debug)]
enum Verb {
    Run(Box<run::Args>),
    New(Box<new::Args>),
    Build(build::Args),
    Dev(dev::Args),
    Test(test::Args),
    Simulate(simulate::Args),
    Plan(plan::Args),
    Push(push::Args),
    Pull(pull::Args),
    Crd(crd::Args),
    Grants(grants::Args),
    Rbac(rbac::Args),
    Manifests(manifests::Args),
    Webhooks(webhooks::Args),
    StorageMigrate(storage_migrate::Args),
    Reload(reload::Args),
    Rollback(rollback::Args),
    Approve(approve::Args),
    History(history::Args),
    Shadow(shadow::Args),
    Status(status::Args),
    Explain(explain::Args),
    Report(report::Args),
    Doctor(doctor::Args),
    Version(version::Args),
    /// Print a completion script for a shell
    #[command(after_help = "Example: hotshoe completion bash > /etc/bash_completion.d/hotshoe")]
    Completion {
        /// For which shell
        shell: clap_complete::Shell,
    },
    #[command(hide = true)]
    ManPages(man_pages::Args),
    #[command(hide = true)]
    CheckRules(check_rules::Args),
    #[command(hide = true)]
    CompileComponent(compile::Args),
    #[command(hide = true)]
    FetchComponent(fetch_component::Args),
    #[command(hide = true)]
    VerifyImage(verify_image::Args),
}

impl Cli {
    /// Reads the command line. If it asks for help or is wrong, prints the help or the error.
    ///
    /// # Errors
    /// The exit code, if there is no verb to run.
    pub fn read() -> Result<Self, ExitCode> {
        read()
    }

    /// Runs the verb. The binary was built from this commit.
    ///
    /// # Errors
    /// What happened, to what, and what to do next.
    pub fn run(self, commit: &str) -> anyhow::Result<ExitCode> {
        terminal::quietly(self.begin(commit))
    }

    fn begin(self, commit: &str) -> anyhow::Result<ExitCode> {
        match self.verb {
            Verb::Run(args) => args.run(),
            Verb::New(args) => args.run(),
            Verb::Build(args) => args.run(),
            Verb::Dev(args) => runtime()?.block_on(args.run()),
            Verb::Test(args) => runtime()?.block_on(args.run()),
            Verb::Simulate(args) => runtime()?.block_on(args.run()),
            Verb::Plan(args) => runtime()?.block_on(args.run()),
            Verb::Push(args) => runtime()?.block_on(args.run()),
            Verb::Pull(args) => runtime()?.block_on(args.run()),
            Verb::Crd(args) => args.run(),
            Verb::Grants(args) => runtime()?.block_on(args.run()),
            Verb::Rbac(args) => runtime()?.block_on(args.run()),
            Verb::Manifests(args) => runtime()?.block_on(args.run()),
            Verb::Webhooks(args) => runtime()?.block_on(args.run()),
            Verb::StorageMigrate(args) => runtime()?.block_on(args.run()),
            Verb::Reload(args) => args.run(),
            Verb::Rollback(args) => args.run(),
            Verb::Approve(args) => args.run(),
            Verb::History(args) => args.run(),
            Verb::Shadow(args) => args.run(),
            Verb::Status(args) => args.run(),
            Verb::Explain(args) => args.run(),
            Verb::Report(args) => args.run(),
            Verb::Doctor(args) => args.run(),
            Verb::Version(args) => args.run(commit),
            Verb::Completion { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut public_commands(), "hotshoe", &mut script);
                terminal::print(String::from_utf8_lossy(&script))?;
                Ok(ExitCode::SUCCESS)
            }
            Verb::ManPages(args) => args.run(Cli::command()),
            Verb::CheckRules(args) => args.run(),
            Verb::CompileComponent(args) => args.run(),
            Verb::FetchComponent(args) => args.run(),
            Verb::VerifyImage(args) => args.run(),
        }
    }
}

/// Reads a command line. If it asks for help or is wrong, prints the help or the error.
///
/// # Errors
/// The exit code, if there is nothing to run.
pub fn read<C: Parser>() -> Result<C, ExitCode> {
    C::try_parse().map_err(|error| {
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        match u8::try_from(error.exit_code()) {
            Ok(0) => exit_code(terminal::quietly(terminal::written(printed).map(|()| ExitCode::SUCCESS))),
            code => code.map_or(ExitCode::FAILURE, ExitCode::from),
        }
    })
}

/// Returns the commands without the hidden ones, which the completion would offer otherwise.
fn public_commands() -> clap::Command {
    let all = Cli::command();
    let verbs: Vec<_> = all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    clap::Command::new("hotshoe").version(env!("CARGO_PKG_VERSION")).subcommands(verbs)
}

/// Returns the exit code of a command, and prints its error if it has failed.
pub fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        terminal::note(format_args!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

/// Returns a runtime of one thread. One is enough: plugins are called on threads of their own.
///
/// # Errors
/// When the operating system refuses.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    const MAX_EXAMPLE_COLUMNS: usize = 84;

    /// clap wraps each line at the width of the terminal. A line that was broken by hand would be broken twice.
    #[test]
    fn examples_fit_into_a_narrow_terminal_and_prose_is_not_broken_by_hand() {
        let commands = [Cli::command(), kubectl::KubectlCli::command()];
        let commands = commands.iter().flat_map(|command| command.get_subcommands().chain([command]));
        for command in commands {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for paragraph in help.split("\n\n") {
                let is_example = paragraph.starts_with("Example");
                for (number, line) in paragraph.lines().enumerate() {
                    let name = command.get_name();
                    assert!(number == 0 || is_example || line.starts_with("Exit code"), "{name}: {line}");
                    assert!(!is_example || line.len() <= MAX_EXAMPLE_COLUMNS, "{name}: {line}");
                }
            }
        }
    }
}
