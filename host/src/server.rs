//! What the host tells about itself over HTTP: metrics, health, readiness, status; and the wishes about
//! a plugin: `reload`, `rollback`, `approve`, `history` and `shadow`.
//!
//! The wishes are only for those who are on this machine, or whom the API server has let through with
//! `kubectl port-forward` or `exec`: they change which component decides, and one shows what is in objects.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Path, Query, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::LoadError;
use crate::metrics::Metrics;
use crate::shadow::{Line, NotRun, Turn};
use crate::supervisor::{PluginStatus, Supervised, Wish};

/// How much of an unwanted body is read, and for how long.
const DRAINED: usize = 8 << 20;
const DRAIN: Duration = Duration::from_secs(5);
/// How many lines of a shadow run wait for who reads them.
const LINES: usize = 16;

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

/// An error in words, in the place of whatever was asked for.
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
    let guarded = Router::new()
        .route("/reload/{plugin}", post(reload))
        .route("/rollback/{plugin}", post(roll_back))
        .route("/approve/{plugin}", post(approve))
        .route("/history/{plugin}", get(history))
        .route("/shadow/{plugin}", post(shadow))
        .layer(middleware::from_fn(from_here));
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/status", get(status))
        .merge(guarded)
        .with_state(about)
        .into_make_service_with_connect_info::<Ends>();
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "the HTTP server ended");
        }
    });
    Ok(address)
}

async fn metrics(State(about): State<About>) -> Response {
    for plugin in about.plugins.iter() {
        let controller = &plugin.controller;
        about.metrics.breaker(&controller.name, controller.breaker.shown(Instant::now()).state);
        let (waiting, running) = controller.queue.depth();
        about.metrics.queue(&controller.name, waiting, running);
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

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// Who calls.
    peer: IpAddr,
    /// Where it came in, as far as that is known.
    here: Option<IpAddr>,
}

impl Connected<IncomingStream<'_, TcpListener>> for Ends {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        let here = stream.io().local_addr().ok();
        Self { peer: stream.remote_addr().ip(), here: here.map(|address| address.ip()) }
    }
}

/// Lets nobody through but those who are here.
async fn from_here(ConnectInfo(ends): ConnectInfo<Ends>, request: Request, next: Next) -> Response {
    match why_not(ends, request.headers()) {
        None => next.run(request).await,
        Some(why) => {
            let error = format!("{} is not for you: {why}", request.uri().path());
            drain(request.into_body()).await;
            problem(StatusCode::FORBIDDEN, error)
        }
    }
}

/// Why a peer may not have a component run, or see what is in objects.
fn why_not(ends: Ends, headers: &HeaderMap) -> Option<String> {
    // A connection to [::] shows an IPv4 address as an IPv6 one.
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    // A mesh's proxy hands on what comes from far away, from a loopback address to the Pod's own.
    let Ends { peer, here } = ends;
    if !is_loopback(peer) || !here.is_some_and(is_loopback) {
        let here = here.map_or_else(|| "another address".to_owned(), |here| here.to_string());
        return Some(format!(
            "it answers only on a loopback address, and you come from {peer} to {here}; use `kubectl port-forward` or `kubectl exec`, or run hotshoe on the host's machine"
        ));
    }
    // A page that a browser here has open reaches loopback as well. It cannot leave this header out, or
    // say that it asks another host than the one whose name it made lead here.
    if headers.contains_key(header::ORIGIN) {
        return Some("it does not answer web pages".to_owned());
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let names_loopback = host.parse().is_ok_and(|host: Authority| is_name_of_loopback(host.host()));
    (!names_loopback).then(|| "it answers only as localhost, 127.0.0.1 or [::1] (the header Host)".to_owned())
}

fn is_name_of_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Who still sends when the answer comes does not read it, so what is not wanted is read and
/// dropped; no more of it than a component has by far, and not for long.
async fn drain(body: Body) {
    let all = async {
        let (mut body, mut length) = (body.into_data_stream(), 0);
        while let Some(Ok(bytes)) = body.next().await
            && length < DRAINED
        {
            length += bytes.len();
        }
    };
    drop(tokio::time::timeout(DRAIN, all).await);
}

fn problem(status: StatusCode, error: String) -> Response {
    (status, Json(Problem { error })).into_response()
}

impl About {
    fn plugin(&self, name: &str) -> Result<&Arc<Supervised>, String> {
        self.plugins.iter().find(|plugin| *plugin.controller.name == *name).ok_or_else(|| {
            let known: Vec<_> = self.plugins.iter().map(|plugin| plugin.controller.name.to_string()).collect();
            format!("this host has no plugin {name}; it has {}", known.join(", "))
        })
    }
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
        Err(unknown) => problem(StatusCode::NOT_FOUND, unknown),
    }
}

async fn fulfil(State(about): State<About>, Path(name): Path<String>, wish: Wish) -> Response {
    let plugin = match about.plugin(&name) {
        Ok(plugin) => plugin,
        Err(unknown) => return problem(StatusCode::NOT_FOUND, unknown),
    };
    match plugin.wish(wish).await {
        Some(Ok(status)) => Json(status).into_response(),
        Some(Err(error)) => problem(StatusCode::CONFLICT, error),
        None => problem(StatusCode::SERVICE_UNAVAILABLE, "the host is shutting down".into()),
    }
}

