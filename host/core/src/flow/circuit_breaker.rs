//! The circuit breaker of a plugin: a plugin that keeps failing is not called for a while, so that
//! it costs the host and the other plugins nothing. What counts as a bad call says [`signal`](crate::flow::signal).
//!
//! There is a [circuit](crate::flow::circuit) for each namespace in which it fails, and one for the whole plugin. The
//! users of a namespace may write objects for which no plugin can decide, and may change them as often as they like:
//! that opens the circuit of their namespace, and never that of the plugin. This has two reasons. Of one namespace, the
//! circuit of the plugin counts fewer strikes than open it. And while it is open, trials are left to the namespaces whose
//! own circuits are closed: users of two namespaces can open it, but the next call for a third namespace closes it.
//!
//! If all parents are in one namespace, the circuit of the namespace is that of the plugin. A new revision begins with
//! closed circuits.
//!
//! Used between *observe* and *decide*; it does not await.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::flow::circuit::{Bad, Call, Circuit, ParentRecord, State, Transition};
use crate::model::kind::{Key, Namespace};
use crate::model::limits::{BREAKER_STRIKES, BREAKER_WINDOW};

/// The number of strikes of one namespace that count for the circuit of the plugin: one fewer than open it.
const MOST_OF_NAMESPACE: usize = BREAKER_STRIKES - 1;

/// The largest number of namespaces that the status lists.
const MOST_LISTED: usize = 10;

/// The circuit breaker of one plugin.
#[derive(Debug, Default)]
pub struct Breaker {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    whole: Circuit,
    /// The circuits of those namespaces for which a call failed lately.
    namespaces: HashMap<Namespace, Circuit>,
    /// These namespaces, each once, with the time when their circuits were made or last looked at; the oldest first.
    looked_at: VecDeque<(Instant, Namespace)>,
    served: Served,
    /// The number of the next call.
    next: u64,
    /// The first call of the revision: the results of earlier ones are ignored.
    first: u64,
}

/// The namespaces with parents for which the plugin was to be called.
#[derive(Debug, Default)]
enum Served {
    #[default]
    None,
    One(Namespace),
    Several,
}

/// The state of the breaker, as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakerStatus {
    /// The state of the plugin's circuit.
    pub state: State,
    /// Recent bad calls minus the good ones since.
    pub strikes: usize,
    /// Seconds for which the circuit stays open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// The parent for which the last bad call was, if the circuit is not closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The namespaces for whose parents the plugin is not called although its circuit is closed for others; the first
    /// ones by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceCircuit>,
    /// The number of these namespaces.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub namespace_count: usize,
}

/// A namespace for whose parents the plugin is not called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceCircuit {
    /// The namespace; empty for parents without one.
    pub namespace: String,
    /// The parent for which the last bad call was, as `NAMESPACE/NAME`.
    pub parent: String,
    /// The state of the namespace's circuit.
    pub state: State,
    /// Seconds for which the circuit stays open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The permission to make one call; its result is reported to the breaker.
#[derive(Debug)]
#[must_use]
pub struct Trial<'a> {
    breaker: &'a Breaker,
    parent: Key,
    number: u64,
    /// Whether it is a trial of the circuit of the parent's namespace.
    of_namespace: bool,
    /// Whether it is a trial of the circuit of the plugin.
    of_whole: bool,
    began: Instant,
}

/// For which parents a circuit changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For all parents.
    Plugin,
    /// For those of one namespace.
    Namespace(Namespace),
}

/// How a verdict changed the circuits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopedTransition {
    /// They did not change.
    No,
    /// A circuit is closed again: the plugin may be called for parents that waited.
    Closed(Scope),
    /// A circuit is open for this long.
    Open(Scope, Duration),
}

