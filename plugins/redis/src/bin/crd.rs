//! Prints the CRD of `Redis`, for `hotshoe crd`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotshoe_sdk::crd::print(&redis::crd::resource())
}
