//! `Plugin` objects: their watch, and what the host writes to them.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use crate::apply::{APPLY, MERGE_PATCH};
use crate::apply_body;
use crate::client::{ApiCall, Cluster};
use crate::discovery::Resource;
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use crate::shared_watch::{Role, Scope, SharedWatch, Subscriber, Viewer};
use crate::watch::Watches;
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::object::{HOST_MANAGER, KeptFields, Object};
use hotshoe_core::model::projection::Projection;

/// Returns the resource of `Plugin` objects.
pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> Resource {
    Resource {
        kind: Kind::new(group, version, kind),
        plural: plural.to_owned(),
        namespaced: false,
        has_status: true,
        has_scale: false,
        is_converted: false,
    }
}

/// Watches the objects of the resource with these labels. Keeps spec, status, one annotation and the needed metadata,
/// without `managedFields`.
pub fn watch(
    watches: &Watches,
    resource: &Resource,
    labels: &LabelSelector,
    annotation: &str,
    subscriber: Subscriber,
) -> Arc<SharedWatch> {
    let annotation = format!("metadata.annotations['{annotation}']");
    let projection = Projection::new(&["apiVersion", "kind", "spec", "metadata.creationTimestamp", &annotation]);
    let kept_fields = KeptFields { projection, labels: labels.keys().map(str::to_owned).collect(), status: true };
    let viewer = Viewer::active(&HOST_MANAGER.into());
    watches.subscribe(
        &Scope::labelled(resource.kind.clone(), labels),
        &kept_fields,
        (&viewer, Role::Parent),
        subscriber,
    )
}

/// Adds a finalizer to an object that does not have it yet, and an annotation, as the host.
///
/// # Errors
/// The API server's error; a conflict where the object was changed meanwhile.
pub async fn add_finalizer(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    finalizer: &str,
    (annotation, text): (&str, &str),
    permit: &Permit,
) -> Result<String, ApiError> {
    let mut finalizers: Vec<&str> = object.finalizers.iter().map(|present| &**present).collect();
    finalizers.push(finalizer);
    let fields = [("finalizers", json!(finalizers)), ("annotations", json!({ annotation: text }))];
    set_metadata(cluster, resource, object, &fields, permit).await
}

/// Sets an annotation, as the host.
///
/// # Errors
/// The API server's error; a conflict where the object was changed meanwhile.
pub async fn annotate(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    (annotation, text): (&str, &str),
    permit: &Permit,
) -> Result<String, ApiError> {
    set_metadata(cluster, resource, object, &[("annotations", json!({ annotation: text }))], permit).await
}

/// Removes a finalizer, as the host. Other finalizers stay.
///
/// # Errors
/// The API server's error; a conflict where the object was changed meanwhile.
pub async fn remove_finalizer(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    finalizer: &str,
    permit: &Permit,
) -> Result<String, ApiError> {
    let present = object.finalizers.iter().map(|present| &**present);
    let others: Vec<&str> = present.filter(|present| *present != finalizer).collect();
    set_metadata(cluster, resource, object, &[("finalizers", json!(others))], permit).await
}

async fn set_metadata(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    fields: &[(&str, Value)],
    permit: &Permit,
) -> Result<String, ApiError> {
    let preconditions = [("uid", json!(&*object.uid)), ("resourceVersion", json!(object.resource_version.to_string()))];
    let all = preconditions.iter().chain(fields).map(|(name, value)| ((*name).to_owned(), value.clone()));
    let metadata: serde_json::Map<String, Value> = all.collect();
    let body = json!({ "metadata": metadata });
    let query = apply_body::manager_query(HOST_MANAGER);
    let patch = Patch {
        verb: "set the metadata of",
        subresource: None,
        query,
        content_type: MERGE_PATCH,
        body: body.to_string().into_bytes(),
    };
    patch.send(cluster, resource, &object.key, permit).await
}

