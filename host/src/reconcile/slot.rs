//! The place of a plugin's logic in a running host: what decides now, and why the last candidate
//! was not taken.
//!
//! Publishing is one store of a pointer, for which no reader waits. A reconcile that took the logic before that
//! finishes with it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::sandbox::error::{LoadError, Reason};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::sanitize;

/// The most that is said of a refusal, bytes: names of the component's choice may stand in it.
const MESSAGE: usize = 4_000;

/// A component that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Its digest, where there were bytes at all.
    pub digest: Option<Digest>,
    /// Why, in one word.
    pub reason: Reason,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Refused {
    /// Records an error that kept a component from being activated.
    pub fn new(digest: Option<Digest>, error: &LoadError) -> Self {
        Self { digest, reason: error.reason(), message: sanitize::clean(error.to_string(), MESSAGE) }
    }

    /// Returns whether `hotshoe approve` activates it anyway.
    pub fn can_be_approved(&self) -> bool {
        self.reason.can_be_approved()
    }
}

/// Holds what decides for one plugin.
#[derive(Debug)]
pub struct Slot<T> {
    current: ArcSwapOption<T>,
    refused: RwLock<Option<Refused>>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { current: ArcSwapOption::empty(), refused: RwLock::default() }
    }
}

impl<T> Slot<T> {
    /// What decides now; none before the first good component.
    pub fn current(&self) -> Option<Arc<T>> {
        self.current.load_full()
    }

    /// Why the last candidate was not taken; none after a good one.
    pub fn refused(&self) -> Option<Refused> {
        self.refused.read().clone()
    }

    /// Lets this decide from now on, and forgets the last refusal.
    pub fn publish(&self, next: Arc<T>) {
        let before = self.current.swap(Some(next));
        self.forgive();
        // No reconcile waits until it is dropped.
        drop(before);
    }

    /// Has the same logic decide, seen otherwise: what was refused still is.
    pub fn rewire(&self, next: Arc<T>) {
        self.current.store(Some(next));
    }

    /// Records why a candidate was not taken; what decides stays.
    pub fn refuse(&self, refused: Refused) {
        *self.refused.write() = Some(refused);
    }

    /// What was refused no longer stands in the way: the good one is back.
    pub fn forgive(&self) {
        *self.refused.write() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Refused {
        Refused::new(None, &LoadError::NotAComponent("the file is empty".into()))
    }

    #[test]
    fn a_refusal_is_seen_and_keeps_what_is_there() {
        let slot = Slot::default();
        slot.publish(Arc::new("good"));
        slot.refuse(refused());
        assert_eq!(slot.current().as_deref(), Some(&"good"));
        assert_eq!(slot.refused().unwrap().reason, Reason::NotAComponent);
    }

    #[test]
    fn what_a_component_chose_is_cleaned_and_cut() {
        let name = format!("a\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J\u{202e}{}", "x".repeat(100_000));
        let refused = Refused::new(None, &LoadError::SelfTestFailed(name));
        assert!(refused.message.contains("a 2026-01-01T00:00:00Z ERROR forged xxx"), "{}", refused.message);
        assert!(refused.message.len() <= MESSAGE);
    }

    #[test]
    fn the_same_logic_seen_otherwise_forgets_no_refusal() {
        let slot = Slot::default();
        slot.publish(Arc::new("with a watch"));
        slot.refuse(refused());
        slot.rewire(Arc::new("without"));
        assert_eq!(slot.current().as_deref(), Some(&"without"));
        assert!(slot.refused().is_some());
    }

    #[test]
    fn activating_a_revision_clears_the_refusal_and_leaves_the_old_one_to_reconciles_that_use_it() {
        let slot = Slot::default();
        slot.publish(Arc::new("old"));
        let held = slot.current();
        slot.refuse(refused());
        slot.publish(Arc::new("new"));
        assert_eq!((held.as_deref(), slot.current().as_deref()), (Some(&"old"), Some(&"new")));
        assert!(slot.refused().is_none());
    }
}
