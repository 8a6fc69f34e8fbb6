//! Slows down a plugin that flaps: its desired state for a parent keeps changing although the parent does not. Each
//! change is a write, and each write wakes the plugin again, so such a plugin would loop as fast as the API server lets
//! it.
//!
//! Used by *decide*; pure. A rollout in steps changes the desired state many times as well, but not forever at full
//! speed. A budget distinguishes the two. A reversal, a change back to the previous state, is no step of a rollout and
//! costs more.

use std::time::{Duration, Instant};

use crate::flow::backoff::doubled;

/// The budget for changes. It refills over time.
const ALLOWANCE: Duration = Duration::from_secs(120);
/// The cost of a change, which makes the budget a hundred and twenty at once, then one a second.
const CHANGE_COST: Duration = Duration::from_secs(1);
/// The cost of a reversal, which makes the budget ten at once, then five a minute.
const REVERSAL_COST: Duration = Duration::from_secs(12);
/// The number of reversals that cause no pause by themselves, however slow they are.
const FREE_REVERSALS: u32 = 10;
/// After this time without a change the history is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The desired state of one decision, as fingerprints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DesiredFingerprint {
    /// The children.
    pub children: u64,
    /// The desired values of the fields of its own status that the plugin reads.
    pub feedback: u64,
    /// Everything that was observed except the parent. A status that follows a change there, such as Pods that come and
    /// go, is no flapping.
    pub about: u64,
}

/// The history of the desired state of one parent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flapping {
    /// Fingerprint of the parent and the revision that decided.
    basis: u64,
    /// The last desired state.
    desired_fingerprint: DesiredFingerprint,
    /// The desired state before the last change.
    before: DesiredFingerprint,
    /// The number of reversals since the basis changed.
    reversals: u32,
    /// When the state changed last.
    at: Option<Instant>,
    /// When the budget is full again.
    full_at: Option<Instant>,
}

impl DesiredFingerprint {
    /// Returns whether the desired state changed since `earlier`.
    fn differs_from(&self, earlier: &DesiredFingerprint) -> bool {
        self.children != earlier.children || (self.about == earlier.about && self.feedback != earlier.feedback)
    }
}

