//! Which Pods belong to which `Memcached`: only their names are needed.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;

use crate::resource::Memcached;

/// The label that carries the name of the `Memcached`.
const INSTANCE: &str = "app.kubernetes.io/instance";

/// Namespace and name of a `Memcached`, to the names of its Pods.
#[derive(Default)]
pub(super) struct Pods(Mutex<HashMap<(String, String), BTreeSet<String>>>);

impl Pods {
    /// The Pods of one `Memcached`, sorted.
    pub(super) fn of(&self, namespace: &str, name: &str) -> Vec<String> {
        let pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pods.get(&(namespace.to_owned(), name.to_owned())).into_iter().flatten().cloned().collect()
    }

    /// Processes an event, and returns the `Memcached` whose Pods changed.
    pub(super) fn learn(&self, event: Event<PartialObjectMeta<Pod>>) -> Option<ObjectRef<Memcached>> {
        let (pod, is_there) = match event {
            Event::Init => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
                return None;
            }
            Event::InitDone => return None,
            Event::Apply(pod) | Event::InitApply(pod) => {
                let is_there = pod.metadata.deletion_timestamp.is_none();
                (pod, is_there)
            }
            Event::Delete(pod) => (pod, false),
        };
        let owner = (pod.namespace()?, pod.labels().get(INSTANCE)?.clone());
        let parent = ObjectRef::new(&owner.1).within(&owner.0);
        let mut pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names = pods.entry(owner).or_default();
        let changed = if is_there { names.insert(pod.name_any()) } else { names.remove(&pod.name_any()) };
        changed.then_some(parent)
    }
}