impl Breaker {
    /// Asks to call the plugin for a parent.
    ///
    /// # Errors
    /// Returns the time for the next try.
    pub fn admit(&self, now: Instant, parent: &Key, record: ParentRecord) -> Result<Trial<'_>, Instant> {
        let mut inner = self.lock();
        inner.served.add(&parent.namespace);
        let (of_namespace, of_whole) = inner.admit(now, &parent.namespace, record)?;
        let number = inner.next;
        inner.next += 1;
        Ok(Trial { breaker: self, parent: parent.clone(), number, of_namespace, of_whole, began: now })
    }

    /// Closes the circuits for a new revision, which has parents in these namespaces.
    pub fn reset<'n>(&self, namespaces: impl IntoIterator<Item = &'n Namespace>) {
        let mut inner = self.lock();
        let next = inner.next;
        *inner = Inner { next, first: next, ..Inner::default() };
        for namespace in namespaces {
            inner.served.add(namespace);
            if let Served::Several = inner.served {
                break;
            }
        }
    }

    /// Returns the state of the circuits.
    pub fn shown(&self, now: Instant) -> BreakerStatus {
        self.lock().shown(now)
    }

    /// Returns the state of the plugin's circuit.
    pub fn state(&self, now: Instant) -> State {
        self.lock().of_plugin().map_or(State::Closed, |circuit| circuit.state(now))
    }

    /// Locks the state. The code under this lock only assigns numbers, so the state stays usable even after a panic.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Served {
    fn add(&mut self, namespace: &Namespace) {
        match self {
            Self::None => *self = Self::One(namespace.clone()),
            Self::One(one) if one != namespace => *self = Self::Several,
            Self::One(_) | Self::Several => {}
        }
    }
}

impl Inner {
    /// Returns whether a call is a trial of the circuit of its namespace, and of that of the plugin.
    fn admit(&mut self, now: Instant, namespace: &Namespace, record: ParentRecord) -> Result<(bool, bool), Instant> {
        let mut own = self.namespaces.get_mut(namespace);
        let of_namespace = own.as_mut().map_or(Ok(false), |own| own.admit(now, record))?;
        // Trials of the plugin's circuit are for those that did not open it.
        if let Some(until) = self.whole.open_until(now).filter(|_| of_namespace) {
            return Err(until);
        }
        let of_whole = self.whole.admit(now, record)?;
        own.into_iter().for_each(|own| own.begin_trial(now));
        self.whole.begin_trial(now);
        Ok((of_namespace, of_whole))
    }

    fn good(&mut self, trial: &Trial<'_>, now: Instant) -> ScopedTransition {
        let next = self.next;
        let own = self.of_namespace(trial).map_or(Transition::None, |(own, call)| own.good(call, next, now));
        let whole = self.of_whole(trial).map_or(Transition::None, |(whole, call)| whole.good(call, next, now));
        self.scoped(&trial.parent.namespace, own, whole)
    }

    fn bad(&mut self, trial: &Trial<'_>, strikes: usize, now: Instant) -> ScopedTransition {
        if trial.number < self.first {
            return ScopedTransition::No;
        }
        self.remember(&trial.parent.namespace, now);
        let took = now.saturating_duration_since(trial.began);
        let bad = |most_of_namespace| Bad { strikes, most_of_namespace, took };
        let own = self.of_namespace(trial).map(|(own, call)| own.bad(call, bad(BREAKER_STRIKES), now));
        let whole = self.of_whole(trial).map(|(whole, call)| whole.bad(call, bad(MOST_OF_NAMESPACE), now));
        self.scoped(&trial.parent.namespace, own.unwrap_or(Transition::None), whole.unwrap_or(Transition::None))
    }

    /// Ends the trial without a verdict, where it had none.
    fn end(&mut self, trial: &Trial<'_>) {
        if let Some((own, call)) = self.of_namespace(trial) {
            own.end_trial(call);
        }
        if let Some((whole, call)) = self.of_whole(trial) {
            whole.end_trial(call);
        }
    }

    /// Makes a circuit for a namespace, and forgets those of namespaces in which nothing failed for long.
    fn remember(&mut self, namespace: &Namespace, now: Instant) {
        if !self.namespaces.contains_key(namespace) {
            self.forget_old(now);
            self.namespaces.insert(namespace.clone(), Circuit::default());
            self.looked_at.push_back((now, namespace.clone()));
        }
    }

