//! The newest known version of each object of one watch, indexed by controlling owner, by label and by the name in a
//! field.
//!
//! Both watch events and the replies to our own writes are stored, so a decision is never based on a view older than
//! our own writes (read-your-own-writes). Older versions are ignored, and so are echoes of our own writes: they wake no
//! reconcile. Only a list may show an older version than the one known when the list began: then the data of the API
//! server went back in time, as after a restore of etcd.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, MutexGuard};

use crate::field_index::FieldIndex;
use hotshoe_core::check::namespace_share::BytesByNamespace;
use hotshoe_core::check::watch_room::WatchRoom;
use hotshoe_core::model::kind::{Key, Namespace};
use hotshoe_core::model::object::{Object, PLUGIN_LABEL, Reduced};

/// How many deletions are remembered, so that a late reply to a write does not restore a deleted object.
const MAX_TOMBSTONES: usize = 256;

/// The keys of objects by label key and label value. Keys are sorted by namespace.
type LabelIndex = HashMap<(Box<str>, Box<str>), BTreeSet<Key>>;

/// The objects of one watch.
#[derive(Default)]
pub struct Store {
    inner: Mutex<Inner>,
}

impl Drop for Store {
    fn drop(&mut self) {
        let Inner { objects, room, .. } = self.inner.get_mut();
        objects.values().for_each(|object| room.subtract(object));
    }
}

#[derive(Default)]
struct Inner {
    objects: HashMap<Key, Arc<Object>>,
    by_owner: HashMap<Arc<str>, HashSet<Key>>,
    by_label: LabelIndex,
    by_field: Vec<FieldIndex>,
    /// The memory of all objects.
    total: BytesByNamespace,
    /// The room for the content of the objects, which all watches share.
    room: Arc<WatchRoom>,
    /// How many objects are kept without their content.
    reduced: ReducedCount,
    /// How often an object was not kept since the last list began, by namespace.
    left_out: HashMap<Namespace, usize>,
    /// The objects of each plugin.
    held: HashMap<Box<str>, Held>,
    tombstones: VecDeque<(Arc<str>, u64)>,
    /// The running lists: one of all objects, or one for each namespace that is being listed.
    listings: HashMap<Namespace, Listing>,
}

/// The objects of one plugin.
#[derive(Default)]
struct Held {
    reduced: ReducedCount,
    memory: BytesByNamespace,
}

/// How many objects are kept without their content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReducedCount {
    /// The number of objects that are not children of a known parent.
    pub no_parent: usize,
    /// The number of objects for whose content there is no room.
    pub no_room: usize,
}

impl ReducedCount {
    fn of(&mut self, why: Option<Reduced>) -> Option<&mut usize> {
        why.map(|why| match why {
            Reduced::NoParent => &mut self.no_parent,
            Reduced::NoRoom => &mut self.no_room,
        })
    }

    fn add(&mut self, object: &Object) {
        if let Some(count) = self.of(object.reduced) {
            *count += 1;
        }
    }

    fn subtract(&mut self, object: &Object) {
        if let Some(count) = self.of(object.reduced) {
            *count = count.saturating_sub(1);
        }
    }
}

impl Held {
    /// Charges the plugin for an object, unless it is no child of a parent: anyone may label objects.
    fn add(&mut self, object: &Object) {
        self.reduced.add(object);
        if object.reduced == Some(Reduced::NoParent) {
            return;
        }
        self.memory.add(&object.key.namespace, object.held());
    }

    fn is_empty(&self) -> bool {
        self.memory.sum() == 0 && self.reduced == ReducedCount::default()
    }

    fn subtract(&mut self, object: &Object) {
        self.reduced.subtract(object);
        if object.reduced == Some(Reduced::NoParent) {
            return;
        }
        self.memory.subtract(&object.key.namespace, object.held());
    }
}

/// What has happened since the running list began.
#[derive(Default)]
struct Listing {
    /// The keys that the list has shown, or that were written.
    seen: HashSet<Key>,
    /// The uids of deleted objects.
    deleted: HashSet<Arc<str>>,
}

