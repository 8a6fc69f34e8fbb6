//! Reports the result of a pass in one place: log line, Event, condition and metric.

use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::reconcile::error::{CHILDREN_REFUSED, Error, MAX_DENIAL_BYTES, MAX_MESSAGE_BYTES};
use crate::reconcile::events;
use crate::reconcile::fingerprint::backoff_basis;
use crate::reconcile::outcome::{Outcome, Trouble};
use crate::reconcile::pass::Pass;
use crate::reconcile::refused_writes::DENIED;
use crate::reconcile::requeue;
use crate::reconcile::status_plan::ObservedGeneration;
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::time;
use hotshoe_core::check::ignored::{CHILDREN_IGNORED, OUTSIDE_GRANT};
use hotshoe_core::check::status::{READY, RECONCILED, RECONCILING, STALLED};
use hotshoe_core::diff::status;
use hotshoe_core::flow::backoff::within_reach;
use hotshoe_core::model::decision::{Condition, Event, Severity, Truth};
use hotshoe_core::model::object::{HOST_MANAGER, Object};
use hotshoe_core::model::sanitize;
use hotshoe_sandbox::error::CallError;

/// The maximum length of the messages of the conditions beside `Reconciled`, in bytes.
const MAX_SHORT_BYTES: usize = 500;
/// Stands for a pause that ends only with a change.
const UNTIL_CHANGED: Duration = Duration::from_secs(365 * 24 * 3600);
/// How many transient failures in a row are not reported, and for how long none is.
const MAX_UNREPORTED_FAILURES: u32 = 5;
const MAX_UNREPORTED_PERIOD: Duration = Duration::from_secs(15);
/// A parent that is retried within this time gets no report that the circuit is open.
const MIN_REPORTED_WAIT: Duration = Duration::from_secs(10);

/// Reports the result of a pass. Returns whether the parent's condition is up to date now, or never can be. Otherwise
/// the parent has to be reconciled again soon.
pub async fn report(pass: &mut Pass<'_>, result: &Result<Outcome, Error>) -> bool {
    let is_reported = report_once(pass, result).await;
    pass.state.unreported = if is_reported { 0 } else { pass.state.unreported.saturating_add(1) };
    is_reported
}

async fn report_once(pass: &mut Pass<'_>, result: &Result<Outcome, Error>) -> bool {
    pass.state.awaited = None;
    note_ignored(pass);
    match result {
        Ok(outcome) => {
            if pass.parent.deleting {
                pass.state.awaited = Some(outcome.awaited().into());
            }
            match outcome.trouble(&pass.state) {
                // The next pass, which sees the writes of this one, knows whether clean-up still waits.
                _ if *outcome == Outcome::Changed && pass.state.cleaning_up.is_some() => true,
                Some(Trouble { reason, message, has_event }) => {
                    pass.state.recovered();
                    let most = if reason == DENIED { MAX_DENIAL_BYTES } else { MAX_MESSAGE_BYTES };
                    let message = sanitize::clean(message, most);
                    if has_event {
                        warn(pass, reason, message.clone());
                    }
                    let needs_a_change =
                        reason == DENIED || (reason == CHILDREN_REFUSED && pass.state.refused.has_invalid());
                    let prospect = if needs_a_change { Prospect::NeedsChange } else { Prospect::Retried };
                    state_failure(pass, reason, message, prospect, Beside::NewStatus).await
                }
                None => succeed(pass, outcome).await,
            }
        }
        Err(error) => {
            pass.state.await_recovery(error);
            fail(pass, error).await
        }
    }
}

/// Counts the objects that name the parent as their controller and are outside of the grant, and states in log and
/// Event that they are ignored. The condition states it too. Users choose these objects, and when they change.
fn note_ignored(pass: &mut Pass<'_>) {
    let controller = pass.controller;
    controller.metrics.ignored(&controller.name, pass.ignored.count.saturating_sub(pass.state.ignored));
    pass.state.ignored = pass.ignored.count;
    if !pass.state.ignored_text.update(pass.ignored.message(), std::time::Instant::now()) {
        return;
    }
    let Some(message) = pass.state.ignored_text.stated().map(str::to_owned) else { return };
    if controller.may_log(&controller.failure_lines, message.len()) {
        tracing::warn!(reason = OUTSIDE_GRANT, "{message}");
    }
    warn(pass, OUTSIDE_GRANT, message);
}

