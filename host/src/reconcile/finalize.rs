//! Deletion: the finalizer's state machine.
//!
//! ```text
//! deleting, our finalizer held ─▶ finalize ─▶ waiting: write, look again
//!                                         └▶ done and children gone: status, remove the finalizer
//! deleting, not held ─▶ nothing more to do; others may hold the object longer, which is told
//!                        where it may be somebody who is gone
//! ```
//!
//! A finalizer that an earlier revision of the plugin held counts as held, for nobody else takes it off; one
//! that asks for no clean-up any more has it taken off at once.
//!
//! A plugin that fails here keeps the finalizer, visibly: the host's condition and an Event say
//! why.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::view::reference;
use crate::reconcile::apply;
use crate::reconcile::apply::Work;
use crate::reconcile::controller::{Controller, Logic, Memory};
use crate::reconcile::decide;
use crate::reconcile::error::{CLEAN_UP_WAITS, Error};
use crate::reconcile::learn::{learn_parent, was_overtaken};
use crate::reconcile::observe::{Observed, judge, observe};
use crate::reconcile::outcome::{Ended, Next};
use crate::sandbox::descriptor::finalizer_domain;
use hotshoe_core::check::{Desired, Judged, Stage};
use hotshoe_core::flow::backoff::SOON;
use hotshoe_core::model::decision::{Call, Decision};
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::object::Object;

/// How long a plugin that waits and says nothing about when is left alone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Clean-up that takes longer than this says so.
const LATE: Duration = Duration::from_secs(30);

/// When to look again after somebody else was faster.
pub const OVERTAKEN: Next = Next::After(SOON);

/// One pass over a parent that is being deleted.
///
/// # Errors
/// As for a reconcile; the finalizer stays.
pub async fn finalize(
    controller: &Controller,
    logic: &Logic,
    parent: Arc<Object>,
    memory: &mut Memory,
) -> Result<Ended, Error> {
    let Some(finalizer) = held_finalizer(logic, &parent) else {
        return Ok(look_on(controller, logic, &parent, memory));
    };
    if !asks_for_clean_up(logic, &parent) {
        return let_go(controller, logic, &parent, finalizer).await.map(Ended::Look);
    }
    let observed = observe(logic, parent, memory);
    let decided = decide::decide(controller, logic, Call::Finalize, &observed, memory).await?;
    let checked = judge(controller, logic, Call::Finalize, &observed, decided.answer).map_err(Error::from);
    let cleanup = decide::settle(controller, logic, &observed.parent.key, decided.trial, checked)?;
    if memory.cleaning_up.is_none() {
        // Once its status says that it was begun, a plugin says nothing of that any more, and nor does the
        // host where it ends before it has written what it was told.
        Work { controller, logic, observed: &observed }.say_first(&cleanup.decision.events, memory).await?;
        memory.cleaning_up = Some(Instant::now());
    }
    match cleanup.stage {
        Stage::Decided | Stage::Waiting => wait(controller, logic, &observed, cleanup, memory).await,
        Stage::Done => finish(controller, logic, &observed, cleanup, finalizer, memory).await,
    }
}

/// The finalizer that the plugin asks for or asked for, if the parent holds it; otherwise clean-up is over.
fn held_finalizer<'a>(logic: &'a Logic, parent: &Object) -> Option<&'a str> {
    let mut ours = logic.revision.descriptor().finalizer.iter().chain(&logic.former_finalizers);
    ours.find(|ours| parent.finalizers.iter().any(|held| **held == ***ours)).map(String::as_str)
}

/// Whether the plugin is asked to clean up after a parent that is being deleted.
pub fn asks_for_clean_up(logic: &Logic, parent: &Object) -> bool {
    logic.revision.descriptor().finalizer.is_some() && held_finalizer(logic, parent).is_some()
}

/// Our part is done, or there was none. Where a finalizer of our own domain is left, a component may have held it
/// whose history was lost, and nobody takes it off.
fn look_on(controller: &Controller, logic: &Logic, parent: &Object, memory: &mut Memory) -> Ended {
    let Some(orphan) = orphaned_finalizer(controller, logic, parent) else { return Ended::Look(Next::Wait) };
    let began = *memory.cleaning_up.get_or_insert_with(Instant::now);
    let left = LATE.saturating_sub(began.elapsed());
    if !left.is_zero() {
        return Ended::Look(Next::After(left));
    }
    let what = format!(
        "no component of this host holds the finalizer {orphan}; another operator may, and where none does, take it away by hand"
    );
    waits(&what, Next::Wait)
}

/// A finalizer that no component known here holds, where none that is known is left.
fn orphaned_finalizer<'a>(controller: &Controller, logic: &Logic, parent: &'a Object) -> Option<&'a str> {
    if held_finalizer(logic, parent).is_some() || logic.parents.watched.has_other_parents(&controller.name) {
        return None;
    }
    first_of_domain(&parent.finalizers, finalizer_domain(&logic.resource.kind.group))
}

