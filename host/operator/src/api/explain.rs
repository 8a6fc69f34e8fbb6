//! The form of an explanation: why a parent is as it is, and what holds it back. It names objects, fields, rules and
//! reasons; no value of any object is in it.

use serde::{Deserialize, Serialize};

use hotshoe_core::model::digest::Digest;

/// What is known of a parent: the last decisions about it, and what happens next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The plugin.
    pub plugin: String,
    /// The parent: its kind, namespace and name.
    pub object: String,
    /// The revision that decides about it now.
    pub revision: Decider,
    /// Whether that revision is the canary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub canary: bool,
    /// The objects, and selections of objects, that the plugin needed for its last decision beside those that it
    /// declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// The last decisions that changed something or failed, the newest last.
    pub decisions: Vec<Decided>,
    /// What holds the parent back now or is due; empty if it is settled until something changes.
    pub now: Vec<Hold>,
}

/// A revision that decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decider {
    /// The digest of the component.
    pub digest: Digest,
    /// The version in its descriptor.
    pub version: String,
}

/// One decision about a parent, and what was done for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// When the pass ended, as Kubernetes writes times.
    pub at: String,
    /// By which revision.
    pub by: Decider,
    /// Why it was decided.
    pub because: Vec<Note<Cause>>,
    /// How many causes are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_causes: usize,
    /// How it ended.
    pub ended: Ended,
    /// The reason of a failure, or of a trouble that is no failure: the word in Event and condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What that is about: the broken rules, the refused objects with their reasons, or a field of the parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<String>,
    /// What was written.
    pub wrote: Vec<Note<Act>>,
    /// How many writes are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_writes: usize,
    /// How often the parent was looked at since and nothing was to be done, or the same failure came again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: usize,
    /// The last of these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated_at: Option<String>,
}

/// One cause of a decision, or one write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note<What> {
    /// What happened.
    pub what: What,
    /// To which object; none for the parent, or if it is about no object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// In which fields; of a finalizer or an Event, which one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

impl<What> Note<What> {
    /// Notes something that happened to the parent.
    pub fn new(what: What) -> Self {
        Self { what, object: None, fields: Vec::new() }
    }

    /// Adds the object.
    #[must_use]
    pub fn about(self, object: String) -> Self {
        Self { object: Some(object), ..self }
    }

    /// Adds the fields.
    #[must_use]
    pub fn fields(self, fields: Vec<String>) -> Self {
        Self { fields, ..self }
    }
}

/// Why a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// It is the first decision of this host about the parent.
    First,
    /// Another revision decides than before.
    Revision,
    /// `plugin.yaml` has changed.
    Settings,
    /// The plugin had asked for it at this time.
    Due,
    /// The one before had failed.
    Retry,
    /// An object has changed.
    Changed,
    /// An object is there that was not.
    Appeared,
    /// An object is no longer there.
    Gone,
    /// An object that the plugin needs, or a selection, has changed.
    Needed,
    /// One of many further objects has changed.
    Others,
    /// A write is refused, or no longer.
    Refusals,
    /// Nothing of what the plugin is shown has changed: parents are looked at again now and then.
    Again,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// A child was created.
    Created,
    /// A child was changed.
    Changed,
    /// A child was deleted.
    Deleted,
    /// The parent's status was written.
    Status,
    /// Labels or annotations of the parent were written.
    Metadata,
    /// A finalizer was added to the parent.
    FinalizerAdded,
    /// A finalizer was removed from the parent.
    FinalizerRemoved,
    /// An Event was recorded.
    Event,
    /// The clean-up began.
    CleanUpBegun,
    /// The clean-up ended.
    CleanUpEnded,
    /// An object that is no longer a parent was released.
    Released,
}

/// How a decision ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ended {
    /// Nothing was left to do.
    Settled,
    /// The writes changed what the plugin is shown, so it is asked again.
    Changed,
    /// Another writer changed the parent first.
    Overtaken,
    /// A write met a conflict, an overload or no answer, and is tried again.
    Stalled,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The clean-up is not done.
    CleaningUp,
    /// The parent is being deleted, and a finalizer of others may keep it.
    Orphaned,
    /// The parent is being deleted, and this plugin no longer keeps it.
    Released,
    /// It failed, and nothing of it was written.
    Failed,
}

/// Something that holds a parent back, or that is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// What it is.
    pub what: Held,
    /// It in words, with what to do.
    pub message: String,
    /// When it ends, as Kubernetes writes times; none if that depends on something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The seconds until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// What holds a parent back, or is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Held {
    /// The plugin is paused.
    Paused,
    /// Another host works for the parent.
    AnotherHost,
    /// The plugin is not called, because it failed too often.
    CircuitOpen,
    /// The parent is not tried again before something changes.
    Stalled,
    /// It failed, and is tried again later.
    BackOff,
    /// The plugin keeps changing what it desires.
    Flapping,
    /// Writes of children are refused.
    ChildrenRefused,
    /// Another writer keeps changing a child.
    Contended,
    /// The parent is being deleted, and its clean-up is not done.
    CleaningUp,
    /// The plugin has asked to be called again.
    Requeue,
    /// The parent is being reconciled.
    Running,
    /// The parent waits for its turn.
    Queued,
    /// It is looked at again.
    Due,
    /// A component of the plugin waits for an approval or is refused.
    NotActivated,
}

impl Held {
    /// Returns whether something is wrong, and not only due.
    pub fn is_trouble(self) -> bool {
        !matches!(self, Self::Requeue | Self::Running | Self::Queued | Self::Due)
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
