//! Whether a revision that has just begun to decide does worse than the one before it.
//!
//! For a while after a swap its failures, its time for a call and its changes of mind are held
//! against those of its predecessor. Past a threshold the verdict is to go back, in words for
//! people. Pure but for the lock; who goes back is [`rollout`](crate::rollout).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a new revision is held against the one before it.
const PROBATION: Duration = Duration::from_secs(600);
/// How long one is left alone that could not be taken back.
const REST: Duration = Duration::from_secs(60);
/// Fewer failures prove nothing.
const MIN_FAILURES: u32 = 5;
/// The share of failed calls may double and grow by this much.
const MORE_FAILURES: f64 = 0.05;
/// Fewer calls say nothing about time.
const MIN_CALLS: u32 = 20;
/// A call may take this much longer than before…
const SLOWER: u32 = 5;
/// …or as long as this, whatever was before.
const ALWAYS_FAST: Duration = Duration::from_millis(10);
/// So often may one parent, unchanged, be decided differently. A roll-out of a few Pods makes a
/// dozen.
const CHANGES_OF_MIND: u32 = 40;
/// Older calls count half, so that what was long ago does not.
const REMEMBERED: u32 = 2_000;

/// What the calls of one revision came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    calls: u32,
    failures: u32,
    time: Duration,
}

/// The probation of one plugin's revisions.
#[derive(Debug, Default)]
pub struct Probation {
    inner: Mutex<Inner>,
    relapsed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    before: Tally,
    now: Tally,
    /// From when on it is judged; from its beginning where there is none.
    from: Option<Instant>,
    /// Until when the revision is on probation; none where it has no predecessor.
    until: Option<Instant>,
    verdict: Option<String>,
}

impl Probation {
    /// Another revision begins to decide, in the place of one before it or of none.
    pub fn begin(&self, now: Instant, has_predecessor: bool) {
        let mut inner = self.lock();
        let before = std::mem::take(&mut inner.now);
        *inner = Inner { before, until: has_predecessor.then(|| now + PROBATION), ..Inner::default() };
    }

    /// A call ended.
    pub fn called(&self, now: Instant, failed: bool, time: Duration) {
        let mut inner = self.lock();
        inner.now.add(failed, time);
        let verdict = inner.now.verdict(&inner.before);
        self.judge(inner, now, verdict);
    }

    /// A parent that did not change was decided differently again, for so many times now.
    pub fn changed_its_mind(&self, now: Instant, parent: &str, times: u32) {
        let often = times >= CHANGES_OF_MIND;
        let verdict =
            often.then(|| format!("it decided {parent} differently {times} times, though that did not change"));
        self.judge(self.lock(), now, verdict);
    }

    /// The present revision should have been taken back and could not be. After a rest it may be judged
    /// again, so that what is there to replace it has its turn.
    pub fn resume(&self, now: Instant) {
        let mut inner = self.lock();
        (inner.from, inner.until) = (Some(now + REST), Some(now + REST + PROBATION));
    }

    /// Waits until the present revision should be taken back, and says why; once for a revision.
    pub async fn relapsed(&self) -> String {
        loop {
            if let Some(verdict) = self.lock().verdict.take() {
                return verdict;
            }
            self.relapsed.notified().await;
        }
    }

    fn judge(&self, mut inner: MutexGuard<'_, Inner>, now: Instant, verdict: Option<String>) {
        let on_probation =
            inner.until.is_some_and(|until| now < until) && inner.from.is_none_or(|from| from <= now);
        if on_probation && verdict.is_some() {
            (inner.until, inner.verdict) = (None, verdict);
            drop(inner);
            self.relapsed.notify_one();
        }
    }

