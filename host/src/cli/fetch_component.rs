//! `hotshoe fetch-component`: what the host calls to pull a component outside of itself.
//! Hidden, for it is of no use to a person, who has `hotshoe pull`.

use std::io::{stdin, stdout};
use std::process::ExitCode;

use crate::cli::attempt::Attempt;
use crate::registry::confinement::confine;
use crate::registry::{authorities, process};

/// Pull the component that standard input asks for, to standard output
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Pull nothing; try this after the process has confined itself, which must fail
    #[arg(long, value_enum)]
    attempt: Option<Attempt>,
}

impl Args {
    /// Pulls under limits that it lays on itself.
    ///
    /// # Errors
    /// When what is asked cannot be read, or the answer cannot be written.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.attempt {
            Some(attempt) => attempt.run(confine)?,
            None => {
                authorities::ensure()?;
                process::serve(stdin().lock(), stdout().lock()).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
