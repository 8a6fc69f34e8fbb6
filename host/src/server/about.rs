//! What the server serves: the state of a host, as its other tasks change it.

use std::sync::Arc;

use crate::cluster::credentials::Credentials;
use crate::cluster::lease::Leases;
use crate::fleet::Fleet;
use crate::telemetry::metrics::Metrics;

/// What the server serves.
#[derive(Clone)]
pub struct About {
    /// The plugins.
    pub fleet: Arc<Fleet>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The Leases.
    pub leases: Arc<Leases>,
    /// Whether the API server accepts the host's credentials.
    pub credentials: Arc<Credentials>,
    /// The kubeconfig context.
    pub context: String,
}
