//! Slows down the repair of a child that another writer changes again and again. Each repair is a write, and each write
//! may wake the other writer, so two writers that never agree would loop as fast as the API server lets them.
//!
//! Used by *apply*; pure. The host repairs an edit by hand at once, but a controller that reverts each repair would
//! keep it busy forever. A budget distinguishes the two: once it is used up, the same desired state waits longer and
//! longer before it is applied to the same child again. The state in this module is dropped when the contention ends.

use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::time::{Duration, Instant};

use crate::check::Desired;
use crate::diff::{Apply, Plan};
use crate::flow::backoff::doubled;

/// The budget for applying one desired state to one child. It refills over time.
const ALLOWANCE: Duration = Duration::from_secs(360);
/// The cost of one apply, which makes the budget sixty at once, then ten a minute.
const APPLY_COST: Duration = Duration::from_secs(6);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The desired states that were applied lately to the children of one parent, at most one for each child. Only
/// fingerprints are kept, to save memory: there is one for each child, and hardly any is looked at again.
#[derive(Clone, Debug, Default)]
pub struct Contention(Vec<Applied>);

#[derive(Clone, Debug)]
struct Applied {
    /// Fingerprint of the child's reference.
    child: u64,
    /// Fingerprint of the desired state that was applied.
    desired_fingerprint: u64,
    /// When its budget is full again, and this entry is dropped.
    full_at: Instant,
    /// Set once its budget is used up.
    slowed: Option<Box<Slowed>>,
}

#[derive(Clone, Debug, Default)]
struct Slowed {
    /// The pauses since the budget was full.
    pauses: u32,
    /// When it may be applied again.
    due: Option<Instant>,
    /// The message that is reported; set once the child was changed during a pause.
    reported: Option<String>,
}

impl Contention {
    /// Records that a desired state was applied to a child. The caller must pass the same `hasher` each time.
    pub fn applied(&mut self, desired: &Desired, now: Instant, hasher: &RandomState) {
        let (child, desired_fingerprint) = Self::of(desired, hasher);
        let known = self.0.iter().position(|one| one.child == child).map(|index| self.0.remove(index));
        let known = known.filter(|one| one.desired_fingerprint == desired_fingerprint && one.full_at > now);
        let applied = known.unwrap_or(Applied { child, desired_fingerprint, full_at: now, slowed: None });
        self.0.reserve_exact(1);
        self.0.push(applied.charge(now));
    }

    /// Removes the applies that have to wait from a plan, and returns them. Ends the contention over a desired state
    /// that no longer needs a repair: one that is due and not in the plan.
    pub fn delay(&mut self, plan: &mut Plan, now: Instant, hasher: &RandomState) -> Vec<Apply> {
        self.0.retain(|one| one.full_at > now);
        if self.is_over() {
            return Vec::new();
        }
        let planned: Vec<_> = plan.apply.iter().map(|apply| Self::of(&apply.desired, hasher)).collect();
        self.end_due_except(&planned, now);
        let is_due = |apply: &Apply| {
            let desired_fingerprint = Self::of(&apply.desired, hasher);
            self.0.iter().all(|one| (one.child, one.desired_fingerprint) != desired_fingerprint || one.is_due(now))
        };
        let (due, delayed) = mem::take(&mut plan.apply).into_iter().partition(is_due);
        plan.apply = due;
        delayed
    }

    /// Ends the contention over the desired states that are due, if no apply is planned at all.
    pub fn end_due(&mut self, now: Instant) {
        self.0.retain(|one| one.full_at > now);
        self.end_due_except(&[], now);
    }

    fn end_due_except(&mut self, planned: &[(u64, u64)], now: Instant) {
        let is_ended = |one: &&mut Applied| one.is_due(now) && !planned.contains(&(one.child, one.desired_fingerprint));
        self.0.iter_mut().filter(is_ended).for_each(Applied::end);
    }

    /// Returns whether nothing is slowed down.
    pub fn is_over(&self) -> bool {
        self.slowed().all(|slowed| slowed.due.is_none())
    }

    /// Returns whether no delayed apply is due.
    pub fn none_due(&self, now: Instant) -> bool {
        self.slowed().filter_map(|slowed| slowed.due).all(|due| due > now)
    }

    /// Returns the time until the next delayed apply is due.
    pub fn next_due(&self, now: Instant) -> Option<Duration> {
        self.slowed().filter_map(|slowed| slowed.due).map(|due| due.saturating_duration_since(now)).min()
    }

