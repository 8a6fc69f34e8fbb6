//! A plugin whose rollout the host manages: its active revision, its history, its `plugin.yaml` and its status.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::api::status::PluginStatus;
use crate::api::status::RefusedComponent;
use crate::config::{HostSettings, PluginConfig};
use crate::reconcile::controller::Controller;
use crate::rollout::history::{DiskSpace, History};
use crate::rollout::recording::Change;
use crate::rollout::state::{Fetched, PluginState, Published};
use crate::rollout::supervised::supervise;
use crate::telemetry::metrics::Metrics;
use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::events::Recorder;
use hotshoe_cluster::lease::Leases;
use hotshoe_cluster::shared_watch::Viewer;
use hotshoe_cluster::watch::Watches;
use hotshoe_core::check::grant;
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_platform::spans;
use hotshoe_registry::Puller;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::engine::Engine;

/// How long an admin command waits for its outcome.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long running reconciles may take when the plugin is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

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
    pub room: Arc<DiskSpace>,
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
    /// What all others see of the plugin.
    pub(crate) state: Arc<Published<PluginState>>,
    /// Has the registry asked again at once.
    pub(crate) refetch: Notify,
    /// Held while the history is changed and written, so that no change is lost.
    writes_history: Arc<Mutex<()>>,
    /// Ends the tasks of the plugin.
    stopped: CancellationToken,
    requests: mpsc::Sender<Request>,
}

/// An administrator's command about a plugin's revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Activate the component that the plugin's file holds now.
    Reload,
    /// Activate an earlier revision: the one whose digest begins with this prefix, or else the last good one.
    RollBack(Option<DigestPrefix>),
    /// Activate the component that requires approval or was rolled back, if its digest begins with this prefix.
    Approve(Option<DigestPrefix>),
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
            state: Arc::new(Published::new(PluginState::new(Arc::new(plugin), history))),
            refetch: Notify::new(),
            writes_history: Arc::default(),
            stopped: CancellationToken::new(),
            requests,
        }
    }

    /// Begins the span of work on one of the plugin's revisions.
    pub(crate) fn span_of(&self, digest: Digest) -> Span {
        spans::revision(&self.controller.name, digest)
    }

    /// Runs a task until the plugin is stopped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = task.instrument(spans::plugin(&self.controller.name));
        tokio::spawn(self.stopped.clone().run_until_cancelled_owned(task));
    }

    /// Runs a task until the plugin is stopped, and again whenever it panics.
    pub(crate) fn spawn_supervised<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        task: &'static str,
        run: impl FnMut() -> F + Send + 'static,
    ) {
        let plugin = self.clone();
        let report = move |why: Option<&str>| plugin.report_panic(task, why);
        self.spawn(supervise(run, report));
    }

    fn report_panic(&self, task: &'static str, why: Option<&str>) {
        if let Some(why) = why {
            tracing::error!(task, "a task of the plugin panicked and begins again; this is a fault of the host: {why}");
            self.shared.metrics.panicked(&self.controller.name);
        }
        self.state.change(|PluginState { panics, .. }| {
            panics.remove(task);
            panics.extend(why.map(|why| (task, why.to_owned())));
        });
    }

    /// Stops the plugin: running reconciles may end within a timeout, and then nothing of the plugin is left in the
    /// host. Parents and their children stay as they are.
    pub async fn stop(&self) {
        if tokio::time::timeout(STOP_TIMEOUT, self.controller.queue.close()).await.is_err() {
            tracing::warn!("some reconciles of the plugin did not end in time");
        }
        self.stopped.cancel();
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
        self.state.read(|state| state.fetched.clone())
    }

    /// Returns why the component cannot be fetched now; none if it can, or is a file.
    pub(crate) fn fetch_failing(&self) -> Option<String> {
        let failing = self.state.read(|state| state.fetched.failing.clone());
        failing.map(|(reason, message)| format!("its component cannot be fetched: {reason}: {message}"))
    }

    /// Returns where a component was fetched from, exactly; none if its source is a file, or it was never active and
    /// another one was fetched since.
    pub fn source_of(&self, digest: Digest) -> Option<String> {
        self.state.read(|state| state.source_of(digest).map(str::to_owned))
    }

    /// Notes why the plugin's `Plugin` object, which is being deleted, is still there.
    pub fn note_removal(&self, why: String) {
        self.state.set(|state| &mut state.removal, Some(why));
    }

    /// Notes why the API server does not ask the host about the parents of the plugin, and logs it if that is news;
    /// `None` if it asks as it should.
    pub(crate) fn note_unregistered(&self, why: Option<String>) {
        if self.state.read(|state| state.unregistered == why) {
            return;
        }
        match &why {
            Some(why) => tracing::warn!("the webhooks of the plugin are not registered: {why}; it is tried again"),
            None => tracing::info!("the webhooks of the plugin are registered again"),
        }
        self.state.set(|state| &mut state.unregistered, why);
    }

    /// Returns whether the history does not have yet what has happened to the revisions.
    pub fn is_recording(&self) -> bool {
        self.state.read(|state| state.unwritten > 0)
    }

    /// Returns whether several hosts may work for the plugin at once, each for some of its parents.
    pub fn is_spread(&self) -> bool {
        self.controller.share.one.is_none()
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
        self.state.read(|state| state.config.clone())
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

    /// Returns the history as it was written last.
    pub(crate) fn history(&self) -> Arc<History> {
        self.state.read(|state| state.history.clone())
    }

    /// Changes the history on a blocking thread: all reconciles share one thread, which must not wait for the disk. The
    /// change is seen once it is written, also if this is dropped meanwhile.
    pub(crate) async fn remember(&self, change: impl FnOnce(&mut History) + Send + 'static) {
        let announced = Change::announce(self.state.clone(), self.writes_history.clone());
        let changed = tokio::task::spawn_blocking(move || announced.make(change));
        if let Err(error) = changed.await {
            tracing::warn!(%error, "the history of revisions is not kept");
        }
    }

    /// Returns why the last component was refused; none if it was activated.
    pub fn refused(&self) -> Option<RefusedComponent> {
        self.state.read(|state| state.refused.clone())
    }

    /// Notes why the last component was refused, or none if it is active or the canary.
    pub(crate) fn note_refused(&self, refused: Option<RefusedComponent>) {
        self.state.set(|state| &mut state.refused, refused);
    }

    /// Returns the account of the memory that the host holds for the plugin, updated to the present state.
    pub fn memory(&self) -> Account {
        if let Some(active) = self.controller.active() {
            active.note_held();
        }
        self.plugin().memory.clone()
    }

    /// Returns a message on what the active revision asks for and `plugin.yaml` no longer grants, if there is any.
    pub(crate) fn lacking(&self) -> Option<String> {
        let active = self.controller.active()?;
        let kinds = &self.controller.kinds;
        let (descriptor, grant) = (active.revision.descriptor(), &active.plugin.grant);
        let lacking = grant::lacking(descriptor, grant, &|kind| kinds.is_namespaced(kind))?;
        Some(format!(
            "the active revision asks for {lacking}, which plugin.yaml no longer grants: it is denied, \
             and after a restart the component would not be activated; grant it again, \
             or build a component that does without"
        ))
    }
}
