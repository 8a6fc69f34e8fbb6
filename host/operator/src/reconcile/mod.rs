//! The page to read first: observe, decide, check, apply, report.
//!
//! A reconcile works with one revision of the plugin from beginning to end: the active revision, or the [`canary`] for
//! the parents of its share. It never runs twice at once for one parent. It ends with a decision when to reconcile the
//! parent again.

pub mod active_revision;
pub mod apply;
pub mod audit_log;
pub mod canary;
pub mod check;
pub mod complete;
pub mod controller;
pub mod decide;
pub mod decided;
pub mod decisions;
pub mod error;
pub mod events;
pub mod finalize;
pub mod fingerprint;
pub mod gate;
pub mod health;
pub mod log_lines;
pub mod naming;
pub mod needed;
pub mod needed_watches;
pub mod observe;
pub mod outcome;
pub mod parent_state;
pub mod pass;
pub mod queue;
pub mod record;
pub mod refused_writes;
pub mod release;
pub mod report;
pub mod requeue;
pub mod requirements;
pub mod rivals;
pub mod slot;
pub mod status_plan;
pub mod survey;
pub mod takeover;
pub mod triggers;
pub mod worker;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::audit_log::Change;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::fingerprint::{backoff_basis, fingerprint, try_basis};
use crate::reconcile::observe::{Observed, shown_parent};
use crate::reconcile::outcome::Outcome;
use crate::reconcile::pass::Pass;
use crate::reconcile::requeue::{Reconciled, Requeue};
use hotshoe_cluster::identity::Permit;
use hotshoe_cluster::parent::was_overtaken;
use hotshoe_core::model::decision::{Call, Observation};
use hotshoe_core::model::kind::Key;
use hotshoe_core::model::object::Object;

/// Reconciles one parent once, with the revision that decides for it; its writes need this permit. If the permit ends
/// during the pass, nothing is reported or remembered: another host may work for the parent by now.
pub async fn reconcile(controller: &Controller, active: &ActiveRevision, key: &Key, permit: &Permit) -> Reconciled {
    let nothing = Reconciled { requeue: Requeue::OnChange, failed: false };
    let Some(parent) = active.parents.watch.cache.get(key) else {
        return release::release_deselected(controller, active, key, permit).await;
    };
    let mut pass = Pass::begin(controller, active, parent, permit);
    pass.state.begin_tries(try_basis(controller, active, &pass.parent), pass.parent.marks);
    if let Some(pause) = remaining_pause(&pass) {
        return Reconciled { requeue: Requeue::After(pause), ..nothing };
    }
    let result = guarded(work(&mut pass)).await;
    pass.record_signals();
    if permit.is_over() {
        return Reconciled { requeue: Requeue::AtOnce, ..nothing };
    }
    let is_reported = report::report(&mut pass, &result).await;
    decided::keep(&pass, &result);
    let flap_pause = decide::flap_pause(&pass);
    Reconciled { requeue: pass.end(&result, is_reported, flap_pause), failed: result.is_err() }
}

async fn work(pass: &mut Pass<'_>) -> Result<Outcome, Error> {
    complete::complete(pass).await?;
    if pass.parent.deleting {
        return finalize::finalize(pass).await;
    }
    match converge(pass).await? {
        Outcome::Settled if pass.active.plugin.predecessors.are_any() => takeover::clear_parent(pass).await,
        outcome => Ok(outcome),
    }
}

/// Turns a panic into an error, so that the parent's condition says that it is not reconciled.
async fn guarded(work: impl Future<Output = Result<Outcome, Error>>) -> Result<Outcome, Error> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or(Err(Error::Panicked))
}

