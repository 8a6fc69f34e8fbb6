//! Limits the memory that all watches share. Users write the objects that the host watches, and choose their sizes, so
//! no limit of a plugin bounds it. The content of an object is kept only if the part of its namespace has room for it.
//! Of any other object only the metadata is kept, and no decision is based on it. Pure.
//!
//! The room is divided between namespaces as [the memory](crate::check::memory_share) is between plugins, so a
//! namespace whose objects are large takes no room from one whose objects are small.
//!
//! Any account may set the label of a plugin on any number of objects. Of an object that is not a child of a known
//! parent, only the metadata is kept, and no decision is based on it. These objects have a room of their own. Once it
//! is full, they are not kept at all.

use parking_lot::Mutex;

use crate::check::memory_share::may_hold;
use crate::check::namespace_share::BytesByNamespace;
use crate::model::kind::Namespace;
use crate::model::object::{OBJECT_OVERHEAD_BYTES, Object, Reduced};

/// The memory that all watches share.
#[derive(Debug)]
pub struct WatchRoom {
    most: usize,
    rooms: Mutex<Rooms>,
}

#[derive(Debug)]
struct Rooms {
    /// The content of parents, their children, and what plugins read.
    content: Held,
    /// Objects without a known parent.
    without_parent: Held,
}

/// What is held of one room, in bytes.
#[derive(Debug)]
struct Held {
    most: usize,
    bytes: BytesByNamespace,
}

/// The room for objects without a known parent, as a divisor of that for the content of all others.
const WITHOUT_PARENT: usize = 8;

impl Default for WatchRoom {
    /// Returns a room without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl WatchRoom {
    /// Creates the room of a host whose plugins may hold `most` bytes. The room has the same size, so that what the
    /// plugins' own limits admit is kept: one namespace alone may take three quarters.
    pub fn new(most: usize) -> Self {
        let without_parent = if most < usize::MAX { most / WITHOUT_PARENT } else { most };
        Self { most, rooms: Mutex::new(Rooms { content: Held::of(most), without_parent: Held::of(without_parent) }) }
    }

    /// Returns how many bytes the content of all objects may take; none without a limit.
    pub fn most(&self) -> Option<usize> {
        (self.most < usize::MAX).then_some(self.most)
    }

    /// Returns whether an object may be kept in the place of what is known of it: with its content, or at all if it has
    /// no known parent.
    pub fn admits(&self, object: &Object, known: Option<&Object>) -> bool {
        let known = known.filter(|known| is_without_parent(known) == is_without_parent(object)).map_or(0, bytes);
        let more = bytes(object).saturating_sub(known);
        // A content that takes no more memory than the place of its object costs nothing that could be spared.
        let is_small = !is_without_parent(object) && bytes(object) <= OBJECT_OVERHEAD_BYTES;
        more == 0 || is_small || self.rooms.lock().of(object).admits(&object.key.namespace, more)
    }

    /// Records that an object is kept.
    pub fn add(&self, object: &Object) {
        self.rooms.lock().of(object).bytes.add(&object.key.namespace, bytes(object));
    }

    /// Records that an object is no longer kept.
    pub fn subtract(&self, object: &Object) {
        self.rooms.lock().of(object).bytes.subtract(&object.key.namespace, bytes(object));
    }
}

fn is_without_parent(object: &Object) -> bool {
    object.reduced == Some(Reduced::NoParent)
}

/// Returns how many bytes of its room an object takes.
fn bytes(object: &Object) -> usize {
    if is_without_parent(object) { object.held() } else { object.content() }
}

impl Rooms {
    fn of(&mut self, object: &Object) -> &mut Held {
        if is_without_parent(object) { &mut self.without_parent } else { &mut self.content }
    }
}

impl Held {
    fn of(most: usize) -> Self {
        Self { most, bytes: BytesByNamespace::default() }
    }

