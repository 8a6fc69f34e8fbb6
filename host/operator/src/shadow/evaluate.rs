//! Evaluates one revision for one parent: observe, decide and check as for a reconcile, but without side effects.

use std::sync::Arc;

use crate::api::shadow::Times;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::gate::{Admission, Admitted};
use crate::reconcile::observe::{Observed, observe_at};
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::requirements::Fetched;
use crate::reconcile::{decide, finalize};
use hotshoe_cluster::view;
use hotshoe_core::check::AdmittedDecision;
use hotshoe_core::compare::{Basis, Failed, Side};
use hotshoe_core::model::decision::{Answer, Call};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::Object;
use hotshoe_sandbox::error::CallError;

/// The answer of a revision for a parent, before or after the checks.
pub(crate) struct Evaluated<T> {
    /// What the revision was shown first.
    pub(crate) observed: Arc<Observed>,
    /// The answer, and what it is based on.
    pub(crate) answer: Result<(T, Basis), Error>,
    /// Whether the revision was shown Secrets. Then their bytes may be anywhere in the answer.
    pub(crate) tainted: bool,
}

/// The checked answer; none if the revision is not called for the parent.
pub(crate) type CheckedAnswer = Option<Evaluated<AdmittedDecision>>;

/// An unchecked answer with a fingerprint of its desired children.
#[derive(PartialEq)]
struct Unchecked {
    answer: Answer,
    children: u64,
}

/// The unchecked answer of a revision for a parent.
pub(crate) struct UncheckedAnswer {
    /// None if the revision is not called for the parent.
    evaluated: Option<Evaluated<Unchecked>>,
}

impl UncheckedAnswer {
    /// Calls a revision for a parent, if there is one.
    pub(crate) async fn ask(
        controller: &Controller,
        revision: &ActiveRevision,
        parent: Option<Arc<Object>>,
        state: &ParentState,
        now: u64,
        times: &mut Times,
    ) -> Self {
        let Some(parent) = parent else { return Self { evaluated: None } };
        if parent.deleting && !finalize::asks_for_clean_up(revision, &parent) {
            return Self { evaluated: None };
        }
        let call = call_of(&parent);
        let mut observed = observe_at(revision, parent, state, now);
        if let Some(denied) = observed.denied.take() {
            return Self {
                evaluated: Some(Evaluated { observed: Arc::new(observed), answer: Err(denied), tainted: false }),
            };
        }
        let shown = observed.shown.clone();
        let mut fetched = Fetched::default();
        let on_call = |report: decide::CallReport<'_>| times.add(report.elapsed, report.memory);
        let hasher = controller.hasher.clone();
        let then = move |answer: Answer| {
            let children = answer.decision().map(|decision| decision.desired_children(&hasher)).unwrap_or_default();
            Unchecked { answer, children }
        };
        let answer = decide::ask(controller, revision, (call, then), shown, None, &mut fetched, on_call).await;
        let basis = if fetched.any { Basis::Fetched } else { Basis::Watched };
        let tainted = fetched.secrets || decide::shows_secrets(&observed.shown);
        Self {
            evaluated: Some(Evaluated {
                observed: Arc::new(observed),
                answer: answer.map(|answer| (answer, basis)),
                tainted,
            }),
        }
    }

    /// Returns whether the call used up its time.
    pub(crate) fn is_overdue(&self) -> bool {
        matches!(&self.evaluated, Some(Evaluated { answer: Err(Error::Call(CallError::DeadlineExceeded(_))), .. }))
    }

    /// Returns whether another revision gave the same answer, for the same number of observed children.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        match (&self.evaluated, &other.evaluated) {
            (
                Some(Evaluated { observed, answer: Ok(answer), .. }),
                Some(Evaluated { observed: beside, answer: Ok(other), .. }),
            ) => answer == other && observed.children.len() == beside.children.len(),
            _ => false,
        }
    }

    /// Checks the answer, if the revision was called. Children that are in sync, and were `admitted` under the same rules,
    /// are absent from the result.
    pub(crate) async fn checked(self, revision: &ActiveRevision, admitted: Option<Admitted>) -> CheckedAnswer {
        let Evaluated { observed, answer, tainted } = self.evaluated?;
        let answer = match answer {
            Ok((Unchecked { answer, children }, basis)) => {
                let admission = Admission::of(revision, call_of(&observed.parent), &observed);
                let admitted = admitted.as_ref().filter(|admitted| admission.remembers(children, Some(admitted)));
                let admitted = match admitted {
                    // A remembered verdict is not worth the way to another thread.
                    Some(_) => Ok(admission.admit(answer, children, admitted)),
                    None => revision.revision.work(move || admission.admit(answer.clone(), children, None)).await,
                };
                admitted.map_err(Error::from).and_then(|admitted| Ok((admitted?, basis)))
            }
            Err(error) => Err(error),
        };
        Some(Evaluated { observed, answer, tainted })
    }
}

/// Returns an answer as one side of a comparison.
pub(crate) fn side(checked: CheckedAnswer) -> Side {
    match checked {
        None => Side::Idle,
        Some(Evaluated { answer: Ok((judged, basis)), .. }) => Side::Decided(Box::new(judged), basis),
        Some(Evaluated { answer: Err(error), .. }) => Side::Failed(Failed::new(error.reason(), &error.to_string())),
    }
}

/// Returns whether a revision was shown Secrets.
pub(crate) fn is_tainted(checked: &CheckedAnswer) -> bool {
    checked.as_ref().is_some_and(|evaluated| evaluated.tainted)
}

fn call_of(parent: &Object) -> Call {
    if parent.deleting { Call::Finalize } else { Call::Reconcile }
}

/// Returns the observed children of a parent that the plugin may prune.
pub(crate) fn prunable_children(active: &ActiveRevision, parent: &Object) -> Vec<ObjectRef> {
    let children = active.children_of(parent);
    let prunable = children.iter().filter(|(_, child)| !child.deleting);
    prunable.map(|(kind, child)| view::reference(kind, &child.key)).collect()
}
