//! What is remembered of a parent between two passes. Losing it costs a decision, never correctness.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::reconcile::error::Error;
use crate::reconcile::refused_writes::Refusals;
use hotshoe_core::diff::Unsettled;
use hotshoe_core::diff::changed_fields::DesiredBefore;
use hotshoe_core::flow::contention::Contention;
use hotshoe_core::flow::flapping::Churn;
use hotshoe_core::flow::tries::Tries;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::limits::EVENTS;
use hotshoe_core::model::object::{Key, Object};

/// Clean-up that lasts longer than this is reported.
const LATE: Duration = Duration::from_secs(30);
/// The last Events of a parent that are remembered, so that only a timer emits them again: as many as one decision may
/// have.
const REMEMBERED: usize = EVENTS as usize;
/// For this time the decisions that follow from our own writes are shown the `now` of the first.
const SAME_NOW: Duration = Duration::from_secs(60);

/// What is remembered of one parent. Its fingerprints are explained in
/// [`fingerprint`](crate::reconcile::fingerprint).
#[derive(Clone, Debug, Default)]
pub struct ParentState {
    /// The parent's uid: a new object of the same name starts with nothing remembered.
    pub uid: Arc<str>,
    /// The term of the permit under which it was remembered: in the next, another host may have worked meanwhile.
    pub term: u64,
    /// Fingerprint of an observation after which nothing remained to be done.
    pub settled: Option<u64>,
    /// Fingerprint of desired and observed children that were found to agree.
    pub in_sync: Option<u64>,
    /// The last decisions, and how often the plugin flapped.
    pub churn: Churn,
    /// When the requeue of the last decision is due.
    pub timer: Option<Instant>,
    /// The `now` of the last decision, while our own writes cause the next one.
    pub shown_now: Option<u64>,
    /// Refused writes.
    pub refused: Refusals,
    /// Children that another writer keeps reverting.
    pub contention: Contention,
    /// Fingerprints of the desired fields of each child.
    pub desired: Arc<DesiredBefore>,
    /// Children whose last apply did not own all fields that it set.
    pub unsettled: Vec<(Kind, Key, Unsettled)>,
    /// Whether the last pass skipped the status because the result of its child writes was not observed yet.
    pub silent: bool,
    /// Failures in a row, those too that pass by themselves.
    pub failures: u32,
    /// Those that do not, since the parent or its plugin changed.
    pub tries: Tries,
    /// Passes in a row that met a conflict, an overload or no answer.
    pub stalls: u32,
    /// After a failure: not decided before this time, unless this fingerprint changes.
    pub backoff: Option<(Instant, u64)>,
    /// Whether the last decision or failure is based on objects that were fetched for it.
    pub fetched: bool,
    /// When clean-up began.
    pub cleaning_up: Option<Instant>,
    /// Its place in the line of parents that are tried while the circuit is open.
    pub place: Option<std::time::Instant>,
    /// Fingerprints of the last Events and the host's condition.
    pub said: Vec<u64>,
    /// The revision whose decision its condition names, a canary, by that revision's `basis`.
    pub names_canary: Option<u64>,
    /// What a parent that is being deleted waits for.
    pub awaited: Option<Box<str>>,
}

impl ParentState {
    /// Creates the state of a parent of which nothing is remembered.
    pub fn new(parent: &Object) -> Self {
        Self { uid: parent.uid.clone(), ..Self::default() }
    }

    /// Returns whether the requeue of the last decision is due.
    pub fn is_due(&self) -> bool {
        self.timer.is_some_and(|timer| timer <= Instant::now())
    }

    /// Sets the timer that a decision asks for, in place of the one before.
    pub fn set_timer(&mut self, after: Option<Duration>) {
        self.timer = after.map(|after| Instant::now() + after);
    }

    /// Returns the time until the timer is due.
    pub fn until_timer(&self) -> Option<Duration> {
        self.timer.map(|timer| timer.saturating_duration_since(Instant::now()))
    }

    /// Returns the time until the timer, a refused write or a delayed repair is due, whichever is first.
    pub fn next_due(&self) -> Option<Duration> {
        let contended = self.contention.next_due(std::time::Instant::now());
        [self.refused.next_due(), contended, self.until_timer()].into_iter().flatten().min()
    }

    /// Returns whether nothing is due.
    pub fn none_due(&self) -> bool {
        !self.is_due() && self.refused.none_due() && self.contention.none_due(std::time::Instant::now())
    }

    /// Returns the `now` to show: that of the decision whose writes caused this one, so that a plugin with the time in its
    /// status settles.
    pub fn now_to_show(&self, now: u64) -> u64 {
        // The clock may be set back meanwhile.
        let kept = self.shown_now.filter(|kept| Duration::from_millis(now.abs_diff(*kept)) < SAME_NOW);
        kept.unwrap_or(now)
    }

    /// Records that the parent was reconciled.
    pub fn recovered(&mut self) {
        (self.failures, self.backoff) = (0, None);
        self.tries.succeed();
    }

    /// Begins the tries anew where the parent or its plugin has changed, by these fingerprints. One that was stalled
    /// is held back no longer.
    pub fn begin_tries(&mut self, about: u64, marks: u64) {
        if self.tries.begin(about, marks) {
            self.backoff = None;
        }
    }

    /// Returns the time until clean-up is late.
    pub fn until_late(&self) -> Duration {
        self.cleaning_up.map_or(LATE, |began| LATE.saturating_sub(began.elapsed()))
    }

    /// Returns the time until clean-up is late; `None` once it is.
    pub fn until_late_only(&self) -> Option<Duration> {
        Some(self.until_late()).filter(|left| !left.is_zero())
    }

    /// Remembers an Event. Returns whether it is new. The plugin chooses how many different Events there are, so only the
    /// last few are remembered.
    pub fn is_news(&mut self, said: u64) -> bool {
        if self.said.contains(&said) {
            return false;
        }
        if self.said.len() >= REMEMBERED {
            self.said.remove(0);
        }
        self.said.push(said);
        true
    }

    /// Notes what a parent that is being deleted waits for after a failure.
    pub fn awaits(&mut self, error: &Error) {
        self.awaited = Some(format!("{}: {error}", error.reason()).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_is_due_when_its_time_has_come_however_often_the_parent_is_looked_at_before() {
        let mut state = ParentState::default();
        state.set_timer(Some(Duration::from_secs(20)));
        for left in (1..=20).rev() {
            assert!(!state.is_due() && state.none_due());
            assert_eq!(state.next_due(), Some(Duration::from_secs(left)));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(state.is_due() && !state.none_due());
        state.set_timer(None);
        assert!(state.none_due() && state.next_due().is_none());
    }

    #[test]
    fn decisions_that_follow_from_our_own_writes_are_shown_the_same_time() {
        let mut state = ParentState::default();
        assert_eq!(state.now_to_show(1_000), 1_000);
        state.shown_now = Some(1_000);
        assert_eq!(state.now_to_show(60_999), 1_000);
        assert_eq!(state.now_to_show(61_000), 61_000, "a plugin that never comes to an end is shown the time again");
        state.shown_now = Some(86_400_000);
        assert_eq!(state.now_to_show(1_000), 1_000, "a clock that was set back is no reason to show an old time");
    }
}
