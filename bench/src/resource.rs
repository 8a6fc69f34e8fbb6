//! `Memcached` as a typed Kubernetes object, for the native operator and the raw writer.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

/// The finalizer that every subject holds.
pub const FINALIZER: &str = "cache.example.com/finalizer";
/// `apiVersion` of a `Memcached`.
pub const API_VERSION: &str = "cache.example.com/v1";

/// A set of Memcached servers.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Memcached {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: Spec,
    /// What is there.
    #[serde(default)]
    pub status: Option<Status>,
}

/// The desired state.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The number of servers.
    pub size: i32,
    /// Their port.
    pub container_port: i32,
}

/// What is there.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The names of the Pods.
    pub nodes: Vec<String>,
    /// How many of them are ready.
    pub ready_replicas: i32,
    /// Conditions, in the plugin's order.
    pub conditions: Vec<Condition>,
}

impl Memcached {
    /// The controller reference that a child of it carries.
    pub fn controller_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: "Memcached".to_owned(),
            name: self.name_any(),
            uid: self.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// The conditions that were written last.
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
    }
}

impl Resource for Memcached {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind(&(): &()) -> Cow<'_, str> {
        "Memcached".into()
    }

    fn group(&(): &()) -> Cow<'_, str> {
        "cache.example.com".into()
    }

    fn version(&(): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(&(): &()) -> Cow<'_, str> {
        "memcacheds".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
