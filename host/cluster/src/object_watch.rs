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
    use axum::Router;
    use axum::extract::RawQuery;
    use axum::routing::get;
    use hotshoe_core::model::kind::Kind;
    use serde_json::{Value, json};
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::{host_object, served};

    const LONG: Duration = Duration::from_secs(20);

    fn thing(version: &str) -> Value {
        let metadata = json!({ "name": "one", "resourceVersion": version });
        json!({ "apiVersion": "g/v1", "kind": "Thing", "metadata": metadata })
    }

    #[tokio::test]
    async fn each_change_of_the_object_with_this_name_is_noticed_also_after_an_interruption() {
        let serve = |RawQuery(query): RawQuery| async move {
            let query = query.unwrap_or_default();
            assert!(query.contains("fieldSelector=metadata.name%3Done"), "{query}");
            if !query.contains("watch=true") {
                return json!({ "metadata": { "resourceVersion": "1" }, "items": [thing("1")] }).to_string();
            }
            let status = json!({ "code": 500, "message": "away", "reason": "InternalError", "status": "Failure" });
            let interrupted = json!({ "type": "ERROR", "object": status });
            format!("{}\n{interrupted}\n", json!({ "type": "MODIFIED", "object": thing("2") }))
        };
        let cluster = served::by(Router::new().route("/apis/g/v1/things", get(serve))).await;
        let (send, mut noticed) = unbounded_channel();
        let things = host_object::resource(Kind::new("g", "v1", "Thing"), "things", false);
        tokio::spawn(async move { follow(&cluster, &things, "one", || send.send(()).unwrap_or(())).await });
        // The list, its end, and the same change twice.
        for _ in 0..4 {
            tokio::time::timeout(LONG, noticed.recv()).await.unwrap().unwrap();
        }
    }
}
