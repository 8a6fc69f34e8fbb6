//! What the host sees of a plugin while no work is in progress for it.

use crate::flow::canary::{Progress, Share};
use crate::model::digest::Digest;

/// What the host sees of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The active revision.
    pub active: Option<Digest>,
    /// Whether `spec.source.verify` refuses the active revision.
    pub is_unaccepted: bool,
    /// Whether a component that was fetched is about to be offered.
    pub is_offer_due: bool,
    /// The component that the source offered last; none until it was read.
    pub offered: Option<Digest>,
    /// Whether the source has offered nothing, and cannot be fetched.
    pub lacks_source: bool,
    /// The revision that decides for some of the parents.
    pub canary: Option<Canary>,
    /// The component that was refused and can be approved.
    pub waiting: Option<Waiting>,
    /// The revision that `spec.revision` names, or why there is none to activate; none where it names no revision, or the
    /// active one.
    pub named: Option<Result<Digest, String>>,
}

/// A canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// Its digest.
    pub digest: Digest,
    /// The parents that it decides for.
    pub share: Share,
    /// Whether another host has activated it.
    pub is_active_elsewhere: bool,
    /// How far it has come.
    pub progress: Progress,
}

/// A component that was refused and can be approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its digest.
    pub digest: Digest,
    /// Whether the history has an approval of it.
    pub was_approved: bool,
}
