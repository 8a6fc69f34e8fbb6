//! What the `scale` subresource of an object changes: which field that is says the definition of its kind.

use serde::Deserialize;
use serde_json::Value;

use crate::apply::Writer;
use crate::discovery::Resource;
use crate::error::ApiError;
use crate::host_object;
use crate::identity::Permit;
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::rbac::webhooks;

/// The field of all kinds of Kubernetes itself that can be scaled.
const BUILTIN_PATH: &str = ".spec.replicas";

/// An object that can be scaled.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalable {
    /// The object as it is stored.
    pub stored: Value,
    /// The field that a scale sets, as `.spec.replicas`; `None` if this version of the kind has no scale.
    pub replicas_path: Option<String>,
}

impl Writer {
    /// Reads an object and which of its fields a scale sets, as the host.
    ///
    /// # Errors
    /// If the API server refuses or does not answer; 404 if there is no such object, or no definition of its kind.
    pub async fn read_scalable(&self, resource: &Resource, key: &Key) -> Result<Scalable, ApiError> {
        let permit = Permit::unlimited();
        let (stored, replicas_path) =
            futures::try_join!(self.get(resource, key, &permit), self.replicas_path(resource, &permit))?;
        let stored = serde_json::from_str(&stored).map_err(|error| unreadable(resource, key, &error))?;
        Ok(Scalable { stored, replicas_path })
    }

    async fn replicas_path(&self, resource: &Resource, permit: &Permit) -> Result<Option<String>, ApiError> {
        if resource.kind.is_builtin() {
            return Ok(Some(BUILTIN_PATH.to_owned()));
        }
        let kind = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let definitions = host_object::resource(kind, "customresourcedefinitions", false);
        let key = Key::new(None, &webhooks::definition(&resource.kind, &resource.served()));
        let definition = self.get(&definitions, &key, permit).await?;
        let definition: Definition =
            serde_json::from_str(&definition).map_err(|error| unreadable(&definitions, &key, &error))?;
        Ok(definition.replicas_path(&resource.kind.version))
    }
}

fn unreadable(resource: &Resource, key: &Key, error: &serde_json::Error) -> ApiError {
    ApiError::unreadable("get", resource.reference(key).to_string(), error)
}

/// A CustomResourceDefinition, as far as it says how objects are scaled.
#[derive(Deserialize)]
struct Definition {
    spec: Versions,
}

#[derive(Deserialize)]
struct Versions {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    subresources: Subresources,
}

#[derive(Default, Deserialize)]
struct Subresources {
    scale: Option<Scale>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scale {
    spec_replicas_path: String,
}

impl Definition {
    fn replicas_path(self, version: &str) -> Option<String> {
        let mut versions = self.spec.versions.into_iter();
        Some(versions.find(|one| one.name == version)?.subresources.scale?.spec_replicas_path)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::{StatusCode, Uri};
    use serde_json::json;

    use super::*;
    use crate::apply::tests::Scene;

    fn resource(group: &str, version: &str) -> Resource {
        host_object::resource(Kind::new(group, version, "Cache"), "caches", true)
    }

    async fn read(resource: &Resource) -> Result<Scalable, ApiError> {
        let version = |name: &str, subresources: Value| json!({ "name": name, "subresources": subresources });
        let scale = |path: &str| json!({ "status": {}, "scale": { "specReplicasPath": path } });
        let versions =
            json!([version("v1", scale(".spec.size")), version("v2", scale(".spec.replicas")), { "name": "v3" }]);
        let definition = json!({ "spec": { "versions": versions } });
        let answer = async move |uri: Uri| match uri.path() {
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/caches.g.example.com" => {
                (StatusCode::OK, definition.to_string())
            }
            path if path.ends_with("/namespaces/shop/caches/a") => (StatusCode::OK, json!({ "spec": 1 }).to_string()),
            _ => (StatusCode::NOT_FOUND, json!({ "code": 404, "message": "no" }).to_string()),
        };
        let scene = Scene::new(("g.example.com", "Cache", "caches"), Router::new().fallback(answer)).await;
        scene.writer.read_scalable(resource, &Key::new(Some("shop"), "a")).await
    }

    #[tokio::test]
    async fn the_field_of_the_replicas_is_that_of_the_version() {
        for (group, version, path) in [
            ("g.example.com", "v1", Some(".spec.size")),
            ("g.example.com", "v2", Some(".spec.replicas")),
            ("g.example.com", "v3", None),
            ("g.example.com", "v4", None),
            ("apps", "v1", Some(".spec.replicas")),
        ] {
            let read = read(&resource(group, version)).await.unwrap();
            assert_eq!(read.replicas_path.as_deref(), path, "{group} {version}");
            assert_eq!(read.stored, json!({ "spec": 1 }));
        }
    }

    #[tokio::test]
    async fn without_the_definition_it_is_not_known_what_a_scale_sets() {
        assert_eq!(read(&resource("other.example.com", "v1")).await.unwrap_err().code, 404);
    }
}
