//! What a plugin sees and what it may answer: types of the domain, free of the Kubernetes client
//! and of wasmtime.
//!
//! *observe* builds an [`Observation`], *decide* turns it into an [`Answer`], *check* makes
//! [`Desired`](crate::check::Desired) objects of the decision. Bodies of objects stay JSON text.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::field_path;
use crate::model::kind::{Kind, ObjectRef};
use crate::model::projection::Projection;
use crate::model::wanted::Wanted;

/// An object as it crosses to and from a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Which object.
    pub reference: ObjectRef,
    /// A JSON object.
    pub json: Arc<str>,
}

/// The objects found for one declared read or requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// The key of the declaration.
    pub key: String,
    /// Sorted by namespace and name.
    pub objects: Vec<Document>,
}

/// A child whose last write the API server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which child.
    pub reference: ObjectRef,
    /// HTTP status code.
    pub code: u16,
    /// The API server's reason, or `Conflict` for an object that is not this parent's child.
    pub reason: String,
    /// The API server's message.
    pub message: String,
}

/// Everything that a decision may depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The object to be reconciled.
    pub parent: Document,
    /// Its children of the owned kinds, sorted.
    pub children: Vec<Document>,
    /// One entry for each declared read and each requirement.
    pub related: Vec<Related>,
    /// The children whose last write was refused. Each is kept until a write succeeds or the desired child changes.
    pub refusals: Vec<Refusal>,
    /// The plugin's configuration, a JSON object.
    pub config: Arc<str>,
    /// Milliseconds since the epoch, where the plugin asked for it.
    pub now: Option<u64>,
    /// Tries since the last success, where the plugin asked for it.
    pub attempt: Option<u32>,
}

/// Which function of the plugin is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Call {
    /// `reconcile`: the parent exists.
    Reconcile,
    /// `finalize`: the parent is being deleted.
    Finalize,
}

/// The answer of a plugin, of either function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `reconcile`: the desired state.
    Decided(Decision),
    /// `reconcile`: call again with these.
    Needs(Vec<Requirement>),
    /// `finalize`: not finished.
    Waiting(Decision),
    /// `finalize`: finished.
    Done(Decision),
}

/// An object, or objects with certain labels, that a decision needs beyond the declared ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The key under which the objects are returned.
    pub key: String,
    /// Which objects; in the parent's namespace if it names none.
    pub wanted: Wanted,
}

/// The desired state, as the plugin decided it. Nothing in it is trusted before `check`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The children.
    pub children: Children,
    /// Status without conditions, a JSON object; if absent, the status is not changed.
    pub status: Option<String>,
    /// All conditions that the plugin sets.
    pub conditions: Vec<Condition>,
    /// Events about the parent.
    pub events: Vec<Event>,
    /// Decide again after this long.
    pub requeue_after: Option<Duration>,
}

impl Decision {
    /// Returns a fingerprint of the desired children.
    pub fn desired_children(&self, hasher: &impl BuildHasher) -> u64 {
        let children: Option<Vec<_>> = match &self.children {
            Children::Exactly(children) => Some(children.iter().map(|child| (&child.reference, &child.json)).collect()),
            Children::Keep => None,
        };
        hasher.hash_one(children)
    }

    /// Returns a fingerprint of the status fields that the plugin sets and also reads. The other fields only report,
    /// and a change of them causes no reconcile.
    pub fn feedback(&self, read: Option<&Projection>, hasher: &impl BuildHasher) -> u64 {
        hasher.hash_one(read.and_then(|read| self.shown_status(read)))
    }

    /// Returns what a projection shows of an object that has only this status, and of one that has only these
    /// conditions.
    fn shown_status(&self, read: &Projection) -> Option<[String; 2]> {
        let status = self.status.as_deref().unwrap_or("{}");
        let conditions = serde_json::to_string(&self.conditions).ok()?;
        let status = read.project(&format!(r#"{{"status":{status}}}"#)).ok()?;
        Some([status, read.project(&format!(r#"{{"status":{{"conditions":{conditions}}}}}"#)).ok()?])
    }
}

impl Answer {
    /// Returns its decision, if it has one.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Answer::Decided(decision) | Answer::Waiting(decision) | Answer::Done(decision) => Some(decision),
            Answer::Needs(_) => None,
        }
    }
}

/// The desired children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Children {
    /// Exactly these.
    Exactly(Vec<Document>),
    /// Apply nothing and prune nothing.
    #[default]
    Keep,
}

/// The three values of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Truth {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

impl Truth {
    /// Returns the value as in `status.conditions`.
    pub fn as_str(self) -> &'static str {
        match self {
            Truth::True => "True",
            Truth::False => "False",
            Truth::Unknown => "Unknown",
        }
    }
}

/// A condition as a plugin sets it; the host adds times and generations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// For example `Available`.
    #[serde(rename = "type")]
    pub name: String,
    /// Its value.
    pub status: Truth,
    /// One PascalCase word.
    pub reason: String,
    /// A message for users.
    pub message: String,
}

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// As expected.
    Normal,
    /// Something to look at.
    Warning,
}

