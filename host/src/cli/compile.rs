//! `hotshoe compile-component`: what the host calls to compile a component outside of itself.
//! Hidden, for it is of no use to a person.

use std::io::{stdin, stdout};
use std::process::ExitCode;

use crate::sandbox::compile;

/// Compile the component on standard input to native code on standard output
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Processor time, seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Address space, bytes
    #[arg(long, default_value_t = 2 << 30)]
    bytes: u64,
}

impl Args {
    /// Compiles under limits that it lays on itself.
    ///
    /// # Errors
    /// Where the component cannot be compiled.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        compile::compile_stream(stdin().lock(), stdout().lock(), self.seconds, self.bytes)?;
        Ok(ExitCode::SUCCESS)
    }
}
