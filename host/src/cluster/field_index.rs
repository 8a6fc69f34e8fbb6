//! The objects that name another in one of their fields, by that name: a change of the other finds them without a look
//! at each. A plugin chooses the field, and who changes the others how often that is.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;

use hotshoe_core::model::object::{Key, Object};

/// The objects of a store by the name in one of their fields.
pub(super) struct FieldIndex {
    /// The path of the field. The index is of no use once its readers have dropped it.
    path: Weak<str>,
    naming: HashMap<Named, BTreeSet<Key>>,
    names: HashMap<Key, Named>,
    /// How many objects were looked at.
    #[cfg(test)]
    looks: usize,
}

/// What is named: it lies in the namespace of those that name it.
type Named = (Option<Arc<str>>, Arc<str>);

impl FieldIndex {
    /// Creates the index of these objects.
    pub(super) fn new<'a>(path: &Arc<str>, objects: impl Iterator<Item = &'a Arc<Object>>) -> Self {
        let mut index = Self {
            path: Arc::downgrade(path),
            naming: HashMap::new(),
            names: HashMap::new(),
            #[cfg(test)]
            looks: 0,
        };
        objects.for_each(|object| index.add(object));
        index
    }

    /// Returns the path, unless nobody uses it any more.
    pub(super) fn path(&self) -> Option<Arc<str>> {
        self.path.upgrade()
    }

    /// Adds an object that is not there.
    pub(super) fn add(&mut self, object: &Object) {
        #[cfg(test)]
        {
            self.looks += 1;
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

    /// Returns the objects that name another, sorted.
    pub(super) fn naming(&self, other: &Key) -> Vec<Key> {
        let named = (other.namespace.clone(), other.name.clone());
        self.naming.get(&named).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::store::Store;
    use hotshoe_core::model::object::Lens;
    use hotshoe_core::model::projection::Projection;

    fn parent(key: &Key, pod: Option<&str>, version: u64) -> Object {
        let lens = Lens { projection: Projection::new(&["spec"]), labels: Vec::new(), status: false };
        let metadata = serde_json::json!({
            "name": &*key.name, "namespace": key.namespace.as_deref(), "uid": key.to_string(),
            "resourceVersion": version.to_string(),
        });
        let json = serde_json::json!({ "metadata": metadata, "spec": { "pod": pod } }).to_string();
        Object::read(&json, &lens).unwrap()
    }

    fn key(namespace: &str, name: &str) -> Key {
        Key::new(Some(namespace), name)
    }

    #[test]
    fn a_change_of_a_named_object_looks_at_no_parent_and_finds_those_that_name_it() {
        let parents: Vec<_> = (0..1_000)
            .map(|number| {
                let pod = if number % 500 == 0 { "wanted".to_owned() } else { format!("pod-{number}") };
                Arc::new(parent(&key("n", &format!("p{number:03}")), Some(&pod), 1))
            })
            .collect();
        let path: Arc<str> = "spec.pod".into();
        let index = FieldIndex::new(&path, parents.iter());
        assert_eq!(index.looks, 1_000);
        for _ in 0..100 {
            assert_eq!(index.naming(&key("n", "wanted")), [key("n", "p000"), key("n", "p500")]);
        }
        assert!(index.naming(&key("m", "wanted")).is_empty(), "it lies elsewhere");
        assert_eq!(index.looks, 1_000);
    }

    #[test]
    fn an_index_that_nobody_uses_is_dropped() {
        let cache = Store::default();
        let path = cache.index_by("spec.pod");
        assert!(Arc::ptr_eq(&path, &cache.index_by("spec.pod")), "it is there once");
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
        fn the_index_finds_what_a_look_at_each_finds(steps in prop::collection::vec((0_u8..6, names(), any::<bool>()), 1..60)) {
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
                    let is_it = |object: &Object| {
                        object.key.namespace.as_deref() == Some(namespace)
                            && object.name_at("spec.pod").as_deref() == Some(name)
                    };
                    let mut scanned: Vec<_> = cache.all(is_it).iter().map(|object| object.key.clone()).collect();
                    scanned.sort();
                    prop_assert_eq!(cache.naming(&early, &key(namespace, name)), scanned);
                }
            }
        }
    }
}
