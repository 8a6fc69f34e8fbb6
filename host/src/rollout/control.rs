//! What an administrator wants of a plugin's revisions, as `spec.approve` and `spec.revision` say it, and what is to be
//! done for that. Pure: the driver carries it out, again and again until it is so.

use std::time::{Duration, Instant};

use crate::config::Control;
use hotshoe_core::model::digest::Digest;

/// How long what failed is not tried again.
const PAUSE: Duration = Duration::from_secs(30);

/// What is known of a plugin's revisions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The active one.
    pub(super) active: Option<Digest>,
    /// One that was refused and can be approved.
    pub(super) waiting: Option<Digest>,
    /// Whether the history has an approval of that one.
    pub(super) was_approved: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Activate the revision whose digest begins so.
    Return(String),
    /// Approve the component that waits.
    Approve(Digest),
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Controls {
    /// The value of `spec.approve` that was acted upon, or found to have been.
    approved: Option<String>,
    /// The revision that could not be activated, and when.
    failed: Option<(String, Instant)>,
}

impl Controls {
    /// Returns what is to be done now.
    pub(super) fn next(&mut self, wanted: &Control, known: Known, now: Instant) -> Option<Act> {
        self.to_return(wanted, known, now).or_else(|| self.to_approve(wanted, known))
    }

    fn to_return(&mut self, wanted: &Control, known: Known, now: Instant) -> Option<Act> {
        let revision = wanted.revision.as_ref()?;
        if known.active.is_some_and(|active| revision.is_of(active)) {
            self.failed = None;
            return None;
        }
        let hex = revision.hex();
        let rests = self.failed.as_ref().is_some_and(|(failed, at)| *failed == hex && now < *at + PAUSE);
        (!rests).then_some(Act::Return(hex))
    }

    /// An approval counts once: a component that was rolled back although it was approved is not approved again by the
    /// same word, nor by a host that has started since.
    fn to_approve(&mut self, wanted: &Control, known: Known) -> Option<Act> {
        let Some(approve) = &wanted.approve else {
            self.approved = None;
            return None;
        };
        let waiting = known.waiting.filter(|waiting| approve.is_of(*waiting))?;
        let is_news = self.approved.replace(approve.hex()).is_none_or(|before| before != approve.hex());
        (is_news && !known.was_approved).then_some(Act::Approve(waiting))
    }

    /// Notes that a revision could not be activated.
    pub(super) fn failed(&mut self, revision: &str, now: Instant) {
        self.failed = Some((revision.to_owned(), now));
    }
}
