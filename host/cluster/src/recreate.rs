//! Deletes a child of which a field would change that may not change, so that a later pass makes it anew.
//!
//! Only a child whose desired form says so, which the gate has admitted, and only one of a parent at a time: the next is
//! deleted once the one before is there again, so that what cannot be made anew costs one child and not all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::apply::{FOREGROUND, Target, WriteError, Writer, Written, unreadable};
use crate::error::ApiError;
use hotshoe_core::check;
use hotshoe_core::check::Denial;
use hotshoe_core::check::update_strategy::{UpdateStrategy, check_claims_stay};
use hotshoe_core::diff::Apply;
use hotshoe_core::diff::ownership::claim;
use hotshoe_core::model::object::Object;

impl Writer {
    /// Deletes a child if its apply was refused because it cannot change, and if it is to be made anew then. `turn` says
    /// whether one may be deleted in this pass, and none after that.
    ///
    /// # Errors
    /// Those of the apply, and those of the deletion.
    pub(super) async fn recreate_immutable(
        &self,
        apply: &Apply,
        written: Result<Arc<Object>, WriteError>,
        turn: &AtomicBool,
        target: Target<'_>,
    ) -> Result<Written, WriteError> {
        match written {
            Err(WriteError::Api(refusal))
                if refusal.is_immutable && apply.desired.strategy == UpdateStrategy::Recreate =>
            {
                self.recreate(apply, *refusal, turn, target).await
            }
            written => written.map(Written::Applied),
        }
    }

    /// Deletes the live version of a child, and no later one, with all that it owns. Its dependents go first, so that no
    /// Pod of the old one runs beside those of the new.
    ///
    /// # Errors
    /// The refusal, where the new one would be as the old one is, or where the old one was never applied; why the child
    /// has to wait; or the error with which the deletion fails.
    async fn recreate(
        &self,
        apply: &Apply,
        refusal: ApiError,
        turn: &AtomicBool,
        target: Target<'_>,
    ) -> Result<Written, WriteError> {
        let (reference, key) = (&apply.desired.reference, check::key(&apply.desired.reference));
        let json = match self.get(target.resource, &key, target.permit).await {
            Err(error) if error.is_gone() => return Err(waits("it is gone, and is made anew next")),
            reply => reply?,
        };
        let live = target.view.watch.read(&json).map_err(|error| unreadable(reference, &error))?;
        claim(&live, &apply.desired.digest, self.owner(target.parent))?;
        // What was made with just this content was changed by something else, which would do so again.
        if !self.has_applied(&live) || live.applied.as_deref() == Some(&*apply.desired.digest) {
            return Err(refusal.into());
        }
        let body: Value = serde_json::from_str(&json).map_err(|error| unreadable(reference, &error))?;
        check_claims_stay(reference, &body).map_err(Denial::from)?;
        if live.deleting {
            return Err(waits("it is being deleted, and is made anew once it is gone"));
        }
        if !turn.swap(false, Ordering::Relaxed) {
            return Err(waits("its turn comes once another child of this object is made anew"));
        }
        self.delete(reference, &live, FOREGROUND, target).await?;
        Ok(Written::Recreating(refusal.message))
    }
}

