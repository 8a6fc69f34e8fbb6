//! What the server serves: the state of a host, as its other tasks change it.

use std::sync::Arc;

use hotshoe_cluster::credentials::Credentials;
use hotshoe_cluster::lease::Leases;
use hotshoe_operator::fleet::Fleet;
use hotshoe_operator::telemetry::metrics::Metrics;

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

impl Default for About {
    /// Returns what a host serves that has no plugins, no Leases and no cluster.
    fn default() -> Self {
        Self {
            fleet: Arc::new(Fleet::of([])),
            metrics: Arc::default(),
            leases: Arc::new(Leases::none()),
            credentials: Arc::default(),
            context: String::new(),
        }
    }
}
