//! The circuit breaker of a plugin: a plugin that keeps failing is not called for a while, so that
//! it costs the host and the others nothing.
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
//! A good call takes a strike back. A parent that has not failed as it is now may be tried even
//! while the circuit is open, one at a time and each once: a single parent that no plugin can serve
//! must not keep the others from being served. A new revision begins with a closed circuit.
//!
//! Between *observe* and *decide*; it does not await.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::plugin::limits::{BREAKER_OPEN, BREAKER_OPEN_MAX, BREAKER_STRIKES, BREAKER_WINDOW};

/// Between two trials.
const TRIAL_GAP: Duration = Duration::from_millis(250);
/// After a bad trial so many times as long as it took: a plugin that loops on each new parent must
/// not have a processor to itself.
const TRIAL_REST: u32 = 3;

/// The circuit breaker of one plugin.
#[derive(Debug, Default)]
pub struct Breaker {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    strikes: VecDeque<Instant>,
    open: Option<Open>,
    /// Counts the revisions and the times that the circuit was closed, so that a call of before
    /// says nothing about what is after.
    era: u64,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    period: Duration,
    trying: bool,
    /// When the next trial may be.
    next: Instant,
    /// The end of the line of those who were told when to come again, so that they do not all come
    /// at once.
    line: Instant,
}

/// Whether the plugin is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is.
    Closed,
    /// The next call is a trial.
    HalfOpen,
    /// It is not.
    Open,
}

impl State {
    /// As in `hotshoe status` and the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Closed => "closed",
            State::HalfOpen => "half-open",
            State::Open => "open",
        }
    }
}

/// The breaker as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Its state.
    pub state: State,
    /// Bad calls of late that no good one has taken back.
    pub strikes: usize,
    /// How long it is open for yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// The leave to make one call; what becomes of it is told to the breaker.
#[derive(Debug)]
#[must_use]
pub struct Trial<'a> {
    breaker: &'a Breaker,
    era: u64,
    decisive: bool,
    began: Instant,
}

/// What a verdict did to the circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// Nothing.
    No,
    /// It is closed again: whoever waited may be called.
    Closed,
    /// It is open, for this long.
    Open(Duration),
}

impl Breaker {
    /// Asks to call the plugin for a parent, which has failed as it is now or not.
    ///
    /// # Errors
    /// How long to wait.
    pub fn admit(&self, now: Instant, failed_before: bool) -> Result<Trial<'_>, Duration> {
        let mut inner = self.lock();
        let decisive = match &mut inner.open {
            None => false,
            Some(open) => {
                open.admit(now, failed_before)?;
                true
            }
        };
        Ok(Trial { breaker: self, era: inner.era, decisive, began: now })
    }

    /// A new revision begins anew.
    pub fn reset(&self) {
        let mut inner = self.lock();
        *inner = Inner { era: inner.era + 1, ..Inner::default() };
    }

    /// How it is.
    pub fn shown(&self, now: Instant) -> Shown {
        let mut inner = self.lock();
        inner.expire(now);
        let left = inner.open.as_ref().map(|open| open.until.saturating_duration_since(now));
        let state = match left {
            None => State::Closed,
            Some(left) if left.is_zero() => State::HalfOpen,
            Some(_) => State::Open,
        };
        let seconds = left.filter(|left| !left.is_zero()).map(|left| left.as_millis().div_ceil(1000));
        Shown {
            state,
            strikes: inner.strikes.len(),
            seconds: seconds.map(|seconds| u64::try_from(seconds).unwrap_or(u64::MAX)),
        }
    }

    /// Every change under this lock is a few moves of numbers, so what a panic leaves is usable.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn admit(&mut self, now: Instant, failed_before: bool) -> Result<(), Duration> {
        let left = self.until.saturating_duration_since(now);
        if failed_before && !left.is_zero() {
            return Err(left);
        }
        if self.trying || self.next > now {
            self.line = self.line.max(self.next).max(now) + TRIAL_GAP;
            return Err(self.line - now);
        }
        (self.trying, self.next) = (true, now + TRIAL_GAP);
        Ok(())
    }
}

