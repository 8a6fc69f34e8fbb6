//! The form of the status and the history of a plugin, as the commands `status` and `history` answer and print them.

use serde::{Deserialize, Serialize};

use crate::config::plugin_resource::CanaryStatus;
use crate::reconcile::slot::RefusedComponent;
use crate::reconcile::survey::{Deleting, Stalled};
use crate::rollout::history::Entry;
use hotshoe_core::flow::circuit_breaker::BreakerStatus;
use hotshoe_core::flow::unanswered::UnansweredWritesStatus;
use hotshoe_core::model::digest::Digest;

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
    /// Whether its cache follows the API server.
    pub synced: bool,
}

/// The history of a plugin, as it is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginHistory {
    /// The active revision.
    pub current: Option<Digest>,
    /// The revisions that a rollback can activate, the last active one first.
    pub kept: Vec<Digest>,
    /// The entries, the newest last.
    pub entries: Vec<Entry>,
}
