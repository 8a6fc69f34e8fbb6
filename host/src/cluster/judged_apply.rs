//! An apply whose result is judged before anything is written.
//!
//! A plugin chooses the image of any container by its name, and what others set for that container, or for the whole Pod,
//! would be its own: a ServiceAccount, a Secret, the node's files. So where a live child has something that is closed to
//! plugins and that the answer does not say itself, the API server is asked first what would result, and only that
//! very version of the child is written. Other children are written at once.

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::apply::{Target, WriteError, Writer, unreadable};
use hotshoe_core::check::result;
use hotshoe_core::diff::repair::Repair;
use hotshoe_core::diff::{Apply, Precondition};
use hotshoe_core::model::object::Object;

/// How often the result is looked at again because another writer was faster: a Deployment has its status written some times
/// while it rolls out.
const ATTEMPTS: u32 = 5;

impl Writer {
    /// Applies a child; `known` is the newest version that is known of it.
    pub(super) async fn apply_judged(
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
            let precondition = self.judge_result(apply, target).await?;
            let judged = Apply { precondition, desired: apply.desired.clone() };
            match self.try_apply(&judged, target).await {
                Err(error) if error.code == 409 && tries < ATTEMPTS => tries += 1,
                applied => return Ok(applied?),
            }
        }
    }

    /// Judges what would result from an apply. Returns the version of the child for which that holds.
    async fn judge_result(&self, apply: &Apply, target: Target<'_>) -> Result<Precondition, WriteError> {
        let reference = &apply.desired.reference;
        let reply = self.foresee(apply, target).await?;
        (target.judge)(reference, &reply)?;
        let object = target.view.watch.read(&reply).map_err(|error| unreadable(reference, &error))?;
        Ok(Precondition::Version(object.uid, object.resource_version))
    }
}

/// Judges what results from replacing parts of a live child, which has `closed` in it.
///
/// # Errors
/// What the grant does not open.
pub(super) fn judge_repairs(
    apply: &Apply,
    closed: &[Box<str>],
    live: &Value,
    repairs: &[Repair],
    target: Target<'_>,
) -> Result<(), WriteError> {
    // Who owns which fields is no part of the content.
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
    Ok((target.judge)(&apply.desired.reference, &repaired.to_string())?)
}
