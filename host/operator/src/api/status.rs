//! The form of a plugin's status.

use serde::{Deserialize, Serialize};

use crate::config::plugin_resource::CanaryStatus;
use hotshoe_core::flow::circuit_breaker::BreakerStatus;
use hotshoe_core::flow::unanswered::UnansweredWritesStatus;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::sanitize;
use hotshoe_core::plugin::meant::Refused;
use hotshoe_sandbox::error::{LoadError, Reason};

/// The maximum length of the message of a refusal, in bytes. The message may contain names that the component chose.
const MAX_MESSAGE_BYTES: usize = 4_000;

/// The status of a plugin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The plugin's name.
    pub name: String,
    /// The file of its component.
    pub source: String,
    /// The status of its `plugin.yaml`.
    pub plugin_file: PluginFileStatus,
    /// Whether a revision is active and waits for nothing: all its watches work.
    pub ready: bool,
    /// What the plugin waits for, if it is not ready.
    pub waiting: Option<String>,
    /// The active revision.
    pub digest: Option<Digest>,
    /// The version in the active revision's descriptor.
    pub version: Option<String>,
    /// The seconds since the activation.
    pub seconds: Option<u64>,
    /// A newer revision that was not activated.
    pub refused: Option<RefusedComponent>,
    /// The revision that is being activated; another may be active meanwhile.
    pub in_progress: Option<InProgress>,
    /// The revision that decides for some of the parents, before it does for all.
    #[serde(default)]
    pub canary: Option<CanaryStatus>,
    /// Why earlier revisions are not kept for a rollback after a restart.
    pub history_failing: Option<String>,
    /// The number of parents.
    pub parents: usize,
    /// The number of parents whose last reconcile failed or was refused.
    #[serde(default)]
    pub trouble: Trouble,
    /// Parents that are not tried again before something changes.
    #[serde(default)]
    pub stalled: Option<Stalled>,
    /// Parents that have been deleting for longer than a minute.
    #[serde(default)]
    pub deleting: Option<Deleting>,
    /// The memory that the host holds for the plugin.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// The number of parents that wait for a reconcile.
    pub queued: usize,
    /// The number of parents that are being reconciled.
    pub running: usize,
    /// The other host that works for the plugin, if this one works for none of its parents.
    #[serde(default)]
    pub standing_by: Option<String>,
    /// Why its component cannot be fetched now.
    #[serde(default)]
    pub fetch_failing: Option<String>,
    /// Why its `Plugin` object, which is being deleted, is still there.
    #[serde(default)]
    pub removal: Option<String>,
    /// Why the host cannot write as the plugin's ServiceAccount.
    pub unable: Option<String>,
    /// The state of the circuit breaker.
    pub breaker: BreakerStatus,
    /// Writes that had no answer in time and count as failures of the plugin.
    #[serde(default)]
    pub unanswered: Option<UnansweredWritesStatus>,
    /// The plugin's watches.
    pub watches: Vec<WatchStatus>,
}

/// A component that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedComponent {
    /// The digest of the component; `None` if no bytes could be read.
    pub digest: Option<Digest>,
    /// The reason, one PascalCase word.
    pub reason: Reason,
    /// What is wrong, and what to do.
    pub message: String,
}

impl RefusedComponent {
    /// Records an error that kept a component from being activated.
    pub fn new(digest: Option<Digest>, error: &LoadError) -> Self {
        Self { digest, reason: error.reason(), message: sanitize::clean(error.to_string(), MAX_MESSAGE_BYTES) }
    }

    /// Returns whether `hotshoe approve` can activate the component anyway.
    pub fn can_be_approved(&self) -> bool {
        self.reason.can_be_approved()
    }
}

impl From<RefusedComponent> for Refused {
    fn from(refused: RefusedComponent) -> Self {
        let can_be_approved = refused.can_be_approved();
        Self { digest: refused.digest, can_be_approved, why: format!("{}: {}", refused.reason, refused.message) }
    }
}

/// The parents that are not retried before something changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stalled {
    /// How many there are.
    pub count: usize,
    /// The first of them, by name.
    pub parents: Vec<StalledParent>,
}

/// A parent that is not retried before something changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StalledParent {
    /// The namespace and name of the parent.
    pub object: String,
    /// How often it was tried.
    pub tries: u32,
    /// The reason of the last failure, one PascalCase word.
    pub reason: String,
}

/// The parents whose deletion takes long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleting {
    /// How many there are.
    pub count: usize,
    /// The one that has been waiting longest.
    pub oldest: String,
    /// How long the oldest has been waiting, in seconds.
    pub seconds: u64,
    /// What the oldest waits for.
    pub reason: String,
}

/// A revision that is being activated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InProgress {
    /// Its digest.
    pub digest: Digest,
    /// What it waits for.
    pub waits_for: String,
    /// Whether an administrator has to change something before it goes on.
    #[serde(default)]
    pub needs_change: bool,
}

/// The number of parents whose last reconcile failed or was refused.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// The number of parents where the plugin failed, or its decision could not be applied.
    pub failing: usize,
    /// The number of parents some of whose children the API server refuses.
    pub refused: usize,
}

/// The memory that the host holds for a plugin, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStatus {
    /// The bytes that the host holds for the plugin.
    pub held: usize,
    /// The bytes that the host may hold for the plugin, given what it holds for the others; absent without a limit.
    pub may_hold: Option<usize>,
}

impl MemoryStatus {
    /// Returns whether no more than a tenth is left, so that a decision of the plugin may be refused.
    pub fn is_nearly_full(&self) -> bool {
        self.may_hold.is_some_and(|may_hold| self.held >= may_hold / 10 * 9)
    }
}

/// The status of `plugin.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginFileStatus {
    /// The path of the file, or the name of the object.
    pub file: String,
    /// Why the present file is not applied; the last valid one stays in effect.
    pub refused: Option<String>,
    /// What the active revision asks for and is no longer granted.
    pub not_granted: Option<String>,
}

/// The status of a watch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchStatus {
    /// The kind.
    pub kind: String,
    /// The label selector.
    pub selector: String,
    /// The number of objects in its cache.
    pub objects: usize,
    /// Why the watch fails, if it does.
    pub failing: Option<String>,
    /// Whether it fails until an administrator changes something, and not only while the API server is away.
    #[serde(default)]
    pub needs_change: bool,
    /// Whether the API server answers, and only this kind cannot be listed.
    #[serde(default)]
    pub is_broken: bool,
    /// Whether its cache follows the API server, in all namespaces but those that are refused.
    pub synced: bool,
    /// The namespaces whose objects the host may not list, though it may list those of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_a_component_chose_is_sanitized_and_truncated() {
        let name = format!("a\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J\u{202e}{}", "x".repeat(100_000));
        let refused = RefusedComponent::new(None, &LoadError::SelfTestFailed(name));
        assert!(refused.message.contains("a 2026-01-01T00:00:00Z ERROR forged xxx"), "{}", refused.message);
        assert!(refused.message.len() <= MAX_MESSAGE_BYTES);
    }
}
