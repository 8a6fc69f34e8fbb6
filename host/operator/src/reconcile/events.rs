//! The Kubernetes Events of one pass: which are new, how many are written, and which are written first.

use std::hash::BuildHasher;
use std::time::Instant;

use crate::api::explain::Act;
use crate::reconcile::error::Error;
use crate::reconcile::pass::Pass;
use hotshoe_cluster::events::EventRecord;
use hotshoe_core::flow::rate_limit::OutputLimit;
use hotshoe_core::model::decision::Event;
use hotshoe_core::model::sanitize;

/// The number of failures in a row after which a clean-up no longer waits for its Events.
const MAX_WAITED_FAILURES: u32 = 3;
/// The maximum length of the message of an Event, in bytes: the API server accepts 1 kB.
const MAX_BYTES: usize = 1000;
/// The end of an Event whose message was cut.
const CUT_SUFFIX: &str = " (see the condition Reconciled, or `hotshoe test`)";

/// Records the Events of a decision. An Event that was emitted before is emitted again only if a timer of the plugin
/// caused the decision, and not if the host repeats the decision on an unchanged state.
pub fn emit(pass: &mut Pass<'_>, events: &[Event]) {
    let controller = pass.controller;
    for event in events {
        if is_new(pass, event) || pass.is_due {
            record(pass, note(pass, event), &controller.events);
            pass.record.note(Act::Event, None, vec![event.reason.clone()]);
        }
    }
}

/// Records an Event about a failure unless it was recorded before. Its message is [shortened](short).
pub fn warn_once(pass: &mut Pass<'_>, event: &Event) {
    let controller = pass.controller;
    let event = &Event { message: short(&event.message), ..event.clone() };
    if is_new(pass, event) {
        record(pass, note(pass, event), &controller.failures);
    }
}

/// Returns the message of an Event. One that is too long loses its middle, and says where to find the whole text.
pub fn short(message: &str) -> String {
    match message.len() <= MAX_BYTES {
        true => message.to_owned(),
        false => sanitize::clean(message.to_owned(), MAX_BYTES - CUT_SUFFIX.len()) + CUT_SUFFIX,
    }
}

/// Writes the Events with which a clean-up begins, before anything else: once the status says that it began, a
/// plugin no longer emits them. If the API server does not accept them, they are queued after a few tries. They are
/// queued at once if it does not answer soon: the worker that waits is needed for other parents.
///
/// # Errors
/// A transient error of the API server.
pub async fn emit_first(pass: &mut Pass<'_>, events: &[Event]) -> Result<(), Error> {
    let controller = pass.controller;
    let mut is_written = true;
    for event in events {
        let note = EventRecord { once: true, ..note(pass, event) };
        // The Events behind one that is queued are queued, too.
        is_written = is_written && write_first(pass, &note).await?;
        if is_new(pass, event) && !is_written {
            record(pass, note, &controller.events);
        }
    }
    // Written once is enough, even if a timer caused this pass.
    pass.is_due = false;
    Ok(())
}

/// Writes an Event now. Returns `false` if it must be queued instead.
async fn write_first(pass: &Pass<'_>, note: &EventRecord) -> Result<bool, Error> {
    match pass.controller.recorder.ensure(note).await {
        Err(error) if pass.state.failures < MAX_WAITED_FAILURES => Err(error.into()),
        Err(_) => Ok(false),
        Ok(is_written) => Ok(is_written),
    }
}

fn is_new(pass: &mut Pass<'_>, event: &Event) -> bool {
    let fingerprint = pass.controller.hasher.hash_one((event.severity.as_str(), &event.reason, &event.message));
    pass.state.is_new_event(fingerprint)
}

fn record(pass: &Pass<'_>, note: EventRecord, limit: &OutputLimit) {
    if !limit.allows(1) || !pass.controller.recorder.record(note) {
        note_dropped(pass, limit);
    }
}

fn note(pass: &Pass<'_>, event: &Event) -> EventRecord {
    EventRecord {
        about: pass.reference(),
        uid: pass.parent.uid.to_string(),
        plugin: pass.controller.name.clone(),
        digest: Some(pass.active.revision.digest()),
        event: event.clone(),
        once: false,
        permit: pass.permit.clone(),
    }
}

fn note_dropped(pass: &Pass<'_>, limit: &OutputLimit) {
    pass.controller.metrics.event_dropped(&pass.controller.name);
    if let Some(dropped) = limit.dropped(1, Instant::now()) {
        tracing::warn!(dropped, "there are more Events than the rate limit allows; some were dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_of_an_event_keeps_its_beginning_and_its_end_and_says_where_the_rest_is() {
        let message = format!("Job n/a was refused: {}: field is immutable", "x".repeat(8_000));
        let event = short(&message);
        assert!(event.len() <= MAX_BYTES && event.starts_with("Job n/a was refused: x"), "{event}");
        assert!(event.ends_with(&format!(": field is immutable{CUT_SUFFIX}")), "{event}");
        assert_eq!(short("short"), "short");
    }
}
