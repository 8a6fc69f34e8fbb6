//! The binary: parse, dispatch, exit code.

use std::process::ExitCode;

use hotshoe::cli::kubectl::{self, KubectlCli};
use hotshoe::cli::{self, Cli};

/// The allocator of musl is slow, and every reply of the API server needs several allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // With huge pages, a heap of a few megabytes would be rounded up to twice its size. A system that does not
    // know the call has no such pages.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    if kubectl::is_plugin_of_kubectl(std::env::args_os().next().as_deref()) {
        return cli::read::<KubectlCli>().map_or_else(|reported| reported, |kubectl| cli::exit_code(kubectl.run()));
    }
    match Cli::read() {
        Ok(cli) => cli::exit_code(cli.run(option_env!("HOTSHOE_COMMIT").unwrap_or("unknown"))),
        Err(reported) => reported,
    }
}
