//! Objects that the host writes for itself: the Secret of its CA, and the registrations of its webhooks.

use http::Method;
use serde_json::{Value, json};

use crate::apply::{APPLY, JSON_PATCH};
use crate::apply_body;
use crate::client::{ApiCall, Cluster};
use crate::discovery::Resource;
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::model::object::HOST_MANAGER;

/// The version of an object that does not exist. An apply with it creates the object, and conflicts with one that does
/// exist: no stored object has this version.
pub const ABSENT: &str = "1";

/// Returns the resource of a kind whose objects have a namespace or not. Neither its status nor its scale is written.
pub fn resource(kind: Kind, plural: &str, namespaced: bool) -> Resource {
    let plural = plural.to_owned();
    Resource { kind, plural, namespaced, has_status: false, has_scale: false, is_converted: false }
}

/// The API of one object.
pub struct HostObject<'a> {
    /// The connection, with the account of the host.
    pub cluster: &'a Cluster,
    /// The kind of the object.
    pub resource: &'a Resource,
    /// Where the object is.
    pub key: &'a Key,
}

impl HostObject<'_> {
    /// Reads the object; `None` if it does not exist.
    ///
    /// # Errors
    /// The API server's error, or that the reply is no JSON.
    pub async fn read(&self) -> Result<Option<Value>, ApiError> {
        match self.send("get", (Method::GET, String::new(), ""), Vec::new(), &Permit::unlimited()).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Applies the object, by force: its fields are the host's. Returns the object that resulted. With
    /// `metadata.resourceVersion`, only that version is changed.
    ///
    /// # Errors
    /// The API server's error; a conflict where the object has another version.
    pub async fn apply(&self, body: &Value, permit: &Permit) -> Result<Value, ApiError> {
        let query = format!("?{}", apply_body::query(HOST_MANAGER));
        self.send("apply", (Method::PATCH, query, APPLY), apply_body::write(body), permit).await
    }

    /// Changes fields of the object. Returns the object that resulted.
    ///
    /// # Errors
    /// The API server's error; [a failed test](ApiError::is_failed_test) where another writer was faster.
    pub async fn patch(&self, patch: &Value, permit: &Permit) -> Result<Value, ApiError> {
        let query = format!("?{}", apply_body::manager_query(HOST_MANAGER));
        self.send("patch", (Method::PATCH, query, JSON_PATCH), patch.to_string().into_bytes(), permit).await
    }

    /// Deletes the object with this uid. Does nothing if there is none.
    ///
    /// # Errors
    /// The API server's error; a conflict where the object has another uid.
    pub async fn delete(&self, uid: &str, permit: &Permit) -> Result<(), ApiError> {
        let options = json!({ "preconditions": { "uid": uid } }).to_string().into_bytes();
        match self.send("delete", (Method::DELETE, String::new(), "application/json"), options, permit).await {
            Err(error) if !error.is_gone() => Err(error),
            _ => Ok(()),
        }
    }

    async fn send(
        &self,
        verb: &'static str,
        (method, query, content_type): (Method, String, &'static str),
        body: Vec<u8>,
        permit: &Permit,
    ) -> Result<Value, ApiError> {
        let target = self.resource.reference(self.key);
        let uri = self.resource.path(self.key, None) + &query;
        let call = ApiCall { verb, target: &target, method, uri, content_type, body };
        let reply = self.cluster.send(call, &Identity::Host, permit).await?;
        serde_json::from_str(&reply).map_err(|error| ApiError::unreadable(verb, target.to_string(), &error))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;
    use crate::served;

    #[tokio::test]
    async fn an_object_that_is_not_there_is_none_and_one_that_cannot_be_read_is_an_error() {
        let missing = (StatusCode::NOT_FOUND, r#"{"code":404,"message":"no","details":{"name":"gone"}}"#);
        let path = "/api/v1/namespaces/system/secrets";
        let server = axum::Router::new()
            .route(&format!("{path}/gone"), get(move || async move { missing }).delete(move || async move { missing }))
            .route(&format!("{path}/odd"), get(|| async { "<html>a proxy" }));
        let cluster = served::by(server).await;
        let resource = resource(Kind::new("", "v1", "Secret"), "secrets", true);
        let (gone, odd) = (Key::new(Some("system"), "gone"), Key::new(Some("system"), "odd"));
        let of = |key| HostObject { cluster: &cluster, resource: &resource, key };
        assert_eq!(of(&gone).read().await.unwrap(), None);
        of(&gone).delete("uid", &Permit::unlimited()).await.unwrap();
        assert_eq!(of(&odd).read().await.unwrap_err().reason, "Unreadable");
    }
}
