//! An answer in the form in which cases write it down: readable, comparable, and with children as
//! the full objects that people know.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use hotshoe_core::model::decision::{Answer, Children, Condition, Decision, Document, Event, Failure, Requirement};

/// What a call is expected to answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Expect {
    /// `reconcile`: this is what should be.
    Decided(Written),
    /// `finalize`: not finished.
    Waiting(Written),
    /// `finalize`: finished.
    Done(Written),
    /// `reconcile`: call again with these.
    Needs(Vec<Need>),
    /// Try again.
    #[serde(rename_all = "camelCase")]
    Retry {
        /// Why.
        message: String,
        /// When.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
    },
    /// No retry until something changes.
    Reject {
        /// Why.
        message: String,
        /// The field at fault.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    },
    /// Another failure.
    Other(String),
}

/// A decision, written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Written {
    /// The desired children.
    pub children: WrittenChildren,
    /// The status without conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The Events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Decide again after so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_after_ms: Option<u64>,
}

/// Children, written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WrittenChildren {
    /// These objects.
    Exactly(Vec<Value>),
    /// Nothing is applied or pruned.
    Keep,
}

/// A requirement, written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Need {
    /// The key under which it comes back.
    pub key: String,
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Absent for the parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Expect {
    /// The text that a case file has under `expect`.
    ///
    /// # Errors
    /// Never for what a plugin answered.
    pub fn to_yaml(&self) -> Result<String, String> {
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        serde_saphyr::to_string_with_options(self, options).map_err(|error| error.to_string())
    }

    /// The order of children and conditions means nothing, so it is the same in all that are
    /// compared.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        if let Expect::Decided(written) | Expect::Waiting(written) | Expect::Done(written) = &mut self {
            written.conditions.sort_by(|a, b| a.name.cmp(&b.name));
            if let WrittenChildren::Exactly(children) = &mut written.children {
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
            Err(Failure::Retry { message, after }) => {
                Expect::Retry { message: message.clone(), after_ms: after.map(millis) }
            }
            Err(Failure::Reject { message, field }) => {
                Expect::Reject { message: message.clone(), field: field.clone() }
            }
            Err(Failure::Other(message)) => Expect::Other(message.clone()),
        }
    }
}

impl From<&Decision> for Written {
    fn from(decision: &Decision) -> Self {
        Self {
            children: match &decision.children {
                Children::Exactly(children) => WrittenChildren::Exactly(children.iter().map(full_object).collect()),
                Children::Keep => WrittenChildren::Keep,
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
        let reference = &need.reference;
        Self {
            key: need.key.clone(),
            api_version: reference.kind.api_version(),
            kind: reference.kind.kind.to_string(),
            namespace: reference.namespace.as_deref().map(str::to_owned),
            name: reference.name.to_string(),
        }
    }
}

/// The object with what its reference says of it.
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

/// What objects are sorted by.
fn identity(object: &Value) -> [String; 4] {
    ["/kind", "/apiVersion", "/metadata/namespace", "/metadata/name"]
        .map(|pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// JSON that was measured before it came here; what cannot be read is shown as it is.
fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| json.into())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
