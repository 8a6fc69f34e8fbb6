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
#[serde(default)]
pub struct NginxServerSpec {
    /// The number of servers.
    pub replicas: i32,

    /// The image that the servers run.
    pub image: String,
}

/// The API server fills the defaults in; they stand here for the CRD and for objects that were
/// stored before a default existed.
impl Default for NginxServerSpec {
    fn default() -> Self {
        Self { replicas: 1, image: "nginx:latest".to_owned() }
    }
}

/// The observed state of an NginxServer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NginxServerStatus {
    /// The number of servers that are available.
    pub available_replicas: i32,

    /// The names of the Pods that run the servers, sorted. Pods that are being deleted are not
    /// among them.
    pub pod_names: Vec<String>,
}
