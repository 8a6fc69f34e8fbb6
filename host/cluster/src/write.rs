//! Creates and deletes whole objects, for commands. A host writes children by `apply.rs` alone.

use http::Method;
use serde_json::{Value, json};

use crate::client::{ApiCall, Cluster};
use crate::discovery::Kinds;
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use hotshoe_core::model::kind::{Key, Kind, ObjectRef};

/// Creates an object, and returns it as it is stored. Fields that its kind does not have are refused.
///
/// # Errors
/// The API server's error, such as that an object of this name exists, or that it did not answer in time.
pub async fn create(cluster: &Cluster, kinds: &Kinds, object: &Value) -> Result<Value, ApiError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = Kind::of(text("/apiVersion"), text("/kind"));
    let target = format!("{} {}", kind.kind, text("/metadata/name"));
    let resource = kinds.find(cluster, &kind).await?;
    let namespace = Some(text("/metadata/namespace")).filter(|namespace| resource.namespaced && !namespace.is_empty());
    let collection = resource.path(&Key::new(namespace, ""), None);
    let call = ApiCall {
        verb: "create",
        target: &target,
        method: Method::POST,
        uri: format!("{}?fieldValidation=Strict", collection.trim_end_matches('/')),
        content_type: "application/json",
        body: object.to_string().into_bytes(),
    };
    let reply = cluster.send(call, &Identity::Host, &Permit::unlimited()).await?;
    serde_json::from_str(&reply).map_err(|error| ApiError::unreadable("create", target, &error))
}

/// Deletes an object if it still has this uid. What it controls is deleted after it. Succeeds if it is gone already.
///
/// # Errors
/// The API server's error, or that it did not answer in time.
pub async fn delete(cluster: &Cluster, kinds: &Kinds, reference: &ObjectRef, uid: &str) -> Result<(), ApiError> {
    let resource = kinds.find(cluster, &reference.kind).await?;
    let key =
        Key { namespace: reference.namespace.clone().filter(|_| resource.namespaced), name: reference.name.clone() };
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": { "uid": uid },
    });
    let call = ApiCall {
        verb: "delete",
        target: reference,
        method: Method::DELETE,
        uri: resource.path(&key, None),
        content_type: "application/json",
        body: options.to_string().into_bytes(),
    };
    match cluster.send(call, &Identity::Host, &Permit::unlimited()).await {
        // The conflict says that the object has another uid.
        Err(error) if error.is_gone() || error.code == 409 => Ok(()),
        done => done.map(drop),
    }
}
