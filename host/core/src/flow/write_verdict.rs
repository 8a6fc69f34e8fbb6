//! Turns the outcome of a decision's writes into a verdict for the [circuit breaker](crate::flow::circuit_breaker).

use std::time::Instant;

use crate::flow::circuit_breaker::{Trial, Turned};

/// After this many refusals as invalid in a row, the plugin keeps returning the child in spite of what it is shown.
pub const INVALID_REPEATED: u32 = 2;

/// The outcome of a decision's writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Whether an unanswered write [counts as the plugin's failure](crate::flow::unanswered::Answers::blame).
    pub has_unanswered: bool,
    /// Whether the plugin was called because it had asked to be called again, not because of a change or a retry by the
    /// host.
    pub is_own_time: bool,
    /// How often in a row one of the desired children was refused as invalid: the API server would refuse it from any
    /// client and at any time.
    pub invalid: u32,
}

/// How a decision counts for the circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A good call.
    Good,
    /// A bad call: the plugin asks to be called again and again, sees the refusal and answers the same.
    Bad,
    /// As bad as a call that used up its time, for it costs the API server even more.
    Overdue,
}

impl Written {
    /// Returns how the decision counts.
    pub fn verdict(self) -> Verdict {
        match self {
            Self { has_unanswered: true, .. } => Verdict::Overdue,
            // A child that is invalid because of what a user wrote is retried at the host's pace, so it is no fault of
            // the plugin.
            Self { is_own_time: true, invalid: INVALID_REPEATED.., .. } => Verdict::Bad,
            _ => Verdict::Good,
        }
    }
}

impl Verdict {
    /// Reports the verdict to the circuit breaker.
    pub fn report(self, trial: Trial<'_>, now: Instant) -> Turned {
        match self {
            Verdict::Good => trial.passed(now),
            Verdict::Bad => trial.failed(now),
            Verdict::Overdue => trial.overdue(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::circuit::{ParentRecord, State};
    use crate::flow::circuit_breaker::Breaker;
    use crate::model::kind::Key;

    /// Returns the state after this many calls, one in a second.
    fn after(calls: u64, written: impl Fn(u64) -> Written) -> State {
        let (breaker, start) = (Breaker::default(), Instant::now());
        for call in 0..calls {
            let now = start + Duration::from_secs(call);
            let Ok(trial) = breaker.admit(now, &Key::new(Some("shop"), "cache"), ParentRecord::default()) else {
                break;
            };
            if matches!(written(call).verdict().report(trial, now), Turned::Open(..)) {
                return State::Open;
            }
        }
        State::Closed
    }

    #[test]
    fn a_decision_whose_writes_went_well_is_good() {
        assert_eq!(Written::default().verdict(), Verdict::Good);
        assert_eq!(after(100, |_| Written::default()), State::Closed);
    }

    #[test]
    fn asking_again_and_again_with_a_child_that_is_invalid_opens_the_circuit() {
        assert_eq!(
            after(6, |call| Written { is_own_time: true, invalid: 1 + u32::from(call > 0), ..Written::default() }),
            State::Open
        );
    }

    #[test]
    fn an_invalid_child_that_the_host_retries_at_its_own_pace_never_opens_it() {
        assert_eq!(after(100, |_| Written { invalid: 9, ..Written::default() }), State::Closed);
        assert_eq!(after(100, |_| Written { is_own_time: true, invalid: 1, ..Written::default() }), State::Closed);
    }

    #[test]
    fn unanswered_writes_open_it_though_as_many_are_answered() {
        let held =
            |every: u64| move |call: u64| Written { has_unanswered: call.is_multiple_of(every), ..Written::default() };
        assert_eq!(after(2, held(1)), State::Open);
        assert_eq!(after(20, held(2)), State::Open);
        assert_eq!(after(100, held(5)), State::Closed, "the good ones prevail");
    }
}
