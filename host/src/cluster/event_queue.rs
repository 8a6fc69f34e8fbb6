//! Events that wait to be written. Pure.
//!
//! Plugins take turns, and so do the namespaces of a plugin. A namespace has one write at a time. One in which a write
//! failed rests before the next, and all such namespaces together have one write at a time: whatever they do to their
//! writers, such as a webhook that never answers, those of others stay free.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotshoe_core::flow::backoff::soon;

/// The most that are written at once; they share the host's slots for writes with all else.
const AT_ONCE: usize = 4;
/// How many Events of one plugin in one namespace may wait.
const OF_NAMESPACE: usize = 500;
/// How many Events of one plugin may wait.
const OF_PLUGIN: usize = 1000;
/// How long the write of an Event is retried: longer than a restart of the API server takes, since a lost Event is
/// not recorded again; no longer, since others of its namespace wait behind it.
const TRIED: Duration = Duration::from_secs(30);

/// Items that wait, by plugin and namespace.
pub(super) struct EventQueue<T> {
    plugins: HashMap<Arc<str>, Lanes<T>>,
    /// Plugins with waiting items, each once; the first is next.
    order: VecDeque<Arc<str>>,
    /// Namespaces that are being written to or failed last; all others are not in it.
    paces: HashMap<Arc<str>, Pace>,
}

/// The items of one plugin.
struct Lanes<T> {
    lanes: HashMap<Arc<str>, VecDeque<Waiting<T>>>,
    /// Namespaces with waiting items, each once; the first is next.
    order: VecDeque<Arc<str>>,
}

struct Waiting<T> {
    item: T,
    /// When it was tried first.
    tried: Option<Instant>,
}

/// How a namespace is doing.
#[derive(Clone, Copy, Default)]
struct Pace {
    is_busy: bool,
    /// Failures in a row.
    failures: u32,
    rests_until: Option<Instant>,
}

/// An item that is being written.
pub(super) struct Turn<T> {
    pub(super) item: T,
    plugin: Arc<str>,
    namespace: Arc<str>,
    began: Instant,
    tried: Instant,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { plugins: HashMap::new(), order: VecDeque::new(), paces: HashMap::new() }
    }
}

impl<T> EventQueue<T> {
    /// Adds an item; returns false, and drops it, if too many wait.
    pub(super) fn push(&mut self, plugin: &Arc<str>, namespace: &Arc<str>, item: T) -> bool {
        let lanes = self.plugins.get(plugin);
        let waiting = lanes.map_or(0, |lanes| lanes.lanes.values().map(VecDeque::len).sum());
        let here = lanes.and_then(|lanes| lanes.lanes.get(namespace)).map_or(0, VecDeque::len);
        let has_room = waiting < OF_PLUGIN && here < OF_NAMESPACE;
        if has_room {
            self.lane(plugin, namespace).push_back(Waiting { item, tried: None });
        }
        has_room
    }

    /// Removes the next item whose turn it is.
    pub(super) fn next(&mut self, now: Instant) -> Option<Turn<T>> {
        if self.running() >= AT_ONCE {
            return None;
        }
        let (paces, has_failing) = (&self.paces, self.has_failing());
        let is_free = |namespace: &Arc<str>| paces.get(namespace).is_none_or(|pace| pace.is_free(has_failing, now));
        let turn_of = |plugin: &Arc<str>| self.plugins.get(plugin)?.order.iter().position(is_free);
        let (place, lane) =
            self.order.iter().enumerate().find_map(|(place, plugin)| Some((place, turn_of(plugin)?)))?;
        let plugin = self.order.remove(place)?;
        let lanes = self.plugins.get_mut(&plugin)?;
        let (namespace, Waiting { item, tried }) = lanes.take(lane)?;
        match lanes.order.is_empty() {
            true => drop(self.plugins.remove(&plugin)),
            false => self.order.push_back(plugin.clone()),
        }
        self.paces.entry(namespace.clone()).or_default().is_busy = true;
        Some(Turn { item, plugin, namespace, began: now, tried: tried.unwrap_or(now) })
    }

