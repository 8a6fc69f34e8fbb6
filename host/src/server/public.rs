//! Serves metrics, health and readiness to every client of a port. Such a client learns that a plugin is not ready, but
//! not why: paths of files and messages of the API server are only shown by `hotshoe status`.

use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::cluster::lease_status::LeaseStatus;
use crate::server::About;

/// The path that Prometheus scrapes.
pub(super) const METRICS_PATH: &str = "/metrics";

/// Returns the route that Prometheus scrapes.
pub(super) fn metrics(about: About) -> Router {
    Router::new().route(METRICS_PATH, get(scraped)).with_state(about)
}

/// Returns the routes that a kubelet probes.
pub(super) fn probes(about: About) -> Router {
    Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(ready)).with_state(about)
}

async fn scraped(State(about): State<About>) -> Response {
    for plugin in about.fleet.all() {
        let controller = &plugin.controller;
        about.metrics.breaker(&controller.name, controller.breaker.shown(Instant::now()).state);
        let (waiting, running) = controller.queue.depth();
        about.metrics.queue(&controller.name, waiting, running);
        about.metrics.deleting(&controller.name, controller.deleting().map_or(0, |deleting| deleting.count));
        about.metrics.memory(&controller.name, &plugin.memory());
        let waiting = controller.slot.refused().is_some_and(|refused| refused.can_be_approved());
        about.metrics.waits_for_approval(&controller.name, waiting);
        about.metrics.stalled(&controller.name, controller.stalled().map_or(0, |stalled| stalled.count));
    }
    for LeaseStatus { name, held, seconds, .. } in about.leases.status() {
        about.metrics.lease(&name, held, seconds);
    }
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], about.metrics.encode()).into_response()
}

/// Answers whether the API server accepts the host's credentials, the `Plugin` objects are looked at, every plugin is
/// [ready](crate::fleet::Fleet::unready) and every Lease can be used, and otherwise names what is not. A standby host is
/// ready.
async fn ready(State(about): State<About>) -> (StatusCode, String) {
    if about.fleet.unknown_because().is_some() {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready: the Plugin objects are not known; `hotshoe status` says why\n".to_owned(),
        );
    }
    let stuck = about.fleet.stuck(Instant::now()).into_iter();
    let refused = about.credentials.unready().map(str::to_owned);
    let leases = about.leases.status().into_iter().filter(|lease| lease.unusable);
    let leases = leases.map(|lease| format!("Lease {}", lease.name));
    let waiting: Vec<String> = stuck.chain(refused).chain(about.fleet.unready()).chain(leases).collect();
    if waiting.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}; `hotshoe status` says why\n", waiting.join(", ")))
}
