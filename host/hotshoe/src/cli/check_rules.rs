//! `hotshoe check-rules`: the confined child process in which `hotshoe test` evaluates the rules of a CRD.
//! The command is hidden because only that command calls it.

use std::process::ExitCode;

use crate::cli::schema::apart;

/// Evaluate the rules on standard input about the object with them
#[derive(clap::Args, Debug)]
pub struct Args {}

impl Args {
    /// Limits and confines this process, and evaluates the rules.
    ///
    /// # Errors
    /// When the question cannot be read, or the answer cannot be written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        apart::serve()?;
        Ok(ExitCode::SUCCESS)
    }
}
