//! Decides whether a revision that has just become active does worse than the one before it.
//!
//! For ten minutes after a swap its failures, call times and flapping are compared with those of its predecessor. Past
//! a threshold the verdict is to roll back, with a reason for the administrator. Pure except for the lock; `rollout`
//! rolls back, but first checks whether the predecessor does better on the parents that the new revision failed on.
//!
//! So a bad revision is rolled back within seconds, without an administrator. The circuit breaker alone would stop it,
//! but leave its parents unserved until an administrator acts.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::flow::signal::Signal;
use crate::model::digest::Digest;
use crate::model::kind::Key;
use crate::model::sanitize;

/// How long a new revision is compared with the one before it.
const PROBATION: Duration = Duration::from_secs(600);
/// How long a canary is compared with the active revision: until the canary ends, so longer than any canary lasts.
const CANARY_PROBATION: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The pause after a failed rollback before the revision is compared again.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// The number of failures below which no revision is rolled back: fewer prove nothing.
const MIN_FAILURES: u32 = 5;
/// The share of failed calls may double and then grow by this much.
const FAILURE_MARGIN: f64 = 0.05;
/// The number of calls that each of the two revisions must have before their call times are compared.
const MIN_CALLS: u32 = 10;
/// How often a revision may change its decision on average for each parent that does not change: this many times at
/// once…
const CHANGES_AT_ONCE: f64 = 30.0;
/// …and then once in this interval.
const CHANGE_INTERVAL: Duration = Duration::from_secs(30);
/// The number of flapping parents from which they count together. With fewer, each counts by itself.
const MIN_FLAPPING_PARENTS: usize = 20;
/// A call may take this many times as long as before…
const MAX_SLOWDOWN: u32 = 5;
/// …or at least this long, however fast the revision before was.
const ACCEPTABLE_CALL_TIME: Duration = Duration::from_millis(10);
/// The most parents to remember on which a revision failed.
const MAX_FAILED_PARENTS: usize = 8;
/// The maximum length of a reason, in bytes.
const MAX_REASON_BYTES: usize = 1_000;
/// After this many calls the counts are halved, so that recent calls weigh more than old ones.
const MAX_COUNTED_CALLS: u32 = 2_000;

/// Counts and times of the calls of one revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStats {
    calls: u32,
    failures: u32,
    time: Duration,
}

/// The probation of one plugin's revisions.
#[derive(Debug, Default)]
pub struct Probation {
    inner: Mutex<Inner>,
}

/// How a revision became active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbationStart {
    /// The revision replaced another one, with which it is compared.
    OnProbation,
    /// The revision is active again after a restart of the host. Has the time that it had been on probation, and the
    /// calls of the revision that it is compared with.
    Resumed(Duration, CallStats),
    /// The revision is a canary beside the active one. Has the calls of the active one, with which the canary is
    /// compared until it ends.
    Beside(CallStats),
    /// The revision is not compared: there was none before it, or its failures are known and approved.
    Unjudged,
    /// A rollback made it active. The calls of the revision that was rolled back are ignored.
    Return,
}

/// The verdict that the active revision should be rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RollbackVerdict {
    /// The reason, for the administrator.
    pub why: String,
    /// The last parents on which it failed, if that is the reason. If the revision before it fails on them too, it is
    /// no worse.
    pub failed_on: Vec<Key>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The active revision.
    digest: Option<Digest>,
    before: CallStats,
    now: CallStats,
    /// The parents on which it failed, the most recent one last.
    failed_on: Vec<Key>,
    /// How often it flapped.
    flaps: Flaps,
    /// When the comparison begins again after a failed rollback.
    from: Option<Instant>,
    /// The end of its probation; none if it is not on probation.
    until: Option<Instant>,
    /// Whether a verdict was given; then no other is given for it.
    has_verdict: bool,
    /// The verdict, until it is taken.
    verdict: Option<RollbackVerdict>,
}

