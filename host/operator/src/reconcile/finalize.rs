//! Deletion: the finalizer's state machine.
//!
//! ```text
//! deleting, our finalizer set ──▶ finalize ─▶ waiting: write, look again
//!                                         └▶ done and children gone: status, remove the finalizer
//! deleting, not set ─▶ nothing more to do; other finalizers may keep the object longer, which is reported
//!                      where their controller may be gone
//! ```
//!
//! The finalizer of an earlier revision of the plugin counts as ours, because nothing else removes it. If the active
//! revision asks for no clean-up, the finalizer is removed at once. A finalizer that another field manager set is not
//! ours, unless it carries the plugin's name.
//!
//! If the plugin fails here, the finalizer stays, and the host's condition and an Event say why.

use std::sync::Arc;

use tokio::time::Instant;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::apply;
use crate::reconcile::audit_log;
use crate::reconcile::audit_log::Change;
use crate::reconcile::check::{CheckedDecision, Planned};
use crate::reconcile::controller::Controller;
use crate::reconcile::decide;
use crate::reconcile::error::Error;
use crate::reconcile::events;
use crate::reconcile::gate::Gate;
use crate::reconcile::observe::{Observed, observe};
use crate::reconcile::outcome::{Orphan, Outcome};
use crate::reconcile::pass::Pass;
use hotshoe_cluster::parent::was_overtaken;
use hotshoe_cluster::view::reference;
use hotshoe_core::check::{Stage, finalizer};
use hotshoe_core::model::decision::{Call, Refusal};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::object::Object;

/// What a clean-up waits for if the plugin has not finished it.
const PLUGIN_WAITS: &str = "the plugin says that it waits";
/// What a clean-up waits for after a write that failed for a transient reason.
const RETRIED: &str = "a write met a conflict, an overload or no answer, and is retried";

/// Reconciles a parent that is being deleted.
///
/// # Errors
/// As for a reconcile; the finalizer stays.
pub async fn finalize(pass: &mut Pass<'_>) -> Result<Outcome, Error> {
    let Some(finalizer) = pass.active.our_finalizer(&pass.parent) else { return Ok(finish_without_finalizer(pass)) };
    if !asks_for_clean_up(pass.active, &pass.parent) {
        return remove_finalizer(pass, &pass.parent, finalizer).await;
    }
    let observed = Arc::new(observe(pass)?);
    let cleanup = decide::decide(pass, Call::Finalize, &observed).await?;
    if pass.state.cleaning_up.is_none() {
        // Written before the status: once the status says that clean-up has begun, the plugin no longer emits these
        // Events. If the host stopped after the status write and before the Events, they would be lost.
        events::emit_first(pass, &cleanup.decision.events).await?;
        pass.state.cleaning_up = Some(Instant::now());
        audit_log::log(pass, Change::DeletionBegun);
    }
    match cleanup.stage {
        Stage::Decided | Stage::Waiting => wait(pass, &observed, cleanup).await,
        Stage::Done => finish(pass, &observed, cleanup, finalizer).await,
    }
}

fn has(parent: &Object, finalizer: &str) -> bool {
    parent.finalizers.iter().any(|present| **present == *finalizer)
}

/// Returns whether the plugin is asked to clean up after a parent that is being deleted.
pub fn asks_for_clean_up(active: &ActiveRevision, parent: &Object) -> bool {
    active.revision.descriptor().finalizer.is_some() && active.our_finalizer(parent).is_some()
}

/// Ends the clean-up of a parent without a finalizer of ours. Reports another finalizer that possibly nothing removes.
fn finish_without_finalizer(pass: &mut Pass<'_>) -> Outcome {
    let Some(orphan) = orphaned_finalizer(pass.controller, pass.active, &pass.parent) else { return Outcome::Released };
    pass.state.cleaning_up.get_or_insert_with(Instant::now);
    Outcome::Orphaned(orphan)
}

