//! Releases an object that is no longer a parent: it lost the labels of `spec.parent.selector`, or a changed
//! `plugin.yaml` has another selector or other namespaces.
//!
//! ```text
//! gone from the watch ─▶ read it: not there ─▶ nothing to do
//!                                 with the labels ─▶ it is a parent again
//!                                 without them ─▶ children (where `pruneAll` says so), what was stated of its metadata,
//!                                                 finalizer, our condition
//! ```
//!
//! [`find_deselected`] finds objects that changed while no host ran, or that another `plugin.yaml` no longer selects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::apply::may_prune;
use crate::reconcile::audit_log;
use crate::reconcile::audit_log::Change;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::gate::Gate;
use crate::reconcile::pass::Pass;
use crate::reconcile::requeue::{Reconciled, Requeue};
use crate::reconcile::triggers::owner_of;
use hotshoe_cluster::apply::{Parent, WriteError};
use hotshoe_cluster::identity::Permit;
use hotshoe_cluster::view;
use hotshoe_cluster::watch::Watches;
use hotshoe_core::check::parent_metadata::StatedMetadata;
use hotshoe_core::diff::parent_metadata::is_as_stated;
use hotshoe_core::diff::{Plan, status};
use hotshoe_core::model::kind::Key;
use hotshoe_core::model::object::{Object, PLUGIN_LABEL};
use hotshoe_platform::spans;

/// The pause before a retry.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Reconciles a key for which the watch has no parent: releases the object if it still exists.
pub async fn release_deselected(
    controller: &Controller,
    active: &ActiveRevision,
    key: &Key,
    permit: &Permit,
) -> Reconciled {
    let done = Reconciled { requeue: Requeue::OnChange, failed: false };
    if !controller.is_deselected(key) {
        controller.forget(key);
        return done;
    }
    let watch = &active.parents.watch;
    let released = match controller.writer.read_parent(&active.resource(), key, &watch.kept_fields()).await {
        Ok(live) if watch.selects(&live) => {
            watch.store(live);
            Ok(())
        }
        Ok(live) => release(Pass::begin(controller, active, Arc::new(live), permit)).await,
        Err(error) if error.is_gone() => Ok(()),
        Err(error) => Err(error.into()),
    };
    match released {
        Ok(()) => {
            controller.forget(key);
            done
        }
        Err(_) if permit.is_over() => Reconciled { requeue: Requeue::AtOnce, ..done },
        Err(error) => {
            tracing::warn!(retry = ?RETRY_PAUSE, "the object is no longer selected and is not released yet: {error}");
            Reconciled { requeue: Requeue::After(RETRY_PAUSE), failed: true }
        }
    }
}

/// Removes what was written to an object while it was a parent.
async fn release(mut pass: Pass<'_>) -> Result<(), Error> {
    prune(&pass).await?;
    take_off_metadata(&mut pass).await?;
    while let Some(finalizer) = pass.active.our_finalizer(&pass.parent) {
        pass.parent = remove_finalizer(&pass, &pass.parent, finalizer).await?;
    }
    let Pass { controller, active, parent, .. } = &pass;
    if active.resource().has_status && status::has_host_condition(parent) {
        controller.writer.remove_host_conditions(&active.resource(), parent, pass.permit).await?;
    }
    audit_log::log(&pass, Change::Released(pass.children.len()));
    Ok(())
}

/// Deletes the children if the grant has `pruneAll`. Otherwise they stay, and are garbage-collected with the object.
async fn prune(pass: &Pass<'_>) -> Result<(), Error> {
    let Pass { controller, active, parent, children, .. } = pass;
    if !active.plugin.grant.prune_all {
        return Ok(());
    }
    let reference = pass.reference();
    let gate = Gate::of(active, parent);
    let is_due =
        |kind, child: &Arc<Object>| !child.deleting && may_prune(pass, &view::reference(kind, &child.key), &gate);
    let prune = children.iter().filter(|(kind, child)| is_due(kind, child)).cloned().collect();
    let plan = Plan { prune, ..Plan::default() };
    let owner = Parent {
        reference: &reference,
        uid: &parent.uid,
        predecessors: &active.plugin.predecessors,
        adopts: false,
        check_result: &|_, _| Ok(()),
    };
    for child in controller.writer.execute(plan, &active.owned, owner, pass.permit).await {
        match child.result {
            Ok(_) => audit_log::log(pass, Change::Deleted(&child.reference)),
            Err(WriteError::Api(error)) if error.is_transient() => return Err(Error::Api(error)),
            // A child that cannot be deleted is garbage-collected with the object. It does not hold up the others.
            Err(WriteError::Api(error)) => {
                tracing::warn!(child = %child.reference, "a child of an object that is no longer selected stays: {error}");
            }
            Err(
                WriteError::Conflict { .. }
                | WriteError::Owned(_)
                | WriteError::Collecting
                | WriteError::Waits { .. }
                | WriteError::Denied(_),
            ) => {}
        }
    }
    Ok(())
}

