//! Serves metrics, health and readiness to every client of a port. Such a client learns that a plugin is not ready, but
//! not why: paths of files and messages of the API server are only shown by `hotshoe status`.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::server::about::About;
use crate::server::readiness::Readiness;
use hotshoe_cluster::lease_status::LeaseStatus;
use hotshoe_operator::config::CONCURRENCY;
use hotshoe_operator::rollout::managed_plugin::ManagedPlugin;

/// The path that Prometheus scrapes.
pub(super) const METRICS_PATH: &str = "/metrics";
/// The content types of the two formats.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the route that Prometheus scrapes.
pub(super) fn metrics(about: About) -> Router {
    Router::new().route(METRICS_PATH, get(scraped)).with_state(about)
}

/// Returns the routes that a kubelet probes.
pub(super) fn probes(readiness: Arc<Readiness>) -> Router {
    let ready = |State(readiness): State<Arc<Readiness>>| async move { readiness.answer(Instant::now()) };
    let alive = |State(readiness): State<Arc<Readiness>>| async move { readiness.answer_alive(Instant::now()) };
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready)).with_state(readiness)
}

/// Sets the gauges, which costs nothing by the parent, and returns all metrics.
async fn scraped(State(about): State<About>, headers: HeaderMap) -> Response {
    let plugins = about.fleet.all();
    for plugin in &plugins {
        let (controller, survey) = (&plugin.controller, plugin.controller.survey());
        about.metrics.breaker(&controller.name, &controller.health.breaker.shown(Instant::now()));
        about.metrics.queue(&controller.name, &controller.queue.load(), CONCURRENCY);
        about.metrics.deleting(&controller.name, survey.deleting.as_ref().map_or(0, |deleting| deleting.count));
        about.metrics.memory(&controller.name, &plugin.memory());
        let waiting = plugin.refused().is_some_and(|refused| refused.can_be_approved());
        about.metrics.waits_for_approval(&controller.name, waiting);
        if let Some(active) = controller.active() {
            about.metrics.reduced(&controller.name, active.cut(), active.without_parent());
        }
        about.metrics.stalled(&controller.name, survey.stalled.as_ref().map_or(0, |stalled| stalled.count));
    }
    forget_removed(&about, &plugins);
    for LeaseStatus { name, held, seconds, .. } in about.leases.status() {
        about.metrics.lease(&name, held, seconds);
    }
    let table = about.metrics.table();
    let (content_type, text) = match accepts_open_metrics(&headers) {
        true => (OPEN_METRICS, table.open_metrics()),
        false => (TEXT, table.text()),
    };
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

/// Returns whether a client reads OpenMetrics, as Prometheus does. Others may read only the older format.
fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accepted| accepted.to_str().ok());
    accepted.any(|accepted| accepted.contains("application/openmetrics-text"))
}

/// Removes the gauges of plugins that the host's thread has removed meanwhile.
fn forget_removed(about: &About, shown: &[Arc<ManagedPlugin>]) {
    let present = about.fleet.all();
    let is_present = |name: &Arc<str>| present.iter().any(|plugin| plugin.controller.name == *name);
    let removed = shown.iter().map(|plugin| &plugin.controller.name).filter(|name| !is_present(name));
    removed.for_each(|name| about.metrics.forget(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_open_metrics_only_if_it_asks_for_them() {
        let asking = |accepted: &'static str| {
            accepts_open_metrics(&HeaderMap::from_iter([(header::ACCEPT, header::HeaderValue::from_static(accepted))]))
        };
        assert!(asking("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75"));
        assert!(asking("text/plain;version=0.0.4;q=0.5,application/openmetrics-text; version=1.0.0"));
        assert!(!asking("*/*") && !asking("text/plain") && !accepts_open_metrics(&HeaderMap::new()));
    }
}
