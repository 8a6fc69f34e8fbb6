//! The form of an answer in cases: readable, comparable, and with children as full objects.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::yaml;
use hotshoe_core::model::admission::Verdict;
use hotshoe_core::model::decision::{Answer, Children, Condition, Decision, Document, Event, Failure, Requirement};
use hotshoe_core::model::wanted::Wanted;

/// The answer that a call should return.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Expect {
    /// `reconcile`: the desired state.
    Decided(ExpectedDecision),
    /// `finalize`: not finished.
    Waiting(ExpectedDecision),
    /// `finalize`: finished.
    Done(ExpectedDecision),
    /// `reconcile`: call again with these objects.
    Needs(Vec<Need>),
    /// `validate`: what is wrong, and what to warn of.
    Verdict(Verdict),
    /// `default`: the whole object with its defaults.
    Defaulted(Value),
    /// No function is called: the API server refuses the object, by its CRD.
    Refused(Vec<RefusedField>),
    /// Try again.
    #[serde(rename_all = "camelCase")]
    Retry {
        /// The reason.
        message: String,
        /// After so many milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
    },
    /// Do not try again until something changes.
    Reject {
        /// The reason.
        message: String,
        /// The field at fault.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    },
    /// Another failure.
    Other(String),
}

/// A decision in a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedDecision {
    /// The desired children.
    pub children: ExpectedChildren,
    /// The status without conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The Events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Call again after so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_after_ms: Option<u64>,
}

/// Children in a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExpectedChildren {
    /// These objects.
    Exactly(Vec<Value>),
    /// Nothing is applied or pruned.
    Keep,
}

/// A reason for which the API server refuses an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefusedField {
    /// The path of the field; empty for the whole object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for RefusedField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => formatter.write_str(&self.message),
            field => write!(formatter, "{field}: {}", self.message),
        }
    }
}

/// A requirement in a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "AnyNeed")]
pub struct Need {
    /// The key under which the plugin gets the objects, in `related`.
    pub key: String,
    /// Their group and version.
    pub api_version: String,
    /// Their kind.
    pub kind: String,
    /// Their namespace; absent for the parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of one object; absent where a selector selects several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The label selector, as kubectl writes it; absent where there is a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

/// A requirement as it is written, perhaps with both a name and a selector, or with neither.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AnyNeed {
    key: String,
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: Option<String>,
    selector: Option<String>,
}

impl TryFrom<AnyNeed> for Need {
    type Error = String;

    fn try_from(need: AnyNeed) -> Result<Self, Self::Error> {
        let AnyNeed { key, api_version, kind, namespace, name, selector } = need;
        if name.is_some() == selector.is_some() {
            return Err(format!("the need {key:?} has a name and a selector, or neither; give it one of them"));
        }
        Ok(Self { key, api_version, kind, namespace, name, selector })
    }
}

impl Expect {
    /// Formats the answer as in a case file, under `expect`.
    ///
    /// # Errors
    /// Never for an answer of a plugin.
    pub fn to_yaml(&self) -> Result<String, String> {
        yaml::format(self)
    }

    /// Returns whether the plugin failed instead of deciding, or was not asked, because the API server refuses the object.
    pub fn is_failure(&self) -> bool {
        matches!(self, Expect::Refused(_) | Expect::Retry { .. } | Expect::Reject { .. } | Expect::Other(_))
    }

    /// Sorts children, conditions and refused fields, whose order means nothing, so that answers can be compared.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        if let Expect::Refused(fields) = &mut self {
            fields.sort();
        }
        if let Expect::Decided(decision) | Expect::Waiting(decision) | Expect::Done(decision) = &mut self {
            decision.conditions.sort_by(|a, b| a.name.cmp(&b.name));
            if let ExpectedChildren::Exactly(children) = &mut decision.children {
                children.sort_by_key(identity);
            }
        }
        self
    }
}

impl From<&Result<Answer, Failure>> for Expect {
    fn from(result: &Result<Answer, Failure>) -> Self {
        match result {
            Ok(Answer::Decided(decision)) => Expect::Decided(decision.into()),
            Ok(Answer::Waiting(decision)) => Expect::Waiting(decision.into()),
            Ok(Answer::Done(decision)) => Expect::Done(decision.into()),
            Ok(Answer::Needs(needs)) => Expect::Needs(needs.iter().map(Need::from).collect()),
            Err(failure) => failure.into(),
        }
    }
}

impl From<&Failure> for Expect {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Retry { message, after } => {
                Expect::Retry { message: message.clone(), after_ms: after.map(millis) }
            }
            Failure::Reject { message, field } => Expect::Reject { message: message.clone(), field: field.clone() },
            Failure::Other(message) => Expect::Other(message.clone()),
        }
    }
}

impl From<&Decision> for ExpectedDecision {
    fn from(decision: &Decision) -> Self {
        Self {
            children: match &decision.children {
                Children::Exactly(children) => ExpectedChildren::Exactly(children.iter().map(full_object).collect()),
                Children::Keep => ExpectedChildren::Keep,
            },
            status: decision.status.as_deref().map(value),
            conditions: decision.conditions.clone(),
            events: decision.events.clone(),
            requeue_after_ms: decision.requeue_after.map(millis),
        }
    }
}

impl From<&Requirement> for Need {
    fn from(need: &Requirement) -> Self {
        let (name, selector) = match &need.wanted {
            Wanted::Object(object) => (Some(object.name.to_string()), None),
            Wanted::Selection(selection) => (None, Some(selection.selector.to_string())),
        };
        Self {
            key: need.key.clone(),
            api_version: need.wanted.kind().api_version(),
            kind: need.wanted.kind().kind.to_string(),
            namespace: need.wanted.namespace().as_deref().map(str::to_owned),
            name,
            selector,
        }
    }
}

/// Returns the object with the fields of its reference.
fn full_object(document: &Document) -> Value {
    let reference = &document.reference;
    let mut object = match value(&document.json) {
        Value::Object(object) => object,
        other => Map::from_iter([("json".to_owned(), other)]),
    };
    object.insert("apiVersion".into(), reference.kind.api_version().into());
    object.insert("kind".into(), (*reference.kind.kind).into());
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        metadata.insert("name".into(), (*reference.name).into());
        if let Some(namespace) = &reference.namespace {
            metadata.insert("namespace".into(), (**namespace).into());
        }
    }
    Value::Object(object)
}

/// Returns the sort key of an object.
fn identity(object: &Value) -> [String; 4] {
    ["/kind", "/apiVersion", "/metadata/namespace", "/metadata/name"]
        .map(|pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// Parses JSON whose size was checked before. Returns text that cannot be parsed as a string.
fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| json.into())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
