//! The cheapest possible client: requests whose responses are read and dropped.

use std::path::Path;

use anyhow::{Context, Result, bail};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

/// `Content-Type` of an object.
pub const JSON: &str = "application/json";
/// `Content-Type` of a merge patch.
pub const MERGE: &str = "application/merge-patch+json";
/// `Content-Type` of a JSON patch.
pub const JSON_PATCH: &str = "application/json-patch+json";
/// `Content-Type` of a server-side apply.
pub const APPLY: &str = "application/apply-patch+yaml";

/// A client of one account.
#[derive(Clone)]
pub struct Client {
    /// For watches.
    pub kube: kube::Client,
}

impl Client {
    /// Builds a client for the current context of a kubeconfig.
    ///
    /// # Errors
    /// When it cannot be used.
    pub async fn of(kubeconfig: &Path) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // No retries, so that each call is exactly one request that is counted.
        config.default_retry = false;
        Ok(Self { kube: kube::Client::try_from(config)? })
    }

    /// Sends one request and drops the response.
    ///
    /// # Errors
    /// When the response is an error, with the API server's message.
    pub async fn send(&self, method: Method, path: &str, content_type: &str, body: Vec<u8>) -> Result<()> {
        self.exchange(method, path, content_type, body).await.map(drop)
    }

    /// Reads an object or a list.
    ///
    /// # Errors
    /// When the response is an error, with the API server's message.
    pub async fn get(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.exchange(Method::GET, path, JSON, Vec::new()).await?)?)
    }

    /// Sends one request and returns the body of the response.
    ///
    /// # Errors
    /// When the response is an error, with the server's message.
    pub async fn exchange(&self, method: Method, path: &str, content_type: &str, body: Vec<u8>) -> Result<Vec<u8>> {
        let what = format!("{method} {path}");
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type);
        let response = self.kube.send(request.body(Body::from(body))?).await.with_context(|| what.clone())?;
        let status = response.status();
        let bytes = response.into_body().collect().await.with_context(|| what.clone())?.to_bytes();
        if !status.is_success() {
            bail!("{what}: {status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes.into())
    }
}