impl Store {
    /// Creates an empty store whose objects take their content from this room.
    pub fn within(room: Arc<WatchRoom>) -> Self {
        Self { inner: Mutex::new(Inner { room, ..Inner::default() }) }
    }

    /// Returns whether there is room for the content of an object, or for the object itself if it has no known parent.
    pub fn has_room_for(&self, object: &Object) -> bool {
        let inner = self.lock();
        inner.room.admits(object, inner.objects.get(&object.key).map(|known| &**known))
    }

    /// Returns how many objects are kept without their content.
    pub fn reduced(&self) -> ReducedCount {
        self.lock().reduced
    }

    /// Returns how many objects with this plugin's label are kept without their content.
    pub fn reduced_of(&self, plugin: &str) -> ReducedCount {
        self.lock().held.get(plugin).map_or_else(ReducedCount::default, |held| held.reduced)
    }

    /// Stores an object of a watch event or of the reply to a write. Returns the change, if there is one.
    pub fn apply(&self, object: impl Into<Arc<Object>>) -> Option<Update> {
        self.lock().apply(object.into())
    }

    /// Stores an object of the running list. Returns the change, if there is one.
    pub fn list(&self, object: impl Into<Arc<Object>>) -> Option<Update> {
        self.lock().list(object.into())
    }

    /// Does not keep an object, and forgets what is known of it. Returns what was known, if this version is newer. `listed`
    /// says whether the running list shows it.
    pub fn leave_out(&self, object: &Object, listed: bool) -> Option<Arc<Object>> {
        self.lock().leave_out(object, listed)
    }

    /// Returns how many objects are not kept, by the last list and the events since. An object that has changed since then
    /// counts again.
    pub fn left_out(&self) -> usize {
        self.lock().left_out.values().sum()
    }

    /// Returns whether this version of an object, or a newer one, is known. Always false while a list runs: every
    /// object of the list must be recorded as seen, and may be needed with more fields than before.
    pub fn is_echo(&self, key: &Key, version: u64) -> bool {
        let inner = &mut *self.lock();
        inner.listing_of(key).is_none() && inner.objects.get(key).is_some_and(|known| known.resource_version >= version)
    }

    /// Removes a deleted object. Returns the known version, if there was one.
    pub fn delete(&self, object: &Object) -> Option<Arc<Object>> {
        self.lock().delete(object)
    }

    /// Begins a list of a part of the objects: those of a namespace, or all. Objects of this part that the list does not
    /// show until its end are gone.
    pub fn begin_list(&self, part: &Namespace) {
        let mut inner = self.lock();
        inner.listings.insert(part.clone(), Listing::default());
        match part {
            Some(_) => drop(inner.left_out.remove(part)),
            None => inner.left_out.clear(),
        }
    }

    /// Ends the list of a part. Returns the objects that are gone.
    pub fn end_list(&self, part: &Namespace) -> Vec<Arc<Object>> {
        let mut inner = self.lock();
        let Some(Listing { seen, .. }) = inner.listings.remove(part) else { return Vec::new() };
        let is_of_part = |key: &&Key| part.is_none() || key.namespace == *part;
        let gone = inner.objects.keys().filter(is_of_part).filter(|key| !seen.contains(*key));
        let gone: Vec<_> = gone.cloned().collect();
        gone.iter().filter_map(|key| inner.forget(key)).collect()
    }

