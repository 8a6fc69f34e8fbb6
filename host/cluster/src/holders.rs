//! Finds the objects with certain finalizers by a list of all objects of a kind: a watch does not show objects without
//! the labels that it selects.

use kube::api::{Api, ListParams};

use crate::client::chain;
use crate::discovery::Resource;
use crate::raw_object::RawObject;
use crate::shared_watch::SharedWatch;
use crate::watch::{Watches, api};
use hotshoe_core::flow::page_size;
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::model::object::{KeptFields, Object};
use hotshoe_core::model::projection::Projection;

impl Watches {
    /// Returns the keys of the objects of a kind that satisfy `holds`, in the watched namespaces. Of each object only the
    /// metadata is known.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn holders(&self, resource: &Resource, holds: impl Fn(&Object) -> bool) -> Result<Vec<Key>, String> {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let (client, mut holders) = (self.cluster.lister(true), Vec::new());
        for part in self.namespaces().parts(resource.namespaced) {
            let objects: Api<RawObject> = api(&client, resource, part.as_deref());
            // How many objects each page really has depends on their size.
            let mut next = Some(ListParams::default().limit(page_size::FIRST));
            while let Some(page) = next {
                let list = objects.list(&page).await.map_err(|error| chain(&error))?;
                let objects = list.items.iter().filter_map(|raw| Object::read(raw.json(), &kept_fields).ok());
                holders.extend(objects.filter(|object| holds(object)).map(|object| object.key));
                let token = list.metadata.continue_.filter(|token| !token.is_empty());
                next = token.map(|token| page.continue_token(&token));
            }
        }
        Ok(holders)
    }

    /// Returns whether an object is a parent of another plugin.
    pub fn is_parent_of_another(&self, plugin: &str, kind: &Kind, key: &Key) -> bool {
        let has_it = |watch: &SharedWatch| {
            watch.scope.kind.is_served_as(kind) && watch.has_other_parents(plugin) && watch.cache.get(key).is_some()
        };
        self.all().iter().any(|watch| has_it(watch))
    }
}
