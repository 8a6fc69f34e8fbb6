//! What a revision says of a proposed parent: first its code for that, if it has some, and then `reconcile`, as the next
//! reconcile would.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::api::shadow::Times;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::observe::shown_parent;
use crate::shadow::evaluate::{Evaluated, UncheckedAnswer};
use crate::webhooks::review::{Cause, Refusal, Request, Verdict};
use crate::webhooks::{code, dry_run};
use hotshoe_cluster::time::unix_millis;
use hotshoe_core::model::decision::Failure;
use hotshoe_core::model::object::Object;
use hotshoe_sandbox::error::CallError;

/// How long a decision may take. A slower one admits the object: the API server and its users wait for the answer.
pub(super) const DECISION_TIMEOUT: Duration = Duration::from_millis(100);

/// What the API server asks about a proposed parent.
#[derive(Clone, Copy, Debug)]
pub enum Question {
    /// Whether it is admitted.
    Admits,
    /// What is filled into it.
    Defaults,
}

/// Returns the proposed parent; `None` if a revision is not to be asked about it.
pub(super) fn proposed(revision: &ActiveRevision, request: &Request) -> Option<Object> {
    let read = |object: Option<&RawValue>| revision.parents.watch.read(object?.get()).ok();
    let (proposed, stored) = (read(request.object.as_deref())?, read(request.old_object.as_deref()));
    is_to_be_decided(revision, &proposed, stored.as_ref()).then_some(proposed)
}

/// Returns what a revision says of a proposed parent.
pub(super) async fn of(
    controller: &Controller,
    revision: &ActiveRevision,
    question: Question,
    proposed: Object,
    request: &Request,
) -> Verdict {
    match question {
        Question::Admits => admit(controller, revision, proposed, request).await,
        Question::Defaults => code::fill_in(controller, revision, request).await,
    }
}

/// Returns whether the next reconcile would decide about an object that it does not know yet. One that changes nothing of
/// what the plugin is shown may be stored as it is, however the plugin has changed meanwhile: its metadata must stay
/// editable, and a finalizer removable.
fn is_to_be_decided(active: &ActiveRevision, proposed: &Object, stored: Option<&Object>) -> bool {
    let is_parent = active.parents.watch.selects(proposed);
    let changes = || stored.is_none_or(|stored| shown_parent(active, stored) != shown_parent(active, proposed));
    is_parent && !proposed.deleting && changes()
}

/// Asks the code of the revision, and then for a decision.
async fn admit(controller: &Controller, active: &ActiveRevision, proposed: Object, request: &Request) -> Verdict {
    let valid = code::validate(controller, active, request).await;
    if valid.refusal.is_some() {
        return valid;
    }
    let decided = ask(controller, active, proposed, request.dry_run).await;
    Verdict { warnings: [valid.warnings, decided.warnings].concat(), ..decided }
}

async fn ask(controller: &Controller, active: &ActiveRevision, proposed: Object, is_dry_run: bool) -> Verdict {
    let (parent, mut times) = (Arc::new(proposed), Times::default());
    let state = controller.recall(&parent);
    let now = state.now_to_show(unix_millis());
    let answer = UncheckedAnswer::ask(controller, active, Some(parent), &state, now, &mut times).await;
    let Some(Evaluated { observed, answer, tainted }) = answer.checked(active, None).await else {
        return Verdict::default();
    };
    if let Err(Error::Call(CallError::Trapped(_))) = answer {
        controller.metrics.webhooks.panics.inc();
    }
    match answer {
        Err(error) => Verdict { refusal: refusal(&error, tainted), ..Verdict::default() },
        // A user who may edit the parent need not be allowed to read the Secrets that the plugin was shown.
        Ok(_) if tainted || !is_dry_run => Verdict::default(),
        Ok((decision, _)) => {
            let warnings = dry_run::changes(controller, active, &observed, &state.desired, decision);
            Verdict { warnings, ..Verdict::default() }
        }
    }
}

/// Returns the refusal of an object for which a reconcile would end with this error; `None` if the error may pass
/// without a change of the object, so that it is admitted.
fn refusal(error: &Error, tainted: bool) -> Option<Refusal> {
    let (message, field) = match error {
        Error::Plugin(Failure::Reject { message, field }) if !tainted => (message.clone(), field.clone()),
        Error::Plugin(Failure::Reject { .. }) | Error::Denied(_) => (error.message(tainted), None),
        _ => return None,
    };
    Some(Cause { reason: error.reason(), message, field }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_plugin_rejects_or_the_gate_denies_is_refused() {
        let reject = Failure::Reject { message: "too small".into(), field: Some("spec.size".into()) };
        let refused = refusal(&Error::Plugin(reject.clone()), false).unwrap();
        let cause = Cause { reason: "Rejected", message: "too small".into(), field: Some("spec.size".into()) };
        assert_eq!(refused, cause.into());
        let passing = [
            Error::Plugin(Failure::Retry { message: "later".into(), after: None }),
            Error::Plugin(Failure::Other("no".into())),
            Error::Call(CallError::Stopped),
            Error::NotGranted("no".into()),
            Error::Panicked,
        ];
        for error in passing {
            assert_eq!(refusal(&error, false), None, "{error}");
        }
    }

    #[test]
    fn a_refusal_quotes_nothing_of_a_plugin_that_was_shown_secrets() {
        let reject = Failure::Reject { message: "hunter2".into(), field: Some("spec.hunter2".into()) };
        let refused = refusal(&Error::Plugin(reject), true).unwrap();
        assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
    }
}
