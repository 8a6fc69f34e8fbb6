//! The judgement on a revision: its probation, and a notification of the rollout when that reaches a verdict.

use tokio::sync::Notify;

use hotshoe_core::flow::probation::{Probation, RollbackVerdict};

/// The judgement on the active revision, or on a canary.
#[derive(Default)]
pub struct Judgement {
    /// Compares the revision with the one before it.
    pub probation: Probation,
    has_verdict: Notify,
}

impl Judgement {
    /// Records with the probation what the revision did, and wakes [`Self::rollback_verdict`] if that leads to a new verdict.
    pub fn update(&self, update: impl FnOnce(&Probation) -> bool) {
        if update(&self.probation) {
            self.has_verdict.notify_one();
        }
    }

    /// Waits until the revision should be rolled back, and returns the reason. Returns once for each revision.
    pub async fn rollback_verdict(&self) -> RollbackVerdict {
        loop {
            if let Some(verdict) = self.probation.take_verdict() {
                return verdict;
            }
            self.has_verdict.notified().await;
        }
    }
}
