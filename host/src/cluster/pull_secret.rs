//! Reads a pull secret of the host's namespace by name, as the host: the Secret belongs to an administrator and not to
//! a plugin.

use http::Method;
use k8s_openapi::api::core::v1::Secret;

use crate::cluster::client::{ApiCall, Cluster};
use crate::cluster::error::ApiError;
use crate::cluster::identity::{Identity, Permit};

/// The key of a Secret of the type `kubernetes.io/dockerconfigjson`.
const KEY: &str = ".dockerconfigjson";

/// Returns the Docker configuration in a Secret; `None` if the Secret has none.
///
/// # Errors
/// The API server's error, such as that there is no such Secret.
pub async fn read(cluster: &Cluster, namespace: &str, name: &str) -> Result<Option<Vec<u8>>, ApiError> {
    let target = format!("Secret {namespace}/{name}");
    let call = ApiCall {
        verb: "get",
        target: &target,
        method: Method::GET,
        uri: format!("/api/v1/namespaces/{namespace}/secrets/{name}"),
        content_type: "",
        body: Vec::new(),
    };
    let text = cluster.send(call, &Identity::Host, &Permit::unlimited()).await?;
    let secret: Secret = serde_json::from_str(&text).unwrap_or_default();
    Ok(secret.data.and_then(|mut data| data.remove(KEY)).map(|value| value.0))
}
