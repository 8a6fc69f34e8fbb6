//! Whether a revision that has just begun to decide does worse than the one before it.
//!
//! For a while after a swap its failures, its time for a call and its changes of mind are held
//! against those of its predecessor. Past a threshold the verdict is to go back, in words for
//! people. Pure but for the lock; who goes back is [`rollout`](crate::rollout).

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::plugin::digest::Digest;

/// How long a new revision is held against the one before it.
const PROBATION: Duration = Duration::from_secs(600);
/// After a way back that failed, how long until the revision may be judged again.
const REST: Duration = Duration::from_secs(60);
/// Fewer failures prove nothing.
const MIN_FAILURES: u32 = 5;
/// The share of failed calls may double and grow by this much.
const MORE_FAILURES: f64 = 0.05;
/// Fewer calls say nothing about time, neither of one revision nor of the other.
const MIN_CALLS: u32 = 20;
/// A call may take this much longer than before…
const SLOWER: u32 = 5;
/// …or as long as this, whatever was before.
const ALWAYS_FAST: Duration = Duration::from_millis(10);
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

/// How a revision begins to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// In the place of another one, against which it is held.
    OnProbation,
    /// Where there was none, or although it is known what it does.
    Unjudged,
    /// It decided before. What the one in between did says nothing of those that come after.
    Return,
}

#[derive(Debug, Default)]
struct Inner {
    /// The revision that decides.
    digest: Option<Digest>,
    before: Tally,
    now: Tally,
    /// From when on it is judged; from its beginning where there is none.
    from: Option<Instant>,
    /// Until when the revision is on probation; none where it is not.
    until: Option<Instant>,
    verdict: Option<String>,
}

impl Probation {
    /// Another revision begins to decide.
    pub fn begin(&self, now: Instant, digest: Digest, beginning: Beginning) {
        let mut inner = self.lock();
        let before = match beginning {
            Beginning::Return => inner.before,
            _ if inner.now.calls >= MIN_CALLS || inner.now.calls > inner.before.calls => inner.now,
            // Too few to hold anything against: those of the one before that one are more.
            _ => inner.before,
        };
        let until = (beginning == Beginning::OnProbation).then(|| now + PROBATION);
        *inner = Inner { digest: Some(digest), before, until, ..Inner::default() };
    }

    /// A call of this revision ended.
    pub fn called(&self, now: Instant, digest: Digest, time: Duration) {
        self.count(now, digest, |tally| tally.add(time));
    }

    /// What came of a call of this revision was nothing, or nothing that may be done.
    pub fn failed(&self, now: Instant, digest: Digest) {
        self.count(now, digest, |tally| tally.failures += 1);
    }

    /// What an older revision does that had begun before is not counted.
    fn count(&self, now: Instant, digest: Digest, count: impl FnOnce(&mut Tally)) {
        let mut inner = self.lock();
        if inner.digest == Some(digest) {
            count(&mut inner.now);
            let verdict = inner.now.verdict(&inner.before);
            self.judge(inner, now, verdict);
        }
    }

    /// For a parent that did not change this revision wishes otherwise again and again.
    pub fn changed_its_mind(&self, now: Instant, digest: Digest, parent: &str) {
        let decides = self.lock().digest == Some(digest);
        let verdict =
            decides.then(|| format!("it decides {parent} differently again and again, though that does not change"));
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
        let on_probation = inner.until.is_some_and(|until| now < until) && inner.from.is_none_or(|from| from <= now);
        if on_probation && verdict.is_some() {
            (inner.until, inner.verdict) = (None, verdict);
            drop(inner);
            self.relapsed.notify_one();
        }
    }

