//! Events that wait to be written.
//!
//! Plugins take turns, and so do the namespaces of a plugin. A namespace has one write at a time. A namespace in which
//! a write failed is paused before its next write, and all failing namespaces together have one write at a time: even
//! if something there blocks each write, such as a webhook that never answers, the other places for writes stay free.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::flow::backoff::soon;
use crate::flow::fair_queue::FairQueue;

/// How many Events are written at once. They share the places for writes with all others.
const MAX_WRITES: usize = 4;
/// How many Events of one plugin in one namespace may wait.
const MAX_PER_NAMESPACE: usize = 500;
/// How many Events of one plugin may wait.
const MAX_PER_PLUGIN: usize = 1000;
/// How long the write of an Event is retried. Longer than a restart of the API server takes, because a lost Event is
/// not recorded again; no longer than that, because other Events of its namespace wait behind it.
const MAX_RETRY_TIME: Duration = Duration::from_secs(30);

/// Waiting items.
pub struct EventQueue<T> {
    /// The items of each plugin by namespace. Plugins without any are absent.
    plugins: HashMap<Arc<str>, FairQueue<Arc<str>, Waiting<T>>>,
    /// Plugins with waiting items, each once; the first is next.
    order: VecDeque<Arc<str>>,
    /// Namespaces that are being written to, or whose last write failed. All others are absent.
    states: HashMap<Arc<str>, NamespaceState>,
}

struct Waiting<T> {
    item: T,
    /// When the item was tried first.
    tried: Option<Instant>,
}

/// The state of writes in a namespace.
#[derive(Clone, Copy, Default)]
struct NamespaceState {
    /// When the write that runs began.
    busy_since: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    paused_until: Option<Instant>,
}

/// An item that is being written.
pub struct InFlight<T> {
    /// The item.
    pub item: T,
    plugin: Arc<str>,
    namespace: Arc<str>,
    tried: Instant,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { plugins: HashMap::new(), order: VecDeque::new(), states: HashMap::new() }
    }
}

impl<T> EventQueue<T> {
    /// Adds an item. Drops it and returns `false` if too many items wait.
    pub fn push(&mut self, plugin: &Arc<str>, namespace: &Arc<str>, item: T) -> bool {
        let items = self.items(plugin);
        let has_room = items.len() < MAX_PER_PLUGIN && items.waiting(namespace) < MAX_PER_NAMESPACE;
        if has_room {
            items.push(namespace, Waiting { item, tried: None });
        }
        has_room
    }

    /// Removes the next item whose turn it is.
    pub fn next(&mut self, now: Instant) -> Option<InFlight<T>> {
        if self.running() >= MAX_WRITES {
            return None;
        }
        let (states, has_failing) = (&self.states, self.has_failing());
        let is_free = |namespace: &Arc<str>| states.get(namespace).is_none_or(|state| state.is_free(has_failing, now));
        let plugins = &mut self.plugins;
        let mut next_of = |plugin: &Arc<str>| plugins.get_mut(plugin)?.pop_where(is_free);
        let (place, (namespace, Waiting { item, tried })) =
            self.order.iter().enumerate().find_map(|(place, plugin)| Some((place, next_of(plugin)?)))?;
        let plugin = self.order.remove(place)?;
        match self.plugins.get(&plugin).is_none_or(FairQueue::is_empty) {
            true => drop(self.plugins.remove(&plugin)),
            false => self.order.push_back(plugin.clone()),
        }
        self.states.entry(namespace.clone()).or_default().busy_since = Some(now);
        Some(InFlight { item, plugin, namespace, tried: tried.unwrap_or(now) })
    }

    /// Ends the write of an item that is written, or dropped because of the item itself and not of its namespace.
    pub fn end(&mut self, written: InFlight<T>) {
        self.states.remove(&written.namespace);
    }

    /// Ends the write of an item whose write failed for a transient reason. Puts the item first in its namespace again,
    /// or returns it if it was tried for long enough.
    pub fn fail(&mut self, written: InFlight<T>, now: Instant) -> Option<T> {
        let InFlight { item, plugin, namespace, tried } = written;
        let state = self.states.entry(namespace.clone()).or_default();
        let began = state.busy_since.take().unwrap_or(now);
        state.failures = state.failures.saturating_add(1);
        // Pauses as long as the write took, so that a slow namespace occupies a writer for at most half of the time.
        state.paused_until = Some(now + soon(state.failures).max(now.duration_since(began)));
        if now.duration_since(tried) > MAX_RETRY_TIME {
            self.forget_idle();
            return Some(item);
        }
        self.items(&plugin).push_first(&namespace, Waiting { item, tried: Some(tried) });
        None
    }

