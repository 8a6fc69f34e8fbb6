//! `hotshoe fetch-component`: what the host calls to pull a component outside of itself.
//! Hidden, for it is of no use to a person, who has `hotshoe pull`.

use std::io::{stdin, stdout};
use std::process::ExitCode;

use crate::registry::{authorities, process};

/// Pull the component that standard input asks for, to standard output
#[derive(clap::Args, Debug)]
pub struct Args {}

impl Args {
    /// Pulls under limits that it lays on itself.
    ///
    /// # Errors
    /// When what is asked cannot be read, or the answer cannot be written.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        authorities::ensure()?;
        process::serve(stdin().lock(), stdout().lock()).await?;
        Ok(ExitCode::SUCCESS)
    }
}
