//! The page to read first: observe, decide, check, apply.
//!
//! A reconcile works with one revision of the plugin from beginning to end, and never runs twice
//! at once for one parent. It ends with when to look again.

pub mod apply;
pub mod controller;
pub mod decide;
pub mod error;
pub mod finalize;
pub mod fingerprint;
pub mod learn;
pub mod observe;
pub mod outcome;
pub mod queue;
pub mod refused_writes;
pub mod report;
pub mod requirements;
pub mod slot;
pub mod triggers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster::view;
use crate::reconcile::apply::{Wishes, Work};
use crate::reconcile::controller::{Controller, Logic, Memory};
use crate::reconcile::decide::Final;
use crate::reconcile::error::{CONTENDED, Error};
use crate::reconcile::fingerprint::{churn_basis, fingerprint, hold_basis};
use crate::reconcile::learn::{learn_parent, was_overtaken};
use crate::reconcile::observe::{Observed, shown_parent};
use crate::reconcile::outcome::{Ended, Next, Pass};
use hotshoe_core::check::Judged;
use hotshoe_core::flow::backoff::soon;
use hotshoe_core::model::decision::{Answer, Call, Decision, Observation};
use hotshoe_core::model::object::{Key, Object, ObservedChildren};

/// How long a parent rests whose namespace is going away.
const TERMINATING: Duration = Duration::from_secs(10);

/// One pass over one parent.
pub async fn reconcile(controller: &Controller, key: &Key) -> Pass {
    let nothing = Pass { next: Next::Wait, failed: false };
    let Some(logic) = controller.logic() else { return nothing };
    let Some(parent) = logic.parents.watched.cache.get(key) else {
        controller.forget(key);
        return nothing;
    };
    let mut memory = controller.recall(&parent);
    if let Some(next) = rests(controller, &logic, &parent, &memory) {
        return Pass { next, failed: false };
    }
    memory.seen = children(&logic, &parent);
    let result = if parent.deleting {
        finalize::finalize(controller, &logic, parent.clone(), &mut memory).await
    } else {
        converge(controller, &logic, parent.clone(), &mut memory).await.map(Ended::Look)
    };
    let failed = result.is_err();
    let result = result.map(|ended| with_contention(ended, &memory));
    let next = report::report(controller, &logic, &parent, &mut memory, result).await;
    let next = decide::slow_down(controller, &logic, &parent, &memory, next);
    memory.seen.clear();
    controller.remember(key, memory);
    Pass { next, failed }
}

/// What somebody else undoes again and again is told for as long as that goes on.
fn with_contention(ended: Ended, memory: &Memory) -> Ended {
    match (ended, memory.contention.told()) {
        (Ended::Look(again), Some(message)) => Ended::Troubled { reason: CONTENDED, message, again },
        (ended, _) => ended,
    }
}

async fn converge(
    controller: &Controller,
    logic: &Logic,
    parent: Arc<Object>,
    memory: &mut Memory,
) -> Result<Next, Error> {
    let Some(parent) = hold_finalizer(controller, logic, parent).await? else { return Ok(finalize::OVERTAKEN) };
    let observed = observe::observe(logic, parent, memory);
    if let Some(next) = settled(controller, logic, &observed, memory) {
        return Ok(next);
    }
    let decided = decide::decide(controller, logic, Call::Reconcile, &observed, memory).await?;
    let Final { answer, trial } = decided;
    let checked = judge(controller, logic, &observed, answer, memory);
    let (decision, wishes) = decide::settle(controller, logic, &observed.parent.key, trial, checked)?;
    decide::note(controller, logic, &observed, &decision, memory);
    let work = Work { controller, logic, observed: &observed };
    let written = work.carry_out(&decision, wishes, memory).await?;
    let next = conclude(controller, logic, &observed, &decision, memory, written);
    Ok(if memory.fetched { decide::look_again(next, memory) } else { next })
}

/// What the answer would have done, if it may be done.
fn judge(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    answer: Answer,
    memory: &Memory,
) -> Result<(Decision, Wishes), Error> {
    match answer {
        Answer::Decided(decision) if (Work { controller, logic, observed }).stands(&decision, memory) => {
            Ok((decision, Wishes::Fulfilled))
        }
        answer => {
            let Judged { decision, desired, .. } =
                observe::judge(controller, logic, Call::Reconcile, observed, answer)?;
            Ok((decision, desired.into()))
        }
    }
}

/// The finalizer stands before any other write. Nothing where somebody else changed the parent's meanwhile.
async fn hold_finalizer(
    controller: &Controller,
    logic: &Logic,
    parent: Arc<Object>,
) -> Result<Option<Arc<Object>>, Error> {
    let Some(finalizer) = &logic.revision.descriptor().finalizer else { return Ok(Some(parent)) };
    if parent.finalizers.iter().any(|held| **held == **finalizer) {
        return Ok(Some(parent));
    }
    let permit = controller.permit();
    let added = controller.writer.add_finalizer(&logic.resource, &parent, finalizer, &permit).await;
    match learn_parent(controller, logic, &parent, added).await {
        Err(_) if was_overtaken(logic, &parent) => Ok(None),
        added => added.map(Some),
    }
}

/// Whether this very state was found settled before.
fn settled(controller: &Controller, logic: &Logic, observed: &Observed, memory: &Memory) -> Option<Next> {
    let same = memory.settled.is_some_and(|settled| settled == fingerprint(controller, logic, observed));
    let none_due = memory.refused.none_due() && memory.contention.none_due(Instant::now());
    (same && none_due).then(|| apply::next_look(memory))
}

fn children(logic: &Logic, parent: &Object) -> ObservedChildren {
    view::children(&logic.owned, &parent.uid, &logic.plugin.name)
}

/// Whether a parent that failed, or for which the plugin never comes to an end, rests for now. Such a
/// pass is no success: what the failure said still stands.
fn rests(controller: &Controller, logic: &Logic, parent: &Object, memory: &Memory) -> Option<Next> {
    let now = tokio::time::Instant::now();
    let basis = || hold_basis(controller, logic, parent, &parent.finalizers, &children(logic, parent));
    let failed = memory.hold.filter(|(_, held)| *held == basis());
    let left = failed.and_then(|(until, _)| until.checked_duration_since(now));
    let slowed = || memory.churn.pause(now.into_std(), || churn_basis(controller, logic, parent));
    left.or_else(slowed).map(Next::After)
}

/// After the writes: settled, unless they changed what the plugin sees.
///
/// What is remembered as settled is the state that was decided on, with the reply to our own
/// status write in it, and not what the cache holds by now: somebody else's edit that came
/// meanwhile would be taken for settled and never be looked at.
fn conclude(
    controller: &Controller,
    logic: &Logic,
    before: &Observed,
    decision: &Decision,
    memory: &mut Memory,
    written: apply::Written,
) -> Next {
    memory.requeue = apply::requeue(decision);
    memory.settled = None;
    if written.terminating {
        return Next::After(TERMINATING);
    }
    if written.again {
        memory.stalls = memory.stalls.saturating_add(1);
        return Next::After(soon(memory.stalls));
    }
    memory.stalls = 0;
    if written.children || written.relieved {
        return Next::Again;
    }
    let parent = written.parent.unwrap_or_else(|| before.parent.clone());
    let shown = Observation { parent: shown_parent(logic, &parent), ..Observation::clone(&before.shown) };
    let after = Observed { parent, children: before.children.clone(), shown: Arc::new(shown) };
    if after.shown.parent != before.shown.parent {
        return Next::Again;
    }
    memory.settled = Some(fingerprint(controller, logic, &after));
    apply::next_look(memory)
}
