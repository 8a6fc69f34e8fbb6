//! The `NginxServer` resource.

use serde::{Deserialize, Serialize};

/// The group of the resource.
pub const GROUP: &str = "web.example.com";

/// The version that is stored and watched.
pub const VERSION: &str = "v1";

/// The kind of the resource.
pub const KIND: &str = "NginxServer";

/// A number of nginx servers.
#[derive(Clone, Debug, Deserialize)]
pub struct NginxServer {
    /// The desired state.
    #[serde(default)]
    pub spec: NginxServerSpec,
}

/// The desired state of an NginxServer.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(default)]
pub struct NginxServerSpec {
    /// The number of servers.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 10)))]
    pub replicas: i32,

    /// The image that the servers run.
    #[cfg_attr(feature = "crd", schemars(length(min = 1)))]
    pub image: String,
}

/// The API server fills the defaults in; they stand here for the CRD and for objects that were
/// stored before a default existed.
impl Default for NginxServerSpec {
    fn default() -> Self {
        Self { replicas: 1, image: "nginx:latest".to_owned() }
    }
}

/// The plugin's configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Config {
    /// Whether a new image is checked.
    pub validation: bool,
    /// The tag of images that name none.
    pub default_tag: Option<String>,
}

/// The JSON schema of [`Config`].
pub const CONFIG_SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "validation": {
      "type": "boolean",
      "description": "Whether an image that is none is refused, and one without a version warned of."
    },
    "defaultTag": {
      "type": ["string", "null"],
      "description": "The tag that is filled in where an image has none, for example 1.27."
    }
  }
}"#;

/// The observed state of an NginxServer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NginxServerStatus {
    /// The number of servers that are available.
    pub available_replicas: i32,

    /// The names of the Pods that run the servers, sorted. Pods that are being deleted are not
    /// among them.
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "atomic")))]
    pub pod_names: Vec<String>,
}