    /// Forgets the circuits that need not be remembered. Looks at each at most once in the time for which a strike
    /// counts: a plugin that fails in thousands of namespaces must not cost a look at all of them for each.
    fn forget_old(&mut self, now: Instant) {
        while self.looked_at.front().is_some_and(|(at, _)| *at + BREAKER_WINDOW <= now)
            && let Some((_, namespace)) = self.looked_at.pop_front()
        {
            if self.namespaces.get(&namespace).is_some_and(|circuit| !circuit.is_forgettable(now)) {
                self.looked_at.push_back((now, namespace));
            } else {
                self.namespaces.remove(&namespace);
            }
        }
    }

    /// Returns the circuit of the trial's namespace, if there is one and the trial's result counts for it.
    fn of_namespace<'t>(&mut self, trial: &'t Trial<'_>) -> Option<(&mut Circuit, Call<'t>)> {
        let call = Call { parent: &trial.parent, number: trial.number, is_trial: trial.of_namespace };
        let circuit = self.namespaces.get_mut(&trial.parent.namespace)?;
        (trial.number >= self.first && circuit.counts(call)).then_some((circuit, call))
    }

    /// Returns the circuit of the plugin, if the trial's result counts for it.
    fn of_whole<'t>(&mut self, trial: &'t Trial<'_>) -> Option<(&mut Circuit, Call<'t>)> {
        let call = Call { parent: &trial.parent, number: trial.number, is_trial: trial.of_whole };
        (trial.number >= self.first && self.whole.counts(call)).then_some((&mut self.whole, call))
    }

    fn scoped(&self, namespace: &Namespace, own: Transition, whole: Transition) -> ScopedTransition {
        let scope = match (whole, &self.served) {
            (Transition::None, Served::Several) => Scope::Namespace(namespace.clone()),
            _ => Scope::Plugin,
        };
        match if whole == Transition::None { own } else { whole } {
            Transition::None => ScopedTransition::No,
            Transition::Closed => ScopedTransition::Closed(scope),
            Transition::Open(period) => ScopedTransition::Open(scope, period),
        }
    }

    /// Returns the circuit that is shown as that of the plugin.
    fn of_plugin(&self) -> Option<&Circuit> {
        match &self.served {
            Served::One(namespace) => self.namespaces.get(namespace),
            Served::None | Served::Several => Some(&self.whole),
        }
    }

    fn shown(&mut self, now: Instant) -> BreakerStatus {
        self.whole.expire(now);
        self.namespaces.values_mut().for_each(|circuit| circuit.expire(now));
        let circuit = self.of_plugin();
        let mut open: Vec<(&Namespace, &Circuit)> = match self.served {
            Served::None | Served::One(_) => Vec::new(),
            Served::Several => self.namespaces.iter().filter(|(_, one)| one.state(now) != State::Closed).collect(),
        };
        open.sort_unstable_by_key(|(namespace, _)| *namespace);
        let listed = open.iter().take(MOST_LISTED);
        BreakerStatus {
            state: circuit.map_or(State::Closed, |circuit| circuit.state(now)),
            strikes: circuit.map_or(0, Circuit::strikes),
            seconds: circuit.and_then(|circuit| seconds_open(circuit, now)),
            parent: circuit.and_then(Circuit::parent).map(Key::to_string),
            namespace_count: open.len(),
            namespaces: listed.filter_map(|(_, circuit)| NamespaceCircuit::of(circuit, now)).collect(),
        }
    }
}

impl NamespaceCircuit {
    fn of(circuit: &Circuit, now: Instant) -> Option<Self> {
        let parent = circuit.parent()?;
        let namespace = parent.namespace.as_deref().unwrap_or_default().to_owned();
        Some(Self {
            namespace,
            parent: parent.to_string(),
            state: circuit.state(now),
            seconds: seconds_open(circuit, now),
        })
    }
}

/// Returns the seconds for which a circuit stays open, rounded up.
fn seconds_open(circuit: &Circuit, now: Instant) -> Option<u64> {
    let left = circuit.open_until(now)?.saturating_duration_since(now);
    Some(u64::try_from(left.as_millis().div_ceil(1000)).unwrap_or(u64::MAX))
}