impl Probation {
    /// Begins the probation of a revision that has become active.
    pub fn begin(&self, now: Instant, digest: Digest, beginning: ProbationStart) {
        let mut inner = self.lock();
        let before = match beginning {
            ProbationStart::Return => inner.before,
            ProbationStart::Resumed(_, before) | ProbationStart::Beside(before) => before,
            ProbationStart::OnProbation | ProbationStart::Unjudged => inner.known(),
        };
        let until = match beginning {
            ProbationStart::OnProbation => Some(now + PROBATION),
            ProbationStart::Resumed(since, _) => Some(now + PROBATION.saturating_sub(since)),
            ProbationStart::Beside(_) => Some(now + CANARY_PROBATION),
            ProbationStart::Unjudged | ProbationStart::Return => None,
        };
        *inner = Inner { digest: Some(digest), before, until, ..Inner::default() };
    }

    /// Returns the call statistics to compare another revision with.
    pub fn known(&self) -> CallStats {
        self.lock().known()
    }

    /// Compares the revision with these calls from now on. The active revision is still called beside its canary, so
    /// its calls change.
    pub fn compare_with(&self, before: CallStats) {
        self.lock().before = before;
    }

    /// Returns whether the revision has decided about a parent: whether one of its calls was good.
    pub fn has_decided(&self) -> bool {
        let inner = self.lock();
        inner.now.calls > inner.now.failures
    }

    /// Returns the call statistics of the revision before the active one.
    pub fn before(&self) -> CallStats {
        self.lock().before
    }

    /// Records what a pass over a parent showed about this revision. Late signals of an older revision are not counted.
    pub fn record(&self, now: Instant, digest: Digest, parent: &Key, signals: &[Signal]) {
        let mut inner = self.lock();
        if inner.digest == Some(digest) {
            signals.iter().for_each(|signal| inner.record(now, parent, signal));
        }
    }

    /// Records that the circuit of this revision opened.
    pub fn circuit_opened(&self, now: Instant, digest: Digest) {
        let mut inner = self.lock();
        if inner.digest == Some(digest) {
            inner.circuit_opened(now);
        }
    }

    /// Records that the rollback failed. After a pause the revision is compared again, so that the rollback is retried.
    pub fn resume(&self, now: Instant) {
        let mut inner = self.lock();
        (inner.from, inner.until) = (Some(now + RETRY_PAUSE), Some(now + RETRY_PAUSE + PROBATION));
        inner.has_verdict = false;
    }

    /// Drops the verdict, because the revision before the active one fails on the same parents. Only failures from now
    /// on count.
    pub fn excuse(&self) {
        let mut inner = self.lock();
        inner.now.failures = 0;
        inner.failed_on.clear();
        inner.has_verdict = false;
    }

    /// Ends the probation of the active revision.
    pub fn end(&self) {
        let mut inner = self.lock();
        (inner.until, inner.verdict) = (None, None);
    }

    /// Returns whether there is a verdict that was not taken.
    pub fn has_verdict(&self) -> bool {
        self.lock().verdict.is_some()
    }

    /// Returns the verdict that the active revision should be rolled back; only once.
    pub fn take_verdict(&self) -> Option<RollbackVerdict> {
        self.lock().verdict.take()
    }

    /// Locks the state. The code under this lock only assigns values, so the state stays usable even after a panic.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl RollbackVerdict {
    /// Builds a verdict whose reason is not a failure on some parent.
    fn of(why: String) -> Self {
        Self { why, failed_on: Vec::new() }
    }
}

/// Counts how often a revision flapped.
#[derive(Debug, Default)]
struct Flaps {
    parents: HashSet<Key>,
    /// The number of changes, less those that have expired.
    changes: f64,
    at: Option<Instant>,
}

impl Flaps {
    /// Adds a change. Returns the number of flapping parents, if there are many and they change too often.
    fn add(&mut self, now: Instant, parent: &Key) -> Option<usize> {
        self.parents.insert(parent.clone());
        let (parents, since) = (self.parents.len(), self.at.map_or(Duration::ZERO, |at| now - at));
        let expired = since.div_duration_f64(CHANGE_INTERVAL) * parents as f64;
        (self.changes, self.at) = ((self.changes - expired).max(0.0) + 1.0, Some(now));
        (parents >= MIN_FLAPPING_PARENTS && self.changes > CHANGES_AT_ONCE * parents as f64).then_some(parents)
    }
}

