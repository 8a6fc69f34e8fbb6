//! The binary: parse, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser;
use hotshoe::cli::Cli;

/// musl's own allocator is slow, and every reply is a handful of allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
