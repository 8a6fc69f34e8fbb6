//! The binary: parse, dispatch, exit code.

use std::process::ExitCode;

use hotshoe::cli::{self, Cli};

/// musl's own allocator is slow, and every reply is a handful of allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A heap of a few megabytes would be rounded up to huge pages, and rest at twice its size. A
    // system that does not know the call has none.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    match Cli::read() {
        Ok(cli) => cli::exit_code(cli.run(option_env!("HOTSHOE_COMMIT").unwrap_or("unknown"))),
        Err(reported) => reported,
    }
}
