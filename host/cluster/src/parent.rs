//! Writes to a parent: its finalizers and the host's condition as the host, its status, and the labels and annotations
//! that the plugin states, as the plugin. Everything else in the parent belongs to the user.

use std::sync::Arc;

use http::Method;
use serde_json::{Map, Value, json};

use crate::apply::{APPLY, JSON_PATCH, Writer, unreadable};
use crate::apply_body;
use crate::client::{ApiCall, Cluster};
use crate::discovery::Resource;
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use crate::shared_watch::{Role, SharedWatch};
use hotshoe_core::check::fields;
use hotshoe_core::check::parent_metadata::StatedMetadata;
use hotshoe_core::diff::{ownerless, status};
use hotshoe_core::model::kind::Key;
use hotshoe_core::model::object::{HOST_MANAGER, KeptFields, Object};
use hotshoe_core::model::projection::Projection;

impl Writer {
    /// Reads a parent from the API server.
    ///
    /// # Errors
    /// If the API server refuses or does not answer; 404 if the parent is gone.
    pub async fn read_parent(
        &self,
        resource: &Resource,
        key: &Key,
        kept_fields: &KeptFields,
    ) -> Result<Object, ApiError> {
        let reply = self.get(resource, key, &Permit::unlimited()).await?;
        Object::read(&reply, kept_fields).map_err(|error| unreadable(&resource.reference(key), &error))
    }

    /// Stores the parent from the reply to a write. After a conflict or no answer, reads the live parent and stores
    /// that. Their echoes in the watch wake no subscriber.
    ///
    /// # Errors
    /// The error of the write, after the store was updated.
    pub async fn store_parent(
        &self,
        watch: &SharedWatch,
        resource: &Resource,
        parent: &Object,
        reply: Result<String, ApiError>,
    ) -> Result<Arc<Object>, ApiError> {
        let error = match reply {
            Ok(reply) => match watch.store_reply(&reply, (&self.plugin, Role::Parent)) {
                Ok(learned) => return Ok(learned),
                Err(error) => {
                    tracing::error!("the reply to a write cannot be read: {error}");
                    return Ok(watch.cache.get(&parent.key).unwrap_or_else(|| Arc::new(parent.clone())));
                }
            },
            Err(error) => error,
        };
        // A failed `test` of a JSON patch is a 422, and means the same as a conflict. A subresource that is not served
        // is a 404 that names the object, so only a read shows whether the parent is gone.
        if !matches!(error.code, 404 | 409 | 422) && error.is_definite() {
            return Err(error);
        }
        match self.read_parent(resource, &parent.key, &watch.kept_fields()).await {
            Ok(live) => {
                watch.store(live);
                Err(if error.is_gone() { error.unserved() } else { error })
            }
            Err(gone) if gone.is_gone() => {
                watch.lose(parent);
                Err(error)
            }
            Err(_) => Err(error),
        }
    }

