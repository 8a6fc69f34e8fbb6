//! The health of a revision: what its passes have shown, for two readers. The circuit breaker says whether to call it,
//! and the probation whether to roll it back.

use std::time::Instant;

use tokio::sync::Notify;

use hotshoe_core::flow::circuit_breaker::{Breaker, Scope, ScopedTransition, Trial};
use hotshoe_core::flow::probation::{Probation, RollbackVerdict};
use hotshoe_core::flow::signal;
use hotshoe_core::flow::signal::Signal;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Key;

/// The health of the active revision, or of a canary.
#[derive(Default)]
pub struct Health {
    /// Whether the revision may be called.
    pub breaker: Breaker,
    /// Compares the revision with the one before it, or a canary with the active revision.
    pub probation: Probation,
    has_verdict: Notify,
}

impl Health {
    /// Records what a pass over a parent showed about this revision, and ends the call's trial. Wakes
    /// [`Self::rollback_verdict`] if that leads to a verdict. Returns how it changed the circuits.
    pub fn record(
        &self,
        digest: Digest,
        parent: &Key,
        trial: Option<Trial<'_>>,
        signals: &[Signal],
    ) -> ScopedTransition {
        let now = Instant::now();
        self.probation.record(now, digest, parent, signals);
        let turned = trial.map_or(ScopedTransition::No, |trial| trial.end(signal::strikes(signals), now));
        if let ScopedTransition::Open(Scope::Plugin, _) = turned {
            self.probation.circuit_opened(now, digest);
        }
        if self.probation.has_verdict() {
            self.has_verdict.notify_one();
        }
        turned
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

#[cfg(test)]
mod tests {
    use hotshoe_core::flow::circuit::ParentRecord;
    use hotshoe_core::flow::probation::ProbationStart;

    use super::*;

    fn failed() -> Signal {
        Signal::Failed("Trapped".to_owned())
    }

    #[tokio::test]
    async fn a_revision_that_keeps_failing_is_neither_called_nor_kept() {
        let (health, digest, cache) = (Health::default(), Digest::of(b"new"), Key::new(Some("shop"), "cache"));
        health.probation.begin(Instant::now(), digest, ProbationStart::OnProbation);
        let mut turned = ScopedTransition::No;
        while turned == ScopedTransition::No {
            let trial = health.breaker.admit(Instant::now(), &cache, ParentRecord::default()).unwrap();
            turned = health.record(digest, &cache, Some(trial), &[failed()]);
        }
        assert!(matches!(turned, ScopedTransition::Open(Scope::Plugin, _)), "{turned:?}");
        assert_eq!(health.rollback_verdict().await.failed_on, [cache]);
    }

    #[test]
    fn a_pass_that_shows_nothing_about_the_revision_only_ends_its_trial() {
        let (health, digest, cache) = (Health::default(), Digest::of(b"new"), Key::new(Some("shop"), "cache"));
        health.probation.begin(Instant::now(), digest, ProbationStart::OnProbation);
        for _ in 0..100 {
            let trial = health.breaker.admit(Instant::now(), &cache, ParentRecord::default()).unwrap();
            assert_eq!(health.record(digest, &cache, Some(trial), &[]), ScopedTransition::No);
        }
        assert!(!health.probation.has_verdict());
    }
}
