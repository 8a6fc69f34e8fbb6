//! The ways in which a call may end.

use std::{fmt, time::Duration};

use crate::{Decision, ResourceKind};

/// The answer to `reconcile`.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// This should be.
    Decided(Decision),
    /// Call again with these; the host fetches what the grant allows, for five rounds and up to 8 MiB.
    Needs(Vec<Requirement>),
}

/// The answer to `finalize`.
#[derive(Clone, Debug, PartialEq)]
pub enum Cleanup {
    /// Not finished. The decision may change and delete children, but creates none.
    Waiting(Decision),
    /// Finished.
    Done(Decision),
}

/// An object that a decision needs beyond those that `describe` declared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Requirement {
    /// The key under which it comes back in [`crate::Request::related`].
    pub key: String,
    /// What it is.
    pub kind: ResourceKind,
    /// Absent means the parent's namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Why there is no decision. Nothing is written but a condition and an Event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// Try again, after the given time or with back-off.
    Retry {
        /// What happened, to what, what next.
        message: String,
        /// How long to wait; absent leaves it to the host's back-off.
        after: Option<Duration>,
    },
    /// The parent cannot be served as it is: no retry until the parent, the configuration, the
    /// grant or the plugin changes.
    Reject {
        /// What happened, to what, what next.
        message: String,
        /// The field of the parent at fault, for example `spec.size`.
        field: Option<String>,
    },
    /// Anything else; tried again with back-off.
    Other(String),
}

impl Failure {
    /// Try again with back-off.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::Retry { message: message.into(), after: None }
    }

    /// Try again after this long: an hour at most, and, for a parent that fails again and again, two seconds at least.
    pub fn retry_after(message: impl Into<String>, after: Duration) -> Self {
        Self::Retry { message: message.into(), after: Some(after) }
    }

    /// The parent cannot be served as it is.
    pub fn reject(message: impl Into<String>) -> Self {
        Self::Reject { message: message.into(), field: None }
    }

    /// This field of the parent cannot be served as it is.
    pub fn reject_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Reject { message: message.into(), field: Some(field.into()) }
    }

    /// Anything else.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry { message, .. } | Self::Reject { message, .. } | Self::Other(message) => {
                formatter.write_str(message)
            }
        }
    }
}

impl std::error::Error for Failure {}
