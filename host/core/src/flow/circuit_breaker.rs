//! The circuit breaker of a plugin: a plugin that keeps failing is not called for a while, so that
//! it costs the host and the other plugins nothing.
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
//! a row, the rarer they become. Otherwise a client that keeps changing a parent would keep a broken plugin busy. A new
//! revision begins with a closed circuit.
//!
//! Used between *observe* and *decide*; it does not await.

use std::collections::VecDeque;
use std::iter;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::model::limits::{BREAKER_OPEN, BREAKER_OPEN_MAX, BREAKER_OVERDUE, BREAKER_STRIKES, BREAKER_WINDOW};

/// The initial time between two trials; each bad trial doubles it.
const TRIAL_GAP: Duration = Duration::from_millis(250);
/// The longest time between two trials.
const MAX_TRIAL_GAP: Duration = Duration::from_secs(10);
/// The pause after a bad trial, as a multiple of its duration: a plugin that loops on each new parent must not have
/// a processor to itself.
const TRIAL_PAUSE_FACTOR: u32 = 3;

/// The circuit breaker of one plugin.
#[derive(Debug, Default)]
pub struct Breaker {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    strikes: VecDeque<Instant>,
    open: Option<Open>,
    /// Counts the revisions and the times that the circuit was closed, so that the result of a call from
    /// an earlier era is ignored.
    era: u64,
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
}

/// What the breaker needs to know about the parent for which the plugin is to be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParentRecord {
    /// Whether the parent has failed since it changed last.
    pub failed: bool,
    /// The time for its next try that the parent was given. A parent that asks before that time keeps its place, so
    /// that asking often does not lengthen the line.
    pub place: Option<Instant>,
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

/// The state of the breaker, as `status` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakerStatus {
    /// Its state.
    pub state: State,
    /// Recent bad calls minus the good ones since.
    pub strikes: usize,
    /// Seconds for which the circuit stays open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// The permission to make one call; its result is reported to the breaker.
#[derive(Debug)]
#[must_use]
pub struct Trial<'a> {
    breaker: &'a Breaker,
    era: u64,
    decisive: bool,
    began: Instant,
}

/// How a verdict changed the circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// It did not change.
    No,
    /// It is closed again: the plugin may be called for parents that waited.
    Closed,
    /// It is open for this long.
    Open(Duration),
}

impl Breaker {
    /// Asks to call the plugin for a parent.
    ///
    /// # Errors
    /// Returns the time for the next try.
    pub fn admit(&self, now: Instant, record: ParentRecord) -> Result<Trial<'_>, Instant> {
        let mut inner = self.lock();
        let decisive = match &mut inner.open {
            None => false,
            Some(open) => {
                open.admit(now, record)?;
                true
            }
        };
        Ok(Trial { breaker: self, era: inner.era, decisive, began: now })
    }

    /// Closes the circuit for a new revision.
    pub fn reset(&self) {
        let mut inner = self.lock();
        *inner = Inner { era: inner.era + 1, ..Inner::default() };
    }

    /// Returns the state of the circuit.
    pub fn shown(&self, now: Instant) -> BreakerStatus {
        let mut inner = self.lock();
        inner.expire(now);
        let left = inner.open.as_ref().map(|open| open.until.saturating_duration_since(now));
        let state = match left {
            None => State::Closed,
            Some(left) if left.is_zero() => State::HalfOpen,
            Some(_) => State::Open,
        };
        let seconds = left.filter(|left| !left.is_zero()).map(|left| left.as_millis().div_ceil(1000));
        BreakerStatus {
            state,
            strikes: inner.strikes.len(),
            seconds: seconds.map(|seconds| u64::try_from(seconds).unwrap_or(u64::MAX)),
        }
    }

    /// Locks the state. The code under this lock only assigns numbers, so the state stays usable even after a panic.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
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
        (self.trying, self.next) = (true, now + TRIAL_GAP);
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

    fn bad(&mut self, decisive: bool, strikes: usize, took: Duration, now: Instant) -> Turned {
        self.expire(now);
        if let Some(open) = self.open.as_mut().filter(|_| decisive) {
            open.delay_next_trial(took, now);
        }
        let strikes = strikes.min(BREAKER_STRIKES - self.strikes.len());
        self.strikes.extend(iter::repeat_n(now, strikes));
        match &mut self.open {
            // A trial before the end of the open period does not lengthen it.
            Some(open) if decisive && open.until <= now => {
                open.period = (open.period * 2).min(BREAKER_OPEN_MAX);
                open.until = now + open.period;
                Turned::Open(open.period)
            }
            None if self.strikes.len() >= BREAKER_STRIKES => {
                self.open = Some(Open {
                    until: now + BREAKER_OPEN,
                    period: BREAKER_OPEN,
                    trying: false,
                    next: now + TRIAL_GAP,
                    gap: TRIAL_GAP,
                    line: now,
                });
                Turned::Open(BREAKER_OPEN)
            }
            _ => Turned::No,
        }
    }
}

