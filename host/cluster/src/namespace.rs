//! Finds out whether a namespace exists, and warns if one that the host watches does not: a list there returns no error,
//! but nothing.

use std::time::Duration;

use serde_json::Value;

use crate::client::{ApiCall, Cluster};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use hotshoe_core::model::watched_namespaces::WatchedNamespaces;

/// The pause between two requests while the API server is unavailable.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// What is known of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It exists.
    There,
    /// It is being deleted, so nothing can be created in it.
    Ending,
    /// It does not exist.
    Missing,
    /// The account may not read it.
    Unreadable,
}

/// Returns whether a namespace exists.
///
/// # Errors
/// When the API server does not answer, or answers with another error.
pub async fn presence(cluster: &Cluster, namespace: &str) -> Result<Presence, ApiError> {
    let text = match find(cluster, namespace).await {
        Err(error) if error.is_not_found() => return Ok(Presence::Missing),
        Err(error) if error.code == 403 => return Ok(Presence::Unreadable),
        found => found?,
    };
    let found: Value = serde_json::from_str(&text).unwrap_or_default();
    let is_ending = found.pointer("/metadata/deletionTimestamp").is_some();
    Ok(if is_ending { Presence::Ending } else { Presence::There })
}

/// Warns of each of these namespaces that does not exist. Does nothing if the host may not read it: the warning is not
/// worth a right of its own.
pub async fn warn_of_missing(cluster: Cluster, namespaces: WatchedNamespaces) {
    for namespace in namespaces.names() {
        warn_if_missing(&cluster, namespace).await;
    }
}

async fn warn_if_missing(cluster: &Cluster, namespace: &str) {
    loop {
        match presence(cluster, namespace).await {
            Ok(Presence::Missing) => {
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
