//! Connections to API servers of tests.

use axum::Router;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use hotshoe_cluster::client::{Cluster, ConnectOptions};

/// Writes the kubeconfig of an API server that speaks plain HTTP.
pub(crate) fn kubeconfig(address: &str) -> NamedTempFile {
    kubeconfig_of(&json!({ "server": format!("http://{address}") }))
}

/// Writes a kubeconfig with this cluster.
pub(crate) fn kubeconfig_of(cluster: &Value) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let kubeconfig = json!({
        "clusters": [{ "name": "a", "cluster": cluster }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        "users": [{ "name": "a", "user": {} }],
    });
    std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
    file
}

/// Returns how to connect by such a kubeconfig.
pub(crate) fn options(kubeconfig: &NamedTempFile) -> ConnectOptions {
    ConnectOptions { kubeconfig: Some(kubeconfig.path().to_owned()), context: Some("a".to_owned()) }
}

/// Connects to an API server.
pub(crate) async fn at(address: &str) -> Cluster {
    Cluster::connect(&options(&kubeconfig(address))).await.unwrap()
}

/// Serves an API server on loopback, and connects to it.
pub(crate) async fn by(server: Router) -> Cluster {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, server).await });
    at(&address.to_string()).await
}
