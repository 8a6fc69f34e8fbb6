//! What became of a decision's writes, as a verdict for the [circuit breaker](crate::flow::circuit_breaker).

use std::time::Instant;

use crate::flow::circuit_breaker::{Trial, Turned};

/// A child that was refused as invalid so often in a row is not desired by mistake.
pub const INVALID_REPEATED: u32 = 2;

/// What became of the writes of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Whether a write without an answer is [held against the plugin](crate::flow::unanswered::Answers::blame).
    pub is_held: bool,
    /// Whether the plugin was called because it had asked for that, and not for a change or a retry of the host's.
    pub is_own_time: bool,
    /// How often in a row one of the desired children was refused as invalid, from every client and at any time.
    pub invalid: u32,
}

/// What a decision counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A good call.
    Good,
    /// A bad call: the plugin has itself called again and again, is shown the refusal and answers the same.
    Bad,
    /// As much as a call that used up its time: it costs the API server more than that.
    Overdue,
}

impl Written {
    /// Returns what the decision counts for.
    pub fn verdict(self) -> Verdict {
        match self {
            Self { is_held: true, .. } => Verdict::Overdue,
            // One that a user's words make invalid is retried in the host's own time, which is no fault of the plugin.
            Self { is_own_time: true, invalid: INVALID_REPEATED.., .. } => Verdict::Bad,
            _ => Verdict::Good,
        }
    }
}

impl Verdict {
    /// Reports it.
    pub fn report(self, trial: Trial<'_>, now: Instant) -> Turned {
        match self {
            Verdict::Good => trial.passed(),
            Verdict::Bad => trial.failed(now),
            Verdict::Overdue => trial.overdue(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::circuit_breaker::{Breaker, Standing, State};

    /// The state after so many calls, one in a second.
    fn after(calls: u64, written: impl Fn(u64) -> Written) -> State {
        let (breaker, start) = (Breaker::default(), Instant::now());
        for call in 0..calls {
            let now = start + Duration::from_secs(call);
            let Ok(trial) = breaker.admit(now, Standing::default()) else { break };
            if matches!(written(call).verdict().report(trial, now), Turned::Open(_)) {
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
    fn an_invalid_child_that_the_host_tries_again_in_its_own_time_never_does() {
        assert_eq!(after(100, |_| Written { invalid: 9, ..Written::default() }), State::Closed);
        assert_eq!(after(100, |_| Written { is_own_time: true, invalid: 1, ..Written::default() }), State::Closed);
    }

    #[test]
    fn writes_without_an_answer_open_it_though_most_are_answered() {
        let held = |every: u64| move |call: u64| Written { is_held: call.is_multiple_of(every), ..Written::default() };
        assert_eq!(after(2, held(1)), State::Open);
        assert_eq!(after(20, held(2)), State::Open);
        assert_eq!(after(100, held(5)), State::Closed, "the good ones prevail");
    }
}