impl Inner {
    fn expire(&mut self, now: Instant) {
        while self.strikes.front().is_some_and(|strike| *strike + BREAKER_WINDOW <= now) {
            self.strikes.pop_front();
        }
    }

    fn good(&mut self, decisive: bool) -> Turned {
        if self.open.is_none() {
            self.strikes.pop_front();
            return Turned::No;
        }
        if !decisive {
            return Turned::No;
        }
        *self = Self { era: self.era + 1, ..Self::default() };
        Turned::Closed
    }

    fn bad(&mut self, decisive: bool, took: Duration, now: Instant) -> Turned {
        self.expire(now);
        if let Some(open) = self.open.as_mut().filter(|_| decisive) {
            open.next = open.next.max(now + took * TRIAL_REST);
        }
        if self.strikes.len() < BREAKER_STRIKES {
            self.strikes.push_back(now);
        }
        let period = match &self.open {
            // What was tried before its time proves nothing new.
            Some(open) if decisive && open.until <= now => (open.period * 2).min(BREAKER_OPEN_MAX),
            Some(_) => return Turned::No,
            None if self.strikes.len() >= BREAKER_STRIKES => BREAKER_OPEN,
            None => return Turned::No,
        };
        self.open = Some(Open { until: now + period, period, trying: false, next: now + TRIAL_GAP, line: now });
        Turned::Open(period)
    }
}

impl Trial<'_> {
    /// The call was good: the plugin decided, or said why it could not.
    pub fn passed(self) -> Turned {
        let mut inner = self.breaker.lock();
        if inner.era == self.era { inner.good(self.decisive) } else { Turned::No }
    }

    /// The call was bad: it failed, or answered what must not be done.
    pub fn failed(self, now: Instant) -> Turned {
        let mut inner = self.breaker.lock();
        let took = now.saturating_duration_since(self.began);
        if inner.era == self.era { inner.bad(self.decisive, took, now) } else { Turned::No }
    }
}

