//! Applies a child, and repairs what an apply cannot do by itself. An apply never removes what another field manager
//! added, so after an edit of a list key there are two elements where one is desired, or the API server refuses the
//! object. Such an edit is undone by a JSON patch of that place, before the next apply. The same is done for a value
//! that is desired to be empty.
//!
//! Fields of other field managers are left alone. If they make the desired object invalid, the refusal names these
//! fields and their owners, and a user has to decide.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::apply::{JSON_PATCH, Target, WriteError, Writer, unreadable};
use crate::cluster::checked_apply::check_repairs;
use crate::cluster::error::ApiError;
use hotshoe_core::check;
use hotshoe_core::check::result;
use hotshoe_core::diff;
use hotshoe_core::diff::hand_over::hand_over;
use hotshoe_core::diff::repair::Repair;
use hotshoe_core::diff::{Apply, Precondition};
use hotshoe_core::diff::{conflict, emptied, left, own_edits, renamed_elements, unowned, written_only};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::{FieldManager, LEFT_MANAGER, Object, PLUGIN_LABEL};

/// How often a child is read because another writer was faster: the controllers of a child write it as soon as it is
/// edited.
const MAX_ATTEMPTS: u32 = 7;
/// The pause before the second attempt. Each later pause is twice as long, so that not all attempts fall into one burst
/// of writes.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

impl Writer {
    /// Applies a child. If the child is ours and was edited, repairs what an apply alone would duplicate or be refused
    /// for.
    pub(super) async fn apply_and_repair(
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
        let Some(known) = known else { return Ok(self.try_apply(apply, target).await?) };
        let taken_over = self.take_over(apply, known, target).await?;
        let known = taken_over.as_deref().unwrap_or(known);
        let stored = self.own_as_stored(apply, known, target).await?;
        let known = stored.as_deref().unwrap_or(known);
        let left = self.leave(apply, known, target).await?;
        let known = left.as_deref().unwrap_or(known);
        let renamed = self.rename_back(apply, known, target).await?;
        let known = renamed.as_deref().unwrap_or(known);
        let emptied = self.empty_before(apply, known, target).await?;
        let known = emptied.as_deref().unwrap_or(known);
        match self.apply_checked(apply, known, target).await {
            // A child that was never applied has nothing of ours to restore.
            Err(WriteError::Api(refusal)) if refusal.is_of_fields() && self.has_applied(known) => {
                self.repair(apply, *refusal, target).await
            }
            Ok(applied) if renamed.is_some() || emptied.is_some() => {
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

    /// Makes this plugin the owner of the fields that a predecessor applied. An apply then removes what is no longer
    /// desired, as if the plugin had always had this name. Comes before the check of the result, which depends on it,
    /// and changes nothing but the ownership.
    async fn take_over(
        &self,
        apply: &Apply,
        known: &Object,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        let managers = target.predecessors.managers();
        if !managers.iter().any(|manager| known.owned_fields(manager, false).is_some()) {
            return Ok(None);
        }
        let find = |_: &Object, live: &Value| hand_over(live, managers, &self.manager).into_iter().collect();
        let handed_over = self.patch_live(apply, find, target).await?;
        if handed_over.is_some() {
            let (child, from) = (&apply.desired.reference, known.label(PLUGIN_LABEL));
            tracing::info!(plugin = self.plugin, %child, from, "child taken over");
        }
        Ok(handed_over)
    }

    /// Makes this plugin the owner of what the API server stored of fields that are only written, if it applied such
    /// fields with an earlier version of the host. Changes nothing but the ownership.
    async fn own_as_stored(
        &self,
        apply: &Apply,
        known: &Object,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        let kind = &apply.desired.reference.kind;
        if !known.owned_fields(&self.manager, false).is_some_and(|fields| written_only::is_needed(kind, fields)) {
            return Ok(None);
        }
        let find = |_: &Object, live: &Value| written_only::as_stored(live, &self.manager).into_iter().collect();
        self.patch_live(apply, find, target).await
    }

    /// Hands the fields that the plugin leaves to others to another field manager, so that the apply does not remove
    /// them. Changes nothing but the ownership, and without it nothing is applied.
    async fn leave(
        &self,
        apply: &Apply,
        known: &Object,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        let (manager, desired) = (&self.manager, &*apply.desired.body);
        let left = left::paths(&apply.desired.left, target.resource.has_scale, desired);
        let is_needed = |child: &Object| {
            let fields = |manager: &str| child.owned_fields(manager, false);
            left::is_needed(fields(manager), fields(LEFT_MANAGER), &left, desired)
        };
        if !is_needed(known) {
            return Ok(None);
        }
        let find = |_: &Object, live: &Value| left::handed_over(live, manager, &left, desired).into_iter().collect();
        self.must_patch_live(apply, find, target).await
    }

    /// Returns whether a child was applied before, even if another writer has removed our ownership since.
    fn has_applied(&self, child: &Object) -> bool {
        child.applied.is_some() || child.owned_fields(&self.manager, false).is_some()
    }

    /// Restores the names of list elements of ours if the child is known to lack them: an apply alone would succeed,
    /// and add a second element. Returns the child if any element was renamed.
    async fn rename_back(
        &self,
        apply: &Apply,
        known: &Object,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        let is_unchanged = known.applied.as_deref() == Some(&*apply.desired.digest);
        let fields = known.owned_fields(&self.manager, false).filter(|_| is_unchanged);
        if fields.is_some_and(|fields| renamed_elements::is_missing(fields, &apply.desired.body)) {
            let find = |_: &Object, live: &Value| renamed_elements::repairs(&apply.desired.body, live);
            return self.patch_live(apply, find, target).await;
        }
        Ok(None)
    }

    /// Empties lists and maps that are desired to be empty and hold what we applied before: an apply alone would remove
    /// the field. Returns the child if anything was emptied.
    async fn empty_before(
        &self,
        apply: &Apply,
        known: &Object,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        let (manager, desired) = (&self.manager, &*apply.desired.body);
        if !known.owned_fields(manager, false).is_some_and(|fields| emptied::is_needed(fields, desired)) {
            return Ok(None);
        }
        let find = |object: &Object, live: &Value| {
            emptied::repairs(object.owned_fields(manager, false).unwrap_or("{}"), desired, live)
        };
        self.patch_live(apply, find, target).await
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
        for _ in 0..MAX_ATTEMPTS {
            let Some(repaired) = self.patch_live(apply, find, target).await? else { break };
            match self.apply_checked(apply, &repaired, target).await {
                Ok(applied) => {
                    self.drop_update_entries(apply, target).await;
                    return Ok(applied);
                }
                Err(WriteError::Api(again)) if again.is_of_fields() => refusal = *again,
                Err(error) => return Err(error),
            }
        }
        self.apply_without_unowned(apply, refusal, target).await
    }

    /// Removes the fields that make the desired object invalid and that no field manager owns, and applies again: what
    /// the API server filled in for another choice. The patch makes the choice, too, so that nothing is lost if the API
    /// server refuses it.
    ///
    /// # Errors
    /// The refusal, if no such field is found. It names the conflicting field managers.
    async fn apply_without_unowned(
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
                // Where the object would have closed fields of others, the refusal names who set them.
                Ok(None) | Err(WriteError::Denied(_)) => break,
                Err(error) => return Err(error),
            };
            match self.apply_checked(apply, &repaired, target).await {
                Ok(applied) => {
                    self.drop_update_entries(apply, target).await;
                    return Ok(applied);
                }
                Err(WriteError::Api(again)) if again.is_of_fields() => refusal = *again,
                Err(error) => return Err(error),
            }
        }
        Err(self.name_conflicting_managers(apply, refusal, target).await.into())
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
            tracing::warn!(plugin = self.plugin, %child, "a repair stays in managedFields as an update, which no later apply can remove: {error}");
        }
    }

