//! An apply whose result is checked before anything is written.
//!
//! A plugin chooses the image of any container by the container's name. What others set for that container, or for the
//! whole Pod, would then be in the hands of the plugin: a ServiceAccount, a Secret, the node's files. So if a live
//! child has fields that are denied unless granted and that the answer does not set itself, the host first asks the API
//! server by a dry run what would result. In either case it writes only to exactly the version of the child that it
//! looked at: another field manager may add fields while the write waits for its turn. Children of kinds whose results
//! are not checked are written to any version.

use std::sync::Arc;

use serde_json::Value;

use crate::apply::{Target, WriteError, Writer};
use hotshoe_core::check::result;
use hotshoe_core::diff::repair;
use hotshoe_core::diff::repair::Repair;
use hotshoe_core::diff::{Apply, Precondition};
use hotshoe_core::model::object::Object;

/// How often a child is written because another writer was faster: the status of a Deployment is written several times
/// while it rolls out.
const MAX_ATTEMPTS: u32 = 5;

impl Writer {
    /// Writes a prepared child, and checks the result first where needed; `known` is the newest known version of the
    /// child. What another writer has changed in between is prepared as well.
    pub(super) async fn write_checked(
        &self,
        apply: &Apply,
        known: &Object,
        target: Target<'_>,
    ) -> Result<Arc<Object>, WriteError> {
        let uid = match &apply.precondition {
            Precondition::Uid(uid) if result::is_checked(&apply.desired.reference.kind) => uid,
            _ => return Ok(self.send_apply(apply, target).await?),
        };
        let (mut newer, mut tries): (Option<Arc<Object>>, _) = (None, 1);
        loop {
            match self.write_to(newer.as_deref().unwrap_or(known), uid, apply, target).await {
                Err(WriteError::Api(error)) if error.code == 409 && tries < MAX_ATTEMPTS => {
                    let live = self.read_live(&known.key, target).await?;
                    let live = live.filter(|live| live.uid == *uid).ok_or(WriteError::Api(error))?;
                    newer = Some(self.prepare(apply, &live, target).await?.unwrap_or(live));
                    tries += 1;
                }
                written => return written,
            }
        }
    }

    /// Writes a child, and checks the result first where needed, if the live child still has the version that was seen.
    async fn write_to(
        &self,
        seen: &Object,
        uid: &Arc<str>,
        apply: &Apply,
        target: Target<'_>,
    ) -> Result<Arc<Object>, WriteError> {
        let precondition = Precondition::Version(uid.clone(), seen.resource_version);
        let apply = Apply { precondition, desired: apply.desired.clone() };
        if result::may_exceed(&seen.needs_grant, &apply.desired) {
            let result = self.dry_run(&apply, target).await?;
            (target.parent.check_result)(&apply.desired.reference, &result)?;
        }
        Ok(self.send_apply(&apply, target).await?)
    }
}

