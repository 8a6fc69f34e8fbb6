//! What was tried for `spec.approve`, `spec.revision` and a missing source, and when it may be tried again.

use std::time::{Duration, Instant};

use crate::model::digest::Digest;
use crate::model::digest_prefix::DigestPrefix;
use crate::plugin::seen::{Seen, Waiting};
use crate::plugin::step::Step;
use crate::plugin::wanted::Wanted;

/// The pause before a revision that could not be activated is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// The pause between two attempts to activate an earlier revision while the source cannot be fetched.
const WITHOUT_SOURCE_PAUSE: Duration = Duration::from_secs(60);

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attempts {
    approved: Approved,
    /// The value of `spec.revision` that could not be carried out, when, and why.
    failed: Option<(DigestPrefix, Instant, String)>,
    /// When the last good revision was last activated because the source cannot be fetched.
    fell_back: Option<Instant>,
}

/// What was done for `spec.approve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Approved {
    /// Not known: the host has just started, and may have acted upon the present value before.
    #[default]
    Unknown,
    /// `spec.approve` was absent.
    Absent,
    /// This value was acted upon.
    Done(DigestPrefix),
}

impl Attempts {
    /// Notes the step that follows what is wanted and seen.
    pub fn note(&mut self, wanted: &Wanted, seen: &Seen, step: &Step, now: Instant) {
        match step {
            Step::Retire => self.fell_back = None,
            Step::FallBack => self.fell_back = Some(now),
            _ => {}
        }
        if seen.active.is_some_and(|active| wanted.revision.as_ref().is_some_and(|named| named.is_of(active))) {
            self.failed = None;
        }
        self.note_approval(wanted, seen.waiting, step);
    }

    fn note_approval(&mut self, wanted: &Wanted, waiting: Option<Waiting>, step: &Step) {
        let Some(approve) = &wanted.approve else {
            self.approved = Approved::Absent;
            return;
        };
        let waits = waiting.filter(|waiting| approve.is_of(waiting.digest));
        // A component that was approved before this host started was approved by the present value.
        let is_spent = waits.is_some_and(|waiting| waiting.was_approved) && self.approved == Approved::Unknown;
        if is_spent || matches!(step, Step::Approve(_)) {
            self.approved = Approved::Done(approve.clone());
        }
    }

    /// Returns whether a value of `spec.approve` was not acted upon yet. Each value counts once: a component that was
    /// rolled back after its approval is not approved again by the same value, nor by a host that has restarted since.
    pub(super) fn is_new_approval(&self, approve: &DigestPrefix, waiting: Waiting) -> bool {
        match &self.approved {
            Approved::Unknown => !waiting.was_approved,
            Approved::Absent => true,
            Approved::Done(before) => before != approve,
        }
    }

    /// Returns whether the revision that `spec.revision` names failed so lately that it is not tried again yet.
    pub(super) fn pauses_return_to(&self, named: &DigestPrefix, now: Instant) -> bool {
        self.failed.as_ref().is_some_and(|(failed, at, _)| failed.is_same(named) && now < *at + RETRY_PAUSE)
    }

    /// Returns whether the last good revision may be activated again without the source.
    pub(super) fn may_fall_back(&self, now: Instant) -> bool {
        self.fell_back.is_none_or(|at| now >= at + WITHOUT_SOURCE_PAUSE)
    }

    /// Notes that the named revision could not be activated, and why.
    pub fn failed(&mut self, named: DigestPrefix, why: String, now: Instant) {
        self.failed = Some((named, now, why));
    }

