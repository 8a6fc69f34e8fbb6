//! What is done next for a plugin.

use crate::flow::canary::Share;
use crate::model::digest::Digest;

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// End the active revision, so that none is active.
    Retire,
    /// Activate the canary, for this reason.
    Promote(&'static str),
    /// End the canary, for this reason, without recording a rollback.
    EndCanary(&'static str),
    /// Activate the last good revision, without the source.
    FallBack,
    /// Activate the revision that `spec.revision` names.
    Return(Digest),
    /// Report why the revision that `spec.revision` names cannot be activated.
    FailReturn(String),
    /// Approve the component that waits.
    Approve(Digest),
    /// Have the canary decide for another share of the parents.
    Share(Share),
    /// Look again later: nothing is to be done until something changes, or a pause is over.
    Wait,
}
