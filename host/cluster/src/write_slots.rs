//! Limits the writes in flight of the whole process, fairly between plugins.
//!
//! A small API server is fastest with eight to ten writes at once; more only slow its other clients down. One plugin
//! alone may use all slots; if several wait, they take turns. Each plugin may always have one write in flight, beyond
//! the ten if necessary: the writes of another plugin may hang until a slow admission webhook times out.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use hotshoe_core::flow::fair_queue::FairQueue;

/// The number of slots for writes in flight.
const MAX_IN_FLIGHT: usize = 10;

/// The slots for writes, shared by all writers.
pub(super) struct WriteSlots {
    slots: Mutex<Slots>,
}

/// Invariant: no waiter is queued while a slot is free for it.
#[derive(Default)]
struct Slots {
    /// Writes in flight by plugin; plugins without any are absent.
    running: HashMap<Arc<str>, usize>,
    waiting: FairQueue<Arc<str>, oneshot::Sender<WriteSlot>>,
}

/// The right to make one write; dropping it passes it on to the next waiter.
pub(super) struct WriteSlot {
    shared: Arc<WriteSlots>,
    plugin: Arc<str>,
}

impl Slots {
    fn total(&self) -> usize {
        self.running.values().sum()
    }

    fn has_room_for(&self, plugin: &str) -> bool {
        self.total() < MAX_IN_FLIGHT || !self.running.contains_key(plugin)
    }

    fn begin(&mut self, plugin: &Arc<str>) {
        *self.running.entry(plugin.clone()).or_default() += 1;
    }

    /// Ends a write of a plugin, and returns the waiter that may make one now.
    fn end(&mut self, plugin: &Arc<str>) -> Option<(Arc<str>, oneshot::Sender<WriteSlot>)> {
        if let Some(running) = self.running.get_mut(plugin) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(plugin);
            }
        }
        loop {
            let next = match self.total() < MAX_IN_FLIGHT {
                true => self.waiting.pop(),
                false if !self.running.contains_key(plugin) => self.waiting.pop_where(|waiting| waiting == plugin),
                false => None,
            };
            let (plugin, waiting) = next?;
            // A waiter that has given up gets no slot.
            if !waiting.is_closed() {
                self.begin(&plugin);
                return Some((plugin, waiting));
            }
        }
    }
}

impl WriteSlots {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { slots: Mutex::default() })
    }

    /// Waits for a slot for a write of a plugin.
    pub(super) async fn acquire(self: &Arc<Self>, plugin: &Arc<str>) -> WriteSlot {
        let waiting = {
            let mut slots = self.slots.lock();
            if slots.has_room_for(plugin) {
                slots.begin(plugin);
                return WriteSlot { shared: self.clone(), plugin: plugin.clone() };
            }
            let (send, receive) = oneshot::channel();
            slots.waiting.push(plugin, send);
            receive
        };
        #[expect(clippy::expect_used, reason = "a waiter leaves the queue with a slot, or after it has given up")]
        waiting.await.expect("a slot")
    }
}

impl Drop for WriteSlot {
    fn drop(&mut self) {
        let next = self.shared.slots.lock().end(&self.plugin);
        if let Some((plugin, next)) = next {
            // If the waiter has given up, the slot comes back as an error, and dropping that passes the slot on.
            drop(next.send(WriteSlot { shared: self.shared.clone(), plugin }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = WriteSlot>>>;

    fn ask(writes: &Arc<WriteSlots>, plugin: &str) -> Waiting {
        let (writes, plugin) = (writes.clone(), plugin.into());
        Box::pin(async move { writes.acquire(&plugin).await })
    }

    /// Returns the slot if one is available at once.
    fn begun(waiting: &mut Waiting) -> Option<WriteSlot> {
        futures::FutureExt::now_or_never(waiting)
    }

    #[tokio::test]
    async fn one_plugin_alone_may_use_all_slots_and_not_one_more() {
        let writes = WriteSlots::new();
        let turns: Vec<_> = (0..=MAX_IN_FLIGHT).map_while(|_| begun(&mut ask(&writes, "one"))).collect();
        assert_eq!(turns.len(), MAX_IN_FLIGHT);
        drop(turns);
        assert_eq!(
            (0..=MAX_IN_FLIGHT).map_while(|_| begun(&mut ask(&writes, "other"))).collect::<Vec<_>>().len(),
            MAX_IN_FLIGHT
        );
    }

    #[tokio::test]
    async fn a_plugin_always_has_one_slot_however_many_of_another_hang() {
        let writes = WriteSlots::new();
        let hanging: Vec<_> = (0..MAX_IN_FLIGHT).map_while(|_| begun(&mut ask(&writes, "slow"))).collect();
        assert_eq!(hanging.len(), MAX_IN_FLIGHT);
        let mut waits_for_its_own = ask(&writes, "slow");
        let first = begun(&mut ask(&writes, "one")).expect("it has none");
        let (mut second, mut other) = (ask(&writes, "one"), ask(&writes, "other"));
        assert!(begun(&mut second).is_none());
        assert!(begun(&mut waits_for_its_own).is_none());
        assert!(begun(&mut other).is_some());
        drop(first);
        assert!(begun(&mut second).is_some());
        assert!(begun(&mut waits_for_its_own).is_none());
    }

    #[tokio::test]
    async fn two_writes_of_a_plugin_do_not_wait_for_five_hundred_of_another() {
        let writes = WriteSlots::new();
        let mut many: Vec<_> = (0..500).map(|_| ask(&writes, "many")).collect();
        let mut running: Vec<_> = many.iter_mut().map(begun).collect();
        let _first = begun(&mut ask(&writes, "one")).expect("it has none");
        let mut one = ask(&writes, "one");
        assert!(begun(&mut one).is_none());
        let mut ended = 0;
        let turn = loop {
            drop(running[ended].take());
            ended += 1;
            if let Some(turn) = begun(&mut one) {
                break turn;
            }
        };
        assert!(ended <= 3, "{ended} writes of the other were before it, and the first of its own is beyond the ten");
        drop(turn);
        let next = many.iter_mut().skip(MAX_IN_FLIGHT).filter_map(begun).count();
        assert!(next >= 1, "the other goes on");
    }

    #[tokio::test]
    async fn an_unused_slot_passes_to_the_next_waiter() {
        let writes = WriteSlots::new();
        let running: Vec<_> = (0..MAX_IN_FLIGHT).map(|_| begun(&mut ask(&writes, "a"))).collect();
        let its_own = begun(&mut ask(&writes, "b"));
        let mut waiting: Vec<_> = (0..3).map(|_| ask(&writes, "b")).collect();
        assert!(waiting.iter_mut().all(|one| begun(one).is_none()));
        let (handed_over, given_up) = (waiting.remove(0), waiting.remove(0));
        drop(given_up);
        drop((running, its_own));
        // This waiter has been given a slot by now, and never takes it.
        drop(handed_over);
        assert!(begun(&mut waiting[0]).is_some());
        let free = (0..=MAX_IN_FLIGHT).map_while(|_| begun(&mut ask(&writes, "c"))).collect::<Vec<_>>();
        assert_eq!(free.len(), MAX_IN_FLIGHT, "none was lost and none was made");
    }
}
