//! The status and the history of a plugin, as the commands `status` and `history` answer and print them.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::cluster::shared_watch::{Health, SharedWatch, Viewer};
use crate::reconcile::controller::Share;
use crate::reconcile::slot::Refused;
use crate::reconcile::survey::{Deleting, Stalled};
use crate::rollout::history::Entry;
use crate::rollout::managed_plugin::{ManagedPlugin, PluginFile};
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
    /// Whether a revision is active and all its watches work.
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
    pub refused: Option<Refused>,
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

/// A revision that decides for some of the parents, beside the active one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// Its digest.
    pub digest: Digest,
    /// The version in its descriptor.
    pub version: String,
    /// A description of the parents that it decides for.
    pub share: String,
    /// The number of these parents.
    pub parents: usize,
    /// Since when it has been the canary, as Kubernetes writes times.
    pub since: String,
    /// Until when it is the canary at least.
    pub until: String,
    /// What it waits for, if that time is over.
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

impl ManagedPlugin {
    /// Returns whether no revision is active yet, though no refusal, failed fetch or failing watch is known.
    pub fn is_starting(&self) -> bool {
        let is_stopped = self.controller.slot.refused().is_some() || self.fetched.lock().failing.is_some();
        self.controller.active().is_none() && !is_stopped && self.failing_watches().is_none()
    }

    /// Returns whether a revision is active and all its watches work.
    pub fn is_ready(&self) -> bool {
        let is_restored = self.state.lock().is_restored;
        self.controller.active().is_some() && !is_restored && self.failing_watches().is_none()
    }

    fn failing_watches(&self) -> Option<String> {
        let failing: Vec<String> = self.watches().into_iter().filter_map(|watch| watch.failing).collect();
        (!failing.is_empty()).then(|| failing.join("; "))
    }

    /// Returns whether the plugin keeps its host from being ready. A plugin of a file does if it has no active revision, or
    /// not all of its watches are synced, unless only its own kinds are broken in the cluster: the host serves the
    /// others. A plugin of an object does only while it starts: one that cannot start must not block the rollout of the
    /// host's Deployment for ever, and its object says why.
    pub fn keeps_host_unready(&self) -> bool {
        if self.plugin().origin.file().is_none() {
            return self.is_starting();
        }
        let status = self.status();
        let mut failing = status.watches.iter().filter(|watch| watch.failing.is_some()).peekable();
        let is_broken = status.refused.is_none() && failing.peek().is_some() && failing.all(|watch| watch.is_broken);
        !status.ready && !is_broken
    }

    /// Returns the status of the plugin.
    pub fn status(&self) -> PluginStatus {
        let active = self.controller.active();
        let refused = self.controller.slot.refused();
        let in_progress = self.in_progress();
        let (since, is_restored) = {
            let state = self.state.lock();
            (state.since, state.is_restored)
        };
        let (queued, running) = self.controller.queue.depth();
        let memory = self.memory();
        let survey = self.controller.survey();
        let failing = self.failing_watches();
        PluginStatus {
            name: self.controller.name.to_string(),
            source: self.plugin().component_path().display().to_string(),
            plugin_file: self.plugin_file_status(),
            ready: self.is_ready(),
            waiting: self.standby.lock().clone().or(failing).or_else(|| match (&active, &refused, &in_progress) {
                (Some(_), ..) if is_restored => {
                    let waits_for =
                        in_progress.as_ref().map_or("the component is being read", |shown| &shown.waits_for);
                    Some(format!(
                        "the revision that was active when the host ended stays active until then: {waits_for}"
                    ))
                }
                (Some(_), ..) => None,
                (None, Some(refused), _) => Some(refused.message.clone()),
                (None, None, Some(shown)) => Some(shown.waits_for.clone()),
                (None, None, None) => self.unaccepted().map(|unaccepted| unaccepted.to_string()),
            }),
            digest: active.as_ref().map(|active| active.revision.digest()),
            version: active.as_ref().map(|active| active.revision.descriptor().version.clone()),
            seconds: since.map(|since| since.elapsed().as_secs()),
            refused,
            in_progress,
            canary: self.canary_status(),
            history_failing: self.history().failing().map(str::to_owned),
            parents: active.map_or(0, |active| active.parents.watch.cache.len()),
            trouble: Trouble { failing: survey.failing, refused: survey.refused },
            stalled: survey.stalled.clone(),
            deleting: survey.deleting.clone(),
            memory: MemoryStatus { held: memory.held(), may_hold: memory.may_hold() },
            queued,
            running,
            standing_by: self.standing_by(),
            fetch_failing: self.fetch_failing(),
            removal: self.removal.lock().clone(),
            unable: self.controller.writer.impersonation_error(),
            breaker: self.controller.breaker.shown(Instant::now()),
            unanswered: self.controller.unanswered.lock().shown(Instant::now()),
            watches: self.watches(),
        }
    }

    /// Returns the other host that works for the plugin, if this one works for none of its parents.
    fn standing_by(&self) -> Option<String> {
        let Share { shards, one } = &self.controller.share;
        let mut shards = one.map_or(0..shards.count(), |one| one..one + 1);
        let first = self.shared.leases.standing_by(shards.start)?;
        shards.all(|shard| self.shared.leases.standing_by(shard).is_some()).then_some(first)
    }

    fn watches(&self) -> Vec<WatchStatus> {
        // While no revision is active, the plugin waits for the watches of its first candidate.
        let viewer = match self.controller.active() {
            Some(_) => Viewer::active(&self.controller.name),
            None => Viewer::candidate(&self.controller.name),
        };
        let mut watches: Vec<_> = self.shared.watches.all().into_iter().filter(|w| w.is_open_for(&viewer)).collect();
        watches.sort_by(|a, b| a.scope.kind.cmp(&b.scope.kind));
        let status = |watch: &Arc<SharedWatch>| {
            let health = watch.health();
            WatchStatus {
                kind: watch.scope.kind.to_string(),
                selector: watch.scope.selector.clone(),
                objects: watch.cache.len(),
                synced: health == Health::Synced,
                needs_change: matches!(health, Health::Failing(_) | Health::Broken(_)),
                is_broken: matches!(health, Health::Broken(_)),
                failing: match health {
                    Health::Failing(why) | Health::Broken(why) | Health::Silent(why) => Some(why),
                    _ => None,
                },
            }
        };
        watches.iter().map(status).collect()
    }

    /// Returns the status of `plugin.yaml`.
    fn plugin_file_status(&self) -> PluginFileStatus {
        let PluginFile { config: plugin, refused } = &*self.plugin_file.lock();
        PluginFileStatus { file: plugin.origin.to_string(), refused: refused.clone(), not_granted: self.lacking() }
    }
}
