//! Measures the time of a swap stage by stage, from when the digest of the new revision is known to its first decision.
//! The benchmark of swaps reads `hotshoe_swap_stage_seconds` to name the stage that became slower. Pure except for the
//! clock and a lock.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use hotshoe_core::model::digest::Digest;

/// The stages of a swap, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The component is inspected, loaded from the cache or compiled, and called for its descriptor.
    Load,
    /// The test cases in the component are run.
    Cases,
    /// The watches of the new revision are opened and synced.
    Watches,
    /// The new revision is called for every parent.
    Survey,
    /// The active revision is replaced. No reconcile runs meanwhile.
    Publish,
    /// The time until the first decision of the new revision.
    Decision,
}

impl Stage {
    /// Returns the value of the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Cases => "cases",
            Self::Watches => "watches",
            Self::Survey => "survey",
            Self::Publish => "publish",
            Self::Decision => "decision",
        }
    }
}

/// The stopwatch of one swap.
#[derive(Clone, Debug)]
pub struct Stopwatch {
    began: Instant,
    lap: Instant,
    stages: Vec<(Stage, Duration)>,
}

impl Stopwatch {
    /// Starts the stopwatch, once the digest is known.
    pub fn start() -> Self {
        let now = Instant::now();
        Self { began: now, lap: now, stages: Vec::new() }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Records that a stage is over.
    pub fn over(&mut self, stage: Stage) {
        let now = Instant::now();
        self.stages.push((stage, now.duration_since(self.lap)));
        self.lap = now;
    }

    /// Returns the stages that are over, and how long each took.
    pub fn stages(&self) -> &[(Stage, Duration)] {
        &self.stages
    }
}

/// The revision that was published and has not decided yet, if there is one.
#[derive(Debug, Default)]
pub struct FirstDecision(Mutex<Option<(Digest, Stopwatch)>>);

impl FirstDecision {
    /// Notes that a revision was published whose first decision is due.
    pub fn await_first(&self, digest: Digest, stopwatch: Stopwatch) {
        *self.0.lock() = Some((digest, stopwatch));
    }

    /// Notes that a revision has decided. Returns its stopwatch if this was its first decision. A late decision of an
    /// older revision is ignored.
    pub fn decided(&self, digest: Digest) -> Option<Stopwatch> {
        let (_, mut stopwatch) = self.0.lock().take_if(|(new, _)| *new == digest)?;
        stopwatch.over(Stage::Decision);
        Some(stopwatch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_decision_of_the_new_revision_ends_a_swap() {
        let (old, new) = (Digest::of(b"old"), Digest::of(b"new"));
        let first_decision = FirstDecision::default();
        assert!(first_decision.decided(new).is_none(), "none was published");
        first_decision.await_first(new, Stopwatch::start());
        assert!(first_decision.decided(old).is_none(), "it began before the swap");
        assert_eq!(first_decision.decided(new).unwrap().stages().last().unwrap().0, Stage::Decision);
        assert!(first_decision.decided(new).is_none(), "the second is no news");
    }
}