async fn converge(pass: &mut Pass<'_>) -> Result<Outcome, Error> {
    let Some(parent) = ensure_finalizer(pass).await? else { return Ok(Outcome::Overtaken) };
    let observed = Arc::new(observe::observe_parent(pass, parent)?);
    if is_settled(pass, &observed) {
        return Ok(Outcome::Settled);
    }
    let checked = decide::decide(pass, Call::Reconcile, &observed).await?;
    decide::note_intent(pass, &observed, checked.desired_fingerprint);
    let written = apply::apply(pass, &observed, checked).await?;
    Ok(conclude(pass, &observed, written))
}

/// Adds the finalizer before any other write. Returns `None` if another writer has changed the parent meanwhile.
async fn ensure_finalizer(pass: &Pass<'_>) -> Result<Option<Arc<Object>>, Error> {
    let (controller, active, parent) = (pass.controller, pass.active, &pass.parent);
    let Some(finalizer) = &active.revision.descriptor().finalizer else { return Ok(Some(parent.clone())) };
    if parent.finalizers.iter().any(|present| **present == **finalizer) {
        return Ok(Some(parent.clone()));
    }
    let (writer, watch) = (&controller.writer, &active.parents.watch);
    let added = writer.add_finalizer(&active.resource(), parent, finalizer, pass.permit).await;
    match writer.store_parent(watch, &active.resource(), parent, added).await {
        Err(_) if was_overtaken(watch, parent) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(parent) => {
            audit_log::log(pass, Change::FinalizerAdded(finalizer));
            Ok(Some(parent))
        }
    }
}

/// Returns whether this state was already found settled, and no timer or retry is due.
fn is_settled(pass: &Pass<'_>, observed: &Observed) -> bool {
    let same = |settled| settled == fingerprint(pass.controller, pass.active, observed);
    pass.state.none_due() && pass.state.settled.is_some_and(same)
}

/// Returns the rest of the pause of a parent that failed, or on which the plugin flaps. A pass that ends here must not
/// be recorded as a success: the reported failure is still true.
fn remaining_pause(pass: &Pass<'_>) -> Option<Duration> {
    let Pass { controller, active, parent, children, state, .. } = pass;
    let basis = || backoff_basis(controller, active, parent, &parent.finalizers, children);
    let failed = state.backoff.filter(|(_, failed)| *failed == basis() && !controller.needed.is_outdated(&parent.key));
    let left = failed.and_then(|(until, _)| until.checked_duration_since(tokio::time::Instant::now()));
    left.or_else(|| decide::flap_pause(pass))
}

/// Concludes a pass after its writes. The parent is settled unless the writes changed what the plugin sees.
///
/// The state remembered as settled is the one that the plugin decided on, updated by the reply to our own status write.
/// It is not the current state of the cache: an edit that arrived during the pass would be counted as settled and never
/// be reconciled.
fn conclude(pass: &mut Pass<'_>, before: &Observed, written: apply::WriteOutcome) -> Outcome {
    pass.state.settled = None;
    pass.state.shown_now = None;
    if written.terminating {
        return Outcome::NamespaceTerminating;
    }
    pass.state.count_stall(written.retry_soon);
    if written.retry_soon {
        return Outcome::Stalled;
    }
    let parent = written.parent.unwrap_or_else(|| before.parent.clone());
    let shown = Observation { parent: shown_parent(pass.active, &parent), ..Observation::clone(&before.shown) };
    if written.children || written.refusal_ended || shown.parent != before.shown.parent {
        pass.state.shown_now = before.shown.now;
        return Outcome::Changed;
    }
    let after = Observed { parent, children: before.children.clone(), shown: Arc::new(shown), denied: None };
    if !pass.state.fetched {
        pass.state.settled = Some(fingerprint(pass.controller, pass.active, &after));
    }
    Outcome::Settled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_reconcile_is_an_error_that_the_parent_shows() {
        let result = guarded(async { panic!("a fault of the host") }).await;
        assert_eq!(result, Err(Error::Panicked));
        assert_eq!(guarded(async { Ok(Outcome::Settled) }).await, Ok(Outcome::Settled));
    }
}
