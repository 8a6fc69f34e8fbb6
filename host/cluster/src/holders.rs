//! Finds the objects with certain finalizers by a list of all objects of a kind: a watch does not show objects without
//! the labels that it selects.

use kube::api::{Api, ListParams};

use crate::client::chain;
use crate::discovery::Resource;
use crate::raw_object::RawObject;
use crate::shared_watch::SharedWatch;
use crate::watch::{Watches, api};
use hotshoe_core::flow::page_size;
use hotshoe_core::model::kind::{Key, Kind, Namespace};
use hotshoe_core::model::object::{KeptFields, Object};
use hotshoe_core::model::projection::Projection;

/// The objects that were found in some parts of the watched namespaces.
#[derive(Debug, Default)]
pub struct Holders {
    /// Their keys.
    pub keys: Vec<Key>,
    /// The parts that could not be listed, each with the API server's error.
    pub unlisted: Vec<(Namespace, String)>,
}

impl Holders {
    /// Returns which parts could not be listed and why; none if all were listed.
    pub fn problem(&self) -> Option<String> {
        let said = |(part, error): &(Namespace, String)| match part {
            Some(namespace) => format!("in the namespace {namespace}: {error}"),
            None => error.clone(),
        };
        (!self.unlisted.is_empty()).then(|| self.unlisted.iter().map(said).collect::<Vec<_>>().join("; "))
    }
}

impl Watches {
    /// Returns the keys of the objects of a kind that satisfy `holds`, in the watched namespaces. Of each object only the
    /// metadata is known.
    pub async fn holders(&self, resource: &Resource, holds: impl Fn(&Object) -> bool) -> Holders {
        self.holders_in(self.namespaces().parts(resource.namespaced), resource, holds).await
    }

    /// Does the same in these parts of the watched namespaces. One that cannot be listed keeps none of the others from it.
    pub async fn holders_in(
        &self,
        parts: Vec<Namespace>,
        resource: &Resource,
        holds: impl Fn(&Object) -> bool,
    ) -> Holders {
        let mut holders = Holders::default();
        for part in parts {
            match self.holders_of_part(&part, resource, &holds).await {
                Ok(keys) => holders.keys.extend(keys),
                Err(error) => holders.unlisted.push((part, error)),
            }
        }
        holders
    }

    async fn holders_of_part(
        &self,
        part: &Namespace,
        resource: &Resource,
        holds: &impl Fn(&Object) -> bool,
    ) -> Result<Vec<Key>, String> {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let objects: Api<RawObject> = api(&self.cluster.lister(true), resource, part.as_deref());
        // How many objects each page really has depends on their size.
        let (mut page, mut keys) = (ListParams::default().limit(page_size::FIRST), Vec::new());
        loop {
            let list = objects.list(&page).await.map_err(|error| chain(&error))?;
            let read = list.items.iter().filter_map(|raw| Object::read(raw.json(), &kept_fields).ok());
            keys.extend(read.filter(holds).map(|object| object.key));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(keys),
            }
        }
    }

    /// Returns whether an object is a parent of another plugin.
    pub fn is_parent_of_another(&self, plugin: &str, kind: &Kind, key: &Key) -> bool {
        let has_it = |watch: &SharedWatch| {
            watch.scope.kind.is_served_as(kind) && watch.has_other_parents(plugin) && watch.cache.get(key).is_some()
        };
        self.all().iter().any(|watch| has_it(watch))
    }
}
