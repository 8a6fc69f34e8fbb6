//! What is done next for a plugin whose `Plugin` object is being deleted, so that it ends:
//!
//! ```text
//! spec.deletionPolicy   while parents need the plugin               then
//! block                 it serves until they are gone               End
//! orphan                Stop, then Release                          End
//! delete                DeleteParents; it cleans up after them      End
//! ```
//!
//! A parent needs the plugin while it holds the plugin's finalizer; under `delete` each parent does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of parents with the plugin's finalizer when its `Plugin` object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DeletionPolicy {
    /// The plugin stays until there is no such parent.
    #[default]
    Block,
    /// The finalizer is removed from them. They stay, and so do their children.
    Orphan,
    /// All parents are deleted, and the plugin cleans up after them before it goes.
    Delete,
}

impl DeletionPolicy {
    /// Returns whether the plugin stays.
    pub fn is_block(&self) -> bool {
        *self == Self::Block
    }
}

/// What is seen of the parents of a plugin that is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parents {
    /// Whether one of them has the plugin's finalizer.
    pub hold_finalizer: bool,
    /// Whether there are any, as the active revision sees them; none where no revision is active.
    pub exist: Option<bool>,
    /// Whether an older plugin has them, so that this one cannot serve them.
    pub are_taken: bool,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The plugin ends, and its object may go.
    End,
    /// It waits for an administrator, who deletes the parents or chooses another policy.
    Wait,
    /// It is stopped, because it would add its finalizer again.
    Stop,
    /// Its finalizer is removed from the parents.
    Release,
    /// The parents are deleted.
    DeleteParents,
}

impl Removal {
    /// Decides what is done next for a plugin that runs, or does not.
    pub fn next(policy: DeletionPolicy, runs: bool, parents: Parents) -> Self {
        let is_needed = parents.hold_finalizer;
        match (policy, parents.exist) {
            (DeletionPolicy::Block | DeletionPolicy::Orphan, _) if !is_needed => Self::End,
            (DeletionPolicy::Block, _) => Self::Wait,
            (DeletionPolicy::Orphan, _) if runs => Self::Stop,
            (DeletionPolicy::Orphan, _) => Self::Release,
            (DeletionPolicy::Delete, _) if parents.are_taken && is_needed => Self::Wait,
            (DeletionPolicy::Delete, Some(exist)) if exist || is_needed => Self::DeleteParents,
            // No revision is active that would clean up after them.
            (DeletionPolicy::Delete, None) if is_needed => Self::Wait,
            (DeletionPolicy::Delete, _) => Self::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_ends_once_no_parent_needs_it_and_until_then_its_policy_says_what_becomes_of_them() {
        use DeletionPolicy::{Block, Delete, Orphan};
        for (policy, runs, hold_finalizer, exist, expected) in [
            (Block, true, false, Some(true), Removal::End),
            (Block, true, true, Some(true), Removal::Wait),
            (Block, false, true, None, Removal::Wait),
            (Orphan, true, false, Some(true), Removal::End),
            (Orphan, true, true, Some(true), Removal::Stop),
            (Orphan, false, true, None, Removal::Release),
            (Delete, true, true, Some(true), Removal::DeleteParents),
            (Delete, true, false, Some(true), Removal::DeleteParents),
            (Delete, true, true, Some(false), Removal::DeleteParents),
            (Delete, true, false, Some(false), Removal::End),
            (Delete, true, true, None, Removal::Wait),
            (Delete, false, false, None, Removal::End),
        ] {
            let parents = Parents { hold_finalizer, exist, are_taken: false };
            assert_eq!(Removal::next(policy, runs, parents), expected, "{policy:?}, {runs}, {parents:?}");
        }
    }

    #[test]
    fn a_plugin_stays_by_default() {
        use DeletionPolicy::{Block, Delete, Orphan};
        assert_eq!(DeletionPolicy::default(), Block);
        assert_eq!([Block, Orphan, Delete].map(|policy| policy.is_block()), [true, false, false]);
    }

    #[test]
    fn parents_that_an_older_plugin_has_are_not_deleted() {
        let parents = Parents { hold_finalizer: true, exist: Some(true), are_taken: true };
        assert_eq!(Removal::next(DeletionPolicy::Delete, true, parents), Removal::Wait);
        let parents = Parents { hold_finalizer: false, ..parents };
        assert_eq!(Removal::next(DeletionPolicy::Delete, true, parents), Removal::DeleteParents);
    }
}