    /// Returns when the pause of the next namespace ends, so that it may be written to; `None` while that depends on a
    /// running write.
    pub fn next_due(&self) -> Option<Instant> {
        let is_running = self.has_failing() || self.running() >= MAX_WRITES;
        let paused = self.states.values().filter(|state| !state.is_busy() && !is_running);
        paused.filter_map(|state| state.paused_until).min()
    }

    /// Returns whether the last write in a namespace failed, or the one that runs has taken longer than `patience`.
    pub fn is_stuck(&self, namespace: &str, patience: Duration, now: Instant) -> bool {
        let is_late = |began: Instant| now.duration_since(began) > patience;
        self.states.get(namespace).is_some_and(|state| state.failures > 0 || state.busy_since.is_some_and(is_late))
    }

    fn running(&self) -> usize {
        self.states.values().filter(|state| state.is_busy()).count()
    }

    /// Returns whether a namespace is being written to whose last write failed.
    fn has_failing(&self) -> bool {
        self.states.values().any(|state| state.is_busy() && state.failures > 0)
    }

    /// Forgets the failures of namespaces in which nothing waits.
    fn forget_idle(&mut self) {
        let plugins = &self.plugins;
        let waits = |namespace: &Arc<str>| plugins.values().any(|items| items.waiting(namespace) > 0);
        self.states.retain(|namespace, state| state.is_busy() || waits(namespace));
    }

    /// Returns the items of a plugin, to which one is about to be added.
    fn items(&mut self, plugin: &Arc<str>) -> &mut FairQueue<Arc<str>, Waiting<T>> {
        if !self.plugins.contains_key(plugin) {
            self.order.push_back(plugin.clone());
        }
        self.plugins.entry(plugin.clone()).or_default()
    }
}

impl NamespaceState {
    fn is_busy(self) -> bool {
        self.busy_since.is_some()
    }

