//! Replaces parts of a live child by a JSON patch, before an apply or after a refused one. The patch applies only to
//! the version of the child that was read, so that it replaces nothing that another writer has changed since.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::apply::{JSON_PATCH, Target, WriteError, Writer, unreadable};
use crate::checked_apply::check_repairs;
use crate::error::ApiError;
use hotshoe_core::check;
use hotshoe_core::diff::repair::Repair;
use hotshoe_core::diff::{Apply, Precondition};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::Object;

/// How often a child is read because another writer was faster: the controllers of a child write it as soon as it is
/// edited.
const MAX_ATTEMPTS: u32 = 7;
/// The pause before the second attempt. Each later pause is twice as long, so that not all attempts fall into one burst
/// of writes.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

impl Writer {
    /// Replaces parts of the live child, if the child is ours. Returns `None` if there is nothing to replace, or the
    /// API server refuses: then it refuses the apply, too.
    ///
    /// # Errors
    /// A transient error, or a denial of the object that would result.
    pub(super) async fn patch_live(
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

    /// Replaces parts of the live child as [`Self::patch_live`] does, where the apply depends on it: a refusal is an
    /// error.
    ///
    /// # Errors
    /// The API server's error, or a denial of the object that would result.
    pub(super) async fn must_patch_live(
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
        check_repairs(apply, &object.needs_grant, &live, &repairs, target)?;
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
