//! What can go wrong between an observation and its writes, or on the way to a revision that decides: one page for the reasons that Events,
//! conditions and metrics show, and for when to try again.

use std::time::Duration;

use hotshoe_core::check::memory_quota::NoRoom;
use hotshoe_core::check::{Denial, Inadmissible, Violation};

use crate::cluster::error::ApiError;
use crate::sandbox::call::Aborted;
use crate::sandbox::error::CallError;

use hotshoe_core::model::decision::Failure;

/// What Event and condition show of a clean-up that goes on for long: no failure, but a person may wait for
/// it in vain.
pub const CLEAN_UP_WAITS: &str = "CleanUpWaits";

/// What Event and condition show while another writer reverts each time what was applied to a child.
pub const CONTENDED: &str = "Contended";

/// When to try an object again after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The cause passes by itself: a conflict, an overload, a time-out.
    Soon,
    /// Exponential back-off from the base delay.
    Backoff,
    /// Exponential back-off from ten times as much: only a person is likely to fix it.
    Slowly,
    /// After this long.
    After(Duration),
    /// Not before parent, configuration, grant or plugin changes.
    OnChange,
}

/// Why a reconcile did not finish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The plugin's code failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The plugin says that it cannot decide.
    #[error("{}", failure(.0))]
    Plugin(Failure),
    /// The decision breaks rules.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The grant does not let the plugin see what its decision rests on.
    #[error("{0}")]
    NotGranted(String),
    /// The host has no room for what it would bring about.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The API server refused.
    #[error(transparent)]
    Api(Box<ApiError>),
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Error::Api(Box::new(error))
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Error::Denied(violation.into())
    }
}

impl From<Inadmissible> for Error {
    fn from(inadmissible: Inadmissible) -> Self {
        match inadmissible {
            Inadmissible::WrongFunction(_) => CallError::invalid(inadmissible.to_string()).into(),
            Inadmissible::Denied(denial) => denial.into(),
            Inadmissible::NoRoom(no_room) => no_room.into(),
        }
    }
}

fn failure(failure: &Failure) -> String {
    match failure {
        Failure::Retry { message, .. } => format!("the plugin asks to be tried again: {message}"),
        Failure::Reject { message, field: Some(field) } => {
            format!("the plugin rejects the object: {field}: {message}")
        }
        Failure::Reject { message, field: None } => format!("the plugin rejects the object: {message}"),
        Failure::Other(message) => format!("the plugin failed: {message}"),
    }
}

impl From<Aborted> for Error {
    fn from(aborted: Aborted) -> Self {
        Self::Call(aborted.error)
    }
}

impl Error {
    /// One PascalCase word for Event, condition and metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Call(error) => error.reason(),
            Error::Plugin(Failure::Retry { .. }) => "RetryRequested",
            Error::Plugin(Failure::Reject { .. }) => "Rejected",
            Error::Plugin(Failure::Other(_)) => "PluginFailed",
            Error::Denied(_) => "Denied",
            Error::NotGranted(_) => "NotGranted",
            Error::NoRoom(_) => "LimitExceeded",
            Error::Api(error) if error.is_transient() => "Unavailable",
            Error::Api(error) if error.code == 403 => "Forbidden",
            Error::Api(_) => "Refused",
        }
    }

    /// Whether it is the plugin's fault: it failed at what it should know to do.
    pub fn is_the_plugins(&self) -> bool {
        match self {
            // What the children of all parents take is nothing that it sees.
            Error::Call(CallError::Stopped | CallError::CircuitOpen(_)) | Error::Api(_) => false,
            Error::NotGranted(_) | Error::NoRoom(_) => false,
            // It ran well; that it does not know how is worse than one that does.
            Error::Plugin(stated) => matches!(stated, Failure::Other(_)),
            Error::Call(_) | Error::Denied(_) => true,
        }
    }

    /// Whether the object was tried, and what failed does not pass by itself: it uses up one of the tries that
    /// `spec.retry.maxTries` allows. No outage of the API server does.
    pub fn is_a_try(&self) -> bool {
        match self {
            Error::Call(error) => !matches!(error, CallError::Stopped | CallError::CircuitOpen(_)),
            Error::Api(error) => !error.is_transient() && error.retry_after.is_none(),
            Error::Plugin(_) | Error::Denied(_) | Error::NotGranted(_) | Error::NoRoom(_) => true,
        }
    }

    /// When the object is tried again.
    pub fn retry(&self) -> Retry {
        match self {
            Error::Call(CallError::CircuitOpen(left)) => Retry::After(*left),
            Error::Call(_) | Error::Plugin(Failure::Other(_)) => Retry::Backoff,
            Error::Plugin(Failure::Retry { after: Some(after), .. }) => Retry::After(*after),
            Error::Plugin(Failure::Retry { after: None, .. }) => Retry::Backoff,
            Error::Plugin(Failure::Reject { .. }) => Retry::OnChange,
            // What the plugin answers may change with anything that it is shown.
            Error::Denied(_) | Error::NotGranted(_) | Error::NoRoom(_) => Retry::Slowly,
            Error::Api(error) => match error.retry_after {
                Some(after) => Retry::After(after),
                None if error.is_transient() => Retry::Soon,
                None => Retry::Slowly,
            },
        }
    }
}