    /// Returns one object.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.lock().objects.get(key).cloned()
    }

    /// Returns one object; none while a list runs that would show it.
    pub fn get_unless_listed(&self, key: &Key) -> Option<Arc<Object>> {
        let inner = &mut *self.lock();
        if inner.listing_of(key).is_some() { None } else { inner.objects.get(key).cloned() }
    }

    /// Returns the objects whose controller reference has this uid, sorted by key. They may be forged: see
    /// [`is_child`](hotshoe_core::model::child::is_child).
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<Object>> {
        let inner = self.lock();
        inner.collect(inner.by_owner.get(uid).into_iter().flatten())
    }

    /// Returns the objects of a namespace with this label, sorted by key.
    pub fn labelled(&self, namespace: Option<&Arc<str>>, label: &str, value: &str) -> Vec<Arc<Object>> {
        let inner = self.lock();
        let first = Key { namespace: namespace.cloned(), name: "".into() };
        let found = inner.by_label.get(&(label.into(), value.into())).map(|keys| keys.range(first..));
        let found = found.into_iter().flatten().take_while(|key| key.namespace.as_ref() == namespace);
        inner.collect(found)
    }

    /// Returns the objects of all namespaces, and those without one, with this label, sorted by key.
    pub fn labelled_anywhere(&self, label: &str, value: &str) -> Vec<Arc<Object>> {
        let inner = self.lock();
        inner.collect(inner.by_label.get(&(label.into(), value.into())).into_iter().flatten())
    }

    /// Indexes the objects by the name in this field, for as long as the returned path is held.
    pub fn index_by(&self, path: &str) -> Arc<str> {
        let Inner { objects, by_field, .. } = &mut *self.lock();
        by_field.retain(|index| index.path().is_some());
        let known = by_field.iter().filter_map(FieldIndex::path).find(|known| **known == *path);
        known.unwrap_or_else(|| {
            let path = path.into();
            by_field.push(FieldIndex::new(&path, objects.values()));
            path
        })
    }

    /// Returns the keys of the objects that name another object of their namespace in this field, sorted; `path` is a
    /// field by which they are [indexed](Self::index_by).
    pub fn naming(&self, path: &Arc<str>, other: &Key) -> Vec<Key> {
        let inner = self.lock();
        let index = inner.by_field.iter().find(|index| index.path().as_ref() == Some(path));
        index.map(|index| index.naming(other)).unwrap_or_default()
    }

    /// Returns the number of field indexes.
    #[cfg(test)]
    pub(super) fn indexes(&self) -> usize {
        self.lock().by_field.len()
    }

    /// Returns all keys, in no order.
    pub fn keys(&self) -> Vec<Key> {
        self.lock().objects.keys().cloned().collect()
    }

    /// Returns whether any object satisfies the predicate.
    pub fn any(&self, matches: impl Fn(&Object) -> bool) -> bool {
        self.lock().objects.values().any(|object| matches(object))
    }

    /// Returns the objects that satisfy the predicate.
    pub fn all(&self, matches: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
        self.lock().objects.values().filter(|object| matches(object)).cloned().collect()
    }

    /// Returns the memory of the objects with this plugin's label, in bytes.
    pub fn held_of(&self, plugin: &str) -> usize {
        self.lock().held.get(plugin).map_or(0, |held| held.memory.sum())
    }

    /// Adds the memory of the objects with this plugin's label to that of their namespaces, in bytes.
    pub fn add_held_of(&self, plugin: &str, by_namespace: &mut HashMap<Namespace, usize>) {
        if let Some(held) = self.lock().held.get(plugin) {
            add_to(by_namespace, &held.memory);
        }
    }

    /// Adds the memory of all objects to that of their namespaces, in bytes.
    pub fn add_held(&self, by_namespace: &mut HashMap<Namespace, usize>) {
        add_to(by_namespace, &self.lock().total);
    }

    /// Returns the memory of all objects, in bytes.
    pub fn held(&self) -> usize {
        self.lock().total.sum()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Locks the state. At worst, a panic under the lock leaves surplus index entries, which is better than a stopped
    /// host.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

/// A new or changed object.
#[derive(Clone, Debug)]
pub struct Update {
    /// The object now.
    pub new: Arc<Object>,
    /// The version that was known before.
    pub old: Option<Arc<Object>>,
}

impl Inner {
    fn apply(&mut self, new: Arc<Object>) -> Option<Update> {
        let buried = |(uid, version): &(Arc<str>, u64)| *uid == new.uid && *version >= new.resource_version;
        if self.tombstones.iter().any(buried) {
            return None;
        }
        if self.objects.get(&new.key).is_some_and(|known| known.resource_version > new.resource_version) {
            return None;
        }
        if let Some(listing) = self.listing_of(&new.key) {
            listing.seen.insert(new.key.clone());
        }
        self.put(new)
    }

    /// Returns the running list that would show an object.
    fn listing_of(&mut self, key: &Key) -> Option<&mut Listing> {
        if self.listings.is_empty() {
            return None;
        }
        let part = if self.listings.contains_key(&None) { &None } else { &key.namespace };
        self.listings.get_mut(part)
    }

    /// Stores an object of a list. The list was requested after everything known at its begin, and the API server reads
    /// it from etcd. So the object that it shows is current, even if it has an older version or was deleted. Only
    /// objects written or deleted since the list began may be newer.
    fn list(&mut self, new: Arc<Object>) -> Option<Update> {
        let is_as_listed = self
            .listing_of(&new.key)
            .is_some_and(|listing| !listing.deleted.contains(&new.uid) && listing.seen.insert(new.key.clone()));
        if !is_as_listed {
            return self.apply(new);
        }
        self.tombstones.retain(|(uid, _)| *uid != new.uid);
        self.put(new)
    }

    fn leave_out(&mut self, object: &Object, listed: bool) -> Option<Arc<Object>> {
        let left_out = self.left_out.entry(object.key.namespace.clone()).or_default();
        *left_out = left_out.saturating_add(1);
        let is_as_listed = listed
            && self
                .listing_of(&object.key)
                .is_some_and(|listing| !listing.deleted.contains(&object.uid) && !listing.seen.contains(&object.key));
        let known = self.objects.get(&object.key)?;
        // A newer version is known from our own write.
        if known.resource_version > object.resource_version && !is_as_listed {
            return None;
        }
        self.forget(&object.key)
    }

    fn put(&mut self, new: Arc<Object>) -> Option<Update> {
        if self.objects.get(&new.key).is_some_and(|known| *known == new) {
            return None;
        }
        let old = self.forget(&new.key);
        self.index(&new);
        self.objects.insert(new.key.clone(), new.clone());
        Some(Update { new, old })
    }

    fn delete(&mut self, object: &Object) -> Option<Arc<Object>> {
        if self.tombstones.len() == MAX_TOMBSTONES {
            self.tombstones.pop_front();
        }
        self.tombstones.push_back((object.uid.clone(), object.resource_version.max(1)));
        if let Some(listing) = self.listing_of(&object.key) {
            listing.deleted.insert(object.uid.clone());
        }
        let Some(known) = self.objects.get(&object.key) else {
            if let Some(left_out) = self.left_out.get_mut(&object.key.namespace) {
                *left_out = left_out.saturating_sub(1);
            }
            return None;
        };
        // A new object of this name may be known already, from our own write.
        if known.uid != object.uid {
            return None;
        }
        self.forget(&object.key)
    }

    fn forget(&mut self, key: &Key) -> Option<Arc<Object>> {
        let object = self.objects.remove(key)?;
        if let Some(owner) = &object.controller {
            remove(&mut self.by_owner, &owner.uid, key);
        }
        self.by_field.iter_mut().for_each(|index| index.remove(key));
        for (label, value) in object.indexed_labels() {
            let entry = (label.clone(), value.clone());
            if let Some(keys) = self.by_label.get_mut(&entry) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_label.remove(&entry);
                }
            }
        }
        self.total.subtract(&object.key.namespace, object.held());
        self.room.subtract(&object);
        self.reduced.subtract(&object);
        if let Some(plugin) = object.label(PLUGIN_LABEL)
            && let Some(held) = self.held.get_mut(plugin)
        {
            held.subtract(&object);
            // Anyone who may label an object chooses the plugin name, so no empty entry is kept.
            if held.is_empty() {
                self.held.remove(plugin);
            }
        }
        Some(object)
    }

    fn index(&mut self, object: &Arc<Object>) {
        let key = &object.key;
        if let Some(owner) = &object.controller {
            self.by_owner.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        self.by_field.iter_mut().for_each(|index| index.add(object));
        for (label, value) in object.indexed_labels() {
            let entry = (label.clone(), value.clone());
            self.by_label.entry(entry).or_default().insert(key.clone());
        }
        self.total.add(&object.key.namespace, object.held());
        self.room.add(object);
        self.reduced.add(object);
        if let Some(plugin) = object.label(PLUGIN_LABEL) {
            self.held.entry(plugin.into()).or_default().add(object);
        }
    }

    fn collect<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> Vec<Arc<Object>> {
        let mut found: Vec<_> = keys.filter_map(|key| self.objects.get(key).cloned()).collect();
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        found
    }
}

