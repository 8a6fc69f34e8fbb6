//! A queue that is fair between groups: between plugins, or between the namespaces of one plugin.
//!
//! Each group has a queue of its own, and queues take turns: a group with much to do delays only itself. Within a group,
//! some items may be served before the others, but not so many that the others never have a turn.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::iter;

/// How many preferred items of a group are served before one of its others.
pub const MOST_PREFERRED: u32 = 4;

/// Items that wait, by group.
#[derive(Debug)]
pub struct FairQueue<G, T> {
    queues: HashMap<G, Items<T>>,
    /// Groups with waiting items, each once; the first is next.
    order: VecDeque<G>,
    len: usize,
}

/// The waiting items of one group.
#[derive(Debug)]
struct Items<T> {
    preferred: VecDeque<T>,
    others: VecDeque<T>,
    /// How many preferred items were served since one of the others.
    served: u32,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { preferred: VecDeque::new(), others: VecDeque::new(), served: 0 }
    }
}

impl<T> Items<T> {
    fn len(&self) -> usize {
        self.preferred.len() + self.others.len()
    }

    fn pop(&mut self) -> Option<T> {
        if self.served < MOST_PREFERRED
            && let Some(item) = self.preferred.pop_front()
        {
            self.served += 1;
            return Some(item);
        }
        self.served = 0;
        self.others.pop_front().or_else(|| self.preferred.pop_front())
    }
}

impl<G, T> Default for FairQueue<G, T> {
    fn default() -> Self {
        Self { queues: HashMap::new(), order: VecDeque::new(), len: 0 }
    }
}

impl<G: Clone + Eq + Hash, T> FairQueue<G, T> {
    /// Appends an item to the queue of its group.
    pub fn push(&mut self, group: &G, item: T) {
        self.items_to_extend(group).others.push_back(item);
    }

    /// Appends an item to the preferred ones of its group.
    pub fn push_preferred(&mut self, group: &G, item: T) {
        self.items_to_extend(group).preferred.push_back(item);
    }

    /// Puts an item before the others of its group, for example one that is tried again.
    pub fn push_first(&mut self, group: &G, item: T) {
        self.items_to_extend(group).others.push_front(item);
    }

    /// Returns the items of a group, to which one more is added.
    fn items_to_extend(&mut self, group: &G) -> &mut Items<T> {
        self.len += 1;
        let items = self.queues.entry(group.clone()).or_default();
        if items.len() == 0 {
            self.order.push_back(group.clone());
        }
        items
    }

    /// Removes the next item, and returns it with its group.
    pub fn pop(&mut self) -> Option<(G, T)> {
        self.pop_where(|_| true)
    }

    /// Removes the next item of the first group that is `admitted`. This counts as the group's turn; the groups before
    /// it keep their places.
    pub fn pop_where(&mut self, admitted: impl FnMut(&G) -> bool) -> Option<(G, T)> {
        self.pop_live(admitted, |_| true)
    }

    /// As [`FairQueue::pop_where`], and removes the items before it that are not `live`, which is no turn of their group.
    pub fn pop_live(&mut self, mut admitted: impl FnMut(&G) -> bool, live: impl Fn(&T) -> bool) -> Option<(G, T)> {
        loop {
            let place = self.order.iter().position(&mut admitted)?;
            let group = self.order.remove(place)?;
            if let Some(taken) = self.take(group, &live) {
                return Some(taken);
            }
        }
    }

    /// Removes all items of a group.
    pub fn remove(&mut self, group: &G) {
        if let Some(items) = self.queues.remove(group) {
            self.len -= items.len();
            self.order.retain(|other| other != group);
        }
    }

    /// Returns whether an item of an `admitted` group waits.
    pub fn has_where(&self, admitted: impl FnMut(&G) -> bool) -> bool {
        self.order.iter().any(admitted)
    }

    /// Counts the waiting items of a group.
    pub fn waiting<Q: Eq + Hash + ?Sized>(&self, group: &Q) -> usize
    where
        G: Borrow<Q>,
    {
        self.queues.get(group).map_or(0, Items::len)
    }

