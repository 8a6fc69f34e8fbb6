//! What became of a reconcile, told in one place: log line, Event, condition, metric; and when to
//! try again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::error::ApiError;
use crate::cluster::events;
use crate::reconcile::apply::Work;
use crate::reconcile::controller::{Controller, Logic, Memory};
use crate::reconcile::decide::{FETCHED, LINE};
use crate::reconcile::error::{Error, Retry};
use crate::reconcile::fingerprint::hold_basis;
use crate::reconcile::learn::learn_parent;
use crate::reconcile::observe::observe;
use crate::reconcile::outcome::{Ended, Next};
use crate::sandbox::error::CallError;
use hotshoe_core::check::status::RECONCILED;
use hotshoe_core::diff::status;
use hotshoe_core::flow::backoff::{doubled, soon};
use hotshoe_core::flow::rate_limit::Allowance;
use hotshoe_core::model::decision::{Condition, Event, Severity, Truth};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::object::{HOST_MANAGER, Object};
use hotshoe_core::model::sanitize;

const BACKOFF: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// The most that a plugin or the API server puts off a try for.
const AFTER_MAX: Duration = Duration::from_secs(3600);
/// Nobody waits for the end of it.
const UNTIL_CHANGED: Duration = Duration::from_secs(365 * 24 * 3600);
/// How many failures in a row are taken for passing.
const PASSING: u32 = 5;
/// Who is called again within this time is not told that the circuit is open.
const SOON_SERVED: Duration = Duration::from_secs(10);
/// The most of a message that goes into log and condition, bytes; an Event takes 1 kB.
const MESSAGE: usize = 1000;

/// Tells what became of a reconcile, and says when to look again.
pub async fn report(
    controller: &Controller,
    logic: &Logic,
    parent: &Arc<Object>,
    memory: &mut Memory,
    result: Result<Ended, Error>,
) -> Next {
    let (next, told) = match result {
        // Whether it still waits is seen when its own writes are over.
        Ok(Ended::Look(Next::Again)) if memory.cleaning_up.is_some() => (Next::Again, true),
        Ok(Ended::Look(next)) => (next, succeed(controller, logic, parent, memory).await),
        Ok(Ended::Troubled { reason, message, again }) => {
            (memory.failures, memory.hold) = (0, None);
            let message = sanitize::clean(message, MESSAGE);
            (again, tell(controller, logic, parent, memory, reason, message).await)
        }
        Err(error) => return fail(controller, logic, parent, memory, &error).await,
    };
    // What is said there is not true, and nothing else may ever look at it.
    if told { next } else { next.no_later_than(soon(1)) }
}

/// Whether the parent says nothing any more of an earlier failure.
async fn succeed(controller: &Controller, logic: &Logic, parent: &Arc<Object>, memory: &mut Memory) -> bool {
    memory.failures = 0;
    memory.hold = None;
    let Some(live) = logic.parents.watched.cache.get(&parent.key) else { return true };
    if !status::has_host_condition(&live) {
        return true;
    }
    memory.said.clear();
    tracing::info!(plugin = &*controller.name, digest = %logic.revision.digest(), object = %parent.key, "recovered");
    if !logic.resource.has_status {
        return true;
    }
    let permit = controller.permit();
    let reply = controller.writer.take_back_host_condition(&logic.resource, &live, &permit).await;
    is_final(controller, logic, &live, reply).await
}

