//! Asks the code that a revision has for admission: `validate` and `default`. Nothing says later what these would have said,
//! so whatever prevents an answer is a warning.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::webhooks::review::{Cause, Refusal, Request, Verdict};
use hotshoe_core::check::defaulting::Defaulted;
use hotshoe_core::model::admission::{self, FieldError, Proposal, User};
use hotshoe_core::model::decision::{Document, Failure};
use hotshoe_sandbox::call::{Aborted, Outcome};
use hotshoe_sandbox::error::CallError;

/// Returns whether the code of a revision admits a proposed parent.
pub(super) async fn validate(controller: &Controller, active: &ActiveRevision, request: &Request) -> Verdict {
    if !active.revision.validates() {
        return Verdict::default();
    }
    let Some(proposal) = proposal(active, request) else { return Verdict::default() };
    let answered = active.revision.validate(Arc::new(proposal)).await;
    match answer(controller, answered) {
        Ok(verdict) => {
            let causes: Vec<Cause> = verdict.errors.into_iter().map(cause).collect();
            let refusal = (!causes.is_empty()).then_some(Refusal(causes));
            Verdict { refusal, warnings: verdict.warnings, ..Verdict::default() }
        }
        Err(NoAnswer::Rejected(cause)) => Verdict { refusal: Some(cause.into()), ..Verdict::default() },
        Err(NoAnswer::Failed(why)) => {
            Verdict::warn(format!("{} did not validate this, so it is admitted: {why}", active.plugin.name))
        }
    }
}

/// Returns what the code of a revision fills into a proposed parent. What a plugin may do to objects of Kubernetes itself
/// is granted, and their authors may be allowed more, so nothing is filled into those.
pub(super) async fn fill_in(controller: &Controller, active: &ActiveRevision, request: &Request) -> Verdict {
    if !active.revision.defaults() || active.parent_kind().is_builtin() {
        return Verdict::default();
    }
    let Some(proposal) = proposal(active, request) else { return Verdict::default() };
    let answered = active.revision.default(Arc::new(proposal)).await;
    let why = match answer(controller, answered) {
        Ok(Defaulted { patch, .. }) if patch.is_empty() => return Verdict::default(),
        Ok(Defaulted { patch, .. }) => return Verdict { patch: Some(patch), ..Verdict::default() },
        // Defaults refuse nothing.
        Err(NoAnswer::Rejected(cause)) => cause.text(),
        Err(NoAnswer::Failed(why)) => why,
    };
    Verdict::warn(format!("{} filled in no defaults: {why}", active.plugin.name))
}

/// Returns what the code is shown; none if the API server sent no object.
fn proposal(active: &ActiveRevision, request: &Request) -> Option<Proposal> {
    let shown = |object: Option<&RawValue>| -> Option<Document> {
        let object: Value = serde_json::from_str(object?.get()).ok()?;
        Some(admission::shown(active.parent_kind(), object))
    };
    Some(Proposal {
        new: shown(request.object.as_deref())?,
        old: shown(request.old_object.as_deref()),
        config: active.plugin.config.clone(),
        dry_run: request.dry_run,
        user: active.plugin.shows_user.then(|| request.user()).filter(User::fits),
    })
}

/// Why a call has no answer.
enum NoAnswer {
    /// The plugin rejects the object.
    Rejected(Cause),
    /// The call failed, or was denied.
    Failed(String),
}

/// Returns the answer of a call. Counts one that trapped.
///
/// # Errors
/// Why there is none.
fn answer<T>(controller: &Controller, called: Result<Outcome<T>, Aborted>) -> Result<T, NoAnswer> {
    if let Err(Aborted { error: CallError::Trapped(_), .. }) = called {
        controller.metrics.webhooks.panics.inc();
    }
    match called {
        Ok(Outcome { result: Ok(answer), .. }) => Ok(answer),
        Ok(Outcome { result: Err(failure), .. }) => Err(match failure {
            Failure::Reject { message, field } => NoAnswer::Rejected(Cause { reason: "Rejected", message, field }),
            Failure::Retry { message, .. } | Failure::Other(message) => NoAnswer::Failed(message),
        }),
        Err(aborted) => Err(NoAnswer::Failed(format!("{}: {aborted}", aborted.error.reason()))),
    }
}

fn cause(error: FieldError) -> Cause {
    Cause { reason: error.reason.as_str(), message: error.message, field: Some(error.field) }
}
