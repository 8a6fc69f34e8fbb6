//! How a plugin is, for people and scripts: what `status` and `history` answer and print.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reconcile::controller::{Deleting, Stalled};
use crate::reconcile::slot::Refused;
use crate::rollout::history::Entry;
use hotshoe_core::flow::circuit_breaker::BreakerStatus;
use hotshoe_core::flow::unanswered::HeldStatus;
use hotshoe_core::model::digest::Digest;

/// The status of a plugin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Its name.
    pub name: String,
    /// The file of its component.
    pub source: String,
    /// Its `plugin.yaml`.
    pub plugin_file: PluginFileStatus,
    /// Whether a revision is active and sees what it asks for.
    pub ready: bool,
    /// What it waits for, if it is not ready.
    pub waiting: Option<String>,
    /// The active revision.
    pub digest: Option<Digest>,
    /// The version in its descriptor.
    pub version: Option<String>,
    /// The seconds since its activation.
    pub seconds: Option<u64>,
    /// A newer revision that was not activated.
    pub refused: Option<Refused>,
    /// The revision that is on its way to be active; another may be active meanwhile.
    pub in_progress: Option<InProgress>,
    /// The revision that decides for some of the parents, before it does for all.
    #[serde(default)]
    pub canary: Option<CanaryStatus>,
    /// Why earlier revisions are not kept for a rollback after a restart.
    pub history_failing: Option<String>,
    /// How many parents there are.
    pub parents: usize,
    /// How many of them are in trouble.
    #[serde(default)]
    pub trouble: Trouble,
    /// Parents that are not tried again before something changes.
    #[serde(default)]
    pub stalled: Option<Stalled>,
    /// Parents that have been deleting for longer than a minute.
    #[serde(default)]
    pub deleting: Option<Deleting>,
    /// What the host holds in memory for it.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// How many wait for a reconcile.
    pub queued: usize,
    /// How many are being reconciled.
    pub running: usize,
    /// Which other host works for it, where this one works for none of its parents.
    #[serde(default)]
    pub standing_by: Option<String>,
    /// Why the host cannot write as the plugin's ServiceAccount.
    pub unable: Option<String>,
    /// The circuit breaker.
    pub breaker: BreakerStatus,
    /// Writes without an answer in time that are held against it.
    #[serde(default)]
    pub unanswered: Option<HeldStatus>,
    /// Its watches.
    pub watches: Vec<WatchStatus>,
}

/// A revision that is on its way to be active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InProgress {
    /// Its digest.
    pub digest: Digest,
    /// What it waits for.
    pub waits_for: String,
}

/// A revision that decides for some of the parents, beside the active one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// Its digest.
    pub digest: Digest,
    /// The version in its descriptor.
    pub version: String,
    /// For which parents it decides, in words.
    pub share: String,
    /// How many they are.
    pub parents: usize,
    /// Since when, as Kubernetes writes times.
    pub since: String,
    /// Until when at least.
    pub until: String,
    /// What it waits for where that time is over.
    pub waits_for: Option<String>,
}

impl fmt::Display for CanaryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { digest, version, share, parents, since, until, waits_for } = self;
        write!(f, "revision {digest} ({version}) is the canary for {share}: {parents} parents since {since}, ")?;
        match waits_for {
            None => write!(f, "until {until}"),
            Some(why) => write!(f, "{why}"),
        }
    }
}

/// How many parents are in trouble, by their last reconcile.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// The plugin failed, or its decision could not be applied.
    pub failing: usize,
    /// The API server refuses some of their children.
    pub refused: usize,
}

/// What the host holds in memory for a plugin, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStatus {
    /// What it holds.
    pub held: usize,
    /// What it may hold, beside what it holds for other plugins; absent where there is no limit.
    pub may_hold: Option<usize>,
}

impl MemoryStatus {
    /// Whether so little is left that some decision of the plugin may be refused: a tenth.
    pub fn is_nearly_full(&self) -> bool {
        self.may_hold.is_some_and(|may_hold| self.held >= may_hold / 10 * 9)
    }
}

/// The status of `plugin.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginFileStatus {
    /// Where it is.
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
    /// How many objects its store has.
    pub objects: usize,
    /// What is wrong with it.
    pub failing: Option<String>,
    /// Whether its store follows the API server.
    pub synced: bool,
}

/// What was active, and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginHistory {
    /// The active revision.
    pub current: Option<Digest>,
    /// Those to which a rollback can go, the last active one first.
    pub kept: Vec<Digest>,
    /// What happened, the newest last.
    pub entries: Vec<Entry>,
}
