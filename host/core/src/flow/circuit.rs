//! One circuit: it opens after too many bad calls, and trials show whether it may close again. Pure.
//!
//! ```text
//!            STRIKES more bad calls than good ones within WINDOW
//!   closed ───────────────────────────────────────────────────────▶ open, for a while
//!     ▲                                                              │        ▲
//!     │ a trial that is good                     the while is over   │        │ a trial that is bad:
//!     │                                                              ▼        │ open for twice as long
//!     └───────────────────────────────────────────────────────── half-open ───┘
//! ```
//!
//! A call that uses up its time counts as several strikes, and a good call removes one strike. A parent that has not
//! failed since it changed last may be tried even while the circuit is open, one such parent at a time and each once: a
//! single parent that no plugin can serve must not keep the others from being served. The more of these trials fail in
//! a row, the rarer they become. Otherwise a client that keeps changing a parent would keep a broken plugin busy.

use std::collections::VecDeque;
use std::iter;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::model::kind::{Key, Namespace};
use crate::model::limits::{BREAKER_OPEN, BREAKER_OPEN_MAX, BREAKER_STRIKES, BREAKER_WINDOW};

/// The initial time between two trials; each bad trial doubles it.
pub const TRIAL_GAP: Duration = Duration::from_millis(250);
/// The longest time between two trials.
pub const MAX_TRIAL_GAP: Duration = Duration::from_secs(10);
/// The pause after a bad trial, as a multiple of its duration: a plugin that loops on each new parent must not have
/// a processor to itself.
const TRIAL_PAUSE_FACTOR: u32 = 3;

/// One circuit.
#[derive(Debug, Default)]
pub struct Circuit {
    strikes: VecDeque<Strike>,
    open: Option<Open>,
    /// When it was closed again, and the first call after that: the results of earlier calls are ignored.
    closed: Option<(Instant, u64)>,
}

#[derive(Debug)]
struct Strike {
    at: Instant,
    namespace: Namespace,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    period: Duration,
    trying: bool,
    /// When the next trial may begin.
    next: Instant,
    /// The time between this trial and the next if it is bad.
    gap: Duration,
    /// The latest time that a waiting parent was given for its next try. Each further one is given a later
    /// time, so that they do not all come at once.
    line: Instant,
    /// The parent for which the last bad call was.
    parent: Key,
}

/// What the circuit needs to know about the parent for which the plugin is to be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParentRecord {
    /// Whether the parent has failed since it changed last.
    pub failed: bool,
    /// The time for its next try that the parent was given. A parent that asks before that time keeps its place, so
    /// that asking often does not lengthen the line.
    pub place: Option<Instant>,
}

/// One admitted call, as a circuit sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The parent for which the plugin is called.
    pub parent: &'a Key,
    /// Its number: calls are counted.
    pub number: u64,
    /// Whether it is a trial of this circuit.
    pub is_trial: bool,
}

/// A bad call.
#[derive(Clone, Copy, Debug)]
pub struct Bad {
    /// The strikes that it adds.
    pub strikes: usize,
    /// The largest number of strikes that calls for parents of one namespace may add up to.
    pub most_of_namespace: usize,
    /// How long it took.
    pub took: Duration,
}

/// Whether the plugin may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It may.
    Closed,
    /// The next call is a trial.
    HalfOpen,
    /// It may not.
    Open,
}

impl State {
    /// Returns the state as in `hotshoe status` and the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Closed => "closed",
            State::HalfOpen => "half-open",
            State::Open => "open",
        }
    }
}

/// How the result of a call changed a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The circuit did not change.
    None,
    /// The circuit is closed again.
    Closed,
    /// The circuit is open for this long.
    Open(Duration),
}

impl Circuit {
    /// Returns whether a call for this parent would be a trial.
    ///
    /// # Errors
    /// Returns the time for the next try if the plugin may not be called.
    pub fn admit(&mut self, now: Instant, record: ParentRecord) -> Result<bool, Instant> {
        let Some(open) = &mut self.open else { return Ok(false) };
        open.admit(now, record)?;
        Ok(true)
    }

    /// Begins a trial. No other begins before it has ended.
    pub fn begin_trial(&mut self, now: Instant) {
        if let Some(open) = &mut self.open {
            (open.trying, open.next) = (true, now + TRIAL_GAP);
        }
    }

    /// Ends a trial, with or without a result, so that another may begin.
    pub fn end_trial(&mut self, call: Call<'_>) {
        if let Some(open) = self.open.as_mut().filter(|_| call.is_trial) {
            open.trying = false;
        }
    }

