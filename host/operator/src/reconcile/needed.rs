//! The objects that the parents of one plugin need, by their names or by label selectors, shared by the passes over
//! parents, which read them, and by the [tasks that watch them](crate::reconcile::needed_watches).

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use hotshoe_core::flow::needs::{Followed, NeededObject, Needs, Seen};
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::model::limits::{NEEDED_OBJECTS, NEEDED_OBJECTS_UNSHARED};
use hotshoe_core::model::wanted::Wanted;

/// How long a decision waits for the watches of what it needs before it reads without them.
const OPENING: Duration = Duration::from_secs(1);

/// The objects that the parents of one plugin need.
#[derive(Default)]
pub struct NeededObjects {
    needs: Mutex<Needs>,
    /// Other objects may be needed now.
    changed: Notify,
    /// A watch stands, or cannot be opened.
    opened: Notify,
    /// Whether it is logged that there are too many.
    are_too_many: AtomicBool,
    /// The kinds of which it is logged that they may not be watched.
    forbidden: Mutex<HashSet<Kind>>,
}

impl NeededObjects {
    /// Has objects watched for a parent, and waits until their watches stand or cannot be opened, but not for long. Where
    /// each watch is a connection of its own, fewer are watched.
    pub async fn ask(&self, parent: &Key, objects: &[Wanted], watches_share: bool) {
        let limit = if watches_share { NEEDED_OBJECTS } else { NEEDED_OBJECTS_UNSHARED };
        let has_room = self.change(|needs| needs.ask(parent, objects, limit));
        if !has_room && !self.are_too_many.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                limit,
                "the plugin needs more objects and selections than are watched; the others are read again every 15 s"
            );
        }
        let are_open = async {
            loop {
                let opened = self.opened.notified();
                if !self.needs.lock().is_opening(objects) {
                    return;
                }
                opened.await;
            }
        };
        drop(timeout(OPENING, are_open).await);
    }

    /// Records that an object is about to be read for a parent.
    pub fn begin_read(&self, parent: &Key, object: &Wanted) {
        self.needs.lock().begin_read(parent, object);
    }

    /// Records which version of an object a parent is shown, none if there is no such object. Returns whether the next
    /// change will be noticed.
    pub fn note_shown(&self, parent: &Key, object: &Wanted, version: Option<u64>) -> Followed {
        self.needs.lock().note_shown(parent, object, version)
    }

    /// Ends all needs of a parent except these.
    pub fn keep(&self, parent: &Key, objects: &[Wanted]) {
        self.change(|needs| needs.keep(parent, objects));
    }

    /// Ends the needs of all parents except these.
    pub fn retain(&self, is_kept: impl Fn(&Key) -> bool) {
        self.change(|needs| needs.retain(is_kept));
    }

    /// Changes the needs of parents, and has the watches follow. Most passes need what the ones before needed.
    fn change<T>(&self, change: impl FnOnce(&mut Needs) -> T) -> T {
        let mut needs = self.needs.lock();
        let before = needs.serial();
        let result = change(&mut needs);
        if needs.serial() != before {
            self.changed.notify_one();
        }
        result
    }

    /// Returns whether an object that a parent needs has changed since the parent was shown it.
    pub fn is_outdated(&self, parent: &Key) -> bool {
        self.needs.lock().is_outdated(parent)
    }

    /// Returns which objects that a parent needs have changed since the parent was shown them.
    pub fn outdated(&self, parent: &Key) -> Vec<Wanted> {
        let needs = self.needs.lock();
        needs.of_parent(parent).filter(|(_, is_outdated)| *is_outdated).map(|(wanted, _)| wanted.clone()).collect()
    }

    /// Returns what a parent needs beside what its plugin declares, in order.
    pub fn of(&self, parent: &Key) -> Vec<Wanted> {
        let mut wanted: Vec<_> = self.needs.lock().of_parent(parent).map(|(wanted, _)| wanted.clone()).collect();
        wanted.sort_unstable();
        wanted
    }

    /// Waits until other objects may be needed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the objects that are to be watched.
    pub fn objects(&self) -> HashSet<NeededObject> {
        self.needs.lock().objects()
    }

    /// Records that the watch of an object stands.
    pub fn stands(&self, object: &NeededObject) {
        self.needs.lock().stands(object);
        self.opened.notify_waiters();
    }

    /// Records that the watch of an object cannot be opened, or may have missed changes. Returns the parents that have to
    /// read it again.
    pub fn fails(&self, object: &NeededObject) -> Vec<Key> {
        let due = self.needs.lock().fails(object);
        self.opened.notify_waiters();
        due
    }

    /// Records what the watch of an object shows. Returns the parents that have to read it again.
    pub fn observe(&self, object: &NeededObject, seen: Seen) -> Vec<Key> {
        self.needs.lock().observe(object, seen)
    }

    /// Returns whether to log that a kind may not be watched: once for each.
    pub fn is_newly_forbidden(&self, kind: &Kind) -> bool {
        self.forbidden.lock().insert(kind.clone())
    }
}
