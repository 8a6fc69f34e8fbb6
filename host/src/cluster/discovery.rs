//! Kinds as the API server knows them: their plural, their scope, their status subresource.

use std::sync::Arc;

use hashbrown::HashMap;
use http::Method;
use kube::core::ApiResource;
use parking_lot::RwLock;
use serde::Deserialize;

use crate::cluster::client::{Call, Cluster};
use crate::cluster::error::ApiError;
use crate::cluster::identity::{Identity, Permit};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::object::Key;

/// A kind as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The kind.
    pub kind: Kind,
    /// For example `deployments`.
    pub plural: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// Whether it has the subresource `status`.
    pub has_status: bool,
}

impl Resource {
    /// The path of an object, without query.
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

    fn collection(&self, namespace: Option<&str>) -> String {
        let group = group_path(&self.kind);
        match namespace {
            Some(namespace) => format!("{group}/namespaces/{namespace}/{}", self.plural),
            None => format!("{group}/{}", self.plural),
        }
    }

    /// As the watch client wants it.
    pub fn to_api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.kind.group.to_string(),
            version: self.kind.version.to_string(),
            api_version: self.kind.api_version(),
            kind: self.kind.kind.to_string(),
            plural: self.plural.clone(),
        }
    }

    /// The reference of one of its objects.
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
struct Listed {
    name: String,
    kind: String,
    namespaced: bool,
}

/// What is known of the kinds that plugins use.
#[derive(Default)]
pub struct Kinds {
    known: RwLock<HashMap<Kind, Arc<Resource>>>,
}

impl Kinds {
    /// A kind that was found before.
    pub fn get(&self, kind: &Kind) -> Option<Arc<Resource>> {
        self.known.read().get(kind).cloned()
    }

    /// Asks the API server for a kind.
    ///
    /// # Errors
    /// When it has none such (404), or does not answer.
    pub async fn find(&self, cluster: &Cluster, kind: &Kind) -> Result<Arc<Resource>, ApiError> {
        match self.get(kind) {
            Some(known) => Ok(known),
            None => self.find_anew(cluster, kind).await,
        }
    }

    /// The same of a kind that may have changed, for its definition can be deleted and made anew. What
    /// was known stays where it is not found.
    ///
    /// # Errors
    /// As for [`Kinds::find`].
    pub async fn find_anew(&self, cluster: &Cluster, kind: &Kind) -> Result<Arc<Resource>, ApiError> {
        let found = Arc::new(discover(cluster, kind).await?);
        self.known.write().insert(kind.clone(), found.clone());
        Ok(found)
    }
}

async fn discover(cluster: &Cluster, kind: &Kind) -> Result<Resource, ApiError> {
    let call = Call {
        verb: "discover",
        target: kind,
        method: Method::GET,
        uri: group_path(kind),
        content_type: "application/json",
        body: Vec::new(),
    };
    let missing = |message: String| ApiError::new("discover", kind.to_string(), 404, "NotFound", message);
    let text = cluster.send(call, &Identity::Host, &Permit::unlimited()).await?;
    let list: ResourceList = serde_json::from_str(&text).map_err(|error| missing(error.to_string()))?;
    let is_kind = |listed: &&Listed| *listed.kind == *kind.kind && !listed.name.contains('/');
    let listed = list
        .resources
        .iter()
        .find(is_kind)
        .ok_or_else(|| missing(format!("the API server has no {} in {}", kind.kind, kind.api_version())))?;
    Ok(Resource {
        kind: kind.clone(),
        plural: listed.name.clone(),
        namespaced: listed.namespaced,
        has_status: list.resources.iter().any(|other| other.name == format!("{}/status", listed.name)),
    })
}
