//! `hotshoe fetch-component`: the confined child process in which a host pulls a component.
//! The command is hidden because only a host calls it; for users there is `hotshoe pull`.

use std::io::{BufReader, stdin, stdout};
use std::process::ExitCode;

use crate::cli::attempt::Attempt;
use crate::registry::confinement::confine;
use crate::registry::process;

/// Pull the component that standard input asks for, to standard output
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Pull nothing; try this after the process has confined itself, which must fail
    #[arg(long, value_enum)]
    attempt: Option<Attempt>,
}

impl Args {
    /// Confines this process, and pulls the component.
    ///
    /// # Errors
    /// When the request cannot be read, or the answer cannot be written.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.attempt {
            Some(attempt) => attempt.run(confine)?,
            None => process::serve(BufReader::new(stdin()), stdout()).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
