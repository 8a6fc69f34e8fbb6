//! Follows one object by its name: says when it may have changed.

use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher;

use crate::client::{Cluster, chain};
use crate::discovery::Resource;
use crate::time_limit::WATCH_SECONDS;
use crate::watch::{Backoff, api};

/// The pause before a watch that cannot be begun is tried again. Without the right to watch, its callers look by
/// themselves, only less often.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Calls `changed` when an object of a kind without namespaces may have changed, and at the beginning, until it is dropped.
/// An account needs `list` and `watch` for this name only.
pub async fn follow(cluster: &Cluster, resource: &Resource, name: &str, changed: impl Fn()) {
    // The metadata changes with everything else.
    let objects = api(&cluster.lister(true), resource, None);
    let mut backoff = Backoff::default();
    loop {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
        let mut events = watcher(objects.clone(), config).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => {}
                Ok(_) => changed(),
                // The watch resumes where it was.
                Err(watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_)) => backoff.wait().await,
                Err(error) => {
                    tracing::debug!(name, error = %chain(&error), "an object cannot be watched");
                    tokio::time::sleep(RETRY_PAUSE).await;
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::body::Body;
    use axum::http::{StatusCode, Uri};
    use axum::response::{IntoResponse, Response};
    use hotshoe_core::model::kind::Kind;
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;
    use crate::{host_object, served};

    const DEADLINE: Duration = Duration::from_secs(60);

    /// Follows an object on an API server of a test. Returns the requests, and the changes as they are reported.
    async fn followed(answer: fn(&str) -> Response) -> (Arc<Mutex<Vec<String>>>, mpsc::UnboundedReceiver<()>) {
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let seen = requests.clone();
        let server = Router::new().fallback(move |uri: Uri| {
            let query = uri.query().unwrap_or_default().to_owned();
            let answer = answer(&query);
            seen.lock().push(query);
            std::future::ready(answer)
        });
        let cluster = served::by(server).await;
        let definitions = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let definitions = host_object::resource(definitions, "customresourcedefinitions", false);
        let (changed, changes) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            follow(&cluster, &definitions, "crews.example.com", || _ = changed.send(())).await;
        });
        (requests, changes)
    }

    fn object(version: u32) -> serde_json::Value {
        let metadata = json!({ "name": "crews.example.com", "uid": "u", "resourceVersion": version.to_string() });
        json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata })
    }

    #[tokio::test]
    async fn an_object_is_followed_by_its_name_from_the_beginning_through_changes_and_its_deletion() {
        let answer = |query: &str| {
            // As the API server writes it, with the type first.
            let event = |kind: &str, version| format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", object(version));
            match query {
                query if !query.contains("watch=true") => {
                    let metadata = json!({ "resourceVersion": "1" });
                    json!({ "kind": "List", "metadata": metadata, "items": [object(1)] }).to_string().into_response()
                }
                query if query.ends_with("resourceVersion=1") => {
                    (event("MODIFIED", 2) + &event("DELETED", 3)).into_response()
                }
                _ => Body::from_stream(futures::stream::pending::<Result<String, std::io::Error>>()).into_response(),
            }
        };
        let (requests, mut changes) = followed(answer).await;
        // Once for the object as it is, once when all that is there is known, and for each of the two events.
        for number in 0..4 {
            assert!(timeout(DEADLINE, changes.recv()).await.is_ok(), "change {number}: {:?}", requests.lock());
        }
        let requests = requests.lock();
        let names = |query: &String| query.contains("fieldSelector=metadata.name%3Dcrews.example.com");
        assert!(requests.iter().all(names), "{requests:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_right_to_list_it_the_account_asks_again_after_a_pause() {
        let answer = |_: &str| {
            let status =
                json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no" });
            (StatusCode::FORBIDDEN, status.to_string()).into_response()
        };
        let began = tokio::time::Instant::now();
        let (requests, mut changes) = followed(answer).await;
        while requests.lock().len() < 3 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(began.elapsed() >= 2 * RETRY_PAUSE, "three requests within {:?}", began.elapsed());
        assert!(changes.try_recv().is_err(), "nothing is known to have changed");
    }
}
