//! The newest that is known of the objects of one watch, with an index by controlling owner and by
//! label.
//!
//! Both watch events and the replies to our own writes land here, so a decision never rests on a
//! view older than a write of ours (read-your-own-writes). What is older than what is known is
//! ignored, and so is an echo of our own write: it wakes nobody.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, MutexGuard};

use hotshoe_core::model::object::{Key, Object, PLUGIN_LABEL};

/// How many deletions are remembered, so that the late reply to a write does not bring an object
/// back that is gone.
const TOMBSTONES: usize = 256;

/// Label key, namespace and label value.
type LabelIndex = HashMap<(Box<str>, Option<Arc<str>>, Box<str>), HashSet<Key>>;

/// The objects of one watch.
#[derive(Default)]
pub struct Cache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    objects: HashMap<Key, Arc<Object>>,
    by_owner: HashMap<Arc<str>, HashSet<Key>>,
    by_label: LabelIndex,
    /// What the objects of each plugin take, bytes.
    held: HashMap<Box<str>, usize>,
    tombstones: VecDeque<(Arc<str>, u64)>,
    /// Keys seen since the running list began; absent while none runs.
    listing: Option<HashSet<Key>>,
}

impl Cache {
    /// Takes a watch event or the reply to a write. Returns what was known before, if this is
    /// news.
    pub fn apply(&self, object: impl Into<Arc<Object>>) -> Option<Applied> {
        self.lock().apply(object.into())
    }

    /// Whether this version of an object, or a newer one, is known. Never while a list runs: what
    /// it shows is counted, and may be wanted with more fields than before.
    pub fn is_echo(&self, key: &Key, version: u64) -> bool {
        let inner = self.lock();
        inner.listing.is_none() && inner.objects.get(key).is_some_and(|known| known.resource_version >= version)
    }

    /// Takes the end of an object. Returns it, if this is news.
    pub fn delete(&self, object: &Object) -> Option<Arc<Object>> {
        self.lock().delete(object)
    }

    /// A list begins: what it does not show by its end is gone.
    pub fn begin_list(&self) {
        self.lock().listing = Some(HashSet::new());
    }

    /// The list has ended. Returns what is gone.
    pub fn end_list(&self) -> Vec<Arc<Object>> {
        let mut inner = self.lock();
        let Some(seen) = inner.listing.take() else { return Vec::new() };
        let gone: Vec<_> = inner.objects.keys().filter(|key| !seen.contains(*key)).cloned().collect();
        gone.iter().filter_map(|key| inner.forget(key)).collect()
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.lock().objects.get(key).cloned()
    }

