//! What the tests of the history share.

use std::path::Path;
use std::sync::Arc;

use crate::rollout::history::{Activation, Event, History};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::Size;
use hotshoe_platform::candidate::Candidate;

pub(super) const MAX_SIZE: Size = Size(1024);

pub(super) fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

/// Opens a history with the default limit of disk space.
pub(super) fn open(base: &Path, plugin: &str) -> History {
    History::open(Some(base), plugin, Arc::default())
}

/// An activation of a component with this finalizer.
pub(super) fn with_finalizer(finalizer: &str) -> Activation {
    Activation { finalizer: Some(finalizer.to_owned()), ..Activation::default() }
}

/// Keeps and activates a component with these bytes.
pub(super) fn activate(history: &mut History, text: &str) {
    history.keep(&Candidate::of(text.into()));
    history.note(digest(text), "1", Event::Activated, "");
}
