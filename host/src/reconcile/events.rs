//! The Kubernetes Events of one pass: which are new, how many are written, and which are written first.

use std::hash::BuildHasher;
use std::time::Instant;

use crate::cluster::events::Note;
use crate::reconcile::error::Error;
use crate::reconcile::pass::Pass;
use hotshoe_core::flow::rate_limit::OutputLimit;
use hotshoe_core::model::decision::Event;

/// After so many failures in a row, a clean-up no longer waits for its Events.
const TRIES: u32 = 3;

/// Records the Events of a decision. One that was emitted before is emitted again only where a timer of the plugin
/// asked for the decision: a decision that the host repeats on an unchanged state is not new.
pub fn emit(pass: &mut Pass<'_>, events: &[Event]) {
    let controller = pass.controller;
    for event in events {
        if is_news(pass, event) || pass.is_due {
            record(pass, event, &controller.events);
        }
    }
}

/// Records an Event about a failure unless it was recorded before.
pub fn warn_once(pass: &mut Pass<'_>, event: &Event) {
    let controller = pass.controller;
    if is_news(pass, event) {
        record(pass, event, &controller.failures);
    }
}

/// Writes the Events with which a clean-up begins, before anything else: once the status says that it began, a
/// plugin no longer emits them. If the API server accepts none, they are queued after a few tries.
///
/// # Errors
/// A transient error of the API server.
pub async fn emit_first(pass: &mut Pass<'_>, events: &[Event]) -> Result<(), Error> {
    let controller = pass.controller;
    for event in events {
        match controller.recorder.ensure(&note(pass, event)).await {
            Err(error) if pass.state.failures < TRIES => return Err(error.into()),
            Err(_) => {
                if is_news(pass, event) {
                    record(pass, event, &controller.events);
                }
            }
            Ok(()) => drop(is_news(pass, event)),
        }
    }
    // They are written by now, whatever caused this pass.
    pass.is_due = false;
    Ok(())
}

fn is_news(pass: &mut Pass<'_>, event: &Event) -> bool {
    let said = pass.controller.hasher.hash_one((event.severity.as_str(), &event.reason, &event.message));
    pass.state.is_news(said)
}

fn record(pass: &Pass<'_>, event: &Event, limit: &OutputLimit) {
    if !limit.allows(1) || !pass.controller.recorder.record(note(pass, event)) {
        note_dropped(pass, limit);
    }
}

fn note(pass: &Pass<'_>, event: &Event) -> Note {
    Note {
        about: pass.reference(),
        uid: pass.parent.uid.to_string(),
        plugin: pass.controller.name.clone(),
        digest: Some(pass.active.revision.digest()),
        event: event.clone(),
        permit: pass.permit.clone(),
    }
}

fn note_dropped(pass: &Pass<'_>, limit: &OutputLimit) {
    let plugin = &*pass.controller.name;
    pass.controller.metrics.event_dropped(plugin);
    if let Some(dropped) = limit.dropped(1, Instant::now()) {
        let digest = pass.active.revision.digest();
        tracing::warn!(plugin, %digest, dropped, "there are more Events than are written; some were dropped");
    }
}
