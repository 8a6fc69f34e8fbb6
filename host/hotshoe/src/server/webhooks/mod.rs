//! Serves the webhooks, which the API server calls about parents.
//!
//! | file | contents |
//! |---|---|
//! | `admission.rs` | `/validate/PLUGIN`: whether a proposed parent is admitted; `/mutate/PLUGIN`: what is filled into it |
//! | `convert.rs` | `/convert/PLUGIN`: objects as they are in another version of their kind |
//! | `receive.rs` | reviews are received within bounds of bytes and time, and answered |
//!
//! Clients are not authenticated, as with webhooks in general, so what waits for an answer is bounded in bytes and in
//! time.

mod admission;
mod convert;
mod receive;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::post;

pub(super) use crate::server::webhooks::receive::Webhooks;

/// Returns the routes of the webhooks.
pub(super) fn routes(webhooks: Arc<Webhooks>) -> Router {
    Router::new()
        .route("/convert/{plugin}", post(convert::convert))
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

#[cfg(test)]
mod tests {
    use axum::body::{Body, Bytes, to_bytes};
    use axum::http::{self, StatusCode, header};
    use futures::stream;
    use hotshoe_operator::fleet::Fleet;
    use serde_json::{Value, json};
    use tokio::runtime::Handle;
    use tower::ServiceExt;

    use super::admission::MAX_REVIEW_BYTES;
    use super::convert::MAX_CONVERSION_BYTES;
    use super::receive::{BUDGET_KIB, CONVERSIONS_KIB};
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
        assert!(webhooks.metrics.table().text().contains(&counted), "the names of unknown plugins are no time series");
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

    async fn converted(body: Body) -> (StatusCode, String) {
        let webhooks = Webhooks::new(Arc::new(Fleet::of([])), Arc::default(), Handle::current());
        let request = http::Request::post("/convert/gone").body(body).unwrap();
        let response = routes(webhooks.clone()).oneshot(request).await.unwrap();
        assert_eq!(webhooks.conversions.available_permits(), CONVERSIONS_KIB, "the memory is free again");
        let (status, body) = (response.status(), to_bytes(response.into_body(), MAX_REVIEW_BYTES).await.unwrap());
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn a_conversion_by_a_plugin_that_is_not_there_fails_and_says_what_to_do() {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": { "uid": "u", "desiredAPIVersion": "g/v1", "objects": [{}] },
        });
        let (status, body) = converted(review.to_string().into()).await;
        let response: Value = serde_json::from_str(&body).unwrap();
        let result = &response["response"]["result"];
        assert_eq!((status, &result["status"]), (StatusCode::OK, &json!("Failure")));
        assert!(
            result["message"].as_str().unwrap().contains("no plugin gone, nor any other; run the plugin"),
            "{body}"
        );
    }

    #[tokio::test]
    async fn a_conversion_that_is_too_large_is_refused_and_says_what_to_do() {
        let (status, body) = converted(vec![b' '; MAX_CONVERSION_BYTES + 1].into()).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(body.contains("ask for fewer at once"), "{body}");
        assert_eq!(converted("{}".into()).await.0, StatusCode::BAD_REQUEST);
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
        for length in [Some(large.len()), None, Some(10)] {
            let (status, body) = answer(large.clone().into(), length).await;
            assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
            assert!(String::from_utf8(body).unwrap().starts_with("a review may have 6291456 bytes; "));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_that_never_ends_is_not_waited_for() {
        let endless = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let (status, body) = answer(endless, Some(10)).await;
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
        assert!(String::from_utf8(body).unwrap().starts_with("the review did not arrive within 2s"));
    }
}
