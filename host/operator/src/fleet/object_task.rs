//! The task of one `Plugin` object: starts, changes, stops and removes its plugin as the object describes, and writes
//! its status. Each object has a task of its own, so that a request that hangs, many parents that are to be released
//! and reconciles that end slowly hold up no other object.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, watch};

use crate::config::PluginConfig;
use crate::config::plugin_resource::{FINALIZER, PluginStatus};
use crate::fleet::events::of_change;
use crate::fleet::lease_claim::{LeaseClaim, Standing};
use crate::fleet::parsed_plugin::ParsedPlugin;
use crate::fleet::remembered::{ANNOTATION, Remembered};
use crate::fleet::removal::{Progress, Removal};
use crate::fleet::running::{RETRY_PAUSE, Running};
use crate::fleet::status::{Known, Obstacle};
use crate::fleet::verdict::Verdicts;
use crate::fleet::{Fleet, status};
use crate::rollout;
use crate::rollout::definition::Definition;
use crate::rollout::fetch;
use crate::rollout::managed_plugin::Shared;
use hotshoe_cluster::discovery::Resource;
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::events::EventRecord;
use hotshoe_cluster::identity::Permit;
use hotshoe_cluster::plugin_object;
use hotshoe_cluster::shared_watch::{Health, Role, SharedWatch};
use hotshoe_cluster::time;
use hotshoe_core::model::decision::Event;
use hotshoe_core::model::object::HOST_MANAGER;
use hotshoe_core::plugin::removal::DeletionPolicy;

/// The time between two turns while the object does not change: the state of its plugin changes as well.
pub(super) const TURN_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a turn that panicked, which is a fault of the host.
const PANIC_PAUSE: Duration = Duration::from_secs(30);
/// How many plugins are removed at once: each lists the parents and writes to them.
pub(super) const REMOVALS_AT_ONCE: usize = 8;

/// What the tasks of all objects share.
pub(super) struct Context {
    pub(super) shared: Arc<Shared>,
    pub(super) fleet: Arc<Fleet>,
    pub(super) resource: Resource,
    pub(super) watch: Arc<SharedWatch>,
    /// Wakes the loop that shows the objects to their tasks.
    pub(super) woken: Arc<Notify>,
    pub(super) removals: Semaphore,
    /// The namespace and name of the Leases by which this host claims objects, if it keeps Leases.
    pub(super) claim: Option<String>,
}

/// What a task knows of its object and of the others.
#[derive(Clone, Default)]
pub(super) struct View {
    /// The object; none once it is gone.
    pub(super) described: Option<Arc<ParsedPlugin>>,
    /// The older plugin that has its parents, or some of them.
    pub(super) taken: Option<Taken>,
}

/// The claim of an older plugin to the same parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The name of the older plugin.
    pub(super) by: String,
    /// The parents that the younger one asks for.
    pub(super) parents: String,
}

impl View {
    /// Returns whether both views show the same version of the object, and the same claim of an older plugin.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_same_object = match (&self.described, &other.described) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same_object && self.taken == other.taken
    }
}

/// The task of one object.
pub(super) struct ObjectTask {
    name: Arc<str>,
    context: Arc<Context>,
    /// Whether the plugin runs, or its reconciles are still ending; its parents are not free meanwhile.
    runs: watch::Sender<bool>,
    running: Option<Running>,
    /// What the status became that was applied, where that differs from what was applied: other field managers have
    /// fields in it, which an apply does not remove.
    applied: Option<(PluginStatus, PluginStatus)>,
    /// When the next write may be tried after one that failed.
    retry_at: Option<Instant>,
    /// What kept the plugin from being removed when its parents were listed last: the version of the object, when the
    /// list expires, and the reason. The parents are listed again after that time, or when the object changes.
    leaving: Option<(u64, Instant, Obstacle)>,
    claim: LeaseClaim,
}

impl ObjectTask {
    /// Creates the task of the object with this name. `runs` shows whether its plugin runs.
    pub(super) fn new(name: Arc<str>, context: Arc<Context>, runs: watch::Sender<bool>) -> Self {
        let claim = LeaseClaim::new(context.shared.cluster.clone(), context.resource.clone(), context.claim.clone());
        Self { name, context, runs, running: None, applied: None, retry_at: None, leaving: None, claim }
    }

