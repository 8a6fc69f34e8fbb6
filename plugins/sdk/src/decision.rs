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
    /// Exactly these children: the host applies each of them and deletes every other child of
    /// this parent that it had made. None at all, over children that are there, is denied unless
    /// `plugin.yaml` says `spec.pruneAll: true`; a clean-up may always say it.
    pub fn exactly(children: impl IntoIterator<Item = Object>) -> Self {
        Self::with(Children::Exactly(children.into_iter().collect()))
    }

    /// Leave the children as they are.
    pub fn keep() -> Self {
        Self::with(Children::Keep)
    }

    fn with(children: Children) -> Self {
        Self { children, status: None, conditions: Vec::new(), events: Vec::new(), requeue_after: None }
    }

    /// The parent's status without its conditions.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where it cannot be written as JSON.
    pub fn status(mut self, status: &impl Serialize) -> Result<Self, Failure> {
        let json = serde_json::to_string(status)
            .map_err(|cause| Failure::other(format!("the status cannot be written as JSON: {cause}")))?;
        self.status = Some(json);
        Ok(self)
    }

    /// State these conditions too.
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

    /// Decide again after this long, even if nothing changes: a due requeue is always a call, and an Event that it
    /// emits again is counted again. A decision that something else asks for takes its place.
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
    /// `type` in Kubernetes' words, for example `Available`.
    pub name: String,
    /// Whether it holds.
    pub status: Status,
    /// One PascalCase word.
    pub reason: String,
    /// For a person.
    pub message: String,
}

impl Condition {
    /// A condition of this name.
    pub fn new(name: &str, status: Status, reason: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), status, reason: reason.to_owned(), message: message.into() }
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

/// A Kubernetes Event about the parent. The same reason and message raise a count instead of
/// making a second Event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// How loud.
    pub severity: Severity,
    /// One PascalCase word.
    pub reason: String,
    /// For a person.
    pub message: String,
}

impl Event {
    /// Something happened.
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Normal, reason, message)
    }

    /// Something happened that a person may have to act upon.
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, reason, message)
    }

    fn new(severity: Severity, reason: &str, message: impl Into<String>) -> Self {
        Self { severity, reason: reason.to_owned(), message: message.into() }
    }
}

/// How loud an event is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Severity {
    /// For the record.
    Normal,
    /// Needs attention.
    Warning,
}
