//! The binary: parse, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser;
use hotshoe::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // Huge pages would double what an idle host keeps resident. Where the kernel knows no such
    // switch, it has none to give either.
    let _ = nix::sys::prctl::set_thp_disable(true);
    match Cli::parse().run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