impl Severity {
    /// Returns the value as in an Event's `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

/// An Event about the parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Normal or Warning.
    pub severity: Severity,
    /// One PascalCase word.
    pub reason: String,
    /// A message for users.
    pub message: String,
}

/// The reason that a plugin gives for not deciding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Try again, after the given time or with back-off.
    Retry {
        /// The reason.
        message: String,
        /// The time until the next try.
        after: Option<Duration>,
    },
    /// No retry until parent, configuration, grant or plugin changes.
    Reject {
        /// The reason.
        message: String,
        /// The field of the parent that is at fault.
        field: Option<String>,
    },
    /// Anything else.
    Other(String),
}

/// What a plugin is and what it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The name that the component gives itself. It is only informative: the plugin runs under the administrator's
    /// name.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// The kind that it reconciles.
    pub parent: Kind,
    /// Fields of the parent that the plugin is shown beside `spec`.
    pub parent_fields: Vec<String>,
    /// Kinds of its children.
    pub owns: Vec<OwnedKind>,
    /// Kinds that it reads.
    pub reads: Vec<ReadKind>,
    /// The finalizer to hold, in the parent's group.
    pub finalizer: Option<String>,
    /// Whether the plugin asks for the input `now`.
    pub wants_now: bool,
    /// Whether the plugin asks for the input `attempt`.
    pub wants_attempt: bool,
    /// JSON schema of the configuration.
    pub config_schema: Option<String>,
}

impl Descriptor {
    /// Returns whether the plugin declares that it owns or reads objects of a kind.
    pub fn sees(&self, kind: &Kind) -> bool {
        self.owns.iter().any(|owned| owned.kind == *kind) || self.reads.iter().any(|read| read.kind == *kind)
    }

    /// Returns the status fields of a parent that the plugin is shown; none if it is shown no status.
    pub fn own_status(&self) -> Option<Projection> {
        let is_status = |path: &&String| field_path::keys(path).is_ok_and(|keys| keys.first() == Some(&"status"));
        let read: Vec<&String> = self.parent_fields.iter().filter(is_status).collect();
        (!read.is_empty()).then(|| Projection::new(&read))
    }

    /// Returns whether the plugin is shown which generation its status is about, so that it relies on it.
    pub fn reads_observed_generation(&self) -> bool {
        self.parent_fields.iter().any(|path| path == "status" || path == "status.observedGeneration")
    }
}

/// What a plugin wants to do with the children of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteVerb {
    /// Create children.
    Create,
    /// Change children.
    Update,
    /// Prune children.
    Delete,
}

/// A kind of children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnedKind {
    /// The kind.
    pub kind: Kind,
    /// What the plugin wants to do with them.
    pub verbs: Vec<WriteVerb>,
    /// The fields that the plugin is shown, as [paths](field_path).
    pub fields: Vec<String>,
}

impl OwnedKind {
    /// Returns whether the plugin asks to create such children but not to change them, as for Jobs. Existing children
    /// are then left as they are.
    pub fn is_created_once(&self) -> bool {
        self.verbs.contains(&WriteVerb::Create) && !self.verbs.contains(&WriteVerb::Update)
    }
}

/// How an object that is read but not owned is matched to a parent in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MatchRule {
    /// The label with this key has the parent's name as its value; an empty key matches every object in the namespace.
    ParentLabel(String),
    /// The field of the parent at this [path](field_path) has the object's name.
    ParentField(String),
}

/// A kind that is read but not owned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadKind {
    /// The key under which the objects are passed to the plugin.
    pub key: String,
    /// The kind.
    pub kind: Kind,
    /// A label selector for the objects; empty selects all.
    pub selector: String,
    /// How the objects are matched to a parent.
    #[serde(rename = "match")]
    pub rule: MatchRule,
    /// The fields that the plugin is shown, as [paths](field_path).
    pub fields: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    fn feedback_of(status: &str, message: &str, read: &[&str]) -> u64 {
        let condition =
            Condition { name: "A".into(), status: Truth::True, reason: "R".into(), message: message.to_owned() };
        let decision = Decision { status: Some(status.into()), conditions: vec![condition], ..Decision::default() };
        let read = (!read.is_empty()).then(|| Projection::new(read));
        decision.feedback(read.as_ref(), &BuildHasherDefault::<DefaultHasher>::default())
    }

    #[test]
    fn of_a_status_only_what_the_plugin_reads_itself_is_feedback() {
        let of = |read: &[&str]| {
            let first = feedback_of(r#"{"a":1,"b":1}"#, "x", read);
            [(r#"{"a":2,"b":1}"#, "x"), (r#"{"a":1,"b":2}"#, "x"), (r#"{"a":1,"b":1}"#, "y")]
                .map(|(status, message)| feedback_of(status, message, read) != first)
        };
        assert_eq!(of(&[]), [false; 3]);
        assert_eq!(of(&["status.a"]), [true, false, false]);
        assert_eq!(of(&["status.conditions"]), [false, false, true]);
        assert_eq!(of(&["status"]), [true; 3]);
    }
}