    /// Returns whether the contention over a desired state is reported.
    pub fn is_reported(&self, desired: &Desired, hasher: &RandomState) -> bool {
        let desired_fingerprint = Self::of(desired, hasher);
        let found = self.0.iter().find(|one| (one.child, one.desired_fingerprint) == desired_fingerprint);
        found.and_then(|one| one.slowed.as_ref()).is_some_and(|slowed| slowed.reported.is_some())
    }

    /// Sets the message that reports the contention over a desired state.
    pub fn set_message(&mut self, desired: &Desired, message: &str, hasher: &RandomState) {
        let desired_fingerprint = Self::of(desired, hasher);
        let found = self.0.iter_mut().find(|one| (one.child, one.desired_fingerprint) == desired_fingerprint);
        if let Some(slowed) = found.and_then(|one| one.slowed.as_mut()) {
            slowed.reported = Some(message.to_owned());
        }
    }

    /// Returns the messages to report for as long as the contention lasts.
    pub fn message(&self) -> Option<String> {
        let reported: Vec<&str> = self.slowed().filter_map(|slowed| slowed.reported.as_deref()).collect();
        (!reported.is_empty()).then(|| reported.join("; "))
    }

    fn slowed(&self) -> impl Iterator<Item = &Slowed> {
        self.0.iter().filter_map(|one| one.slowed.as_deref())
    }

    fn of(desired: &Desired, hasher: &RandomState) -> (u64, u64) {
        (hasher.hash_one(&desired.reference), hasher.hash_one(&desired.digest))
    }
}

impl Applied {
    fn charge(mut self, now: Instant) -> Self {
        self.full_at += APPLY_COST;
        if self.full_at > now + ALLOWANCE {
            let slowed = self.slowed.get_or_insert_default();
            let due = now + doubled(FIRST_PAUSE, slowed.pauses, LONGEST_PAUSE);
            slowed.pauses = slowed.pauses.saturating_add(1);
            slowed.due = Some(due);
            // The budget does not refill during the pause.
            self.full_at = due + ALLOWANCE;
        }
        self
    }

    fn is_due(&self, now: Instant) -> bool {
        self.slowed.as_ref().and_then(|slowed| slowed.due).is_none_or(|due| due <= now)
    }