fn remove<I: std::hash::Hash + Eq>(index: &mut HashMap<I, HashSet<Key>>, entry: &I, key: &Key) {
    if let Some(keys) = index.get_mut(entry) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(entry);
        }
    }
}

fn add_to(by_namespace: &mut HashMap<Namespace, usize>, more: &BytesByNamespace) {
    for (namespace, bytes) in more.of_each() {
        *by_namespace.entry(namespace.clone()).or_default() += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    fn object(name: &str, uid: &str, version: u64) -> Object {
        let kept_fields =
            KeptFields { projection: Projection::new::<&str>(&[]), labels: vec!["app".into()], status: false };
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{version}","labels":{{"app":"{name}"}},
            "ownerReferences":[{{"apiVersion":"v1","kind":"P","name":"p","uid":"owner-{name}","controller":true}}]}}}}"#
        );
        Object::read(&json, &kept_fields).unwrap()
    }

    #[test]
    fn the_echo_of_a_write_is_no_change() {
        let cache = Store::default();
        assert!(cache.apply(object("a", "1", 5)).is_some());
        assert!(cache.apply(object("a", "1", 5)).is_none());
    }

    #[test]
    fn a_version_older_than_a_write_is_ignored() {
        let cache = Store::default();
        cache.apply(object("a", "1", 9));
        assert!(cache.apply(object("a", "1", 5)).is_none());
        assert_eq!(cache.get(&Key::new(Some("n"), "a")).unwrap().resource_version, 9);
    }

    #[test]
    fn the_deletion_of_a_former_object_does_not_delete_its_successor() {
        let cache = Store::default();
        cache.apply(object("a", "2", 9));
        assert!(cache.delete(&object("a", "1", 8)).is_none());
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_late_reply_does_not_recreate_a_deleted_object() {
        let cache = Store::default();
        cache.delete(&object("a", "1", 8));
        assert!(cache.apply(object("a", "1", 7)).is_none());
        assert!(cache.is_empty());
    }

    #[test]
    fn a_list_removes_what_it_does_not_show_but_not_what_was_written_meanwhile() {
        let cache = Store::default();
        cache.apply(object("old", "1", 1));
        cache.begin_list(&None);
        cache.apply(object("listed", "2", 2));
        cache.apply(object("written", "3", 3));
        let gone: Vec<_> = cache.end_list(&None).iter().map(|object| object.key.name.to_string()).collect();
        assert_eq!(gone, ["old"]);
        assert_eq!(cache.len(), 2);
    }

    fn listed(cache: &Store, objects: impl IntoIterator<Item = Object>) -> usize {
        cache.begin_list(&None);
        let changes = objects.into_iter().filter_map(|object| cache.list(object)).count();
        changes + cache.end_list(&None).len()
    }

    #[test]
    fn a_list_takes_the_store_back_to_versions_and_objects_that_were_restored() {
        let cache = Store::default();
        let version = |name| cache.get(&Key::new(Some("n"), name)).map(|object| object.resource_version);
        cache.apply(object("changed", "1", 9));
        cache.apply(object("deleted", "2", 3));
        cache.delete(&object("deleted", "2", 8));
        cache.apply(object("new", "3", 7));
        assert_eq!(listed(&cache, [object("changed", "1", 2), object("deleted", "2", 3)]), 3);
        assert_eq!(["changed", "deleted", "new"].map(version), [Some(2), Some(3), None]);
        assert!(cache.apply(object("changed", "1", 4)).is_some(), "a later version is a change again");
        assert!(cache.apply(object("deleted", "2", 5)).is_some());
        assert!(cache.apply(object("changed", "1", 3)).is_none());
    }

    #[test]
    fn what_was_written_while_a_list_runs_is_newer_than_the_list() {
        let cache = Store::default();
        cache.apply(object("written", "1", 5));
        cache.apply(object("deleted", "2", 5));
        cache.begin_list(&None);
        cache.apply(object("written", "1", 9));
        cache.delete(&object("deleted", "2", 8));
        assert!(cache.list(object("written", "1", 5)).is_none());
        assert!(cache.list(object("deleted", "2", 5)).is_none());
        assert!(cache.end_list(&None).is_empty());
        assert_eq!(cache.get(&Key::new(Some("n"), "written")).unwrap().resource_version, 9);
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_late_reply_while_a_list_runs_hides_nothing_that_the_list_shows() {
        let cache = Store::default();
        cache.apply(object("a", "1", 9));
        cache.begin_list(&None);
        assert!(
            cache.apply(object("a", "1", 4)).is_none(),
            "it may be from before or after the restore: the list will tell"
        );
        assert!(cache.list(object("a", "1", 3)).is_some());
        assert!(cache.end_list(&None).is_empty());
    }

    #[test]
    fn a_list_of_known_versions_is_no_change() {
        let cache = Store::default();
        cache.apply(object("a", "1", 9));
        assert_eq!(listed(&cache, [object("a", "1", 9)]), 0);
    }

    #[test]
    fn what_is_left_out_is_forgotten_unless_a_newer_version_is_known() {
        let cache = Store::default();
        cache.apply(object("a", "1", 9));
        assert!(cache.leave_out(&object("a", "1", 5), false).is_none());
        assert_eq!(cache.leave_out(&object("a", "1", 10), false).unwrap().resource_version, 9);
        assert!(cache.is_empty() && cache.leave_out(&object("b", "2", 3), false).is_none());
        assert_eq!(cache.left_out(), 3);
        cache.delete(&object("b", "2", 4));
        assert_eq!(cache.left_out(), 2);
        assert!(cache.apply(object("a", "1", 11)).is_some(), "it can be kept later");
        cache.apply(object("written", "3", 20));
        cache.begin_list(&None);
        assert_eq!(cache.left_out(), 0);
        cache.apply(object("written", "3", 21));
        assert!(cache.leave_out(&object("a", "1", 2), true).is_some(), "the list is right, as after a restore");
        assert!(cache.leave_out(&object("written", "3", 20), true).is_none(), "but not about what was written since");
        assert!(cache.end_list(&None).is_empty());
        assert_eq!((cache.len(), cache.left_out()), (1, 2));
    }

    #[test]
    fn memory_is_counted_per_plugin_and_freed_with_its_objects() {
        let of_plugin = |name: &str, plugin: &str, version: u64| {
            let label = (PLUGIN_LABEL.into(), plugin.into());
            Object {
                labels: [label].into(),
                body: "x".repeat(1000 * version as usize).into(),
                ..object(name, name, version)
            }
        };
        let cache = Store::default();
        let [small, large] = [of_plugin("a", "demo", 1), of_plugin("a", "demo", 2)];
        cache.apply(of_plugin("b", "other", 1));
        cache.apply(small.clone());
        assert_eq!(cache.held_of("demo"), small.held());
        cache.apply(large.clone());
        assert_eq!((cache.held_of("demo"), cache.held()), (large.held(), large.held() + small.held()));
        assert_eq!(large.held() - small.held(), 1000);
        let by_namespace = || {
            let mut held = HashMap::new();
            cache.add_held_of("demo", &mut held);
            held
        };
        let elsewhere = Object { key: Key::new(Some("m"), "c"), ..of_plugin("c", "demo", 1) };
        cache.apply(elsewhere.clone());
        let namespaces = |m, n| HashMap::from([(Some("m".into()), m), (Some("n".into()), n)]);
        assert_eq!(by_namespace(), namespaces(elsewhere.held(), large.held()));
        let mut all = HashMap::new();
        cache.add_held(&mut all);
        assert_eq!(all, namespaces(elsewhere.held(), large.held() + small.held()));
        cache.delete(&elsewhere);
        assert_eq!(by_namespace(), HashMap::from([(Some("n".into()), large.held())]));
        cache.delete(&large);
        assert!(!cache.lock().held.contains_key("demo"));
        assert_eq!((cache.held_of("other"), cache.held()), (small.held(), small.held()));
    }

    #[test]
    fn objects_are_found_by_owner_and_by_label() {
        let cache = Store::default();
        cache.apply(object("a", "1", 1));
        assert_eq!(cache.owned_by("owner-a").len(), 1);
        assert_eq!(cache.labelled(Some(&"n".into()), "app", "a").len(), 1);
        cache.delete(&object("a", "1", 2));
        assert!(cache.owned_by("owner-a").is_empty());
        assert!(cache.labelled(Some(&"n".into()), "app", "a").is_empty());
        assert!(cache.lock().by_label.is_empty());
    }

    #[test]
    fn objects_with_a_label_are_found_in_one_namespace_or_in_all() {
        let cache = Store::default();
        let namespaces = [None, Some("m"), Some("n"), Some("nn")];
        for (place, namespace) in namespaces.into_iter().enumerate() {
            for name in ["a", "b"] {
                let label = ("app".into(), "x".into());
                let (key, uid) = (Key::new(namespace, name), format!("{name}{place}"));
                cache.apply(Object { key, labels: [label].into(), ..object(name, &uid, 1) });
            }
        }
        for namespace in namespaces {
            let found = cache.labelled(namespace.map(Arc::from).as_ref(), "app", "x");
            let found: Vec<_> = found.iter().map(|object| object.key.clone()).collect();
            assert_eq!(found, ["a", "b"].map(|name| Key::new(namespace, name)));
        }
        assert_eq!(cache.labelled_anywhere("app", "x").len(), 8);
        assert!(
            cache.labelled(Some(&"o".into()), "app", "x").is_empty() && cache.labelled_anywhere("app", "y").is_empty()
        );
    }

    #[test]
    fn a_list_of_a_namespace_says_nothing_about_the_objects_of_others() {
        let cache = Store::default();
        let within = |namespace: &str, name: &str, version: u64| Object {
            key: Key::new(Some(namespace), name),
            ..object(name, &format!("{namespace}-{name}"), version)
        };
        let part = |namespace: &str| Some(Arc::from(namespace));
        for (namespace, name) in [("m", "a"), ("m", "b"), ("n", "a")] {
            cache.apply(within(namespace, name, 5));
        }
        cache.begin_list(&part("m"));
        cache.begin_list(&part("n"));
        assert!(!cache.is_echo(&Key::new(Some("n"), "a"), 5), "it is being listed");
        // An older version in a list is as current as in a list of all: the data of the API server went back.
        assert!(cache.list(within("m", "a", 3)).is_some());
        assert!(cache.apply(within("n", "c", 6)).is_some());
        let gone = |part: &Namespace| -> Vec<String> {
            cache.end_list(part).iter().map(|object| object.key.to_string()).collect()
        };
        assert_eq!(gone(&part("m")), ["m/b"]);
        assert!(cache.is_echo(&Key::new(Some("m"), "a"), 3), "the list of its namespace has ended");
        assert!(!cache.is_echo(&Key::new(Some("n"), "c"), 6), "that of another has not");
        assert_eq!(gone(&part("n")), ["n/a"], "what was written since the list began is there");
        assert!(gone(&part("n")).is_empty(), "it has ended");
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn what_is_left_out_counts_until_its_own_namespace_is_listed_again() {
        let cache = Store::default();
        for namespace in ["m", "n"] {
            cache.leave_out(&Object { key: Key::new(Some(namespace), "a"), ..object("a", namespace, 1) }, false);
        }
        cache.begin_list(&Some("m".into()));
        assert_eq!(cache.left_out(), 1);
        cache.begin_list(&None);
        assert_eq!(cache.left_out(), 0);
    }
}
