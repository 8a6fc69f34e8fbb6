//! Tests that change the whole control plane. They have one to themselves, and run one after the other.

mod conversion;
mod in_cluster;
mod outage;
mod rbac;
mod restored;
mod secure_metrics;
mod users;

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use hotshoe_tests::ControlPlane;
use hotshoe_tests::wait::run_at_once;

/// Runs a test while no other test of this folder runs, with the accounts as they are deployed.
pub(crate) fn run_alone<T>(test: impl Future<Output = T>) -> T {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    run_at_once(async {
        ControlPlane::alone().await.install_accounts().await;
        test.await
    })
}
