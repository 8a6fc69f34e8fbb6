//! `hotshoe verify-image`: the confined child process in which a host verifies who signed an image.
//! The command is hidden because only a host calls it; for users there is `hotshoe pull --verify-key`.

use std::io::{stdin, stdout};
use std::process::ExitCode;

use crate::cli::attempt::Instead;
use hotshoe_platform::confinement::confine;
use hotshoe_registry::verification;

/// Verify the signature on standard input
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    attempt: Instead,
}

impl Args {
    /// Limits and confines this process, and verifies the signature.
    ///
    /// # Errors
    /// When the question cannot be read, or the answer cannot be written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.attempt.or(confine, || verification::serve(stdin().lock(), stdout().lock()))
    }
}
