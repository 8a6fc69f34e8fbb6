//! Asks the canary about a proposed parent, too, beside the active revision whose answer is given. What the canary says is
//! compared and counted, and otherwise forgotten.
//!
//! It is asked about one object at a time; objects that come meanwhile are only counted. So the canary delays no answer, and
//! takes no more than one call's time from the others.

use std::sync::Arc;
use std::time::Instant;

use crate::reconcile::canary::{Canary, Comparison};
use crate::reconcile::controller::Controller;
use crate::webhooks::answer::{self, DECISION_TIMEOUT, Question};
use crate::webhooks::review::{Request, Verdict};
use hotshoe_core::flow::circuit::State;

/// Has the canary, if there is one, answer what the active revision has answered.
pub(super) fn compare(controller: &Arc<Controller>, question: Question, request: &Arc<Request>, given: &Verdict) {
    let Some(canary) = controller.canary.current() else { return };
    if controller.canary.health.breaker.state(Instant::now()) != State::Closed {
        return;
    }
    let Ok(place) = canary.reviews.enter() else {
        return count(controller, &canary, Comparison::Skipped);
    };
    let (controller, request, given) = (controller.clone(), request.clone(), given.clone());
    tokio::spawn(async move {
        // It keeps its place until the call has ended, however long that takes.
        let (_place, asked) = (place, Instant::now());
        let said = match answer::proposed(&canary.revision, &request) {
            Some(proposed) => answer::of(&controller, &canary.revision, question, proposed, &request).await,
            None => Verdict::default(),
        };
        let in_time = asked.elapsed() <= DECISION_TIMEOUT;
        count(&controller, &canary, of(&given, in_time.then_some(&said)));
    });
}

fn count(controller: &Controller, canary: &Canary, comparison: Comparison) {
    canary.reviews.count(comparison);
    controller.metrics.webhooks.compared(&controller.name, comparison.as_str());
}

/// Compares what becomes of an object. Warnings and the words of a refusal make no difference.
fn of(given: &Verdict, canary: Option<&Verdict>) -> Comparison {
    let Some(canary) = canary else { return Comparison::Unanswered };
    match (given.refusal.is_some(), canary.refusal.is_some()) {
        (false, true) => Comparison::Refused,
        (true, false) => Comparison::Admitted,
        _ if given.patch != canary.patch => Comparison::OtherDefaults,
        _ => Comparison::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::review::Cause;

    #[test]
    fn what_becomes_of_an_object_is_compared_and_no_word_about_it() {
        let admitted = Verdict::default();
        let refused = |message: &str| {
            let cause = Cause { reason: "Rejected", message: message.into(), field: None };
            Verdict { refusal: Some(cause.into()), ..Verdict::default() }
        };
        let patch = serde_json::json!([{ "op": "add", "path": "/spec/size", "value": 1 }]);
        let filled_in = Verdict { patch: Some(serde_json::from_value(patch).unwrap()), ..Verdict::default() };
        for (given, canary, comparison) in [
            (&admitted, Some(Verdict::warn("small".to_owned())), Comparison::Same),
            (&refused("odd"), Some(refused("not even")), Comparison::Same),
            (&admitted, Some(refused("odd")), Comparison::Refused),
            (&refused("odd"), Some(admitted.clone()), Comparison::Admitted),
            (&admitted, Some(filled_in.clone()), Comparison::OtherDefaults),
            (&filled_in, Some(filled_in.clone()), Comparison::Same),
            (&admitted, None, Comparison::Unanswered),
        ] {
            assert_eq!(of(given, canary.as_ref()), comparison, "{given:?} {canary:?}");
        }
    }
}
