//! Watches `Plugin` objects: starts, changes and stops plugins as the objects describe, and writes the status of each.
//!
//! ```text
//! object ──▶ is it valid? ──▶ are its parents free? ──▶ runs; changes go to its rollout
//!               └ no: Stalled      └ no: Stalled, until the older one is gone
//! object is being deleted ──▶ parents as spec.deletionPolicy says ──▶ stopped, and the object may go
//! ```
//!
//! Level-triggered: each pass compares all objects with the plugins that run. A pass is made when an object changes,
//! and once a second, because the state of plugins changes as well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;

use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::cluster::events::Note;
use crate::cluster::identity::Permit;
use crate::cluster::plugin_object;
use crate::cluster::shared_watch::{Health, Role, SharedWatch};
use crate::cluster::time;
use crate::config::PluginConfig;
use crate::config::manifest::{DeletionPolicy, KIND};
use crate::config::plugin_resource::{FINALIZER, GROUP, PLURAL, PluginStatus, VERSION};
use crate::fleet::described::Described;
use crate::fleet::events::of_change;
use crate::fleet::removal::{Progress, Removal};
use crate::fleet::running::Running;
use crate::fleet::status::Obstacle;
use crate::fleet::verdict::Verdicts;
use crate::fleet::{Fleet, status};
use crate::rollout;
use crate::rollout::definition::Definition;
use crate::rollout::fetch;
use crate::rollout::managed_plugin::Shared;
use hotshoe_core::check::parent_kind::ParentKind;
use hotshoe_core::check::parents_claim::{Claim, holder};
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::object::{HOST_MANAGER, Object};

/// The time between two passes while no object changes.
const PASS_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a failed write of a status or finalizer, and between two lists of the parents of a plugin that
/// cannot be removed yet.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The `Plugin` objects of a cluster, and the plugins that run for them.
pub struct Objects {
    shared: Arc<Shared>,
    fleet: Arc<Fleet>,
    resource: Resource,
    watch: Arc<SharedWatch>,
    woken: Arc<Notify>,
    running: BTreeMap<Arc<str>, Running>,
    /// The parsed objects, the oldest first. Each version of an object is parsed only once.
    described: Vec<Arc<Described>>,
    /// What each status became that was applied, where that differs from what was applied: other field managers have
    /// fields in it, which an apply does not remove.
    applied: BTreeMap<Arc<str>, (PluginStatus, PluginStatus)>,
    /// Objects that could not be written to, and when the next write may be tried.
    retry_at: BTreeMap<Arc<str>, Instant>,
    /// What kept plugins from being removed when their parents were listed last: the version of the object, when the
    /// list expires, and the reason. The parents are listed again after that time, or when the object changes.
    leaving: BTreeMap<Arc<str>, (u64, Instant, Obstacle)>,
}

impl Objects {
    /// Begins to watch the objects with these labels.
    pub fn watch(shared: Arc<Shared>, fleet: Arc<Fleet>, labels: &LabelSelector) -> Self {
        let resource = plugin_object::resource(GROUP, VERSION, KIND, PLURAL);
        let woken = Arc::new(Notify::new());
        let wakes = woken.clone();
        let watch = plugin_object::watch(&shared.watches, &resource, labels, Arc::new(move |_| wakes.notify_one()));
        let (running, applied, retry_at, leaving) = Default::default();
        Self { shared, fleet, resource, watch, woken, running, described: Vec::new(), applied, retry_at, leaving }
    }

    /// Makes passes until the process ends.
    pub async fn run(mut self) {
        let mut ticks = tokio::time::interval(PASS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_synced = false;
        loop {
            tokio::select! {
                () = self.woken.notified() => {}
                _ = ticks.tick() => {}
            }
            let health = self.watch.health();
            was_synced |= health == Health::Synced;
            self.fleet.set_unknown(unknown_because(&health, was_synced));
            // Running plugins go on while the objects cannot be watched.
            if health == Health::Synced {
                self.pass().await;
            }
        }
    }

    async fn pass(&mut self) {
        let objects = self.read();
        self.stop_plugins_without_object(&objects).await;
        for described in &objects {
            let obstacle = self.advance(described, &objects).await;
            self.report(described, obstacle.as_ref()).await;
        }
    }

    /// Parses the objects that have changed, and returns all.
    fn read(&mut self) -> Vec<Arc<Described>> {
        let before = std::mem::take(&mut self.described);
        let read = |object: Arc<Object>| {
            let known = before.iter().find(|known| Arc::ptr_eq(&known.object, &object));
            known.cloned().unwrap_or_else(|| Arc::new(Described::read(object)))
        };
        self.described = self.watch.cache.all(|_| true).into_iter().map(read).collect();
        self.described.sort_by(|a, b| (&a.created, &a.object.key).cmp(&(&b.created, &b.object.key)));
        self.described.clone()
    }

    /// Stops the plugins whose objects were deleted, or deleted and created again.
    async fn stop_plugins_without_object(&mut self, objects: &[Arc<Described>]) {
        let has_object = |name: &str, uid: &str| {
            objects.iter().any(|described| described.name() == name && *described.object.uid == *uid)
        };
        let gone = self.running.iter().filter(|(name, running)| !has_object(name, &running.uid));
        let gone: Vec<Arc<str>> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.discard(&name).await;
        }
        let is_there = |name: &Arc<str>| objects.iter().any(|described| *described.name() == **name);
        self.retry_at.retain(|name, until| *until > Instant::now() && is_there(name));
        self.leaving.retain(|name, _| is_there(name));
        self.applied.retain(|name, _| is_there(name));
    }

