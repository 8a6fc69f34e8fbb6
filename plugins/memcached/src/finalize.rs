//! The clean-up before a `Memcached` goes. There is nothing to delete outside the cluster, and the children
//! are garbage-collected, so the clean-up consists of two status reports, one at its beginning and one at its
//! end. Each is written before the next step.

use hotshoe_sdk::{Cleanup, Condition, Decision, Event, Failure, Request, Status};

use crate::{
    Memcached,
    observed::Observed,
    status::{self, AVAILABLE, DEGRADED, PROGRESSING},
};

const FINALIZING: &str = "Finalizing";

pub(crate) fn finalize(request: &Request<Memcached>) -> Result<Cleanup, Failure> {
    if has_begun(request)? { Ok(Cleanup::Done(end(request)?)) } else { Ok(Cleanup::Waiting(begin(request)?)) }
}

/// Whether the first report has been written.
fn has_begun(request: &Request<Memcached>) -> Result<bool, Failure> {
    Ok(request.condition(DEGRADED)?.is_some_and(|condition| condition.reason == FINALIZING))
}

fn begin(request: &Request<Memcached>) -> Result<Decision, Failure> {
    let name = request.name();
    // The blank at the end belongs to the message.
    let message = format!("Performing finalizer operations for the custom resource: {name} ");
    let deleting = Event::warning(
        "Deleting",
        format!("Custom Resource {name} is being deleted from the namespace {}", request.namespace()),
    );
    Ok(report(request, Status::Unknown, message)?.events([deleting]))
}

fn end(request: &Request<Memcached>) -> Result<Decision, Failure> {
    let name = request.name();
    let message = format!("Finalizer operations for custom resource {name} name were successfully accomplished");
    report(request, Status::True, message)
}

fn report(request: &Request<Memcached>, degraded: Status, message: String) -> Result<Decision, Failure> {
    let observed = Observed::of(request)?;
    let available = match &observed.rollout {
        Some(rollout) => status::serving(request.name(), request.parent.spec.size, rollout),
        None => Condition::new(AVAILABLE, Status::False, FINALIZING, message.as_str()),
    };
    let decision = Decision::keep().status(&status::status(request.name(), &observed))?.conditions([
        available,
        Condition::new(PROGRESSING, Status::False, FINALIZING, message.as_str()),
        Condition::new(DEGRADED, degraded, FINALIZING, message),
    ]);
    Ok(decision)
}