    /// Applies the plugin's part of a parent's status, as the plugin.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn apply_status(
        &self,
        resource: &Resource,
        parent: &Object,
        status: Value,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let query = apply_body::query(&self.manager);
        self.send_status(resource, parent, status, query, &self.identity, permit).await
    }

    /// Drops the status fields that a predecessor of the plugin applied, as the host. The plugin has applied its own
    /// status before, so only fields that it does not set are removed.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn drop_status_of(
        &self,
        predecessor: &str,
        resource: &Resource,
        parent: &Object,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let is_left = status::owns_any_field(parent, &self.manager);
        let rest = if is_left { json!({}) } else { status::cleared() };
        self.send_status(resource, parent, rest, apply_body::query(predecessor), &Identity::Host, permit).await
    }

    /// Returns the field manager of what the plugin states of its parents' metadata.
    pub fn metadata_manager(&self) -> &str {
        &self.metadata_manager
    }

    /// Applies what the plugin states of a parent's metadata, as the plugin. What it has stated before and no longer does
    /// is removed. The apply is not forced: a key that another field manager has set to another value stays.
    ///
    /// # Errors
    /// The API server's error; a conflict of ownership if another field manager owns one of the keys.
    pub async fn apply_metadata(
        &self,
        resource: &Resource,
        parent: &Object,
        stated: &StatedMetadata,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        self.send_metadata(resource, parent, stated, &self.metadata_manager, permit).await
    }

    /// Removes what a predecessor of the plugin has stated of a parent's metadata, as the plugin. What this plugin states
    /// as well stays.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn drop_metadata_of(
        &self,
        predecessor: &str,
        resource: &Resource,
        parent: &Object,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let nothing = StatedMetadata::default();
        self.send_metadata(resource, parent, &nothing, predecessor, permit).await
    }

    async fn send_metadata(
        &self,
        resource: &Resource,
        parent: &Object,
        stated: &StatedMetadata,
        manager: &str,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let target = resource.reference(&parent.key);
        let mut metadata = identity_of(parent);
        metadata.extend(stated.members());
        let body =
            json!({ "apiVersion": resource.kind.api_version(), "kind": &*resource.kind.kind, "metadata": metadata });
        let call = ApiCall {
            verb: "apply the metadata of",
            target: &target,
            method: Method::PATCH,
            uri: format!("{}?{}", resource.path(&parent.key, None), apply_body::unforced_query(manager)),
            content_type: APPLY,
            body: apply_body::write(&body),
        };
        self.send_limited(call, (parent.key.namespace.as_ref(), fields::count(&body)), &self.identity, permit).await
    }

    /// Applies the host's own conditions, as the host. The apply is not forced: if the CRD does not declare conditions
    /// as a list of the type `map`, the list is atomic, and a forced apply would replace the conditions of others.
    ///
    /// # Errors
    /// The API server's error; a conflict of ownership if the conditions are an atomic list of another field manager.
    pub async fn apply_host_conditions(
        &self,
        resource: &Resource,
        parent: &Object,
        status: Value,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let query = apply_body::unforced_query(HOST_MANAGER);
        let reply = self.send_status(resource, parent, status.clone(), query, &Identity::Host, permit).await;
        match reply {
            // Another field manager wrote into the host's own condition.
            Err(error) if error.is_of_ownership() && is_of_own_fields(&error) => {
                let query = apply_body::query(HOST_MANAGER);
                self.send_status(resource, parent, status, query, &Identity::Host, permit).await
            }
            reply => reply,
        }
    }

    /// Removes the host's own conditions, as the host.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn remove_host_conditions(
        &self,
        resource: &Resource,
        parent: &Object,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let query = apply_body::query(HOST_MANAGER);
        self.send_status(resource, parent, status::cleared(), query, &Identity::Host, permit).await
    }

    /// Applies a status within the plugin's rate limit. The host's condition counts, too, because the plugin chooses
    /// how often that condition changes. If [entries](ownerless) of `managedFields` that no client needs have it refused, they
    /// are removed, and it is applied again, once.
    async fn send_status(
        &self,
        resource: &Resource,
        parent: &Object,
        status: Value,
        query: String,
        identity: &Identity,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let target = resource.reference(&parent.key);
        let uri = format!("{}?{query}", resource.path(&parent.key, Some("status")));
        let apply = async |version: &str| {
            let body = status_body(resource, parent, version, status.clone());
            let call = ApiCall {
                verb: "apply the status of",
                target: &target,
                method: Method::PATCH,
                uri: uri.clone(),
                content_type: APPLY,
                body: apply_body::write(&body),
            };
            self.send_limited(call, (parent.key.namespace.as_ref(), fields::count(&body)), identity, permit).await
        };
        let refusal = match apply(&parent.resource_version.to_string()).await {
            Err(refusal) if refusal.is_of_fields() || refusal.is_of_other_version() => refusal,
            reply => return reply,
        };
        match self.remove_ownerless(resource, parent, &refusal, permit).await? {
            Some(version) => apply(&version).await,
            None => Err(refusal),
        }
    }

    /// Removes the [entries](ownerless) of `managedFields` that had a status refused, as the host. Returns the resource
    /// version of the parent after that; `None` if there are none, or the API server does not let the host.
    ///
    /// # Errors
    /// The API server's error; a conflict if the parent has changed since it was observed.
    async fn remove_ownerless(
        &self,
        resource: &Resource,
        parent: &Object,
        refusal: &ApiError,
        permit: &Permit,
    ) -> Result<Option<String>, ApiError> {
        let target = resource.reference(&parent.key);
        let unreadable = |error: serde_json::Error| unreadable(&target, &error);
        let live = self.get(resource, &parent.key, permit).await?;
        let live = serde_json::from_str(&live).map_err(unreadable)?;
        let repair = match refusal.is_of_other_version() {
            false => ownerless::without_first_apply(&live),
            // What is to stay may be converted again, and then its entries say who set what.
            true if !parent.deleting => None,
            true => ownerless::without_other_versions(&live, &resource.kind.api_version()),
        };
        let Some(repair) = repair else { return Ok(None) };
        let replace = json!([
            { "op": "test", "path": "/metadata/uid", "value": &*parent.uid },
            { "op": "test", "path": "/metadata/resourceVersion", "value": parent.resource_version.to_string() },
            { "op": "replace", "path": repair.pointer, "value": repair.value },
        ]);
        match self.patch(resource, parent, "repair managedFields of", &replace, permit).await {
            Ok(reply) => {
                tracing::info!("entries of managedFields that had the status refused are removed: {}", refusal.message);
                let repaired: Value = serde_json::from_str(&reply).map_err(unreadable)?;
                Ok(repaired.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned))
            }
            Err(error) if error.is_failed_test() => Err(ApiError { code: 409, reason: "Conflict".to_owned(), ..error }),
            Err(error) if error.is_transient() => Err(error),
            Err(error) => {
                tracing::debug!(%error, "entries of managedFields that had the status refused stay");
                Ok(None)
            }
        }
    }

    /// Adds a finalizer, as the host, with the plugin's field manager, so that `managedFields` shows for which plugin
    /// it was added. The patch fails if the object or its finalizers changed.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn add_finalizer(
        &self,
        resource: &Resource,
        parent: &Object,
        finalizer: &str,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let add = if parent.finalizers.is_empty() {
            json!([
                { "op": "test", "path": "/metadata/uid", "value": &*parent.uid },
                { "op": "test", "path": "/metadata/finalizers", "value": null },
                { "op": "add", "path": "/metadata/finalizers", "value": [finalizer] },
            ])
        } else {
            json!([
                { "op": "test", "path": "/metadata/uid", "value": &*parent.uid },
                { "op": "test", "path": "/metadata/finalizers", "value": &*parent.finalizers },
                { "op": "add", "path": "/metadata/finalizers/-", "value": finalizer },
            ])
        };
        self.patch(resource, parent, "add the finalizer of", &add, permit).await
    }

    /// Removes one finalizer, as the host. Other finalizers stay.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn remove_finalizer(
        &self,
        resource: &Resource,
        parent: &Object,
        finalizer: &str,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let index = parent.finalizers.iter().position(|one| &**one == finalizer).unwrap_or_default();
        let path = format!("/metadata/finalizers/{index}");
        let remove = json!([
            { "op": "test", "path": "/metadata/uid", "value": &*parent.uid },
            { "op": "test", "path": path, "value": finalizer },
            { "op": "remove", "path": path },
        ]);
        self.patch(resource, parent, "remove the finalizer of", &remove, permit).await
    }

    async fn patch(
        &self,
        resource: &Resource,
        parent: &Object,
        verb: &'static str,
        patch: &Value,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let target = resource.reference(&parent.key);
        let call = ApiCall {
            verb,
            target: &target,
            method: Method::PATCH,
            uri: format!("{}?{}", resource.path(&parent.key, None), apply_body::manager_query(&self.manager)),
            content_type: JSON_PATCH,
            body: patch.to_string().into_bytes(),
        };
        self.send(call, &Identity::Host, permit).await
    }
}