    fn admits(&self, namespace: &Namespace, more: usize) -> bool {
        // However the sum is divided between namespaces. Most hosts never get beyond that.
        if self.bytes.sum().saturating_add(more) <= self.most / 4 {
            return true;
        }
        if self.bytes.sum().saturating_add(more) > self.most {
            return false;
        }
        let own = self.bytes.of(namespace);
        let others = self.bytes.of_each().filter(|(other, _)| *other != namespace);
        let others: Vec<usize> = others.map(|(_, bytes)| bytes).collect();
        own.saturating_add(more) <= may_hold(own, &others, self.most)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::object::{KeptFields, Reduced};
    use crate::model::projection::Projection;

    const MOST: usize = 2_000_000;

    fn object(namespace: &str, name: &str, bytes: usize) -> Object {
        let kept_fields = KeptFields { projection: Projection::new(&["data"]), labels: Vec::new(), status: false };
        let text = "x".repeat(bytes);
        let json =
            format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}},"data":{{"text":"{text}"}}}}"#);
        Object::read(&json, &kept_fields).unwrap()
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
        let sum = room.rooms.lock().content.bytes.sum();
        assert!(sum <= MOST, "{sum}");
    }

    #[test]
    fn objects_without_a_parent_have_a_room_of_their_own_which_namespaces_share() {
        let room = WatchRoom::new(MOST);
        let keep = |namespace: &str, name: usize| {
            let object = object(namespace, &name.to_string(), 50_000).without_content(Reduced::NoParent);
            let admitted = room.admits(&object, None);
            if admitted {
                room.add(&object);
            }
            admitted
        };
        let kept = (0..500_000).take_while(|number| keep("greedy", *number)).count();
        assert!((170..190).contains(&kept), "{kept} are kept");
        assert!((0..50).all(|number| keep("modest", number)));
        assert_eq!(room.rooms.lock().content.bytes.sum(), 0, "they take no room of others");
        assert!(room.rooms.lock().without_parent.bytes.sum() <= MOST / WITHOUT_PARENT);
        let first = object("greedy", "0", 1).without_content(Reduced::NoParent);
        assert!(room.admits(&first, Some(&first)), "what is kept stays");
        (0..50).for_each(|number| {
            room.subtract(&object("modest", &number.to_string(), 1).without_content(Reduced::NoParent))
        });
        assert_eq!(room.rooms.lock().without_parent.bytes.of_each().count(), 1);
    }

    #[test]
    fn an_object_that_finds_its_parent_needs_room_for_all_its_content() {
        let room = WatchRoom::new(MOST);
        let found = object("n", "a", 1_600_000);
        let before = found.clone().without_content(Reduced::NoParent);
        room.add(&before);
        assert!(!room.admits(&found, Some(&before)));
        assert!(room.admits(&object("n", "a", 1_400_000), Some(&before)));
    }

    #[test]
    fn room_that_becomes_free_is_used_again_and_an_object_that_shrinks_is_kept() {
        let room = WatchRoom::new(MOST);
        let first = object("n", "a", 1_400_000);
        assert!(keep(&room, first.clone()));
        assert!(!room.admits(&object("n", "b", 200_000), None));
        assert!(room.admits(&object("n", "a", 1_300_000), Some(&first)));
        room.subtract(&first);
        assert_eq!(room.rooms.lock().content.bytes.sum(), 0);
        assert_eq!(room.rooms.lock().content.bytes.of_each().count(), 0);
        assert!(room.admits(&object("n", "b", 200_000), None));
    }

    #[test]
    fn the_room_is_used_to_its_last_byte_and_no_further() {
        let of = |namespace: &str, bytes: usize| {
            let object = object(namespace, "a", bytes - object(namespace, "a", 0).content());
            assert_eq!(object.content(), bytes);
            object
        };
        let room = WatchRoom::new(MOST);
        assert!(keep(&room, of("greedy", MOST / 4 * 3)));
        assert!(!room.admits(&of("modest", MOST / 4 + 1), None));
        assert!(keep(&room, of("modest", MOST / 4)));
        assert!(!room.admits(&of("late", 10_000), None), "a share is none where the room is full");
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
            let sum = room.rooms.lock().content.bytes.sum();
            prop_assert!(sum <= MOST + objects.len() * OBJECT_OVERHEAD_BYTES, "{sum}");
        }
    }
}