/// Returns the condition that objects are ignored, if there are any.
fn ignored_condition(pass: &Pass<'_>) -> Option<Condition> {
    let message = pass.state.ignored_text.stated()?.to_owned();
    Some(Condition { name: CHILDREN_IGNORED.into(), status: Truth::True, reason: OUTSIDE_GRANT.into(), message })
}

/// Removes the condition of an earlier failure. States that objects are ignored, and names the canary that decides for
/// the parent.
async fn succeed(pass: &mut Pass<'_>, outcome: &Outcome) -> bool {
    pass.state.recovered();
    let Some(live) = pass.live() else { return true };
    let has_decided = matches!(outcome, Outcome::Settled | Outcome::Changed);
    let controller = pass.controller;
    if status::states_failure(&live) {
        pass.state.reported.clear();
        pass.state.noted = None;
        tracing::info!("recovered");
    }
    let canary = is_of_canary(pass).then(|| canary_condition(pass));
    if canary.is_some() && !has_decided {
        return true;
    }
    let notes: Vec<Condition> = canary.into_iter().chain(ignored_condition(pass)).collect();
    if !notes.is_empty() {
        return state_notes(pass, &live, &notes).await;
    }
    pass.state.noted = None;
    if !status::has_host_condition(&live) || !pass.active.resource().has_status {
        return true;
    }
    let reply = controller.writer.remove_host_conditions(&pass.active.resource(), &live, pass.permit).await;
    is_final(pass, &live, reply).await
}

/// The reason of the condition that names a canary.
const CANARY: &str = "Canary";

fn is_of_canary(pass: &Pass<'_>) -> bool {
    !pass.parent.deleting && pass.controller.canary.is(pass.active.revision.digest())
}

/// Returns the condition that names the canary, for a parent that it decided for. For all other parents the active
/// revision decides, which the plugin's status names.
fn canary_condition(pass: &Pass<'_>) -> Condition {
    let (digest, version) = (pass.active.revision.digest(), &pass.active.revision.descriptor().version);
    let message = sanitize::clean(
        format!(
            "decided by the canary {digest} (version {version}), which decides for some objects before it does for all"
        ),
        MAX_MESSAGE_BYTES,
    );
    Condition { name: RECONCILED.into(), status: Truth::True, reason: CANARY.into(), message }
}

/// States conditions that report no failure. They are written once: a parent whose schema has no conditions never shows
/// them, so they must not be written each time that they are missing.
async fn state_notes(pass: &mut Pass<'_>, live: &Object, notes: &[Condition]) -> bool {
    let parts = notes.iter().map(|note| (&note.name, &note.reason, &note.message)).collect::<Vec<_>>();
    let noted = Some(pass.controller.hasher.hash_one((parts, pass.active.basis)));
    if pass.state.noted == noted {
        return true;
    }
    let desired = status::host_conditions(notes, live, &time::now());
    let is_stated = status::is_current(&desired, live, HOST_MANAGER) || write_conditions(pass, live, desired).await;
    if is_stated {
        pass.state.noted = noted;
    }
    is_stated
}

async fn fail(pass: &mut Pass<'_>, error: &Error) -> bool {
    let (controller, digest) = (pass.controller, pass.active.revision.digest());
    let plugin = &*controller.name;
    if let Error::Api(api) = error
        && (api.is_gone() || api.is_namespace_terminating())
    {
        tracing::debug!("{error}");
        return true;
    }
    controller.metrics.failed(plugin, digest, error.reason());
    match error {
        Error::Call(CallError::Trapped(_)) => controller.metrics.trapped(plugin),
        Error::Call(CallError::DeadlineExceeded(_)) => controller.metrics.timed_out(plugin),
        _ => {}
    }
    if let Error::Call(CallError::CircuitOpen(left)) = error {
        // A failed parent already has a condition, which says more. A parent that is next in the queue is served soon.
        if pass.state.failures == 0 && *left > MIN_REPORTED_WAIT {
            report_failure(pass, error.reason(), error_text(error, plugin), Prospect::Retried).await;
        }
        return true;
    }
    count(pass, error);
    if let Error::Denied(denial) = error {
        denial.violations().iter().for_each(|violation| controller.metrics.denied(plugin, violation.rule));
    }
    let pause = requeue::pause(error, &pass.state, &pass.active.plugin.retry, pass.blocks_deletion());
    let stalled = stall(pass, error, pause);
    log(pass, error, pause);
    let has_lasted = pass.state.failing_since.is_some_and(|since| since.elapsed() >= MAX_UNREPORTED_PERIOD);
    let is_stated = !is_transient(error) || has_lasted || pass.state.failures > MAX_UNREPORTED_FAILURES;
    let prospect = prospect_of(error, pause, stalled);
    let is_reported = !is_stated || report_failure(pass, error.reason(), error_text(error, plugin), prospect).await;
    (pass.state.settled, pass.state.shown_now) = (None, None);
    pass.state.backoff =
        is_reported.then(|| (Instant::now() + within_reach(pause.unwrap_or(UNTIL_CHANGED)), backoff_basis_of(pass)));
    is_reported
}

