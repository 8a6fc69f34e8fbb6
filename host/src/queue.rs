//! Which parents are to be reconciled, and when: level-triggered, one entry for each key, never
//! two reconciles of one key at once.
//!
//! Why a parent was woken is not kept: a plugin that cannot know the event cannot depend on it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::object::Key;

/// The work queue of one plugin.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
    finished: Notify,
}

#[derive(Default)]
struct Inner {
    ready: VecDeque<Key>,
    /// In `ready`, or woken while running.
    wanted: HashSet<Key>,
    running: HashSet<Key>,
    later: BTreeSet<(Instant, Key)>,
    due: HashMap<Key, Instant>,
    closed: bool,
}

impl Queue {
    /// Something about this parent has changed.
    pub fn add(&self, key: Key) {
        let mut inner = self.lock();
        if inner.wanted.insert(key.clone()) && !inner.running.contains(&key) {
            inner.ready.push_back(key);
            drop(inner);
            self.changed.notify_one();
        }
    }

    /// The next parent to reconcile; [`Queue::done`] must follow.
    pub async fn next(&self) -> Key {
        loop {
            let wait = {
                let mut inner = self.lock();
                inner.ripen(Instant::now());
                if let Some(key) = inner.take() {
                    return key;
                }
                inner.later.first().map(|(due, _)| *due)
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

    /// A reconcile has ended, and asks to be repeated after this long. A wish from before it is
    /// void.
    pub fn done(&self, key: &Key, again: Option<Duration>) {
        let mut inner = self.lock();
        inner.running.remove(key);
        inner.unschedule(key);
        if let Some(after) = again {
            let due = Instant::now() + after;
            inner.later.insert((due, key.clone()));
            inner.due.insert(key.clone(), due);
        }
        if inner.wanted.contains(key) {
            inner.ready.push_back(key.clone());
        }
        drop(inner);
        self.changed.notify_one();
        self.finished.notify_one();
    }

    /// Gives out no more parents, and waits until those that are being reconciled are done.
    pub async fn close(&self) {
        self.lock().closed = true;
        while self.depth().1 > 0 {
            self.finished.notified().await;
        }
    }

    /// Waiting and running parents.
    pub fn depth(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.ready.len(), inner.running.len())
    }

    /// Every change under this lock is a few moves of keys, so what a panic leaves is usable.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn ripen(&mut self, now: Instant) {
        while let Some((due, _)) = self.later.first()
            && *due <= now
            && let Some((_, key)) = self.later.pop_first()
        {
            self.due.remove(&key);
            if self.wanted.insert(key.clone()) && !self.running.contains(&key) {
                self.ready.push_back(key);
            }
        }
    }

    fn take(&mut self) -> Option<Key> {
        if self.closed {
            return None;
        }
        let key = self.ready.pop_front()?;
        self.wanted.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    fn unschedule(&mut self, key: &Key) {
        if let Some(due) = self.due.remove(key) {
            self.later.remove(&(due, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(Some("n"), name)
    }

    async fn nothing(queue: &Queue) -> bool {
        tokio::time::timeout(Duration::from_millis(1), queue.next()).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn many_wakes_are_one_reconcile() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        queue.done(&key("a"), None);
        assert!(nothing(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_during_a_reconcile_is_one_more_after_it_and_not_beside_it() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.next().await;
        queue.add(key("a"));
        assert!(nothing(&queue).await);
        queue.done(&key("a"), None);
        assert_eq!(queue.next().await, key("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_requeue_comes_when_it_is_due() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.next().await;
        let start = Instant::now();
        queue.done(&key("a"), Some(Duration::from_secs(5)));
        assert_eq!(queue.next().await, key("a"));
        assert!(start.elapsed() >= Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_comes_before_a_requeue_and_voids_it() {
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
    async fn a_closed_queue_waits_for_what_runs_and_gives_out_no_more() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("b"));
        queue.next().await;
        let end = async { queue.done(&key("a"), None) };
        futures::future::join(queue.close(), end).await;
        assert!(nothing(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn parents_are_served_in_the_order_of_their_wakes() {
        let queue = Queue::default();
        for name in ["a", "b", "c"] {
            queue.add(key(name));
        }
        assert_eq!([queue.next().await, queue.next().await, queue.next().await], [key("a"), key("b"), key("c")]);
    }
}
