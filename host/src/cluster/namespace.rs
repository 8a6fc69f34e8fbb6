//! Whether the one namespace is there that is watched: a list in one that is not is empty, and no error.

use std::time::Duration;

use http::Method;

use crate::cluster::client::{Call, Cluster};
use crate::cluster::error::ApiError;
use crate::cluster::identity::{Identity, Permit};

/// How often an API server is asked that is away.
const AGAIN: Duration = Duration::from_secs(5);

/// Warns where it is not there. Who may not ask, as the host's own account, hears nothing: for the sake of a
/// warning no right is asked for.
pub async fn warn_of_missing(cluster: Cluster, namespace: String) {
    loop {
        match find(&cluster, &namespace).await {
            Err(error) if error.is_not_found() => {
                tracing::warn!(
                    namespace,
                    "there is no such namespace, so there is nothing to do: create it, or name another one with --namespace"
                );
                return;
            }
            Err(error) if error.is_transient() => tokio::time::sleep(AGAIN).await,
            Ok(_) | Err(_) => return,
        }
    }
}

async fn find(cluster: &Cluster, namespace: &str) -> Result<String, ApiError> {
    let call = Call {
        verb: "get",
        target: &format!("Namespace {namespace}"),
        method: Method::GET,
        uri: format!("/api/v1/namespaces/{namespace}"),
        content_type: "application/json",
        body: Vec::new(),
    };
    cluster.send(call, &Identity::Host, &Permit::unlimited()).await
}
