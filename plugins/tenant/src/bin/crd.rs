//! Prints the CRD of `Tenant`, for `hotshoe crd`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotshoe_sdk::crd::print(&tenant::crd::resource())
}
