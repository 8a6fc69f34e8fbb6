//! A component that was active and that `spec.source.verify` does not accept any more.

use std::fmt;

use hotshoe_core::model::digest::Digest;

/// What it means that no component is active.
pub(crate) const NONE_ACTIVE: &str =
    "no component is active until then, and parents and their children stay as they are";

/// A component that was active, and that `verify` does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unaccepted {
    /// Its digest.
    pub digest: Digest,
    /// Why, in one PascalCase word.
    pub reason: &'static str,
    /// Why, and what to do.
    pub message: String,
}

impl fmt::Display for Unaccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { digest, reason, message } = self;
        write!(f, "revision {digest} is not signed as spec.source.verify requires: {reason}: {message}; {NONE_ACTIVE}")
    }
}
