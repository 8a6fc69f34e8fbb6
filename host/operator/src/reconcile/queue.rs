//! The work queue: level-triggered, one entry for each key, never two reconciles of one key at once. Namespaces take
//! turns, so that many parents in one namespace, or constant changes there, do not delay other namespaces.
//!
//! The number of parents that are reconciled at once is limited. The parents of one namespace may occupy all of these
//! places for long, as while they wait for the rate limit of deletions. So a namespace that occupies none may have one
//! beyond the limit.
//!
//! A parent whose children have changed was begun before, and is served before others of its namespace: of a thousand
//! parents that are created at once, each is finished as soon as its children are, and not after the last one is begun.
//! After a swap of the revision every parent is requeued, behind those that have changed (a *sweep*).
//!
//! The reason why a parent was woken is not kept: a plugin that does not know the event cannot depend on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::CONCURRENCY;
use crate::telemetry::queue_metrics::{Load, QueueCounts};
use hotshoe_core::flow::backoff::within_reach;
use hotshoe_core::flow::fair_queue::FairQueue;
use hotshoe_core::model::kind::Key;

/// How many changed parents are served before one of a sweep has its turn, so that a sweep ends even if parents change
/// all the time.
const MAX_CHANGED_BEFORE_SWEPT: u32 = 4;

/// The work queue of one plugin.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
    finished: Notify,
}

/// Where a parent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is being reconciled.
    Running,
    /// It waits for its turn.
    Waiting,
    /// It is reconciled at this time.
    Due(Instant),
    /// It is reconciled when something changes, or in a sweep.
    Nowhere,
}

/// The namespace of a parent. Parents without a namespace form one group.
type Namespace = Option<Arc<str>>;

/// Waiting parents by namespace.
type ByNamespace = FairQueue<Namespace, Key>;

/// Why a parent is to be reconciled, as far as its place in the queue depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// The parent or something else that it depends on has changed, or it is due.
    Other,
    /// Its children have changed.
    Children,
}

/// A parent that was woken.
#[derive(Clone, Copy, Debug)]
struct Woken {
    cause: Cause,
    since: Instant,
}

fn push(waiting: &mut ByNamespace, key: Key, cause: Cause) {
    let namespace = key.namespace.clone();
    match cause {
        Cause::Other => waiting.push(&namespace, key),
        Cause::Children => waiting.push_preferred(&namespace, key),
    }
}

#[derive(Default)]
struct Inner {
    /// Parents that wait; one that is no longer `dirty` is passed over: it was served from a better place.
    ready: ByNamespace,
    /// Parents that are in `ready`, or were woken while they are being reconciled.
    dirty: HashMap<Key, Woken>,
    /// Parents that are being reconciled, and since when.
    running: HashMap<Key, Instant>,
    /// The rest of a sweep; some of its parents may be in `ready`, too.
    swept: ByNamespace,
    /// When the sweep began.
    swept_since: Option<Instant>,
    /// How many parents were served from `ready` since the last one from `swept`.
    served_since_swept: u32,
    /// Delayed requeues by due time, and the due time of each.
    delayed: BTreeSet<(Instant, Key)>,
    due: HashMap<Key, Instant>,
    closed: bool,
    counts: QueueCounts,
}

impl Queue {
    /// Creates a queue that counts what it does.
    pub fn counting(counts: QueueCounts) -> Self {
        let queue = Self::default();
        queue.lock().counts = counts;
        queue
    }

    /// Adds a parent that has changed.
    pub fn add(&self, key: Key) {
        self.wake(key, Cause::Other);
    }

    /// Adds a parent whose children have changed.
    pub fn add_begun(&self, key: Key) {
        self.wake(key, Cause::Children);
    }

    fn wake(&self, key: Key, cause: Cause) {
        if self.lock().wake(key, cause, Instant::now()) {
            self.changed.notify_one();
        }
    }

    /// Requeues all parents behind those that have changed. Replaces the rest of an earlier sweep.
    pub fn sweep(&self, all: Vec<Key>) {
        let (mut swept, added) = (ByNamespace::default(), all.len());
        all.into_iter().for_each(|key| push(&mut swept, key, Cause::Other));
        let before = self.lock().begin_sweep(swept, added);
        self.changed.notify_one();
        drop(before);
    }

