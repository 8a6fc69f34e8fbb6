//! The errors of a reconcile, or of the trial calls to a revision before it decides: the reasons that Events, conditions
//! and metrics show for them, and when each is retried.

use std::time::Duration;

use hotshoe_core::check::memory_quota::NoRoom;
use hotshoe_core::check::selection::SelectionError;
use hotshoe_core::check::{Denial, Inadmissible, Violation};
use hotshoe_core::compare::json_diff::TAINTED;
use hotshoe_core::flow::signal::Signal;

use hotshoe_cluster::error::ApiError;
use hotshoe_sandbox::call::Aborted;
use hotshoe_sandbox::error::CallError;

use hotshoe_core::model::decision::Failure;

/// The reason in Event and condition of a clean-up that takes long. It is no failure, but a user may be waiting for it
/// in vain.
pub const CLEAN_UP_WAITS: &str = "CleanUpWaits";

/// The reason in Event and condition while another writer keeps reverting a child.
pub const CONTENDED: &str = "Contended";

/// The reason in the condition while children are refused that the host tries again at intervals.
pub const CHILDREN_REFUSED: &str = "ChildrenRefused";

/// The reason in the Event about conditions of a parent that are not written.
pub const CONDITIONS_NOT_WRITTEN: &str = "ConditionsNotWritten";

/// The pause of a parent whose reconcile panicked.
pub(super) const PANIC_PAUSE: Duration = Duration::from_secs(30);

/// The maximum length of a message in log and condition, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1000;
/// The maximum length of the message of a denial, in bytes: it lists every violated rule and its fix.
pub const MAX_DENIAL_BYTES: usize = 8_000;

