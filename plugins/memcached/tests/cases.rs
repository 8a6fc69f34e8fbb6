//! Every case under `cases/`, answered by the native build. The same files are run under the
//! sandbox, so a difference between the two shows here first.
#![allow(missing_docs, reason = "tests")]

use memcached::Memcached;

#[test]
fn every_case_is_answered_as_written() {
    let folder = env!("CARGO_MANIFEST_DIR");
    hotshoe_sdk::testing::run_cases::<Memcached>(folder);
    hotshoe_sdk::testing::run_validation_cases::<Memcached>(folder);
    hotshoe_sdk::testing::run_defaulting_cases::<Memcached>(folder);
}