fn first_of_domain<'a>(finalizers: &'a [Box<str>], domain: &str) -> Option<&'a str> {
    let is_of_domain = |finalizer: &&str| finalizer.split_once('/').is_some_and(|(prefix, _)| prefix == domain);
    finalizers.iter().map(|finalizer| &**finalizer).find(is_of_domain)
}

/// Clean-up that is not done after a long time, and what it waits for.
fn waits(what: &str, again: Next) -> Ended {
    Ended::Troubled { reason: CLEAN_UP_WAITS, message: format!("its clean-up is not done: {what}"), again }
}

async fn wait(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    cleanup: Judged,
    memory: &mut Memory,
) -> Result<Ended, Error> {
    let Judged { decision, desired, .. } = cleanup;
    Work { controller, logic, observed }.carry_out(&decision, desired.into(), memory).await?;
    let Some(parent) = logic.parents.watched.cache.get(&observed.parent.key) else {
        return Ok(Ended::Look(Next::Wait));
    };
    if parent.resource_version != observed.parent.resource_version {
        return Ok(Ended::Look(Next::Again));
    }
    Ok(look_again(&decision, memory, || "the plugin says that it waits".to_owned()))
}

async fn finish(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    cleanup: Judged,
    finalizer: &str,
    memory: &mut Memory,
) -> Result<Ended, Error> {
    let Judged { decision, desired, .. } = cleanup;
    let left_behind = left_behind(observed, &desired);
    let written = Work { controller, logic, observed }.carry_out(&decision, desired.into(), memory).await?;
    if !left_behind.is_empty() {
        let what = || left_behind.join(", ") + " must go first, and something still holds what is left";
        return Ok(look_again(&decision, memory, what));
    }
    // Others may hold the object longer, and without our finalizer nobody says any more how it ended.
    if written.again {
        return Ok(Ended::Look(OVERTAKEN));
    }
    let Some(parent) = logic.parents.watched.cache.get(&observed.parent.key) else {
        return Ok(Ended::Look(Next::Wait));
    };
    let_go(controller, logic, &parent, finalizer).await.map(Ended::Look)
}

/// Takes a finalizer off, and looks again where an earlier one is left.
async fn let_go(controller: &Controller, logic: &Logic, parent: &Object, finalizer: &str) -> Result<Next, Error> {
    let permit = controller.permit();
    let reply = controller.writer.remove_finalizer(&logic.resource, parent, finalizer, &permit).await;
    match learn_parent(controller, logic, parent, reply).await {
        Ok(parent) if held_finalizer(logic, &parent).is_some() => Ok(Next::Again),
        Ok(parent) if orphaned_finalizer(controller, logic, &parent).is_some() => Ok(Next::Again),
        Ok(_) => Ok(Next::Wait),
        Err(Error::Api(error)) if error.is_gone() => Ok(Next::Wait),
        Err(_) if was_overtaken(logic, parent) => Ok(OVERTAKEN),
        Err(error) => Err(error),
    }
}

/// The children that are still observed and must go first.
fn left_behind(observed: &Observed, desired: &Option<Vec<Desired>>) -> Vec<String> {
    let Some(desired) = desired else { return Vec::new() };
    let stays = |kind: &Kind, child: &Object| desired.iter().any(|one| one.reference.is(kind, &child.key));
    let gone = observed.children.iter().filter(|(kind, child)| !stays(kind, child));
    gone.map(|(kind, child)| reference(kind, &child.key).to_string()).collect()
}

/// When to look at a parent again whose clean-up is not done, and what it waits for where that takes long.
fn look_again(decision: &Decision, memory: &Memory, what: impl FnOnce() -> String) -> Ended {
    let again = apply::requeue(decision).unwrap_or(PATIENCE);
    let left = memory.cleaning_up.map_or(LATE, |began| LATE.saturating_sub(began.elapsed()));
    match left.is_zero() {
        true => waits(&what(), Next::After(again)),
        false => Ended::Look(Next::After(again.min(left))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_finalizer_of_the_parents_own_domain_may_be_that_of_a_former_component() {
        let finalizers = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect::<Vec<Box<str>>>();
        let found =
            |names: &[&str], group| first_of_domain(&finalizers(names), finalizer_domain(group)).map(str::to_owned);
        let foreign = ["foregroundDeletion", "example.com/x", "sub.cache.example.com/x", "cache.example.com"];
        assert_eq!(found(&foreign, "cache.example.com"), None);
        let held = ["example.com/x", "cache.example.com/former"];
        assert_eq!(found(&held, "cache.example.com").as_deref(), Some("cache.example.com/former"));
        assert_eq!(
            found(&["example.com/x", "plugin.hotshoe.dev/former"], "").as_deref(),
            Some("plugin.hotshoe.dev/former")
        );
    }
}
