//! The slot of a plugin in a running host, which holds its active revision.
//!
//! Publishing swaps one pointer; no reader waits for it. A reconcile that began before the swap finishes with the old
//! revision.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde::{Deserialize, Serialize};

use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::sanitize;
use hotshoe_core::plugin::meant::Refused;
use hotshoe_sandbox::error::{LoadError, Reason};

/// The maximum length of the message of a refusal, in bytes. The message may contain names that the component chose.
const MAX_MESSAGE_BYTES: usize = 4_000;

/// A component that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedComponent {
    /// The digest of the component; `None` if no bytes could be read.
    pub digest: Option<Digest>,
    /// The reason, one PascalCase word.
    pub reason: Reason,
    /// What is wrong, and what to do.
    pub message: String,
}

impl RefusedComponent {
    /// Records an error that kept a component from being activated.
    pub fn new(digest: Option<Digest>, error: &LoadError) -> Self {
        Self { digest, reason: error.reason(), message: sanitize::clean(error.to_string(), MAX_MESSAGE_BYTES) }
    }

    /// Returns whether `hotshoe approve` can activate the component anyway.
    pub fn can_be_approved(&self) -> bool {
        self.reason.can_be_approved()
    }
}

impl From<RefusedComponent> for Refused {
    fn from(refused: RefusedComponent) -> Self {
        let can_be_approved = refused.can_be_approved();
        Self { digest: refused.digest, can_be_approved, why: format!("{}: {}", refused.reason, refused.message) }
    }
}

/// Holds the active revision of one plugin.
#[derive(Debug)]
pub struct Slot<T> {
    current: ArcSwapOption<T>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { current: ArcSwapOption::empty() }
    }
}

impl<T> Slot<T> {
    /// Returns the active revision; `None` before the first component was activated.
    pub fn current(&self) -> Option<Arc<T>> {
        self.current.load_full()
    }

    /// Activates a revision, or replaces its views.
    pub fn publish(&self, next: Arc<T>) {
        self.current.store(Some(next));
    }

    /// Ends the active revision, so that none is active.
    pub fn clear(&self) {
        self.current.store(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_a_component_chose_is_sanitized_and_truncated() {
        let name = format!("a\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J\u{202e}{}", "x".repeat(100_000));
        let refused = RefusedComponent::new(None, &LoadError::SelfTestFailed(name));
        assert!(refused.message.contains("a 2026-01-01T00:00:00Z ERROR forged xxx"), "{}", refused.message);
        assert!(refused.message.len() <= MAX_MESSAGE_BYTES);
    }

    #[test]
    fn a_replaced_revision_stays_with_the_reconciles_that_use_it() {
        let slot = Slot::default();
        slot.publish(Arc::new("old"));
        let in_use = slot.current();
        slot.publish(Arc::new("new"));
        assert_eq!((in_use.as_deref(), slot.current().as_deref()), (Some(&"old"), Some(&"new")));
    }
}