async fn fail(
    controller: &Controller,
    logic: &Logic,
    parent: &Arc<Object>,
    memory: &mut Memory,
    error: &Error,
) -> Next {
    let plugin = &*controller.name;
    let digest = logic.revision.digest();
    if let Error::Api(api) = error
        && (api.is_gone() || api.is_namespace_terminating())
    {
        return Next::Wait;
    }
    controller.metrics.failed(plugin, digest, error.reason());
    if let Error::Call(CallError::CircuitOpen(left)) = error {
        // Who failed is told why already, and that says more; who is next in line is served soon.
        if memory.failures == 0 && *left > SOON_SERVED {
            tell(controller, logic, parent, memory, error.reason(), words(error, plugin)).await;
        }
        return Next::After(*left);
    }
    memory.failures = memory.failures.saturating_add(1);
    if let Error::Denied(denial) = error {
        denial.violations().iter().for_each(|violation| controller.metrics.denied(plugin, violation.rule));
    }
    let pause = pause(error, memory);
    log(controller, digest, parent, error, pause);
    let said = !passes(error) || memory.failures > PASSING;
    let told = !said || tell(controller, logic, parent, memory, error.reason(), words(error, plugin)).await;
    memory.settled = None;
    if !told {
        memory.hold = None;
        return Next::After(soon(memory.failures));
    }
    // A finalizer may be our own, and of this pass; the rest is what was decided on, or left behind, and not
    // what somebody made of it since: that would never be looked at.
    let live = logic.parents.watched.cache.get(&parent.key);
    let finalizers = &live.as_ref().unwrap_or(parent).finalizers;
    let basis = hold_basis(controller, logic, parent, finalizers, &memory.seen);
    memory.hold = Some((Instant::now() + pause.unwrap_or(UNTIL_CHANGED), basis));
    pause.map_or(Next::Wait, Next::After)
}

fn log(controller: &Controller, digest: Digest, parent: &Object, error: &Error, pause: Option<Duration>) {
    let plugin = &*controller.name;
    let message = words(error, plugin);
    if is_heard(error, &message, &controller.failure_lines) {
        let retry = pause.map(tracing::field::debug);
        tracing::warn!(plugin, %digest, object = %parent.key, reason = error.reason(), retry, "{message}");
        return;
    }
    controller.metrics.lines_dropped(plugin, 1);
    if let Some(dropped) = controller.failure_lines.dropped(1, Instant::now().into_std()) {
        tracing::warn!(plugin, %digest, dropped, "the plugin fails more than is written; some of its failures were dropped");
    }
}

/// A plugin that fails is heard no louder than one that logs; what others refuse is no flood of its choice.
fn is_heard(error: &Error, message: &str, lines: &Allowance) -> bool {
    let is_of_others = matches!(error, Error::Api(_) | Error::Call(CallError::Stopped));
    is_of_others || lines.take(LINE + message.len())
}

/// What passes by itself within moments is not worth an Event and a condition.
fn passes(error: &Error) -> bool {
    matches!(error, Error::Api(api) if api.is_transient())
}

/// How long until the next try; `None` until something changes.
fn pause(error: &Error, memory: &Memory) -> Option<Duration> {
    let failures = memory.failures;
    let grown = |first: Duration| doubled(first, failures.saturating_sub(1), BACKOFF_MAX);
    let pause = match error.retry() {
        Retry::Soon => Some(soon(failures)),
        Retry::Backoff => Some(grown(BACKOFF)),
        Retry::Slowly => Some(grown(10 * BACKOFF)),
        // The plugin or the API server chooses it, so it is clamped, and comes no sooner than what passes by itself.
        Retry::After(after) => Some(after.clamp(soon(failures), AFTER_MAX)),
        Retry::OnChange => None,
    };
    match error {
        // What it missed may be there by then, and nobody watches for that.
        Error::Plugin(_) if memory.fetched => Some(pause.map_or(FETCHED, |pause| pause.min(FETCHED))),
        _ => pause,
    }
}

/// Whether the parent says so now, or never will.
async fn tell(
    controller: &Controller,
    logic: &Logic,
    parent: &Arc<Object>,
    memory: &mut Memory,
    reason: &'static str,
    message: String,
) -> bool {
    let event = Event { severity: Severity::Warning, reason: reason.into(), message: message.clone() };
    let observed = observe(logic, parent.clone(), memory);
    Work { controller, logic, observed: &observed }.say_once(&event, &controller.failures, memory);
    let Some(live) = logic.parents.watched.cache.get(&parent.key) else { return true };
    let condition = Condition { name: RECONCILED.into(), status: Truth::False, reason: reason.into(), message };
    let desired = status::host_condition(&condition, &live, &events::now());
    status::is_current(&desired, &live, HOST_MANAGER) || write_condition(controller, logic, &live, desired).await
}