/// What `/shadow` may be asked beside its body.
#[derive(Deserialize)]
struct Wanted {
    /// Whether to tell how far the run has come, too.
    #[serde(default)]
    progress: bool,
}

async fn shadow(
    State(about): State<About>,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
    body: Body,
) -> Response {
    let plugin = match about.plugin(&name) {
        Ok(plugin) => plugin,
        Err(unknown) => return problem(StatusCode::NOT_FOUND, unknown),
    };
    let run = async {
        // Before the body: who has to wait does not fill the memory meanwhile.
        let turn = match Turn::take(plugin) {
            Ok(turn) => turn,
            Err(busy) => {
                drain(body).await;
                return Err(busy);
            }
        };
        let limit = plugin.plugin().limits.component_bytes.0;
        let bytes = to_bytes(body, usize::try_from(limit).unwrap_or(usize::MAX)).await;
        let bytes = bytes.map_err(|_| NotRun::NotRead { limit })?;
        turn.load(bytes.into()).await
    };
    match run.await {
        Ok(shadow) => {
            let (send, lines) = mpsc::channel(LINES);
            tokio::spawn(shadow.run(send));
            let content_type = [(header::CONTENT_TYPE, "application/jsonl")];
            (content_type, as_lines(lines, wanted.progress)).into_response()
        }
        Err(error) => problem(status_of(&error), error.to_string()),
    }
}

fn status_of(error: &NotRun) -> StatusCode {
    match error {
        NotRun::Busy(_) => StatusCode::CONFLICT,
        NotRun::NothingDecides(_) => StatusCode::SERVICE_UNAVAILABLE,
        NotRun::NotRead { .. } | NotRun::Load(LoadError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
        NotRun::Load(_) | NotRun::Watches(_) => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// A body of one JSON document a line. When its reader goes, so does the receiver, and the run ends.
fn as_lines(lines: mpsc::Receiver<Line>, progress: bool) -> Body {
    let next = move |mut lines: mpsc::Receiver<Line>| async move {
        loop {
            let line = lines.recv().await?;
            if matches!(line, Line::Progress { .. }) && !progress {
                continue;
            }
            // What we say ourselves is always JSON.
            let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
            return Some((Ok::<_, Infallible>(text), lines));
        }
    };
    Body::from_stream(futures::stream::unfold(lines, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(peer: &str, here: Option<&str>, headers: &[(header::HeaderName, &'static str)]) -> Option<String> {
        let ends = Ends { peer: peer.parse().unwrap(), here: here.map(|here| here.parse().unwrap()) };
        let value = header::HeaderValue::from_static;
        why_not(ends, &headers.iter().map(|(name, text)| (name.clone(), value(text))).collect())
    }

    fn to_localhost(peer: &str, here: &str) -> Option<String> {
        asked(peer, Some(here), &[(header::HOST, "localhost:8080")])
    }

    #[test]
    fn who_is_on_loopback_is_let_through() {
        for address in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(to_localhost(address, address), None, "{address}");
        }
    }

    #[test]
    fn who_is_elsewhere_is_told_how_to_come_here() {
        for address in ["10.0.0.7", "192.168.1.2", "0.0.0.0", "fe80::1", "::ffff:10.0.0.7", "2001:db8::1"] {
            let why = to_localhost(address, "127.0.0.1").unwrap();
            assert!(why.contains("loopback") && why.contains("port-forward"), "{address}: {why}");
        }
    }

    #[test]
    fn a_proxy_on_loopback_that_hands_on_what_came_to_the_pod_is_elsewhere() {
        for here in ["10.0.0.7", "::ffff:10.0.0.7", "2001:db8::1"] {
            let why = to_localhost("127.0.0.6", here).unwrap();
            assert!(why.contains("127.0.0.6") && why.contains(here), "{why}");
        }
        assert!(asked("127.0.0.1", None, &[(header::HOST, "localhost")]).is_some(), "nobody knows where it came in");
    }

    #[test]
    fn a_web_page_is_refused_wherever_its_browser_is() {
        for origin in ["https://example.com", "http://127.0.0.1:8080", "null"] {
            let headers = [(header::HOST, "localhost"), (header::ORIGIN, origin)];
            assert!(asked("127.0.0.1", Some("127.0.0.1"), &headers).is_some_and(|why| why.contains("web pages")));
        }
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_is_refused() {
        let named = |host: &'static str| asked("127.0.0.1", Some("127.0.0.1"), &[(header::HOST, host)]);
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080", "127.0.0.2:80"] {
            assert_eq!(named(host), None, "{host}");
        }
        for host in
            ["example.com", "localhost.example.com:8080", "127.0.0.1.example.com", "10.0.0.7", "0.0.0.0", "", " "]
        {
            assert!(named(host).is_some_and(|why| why.contains("localhost")), "{host}");
        }
        assert!(asked("127.0.0.1", Some("127.0.0.1"), &[]).is_some(), "without any");
    }
}