    fn end(&mut self) {
        if let Some(slowed) = &mut self.slowed {
            (slowed.due, slowed.reported) = (None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::diff::Precondition;
    use crate::model::kind::{Kind, ObjectRef};

    const AT_ONCE: u64 = 60;
    const SECOND: Duration = Duration::from_secs(1);

    fn desired_child(name: &str, digest: &str) -> Desired {
        let kind = Kind::new("", "v1", "ConfigMap");
        let reference = ObjectRef { kind, namespace: Some("n".into()), name: name.into() };
        Desired {
            reference,
            body: Arc::new(json!({})),
            digest: digest.into(),
            is_created_once: false,
            left: Arc::default(),
            strategy: Default::default(),
        }
    }

    /// A contention with a hasher of its own.
    #[derive(Default)]
    struct Hashed(Contention, RandomState);

    impl Hashed {
        fn applied(&mut self, desired: &Desired, now: Instant) {
            self.0.applied(desired, now, &self.1);
        }

        fn delay(&mut self, plan: &mut Plan, now: Instant) -> usize {
            self.0.delay(plan, now, &self.1).len()
        }

        fn set_message(&mut self, desired: &Desired, message: &str) {
            self.0.set_message(desired, message, &self.1);
        }

        fn is_reported(&self, desired: &Desired) -> bool {
            self.0.is_reported(desired, &self.1)
        }
    }

    fn plan(desired: &Desired) -> Plan {
        let apply = Apply { desired: desired.clone(), precondition: Precondition::Absent };
        Plan { apply: vec![apply], ..Plan::default() }
    }

    fn is_delayed(contention: &mut Hashed, desired: &Desired, now: Instant) -> bool {
        let mut plan = plan(desired);
        let delayed = contention.delay(&mut plan, now);
        assert_eq!(delayed + plan.apply.len(), 1);
        plan.apply.is_empty()
    }

    /// Returns when a desired state is applied within this time, if another writer reverts it at once each time.
    fn applies(lasting: Duration) -> Vec<Duration> {
        let (mut contention, desired, begin) = (Hashed::default(), desired_child("a", "d"), Instant::now());
        let (mut at, mut passed) = (Vec::new(), Duration::ZERO);
        while passed < lasting {
            let now = begin + passed;
            if !is_delayed(&mut contention, &desired, now) {
                contention.applied(&desired, now);
                at.push(passed);
            }
            passed += Duration::from_millis(10);
        }
        at
    }

    #[test]
    fn a_dozen_edits_a_minute_are_each_repaired_at_once() {
        let (mut contention, desired, mut now) = (Hashed::default(), desired_child("a", "d"), Instant::now());
        for _ in 0..120 {
            assert!(!is_delayed(&mut contention, &desired, now));
            contention.applied(&desired, now);
            now += 6 * SECOND;
        }
        let (mut contention, now) = (Hashed::default(), Instant::now());
        for _ in 0..AT_ONCE {
            assert!(!is_delayed(&mut contention, &desired, now));
            contention.applied(&desired, now);
        }
        assert!(contention.0.is_over() && contention.0.next_due(now).is_none());
    }

    #[test]
    fn a_writer_that_always_reverts_is_answered_ever_more_rarely_but_never_given_up_on() {
        let at = applies(Duration::from_secs(600));
        let in_the_first = at.iter().filter(|at| **at < 60 * SECOND).count();
        assert!((66..=68).contains(&in_the_first), "{at:?}");
        let pauses: Vec<_> = at.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        assert!(pauses.iter().skip(AT_ONCE as usize).is_sorted(), "{pauses:?}");
        assert_eq!(pauses.last(), Some(&LONGEST_PAUSE), "{pauses:?}");
    }

    #[test]
    fn once_the_other_manager_stops_edits_are_soon_repaired_at_once_again() {
        let (mut contention, desired, now) = (Hashed::default(), desired_child("a", "d"), Instant::now());
        (0..=AT_ONCE).for_each(|_| contention.applied(&desired, now));
        assert!(is_delayed(&mut contention, &desired, now) && contention.0.none_due(now) && !contention.0.is_over());
        contention.set_message(&desired, "it is reverted");
        assert_eq!(contention.0.message().as_deref(), Some("it is reverted"));
        let due = now + contention.0.next_due(now).unwrap();
        assert!(!contention.0.none_due(due), "an apply is due");
        contention.0.end_due(now);
        assert!(!contention.0.is_over(), "it still waits");
        let mut without_plan = contention.0.clone();
        without_plan.end_due(due);
        assert!(without_plan.is_over() && without_plan.message().is_none());
        assert_eq!(contention.delay(&mut Plan::default(), due), 0);
        assert!(contention.0.is_over() && contention.0.message().is_none() && contention.0.next_due(due).is_none());
        let later = due + APPLY_COST;
        assert!(!is_delayed(&mut contention, &desired, later));
        contention.applied(&desired, later);
        assert!(contention.0.is_over());
        contention.delay(&mut Plan::default(), due + 2 * ALLOWANCE);
        assert!(contention.0.0.is_empty(), "nothing is remembered");
    }

    #[test]
    fn a_pause_without_contention_is_not_reported_and_a_report_lasts_between_two_pauses() {
        let (mut contention, desired, now) = (Hashed::default(), desired_child("a", "d"), Instant::now());
        (0..=AT_ONCE).for_each(|_| contention.applied(&desired, now));
        assert!(!contention.is_reported(&desired) && contention.0.message().is_none());
        contention.set_message(&desired, "it is reverted");
        let due = now + FIRST_PAUSE;
        assert!(!is_delayed(&mut contention, &desired, due));
        contention.applied(&desired, due);
        assert!(contention.is_reported(&desired));
        assert_eq!(contention.0.next_due(due), Some(2 * FIRST_PAUSE));
    }

    #[test]
    fn another_desired_child_does_not_wait() {
        let (mut contention, now) = (Hashed::default(), Instant::now());
        (0..=AT_ONCE).for_each(|_| contention.applied(&desired_child("a", "d"), now));
        contention.set_message(&desired_child("a", "d"), "it is reverted");
        assert!(!is_delayed(&mut contention, &desired_child("b", "d"), now));
        assert!(!is_delayed(&mut contention, &desired_child("a", "other"), now));
        contention.applied(&desired_child("a", "other"), now);
        assert!(contention.0.is_over() && contention.0.message().is_none());
    }
}