/// Checks the object that results from replacing parts of a live child, of which these fields are denied unless granted.
///
/// # Errors
/// A denial, if the result has such fields that the grant does not have.
pub(super) fn check_repairs(
    apply: &Apply,
    needs_grant: &[Box<str>],
    live: &Value,
    repairs: &[Repair],
    target: Target<'_>,
) -> Result<(), WriteError> {
    if !repair::change_content(repairs) || !result::may_exceed(needs_grant, &apply.desired) {
        return Ok(());
    }
    let result = repair::repaired(live, repairs).to_string();
    Ok((target.parent.check_result)(&apply.desired.reference, &result)?)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::{Method, StatusCode, Uri};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::apply::tests::Scene;
    use hotshoe_core::check::violation::{Checked, Violation};
    use hotshoe_core::model::kind::ObjectRef;

    const CONFIG_MAP: (&str, &str, &str) = ("", "ConfigMap", "configmaps");
    const DEPLOYMENT: (&str, &str, &str) = ("apps", "Deployment", "deployments");

    /// A live child on an API server of a test.
    struct Live {
        version: u64,
        account: &'static str,
        /// The answer to each write; none if it depends on the version.
        answer: Option<StatusCode>,
        /// The requests: `get`, and each write or dry run with its precondition and the status code of its answer.
        requests: Vec<String>,
    }

    impl Live {
        fn object(&self) -> Value {
            let spec = json!({ "serviceAccountName": self.account });
            let metadata =
                json!({ "namespace": "n", "name": "web", "uid": "u", "resourceVersion": self.version.to_string() });
            json!({ "metadata": metadata, "spec": { "template": { "spec": spec } } })
        }

        fn answer(&mut self, method: &Method, uri: &Uri, body: &str) -> (StatusCode, String) {
            if *method == Method::GET {
                self.requests.push("get".to_owned());
                return (StatusCode::OK, self.object().to_string());
            }
            let sent: Value = serde_json::from_str(body).unwrap();
            let asked = sent["metadata"]["resourceVersion"].as_str().unwrap_or("any");
            let is_met = asked == "any" || asked == self.version.to_string();
            let by_version = if is_met { StatusCode::OK } else { StatusCode::CONFLICT };
            let code = self.answer.unwrap_or(by_version);
            let is_dry = uri.query().is_some_and(|query| query.contains("dryRun=All"));
            self.requests.push(format!("{}{asked} {}", if is_dry { "dry " } else { "" }, code.as_u16()));
            self.version += u64::from(is_met && !is_dry);
            (code, if is_met { self.object() } else { json!({}) }.to_string())
        }
    }

    /// Serves a live child of this version with this account in its template.
    async fn scene(kind: (&str, &str, &str), version: u64, account: &'static str) -> (Scene, Arc<Mutex<Live>>) {
        let live = Arc::new(Mutex::new(Live { version, account, answer: None, requests: Vec::new() }));
        let served = live.clone();
        let answer = async move |method: Method, uri: Uri, body: String| served.lock().answer(&method, &uri, &body);
        (Scene::new(kind, Router::new().fallback(answer)).await, live)
    }

    /// Returns the child as it was seen in version 1.
    fn seen(scene: &Scene, account: &'static str) -> Object {
        let first = Live { version: 1, account, answer: None, requests: Vec::new() };
        scene.view.watch.read(&first.object().to_string()).unwrap()
    }

    fn no_admin(_: &ObjectRef, json: &str) -> Checked {
        if json.contains("admin") { Err(Violation::new("pod-account", "admin".to_owned()).into()) } else { Ok(()) }
    }

    #[tokio::test]
    async fn a_child_that_got_rights_after_it_was_seen_is_checked_and_not_written() {
        let (scene, live) = scene(DEPLOYMENT, 2, "admin").await;
        let known = seen(&scene, "default");
        let applied = scene.writer.write_checked(&scene.apply, &known, scene.target(&no_admin)).await;
        assert!(matches!(applied, Err(WriteError::Denied(_))), "{applied:?}");
        assert_eq!(live.lock().requests, ["1 409", "get", "dry 2 200"]);
    }

    #[tokio::test]
    async fn a_child_of_which_only_the_status_is_newer_is_read_once_and_written() {
        let (scene, live) = scene(DEPLOYMENT, 2, "default").await;
        let known = seen(&scene, "default");
        let applied = scene.writer.write_checked(&scene.apply, &known, scene.target(&no_admin)).await;
        assert_eq!(applied.unwrap().resource_version, 3);
        assert_eq!(live.lock().requests, ["1 409", "get", "2 200"]);
    }

    #[tokio::test]
    async fn a_child_with_rights_is_written_to_the_version_that_was_checked() {
        let (scene, live) = scene(DEPLOYMENT, 2, "granted").await;
        let known = seen(&scene, "granted");
        let applied = scene.writer.write_checked(&scene.apply, &known, scene.target(&no_admin)).await;
        assert_eq!(applied.unwrap().resource_version, 3);
        assert_eq!(live.lock().requests, ["dry 1 409", "get", "dry 2 200", "2 200"]);
    }

    #[tokio::test]
    async fn a_child_of_a_kind_that_is_not_checked_is_written_to_any_version() {
        let (scene, live) = scene(CONFIG_MAP, 2, "admin").await;
        let known = seen(&scene, "default");
        let applied = scene.writer.write_checked(&scene.apply, &known, scene.target(&no_admin)).await;
        assert_eq!(applied.unwrap().resource_version, 3);
        assert_eq!(live.lock().requests, ["any 200"]);
    }

    #[tokio::test]
    async fn a_child_that_has_left_the_cache_is_read_and_checked() {
        let (scene, live) = scene(DEPLOYMENT, 2, "admin").await;
        let applied = scene.writer.write_repaired(&scene.apply, None, scene.target(&no_admin)).await;
        assert!(matches!(applied, Err(WriteError::Denied(_))), "{applied:?}");
        assert_eq!(live.lock().requests, ["get", "dry 2 200"]);
    }

    #[tokio::test]
    async fn a_write_that_others_overtake_each_time_is_tried_five_times_and_another_error_once() {
        for (answer, writes, reads) in [(StatusCode::CONFLICT, 5, 4), (StatusCode::FORBIDDEN, 1, 0)] {
            let (scene, live) = scene(DEPLOYMENT, 1, "default").await;
            live.lock().answer = Some(answer);
            let known = seen(&scene, "default");
            let applied = scene.writer.write_checked(&scene.apply, &known, scene.target(&no_admin)).await;
            assert!(matches!(applied, Err(WriteError::Api(error)) if error.code == answer.as_u16()), "{answer}");
            let requests = live.lock().requests.clone();
            let count = |is: &dyn Fn(&str) -> bool| requests.iter().filter(|request| is(request)).count();
            assert_eq!((count(&|one| one.ends_with(answer.as_str())), count(&|one| one == "get")), (writes, reads));
        }
    }

    #[tokio::test]
    async fn repairs_are_checked_where_they_change_the_content_of_a_child_with_closed_fields() {
        let (scene, _live) = scene(DEPLOYMENT, 1, "admin").await;
        let live = Live { version: 1, account: "admin", answer: None, requests: Vec::new() }.object();
        let needs_grant = seen(&scene, "admin").needs_grant;
        assert!(!needs_grant.is_empty());
        let repair = |pointer: &str| [Repair { pointer: pointer.to_owned(), value: json!("other") }];
        let check = |needs_grant: &[Box<str>], pointer: &str| {
            check_repairs(&scene.apply, needs_grant, &live, &repair(pointer), scene.target(&no_admin))
        };
        let elsewhere = "/spec/template/spec/schedulerName";
        assert!(matches!(check(&needs_grant, elsewhere), Err(WriteError::Denied(_))));
        assert!(check(&needs_grant, "/spec/template/spec/serviceAccountName").is_ok(), "the admin is gone");
        assert!(check(&needs_grant, "/metadata/managedFields").is_ok() && check(&[], elsewhere).is_ok());
    }

    #[tokio::test]
    async fn a_child_that_was_created_again_is_not_written() {
        let (scene, live) = scene(DEPLOYMENT, 2, "default").await;
        let apply = Apply { precondition: Precondition::Uid("former".into()), ..scene.apply.clone() };
        let known = Object { uid: "former".into(), ..seen(&scene, "default") };
        let applied = scene.writer.write_checked(&apply, &known, scene.target(&no_admin)).await;
        assert!(matches!(applied, Err(WriteError::Api(error)) if error.code == 409));
        assert_eq!(live.lock().requests, ["1 409", "get"]);
    }
}
