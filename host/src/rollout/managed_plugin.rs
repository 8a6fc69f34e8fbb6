//! A plugin whose rollout the host manages: its active revision, its history, its `plugin.yaml` and its status.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::client::Cluster;
use crate::cluster::events::Recorder;
use crate::cluster::lease::Leases;
use crate::cluster::shared_watch::{Health, SharedWatch, Viewer};
use crate::cluster::watch::Watches;
use crate::config::{HostSettings, PluginConfig};
use crate::reconcile::controller::{Controller, Share};
use crate::reconcile::slot::Refused;
use crate::reconcile::views;
use crate::registry::Puller;
use crate::rollout::history::{Entry, History, Room, SharedHistory};
use crate::rollout::host_lock::{self, HostLock, LockError};
use crate::rollout::status::{InProgress, MemoryStatus, PluginFileStatus, PluginStatus, Trouble, WatchStatus};
use crate::sandbox::candidate::Candidate;
use crate::sandbox::compile::Compiler;
use crate::sandbox::engine::Engine;
use crate::sandbox::error::LoadError;
use crate::sandbox::revision::Revision;
use crate::telemetry::metrics::Metrics;
use hotshoe_core::check::grant;
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::digest::Digest;

/// How long an admin command waits for its outcome.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a host that stands by checks whether the other one has ended.
const STANDBY_INTERVAL: Duration = Duration::from_secs(1);
/// How long running reconciles may take when the plugin is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// A step of an activation that takes longer is logged.
const SLOW_STEP: Duration = Duration::from_secs(2);

/// What all plugins share.
pub struct Shared {
    /// The connection to the API server.
    pub cluster: Cluster,
    /// The watches, one for each kind and selector.
    pub watches: Arc<Watches>,
    /// Writes Events.
    pub recorder: Recorder,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Runs components.
    pub engine: Engine,
    /// Compiles components.
    pub compiler: Compiler,
    /// Pulls components from registries.
    pub puller: Puller,
    /// The settings for all plugins, such as the namespace of their ServiceAccounts.
    pub host: HostSettings,
    /// The directory of histories and kept components.
    pub kept: Option<PathBuf>,
    /// The disk space for kept components.
    pub room: Arc<Room>,
    /// The Leases by which several hosts share the work.
    pub leases: Arc<Leases>,
}

/// A plugin whose rollout this host manages.
pub struct ManagedPlugin {
    /// Reconciles its parents.
    pub controller: Arc<Controller>,
    /// What all plugins share.
    pub shared: Arc<Shared>,
    /// One permit: at most one shadow run at a time.
    pub shadow: Arc<Semaphore>,
    pub(crate) state: Mutex<State>,
    pub(crate) plugin_file: Mutex<PluginFile>,
    pub(crate) history: Arc<SharedHistory>,
    /// Why this host waits, if another one runs this plugin.
    standby: Mutex<Option<String>>,
    /// Why `spec.revision` or `spec.approve` cannot be carried out.
    pub(crate) control_failing: Mutex<Option<String>>,
    /// The state of a component that is fetched.
    pub(crate) fetched: Mutex<Fetched>,
    /// Wakes the fetch after a change of the definition, whose source may be another one now.
    pub(crate) redefined: Notify,
    tasks: Mutex<Vec<AbortOnDropHandle<()>>>,
    requests: mpsc::Sender<Request>,
}

/// The state of a component that is fetched from a registry or a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The component that was fetched last.
    pub component: Option<FetchedComponent>,
    /// Why the component cannot be fetched now: a PascalCase reason and a message.
    pub failing: Option<(&'static str, String)>,
}

/// A component that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedComponent {
    /// The component's digest.
    pub digest: Digest,
    /// Where it was fetched from, exactly: the image with the digest of its manifest, or the version of the ConfigMap.
    pub source: String,
}

/// The state of a plugin's revisions.
#[derive(Default)]
pub(crate) struct State {
    /// The revision that is being activated.
    pub(crate) underway: Option<Underway>,
    /// When the active revision was activated.
    pub(crate) since: Option<Instant>,
    /// The revision that was active before the active one.
    pub(crate) before: Option<Arc<Revision>>,
    /// The component of the canary, which is kept for rollbacks once the canary is active.
    pub(crate) canary: Option<Candidate>,
    /// Whether the active revision is the one of before the host's last stop, which stays active until the component
    /// that was offered at the start is activated or refused.
    pub(crate) is_restored: bool,
}

