//! Why a component cannot be loaded, and why a call of a plugin failed.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use hotshoe_core::check::answer::AnswerError;
use hotshoe_core::check::conversion::Denied;
use hotshoe_core::check::defaulting;
use hotshoe_platform::candidate::NotAComponent;
use hotshoe_platform::followed_file::FileError;

/// Why a call of a plugin failed. A failed call costs one decision and changes nothing else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The plugin ran for too long.
    #[error("the plugin ran for longer than its {}: it may loop; raise limits.callTime if it is only slow", limit(*.0))]
    DeadlineExceeded(Duration),
    /// The plugin exceeded its limit on memory, tables or instances.
    #[error("the plugin reached its limit on {0}")]
    LimitExceeded(String),
    /// The plugin trapped.
    #[error("the plugin trapped: {0}")]
    Trapped(String),
    /// The plugin's answer is too large or cannot be read.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The plugin's answer to `convert` is denied.
    #[error(transparent)]
    Conversion(#[from] Denied),
    /// The plugin's answer to `default` is denied.
    #[error(transparent)]
    Defaulting(#[from] defaulting::Denied),
    /// The plugin required more objects in every round.
    #[error("the plugin still needs more objects after {0} rounds")]
    TooManyRounds(usize),
    /// The plugin failed too often, so it is not called for now.
    // The message has no time, because each parent has an Event of it, and Events with the same message are one Event.
    #[error("the plugin failed too often and is not called for a while; fix and reload it, or wait")]
    CircuitOpen(Duration),
    /// The plugin was not called: the host's decision threads have ended, or the circuit opened meanwhile.
    #[error("the host is shutting down")]
    Stopped,
}

fn limit(duration: Duration) -> String {
    format!("time limit of {duration:?}")
}

/// Why a component was not activated.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(
        "cannot read the component {path}: {source}; build it with `hotshoe build`, or name another file in plugin.yaml"
    )]
    Unreadable {
        /// Its path.
        path: String,
        /// The error.
        source: std::io::Error,
    },
    /// The component is larger than the limit.
    #[error("the component has {size} bytes, more than the {limit} that are accepted (limits.componentBytes)")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The component declares more types or items than the host parses.
    #[error("the component declares too much: {0}")]
    TooComplex(String),
    /// The bytes are no component.
    #[error(transparent)]
    NotAComponent(#[from] NotAComponent),
    /// The component imports something that a plugin may not have.
    #[error(
        "the component imports {imports}, which a plugin may not have: the only function import is hotshoe:reconciler/log{how}",
        imports = .0,
        how = without_wasi(.0)
    )]
    ForbiddenImport(String),
    /// The component is no plugin.
    #[error(
        "the component exports {0}, and not hotshoe:reconciler/reconciler, so it is no plugin; \
         hand your type to `hotshoe_sdk::export!`, or, without that SDK, build it for the world \
         hotshoe:reconciler/plugin"
    )]
    NoPlugin(String),
    /// The component was built for another version of the contract.
    #[error(
        "plugin needs {needs}, this host offers {offers}; build it again with an SDK for one of these, or keep the host that it ran on"
    )]
    ContractMismatch {
        /// The version that the component needs.
        needs: String,
        /// The version that this host offers.
        offers: String,
    },
    /// The compiler failed, was killed or exceeded its limits.
    #[error("the component cannot be compiled: {0}")]
    CompileFailed(String),
    /// The compiled code cannot be loaded.
    #[error("the compiled component cannot be loaded: {0}")]
    LoadFailed(String),
    /// `describe` failed, or its answer is unusable.
    #[error("describe failed: {0}")]
    DescribeFailed(String),
    /// The plugin asks for more than it is granted.
    #[error(
        "the plugin asks for more than it is granted: {0}; grant it in plugin.yaml (`hotshoe grants` shows what is \
         missing), which is applied without a restart, or use another revision"
    )]
    NotGranted(String),
    /// The parents of the component are of another kind than the plugin's.
    #[error(
        "the plugin asks for {asked} as its parent, where spec.parent names {given}, \
         and a plugin keeps the kind of its parents: use a component of this plugin, \
         or make another plugin of that one"
    )]
    OtherParents {
        /// The kind that the component asks for.
        asked: String,
        /// The kind in `spec.parent`.
        given: String,
    },
    /// The component fails on parents, or would change more than is allowed without an approval.
    #[error("{0}; look at it with `hotshoe shadow`; `hotshoe approve` activates it anyway")]
    ApprovalRequired(String),
    /// The component was active before, and did worse than the one before it.
    #[error("{0}; fix the component, or run `hotshoe approve` to activate it anyway")]
    RolledBack(String),
    /// An administrator wants another revision to be active.
    #[error(
        "spec.revision wants {0} to be active; remove it, or name this component there, to have this one activated"
    )]
    RevisionPinned(String),
    /// A case that the component carries failed.
    #[error("it was tried and failed: {0}; fix it and build it again")]
    SelfTestFailed(String),
}

