//! A semaphore whose places are given out fairly between groups: between plugins, or between the namespaces of one.
//!
//! Groups that wait take turns, so one with thousands of waiters delays only its own. A group may also be guaranteed a
//! number of places, which it has even if others hold all of the shared ones.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use hotshoe_core::flow::fair_queue::FairQueue;

/// The semaphore.
pub(super) struct FairSemaphore<G: Group>(Mutex<State<G>>);

/// A name of a group.
pub(super) trait Group: Clone + Eq + Hash {}

impl<G: Clone + Eq + Hash> Group for G {}

/// Invariant: no waiter is queued while there is a place for it.
struct State<G: Group> {
    places: Places<G>,
    waiting: FairQueue<G, oneshot::Sender<Place<G>>>,
}

/// Which places there are, and which are taken.
struct Places<G: Group> {
    shared: usize,
    /// The number of places that each group may have in any case.
    guaranteed: usize,
    taken: usize,
    /// The number of places that each group holds. A group that holds none is absent.
    by_group: HashMap<G, usize>,
}

/// A taken place; dropping it passes it on to the next waiter.
pub(super) struct Place<G: Group> {
    semaphore: Arc<FairSemaphore<G>>,
    group: G,
}

impl<G: Group> Places<G> {
    fn has_one_for(&self, group: &G) -> bool {
        self.taken < self.shared || self.by_group.get(group).copied().unwrap_or_default() < self.guaranteed
    }

    fn take(&mut self, group: &G) {
        self.taken += 1;
        *self.by_group.entry(group.clone()).or_default() += 1;
    }

    fn release(&mut self, group: &G) {
        self.taken -= 1;
        if let Some(taken) = self.by_group.get_mut(group) {
            *taken -= 1;
            if *taken == 0 {
                self.by_group.remove(group);
            }
        }
    }
}

impl<G: Group> State<G> {
    /// Releases a place, and returns the waiter that has one now. A waiter that has given up gets none.
    fn pass_on(&mut self, group: &G) -> Option<(G, oneshot::Sender<Place<G>>)> {
        self.places.release(group);
        let next = self.waiting.pop_live(|group| self.places.has_one_for(group), |waiter| !waiter.is_closed())?;
        self.places.take(&next.0);
        Some(next)
    }
}

impl<G: Group> FairSemaphore<G> {
    /// Creates a semaphore with a number of places that all groups share, and a number that each is guaranteed.
    pub(super) fn new(shared: usize, guaranteed: usize) -> Arc<Self> {
        let places = Places { shared, guaranteed, taken: 0, by_group: HashMap::new() };
        Arc::new(Self(Mutex::new(State { places, waiting: FairQueue::default() })))
    }

    /// Takes a place for a group, if there is one.
    pub(super) fn try_acquire(self: &Arc<Self>, group: &G) -> Option<Place<G>> {
        self.try_take(&mut self.0.lock(), group)
    }

    /// Waits for a place for a group.
    pub(super) async fn acquire(self: &Arc<Self>, group: &G) -> Place<G> {
        let waiting = {
            let mut state = self.0.lock();
            if let Some(place) = self.try_take(&mut state, group) {
                return place;
            }
            let (send, receive) = oneshot::channel();
            state.waiting.push(group, send);
            receive
        };
        #[expect(clippy::expect_used, reason = "a waiter leaves the queue with a place, or after it has given up")]
        waiting.await.expect("a place")
    }

    fn try_take(self: &Arc<Self>, state: &mut State<G>, group: &G) -> Option<Place<G>> {
        state.places.has_one_for(group).then(|| {
            state.places.take(group);
            self.place(group.clone())
        })
    }

    fn place(self: &Arc<Self>, group: G) -> Place<G> {
        Place { semaphore: self.clone(), group }
    }
}

