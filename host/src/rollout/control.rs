//! Compares `spec.approve` and `spec.revision` with the state of a plugin's revisions, and decides what is to be done.
//! Pure: the driver does it, and asks again at intervals.

use std::time::{Duration, Instant};

use crate::config::Control;
use crate::config::manifest::DigestPrefix;
use hotshoe_core::model::digest::Digest;

/// The pause before a revision that could not be activated is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// The observed state of a plugin's revisions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The active revision.
    pub(super) active: Option<Digest>,
    /// The component that was refused and can be approved.
    pub(super) waiting: Option<Digest>,
    /// Whether the history has an approval of the waiting component.
    pub(super) was_approved: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Activate the revision whose digest begins with this.
    Return(String),
    /// Approve the component that waits.
    Approve(Digest),
}

/// What was done for `spec.approve` and `spec.revision`.
#[derive(Debug, Default)]
pub(super) struct Controls {
    approved: Approved,
    /// The revision that could not be activated, and when.
    failed: Option<(String, Instant)>,
}

/// What was done for `spec.approve`.
#[derive(Debug, Default)]
enum Approved {
    /// Not known: the host has just started, and may have acted upon the present value before.
    #[default]
    Unknown,
    /// `spec.approve` was absent.
    Absent,
    /// This value was acted upon.
    Done(DigestPrefix),
}

impl Controls {
    /// Returns what is to be done now.
    pub(super) fn next(&mut self, wanted: &Control, known: Known, now: Instant) -> Option<Act> {
        self.returning(wanted, known, now).or_else(|| self.approving(wanted, known))
    }

    fn returning(&mut self, wanted: &Control, known: Known, now: Instant) -> Option<Act> {
        let revision = wanted.revision.as_ref()?;
        if known.active.is_some_and(|active| revision.is_of(active)) {
            self.failed = None;
            return None;
        }
        let hex = revision.hex();
        let is_pausing = self.failed.as_ref().is_some_and(|(failed, at)| *failed == hex && now < *at + RETRY_PAUSE);
        (!is_pausing).then_some(Act::Return(hex))
    }

    /// Returns the approval that is to be given, each value of `spec.approve` counting once: a component that was
    /// rolled back after its approval is not approved again by the same value, nor by a host that has restarted since.
    fn approving(&mut self, wanted: &Control, known: Known) -> Option<Act> {
        let Some(approve) = &wanted.approve else {
            self.approved = Approved::Absent;
            return None;
        };
        let waiting = known.waiting.filter(|waiting| approve.is_of(*waiting))?;
        let is_new = match &self.approved {
            Approved::Unknown => !known.was_approved,
            Approved::Absent => true,
            Approved::Done(before) => before != approve,
        };
        self.approved = Approved::Done(approve.clone());
        is_new.then_some(Act::Approve(waiting))
    }

    /// Notes that a revision could not be activated.
    pub(super) fn failed(&mut self, revision: &str, now: Instant) {
        self.failed = Some((revision.to_owned(), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn prefix(text: &str) -> DigestPrefix {
        serde_json::from_value(digest(text).full().into()).unwrap()
    }

    #[test]
    fn an_approval_counts_once_and_again_after_it_was_removed() {
        let (mut controls, now) = (Controls::default(), Instant::now());
        let wanted = Control { approve: Some(prefix("b")), ..Control::default() };
        let known =
            |waiting: &str, was_approved| Known { waiting: Some(digest(waiting)), was_approved, ..Known::default() };
        assert_eq!(controls.next(&wanted, known("a", false), now), None, "another waits");
        assert_eq!(controls.next(&wanted, known("b", false), now), Some(Act::Approve(digest("b"))));
        // It was rolled back since.
        assert_eq!(controls.next(&wanted, known("b", true), now), None);
        assert_eq!(controls.next(&Control::default(), known("b", true), now), None);
        let approves = Some(Act::Approve(digest("b")));
        assert_eq!(controls.next(&wanted, known("b", true), now), approves);
        // The same digest in another form is another value.
        let other = serde_json::from_value(format!("sha256:{}", digest("b").full()).into()).unwrap();
        let other = Control { approve: Some(other), ..Control::default() };
        assert_eq!(controls.next(&other, known("b", true), now), approves);
    }

    #[test]
    fn a_host_that_starts_approves_nothing_again() {
        let wanted = Control { approve: Some(prefix("b")), ..Control::default() };
        let known = Known { waiting: Some(digest("b")), was_approved: true, ..Known::default() };
        assert_eq!(Controls::default().next(&wanted, known, Instant::now()), None);
    }

    #[test]
    fn the_named_revision_is_tried_until_it_is_active_with_a_pause_after_a_failure() {
        let (mut controls, now) = (Controls::default(), Instant::now());
        let wanted = Control { revision: Some(prefix("a")), ..Control::default() };
        let active = |text: &str| Known { active: Some(digest(text)), ..Known::default() };
        let returns = Some(Act::Return(digest("a").full()));
        assert_eq!(controls.next(&wanted, active("b"), now), returns);
        controls.failed(&digest("a").full(), now);
        assert_eq!(controls.next(&wanted, active("b"), now + RETRY_PAUSE / 2), None);
        assert_eq!(controls.next(&wanted, active("b"), now + RETRY_PAUSE), returns);
        assert_eq!(controls.next(&wanted, active("a"), now), None);
        assert_eq!(controls.next(&wanted, active("b"), now), returns, "what failed is forgotten");
    }
}