/// Counts a failure, and the try if the failure uses one up.
fn count(pass: &mut Pass<'_>, error: &Error) {
    pass.state.failures = pass.state.failures.saturating_add(1);
    pass.state.failing_since.get_or_insert_with(Instant::now);
    if error.uses_up_try() {
        pass.state.tries.count();
    }
}

/// Records whether the parent is stalled, and returns a message if it is. A parent that is rejected while it has tries
/// left is not stalled: the reason says that it was rejected, and it is reconciled again if the decision is based on
/// fetched objects.
fn stall(pass: &mut Pass<'_>, error: &Error, pause: Option<Duration>) -> Option<String> {
    let tries = pass.state.tries.made();
    let is_last = pause.is_none() && pass.active.plugin.retry.is_exhausted(tries);
    let marks = pass.live().map_or(pass.parent.marks, |live| live.marks);
    pass.state.tries.stall(is_last.then(|| error.reason()), marks);
    if !is_last {
        return None;
    }
    pass.controller.metrics.failed_for_good(&pass.controller.name);
    Some(format!("it is not tried again after {} until it, its plugin or plugin.yaml changes", times(tries)))
}

fn times(tries: u32) -> String {
    if tries == 1 { "one try".to_owned() } else { format!("{tries} tries") }
}

/// Returns the fingerprint whose change retries a failed parent early. It uses the live finalizers, because this pass
/// may have added ours. Everything else is the state that was decided on; otherwise an edit during the pass would never
/// be noticed.
fn backoff_basis_of(pass: &Pass<'_>) -> u64 {
    let live = pass.live();
    let finalizers = &live.as_ref().unwrap_or(&pass.parent).finalizers;
    backoff_basis(pass.controller, pass.active, &pass.parent, finalizers, &pass.children)
}

fn log(pass: &Pass<'_>, error: &Error, pause: Option<Duration>) {
    let controller = pass.controller;
    let message = error_text(error, &controller.name);
    if !is_of_plugin(error) || controller.may_log(&controller.failure_lines, message.len()) {
        let (reason, retry) = (error.reason(), pause.map(tracing::field::debug));
        tracing::warn!(reason, retry, "{message}");
    }
}

/// Returns whether the plugin chooses how often a failure happens. Such failures are rate-limited as the plugin's own
/// lines are; the errors of the API server are always logged.
fn is_of_plugin(error: &Error) -> bool {
    !matches!(error, Error::Api(_) | Error::Panicked | Error::Call(CallError::Stopped))
}

/// Returns whether an error is transient, and so not worth an Event and a condition at first.
fn is_transient(error: &Error) -> bool {
    matches!(error, Error::Api(api) if api.is_transient())
}

/// What becomes of a parent that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Prospect {
    /// The parent is tried again, and may succeed without a change.
    Retried,
    /// The parent, its plugin or a right has to be changed before the parent can succeed.
    NeedsChange,
    /// The parent is not tried again before such a change. Has the text that says so.
    GivenUp(String),
}

/// What the plugin says of a parent at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// Its status is written in each pass, so that the host leaves the conditions that it states to it.
    NewStatus,
    /// What it said before the failure, which says nothing of it.
    OldStatus,
}

fn prospect_of(error: &Error, pause: Option<Duration>, given_up: Option<String>) -> Prospect {
    match (given_up, error) {
        (Some(why), _) => Prospect::GivenUp(why),
        (None, Error::Denied(_) | Error::NotGranted(_)) => Prospect::NeedsChange,
        (None, _) if pause.is_none() => Prospect::NeedsChange,
        (None, _) => Prospect::Retried,
    }
}

