//! Prints the CRD of `Backup`, for `hotshoe crd`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotshoe_sdk::crd::print(&backup::crd::resource())
}
