//! What a plugin answers: children, status, conditions and events.

use std::time::Duration;

use serde::Serialize;

use crate::{Failure, Object};

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
        Self { children, status: None, conditions: Vec::new(), events: Vec::new(), requeue_after: None }
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