fn waits(why: &str) -> WriteError {
    WriteError::Waits { why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::{Method, StatusCode};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::apply::tests::Scene;
    use hotshoe_core::check::Desired;

    const CONFIG_MAP: (&str, &str, &str) = ("", "ConfigMap", "configmaps");
    const IMMUTABLE: &str = "Forbidden: field is immutable when `immutable` is set";

    /// Writes a child that the API server refuses to change, and returns the outcome with what was asked to be deleted.
    struct Trial {
        kind: (&'static str, &'static str, &'static str),
        strategy: UpdateStrategy,
        causes: Vec<&'static str>,
        live: Value,
        turn: bool,
    }

    impl Trial {
        fn new() -> Self {
            let owner =
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": "p", "controller": true });
            let metadata = json!({
                "namespace": "n", "name": "web", "uid": "u", "resourceVersion": "7", "ownerReferences": [owner],
                "labels": { "hotshoe.dev/plugin": "demo" }, "annotations": { "hotshoe.dev/applied": "before" },
            });
            let (causes, live) = (vec![IMMUTABLE], json!({ "metadata": metadata }));
            Self { kind: CONFIG_MAP, strategy: UpdateStrategy::Recreate, causes, live, turn: true }
        }

        fn with(mut self, pointer: &str, value: Value) -> Self {
            let (path, member) = pointer.rsplit_once('/').unwrap();
            self.live.pointer_mut(path).unwrap()[member] = value;
            self
        }

        async fn run(self) -> (Result<Written, WriteError>, Vec<Value>) {
            let deleted = Arc::new(Mutex::new(Vec::new()));
            let noted = deleted.clone();
            let causes: Vec<_> = self
                .causes
                .iter()
                .map(|message| json!({ "reason": "FieldValueInvalid", "field": "data", "message": message }))
                .collect();
            let refusal =
                json!({ "message": "no", "reason": "Invalid", "details": { "name": "web", "causes": causes } });
            let live = self.live.to_string();
            let answer = async move |method: Method, body: String| match method {
                Method::GET => (StatusCode::OK, live.clone()),
                Method::DELETE => {
                    noted.lock().push(serde_json::from_str::<Value>(&body).unwrap());
                    (StatusCode::OK, json!({ "kind": "Status", "status": "Success" }).to_string())
                }
                _ => (StatusCode::UNPROCESSABLE_ENTITY, refusal.to_string()),
            };
            let scene = Scene::new(self.kind, Router::new().fallback(answer)).await;
            let desired = Desired { strategy: self.strategy, ..scene.apply.desired.clone() };
            let apply = Apply { desired, ..scene.apply.clone() };
            let (target, turn) = (scene.target(&|_, _| Ok(())), AtomicBool::new(self.turn));
            let refused = scene.writer.send_apply(&apply, target).await.map_err(WriteError::from);
            let outcome = scene.writer.recreate_immutable(&apply, refused, &turn, target).await;
            let deleted = deleted.lock().clone();
            (outcome, deleted)
        }
    }

    #[tokio::test]
    async fn a_child_that_cannot_change_is_deleted_in_the_version_that_was_read_once_all_that_it_owns_is_gone() {
        let (outcome, deleted) = Trial::new().run().await;
        assert!(matches!(&outcome, Ok(Written::Recreating(why)) if why == "no"), "{outcome:?}");
        let [options] = &deleted[..] else { panic!("{deleted:?}") };
        assert_eq!(options["preconditions"], json!({ "uid": "u", "resourceVersion": "7" }));
        assert_eq!(options["propagationPolicy"], "Foreground");
    }

    #[tokio::test]
    async fn a_child_that_is_refused_for_another_reason_or_is_not_to_be_made_anew_is_not_deleted() {
        let wrong = r#"Invalid value: "immutable": must be a number"#;
        for (trial, why) in [
            (Trial { causes: vec![wrong], ..Trial::new() }, "another reason"),
            (Trial { causes: vec![IMMUTABLE, wrong], ..Trial::new() }, "the new one would be refused, too"),
            (Trial { causes: Vec::new(), ..Trial::new() }, "no reason"),
            (Trial { strategy: UpdateStrategy::InPlace, ..Trial::new() }, "in place"),
            (Trial::new().with("/metadata/annotations", json!({})), "never applied"),
            (
                Trial::new().with("/metadata/annotations", json!({ "hotshoe.dev/applied": "digest" })),
                "the new one would be the same",
            ),
        ] {
            let (outcome, deleted) = trial.run().await;
            assert!(matches!(&outcome, Err(WriteError::Api(error)) if error.code == 422), "{why}: {outcome:?}");
            assert_eq!(deleted, Vec::<Value>::new(), "{why}");
        }
    }

    #[tokio::test]
    async fn a_child_of_others_or_with_claims_that_would_go_with_it_is_not_deleted() {
        let (outcome, deleted) = Trial::new().with("/metadata/ownerReferences/0/uid", json!("another")).run().await;
        assert!(matches!(outcome, Err(WriteError::Collecting)) && deleted.is_empty(), "{outcome:?}");
        let (outcome, deleted) = Trial::new().with("/metadata/ownerReferences/0/name", json!("another")).run().await;
        assert!(matches!(outcome, Err(WriteError::Conflict { .. })) && deleted.is_empty(), "{outcome:?}");
        let set = ("apps", "StatefulSet", "statefulsets");
        let loses = json!({ "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" } });
        let owner =
            json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "parent", "uid": "p", "controller": true });
        let trial = Trial { kind: set, ..Trial::new() }.with("/metadata/ownerReferences", json!([owner]));
        let (outcome, deleted) = trial.with("/spec", loses).run().await;
        assert!(matches!(&outcome, Err(WriteError::Denied(denial)) if denial.rule() == "recreate-data"), "{outcome:?}");
        assert_eq!(deleted, Vec::<Value>::new());
    }

    #[tokio::test]
    async fn a_child_waits_while_another_is_made_anew_or_while_it_is_being_deleted_already() {
        let deleting = Trial::new().with("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        for trial in [Trial { turn: false, ..Trial::new() }, deleting] {
            let (outcome, deleted) = trial.run().await;
            assert!(matches!(outcome, Err(WriteError::Waits { .. })) && deleted.is_empty(), "{outcome:?}");
        }
    }
}