impl From<FileError> for LoadError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Unreadable { path, source } => Self::Unreadable { path, source },
            FileError::TooLarge { size, limit } => Self::TooLarge { size, limit },
        }
    }
}

/// Returns how to build without the imports that most tools add by themselves.
fn without_wasi(imports: &str) -> &'static str {
    if !imports.contains("wasi:") {
        return "";
    }
    "; build it without WASI: `hotshoe build` of its folder does so for Rust, JavaScript and Python; jco does with \
     `--backend qjs --backend-qjs-disable-async --backend-qjs-stub-wasi`, componentize-py with `--stub-wasi`, and \
     Rust for wasm32-unknown-unknown"
}

impl CallError {
    /// Builds the error of an answer that cannot be read, and why.
    pub fn invalid(why: impl Into<String>) -> Self {
        AnswerError::Invalid(why.into()).into()
    }

    /// Builds the error of an answer that is larger than the host accepts.
    pub fn too_large(what: impl Into<String>) -> Self {
        AnswerError::TooLarge(what.into()).into()
    }

    /// Returns one PascalCase word for Event, condition and metric.
    pub fn reason(&self) -> &'static str {
        match self {
            CallError::DeadlineExceeded(_) => "DeadlineExceeded",
            CallError::LimitExceeded(_) => "LimitExceeded",
            CallError::Trapped(_) => "Trapped",
            CallError::Answer(error) => error.reason(),
            CallError::Conversion(denied) => denied.reason(),
            CallError::Defaulting(denied) => denied.reason(),
            CallError::TooManyRounds(_) => "TooManyRounds",
            CallError::CircuitOpen(_) => "CircuitOpen",
            CallError::Stopped => "Stopped",
        }
    }
}

/// Why a component was not activated, as one word for log, status, history and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each names the variant of LoadError with its text")]
pub enum Reason {
    Unreadable,
    ComponentTooLarge,
    ComponentTooComplex,
    NotAComponent,
    ForbiddenImport,
    NoPlugin,
    ContractMismatch,
    CompileFailed,
    LoadFailed,
    DescribeFailed,
    NotGranted,
    SelfTestFailed,
    ApprovalRequired,
    RolledBack,
    RevisionPinned,
}

impl Reason {
    /// Returns whether `hotshoe approve` activates a component that was refused for this reason.
    pub fn can_be_approved(self) -> bool {
        matches!(self, Self::ApprovalRequired | Self::RolledBack)
    }

    /// Returns the reason as one PascalCase word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "Unreadable",
            Self::ComponentTooLarge => "ComponentTooLarge",
            Self::ComponentTooComplex => "ComponentTooComplex",
            Self::NotAComponent => "NotAComponent",
            Self::ForbiddenImport => "ForbiddenImport",
            Self::NoPlugin => "NoPlugin",
            Self::ContractMismatch => "ContractMismatch",
            Self::CompileFailed => "CompileFailed",
            Self::LoadFailed => "LoadFailed",
            Self::DescribeFailed => "DescribeFailed",
            Self::NotGranted => "NotGranted",
            Self::SelfTestFailed => "SelfTestFailed",
            Self::ApprovalRequired => "ApprovalRequired",
            Self::RolledBack => "RolledBack",
            Self::RevisionPinned => "RevisionPinned",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl LoadError {
    /// Returns one PascalCase word for log, status, history and metric.
    pub fn reason(&self) -> Reason {
        match self {
            LoadError::Unreadable { .. } => Reason::Unreadable,
            LoadError::TooLarge { .. } => Reason::ComponentTooLarge,
            LoadError::TooComplex(_) => Reason::ComponentTooComplex,
            LoadError::NotAComponent(_) => Reason::NotAComponent,
            LoadError::ForbiddenImport(_) => Reason::ForbiddenImport,
            LoadError::NoPlugin(_) => Reason::NoPlugin,
            LoadError::ContractMismatch { .. } => Reason::ContractMismatch,
            LoadError::CompileFailed(_) => Reason::CompileFailed,
            LoadError::LoadFailed(_) => Reason::LoadFailed,
            LoadError::DescribeFailed(_) => Reason::DescribeFailed,
            LoadError::NotGranted(_) | LoadError::OtherParents { .. } => Reason::NotGranted,
            LoadError::SelfTestFailed(_) => Reason::SelfTestFailed,
            LoadError::ApprovalRequired(_) => Reason::ApprovalRequired,
            LoadError::RolledBack(_) => Reason::RolledBack,
            LoadError::RevisionPinned(_) => Reason::RevisionPinned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_circuit_has_the_same_message_however_long_it_stays_open() {
        let message = |seconds| CallError::CircuitOpen(Duration::from_secs(seconds)).to_string();
        assert_eq!(message(1), message(1800));
    }
}
