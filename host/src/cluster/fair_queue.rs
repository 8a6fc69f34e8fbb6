//! A queue that is fair between plugins. Pure.
//!
//! Each plugin has a queue of its own, and queues take turns: a plugin with much to do delays only itself.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Items that wait, by plugin.
pub(super) struct FairQueue<T> {
    queues: HashMap<Arc<str>, VecDeque<T>>,
    /// Plugins with waiting items, each once; the first is next.
    order: VecDeque<Arc<str>>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { queues: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> FairQueue<T> {
    pub(super) fn push(&mut self, plugin: &Arc<str>, item: T) {
        let queue = self.queues.entry(plugin.clone()).or_default();
        if queue.is_empty() {
            self.order.push_back(plugin.clone());
        }
        queue.push_back(item);
    }

    /// Removes the next item, and returns it with its plugin.
    pub(super) fn next(&mut self) -> Option<(Arc<str>, T)> {
        let plugin = self.order.front()?.clone();
        self.next_of(&plugin)
    }

    /// Removes the next item of a plugin, which with that has had its turn.
    pub(super) fn next_of(&mut self, plugin: &str) -> Option<(Arc<str>, T)> {
        let place = self.order.iter().position(|waiting| **waiting == *plugin)?;
        let plugin = self.order.remove(place)?;
        let queue = self.queues.get_mut(&plugin)?;
        let item = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&plugin);
        } else {
            self.order.push_back(plugin.clone());
        }
        Some((plugin, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_take_turns_and_each_keeps_its_order() {
        let mut turns = FairQueue::default();
        for (plugin, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 10), ("c", 20), ("b", 11)] {
            turns.push(&plugin.into(), item);
        }
        let order: Vec<i32> = std::iter::from_fn(|| turns.next()).map(|(_, item)| item).collect();
        assert_eq!(order, [1, 10, 20, 2, 11, 3]);
        turns.push(&"a".into(), 4);
        assert_eq!(turns.next(), Some(("a".into(), 4)), "a plugin that was served may come again");
    }

    #[test]
    fn a_late_plugin_is_next_but_one() {
        let mut turns = FairQueue::default();
        (0..500).for_each(|_| turns.push(&"many".into(), "many"));
        assert_eq!(turns.next(), Some(("many".into(), "many")));
        turns.push(&"one".into(), "one");
        assert_eq!([turns.next(), turns.next()], ["many", "one"].map(|plugin| Some((plugin.into(), plugin))));
    }

    #[test]
    fn a_plugin_that_is_served_out_of_turn_has_had_it() {
        let mut turns = FairQueue::default();
        for (plugin, item) in [("a", 1), ("b", 10), ("b", 11), ("c", 20)] {
            turns.push(&plugin.into(), item);
        }
        assert_eq!(turns.next_of("b"), Some(("b".into(), 10)));
        assert_eq!(turns.next_of("none"), None);
        let order: Vec<i32> = std::iter::from_fn(|| turns.next()).map(|(_, item)| item).collect();
        assert_eq!(order, [1, 20, 11]);
    }
}
