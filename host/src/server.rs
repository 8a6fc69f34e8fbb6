//! What the host tells about itself over HTTP: metrics, health, readiness, status; and the wish to
//! look at a component now.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::metrics::Metrics;
use crate::supervisor::{PluginStatus, Supervised, Wish};

/// What the server tells about.
#[derive(Clone)]
pub struct About {
    /// The plugins.
    pub plugins: Arc<[Arc<Supervised>]>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The kubeconfig context.
    pub context: String,
}

/// The answer to `/status`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// The host's version.
    pub version: &'static str,
    /// The kubeconfig context.
    pub context: String,
    /// Whether every plugin decides.
    pub ready: bool,
    /// The plugins.
    pub plugins: Vec<PluginStatus>,
}

/// An error in words, for `/reload`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// What happened, to what, and what to do next.
    pub error: String,
}

/// Serves until the process ends. Returns the address, for port 0.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(listen: SocketAddr, about: About) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!(
            "cannot listen on {listen}: another host may run; choose another address with --listen, 127.0.0.1:0 for any"
        )
    })?;
    let address = listener.local_addr()?;
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/status", get(status))
        .route("/reload/{plugin}", post(reload))
        .route("/rollback/{plugin}", post(roll_back))
        .route("/approve/{plugin}", post(approve))
        .route("/history/{plugin}", get(history))
        .with_state(about);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "the HTTP server ended");
        }
    });
    Ok(address)
}

async fn metrics(State(about): State<About>) -> Response {
    for plugin in about.plugins.iter() {
        about.metrics.breaker(&plugin.controller.plugin.name, plugin.status().breaker.state);
    }
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], about.metrics.encode()).into_response()
}

/// Ready means that every plugin decides and every cache follows the API server; otherwise it says
/// which does not, and why.
async fn ready(State(about): State<About>) -> (StatusCode, String) {
    let waiting: Vec<String> = about.plugins.iter().map(|plugin| plugin.status()).filter_map(why_not_ready).collect();
    if waiting.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, waiting.join("\n") + "\n")
}

fn why_not_ready(status: PluginStatus) -> Option<String> {
    let waiting = status.waiting.unwrap_or_else(|| "it is starting".to_owned());
    (!status.ready).then(|| format!("plugin {}: {waiting}", status.name))
}

async fn status(State(about): State<About>) -> Json<HostStatus> {
    let plugins: Vec<_> = about.plugins.iter().map(|plugin| plugin.status()).collect();
    Json(HostStatus {
        version: env!("CARGO_PKG_VERSION"),
        context: about.context,
        ready: plugins.iter().all(|plugin| plugin.ready),
        plugins,
    })
}

/// Which revision is meant.
#[derive(Deserialize)]
struct Revision {
    digest: Option<String>,
}

async fn reload(about: State<About>, name: Path<String>) -> Response {
    fulfil(about, name, Wish::Reload).await
}

async fn roll_back(about: State<About>, name: Path<String>, Query(to): Query<Revision>) -> Response {
    fulfil(about, name, Wish::RollBack(to.digest)).await
}

async fn approve(about: State<About>, name: Path<String>, Query(which): Query<Revision>) -> Response {
    fulfil(about, name, Wish::Approve(which.digest)).await
}

async fn history(State(about): State<About>, Path(name): Path<String>) -> Response {
    match about.plugin(&name) {
        Ok(plugin) => Json(plugin.shown_history()).into_response(),
        Err(unknown) => unknown,
    }
}

async fn fulfil(State(about): State<About>, Path(name): Path<String>, wish: Wish) -> Response {
    let plugin = match about.plugin(&name) {
        Ok(plugin) => plugin,
        Err(unknown) => return unknown,
    };
    match plugin.wish(wish).await {
        Some(Ok(status)) => Json(status).into_response(),
        Some(Err(error)) => problem(StatusCode::CONFLICT, error),
        None => problem(StatusCode::SERVICE_UNAVAILABLE, "the host is shutting down".into()),
    }
}

fn problem(code: StatusCode, error: String) -> Response {
    (code, Json(Problem { error })).into_response()
}

impl About {
    /// A plugin by name.
    #[expect(clippy::result_large_err, reason = "the error is the response")]
    fn plugin(&self, name: &str) -> Result<&Arc<Supervised>, Response> {
        let found = self.plugins.iter().find(|plugin| *plugin.controller.plugin.name == *name);
        found.ok_or_else(|| {
            let known: Vec<_> = self.plugins.iter().map(|plugin| plugin.controller.plugin.name.to_string()).collect();
            problem(StatusCode::NOT_FOUND, format!("this host has no plugin {name}; it has {}", known.join(", ")))
        })
    }
}