impl Inner {
    fn record(&mut self, now: Instant, parent: &Key, signal: &Signal) {
        match signal {
            Signal::Called(time) => self.called(now, *time),
            Signal::Flapped { endless } => self.flapped(now, parent, *endless),
            signal => signal.failure().into_iter().for_each(|why| self.failed(now, parent, why)),
        }
    }

    fn called(&mut self, now: Instant, time: Duration) {
        self.now.add(time);
        let why = self.now.too_slow(&self.before);
        self.judge(now, why.map(RollbackVerdict::of));
    }

    /// Counts a failure on a parent. The reason is one word: the history keeps it, and who may read that may often not
    /// read the parent.
    fn failed(&mut self, now: Instant, parent: &Key, reason: &str) {
        self.now.failures += 1;
        self.note_failed_on(parent);
        let why = self.now.fails_more(&self.before).map(|why| failure_reason(&why, parent, reason));
        let verdict = why.map(|why| RollbackVerdict { why, failed_on: self.failed_on.clone() });
        self.judge(now, verdict);
    }

    fn circuit_opened(&mut self, now: Instant) {
        let last = self.failed_on.last().map(|parent| format!(", at last on {parent}")).unwrap_or_default();
        let why = format!("it failed or used up its time again and again{last}, so that its circuit opened");
        let verdict = RollbackVerdict { why, failed_on: self.failed_on.clone() };
        self.judge(now, Some(verdict));
    }

    /// Counts a change of the decision about a parent; `endless` if it changes again and again. With many parents each
    /// flaps less often, but all together more often.
    fn flapped(&mut self, now: Instant, parent: &Key, endless: bool) {
        let why = match self.flaps.add(now, parent) {
            _ if endless => {
                Some(format!("its decision for {parent} changes again and again although the object does not"))
            }
            Some(parents) => Some(format!(
                "its decisions for {parents} objects, {parent} among them, change again and again although the objects do not"
            )),
            None => None,
        };
        self.judge(now, why.map(RollbackVerdict::of));
    }

    fn judge(&mut self, now: Instant, verdict: Option<RollbackVerdict>) {
        let on_probation = self.until.is_some_and(|until| now < until) && self.from.is_none_or(|from| from <= now);
        if on_probation && !self.has_verdict && verdict.is_some() {
            (self.has_verdict, self.verdict) = (true, verdict);
        }
    }

    /// Returns the calls to compare another revision with: those of the revision before, where this one has too few.
    fn known(&self) -> CallStats {
        let has_enough = self.now.calls >= MIN_CALLS || self.now.calls > self.before.calls;
        if has_enough { self.now } else { self.before }
    }

    fn note_failed_on(&mut self, parent: &Key) {
        self.failed_on.retain(|known| known != parent);
        if self.failed_on.len() == MAX_FAILED_PARENTS {
            self.failed_on.remove(0);
        }
        self.failed_on.push(parent.clone());
    }
}

fn failure_reason(why: &str, parent: &Key, reason: &str) -> String {
    sanitize::clean(format!("{why}; the last on {parent}: {reason}"), MAX_REASON_BYTES)
}