/// Removes the labels and annotations that the plugin has stated of an object. Where it may not, they stay.
async fn take_off_metadata(pass: &mut Pass<'_>) -> Result<(), Error> {
    let (resource, writer, nothing) = (pass.active.resource(), &pass.controller.writer, StatedMetadata::default());
    if is_as_stated(&nothing, &pass.parent, writer.metadata_manager()) {
        return Ok(());
    }
    let reply = writer.apply_metadata(&resource, &pass.parent, &nothing, pass.permit).await;
    match writer.store_parent(&pass.active.parents.watch, &resource, &pass.parent, reply).await {
        Ok(parent) => {
            pass.parent = parent;
            audit_log::log(pass, Change::MetadataChanged);
            Ok(())
        }
        Err(error) if error.is_transient() => Err(error.into()),
        Err(error) => {
            tracing::warn!("labels and annotations of an object that is no longer selected stay: {error}");
            Ok(())
        }
    }
}

async fn remove_finalizer(pass: &Pass<'_>, parent: &Object, finalizer: &str) -> Result<Arc<Object>, Error> {
    let (controller, active) = (pass.controller, pass.active);
    let reply = controller.writer.remove_finalizer(&active.resource(), parent, finalizer, pass.permit).await;
    let reply = controller.writer.store_parent(&active.parents.watch, &active.resource(), parent, reply).await?;
    audit_log::log(pass, Change::FinalizerRemoved(finalizer));
    Ok(reply)
}

/// Requeues the objects that are no longer parents and may still carry what was written while they were. Called after a
/// start, and when another `plugin.yaml` selects other parents.
pub async fn find_deselected(controller: Arc<Controller>, watches: Arc<Watches>) {
    let Some(active) = controller.active() else { return };
    if !active.plugin.selects_parents() {
        return;
    }
    let parent = &active.revision.descriptor().parent;
    let of_plugin = |child: &Object| active.plugin.has_made(child.label(PLUGIN_LABEL));
    let children = active.owned.iter().flat_map(|owned| owned.watch.cache.all(of_plugin));
    let remembered = controller.remembered().into_iter();
    requeue(&controller, &active, remembered.chain(children.filter_map(|child| owner_of(&controller, parent, &child))));
    let span = spans::revision(&controller.name, active.revision.digest());
    requeue_holders(&controller, &watches, &active).instrument(span).await;
}

/// Requeues those of the objects that are no parents.
fn requeue(controller: &Controller, active: &ActiveRevision, candidates: impl Iterator<Item = Key>) {
    let parents = &active.parents.watch.cache;
    let candidates: BTreeSet<Key> = candidates.filter(|key| parents.get(key).is_none()).collect();
    for key in candidates {
        controller.note_deselected(key.clone());
        controller.queue.add(key);
    }
}

/// Requeues the objects of the parents' kind that have a finalizer of this plugin, whatever their labels are. Leaves out
/// the parents of other plugins of this host. A namespace that cannot be listed is tried again, and holds up no other one.
async fn requeue_holders(controller: &Controller, watches: &Watches, active: &ActiveRevision) {
    let ours: Vec<&str> = active.finalizers().collect();
    if ours.is_empty() {
        return;
    }
    let holds = |object: &Object| object.finalizers.iter().any(|present| ours.contains(&&**present));
    let is_free = |key: &Key| !watches.is_parent_of_another(&controller.name, active.parent_kind(), key);
    let resource = active.resource();
    let (mut parts, mut said) = (watches.namespaces().parts(resource.namespaced), None);
    loop {
        let holders = watches.holders_in(parts, &resource, holds).await;
        let problem = holders.problem();
        requeue(controller, active, holders.keys.into_iter().filter(is_free));
        if let Some(problem) = problem.as_ref().filter(|_| problem != said) {
            tracing::warn!(retry = ?RETRY_PAUSE, "objects that are no longer selected cannot be listed: {problem}");
        }
        if problem.is_none() {
            return;
        }
        said = problem;
        parts = holders.unlisted.into_iter().map(|(part, _)| part).collect();
        tokio::time::sleep(RETRY_PAUSE).await;
        if controller.active().is_none_or(|now| now.basis != active.basis) {
            return;
        }
    }
}
