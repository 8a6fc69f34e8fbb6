//! What one revision says of one parent: observe, decide and check as for a reconcile, without
//! anything that a reconcile leaves behind.

use std::sync::Arc;

use crate::cluster::view;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::apply;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::observe::{Observed, judge, observe_at};
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::{decide, finalize};
use crate::sandbox::error::CallError;
use crate::shadow::summary::Times;
use hotshoe_core::check::Judged;
use hotshoe_core::compare::{Basis, Failed, Side};
use hotshoe_core::model::decision::{Answer, Call};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::Object;

/// The answer, and what it rests on.
type Said = Result<(Answer, Basis), Error>;

/// What was shown, and what the checks say of the answer; none where the revision is not called at all.
pub(crate) type Judgement = Option<(Observed, Result<(Judged, Basis), Error>)>;

/// What a revision says of a parent, unchecked.
pub(crate) struct Looked {
    /// What it was shown, and what it answered; none where it is not called at all.
    said: Option<(Observed, Said)>,
}

impl Looked {
    /// Asks; without a parent, there is nothing to say.
    pub(crate) async fn at(
        controller: &Controller,
        logic: &ActiveRevision,
        parent: Option<Arc<Object>>,
        state: &ParentState,
        now: u64,
        times: &mut Times,
    ) -> Self {
        let Some(parent) = parent else { return Self { said: None } };
        if parent.deleting && !finalize::asks_for_clean_up(logic, &parent) {
            return Self { said: None };
        }
        let call = call_of(&parent);
        let mut observed = observe_at(logic, parent, state, now);
        if let Some(denied) = observed.denied.take() {
            return Self { said: Some((observed, Err(denied))) };
        }
        let shown = observed.shown.clone();
        let mut fetched = false;
        let heard = |heard: decide::Heard<'_>| times.add(heard.elapsed, heard.memory);
        let answer = decide::ask(controller, logic, call, shown, &mut fetched, heard).await;
        let basis = if fetched { Basis::Fetched } else { Basis::Watched };
        Self { said: Some((observed, answer.map(|answer| (answer, basis)))) }
    }

    /// Whether it used up all of its time.
    pub(crate) fn is_overdue(&self) -> bool {
        matches!(&self.said, Some((_, Err(Error::Call(CallError::DeadlineExceeded(_))))))
    }

    /// Whether another revision answered the same, over the same number of children.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        match (&self.said, &other.said) {
            (Some((shown, Ok(answer))), Some((other_shown, Ok(other)))) => {
                answer == other && shown.children.len() == other_shown.children.len()
            }
            _ => false,
        }
    }

    /// Whether it desires nothing but what is there already, found so under the same rules when the
    /// active revision desired it: the checks would say the same again.
    pub(crate) fn stands(
        &self,
        controller: &Controller,
        present: &ActiveRevision,
        new: &ActiveRevision,
        state: &ParentState,
    ) -> bool {
        let Some((observed, Ok((Answer::Decided(decision), _)))) = &self.said else { return false };
        present.plugin.digest == new.plugin.digest
            && present.revision.descriptor().owns == new.revision.descriptor().owns
            && apply::stands(controller, present, &observed.children, decision, state.in_sync)
    }

    /// Checks the answer.
    pub(crate) fn judged(self, controller: &Controller, logic: &ActiveRevision) -> Judgement {
        let (observed, said) = self.said?;
        let call = call_of(&observed.parent);
        let judged = said.and_then(|(answer, basis)| Ok((judge(controller, logic, call, &observed, answer)?, basis)));
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

/// The children of a parent that are there and are the plugin's to prune.
pub(crate) fn there(logic: &ActiveRevision, parent: &Object) -> Vec<ObjectRef> {
    let children = logic.children_of(parent);
    let there = children.iter().filter(|(_, child)| !child.deleting);
    there.map(|(kind, child)| view::reference(kind, &child.key)).collect()
}
