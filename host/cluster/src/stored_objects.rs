//! Reads the objects of a watch whole, page by page: the watch keeps only the fields that plugins see.

use std::collections::VecDeque;
use std::time::Duration;

use kube::api::{Api, ListParams};

use crate::client::chain;
use crate::discovery::{Resource, served_versions};
use crate::error::ApiError;
use crate::raw_object::RawObject;
use crate::shared_watch::SharedWatch;
use crate::watch::{Watches, api};
use hotshoe_core::flow::page_size;
use hotshoe_core::model::kind::{Key, Kind, Namespace};

/// How often a page is asked for before it counts as unreadable, and the pause between.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// The objects of a watch, each as JSON.
pub type Page = Vec<(Key, Box<str>)>;

/// A list of the objects that a watch has in its store, read page by page.
pub struct StoredObjects<'a> {
    watch: &'a SharedWatch,
    first: ListParams,
    /// The part that is read, and those that follow. Those that the host may not list are left out: nothing of them is
    /// decided, either.
    parts: VecDeque<Api<RawObject>>,
    /// What the next page of the part is asked for.
    next: ListParams,
}

impl StoredObjects<'_> {
    /// Reads the next page; none after the last one. How many objects it has depends on their size.
    ///
    /// # Errors
    /// Why the API server does not list them, after some tries.
    pub async fn next(&mut self) -> Result<Option<Page>, String> {
        let Some(part) = self.parts.front() else { return Ok(None) };
        let mut tries = 1;
        let list = loop {
            match part.list(&self.next).await {
                Ok(list) => break list,
                Err(error) if tries == TRIES => return Err(chain(&error)),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            tries += 1;
        };
        let token = list.metadata.continue_.filter(|token| !token.is_empty());
        self.next = match token {
            Some(token) => self.first.clone().continue_token(&token),
            None => {
                self.parts.pop_front();
                self.first.clone()
            }
        };
        // The API server may send more objects than the watch is of.
        let is_known = |object: &&RawObject| self.watch.cache.get(&object.key()).is_some();
        Ok(Some(list.items.iter().filter(is_known).map(|object| (object.key(), object.json().into())).collect()))
    }
}

impl Watches {
    /// Begins a list of the objects that a watch has in its store.
    pub fn stored<'a>(&self, watch: &'a SharedWatch, resource: &Resource) -> StoredObjects<'a> {
        let selector = Some(watch.scope.selector.clone()).filter(|selector| !selector.is_empty());
        let first = ListParams { label_selector: selector, ..ListParams::default().limit(page_size::FIRST) };
        let (client, refused) = (self.cluster.lister(false), watch.refused());
        let may_be_listed = |part: &Namespace| !refused.iter().any(|(refused, _)| part.as_ref() == Some(refused));
        let parts = self.namespaces().parts(resource.namespaced).into_iter().filter(may_be_listed);
        let parts = parts.map(|part| api(&client, resource, part.as_deref())).collect();
        StoredObjects { watch, parts, next: first.clone(), first }
    }

    /// Returns the versions in which the API server serves a custom resource.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn served_versions(&self, kind: &Kind) -> Result<Vec<String>, ApiError> {
        served_versions(&self.cluster, kind).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::extract::Query;
    use axum::http::StatusCode;
    use serde_json::{Value, json};

    use super::*;
    use crate::discovery::Kinds;
    use crate::served;
    use crate::shared_watch::Scope;
    use hotshoe_core::model::object::{KeptFields, Object};
    use hotshoe_core::model::projection::Projection;
    use hotshoe_core::model::watched_namespaces::WatchedNamespaces;

    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Asked {
        #[serde(rename = "continue")]
        from: Option<String>,
        label_selector: Option<String>,
    }

    fn crew(name: &str) -> Value {
        let metadata = json!({ "name": name, "namespace": "n", "uid": name, "resourceVersion": "1" });
        json!({ "metadata": metadata, "spec": { "size": 1 }, "more": true })
    }

    /// Returns a watch of Crews with a label, which knows two of them.
    fn watch() -> (Arc<SharedWatch>, Resource) {
        let kind = Kind::new("g", "v1", "Crew");
        let kept_fields = KeptFields { projection: Projection::new(&["spec"]), labels: Vec::new(), status: false };
        let scope = Scope::new(kind.clone(), "a=b");
        let watch = SharedWatch::within(Arc::default(), scope, kept_fields.clone(), "host".into());
        for name in ["a", "b"] {
            watch.store(Object::read(&crew(name).to_string(), &kept_fields).unwrap());
        }
        let plural = "crews".to_owned();
        let (namespaced, has_status, has_scale, is_converted) = (true, true, false, false);
        (watch, Resource { kind, plural, namespaced, has_status, has_scale, is_converted })
    }

    async fn watches(answers: Router) -> Watches {
        Watches::new(served::by(answers).await, Arc::new(Kinds::default()), WatchedNamespaces::default(), "host".into())
    }

    #[tokio::test]
    async fn the_objects_of_a_watch_are_read_whole_and_no_others() {
        let page = async |Query(Asked { from, label_selector }): Query<Asked>| {
            assert_eq!(label_selector.as_deref(), Some("a=b"));
            let (items, next) = match from.as_deref() {
                None => (json!([crew("a"), crew("hidden")]), "1"),
                Some(_) => (json!([crew("b")]), ""),
            };
            let metadata = json!({ "resourceVersion": "7", "continue": next });
            axum::Json(json!({ "apiVersion": "g/v1", "kind": "CrewList", "metadata": metadata, "items": items }))
        };
        let ((watch, resource), watches) = (watch(), watches(Router::new().fallback(page)).await);
        let (mut stored, mut read) = (watches.stored(&watch, &resource), Vec::new());
        while let Some(page) = stored.next().await.unwrap() {
            read.extend(page);
        }
        let names: Vec<String> = read.iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(names, ["n/a", "n/b"]);
        assert!(read.iter().all(|(_, json)| json.contains(r#""more":true"#)), "{read:?}");
    }

    #[tokio::test]
    async fn a_list_that_keeps_failing_is_given_up() {
        tokio::time::pause();
        let ((watch, resource), watches) =
            (watch(), watches(Router::new().fallback(|| async { StatusCode::FORBIDDEN })).await);
        let refused = watches.stored(&watch, &resource).next().await.unwrap_err();
        assert!(!refused.is_empty());
    }
}