/// A revision that is being activated.
pub(crate) struct Underway {
    digest: Digest,
    step: Step,
}

/// The steps of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The component is compiled, or loaded from the code cache.
    Loading,
    /// The cases that the component carries are run.
    Cases,
    /// The watches of the revision are opened and synced.
    Watches,
    /// The revision is called about every parent.
    Survey,
}

impl Step {
    fn waits_for(self) -> &'static str {
        match self {
            Self::Loading => "the component is being compiled",
            Self::Cases => "its cases are tried",
            Self::Watches => "the caches are being filled",
            Self::Survey => "the component is asked about every parent",
        }
    }
}

/// Shows a revision as being activated until this is dropped, because an activation may be dropped at any time.
pub(crate) struct ShownUnderway<'a>(&'a Mutex<State>);

impl Drop for ShownUnderway<'_> {
    fn drop(&mut self) {
        self.0.lock().underway = None;
    }
}

/// The `plugin.yaml` that was applied last.
pub(crate) struct PluginFile {
    config: Arc<PluginConfig>,
    /// Why the present content of the file is not applied.
    pub(crate) refused: Option<String>,
}

impl PluginFile {
    /// Builds the state after a valid file was applied.
    pub(crate) fn applied(config: Arc<PluginConfig>) -> Self {
        Self { config, refused: None }
    }
}

/// An administrator's command about a plugin's revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Activate the component that the plugin's file holds now.
    Reload,
    /// Activate an earlier revision: the one whose digest begins with this prefix, or else the last good one.
    RollBack(Option<String>),
    /// Activate the component that requires approval or was rolled back, if its digest begins with this prefix.
    Approve(Option<String>),
}

/// An admin command and the channel for its result.
pub(crate) struct Request {
    pub(crate) command: AdminCommand,
    pub(crate) reply: Reply,
}

/// The channel for the result of an admin command.
pub(crate) type Reply = oneshot::Sender<Result<PluginStatus, String>>;

impl ManagedPlugin {
    /// Creates a plugin without an active revision.
    pub(crate) fn new(
        controller: Controller,
        shared: Arc<Shared>,
        plugin: PluginConfig,
        history: History,
        requests: mpsc::Sender<Request>,
    ) -> Self {
        Self {
            controller: Arc::new(controller),
            shared,
            shadow: Arc::new(Semaphore::new(1)),
            state: Mutex::default(),
            plugin_file: Mutex::new(PluginFile::applied(Arc::new(plugin))),
            history: Arc::new(SharedHistory::new(history)),
            standby: Mutex::default(),
            control_failing: Mutex::default(),
            fetched: Mutex::default(),
            redefined: Notify::new(),
            tasks: Mutex::default(),
            requests,
        }
    }