    /// Ends the turn of an item that is written, or given up for what is wrong with it alone.
    pub(super) fn end(&mut self, turn: Turn<T>) {
        self.paces.remove(&turn.namespace);
    }

    /// Ends the turn of an item whose write met something passing. It is first in its namespace again; returned if it was
    /// tried for long enough.
    pub(super) fn fail(&mut self, turn: Turn<T>, now: Instant) -> Option<T> {
        let Turn { item, plugin, namespace, began, tried } = turn;
        let pace = self.paces.entry(namespace.clone()).or_default();
        pace.is_busy = false;
        pace.failures = pace.failures.saturating_add(1);
        // Who lets writers wait may have them for half of the time.
        pace.rests_until = Some(now + soon(pace.failures).max(now.duration_since(began)));
        if now.duration_since(tried) > TRIED {
            self.forget_idle();
            return Some(item);
        }
        self.lane(&plugin, &namespace).push_front(Waiting { item, tried: Some(tried) });
        None
    }

    /// Returns when the next namespace has rested and may be written to; none while that depends on a write that runs.
    pub(super) fn next_rested(&self) -> Option<Instant> {
        let is_running = self.has_failing() || self.running() >= AT_ONCE;
        let rests = self.paces.values().filter(|pace| !pace.is_busy && !is_running);
        rests.filter_map(|pace| pace.rests_until).min()
    }

    fn running(&self) -> usize {
        self.paces.values().filter(|pace| pace.is_busy).count()
    }

    /// Whether a namespace is being written to that failed last.
    fn has_failing(&self) -> bool {
        self.paces.values().any(|pace| pace.is_busy && pace.failures > 0)
    }

    /// Forgets the failures of namespaces in which nothing waits.
    fn forget_idle(&mut self) {
        let plugins = &self.plugins;
        let waits = |namespace: &Arc<str>| plugins.values().any(|lanes| lanes.lanes.contains_key(namespace));
        self.paces.retain(|namespace, pace| pace.is_busy || waits(namespace));
    }