/// Reports a failure in an Event and in conditions. If the parent is stalled, a second Event says why it is not retried.
/// Returns whether the parent has the conditions now, or never can have them.
async fn report_failure(pass: &mut Pass<'_>, reason: &'static str, message: String, prospect: Prospect) -> bool {
    warn(pass, reason, message.clone());
    state_failure(pass, reason, message, prospect, Beside::OldStatus).await
}

/// States a failure in the host's own condition and in those of kstatus, and in a second Event if the parent is stalled.
/// Returns whether the parent has the conditions now, or never can have them.
async fn state_failure(
    pass: &mut Pass<'_>,
    reason: &'static str,
    message: String,
    prospect: Prospect,
    beside: Beside,
) -> bool {
    let condition = |name: &str, status, message: &str| Condition {
        name: name.into(),
        status,
        reason: reason.into(),
        message: message.to_owned(),
    };
    pass.state.noted = None;
    let by = match is_of_canary(pass) {
        true => format!(" (decided by the canary {})", pass.active.revision.digest()),
        false => String::new(),
    };
    let (name, why) = match prospect {
        Prospect::Retried => (RECONCILING, sanitize::clean(message.clone(), MAX_SHORT_BYTES)),
        Prospect::NeedsChange => (STALLED, sanitize::clean(message.clone(), MAX_SHORT_BYTES)),
        Prospect::GivenUp(why) => {
            let message = events::short(&format!("{why}: {message}"));
            warn(pass, STALLED, message.clone());
            (STALLED, message)
        }
    };
    let Some(live) = pass.live() else { return true };
    let mut stated = vec![condition(RECONCILED, Truth::False, &(message + &by))];
    let of_others = |name| status::stated_by_others(&live, name);
    if of_others(READY).is_none() {
        stated.push(condition(READY, Truth::False, &why));
    }
    let is_left = of_others(name).is_some_and(|other| {
        beside == Beside::NewStatus || !other.is_of_plugin || other.status == Truth::True.as_str()
    });
    if !is_left {
        stated.push(condition(name, Truth::True, &why));
    }
    stated.extend(ignored_condition(pass));
    let desired = |generation| status::host_status(&stated, &live, generation, &time::now());
    write_host_status(pass, &live, desired).await
}

/// Writes the host's conditions, with the generation that the pass was about where the parent's schema has room for it,
/// and the plugin does not rely on it.
async fn write_host_status(pass: &Pass<'_>, live: &Object, desired: impl Fn(Option<i64>) -> Value) -> bool {
    let is_of_plugin = pass.active.revision.descriptor().reads_observed_generation();
    let has_room = || pass.controller.observed_generation(pass.active.parent_kind()) == ObservedGeneration::Current;
    let observed = || (has_room() && !is_of_plugin).then_some(pass.parent.generation);
    let is_stated = async |desired: Value| {
        status::is_current(&desired, live, HOST_MANAGER) || write_conditions(pass, live, desired).await
    };
    let had_room = observed().is_some();
    if is_stated(desired(observed())).await {
        return true;
    }
    had_room && observed().is_none() && is_stated(desired(None)).await
}

fn warn(pass: &mut Pass<'_>, reason: &str, message: String) {
    events::warn_once(pass, &Event { severity: Severity::Warning, reason: reason.to_owned(), message });
}

/// Writes the host's conditions. Returns whether they are written, or never can be: if the parent's schema has no
/// conditions, or others own the whole list, only the Event reports the failure.
async fn write_conditions(pass: &Pass<'_>, parent: &Object, status: Value) -> bool {
    let (controller, resource) = (pass.controller, pass.active.resource());
    let has_no_room = controller.atomic_conditions.load(Ordering::Relaxed) && status::has_conditions_of_others(parent);
    if !resource.has_status || has_no_room {
        return true;
    }
    let reply = controller.writer.apply_host_conditions(&resource, parent, status, pass.permit).await;
    is_final(pass, parent, reply).await
}

