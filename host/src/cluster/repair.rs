//! An apply, and what it cannot do by itself: an apply never removes what another field manager added, so an edit
//! of a list key leaves two elements where one is desired, or an object that the API server refuses. Such an edit is
//! undone by a JSON patch of that place, and then applied over. So is what is to be empty.
//!
//! Fields of other field managers are left alone. If they make what is desired invalid, the refusal names them and
//! their owners, and people decide.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::apply::{JSON_PATCH, Target, WriteError, Writer, unreadable};
use crate::cluster::error::ApiError;
use crate::cluster::judged_apply::judge_repairs;
use hotshoe_core::check;
use hotshoe_core::diff;
use hotshoe_core::diff::hand_over::hand_over;
use hotshoe_core::diff::repair::Repair;
use hotshoe_core::diff::{Apply, Precondition};
use hotshoe_core::diff::{conflict, emptied, own_edits, renamed_elements};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::{FieldManager, Object, PLUGIN_LABEL};

/// How often a child is read again because another writer was faster: its controllers write it as soon as it is
/// edited.
const ATTEMPTS: u32 = 7;
/// The pause before the second of them; each later one is twice as long, so that all of them do not fall into one burst.
const PAUSE: Duration = Duration::from_millis(10);

impl Writer {
    /// Applies a child. If it is ours and was edited, repairs what an apply alone would double or be refused for.
    pub(super) async fn bring_about(
        &self,
        apply: &Apply,
        known: Option<&Object>,
        target: Target<'_>,
    ) -> Result<Arc<Object>, WriteError> {
        let Some(known) = known.filter(|_| apply.precondition != Precondition::Absent) else {
            return Ok(self.try_apply(apply, target).await?);
        };
        let taken_over = self.take_over(apply, known, target).await?;
        let known = taken_over.as_deref().unwrap_or(known);
        let renamed = self.rename_back(apply, known, target).await?;
        let known = renamed.as_deref().unwrap_or(known);
        let emptied = self.empty_before(apply, known, target).await?;
        let known = emptied.as_deref().unwrap_or(known);
        match self.apply_judged(apply, known, target).await {
            // In what was never applied there is nothing of ours to restore.
            Err(WriteError::Api(refusal)) if refusal.is_of_fields() && self.has_applied(known) => {
                self.repair(apply, *refusal, target).await
            }
            Ok(applied) if renamed.is_some() || emptied.is_some() => {
                self.forget_edits(apply, target).await;
                Ok(applied)
            }
            applied => applied,
        }
    }

    /// Makes the fields of a child this plugin's that one applied from which it takes over: an apply then removes what
    /// is no longer desired, as if the plugin had always had this name.
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
        let handed_over = self.put_back(apply, find, target).await?;
        if handed_over.is_some() {
            let (child, from) = (&apply.desired.reference, known.label(PLUGIN_LABEL));
            tracing::info!(plugin = self.plugin, %child, from, "child taken over");
        }
        Ok(handed_over)
    }

    /// Whether a child was applied before, even if another writer has removed our ownership since.
    fn has_applied(&self, child: &Object) -> bool {
        child.applied.is_some() || child.owned_fields(&self.manager, false).is_some()
    }

    /// Gives elements of ours their names back, if the child is known to lack them: an apply would succeed and add a
    /// second one. Returns the child, if any was renamed.
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
            return self.put_back(apply, find, target).await;
        }
        Ok(None)
    }

    /// Empties what is desired to be empty and holds what we applied before: an apply alone would leave no value there.
    /// Returns the child, if there was any.
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
        self.put_back(apply, find, target).await
    }

    /// Puts back elements of ours that lost their keys, and applies again. Only after a refusal: if it is unknown
    /// which element was edited, the list loses what others added to it. Another edit may come between the two,
    /// so it is tried again as long as there is something to put back.
    ///
    /// # Errors
    /// The refusal, if nothing can be repaired; it names the field managers in the way.
    async fn repair(&self, apply: &Apply, refusal: ApiError, target: Target<'_>) -> Result<Arc<Object>, WriteError> {
        let find = |object: &Object, live: &Value| {
            diff::repair::repairs(object.owned_fields(&self.manager, false).unwrap_or("{}"), &apply.desired.body, live)
        };
        let mut refusal = refusal;
        for _ in 0..ATTEMPTS {
            let Some(repaired) = self.put_back(apply, find, target).await? else { break };
            match self.apply_judged(apply, &repaired, target).await {
                Ok(applied) => {
                    self.forget_edits(apply, target).await;
                    return Ok(applied);
                }
                Err(WriteError::Api(again)) if again.is_of_fields() => refusal = *again,
                Err(error) => return Err(error),
            }
        }
        Err(self.name_conflict(apply, refusal, target).await.into())
    }

    /// Adds to a refusal which field managers set the fields that make what is desired invalid.
    async fn name_conflict(&self, apply: &Apply, refusal: ApiError, target: Target<'_>) -> ApiError {
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

    /// Drops the updates that our repairs left in `managedFields`: the apply after them owns the same fields, and no
    /// later apply could remove what an update owns. Always tried after a repair: another writer may have changed
    /// the child since, so the reply to the apply does not show whether it is needed.
    async fn forget_edits(&self, apply: &Apply, target: Target<'_>) {
        let find = |_: &Object, live: &Value| own_edits::without_edits(live, &self.manager).into_iter().collect();
        if let Err(WriteError::Api(error)) = self.put_back(apply, find, target).await {
            let child = &apply.desired.reference;
            tracing::warn!(plugin = self.plugin, %child, "what was repaired stays noted as an update: {error}");
        }
    }

    /// Replaces parts of the live child, if it is ours. Returns nothing if there is nothing to replace, or the API
    /// server refuses: then it refuses the apply too.
    ///
    /// # Errors
    /// Transient ones, and what would result if that may not be.
    async fn put_back(
        &self,
        apply: &Apply,
        mut find: impl FnMut(&Object, &Value) -> Vec<Repair>,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        for attempt in 0..ATTEMPTS {
            match self.try_put_back(apply, &mut find, target).await {
                Err(WriteError::Api(error)) if error.is_failed_test() => {
                    tokio::time::sleep(PAUSE * 2u32.pow(attempt)).await;
                }
                Err(WriteError::Api(error)) if !error.is_transient() => return Ok(None),
                tried => return tried,
            }
        }
        let child = apply.desired.reference.to_string();
        Err(ApiError::new("repair", child, 409, "Conflict", "another writer was faster each time".into()).into())
    }

    async fn try_put_back(
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
        judge_repairs(apply, &object.closed, &live, &repairs, target)?;
        Ok(Some(self.replace(reference, &object, repairs, target).await?))
    }

    /// Replaces parts of a child, if it still has the resource version that was read.
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
