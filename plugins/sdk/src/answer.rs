//! The possible results of a call.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::{Decision, ResourceKind, selector};

/// The answer to `reconcile`.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The desired state.
    Decided(Decision),
    /// Objects to be shown in a second call. The host fetches what the grant allows, for five rounds and up to 8 MiB.
    Needs(Vec<Requirement>),
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Self::Decided(decision)
    }
}

/// The answer to `finalize`.
#[derive(Clone, Debug, PartialEq)]
pub enum Cleanup {
    /// Not finished. The decision may change and delete children, and create few of the kinds that `plugin.yaml` lists
    /// in `spec.finalize`.
    Waiting(Decision),
    /// Finished. The decision creates no child.
    Done(Decision),
}

/// An object, or all objects with certain labels, that a decision needs beyond those that `describe` declared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Requirement {
    /// The key under which the objects are shown in [`crate::Request::related`].
    pub key: String,
    /// Their kind.
    pub kind: ResourceKind,
    /// Their namespace; absent means the parent's.
    pub namespace: Option<String>,
    /// The object's name; or `?` and a label selector, as [`Requirement::selected`] writes it.
    pub name: String,
}

impl Requirement {
    /// Requires the object of this name in the parent's namespace, or without a namespace.
    pub fn named(key: impl Into<String>, kind: ResourceKind, name: impl Into<String>) -> Self {
        Self { key: key.into(), kind, namespace: None, name: name.into() }
    }

    /// Requires all objects of a kind that a label selector selects, in the parent's namespace, or without a namespace. The
    /// selector is a text as kubectl writes it, such as `app=shop,tier in (a,b),!legacy`, or anything that serializes as a
    /// `LabelSelector` of Kubernetes, such as a field of the parent's spec. An empty one selects all.
    ///
    /// # Errors
    /// A rejection of the parent, where the selector has not the form of a `LabelSelector`.
    pub fn selected(
        key: impl Into<String>,
        kind: ResourceKind,
        selector: &(impl Serialize + ?Sized),
    ) -> Result<Self, Failure> {
        Ok(Self::named(key, kind, format!("?{}", selector::written(selector)?)))
    }

    /// Looks in this namespace instead of the parent's.
    #[must_use]
    pub fn in_namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }
}

/// Why there is no decision. The host writes only a condition and an Event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// A temporary failure; retried after the given time or with backoff.
    Retry {
        /// What happened, to what, and what to do next.
        message: String,
        /// How long to wait before the retry; absent leaves it to the host's backoff.
        after: Option<Duration>,
    },
    /// The parent cannot be served as it is: no retry until the parent, the configuration, the
    /// grant or the plugin changes.
    Reject {
        /// What happened, to what, and what to do next.
        message: String,
        /// The field of the parent at fault, for example `spec.size`.
        field: Option<String>,
    },
    /// Any other failure; retried with backoff.
    Other(String),
}

impl Failure {
    /// Asks for a retry with backoff.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::Retry { message: message.into(), after: None }
    }

    /// Asks for a retry after this long: an hour at most, and, for a parent that fails again and again, two seconds at
    /// least.
    pub fn retry_after(message: impl Into<String>, after: Duration) -> Self {
        Self::Retry { message: message.into(), after: Some(after) }
    }

    /// Rejects the parent: it cannot be served as it is.
    pub fn reject(message: impl Into<String>) -> Self {
        Self::Reject { message: message.into(), field: None }
    }

    /// Rejects the parent because of this field.
    pub fn reject_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Reject { message: message.into(), field: Some(field.into()) }
    }

    /// Reports any other failure.
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