    /// Returns why `spec.revision` or `spec.approve` is not carried out; none once it is, or once the administrator
    /// wants something else. `is_known` says whether the plugin has or had a component of this digest.
    pub fn failure(
        &self,
        wanted: &Wanted,
        active: Option<Digest>,
        is_known: impl FnOnce(&DigestPrefix) -> bool,
    ) -> Option<String> {
        let is_active = |revision: &DigestPrefix| active.is_some_and(|active| revision.is_of(active));
        let named = wanted.revision.as_ref().filter(|named| !is_active(named));
        let failed = named.and_then(|named| self.failed.as_ref().filter(|(failed, ..)| failed.is_same(named)));
        if let Some((failed, _, why)) = failed {
            return Some(format!("spec.revision {}: {why}", failed.hex()));
        }
        let approve = wanted.approve.as_ref().filter(|approve| !is_known(approve))?;
        Some(format!(
            "spec.approve {}: the plugin has no component of this digest; status.pending names the one that waits",
            approve.hex()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::next::next;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn prefix(text: &str) -> DigestPrefix {
        digest(text).full().parse().unwrap()
    }

    fn approving(text: &str) -> Wanted {
        Wanted { approve: Some(prefix(text)), ..Wanted::default() }
    }

    fn naming(text: &str) -> Wanted {
        Wanted { revision: Some(prefix(text)), ..Wanted::default() }
    }

    fn waiting(text: &str, was_approved: bool) -> Seen {
        Seen { waiting: Some(Waiting { digest: digest(text), was_approved }), ..Seen::default() }
    }

    fn active(text: &str) -> Seen {
        Seen { active: Some(digest(text)), named: Some(Ok(digest("a"))), ..Seen::default() }
    }

    /// Returns the step that follows, and notes it.
    fn step(tried: &mut Attempts, wanted: &Wanted, seen: &Seen, now: Instant) -> Step {
        let step = next(wanted, seen, tried, now);
        tried.note(wanted, seen, &step, now);
        step
    }

    #[test]
    fn an_approval_counts_once_and_again_after_it_was_removed() {
        let (mut tried, now) = (Attempts::default(), Instant::now());
        let (wanted, approves) = (approving("b"), Step::Approve(digest("b")));
        assert_eq!(step(&mut tried, &wanted, &waiting("a", false), now), Step::Wait, "another waits");
        assert_eq!(step(&mut tried, &wanted, &waiting("b", false), now), approves);
        // It was rolled back since.
        assert_eq!(step(&mut tried, &wanted, &waiting("b", true), now), Step::Wait);
        assert_eq!(step(&mut tried, &Wanted::default(), &waiting("b", true), now), Step::Wait);
        assert_eq!(step(&mut tried, &wanted, &waiting("b", true), now), approves);
        // The same digest in another form is another value.
        let other = format!("sha256:{}", digest("b").full()).parse().unwrap();
        let other = Wanted { approve: Some(other), ..Wanted::default() };
        assert_eq!(step(&mut tried, &other, &waiting("b", true), now), approves);
    }

    #[test]
    fn an_approval_is_not_used_up_while_a_revision_is_named() {
        let (mut tried, now) = (Attempts::default(), Instant::now());
        let wanted = Wanted { approve: Some(prefix("b")), ..naming("a") };
        let seen = Seen { named: Some(Ok(digest("a"))), ..waiting("b", false) };
        assert_eq!(step(&mut tried, &wanted, &seen, now), Step::Return(digest("a")));
        assert_eq!(step(&mut tried, &approving("b"), &seen, now), Step::Approve(digest("b")));
    }

    #[test]
    fn a_host_that_starts_approves_nothing_again() {
        let (mut tried, now) = (Attempts::default(), Instant::now());
        assert_eq!(step(&mut tried, &approving("b"), &waiting("b", true), now), Step::Wait);
        // In another form it is another value from then on.
        let other = format!("sha256:{}", digest("b").full()).parse().unwrap();
        let other = Wanted { approve: Some(other), ..Wanted::default() };
        assert_eq!(step(&mut tried, &other, &waiting("b", true), now), Step::Approve(digest("b")));
    }

    #[test]
    fn a_failure_lasts_until_the_revision_is_active_or_another_is_wanted() {
        let (mut tried, now) = (Attempts::default(), Instant::now());
        let failure = |tried: &Attempts, wanted: &Wanted, of| tried.failure(wanted, Some(digest(of)), |_| true);
        assert_eq!(failure(&tried, &naming("a"), "b"), None, "it was not tried yet");
        tried.failed(prefix("a"), "it is gone".to_owned(), now);
        let why = format!("spec.revision {}: it is gone", digest("a").full());
        assert_eq!(failure(&tried, &naming("a"), "b"), Some(why));
        assert_eq!(failure(&tried, &naming("a"), "a"), None);
        for changed in [naming("c"), Wanted::default()] {
            assert_eq!(failure(&tried, &changed, "b"), None);
        }
    }

    #[test]
    fn an_approval_of_a_component_that_is_not_known_fails() {
        let (tried, wanted) = (Attempts::default(), approving("b"));
        assert_eq!(tried.failure(&wanted, None, |_| true), None);
        let why = tried.failure(&wanted, None, |_| false).unwrap();
        assert!(why.starts_with(&format!("spec.approve {}: ", digest("b").full())), "{why}");
        assert_eq!(tried.failure(&Wanted::default(), None, |_| false), None);
    }

    #[test]
    fn the_named_revision_is_tried_until_it_is_active_with_a_pause_after_a_failure() {
        let (mut tried, now) = (Attempts::default(), Instant::now());
        let (wanted, returns) = (naming("a"), Step::Return(digest("a")));
        assert_eq!(step(&mut tried, &wanted, &active("b"), now), returns);
        tried.failed(prefix("a"), "it is gone".to_owned(), now);
        assert_eq!(step(&mut tried, &wanted, &active("b"), now + RETRY_PAUSE / 2), Step::Wait);
        assert_eq!(step(&mut tried, &wanted, &active("b"), now + RETRY_PAUSE), returns);
        assert_eq!(step(&mut tried, &wanted, &active("a"), now), Step::Wait);
        assert_eq!(step(&mut tried, &wanted, &active("b"), now), returns, "what failed is forgotten");
    }

    #[test]
    fn without_a_source_an_earlier_revision_is_tried_once_a_minute_and_at_once_after_one_was_retired() {
        let (mut tried, now) = (Attempts::default(), Instant::now());
        let lacking = Seen { lacks_source: true, ..Seen::default() };
        let wanted = Wanted::default();
        assert_eq!(step(&mut tried, &wanted, &lacking, now), Step::FallBack);
        assert_eq!(step(&mut tried, &wanted, &lacking, now + WITHOUT_SOURCE_PAUSE / 2), Step::Wait);
        let refused = Seen { is_unaccepted: true, ..active("a") };
        assert_eq!(step(&mut tried, &wanted, &refused, now), Step::Retire);
        assert_eq!(step(&mut tried, &wanted, &lacking, now), Step::FallBack);
        assert_eq!(step(&mut tried, &wanted, &lacking, now + WITHOUT_SOURCE_PAUSE), Step::FallBack);
    }
}