/// Returns whether a write of the host's condition succeeded, or never can.
async fn is_final(pass: &Pass<'_>, parent: &Object, reply: Result<String, ApiError>) -> bool {
    let (controller, active) = (pass.controller, pass.active);
    let learned = controller.writer.store_parent(&active.parents.watch, &active.resource(), parent, reply).await;
    let Err(error) = learned else { return true };
    tracing::debug!(%error, "the host's condition was not written");
    if error.has_no_room_for_generation() {
        controller.kinds.statuses.note_refused(active.parent_kind());
        return false;
    }
    if error.is_of_ownership() {
        controller.atomic_conditions.store(true, Ordering::Relaxed);
        return true;
    }
    !error.is_transient()
}

/// Returns the sanitized text of an error: it may contain text that a plugin chose, such as the key of a child.
fn error_text(error: &Error, plugin: &str) -> String {
    let advice = match error {
        Error::Api(error) => error.advice(plugin),
        _ => None,
    };
    let most = if matches!(error, Error::Denied(_)) { MAX_DENIAL_BYTES } else { MAX_MESSAGE_BYTES };
    sanitize::clean(error.to_string() + &advice.unwrap_or_default(), most)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reconcile::log_lines::LogLines;
    use hotshoe_core::check::Violation;
    use hotshoe_core::check::json_cursor::Cursor;
    use hotshoe_core::model::decision::Failure;

    #[test]
    fn a_key_that_a_plugin_chose_forges_no_line_and_rewrites_no_terminal() {
        let key = "x\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J\u{202e}";
        let value = json!({ key: 1 });
        let (_, member) = Cursor::root(&value).members().unwrap().next().unwrap();
        let of_key = Violation::new("metadata", format!("metadata.labels may not set {key}"));
        for violation in [member.unknown(), of_key.into()] {
            let text = error_text(&violation.into(), "demo");
            assert!(text.is_ascii() && !text.contains(|letter: char| letter.is_control()), "{text:?}");
        }
        let long = error_text(&Violation::new("metadata", "ä".repeat(MAX_DENIAL_BYTES)).into(), "demo");
        assert!((MAX_MESSAGE_BYTES + 1..=MAX_DENIAL_BYTES).contains(&long.len()));
    }

    #[test]
    fn what_only_a_change_can_mend_is_stalled_and_what_is_retried_is_reconciling() {
        let denied = Error::from(Violation::new("host-path", "no"));
        let rejected = Error::Plugin(Failure::Reject { message: "no".into(), field: None });
        let retried = Error::Plugin(Failure::Retry { message: "later".into(), after: None });
        let away: Error = ApiError::new("apply", "a ConfigMap".into(), 500, "", String::new()).into();
        let soon = Some(Duration::from_secs(1));
        assert_eq!(prospect_of(&denied, soon, None), Prospect::NeedsChange);
        assert_eq!(prospect_of(&Error::NotGranted(String::new()), soon, None), Prospect::NeedsChange);
        assert_eq!(prospect_of(&rejected, None, None), Prospect::NeedsChange);
        assert_eq!(prospect_of(&rejected, soon, None), Prospect::Retried, "a fetched object may change");
        assert_eq!(prospect_of(&retried, soon, None), Prospect::Retried);
        assert_eq!(prospect_of(&away, soon, None), Prospect::Retried);
        assert_eq!(prospect_of(&away, None, Some("x".into())), Prospect::GivenUp("x".into()));
    }

    #[test]
    fn a_flood_of_plugin_failures_is_cut_to_a_mebibyte_of_log_and_api_errors_are_not_cut() {
        let (lines, message) = (LogLines::of_failures(), "x".repeat(MAX_MESSAGE_BYTES));
        let may_log = |error: &Error| !is_of_plugin(error) || lines.allows(message.len());
        let of_plugin: [Error; 5] = [
            Error::Plugin(Failure::Retry { message: message.clone(), after: None }),
            Error::Plugin(Failure::Reject { message: message.clone(), field: None }),
            Error::Plugin(Failure::Other(message.clone())),
            CallError::Trapped(message.clone()).into(),
            Violation::new("metadata", message.clone()).into(),
        ];
        let logged = of_plugin.iter().cycle().take(10_000).filter(|error| may_log(error)).count();
        assert!((800..1_000).contains(&logged), "{logged}");
        let refused = ApiError::new("apply", "a ConfigMap".into(), 403, "Forbidden", message.clone()).into();
        assert!((0..10_000).all(|_| may_log(&refused)));
    }
}
