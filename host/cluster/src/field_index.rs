//! An index of the objects that name another object in one of their fields. A change of the named object finds them
//! without a scan of all objects. A plugin chooses the field, and others choose how often the named objects change, so
//! scans could keep the host busy.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;

use hotshoe_core::model::kind::Key;
use hotshoe_core::model::object::Object;

/// Indexes the objects of a store by the name in one of their fields.
pub(super) struct FieldIndex {
    /// The path of the field. The index is unused once all its readers have dropped the path.
    path: Weak<str>,
    naming: HashMap<Named, BTreeSet<Key>>,
    names: HashMap<Key, Named>,
    /// How many objects were read.
    #[cfg(test)]
    reads: usize,
}

/// The namespace and name of a named object. It is in the namespace of the objects that name it.
type Named = (Option<Arc<str>>, Arc<str>);

impl FieldIndex {
    /// Creates an index of objects.
    pub(super) fn new<'a>(path: &Arc<str>, objects: impl Iterator<Item = &'a Arc<Object>>) -> Self {
        let mut index = Self {
            path: Arc::downgrade(path),
            naming: HashMap::new(),
            names: HashMap::new(),
            #[cfg(test)]
            reads: 0,
        };
        objects.for_each(|object| index.add(object));
        index
    }

    /// Returns the path, unless the index is unused.
    pub(super) fn path(&self) -> Option<Arc<str>> {
        self.path.upgrade()
    }

    /// Adds an object that is not in the index.
    pub(super) fn add(&mut self, object: &Object) {
        #[cfg(test)]
        {
            self.reads += 1;
        }
        let Some(name) = self.path().and_then(|path| object.name_at(&path)) else { return };
        let named = (object.key.namespace.clone(), name);
        self.naming.entry(named.clone()).or_default().insert(object.key.clone());
        self.names.insert(object.key.clone(), named);
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, key: &Key) {
        let Some(named) = self.names.remove(key) else { return };
        if let Some(keys) = self.naming.get_mut(&named) {
            keys.remove(key);
            if keys.is_empty() {
                self.naming.remove(&named);
            }
        }
    }

    /// Returns the sorted keys of the objects whose field names this other object.
    pub(super) fn naming(&self, other: &Key) -> Vec<Key> {
        let named = (other.namespace.clone(), other.name.clone());
        self.naming.get(&named).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::Store;
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    fn parent(key: &Key, pod: Option<&str>, version: u64) -> Object {
        let kept_fields = KeptFields { projection: Projection::new(&["spec"]), labels: Vec::new(), status: false };
        let metadata = serde_json::json!({
            "name": &*key.name, "namespace": key.namespace.as_deref(), "uid": key.to_string(),
            "resourceVersion": version.to_string(),
        });
        let json = serde_json::json!({ "metadata": metadata, "spec": { "pod": pod } }).to_string();
        Object::read(&json, &kept_fields).unwrap()
    }

    fn key(namespace: &str, name: &str) -> Key {
        Key::new(Some(namespace), name)
    }

    #[test]
    fn a_named_object_finds_the_parents_that_name_it_without_reading_any() {
        let parents: Vec<_> = (0..1_000)
            .map(|number| {
                let pod = if number % 500 == 0 { "wanted".to_owned() } else { format!("pod-{number}") };
                Arc::new(parent(&key("n", &format!("p{number:03}")), Some(&pod), 1))
            })
            .collect();
        let path: Arc<str> = "spec.pod".into();
        let index = FieldIndex::new(&path, parents.iter());
        assert_eq!(index.reads, 1_000);
        for _ in 0..100 {
            assert_eq!(index.naming(&key("n", "wanted")), [key("n", "p000"), key("n", "p500")]);
        }
        assert!(index.naming(&key("m", "wanted")).is_empty(), "it is in another namespace");
        assert_eq!(index.reads, 1_000);
    }

    #[test]
    fn an_unused_index_is_dropped() {
        let cache = Store::default();
        let path = cache.index_by("spec.pod");
        assert!(Arc::ptr_eq(&path, &cache.index_by("spec.pod")), "there is only one index");
        assert_eq!(cache.indexes(), 1);
        drop(path);
        let other = cache.index_by("spec.node");
        assert_eq!((cache.indexes(), &*other), (1, "spec.node"));
    }

    fn names() -> impl Strategy<Value = Option<String>> {
        prop::option::of("[ab]{1,2}")
    }

    proptest! {
        #[test]
        fn the_index_finds_the_same_as_a_scan(steps in prop::collection::vec((0_u8..6, names(), any::<bool>()), 1..60)) {
            let cache = Store::default();
            let early = cache.index_by("spec.pod");
            for (version, (number, pod, deleted)) in (1..).zip(&steps) {
                let key = Key::new(["m", "n"].get(usize::from(number % 2)).copied(), &number.to_string());
                let object = parent(&key, pod.as_deref(), version);
                match deleted {
                    true => drop(cache.delete(&object)),
                    false => drop(cache.apply(object)),
                }
            }
            for namespace in ["m", "n"] {
                for name in ["a", "b", "aa", "ab", "ba", "bb"] {
                    let names_it = |object: &Object| {
                        object.key.namespace.as_deref() == Some(namespace)
                            && object.name_at("spec.pod").as_deref() == Some(name)
                    };
                    let mut scanned: Vec<_> = cache.all(names_it).iter().map(|object| object.key.clone()).collect();
                    scanned.sort();
                    prop_assert_eq!(cache.naming(&early, &key(namespace, name)), scanned);
                }
            }
        }
    }
}
