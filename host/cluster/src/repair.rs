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
        let known = prepared.as_deref().unwrap_or(known);
        let written = match self.write_checked(apply, known, target).await {
            // A child that was never applied has nothing of ours to restore.
            Err(WriteError::Api(refusal)) if refusal.is_of_fields() && self.has_applied(known) => {
                self.repair(apply, *refusal, target).await
            }
            written => written,
        };
        self.without_updates(written?, apply, target).await
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
    pub(super) fn has_applied(&self, child: &Object) -> bool {
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
            Ok(applied) => Ok(Ok(applied)),
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

    /// Removes the `Update` entries that repairs of ours left in `managedFields`, those of an earlier write too that did
    /// not get as far as this. The apply owns the same fields, and no later apply could remove what an `Update` entry
    /// owns.
    ///
    /// # Errors
    /// A transient error: the child counts as not in sync as long as it has such an entry, so the write is retried. A
    /// conflict, if another writer took fields of ours since the apply: the object that results is in the store, which
    /// wakes nothing, and does not show whether the apply had an effect.
    async fn without_updates(
        &self,
        applied: Arc<Object>,
        apply: &Apply,
        target: Target<'_>,
    ) -> Result<Arc<Object>, WriteError> {
        if !applied.has_update_by(&self.manager) {
            return Ok(applied);
        }
        let find =
            |_: &Object, live: &Value| own_edits::without_edits(live, &self.manager).into_iter().collect::<Vec<_>>();
        let Some(patched) = self.patch_live(apply, find, target).await? else { return Ok(applied) };
        // The patch leaves alone what was applied: that it differs is the work of another writer.
        if patched.owned_fields(&self.manager, false) != applied.owned_fields(&self.manager, false) {
            let (child, message) = (apply.desired.reference.to_string(), "another writer changed what was repaired");
            return Err(ApiError::new("repair", child, 409, "Conflict", message.to_owned()).into());
        }
        Ok(patched)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::{Method, StatusCode};
    use hotshoe_core::diff::repair::{Repair, repaired};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::apply::tests::Scene;
    use hotshoe_core::check::Desired;

    const MANAGER: &str = "hotshoe/demo";
    const OWNED: &str = r#"{"f:spec":{"f:containers":{"k:{\"name\":\"ours\"}":{"f:image":{},"f:stdin":{}}}}}"#;
    /// What is owned once the container is renamed.
    const DISOWNED: &str = r#"{"f:spec":{"f:replicas":{}}}"#;
    const FAILED_TEST: &str = "the server rejected our request due to an error in our request";

    fn containers(name: &str) -> Value {
        json!([{ "name": name, "image": "i", "stdin": true }])
    }

    fn entry(operation: &str, fields: &str) -> Value {
        let fields: Value = serde_json::from_str(fields).unwrap();
        json!({ "manager": MANAGER, "operation": operation, "fieldsV1": fields })
    }

    /// A live Deployment on an API server of a test, in which another writer may rename the container.
    #[derive(Clone)]
    struct Live {
        object: Value,
        /// How many applies come too late, because the version has changed.
        overtaken: usize,
        /// Whether the last of these finds the container renamed.
        is_renamed_again: bool,
        /// Whether the container is renamed once more before the next read that follows a successful apply.
        is_renamed_after_apply: bool,
        writes: Vec<String>,
    }

    impl Live {
        fn new(name: &str, entries: &[Value]) -> Self {
            let annotations = json!({ "hotshoe.dev/applied": "digest" });
            let metadata = json!({
                "namespace": "n", "name": "web", "uid": "u", "resourceVersion": "1", "annotations": annotations,
                "managedFields": entries,
            });
            let object = json!({ "metadata": metadata, "spec": { "containers": containers(name) } });
            Self { object, overtaken: 0, is_renamed_again: false, is_renamed_after_apply: false, writes: Vec::new() }
        }

        fn version(&self) -> u64 {
            self.object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
        }

        fn change(&mut self, pointer: &str, value: Value) {
            let version = json!((self.version() + 1).to_string());
            for (pointer, value) in [(pointer, value), ("/metadata/resourceVersion", version)] {
                self.object = repaired(&self.object, &[Repair { pointer: pointer.to_owned(), value }]);
            }
        }

        fn set_entries(&mut self, entries: &[Value]) {
            self.object["metadata"]["managedFields"] = entries.into();
        }

        fn rename(&mut self) {
            self.change("/spec/containers", containers("renamed"));
            self.set_entries(&[entry("Apply", DISOWNED)]);
        }

        fn answer(&mut self, method: &Method, body: &str) -> (StatusCode, String) {
            if *method == Method::GET {
                if self.is_renamed_after_apply && self.writes.last().is_some_and(|write| write == "apply 200") {
                    self.is_renamed_after_apply = false;
                    self.change("/spec/containers", containers("renamed"));
                    self.set_entries(&[entry("Apply", DISOWNED), entry("Update", DISOWNED)]);
                }
                return (StatusCode::OK, self.object.to_string());
            }
            let sent: Value = serde_json::from_str(body).unwrap();
            let (verb, code) = match sent.as_array() {
                Some(operations) => ("patch", self.patch(operations)),
                None => ("apply", self.apply(&sent)),
            };
            self.writes.push(format!("{verb} {}", code.as_u16()));
            let message = json!({ "kind": "Status", "message": FAILED_TEST });
            (code, if code == StatusCode::OK { &self.object } else { &message }.to_string())
        }

        fn patch(&mut self, operations: &[Value]) -> StatusCode {
            for operation in operations {
                let (path, value) = (operation["path"].as_str().unwrap(), operation["value"].clone());
                match operation["op"] == "test" {
                    true if value != self.object["metadata"]["resourceVersion"] => {
                        return StatusCode::UNPROCESSABLE_ENTITY;
                    }
                    true => {}
                    false if path == "/metadata/managedFields" => self.change(path, value),
                    false => {
                        self.change(path, value);
                        self.set_entries(&[entry("Apply", DISOWNED), entry("Update", OWNED)]);
                    }
                }
            }
            StatusCode::OK
        }

        fn apply(&mut self, sent: &Value) -> StatusCode {
            if self.overtaken > 0 {
                self.overtaken -= 1;
                match self.overtaken == 0 && self.is_renamed_again {
                    true => self.rename(),
                    false => self.change("/metadata/generation", json!(0)),
                }
            }
            if sent["metadata"]["resourceVersion"] != self.object["metadata"]["resourceVersion"] {
                return StatusCode::CONFLICT;
            }
            let is_beside = self.object["spec"]["containers"] != containers("ours");
            assert!(!is_beside, "an apply would add a second container");
            let entries = self.object["metadata"]["managedFields"].as_array().unwrap();
            let updates = entries.iter().filter(|entry| entry["operation"] == "Update").cloned();
            let entries: Vec<_> = [entry("Apply", OWNED)].into_iter().chain(updates).collect();
            self.change("/metadata/generation", json!(0));
            self.set_entries(&entries);
            StatusCode::OK
        }
    }

    /// Writes the child of which `known` is known, and returns the live one with the writes.
    async fn written(known: Live, live: Live) -> (Value, Vec<String>) {
        let (live, applied) = tried(known, live).await;
        assert_eq!(applied.unwrap().resource_version, live.version(), "the newest version is returned");
        (live.object, live.writes)
    }

    /// Writes the child of which `known` is known, and returns the live one with the result.
    async fn tried(known: Live, live: Live) -> (Live, Result<Arc<Object>, WriteError>) {
        let live = Arc::new(Mutex::new(live));
        let served = live.clone();
        let answer = async move |method: Method, body: String| served.lock().answer(&method, &body);
        let scene = Scene::new(("apps", "Deployment", "deployments"), Router::new().fallback(answer)).await;
        let body = json!({ "metadata": { "name": "web" }, "spec": { "containers": containers("ours") } }).into();
        let desired = Desired { body, ..scene.apply.desired.clone() };
        let apply = Apply { desired, ..scene.apply.clone() };
        let known = scene.view.watch.read(&known.object.to_string()).unwrap();
        let target = scene.target(&|_, _| Ok(()));
        let applied = scene.writer.write_repaired(&apply, Some(&known), target).await;
        let live = live.lock().clone();
        (live, applied)
    }

    fn is_as_desired(object: &Value) -> bool {
        let entries = &object["metadata"]["managedFields"];
        object["spec"]["containers"] == containers("ours") && *entries == json!([entry("Apply", OWNED)])
    }

    #[tokio::test]
    async fn no_update_is_left_of_a_repair_whose_apply_others_overtook_until_the_child_was_claimed_again() {
        let renamed = || {
            let mut live = Live::new("ours", &[]);
            live.rename();
            live
        };
        let (object, writes) = written(renamed(), Live { overtaken: 3, ..renamed() }).await;
        assert!(is_as_desired(&object), "{object:#}");
        assert_eq!(writes, ["patch 200", "apply 409", "apply 409", "apply 409", "apply 200", "patch 200"]);
    }

    #[tokio::test]
    async fn a_container_that_is_renamed_between_the_apply_and_the_end_of_a_repair_is_a_conflict_and_repaired_again() {
        let left = || Live::new("ours", &[entry("Apply", OWNED), entry("Update", OWNED)]);
        let (live, result) = tried(left(), Live { is_renamed_after_apply: true, ..left() }).await;
        assert!(matches!(&result, Err(WriteError::Api(error)) if error.code == 409), "{result:?}");
        assert_eq!(live.writes, ["apply 200", "patch 200"]);
        let (object, _) = written(live.clone(), live).await;
        assert!(is_as_desired(&object), "{object:#}");
    }

    #[tokio::test]
    async fn an_update_that_an_earlier_write_left_is_removed_by_the_next() {
        let left = || Live::new("ours", &[entry("Apply", OWNED), entry("Update", OWNED)]);
        let (object, writes) = written(left(), left()).await;
        assert!(is_as_desired(&object), "{object:#}");
        assert_eq!(writes, ["apply 200", "patch 200"]);
    }

    #[tokio::test]
    async fn a_container_that_is_renamed_while_the_child_is_written_gets_its_name_back() {
        let known = Live::new("ours", &[entry("Apply", OWNED)]);
        let live = Live { overtaken: 2, is_renamed_again: true, ..Live::new("ours", &[entry("Apply", OWNED)]) };
        let (object, writes) = written(known, live).await;
        assert!(is_as_desired(&object), "{object:#}");
        assert_eq!(writes, ["apply 409", "apply 409", "patch 200", "apply 200", "patch 200"]);
    }
}
