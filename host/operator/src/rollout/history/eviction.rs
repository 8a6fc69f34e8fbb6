//! Which entries are evicted from a full history, and which components are kept for a rollback.

use std::collections::BTreeSet;

use crate::rollout::history::{Entry, Event, History};
use hotshoe_core::model::digest::Digest;

/// The number of components that are kept: the active one and those before it.
const KEPT_COMPONENTS: usize = 5;
/// The maximum number of entries.
const MAX_ENTRIES: usize = 100;

impl History {
    /// Evicts entries until there are no more than the maximum.
    pub(super) fn evict(&mut self) {
        while self.entries.len() > MAX_ENTRIES {
            self.entries.remove(self.next_to_evict());
        }
    }

    /// Returns the index of the entry to evict. Prefers (1) the oldest entry superseded by a later one for the
    /// same component, (2) the oldest refusal, (3) the oldest activation, (4) the oldest entry. Entries that record
    /// kept components, finalizers or owned kinds go last.
    fn next_to_evict(&self) -> usize {
        let needed = self.needed();
        // A later requirement of approval supersedes a rollback, and the other way round.
        let state = |event: Event| match event {
            Event::ApprovalRequired => Event::RolledBack,
            event => event,
        };
        let worth = |event: Event| match event {
            Event::Refused => 0,
            Event::Activated => 1,
            Event::RolledBack | Event::Approved | Event::ApprovalRequired => 2,
        };
        let is_superseded = |index: usize, entry: &Entry| {
            let mut later = self.entries.iter().skip(index + 1);
            later.any(|later| later.digest == entry.digest && state(later.event) == state(entry.event))
        };
        let candidates = self.entries.iter().enumerate().filter(|(index, _)| !needed.contains(index));
        // `min_by_key` returns the first of several equal entries, which is the oldest.
        let least = candidates.min_by_key(|(index, entry)| (!is_superseded(*index, entry), worth(entry.event)));
        least.map_or(0, |(index, _)| index)
    }

    /// Returns, for each kept component, finalizer and owned kind, the index of the last entry that records it.
    fn needed(&self) -> BTreeSet<usize> {
        let kept = self.kept_components();
        let activations = kept.iter().filter_map(|digest| {
            self.entries.iter().rposition(|entry| entry.digest == *digest && entry.event == Event::Activated)
        });
        let finalizers = self.finalizers();
        let named = finalizers
            .iter()
            .filter_map(|finalizer| self.entries.iter().rposition(|entry| entry.finalizer.as_ref() == Some(finalizer)));
        let owned = self.owned();
        let owning = owned.iter().filter_map(|kind| self.entries.iter().rposition(|entry| entry.owns.contains(kind)));
        activations.chain(named).chain(owning).collect()
    }

    /// Returns the components to keep for a rollback. The host rolls back to good ones alone; an administrator may also
    /// choose one that was rolled back.
    pub(super) fn kept_components(&self) -> Vec<Digest> {
        let good = self.rollback_targets(None).into_iter().take(KEPT_COMPONENTS);
        good.chain(self.activated().into_iter().take(KEPT_COMPONENTS)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::history::Activation;
    use crate::rollout::history::fixtures::{MAX_SIZE, activate, digest, open, with_finalizer};
    use hotshoe_core::model::kind::Kind;

    fn owning(owns: Vec<Kind>) -> Activation {
        Activation { owns, ..Activation::default() }
    }

    #[test]
    fn owned_kinds_are_known_after_a_restart_and_never_evicted() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        let kind = |version: &str, kind: &str| Kind::new("apps", version, kind);
        history.activate(digest("a"), "1", owning(vec![kind("v1", "Deployment"), kind("v1", "DaemonSet")]), "");
        for number in 0..2 * MAX_ENTRIES {
            let owns = vec![kind("v2", "Deployment")];
            history.activate(digest(&number.to_string()), "2", owning(owns), "");
        }
        let again = open(base.path(), "memcached");
        assert_eq!(again.owned(), [kind("v2", "Deployment"), kind("v1", "DaemonSet")]);
    }

    #[test]
    fn a_rollback_and_its_finalizer_are_not_evicted_by_repeated_entries() {
        let mut history = History::default();
        history.activate(digest("bad"), "1", with_finalizer("example.com/old"), "");
        history.note(digest("bad"), "1", Event::RolledBack, "it traps");
        for number in 0..3 * MAX_ENTRIES {
            history.activate(digest(["a", "b"][number % 2]), "1", with_finalizer("example.com/new"), "");
        }
        assert_eq!(history.entries().len(), MAX_ENTRIES);
        assert!(history.rolled_back(digest("bad")).is_some());
        assert_eq!(history.finalizers(), ["example.com/new", "example.com/old"].map(str::to_owned).into());
        assert_eq!(history.current(), Some(digest("b")));
        assert_eq!(history.rollback_targets(history.current()), [digest("a")]);
    }

    #[test]
    fn rollbacks_and_approvals_are_not_evicted_by_many_activations() {
        let mut history = History::default();
        history.activate(digest("present"), "1", Activation::default(), "");
        for text in ["bad", "approved"] {
            history.activate(digest(text), "1", Activation::default(), "");
            history.note(digest(text), "1", Event::RolledBack, "it traps");
        }
        history.approve(digest("approved"));
        for number in 0..3 * MAX_ENTRIES {
            history.activate(digest(&number.to_string()), "2", Activation::default(), "");
        }
        assert_eq!(history.entries().len(), MAX_ENTRIES);
        assert!(history.rolled_back(digest("bad")).is_some());
        assert!(history.is_approved_despite_failure(digest("approved")));
    }

    #[test]
    fn the_active_component_is_not_evicted_by_many_that_were_never_active() {
        let mut history = History::default();
        history.activate(digest("before"), "1", with_finalizer("example.com/old"), "");
        history.activate(digest("present"), "1", Activation::default(), "");
        for number in 0..3 * MAX_ENTRIES {
            history.require_approval(digest(&number.to_string()), "2", "it would delete much", false);
            history.refuse(digest(&format!("refused {number}")), "NotGranted: it asks for Secrets");
        }
        assert_eq!(history.entries().len(), MAX_ENTRIES);
        assert_eq!(history.current(), Some(digest("present")));
        assert_eq!(history.rollback_targets(history.current()), [digest("before")]);
        assert_eq!(history.finalizers(), ["example.com/old".to_owned()].into());
        let last = (3 * MAX_ENTRIES - 1).to_string();
        assert!(history.requires_approval(digest(&last)).is_some() && history.requires_approval(digest("0")).is_none());
    }

    #[test]
    fn only_the_last_components_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        for number in 0..20 {
            activate(&mut history, &number.to_string());
        }
        let kept = (0..20).filter(|number| history.component(digest(&number.to_string()), MAX_SIZE).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [15, 16, 17, 18, 19]);
    }

    #[test]
    fn rolled_back_components_are_kept_for_the_administrator_and_good_ones_for_the_host() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        activate(&mut history, "good");
        for number in 0..2 * KEPT_COMPONENTS {
            activate(&mut history, &number.to_string());
            history.note(digest(&number.to_string()), "1", Event::RolledBack, "it traps");
        }
        assert_eq!(history.rollback_targets(None), [digest("good")]);
        for (text, kept) in [("good", true), ("0", false), ("9", true)] {
            assert_eq!(history.component(digest(text), MAX_SIZE).is_some(), kept, "{text}");
        }
    }
}
