//! The workers of one controller per plugin. Its component is followed by [`driver`](crate::rollout::driver) and
//! taken by [`rollout`](crate::rollout::install).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::{Semaphore, mpsc};

use crate::cluster::apply::Writer;
use crate::cluster::identity::Identity;
use crate::cluster::rate_limit::Pace;
use crate::config::{CONCURRENCY, PluginConfig};
use crate::reconcile;
use crate::reconcile::controller::Controller;
use crate::reconcile::outcome::{Next, Pass};
use crate::rollout::config_reload;
use crate::rollout::driver;
use crate::rollout::history::History;
use crate::rollout::managed_plugin::{Shared, Supervised};
use hotshoe_core::model::object::Key;

/// How long a parent rests whose reconcile panicked: a fault of the host, not of the plugin.
const AFTER_PANIC: Duration = Duration::from_secs(30);

/// Starts a plugin.
pub fn start(plugin: PluginConfig, shared: Arc<Shared>) -> Arc<Supervised> {
    config_reload::tell_unset(&plugin);
    let (requests, wishes) = mpsc::channel(1);
    let history = History::open(shared.kept.as_deref(), &plugin.place(&shared.cluster.identity));
    let identity = Identity::plugin(&shared.host.namespace, &plugin.name);
    let kinds = shared.watches.kinds.clone();
    let pace = Pace::new(&plugin.name, &plugin.limits, shared.metrics.clone());
    let writer = Writer::new(&shared.cluster, kinds.clone(), &plugin.name, identity, pace);
    let controller =
        Controller::new(plugin.name.clone(), writer, shared.recorder.clone(), kinds, shared.metrics.clone());
    let supervised = Arc::new(Supervised::new(controller, shared, plugin, history, requests));
    tokio::spawn(dispatch(supervised.controller.clone()));
    tokio::spawn(driver::follow(supervised.clone(), wishes));
    supervised
}

/// Takes parents from the queue, a bounded number at once.
async fn dispatch(controller: Arc<Controller>) {
    let slots = Arc::new(Semaphore::new(CONCURRENCY));
    while let Ok(slot) = slots.clone().acquire_owned().await {
        let key = controller.queue.next().await;
        let controller = controller.clone();
        tokio::spawn(async move {
            let again = work(&controller, &key).await;
            controller.queue.done(&key, again);
            drop(slot);
        });
    }
}

async fn work(controller: &Controller, key: &Key) -> Option<Duration> {
    let began = Instant::now();
    let outcome = AssertUnwindSafe(reconcile::reconcile(controller, key)).catch_unwind().await;
    let (result, again) = match outcome {
        Ok(Pass { failed: true, next }) => ("error", after(next)),
        Ok(Pass { next: next @ Next::Wait, .. }) => ("success", after(next)),
        Ok(Pass { next: next @ Next::Again, .. }) => ("requeue", after(next)),
        Ok(Pass { next: next @ Next::After(_), .. }) => ("requeue_after", after(next)),
        Err(_) => {
            tracing::error!(plugin = &*controller.name, object = %key, "a reconcile panicked; this is a fault of the host");
            ("panic", Some(AFTER_PANIC))
        }
    };
    controller.metrics.reconciled(&controller.name, result, began.elapsed());
    again
}

fn after(next: Next) -> Option<Duration> {
    match next {
        Next::Wait => None,
        // Behind the others that wait: writes of one object that follow each other closely find
        // the API server's own cache stale, and cost it a second try each.
        Next::Again => Some(Duration::ZERO),
        Next::After(after) => Some(after),
    }
}
