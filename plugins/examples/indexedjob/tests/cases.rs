//! Every case under `cases/`, answered by the native build.
#![allow(missing_docs, reason = "tests")]

#[test]
fn every_case_is_answered_as_written() {
    hotshoe_sdk::testing::run_cases::<indexedjob::IndexedJobs>(env!("CARGO_MANIFEST_DIR"));
}
