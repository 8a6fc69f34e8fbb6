//! A history that is read on one thread while it is written to disk on another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::rollout::history::History;

/// The history of a plugin, for readers that do not wait for the disk.
#[derive(Debug)]
pub struct SharedHistory {
    /// Locked only to read or replace the pointer.
    current: Mutex<Arc<History>>,
    /// Held during a change, so that changes are made and written one after the other.
    changing: Mutex<()>,
    /// The number of changes that are announced and not seen yet.
    announced: AtomicUsize,
}

/// A change that is announced; it is over when this is dropped.
#[derive(Debug)]
pub struct AnnouncedChange(Arc<SharedHistory>);

impl Drop for AnnouncedChange {
    fn drop(&mut self) {
        self.0.announced.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SharedHistory {
    /// Shares a history.
    pub fn new(history: History) -> Self {
        Self { current: Mutex::new(Arc::new(history)), changing: Mutex::default(), announced: AtomicUsize::default() }
    }

    /// Returns the history as the last change left it.
    pub fn read(&self) -> Arc<History> {
        self.current.lock().clone()
    }

    /// Announces a change that is about to be made on another thread.
    pub fn announce(self: &Arc<Self>) -> AnnouncedChange {
        self.announced.fetch_add(1, Ordering::Relaxed);
        AnnouncedChange(self.clone())
    }

    /// Returns whether a change is announced that readers do not see yet.
    pub fn is_changing(&self) -> bool {
        self.announced.load(Ordering::Relaxed) > 0
    }

    /// Changes the history. To be called on a blocking thread, because a change is written to disk. It is seen once it
    /// is written.
    pub fn change(&self, change: impl FnOnce(&mut History)) {
        let _changing = self.changing.lock();
        let mut next = History::clone(&self.read());
        change(&mut next);
        *self.current.lock() = Arc::new(next);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::rollout::history::Event;
    use crate::rollout::history::fixtures::digest;

    #[test]
    fn a_history_is_changing_until_every_announced_change_is_over() {
        let shared = Arc::new(SharedHistory::new(History::default()));
        let changes = [shared.announce(), shared.announce()];
        for change in changes {
            assert!(shared.is_changing());
            drop(change);
        }
        assert!(!shared.is_changing());
    }

    #[test]
    fn a_history_is_read_while_a_change_of_it_is_being_written_and_no_change_is_lost() {
        let shared = SharedHistory::new(History::default());
        let (begun, has_begun) = mpsc::channel();
        let (written, is_written) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                shared.change(move |history| {
                    history.note(digest("a"), "1", Event::Activated, "");
                    begun.send(()).unwrap();
                    is_written.recv().unwrap();
                });
            });
            has_begun.recv().unwrap();
            assert!(shared.read().entries().is_empty(), "it is not written yet");
            let second = scope.spawn(|| shared.change(|history| history.note(digest("b"), "2", Event::Activated, "")));
            written.send(()).unwrap();
            second.join().unwrap();
        });
        let versions: Vec<_> = shared.read().entries().iter().map(|entry| entry.version.clone()).collect();
        assert_eq!(versions, ["1", "2"]);
    }
}
