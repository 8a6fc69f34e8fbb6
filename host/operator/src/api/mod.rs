//! What a host answers on its socket. The server writes these types, and the command line reads them.

pub mod explain;
pub mod history;
pub mod shadow;
pub mod status;

use serde::{Deserialize, Serialize};

use crate::api::status::PluginStatus;
use hotshoe_cluster::lease_status::LeaseStatus;

/// The answer to `/status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// The host's version.
    pub version: String,
    /// The kubeconfig context.
    pub context: String,
    /// Whether the host is ready, as `/readyz` answers.
    pub ready: bool,
    /// Why the plugins of the host are not known, if `Plugin` objects describe them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The Leases by which several hosts share the work; none for a single host.
    #[serde(default)]
    pub leases: Vec<LeaseStatus>,
    /// The plugins.
    pub plugins: Vec<PluginStatus>,
}

/// The answer to a request that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// What happened, to what, and what to do next.
    pub error: String,
}
