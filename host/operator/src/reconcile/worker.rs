//! The workers of one plugin: they take parents from its queue, which limits how many are reconciled at once, and
//! requeue each of them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use tracing::{Instrument, Span};

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::PANIC_PAUSE;
use crate::reconcile::reconcile;
use crate::reconcile::requeue::Reconciled;
use crate::reconcile::requeue::Requeue;
use hotshoe_cluster::identity::Permit;
use hotshoe_core::model::kind::Key;
use hotshoe_platform::spans;

/// Reconciles the parents of a queue, for as long as the host runs.
pub async fn run(controller: Arc<Controller>) {
    loop {
        let key = controller.queue.next().await;
        // Another host works for this parent. When this host acquires the parent's shard, it queues all parents of the
        // shard.
        let Some(turn) = controller.enter(&key) else {
            controller.queue.done(&key, None);
            // All parents of the queue may be those of another host.
            tokio::task::consume_budget().await;
            continue;
        };
        let controller = controller.clone();
        tokio::spawn(async move {
            let again = begin(&controller, &key, &turn.permit).await;
            controller.queue.done(&key, again);
            drop(turn);
        });
    }
}

/// Reconciles a parent, unless no revision decides for it now. Returns when to reconcile it again.
async fn begin(controller: &Controller, key: &Key, permit: &Permit) -> Option<Duration> {
    let Some(active) = controller.deciding(key).filter(|_| !controller.is_paused()) else {
        controller.metrics.reconciled(&controller.name, result(Requeue::OnChange), Duration::ZERO);
        return None;
    };
    let span = span_of(controller, &active, key);
    work(controller, &active, key, permit).instrument(span).await
}

/// Begins the span of a reconcile: one span for all of its lines, because a span costs more than many a step of it.
fn span_of(controller: &Controller, active: &ActiveRevision, key: &Key) -> Span {
    let object = format_args!("{} {key}", active.parent_kind());
    spans::object(&controller.name, Some(active.revision.digest()), object)
}

async fn work(controller: &Controller, active: &ActiveRevision, key: &Key, permit: &Permit) -> Option<Duration> {
    let began = Instant::now();
    let outcome = AssertUnwindSafe(reconcile(controller, active, key, permit)).catch_unwind().await;
    let (result, again) = match outcome {
        Ok(Reconciled { failed: true, requeue }) => ("error", delay(requeue)),
        Ok(Reconciled { requeue, .. }) => (result(requeue), delay(requeue)),
        Err(_) => {
            tracing::error!("a reconcile panicked; this is a fault of the host");
            controller.metrics.trapped(&controller.name);
            ("panic", Some(PANIC_PAUSE))
        }
    };
    controller.metrics.reconciled(&controller.name, result, began.elapsed());
    again
}

/// Returns controller-runtime's metric label for a result.
fn result(requeue: Requeue) -> &'static str {
    match requeue {
        Requeue::OnChange => "success",
        Requeue::AtOnce => "requeue",
        Requeue::After(_) => "requeue_after",
    }
}

fn delay(requeue: Requeue) -> Option<Duration> {
    match requeue {
        Requeue::OnChange => None,
        // Queued behind the others: the API server's own cache is stale for an object that was just written, and a
        // second write in quick succession costs it a retry.
        Requeue::AtOnce => Some(Duration::ZERO),
        Requeue::After(after) => Some(after),
    }
}
