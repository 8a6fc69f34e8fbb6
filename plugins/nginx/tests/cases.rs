//! Every case under `cases/`, answered by the native build.
#![allow(missing_docs, reason = "tests")]

#[test]
fn every_case_is_answered_as_written() {
    let folder = env!("CARGO_MANIFEST_DIR");
    hotshoe_sdk::testing::run_cases::<nginx::Nginx>(folder);
    hotshoe_sdk::testing::run_validation_cases::<nginx::Nginx>(folder);
    hotshoe_sdk::testing::run_defaulting_cases::<nginx::Nginx>(folder);
}