    /// Replaces parts of the live child, if the child is ours. Returns `None` if there is nothing to replace, or the
    /// API server refuses: then it refuses the apply, too.
    ///
    /// # Errors
    /// A transient error, or a denial of the object that would result.
    async fn patch_live(
        &self,
        apply: &Apply,
        find: impl FnMut(&Object, &Value) -> Vec<Repair>,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        match self.must_patch_live(apply, find, target).await {
            Err(WriteError::Api(error)) if !error.is_transient() => Ok(None),
            patched => patched,
        }
    }

    /// The same, for what must precede the apply.
    ///
    /// # Errors
    /// The API server's refusal, too.
    async fn must_patch_live(
        &self,
        apply: &Apply,
        mut find: impl FnMut(&Object, &Value) -> Vec<Repair>,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        for attempt in 0..MAX_ATTEMPTS {
            match self.try_patch_live(apply, &mut find, target).await {
                Err(WriteError::Api(error)) if error.is_failed_test() => {
                    let Some(pause) = pause_after(attempt) else { break };
                    tokio::time::sleep(pause).await;
                }
                tried => return tried,
            }
        }
        let child = apply.desired.reference.to_string();
        Err(ApiError::new("repair", child, 409, "Conflict", "another writer was faster each time".into()).into())
    }

    async fn try_patch_live(
        &self,
        apply: &Apply,
        find: &mut impl FnMut(&Object, &Value) -> Vec<Repair>,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        let reference = &apply.desired.reference;
        let text = self.get(target.resource, &check::key(reference), target.permit).await?;
        let object = target.view.watch.read(&text).map_err(|error| unreadable(reference, &error))?;
        let live: Value = serde_json::from_str(&text).map_err(|error| unreadable(reference, &error))?;
        let repairs = find(&object, &live);
        if repairs.is_empty() || Precondition::Uid(object.uid.clone()) != apply.precondition {
            return Ok(None);
        }
        check_repairs(apply, &object.closed, &live, &repairs, target)?;
        Ok(Some(self.replace(reference, &object, repairs, target).await?))
    }

    /// Replaces parts of a child, if the child still has the resource version that was read.
    async fn replace(
        &self,
        reference: &ObjectRef,
        seen: &Object,
        repairs: Vec<Repair>,
        target: Target<'_>,
    ) -> Result<Arc<Object>, ApiError> {
        let version = seen.resource_version.to_string();
        let mut patch = vec![json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version })];
        patch.extend(
            repairs.into_iter().map(|repair| json!({ "op": "replace", "path": repair.pointer, "value": repair.value })),
        );
        self.change("repair", reference, JSON_PATCH, &Value::Array(patch), target).await
    }
}

/// Returns the pause after an attempt, counted from 0; `None` after the last one.
fn pause_after(attempt: u32) -> Option<Duration> {
    (attempt + 1 < MAX_ATTEMPTS).then(|| FIRST_PAUSE * 2u32.pow(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_after_the_last_attempt() {
        let pauses: Vec<_> = (0..MAX_ATTEMPTS).map_while(pause_after).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320]);
        assert_eq!(pause_after(MAX_ATTEMPTS - 1), None);
    }
}
