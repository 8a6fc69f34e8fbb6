//! The `Memcached` resource and the plugin's configuration. The CRD is printed from these types,
//! so their comments are what `kubectl explain` shows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "crd")]
use crate::ports::{MAX_PORTS, Port};

/// The group of the resource.
pub const GROUP: &str = "cache.example.com";

/// The version that is stored and watched.
pub const VERSION: &str = "v1";

/// The version of the Go tutorials, with the fields of [`VERSION`].
pub const V1ALPHA1: &str = "v1alpha1";

/// The version with other fields, which the plugin converts.
pub const V1BETA1: &str = "v1beta1";

/// The kind of the resource.
pub const KIND: &str = "Memcached";

/// A set of Memcached servers.
#[derive(Clone, Debug, Deserialize)]
pub struct Memcached {
    /// What of the metadata the plugin reads itself.
    #[serde(default)]
    pub metadata: Annotated,
    /// The desired state.
    #[serde(default)]
    pub spec: MemcachedSpec,
    /// The status as it was written last.
    #[serde(default)]
    pub status: Said,
}

/// The annotations of a Memcached.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Annotated {
    /// Only [`crate::ports::ANNOTATION`] is shown.
    pub annotations: BTreeMap<String, String>,
}

// In v1 and v1alpha1.
/// The desired state of a Memcached.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase", default)]
pub struct MemcachedSpec {
    /// The number of Memcached servers.
    pub size: i32,

    /// The port on which the container of each server is reached. The Service is always reached
    /// on port 11211.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 65535)))]
    pub container_port: i32,
}

/// The API server fills the defaults in; they stand here for the CRD and for objects that were
/// stored before a default existed.
impl Default for MemcachedSpec {
    fn default() -> Self {
        Self { size: 1, container_port: 11211 }
    }
}

// In v1beta1.
/// The desired state of a Memcached.
#[cfg(feature = "crd")]
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema, Serialize)]
#[serde(default)]
pub struct MemcachedV1beta1Spec {
    /// The number of Memcached servers.
    #[schemars(range(min = 0))]
    pub replicas: i32,

    /// The ports of the container of each server. The Service leads to the one named memcached, or
    /// else to the first, and is always reached on port 11211.
    #[schemars(length(min = 1, max = MAX_PORTS))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub ports: Vec<Port>,
}

/// The same defaults as those of the other versions.
#[cfg(feature = "crd")]
impl Default for MemcachedV1beta1Spec {
    fn default() -> Self {
        let MemcachedSpec { size, container_port } = MemcachedSpec::default();
        Self { replicas: size, ports: vec![Port::memcached(container_port)] }
    }
}

/// The observed state of a Memcached.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemcachedStatus {
    /// The names of the Pods that run the servers, sorted. Pods that are being deleted are not
    /// among them.
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "atomic")))]
    pub nodes: Vec<String>,

    /// The number of servers that are there, ready or not: as many as nodes.
    pub replicas: i32,

    /// The number of servers that are ready.
    pub ready_replicas: i32,

    /// The label selector of the Pods, as text, for autoscalers.
    pub selector: String,
}

/// What the plugin is shown of the status that was written last.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Said {
    /// Absent until the first status is written.
    pub nodes: Option<Vec<String>>,
}

/// The plugin's configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The image that the servers run. There is no default: without one the plugin says so.
    pub image: Option<String>,
    /// What is refused beyond the bounds of the versions.
    pub validation: Vec<Rule>,
    /// Whether a missing size is filled in.
    pub defaulting: bool,
}

/// A rule for a Memcached that is created or changed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// The size is an odd number, as in the tutorial of the Operator SDK.
    OddSize,
    /// The size is between 1 and 10, as in the tutorial of the Java Operator SDK.
    SizeUpTo10,
}

/// The JSON schema of [`Config`].
pub const CONFIG_SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "image": {
      "type": ["string", "null"],
      "description": "The image that the servers run, for example memcached:1.6-alpine."
    },
    "validation": {
      "type": "array",
      "items": { "enum": ["oddSize", "sizeUpTo10"] },
      "description": "What is refused when a Memcached is created or changed."
    },
    "defaulting": {
      "type": "boolean",
      "description": "Whether a missing size is filled in."
    }
  }
}"#;
