//! Reads a pull secret of the host's namespace by name, as the host: the Secret belongs to an administrator and not to
//! a plugin.

use k8s_openapi::api::core::v1::Secret;

use crate::client::{ApiCall, Cluster};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};

/// The key of a Secret of the type `kubernetes.io/dockerconfigjson`.
const KEY: &str = ".dockerconfigjson";

/// Returns the Docker configuration in a Secret; `None` if the Secret has none.
///
/// # Errors
/// The API server's error, such as that there is no such Secret, or that the reply is no Secret.
pub async fn read(cluster: &Cluster, namespace: &str, name: &str) -> Result<Option<Vec<u8>>, ApiError> {
    let target = format!("Secret {namespace}/{name}");
    let call = ApiCall::get("get", &target, format!("/api/v1/namespaces/{namespace}/secrets/{name}"));
    let text = cluster.send(call, &Identity::Host, &Permit::unlimited()).await?;
    let secret: Secret = serde_json::from_str(&text).map_err(|error| ApiError::unreadable("get", target, &error))?;
    Ok(secret.data.and_then(|mut data| data.remove(KEY)).map(|value| value.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served;

    #[tokio::test]
    async fn a_reply_that_is_no_secret_is_an_error_and_not_a_secret_without_content() {
        for (body, found) in [
            ("<html>a proxy", Err("Unreadable")),
            (r#"{"data": 1}"#, Err("Unreadable")),
            ("{}", Ok(None)),
            (r#"{"data": {".dockerconfigjson": "e30="}}"#, Ok(Some(b"{}".to_vec()))),
        ] {
            let cluster = served::by(axum::Router::new().fallback(move || async move { body })).await;
            let read = read(&cluster, "hotshoe", "pull").await.map_err(|error| error.reason);
            assert_eq!(read, found.map_err(str::to_owned), "{body}");
        }
    }
}
