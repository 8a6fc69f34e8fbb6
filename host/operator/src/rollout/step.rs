//! The steps of an activation.

use hotshoe_core::model::digest::Digest;

/// A revision that is being activated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Underway {
    pub(super) digest: Digest,
    pub(super) step: Step,
}

/// The steps of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The component is compiled, or loaded from the code cache.
    Loading,
    /// The cases that the component carries are run.
    Cases,
    /// The watches of the revision are opened and synced.
    Watches,
    /// The revision is called about every parent.
    Survey,
}

impl Step {
    /// Returns what the activation waits for in this step.
    pub(super) fn waits_for(self) -> &'static str {
        match self {
            Self::Loading => "the component is being compiled",
            Self::Cases => "its cases are tried",
            Self::Watches => "the caches are being filled",
            Self::Survey => "the component is asked about every parent",
        }
    }
}
