//! Which components were active, by the entries of a history, and to which of them the host rolls back.

use crate::rollout::history::entry::{Entry, Event};
use hotshoe_core::model::digest::Digest;

/// Returns the component that was activated last.
pub(super) fn current(entries: &[Entry]) -> Option<Digest> {
    entries.iter().rfind(|entry| entry.event == Event::Activated).map(|entry| entry.digest)
}

/// Returns the components that were ever active, the last one first.
pub(super) fn activated(entries: &[Entry]) -> Vec<Digest> {
    let mut found: Vec<Digest> = Vec::new();
    for entry in entries.iter().rev().filter(|entry| entry.event == Event::Activated) {
        if !found.contains(&entry.digest) {
            found.push(entry.digest);
        }
    }
    found
}

/// Returns the components that can be rolled back to from this one, the best first: those that were active last,
/// without those that were rolled back or found to fail since. A component that requires approval for what it would
/// delete is among them, because it was good when it was active.
pub(super) fn rollback_targets(entries: &[Entry], digest: Option<Digest>) -> Vec<Digest> {
    let is_bad = |digest| last(entries, digest).is_some_and(|last| last.event == Event::RolledBack || last.fails);
    let mut good = activated(entries);
    good.retain(|other| Some(*other) != digest && !is_bad(*other));
    good
}

/// Returns the last entry that decides the state of a component. A refusal, say for a missing grant, leaves an earlier
/// rollback or approval in force.
pub(super) fn last(entries: &[Entry], digest: Digest) -> Option<&Entry> {
    entries.iter().rfind(|entry| entry.digest == digest && entry.event != Event::Refused)
}
