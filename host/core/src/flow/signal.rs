//! Defines the signals of a pass: what a reconcile of a parent shows about the revision that decided. Each signal
//! counts for the [circuit breaker](crate::flow::circuit_breaker), which stops the calls of a plugin that fails, or for
//! the [probation](crate::flow::probation), which rolls a revision back, or for both. Pure.
//!
//! | signal                                               | strikes of the circuit  | failure of the revision |
//! |------------------------------------------------------|-------------------------|-------------------------|
//! | good                                                 | one is removed          |                         |
//! | reported: the plugin says that it failed             | one is removed          | yes                     |
//! | failed: the call failed, or its answer was denied    | 1                       | yes                     |
//! | overdue: the call used up its time                   | 3                       | yes                     |
//! | invalid: a child was refused as invalid              |                         | yes                     |
//! | stays invalid: and the plugin had asked to be called | 1                       |                         |
//! | unanswered: a write timed out                        | 3                       |                         |
//! | flapped                                              |                         | counted by itself       |
//!
//! Of several signals of one pass, the circuit counts the worst. If none of them concerns the circuit, as after an outage
//! of the API server, the pass is neither good nor bad.

use std::time::Duration;

use crate::model::limits::BREAKER_OVERDUE;

/// After this many refusals as invalid in a row, the plugin keeps returning the child in spite of what it is shown.
pub const INVALID_REPEATED: u32 = 2;

/// What a pass shows about the revision that decided. A reason is one word, and no word of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A call ended, after this processor time.
    Called(Duration),
    /// The plugin returned a decision, or a reason why it cannot decide.
    Good,
    /// The call succeeded, and the plugin says that it failed.
    Reported(String),
    /// The call failed, or its answer was denied.
    Failed(String),
    /// The call used up its time, which costs more than any other failure.
    Overdue(String),
    /// A desired child was refused as invalid: the API server would refuse it from any client and at any time.
    Invalid(String),
    /// Desired children are refused as invalid.
    StaysInvalid {
        /// How often in a row one of them was refused.
        tries: u32,
        /// Whether the plugin was called because it had asked to be called again, not because of a change or a retry by
        /// the host.
        is_own_time: bool,
    },
    /// A write was not answered in time, and [that is the plugin's fault](crate::flow::unanswered::Answers::blame).
    Unanswered,
    /// The desired state changed although the parent did not.
    Flapped {
        /// Whether it does so again and again.
        endless: bool,
    },
}

impl Signal {
    /// Returns the strikes that this signal adds to the circuit: none for a good call, `None` if it does not concern it.
    pub fn strikes(&self) -> Option<usize> {
        match self {
            Self::Called(_) | Self::Invalid(_) | Self::Flapped { .. } => None,
            Self::Good | Self::Reported(_) => Some(0),
            Self::Failed(_) => Some(1),
            // The plugin asks to be called again and again, sees the refusal and answers the same. A child that is
            // invalid because of what a user wrote is retried at the host's pace, so it is no fault of the plugin.
            Self::StaysInvalid { tries, is_own_time } => (*is_own_time && *tries >= INVALID_REPEATED).then_some(1),
            // An unanswered write costs the API server even more than a call that uses up its time.
            Self::Overdue(_) | Self::Unanswered => Some(BREAKER_OVERDUE),
        }
    }

    /// Returns the reason, if the signal is a failure of the revision.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Reported(why) | Self::Failed(why) | Self::Overdue(why) | Self::Invalid(why) => Some(why),
            Self::Called(_) | Self::Good | Self::StaysInvalid { .. } | Self::Unanswered | Self::Flapped { .. } => None,
        }
    }
}

/// Returns the strikes of a pass: those of its worst signal.
pub fn strikes(signals: &[Signal]) -> Option<usize> {
    signals.iter().filter_map(Signal::strikes).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_counts_for_the_circuit_and_for_the_verdict_as_the_table_says() {
        let why = || "Trapped".to_owned();
        let stays_invalid = |tries, is_own_time| Signal::StaysInvalid { tries, is_own_time };
        for (signal, strikes, is_failure) in [
            (Signal::Called(Duration::from_secs(9)), None, false),
            (Signal::Good, Some(0), false),
            (Signal::Reported(why()), Some(0), true),
            (Signal::Failed(why()), Some(1), true),
            (Signal::Overdue(why()), Some(3), true),
            (Signal::Invalid(why()), None, true),
            (stays_invalid(1, true), None, false),
            (stays_invalid(2, true), Some(1), false),
            (stays_invalid(9, false), None, false),
            (Signal::Unanswered, Some(3), false),
            (Signal::Flapped { endless: false }, None, false),
            (Signal::Flapped { endless: true }, None, false),
        ] {
            assert_eq!((signal.strikes(), signal.failure().is_some()), (strikes, is_failure), "{signal:?}");
        }
    }

    #[test]
    fn a_pass_counts_for_the_circuit_as_its_worst_signal_and_not_at_all_without_one_that_concerns_it() {
        let called = || Signal::Called(Duration::ZERO);
        let invalid = Signal::StaysInvalid { tries: 2, is_own_time: true };
        assert_eq!(strikes(&[]), None);
        assert_eq!(strikes(&[called(), Signal::Invalid("Refused".to_owned())]), None);
        assert_eq!(strikes(&[called(), Signal::Flapped { endless: true }, Signal::Good]), Some(0));
        assert_eq!(strikes(&[called(), Signal::Unanswered, invalid.clone(), Signal::Good]), Some(3));
        assert_eq!(strikes(&[invalid, Signal::Good]), Some(1));
    }
}
