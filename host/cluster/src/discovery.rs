//! Kinds as the API server serves them: plural, scope and status subresource. Without an API server, derives plural and
//! scope by convention.

use std::sync::Arc;

use hashbrown::HashMap;
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::RwLock;
use serde::Deserialize;

use crate::client::{ApiCall, Cluster};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use crate::status_schema::StatusSchemas;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::{Key, Kind, ObjectRef};
use hotshoe_core::rbac::Served;

/// The built-in kinds without a namespace. All other kinds are assumed to have one.
const WITHOUT_NAMESPACE: [&str; 22] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "IPAddress",
    "IngressClass",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "ServiceCIDR",
    "StorageClass",
    "VolumeAttachment",
];

/// A kind as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The kind.
    pub kind: Kind,
    /// The name in paths, such as `deployments`.
    pub plural: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// Whether the kind has a `status` subresource that a plugin may write: for built-in kinds, only Kubernetes' own
    /// controllers write it.
    pub has_status: bool,
    /// Whether the kind has a `scale` subresource, by which others set the number of replicas.
    pub has_scale: bool,
    /// Whether objects are stored in another version of the kind, so that the API server converts those that are read.
    pub is_converted: bool,
}

impl Resource {
    /// Returns the path of an object or a subresource of it, without a query.
    pub fn path(&self, key: &Key, subresource: Option<&str>) -> String {
        let mut path = self.collection(key.namespace.as_deref());
        path.push('/');
        path.push_str(&key.name);
        if let Some(subresource) = subresource {
            path.push('/');
            path.push_str(subresource);
        }
        path
    }

    /// Returns the path of all objects of a namespace, or of all namespaces, without a query.
    pub(super) fn collection(&self, namespace: Option<&str>) -> String {
        let group = group_path(&self.kind);
        match namespace {
            Some(namespace) => format!("{group}/namespaces/{namespace}/{}", self.plural),
            None => format!("{group}/{}", self.plural),
        }
    }

    /// Converts the resource for the watch client.
    pub fn to_api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.kind.group.to_string(),
            version: self.kind.version.to_string(),
            api_version: self.kind.api_version(),
            kind: self.kind.kind.to_string(),
            plural: self.plural.clone(),
        }
    }

    /// Returns whether the kind should have a `status` subresource and has none.
    pub fn lacks_status(&self) -> bool {
        !self.has_status && !self.kind.is_builtin()
    }

    /// Returns the name in paths and the scope.
    pub fn served(&self) -> Served {
        Served { plural: self.plural.clone(), namespaced: self.namespaced }
    }

    /// Returns the reference of one of its objects.
    pub fn reference(&self, key: &Key) -> ObjectRef {
        ObjectRef { kind: self.kind.clone(), namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

fn group_path(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    }
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: String,
    kind: String,
    namespaced: bool,
    /// A fingerprint of the version in which objects are stored.
    #[serde(default)]
    storage_version_hash: String,
}

/// The kinds that were discovered so far.
#[derive(Default)]
pub struct Kinds {
    known: RwLock<HashMap<Kind, Arc<Resource>>>,
    /// What the schemas of those kinds have room for that are parents.
    pub statuses: StatusSchemas,
}

impl Kinds {
    /// Returns a kind that was discovered before.
    pub fn get(&self, kind: &Kind) -> Option<Arc<Resource>> {
        self.known.read().get(kind).cloned()
    }

    /// Returns whether the objects of a kind are in namespaces; none if the kind was not discovered before.
    pub fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        self.get(kind).map(|known| known.namespaced)
    }

    /// Returns a kind, and discovers it if it is not known.
    ///
    /// # Errors
    /// If the API server does not serve it (404), or does not answer.
    pub async fn find(&self, cluster: &Cluster, kind: &Kind) -> Result<Arc<Resource>, ApiError> {
        match self.get(kind) {
            Some(known) => Ok(known),
            None => self.find_anew(cluster, kind).await,
        }
    }

    /// Discovers a kind again, because its CRD may have been deleted and created with other properties. If that fails,
    /// the known kind is kept.
    ///
    /// # Errors
    /// As for [`Kinds::find`].
    pub async fn find_anew(&self, cluster: &Cluster, kind: &Kind) -> Result<Arc<Resource>, ApiError> {
        let found = Arc::new(discover(cluster, kind).await?);
        self.known.write().insert(kind.clone(), found.clone());
        self.statuses.follow(cluster, kind).await;
        Ok(found)
    }
}

pub(super) async fn discover(cluster: &Cluster, kind: &Kind) -> Result<Resource, ApiError> {
    let text = get(cluster, kind, group_path(kind)).await?;
    let list: ResourceList = serde_json::from_str(&text).map_err(|error| unreadable(kind, &error))?;
    let is_kind = |listed: &&Listed| *listed.kind == *kind.kind && !listed.name.contains('/');
    let listed = list
        .resources
        .iter()
        .find(is_kind)
        .ok_or_else(|| missing(kind, format!("the API server has no {} in {}", kind.kind, kind.api_version())))?;
    let has =
        |subresource: &str| list.resources.iter().any(|other| other.name == format!("{}/{subresource}", listed.name));
    Ok(Resource {
        kind: kind.clone(),
        plural: listed.name.clone(),
        namespaced: listed.namespaced,
        has_status: !kind.is_builtin() && has("status"),
        has_scale: has("scale"),
        is_converted: ![String::new(), storage_version_hash(kind)].contains(&listed.storage_version_hash),
    })
}

