//! The state of a component, derived from the history: whether it was rolled back, requires approval, is approved or
//! is on probation. And the revisions that can be rolled back to.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::rollout::history::{Entry, Event, History};
use hotshoe_core::check::provenance::Signer;
use hotshoe_core::flow::probation::CallStats;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::plugin::past::{self, Standing, last};

impl History {
    /// Returns whether another host writes the files of this history.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the entries, the newest last.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns what the history says about activating a component.
    pub fn standing(&self, digest: Digest) -> Standing {
        past::standing(&self.entries, digest)
    }

    /// Returns the entry of a component that was rolled back and not approved since.
    pub fn rolled_back(&self, digest: Digest) -> Option<&Entry> {
        self.last(digest).filter(|last| last.event == Event::RolledBack)
    }

    /// Returns the entry of a component that requires approval and was not approved since.
    pub fn requires_approval(&self, digest: Digest) -> Option<&Entry> {
        self.last(digest).filter(|last| last.event == Event::ApprovalRequired)
    }

    /// Returns whether the last entry that is remembered elsewhere is newer than the last one here.
    pub fn is_older_than(&self, remembered: &[Entry]) -> bool {
        remembered.last().map(|entry| entry.at) > self.entries.last().map(|entry| entry.at)
    }

    /// Returns the rollbacks of these components that are remembered elsewhere and not known here. Compares no times:
    /// the clocks of hosts differ, so an entry from here may only seem to be newer.
    pub fn missed_rollbacks(&self, remembered: &[Entry], of: impl Iterator<Item = Digest>) -> Vec<Entry> {
        let missed = |digest| {
            let theirs = last(remembered, digest).filter(|theirs| theirs.event == Event::RolledBack)?;
            (!self.last(digest).is_some_and(knows_rollback)).then(|| theirs.clone())
        };
        of.filter_map(missed).collect()
    }

    /// Returns the rollback of a component, if what is remembered elsewhere has neither a rollback nor an approval of
    /// it as the last entry.
    pub fn unreported_rollback(&self, remembered: &[Entry], digest: Digest) -> Option<Entry> {
        let ours = self.rolled_back(digest)?;
        (!last(remembered, digest).is_some_and(knows_rollback)).then(|| ours.clone())
    }

    fn last(&self, digest: Digest) -> Option<&Entry> {
        last(&self.entries, digest)
    }

    /// Returns since when the active component has been on probation, and the call statistics of the one before
    /// it. A component that was activated by a rollback, or approved although it fails, is not on probation.
    pub fn on_probation_since(&self, digest: Digest) -> Option<(SystemTime, CallStats)> {
        let last = self.entries.iter().rfind(|entry| entry.event == Event::Activated)?;
        let is_swap =
            last.digest == digest && last.message.is_empty() && !self.rollback_targets(Some(digest)).is_empty();
        let is_on_probation = is_swap && !self.is_approved_despite_failure(digest);
        // No time that is added to unchecked: an entry may come from outside.
        let since = UNIX_EPOCH.checked_add(Duration::from_secs(last.at))?;
        is_on_probation.then_some((since, last.before))
    }

    /// Returns whether a component was approved and none was activated since: an approval counts for one
    /// activation, because the next time it may break something else.
    pub fn is_approved(&self, digest: Digest) -> bool {
        past::is_approved(&self.entries, digest)
    }

    /// Returns whether a component was ever approved.
    pub fn was_approved(&self, digest: Digest) -> bool {
        past::was_approved(&self.entries, digest)
    }

    /// Returns the component that was activated last.
    pub fn current(&self) -> Option<Digest> {
        past::current(&self.entries)
    }

    /// Returns whether a component was approved after it had been rolled back or found to fail: its failures are
    /// known, so it is not rolled back for them.
    pub fn is_approved_despite_failure(&self, digest: Digest) -> bool {
        past::is_approved_despite_failure(&self.entries, digest)
    }

    /// Returns the components that can be rolled back to from this one, the best first.
    pub fn rollback_targets(&self, digest: Option<Digest>) -> Vec<Digest> {
        past::rollback_targets(&self.entries, digest)
    }