/// Returns whether a conflict is only about single conditions of the host or the observed generation, which the host
/// may overwrite, and not about the whole list of conditions.
fn is_of_own_fields(error: &ApiError) -> bool {
    let is_of_list = error.fields.iter().any(|field| field == ".status.conditions");
    let is_of_fields = [".status.conditions[", ".status.observedGeneration"];
    !is_of_list && is_of_fields.iter().any(|field| error.message.contains(field))
}

/// Reads a parent and removes those of its finalizers from it that `ours` returns, as the host. Does nothing if the
/// parent is gone, has none of them, or is changed meanwhile.
///
/// # Errors
/// The API server's error, or that its reply cannot be read.
pub async fn remove_finalizers(
    cluster: &Cluster,
    resource: &Resource,
    key: &Key,
    ours: impl for<'o> Fn(&'o Object) -> Vec<&'o str>,
    permit: &Permit,
) -> Result<(), ApiError> {
    let target = resource.reference(key);
    let path = resource.path(key, None);
    let live = match cluster.send(ApiCall::get("get", &target, path.clone()), &Identity::Host, permit).await {
        Err(error) if error.is_gone() => return Ok(()),
        live => live?,
    };
    let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
    let live = Object::read(&live, &kept_fields).map_err(|error| unreadable(&target, &error))?;
    let ours = ours(&live);
    if ours.is_empty() {
        return Ok(());
    }
    let others: Vec<&str> = live.finalizers.iter().map(|one| &**one).filter(|one| !ours.contains(one)).collect();
    let patch = json!([
        { "op": "test", "path": "/metadata/uid", "value": &*live.uid },
        { "op": "test", "path": "/metadata/finalizers", "value": &*live.finalizers },
        { "op": "replace", "path": "/metadata/finalizers", "value": others },
    ]);
    let call = ApiCall {
        verb: "remove the finalizer of",
        target: &target,
        method: Method::PATCH,
        uri: path,
        content_type: JSON_PATCH,
        body: patch.to_string().into_bytes(),
    };
    match cluster.send(call, &Identity::Host, permit).await {
        Err(error) if error.is_gone() || error.is_failed_test() => Ok(()),
        done => done.map(drop),
    }
}