impl Trial<'_> {
    /// Ends the call with the [strikes](crate::flow::signal::strikes) that it adds: none for a good call. Without a verdict,
    /// the circuit stays as it is.
    pub fn end(self, strikes: Option<usize>, now: Instant) -> ScopedTransition {
        match strikes {
            None => ScopedTransition::No,
            Some(0) => self.breaker.lock().good(&self, now),
            Some(strikes) => self.breaker.lock().bad(&self, strikes, now),
        }
    }
}

impl Drop for Trial<'_> {
    /// Allows another trial, if this one ended without a verdict.
    fn drop(&mut self) {
        self.breaker.lock().end(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::circuit::{MAX_TRIAL_GAP, TRIAL_GAP};
    use crate::flow::signal;
    use crate::flow::signal::Signal;
    use crate::model::limits::{BREAKER_OPEN, BREAKER_OPEN_MAX, BREAKER_OVERDUE};

    impl Trial<'_> {
        fn passed(self, now: Instant) -> ScopedTransition {
            self.end(Some(0), now)
        }

        fn failed(self, now: Instant) -> ScopedTransition {
            self.end(Some(1), now)
        }

        fn overdue(self, now: Instant) -> ScopedTransition {
            self.end(Some(BREAKER_OVERDUE), now)
        }
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    const FAILED: ParentRecord = ParentRecord { failed: true, place: None };
    const NEW: ParentRecord = ParentRecord { failed: false, place: None };

    /// The state of closed circuits.
    const ALL_CLOSED: BreakerStatus = BreakerStatus {
        state: State::Closed,
        strikes: 0,
        seconds: None,
        parent: None,
        namespaces: Vec::new(),
        namespace_count: 0,
    };

    fn cache() -> Key {
        Key::new(Some("shop"), "cache")
    }

    /// A breaker that was opened at this time.
    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::default();
        for _ in 1..BREAKER_STRIKES {
            assert_eq!(breaker.admit(now, &cache(), FAILED).unwrap().failed(now), ScopedTransition::No);
        }
        assert_eq!(
            breaker.admit(now, &cache(), FAILED).unwrap().failed(now),
            ScopedTransition::Open(Scope::Plugin, BREAKER_OPEN)
        );
        breaker
    }

    #[test]
    fn enough_strikes_open_it() {
        let now = Instant::now();
        let breaker = opened(now);
        assert_eq!(breaker.shown(now).state, State::Open);
        assert_eq!(breaker.shown(now).seconds, Some(BREAKER_OPEN.as_secs()));
        assert_eq!(breaker.admit(after(now, 10), &cache(), FAILED).unwrap_err(), now + BREAKER_OPEN);
    }

    #[test]
    fn calls_that_use_up_their_time_open_it_sooner() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        assert_eq!(breaker.admit(now, &cache(), FAILED).unwrap().overdue(now), ScopedTransition::No);
        assert_eq!(
            breaker.admit(now, &cache(), FAILED).unwrap().overdue(now),
            ScopedTransition::Open(Scope::Plugin, BREAKER_OPEN)
        );
        assert_eq!(breaker.shown(now).strikes, BREAKER_STRIKES);
    }

    #[test]
    fn old_strikes_do_not_count() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for strike in 0..20 {
            let at = now + BREAKER_WINDOW / 4 * strike;
            assert_eq!(breaker.admit(at, &cache(), FAILED).unwrap().failed(at), ScopedTransition::No);
        }
    }

    #[test]
    fn a_good_call_removes_a_strike() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..50 {
            assert_eq!(breaker.admit(now, &cache(), FAILED).unwrap().failed(now), ScopedTransition::No);
            assert_eq!(breaker.admit(now, &cache(), NEW).unwrap().passed(now), ScopedTransition::No);
        }
        assert_eq!(breaker.shown(now), ALL_CLOSED);
    }

    #[test]
    fn after_the_open_period_it_is_half_open_and_one_good_trial_closes_it() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + BREAKER_OPEN;
        assert_eq!(breaker.shown(now).state, State::HalfOpen);
        let trial = breaker.admit(now, &cache(), FAILED).unwrap();
        assert!(breaker.admit(now, &cache(), FAILED).is_err(), "one trial at a time");
        assert_eq!(trial.passed(now), ScopedTransition::Closed(Scope::Plugin));
        assert_eq!(breaker.shown(now), ALL_CLOSED);
    }

    #[test]
    fn each_bad_trial_doubles_the_open_period_up_to_a_bound() {
        let mut now = Instant::now();
        let breaker = opened(now);
        let mut period = BREAKER_OPEN;
        for _ in 0..20 {
            now += period;
            period = (period * 2).min(BREAKER_OPEN_MAX);
            assert_eq!(
                breaker.admit(now, &cache(), FAILED).unwrap().failed(now),
                ScopedTransition::Open(Scope::Plugin, period)
            );
            assert_eq!(breaker.shown(now).seconds, Some(period.as_secs()));
        }
    }

    #[test]
    fn a_parent_that_has_not_failed_is_tried_while_the_circuit_is_open_but_not_often() {
        let start = Instant::now();
        let breaker = opened(start);
        assert!(breaker.admit(start, &cache(), NEW).is_err(), "it was called just now");
        let now = after(start, 1);
        assert_eq!(
            breaker.admit(now, &cache(), NEW).unwrap().failed(now),
            ScopedTransition::No,
            "this bad trial does not lengthen the open period"
        );
        let line: Vec<_> = (0..3).map(|_| breaker.admit(now, &cache(), NEW).unwrap_err()).collect();
        assert_eq!(line, [now + 2 * TRIAL_GAP, now + 3 * TRIAL_GAP, now + 4 * TRIAL_GAP], "they wait in line");
        assert_eq!(breaker.admit(line[0], &cache(), NEW).unwrap().passed(now), ScopedTransition::Closed(Scope::Plugin));
    }

    #[test]
    fn a_parent_that_asks_repeatedly_keeps_its_place_and_delays_no_other() {
        let now = Instant::now();
        let breaker = opened(now);
        let mut restless = NEW;
        for _ in 0..1000 {
            restless.place = Some(breaker.admit(now, &cache(), restless).unwrap_err());
        }
        assert_eq!(restless.place, Some(now + 2 * TRIAL_GAP));
        assert_eq!(breaker.admit(now, &cache(), NEW).unwrap_err(), now + 3 * TRIAL_GAP);
    }

    #[test]
    fn bad_trials_make_further_trials_rarer() {
        let start = Instant::now();
        let breaker = opened(start);
        let tick = TRIAL_GAP / 10;
        let tries = |from: Instant, seconds: u32| {
            let ticks = (0..).map(|n| from + tick * n).take_while(|now| *now < from + Duration::from_secs(1) * seconds);
            ticks.filter_map(|now| Some(breaker.admit(now, &cache(), NEW).ok()?.failed(now))).count()
        };
        assert_eq!(tries(start, 5), 5, "after 0.25, 0.5, 1, 2 and 4 seconds");
        assert_eq!(tries(after(start, 20), 40), 5, "the first at once, then after 8, 10, 10 and 10 seconds");
        assert_eq!(
            breaker.admit(after(start, 71), &cache(), NEW).unwrap().passed(after(start, 71)),
            ScopedTransition::Closed(Scope::Plugin)
        );
    }

    #[test]
    fn a_trial_that_takes_long_is_followed_by_a_long_pause() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = after(start, 1);
        let slow = breaker.admit(now, &cache(), NEW).unwrap();
        let end = now + Duration::from_millis(500);
        assert_eq!(slow.failed(end), ScopedTransition::No);
        assert!(breaker.admit(after(end, 1), &cache(), NEW).is_err());
        assert!(breaker.admit(after(end, 2), &cache(), NEW).is_ok());
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
            match breaker.admit(now, &cache(), NEW) {
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
        drop(breaker.admit(now, &cache(), FAILED).unwrap());
        let running = breaker.admit(after(now, 1), &cache(), FAILED);
        assert!(running.is_ok());
        assert!(breaker.admit(after(now, 5), &cache(), FAILED).is_err(), "one runs");
    }

    #[test]
    fn a_trial_begins_once_the_gap_after_the_last_one_is_over() {
        let start = Instant::now();
        let breaker = opened(start);
        drop(breaker.admit(start + TRIAL_GAP, &cache(), NEW).unwrap());
        assert_eq!(breaker.admit(start + TRIAL_GAP, &cache(), NEW).unwrap_err(), start + 3 * TRIAL_GAP);
        assert!(breaker.admit(start + 2 * TRIAL_GAP, &cache(), NEW).is_ok());
    }

    #[test]
    fn a_parent_whose_time_comes_during_a_trial_is_given_a_later_one() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = after(start, 1);
        let _running = breaker.admit(now, &cache(), NEW).unwrap();
        assert!(breaker.admit(now, &cache(), ParentRecord { failed: false, place: Some(now) }).unwrap_err() > now);
    }

    #[test]
    fn a_call_from_before_it_opened_neither_ends_a_trial_nor_counts_after_it_closed() {
        let (breaker, start) = (Breaker::default(), Instant::now());
        let calls = [(); 2].map(|()| breaker.admit(start, &cache(), NEW).unwrap());
        for _ in 0..BREAKER_STRIKES {
            let _turned = breaker.admit(start, &cache(), FAILED).map(|trial| trial.failed(start));
        }
        let now = start + BREAKER_OPEN;
        let [cancelled, late] = calls;
        let trial = breaker.admit(now, &cache(), FAILED).unwrap();
        drop(cancelled);
        assert!(breaker.admit(after(now, 1), &cache(), FAILED).is_err(), "one trial at a time");
        assert_eq!(trial.passed(now), ScopedTransition::Closed(Scope::Plugin));
        assert_eq!(late.failed(now), ScopedTransition::No);
        assert_eq!(breaker.shown(now).strikes, 0);
    }

    #[test]
    fn a_new_revision_starts_without_strikes_and_calls_of_the_old_one_do_not_count() {
        let now = Instant::now();
        let breaker = opened(now);
        let late = breaker.admit(now + BREAKER_OPEN, &cache(), FAILED).unwrap();
        breaker.reset([]);
        assert_eq!(late.failed(now), ScopedTransition::No);
        assert_eq!(breaker.shown(now), ALL_CLOSED);
        assert!(breaker.admit(now, &cache(), FAILED).is_ok());
    }

    #[test]
    fn a_call_from_before_it_opened_does_not_close_it() {
        let now = Instant::now();
        let breaker = Breaker::default();
        let slow = breaker.admit(now, &cache(), NEW).unwrap();
        for _ in 0..BREAKER_STRIKES {
            let _turned = breaker.admit(now, &cache(), FAILED).map(|trial| trial.failed(now));
        }
        assert_eq!(slow.passed(now), ScopedTransition::No);
        assert_eq!(breaker.shown(now).state, State::Open);
    }

    /// A parent of this namespace.
    fn of(namespace: &str) -> Key {
        Key::new(Some(namespace), "cache")
    }

    /// Fails the calls for a parent that changes before each, once in this time, for these many seconds.
    fn keep_failing(
        breaker: &Breaker,
        parent: &Key,
        start: Instant,
        every: Duration,
        seconds: u64,
    ) -> Vec<ScopedTransition> {
        let times = (0..).map(|n| start + every * n).take_while(|now| *now < after(start, seconds));
        times.filter_map(|now| Some(breaker.admit(now, parent, NEW).ok()?.failed(now))).collect()
    }

    #[test]
    fn failures_in_one_namespace_never_hold_up_a_call_for_another() {
        let (breaker, start) = (Breaker::default(), Instant::now());
        breaker.reset([&of("shop").namespace, &of("evil").namespace]);
        let turned = keep_failing(&breaker, &of("evil"), start, Duration::from_millis(300), 600);
        let own = Scope::Namespace(of("evil").namespace);
        assert!(turned.contains(&ScopedTransition::Open(own.clone(), BREAKER_OPEN)), "{turned:?}");
        assert!(turned.iter().all(|one| !matches!(one, ScopedTransition::Open(Scope::Plugin, _))), "{turned:?}");
        assert!(turned.len() < 75, "its own circuit is open: {}", turned.len());
        let now = after(start, 600);
        let status = breaker.shown(now);
        assert_eq!((status.state, status.parent, status.namespace_count), (State::Closed, None, 1));
        assert_eq!(status.namespaces[0].parent, "evil/cache");
        assert_eq!(breaker.admit(now, &of("shop"), NEW).unwrap().passed(now), ScopedTransition::No);
        let trial = breaker.admit(after(now, 60), &of("evil"), NEW).unwrap();
        assert_eq!(trial.passed(after(now, 60)), ScopedTransition::Closed(own));
        assert_eq!(breaker.shown(after(now, 60)).namespaces, []);
    }

    #[test]
    fn a_plugin_that_fails_in_two_namespaces_is_called_for_no_parent_but_a_trial_for_a_third_closes_its_circuit() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        let failed = |namespace| breaker.admit(now, &of(namespace), FAILED).unwrap().failed(now);
        let turned = ["a", "a", "a", "a", "a", "b"].map(failed);
        assert_eq!(
            turned[4..],
            [ScopedTransition::Open(Scope::Plugin, BREAKER_OPEN), ScopedTransition::Open(Scope::Plugin, BREAKER_OPEN)],
            "of the only namespace, then of all"
        );
        assert_eq!(breaker.state(now), State::Open);
        let later = after(now, 1);
        assert_eq!(breaker.admit(later, &of("c"), FAILED).unwrap_err(), now + BREAKER_OPEN);
        assert_eq!(breaker.admit(later, &of("a"), NEW).unwrap_err(), now + BREAKER_OPEN, "the trials are for others");
        assert_eq!(breaker.admit(later, &of("c"), NEW).unwrap().passed(later), ScopedTransition::Closed(Scope::Plugin));
        assert!(breaker.admit(later, &of("b"), FAILED).is_ok());
        assert!(breaker.admit(later, &of("a"), FAILED).is_err(), "the circuit of this namespace is still open");
        assert_eq!(breaker.shown(later).namespaces.len(), 1);
    }

    #[test]
    fn a_plugin_that_fails_everywhere_is_called_once_in_each_open_period() {
        let (breaker, mut now) = (Breaker::default(), Instant::now());
        let namespaces: Vec<Key> = (0..50).map(|number| of(&format!("n{number}"))).collect();
        let mut calls = 0;
        for _ in 0..3600 {
            for parent in &namespaces {
                calls += usize::from(breaker.admit(now, parent, FAILED).map(|trial| trial.failed(now)).is_ok());
            }
            now += Duration::from_secs(1);
        }
        assert!(calls < 20, "{calls} calls in an hour");
    }

    #[test]
    fn a_namespace_in_which_nothing_failed_for_long_is_forgotten() {
        let (breaker, start) = (Breaker::default(), Instant::now());
        for number in 0..100 {
            let parent = of(&format!("n{number}"));
            for _ in 0..BREAKER_STRIKES {
                let _turned = breaker.admit(start, &parent, FAILED).map(|trial| trial.failed(start));
            }
        }
        let now = start + BREAKER_OPEN + BREAKER_OPEN_MAX;
        assert_ne!(
            breaker.admit(now, &of("late"), FAILED).unwrap().failed(now),
            ScopedTransition::No,
            "the trial was bad"
        );
        assert_eq!(breaker.lock().namespaces.len(), 1);
    }

    #[test]
    fn a_circuit_is_looked_at_once_in_a_window_however_many_namespaces_fail_meanwhile() {
        let (breaker, start) = (Breaker::default(), Instant::now());
        let times_looked_at = || {
            let times = breaker.lock().looked_at.iter().map(|(at, _)| *at).collect::<Vec<_>>();
            assert_eq!(times.len(), breaker.lock().namespaces.len(), "each namespace is there once");
            times
        };
        let fail_in = |number: u32, now: Instant| {
            let trial = breaker.admit(now, &of(&format!("n{number}")), FAILED).unwrap();
            assert_eq!(trial.failed(now), ScopedTransition::No);
            assert_eq!(
                breaker.admit(now, &of("shop"), NEW).unwrap().passed(now),
                ScopedTransition::No,
                "it works elsewhere"
            );
        };
        let tick = BREAKER_WINDOW / 1_000;
        let times: Vec<Instant> = (0..1_000).map(|number| start + tick * number).collect();
        times.iter().zip(0..).for_each(|(now, number)| fail_in(number, *now));
        assert_eq!(times_looked_at(), times, "none was looked at again");
        // It is known since the start, and has failed since.
        let late = start + BREAKER_WINDOW - tick;
        fail_in(0, late);
        let now = start + BREAKER_WINDOW + tick;
        fail_in(1_000, now);
        let kept = times[2..].iter().copied().chain([now, now]).collect::<Vec<_>>();
        assert_eq!(
            times_looked_at(),
            kept,
            "the first stays, and the second, in which nothing failed since, is forgotten"
        );
    }

    #[test]
    fn the_status_lists_a_bounded_number_of_namespaces_by_name() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for number in (0..30).rev() {
            for _ in 0..BREAKER_STRIKES {
                let _turned = breaker.admit(now, &of(&format!("n{number:02}")), FAILED).map(|trial| trial.failed(now));
                let good = breaker.admit(now, &of("shop"), NEW).map(|trial| trial.passed(now));
                assert!(good.is_ok());
            }
        }
        let status = breaker.shown(now);
        assert_eq!((status.state, status.namespace_count, status.namespaces.len()), (State::Closed, 30, MOST_LISTED));
        assert_eq!(
            status.namespaces[0],
            NamespaceCircuit {
                namespace: "n00".into(),
                parent: "n00/cache".into(),
                state: State::Open,
                seconds: Some(BREAKER_OPEN.as_secs())
            }
        );
    }

    /// Returns the state after this many calls, one in a second, that show these signals.
    fn after_calls(calls: u64, signals: impl Fn(u64) -> Vec<Signal>) -> State {
        let (breaker, start) = (Breaker::default(), Instant::now());
        for call in 0..calls {
            let now = after(start, call);
            let Ok(trial) = breaker.admit(now, &cache(), NEW) else { break };
            if matches!(trial.end(signal::strikes(&signals(call)), now), ScopedTransition::Open(..)) {
                return State::Open;
            }
        }
        State::Closed
    }

    fn kept_invalid(tries: u32, is_own_time: bool) -> Vec<Signal> {
        vec![Signal::StaysInvalid { tries, is_own_time }, Signal::Good]
    }

    #[test]
    fn a_decision_whose_writes_went_well_is_good() {
        assert_eq!(after_calls(100, |_| vec![Signal::Good]), State::Closed);
    }

    #[test]
    fn asking_again_and_again_with_a_child_that_is_invalid_opens_the_circuit() {
        assert_eq!(after_calls(6, |call| kept_invalid(1 + u32::from(call > 0), true)), State::Open);
    }

    #[test]
    fn an_invalid_child_that_the_host_retries_at_its_own_pace_never_opens_it() {
        assert_eq!(after_calls(100, |_| kept_invalid(9, false)), State::Closed);
        assert_eq!(after_calls(100, |_| kept_invalid(1, true)), State::Closed);
    }

    #[test]
    fn unanswered_writes_open_it_though_as_many_are_answered() {
        let held = |every: u64| {
            move |call: u64| match call.is_multiple_of(every) {
                true => vec![Signal::Unanswered, Signal::Good],
                false => vec![Signal::Good],
            }
        };
        assert_eq!(after_calls(2, held(1)), State::Open);
        assert_eq!(after_calls(20, held(2)), State::Open);
        assert_eq!(after_calls(100, held(5)), State::Closed, "the good ones prevail");
    }
}