impl Flapping {
    /// Returns the history with one more decision.
    #[must_use]
    pub fn then(self, basis: u64, desired_fingerprint: DesiredFingerprint, now: Instant) -> Self {
        let forgotten = self.at.is_some_and(|at| now.saturating_duration_since(at) > FORGOTTEN_AFTER);
        if self.basis != basis || forgotten {
            return Self { basis, desired_fingerprint, ..Self::default() };
        }
        if !desired_fingerprint.differs_from(&self.desired_fingerprint) {
            return Self { desired_fingerprint, ..self };
        }
        let is_reversal = !desired_fingerprint.differs_from(&self.before);
        let cost = if is_reversal { REVERSAL_COST } else { CHANGE_COST };
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now)) + cost;
        let reversals = self.reversals + u32::from(is_reversal);
        Self {
            basis,
            desired_fingerprint,
            before: self.desired_fingerprint,
            reversals,
            at: Some(now),
            full_at: Some(full_at),
        }
    }

    /// Returns the history with one more decision that a timer of the plugin asked for. The passing of time is a reason
    /// to decide differently, so a reversal costs no more than any other change.
    #[must_use]
    pub fn then_on_time(self, basis: u64, desired_fingerprint: DesiredFingerprint, now: Instant) -> Self {
        Self { before: DesiredFingerprint::default(), ..self }.then(basis, desired_fingerprint, now)
    }

    /// Returns whether the desired state changed just now.
    pub fn is_new(&self, now: Instant) -> bool {
        self.at == Some(now)
    }

    /// Returns whether the desired state changed just now and the budget is used up: no rollout changes it so often.
    pub fn is_endless(&self, now: Instant) -> bool {
        self.is_new(now) && self.overdrawn_until().is_some_and(|until| now < until)
    }

    /// Returns the pause before the plugin is called for the parent again, if the basis is still the same.
    pub fn pause(&self, now: Instant, basis: impl FnOnce() -> u64) -> Option<Duration> {
        let beyond = self.reversals.checked_sub(FREE_REVERSALS);
        let slowed = beyond.and_then(|beyond| Some(self.at? + doubled(FIRST_PAUSE, beyond, LONGEST_PAUSE)));
        let left = slowed.max(self.overdrawn_until())?.checked_duration_since(now)?;
        (!left.is_zero() && self.basis == basis()).then_some(left)
    }

    fn overdrawn_until(&self) -> Option<Instant> {
        self.full_at?.checked_sub(ALLOWANCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASIS: u64 = 1;

    /// Returns the history of desired states that follow one another at this interval, and the time of the last one.
    fn after(desired_fingerprint: impl IntoIterator<Item = u64>, each: Duration) -> (Flapping, Instant) {
        let mut now = Instant::now() + 2 * ALLOWANCE;
        let mut flapping = Flapping::default();
        for desired_fingerprint in desired_fingerprint {
            now += each;
            flapping = flapping.then(BASIS, of(desired_fingerprint), now);
        }
        (flapping, now)
    }

    #[test]
    fn what_a_timer_turns_on_and_off_is_not_slowed_down() {
        let (mut flapping, mut now) = (Flapping::default(), Instant::now() + 2 * ALLOWANCE);
        for tick in 0..1_000 {
            now += Duration::from_secs(5);
            flapping = flapping.then_on_time(BASIS, of(1 + tick % 2), now);
            assert!(!flapping.is_endless(now) && flapping.pause(now, || BASIS).is_none(), "tick {tick}");
        }
        let (slowed, now) = after((0..40).map(|turn| turn % 2), Duration::from_secs(5));
        assert!(slowed.pause(now, || BASIS).is_some(), "without a timer it is");
    }

    fn of(children: u64) -> DesiredFingerprint {
        DesiredFingerprint { children, ..DesiredFingerprint::default() }
    }

    fn pause_after((flapping, now): &(Flapping, Instant)) -> Option<Duration> {
        flapping.pause(*now, || BASIS)
    }

    fn back_and_forth(times: u64) -> impl Iterator<Item = u64> {
        (0..times).map(|number| 10 + number % 2)
    }

    #[test]
    fn a_rollout_in_many_steps_is_not_slowed_down() {
        let steps = after(10..510, CHANGE_COST);
        assert_eq!(pause_after(&steps), None);
        assert!(!steps.0.is_endless(steps.1));
        let at_once = after(10..120, Duration::ZERO);
        assert_eq!(pause_after(&at_once), None);
    }

    #[test]
    fn decisions_that_differ_each_time_are_slowed_down_to_one_a_second() {
        let counter = after(10..200, Duration::from_millis(5));
        assert!(pause_after(&counter) >= Some(CHANGE_COST));
        assert!(counter.0.is_endless(counter.1));
    }

    #[test]
    fn flapping_is_slowed_down_more_and_more() {
        let flips = |times| pause_after(&after(back_and_forth(times), Duration::from_secs(20)));
        assert_eq!(flips(11), None);
        assert_eq!(flips(12), Some(FIRST_PAUSE));
        assert_eq!(flips(14), Some(4 * FIRST_PAUSE));
        assert_eq!(flips(100), Some(LONGEST_PAUSE));
    }

    #[test]
    fn flapping_at_full_speed_is_endless_and_following_a_change_from_outside_is_not() {
        let (flapping, now) = after(back_and_forth(13), Duration::from_millis(50));
        assert!(flapping.is_endless(now));
        assert!(!flapping.is_endless(now + Duration::from_millis(1)), "nothing changed since");
        let (flapping, now) = after(back_and_forth(60), Duration::from_secs(15));
        assert!(!flapping.is_endless(now));
    }

    #[test]
    fn it_is_forgotten_when_the_parent_changes_or_after_a_while() {
        let (flapping, now) = after(back_and_forth(40), Duration::ZERO);
        assert!(flapping.pause(now, || BASIS).is_some());
        assert_eq!(flapping.pause(now, || BASIS + 1), None);
        assert_eq!(flapping.then(BASIS + 1, of(10), now).pause(now, || BASIS + 1), None);
        let later = now + 2 * FORGOTTEN_AFTER;
        assert_eq!(flapping.then(BASIS, of(10), later).pause(later, || BASIS), None);
    }

    #[test]
    fn a_pause_is_over_once_and_for_all_where_nothing_changes_after_it() {
        let (flapping, now) = after(back_and_forth(100), Duration::from_secs(20));
        let later = now + LONGEST_PAUSE;
        assert_eq!(
            flapping.then(BASIS, of(11), later).pause(later, || BASIS),
            None,
            "the same desired state is no change"
        );
    }

    #[test]
    fn a_status_that_changes_with_what_was_observed_is_no_flapping_and_without_it_is() {
        let pause = |about: fn(u64) -> u64| {
            let (mut flapping, now) = (Flapping::default(), Instant::now() + 2 * ALLOWANCE);
            for number in 0..100 {
                flapping = flapping.then(
                    BASIS,
                    DesiredFingerprint { children: 1, feedback: number % 2, about: about(number) },
                    now,
                );
            }
            flapping.pause(now, || BASIS)
        };
        assert_eq!(pause(|number| number % 2), None, "it follows Pods that come and go");
        assert!(pause(|_| 1) > Some(FIRST_PAUSE), "it reacts to its own status");
    }
}