/// Deletes a parent, as the host, and no later object of its name. Succeeds if the parent is already gone.
///
/// # Errors
/// The API server's error.
pub async fn delete(cluster: &Cluster, resource: &Resource, parent: &Object, permit: &Permit) -> Result<(), ApiError> {
    let target = resource.reference(&parent.key);
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": { "uid": &*parent.uid },
    });
    let call = ApiCall {
        verb: "delete",
        target: &target,
        method: Method::DELETE,
        uri: resource.path(&parent.key, None),
        content_type: "application/json",
        body: options.to_string().into_bytes(),
    };
    match cluster.send(call, &Identity::Host, permit).await {
        // The conflict says that the object has another uid.
        Err(error) if error.is_gone() || error.code == 409 => Ok(()),
        done => done.map(drop),
    }
}

/// Returns whether another writer has changed the finalizers since `sent` was read, or the parent was deleted or
/// created again: then the refusal of a finalizer write is transient. The status code does not tell: a failed `test` of
/// a JSON patch is a 422, and so is the refusal of a policy or a schema, which would be the same next time.
pub fn was_overtaken(watch: &SharedWatch, sent: &Object) -> bool {
    let Some(live) = watch.cache.get(&sent.key) else { return true };
    (&live.uid, &live.finalizers, live.deleting) != (&sent.uid, &sent.finalizers, sent.deleting)
}

/// Returns a status as the body of an apply to this version of a parent.
fn status_body(resource: &Resource, parent: &Object, version: &str, mut status: Value) -> Value {
    if let Some(members) = status.as_object_mut() {
        members.insert("apiVersion".into(), resource.kind.api_version().into());
        members.insert("kind".into(), (&*resource.kind.kind).into());
        let mut metadata = identity_of(parent);
        metadata.insert("resourceVersion".into(), version.into());
        members.insert("metadata".into(), metadata.into());
    }
    status
}