    /// Returns where a component that was active was fetched from last.
    pub fn source_of(&self, digest: Digest) -> Option<&str> {
        self.entries.iter().rev().filter(|entry| entry.digest == digest).find_map(|entry| entry.source.as_deref())
    }

    /// Returns the signers of whom one has signed the image of a component that was active, as they were recorded last;
    /// none if no signature was required.
    pub fn signed_by(&self, digest: Digest) -> &[Signer] {
        let recorded = self.entries.iter().rev().filter(|entry| entry.digest == digest);
        recorded.map(|entry| &*entry.signed_by).find(|signers| !signers.is_empty()).unwrap_or_default()
    }

    /// Returns the finalizers of all components that were active: parents may still hold them.
    pub fn finalizers(&self) -> BTreeSet<String> {
        self.entries.iter().filter_map(|entry| entry.finalizer.clone()).collect()
    }

    /// Returns the kinds that active components have owned, each in the version that was owned last: there may still
    /// be children of these kinds.
    pub fn owned(&self) -> Vec<Kind> {
        let mut found: Vec<Kind> = Vec::new();
        for kind in self.entries.iter().rev().flat_map(|entry| &entry.owns) {
            if !found.iter().any(|known| known.is_served_as(kind)) {
                found.push(kind.clone());
            }
        }
        found
    }

    /// Returns the components that were ever active, the last one first.
    pub fn activated(&self) -> Vec<Digest> {
        past::activated(&self.entries)
    }
}