    fn is_free(self, has_failing: bool, now: Instant) -> bool {
        let is_pause_over = self.paused_until.is_none_or(|until| until <= now);
        !self.is_busy() && is_pause_over && !(has_failing && self.failures > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes until nothing waits, and fails in namespaces called `bad…`. Returns the written items in order.
    fn written(queue: &mut EventQueue<&'static str>, mut now: Instant) -> Vec<&'static str> {
        let mut written = Vec::new();
        loop {
            let events: Vec<_> = std::iter::from_fn(|| queue.next(now)).collect();
            for event in events {
                match event.namespace.starts_with("bad") {
                    true => drop(queue.fail(event, now)),
                    false => {
                        written.push(event.item);
                        queue.end(event);
                    }
                }
            }
            match queue.order.is_empty() {
                true => return written,
                false => now += Duration::from_millis(250),
            }
        }
    }

    fn queue(items: &[(&str, &str, &'static str)]) -> EventQueue<&'static str> {
        let mut queue = EventQueue::default();
        for (plugin, namespace, item) in items {
            assert!(queue.push(&(*plugin).into(), &(*namespace).into(), *item));
        }
        queue
    }

    #[test]
    fn plugins_and_their_namespaces_take_turns_and_order_in_a_namespace_is_kept() {
        let now = Instant::now();
        let mut queue = queue(&[
            ("a", "n", "a1"),
            ("a", "n", "a2"),
            ("a", "m", "am"),
            ("b", "n", "b1"),
            ("b", "n", "b2"),
            ("c", "o", "c1"),
        ]);
        let mut order = Vec::new();
        while let Some(event) = queue.next(now) {
            order.push(event.item);
            queue.end(event);
        }
        assert_eq!(order, ["a1", "b1", "c1", "am", "b2", "a2"]);
    }

    #[test]
    fn a_namespace_has_one_write_at_a_time_and_all_together_have_a_few() {
        let now = Instant::now();
        let mut queue = EventQueue::default();
        for namespace in 0..10 {
            (0..2).for_each(|_| assert!(queue.push(&"a".into(), &format!("n{namespace}").into(), ())));
        }
        let events: Vec<_> = std::iter::from_fn(|| queue.next(now)).collect();
        let namespaces: Vec<_> = events.iter().map(|event| &*event.namespace).collect();
        assert_eq!(namespaces, ["n0", "n1", "n2", "n3"]);
        events.into_iter().for_each(|event| queue.end(event));
        assert!(queue.next(now).is_some());
    }

    #[test]
    fn bad_namespaces_hold_up_neither_others_nor_the_same_plugins_own() {
        let mut items: Vec<_> =
            ["bad1", "bad2", "bad3", "bad4", "bad5"].iter().map(|namespace| ("a", *namespace, "lost")).collect();
        items.extend([("a", "n", "a"), ("b", "n", "b"), ("b", "bad1", "lost")]);
        assert_eq!(written(&mut queue(&items), Instant::now()), ["b", "a"]);
    }

    #[test]
    fn failing_namespaces_are_written_to_one_at_a_time_and_after_a_pause() {
        let began = Instant::now();
        let mut queue = queue(&[("a", "bad1", "x"), ("a", "bad2", "y"), ("a", "bad3", "z")]);
        let late = began + Duration::from_secs(10);
        let events: Vec<_> = std::iter::from_fn(|| queue.next(began)).collect();
        assert_eq!(events.len(), 3, "they did not fail yet");
        events.into_iter().for_each(|event| assert!(queue.fail(event, late).is_none()));
        assert!(queue.next(late).is_none());
        assert_eq!(queue.next_due(), Some(late + Duration::from_secs(10)), "as long as it kept a writer");
        let after_pause = late + Duration::from_secs(10);
        let event = queue.next(after_pause).unwrap();
        assert!(queue.next(after_pause).is_none() && queue.next_due().is_none());
        queue.end(event);
        assert!(queue.next(after_pause).is_some());
    }

    #[test]
    fn a_namespace_is_stuck_while_its_writes_fail_or_take_long() {
        let (began, patience) = (Instant::now(), Duration::from_secs(2));
        let late = began + 2 * patience;
        let mut queue = queue(&[("a", "n", "x")]);
        assert!(!queue.is_stuck("n", patience, late), "an item that waits is none that fails");
        let event = queue.next(began).unwrap();
        assert!(!queue.is_stuck("n", patience, began + patience) && queue.is_stuck("n", patience, late));
        assert_eq!(queue.fail(event, late), None);
        assert!(queue.is_stuck("n", patience, late) && !queue.is_stuck("m", patience, late));
        let event = queue.next(late + MAX_RETRY_TIME).unwrap();
        queue.end(event);
        assert!(!queue.is_stuck("n", patience, late + MAX_RETRY_TIME));
    }

    #[test]
    fn a_failed_item_stays_first_until_it_was_tried_for_long_enough() {
        let began = Instant::now();
        let mut queue = queue(&[("a", "n", "first"), ("a", "n", "second")]);
        let event = queue.next(began).unwrap();
        assert_eq!(queue.fail(event, began), None);
        let late = began + MAX_RETRY_TIME + Duration::from_secs(1);
        let event = queue.next(late).unwrap();
        assert_eq!((event.item, queue.fail(event, late)), ("first", Some("first")));
        assert!(queue.next(late).is_none(), "its namespace is paused");
        let event = queue.next(late + MAX_RETRY_TIME).unwrap();
        assert_eq!(event.item, "second");
        queue.end(event);
        assert!(queue.states.is_empty() && queue.plugins.is_empty());
    }

    #[test]
    fn the_failures_of_a_namespace_are_forgotten_with_its_last_item() {
        let began = Instant::now();
        let mut queue = queue(&[("a", "n", "x")]);
        let event = queue.next(began).unwrap();
        assert_eq!(queue.fail(event, began), None);
        assert_eq!(queue.states.len(), 1);
        let late = began + 2 * MAX_RETRY_TIME;
        let event = queue.next(late).unwrap();
        assert_eq!(queue.fail(event, late), Some("x"));
        assert!(queue.states.is_empty());
    }

    #[test]
    fn a_plugin_with_too_many_events_loses_only_its_own_and_keeps_room_for_other_namespaces() {
        let mut queue = EventQueue::default();
        let (loud, quiet): (Arc<str>, Arc<str>) = ("loud".into(), "quiet".into());
        let pushed = |queue: &mut EventQueue<()>, namespace: &str| {
            (0..2 * MAX_PER_PLUGIN).filter(|_| queue.push(&loud, &namespace.into(), ())).count()
        };
        assert_eq!(pushed(&mut queue, "n"), MAX_PER_NAMESPACE);
        assert_eq!(pushed(&mut queue, "m"), MAX_PER_PLUGIN - MAX_PER_NAMESPACE);
        assert_eq!(pushed(&mut queue, "o"), 0);
        assert!(queue.push(&quiet, &"n".into(), ()));
    }
}
