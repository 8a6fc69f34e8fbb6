//! What has happened to the components of a plugin, and what follows for each of them.

use serde::{Deserialize, Serialize};

use crate::model::digest::Digest;

/// What happened to a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The component became active.
    Activated,
    /// The component was active or the canary, and was rolled back. It stays inactive until an administrator approves
    /// it.
    RolledBack,
    /// An administrator approved the component, which had required approval or been rolled back.
    Approved,
    /// The component fails on parents or would delete much. It stays inactive until an administrator approves it.
    ApprovalRequired,
    /// The component cannot be activated as it is, even with an approval.
    Refused,
}

/// One thing that has happened to a component. Entries are ordered, the newest last.
pub trait Recorded {
    /// The component.
    fn digest(&self) -> Digest;
    /// What happened.
    fn event(&self) -> Event;
    /// Whether the component requires approval because it fails.
    fn fails(&self) -> bool;
}

/// An event of the component whose bytes are this text. If it requires approval, then because it fails.
#[cfg(test)]
pub(super) struct Entry(pub(super) &'static str, pub(super) Event);

#[cfg(test)]
impl Recorded for Entry {
    fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    fn event(&self) -> Event {
        self.1
    }

    fn fails(&self) -> bool {
        self.1 == Event::ApprovalRequired
    }
}

/// What the past of a component says about activating it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing speaks against activating it.
    Free,
    /// It was rolled back, and not approved since.
    RolledBack,
    /// It requires approval, and was not approved since.
    ApprovalRequired {
        /// Whether it fails.
        fails: bool,
    },
}

/// Returns the component that was activated last.
pub fn current(entries: &[impl Recorded]) -> Option<Digest> {
    entries.iter().rfind(|entry| entry.event() == Event::Activated).map(Recorded::digest)
}

/// Returns the components that were ever active, the last one first.
pub fn activated(entries: &[impl Recorded]) -> Vec<Digest> {
    let mut found: Vec<Digest> = Vec::new();
    for entry in entries.iter().rev().filter(|entry| entry.event() == Event::Activated) {
        if !found.contains(&entry.digest()) {
            found.push(entry.digest());
        }
    }
    found
}

/// Returns the components that can be rolled back to from this one, the best first: those that were active last,
/// without those that were rolled back or found to fail since. A component that requires approval for what it would
/// delete is among them, because it was good when it was active.
pub fn rollback_targets(entries: &[impl Recorded], digest: Option<Digest>) -> Vec<Digest> {
    let is_bad = |digest| last(entries, digest).is_some_and(|last| last.event() == Event::RolledBack || last.fails());
    let mut good = activated(entries);
    good.retain(|other| Some(*other) != digest && !is_bad(*other));
    good
}

/// Returns the last entry that decides the state of a component. A refusal, say for a missing grant, leaves an earlier
/// rollback or approval in force.
pub fn last<E: Recorded>(entries: &[E], digest: Digest) -> Option<&E> {
    entries.iter().rfind(|entry| entry.digest() == digest && entry.event() != Event::Refused)
}

/// Returns what the past of a component says about activating it.
pub fn standing(entries: &[impl Recorded], digest: Digest) -> Standing {
    match last(entries, digest).map(|last| (last.event(), last.fails())) {
        Some((Event::RolledBack, _)) => Standing::RolledBack,
        Some((Event::ApprovalRequired, fails)) => Standing::ApprovalRequired { fails },
        _ => Standing::Free,
    }
}

/// Returns whether a component was approved and none was activated since: an approval counts for one activation,
/// because the next time it may break something else.
pub fn is_approved(entries: &[impl Recorded], digest: Digest) -> bool {
    let since = entries.iter().rev().take_while(|entry| entry.event() != Event::Activated);
    let mut own = since.filter(|entry| entry.digest() == digest && entry.event() != Event::Refused);
    own.next().is_some_and(|last| last.event() == Event::Approved)
}

/// Returns whether a component was approved after it had been rolled back or found to fail: its failures are known, so
/// it is not rolled back for them.
pub fn is_approved_despite_failure<E: Recorded>(entries: &[E], digest: Digest) -> bool {
    let failed = |entry: &E| entry.digest() == digest && (entry.event() == Event::RolledBack || entry.fails());
    let since = entries.iter().rposition(failed).and_then(|last| entries.get(last..));
    since.is_some_and(|since| was_approved(since, digest))
}

/// Returns whether a component was ever approved.
pub fn was_approved(entries: &[impl Recorded], digest: Digest) -> bool {
    entries.iter().any(|entry| entry.digest() == digest && entry.event() == Event::Approved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_known_where_a_component_was_approved_after_it() {
        use Event::{Activated, Approved, RolledBack};
        let [a, b] = ["a", "b"].map(|text| Digest::of(text.as_bytes()));
        for (events, is_approved, is_known) in [
            (&[][..], false, false),
            (&[Activated, RolledBack], false, false),
            (&[Event::ApprovalRequired], false, false),
            (&[Approved], true, false),
            (&[RolledBack, Approved], true, true),
            (&[Event::ApprovalRequired, Approved], true, true),
            (&[RolledBack, Approved, Activated], true, true),
            (&[RolledBack, Approved, Activated, RolledBack], true, false),
        ] {
            let entries: Vec<Entry> = events.iter().map(|event| Entry("a", *event)).collect();
            assert_eq!(was_approved(&entries, a), is_approved, "{events:?}");
            assert_eq!(is_approved_despite_failure(&entries, a), is_known, "{events:?}");
            assert!(!was_approved(&entries, b) && !is_approved_despite_failure(&entries, b), "{events:?}");
        }
    }
}
