//! What a plugin answers: children, status, conditions and events.

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Failure, Object, ObjectRef};

/// The desired state. Status and conditions show what was observed, never what is desired.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What should become of the children.
    pub children: Children,
    /// The parent's status without its conditions, a JSON object; absent leaves it alone.
    pub status: Option<String>,
    /// All conditions that the plugin states; one that it no longer states is removed.
    pub conditions: Vec<Condition>,
    /// Kubernetes Events about the parent.
    pub events: Vec<Event>,
    /// Decide again after this long, even if nothing changes.
    pub requeue_after: Option<Duration>,
    /// All labels that the plugin states of the parent; one that it no longer states is removed.
    pub parent_labels: BTreeMap<String, String>,
    /// All annotations that the plugin states of the parent; one that it no longer states is removed.
    pub parent_annotations: BTreeMap<String, String>,
}

impl Decision {
    /// Desires exactly these children: the host applies each of them and deletes every other child
    /// that it made for this parent. An empty list, where children exist, is denied unless
    /// `plugin.yaml` says `spec.pruneAll: true`; a clean-up may always answer with one.
    pub fn exactly(children: impl IntoIterator<Item = Object>) -> Self {
        Self::with(Children::Exactly(children.into_iter().collect()))
    }

    /// Leaves the children as they are.
    pub fn keep() -> Self {
        Self::with(Children::Keep)
    }

    fn with(children: Children) -> Self {
        Self {
            children,
            status: None,
            conditions: Vec::new(),
            events: Vec::new(),
            requeue_after: None,
            parent_labels: BTreeMap::new(),
            parent_annotations: BTreeMap::new(),
        }
    }

    /// Sets the parent's status without its conditions.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where the status cannot be written as JSON.
    pub fn status(mut self, status: &impl Serialize) -> Result<Self, Failure> {
        let json = serde_json::to_string(status)
            .map_err(|cause| Failure::other(format!("the status cannot be written as JSON: {cause}")))?;
        self.status = Some(json);
        Ok(self)
    }

    /// Adds conditions.
    #[must_use]
    pub fn conditions(mut self, conditions: impl IntoIterator<Item = Condition>) -> Self {
        self.conditions.extend(conditions);
        self
    }

    /// Adds Events.
    #[must_use]
    pub fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.events.extend(events);
        self
    }

    /// Adds labels of the parent. `plugin.yaml` has to list their keys in `spec.parentMetadata.labels`. One that the plugin
    /// no longer states is removed; one that another has set to another value stays, and is among the refusals.
    ///
    /// ```
    /// # use hotshoe_sdk::Decision;
    /// let decision = Decision::exactly([]).parent_labels([("shop.example.com/tier", "gold")]);
    /// assert_eq!(decision.parent_labels["shop.example.com/tier"], "gold");
    /// ```
    #[must_use]
    pub fn parent_labels<K: Into<String>, V: Into<String>>(mut self, labels: impl IntoIterator<Item = (K, V)>) -> Self {
        self.parent_labels.extend(labels.into_iter().map(|(key, value)| (key.into(), value.into())));
        self
    }

    /// Adds annotations of the parent, as [`parent_labels`](Self::parent_labels) labels: `plugin.yaml` has to list their
    /// keys in `spec.parentMetadata.annotations`.
    #[must_use]
    pub fn parent_annotations<K: Into<String>, V: Into<String>>(
        mut self,
        annotations: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.parent_annotations.extend(annotations.into_iter().map(|(key, value)| (key.into(), value.into())));
        self
    }

    /// Returns the decision in the form of the contract, where what is stated of the parent is one of the desired objects.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where something is stated of the parent, and the children are kept: then nothing is applied.
    pub(crate) fn stated_of(mut self, parent: &ObjectRef) -> Result<Self, Failure> {
        let (labels, annotations) = (mem::take(&mut self.parent_labels), mem::take(&mut self.parent_annotations));
        if labels.is_empty() && annotations.is_empty() {
            return Ok(self);
        }
        let Children::Exactly(children) = &mut self.children else {
            return Err(Failure::other(
                "a decision that keeps the children cannot label or annotate the parent; answer with Decision::exactly",
            ));
        };
        let mut metadata = Map::new();
        for (member, texts) in [("labels", labels), ("annotations", annotations)] {
            if !texts.is_empty() {
                let texts: Map<String, Value> = texts.into_iter().map(|(key, text)| (key, text.into())).collect();
                metadata.insert(member.to_owned(), texts.into());
            }
        }
        let json = Value::Object(Map::from_iter([("metadata".to_owned(), metadata.into())])).to_string();
        children.push(Object { reference: parent.clone(), json });
        Ok(self)
    }

    /// Requests another decision after this long, even if nothing changes. The host always calls the plugin for a due
    /// requeue, and an Event that this call emits again is counted again. A decision that is made earlier for another
    /// reason replaces the requeue.
    #[must_use]
    pub fn requeue_after(mut self, after: Duration) -> Self {
        self.requeue_after = Some(after);
        self
    }
}

/// What should become of the children.
#[derive(Clone, Debug, PartialEq)]
pub enum Children {
    /// Exactly these, and no other.
    Exactly(Vec<Object>),
    /// Apply nothing and delete nothing.
    Keep,
}

/// A status condition. The host owns its times and generations.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Condition {
    /// The `type` of the condition in Kubernetes, for example `Available`.
    pub name: String,
    /// Whether it holds.
    pub status: Status,
    /// One PascalCase word.
    pub reason: String,
    /// Details for a human reader.
    pub message: String,
}

impl Condition {
    /// Builds a condition of this type.
    pub fn new(name: &str, status: Status, reason: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), status, reason: reason.to_owned(), message: message.into() }
    }

    /// Builds a condition of another type that says the same: most often `Ready`, which tools that wait for objects
    /// read, as they do `Reconciling` and `Stalled` where these are true.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Not known yet.
    Unknown,
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// A Kubernetes Event about the parent. An Event with the same reason and message as an earlier one
/// raises its count instead of making a second Event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// The `type` of the Event in Kubernetes.
    pub severity: Severity,
    /// One PascalCase word.
    pub reason: String,
    /// Details for a human reader.
    pub message: String,
}

impl Event {
    /// Builds an Event that needs no attention.
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Normal, reason, message)
    }

    /// Builds an Event that a person may have to act upon.
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, reason, message)
    }

    fn new(severity: Severity, reason: &str, message: impl Into<String>) -> Self {
        Self { severity, reason: reason.to_owned(), message: message.into() }
    }
}

/// The severity of an Event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Severity {
    /// For the record.
    Normal,
    /// Needs attention.
    Warning,
}
