//! The place of a plugin in a running host: its current revision, and why the last candidate was
//! not taken.
//!
//! Publishing is one store of a pointer. Whoever took the revision before that finishes with it.

use std::sync::Arc;

use tokio::sync::watch;

use super::revision::Revision;
use crate::error::LoadError;

/// What a slot holds.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The last good revision; none before the first was loaded.
    pub revision: Option<Arc<Revision>>,
    /// Why the last candidate was refused; none after a good one.
    pub refused: Option<Arc<LoadError>>,
}

/// Holds the current revision of one plugin; cheap to clone.
#[derive(Clone, Debug)]
pub struct Slot(Arc<watch::Sender<Held>>);

impl Default for Slot {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Held::default())))
    }
}

impl Slot {
    /// The revision to call now.
    pub fn current(&self) -> Option<Arc<Revision>> {
        self.0.borrow().revision.clone()
    }

    /// Why the last candidate was not taken.
    pub fn refusal(&self) -> Option<Arc<LoadError>> {
        self.0.borrow().refused.clone()
    }

    /// Makes a revision the current one and forgets the last refusal. Gives back the one before.
    pub fn publish(&self, revision: Arc<Revision>) -> Option<Arc<Revision>> {
        self.0.send_replace(Held { revision: Some(revision), refused: None }).revision
    }

    /// Records why a candidate was not taken; the current revision stays.
    pub fn refuse(&self, error: LoadError) {
        self.0.send_modify(|held| held.refused = Some(Arc::new(error)));
    }

    /// Sees every later change.
    pub fn subscribe(&self) -> watch::Receiver<Held> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_seen_and_keeps_what_is_there() {
        let slot = Slot::default();
        let mut seen = slot.subscribe();
        slot.refuse(LoadError::NotAComponent("the file is empty".into()));
        assert!(slot.current().is_none());
        assert_eq!(slot.refusal().unwrap().reason(), "NotAComponent");
        assert!(seen.has_changed().unwrap());
        assert!(seen.borrow_and_update().refused.is_some());
    }
}
