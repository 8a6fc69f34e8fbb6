//! What a plugin sees and what it may answer: the domain's own words, free of Kubernetes' client
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
    /// The API server's words.
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
    /// Kept until a write goes through or the desired child changes.
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
    /// The parent lives.
    Reconcile,
    /// The parent is being deleted.
    Finalize,
}

/// What a plugin answered, of either function.
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

/// An object that a decision needs beyond the declared ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The key under which it comes back.
    pub key: String,
    /// Which object; without a namespace the parent's is meant.
    pub reference: ObjectRef,
}

/// The desired state, as the plugin decided it. Nothing of it is trusted before `check`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The children.
    pub children: Children,
    /// Status without conditions, a JSON object; absent leaves it alone.
    pub status: Option<String>,
    /// All conditions that the plugin states.
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

    /// A number for what the plugin reads itself of the status that it states. The rest only says what comes and
    /// goes, and wakes no reconcile.
    pub fn feedback(&self, read: Option<&Projection>, hasher: &impl BuildHasher) -> u64 {
        hasher.hash_one(read.and_then(|read| self.shown_status(read)))
    }

    /// What a projection shows of a parent that has this status and nothing else, and of one that has these conditions.
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

/// A condition as a plugin states it; the host adds times and generations.
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
    /// For people.
    pub message: String,
}

/// How loud an Event is.
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
    /// For people.
    pub message: String,
}

/// The plugin says why there is no decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Try again, after the given time or with back-off.
    Retry {
        /// Why.
        message: String,
        /// When.
        after: Option<Duration>,
    },
    /// No retry until parent, configuration, grant or plugin changes.
    Reject {
        /// Why.
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
    /// The plugin's own name; informative, the administrator's name counts.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// The kind that it reconciles.
    pub parent: Kind,
    /// Fields of the parent to be shown beside `spec`.
    pub parent_fields: Vec<String>,
    /// Kinds of its children.
    pub owns: Vec<OwnedKind>,
    /// Kinds that it reads.
    pub reads: Vec<ReadKind>,
    /// The finalizer to hold, in the parent's group.
    pub finalizer: Option<String>,
    /// Whether `now` is wanted.
    pub wants_now: bool,
    /// Whether `attempt` is wanted.
    pub wants_attempt: bool,
    /// JSON schema of the configuration.
    pub config_schema: Option<String>,
}

impl Descriptor {
    /// Whether it declares that it owns or reads objects of a kind.
    pub fn sees(&self, kind: &Kind) -> bool {
        self.owns.iter().any(|owned| owned.kind == *kind) || self.reads.iter().any(|read| read.kind == *kind)
    }

    /// What the plugin is shown of what it says itself of a parent.
    pub fn own_status(&self) -> Option<Projection> {
        let is_status = |path: &&String| field_path::keys(path).is_ok_and(|keys| keys.first() == Some(&"status"));
        let read: Vec<&String> = self.parent_fields.iter().filter(is_status).collect();
        (!read.is_empty()).then(|| Projection::new(&read))
    }
}

/// What a plugin wants to do with the children of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteVerb {
    /// Make new ones.
    Create,
    /// Change them.
    Update,
    /// Prune them.
    Delete,
}

/// A kind of children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnedKind {
    /// The kind.
    pub kind: Kind,
    /// What the plugin wants to do with them.
    pub verbs: Vec<WriteVerb>,
    /// The fields to be shown, as [paths](field_path).
    pub fields: Vec<String>,
}

impl OwnedKind {
    /// Returns whether the plugin asks to create such children and not to change them, as one does whose children are
    /// Jobs: what is there is left as it is.
    pub fn is_created_once(&self) -> bool {
        self.verbs.contains(&WriteVerb::Create) && !self.verbs.contains(&WriteVerb::Update)
    }
}

/// How an object that is read but not owned belongs to a parent of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MatchRule {
    /// The label of this key carries the parent's name; an empty key stands for every object in its namespace.
    ParentLabel(String),
    /// The field of the parent at this [path](field_path) names it.
    ParentField(String),
}

/// A kind that is read but not owned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadKind {
    /// The key under which its objects come.
    pub key: String,
    /// The kind.
    pub kind: Kind,
    /// A label selector that all of them fulfil; empty selects all.
    pub selector: String,
    /// How they belong to a parent.
    #[serde(rename = "match")]
    pub rule: MatchRule,
    /// The fields to be shown, as [paths](field_path).
    pub fields: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    fn word(status: &str, message: &str, read: &[&str]) -> u64 {
        let condition =
            Condition { name: "A".into(), status: Truth::True, reason: "R".into(), message: message.to_owned() };
        let decision = Decision { status: Some(status.into()), conditions: vec![condition], ..Decision::default() };
        let read = (!read.is_empty()).then(|| Projection::new(read));
        decision.feedback(read.as_ref(), &BuildHasherDefault::<DefaultHasher>::default())
    }

    #[test]
    fn of_a_status_only_what_the_plugin_reads_itself_is_feedback() {
        let of = |read: &[&str]| {
            let first = word(r#"{"a":1,"b":1}"#, "x", read);
            [(r#"{"a":2,"b":1}"#, "x"), (r#"{"a":1,"b":2}"#, "x"), (r#"{"a":1,"b":1}"#, "y")]
                .map(|(status, message)| word(status, message, read) != first)
        };
        assert_eq!(of(&[]), [false; 3]);
        assert_eq!(of(&["status.a"]), [true, false, false]);
        assert_eq!(of(&["status.conditions"]), [false, false, true]);
        assert_eq!(of(&["status"]), [true; 3]);
    }
}
