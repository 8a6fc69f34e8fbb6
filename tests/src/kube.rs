//! A plain client: requests and JSON, without the typed clients and caches that the host uses.

use std::path::Path;
use std::pin::Pin;

use futures::{Stream, StreamExt};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::api::{Api, ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::kinds::Kind;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// An error response.
#[derive(Clone, Debug)]
pub struct Refused {
    /// HTTP status code; 0 where there was no response.
    pub code: u16,
    /// The API server's reason.
    pub reason: String,
    /// The API server's message.
    pub message: String,
}

/// A client of one account.
#[derive(Clone)]
pub struct Kube {
    client: kube::Client,
}

/// The events of a watch: the type of each event and the object.
pub type Changes = Pin<Box<dyn Stream<Item = (&'static str, Value)> + Send>>;

impl Kube {
    /// Builds a client for the current context of a kubeconfig.
    pub async fn of(kubeconfig: &Path) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a usable kubeconfig");
        // No retries: tests count requests, and expect some of them to fail.
        config.default_retry = false;
        Self { client: kube::Client::try_from(config).expect("a client") }
    }

    /// Sends one request.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, Refused> {
        self.request_with(method, path, &[(header::CONTENT_TYPE.as_str(), content_type)], body).await
    }

    /// Sends one request with these headers.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn request_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<Value, Refused> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let no_answer = |error: String| Refused { code: 0, reason: "NoAnswer".into(), message: error };
        let request = request.body(Body::from(body)).expect("a valid request");
        let response = self.client.send(request).await.map_err(|error| no_answer(error.to_string()))?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.map_err(|error| no_answer(error.to_string()))?.to_bytes();
        let value: Value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!({ "message": String::from_utf8_lossy(&bytes), "reason": "" }));
        if (200..300).contains(&code) {
            return Ok(value);
        }
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Err(Refused { code, reason: text("reason"), message: text("message") })
    }

    /// Creates an object; its kind must be among [`crate::kinds::ALL`].
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn create(&self, object: &Value) -> Result<Value, Refused> {
        let kind = kind_of(object);
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.request(Method::POST, &kind.path(namespace, None), JSON, object).await
    }

    /// Creates an object in a dry run, which stores nothing, and returns the warnings.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn warnings_of(&self, object: &Value) -> Result<Vec<String>, Refused> {
        self.warnings_of_a(&kind_of(object), object).await
    }

    /// As [`Self::warnings_of`], of an object of any kind.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn warnings_of_a(&self, kind: &Kind, object: &Value) -> Result<Vec<String>, Refused> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = format!("{}?dryRun=All", kind.path(namespace, None));
        let request = Request::post(path).header(header::CONTENT_TYPE, JSON);
        let request = request.body(Body::from(object.to_string().into_bytes())).expect("a valid request");
        let response = self.client.send(request).await.expect("an answer");
        let warnings = response.headers().get_all(header::WARNING).iter();
        let warnings = warnings.map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned()).collect();
        let (code, reason) = (response.status().as_u16(), String::new());
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let message = String::from_utf8_lossy(&body).into_owned();
        if code < 300 { Ok(warnings) } else { Err(Refused { code, reason, message }) }
    }

    /// Gets one object.
    ///
    /// # Errors
    /// The API server's error response; 404 where there is no such object.
    pub async fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Refused> {
        self.request(Method::GET, &kind.path(namespace, Some(name)), JSON, &Value::Null).await
    }

    /// Lists the objects of a kind; those of all namespaces where `namespace` is empty.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn list(&self, kind: &Kind, namespace: &str) -> Result<Vec<Value>, Refused> {
        let list = self.request(Method::GET, &kind.path(namespace, None), JSON, &Value::Null).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Sends a merge patch.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn merge(&self, kind: &Kind, namespace: &str, name: &str, patch: &Value) -> Result<Value, Refused> {
        self.request(Method::PATCH, &kind.path(namespace, Some(name)), MERGE, patch).await
    }

    /// Sends a JSON patch of the status.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn patch_status(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, Refused> {
        let path = format!("{}/status", kind.path(namespace, Some(name)));
        self.request(Method::PATCH, &path, JSON_PATCH, patch).await
    }

    /// Sends a JSON patch.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn json_patch(&self, kind: &Kind, namespace: &str, name: &str, patch: &Value) -> Result<Value, Refused> {
        self.request(Method::PATCH, &kind.path(namespace, Some(name)), JSON_PATCH, patch).await
    }

    /// Sends a server-side apply by this field manager; the object's kind must be among [`crate::kinds::ALL`].
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn apply(&self, manager: &str, object: &Value) -> Result<Value, Refused> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = kind_of(object).path(namespace, object["metadata"]["name"].as_str());
        self.request(Method::PATCH, &format!("{path}?fieldManager={manager}&force=true"), APPLY, object).await
    }

    /// Deletes an object, with background propagation.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn delete(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Refused> {
        let options = json!({ "propagationPolicy": "Background" });
        self.request(Method::DELETE, &kind.path(namespace, Some(name)), JSON, &options).await
    }

    /// Watches a kind, beginning with the existing objects.
    pub async fn watch(&self, kind: &Kind, namespace: &str) -> Changes {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource(kind));
        let events = api.watch(&WatchParams::default().timeout(290), "0").await.expect("a watch");
        let changes = events.filter_map(|event| async move {
            let (what, object) = match event.ok()? {
                WatchEvent::Added(object) => ("ADDED", object),
                WatchEvent::Modified(object) => ("MODIFIED", object),
                WatchEvent::Deleted(object) => ("DELETED", object),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => return None,
            };
            Some((what, serde_json::to_value(object).ok()?))
        });
        changes.boxed()
    }

    /// Applies every document of a manifest as `kubectl apply --server-side` would.
    pub async fn apply_manifest(&self, manifest: &str) {
        for object in documents(manifest) {
            let applied = self.apply("kubectl", &object).await;
            applied.unwrap_or_else(|refused| panic!("{} is refused: {}\n{object:#}", object["kind"], refused.message));
        }
    }
}

/// Parses the documents of a YAML stream.
pub fn documents(manifest: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest).expect("valid YAML");
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

fn kind_of(object: &Value) -> Kind {
    let is_it = |kind: &&Kind| object["kind"] == kind.kind && object["apiVersion"] == kind.api_version();
    *crate::kinds::ALL.iter().find(is_it).unwrap_or_else(|| panic!("the tests do not know the kind of {object}"))
}

fn resource(kind: &Kind) -> ApiResource {
    ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    }
}
