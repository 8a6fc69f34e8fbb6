//! Prints the CRD of `NginxServer`, for `hotshoe crd`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotshoe_sdk::crd::print(&nginx::crd::resource())
}
