//! What is done with a component that the source offers.

use crate::model::digest::Digest;
use crate::plugin::past::Standing;
use crate::plugin::wanted::Wanted;

/// What is done with a component that the source offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is active already: a canary beside it ends.
    IsActive,
    /// It is the canary already.
    IsCanary,
    /// It is refused without trying it.
    Blocked(Block),
    /// It is loaded, verified, and activated or refused.
    Try,
}

/// Why a component is refused without trying it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// `spec.revision` names another one.
    RevisionPinned,
    /// It was rolled back, and not approved since.
    RolledBack,
    /// It requires approval, and no revision is active with which to compare it.
    ApprovalRequired,
}

impl Offer {
    /// Decides what is done with a component of this digest and standing. One that requires approval is tried again
    /// beside the active one, because it may break less by now.
    pub fn of(digest: Digest, standing: Standing, wanted: &Wanted, running: Running) -> Self {
        if running.active == Some(digest) {
            return Self::IsActive;
        }
        if running.canary == Some(digest) {
            return Self::IsCanary;
        }
        match standing {
            _ if !wanted.admits(digest) => Self::Blocked(Block::RevisionPinned),
            _ if wanted.revision.is_some() => Self::Try,
            Standing::RolledBack => Self::Blocked(Block::RolledBack),
            Standing::ApprovalRequired { fails: false } if running.active.is_none() => {
                Self::Blocked(Block::ApprovalRequired)
            }
            Standing::ApprovalRequired { .. } | Standing::Free => Self::Try,
        }
    }
}

/// The revisions that decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The active revision.
    pub active: Option<Digest>,
    /// The canary beside it.
    pub canary: Option<Digest>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn offer(standing: Standing, revision: Option<&str>, active: Option<&str>, canary: Option<&str>) -> Offer {
        let revision = revision.and_then(|text| digest(text).full().parse().ok());
        let running = Running { active: active.map(digest), canary: canary.map(digest) };
        Offer::of(digest("n"), standing, &Wanted { revision, ..Wanted::default() }, running)
    }

    #[test]
    fn a_component_that_decides_already_is_not_tried_again() {
        for standing in [Standing::Free, Standing::RolledBack] {
            assert_eq!(offer(standing, Some("a"), Some("n"), Some("c")), Offer::IsActive);
            assert_eq!(offer(standing, Some("a"), Some("a"), Some("n")), Offer::IsCanary);
        }
    }

    #[test]
    fn a_named_revision_alone_may_be_tried_even_after_it_was_rolled_back() {
        for standing in [Standing::Free, Standing::RolledBack, Standing::ApprovalRequired { fails: false }] {
            assert_eq!(offer(standing, Some("a"), Some("a"), None), Offer::Blocked(Block::RevisionPinned));
            assert_eq!(offer(standing, Some("n"), Some("a"), None), Offer::Try);
        }
    }

    #[test]
    fn what_was_rolled_back_is_blocked_and_what_requires_approval_is_tried_where_that_can_be_judged() {
        let (fails, deletes) =
            (Standing::ApprovalRequired { fails: true }, Standing::ApprovalRequired { fails: false });
        for (standing, active, expected) in [
            (Standing::Free, None, Offer::Try),
            (Standing::Free, Some("a"), Offer::Try),
            (Standing::RolledBack, None, Offer::Blocked(Block::RolledBack)),
            (Standing::RolledBack, Some("a"), Offer::Blocked(Block::RolledBack)),
            (fails, None, Offer::Try),
            (fails, Some("a"), Offer::Try),
            (deletes, None, Offer::Blocked(Block::ApprovalRequired)),
            (deletes, Some("a"), Offer::Try),
        ] {
            assert_eq!(offer(standing, None, active, None), expected, "{standing:?} beside {active:?}");
        }
    }
}
