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