/// Applies the status, as the host.
///
/// # Errors
/// The API server's error.
pub async fn apply_status(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    status: &Value,
    permit: &Permit,
) -> Result<String, ApiError> {
    let body = json!({
        "apiVersion": resource.kind.api_version(),
        "kind": &*resource.kind.kind,
        "metadata": { "name": &*object.key.name, "uid": &*object.uid },
        "status": status,
    });
    let patch = Patch {
        verb: "apply the status of",
        subresource: Some("status"),
        query: apply_body::query(HOST_MANAGER),
        content_type: APPLY,
        body: apply_body::write(&body),
    };
    patch.send(cluster, resource, &object.key, permit).await
}

/// Removes fields from the status that others have set, as the host.
///
/// # Errors
/// The API server's error.
pub async fn remove_from_status(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    fields: &[&str],
    permit: &Permit,
) -> Result<String, ApiError> {
    let absent: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), Value::Null)).collect();
    let body = json!({ "metadata": { "uid": &*object.uid }, "status": absent });
    Patch::of_status("remove what others set from the status of", &body)
        .send(cluster, resource, &object.key, permit)
        .await
}

/// Writes into the status the Lease of the hosts that work for an object, as the host; `None` if they no longer do.
///
/// # Errors
/// The API server's error; a conflict where the object was changed meanwhile.
pub async fn set_lease(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    lease: Option<&str>,
    permit: &Permit,
) -> Result<String, ApiError> {
    let body = json!({
        "metadata": { "uid": &*object.uid, "resourceVersion": object.resource_version.to_string() },
        "status": { "lease": lease },
    });
    Patch::of_status("set the Lease in the status of", &body).send(cluster, resource, &object.key, permit).await
}

/// Reads one object, or the list of all objects, with the account of the connection.
///
/// # Errors
/// The API server's error, or that the reply is no JSON.
pub async fn read(cluster: &Cluster, resource: &Resource, name: Option<&str>) -> Result<Value, ApiError> {
    let key = Key::new(None, name.unwrap_or_default());
    let target = resource.reference(&key);
    let path = resource.path(&key, None);
    let verb = if name.is_some() { "get" } else { "list" };
    let call = ApiCall::get(verb, &target, path.trim_end_matches('/').to_owned());
    let text = cluster.send(call, &Identity::Host, &Permit::unlimited()).await?;
    serde_json::from_str(&text).map_err(|error| ApiError::unreadable(verb, target.to_string(), &error))
}

/// Changes members of the spec, with the account of the connection.
///
/// # Errors
/// The API server's error.
pub async fn patch_spec(cluster: &Cluster, resource: &Resource, name: &str, spec: &Value) -> Result<String, ApiError> {
    let patch = Patch {
        verb: "patch",
        subresource: None,
        query: "fieldManager=kubectl-hotshoe".to_owned(),
        content_type: MERGE_PATCH,
        body: json!({ "spec": spec }).to_string().into_bytes(),
    };
    patch.send(cluster, resource, &Key::new(None, name), &Permit::unlimited()).await
}

/// A change of one object.
struct Patch {
    verb: &'static str,
    subresource: Option<&'static str>,
    query: String,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Patch {
    /// Builds a merge patch of the status by the host.
    fn of_status(verb: &'static str, body: &Value) -> Self {
        Self {
            verb,
            subresource: Some("status"),
            query: apply_body::manager_query(HOST_MANAGER),
            content_type: MERGE_PATCH,
            body: body.to_string().into_bytes(),
        }
    }

    async fn send(
        self,
        cluster: &Cluster,
        resource: &Resource,
        key: &Key,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let Self { verb, subresource, query, content_type, body } = self;
        let (target, path) = (resource.reference(key), resource.path(key, subresource));
        let uri = format!("{path}?{query}");
        let call = ApiCall { verb, target: &target, method: Method::PATCH, uri, content_type, body };
        cluster.send(call, &Identity::Host, permit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served;

    #[tokio::test]
    async fn a_reply_that_is_no_json_is_an_error_and_not_an_empty_list() {
        let resource = resource("hotshoe.dev", "v1alpha1", "Plugin", "plugins");
        let cluster = served::by(axum::Router::new().fallback(|| async { "<html>a proxy" })).await;
        for name in [None, Some("demo")] {
            let error = read(&cluster, &resource, name).await.unwrap_err();
            assert_eq!(error.reason, "Unreadable", "{error}");
        }
    }
}