/// Returns the metadata that identifies a parent in an apply. With the uid in it, the apply creates no object.
fn identity_of(parent: &Object) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("name".into(), (&*parent.key.name).into());
    metadata.insert("uid".into(), (&*parent.uid).into());
    if let Some(namespace) = &parent.key.namespace {
        metadata.insert("namespace".into(), (&**namespace).into());
    }
    metadata
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use axum::Router;
    use axum::http::{StatusCode, Uri};
    use futures::FutureExt;
    use parking_lot::Mutex;

    use super::*;
    use crate::rate_limit::{Delays, RateLimit};
    use crate::served;
    use hotshoe_core::model::kind::Kind;
    use hotshoe_core::model::limits::Limits;

    /// Creates a writer that may make one write per second, to an API server that does not answer.
    async fn writer() -> Writer {
        let cluster = served::at("127.0.0.1:1").await;
        let rate_limit = RateLimit::new(&Limits { writes_per_second: 1, ..Limits::default() }, Delays::default());
        Writer::new(&cluster, Arc::default(), "demo", Identity::plugin("hotshoe", "demo"), rate_limit)
    }

    fn demos() -> Resource {
        let kind = Kind::new("example.com", "v1", "Demo");
        Resource {
            kind,
            plural: "demos".to_owned(),
            namespaced: true,
            has_status: true,
            has_scale: false,
            is_converted: false,
        }
    }

    fn parent() -> Object {
        let json = r#"{"metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"1"}}"#;
        let kept_fields = KeptFields { projection: Projection::default(), labels: Vec::new(), status: false };
        Object::read(json, &kept_fields).unwrap()
    }

    type Received = Arc<Mutex<Vec<Value>>>;

    /// Serves an API server that answers a read with `live` and a write with this code, and records what is written.
    async fn serving(live: &'static str, code: StatusCode) -> (Cluster, Received) {
        let received = Received::default();
        let recorded = received.clone();
        let answer = async move |method: Method, body: String| {
            if method == Method::GET {
                return (StatusCode::OK, live);
            }
            recorded.lock().push(serde_json::from_str(&body).unwrap());
            (code, r#"{"message":"the server rejected our request due to an error in our request"}"#)
        };
        (served::by(Router::new().fallback(answer)).await, received)
    }

    async fn remove(live: &'static str, code: StatusCode) -> (Result<(), ApiError>, Vec<Value>) {
        let (cluster, received) = serving(live, code).await;
        let (resource, parent, permit) = (demos(), parent(), Permit::unlimited());
        let removing = remove_finalizers(
            &cluster,
            &resource,
            &parent.key,
            |object| object.finalizers.iter().map(|one| &**one).filter(|one| *one == "a/1").collect(),
            &permit,
        );
        let removed = removing.await;
        let written = received.lock().clone();
        (removed, written)
    }

    #[tokio::test]
    async fn a_finalizer_is_removed_from_the_object_that_was_read_and_other_finalizers_stay() {
        let live = r#"{"metadata":{"name":"a","uid":"u","finalizers":["a/1","a/2"]}}"#;
        let (done, written) = remove(live, StatusCode::OK).await;
        assert_eq!(done, Ok(()));
        let test = |path: &str, value: Value| json!({ "op": "test", "path": path, "value": value });
        let replace = json!({ "op": "replace", "path": "/metadata/finalizers", "value": ["a/2"] });
        let finalizers = test("/metadata/finalizers", json!(["a/1", "a/2"]));
        assert_eq!(written, [json!([test("/metadata/uid", json!("u")), finalizers, replace])]);
        let overtaken = remove(live, StatusCode::UNPROCESSABLE_ENTITY).await;
        assert_eq!(overtaken.0, Ok(()), "the next pass reads the object that is there now");
    }

    #[tokio::test]
    async fn nothing_is_written_to_an_object_without_a_finalizer_of_ours_and_a_reply_that_cannot_be_read_is_an_error() {
        let live = r#"{"metadata":{"name":"a","uid":"u","finalizers":["a/2"]}}"#;
        assert_eq!(remove(live, StatusCode::OK).await, (Ok(()), Vec::new()));
        let (failed, written) = remove("<html>", StatusCode::OK).await;
        assert!(failed.unwrap_err().to_string().contains("the reply cannot be read"));
        assert_eq!(written, Vec::<Value>::new());
    }

    #[tokio::test]
    async fn a_parent_is_deleted_by_its_uid() {
        for code in [StatusCode::OK, StatusCode::CONFLICT] {
            let (cluster, received) = serving("", code).await;
            assert_eq!(delete(&cluster, &demos(), &parent(), &Permit::unlimited()).await, Ok(()));
            assert_eq!(received.lock()[0]["preconditions"], json!({ "uid": "u" }));
        }
    }

    /// Serves an API server that answers a read with this object and refuses the first status with this code and message,
    /// and records what is written.
    async fn refusing(live: &'static str, code: StatusCode, refusal: &'static str) -> (Cluster, Received) {
        let received = Received::default();
        let recorded = received.clone();
        let answer = async move |method: Method, uri: Uri, body: String| {
            if method == Method::GET {
                return (StatusCode::OK, live);
            }
            let mut recorded = recorded.lock();
            recorded.push(serde_json::from_str(&body).unwrap());
            match (uri.path().ends_with("/status"), recorded.len()) {
                (true, 1) => (code, refusal),
                (true, _) => (StatusCode::OK, "{}"),
                (false, _) => (StatusCode::OK, r#"{"metadata":{"resourceVersion":"2"}}"#),
            }
        };
        (served::by(Router::new().fallback(answer)).await, received)
    }

    async fn apply_refused(
        live: &'static str,
        parent: &Object,
        (code, refusal): (StatusCode, &'static str),
    ) -> (Result<String, ApiError>, Vec<Value>) {
        let (cluster, received) = refusing(live, code, refusal).await;
        let rate_limit = RateLimit::new(&Limits::default(), Delays::default());
        let writer = Writer::new(&cluster, Arc::default(), "demo", Identity::Host, rate_limit);
        let applied = writer.apply_status(&demos(), parent, json!({ "status": {} }), &Permit::unlimited()).await;
        let written = received.lock().clone();
        (applied, written)
    }

    const INCOMPLETE: (StatusCode, &str) = (
        StatusCode::UNPROCESSABLE_ENTITY,
        r#"{"message":"incomplete","details":{"causes":[{"reason":"FieldValueRequired","field":"status.a"}]}}"#,
    );

    #[tokio::test]
    async fn a_status_that_is_refused_for_what_the_api_server_owns_itself_is_applied_again_without_that() {
        let live = r#"{"metadata":{"managedFields":[
            {"manager":"hotshoe/demo","apiVersion":"example.com/v1"},
            {"manager":"before-first-apply","apiVersion":"example.com/v1"}]}}"#;
        let (applied, written) = apply_refused(live, &parent(), INCOMPLETE).await;
        assert_eq!(applied, Ok("{}".to_owned()));
        let kept = json!([{ "manager": "hotshoe/demo", "apiVersion": "example.com/v1" }]);
        let expected = json!([
            { "op": "test", "path": "/metadata/uid", "value": "u" },
            { "op": "test", "path": "/metadata/resourceVersion", "value": "1" },
            { "op": "replace", "path": "/metadata/managedFields", "value": kept },
        ]);
        let versions = |body: &Value| body["metadata"]["resourceVersion"].clone();
        assert_eq!((&written[1], versions(&written[0]), versions(&written[2])), (&expected, json!("1"), json!("2")));
        assert_eq!(written.len(), 3);
    }

    #[tokio::test]
    async fn a_status_that_is_refused_for_something_else_is_applied_once() {
        let live = r#"{"metadata":{"managedFields":[{"manager":"kubectl","apiVersion":"example.com/v1"}]}}"#;
        let (refused, written) = apply_refused(live, &parent(), INCOMPLETE).await;
        assert_eq!((refused.unwrap_err().code, written.len()), (422, 1));
    }

    #[tokio::test]
    async fn entries_in_a_version_that_is_no_longer_converted_are_removed_from_a_parent_that_goes_and_from_no_other() {
        let live = r#"{"metadata":{"managedFields":[{"manager":"kubectl","apiVersion":"example.com/v1beta1"}]}}"#;
        let undeclared =
            (StatusCode::INTERNAL_SERVER_ERROR, r#"{"message":".spec.size: field not declared in schema"}"#);
        for (deleting, writes) in [(false, 1), (true, 3)] {
            let (applied, written) = apply_refused(live, &Object { deleting, ..parent() }, undeclared).await;
            assert_eq!((applied.is_ok(), written.len()), (deleting, writes), "{written:?}");
        }
    }

    #[tokio::test]
    async fn of_a_parents_metadata_an_apply_has_what_is_stated_and_what_names_this_very_object() {
        let (cluster, received) = serving("", StatusCode::OK).await;
        let rate_limit = RateLimit::new(&Limits::default(), Delays::default());
        let writer = Writer::new(&cluster, Arc::default(), "demo", Identity::Host, rate_limit);
        let labels = [("e.com/tier".to_owned(), "gold".to_owned())].into();
        let stated = StatedMetadata { labels, ..StatedMetadata::default() };
        let permit = Permit::unlimited();
        writer.apply_metadata(&demos(), &parent(), &stated, &permit).await.unwrap();
        writer.drop_metadata_of("hotshoe/former/metadata", &demos(), &parent(), &permit).await.unwrap();
        let identity = json!({ "name": "a", "namespace": "n", "uid": "u" });
        let mut metadata = identity.clone();
        metadata["labels"] = json!({ "e.com/tier": "gold" });
        let body = |metadata| json!({ "apiVersion": "example.com/v1", "kind": "Demo", "metadata": metadata });
        assert_eq!(*received.lock(), [body(metadata), body(identity)]);
        assert_eq!(writer.metadata_manager(), "hotshoe/demo/metadata");
    }

    #[tokio::test]
    async fn the_hosts_condition_uses_a_write_slot_as_the_plugins_status_does() {
        let (resource, parent) = (demos(), parent());
        let permit = Permit::unlimited();
        let (stated, said, removed) = (writer().await, writer().await, writer().await);
        drop(stated.apply_status(&resource, &parent, json!({}), &permit).await);
        drop(said.apply_host_conditions(&resource, &parent, json!({}), &permit).await);
        drop(removed.remove_host_conditions(&resource, &parent, &permit).await);
        for writer in [stated, said, removed] {
            assert!(
                writer.rate_limit.write(None, NonZeroU32::MIN).now_or_never().is_none(),
                "the one write of this second is made"
            );
        }
    }
}
