//! Times a swap, from the digest of another revision being known until its first decision, stage by stage. The
//! benchmark of swaps reads `hotshoe_swap_stage_seconds` to name the stage that grew. Pure but for the clock and a
//! lock.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use hotshoe_core::model::digest::Digest;

/// What a component goes through, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Looked at from outside, loaded from the cache or compiled, asked to describe itself.
    Load,
    /// Tried on the cases that it carries.
    Cases,
    /// Its watches are opened and synced.
    Watches,
    /// Asked about every parent.
    Survey,
    /// Replacing the active revision. No reconcile runs meanwhile.
    Publish,
    /// Until it has decided.
    Decision,
}

impl Stage {
    /// As the metric has it.
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

/// Times one swap.
#[derive(Clone, Debug)]
pub struct Stopwatch {
    began: Instant,
    lap: Instant,
    stages: Vec<(Stage, Duration)>,
}

impl Stopwatch {
    /// The digest is known now.
    pub fn start() -> Self {
        let now = Instant::now();
        Self { began: now, lap: now, stages: Vec::new() }
    }

    /// How long it took so far.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// A stage is over.
    pub fn over(&mut self, stage: Stage) {
        let now = Instant::now();
        self.stages.push((stage, now.duration_since(self.lap)));
        self.lap = now;
    }

    /// The stages that are over, and how long each took.
    pub fn stages(&self) -> &[(Stage, Duration)] {
        &self.stages
    }
}

/// The revision that was published and has not decided yet, if there is one.
#[derive(Debug, Default)]
pub struct FirstDecision(Mutex<Option<(Digest, Stopwatch)>>);

impl FirstDecision {
    /// A revision was published whose first decision is due.
    pub fn await_first(&self, digest: Digest, stopwatch: Stopwatch) {
        *self.0.lock() = Some((digest, stopwatch));
    }

    /// A revision has decided; its stopwatch if that was the first time. An older one, of a
    /// reconcile that began before, is not meant.
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
