//! Serves the webhooks, which the API server calls about parents.
//!
//! | file | contents |
//! |---|---|
//! | `admission.rs` | `/validate/PLUGIN`: whether a proposed parent is admitted; `/mutate/PLUGIN`: what is filled into it |
//!
//! Clients are not authenticated, as with webhooks in general, so what waits for an answer is bounded in bytes and in
//! time.

mod admission;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};

use hotshoe_operator::fleet::Fleet;
use hotshoe_operator::telemetry::metrics::Metrics;

/// The memory for bodies that are received or answered at once, in KiB.
const BUDGET_KIB: u32 = 32 << 10;
/// How long a body may take to arrive. An API server sends it at once.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// What answers reviews.
pub(super) struct Webhooks {
    fleet: Arc<Fleet>,
    metrics: Arc<Metrics>,
    /// The host's thread, where plugins are called.
    host: Handle,
    budget: Semaphore,
}

impl Webhooks {
    /// Creates a server for the plugins of a host, whose tasks run on the thread of this handle.
    pub(super) fn new(fleet: Arc<Fleet>, metrics: Arc<Metrics>, host: Handle) -> Arc<Self> {
        Arc::new(Self { fleet, metrics, host, budget: Semaphore::new(BUDGET_KIB as usize) })
    }

    /// Reads a body of at most `max` bytes, and occupies memory for it until the permit is dropped.
    ///
    /// # Errors
    /// When the body is larger, or takes too long.
    async fn receive(
        &self,
        headers: &HeaderMap,
        body: Body,
        max: usize,
    ) -> Result<(Vec<u8>, SemaphorePermit<'_>), StatusCode> {
        let received = tokio::time::timeout(RECEIVE_TIMEOUT, self.read(headers, body, max)).await;
        received.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT))
    }

    async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        max: usize,
    ) -> Result<(Vec<u8>, SemaphorePermit<'_>), StatusCode> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let length = length.unwrap_or(max);
        if length > max {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let kib = u32::try_from(length / 1024 + 1).map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
        let permit = self.budget.acquire_many(kib).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        // A body without a length may be of any.
        let bytes = to_bytes(body, length).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
        Ok((bytes.into(), permit))
    }
}

/// Returns the routes of the webhooks.
pub(super) fn routes(webhooks: Arc<Webhooks>) -> Router {
    Router::new()
        .route("/mutate/{plugin}", post(admission::mutate))
        .route("/validate/{plugin}", post(admission::validate))
        .route_layer(middleware::from_fn_with_state(webhooks.clone(), count))
        .with_state(webhooks)
}

/// Counts a request and its answer.
async fn count(
    State(webhooks): State<Arc<Webhooks>>,
    Path(plugin): Path<String>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    // A client may ask for any name, and each would add a time series.
    let webhook = match webhooks.fleet.find(&plugin) {
        Ok(_) => path.to_owned(),
        Err(_) => format!("{}/*", path.rsplit_once('/').map_or("", |(webhook, _)| webhook)),
    };
    let answering = webhooks.metrics.webhooks.begin(webhook);
    let response = next.run(request).await;
    answering.end(response.status().as_u16());
    response
}

/// Returns the answer to what is no review.
fn bad_request(error: impl std::fmt::Display) -> Response {
    (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
}

/// Returns a review as the answer.
fn json(review: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], review).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use axum::http;
    use futures::stream;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::admission::MAX_REVIEW_BYTES;
    use super::*;

    async fn answer(body: Body, length: Option<usize>) -> (StatusCode, Vec<u8>) {
        let webhooks = Webhooks::new(Arc::new(Fleet::of([])), Arc::default(), Handle::current());
        let mut request = http::Request::post("/validate/gone");
        if let Some(length) = length {
            request = request.header(header::CONTENT_LENGTH, length);
        }
        let response = routes(webhooks.clone()).oneshot(request.body(body).unwrap()).await.unwrap();
        assert_eq!(webhooks.budget.available_permits(), BUDGET_KIB as usize, "the memory is free again");
        let status = response.status();
        let code = status.as_u16();
        let counted =
            format!("controller_runtime_webhook_requests_total{{code=\"{code}\",webhook=\"/validate/*\"}} 1\n");
        assert!(webhooks.metrics.encode().contains(&counted), "the names of unknown plugins are no time series");
        (status, to_bytes(response.into_body(), MAX_REVIEW_BYTES).await.unwrap().to_vec())
    }

    #[tokio::test]
    async fn a_plugin_that_is_not_there_refuses_nothing() {
        let kind = json!({ "group": "g", "version": "v1", "kind": "K" });
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": { "uid": "u", "kind": kind, "object": {} },
        });
        let (status, body) = answer(review.to_string().into(), None).await;
        let response: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, &response["response"]["allowed"]), (StatusCode::OK, &json!(true)));
        assert!(response["response"]["warnings"][0].as_str().unwrap().contains("no plugin gone"), "{response}");
    }

    #[tokio::test]
    async fn what_is_no_review_is_refused_in_plain_words() {
        let (status, body) = answer("{}".into(), None).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(String::from_utf8(body).unwrap().starts_with("the request is no AdmissionReview"));
    }

    #[tokio::test]
    async fn a_review_that_is_too_large_is_refused_whether_it_says_so_or_not() {
        let large = vec![b' '; MAX_REVIEW_BYTES + 1];
        assert_eq!(answer(large.clone().into(), Some(large.len())).await.0, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(answer(large.clone().into(), None).await.0, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(answer(large.into(), Some(10)).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_that_never_ends_is_not_waited_for() {
        let endless = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(answer(endless, Some(10)).await.0, StatusCode::REQUEST_TIMEOUT);
    }
}