impl Drop for Trial<'_> {
    /// Without a verdict, another may be tried.
    fn drop(&mut self) {
        let mut inner = self.breaker.lock();
        let mine = self.decisive && inner.era == self.era;
        if let Some(open) = inner.open.as_mut().filter(|_| mine) {
            open.trying = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    /// A breaker that was opened at this time.
    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::default();
        for _ in 1..BREAKER_STRIKES {
            assert_eq!(breaker.admit(now, true).unwrap().failed(now), Turned::No);
        }
        assert_eq!(breaker.admit(now, true).unwrap().failed(now), Turned::Open(BREAKER_OPEN));
        breaker
    }

    #[test]
    fn so_many_strikes_open_it() {
        let now = Instant::now();
        let breaker = opened(now);
        assert_eq!(breaker.shown(now).state, State::Open);
        assert_eq!(breaker.shown(now).seconds, Some(BREAKER_OPEN.as_secs()));
        assert_eq!(breaker.admit(after(now, 10), true).unwrap_err(), BREAKER_OPEN - Duration::from_secs(10));
    }

    #[test]
    fn strikes_that_are_long_ago_do_not_count() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for strike in 0..20 {
            let at = now + BREAKER_WINDOW / 4 * strike;
            assert_eq!(breaker.admit(at, true).unwrap().failed(at), Turned::No);
        }
    }

    #[test]
    fn a_good_call_takes_a_strike_back() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..50 {
            assert_eq!(breaker.admit(now, true).unwrap().failed(now), Turned::No);
            assert_eq!(breaker.admit(now, false).unwrap().passed(), Turned::No);
        }
        assert_eq!(breaker.shown(now), Shown { state: State::Closed, strikes: 0, seconds: None });
    }

    #[test]
    fn after_a_while_it_is_half_open_and_one_good_trial_closes_it() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + BREAKER_OPEN;
        assert_eq!(breaker.shown(now).state, State::HalfOpen);
        let trial = breaker.admit(now, true).unwrap();
        assert!(breaker.admit(now, true).is_err(), "one trial at a time");
        assert_eq!(trial.passed(), Turned::Closed);
        assert_eq!(breaker.shown(now), Shown { state: State::Closed, strikes: 0, seconds: None });
    }

    #[test]
    fn each_bad_trial_doubles_the_while_up_to_a_bound() {
        let mut now = Instant::now();
        let breaker = opened(now);
        let mut period = BREAKER_OPEN;
        for _ in 0..20 {
            now += period;
            period = (period * 2).min(BREAKER_OPEN_MAX);
            assert_eq!(breaker.admit(now, true).unwrap().failed(now), Turned::Open(period));
        }
    }

    #[test]
    fn a_parent_that_has_not_failed_is_tried_while_it_is_open_but_not_often() {
        let start = Instant::now();
        let breaker = opened(start);
        assert!(breaker.admit(start, false).is_err(), "it was called just now");
        let now = after(start, 1);
        assert_eq!(breaker.admit(now, false).unwrap().failed(now), Turned::No, "no longer for that");
        let waits: Vec<_> = (0..3).map(|_| breaker.admit(now, false).unwrap_err()).collect();
        assert_eq!(waits, [2 * TRIAL_GAP, 3 * TRIAL_GAP, 4 * TRIAL_GAP], "they wait in line");
        assert_eq!(breaker.admit(now + waits[0], false).unwrap().passed(), Turned::Closed);
    }

    #[test]
    fn trials_that_use_up_their_time_are_far_between() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = after(start, 1);
        let slow = breaker.admit(now, false).unwrap();
        let end = now + Duration::from_millis(500);
        assert_eq!(slow.failed(end), Turned::No);
        assert!(breaker.admit(after(end, 1), false).is_err());
        assert!(breaker.admit(after(end, 2), false).is_ok());
    }

    #[test]
    fn whoever_comes_when_told_is_tried_within_two_rounds() {
        let start = Instant::now();
        let breaker = opened(start);
        let mut line: Vec<(Duration, usize)> = (0..20).map(|parent| (Duration::ZERO, parent)).collect();
        let mut tried = Vec::new();
        for _ in 0..40 {
            line.sort();
            let Some((at, parent)) = line.first().copied() else { break };
            line.remove(0);
            match breaker.admit(start + at, false) {
                Ok(trial) => tried.push((parent, trial.failed(start + at))),
                Err(wait) => line.push((at + wait, parent)),
            }
        }
        assert_eq!(tried.len(), 20, "{line:?}");
    }

    #[test]
    fn a_trial_without_a_verdict_makes_room_for_another() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + BREAKER_OPEN;
        drop(breaker.admit(now, true).unwrap());
        let running = breaker.admit(after(now, 1), true);
        assert!(running.is_ok());
        assert!(breaker.admit(after(now, 5), true).is_err(), "one runs");
    }

    #[test]
    fn a_new_revision_begins_anew_and_calls_of_the_old_one_say_nothing_about_it() {
        let now = Instant::now();
        let breaker = opened(now);
        let late = breaker.admit(now + BREAKER_OPEN, true).unwrap();
        breaker.reset();
        assert_eq!(late.failed(now), Turned::No);
        assert_eq!(breaker.shown(now), Shown { state: State::Closed, strikes: 0, seconds: None });
        assert!(breaker.admit(now, true).is_ok());
    }

    #[test]
    fn a_call_from_before_it_opened_does_not_close_it() {
        let now = Instant::now();
        let breaker = Breaker::default();
        let slow = breaker.admit(now, false).unwrap();
        for _ in 0..BREAKER_STRIKES {
            let _turned = breaker.admit(now, true).map(|trial| trial.failed(now));
        }
        assert_eq!(slow.passed(), Turned::No);
        assert_eq!(breaker.shown(now).state, State::Open);
    }
}