/// Returns the fingerprint that the API server states for a kind whose objects are stored in this version.
fn storage_version_hash(kind: &Kind) -> String {
    let Kind { group, version, kind } = kind;
    Digest::of(format!("{group}/{version}/{kind}").as_bytes()).fingerprint()
}

/// Returns the plural and scope that a kind most likely has.
pub fn conventional(kind: &Kind) -> Served {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind));
    let is_builtin = !kind.group.contains('.') || kind.group.ends_with(".k8s.io");
    Served { plural: resource.plural, namespaced: !is_builtin || !WITHOUT_NAMESPACE.contains(&&*kind.kind) }
}

/// Returns the plural and scope of a kind, in any served version if it names none.
///
/// # Errors
/// If the API server does not serve it (404), or does not answer.
pub async fn find_in_any_version(cluster: &Cluster, kinds: &Kinds, kind: &Kind) -> Result<Served, ApiError> {
    let versions = match (&*kind.version, &*kind.group) {
        ("", "") => vec!["v1".to_owned()],
        ("", group) => versions(cluster, group).await?,
        (version, _) => vec![version.to_owned()],
    };
    let mut last = missing(kind, format!("the API server has no {kind}"));
    for version in versions {
        match kinds.find(cluster, &Kind::new(&kind.group, &version, &kind.kind)).await {
            Ok(found) => return Ok(found.served()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns the versions in which a custom resource is served.
///
/// # Errors
/// If the API server does not answer.
pub(super) async fn served_versions(cluster: &Cluster, kind: &Kind) -> Result<Vec<String>, ApiError> {
    let mut served = Vec::new();
    for version in versions(cluster, &kind.group).await? {
        // A group may have versions of other kinds alone.
        match discover(cluster, &Kind::new(&kind.group, &version, &kind.kind)).await {
            Ok(_) => served.push(version),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(served)
}

async fn versions(cluster: &Cluster, group: &str) -> Result<Vec<String>, ApiError> {
    #[derive(Deserialize)]
    struct Group {
        versions: Vec<GroupVersion>,
    }
    #[derive(Deserialize)]
    struct GroupVersion {
        version: String,
    }
    let text = get(cluster, &group, format!("/apis/{group}")).await?;
    let group: Group = serde_json::from_str(&text).map_err(|error| unreadable(&group, &error))?;
    Ok(group.versions.into_iter().map(|version| version.version).collect())
}

async fn get(cluster: &Cluster, target: &(dyn std::fmt::Display + Sync), uri: String) -> Result<String, ApiError> {
    cluster.send(ApiCall::get("discover", target, uri), &Identity::Host, &Permit::unlimited()).await
}

fn unreadable(target: &dyn std::fmt::Display, error: &serde_json::Error) -> ApiError {
    ApiError::unreadable("discover", target.to_string(), error)
}

fn missing(kind: &Kind, message: String) -> ApiError {
    ApiError::new("discover", kind.to_string(), 404, "NotFound", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::served;

    #[tokio::test]
    async fn a_reply_that_is_no_list_of_kinds_does_not_mean_that_a_kind_is_not_served() {
        let cluster = served::by(axum::Router::new().fallback(|| async { "<html>a proxy" })).await;
        for version in ["", "v1"] {
            let kind = Kind::new("cache.example.com", version, "Memcached");
            let error = find_in_any_version(&cluster, &Kinds::default(), &kind).await.unwrap_err();
            assert!(error.reason == "Unreadable" && !error.is_not_found(), "{error}");
        }
    }

    #[tokio::test]
    async fn a_kind_is_served_in_those_versions_of_its_group_that_have_it() {
        let group = json!({ "versions": [{ "version": "v2" }, { "version": "v1" }, { "version": "v1alpha1" }] });
        let of_version = |kind: &str| {
            let listed = json!({ "name": "crews", "kind": kind, "namespaced": true });
            axum::Json(json!({ "resources": [listed, { "name": "crews/status", "kind": kind, "namespaced": true }] }))
        };
        let answer = async move |uri: axum::http::Uri| match uri.path() {
            "/apis/g.example.com" => axum::Json(group.clone()),
            "/apis/g.example.com/v1alpha1" => of_version("Other"),
            _ => of_version("Crew"),
        };
        let cluster = served::by(axum::Router::new().fallback(answer)).await;
        let versions = served_versions(&cluster, &Kind::new("g.example.com", "v1", "Crew")).await.unwrap();
        assert_eq!(versions, ["v2", "v1"]);
    }

    #[test]
    fn the_fingerprint_of_a_stored_version_is_that_of_the_api_server() {
        // As `kubectl get --raw /api/v1` shows it.
        assert_eq!(storage_version_hash(&Kind::new("", "v1", "Pod")), "xPOwRZ+Yhw8=");
    }

    #[test]
    fn plurals_and_scopes_follow_the_rules_of_kubernetes() {
        for (group, kind, plural, namespaced) in [
            ("apps", "Deployment", "deployments", true),
            ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
            ("networking.k8s.io", "Ingress", "ingresses", true),
            ("networking.k8s.io", "IngressClass", "ingressclasses", false),
            ("", "Endpoints", "endpoints", true),
            ("", "Namespace", "namespaces", false),
            ("cache.example.com", "Memcached", "memcacheds", true),
            ("fleet.example.com", "Node", "nodes", true),
        ] {
            let expected = Served { plural: plural.into(), namespaced };
            assert_eq!(conventional(&Kind::new(group, "v1", kind)), expected, "{group} {kind}");
        }
    }
}