impl CallStats {
    /// Returns whether there were no calls.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, time: Duration) {
        if self.calls >= MAX_COUNTED_CALLS {
            *self = Self { calls: self.calls / 2, failures: self.failures / 2, time: self.time / 2 };
        }
        self.calls += 1;
        self.time += time;
    }

    /// Returns the reason, if a larger share of calls fails than before.
    fn fails_more(&self, before: &CallStats) -> Option<String> {
        let is_worse = self.failures >= MIN_FAILURES && self.share() > 2.0 * before.share() + FAILURE_MARGIN;
        is_worse.then(|| {
            let (failures, calls) = (self.failures, self.calls);
            let was = match before.calls {
                0 => "the failures of the revision before it are not known".to_owned(),
                calls => format!("with the revision before it, {} of {calls} did", before.failures),
            };
            format!("{failures} of its first {calls} calls failed; {was}")
        })
    }

    /// Returns the reason, if calls are much slower than before.
    fn too_slow(&self, before: &CallStats) -> Option<String> {
        let (mean, was) = (self.mean(), before.mean());
        let is_worse =
            self.calls.min(before.calls) >= MIN_CALLS && mean > ACCEPTABLE_CALL_TIME && mean > was * MAX_SLOWDOWN;
        is_worse.then(|| {
            format!("a call takes {mean:.1?} of processor time; with the revision before it, a call took {was:.1?}")
        })
    }

    fn share(&self) -> f64 {
        f64::from(self.failures) / f64::from(self.calls.max(1))
    }

    fn mean(&self) -> Duration {
        self.time / self.calls.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(50);
    const SLOW: Duration = Duration::from_millis(60);

    /// Returns the probation of a new revision. The one before was called a hundred times, and this many calls failed.
    fn after(failures: u32) -> (Probation, Instant) {
        let (probation, now) = (Probation::default(), Instant::now());
        begin(&probation, now, "old", ProbationStart::Unjudged);
        for number in 0..100 {
            call(&probation, now, "old", number < failures, FAST);
        }
        begin(&probation, now, "new", ProbationStart::OnProbation);
        (probation, now)
    }

    fn begin(probation: &Probation, now: Instant, revision: &str, beginning: ProbationStart) {
        probation.begin(now, Digest::of(revision.as_bytes()), beginning);
    }

    fn failure() -> Signal {
        Signal::Failed("it trapped".to_owned())
    }

    fn flap(probation: &Probation, now: Instant, revision: &str, parent: &Key, endless: bool) {
        probation.record(now, Digest::of(revision.as_bytes()), parent, &[Signal::Flapped { endless }]);
    }

    fn call(probation: &Probation, now: Instant, revision: &str, failed: bool, time: Duration) {
        let digest = Digest::of(revision.as_bytes());
        let failure = failed.then(failure);
        let signals: Vec<Signal> = [Signal::Called(time)].into_iter().chain(failure).collect();
        probation.record(now, digest, &Key::new(Some("default"), "cache"), &signals);
    }

    fn verdict(probation: &Probation) -> Option<String> {
        probation.lock().verdict.clone().map(|verdict| verdict.why)
    }

    #[test]
    fn a_revision_that_fails_where_its_predecessor_did_not_is_rolled_back() {
        let (probation, now) = after(0);
        for _ in 0..4 {
            call(&probation, now, "new", true, FAST);
        }
        assert_eq!(verdict(&probation), None, "four failures prove nothing");
        call(&probation, now, "new", true, FAST);
        let why = "5 of its first 5 calls failed; with the revision before it, 0 of 100 did; the last on default/cache: it trapped";
        let failed_on = vec![Key::new(Some("default"), "cache")];
        assert_eq!(probation.lock().verdict, Some(RollbackVerdict { why: why.to_owned(), failed_on }));
    }

    #[test]
    fn a_revision_that_fails_as_often_as_its_predecessor_stays() {
        let (probation, now) = after(30);
        for number in 0..100 {
            call(&probation, now, "new", number % 2 == 0, FAST);
        }
        assert_eq!(verdict(&probation), None);
    }

    #[test]
    fn a_much_slower_revision_is_rolled_back_and_a_little_slower_one_stays() {
        let (probation, now) = after(0);
        for _ in 0..MIN_CALLS {
            call(&probation, now, "new", false, SLOW);
        }
        assert!(verdict(&probation).unwrap().starts_with("a call takes 60.0ms"));
        let (probation, now) = after(0);
        for _ in 0..100 {
            call(&probation, now, "new", false, 20 * FAST);
        }
        assert_eq!(verdict(&probation), None, "a millisecond is no reason");
    }

    #[test]
    fn a_revision_that_flaps_is_rolled_back() {
        let (probation, now) = after(0);
        let cache = Key::new(Some("default"), "cache");
        flap(&probation, now, "new", &cache, false);
        assert_eq!(verdict(&probation), None, "once is no reason");
        flap(&probation, now, "new", &cache, true);
        assert!(verdict(&probation).unwrap().contains("its decision for default/cache changes again and again"));
    }

    /// Returns the verdict after this many rounds, in each of which the decision changes for every one of the parents.
    fn after_rounds(rounds: u64, parents: usize, each: Duration) -> Option<String> {
        let (probation, now) = after(0);
        for round in 0..rounds {
            for parent in 0..parents {
                let key = Key::new(Some("default"), &format!("cache-{parent}"));
                flap(&probation, now + each * round as u32, "new", &key, false);
            }
        }
        verdict(&probation)
    }

    #[test]
    fn a_revision_that_flaps_on_a_thousand_parents_is_rolled_back_though_each_is_seldom_reconciled() {
        let why = after_rounds(40, 1_000, Duration::from_secs(2)).unwrap();
        assert!(why.starts_with("its decisions for 1000 objects, default/cache-"), "{why}");
    }

    #[test]
    fn a_revision_that_rolls_out_a_change_in_twenty_steps_stays() {
        assert_eq!(after_rounds(20, 1_000, Duration::from_secs(1)), None);
        assert_eq!(after_rounds(20, 30, Duration::ZERO), None);
    }

    #[test]
    fn the_first_revision_and_one_whose_probation_is_over_are_not_rolled_back() {
        let (probation, now) = (Probation::default(), Instant::now());
        begin(&probation, now, "new", ProbationStart::Unjudged);
        for _ in 0..100 {
            call(&probation, now, "new", true, FAST);
        }
        assert_eq!(verdict(&probation), None);
        let (probation, now) = after(0);
        for _ in 0..100 {
            call(&probation, now + PROBATION, "new", true, FAST);
        }
        assert_eq!(verdict(&probation), None);
    }

    #[test]
    fn call_times_are_not_compared_where_one_revision_has_too_few_calls() {
        let (probation, now) = (Probation::default(), Instant::now());
        begin(&probation, now, "old", ProbationStart::Unjudged);
        begin(&probation, now, "new", ProbationStart::OnProbation);
        for _ in 0..100 {
            call(&probation, now, "new", false, SLOW);
        }
        assert_eq!(verdict(&probation), None);
    }

    #[test]
    fn a_revision_after_one_with_few_calls_is_compared_with_the_one_before_that() {
        let (probation, now) = after(0);
        call(&probation, now, "new", false, SLOW);
        begin(&probation, now, "newer", ProbationStart::OnProbation);
        for _ in 0..MIN_CALLS {
            call(&probation, now, "newer", false, SLOW);
        }
        assert!(
            verdict(&probation).unwrap().contains("with the revision before it, a call took 50.0µs"),
            "{:?}",
            verdict(&probation)
        );
    }

    #[test]
    fn failures_of_a_revision_that_was_rolled_back_do_not_excuse_those_of_the_next_one() {
        let (probation, now) = after(0);
        for _ in 0..MIN_CALLS {
            call(&probation, now, "new", true, FAST);
        }
        begin(&probation, now, "old", ProbationStart::Return);
        begin(&probation, now, "newer", ProbationStart::OnProbation);
        for _ in 0..MIN_FAILURES {
            call(&probation, now, "newer", true, FAST);
        }
        assert!(verdict(&probation).unwrap().contains("with the revision before it, 0 of 100 did"));
    }

    #[test]
    fn late_calls_of_the_revision_before_do_not_count() {
        let (probation, now) = after(0);
        for _ in 0..100 {
            call(&probation, now, "old", true, SLOW);
        }
        flap(&probation, now, "old", &Key::new(Some("default"), "cache"), true);
        assert_eq!(verdict(&probation), None);
        assert_eq!(probation.lock().now, CallStats::default());
    }

    #[test]
    fn a_revision_whose_rollback_failed_is_compared_again_after_a_pause() {
        let (probation, now) = after(0);
        let fail = |now: Instant| (0..MIN_FAILURES).for_each(|_| call(&probation, now, "new", true, FAST));
        fail(now);
        assert!(probation.lock().verdict.take().is_some());
        fail(now);
        assert_eq!(verdict(&probation), None, "it is being rolled back");
        probation.resume(now);
        fail(now + RETRY_PAUSE / 2);
        assert_eq!(verdict(&probation), None);
        fail(now + RETRY_PAUSE);
        assert!(verdict(&probation).is_some());
    }

    #[test]
    fn only_failures_after_an_excuse_count() {
        let (probation, now) = after(0);
        let fail = |times: u32| (0..times).for_each(|_| call(&probation, now, "new", true, FAST));
        fail(MIN_FAILURES);
        assert!(probation.lock().verdict.take().is_some());
        probation.excuse();
        fail(MIN_FAILURES - 1);
        assert_eq!(verdict(&probation), None);
        fail(1);
        assert!(verdict(&probation).is_some());
    }

    #[test]
    fn a_revision_whose_circuit_opens_is_rolled_back() {
        let (probation, now) = after(0);
        call(&probation, now, "new", true, FAST);
        probation.circuit_opened(now, Digest::of(b"old"));
        assert_eq!(verdict(&probation), None, "that was another revision");
        probation.circuit_opened(now, Digest::of(b"new"));
        assert!(verdict(&probation).unwrap().contains("at last on default/cache, so that its circuit opened"));
    }

    #[test]
    fn a_revision_whose_probation_was_ended_is_not_rolled_back() {
        let (probation, now) = after(0);
        let fail = || (0..MIN_FAILURES).for_each(|_| call(&probation, now, "new", true, FAST));
        fail();
        probation.end();
        fail();
        probation.circuit_opened(now, Digest::of(b"new"));
        assert_eq!(verdict(&probation), None);
    }

    #[test]
    fn a_probation_goes_on_after_a_restart_of_the_host() {
        let (probation, now) = (Probation::default(), Instant::now());
        begin(&probation, now, "new", ProbationStart::Resumed(PROBATION / 2, CallStats::default()));
        let fail = |now: Instant| (0..MIN_FAILURES).for_each(|_| call(&probation, now, "new", true, FAST));
        fail(now + PROBATION / 2);
        assert_eq!(verdict(&probation), None, "it is over");
        fail(now);
        assert!(verdict(&probation).unwrap().contains("the failures of the revision before it are not known"));
    }

    #[test]
    fn call_times_are_compared_with_the_revision_before_also_after_a_restart() {
        let before = after(0).0.before();
        let (probation, now) = (Probation::default(), Instant::now());
        begin(&probation, now, "new", ProbationStart::Resumed(PROBATION / 2, before));
        (0..MIN_CALLS).for_each(|_| call(&probation, now, "new", false, SLOW));
        assert!(verdict(&probation).unwrap().contains("with the revision before it, a call took 50.0"));
    }

    #[test]
    fn a_canary_is_compared_with_the_active_revision_for_as_long_as_it_lasts() {
        let (probation, now) = (Probation::default(), Instant::now());
        begin(&probation, now, "canary", ProbationStart::Beside(CallStats::default()));
        assert!(!probation.has_decided());
        let later = now + 100 * PROBATION;
        (0..4).for_each(|_| call(&probation, later, "canary", true, FAST));
        assert!(!probation.has_decided(), "it has only failed");
        call(&probation, later, "canary", false, FAST);
        assert!(probation.has_decided());
        // The active one began to fail as often.
        probation.compare_with(CallStats { calls: 10, failures: 8, time: 10 * FAST });
        call(&probation, later, "canary", true, FAST);
        assert_eq!(verdict(&probation), None);
        probation.compare_with(CallStats { calls: 100, failures: 8, time: 100 * FAST });
        call(&probation, later, "canary", true, FAST);
        assert!(
            verdict(&probation)
                .unwrap()
                .starts_with("6 of its first 7 calls failed; with the revision before it, 8 of 100 did")
        );
    }

    #[test]
    fn the_last_failed_parents_are_remembered_and_each_once() {
        let (probation, now) = after(0);
        for number in 0..MAX_FAILED_PARENTS + 2 {
            for _ in 0..2 {
                let parent = Key::new(None, &format!("p{number}"));
                probation.record(now, Digest::of(b"new"), &parent, &[failure()]);
            }
        }
        let failed_on: Vec<_> = probation.lock().failed_on.iter().map(|parent| parent.name.to_string()).collect();
        let last: Vec<_> = (2..MAX_FAILED_PARENTS + 2).map(|number| format!("p{number}")).collect();
        assert_eq!(failed_on, last);
    }

    #[test]
    fn the_verdict_is_returned_once() {
        let (probation, now) = after(0);
        for _ in 0..20 {
            call(&probation, now, "new", true, FAST);
        }
        assert!(probation.take_verdict().unwrap().why.contains("failed"));
        assert_eq!(probation.take_verdict(), None);
    }
}