/// When to try an object again after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Soon: the cause is transient, such as a conflict, an overload or a timeout.
    Soon,
    /// Exponential back-off from the base delay.
    Backoff,
    /// Exponential back-off from ten times the base delay: only a user is likely to fix the cause.
    Slowly,
    /// After this time.
    After(Duration),
    /// Only after a change of the parent, the configuration, the grant or the plugin.
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
    /// The decision violates rules.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// A label selector cannot be used, or selects too much.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The grant does not let the plugin see an object that its decision is based on.
    #[error("{0}")]
    NotGranted(String),
    /// The host has no memory left for the children that the decision would create.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The host itself panicked. That is a fault of the host, and not of the plugin.
    #[error(
        "the host panicked while it reconciled the object, which is a fault of the host: please report it, with its log"
    )]
    Panicked,
    /// The host may not list all that a decision depends on in a namespace, though it may in others.
    #[error("{0}")]
    NotListed(String),
    /// The watches have no room for an object that the decision depends on.
    #[error("{0}")]
    NotKept(String),
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
    /// Returns the reason for Event, condition and metric: one PascalCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Call(error) => error.reason(),
            Error::Plugin(Failure::Retry { .. }) => "RetryRequested",
            Error::Plugin(Failure::Reject { .. }) => "Rejected",
            Error::Plugin(Failure::Other(_)) => "PluginFailed",
            Error::Denied(_) => "Denied",
            Error::Selection(error) => error.reason(),
            Error::NotGranted(_) => "NotGranted",
            Error::NoRoom(_) | Error::NotKept(_) => "LimitExceeded",
            Error::Panicked => "HostPanicked",
            Error::Api(error) if error.is_transient() => "Unavailable",
            Error::NotListed(_) => "Forbidden",
            Error::Api(error) if error.code == 403 => "Forbidden",
            Error::Api(_) => "Refused",
        }
    }

    /// Returns the message for the history and the status of the plugin, which more users may read than the parent. If
    /// the plugin was shown Secrets, only the reason is left: the plugin chose the rest, and also what the API server
    /// quotes of its children.
    pub fn message(&self, tainted: bool) -> String {
        if tainted { format!("{}: {TAINTED}", self.reason()) } else { self.to_string() }
    }

    /// Returns the message for those who may not read the parent: the reason alone, without any words of the plugin.
    pub fn message_for_strangers(&self, tainted: bool) -> String {
        if tainted { self.message(true) } else { self.reason().to_owned() }
    }

    /// Returns what the failure of a call shows about the revision; `None` if the cause lies elsewhere. If the plugin was
    /// shown Secrets, the call is `tainted`.
    pub fn signal(&self, tainted: bool) -> Option<Signal> {
        let why = || self.message_for_strangers(tainted);
        match self {
            Error::Call(CallError::Stopped | CallError::CircuitOpen(_)) | Error::Api(_) => None,
            Error::Selection(_) | Error::NotGranted(_) | Error::NotListed(_) | Error::NotKept(_) => None,
            Error::Panicked => None,
            Error::Call(CallError::DeadlineExceeded(_)) => Some(Signal::Overdue(why())),
            Error::Call(_) | Error::Denied(_) => Some(Signal::Failed(why())),
            // The call succeeded, but a revision that reports a failure is worse than one that does not.
            Error::Plugin(Failure::Other(_)) => Some(Signal::Reported(why())),
            // The plugin cannot see how much memory the children of all parents take.
            Error::Plugin(_) | Error::NoRoom(_) => Some(Signal::Good),
        }
    }

    /// Returns whether the error is the fault of the plugin, and so counts against its revision.
    pub fn is_plugin_fault(&self) -> bool {
        self.signal(true).is_some_and(|signal| signal.failure().is_some())
    }

    /// Returns whether the error uses up one of the tries that `spec.retry.maxTries` allows: the parent was tried, and
    /// the cause is not transient. An outage of the API server uses up none.
    pub fn uses_up_try(&self) -> bool {
        match self {
            Error::Call(error) => !matches!(error, CallError::Stopped | CallError::CircuitOpen(_)),
            Error::Api(error) => !error.is_transient() && error.retry_after.is_none(),
            Error::Panicked | Error::NotListed(_) => false,
            Error::Plugin(_) | Error::Denied(_) | Error::Selection(_) => true,
            Error::NotGranted(_) | Error::NoRoom(_) | Error::NotKept(_) => true,
        }
    }

    /// Returns when the parent is retried.
    pub fn retry(&self) -> Retry {
        match self {
            Error::Call(CallError::CircuitOpen(left)) => Retry::After(*left),
            Error::Panicked => Retry::After(PANIC_PAUSE),
            Error::Call(_) | Error::Plugin(Failure::Other(_)) => Retry::Backoff,
            Error::Plugin(Failure::Retry { after: Some(after), .. }) => Retry::After(*after),
            Error::Plugin(Failure::Retry { after: None, .. }) => Retry::Backoff,
            Error::Plugin(Failure::Reject { .. }) => Retry::OnChange,
            // The next answer may differ with anything that the plugin is shown, so it is not only retried on a change.
            Error::Denied(_) | Error::Selection(_) | Error::NotGranted(_) | Error::NoRoom(_) => Retry::Slowly,
            Error::NotKept(_) | Error::NotListed(_) => Retry::Slowly,
            Error::Api(error) => match error.retry_after {
                Some(after) => Retry::After(after),
                None if error.is_transient() => Retry::Soon,
                None => Retry::Slowly,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use hotshoe_core::model::kind::Kind;
    use hotshoe_core::model::wanted::Selection;

    use super::*;

    #[test]
    fn the_message_of_a_plugin_that_was_shown_secrets_is_only_the_reason() {
        const SECRET: &str = "hunter2";
        let invalid = format!("data: Invalid value: \"{SECRET}\"");
        let errors: [(Error, &str); 4] = [
            (Error::Plugin(Failure::Other(SECRET.to_owned())), "PluginFailed"),
            (CallError::Trapped(SECRET.to_owned()).into(), "Trapped"),
            (Violation::new("metadata", SECRET).into(), "Denied"),
            (ApiError::new("apply", format!("ConfigMap n/{SECRET}"), 422, "Invalid", invalid).into(), "Refused"),
        ];
        for (error, reason) in errors {
            assert_eq!(error.message(true), format!("{reason}: {TAINTED}"));
            assert!(error.message(false).contains(SECRET));
        }
    }

    #[test]
    fn those_who_may_not_read_the_parent_see_the_reason_and_no_word_of_the_plugin() {
        let error = Error::Plugin(Failure::Other("words of the plugin".to_owned()));
        assert_eq!(error.message_for_strangers(false), "PluginFailed");
        assert_eq!(error.message_for_strangers(true), format!("PluginFailed: {TAINTED}"));
    }

    #[test]
    fn a_failure_counts_against_a_revision_only_as_far_as_the_plugin_caused_it() {
        let of_call = |error: CallError| Error::from(error);
        let rejects = Failure::Reject { message: String::new(), field: None };
        let no_room = NoRoom::Children { parent: String::new(), more: 1, held: 1, may: 1, most: 1 };
        let selection = Selection { kind: Kind::new("", "v1", "Pod"), namespace: None, selector: "a".into() };
        let unavailable = ApiError::new("read", "a Secret".into(), 503, "", String::new());
        for (error, strikes, is_failure) in [
            (of_call(CallError::Trapped(String::new())), Some(1), true),
            (of_call(CallError::DeadlineExceeded(Duration::ZERO)), Some(3), true),
            (of_call(CallError::Stopped), None, false),
            (of_call(CallError::CircuitOpen(Duration::ZERO)), None, false),
            (Violation::new("metadata", "").into(), Some(1), true),
            (Error::Plugin(Failure::Other(String::new())), Some(0), true),
            (Error::Plugin(rejects), Some(0), false),
            (Error::Plugin(Failure::Retry { message: String::new(), after: None }), Some(0), false),
            (no_room.into(), Some(0), false),
            (Error::NotGranted(String::new()), None, false),
            (SelectionError::TooMany(selection).into(), None, false),
            (Error::NotKept(String::new()), None, false),
            (Error::NotListed(String::new()), None, false),
            (Error::Panicked, None, false),
            (unavailable.into(), None, false),
        ] {
            let signal = error.signal(false);
            assert_eq!(signal.as_ref().and_then(Signal::strikes), strikes, "{error:?}");
            assert_eq!(error.is_plugin_fault(), is_failure, "{error:?}");
        }
    }
}
