//! Answers `/validate/PLUGIN` and `/mutate/PLUGIN`. Whatever goes wrong admits the object as it came, with a warning.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use crate::server::webhooks::receive::{Webhooks, bad_request, json};
use hotshoe_operator::webhooks::admission;
use hotshoe_operator::webhooks::answer::Question;
use hotshoe_operator::webhooks::review::{Request, Verdict};

/// The maximum size of a review, in bytes. It has the object twice, of which the API server accepts 3 MiB from a client
/// and stores 1.5 MiB.
pub(super) const MAX_REVIEW_BYTES: usize = 6 << 20;

/// Answers whether a proposed parent of a plugin is admitted.
pub(super) async fn validate(
    State(webhooks): State<Arc<Webhooks>>,
    Path(plugin): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    webhooks.review(Question::Admits, &plugin, &headers, body).await
}

/// Answers what a plugin fills into a proposed parent.
pub(super) async fn mutate(
    State(webhooks): State<Arc<Webhooks>>,
    Path(plugin): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    webhooks.review(Question::Defaults, &plugin, &headers, body).await
}

impl Webhooks {
    async fn review(&self, question: Question, plugin: &str, headers: &HeaderMap, body: Body) -> Response {
        let (review, _permit) = match self.receive(headers, body, MAX_REVIEW_BYTES).await {
            Ok(received) => received,
            Err(why) => return why.into_response(),
        };
        let request = match Request::read(&review) {
            Ok(request) => request,
            Err(error) => return bad_request(error),
        };
        drop(review);
        let subject = request.subject();
        json(self.verdict(question, plugin, request).await.into_json(&subject))
    }

    async fn verdict(&self, question: Question, name: &str, request: Request) -> Verdict {
        // The configuration of a plugin that was removed must not keep its objects from being changed.
        let Ok(plugin) = self.fleet.find(name) else {
            return Verdict::warn(format!(
                "this host has no plugin {name}; delete its webhook configurations, or run the plugin"
            ));
        };
        let decided = self.host.spawn(admission::review(plugin.controller.clone(), question, request)).await;
        decided.unwrap_or_else(|_| Verdict::warn(format!("the host failed while it asked {name}")))
    }
}