    /// Every change under this lock is a few moves of numbers, so what a panic leaves is usable.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn add(&mut self, failed: bool, time: Duration) {
        if self.calls >= REMEMBERED {
            *self = Self { calls: self.calls / 2, failures: self.failures / 2, time: self.time / 2 };
        }
        self.calls += 1;
        self.failures += u32::from(failed);
        self.time += time;
    }

    /// Why it is worse than what was before, if it is.
    fn verdict(&self, before: &Tally) -> Option<String> {
        if self.failures >= MIN_FAILURES && self.share() > 2.0 * before.share() + MORE_FAILURES {
            let (failures, calls) = (self.failures, self.calls);
            let was = before.share() * 100.0;
            return Some(format!("{failures} of its first {calls} calls failed; before it {was:.0} of 100 did"));
        }
        let (mean, was) = (self.mean(), before.mean());
        if self.calls >= MIN_CALLS && mean > ALWAYS_FAST && mean > was * SLOWER {
            return Some(format!("a call of it takes {mean:.1?}; before it one took {was:.1?}"));
        }
        None
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

    /// A revision after one that was called a hundred times, of which so many failed.
    fn after(failures: u32) -> (Probation, Instant) {
        let (probation, now) = (Probation::default(), Instant::now());
        for call in 0..100 {
            probation.called(now, call < failures, FAST);
        }
        probation.begin(now, true);
        (probation, now)
    }

    fn verdict(probation: &Probation) -> Option<String> {
        probation.lock().verdict.clone()
    }

    #[test]
    fn one_that_fails_where_its_predecessor_did_not_is_taken_back() {
        let (probation, now) = after(0);
        for _ in 0..4 {
            probation.called(now, true, FAST);
        }
        assert_eq!(verdict(&probation), None, "four prove nothing");
        probation.called(now, true, FAST);
        assert_eq!(verdict(&probation).unwrap(), "5 of its first 5 calls failed; before it 0 of 100 did");
    }

    #[test]
    fn one_that_fails_as_often_as_its_predecessor_stays() {
        let (probation, now) = after(30);
        for call in 0..100 {
            probation.called(now, call % 2 == 0, FAST);
        }
        assert_eq!(verdict(&probation), None);
    }

    #[test]
    fn one_that_is_much_slower_is_taken_back_and_one_that_is_a_little_slower_stays() {
        let (probation, now) = after(0);
        for _ in 0..MIN_CALLS {
            probation.called(now, false, SLOW);
        }
        assert!(verdict(&probation).unwrap().starts_with("a call of it takes 60.0ms"));
        let (probation, now) = after(0);
        for _ in 0..100 {
            probation.called(now, false, 20 * FAST);
        }
        assert_eq!(verdict(&probation), None, "a millisecond is no reason");
    }

    #[test]
    fn one_that_cannot_make_up_its_mind_is_taken_back() {
        let (probation, now) = after(0);
        probation.changed_its_mind(now, "default/cache", 39);
        assert_eq!(verdict(&probation), None);
        probation.changed_its_mind(now, "default/cache", 40);
        assert!(verdict(&probation).unwrap().contains("default/cache differently 40 times"));
    }

    #[test]
    fn the_first_revision_and_one_that_proved_itself_are_not_on_probation() {
        let (probation, now) = (Probation::default(), Instant::now());
        probation.begin(now, false);
        for _ in 0..100 {
            probation.called(now, true, FAST);
        }
        assert_eq!(verdict(&probation), None);
        let (probation, now) = after(0);
        for _ in 0..100 {
            probation.called(now + PROBATION, true, FAST);
        }
        assert_eq!(verdict(&probation), None);
    }

    #[test]
    fn one_that_could_not_be_taken_back_is_judged_again_after_a_rest() {
        let (probation, now) = after(0);
        let fail = |now: Instant| (0..MIN_FAILURES).for_each(|_| probation.called(now, true, FAST));
        fail(now);
        assert!(probation.lock().verdict.take().is_some());
        fail(now);
        assert_eq!(verdict(&probation), None, "it is being taken back");
        probation.resume(now);
        fail(now + REST / 2);
        assert_eq!(verdict(&probation), None);
        fail(now + REST);
        assert!(verdict(&probation).is_some());
    }

    #[tokio::test]
    async fn the_verdict_is_told_once() {
        let (probation, now) = after(0);
        for _ in 0..20 {
            probation.called(now, true, FAST);
        }
        assert!(probation.relapsed().await.contains("failed"));
        assert!(tokio::time::timeout(Duration::from_millis(5), probation.relapsed()).await.is_err());
    }
}
