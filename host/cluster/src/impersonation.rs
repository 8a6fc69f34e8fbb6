//! Whether the host may impersonate a plugin. If it may not, nothing of the plugin is written.

use std::time::Duration;

use crate::access_review::may_impersonate;
use crate::apply::Writer;
use crate::error::ApiError;
use crate::identity::Identity;

/// The time between two questions to the API server.
const PAUSE: Duration = Duration::from_secs(10);

impl Writer {
    /// Returns why the host may not impersonate the plugin; `None` if it may, or that is not known.
    pub fn impersonation_error(&self) -> Option<String> {
        self.impersonation_error.lock().clone()
    }

    /// Asks until the host may impersonate the plugin, so that a right that is missing is known before the first write.
    /// Stops when the API server refuses the question itself: then the writes show it.
    pub async fn check_impersonation(&self) {
        let Some((namespace, account)) = self.identity.account() else { return };
        loop {
            match may_impersonate(&self.cluster, namespace, account).await {
                Ok(true) => {
                    *self.impersonation_error.lock() = None;
                    return;
                }
                Ok(false) => {
                    let why = format!("the host may not impersonate the ServiceAccount {namespace}/{account}");
                    self.impersonation_error.lock().get_or_insert(why);
                }
                Err(error) if error.code == 403 => return,
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Records whether the host may impersonate the plugin.
    pub(super) fn note_impersonation(&self, identity: &Identity, result: &Result<String, ApiError>) {
        if identity.impersonated().is_some() {
            match result {
                Err(error) if error.is_of_impersonation() => {
                    *self.impersonation_error.lock() = Some(error.message.clone())
                }
                Err(error) if error.code == 0 || error.after_outage => {}
                _ => *self.impersonation_error.lock() = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::StatusCode;
    use axum::routing::post;
    use axum::{Json, Router};
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use crate::apply::tests::Scene;

    /// Serves these answers to the questions, one after the other, and the last one from then on.
    async fn answering(answers: Vec<(StatusCode, bool)>) -> (Scene, Arc<Mutex<Vec<Value>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let answer = move |Json(review): Json<Value>| async move {
            let mut seen = seen.lock();
            let (code, allowed) = answers[seen.len().min(answers.len() - 1)];
            seen.push(review["spec"]["resourceAttributes"].clone());
            (code, Json(json!({ "status": { "allowed": allowed } })))
        };
        let server = Router::new().route("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", post(answer));
        (Scene::new(("", "ConfigMap", "configmaps"), server).await, asked)
    }

    #[tokio::test]
    async fn the_api_server_is_asked_for_the_right_to_impersonate_the_account_of_the_plugin() {
        let (scene, asked) = answering(vec![(StatusCode::OK, true)]).await;
        scene.writer.check_impersonation().await;
        assert_eq!(scene.writer.impersonation_error(), None);
        let account =
            json!({ "verb": "impersonate", "resource": "serviceaccounts", "namespace": "hotshoe", "name": "demo" });
        assert_eq!(*asked.lock(), [account]);
    }

    #[tokio::test]
    async fn a_missing_right_is_known_before_the_first_write_until_it_is_granted() {
        let (scene, asked) = answering(vec![(StatusCode::OK, false), (StatusCode::OK, true)]).await;
        let check = scene.writer.check_impersonation();
        tokio::pin!(check);
        while asked.lock().is_empty() || scene.writer.impersonation_error().is_none() {
            assert!(futures::poll!(&mut check).is_pending());
            tokio::task::yield_now().await;
        }
        let why = scene.writer.impersonation_error();
        assert_eq!(why.as_deref(), Some("the host may not impersonate the ServiceAccount hotshoe/demo"));
        tokio::time::pause();
        check.await;
        assert_eq!(scene.writer.impersonation_error(), None);
    }

    #[tokio::test]
    async fn a_host_that_may_not_ask_says_nothing() {
        let (scene, asked) = answering(vec![(StatusCode::FORBIDDEN, false)]).await;
        scene.writer.check_impersonation().await;
        assert_eq!((scene.writer.impersonation_error(), asked.lock().len()), (None, 1));
    }
}