/// Whether it is written, or never will be. Where a parent's schema has no conditions, or others' and no room for
/// one more, the Event must do.
async fn write_condition(controller: &Controller, logic: &Logic, parent: &Object, status: serde_json::Value) -> bool {
    let is_taken = controller.whole_conditions.load(Ordering::Relaxed) && status::has_conditions_of_others(parent);
    if !logic.resource.has_status || is_taken {
        return true;
    }
    let permit = controller.permit();
    let reply = controller.writer.apply_host_condition(&logic.resource, parent, status, &permit).await;
    is_final(controller, logic, parent, reply).await
}

/// Whether a write of the host's condition went through, or never will.
async fn is_final(controller: &Controller, logic: &Logic, parent: &Object, reply: Result<String, ApiError>) -> bool {
    let Err(error) = learn_parent(controller, logic, parent, reply).await else { return true };
    tracing::debug!(plugin = &*controller.name, digest = %logic.revision.digest(), object = %parent.key, %error, "the host's condition was not written");
    match error {
        Error::Api(error) if error.is_of_ownership() => {
            controller.whole_conditions.store(true, Ordering::Relaxed);
            true
        }
        Error::Api(error) => !error.is_transient(),
        _ => true,
    }
}

/// What a plugin chose may stand in it: a key of a child, or what the API server repeats of it.
fn words(error: &Error, plugin: &str) -> String {
    let advice = match error {
        Error::Api(error) => error.advice(plugin),
        _ => None,
    };
    sanitize::clean(error.to_string() + &advice.unwrap_or_default(), MESSAGE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hotshoe_core::check::Violation;
    use hotshoe_core::check::json_cursor::At;
    use hotshoe_core::model::decision::Failure;
    use hotshoe_core::model::limits::{LOGGED_AT_ONCE, LOGGED_PER_SECOND};

    #[test]
    fn a_key_that_a_plugin_chose_forges_no_line_and_rewrites_no_terminal() {
        let key = "x\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J\u{202e}";
        let value = json!({ key: 1 });
        let (_, member) = At::root(&value).members().unwrap().next().unwrap();
        let of_key = Violation { rule: "metadata", message: format!("metadata.labels may not set {key}") };
        for violation in [member.unknown(), of_key] {
            let said = words(&violation.into(), "demo");
            assert!(said.is_ascii() && !said.contains(|letter: char| letter.is_control()), "{said:?}");
        }
        let long = Violation { rule: "metadata", message: "ä".repeat(MESSAGE) };
        assert!(words(&long.into(), "demo").len() <= MESSAGE);
    }

    #[test]
    fn of_a_flood_of_failures_a_mebibyte_is_logged_and_all_of_what_the_api_server_refuses() {
        let lines = Allowance::new(LOGGED_PER_SECOND, LOGGED_AT_ONCE);
        let message = "x".repeat(MESSAGE);
        let of_plugin: [Error; 5] = [
            Error::Plugin(Failure::Retry { message: message.clone(), after: None }),
            Error::Plugin(Failure::Reject { message: message.clone(), field: None }),
            Error::Plugin(Failure::Other(message.clone())),
            CallError::Trapped(message.clone()).into(),
            Violation { rule: "metadata", message: message.clone() }.into(),
        ];
        let heard = of_plugin.iter().cycle().take(10_000).filter(|error| is_heard(error, &message, &lines)).count();
        assert!((800..1_000).contains(&heard), "{heard}");
        let refused = ApiError::new("apply", "a ConfigMap".into(), 403, "Forbidden", message.clone()).into();
        assert!((0..10_000).all(|_| is_heard(&refused, &message, &lines)));
    }

    #[test]
    fn who_asks_to_be_tried_at_once_and_fails_each_time_waits_as_for_what_passes() {
        let paused = |after: Duration, failures| {
            let failure = Failure::Retry { message: "now".into(), after: Some(after) };
            pause(&Error::Plugin(failure), &Memory { failures, ..Memory::default() }).unwrap()
        };
        for failures in [1, 2, 3, 4, 1_000] {
            assert_eq!(paused(Duration::ZERO, failures), soon(failures), "{failures}");
        }
        assert!(paused(Duration::ZERO, u32::MAX) >= Duration::from_secs(2));
        assert_eq!(paused(Duration::from_secs(5), 1_000), Duration::from_secs(5));
        assert_eq!(paused(Duration::MAX, 1), AFTER_MAX);
    }
}