    /// Works until the object is gone and its plugin is stopped.
    pub(super) async fn run(mut self, mut views: watch::Receiver<View>) {
        loop {
            let view = views.borrow_and_update().clone();
            let is_gone = view.described.is_none();
            let pause = match AssertUnwindSafe(self.turn(view)).catch_unwind().await {
                Ok(()) if is_gone && !views.has_changed().unwrap_or_default() => return,
                Ok(()) => TURN_INTERVAL,
                Err(_) => {
                    tracing::error!("the work on a Plugin object panicked; this is a fault of the host");
                    PANIC_PAUSE
                }
            };
            tokio::select! {
                changed = views.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn turn(&mut self, view: View) {
        let Some(described) = view.described else {
            self.discard().await;
            let permit = self.permit();
            return self.claim.release(&self.context.watch, permit).await;
        };
        // A plugin that runs goes on while the objects cannot be watched.
        if self.context.watch.health() != Health::Synced {
            return;
        }
        // The object was deleted and created again.
        if self.running.as_ref().is_some_and(|running| running.uid != described.object.uid) {
            self.discard().await;
        }
        if !self.has_claim(&described).await {
            return;
        }
        let obstacle = self.advance(&described, view.taken.as_ref()).await;
        self.report(&described, obstacle.as_ref()).await;
    }

    /// Claims the object for the hosts of this Lease, or stops the plugin while others work for the object. Returns
    /// whether this host may.
    async fn has_claim(&mut self, described: &ParsedPlugin) -> bool {
        let term = self.permit().map(|permit| permit.term());
        match self.claim.compare(described, term).await {
            Standing::Works => true,
            Standing::Waits { message, is_new } => {
                self.stop().await;
                if is_new {
                    tracing::warn!("{message}");
                }
                // A host that has just started may write nothing yet.
                if let Some(permit) = self.permit()
                    && let Some(event) = self.claim.due_event(message)
                {
                    self.record(described, None, event, &permit);
                }
                false
            }
            Standing::Claims => {
                // A host that stands by waits until the one that holds the Lease has claimed the object.
                if let Some(permit) = self.permit().filter(|_| !self.waits_for_retry()) {
                    let claimed = self.claim.write(&described.object, &permit).await;
                    self.store_reply(claimed);
                }
                self.claim.may_work(term)
            }
        }
    }

    /// Runs the plugin as its object describes. Returns why it does not run, or is about to be removed.
    async fn advance(&mut self, described: &ParsedPlugin, taken: Option<&Taken>) -> Option<Obstacle> {
        if described.object.deleting {
            // Until it is removed, it serves as its object says now.
            if described.plugin.is_ok()
                && let Some(running) = &mut self.running
            {
                running.redefine(described, &self.context.shared);
            }
            return self.remove(described, taken).await;
        }
        if let Err(why) = &described.plugin {
            // A plugin that runs goes on as its object described it before.
            return Some(Obstacle::invalid(why));
        }
        if let Some(taken) = taken {
            self.stop().await;
            return Some(parents_taken(taken, &described.status));
        }
        if !described.has_finalizer() {
            self.add_finalizer(described).await;
        }
        let holds_lease = self.permit().is_some();
        let Some(running) = &mut self.running else {
            return self.start(described).await.err().map(|error| Obstacle::invalid(&format!("{error:#}")));
        };
        running.redefine(described, &self.context.shared);
        let is_spread = running.plugin.is_spread();
        if !holds_lease || is_spread {
            running.follow_history(described.history()).await;
        }
        if !holds_lease && is_spread {
            self.report_rollback(described).await;
        }
        None
    }

    async fn start(&mut self, described: &ParsedPlugin) -> anyhow::Result<()> {
        let (shared, uid) = (&self.context.shared, described.object.uid.clone());
        let config = PluginConfig::of_object(&described.json, &uid, &shared.host)?;
        shared.host.parentage.note_named(&config.name, config.parent.as_ref());
        // Before any component is loaded: otherwise a newer plugin could get the kind first after a restart.
        if let Some(parent) = &described.status.parent {
            shared.host.parentage.note_active(&config.name, &parent.kind());
        }
        let (definition, follow) = watch::channel(described.json.clone());
        let wanted = Some((config.digest, config.wanted.clone()));
        tracing::info!("the plugin is started, as its Plugin object says");
        self.runs.send_replace(true);
        let plugin = rollout::start(config, Definition::Object(follow), described.history(), shared.clone()).await;
        self.context.fleet.add(plugin.clone());
        let (verdicts, following) = (Verdicts::default(), None);
        self.running = Some(Running { uid, plugin, definition, wanted, verdicts, following });
        Ok(())
    }

    async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            self.context.fleet.remove(&self.name);
            running.plugin.stop().await;
            tracing::info!("the plugin is stopped");
        }
        // Its parents may have been noted before it was started.
        self.context.shared.host.parentage.forget(&self.name);
        self.runs.send_replace(false);
    }

    /// Stops a plugin whose object is gone, and removes the component that was fetched for it. A host that merely ends
    /// leaves that component for the next start.
    async fn discard(&mut self) {
        self.stop().await;
        (self.applied, self.retry_at, self.leaving) = (None, None, None);
        if let Some(folder) = self.context.shared.host.fetched.clone() {
            let name = self.name.to_string();
            drop(tokio::task::spawn_blocking(move || fetch::forget(&folder, &name)).await);
        }
    }

    /// Removes a plugin as far as its parents allow now. Returns what keeps it.
    async fn remove(&mut self, described: &ParsedPlugin, taken: Option<&Taken>) -> Option<Obstacle> {
        if !described.has_finalizer() {
            self.discard().await;
            return None;
        }
        let policy = described.plugin.as_ref().map(|plugin| plugin.spec.deletion_policy).unwrap_or_default();
        if policy == DeletionPolicy::Orphan && self.finalizers_are_reported(described) {
            // A running plugin would add its finalizer to parents again, on any host.
            self.stop().await;
        }
        let taken_by = taken.map(|taken| &*taken.by);
        let obstacle = match self.permit() {
            // The host that holds the Lease removes the plugin.
            None => None,
            Some(permit) => match self.advance_removal(described, policy, taken_by, &permit).await {
                Progress::Waits(obstacle) => Some(obstacle),
                Progress::Done => {
                    self.discard().await;
                    let Context { shared, resource, .. } = &*self.context;
                    let removed = plugin_object::remove_finalizer(
                        &shared.cluster,
                        resource,
                        &described.object,
                        FINALIZER,
                        &permit,
                    )
                    .await;
                    self.store_reply(removed);
                    return None;
                }
            },
        };
        if policy != DeletionPolicy::Orphan && taken_by.is_none() {
            self.start_for_removal(described).await;
        }
        obstacle
    }

    /// Does to the parents of a plugin that is to be removed what its deletion policy says. Returns how far it is.
    async fn advance_removal(
        &mut self,
        described: &ParsedPlugin,
        policy: DeletionPolicy,
        taken_by: Option<&str>,
        permit: &Permit,
    ) -> Progress {
        let version = described.object.resource_version;
        let plugin = self.running.as_ref().map(|running| running.plugin.clone());
        let is_held = plugin.as_ref().is_none_or(|plugin| plugin.has_held_parents());
        if let Some((of, until, obstacle)) = &self.leaving
            && is_held
            && (*of, *until > Instant::now()) == (version, true)
        {
            return Progress::Waits(obstacle.clone());
        }
        let removal = Removal {
            shared: &self.context.shared,
            name: &self.name,
            policy,
            described: described.plugin.as_ref().ok(),
            plugin: plugin.as_ref(),
            status: &described.status,
            taken_by,
            permit,
        };
        let _turn = self.context.removals.acquire().await;
        let progress = removal.advance().await;
        if let (Some(plugin), Progress::Waits(obstacle)) = (&plugin, &progress) {
            plugin.note_removal(obstacle.message.clone());
        }
        if let Progress::Waits(obstacle) = &progress
            && obstacle.stalls
        {
            self.leaving = Some((version, Instant::now() + RETRY_PAUSE, obstacle.clone()));
        }
        progress
    }

    /// Starts a plugin that serves until its parents no longer need it, if it does not run: the host may have been
    /// started since its object was deleted.
    async fn start_for_removal(&mut self, described: &ParsedPlugin) {
        if self.running.is_some() {
            return;
        }
        if let Err(error) = self.start(described).await {
            // Tried in each turn, so not for the log: the conditions say what keeps the object.
            tracing::debug!("the plugin that is to be removed cannot be started: {error:#}");
        }
    }

    /// Returns whether the status has all finalizers that parents may have, so that they are known without the plugin.
    fn finalizers_are_reported(&self, described: &ParsedPlugin) -> bool {
        let reported = |finalizer: &String| described.status.finalizers.contains(finalizer);
        self.running.as_ref().is_none_or(|running| running.plugin.finalizers().iter().all(reported))
    }

    async fn add_finalizer(&mut self, described: &ParsedPlugin) {
        let Some(permit) = self.permit().filter(|_| !self.waits_for_retry()) else {
            return;
        };
        let Context { shared, resource, .. } = &*self.context;
        let (cluster, object) = (&shared.cluster, &described.object);
        // With what is remembered: from now on nothing but that is believed.
        let remembered = Remembered::of(&object.uid, &described.status);
        let note = (ANNOTATION, &*remembered);
        let added = plugin_object::add_finalizer(cluster, resource, object, FINALIZER, note, &permit).await;
        self.store_reply(added);
    }

    /// Returns the permit to write to an object, if this host holds the Lease of the plugin.
    fn permit(&self) -> Option<Permit> {
        let shards = self.context.shared.leases.shards();
        shards.permit(shards.of_plugin(&self.name))
    }

    /// Writes the status of a plugin if it has changed.
    async fn report(&mut self, described: &ParsedPlugin, obstacle: Option<&Obstacle>) {
        let Some(permit) = self.permit() else { return };
        if self.waits_for_retry() || (described.object.deleting && !described.has_finalizer()) {
            return;
        }
        if self.running.as_ref().is_some_and(|running| running.plugin.is_recording()) {
            // A revision that is active would have no entry in the history of the same status.
            return;
        }
        let (before, generation, now) = (&described.status, described.object.generation, time::now());
        let of = |known: Option<&Known<'_>>| status::of(before, generation, known, obstacle, &now);
        let mut next = match &mut self.running {
            Some(running) => running.known(|known| of(Some(known))),
            None => of(None),
        };
        next.lease.clone_from(&self.context.claim);
        let remembered = Remembered::of(&described.object.uid, &next);
        if self.running.is_some() && described.remembered.as_ref() != Some(&remembered) {
            // Before the status: what this host does must not be forgotten if it ends in between.
            let written = self.remember(described, &remembered, &permit).await;
            let failed = written.is_err();
            self.store_reply(written);
            if failed {
                return;
            }
        }
        if next == described.shown
            || self.applied.as_ref().is_some_and(|(applied, became)| (applied, became) == (&next, &described.shown))
        {
            return;
        }
        let written = self.write_status(described, &next, &permit).await;
        let reply = written.map(|(reply, became)| {
            self.record_events(described, &next, &permit);
            self.applied = (became != next).then_some((next, became));
            reply
        });
        self.store_reply(reply);
    }

    /// Writes what this host remembers of the plugin.
    async fn remember(&self, described: &ParsedPlugin, text: &str, permit: &Permit) -> Result<String, ApiError> {
        let Context { shared, resource, .. } = &*self.context;
        plugin_object::annotate(&shared.cluster, resource, &described.object, (ANNOTATION, text), permit).await
    }

    /// Applies a status, and removes the fields in it that the host does not set. Conditions that others added stay.
    /// Returns the API server's reply, and the status in it.
    async fn write_status(
        &self,
        described: &ParsedPlugin,
        next: &PluginStatus,
        permit: &Permit,
    ) -> Result<(String, PluginStatus), ApiError> {
        let Context { shared, resource, .. } = &*self.context;
        let (cluster, object) = (&shared.cluster, &described.object);
        let name = resource.reference(&object.key).to_string();
        let body = serde_json::to_value(next).map_err(|error| ApiError::unreadable("write", name, &error))?;
        let applied = plugin_object::apply_status(cluster, resource, object, &body, permit).await?;
        let became: Value = serde_json::from_str(&applied).unwrap_or_default();
        let members = became.get("status").and_then(Value::as_object).into_iter().flatten();
        let foreign: Vec<&str> = members.map(|(key, _)| &**key).filter(|key| body.get(key).is_none()).collect();
        if foreign.is_empty() {
            return Ok((applied, PluginStatus::of(&became)));
        }
        let left = plugin_object::remove_from_status(cluster, resource, object, &foreign, permit).await?;
        let became = PluginStatus::of(&serde_json::from_str(&left).unwrap_or_default());
        Ok((left, became))
    }

    /// Records Events about what is new in a status.
    fn record_events(&self, described: &ParsedPlugin, next: &PluginStatus, permit: &Permit) {
        for event in of_change(&described.status, next) {
            self.record(described, next.digest.as_deref(), event, permit);
        }
    }

    fn record(&self, described: &ParsedPlugin, digest: Option<&str>, event: Event, permit: &Permit) {
        let note = EventRecord {
            about: self.context.resource.reference(&described.object.key),
            uid: described.object.uid.to_string(),
            plugin: self.name.clone(),
            digest: digest.and_then(|digest| digest.parse().ok()),
            event,
            once: false,
            permit: permit.clone(),
        };
        // The Event may be dropped if too many are queued; the status or the log has the same information.
        self.context.shared.recorder.record(note);
    }

    /// Adds a rollback by this host to the history in the object of a plugin whose parents are spread over several
    /// hosts. All else in the status is written by the host that holds the Lease of the plugin, which follows the
    /// rollback.
    async fn report_rollback(&mut self, described: &ParsedPlugin) {
        let plugin = self.running.as_ref().map(|running| &running.plugin);
        let entry = plugin.and_then(|plugin| plugin.unreported_rollback(&described.history()));
        let Some(entry) = entry.and_then(|entry| serde_json::to_value(entry).ok()) else { return };
        let shards = self.context.shared.leases.shards();
        let Some(permit) = (0..shards.count()).find_map(|shard| shards.permit(shard)) else { return };
        if self.waits_for_retry() {
            return;
        }
        let history: Vec<Value> = described.status.history.iter().cloned().chain([entry]).collect();
        let status = PluginStatus { history, ..described.status.clone() };
        let remembered = Remembered::of(&described.object.uid, &status);
        let written = self.remember(described, &remembered, &permit).await;
        self.store_reply(written);
    }

    fn waits_for_retry(&self) -> bool {
        self.retry_at.is_some_and(|until| until > Instant::now())
    }

    /// Stores the object of a reply, so that the next turn knows what was written. After a failure, pauses further
    /// writes to the object.
    fn store_reply(&mut self, reply: Result<String, ApiError>) {
        match reply {
            Ok(object) => {
                drop(self.context.watch.store_reply(&object, (HOST_MANAGER, Role::Parent)));
                self.context.woken.notify_one();
            }
            // The object was changed or deleted meanwhile: the watch will show that.
            Err(error) if error.code == 409 || error.is_gone() => {}
            Err(error) => {
                tracing::warn!("the Plugin object cannot be written to: {error}; it is tried again in {RETRY_PAUSE:?}");
                let pause = error.retry_after.unwrap_or_default().max(RETRY_PAUSE);
                self.retry_at = Instant::now().checked_add(pause);
            }
        }
    }
}

fn parents_taken(Taken { by, parents }: &Taken, status: &PluginStatus) -> Obstacle {
    let message = format!(
        "the older Plugin {by} has {parents} objects, or some of them, as its parents; \
         name others in spec.parent.selector or spec.parent.namespaces of one of the two, or delete one{}",
        leftover_finalizers(status)
    );
    Obstacle { reason: "ParentsTaken", message, stalls: true, keeps_ready: false }
}

/// Returns what becomes of parents that still have a finalizer of a plugin that does not run, as the end of a message.
fn leftover_finalizers(status: &PluginStatus) -> String {
    if status.finalizers.is_empty() {
        return String::new();
    }
    let finalizers = status.finalizers.join(", ");
    format!(
        "; objects with its finalizer {finalizers} cannot be deleted meanwhile: \
         delete this Plugin with spec.deletionPolicy orphan, which removes that finalizer"
    )
}
