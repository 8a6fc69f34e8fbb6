//! Changes the history of a plugin on one thread, which waits for the disk, while others read it.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::rollout::history::History;
use crate::rollout::state::{PluginState, Published};

/// A change of the history that readers do not see yet; it is over when this is dropped.
pub(super) struct Change {
    state: Arc<Published<PluginState>>,
    /// Held during a change, so that changes are made and written one after the other.
    turn: Arc<Mutex<()>>,
}

impl Change {
    /// Announces a change that is about to be made on another thread.
    pub(super) fn announce(state: Arc<Published<PluginState>>, turn: Arc<Mutex<()>>) -> Self {
        state.change(|state| state.unwritten += 1);
        Self { state, turn }
    }

    /// Changes the history. To be called on a blocking thread, because a change is written to disk. It is seen once it
    /// is written.
    pub(super) fn make(self, change: impl FnOnce(&mut History)) {
        let _turn = self.turn.lock();
        let mut next = History::clone(&self.state.read(|state| state.history.clone()));
        change(&mut next);
        self.state.change(|state| state.history = Arc::new(next));
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.state.change(|state| state.unwritten -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::rollout::history::Event;
    use hotshoe_core::model::digest::Digest;

    /// Returns a state, and announces changes of its history.
    fn history() -> (Arc<Published<PluginState>>, impl Fn() -> Change) {
        let (state, turn) = (Arc::new(Published::new(PluginState::of_test())), Arc::default());
        (state.clone(), move || Change::announce(state.clone(), Arc::clone(&turn)))
    }

    #[test]
    fn a_history_is_changing_until_every_announced_change_is_over() {
        let (state, announce) = history();
        for change in [announce(), announce()] {
            assert!(state.read(|state| state.unwritten > 0));
            drop(change);
        }
        assert_eq!(state.read(|state| state.unwritten), 0);
    }

    #[test]
    fn a_history_is_read_while_a_change_of_it_is_being_written_and_no_change_is_lost() {
        let (state, announce) = history();
        let (begun, has_begun) = mpsc::channel();
        let (written, is_written) = mpsc::channel();
        let note = |history: &mut History, version: &str| {
            history.note(Digest::of(version.as_bytes()), version, Event::Activated, "");
        };
        let (first, second) = (announce(), announce());
        thread::scope(|scope| {
            scope.spawn(move || {
                first.make(|history| {
                    note(history, "1");
                    begun.send(()).unwrap();
                    is_written.recv().unwrap();
                });
            });
            has_begun.recv().unwrap();
            assert!(state.read(|state| state.history.entries().is_empty()), "it is not written yet");
            let second = scope.spawn(move || second.make(|history| note(history, "2")));
            written.send(()).unwrap();
            second.join().unwrap();
        });
        let history = state.read(|state| state.history.clone());
        let versions: Vec<_> = history.entries().iter().map(|entry| &*entry.version).collect();
        assert_eq!(versions, ["1", "2"]);
    }
}
