//! The slot of a plugin in a running host, which holds its active revision.
//!
//! Publishing swaps one pointer; no reader waits for it. A reconcile that began before the swap finishes with the old
//! revision.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

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
    fn a_replaced_revision_stays_with_the_reconciles_that_use_it() {
        let slot = Slot::default();
        slot.publish(Arc::new("old"));
        let in_use = slot.current();
        slot.publish(Arc::new("new"));
        assert_eq!((in_use.as_deref(), slot.current().as_deref()), (Some(&"old"), Some(&"new")));
    }
}
