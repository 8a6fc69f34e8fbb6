//! Takes over parents from the plugins of `spec.takesOverFrom`. Children are taken over where they are written: the
//! claim after a conflict and the preparation of an apply see to that. What a predecessor left on a parent itself, a
//! finalizer, fields of the status, and labels and annotations, is removed here once the parent has settled.
//!
//! Each pass removes one of these, and the next pass sees the parent as that write left it.

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::audit_log;
use crate::reconcile::audit_log::Change;
use crate::reconcile::error::Error;
use crate::reconcile::outcome::Outcome;
use crate::reconcile::pass::Pass;
use hotshoe_cluster::parent::was_overtaken;
use hotshoe_core::diff::status;
use hotshoe_core::model::object::{Object, metadata_manager};

/// Removes the next thing that a predecessor left on a settled parent.
///
/// # Errors
/// The API server's.
pub async fn clear_parent(pass: &Pass<'_>) -> Result<Outcome, Error> {
    let (active, writer, watch) = (pass.active, &pass.controller.writer, &pass.active.parents.watch);
    let (resource, permit) = (&active.resource(), pass.permit);
    let Some(parent) = pass.live() else { return Ok(Outcome::Settled) };
    let (change, reply) = if let Some(finalizer) = finalizer_left(active, &parent) {
        let reply = writer.remove_finalizer(resource, &parent, finalizer, permit).await;
        (Change::FinalizerRemoved(finalizer), reply)
    } else if let Some(manager) = status_left(active, &parent) {
        (Change::StatusChanged, writer.drop_status_of(manager, resource, &parent, permit).await)
    } else if let Some(manager) = metadata_left(active, &parent) {
        (Change::MetadataChanged, writer.drop_metadata_of(&manager, resource, &parent, permit).await)
    } else {
        return Ok(Outcome::Settled);
    };
    match writer.store_parent(watch, resource, &parent, reply).await {
        Ok(_) => {
            audit_log::log(pass, change);
            Ok(Outcome::Changed)
        }
        Err(error) if error.code == 409 || was_overtaken(watch, &parent) => Ok(Outcome::Overtaken),
        Err(error) => Err(error.into()),
    }
}

/// Returns a finalizer that the host added to a parent for a predecessor, and that this plugin does not ask for.
fn finalizer_left<'a>(active: &'a ActiveRevision, parent: &Object) -> Option<&'a str> {
    let now = active.revision.descriptor().finalizer.as_deref();
    let is_left = |former: &&str| {
        Some(*former) != now
            && parent.finalizers.iter().any(|present| **present == **former)
            && active.set_by_another(parent, former).is_none()
    };
    active.plugin.predecessors.finalizers().iter().map(String::as_str).find(is_left)
}

/// Returns the field manager of a predecessor that still owns labels or annotations of a parent; none if this plugin has
/// not the right to change any.
fn metadata_left(active: &ActiveRevision, parent: &Object) -> Option<String> {
    let plugin = &active.plugin;
    let mut managers = plugin.predecessors.names().iter().map(|name| metadata_manager(name));
    let is_left = |manager: &String| parent.owned_fields(manager, false).is_some();
    managers.find(|manager| !plugin.grant.parent_metadata.is_empty() && is_left(manager))
}

/// Returns the field manager of a predecessor that still owns fields of a parent's status.
fn status_left<'a>(active: &'a ActiveRevision, parent: &Object) -> Option<&'a str> {
    let managers = active.plugin.predecessors.managers().iter().map(String::as_str);
    managers.filter(|_| active.resource().has_status).find(|manager| status::owns_any_field(parent, manager))
}
