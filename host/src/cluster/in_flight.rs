//! The writes in flight of the whole process, and who makes the next one.
//!
//! A small API server is fastest at eight to ten, and more only slows its other clients down. One plugin
//! alone may make them all; where several wait, they take turns.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::cluster::turns::Turns;

const WRITES: usize = 10;

/// What is shared by all writers.
pub(super) struct InFlight {
    state: Mutex<State>,
}

struct State {
    /// None while anybody waits.
    free: usize,
    waiting: Turns<oneshot::Sender<Turn>>,
}

/// The right to make one write; it goes to the next when it is dropped.
pub(super) struct Turn {
    shared: Arc<InFlight>,
}

impl InFlight {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { free: WRITES, waiting: Turns::default() }) })
    }

    /// Waits for the turn of a plugin; who gives up waiting loses nobody a turn. Nobody ever gets none.
    pub(super) async fn turn(self: &Arc<Self>, plugin: &Arc<str>) -> Option<Turn> {
        let turn = {
            let mut state = self.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return Some(Turn { shared: self.clone() });
            }
            let (send, receive) = oneshot::channel();
            state.waiting.push(plugin, send);
            receive
        };
        turn.await.ok()
    }

    /// Who is next and still waits; where nobody does, the turn is free.
    fn next(&self) -> Option<oneshot::Sender<Turn>> {
        let mut state = self.state.lock();
        while let Some(next) = state.waiting.next() {
            if !next.is_closed() {
                return Some(next);
            }
        }
        state.free += 1;
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(next) = self.shared.next() {
            // One that is not taken any more comes back, and is dropped in its turn.
            drop(next.send(Turn { shared: self.shared.clone() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Option<Turn>>>>;

    fn ask(writes: &Arc<InFlight>, plugin: &str) -> Waiting {
        let (writes, plugin) = (writes.clone(), plugin.into());
        Box::pin(async move { writes.turn(&plugin).await })
    }

    /// What has its turn at once.
    fn begun(waiting: &mut Waiting) -> Option<Turn> {
        futures::FutureExt::now_or_never(waiting).flatten()
    }

    #[tokio::test]
    async fn one_plugin_alone_makes_them_all_and_not_one_more() {
        let writes = InFlight::new();
        let turns: Vec<_> = (0..=WRITES).map_while(|_| begun(&mut ask(&writes, "one"))).collect();
        assert_eq!(turns.len(), WRITES);
        drop(turns);
        assert_eq!((0..=WRITES).map_while(|_| begun(&mut ask(&writes, "other"))).collect::<Vec<_>>().len(), WRITES);
    }

    #[tokio::test]
    async fn one_write_of_a_plugin_does_not_wait_for_five_hundred_of_another() {
        let writes = InFlight::new();
        let mut many: Vec<_> = (0..500).map(|_| ask(&writes, "many")).collect();
        let mut running: Vec<_> = many.iter_mut().map(begun).collect();
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
        assert!(ended <= 2, "{ended} writes of the other were before it");
        drop(turn);
        let next = many.iter_mut().skip(WRITES).filter_map(begun).count();
        assert!(next >= 1, "the other goes on");
    }

    #[tokio::test]
    async fn a_turn_that_is_not_taken_goes_to_the_next() {
        let writes = InFlight::new();
        let running: Vec<_> = (0..WRITES).map(|_| begun(&mut ask(&writes, "a"))).collect();
        let mut waiting: Vec<_> = (0..3).map(|_| ask(&writes, "b")).collect();
        assert!(waiting.iter_mut().all(|one| begun(one).is_none()));
        let (handed_over, given_up) = (waiting.remove(0), waiting.remove(0));
        drop(given_up);
        drop(running);
        // It has its turn by now, and never looks.
        drop(handed_over);
        assert!(begun(&mut waiting[0]).is_some());
        let free = (0..=WRITES).map_while(|_| begun(&mut ask(&writes, "c"))).collect::<Vec<_>>();
        assert_eq!(free.len(), WRITES, "none was lost and none was made");
    }
}
