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
    /// The value of `spec.approve` that was not carried out, and why.
    not_approved: Option<(DigestPrefix, String)>,
    /// The revision that could not be activated, when, and why.
    failed: Option<(String, Instant, String)>,
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
        let is_pausing = self.failed.as_ref().is_some_and(|(failed, at, _)| *failed == hex && now < *at + RETRY_PAUSE);
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

    /// Notes that a revision could not be activated, and why.
    pub(super) fn failed(&mut self, revision: &str, why: &str, now: Instant) {
        self.failed = Some((revision.to_owned(), now, why.to_owned()));
    }

    /// Notes that a component could not be approved, and why.
    pub(super) fn not_approved(&mut self, approve: DigestPrefix, why: String) {
        self.not_approved = Some((approve, why));
    }

    /// Returns why `spec.revision` or `spec.approve` is not carried out; none once it is, or once the administrator
    /// wants something else. `is_known` says whether the plugin has or had a component of this digest.
    pub(super) fn failure(
        &self,
        wanted: &Control,
        known: Known,
        is_known: impl FnOnce(&DigestPrefix) -> bool,
    ) -> Option<String> {
        let is_active = |revision: &DigestPrefix| known.active.is_some_and(|active| revision.is_of(active));
        let hex = wanted.revision.as_ref().filter(|revision| !is_active(revision)).map(DigestPrefix::hex);
        let failed = self.failed.as_ref().filter(|(revision, ..)| Some(revision) == hex.as_ref());
        if let Some((revision, _, why)) = failed {
            return Some(format!("spec.revision {revision}: {why}"));
        }
        let approve = wanted.approve.as_ref()?;
        match self.not_approved.as_ref().filter(|(failed, _)| failed == approve) {
            Some((_, why)) => Some(why.clone()),
            None if is_known(approve) => None,
            None => Some(format!(
                "spec.approve {}: the plugin has no component of this digest; status.pending names the one that waits",
                approve.hex()
            )),
        }
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
    fn a_failure_lasts_until_the_revision_is_active_or_another_is_wanted() {
        let (mut controls, now) = (Controls::default(), Instant::now());
        let wanted = Control { revision: Some(prefix("a")), ..Control::default() };
        let active = |text: &str| Known { active: Some(digest(text)), ..Known::default() };
        let failure = |controls: &Controls, wanted: &Control, known| controls.failure(wanted, known, |_| true);
        assert_eq!(failure(&controls, &wanted, active("b")), None, "it was not tried yet");
        controls.failed(&digest("a").full(), "it is gone", now);
        let why = format!("spec.revision {}: it is gone", digest("a").full());
        assert_eq!(failure(&controls, &wanted, active("b")), Some(why));
        assert_eq!(failure(&controls, &wanted, active("a")), None);
        let other = Control { revision: Some(prefix("c")), ..Control::default() };
        for changed in [other, Control::default()] {
            assert_eq!(failure(&controls, &changed, active("b")), None);
        }
    }

    #[test]
    fn an_approval_of_a_component_that_is_not_known_fails() {
        let (mut controls, known) = (Controls::default(), Known::default());
        let wanted = Control { approve: Some(prefix("b")), ..Control::default() };
        assert_eq!(controls.failure(&wanted, known, |_| true), None);
        let why = controls.failure(&wanted, known, |_| false).unwrap();
        assert!(why.starts_with(&format!("spec.approve {}: ", digest("b").full())), "{why}");
        controls.not_approved(prefix("b"), "it asks for Secrets".to_owned());
        assert_eq!(controls.failure(&wanted, known, |_| true).as_deref(), Some("it asks for Secrets"));
        assert_eq!(controls.failure(&Control::default(), known, |_| true), None);
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
        controls.failed(&digest("a").full(), "it is gone", now);
        assert_eq!(controls.next(&wanted, active("b"), now + RETRY_PAUSE / 2), None);
        assert_eq!(controls.next(&wanted, active("b"), now + RETRY_PAUSE), returns);
        assert_eq!(controls.next(&wanted, active("a"), now), None);
        assert_eq!(controls.next(&wanted, active("b"), now), returns, "what failed is forgotten");
    }
}