impl Trial<'_> {
    /// Returns whether this breaker gave the permission.
    pub fn is_of(&self, breaker: &Breaker) -> bool {
        std::ptr::eq(self.breaker, breaker)
    }

    /// Reports a good call: the plugin returned a decision, or a reason why it cannot decide.
    pub fn passed(self) -> Turned {
        let mut inner = self.breaker.lock();
        if inner.era == self.era { inner.good(self.decisive) } else { Turned::No }
    }

    /// Reports a bad call: it failed, or its answer was denied.
    pub fn failed(self, now: Instant) -> Turned {
        self.strike(1, now)
    }

    /// Reports a bad call that used up its time, which costs more than any other failure.
    pub fn overdue(self, now: Instant) -> Turned {
        self.strike(BREAKER_OVERDUE, now)
    }

    fn strike(self, strikes: usize, now: Instant) -> Turned {
        let mut inner = self.breaker.lock();
        let took = now.saturating_duration_since(self.began);
        if inner.era == self.era { inner.bad(self.decisive, strikes, took, now) } else { Turned::No }
    }
}

impl Drop for Trial<'_> {
    /// Allows another trial, if this one ended without a verdict.
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

    const FAILED: ParentRecord = ParentRecord { failed: true, place: None };
    const NEW: ParentRecord = ParentRecord { failed: false, place: None };

    /// A breaker that was opened at this time.
    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::default();
        for _ in 1..BREAKER_STRIKES {
            assert_eq!(breaker.admit(now, FAILED).unwrap().failed(now), Turned::No);
        }
        assert_eq!(breaker.admit(now, FAILED).unwrap().failed(now), Turned::Open(BREAKER_OPEN));
        breaker
    }

    #[test]
    fn enough_strikes_open_it() {
        let now = Instant::now();
        let breaker = opened(now);
        assert_eq!(breaker.shown(now).state, State::Open);
        assert_eq!(breaker.shown(now).seconds, Some(BREAKER_OPEN.as_secs()));
        assert_eq!(breaker.admit(after(now, 10), FAILED).unwrap_err(), now + BREAKER_OPEN);
    }

    #[test]
    fn calls_that_use_up_their_time_open_it_sooner() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        assert_eq!(breaker.admit(now, FAILED).unwrap().overdue(now), Turned::No);
        assert_eq!(breaker.admit(now, FAILED).unwrap().overdue(now), Turned::Open(BREAKER_OPEN));
        assert_eq!(breaker.shown(now).strikes, BREAKER_STRIKES);
    }

    #[test]
    fn old_strikes_do_not_count() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for strike in 0..20 {
            let at = now + BREAKER_WINDOW / 4 * strike;
            assert_eq!(breaker.admit(at, FAILED).unwrap().failed(at), Turned::No);
        }
    }

    #[test]
    fn a_good_call_removes_a_strike() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..50 {
            assert_eq!(breaker.admit(now, FAILED).unwrap().failed(now), Turned::No);
            assert_eq!(breaker.admit(now, NEW).unwrap().passed(), Turned::No);
        }
        assert_eq!(breaker.shown(now), BreakerStatus { state: State::Closed, strikes: 0, seconds: None });
    }

    #[test]
    fn after_the_open_period_it_is_half_open_and_one_good_trial_closes_it() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + BREAKER_OPEN;
        assert_eq!(breaker.shown(now).state, State::HalfOpen);
        let trial = breaker.admit(now, FAILED).unwrap();
        assert!(breaker.admit(now, FAILED).is_err(), "one trial at a time");
        assert_eq!(trial.passed(), Turned::Closed);
        assert_eq!(breaker.shown(now), BreakerStatus { state: State::Closed, strikes: 0, seconds: None });
    }

    #[test]
    fn each_bad_trial_doubles_the_open_period_up_to_a_bound() {
        let mut now = Instant::now();
        let breaker = opened(now);
        let mut period = BREAKER_OPEN;
        for _ in 0..20 {
            now += period;
            period = (period * 2).min(BREAKER_OPEN_MAX);
            assert_eq!(breaker.admit(now, FAILED).unwrap().failed(now), Turned::Open(period));
            assert_eq!(breaker.shown(now).seconds, Some(period.as_secs()));
        }
    }

    #[test]
    fn a_parent_that_has_not_failed_is_tried_while_the_circuit_is_open_but_not_often() {
        let start = Instant::now();
        let breaker = opened(start);
        assert!(breaker.admit(start, NEW).is_err(), "it was called just now");
        let now = after(start, 1);
        assert_eq!(
            breaker.admit(now, NEW).unwrap().failed(now),
            Turned::No,
            "this bad trial does not lengthen the open period"
        );
        let line: Vec<_> = (0..3).map(|_| breaker.admit(now, NEW).unwrap_err()).collect();
        assert_eq!(line, [now + 2 * TRIAL_GAP, now + 3 * TRIAL_GAP, now + 4 * TRIAL_GAP], "they wait in line");
        assert_eq!(breaker.admit(line[0], NEW).unwrap().passed(), Turned::Closed);
    }

    #[test]
    fn a_parent_that_asks_repeatedly_keeps_its_place_and_delays_no_other() {
        let now = Instant::now();
        let breaker = opened(now);
        let mut restless = NEW;
        for _ in 0..1000 {
            restless.place = Some(breaker.admit(now, restless).unwrap_err());
        }
        assert_eq!(restless.place, Some(now + 2 * TRIAL_GAP));
        assert_eq!(breaker.admit(now, NEW).unwrap_err(), now + 3 * TRIAL_GAP);
    }

    #[test]
    fn bad_trials_make_further_trials_rarer() {
        let start = Instant::now();
        let breaker = opened(start);
        let tick = TRIAL_GAP / 10;
        let tries = |from: Instant, seconds: u32| {
            let ticks = (0..).map(|n| from + tick * n).take_while(|now| *now < from + Duration::from_secs(1) * seconds);
            ticks.filter_map(|now| Some(breaker.admit(now, NEW).ok()?.failed(now))).count()
        };
        assert_eq!(tries(start, 5), 5, "after 0.25, 0.5, 1, 2 and 4 seconds");
        assert_eq!(tries(after(start, 20), 40), 5, "the first at once, then after 8, 10, 10 and 10 seconds");
        assert_eq!(breaker.admit(after(start, 71), NEW).unwrap().passed(), Turned::Closed);
    }

    #[test]
    fn a_trial_that_takes_long_is_followed_by_a_long_pause() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = after(start, 1);
        let slow = breaker.admit(now, NEW).unwrap();
        let end = now + Duration::from_millis(500);
        assert_eq!(slow.failed(end), Turned::No);
        assert!(breaker.admit(after(end, 1), NEW).is_err());
        assert!(breaker.admit(after(end, 2), NEW).is_ok());
    }

    #[test]
    fn every_parent_that_comes_when_it_is_due_is_tried_in_the_end() {
        let start = Instant::now();
        let breaker = opened(start);
        let mut line: Vec<(Instant, usize)> = (0..20).map(|parent| (start, parent)).collect();
        let mut tried = Vec::new();
        while tried.len() < 20 {
            line.sort();
            let (now, parent) = line.remove(0);
            assert!(now < start + 21 * MAX_TRIAL_GAP, "{line:?}");
            match breaker.admit(now, NEW) {
                Ok(trial) => tried.push((parent, trial.failed(now))),
                Err(again) => line.push((again, parent)),
            }
        }
    }

    #[test]
    fn a_trial_that_ends_without_a_verdict_allows_another() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + BREAKER_OPEN;
        drop(breaker.admit(now, FAILED).unwrap());
        let running = breaker.admit(after(now, 1), FAILED);
        assert!(running.is_ok());
        assert!(breaker.admit(after(now, 5), FAILED).is_err(), "one runs");
    }

    #[test]
    fn a_trial_begins_once_the_gap_after_the_last_one_is_over() {
        let start = Instant::now();
        let breaker = opened(start);
        drop(breaker.admit(start + TRIAL_GAP, NEW).unwrap());
        assert_eq!(breaker.admit(start + TRIAL_GAP, NEW).unwrap_err(), start + 3 * TRIAL_GAP);
        assert!(breaker.admit(start + 2 * TRIAL_GAP, NEW).is_ok());
    }

    #[test]
    fn a_parent_whose_time_comes_during_a_trial_is_given_a_later_one() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = after(start, 1);
        let _running = breaker.admit(now, NEW).unwrap();
        assert!(breaker.admit(now, ParentRecord { failed: false, place: Some(now) }).unwrap_err() > now);
    }

    #[test]
    fn a_call_from_before_it_opened_neither_ends_a_trial_nor_counts_after_it_closed() {
        let (breaker, start) = (Breaker::default(), Instant::now());
        let calls = [(); 2].map(|()| breaker.admit(start, NEW).unwrap());
        for _ in 0..BREAKER_STRIKES {
            let _turned = breaker.admit(start, FAILED).map(|trial| trial.failed(start));
        }
        let now = start + BREAKER_OPEN;
        let [cancelled, late] = calls;
        let trial = breaker.admit(now, FAILED).unwrap();
        drop(cancelled);
        assert!(breaker.admit(after(now, 1), FAILED).is_err(), "one trial at a time");
        assert_eq!(trial.passed(), Turned::Closed);
        assert_eq!(late.failed(now), Turned::No);
        assert_eq!(breaker.shown(now).strikes, 0);
    }

    #[test]
    fn a_trial_is_of_the_breaker_that_admitted_it() {
        let (one, other) = (Breaker::default(), Breaker::default());
        let trial = one.admit(Instant::now(), NEW).unwrap();
        assert!(trial.is_of(&one) && !trial.is_of(&other));
    }

    #[test]
    fn a_state_has_the_same_name_everywhere() {
        for state in [State::Closed, State::HalfOpen, State::Open] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn a_new_revision_starts_without_strikes_and_calls_of_the_old_one_do_not_count() {
        let now = Instant::now();
        let breaker = opened(now);
        let late = breaker.admit(now + BREAKER_OPEN, FAILED).unwrap();
        breaker.reset();
        assert_eq!(late.failed(now), Turned::No);
        assert_eq!(breaker.shown(now), BreakerStatus { state: State::Closed, strikes: 0, seconds: None });
        assert!(breaker.admit(now, FAILED).is_ok());
    }

    #[test]
    fn a_call_from_before_it_opened_does_not_close_it() {
        let now = Instant::now();
        let breaker = Breaker::default();
        let slow = breaker.admit(now, NEW).unwrap();
        for _ in 0..BREAKER_STRIKES {
            let _turned = breaker.admit(now, FAILED).map(|trial| trial.failed(now));
        }
        assert_eq!(slow.passed(), Turned::No);
        assert_eq!(breaker.shown(now).state, State::Open);
    }
}
