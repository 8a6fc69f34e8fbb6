//! What one revision says of one parent: observe, decide and check as for a reconcile, without
//! anything that a reconcile leaves behind.

use std::sync::Arc;

use crate::cluster::view;
use crate::reconcile::apply::Work;
use crate::reconcile::controller::{Controller, Logic, Memory};
use crate::reconcile::error::Error;
use crate::reconcile::observe::{Observed, checked, observe_at};
use crate::reconcile::{decide, finalize};
use crate::sandbox::error::CallError;
use crate::shadow::summary::Times;
use hotshoe_core::check;
use hotshoe_core::compare::{Failed, Judged, Side};
use hotshoe_core::diff::status;
use hotshoe_core::model::decision::{Answer, Call, Decision};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::{Object, PLUGIN_LABEL};

/// The answer, and whether it rests on objects that were fetched for it.
type Said = Result<(Answer, bool), Error>;

/// What a revision says of a parent, unchecked.
pub(crate) struct Looked {
    /// What it was shown, and what it answered; none where it is not called at all.
    said: Option<(Observed, Said)>,
}

impl Looked {
    /// Asks; without a parent, there is nothing to say.
    pub(crate) async fn at(
        controller: &Controller,
        logic: &Logic,
        parent: Option<Arc<Object>>,
        memory: &Memory,
        now: u64,
        times: &mut Times,
    ) -> Self {
        let Some(parent) = parent else { return Self { said: None } };
        if parent.deleting && !finalize::asks_for_clean_up(logic, &parent) {
            return Self { said: None };
        }
        let call = if parent.deleting { Call::Finalize } else { Call::Reconcile };
        let observed = observe_at(logic, parent, memory, now);
        let shown = observed.shown.clone();
        let mut fetched = false;
        let heard = |heard: decide::Heard<'_>| times.add(heard.elapsed, heard.memory);
        let answer = decide::ask(controller, logic, call, shown, &mut fetched, heard).await;
        Self { said: Some((observed, answer.map(|answer| (answer, fetched)))) }
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

    /// Whether it wishes for nothing but what is there already, found so under the same rules when the
    /// present revision wished for it: the checks would say the same again.
    pub(crate) fn stands(&self, controller: &Controller, present: &Logic, new: &Logic, memory: &Memory) -> bool {
        let Some((observed, Ok((Answer::Decided(decision), _)))) = &self.said else { return false };
        present.plugin.digest == new.plugin.digest
            && present.revision.descriptor().owns == new.revision.descriptor().owns
            && (Work { controller, logic: present, observed }).stands(decision, memory)
            && status::check(decision.status.as_deref(), &decision.conditions).is_ok()
    }

    /// What the checks say of it.
    pub(crate) fn judged(self, controller: &Controller, logic: &Logic) -> Side {
        let Some((observed, said)) = self.said else { return Side::Idle };
        match said.and_then(|(answer, fetched)| judge(controller, logic, &observed, answer, fetched)) {
            Ok(judged) => Side::Decided(Box::new(judged)),
            Err(error) => Side::Failed(Failed::new(error.reason(), &error.to_string())),
        }
    }

    /// The same, with what was shown.
    pub(crate) fn into_parts(
        self,
        controller: &Controller,
        logic: &Logic,
    ) -> Option<(Observed, Result<Judged, Error>)> {
        let (observed, said) = self.said?;
        let judged = said.and_then(|(answer, fetched)| judge(controller, logic, &observed, answer, fetched));
        Some((observed, judged))
    }
}

fn judge(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    answer: Answer,
    fetched: bool,
) -> Result<Judged, Error> {
    let (word, decision) = match (observed.parent.deleting, answer) {
        (false, Answer::Decided(decision)) => ("decided", decision),
        (true, Answer::Waiting(decision)) => ("waiting", decision),
        (true, Answer::Done(decision)) => ("done", decision),
        _ => return Err(CallError::invalid("it answered as the other function does").into()),
    };
    let desired = desired(controller, logic, observed, &decision)?;
    status::check(decision.status.as_deref(), &decision.conditions)?;
    Ok(Judged { word, fetched, decision, desired })
}

fn desired(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    decision: &Decision,
) -> Result<Option<Vec<check::Desired>>, Error> {
    if observed.parent.deleting {
        return finalize::check_cleanup(controller, logic, observed, decision);
    }
    checked(controller, logic, observed, decision, &observed.references())
}

/// The children of a parent that are there and are the plugin's to prune.
pub(crate) fn there(controller: &Controller, logic: &Logic, parent: &Object) -> Vec<ObjectRef> {
    let children = view::children(&logic.owned, &parent.uid, &logic.plugin.name);
    let ours = children.iter().filter(|(_, child)| is_ours(controller, child));
    ours.map(|(kind, child)| view::reference(kind, &child.key)).collect()
}

/// Whether a child would be pruned if it were no longer wanted, as far as that is up to it.
pub(crate) fn is_ours(controller: &Controller, child: &Object) -> bool {
    !child.deleting && child.label(PLUGIN_LABEL) == Some(&controller.name)
}