    /// Runs a plugin as its object describes. Returns why it does not run, or is about to be removed.
    async fn advance(&mut self, described: &Described, objects: &[Arc<Described>]) -> Option<Obstacle> {
        if described.object.deleting {
            // Until it is removed, it serves as its object says now.
            if described.plugin.is_ok()
                && let Some(running) = self.running.get_mut(described.name())
            {
                running.redefine(described, &self.shared);
            }
            return self.remove(described, objects).await;
        }
        if let Err(why) = &described.plugin {
            // A plugin that runs goes on as its object described it before.
            return Some(Obstacle::invalid(why));
        }
        if let Some(older) = self.holder(described, objects) {
            self.stop(described.name()).await;
            let kind = self.claim(described).parent.map(|parent| parent.to_string()).unwrap_or_default();
            return Some(Obstacle {
                reason: "ParentsTaken",
                message: format!(
                    "the older Plugin {older} has {kind} objects, or some of them, as its parents; name others in spec.parent.selector or spec.parent.namespaces of one of the two, or delete one{}",
                    leftover_finalizers(&described.status)
                ),
                stalls: true,
                keeps_ready: false,
            });
        }
        if !described.has_finalizer() {
            self.add_finalizer(described).await;
        }
        let holds_lease = self.permit(described.name()).is_some();
        match self.running.get_mut(described.name()) {
            Some(running) => {
                running.redefine(described, &self.shared);
                let is_spread = running.plugin.is_spread();
                if !holds_lease || is_spread {
                    running.follow_history(described.history()).await;
                }
                if !holds_lease && is_spread {
                    self.report_rollback(described).await;
                }
                None
            }
            None => self.start(described).await.err().map(|error| Obstacle::invalid(&format!("{error:#}"))),
        }
    }

    fn holder(&self, described: &Described, objects: &[Arc<Described>]) -> Option<String> {
        let claims: Vec<Claim<'_>> =
            objects.iter().filter(|other| !other.is_gone()).map(|other| self.claim(other)).collect();
        holder(&claims, &self.claim(described)).map(str::to_owned)
    }