    /// The objects that this uid controls, sorted by key.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<Object>> {
        let inner = self.lock();
        inner.collect(inner.by_owner.get(uid))
    }

    /// The objects of a namespace with this label, sorted by key.
    pub fn labelled(&self, namespace: Option<&Arc<str>>, label: &str, value: &str) -> Vec<Arc<Object>> {
        let inner = self.lock();
        inner.collect(inner.by_label.get(&(label.into(), namespace.cloned(), value.into())))
    }

    /// All keys.
    pub fn keys(&self) -> Vec<Key> {
        self.lock().objects.keys().cloned().collect()
    }

    /// Whether there is such an object.
    pub fn any(&self, is_it: impl Fn(&Object) -> bool) -> bool {
        self.lock().objects.values().any(|object| is_it(object))
    }

    /// The objects of which this is true.
    pub fn all(&self, is_it: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
        self.lock().objects.values().filter(|object| is_it(object)).cloned().collect()
    }

    /// What the objects that carry this plugin's label take, bytes.
    pub fn held_of(&self, plugin: &str) -> usize {
        self.lock().held.get(plugin).copied().unwrap_or_default()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A panic under this lock leaves indexes that are at worst too full; going on beats stopping.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

/// An object that was news.
#[derive(Clone, Debug)]
pub struct Applied {
    /// As it is now.
    pub new: Arc<Object>,
    /// As it was known before.
    pub old: Option<Arc<Object>>,
}

impl Inner {
    fn apply(&mut self, new: Arc<Object>) -> Option<Applied> {
        let buried = |(uid, version): &(Arc<str>, u64)| *uid == new.uid && *version >= new.resource_version;
        if self.tombstones.iter().any(buried) {
            return None;
        }
        if let Some(seen) = &mut self.listing {
            seen.insert(new.key.clone());
        }
        let known = self.objects.get(&new.key);
        if known.is_some_and(|known| known.resource_version > new.resource_version || *known == new) {
            return None;
        }
        let old = self.forget(&new.key);
        self.index(&new);
        self.objects.insert(new.key.clone(), new.clone());
        Some(Applied { new, old })
    }

    fn delete(&mut self, object: &Object) -> Option<Arc<Object>> {
        if self.tombstones.len() == TOMBSTONES {
            self.tombstones.pop_front();
        }
        self.tombstones.push_back((object.uid.clone(), object.resource_version.max(1)));
        let known = self.objects.get(&object.key)?;
        // The name may have been taken by a new object whose creation we know from our own write.
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
        for (label, value) in object.indexed_labels() {
            remove(&mut self.by_label, &(label.clone(), key.namespace.clone(), value.clone()), key);
        }
        if let Some(plugin) = object.label(PLUGIN_LABEL)
            && let Some(held) = self.held.get_mut(plugin)
        {
            *held = held.saturating_sub(object.held());
            // Whoever may label an object chooses the name.
            if *held == 0 {
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
        for (label, value) in object.indexed_labels() {
            let entry = (label.clone(), key.namespace.clone(), value.clone());
            self.by_label.entry(entry).or_default().insert(key.clone());
        }
        if let Some(plugin) = object.label(PLUGIN_LABEL) {
            *self.held.entry(plugin.into()).or_default() += object.held();
        }
    }

    fn collect(&self, keys: Option<&HashSet<Key>>) -> Vec<Arc<Object>> {
        let found = keys.into_iter().flatten().filter_map(|key| self.objects.get(key).cloned());
        let mut found: Vec<_> = found.collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::object::Lens;
    use hotshoe_core::model::projection::Projection;

    fn object(name: &str, uid: &str, version: u64) -> Object {
        let lens = Lens { projection: Projection::new::<&str>(&[]), labels: vec!["app".into()], status: false };
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{version}","labels":{{"app":"{name}"}},
            "ownerReferences":[{{"apiVersion":"v1","kind":"P","name":"p","uid":"owner-{name}","controller":true}}]}}}}"#
        );
        Object::read(&json, &lens).unwrap()
    }

    #[test]
    fn the_echo_of_a_write_is_no_news() {
        let cache = Cache::default();
        assert!(cache.apply(object("a", "1", 5)).is_some());
        assert!(cache.apply(object("a", "1", 5)).is_none());
    }

    #[test]
    fn what_is_older_than_a_write_is_ignored() {
        let cache = Cache::default();
        cache.apply(object("a", "1", 9));
        assert!(cache.apply(object("a", "1", 5)).is_none());
        assert_eq!(cache.get(&Key::new(Some("n"), "a")).unwrap().resource_version, 9);
    }

    #[test]
    fn the_end_of_a_former_object_does_not_end_its_successor() {
        let cache = Cache::default();
        cache.apply(object("a", "2", 9));
        assert!(cache.delete(&object("a", "1", 8)).is_none());
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_late_reply_does_not_bring_back_what_is_gone() {
        let cache = Cache::default();
        cache.delete(&object("a", "1", 8));
        assert!(cache.apply(object("a", "1", 7)).is_none());
        assert!(cache.is_empty());
    }

    #[test]
    fn a_list_ends_what_it_does_not_show_but_not_what_was_written_meanwhile() {
        let cache = Cache::default();
        cache.apply(object("old", "1", 1));
        cache.begin_list();
        cache.apply(object("listed", "2", 2));
        cache.apply(object("written", "3", 3));
        let gone: Vec<_> = cache.end_list().iter().map(|object| object.key.name.to_string()).collect();
        assert_eq!(gone, ["old"]);
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn what_the_objects_of_a_plugin_take_is_known_and_ends_with_them() {
        let of_plugin = |name: &str, plugin: &str, version: u64| {
            let label = (PLUGIN_LABEL.into(), plugin.into());
            Object {
                labels: [label].into(),
                body: "x".repeat(1000 * version as usize).into(),
                ..object(name, name, version)
            }
        };
        let cache = Cache::default();
        let [small, large] = [of_plugin("a", "demo", 1), of_plugin("a", "demo", 2)];
        cache.apply(of_plugin("b", "other", 1));
        cache.apply(small.clone());
        assert_eq!(cache.held_of("demo"), small.held());
        cache.apply(large.clone());
        assert_eq!(cache.held_of("demo"), large.held());
        assert_eq!(large.held() - small.held(), 1000);
        cache.delete(&large);
        assert!(!cache.lock().held.contains_key("demo"));
        assert_eq!(cache.held_of("other"), small.held());
    }

    #[test]
    fn objects_are_found_by_owner_and_by_label() {
        let cache = Cache::default();
        cache.apply(object("a", "1", 1));
        assert_eq!(cache.owned_by("owner-a").len(), 1);
        assert_eq!(cache.labelled(Some(&"n".into()), "app", "a").len(), 1);
        cache.delete(&object("a", "1", 2));
        assert!(cache.owned_by("owner-a").is_empty());
        assert!(cache.labelled(Some(&"n".into()), "app", "a").is_empty());
    }
}
