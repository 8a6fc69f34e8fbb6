//! `hotshoe compile-component`: the confined child process in which a host compiles a component.
//! The command is hidden because only a host calls it.

use std::io::{stdin, stdout};
use std::process::ExitCode;

use crate::cli::attempt::Instead;
use hotshoe_platform::confinement::confine;
use hotshoe_sandbox::compile;

/// Compile the component on standard input to native code on standard output
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Processor time, seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Address space, bytes
    #[arg(long, default_value_t = 2 << 30)]
    bytes: u64,
    #[command(flatten)]
    attempt: Instead,
}

impl Args {
    /// Limits this process, and compiles the component.
    ///
    /// # Errors
    /// Where the component cannot be compiled.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Self { seconds, bytes, attempt } = self;
        attempt.or(confine, || compile::compile_stream(stdin().lock(), stdout().lock(), seconds, bytes))
    }
}