/// Returns a finalizer that possibly no controller removes: one with a name of this plugin's that another field manager
/// set, or one of our domain that no known component has because the history is lost. Returns `None` while a finalizer
/// of ours is left.
fn orphaned_finalizer(controller: &Controller, active: &ActiveRevision, parent: &Object) -> Option<Orphan> {
    if active.our_finalizer(parent).is_some() {
        return None;
    }
    let set_by_another = active.finalizers().filter(|finalizer| has(parent, finalizer)).find_map(|finalizer| {
        let set_by = active.set_by_another(parent, finalizer)?.to_owned();
        Some(Orphan { finalizer: finalizer.to_owned(), set_by: Some(set_by) })
    });
    let of_domain = || {
        let domain = finalizer::domain(&active.parent_kind().group);
        let is_alone = !active.parents.watch.has_other_parents(&controller.name);
        let finalizer = first_of_domain(&parent.finalizers, domain).filter(|_| is_alone)?.to_owned();
        Some(Orphan { finalizer, set_by: None })
    };
    set_by_another.or_else(of_domain)
}

fn first_of_domain<'a>(finalizers: &'a [Box<str>], domain: &str) -> Option<&'a str> {
    let is_of_domain = |finalizer: &&str| finalizer.split_once('/').is_some_and(|(prefix, _)| prefix == domain);
    finalizers.iter().map(|finalizer| &**finalizer).find(is_of_domain)
}

async fn wait(pass: &mut Pass<'_>, observed: &Observed, cleanup: CheckedDecision) -> Result<Outcome, Error> {
    let written = apply::apply(pass, observed, cleanup).await?;
    pass.state.count_stall(written.retry_soon);
    let Some(parent) = pass.live() else { return Ok(Outcome::Released) };
    // The plugin may be done once it is shown the first refusal. A later one is shown to it when it is asked again.
    let is_first_refusal = observed.shown.refusals.is_empty() && !pass.state.refused.is_empty();
    let has_changed = parent.resource_version != observed.parent.resource_version || is_first_refusal;
    Ok(match has_changed && !written.retry_soon {
        true => Outcome::Changed,
        false => Outcome::CleaningUp(plugin_waits(&pass.state.refused.shown(), written.retry_soon)),
    })
}

async fn finish(
    pass: &mut Pass<'_>,
    observed: &Observed,
    cleanup: CheckedDecision,
    finalizer: &str,
) -> Result<Outcome, Error> {
    let remaining = remaining_children(observed, cleanup.planned.as_ref());
    let written = apply::apply(pass, observed, cleanup).await?;
    pass.state.count_stall(written.retry_soon);
    if !remaining.is_empty() {
        let refused = refused_deletions(pass, observed, &remaining);
        return Ok(Outcome::CleaningUp(children_remain(&remaining, &refused, written.retry_soon)));
    }
    // The status must be written first: other finalizers may keep the object longer, and without our finalizer nothing
    // would report the end of the clean-up.
    if written.retry_soon {
        return Ok(Outcome::CleaningUp(RETRIED.to_owned()));
    }
    let Some(parent) = pass.live() else { return Ok(Outcome::Released) };
    remove_finalizer(pass, &parent, finalizer).await
}

/// Removes a finalizer. The parent is reconciled again if another finalizer of ours is left.
async fn remove_finalizer(pass: &Pass<'_>, parent: &Object, finalizer: &str) -> Result<Outcome, Error> {
    let (controller, active) = (pass.controller, pass.active);
    let (writer, watch) = (&controller.writer, &active.parents.watch);
    let reply = writer.remove_finalizer(&active.resource(), parent, finalizer, pass.permit).await;
    match writer.store_parent(watch, &active.resource(), parent, reply).await {
        Ok(parent) => {
            audit_log::log(pass, Change::FinalizerRemoved(finalizer));
            Ok(released(pass, &parent))
        }
        Err(error) if error.is_gone() => Ok(Outcome::Released),
        Err(_) if was_overtaken(watch, parent) => Ok(Outcome::Overtaken),
        Err(error) => Err(error.into()),
    }
}

fn released(pass: &Pass<'_>, parent: &Object) -> Outcome {
    let is_left = pass.active.our_finalizer(parent).is_some();
    if is_left || orphaned_finalizer(pass.controller, pass.active, parent).is_some() {
        return Outcome::Changed;
    }
    audit_log::log(pass, Change::DeletionDone);
    Outcome::Released
}