    /// Returns a plugin's claim to its parents: those that the object names, or that the plugin has though the object
    /// is invalid now, or else all of the kind that its revisions had.
    fn claim<'a>(&self, described: &'a Described) -> Claim<'a> {
        let running = || self.running.get(described.name()).map(|running| running.plugin.plugin());
        let named = match &described.plugin {
            Ok(plugin) => plugin.spec.parent.clone(),
            Err(_) => running().and_then(|config| config.parent.clone()),
        };
        let had = || described.status.parent.as_ref().map(|parent| ParentKind::all_of(&parent.kind()));
        Claim { name: described.name(), created: &described.created, parent: named.or_else(had) }
    }

    async fn start(&mut self, described: &Described) -> anyhow::Result<()> {
        let (shared, uid) = (&self.shared, described.object.uid.clone());
        let config = PluginConfig::of_object(&described.json, &uid, &shared.host)?;
        shared.host.parentage.note_named(&config.name, config.parent.as_ref());
        // Before any component is loaded: otherwise a newer plugin could get the kind first after a restart.
        if let Some(parent) = &described.status.parent {
            shared.host.parentage.note_active(&config.name, &parent.kind());
        }
        let (definition, follow) = watch::channel(described.json.clone());
        let (name, wanted) = (config.name.clone(), Some((config.digest, config.control.clone())));
        tracing::info!(plugin = &*name, "the plugin is started, as its Plugin object says");
        let plugin = rollout::start(config, Definition::Object(follow), described.history(), shared.clone()).await;
        self.fleet.add(plugin.clone());
        let (verdicts, following) = (Verdicts::default(), None);
        self.running.insert(name, Running { uid, plugin, definition, wanted, verdicts, following });
        Ok(())
    }

    async fn stop(&mut self, name: &str) {
        let Some(running) = self.running.remove(name) else { return };
        self.fleet.remove(name);
        running.plugin.stop().await;
        tracing::info!(plugin = name, "the plugin is stopped");
    }

    /// Stops a plugin whose object is gone, and removes the component that was fetched for it. A host that merely ends
    /// leaves that component for the next start.
    async fn discard(&mut self, name: &str) {
        self.stop(name).await;
        if let Some(folder) = self.shared.host.fetched.clone() {
            let name = name.to_owned();
            drop(tokio::task::spawn_blocking(move || fetch::forget(&folder, &name)).await);
        }
    }

    /// Removes a plugin as far as its parents allow now. Returns what keeps it.
    async fn remove(&mut self, described: &Described, objects: &[Arc<Described>]) -> Option<Obstacle> {
        let name = described.name();
        if !described.has_finalizer() {
            self.discard(name).await;
            return None;
        }
        let policy = described.plugin.as_ref().map(|plugin| plugin.spec.deletion_policy).unwrap_or_default();
        if policy == DeletionPolicy::Orphan && self.finalizers_are_reported(described) {
            // A running plugin would add its finalizer to parents again, on any host.
            self.stop(name).await;
        }
        let taken_by = self.holder(described, objects);
        let obstacle = match self.permit(name) {
            // The host that holds the Lease removes the plugin.
            None => None,
            Some(permit) => match self.advance_removal(described, policy, taken_by.as_deref(), &permit).await {
                Progress::Waits(obstacle) => Some(obstacle),
                Progress::Done => {
                    self.discard(name).await;
                    let (cluster, resource, object) = (&self.shared.cluster, &self.resource, &described.object);
                    let removed = plugin_object::remove_finalizer(cluster, resource, object, FINALIZER, &permit).await;
                    self.learn(name, removed);
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
        described: &Described,
        policy: DeletionPolicy,
        taken_by: Option<&str>,
        permit: &Permit,
    ) -> Progress {
        let (name, version) = (described.name(), described.object.resource_version);
        let plugin = self.running.get(name).map(|running| running.plugin.clone());
        let is_held = plugin.as_ref().is_none_or(|plugin| plugin.has_held_parents());
        if let Some((of, until, obstacle)) = self.leaving.get(name)
            && is_held
            && (*of, *until > Instant::now()) == (version, true)
        {
            return Progress::Waits(obstacle.clone());
        }
        let removal = Removal {
            shared: &self.shared,
            name,
            policy,
            described: described.plugin.as_ref().ok(),
            plugin: plugin.as_ref(),
            status: &described.status,
            taken_by,
            permit,
        };
        let progress = removal.advance().await;
        if let (Some(plugin), Progress::Waits(obstacle)) = (&plugin, &progress) {
            *plugin.removal.lock() = Some(obstacle.message.clone());
        }
        if let Progress::Waits(obstacle) = &progress
            && obstacle.stalls
        {
            self.leaving.insert(name.into(), (version, Instant::now() + RETRY_PAUSE, obstacle.clone()));
        }
        progress
    }

    /// Starts a plugin that serves until its parents no longer need it, if it does not run: the host may have been
    /// started since its object was deleted.
    async fn start_for_removal(&mut self, described: &Described) {
        if self.running.contains_key(described.name()) {
            return;
        }
        if let Err(error) = self.start(described).await {
            // Tried in each pass, so not for the log: the conditions say what keeps the object.
            tracing::debug!(plugin = described.name(), "the plugin that is to be removed cannot be started: {error:#}");
        }
    }

    /// Returns whether the status has all finalizers that parents may have, so that they are known without the plugin.
    fn finalizers_are_reported(&self, described: &Described) -> bool {
        let reported = |finalizer: &String| described.status.finalizers.contains(finalizer);
        self.running.get(described.name()).is_none_or(|running| running.plugin.finalizers().iter().all(reported))
    }

    async fn add_finalizer(&mut self, described: &Described) {
        let Some(permit) = self.permit(described.name()).filter(|_| !self.waits_for_retry(described.name())) else {
            return;
        };
        let (cluster, resource, object) = (&self.shared.cluster, &self.resource, &described.object);
        let added = plugin_object::add_finalizer(cluster, resource, object, FINALIZER, &permit).await;
        self.learn(described.name(), added);
    }

    /// Returns the permit to write to an object, if this host holds the Lease of the plugin.
    fn permit(&self, name: &str) -> Option<Permit> {
        let shards = self.shared.leases.shards();
        shards.permit(shards.of_plugin(name))
    }

    /// Writes the status of a plugin if it has changed.
    async fn report(&mut self, described: &Described, obstacle: Option<&Obstacle>) {
        let name = described.name();
        let Some(permit) = self.permit(name) else { return };
        if self.waits_for_retry(name) || (described.object.deleting && !described.has_finalizer()) {
            return;
        }
        if self.running.get(name).is_some_and(|running| running.plugin.is_recording()) {
            // A revision that is active would have no entry in the history of the same status.
            return;
        }
        let known = self.running.get_mut(name).map(Running::known);
        let next = status::of(&described.status, described.object.generation, known.as_ref(), obstacle, &time::now());
        if next == described.status
            || self.applied.get(name).is_some_and(|(applied, became)| (applied, became) == (&next, &described.status))
        {
            return;
        }
        let written = self.write_status(described, &next, &permit).await;
        let reply = written.map(|(reply, became)| {
            self.record_events(described, &next, &permit);
            match became == next {
                true => drop(self.applied.remove(name)),
                false => drop(self.applied.insert(name.into(), (next, became))),
            }
            reply
        });
        self.learn(name, reply);
    }

    /// Applies a status, and removes the fields in it that the host does not set. Conditions that others added stay.
    /// Returns the API server's reply, and the status in it.
    async fn write_status(
        &self,
        described: &Described,
        next: &PluginStatus,
        permit: &Permit,
    ) -> Result<(String, PluginStatus), ApiError> {
        let (cluster, resource, object) = (&self.shared.cluster, &self.resource, &described.object);
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
    fn record_events(&self, described: &Described, next: &PluginStatus, permit: &Permit) {
        for event in of_change(&described.status, next) {
            let note = Note {
                about: self.resource.reference(&described.object.key),
                uid: described.object.uid.to_string(),
                plugin: described.name().into(),
                digest: next.digest.as_deref().and_then(|digest| digest.parse().ok()),
                event,
                once: false,
                permit: permit.clone(),
            };
            // The Event may be dropped if too many are queued; the status has the same information.
            self.shared.recorder.record(note);
        }
    }

    /// Adds a rollback by this host to the history in the status of a plugin whose parents are spread over several
    /// hosts. All else in the status is written by the host that holds the Lease of the plugin, which follows the
    /// rollback.
    async fn report_rollback(&mut self, described: &Described) {
        let name = described.name();
        let plugin = self.running.get(name).map(|running| &running.plugin);
        let entry = plugin.and_then(|plugin| plugin.unreported_rollback(&described.history()));
        let Some(entry) = entry.and_then(|entry| serde_json::to_value(entry).ok()) else { return };
        let shards = self.shared.leases.shards();
        let Some(permit) = (0..shards.count()).find_map(|shard| shards.permit(shard)) else { return };
        if self.waits_for_retry(name) {
            return;
        }
        let history: Vec<Value> = described.status.history.iter().cloned().chain([entry]).collect();
        let (cluster, resource, object) = (&self.shared.cluster, &self.resource, &described.object);
        let written = plugin_object::set_history(cluster, resource, object, &history, &permit).await;
        self.learn(name, written);
    }

    fn waits_for_retry(&self, name: &str) -> bool {
        self.retry_at.get(name).is_some_and(|until| *until > Instant::now())
    }

    /// Stores the object of a reply, so that the next pass knows what was written. After a failure, pauses further
    /// writes to the object.
    fn learn(&mut self, name: &str, reply: Result<String, ApiError>) {
        match reply {
            Ok(object) => drop(self.watch.learn(&object, (HOST_MANAGER, Role::Parent))),
            // The object was changed or deleted meanwhile: the watch will show that.
            Err(error) if error.code == 409 || error.is_gone() => {}
            Err(error) => {
                tracing::warn!(
                    plugin = name,
                    "the Plugin object cannot be written to: {error}; it is tried again in {RETRY_PAUSE:?}"
                );
                let pause = error.retry_after.unwrap_or_default().max(RETRY_PAUSE);
                self.retry_at.insert(name.into(), Instant::now() + pause);
            }
        }
    }
}

/// Returns what becomes of parents that still have a finalizer of a plugin that does not run, as the end of a message.
fn leftover_finalizers(status: &PluginStatus) -> String {
    if status.finalizers.is_empty() {
        return String::new();
    }
    let finalizers = status.finalizers.join(", ");
    format!(
        "; objects with its finalizer {finalizers} cannot be deleted meanwhile: delete this Plugin with spec.deletionPolicy orphan, which removes that finalizer"
    )
}

/// Returns why the plugins of the host are not known; none if they are.
fn unknown_because(health: &Health, was_synced: bool) -> Option<String> {
    match health {
        Health::Synced => None,
        // The plugins that were seen are running.
        _ if was_synced => None,
        Health::Starting => Some("the Plugin objects are being listed".to_owned()),
        Health::Failing(why) | Health::Silent(why) => Some(why.clone()),
    }
}
