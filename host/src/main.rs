//! The binary: parse, dispatch, exit code.

use std::process::ExitCode;

use hotshoe::cli::kubectl::{self, KubectlCli};
use hotshoe::cli::{self, Cli};

/// musl's own allocator is slow, and every reply is a handful of allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A heap of a few megabytes would be rounded up to huge pages, and rest at twice its size. A
    // system that does not know the call has none.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    if kubectl::is_plugin_of_kubectl(std::env::args_os().next().as_deref()) {
        return cli::read::<KubectlCli>().map_or_else(|reported| reported, |kubectl| cli::exit_code(kubectl.run()));
    }
    match Cli::read() {
        Ok(cli) => cli::exit_code(cli.run(option_env!("HOTSHOE_COMMIT").unwrap_or("unknown"))),
        Err(reported) => reported,
    }
}
