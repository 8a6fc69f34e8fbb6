//! Serves metrics, health and readiness to every client of a port. Such a client learns that a plugin is not ready, but
//! not why: paths of files and messages of the API server are only shown by `hotshoe status`.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::task::JoinError;

use crate::server::about::About;
use crate::server::coding::Coding;
use crate::server::readiness::Readiness;
use crate::server::turns::Turns;
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
    let scraped = |State((about, turns)): State<(About, Turns<Answer>)>, headers: HeaderMap| async move {
        let answer = Answer { format: Format::of(&headers), coding: Coding::of(&headers) };
        answer.respond(turns.answer(answer, move || answer.encode(&about)).await)
    };
    Router::new().route(METRICS_PATH, get(scraped)).with_state((about, Turns::default()))
}

/// Returns the routes that a kubelet probes.
pub(super) fn probes(readiness: Arc<Readiness>) -> Router {
    let ready = |State(readiness): State<Arc<Readiness>>| async move { readiness.answer(Instant::now()) };
    let alive = |State(readiness): State<Arc<Readiness>>| async move { readiness.answer_alive(Instant::now()) };
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready)).with_state(readiness)
}

/// How the metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Format {
    OpenMetrics,
    /// The older one, which every scraper reads.
    Text,
}

impl Format {
    /// Returns OpenMetrics for a client that reads it, as Prometheus does. Others may read only the older format.
    fn of(headers: &HeaderMap) -> Self {
        let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accepted| accepted.to_str().ok());
        match accepted.any(|accepted| accepted.contains("application/openmetrics-text")) {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }
}

/// Which of the answers to a scrape a client is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Answer {
    format: Format,
    coding: Coding,
}

impl Answer {
    /// Sets the gauges, which costs nothing by the parent, and returns all metrics. With many plugins that takes
    /// milliseconds: not for the thread of the ports, on which reviews are answered too.
    fn encode(self, about: &About) -> Vec<u8> {
        set_gauges(about);
        let table = about.metrics.table();
        self.coding.encode(match self.format {
            Format::OpenMetrics => table.open_metrics(),
            Format::Text => table.text(),
        })
    }

    fn respond(self, encoded: Result<Bytes, JoinError>) -> Response {
        let Ok(encoded) = encoded else {
            return (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be encoded; see the log\n").into_response();
        };
        let content_type = match self.format {
            Format::OpenMetrics => OPEN_METRICS,
            Format::Text => TEXT,
        };
        let mut response = ([(header::CONTENT_TYPE, content_type), (header::VARY, "Accept, Accept-Encoding")], encoded)
            .into_response();
        if let Some(coding) = self.coding.header() {
            response.headers_mut().insert(header::CONTENT_ENCODING, coding);
        }
        response
    }
}

/// Sets the gauges that are found at each scrape.
fn set_gauges(about: &About) {
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
        about.metrics.refused(&controller.name, survey.refused);
    }
    forget_removed(about, &plugins);
    for LeaseStatus { name, held, seconds, .. } in about.leases.status() {
        about.metrics.lease(&name, held, seconds);
    }
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
    use std::io::Read;

    use axum::body::Body;
    use axum::http::{HeaderValue, Method, Request};
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    /// What Prometheus accepts.
    const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";

    #[test]
    fn a_client_gets_open_metrics_only_if_it_asks_for_them() {
        let asking = |accepted: &'static str| {
            Format::of(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accepted))]))
        };
        for accepted in [PROMETHEUS, "text/plain;version=0.0.4;q=0.5,application/openmetrics-text; version=1.0.0"] {
            assert_eq!(asking(accepted), Format::OpenMetrics);
        }
        assert_eq!([asking("*/*"), asking("text/plain"), Format::of(&HeaderMap::new())], [Format::Text; 3]);
    }

    #[tokio::test]
    async fn a_scraper_that_accepts_gzip_gets_the_text_of_others_packed() {
        let about = About::default();
        about.metrics.opened("memcached");
        let routes = metrics(about);
        let scraped = async |method: Method, format: &str, coding: Option<&str>| {
            let request = Request::builder().method(method).uri(METRICS_PATH).header(header::ACCEPT, format);
            let request = coding.into_iter().fold(request, |request, coding| request.header("accept-encoding", coding));
            let response = routes.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let (head, body) = response.into_parts();
            assert_eq!(head.status, StatusCode::OK);
            assert_eq!(head.headers[header::VARY], "Accept, Accept-Encoding");
            (head.headers, body.collect().await.unwrap().to_bytes())
        };
        // Those of the process change from one scrape to the next.
        let stable =
            |text: &str| text.lines().filter(|line| !line.starts_with("process_")).collect::<Vec<_>>().join("\n");
        for (format, content_type, end) in [(PROMETHEUS, OPEN_METRICS, "# EOF"), ("*/*", TEXT, "")] {
            let (headers, plain) = scraped(Method::GET, format, None).await;
            assert_eq!(headers[header::CONTENT_TYPE], content_type);
            assert_eq!(headers.get(header::CONTENT_ENCODING), None);
            let plain = stable(std::str::from_utf8(&plain).unwrap());
            assert!(plain.contains("openings_total{controller=\"memcached\"} 1\n") && plain.ends_with(end), "{plain}");
            let (headers, packed) = scraped(Method::GET, format, Some("deflate, gzip;q=0.9")).await;
            assert_eq!(headers[header::CONTENT_TYPE], content_type);
            assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
            let mut unpacked = String::new();
            GzDecoder::new(&*packed).read_to_string(&mut unpacked).unwrap();
            assert_eq!(stable(&unpacked), plain);
            let (headers, none) = scraped(Method::HEAD, format, Some("gzip")).await;
            assert!(none.is_empty() && headers[header::CONTENT_ENCODING] == "gzip", "{headers:?}");
            let (headers, again) = scraped(Method::GET, format, Some("gzip;q=0")).await;
            assert_eq!(headers.get(header::CONTENT_ENCODING), None);
            assert_eq!(stable(std::str::from_utf8(&again).unwrap()), plain);
        }
    }
}
