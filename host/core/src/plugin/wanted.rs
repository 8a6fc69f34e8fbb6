//! What an administrator wants of a plugin: the fields that control which revision is active. They do not change what a
//! revision decides.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flow::canary::Share;
use crate::model::digest::Digest;
use crate::model::digest_prefix::DigestPrefix;

/// What an administrator wants of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// When another component takes over.
    pub mode: Mode,
    /// Whether no parent is reconciled.
    pub paused: bool,
    /// Which component is approved.
    pub approve: Option<DigestPrefix>,
    /// Which revision is to be active.
    pub revision: Option<DigestPrefix>,
    /// How another component takes over; none if for all parents at once.
    pub rollout: Option<Rollout>,
}

impl Wanted {
    /// Returns whether the component may be active as far as `spec.revision` says: it names this one, or none.
    pub fn admits(&self, digest: Digest) -> bool {
        self.revision.as_ref().is_none_or(|revision| revision.is_of(digest))
    }

    /// Returns how a component that is offered becomes the canary. None where it is to decide for all parents at once:
    /// without an active revision to decide for the rest, or where `spec.revision` names it.
    pub fn rollout_of(&self, digest: Digest, active: Option<Digest>) -> Option<&Rollout> {
        let is_named = self.revision.as_ref().is_some_and(|revision| revision.is_of(digest));
        self.rollout.as_ref().filter(|_| !is_named && active.is_some())
    }
}

/// When another component takes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Once it is verified.
    #[default]
    Active,
    /// Once it is approved. Until then it is asked about every parent, and its answers are compared and not applied.
    Shadow,
}

impl Mode {
    /// Returns whether a component takes over once it is verified.
    pub fn is_active(&self) -> bool {
        *self == Mode::Active
    }
}

/// How another component takes over, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The parents that the component decides for first.
    pub share: Share,
    /// How long it decides for these parents alone.
    pub duration: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_takes_over_once_it_is_verified_by_default() {
        assert!(Mode::default().is_active() && !Mode::Shadow.is_active());
    }
}
