//! The judgement on a revision: what its probation has found, and who waits for a verdict.

use tokio::sync::Notify;

use hotshoe_core::flow::probation::{Probation, RollbackVerdict};

/// The judgement on the active revision, or on a canary.
#[derive(Default)]
pub struct Judgement {
    /// Whether it does worse than the revision that it is compared with.
    pub probation: Probation,
    relapsed: Notify,
}

impl Judgement {
    /// Notes what the revision did, and wakes [`Self::relapsed`] where that came to a new verdict.
    pub fn note(&self, note: impl FnOnce(&Probation) -> bool) {
        if note(&self.probation) {
            self.relapsed.notify_one();
        }
    }

    /// Waits until the revision should be rolled back, and returns why; once for a revision.
    pub async fn relapsed(&self) -> RollbackVerdict {
        loop {
            if let Some(verdict) = self.probation.take_verdict() {
                return verdict;
            }
            self.relapsed.notified().await;
        }
    }
}
