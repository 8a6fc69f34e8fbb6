//! The state that is kept of a parent between two passes. Losing it costs an extra decision, never correctness.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::reconcile::error::Error;
use crate::reconcile::refused_writes::Refusals;
use hotshoe_core::diff::Unsettled;
use hotshoe_core::diff::changed_fields::DesiredBefore;
use hotshoe_core::flow::backoff::within_reach;
use hotshoe_core::flow::contention::Contention;
use hotshoe_core::flow::flapping::Flapping;
use hotshoe_core::flow::restated::Restated;
use hotshoe_core::flow::tries::Tries;
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::model::limits::EVENTS;
use hotshoe_core::model::object::Object;

/// The time after which an unfinished clean-up is reported.
const CLEAN_UP_LATE_AFTER: Duration = Duration::from_secs(30);
/// How many of a parent's last Events are remembered, so that only a timer emits them again: as many as one decision
/// may have.
const MAX_REMEMBERED_EVENTS: usize = EVENTS as usize;
/// How long the decisions that follow from our own writes are shown the `now` of the first decision.
const SAME_NOW_PERIOD: Duration = Duration::from_secs(60);

/// The state kept of one parent. Its fingerprints are explained in
/// [`fingerprint`](mod@crate::reconcile::fingerprint).
#[derive(Clone, Debug, Default)]
pub struct ParentState {
    /// The parent's uid: a new object of the same name starts with a new state.
    pub uid: Arc<str>,
    /// The term of the permit under which the state was stored. Between two terms another host may have worked for the
    /// parent, so the state is not used in another term.
    pub term: u64,
    /// Fingerprint of the observation that was found settled: nothing remained to be done.
    pub settled: Option<u64>,
    /// The key under which the gate remembers that it admitted the children, and that they are in sync.
    pub admitted: Option<u64>,
    /// Fingerprint of the stated status and the parent whose status was found current.
    pub current_status: Option<u64>,
    /// The last decisions, and how often the plugin flapped.
    pub flapping: Flapping,
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
    /// Whether the last pass skipped the status write because the result of its child writes was not observed yet.
    pub skipped_status: bool,
    /// Failures in a row, including transient ones.
    pub failures: u32,
    /// When the row of failures began.
    pub failing_since: Option<Instant>,
    /// Reports in a row that the API server did not accept.
    pub unreported: u32,
    /// The tries that non-transient failures have used up since the parent or its plugin changed.
    pub tries: Tries,
    /// Passes in a row that met a conflict, an overload or no answer.
    pub stalls: u32,
    /// After a failure: the parent is not reconciled before this time, unless this fingerprint changes.
    pub backoff: Option<(Instant, u64)>,
    /// Whether the last decision or failure is based on objects that were fetched for it.
    pub fetched: bool,
    /// Whether some of these objects are not watched, so that only reading them again shows a change.
    pub unwatched: bool,
    /// When clean-up began.
    pub cleaning_up: Option<Instant>,
    /// The parent's place in the queue for a trial while the circuit is open.
    pub place: Option<std::time::Instant>,
    /// Fingerprints of the last Events and of the host's condition.
    pub reported: Vec<u64>,
    /// A fingerprint of the host's conditions that were written last and report no failure.
    pub noted: Option<u64>,
    /// How many objects outside of the grant named the parent as their controller in the last pass.
    pub ignored: usize,
    /// What is stated about these objects.
    pub ignored_text: Restated,
    /// What a parent that is being deleted waits for.
    pub awaited: Option<Box<str>>,
}

impl ParentState {
    /// Creates the state of a parent that was not reconciled yet.
    pub fn new(parent: &Object) -> Self {
        Self { uid: parent.uid.clone(), ..Self::default() }
    }

    /// Returns whether the requeue of the last decision is due.
    pub fn is_due(&self) -> bool {
        self.timer.is_some_and(|timer| timer <= Instant::now())
    }

    /// Sets the timer that a decision asks for. Replaces the previous timer.
    pub fn set_timer(&mut self, after: Option<Duration>) {
        self.timer = after.map(|after| Instant::now() + within_reach(after));
    }

    /// Returns the time until the timer is due.
    pub fn until_timer(&self) -> Option<Duration> {
        self.timer.map(|timer| timer.saturating_duration_since(Instant::now()))
    }

    /// Returns the time until the timer, a refused write, a delayed repair or another text about ignored objects is due,
    /// whichever is first.
    pub fn next_due(&self) -> Option<Duration> {
        let now = std::time::Instant::now();
        let (contended, restated) = (self.contention.next_due(now), self.ignored_text.next_due(now));
        [self.refused.next_due(), contended, restated, self.until_timer()].into_iter().flatten().min()
    }

    /// Returns whether no timer, refused write or delayed repair is due.
    pub fn none_due(&self) -> bool {
        !self.is_due() && self.refused.none_due() && self.contention.none_due(std::time::Instant::now())
    }

    /// Returns the `now` to show to the plugin. If our own writes caused this decision, it is the `now` of the decision
    /// before, so that a plugin that writes the time into its status settles.
    pub fn now_to_show(&self, now: u64) -> u64 {
        // The clock may have been set back meanwhile.
        let kept = self.shown_now.filter(|kept| Duration::from_millis(now.abs_diff(*kept)) < SAME_NOW_PERIOD);
        kept.unwrap_or(now)
    }

    /// Records that the parent was reconciled.
    pub fn recovered(&mut self) {
        (self.failures, self.failing_since, self.backoff) = (0, None, None);
        self.tries.succeed();
    }

    /// Counts a pass that met a conflict, an overload or no answer, or ends the row of them.
    pub fn count_stall(&mut self, is_stalled: bool) {
        self.stalls = if is_stalled { self.stalls.saturating_add(1) } else { 0 };
    }

    /// Restarts the count of tries if the parent or its plugin has changed, as these fingerprints tell. Ends the
    /// backoff of a stalled parent.
    pub fn begin_tries(&mut self, about: u64, marks: u64) {
        if self.tries.begin(about, marks) {
            self.backoff = None;
        }
    }

    /// Returns the time until clean-up is late.
    pub fn until_late(&self) -> Duration {
        self.cleaning_up.map_or(CLEAN_UP_LATE_AFTER, |began| CLEAN_UP_LATE_AFTER.saturating_sub(began.elapsed()))
    }

    /// Returns the time until clean-up is late; `None` once it is.
    pub fn remaining_until_late(&self) -> Option<Duration> {
        Some(self.until_late()).filter(|left| !left.is_zero())
    }

    /// Remembers an Event, and returns whether it is new. The plugin chooses how many different Events there are, so
    /// only the last few are remembered.
    pub fn is_new_event(&mut self, event: u64) -> bool {
        if self.reported.contains(&event) {
            return false;
        }
        if self.reported.len() >= MAX_REMEMBERED_EVENTS {
            self.reported.remove(0);
        }
        self.reported.push(event);
        true
    }

    /// Records that a parent that is being deleted waits for the end of a failure.
    pub fn await_recovery(&mut self, error: &Error) {
        self.awaited = Some(format!("{}: {error}", error.reason()).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_is_due_at_its_time_however_often_the_parent_is_reconciled_before() {
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