    /// Every change under this lock is a few moves of numbers, so what a panic leaves is usable.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Tally {
    fn add(&mut self, time: Duration) {
        if self.calls >= REMEMBERED {
            *self = Self { calls: self.calls / 2, failures: self.failures / 2, time: self.time / 2 };
        }
        self.calls += 1;
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
        if self.calls.min(before.calls) >= MIN_CALLS && mean > ALWAYS_FAST && mean > was * SLOWER {
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
        begin(&probation, now, "old", Beginning::Unjudged);
        for number in 0..100 {
            call(&probation, now, "old", number < failures, FAST);
        }
        begin(&probation, now, "new", Beginning::OnProbation);
        (probation, now)
    }

    fn begin(probation: &Probation, now: Instant, revision: &str, beginning: Beginning) {
        probation.begin(now, Digest::of(revision.as_bytes()), beginning);
    }

    fn call(probation: &Probation, now: Instant, revision: &str, failed: bool, time: Duration) {
        let digest = Digest::of(revision.as_bytes());
        probation.called(now, digest, time);
        if failed {
            probation.failed(now, digest);
        }
    }

    fn verdict(probation: &Probation) -> Option<String> {
        probation.lock().verdict.clone()
    }

    #[test]
    fn one_that_fails_where_its_predecessor_did_not_is_taken_back() {
        let (probation, now) = after(0);
        for _ in 0..4 {
            call(&probation, now, "new", true, FAST);
        }
        assert_eq!(verdict(&probation), None, "four prove nothing");
        call(&probation, now, "new", true, FAST);
        assert_eq!(verdict(&probation).unwrap(), "5 of its first 5 calls failed; before it 0 of 100 did");
    }

    #[test]
    fn one_that_fails_as_often_as_its_predecessor_stays() {
        let (probation, now) = after(30);
        for number in 0..100 {
            call(&probation, now, "new", number % 2 == 0, FAST);
        }
        assert_eq!(verdict(&probation), None);
    }

    #[test]
    fn one_that_is_much_slower_is_taken_back_and_one_that_is_a_little_slower_stays() {
        let (probation, now) = after(0);
        for _ in 0..MIN_CALLS {
            call(&probation, now, "new", false, SLOW);
        }
        assert!(verdict(&probation).unwrap().starts_with("a call of it takes 60.0ms"));
        let (probation, now) = after(0);
        for _ in 0..100 {
            call(&probation, now, "new", false, 20 * FAST);
        }
        assert_eq!(verdict(&probation), None, "a millisecond is no reason");
    }

    #[test]
    fn one_that_cannot_make_up_its_mind_is_taken_back() {
        let (probation, now) = after(0);
        probation.changed_its_mind(now, Digest::of(b"new"), "default/cache");
        assert!(verdict(&probation).unwrap().contains("default/cache differently again and again"));
    }

    #[test]
    fn the_first_revision_and_one_that_proved_itself_are_not_on_probation() {
        let (probation, now) = (Probation::default(), Instant::now());
        begin(&probation, now, "new", Beginning::Unjudged);
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
    fn time_is_not_held_against_one_that_was_hardly_called() {
        let (probation, now) = (Probation::default(), Instant::now());
        begin(&probation, now, "old", Beginning::Unjudged);
        begin(&probation, now, "new", Beginning::OnProbation);
        for _ in 0..100 {
            call(&probation, now, "new", false, SLOW);
        }
        assert_eq!(verdict(&probation), None);
    }

    #[test]
    fn one_after_one_that_was_hardly_called_is_held_against_the_one_before_that() {
        let (probation, now) = after(0);
        call(&probation, now, "new", false, SLOW);
        begin(&probation, now, "newer", Beginning::OnProbation);
        for _ in 0..MIN_CALLS {
            call(&probation, now, "newer", false, SLOW);
        }
        assert!(verdict(&probation).unwrap().contains("before it one took 50.0µs"), "{:?}", verdict(&probation));
    }

    #[test]
    fn what_a_bad_one_did_excuses_none_that_comes_after_the_way_back() {
        let (probation, now) = after(0);
        for _ in 0..MIN_CALLS {
            call(&probation, now, "new", true, FAST);
        }
        begin(&probation, now, "old", Beginning::Return);
        begin(&probation, now, "newer", Beginning::OnProbation);
        for _ in 0..MIN_FAILURES {
            call(&probation, now, "newer", true, FAST);
        }
        assert!(verdict(&probation).unwrap().ends_with("before it 0 of 100 did"));
    }

    #[test]
    fn what_the_one_before_it_still_does_is_not_counted() {
        let (probation, now) = after(0);
        for _ in 0..100 {
            call(&probation, now, "old", true, SLOW);
        }
        probation.changed_its_mind(now, Digest::of(b"old"), "default/cache");
        assert_eq!(verdict(&probation), None);
        assert_eq!(probation.lock().now, Tally::default());
    }

    #[test]
    fn one_that_could_not_be_taken_back_is_judged_again_after_a_rest() {
        let (probation, now) = after(0);
        let fail = |now: Instant| (0..MIN_FAILURES).for_each(|_| call(&probation, now, "new", true, FAST));
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
            call(&probation, now, "new", true, FAST);
        }
        assert!(probation.relapsed().await.contains("failed"));
        assert!(tokio::time::timeout(Duration::from_millis(5), probation.relapsed()).await.is_err());
    }
}