/// Returns whether an entry says that a component was rolled back, or approved since.
fn knows_rollback(entry: &Entry) -> bool {
    matches!(entry.event, Event::RolledBack | Event::Approved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::history::Activation;
    use crate::rollout::history::fixtures::{activate, digest, open};

    #[test]
    fn a_rollback_is_reported_until_it_or_an_approval_is_remembered_elsewhere() {
        let mut history = History::default();
        history.activate(digest("a"), "1", Activation::default(), "");
        let mut elsewhere = history.entries().to_vec();
        assert_eq!(history.unreported_rollback(&elsewhere, digest("a")), None, "it was not rolled back");
        history.note(digest("a"), "1", Event::RolledBack, "it traps");
        let reported = history.unreported_rollback(&elsewhere, digest("a")).unwrap();
        assert_eq!((reported.event, &*reported.message), (Event::RolledBack, "it traps"));
        elsewhere.push(reported);
        assert_eq!(history.unreported_rollback(&elsewhere, digest("a")), None);
        elsewhere.push(Entry::of(digest("a"), "1", Event::Approved, ""));
        assert_eq!(history.unreported_rollback(&elsewhere, digest("a")), None);
        elsewhere.push(Entry::of(digest("a"), "1", Event::Activated, ""));
        assert!(history.unreported_rollback(&elsewhere, digest("a")).is_some());
    }

    #[test]
    fn the_source_of_a_component_is_the_one_of_its_last_activation() {
        let mut history = History::default();
        for source in [Some("oci://one"), None, Some("oci://two"), None] {
            let source = source.map(str::to_owned);
            history.activate(digest("a"), "1", Activation { source, ..Activation::default() }, "");
        }
        assert_eq!((history.source_of(digest("a")), history.source_of(digest("b"))), (Some("oci://two"), None));
    }

    #[test]
    fn a_rolled_back_component_is_no_rollback_target_until_it_is_approved() {
        let mut history = History::default();
        for text in ["a", "b", "c"] {
            activate(&mut history, text);
        }
        history.note(digest("b"), "1", Event::RolledBack, "it traps");
        assert_eq!(history.rolled_back(digest("b")).unwrap().message, "it traps");
        assert_eq!(history.rollback_targets(Some(digest("c"))), [digest("a")]);
        history.note(digest("b"), "1", Event::Approved, "");
        assert!(history.rolled_back(digest("b")).is_none());
        assert!(history.is_approved(digest("b")));
        assert!(history.is_approved_despite_failure(digest("b")));
        activate(&mut history, "b");
        assert!(!history.is_approved(digest("b")), "the next time it may break more");
        history.note(digest("b"), "1", Event::RolledBack, "it traps");
        assert!(!history.is_approved_despite_failure(digest("b")), "it was rolled back once more");
    }

    #[test]
    fn a_rollback_by_another_host_counts_unless_the_component_was_approved_here() {
        let mut theirs = History::default();
        activate(&mut theirs, "a");
        activate(&mut theirs, "b");
        theirs.note(digest("b"), "1", Event::RolledBack, "it traps");
        let mut ours = History::default();
        activate(&mut ours, "b");
        ours.require_approval(digest("b"), "1", "it fails", true);
        let missed = |ours: &History, theirs: &History| {
            ours.missed_rollbacks(theirs.entries(), [digest("b"), digest("a")].into_iter())
        };
        let found = missed(&ours, &theirs);
        assert_eq!(found.iter().map(|entry| &*entry.message).collect::<Vec<_>>(), ["it traps"]);
        ours.approve(digest("b"));
        assert!(missed(&ours, &theirs).is_empty());
        assert!(missed(&theirs, &theirs).is_empty());
        theirs.require_approval(digest("b"), "1", "it fails", true);
        assert!(theirs.rolled_back(digest("b")).is_some(), "verified late, it stays rolled back");
    }

    #[test]
    fn an_approval_ends_when_another_component_is_activated() {
        let mut history = History::default();
        activate(&mut history, "a");
        history.require_approval(digest("waiting"), "2", "it would delete much", false);
        history.approve(digest("waiting"));
        assert!(history.is_approved(digest("waiting")) && !history.is_approved(digest("a")));
        activate(&mut history, "b");
        assert!(!history.is_approved(digest("waiting")));
    }

    #[test]
    fn a_component_requires_approval_also_after_a_restart() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        activate(&mut history, "a");
        history.require_approval(digest("b"), "2", "it would delete much", false);
        let mut again = open(base.path(), "memcached");
        assert_eq!(again.requires_approval(digest("b")).unwrap().message, "it would delete much");
        assert_eq!(again.rollback_targets(Some(digest("b"))), [digest("a")]);
        assert!(again.requires_approval(digest("a")).is_none() && again.rolled_back(digest("b")).is_none());
        again.note(digest("b"), "", Event::Approved, "");
        assert!(again.requires_approval(digest("b")).is_none() && again.is_approved(digest("b")));
        assert!(!again.is_approved_despite_failure(digest("b")), "it has not failed yet");
        again.require_approval(digest("c"), "3", "it fails on 1 of 2 parents", true);
        assert!(!again.is_approved_despite_failure(digest("c")));
        again.note(digest("c"), "", Event::Approved, "");
        assert!(again.is_approved_despite_failure(digest("c")), "its failures were known");
        let restarted = open(base.path(), "memcached");
        assert!(
            restarted.is_approved_despite_failure(digest("c")) && !restarted.is_approved_despite_failure(digest("b"))
        );
        again.require_approval(digest("a"), "1", "it would delete much", false);
        assert_eq!(again.rollback_targets(Some(digest("b"))), [digest("a")], "it was good when it decided");
        again.require_approval(digest("a"), "1", "it fails on 1 of 2 parents", true);
        assert!(again.rollback_targets(Some(digest("b"))).is_empty(), "no automatic rollback goes to what fails");
    }

    #[test]
    fn a_refusal_is_recorded_and_changes_neither_an_approval_nor_a_rollback() {
        let mut history = History::default();
        activate(&mut history, "a");
        history.require_approval(digest("b"), "2", "it fails on 1 of 1 parents", true);
        for _ in 0..3 {
            history.refuse(digest("b"), "NotGranted: it asks for Secrets");
        }
        let last = history.entries().last().unwrap();
        assert_eq!((history.entries().len(), last.event, &*last.version), (3, Event::Refused, "2"));
        assert!(history.requires_approval(digest("b")).is_some());
        history.approve(digest("b"));
        history.refuse(digest("b"), "NotGranted: it asks for Secrets");
        assert!(history.is_approved(digest("b")) && history.is_approved_despite_failure(digest("b")));
        history.note(digest("a"), "1", Event::RolledBack, "it traps");
        history.refuse(digest("a"), "NotGranted: it asks for Secrets");
        assert!(history.rolled_back(digest("a")).is_some() && history.rollback_targets(None).is_empty());
    }
}
