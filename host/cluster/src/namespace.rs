//! Warns if a namespace that the host watches does not exist: a list there returns no error, but nothing.

use std::time::Duration;

use crate::client::{ApiCall, Cluster};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use hotshoe_core::model::watched_namespaces::WatchedNamespaces;

/// The pause between two requests while the API server is unavailable.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Warns of each of these namespaces that does not exist. Does nothing if the host may not read it: the warning is not
/// worth a right of its own.
pub async fn warn_of_missing(cluster: Cluster, namespaces: WatchedNamespaces) {
    for namespace in namespaces.names() {
        warn_if_missing(&cluster, namespace).await;
    }
}

async fn warn_if_missing(cluster: &Cluster, namespace: &str) {
    loop {
        match find(cluster, namespace).await {
            Err(error) if error.is_not_found() => {
                tracing::warn!(
                    namespace,
                    "the namespace does not exist, so there is nothing to do in it: create it, or name another one with --namespace"
                );
                return;
            }
            Err(error) if error.is_transient() => tokio::time::sleep(RETRY_PAUSE).await,
            Ok(_) | Err(_) => return,
        }
    }
}

async fn find(cluster: &Cluster, namespace: &str) -> Result<String, ApiError> {
    let target = format!("Namespace {namespace}");
    let call = ApiCall::get("get", &target, format!("/api/v1/namespaces/{namespace}"));
    cluster.send(call, &Identity::Host, &Permit::unlimited()).await
}
