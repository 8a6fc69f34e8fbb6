//! A lock for which namespaces take turns: a namespace with thousands of waiters delays only its own.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use hotshoe_core::flow::fair_queue::FairQueue;

/// The lock. Objects without a namespace form one group.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
}

/// Invariant: nothing waits while no turn is taken.
#[derive(Default)]
struct State {
    is_taken: bool,
    waiting: FairQueue<Option<Arc<str>>, oneshot::Sender<Turn>>,
}

/// The turn of one waiter; dropping it passes it on to the next one.
pub(super) struct Turn(Arc<Turns>);

impl State {
    /// Returns the waiter that has the turn now. A waiter that has given up gets none.
    fn pass_on(&mut self) -> Option<oneshot::Sender<Turn>> {
        let next = std::iter::from_fn(|| self.waiting.pop()).map(|(_, next)| next).find(|next| !next.is_closed());
        self.is_taken = next.is_some();
        next
    }
}

impl Turns {
    /// Takes the turn, unless it is taken.
    pub(super) fn try_take(self: &Arc<Self>) -> Option<Turn> {
        let mut state = self.state.lock();
        let is_free = !std::mem::replace(&mut state.is_taken, true);
        is_free.then(|| Turn(self.clone()))
    }

    /// Waits for a turn of a namespace.
    pub(super) async fn take(self: &Arc<Self>, namespace: Option<&Arc<str>>) -> Turn {
        let waiting = {
            let mut state = self.state.lock();
            if !std::mem::replace(&mut state.is_taken, true) {
                return Turn(self.clone());
            }
            let (send, receive) = oneshot::channel();
            state.waiting.push(&namespace.cloned(), send);
            receive
        };
        #[expect(clippy::expect_used, reason = "a waiter leaves the queue with a turn, or after it has given up")]
        waiting.await.expect("a turn")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.0.state.lock().pass_on();
        if let Some(next) = next {
            // If the waiter has given up, the turn comes back as an error, and dropping that passes it on.
            drop(next.send(Turn(self.0.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::{join, join_all};

    use super::*;

    #[tokio::test]
    async fn namespaces_take_turns_and_each_keeps_its_order() {
        let turns = Arc::new(Turns::default());
        let first = turns.try_take().unwrap();
        assert!(turns.try_take().is_none());
        let order = Mutex::new(Vec::new());
        let waiter = |(namespace, number): (&'static str, u32)| {
            let (turns, order) = (&turns, &order);
            async move {
                let _turn = turns.take(Some(&namespace.into())).await;
                order.lock().push((namespace, number));
            }
        };
        let waiters = [("many", 0), ("many", 1), ("many", 2), ("one", 0)].map(waiter);
        join(join_all(waiters), async { drop(first) }).await;
        assert_eq!(order.into_inner(), [("many", 0), ("one", 0), ("many", 1), ("many", 2)]);
        assert!(turns.try_take().is_some());
    }

    #[tokio::test]
    async fn a_waiter_that_has_given_up_delays_no_other() {
        let turns = Arc::new(Turns::default());
        let first = turns.take(None).await;
        let mut waiting = ["a", "b", "c"].map(|namespace| {
            let (turns, namespace) = (turns.clone(), Arc::from(namespace));
            Box::pin(async move { turns.take(Some(&namespace)).await })
        });
        assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        let [gone, chosen, last] = waiting;
        drop((gone, first));
        // It has the turn now, and gives up before it knows.
        drop(chosen);
        let turn = last.now_or_never().unwrap();
        assert!(turns.try_take().is_none());
        drop(turn);
        assert!(turns.try_take().is_some());
    }
}
