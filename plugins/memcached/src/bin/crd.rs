//! Prints the CRD of `Memcached`, for `hotshoe crd`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hotshoe_sdk::crd::print(&memcached::crd::resource())
}
