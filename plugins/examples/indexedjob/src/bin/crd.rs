//! Prints the CRD of `IndexedJob`, for `hotshoe crd`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotshoe_sdk::crd::print(&indexedjob::crd::resource())
}