    /// Runs a task until the plugin is stopped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().push(AbortOnDropHandle::new(tokio::spawn(task)));
    }

    /// Stops the plugin: running reconciles may end within a timeout, and then nothing of the plugin is left in the
    /// host. Parents and their children stay as they are.
    pub async fn stop(&self) {
        if tokio::time::timeout(STOP_TIMEOUT, self.controller.queue.close()).await.is_err() {
            tracing::warn!(plugin = &*self.controller.name, "some reconciles of the plugin did not end in time");
        }
        drop(std::mem::take(&mut *self.tasks.lock()));
        let (name, watches) = (&self.controller.name, &self.shared.watches);
        for viewer in [Viewer::active(name), Viewer::canary(name), Viewer::candidate(name), Viewer::shadow(name)] {
            watches.all().iter().for_each(|watch| watches.unsubscribe(&watch.scope, &viewer));
        }
        let host = &self.shared.host;
        host.parentage.forget(name);
        host.holders.forget(name);
        host.memory.forget(name);
        self.shared.metrics.forget(name);
    }

    /// Returns the state of a component that is fetched.
    pub fn fetched(&self) -> Fetched {
        self.fetched.lock().clone()
    }

    /// Returns where a component was fetched from, exactly; none if its source is a file, or it was never active and
    /// another one was fetched since.
    pub fn source_of(&self, digest: Digest) -> Option<String> {
        let fetched = self.fetched.lock().component.clone().filter(|fetched| fetched.digest == digest);
        fetched.map(|fetched| fetched.source).or_else(|| self.history().source_of(digest).map(str::to_owned))
    }

    /// Returns why `spec.revision` or `spec.approve` cannot be carried out.
    pub fn control_failing(&self) -> Option<String> {
        self.control_failing.lock().clone()
    }

    /// Returns whether the history does not have yet what has happened to the revisions.
    pub fn is_recording(&self) -> bool {
        self.history.is_changing()
    }

    /// Returns the entries of the plugin's history, the newest last.
    pub fn history_entries(&self) -> Vec<Entry> {
        self.history().entries().to_vec()
    }

    /// Takes over the history of a host that works for the plugin and therefore decides about its revisions. Where
    /// that host rolled back the canary, the canary ends here, too; where it rolled back the component that was refused
    /// here, that becomes the reason of the refusal. Returns the revision to roll back to, if that host rolled back the
    /// active one.
    pub async fn learn_history(&self, remembered: Vec<Entry>) -> Option<Digest> {
        let canary = self.controller.canary.current().map(|canary| canary.digest());
        let offered = canary.or_else(|| self.controller.slot.refused()?.digest);
        let active = self.controller.active().map(|active| active.revision.digest());
        let has_changed = self.merge_history(remembered, offered.into_iter().chain(active)).await;
        let rolled_back =
            offered.and_then(|digest| Some((digest, self.history().rolled_back(digest)?.message.clone())));
        // A canary may have begun since its rollback was learned.
        if let Some((digest, why)) = rolled_back.filter(|_| has_changed || canary.is_some()) {
            if canary.is_some() {
                self.end_canary("the host that works for the plugin rolled it back");
            }
            self.controller.slot.refuse(Refused::new(Some(digest), &LoadError::RolledBack(why)));
        }
        let (active, history) = (active?, self.history());
        history.rolled_back(active)?;
        history.rollback_targets(Some(active)).first().copied()
    }

    /// Returns the rollback of the component that is refused here, if the remembered history does not have it.
    pub fn unreported_rollback(&self, remembered: &[Entry]) -> Option<Entry> {
        let refused = self.controller.slot.refused()?.digest?;
        self.history().unreported_rollback(remembered, refused)
    }

    /// Returns whether several hosts may work for the plugin at once, each for some of its parents.
    pub fn is_spread(&self) -> bool {
        self.controller.share.one.is_none()
    }

    /// Takes over a remembered history that is newer, or else the roll-backs of `digests` that this one lacks. Returns
    /// whether the history changed.
    async fn merge_history(&self, remembered: Vec<Entry>, digests: impl Iterator<Item = Digest>) -> bool {
        let (is_later, missed) = {
            let history = self.history();
            (history.is_older_than(&remembered), history.missed_rollbacks(&remembered, digests))
        };
        if is_later {
            self.remember(move |history| *history = std::mem::take(history).or_newer(remembered)).await;
        } else if !missed.is_empty() {
            self.remember(move |history| {
                missed.iter().for_each(|entry| history.note(entry.digest, &entry.version, entry.event, &entry.message));
            })
            .await;
        } else {
            return false;
        }
        true
    }

    /// Returns the finalizers of this plugin that parents may hold.
    pub fn finalizers(&self) -> BTreeSet<String> {
        let mut all = self.history().finalizers();
        if let Some(active) = self.controller.active() {
            all.extend(active.revision.descriptor().finalizer.clone());
            all.extend(active.former_finalizers.iter().cloned());
        }
        all
    }

    /// Returns whether an observed parent holds a finalizer of the plugin. True while no parent can be observed.
    pub fn has_held_parents(&self) -> bool {
        let Some(active) = self.controller.active() else { return true };
        let finalizers = self.finalizers();
        active.parents.watch.cache.any(|parent| parent.finalizers.iter().any(|present| finalizers.contains(&**present)))
    }

    /// Returns the `plugin.yaml` that was applied last.
    pub fn plugin(&self) -> Arc<PluginConfig> {
        self.plugin_file.lock().config.clone()
    }

    /// Executes an admin command and returns its result; none while the host is stopping.
    pub async fn carry_out(&self, command: AdminCommand) -> Option<Result<PluginStatus, String>> {
        let (reply, status) = oneshot::channel();
        self.requests.send(Request { command, reply }).await.ok()?;
        match tokio::time::timeout(COMMAND_TIMEOUT, status).await {
            Ok(done) => done.ok(),
            Err(_) => Some(Err(format!(
                "the component of {} is not active after {COMMAND_TIMEOUT:?}: {}; the host keeps trying, and `hotshoe status` shows the outcome",
                self.controller.name,
                self.awaited()
            ))),
        }
    }

    /// Returns what the revision that is being activated waits for.
    pub(crate) fn awaited(&self) -> String {
        let standby = self.standby.lock().clone();
        let in_progress = || self.in_progress().map(|shown| shown.waits_for);
        standby.or_else(in_progress).unwrap_or_else(|| "its file is still being written".to_owned())
    }

    /// Returns the revision that is being activated, and what it waits for.
    fn in_progress(&self) -> Option<InProgress> {
        let (digest, step) = self.state.lock().underway.as_ref().map(|underway| (underway.digest, underway.step))?;
        let waits_for = step.waits_for();
        let waits_for = match views::unsynced_reason(&self.shared.watches, &Viewer::candidate(&self.controller.name)) {
            Some(why) => format!("{waits_for}: {why}"),
            None => waits_for.to_owned(),
        };
        Some(InProgress { digest, waits_for })
    }

    /// Shows a revision as being activated until the result is dropped.
    pub(crate) fn show_underway(&self, digest: Digest) -> ShownUnderway<'_> {
        self.state.lock().underway = Some(Underway { digest, step: Step::Loading });
        ShownUnderway(&self.state)
    }

    /// Notes the present step of an activation.
    pub(crate) fn show_step(&self, step: Step) {
        if let Some(underway) = &mut self.state.lock().underway {
            underway.step = step;
        }
    }

    /// Runs a step of an activation, and logs what the step waits for if it takes long.
    pub(crate) async fn log_waiting<T>(&self, digest: Digest, work: impl Future<Output = T>) -> T {
        let (mut work, mut logged) = (std::pin::pin!(work), String::new());
        loop {
            if let Ok(done) = tokio::time::timeout(SLOW_STEP, &mut work).await {
                return done;
            }
            let awaited = self.awaited();
            if awaited != logged {
                tracing::warn!(plugin = &*self.controller.name, %digest, "the component is not active yet: {awaited}");
                logged = awaited;
            }
        }
    }

    /// Makes this the plugin's only host in its cache directory. Where hosts share the work by Leases, another host may
    /// use the same directory: then that one writes the history until it ends.
    pub(crate) async fn become_only_host(self: Arc<Self>) -> Option<HostLock> {
        if !self.shared.leases.are_kept() {
            return self.stand_by().await;
        }
        let path = self.lock_path()?;
        if let Err(error @ LockError::Locked { .. }) = acquire(&path).await {
            let plugin = &*self.controller.name;
            tracing::info!(plugin, "the other host writes the history of the plugin in this cache directory: {error}");
            self.remember(History::make_read_only).await;
            let plugin = self.clone();
            self.spawn(async move {
                let _lock = plugin.stand_by().await;
                std::future::pending::<()>().await;
            });
            return None;
        }
        self.stand_by().await
    }

    fn lock_path(&self) -> Option<PathBuf> {
        let base = self.shared.kept.as_deref()?;
        let (plugin, identity) = (self.plugin(), &self.shared.cluster.identity);
        Some(host_lock::path(base, &plugin.name, identity, self.shared.watches.namespace()))
    }

    /// Waits until this is the plugin's only host. Then reads the history again, because the other host may have
    /// changed it.
    async fn stand_by(&self) -> Option<HostLock> {
        let base = self.shared.kept.clone()?;
        let (plugin, identity) = (self.plugin(), &self.shared.cluster.identity);
        let namespace = self.shared.watches.namespace();
        let path = self.lock_path()?;
        let mut first = !self.history().is_read_only();
        loop {
            match acquire(&path).await {
                Ok(lock) if first => return Some(lock),
                Ok(lock) => {
                    let plugin_name = &*plugin.name;
                    match self.shared.leases.are_kept() {
                        true => tracing::info!(
                            plugin = plugin_name,
                            "the other host has ended; this one writes the history of the plugin now"
                        ),
                        false => tracing::info!(
                            plugin = plugin_name,
                            "the other host has ended; this one works for the plugin now"
                        ),
                    }
                    let place = plugin.place(identity, namespace);
                    let room = self.shared.room.clone();
                    self.remember(move |history| *history = History::open(Some(&base), &place, room)).await;
                    *self.standby.lock() = None;
                    return Some(lock);
                }
                Err(LockError::Unusable { .. }) if !first => {}
                Err(error @ LockError::Unusable { .. }) => {
                    tracing::warn!(
                        plugin = &*plugin.name,
                        "another host for the same plugin would not be noticed: {error}"
                    );
                    return None;
                }
                Err(error) => {
                    if first {
                        tracing::error!(plugin = &*plugin.name, "{error}");
                    }
                    if !self.shared.leases.are_kept() {
                        *self.standby.lock() = Some(error.to_string());
                    }
                }
            }
            first = false;
            tokio::time::sleep(STANDBY_INTERVAL).await;
        }
    }

    /// Returns the history as it was written last.
    pub(crate) fn history(&self) -> Arc<History> {
        self.history.read()
    }

    /// Returns the account of the memory that the host holds for the plugin, updated to the present state.
    pub fn memory(&self) -> Account {
        if let Some(active) = self.controller.active() {
            active.note_held();
        }
        self.plugin().memory.clone()
    }

    /// Returns whether no revision is active yet, though no refusal, failed fetch or failing watch is known.
    pub fn is_starting(&self) -> bool {
        let status = self.status();
        let is_stopped = status.refused.is_some() || self.fetched.lock().failing.is_some();
        let is_failing = status.watches.iter().any(|watch| watch.failing.is_some());
        status.digest.is_none() && !is_stopped && !is_failing
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
        let (failing_on, refused_of) = self.controller.in_trouble();
        let watches = self.watches();
        let failing: Vec<String> = watches.iter().filter_map(|watch| watch.failing.clone()).collect();
        let failing = (!failing.is_empty()).then(|| failing.join("; "));
        PluginStatus {
            name: self.controller.name.to_string(),
            source: self.plugin().component_path().display().to_string(),
            plugin_file: self.plugin_file_status(),
            ready: active.is_some() && failing.is_none() && !is_restored,
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
                (None, None, shown) => shown.as_ref().map(|shown| shown.waits_for.clone()),
            }),
            digest: active.as_ref().map(|active| active.revision.digest()),
            version: active.as_ref().map(|active| active.revision.descriptor().version.clone()),
            seconds: since.map(|since| since.elapsed().as_secs()),
            refused,
            in_progress,
            canary: self.canary_status(),
            history_failing: self.history().failing().map(str::to_owned),
            parents: active.map_or(0, |active| active.parents.watch.cache.len()),
            trouble: Trouble { failing: failing_on, refused: refused_of },
            stalled: self.controller.stalled(),
            deleting: self.controller.deleting(),
            memory: MemoryStatus { held: memory.held(), may_hold: memory.may_hold() },
            queued,
            running,
            standing_by: self.standing_by(),
            unable: self.controller.writer.impersonation_error(),
            breaker: self.controller.breaker.shown(std::time::Instant::now()),
            unanswered: self.controller.unanswered.lock().shown(std::time::Instant::now()),
            watches,
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
                failing: match health {
                    Health::Failing(why) | Health::Silent(why) => Some(why),
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

    /// Returns a message on what the active revision asks for and `plugin.yaml` no longer grants, if there is any.
    pub(crate) fn lacking(&self) -> Option<String> {
        let active = self.controller.active()?;
        let lacking = grant::lacking(active.revision.descriptor(), &active.plugin.grant)?;
        Some(format!(
            "the active revision asks for {lacking}, which plugin.yaml no longer grants: it is denied, and after a restart the component would not be activated; grant it again, or build a component that does without"
        ))
    }
}

/// Locks a file on a blocking thread, because the disk may be slow.
async fn acquire(path: &Path) -> Result<HostLock, LockError> {
    let file = path.to_owned();
    let acquired = tokio::task::spawn_blocking(move || HostLock::acquire(&file)).await;
    acquired.unwrap_or_else(|error| Err(LockError::Unusable { path: path.to_owned(), source: error.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_activation_is_not_shown_as_in_progress() {
        let underway = Underway { digest: Digest::of(b"a"), step: Step::Watches };
        let state = Mutex::new(State { underway: Some(underway), ..State::default() });
        drop(ShownUnderway(&state));
        assert!(state.lock().underway.is_none());
    }
}
