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
use hotshoe_core::compare::{Basis, Failed, Side};
use hotshoe_core::model::decision::{Answer, Call};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::Object;

/// The answer with a fingerprint of the children in it, and what it is based on.
type Said = Result<(Answer, u64, Basis), Error>;

/// The observation and the checked answer; none if the revision is not called.
pub(crate) type Judgement = Option<(Arc<Observed>, Result<(Judged, Basis), Error>)>;

/// A revision's answer about a parent, unchecked.
pub(crate) struct Looked {
    /// The observation and the answer; none if it is not called.
    said: Option<(Arc<Observed>, Said)>,
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
            return Self { said: Some((Arc::new(observed), Err(denied))) };
        }
        let shown = observed.shown.clone();
        let mut fetched = false;
        let heard = |heard: decide::Heard<'_>| times.add(heard.elapsed, heard.memory);
        let hasher = controller.hasher.clone();
        let then = move |answer: Answer| {
            let children = answer.decision().map(|decision| decision.desired_children(&hasher));
            (answer, children.unwrap_or_default())
        };
        let answer = decide::ask(controller, revision, (call, then), shown, &mut fetched, heard).await;
        let basis = if fetched { Basis::Fetched } else { Basis::Watched };
        Self { said: Some((Arc::new(observed), answer.map(|(answer, children)| (answer, children, basis)))) }
    }

    /// Returns whether the call used up its time.
    pub(crate) fn is_overdue(&self) -> bool {
        matches!(&self.said, Some((_, Err(Error::Call(CallError::DeadlineExceeded(_))))))
    }

    /// Returns whether another revision answered the same, over the same number of children.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        match (&self.said, &other.said) {
            (Some((shown, Ok((answer, _, basis)))), Some((other_shown, Ok((other, _, other_basis))))) => {
                (answer, basis) == (other, other_basis) && shown.children.len() == other_shown.children.len()
            }
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
        let Some((observed, Ok((Answer::Decided(decision), desired, _)))) = &self.said else { return false };
        let about = InSync { basis: present.basis, manager: controller.writer.manager(), desired: *desired };
        present.plugin.digest == new.plugin.digest
            && present.revision.descriptor().owns == new.revision.descriptor().owns
            && check::is_in_place(&controller.hasher, about, &observed.children, decision, state.in_sync)
            && check_owner(decision, &present.resource.kind).is_ok()
    }

    /// Checks the answer, where the plugin was called.
    pub(crate) async fn judged(self, controller: &Controller, revision: &ActiveRevision) -> Judgement {
        let (observed, said) = self.said?;
        let (answer, basis) = match said {
            Ok((answer, _, basis)) => (answer, basis),
            Err(error) => return Some((observed, Err(error))),
        };
        let gate = Gate::of(controller, revision, call_of(&observed.parent), &observed);
        let judged = match revision.revision.work(move || gate.judge(answer)).await {
            Ok(judged) => judged.map(|judged| (judged, basis)).map_err(Error::from),
            Err(stopped) => Err(stopped.into()),
        };
        Some((observed, judged))
    }
}

/// Returns an answer as one side of a comparison.
pub(crate) fn side(judgement: Judgement) -> Side {
    match judgement {
        None => Side::Idle,
        Some((_, Ok((judged, basis)))) => Side::Decided(Box::new(judged), basis),
        Some((_, Err(error))) => Side::Failed(Failed::new(error.reason(), &error.to_string())),
    }
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