    /// Waits for the next parent to reconcile, and until fewer parents than the limit are reconciled; [`Queue::done`]
    /// must follow.
    pub async fn next(&self) -> Key {
        loop {
            let wait = {
                let mut inner = self.lock();
                let now = Instant::now();
                inner.promote_due(now);
                if let Some(key) = inner.take(now) {
                    return key;
                }
                inner.delayed.first().map(|(due, _)| *due)
            };
            match wait {
                Some(due) => {
                    // Elapsed or notified: either way there may be a key now.
                    drop(tokio::time::timeout_at(due, self.changed.notified()).await);
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Ends a reconcile, and requeues its parent after the given time. Replaces an earlier requeue.
    pub fn done(&self, key: &Key, again: Option<Duration>) {
        let (mut inner, now) = (self.lock(), Instant::now());
        inner.end(key, now);
        inner.unschedule(key);
        if let Some(after) = again {
            if !after.is_zero() {
                inner.counts.retries.inc();
            }
            let due = now + within_reach(after);
            inner.delayed.insert((due, key.clone()));
            inner.due.insert(key.clone(), due);
        }
        if let Some(woken) = inner.dirty.get(key).copied() {
            push(&mut inner.ready, key.clone(), woken.cause);
        }
        drop(inner);
        self.changed.notify_one();
        self.finished.notify_one();
    }

    /// Closes the queue, and waits until running reconciles are done.
    pub async fn close(&self) {
        self.lock().closed = true;
        while self.depth().1 > 0 {
            self.finished.notified().await;
        }
    }

    /// Returns where a parent is.
    pub fn place(&self, key: &Key) -> Place {
        let inner = self.lock();
        if inner.running.contains_key(key) {
            Place::Running
        } else if inner.dirty.contains_key(key) {
            Place::Waiting
        } else {
            inner.due.get(key).map_or(Place::Nowhere, |due| Place::Due(*due))
        }
    }

    /// Returns the numbers of waiting and running parents.
    pub fn depth(&self) -> (usize, usize) {
        let load = self.load();
        (load.changed + load.swept, load.running)
    }

    /// Returns what the queue holds now.
    pub fn load(&self) -> Load {
        let (inner, now) = (self.lock(), Instant::now());
        let woken = inner.running.keys().filter(|key| inner.dirty.contains_key(*key)).count();
        let times = inner.running.values().map(|began| now.saturating_duration_since(*began));
        Load {
            changed: inner.dirty.len() - woken,
            swept: inner.swept.len(),
            running: inner.running.len(),
            unfinished: times.clone().sum(),
            longest: times.max().unwrap_or_default(),
        }
    }

    /// Locks the state. Every change under the lock only moves a few keys, so the state is usable even after a panic.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    /// Adds a parent to those that wait, or to the better place of two. Returns whether it waits in a new place.
    fn wake(&mut self, key: Key, cause: Cause, now: Instant) -> bool {
        let known = self.dirty.get(&key).copied();
        if known.is_some_and(|known| known.cause >= cause) {
            return false;
        }
        if known.is_none() {
            self.counts.adds.inc();
        }
        let since = known.map_or(now, |known| known.since);
        self.dirty.insert(key.clone(), Woken { cause, since });
        let waits = !self.running.contains_key(&key);
        if waits {
            push(&mut self.ready, key, cause);
        }
        waits
    }

    /// Moves the parents whose requeue is due to `ready`.
    fn promote_due(&mut self, now: Instant) {
        while let Some((due, _)) = self.delayed.first()
            && *due <= now
            && let Some((_, key)) = self.delayed.pop_first()
        {
            self.due.remove(&key);
            self.wake(key, Cause::Other, now);
        }
    }

    /// Replaces the rest of an earlier sweep, and returns it.
    fn begin_sweep(&mut self, swept: ByNamespace, added: usize) -> ByNamespace {
        self.counts.adds.inc_by(u64::try_from(added).unwrap_or(u64::MAX));
        self.swept_since = Some(Instant::now());
        std::mem::replace(&mut self.swept, swept)
    }

    fn take(&mut self, now: Instant) -> Option<Key> {
        let full = self.full_namespaces().filter(|_| !self.closed)?;
        let (key, served) = match self.served_since_swept < MAX_CHANGED_BEFORE_SWEPT {
            true => self.take_changed(&full).or_else(|| self.take_swept(&full)),
            false => self.take_swept(&full).or_else(|| self.take_changed(&full)),
        }?;
        self.served_since_swept = served;
        let woken = self.dirty.remove(&key);
        if let Some(since) = woken.map(|woken| woken.since).or(self.swept_since) {
            self.counts.waited.observe(now.saturating_duration_since(since).as_secs_f64());
        }
        self.running.insert(key.clone(), now);
        Some(key)
    }

    fn end(&mut self, key: &Key, now: Instant) {
        if let Some(began) = self.running.remove(key) {
            self.counts.worked.observe(now.saturating_duration_since(began).as_secs_f64());
        }
    }

    /// Returns the namespaces that may not have one more parent reconciled now; `None` if that is so for all. Up to the
    /// limit, any parents are reconciled. Beyond it, only those of namespaces without any, while the parents are of
    /// fewer namespaces than the limit: so their number stays below twice the limit.
    fn full_namespaces(&self) -> Option<HashSet<Namespace>> {
        if self.running.len() < CONCURRENCY {
            return Some(HashSet::new());
        }
        let namespaces: HashSet<_> = self.running.keys().map(|key| key.namespace.clone()).collect();
        (namespaces.len() < CONCURRENCY).then_some(namespaces)
    }

    /// Returns the next changed parent, and how many were served since the last one of the sweep then.
    fn take_changed(&mut self, full: &HashSet<Namespace>) -> Option<(Key, u32)> {
        let (dirty, running) = (&self.dirty, &self.running);
        let waits = |key: &Key| dirty.contains_key(key) && !running.contains_key(key);
        let (_, key) = self.ready.pop_live(|namespace| !full.contains(namespace), waits)?;
        Some((key, self.served_since_swept.saturating_add(1)))
    }

    /// Returns the next parent of the sweep that is not queued anyway, and that none was served since. The reconcile of
    /// a running parent may have begun before the swap of the revision, so such a parent is queued once more.
    fn take_swept(&mut self, full: &HashSet<Namespace>) -> Option<(Key, u32)> {
        while let Some((_, key)) = self.swept.pop_where(|namespace| !full.contains(namespace)) {
            if !self.dirty.contains_key(&key) && !self.running.contains_key(&key) {
                return Some((key, 0));
            }
            let since = self.swept_since.unwrap_or_else(Instant::now);
            self.dirty.entry(key).or_insert(Woken { cause: Cause::Other, since });
        }
        None
    }

    fn unschedule(&mut self, key: &Key) {
        if let Some(due) = self.due.remove(key) {
            self.delayed.remove(&(due, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::telemetry::queue_metrics::QueueMetrics;
    use crate::telemetry::table::Table;
    use hotshoe_core::flow::fair_queue::MOST_PREFERRED;

    fn key(name: &str) -> Key {
        Key::new(Some("n"), name)
    }

    async fn is_idle(queue: &Queue) -> bool {
        tokio::time::timeout(Duration::from_millis(1), queue.next()).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn many_wakes_are_one_reconcile() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        queue.done(&key("a"), None);
        assert!(is_idle(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_during_a_reconcile_causes_one_more_after_it_and_none_at_once() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.next().await;
        queue.add(key("a"));
        assert!(is_idle(&queue).await);
        queue.done(&key("a"), None);
        assert_eq!(queue.next().await, key("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_requeued_parent_is_served_when_it_is_due() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.next().await;
        let start = Instant::now();
        queue.done(&key("a"), Some(Duration::from_secs(5)));
        assert_eq!(queue.next().await, key("a"));
        assert!(start.elapsed() >= Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_counted_how_long_parents_wait_and_are_worked_on() {
        let (mut table, second) = (Table::default(), Duration::from_secs(1));
        let queue = Queue::counting(QueueMetrics::of(&mut table).counts("demo"));
        queue.add(key("a"));
        tokio::time::advance(3 * second).await;
        queue.add(key("a"));
        queue.next().await;
        tokio::time::advance(5 * second).await;
        queue.sweep(vec![key("b")]);
        let load = Load { swept: 1, running: 1, unfinished: 5 * second, longest: 5 * second, ..Load::default() };
        assert_eq!(queue.load(), load);
        tokio::time::advance(2 * second).await;
        queue.next().await;
        tokio::time::advance(second).await;
        let load = Load { running: 2, unfinished: 9 * second, longest: 8 * second, ..Load::default() };
        assert_eq!(queue.load(), load);
        queue.done(&key("a"), Some(60 * second));
        queue.done(&key("b"), Some(Duration::ZERO));
        let (text, labels) = (table.text(), "{controller=\"demo\",name=\"demo\"}");
        // What goes on at once is no retry.
        for (name, value) in [("adds_total", "2"), ("retries_total", "1")] {
            assert!(text.contains(&format!("workqueue_{name}{labels} {value}\n")), "{name} in\n{text}");
        }
        for (name, seconds) in [("queue", "5.0"), ("work", "9.0")] {
            let sum = format!("workqueue_{name}_duration_seconds_sum{labels} {seconds}\n");
            assert!(text.contains(&sum), "{sum} is not in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_served_before_a_delayed_requeue_and_cancels_it() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.next().await;
        queue.done(&key("a"), Some(Duration::from_secs(5)));
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        queue.done(&key("a"), None);
        assert!(tokio::time::timeout(Duration::from_secs(60), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_waits_for_running_reconciles_and_serves_no_more_parents() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("b"));
        queue.next().await;
        let end = async { queue.done(&key("a"), None) };
        futures::future::join(queue.close(), end).await;
        assert!(is_idle(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_parent_is_served_before_swept_ones() {
        let queue = Queue::default();
        queue.sweep(vec![key("a"), key("b")]);
        queue.add(key("c"));
        assert_eq!([queue.next().await, queue.next().await, queue.next().await], [key("c"), key("a"), key("b")]);
        assert!(is_idle(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_swept_parent_has_a_turn_even_if_changes_never_end() {
        let queue = Queue::default();
        queue.sweep(vec![key("again")]);
        let served = async |turn: u32| {
            queue.add(key(&turn.to_string()));
            let next = queue.next().await;
            queue.done(&next, None);
            next == key("again")
        };
        for turn in 0..MAX_CHANGED_BEFORE_SWEPT {
            assert!(!served(turn).await);
        }
        assert!(served(MAX_CHANGED_BEFORE_SWEPT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_does_not_reconcile_a_waiting_parent_twice_at_once() {
        let queue = Queue::default();
        let names = ["a", "b", "c", "d", "e", "f"];
        names.iter().for_each(|name| queue.add(key(name)));
        queue.sweep(names.iter().rev().map(|name| key(name)).collect());
        for name in names {
            assert_eq!(queue.next().await, key(name));
        }
        assert!(is_idle(&queue).await);
        names.iter().for_each(|name| queue.done(&key(name), None));
        let mut again = 0;
        while !is_idle(&queue).await {
            again += 1;
        }
        assert!(again <= names.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_during_a_reconcile_causes_one_more_after_it_and_none_at_once() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.next().await;
        queue.sweep(vec![key("a")]);
        assert!(is_idle(&queue).await);
        queue.done(&key("a"), None);
        assert_eq!(queue.next().await, key("a"));
        queue.done(&key("a"), None);
        assert!(is_idle(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_sweep_replaces_the_rest_of_the_first() {
        let queue = Queue::default();
        queue.sweep(vec![key("a"), key("b")]);
        queue.next().await;
        queue.sweep(vec![key("b"), key("c")]);
        assert_eq!(queue.depth(), (2, 1));
        assert_eq!([queue.next().await, queue.next().await], [key("b"), key("c")]);
        assert!(is_idle(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_parent_whose_children_have_changed_is_served_before_those_that_were_not_begun() {
        let queue = Queue::default();
        ["a", "b", "c", "d"].iter().for_each(|name| queue.add(key(name)));
        queue.add_begun(key("c"));
        queue.add_begun(key("z"));
        queue.add(key("c"));
        assert_eq!(queue.depth(), (5, 0));
        for name in ["c", "z", "a", "b", "d"] {
            assert_eq!(queue.next().await, key(name));
            queue.done(&key(name), None);
        }
        assert!(is_idle(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn parents_that_were_not_begun_have_a_turn_even_if_the_children_of_others_never_stop_changing() {
        let queue = Queue::default();
        queue.add(key("new"));
        let mut turns = 0;
        loop {
            queue.add_begun(key("begun"));
            let next = queue.next().await;
            queue.done(&next, None);
            if next == key("new") {
                break;
            }
            turns += 1;
        }
        assert_eq!(turns, MOST_PREFERRED);
    }

    #[tokio::test(start_paused = true)]
    async fn parents_are_served_in_the_order_of_their_wakes() {
        let queue = Queue::default();
        for name in ["a", "b", "c"] {
            queue.add(key(name));
        }
        assert_eq!([queue.next().await, queue.next().await, queue.next().await], [key("a"), key("b"), key("c")]);
    }

    fn at(namespace: u8, name: u8) -> Key {
        Key::new(Some(&format!("n{namespace}")), &name.to_string())
    }

    /// Adds so many parents of one namespace.
    fn add_many(queue: &Queue, count: usize) {
        (0..count).for_each(|number| queue.add(Key::new(Some("many"), &number.to_string())));
    }

    /// Takes all parents that may be reconciled now.
    fn take_all(queue: &Queue) -> Vec<Key> {
        std::iter::from_fn(|| queue.lock().take(Instant::now())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_parent_of_a_quiet_namespace_is_next_but_one_beside_thousands_of_another() {
        let queue = Queue::default();
        let serve = async || {
            let next = queue.next().await;
            queue.done(&next, None);
            next
        };
        add_many(&queue, 1_000);
        queue.sweep((0..1_000).map(|number| Key::new(Some("many"), &format!("swept-{number}"))).collect());
        serve().await;
        queue.add(key("a"));
        serve().await;
        assert_eq!(serve().await, key("a"));
        queue.sweep((0..1_000).map(|number| Key::new(Some("many"), &number.to_string())).chain([key("b")]).collect());
        let mut turns = 0;
        while serve().await != key("b") {
            turns += 1;
        }
        assert!(turns <= 2 * (MAX_CHANGED_BEFORE_SWEPT + 1), "{turns}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_parent_of_another_namespace_is_served_while_those_of_one_namespace_occupy_all_places() {
        let queue = Queue::default();
        add_many(&queue, 2 * CONCURRENCY);
        let occupied = take_all(&queue);
        assert_eq!(occupied.len(), CONCURRENCY);
        ["a", "b"].iter().for_each(|name| queue.add(key(name)));
        assert_eq!(queue.next().await, key("a"));
        assert!(is_idle(&queue).await, "it has one place beyond the limit");
        queue.done(&key("a"), None);
        assert_eq!(queue.next().await, key("b"));
        occupied.iter().take(2).for_each(|done| queue.done(done, None));
        assert_eq!(take_all(&queue), [Key::new(Some("many"), &CONCURRENCY.to_string())], "down to the limit");
    }

    #[tokio::test(start_paused = true)]
    async fn a_swept_parent_of_another_namespace_is_served_while_those_of_one_namespace_occupy_all_places() {
        let queue = Queue::default();
        add_many(&queue, 2 * CONCURRENCY);
        take_all(&queue);
        queue.sweep(vec![key("a")]);
        assert_eq!(queue.next().await, key("a"));
        assert!(is_idle(&queue).await);
    }

    #[test]
    fn fewer_parents_than_twice_the_limit_are_reconciled_at_once_whatever_their_namespaces() {
        let queue = Queue::default();
        add_many(&queue, CONCURRENCY);
        take_all(&queue);
        (0..3 * CONCURRENCY).for_each(|number| queue.add(Key::new(Some(&number.to_string()), "a")));
        assert_eq!(take_all(&queue).len(), CONCURRENCY - 1);
        let queue = Queue::default();
        (0..3 * CONCURRENCY).for_each(|number| queue.add(Key::new(Some(&number.to_string()), "a")));
        assert_eq!(take_all(&queue).len(), CONCURRENCY, "each namespace has a place");
    }

    /// What happens to the queue.
    #[derive(Clone, Debug)]
    enum Act {
        Add(u8, u8),
        AddBegun(u8, u8),
        Take,
        /// Ends the reconcile that began first.
        Done,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            3 => (0_u8..4, 0_u8..8).prop_map(|(namespace, name)| Act::Add(namespace, name)),
            3 => (0_u8..4, 0_u8..8).prop_map(|(namespace, name)| Act::AddBegun(namespace, name)),
            4 => Just(Act::Take),
            2 => Just(Act::Done),
        ]
    }

    proptest! {
        #[test]
        fn every_namespace_that_has_work_is_served_within_a_round_of_the_others(acts in prop::collection::vec(act(), 1..300)) {
            let queue = Queue::default();
            let mut running: Vec<Key> = Vec::new();
            let mut waited: BTreeMap<Option<Arc<str>>, u32> = BTreeMap::new();
            for act in acts {
                match act {
                    Act::Add(namespace, name) => queue.add(at(namespace, name)),
                    Act::AddBegun(namespace, name) => queue.add_begun(at(namespace, name)),
                    Act::Done if !running.is_empty() => queue.done(&running.remove(0), None),
                    Act::Done => {}
                    // Beyond the limit, a namespace with running parents waits for its own.
                    Act::Take if running.len() >= CONCURRENCY => {}
                    Act::Take => {
                        let Some(key) = queue.lock().take(Instant::now()) else { continue };
                        prop_assert!(!running.contains(&key), "{} twice at once", key);
                        waited.remove(&key.namespace);
                        running.push(key);
                        let inner = queue.lock();
                        for namespace in (0..4).map(|namespace| at(namespace, 0).namespace) {
                            let turns = waited.entry(namespace.clone()).or_default();
                            let mut waiting = inner.dirty.keys().filter(|key| !inner.running.contains_key(*key));
                            let waits = waiting.any(|key| key.namespace == namespace);
                            *turns = if waits { *turns + 1 } else { 0 };
                            prop_assert!(*turns < 5, "{:?} waited {} turns", namespace, turns);
                        }
                    }
                }
            }
        }
    }
}
