//! The memory that all watches share. Others write the objects that the host watches, and choose how large they are: not
//! one plugin's limit bounds that. So the content of an object is kept only where there is room for it in the part of its
//! namespace; of the others the metadata is kept, and nothing is decided by them. Pure.
//!
//! Namespaces share the room by the rule by which plugins share the memory, so a namespace whose objects are large takes
//! no room from one whose objects are small.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::check::memory_share::may_hold;
use crate::model::object::{OBJECT_OVERHEAD_BYTES, Object};

/// The memory that all watches share.
#[derive(Debug)]
pub struct WatchRoom {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    sum: usize,
    by_namespace: HashMap<Option<Arc<str>>, usize>,
}

impl Default for WatchRoom {
    /// Returns a room without a limit.
    fn default() -> Self {
        Self { most: usize::MAX, held: Mutex::default() }
    }
}

impl WatchRoom {
    /// Builds the room of a host whose plugins may hold so many bytes. It is all of that, so that what the plugins'
    /// own limits admit is kept: one namespace alone may take three quarters.
    pub fn new(most: usize) -> Self {
        Self { most, held: Mutex::default() }
    }

    /// Returns how many bytes the content of all objects may take; none without a limit.
    pub fn most(&self) -> Option<usize> {
        (self.most < usize::MAX).then_some(self.most)
    }

    /// Returns whether the content of an object may be kept, in the place of what is known of it.
    pub fn admits(&self, object: &Object, known: Option<&Object>) -> bool {
        let more = object.content().saturating_sub(known.map_or(0, Object::content));
        // A content that takes no more memory than the place of its object costs nothing that could be spared.
        if more == 0 || object.content() <= OBJECT_OVERHEAD_BYTES {
            return true;
        }
        let held = self.held.lock();
        // However the sum is divided between namespaces. Most hosts never get beyond that.
        if held.sum.saturating_add(more) <= self.most / 4 {
            return true;
        }
        if held.sum.saturating_add(more) > self.most {
            return false;
        }
        let own = held.by_namespace.get(&object.key.namespace).copied().unwrap_or_default();
        let others = held.by_namespace.iter().filter(|(namespace, _)| **namespace != object.key.namespace);
        let others: Vec<usize> = others.map(|(_, bytes)| *bytes).collect();
        own.saturating_add(more) <= may_hold(own, &others, self.most)
    }

    /// Records that an object is kept.
    pub fn add(&self, object: &Object) {
        let (mut held, bytes) = (self.held.lock(), object.content());
        held.sum = held.sum.saturating_add(bytes);
        *held.by_namespace.entry(object.key.namespace.clone()).or_default() += bytes;
    }

    /// Records that an object is no longer kept.
    pub fn subtract(&self, object: &Object) {
        let (mut held, bytes) = (self.held.lock(), object.content());
        held.sum = held.sum.saturating_sub(bytes);
        if let Some(here) = held.by_namespace.get_mut(&object.key.namespace) {
            *here = here.saturating_sub(bytes);
            if *here == 0 {
                held.by_namespace.remove(&object.key.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::object::{Lens, Reduced};
    use crate::model::projection::Projection;

    const MOST: usize = 2_000_000;

    fn object(namespace: &str, name: &str, bytes: usize) -> Object {
        let lens = Lens { projection: Projection::new(&["data"]), labels: Vec::new(), status: false };
        let text = "x".repeat(bytes);
        let json =
            format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}},"data":{{"text":"{text}"}}}}"#);
        Object::read(&json, &lens).unwrap()
    }

    /// Keeps the object, or what is kept of it where there is no room. Returns whether it is whole.
    fn keep(room: &WatchRoom, object: Object) -> bool {
        let admitted = room.admits(&object, None);
        room.add(&if admitted { object } else { object.without_content(Reduced::NoRoom) });
        admitted
    }

    #[test]
    fn a_namespace_with_large_objects_takes_no_room_from_one_with_small_objects() {
        let room = WatchRoom::new(MOST);
        let kept = (0..600).filter(|number| keep(&room, object("greedy", &number.to_string(), 100_000))).count();
        assert!((10..=15).contains(&kept), "{kept} are kept of 100 kB each");
        let modest = (0..4).filter(|number| keep(&room, object("modest", &number.to_string(), 100_000))).count();
        assert_eq!(modest, 4);
        assert!(keep(&room, object("greedy", "small", 500)), "a small object is always kept");
        let sum = room.held.lock().sum;
        assert!(sum <= MOST, "{sum}");
    }

    #[test]
    fn room_that_becomes_free_is_used_again_and_an_object_that_shrinks_is_kept() {
        let room = WatchRoom::new(MOST);
        let first = object("n", "a", 1_400_000);
        assert!(keep(&room, first.clone()));
        assert!(!room.admits(&object("n", "b", 200_000), None));
        assert!(room.admits(&object("n", "a", 1_300_000), Some(&first)));
        room.subtract(&first);
        assert_eq!(room.held.lock().sum, 0);
        assert!(room.held.lock().by_namespace.is_empty());
        assert!(room.admits(&object("n", "b", 200_000), None));
    }

    #[test]
    fn a_room_without_a_limit_admits_everything() {
        let room = WatchRoom::default();
        assert!((0..20).all(|number| keep(&room, object("n", &number.to_string(), 1_000_000))));
        assert_eq!((room.most(), WatchRoom::new(MOST).most()), (None, Some(MOST)));
    }

    proptest! {
        #[test]
        fn all_namespaces_together_never_exceed_the_room_but_by_small_objects(objects in prop::collection::vec((0_u8..4, 1_usize..300_000), 1..80)) {
            let room = WatchRoom::new(MOST);
            for (number, (namespace, bytes)) in objects.iter().enumerate() {
                keep(&room, object(&namespace.to_string(), &number.to_string(), *bytes));
            }
            let sum = room.held.lock().sum;
            prop_assert!(sum <= MOST + objects.len() * OBJECT_OVERHEAD_BYTES, "{sum}");
        }
    }
}
