//! Evaluates one revision on one parent: observe, decide and check as for a reconcile, without side effects.

use std::sync::Arc;

use crate::cluster::view;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::check;
use crate::reconcile::check::Gate;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::fingerprint::InSync;
use crate::reconcile::observe::{Observed, observe_at};
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::{decide, finalize};
use crate::sandbox::error::CallError;
use crate::shadow::summary::Times;
use hotshoe_core::check::Judged;
use hotshoe_core::check::status::check_owner;
use hotshoe_core::compare::json_diff::TAINTED;
use hotshoe_core::compare::{Basis, Failed, Side};
use hotshoe_core::model::decision::{Answer, Call};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::Object;

/// What a revision says about a parent, as far as it is checked.
pub(crate) struct Said<T> {
    /// What it was shown at first.
    pub(crate) observed: Arc<Observed>,
    /// The answer, and what it is based on.
    pub(crate) answer: Result<(T, Basis), Error>,
    /// Whether it was shown Secrets. Then their bytes may be anywhere in the answer.
    pub(crate) tainted: bool,
}

/// The checked answer; none if the revision is not called.
pub(crate) type Judgement = Option<Said<Judged>>;

/// An answer with a fingerprint of the children in it.
#[derive(PartialEq)]
struct Unchecked {
    answer: Answer,
    children: u64,
}

/// A revision's answer about a parent, unchecked.
pub(crate) struct Looked {
    /// None if it is not called.
    said: Option<Said<Unchecked>>,
}

impl Looked {
    /// Asks a revision about a parent, if there is one.
    pub(crate) async fn at(
        controller: &Controller,
        revision: &ActiveRevision,
        parent: Option<Arc<Object>>,
        state: &ParentState,
        now: u64,
        times: &mut Times,
    ) -> Self {
        let Some(parent) = parent else { return Self { said: None } };
        if parent.deleting && !finalize::asks_for_clean_up(revision, &parent) {
            return Self { said: None };
        }
        let call = call_of(&parent);
        let mut observed = observe_at(revision, parent, state, now);
        if let Some(denied) = observed.denied.take() {
            return Self { said: Some(Said { observed: Arc::new(observed), answer: Err(denied), tainted: false }) };
        }
        let shown = observed.shown.clone();
        let mut fetched = decide::Fetched::default();
        let on_call = |report: decide::CallReport<'_>| times.add(report.elapsed, report.memory);
        let hasher = controller.hasher.clone();
        let then = move |answer: Answer| {
            let children = answer.decision().map(|decision| decision.desired_children(&hasher)).unwrap_or_default();
            Unchecked { answer, children }
        };
        let answer = decide::ask(controller, revision, (call, then), shown, &mut fetched, on_call).await;
        let basis = if fetched.any { Basis::Fetched } else { Basis::Watched };
        let tainted = fetched.secrets || decide::shows_secrets(&observed.shown);
        Self {
            said: Some(Said { observed: Arc::new(observed), answer: answer.map(|answer| (answer, basis)), tainted }),
        }
    }

    /// Returns whether the call used up its time.
    pub(crate) fn is_overdue(&self) -> bool {
        matches!(&self.said, Some(Said { answer: Err(Error::Call(CallError::DeadlineExceeded(_))), .. }))
    }

    /// Returns whether another revision answered the same, over the same number of children.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        match (&self.said, &other.said) {
            (
                Some(Said { observed, answer: Ok(answer), .. }),
                Some(Said { observed: beside, answer: Ok(other), .. }),
            ) => answer == other && observed.children.len() == beside.children.len(),
            _ => false,
        }
    }

    /// Returns whether all that it desires is in place already, by the same rules as when the active revision desired
    /// it: the checks would have the same result.
    pub(crate) fn is_in_place(
        &self,
        controller: &Controller,
        present: &ActiveRevision,
        new: &ActiveRevision,
        state: &ParentState,
    ) -> bool {
        let Some(Said { observed, answer: Ok((said, _)), .. }) = &self.said else { return false };
        let Unchecked { answer: Answer::Decided(decision), children } = said else { return false };
        let about = InSync { basis: present.basis, manager: controller.writer.manager(), desired: *children };
        present.plugin.digest == new.plugin.digest
            && present.revision.descriptor().owns == new.revision.descriptor().owns
            && check::is_in_place(&controller.hasher, about, &observed.children, decision, state.in_sync)
            && check_owner(decision, present.parent_kind()).is_ok()
    }

    /// Checks the answer, where the plugin was called.
    pub(crate) async fn judged(self, controller: &Controller, revision: &ActiveRevision) -> Judgement {
        let Said { observed, answer, tainted } = self.said?;
        let answer = match answer {
            Ok((Unchecked { answer, .. }, basis)) => {
                let gate = Gate::of(controller, revision, call_of(&observed.parent), &observed);
                let judged = revision.revision.work(move || gate.check(answer.clone())).await;
                judged.map_err(Error::from).and_then(|judged| Ok((judged?, basis)))
            }
            Err(error) => Err(error),
        };
        Some(Said { observed, answer, tainted })
    }
}

/// Returns an answer as one side of a comparison.
pub(crate) fn side(judgement: Judgement) -> Side {
    match judgement {
        None => Side::Idle,
        Some(Said { answer: Ok((judged, basis)), .. }) => Side::Decided(Box::new(judged), basis),
        Some(Said { answer: Err(error), .. }) => Side::Failed(Failed::new(error.reason(), &error.to_string())),
    }
}

/// Returns whether a revision was shown Secrets.
pub(crate) fn is_tainted(judgement: &Judgement) -> bool {
    judgement.as_ref().is_some_and(|said| said.tainted)
}

/// Returns why a revision failed, without what it chose if it was shown Secrets.
pub(crate) fn words(error: &Error, tainted: bool) -> String {
    if tainted { format!("{}: {TAINTED}", error.reason()) } else { error.to_string() }
}

fn call_of(parent: &Object) -> Call {
    if parent.deleting { Call::Finalize } else { Call::Reconcile }
}

/// Returns the observed children of a parent that the plugin may prune.
pub(crate) fn there(active: &ActiveRevision, parent: &Object) -> Vec<ObjectRef> {
    let children = active.children_of(parent);
    let there = children.iter().filter(|(_, child)| !child.deleting);
    there.map(|(kind, child)| view::reference(kind, &child.key)).collect()
}
