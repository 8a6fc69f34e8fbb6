//! An apply whose result is checked before anything is written.
//!
//! A plugin chooses the image of any container by the container's name. What others set for that container, or for the
//! whole Pod, would then be in the hands of the plugin: a ServiceAccount, a Secret, the node's files. So if a live
//! child has fields that are closed to plugins and that the answer does not set itself, the host first asks the API
//! server by a dry run what would result, and then writes only to exactly that version of the child. Other children are
//! written at once.

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::apply::{Target, WriteError, Writer, unreadable};
use hotshoe_core::check::result;
use hotshoe_core::diff::repair::Repair;
use hotshoe_core::diff::{Apply, Precondition};
use hotshoe_core::model::object::Object;

/// How often the result is checked because another writer was faster: the status of a Deployment is written several
/// times while it rolls out.
const MAX_ATTEMPTS: u32 = 5;

impl Writer {
    /// Applies a child, and checks the result first where needed; `known` is the newest known version of the child.
    pub(super) async fn apply_checked(
        &self,
        apply: &Apply,
        known: &Object,
        target: Target<'_>,
    ) -> Result<Arc<Object>, WriteError> {
        if !result::may_exceed(&known.closed, &apply.desired) {
            return Ok(self.try_apply(apply, target).await?);
        }
        let mut tries = 1;
        loop {
            let precondition = self.check_result(apply, target).await?;
            let checked = Apply { precondition, desired: apply.desired.clone() };
            match self.try_apply(&checked, target).await {
                Err(error) if error.code == 409 && tries < MAX_ATTEMPTS => tries += 1,
                applied => return Ok(applied?),
            }
        }
    }

    /// Checks the object that would result from an apply. Returns a precondition for the version of the child that was
    /// checked.
    async fn check_result(&self, apply: &Apply, target: Target<'_>) -> Result<Precondition, WriteError> {
        let reference = &apply.desired.reference;
        let reply = self.dry_run(apply, target).await?;
        (target.check_result)(reference, &reply)?;
        let object = target.view.watch.read(&reply).map_err(|error| unreadable(reference, &error))?;
        Ok(Precondition::Version(object.uid, object.resource_version))
    }
}

/// Checks the object that results from replacing parts of a live child, which has the `closed` fields.
///
/// # Errors
/// A denial, if the result has closed fields that the grant does not open.
pub(super) fn check_repairs(
    apply: &Apply,
    closed: &[Box<str>],
    live: &Value,
    repairs: &[Repair],
    target: Target<'_>,
) -> Result<(), WriteError> {
    // A change of the ownership of fields does not change the content.
    let changes_content = repairs.iter().any(|repair| !repair.pointer.starts_with("/metadata/"));
    if !changes_content || !result::may_exceed(closed, &apply.desired) {
        return Ok(());
    }
    let mut repaired = live.clone();
    for repair in repairs {
        if let Some(place) = repaired.pointer_mut(&repair.pointer) {
            place.clone_from(&repair.value);
        }
    }
    Ok((target.check_result)(&apply.desired.reference, &repaired.to_string())?)
}
