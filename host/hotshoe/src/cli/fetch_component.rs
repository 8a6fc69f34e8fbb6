//! `hotshoe fetch-component`: the confined child process in which a host pulls a component.
//! The command is hidden because only a host calls it; for users there is `hotshoe pull`.

use std::io::{BufReader, stdin, stdout};
use std::process::ExitCode;

use crate::cli::attempt::Instead;
use hotshoe_registry::confinement::confine;
use hotshoe_registry::process;

/// Pull the component that standard input asks for, to standard output
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    attempt: Instead,
}

impl Args {
    /// Confines this process, and pulls the component.
    ///
    /// # Errors
    /// When the request cannot be read, or the answer cannot be written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = super::runtime()?;
        self.attempt.or(confine, || runtime.block_on(process::serve(BufReader::new(stdin()), stdout())))
    }
}
