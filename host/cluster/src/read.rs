//! Reads whole objects once, for commands. A host watches instead.

use std::sync::Arc;

use kube::api::ListParams;
use serde_json::Value;

use crate::client::{ApiCall, Cluster, chain};
use crate::discovery::{Kinds, Resource};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use crate::raw_object::RawObject;
use crate::watch::api;
use hotshoe_core::flow::page_size;
use hotshoe_core::model::kind::{Key, Kind, ObjectRef};

/// Reads an object; none if there is none, or the API server does not serve its kind.
///
/// # Errors
/// The API server's error, or that it did not answer in time.
pub async fn object(cluster: &Cluster, kinds: &Kinds, reference: &ObjectRef) -> Result<Option<Value>, ApiError> {
    let read = async {
        let resource = kinds.find(cluster, &reference.kind).await?;
        let namespace = reference.namespace.clone().filter(|_| resource.namespaced);
        let key = Key { namespace, name: reference.name.clone() };
        let call = ApiCall::get("get", reference, resource.path(&key, None));
        let reply = cluster.send(call, &Identity::Host, &Permit::unlimited()).await?;
        let unreadable = |error: serde_json::Error| {
            ApiError::new("get", reference.to_string(), 0, "Unreadable", format!("the reply is no JSON: {error}"))
        };
        serde_json::from_str(&reply).map_err(unreadable)
    };
    match read.await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the objects of a kind that a label selector selects, in a namespace or in all; none if the API server does not
/// serve the kind.
///
/// # Errors
/// The API server's error, or that it did not answer in time.
pub async fn objects(
    cluster: &Cluster,
    kinds: &Kinds,
    kind: &Kind,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<Value>, ApiError> {
    let Some(resource) = served(cluster, kinds, kind).await? else { return Ok(Vec::new()) };
    let api = api(&cluster.lister(false), &resource, namespace);
    let mut page = ListParams::default().limit(page_size::FIRST).labels(selector);
    let mut found = Vec::new();
    loop {
        let list = api.list(&page).await.map_err(|error| refused(kind, error))?;
        found.extend(list.items.iter().filter_map(|object| value(object, kind)));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// Returns how the API server serves a kind; none if it does not.
async fn served(cluster: &Cluster, kinds: &Kinds, kind: &Kind) -> Result<Option<Arc<Resource>>, ApiError> {
    match kinds.find(cluster, kind).await {
        Ok(resource) => Ok(Some(resource)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn value(object: &RawObject, kind: &Kind) -> Option<Value> {
    serde_json::from_str(&object.typed(kind)).ok()
}

/// Reads the first objects of a kind that a label selector selects, in a namespace or in all, and no more; none if the API
/// server does not serve the kind.
///
/// # Errors
/// The API server's error, or that it did not answer in time.
pub async fn first_objects(
    cluster: &Cluster,
    kinds: &Kinds,
    kind: &Kind,
    namespace: Option<&str>,
    selector: &str,
    most: usize,
) -> Result<Vec<Value>, ApiError> {
    let Some(resource) = served(cluster, kinds, kind).await? else { return Ok(Vec::new()) };
    let page = ListParams::default().limit(u32::try_from(most).unwrap_or(page_size::FIRST)).labels(selector);
    let list = api(&cluster.lister(false), &resource, namespace).list(&page).await;
    let list = list.map_err(|error| refused(kind, error))?;
    Ok(list.items.iter().take(most).filter_map(|object| value(object, kind)).collect())
}

fn refused(kind: &Kind, error: kube::Error) -> ApiError {
    match error {
        kube::Error::Api(status) => {
            ApiError::new("list", kind.to_string(), status.code, &status.reason, status.message.clone())
        }
        error => ApiError::new("list", kind.to_string(), 0, "Unreachable", chain(&error)),
    }
}