    /// Returns whether the result of a call counts: the circuit was not closed again since it began.
    pub fn counts(&self, call: Call<'_>) -> bool {
        self.closed.is_none_or(|(_, first)| first <= call.number)
    }

    /// Records a good call. `next` is the number of the next call.
    pub fn good(&mut self, call: Call<'_>, next: u64, now: Instant) -> Transition {
        if self.open.is_none() {
            self.strikes.pop_front();
            return Transition::None;
        }
        if !call.is_trial {
            return Transition::None;
        }
        *self = Self { closed: Some((now, next)), ..Self::default() };
        Transition::Closed
    }

    /// Records a bad call.
    pub fn bad(&mut self, call: Call<'_>, bad: Bad, now: Instant) -> Transition {
        self.expire(now);
        if let Some(open) = self.open.as_mut().filter(|_| call.is_trial) {
            open.delay_next_trial(bad.took, now);
            open.parent = call.parent.clone();
        }
        self.add_strikes(call.parent, bad, now);
        match &mut self.open {
            // A trial before the end of the open period does not lengthen it.
            Some(open) if call.is_trial && open.until <= now => {
                open.period = (open.period * 2).min(BREAKER_OPEN_MAX);
                open.until = now + open.period;
                Transition::Open(open.period)
            }
            None if self.strikes.len() >= BREAKER_STRIKES => {
                self.open = Some(Open {
                    until: now + BREAKER_OPEN,
                    period: BREAKER_OPEN,
                    trying: false,
                    next: now + TRIAL_GAP,
                    gap: TRIAL_GAP,
                    line: now,
                    parent: call.parent.clone(),
                });
                Transition::Open(BREAKER_OPEN)
            }
            _ => Transition::None,
        }
    }

    fn add_strikes(&mut self, parent: &Key, bad: Bad, now: Instant) {
        let known = self.strikes.iter().filter(|strike| strike.namespace == parent.namespace).count();
        let room = (BREAKER_STRIKES - self.strikes.len()).min(bad.most_of_namespace.saturating_sub(known));
        let strike = || Strike { at: now, namespace: parent.namespace.clone() };
        self.strikes.extend(iter::repeat_with(strike).take(bad.strikes.min(room)));
    }

    /// Drops the strikes that no longer count.
    pub fn expire(&mut self, now: Instant) {
        while self.strikes.front().is_some_and(|strike| strike.at + BREAKER_WINDOW <= now) {
            self.strikes.pop_front();
        }
    }

    /// Returns whether the circuit need not be remembered: without it, the same calls would be admitted. An open
    /// circuit is forgotten if no call ended its period for a long time; its parents are gone then.
    pub fn is_forgettable(&self, now: Instant) -> bool {
        match &self.open {
            Some(open) => open.until + BREAKER_OPEN_MAX <= now,
            None => {
                let is_recent = |at: Instant| now < at + BREAKER_WINDOW;
                !self.closed.is_some_and(|(at, _)| is_recent(at)) && !self.strikes.iter().any(|one| is_recent(one.at))
            }
        }
    }

    /// Returns the end of the open period, unless it is over or the circuit is closed.
    pub fn open_until(&self, now: Instant) -> Option<Instant> {
        self.open.as_ref().map(|open| open.until).filter(|until| *until > now)
    }

    /// Returns the state.
    pub fn state(&self, now: Instant) -> State {
        match &self.open {
            None => State::Closed,
            Some(open) if open.until <= now => State::HalfOpen,
            Some(_) => State::Open,
        }
    }

    /// Returns the number of strikes.
    pub fn strikes(&self) -> usize {
        self.strikes.len()
    }

    /// Returns the parent for which the last bad call was, if the circuit is not closed.
    pub fn parent(&self) -> Option<&Key> {
        self.open.as_ref().map(|open| &open.parent)
    }
}

impl Open {
    fn admit(&mut self, now: Instant, record: ParentRecord) -> Result<(), Instant> {
        if record.failed && self.until > now {
            return Err(self.until);
        }
        if self.trying || self.next > now {
            return Err(record.place.filter(|place| *place > now).unwrap_or_else(|| self.stand_in_line(now)));
        }
        Ok(())
    }

    fn stand_in_line(&mut self, now: Instant) -> Instant {
        self.line = self.line.max(self.next).max(now) + TRIAL_GAP;
        self.line
    }

    /// Delays the next trial after a bad one that took this long.
    fn delay_next_trial(&mut self, took: Duration, now: Instant) {
        self.next = self.next.max(now + self.gap.max(took * TRIAL_PAUSE_FACTOR));
        self.gap = (self.gap * 2).min(MAX_TRIAL_GAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_the_same_name_everywhere() {
        for state in [State::Closed, State::HalfOpen, State::Open] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }
}
