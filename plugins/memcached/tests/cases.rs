//! Every case under `cases/`, answered by the native build. The same files are run under the
//! sandbox, so a difference between the two shows here first.
#![allow(missing_docs, reason = "tests")]

#[test]
fn every_case_is_answered_as_written() {
    hotshoe_sdk::testing::run_cases::<memcached::Memcached>(env!("CARGO_MANIFEST_DIR"));
}
