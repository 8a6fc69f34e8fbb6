//! Answers the API server about a proposed parent with what the active revision says of it.

use std::sync::Arc;
use std::time::Instant;

use crate::config::manifest::Admission;
use crate::reconcile::controller::Controller;
use crate::webhooks::answer::{self, DECISION_TIMEOUT, Question};
use crate::webhooks::review::{Refusal, Request, Verdict};
use crate::webhooks::{beside, scale};
use hotshoe_core::check::defaulting::fields;
use hotshoe_core::flow::circuit::State;

/// Returns the answer about a proposed parent.
pub async fn review(controller: Arc<Controller>, question: Question, request: Request) -> Verdict {
    let name = controller.name.clone();
    match tokio::time::timeout(DECISION_TIMEOUT, in_turn(controller, question, request)).await {
        Ok(Some(verdict)) => verdict,
        Ok(None) => Verdict::warn(format!("the host failed while it asked {name}")),
        Err(_) => Verdict::warn(format!("{name} did not decide within {DECISION_TIMEOUT:?}")),
    }
}

/// Decides when fewer reviews of the plugin are being decided. A review that is no longer waited for keeps its place
/// until its call has ended: otherwise the objects of one user could occupy the plugin with slow calls.
async fn in_turn(controller: Arc<Controller>, question: Question, request: Request) -> Option<Verdict> {
    let (place, request) = (controller.reviews.clone().acquire_owned().await.ok()?, Arc::new(request));
    let deciding = tokio::spawn(async move {
        let verdict = decide(&controller, question, &request).await;
        drop(place);
        verdict
    });
    deciding.await.ok()
}

async fn decide(controller: &Arc<Controller>, question: Question, request: &Arc<Request>) -> Verdict {
    let Some(active) = controller.active() else {
        return Verdict::warn(format!("{} has no active revision yet, so it does not decide", controller.name));
    };
    let mode = active.plugin.admission;
    if mode == Admission::Off || active.plugin.wanted.paused {
        return Verdict::default();
    }
    let request = &match scale::as_update(controller, &active, question, request).await {
        Ok(request) => request,
        Err(verdict) => return verdict,
    };
    let asked = request.kind();
    if asked != *active.parent_kind() {
        return Verdict::warn(format!("{} decides about {}, not about {asked}", controller.name, active.parent_kind()));
    }
    let Some(proposed) = answer::proposed(&active, request) else { return Verdict::default() };
    if controller.health_of(active.revision.digest()).breaker.state(Instant::now()) != State::Closed {
        return Verdict::warn(format!("{} is not called, because it keeps failing", controller.name));
    }
    let verdict = answer::of(controller, &active, question, proposed, request).await;
    beside::compare(controller, question, request, &verdict);
    match mode {
        Admission::Enforce => verdict,
        Admission::Off | Admission::Warn => warned(verdict),
    }
}

/// Makes warnings of a verdict: the object is stored as it came.
fn warned(verdict: Verdict) -> Verdict {
    let Verdict { refusal, patch, warnings } = verdict;
    let causes = refusal.map(|Refusal(causes)| causes).unwrap_or_default();
    let refused = causes.iter().map(|cause| format!("{}: {}", cause.reason, cause.text()));
    let filled = patch.map(|patch| format!("would fill in {}", fields(&patch).join(", ")));
    Verdict { warnings: refused.chain(filled).chain(warnings).collect(), ..Verdict::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::review::Cause;

    #[test]
    fn with_warn_an_object_is_stored_as_it_came() {
        let cause =
            |field: &str| Cause { reason: "FieldValueInvalid", message: "no".into(), field: Some(field.into()) };
        let refusal = Some(Refusal(vec![cause("spec.a"), cause("spec.b")]));
        let operations = serde_json::json!([{ "op": "add", "path": "/spec/size", "value": 1 }]);
        let patch = Some(serde_json::from_value(operations).unwrap());
        let warned = warned(Verdict { refusal, patch, warnings: vec!["small".into()] });
        let warnings =
            ["FieldValueInvalid: spec.a: no", "FieldValueInvalid: spec.b: no", "would fill in spec.size", "small"];
        assert_eq!(warned, Verdict { warnings: warnings.map(str::to_owned).into(), ..Verdict::default() });
    }
}
