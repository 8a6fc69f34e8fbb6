//! Writes a child, and recovers from a refused apply. An apply never removes what another field manager added, so
//! after an edit of a list key there would be two elements where one is desired, and the API server may refuse the
//! object. Such an edit is undone by a JSON patch of that place, and the child is applied again.
//!
//! Fields of other field managers are left alone. If they make the desired object invalid, the refusal names these
//! fields and their owners, and a user has to decide.

use std::sync::Arc;

use serde_json::Value;

use crate::apply::{Target, WriteError, Writer};
use crate::error::ApiError;
use hotshoe_core::check;
use hotshoe_core::check::result;
use hotshoe_core::diff;
use hotshoe_core::diff::{Apply, Precondition, conflict, left, own_edits, unowned};
use hotshoe_core::model::object::{FieldManager, Object};

/// How often a refused child is repaired and applied again because another edit came in between.
const MAX_REPAIRS: u32 = 7;

impl Writer {
    /// Writes a child. If it is ours and was edited, repairs what an apply alone would duplicate or be refused for.
    pub(super) async fn write_repaired(
        &self,
        apply: &Apply,
        known: Option<&Object>,
        target: Target<'_>,
    ) -> Result<Arc<Object>, WriteError> {
        let read = match known {
            None => self.read_unknown(apply, target).await?,
            Some(_) => None,
        };
        let known = known.or(read.as_deref()).filter(|_| apply.precondition != Precondition::Absent);
        let Some(known) = known else { return Ok(self.send_apply(apply, target).await?) };
        let prepared = self.prepare(apply, known, target).await?;
        let known = prepared.child.as_deref().unwrap_or(known);
        match self.write_checked(apply, known, target).await {
            // A child that was never applied has nothing of ours to restore.
            Err(WriteError::Api(refusal)) if refusal.is_of_fields() && self.has_applied(known) => {
                self.repair(apply, *refusal, target).await
            }
            Ok(applied) if prepared.is_edited => {
                self.drop_update_entries(apply, target).await;
                Ok(applied)
            }
            applied => applied,
        }
    }

    /// Reads a child that exists and is not in the store, if its result has to be checked, or if it has fields that are
    /// left to others.
    async fn read_unknown(&self, apply: &Apply, target: Target<'_>) -> Result<Option<Arc<Object>>, ApiError> {
        let reference = &apply.desired.reference;
        let has_left = || !left::paths(&apply.desired.left, target.resource.has_scale, &apply.desired.body).is_empty();
        match apply.precondition != Precondition::Absent && (result::is_checked(&reference.kind) || has_left()) {
            true => self.read_live(&check::key(reference), target).await,
            false => Ok(None),
        }
    }

    /// Returns whether a child was applied before, even if another writer has removed our ownership since.
    fn has_applied(&self, child: &Object) -> bool {
        child.applied.is_some() || child.owned_fields(&self.manager, false).is_some()
    }

    /// Restores elements of ours that lost their keys, and applies again. Done only after a refusal: if it is unknown
    /// which element was edited, the list loses what others added to it. Another edit may come between the repair and
    /// the apply, so both are repeated as long as there is something to restore.
    ///
    /// # Errors
    /// The refusal, if nothing can be repaired. It names the conflicting field managers.
    async fn repair(&self, apply: &Apply, refusal: ApiError, target: Target<'_>) -> Result<Arc<Object>, WriteError> {
        let find = |object: &Object, live: &Value| {
            diff::repair::repairs(object.owned_fields(&self.manager, false).unwrap_or("{}"), &apply.desired.body, live)
        };
        let mut refusal = refusal;
        for _ in 0..MAX_REPAIRS {
            let Some(repaired) = self.patch_live(apply, find, target).await? else { break };
            match self.write_again(apply, &repaired, target).await? {
                Ok(applied) => return Ok(applied),
                Err(again) => refusal = again,
            }
        }
        self.write_without_unowned(apply, refusal, target).await
    }

    /// Removes the fields that make the desired object invalid and that no field manager owns, and applies again: what
    /// the API server filled in for another choice. The patch makes the choice, too, so that nothing is lost if the API
    /// server refuses it.
    ///
    /// # Errors
    /// The refusal, if no such field is found. It names the conflicting field managers.
    async fn write_without_unowned(
        &self,
        apply: &Apply,
        mut refusal: ApiError,
        target: Target<'_>,
    ) -> Result<Arc<Object>, WriteError> {
        let desired = &*apply.desired.body;
        let left = left::paths(&apply.desired.left, target.resource.has_scale, desired);
        for tried in 0..unowned::MOST_TRIES {
            let (fields, mut all) = (refusal.fields.clone(), 0);
            let find = |_: &Object, live: &Value| {
                let managers = FieldManager::all_of(&live.to_string()).unwrap_or_default();
                let refused = unowned::Refused { manager: &self.manager, desired, fields: &fields, left: &left };
                let mut repairs = unowned::repairs(live, &managers, refused);
                all = repairs.len();
                if tried < all { repairs.swap_remove(tried) } else { Vec::new() }
            };
            let repaired = match self.patch_live(apply, find, target).await {
                Ok(Some(repaired)) => repaired,
                Ok(None) if tried + 1 < all => continue,
                // Where the object would have fields of others that are not granted, the refusal names who set them.
                Ok(None) | Err(WriteError::Denied(_)) => break,
                Err(error) => return Err(error),
            };
            match self.write_again(apply, &repaired, target).await? {
                Ok(applied) => return Ok(applied),
                Err(again) => refusal = again,
            }
        }
        Err(self.name_conflicting_managers(apply, refusal, target).await.into())
    }

    /// Writes a child after a repair. Returns the refusal if it is refused for its fields again.
    async fn write_again(
        &self,
        apply: &Apply,
        repaired: &Object,
        target: Target<'_>,
    ) -> Result<Result<Arc<Object>, ApiError>, WriteError> {
        match self.write_checked(apply, repaired, target).await {
            Ok(applied) => {
                self.drop_update_entries(apply, target).await;
                Ok(Ok(applied))
            }
            Err(WriteError::Api(again)) if again.is_of_fields() => Ok(Err(*again)),
            Err(error) => Err(error),
        }
    }

    /// Adds the field managers to a refusal whose fields make the desired object invalid.
    async fn name_conflicting_managers(&self, apply: &Apply, refusal: ApiError, target: Target<'_>) -> ApiError {
        let key = check::key(&apply.desired.reference);
        let managers = match self.get(target.resource, &key, target.permit).await {
            Ok(live) => FieldManager::all_of(&live).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        match conflict::blocking_fields(&managers, &self.manager, &apply.desired.body, &refusal.fields) {
            Some(fields) => refusal.because_of(&fields),
            None => refusal,
        }
    }

    /// Drops the `Update` entries that our repairs left in `managedFields`. The apply after a repair owns the same
    /// fields, and no later apply could remove what an `Update` entry owns. Always tried after a repair: another writer
    /// may have changed the child since, so the reply to the apply does not show whether it is needed.
    async fn drop_update_entries(&self, apply: &Apply, target: Target<'_>) {
        let find = |_: &Object, live: &Value| own_edits::without_edits(live, &self.manager).into_iter().collect();
        if let Err(WriteError::Api(error)) = self.patch_live(apply, find, target).await {
            let child = &apply.desired.reference;
            tracing::warn!(%child, "a repair stays in managedFields as an update, which no later apply can remove: {error}");
        }
    }
}