/// Returns the observed children that must be deleted before the finalizer is removed.
fn remaining_children(observed: &Observed, planned: Option<&Planned>) -> Vec<ObjectRef> {
    let Some(planned) = planned else { return Vec::new() };
    let stays = |kind: &Kind, child: &Object| planned.changed.iter().any(|(one, _)| one.is(kind, &child.key));
    let gone = observed.children.iter().filter(|(kind, child)| !stays(kind, child));
    gone.map(|(kind, child)| reference(kind, &child.key)).collect()
}

/// Returns which of the remaining children the API server or the grant does not let the plugin delete, and why.
fn refused_deletions(pass: &Pass<'_>, observed: &Observed, remaining: &[ObjectRef]) -> Vec<String> {
    let gate = Gate::of(pass.active, &observed.parent);
    let denied = remaining.iter().filter_map(|child| Some(gate.check_prune(child).err()?.reasons()));
    let refusals = pass.state.refused.shown().into_iter().filter(|refusal| remaining.contains(&refusal.reference));
    denied.chain(refusals.map(|refusal| refused_write(&refusal))).collect()
}

fn refused_write(refusal: &Refusal) -> String {
    format!("{}: {}", refusal.reference, refusal.message)
}

/// Says that the plugin waits, and which writes of its clean-up are refused or retried.
fn plugin_waits(refusals: &[Refusal], is_retried: bool) -> String {
    let refused: Vec<String> = refusals.iter().map(refused_write).collect();
    match (&*refused, is_retried) {
        ([], false) => PLUGIN_WAITS.to_owned(),
        ([], true) => format!("{PLUGIN_WAITS}, and {RETRIED}"),
        (refused, _) => format!("{PLUGIN_WAITS}, and a write is refused: {}", refused.join("; ")),
    }
}

/// Says that these children must be deleted first, and what keeps them: a refusal of their deletion, or else another
/// program.
fn children_remain(remaining: &[ObjectRef], refused: &[String], is_retried: bool) -> String {
    let names: Vec<String> = remaining.iter().map(ObjectRef::to_string).collect();
    let names = names.join(", ");
    match (refused, is_retried) {
        ([], false) => {
            format!("{names} must go first, and is not deleted yet: a finalizer or a controller may keep it")
        }
        ([], true) => format!("{names} must go first, and is not deleted yet: {RETRIED}"),
        (refused, _) => format!("{names} must go first, and a deletion is refused: {}", refused.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(name: &str) -> ObjectRef {
        ObjectRef { kind: Kind::new("", "v1", "ConfigMap"), namespace: Some("n".into()), name: name.into() }
    }

    #[test]
    fn another_program_is_blamed_for_a_child_only_if_its_deletion_was_not_refused() {
        let remaining = [config_map("a"), config_map("b")];
        let kept = children_remain(&remaining, &[], false);
        assert!(kept.contains("n/a") && kept.contains("n/b") && kept.contains("a finalizer"), "{kept}");
        let refused = children_remain(&remaining, &["ConfigMap n/b: cannot delete".to_owned()], true);
        assert!(refused.ends_with("a deletion is refused: ConfigMap n/b: cannot delete"), "{refused}");
        let retried = children_remain(&remaining, &[], true);
        for said in [&refused, &retried] {
            assert!(said.contains("must go first") && !said.contains("finalizer"), "{said}");
        }
    }

    #[test]
    fn a_clean_up_that_waits_says_which_of_its_writes_was_refused() {
        assert_eq!(plugin_waits(&[], false), PLUGIN_WAITS);
        assert!(plugin_waits(&[], true).ends_with(RETRIED));
        let refusal = Refusal {
            reference: config_map("a"),
            code: 403,
            reason: "Forbidden".to_owned(),
            message: "cannot patch".to_owned(),
        };
        let waits = plugin_waits(&[refusal], true);
        assert!(waits.starts_with(PLUGIN_WAITS) && waits.ends_with("ConfigMap n/a: cannot patch"), "{waits}");
    }

    #[test]
    fn only_a_finalizer_of_the_parents_own_domain_is_taken_for_one_of_a_former_component() {
        let finalizers = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect::<Vec<Box<str>>>();
        let found =
            |names: &[&str], group| first_of_domain(&finalizers(names), finalizer::domain(group)).map(str::to_owned);
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