impl<G: Group> Drop for Place<G> {
    fn drop(&mut self) {
        let next = self.semaphore.0.lock().pass_on(&self.group);
        if let Some((group, waiter)) = next {
            // If the waiter has given up, the place comes back as an error, and dropping that passes it on.
            drop(waiter.send(self.semaphore.place(group)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::FutureExt;
    use futures::future::{join, join_all};

    use super::*;

    const SHARED: usize = 10;

    type Semaphore = Arc<FairSemaphore<&'static str>>;
    type Waiting = Pin<Box<dyn Future<Output = Place<&'static str>>>>;

    /// A semaphore with ten places, of which each group always has one.
    fn semaphore() -> Semaphore {
        FairSemaphore::new(SHARED, 1)
    }

    fn ask(semaphore: &Semaphore, group: &'static str) -> Waiting {
        let semaphore = semaphore.clone();
        Box::pin(async move { semaphore.acquire(&group).await })
    }

    /// Returns the place if there is one at once.
    fn acquired(waiting: &mut Waiting) -> Option<Place<&'static str>> {
        waiting.now_or_never()
    }

    /// Takes all places that a group can have at once.
    fn take_all(semaphore: &Semaphore, group: &'static str) -> Vec<Place<&'static str>> {
        std::iter::from_fn(|| semaphore.try_acquire(&group)).collect()
    }

    #[tokio::test]
    async fn groups_take_turns_and_each_keeps_its_order() {
        let semaphore = FairSemaphore::new(1, 0);
        let first = semaphore.try_acquire(&"one").unwrap();
        assert!(semaphore.try_acquire(&"other").is_none());
        let order = Mutex::new(Vec::new());
        let waiter = |(group, number): (&'static str, u32)| {
            let (semaphore, order) = (&semaphore, &order);
            async move {
                let _place = semaphore.acquire(&group).await;
                order.lock().push((group, number));
            }
        };
        let waiters = [("many", 0), ("many", 1), ("many", 2), ("one", 0)].map(waiter);
        join(join_all(waiters), async { drop(first) }).await;
        assert_eq!(order.into_inner(), [("many", 0), ("one", 0), ("many", 1), ("many", 2)]);
        assert!(semaphore.try_acquire(&"one").is_some());
    }

    #[tokio::test]
    async fn one_group_alone_may_have_all_shared_places_and_not_one_more() {
        let semaphore = semaphore();
        let places = take_all(&semaphore, "one");
        assert_eq!(places.len(), SHARED);
        drop(places);
        assert_eq!(take_all(&semaphore, "other").len(), SHARED);
    }

    #[tokio::test]
    async fn a_group_always_has_its_guaranteed_place_however_many_another_keeps() {
        let semaphore = semaphore();
        let _kept = take_all(&semaphore, "slow");
        let mut waits_for_its_own = ask(&semaphore, "slow");
        let first = semaphore.try_acquire(&"one").expect("it has none");
        let (mut second, mut other) = (ask(&semaphore, "one"), ask(&semaphore, "other"));
        assert!(acquired(&mut second).is_none());
        assert!(acquired(&mut waits_for_its_own).is_none());
        assert!(acquired(&mut other).is_some());
        drop(first);
        assert!(acquired(&mut second).is_some());
        assert!(acquired(&mut waits_for_its_own).is_none());
    }

    #[tokio::test]
    async fn two_waiters_of_a_group_do_not_wait_for_five_hundred_of_another() {
        let semaphore = semaphore();
        let mut many: Vec<_> = (0..500).map(|_| ask(&semaphore, "many")).collect();
        let mut taken: Vec<_> = many.iter_mut().map(acquired).collect();
        let _first = semaphore.try_acquire(&"one").expect("it has none");
        let mut one = ask(&semaphore, "one");
        assert!(acquired(&mut one).is_none());
        let mut ended = 0;
        let place = loop {
            drop(taken[ended].take());
            ended += 1;
            if let Some(place) = acquired(&mut one) {
                break place;
            }
        };
        assert!(ended <= 3, "{ended} of the other were before it, and its own first one is beyond the shared ones");
        drop(place);
        assert!(many.iter_mut().skip(SHARED).any(|waiting| acquired(waiting).is_some()), "the other goes on");
    }

    #[tokio::test]
    async fn a_waiter_that_has_given_up_passes_its_place_on_and_none_is_lost_or_made() {
        let semaphore = semaphore();
        let taken = take_all(&semaphore, "a");
        let its_own = semaphore.try_acquire(&"b");
        let mut waiting = [(); 3].map(|()| ask(&semaphore, "b"));
        assert!(waiting.iter_mut().all(|one| acquired(one).is_none()));
        let [handed_over, given_up, mut last] = waiting;
        drop(given_up);
        drop((taken, its_own));
        // This waiter has a place by now, and never takes it.
        drop(handed_over);
        assert!(acquired(&mut last).is_some());
        assert_eq!(take_all(&semaphore, "c").len(), SHARED);
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_delays_no_other_group() {
        let semaphore = FairSemaphore::new(1, 0);
        let first = semaphore.acquire(&"first").await;
        let mut waiting = ["a", "b", "c"].map(|group| ask(&semaphore, group));
        assert!(waiting.iter_mut().all(|waiting| acquired(waiting).is_none()));
        let [gone, chosen, mut last] = waiting;
        drop((gone, first));
        // It has the place now, and gives up before it knows.
        drop(chosen);
        let place = acquired(&mut last).unwrap();
        assert!(semaphore.try_acquire(&"d").is_none());
        drop(place);
        assert!(semaphore.try_acquire(&"d").is_some());
    }
}