    fn lane(&mut self, plugin: &Arc<str>, namespace: &Arc<str>) -> &mut VecDeque<Waiting<T>> {
        if !self.plugins.contains_key(plugin) {
            self.order.push_back(plugin.clone());
        }
        let lanes = self.plugins.entry(plugin.clone()).or_default();
        if !lanes.lanes.contains_key(namespace) {
            lanes.order.push_back(namespace.clone());
        }
        lanes.lanes.entry(namespace.clone()).or_default()
    }
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Lanes<T> {
    /// Removes the first item of the namespace at a place in the order, which with that has had its turn.
    fn take(&mut self, place: usize) -> Option<(Arc<str>, Waiting<T>)> {
        let namespace = self.order.remove(place)?;
        let lane = self.lanes.get_mut(&namespace)?;
        let waiting = lane.pop_front()?;
        match lane.is_empty() {
            true => drop(self.lanes.remove(&namespace)),
            false => self.order.push_back(namespace.clone()),
        }
        Some((namespace, waiting))
    }
}

impl Pace {
    fn is_free(self, has_failing: bool, now: Instant) -> bool {
        let is_rested = self.rests_until.is_none_or(|until| until <= now);
        !self.is_busy && is_rested && !(has_failing && self.failures > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Namespaces that fail are called `bad…`; returns what is written, in order, until nothing waits.
    fn written(queue: &mut EventQueue<&'static str>, mut now: Instant) -> Vec<&'static str> {
        let mut written = Vec::new();
        loop {
            let turns: Vec<_> = std::iter::from_fn(|| queue.next(now)).collect();
            for turn in turns {
                match turn.namespace.starts_with("bad") {
                    true => drop(queue.fail(turn, now)),
                    false => {
                        written.push(turn.item);
                        queue.end(turn);
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
    fn plugins_take_turns_and_so_do_their_namespaces_in_which_order_is_kept() {
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
        while let Some(turn) = queue.next(now) {
            order.push(turn.item);
            queue.end(turn);
        }
        assert_eq!(order, ["a1", "b1", "c1", "am", "b2", "a2"]);
    }

    #[test]
    fn a_namespace_has_one_write_at_a_time_and_all_together_have_few() {
        let now = Instant::now();
        let mut queue = EventQueue::default();
        for namespace in 0..10 {
            (0..2).for_each(|_| assert!(queue.push(&"a".into(), &format!("n{namespace}").into(), ())));
        }
        let turns: Vec<_> = std::iter::from_fn(|| queue.next(now)).collect();
        let namespaces: Vec<_> = turns.iter().map(|turn| &*turn.namespace).collect();
        assert_eq!(namespaces, ["n0", "n1", "n2", "n3"]);
        turns.into_iter().for_each(|turn| queue.end(turn));
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
    fn of_namespaces_that_failed_one_is_written_to_at_a_time_when_it_has_rested() {
        let began = Instant::now();
        let mut queue = queue(&[("a", "bad1", "x"), ("a", "bad2", "y"), ("a", "bad3", "z")]);
        let late = began + Duration::from_secs(10);
        let turns: Vec<_> = std::iter::from_fn(|| queue.next(began)).collect();
        assert_eq!(turns.len(), 3, "they did not fail yet");
        turns.into_iter().for_each(|turn| assert!(queue.fail(turn, late).is_none()));
        assert!(queue.next(late).is_none());
        assert_eq!(queue.next_rested(), Some(late + Duration::from_secs(10)), "as long as it kept a writer");
        let rested = late + Duration::from_secs(10);
        let turn = queue.next(rested).unwrap();
        assert!(queue.next(rested).is_none() && queue.next_rested().is_none());
        queue.end(turn);
        assert!(queue.next(rested).is_some());
    }

    #[test]
    fn what_failed_is_first_again_until_it_was_tried_for_long() {
        let began = Instant::now();
        let mut queue = queue(&[("a", "n", "first"), ("a", "n", "second")]);
        let turn = queue.next(began).unwrap();
        assert_eq!(queue.fail(turn, began), None);
        let late = began + TRIED + Duration::from_secs(1);
        let turn = queue.next(late).unwrap();
        assert_eq!((turn.item, queue.fail(turn, late)), ("first", Some("first")));
        assert!(queue.next(late).is_none(), "it rests");
        let turn = queue.next(late + TRIED).unwrap();
        assert_eq!(turn.item, "second");
        queue.end(turn);
        assert!(queue.paces.is_empty() && queue.plugins.is_empty());
    }

    #[test]
    fn the_failures_of_a_namespace_are_forgotten_with_the_last_that_waits() {
        let began = Instant::now();
        let mut queue = queue(&[("a", "n", "x")]);
        let turn = queue.next(began).unwrap();
        assert_eq!(queue.fail(turn, began), None);
        assert_eq!(queue.paces.len(), 1);
        let late = began + 2 * TRIED;
        let turn = queue.next(late).unwrap();
        assert_eq!(queue.fail(turn, late), Some("x"));
        assert!(queue.paces.is_empty());
    }

    #[test]
    fn a_plugin_with_too_many_loses_its_own_and_leaves_room_for_other_namespaces() {
        let mut queue = EventQueue::default();
        let (loud, quiet): (Arc<str>, Arc<str>) = ("loud".into(), "quiet".into());
        let pushed = |queue: &mut EventQueue<()>, namespace: &str| {
            (0..2 * OF_PLUGIN).filter(|_| queue.push(&loud, &namespace.into(), ())).count()
        };
        assert_eq!(pushed(&mut queue, "n"), OF_NAMESPACE);
        assert_eq!(pushed(&mut queue, "m"), OF_PLUGIN - OF_NAMESPACE);
        assert_eq!(pushed(&mut queue, "o"), 0);
        assert!(queue.push(&quiet, &"n".into(), ()));
    }
}