    /// Counts all waiting items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes the next live item of a group that is not in `order` now.
    fn take(&mut self, group: G, live: impl Fn(&T) -> bool) -> Option<(G, T)> {
        let items = self.queues.get_mut(&group)?;
        let before = items.len();
        let item = iter::from_fn(|| items.pop()).find(live);
        self.len -= before - items.len();
        if items.len() == 0 {
            self.queues.remove(&group);
        } else {
            self.order.push_back(group.clone());
        }
        Some((group, item?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    type Plugins<T> = FairQueue<Arc<str>, T>;

    #[test]
    fn groups_take_turns_and_each_keeps_its_order() {
        let mut turns = Plugins::default();
        for (plugin, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 10), ("c", 20), ("b", 11)] {
            turns.push(&plugin.into(), item);
        }
        assert_eq!((turns.waiting("a"), turns.waiting("b"), turns.waiting("none")), (3, 2, 0));
        let order: Vec<i32> = std::iter::from_fn(|| turns.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, [1, 10, 20, 2, 11, 3]);
        turns.push(&"a".into(), 4);
        assert_eq!(turns.pop(), Some(("a".into(), 4)), "a plugin that was served may come again");
    }

    #[test]
    fn a_group_that_comes_late_is_served_after_one_more_item() {
        let mut turns = Plugins::default();
        (0..500).for_each(|_| turns.push(&"many".into(), "many"));
        assert_eq!(turns.pop(), Some(("many".into(), "many")));
        turns.push(&"one".into(), "one");
        assert_eq!([turns.pop(), turns.pop()], ["many", "one"].map(|plugin| Some((plugin.into(), plugin))));
    }

    #[test]
    fn a_group_that_is_served_out_of_turn_has_had_it_and_those_before_it_keep_their_places() {
        let mut turns = Plugins::default();
        for (plugin, item) in [("a", 1), ("b", 10), ("b", 11), ("c", 20)] {
            turns.push(&plugin.into(), item);
        }
        assert_eq!(turns.pop_where(|plugin| **plugin != *"a"), Some(("b".into(), 10)));
        assert_eq!(turns.pop_where(|_| false), None);
        let order: Vec<i32> = std::iter::from_fn(|| turns.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, [1, 20, 11]);
    }

    #[test]
    fn the_items_of_a_removed_group_are_gone_and_those_of_others_stay() {
        let mut turns = Plugins::default();
        for (plugin, item) in [("a", 1), ("a", 2), ("b", 10)] {
            turns.push(&plugin.into(), item);
        }
        turns.remove(&"a".into());
        assert!(!turns.has_where(|plugin| **plugin == *"a") && turns.has_where(|plugin| **plugin == *"b"));
        turns.push(&"a".into(), 3);
        assert_eq!(
            [turns.pop(), turns.pop(), turns.pop()].map(|popped| popped.map(|(_, item)| item)),
            [Some(10), Some(3), None]
        );
        assert!(turns.is_empty());
    }

    #[test]
    fn preferred_items_of_a_group_are_served_first_and_the_others_have_a_turn_all_the_same() {
        let mut turns = FairQueue::default();
        (0..3).for_each(|number| turns.push(&"a", number));
        (10..20).for_each(|number| turns.push_preferred(&"a", number));
        turns.push(&"b", 30);
        let order: Vec<i32> = std::iter::from_fn(|| turns.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, [10, 30, 11, 12, 13, 0, 14, 15, 16, 17, 1, 18, 19, 2]);
    }

    #[test]
    fn items_that_are_no_longer_live_cost_their_group_no_turn() {
        let mut turns = FairQueue::default();
        for (group, item) in [("a", -1), ("a", -2), ("a", 1), ("b", 10), ("b", 11), ("c", -3)] {
            turns.push(&group, item);
        }
        let order: Vec<i32> =
            iter::from_fn(|| turns.pop_live(|_| true, |item| *item > 0)).map(|(_, item)| item).collect();
        assert_eq!((order, turns.len()), (vec![1, 10, 11], 0));
    }

    proptest! {
        #[test]
        fn the_first_item_of_a_group_waits_for_at_most_one_item_of_each_other_group(
            acts in prop::collection::vec(prop::option::weighted(0.6, 0_u8..6), 1..200),
        ) {
            let mut queue = FairQueue::default();
            let mut waiting: BTreeMap<u8, (VecDeque<usize>, usize)> = BTreeMap::new();
            for (number, act) in acts.into_iter().chain(std::iter::repeat_n(None, 200)).enumerate() {
                if let Some(group) = act {
                    queue.push(&group, number);
                    waiting.entry(group).or_default().0.push_back(number);
                } else if let Some((served, item)) = queue.pop() {
                    let (mut rest, _) = waiting.remove(&served).unwrap();
                    prop_assert_eq!(rest.pop_front(), Some(item), "a group keeps its order");
                    for (group, (_, turns)) in &mut waiting {
                        *turns += 1;
                        prop_assert!(*turns < 6, "{} waited {} turns", group, turns);
                    }
                    if !rest.is_empty() {
                        waiting.insert(served, (rest, 0));
                    }
                } else {
                    prop_assert!(waiting.is_empty());
                }
                prop_assert_eq!(queue.len(), waiting.values().map(|(items, _)| items.len()).sum::<usize>());
            }
        }
    }
}
