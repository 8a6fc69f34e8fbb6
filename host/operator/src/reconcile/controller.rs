//! The controller of one plugin: its active revision, its queue, and the state that is kept of each parent between two
//! reconciles.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::api::status::{Deleting, Stalled};
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::canary::{Canary, CanarySlot};
use crate::reconcile::decisions::Decisions;
use crate::reconcile::health::Health;
use crate::reconcile::log_lines::LogLines;
use crate::reconcile::needed::NeededObjects;
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::queue::Queue;
use crate::reconcile::slot::Slot;
use crate::reconcile::status_plan::ObservedGeneration;
use crate::reconcile::survey::{LongDeletion, Remembered, Survey};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::swap_timer::FirstDecision;
use hotshoe_cluster::apply::Writer;
use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::events::Recorder;
use hotshoe_cluster::shards::{RunningReconcile, Shards};
use hotshoe_cluster::time::unix_seconds;
use hotshoe_core::diff::associative_lists::AssociativeLists;
use hotshoe_core::flow::circuit_breaker::{Scope, ScopedTransition, Trial};
use hotshoe_core::flow::rate_limit::OutputLimit;
use hotshoe_core::flow::signal::Signal;
use hotshoe_core::flow::unanswered::UnansweredWrites;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::{Key, Kind, Namespace};
use hotshoe_core::model::limits::{EVENTS_AT_ONCE, EVENTS_PER_SECOND};
use hotshoe_core::model::object::Object;
use hotshoe_sandbox::revision::Revision;

/// How many proposed parents of a plugin are decided about at once, so that they leave time for reconciles.
const REVIEWS: usize = 4;

/// The share of a plugin's parents that this host reconciles.
pub struct HostShare {
    /// The shards that this host holds.
    pub shards: Arc<Shards>,
    /// The one shard of all parents of the plugin; `None` if its parents are spread over the shards.
    pub one: Option<usize>,
}

/// The controller of one plugin.
pub struct Controller {
    /// The plugin's name, which does not change while the host runs.
    pub name: Arc<str>,
    /// The parents that are to be reconciled.
    pub queue: Queue,
    /// The only way to write.
    pub writer: Writer,
    /// Writes Events.
    pub recorder: Recorder,
    /// Limits the plugin's Events.
    pub events: OutputLimit,
    /// Limits the host's Events about the plugin's failures. A limit of its own, so that no plugin can hide its
    /// failures behind many Events.
    pub failures: OutputLimit,
    /// Limits the bytes of the plugin's log lines.
    pub lines: LogLines,
    /// Limits the bytes of the host's log lines about its actions for the plugin.
    pub act_lines: LogLines,
    /// Limits the bytes of the host's log lines about the plugin's failures. A limit of its own, so that no plugin can
    /// hide its failures behind its own lines.
    pub failure_lines: LogLines,
    /// The kinds as the API server serves them.
    pub kinds: Arc<Kinds>,
    /// The metrics of the host.
    pub metrics: Arc<Metrics>,
    /// The share of the parents that this host reconciles.
    pub share: HostShare,
    /// The active revision.
    pub slot: Slot<ActiveRevision>,
    /// The revision that converts as long as none is active.
    pub converter: Slot<Revision>,
    /// The canary, which decides for some parents beside the active revision.
    pub canary: CanarySlot,
    /// Whether the active revision has decided yet.
    pub first_decision: FirstDecision,
    /// What is known of the active revision: whether it may be called, and whether it does worse than the one before it.
    pub health: Health,
    /// Whether an administrator has paused the plugin.
    paused: AtomicBool,
    /// The unanswered writes that count against the plugin.
    pub unanswered: Mutex<UnansweredWrites>,
    /// Keys the fingerprints with a random value, so that no user can craft objects whose fingerprints collide.
    pub hasher: RandomState,
    /// Whether `status.conditions` of the parents is an atomic list, which has a single owner. Then the host cannot add
    /// its own conditions beside those of others.
    pub atomic_conditions: AtomicBool,
    /// The objects that the parents need by their names.
    pub needed: NeededObjects,
    /// Which lists in children are associative, learned from the replies to applies.
    pub associative_lists: Arc<RwLock<AssociativeLists>>,
    /// Counts the changes of namespace labels that a rule of the grant selects by.
    pub relabelled: AtomicU64,
    states: Mutex<HashMap<Key, ParentState>>,
    survey: Remembered<Survey>,
    /// The last decisions about each parent.
    pub decisions: Decisions,
    /// The places of proposed parents that are being decided about.
    pub reviews: Arc<Semaphore>,
    /// Objects that may no longer be parents, until it is known that nothing written for them is left.
    deselected: Mutex<HashSet<Key>>,
}

impl Controller {
    /// Creates a controller without an active revision.
    pub fn new(
        name: Arc<str>,
        writer: Writer,
        recorder: Recorder,
        kinds: Arc<Kinds>,
        metrics: Arc<Metrics>,
        share: HostShare,
    ) -> Self {
        Self {
            queue: Queue::counting(metrics.begin(&name)),
            name,
            share,
            writer,
            recorder,
            events: OutputLimit::new(EVENTS_PER_SECOND, EVENTS_AT_ONCE),
            failures: OutputLimit::new(EVENTS_PER_SECOND, EVENTS_AT_ONCE),
            lines: LogLines::of_plugin(),
            act_lines: LogLines::of_acts(),
            failure_lines: LogLines::of_failures(),
            kinds,
            metrics,
            slot: Slot::default(),
            converter: Slot::default(),
            canary: CanarySlot::default(),
            first_decision: FirstDecision::default(),
            health: Health::default(),
            paused: AtomicBool::new(false),
            unanswered: Mutex::default(),
            hasher: RandomState::new(),
            atomic_conditions: AtomicBool::new(false),
            needed: NeededObjects::default(),
            associative_lists: Arc::default(),
            relabelled: AtomicU64::new(0),
            states: Mutex::default(),
            survey: Remembered::default(),
            decisions: Decisions::default(),
            reviews: Arc::new(Semaphore::new(REVIEWS)),
            deselected: Mutex::default(),
        }
    }

    /// Returns the revision that a reconcile starting now works with.
    pub fn active(&self) -> Option<Arc<ActiveRevision>> {
        self.slot.current()
    }

    /// Returns the revision that converts: the active one. Before there is one, it is that whose watches are being synced,
    /// because the API server may need its conversions for them.
    pub fn converting(&self) -> Option<Arc<Revision>> {
        self.active().map(|active| active.revision.clone()).or_else(|| self.converter.current())
    }

    /// Returns the revision that decides about a parent: the active one, or its canary.
    pub fn deciding(&self, key: &Key) -> Option<Arc<ActiveRevision>> {
        // The canary is read first. If the active revision were read first and the canary activated in between, the
        // old active revision would decide once more about the parents of the canary.
        let canary = self.canary.current();
        let is_its = |canary: &Arc<Canary>| {
            let parent = canary.revision.parents.watch.cache.get(key);
            parent.is_some_and(|parent| canary.has(&parent))
        };
        canary.filter(is_its).map(|canary| canary.revision.clone()).or_else(|| self.active())
    }

    /// Begins a reconcile of a parent. Returns `None` if another host works for it.
    pub fn enter(&self, key: &Key) -> Option<RunningReconcile> {
        self.share.shards.enter(self.shard_of(key))
    }

    /// Returns whether this host works for a parent.
    pub fn works_for(&self, key: &Key) -> bool {
        self.share.shards.permit(self.shard_of(key)).is_some()
    }

    /// Returns the shard of a parent.
    pub fn shard_of(&self, key: &Key) -> usize {
        self.share.one.unwrap_or_else(|| self.share.shards.of_parent(key))
    }

    /// Follows which shards this host holds, for as long as it runs. Queues all parents of a shard that this host has
    /// acquired, and forgets the state of the parents of a shard that it has lost: that state is no longer kept up to
    /// date.
    pub async fn follow_shards(self: Arc<Self>) {
        let shards = self.share.shards.clone();
        let mut changes = shards.changes();
        let mut known = vec![None; shards.count()];
        loop {
            changes.mark_unchanged();
            for (shard, known) in known.iter_mut().enumerate() {
                let term = shards.permit(shard).map(|permit| permit.term());
                if *known != term {
                    *known = term;
                    self.on_shard_change(shard, term);
                }
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Follows whether the parents' schema gets room for what the host states, for as long as it runs. All parents are
    /// decided again then: with the room comes a default that marks those which no controller has seen.
    pub async fn follow_schema(self: Arc<Self>, cluster: Cluster) {
        let kind = || self.active().map(|active| active.parent_kind().clone());
        loop {
            self.kinds.statuses.room_appears(&cluster, &kind).await;
            self.decide_all_again();
        }
    }

    fn on_shard_change(&self, shard: usize, term: Option<u64>) {
        let is_of_shard = |key: &Key| self.shard_of(key) == shard;
        self.states.lock().retain(|key, state| !is_of_shard(key) || Some(state.term) == term);
        if term.is_none() {
            self.needed.retain(|key| !is_of_shard(key));
            self.decisions.retain(|key| !is_of_shard(key));
        } else {
            let parents = self.active().map(|active| active.parents.watch.cache.keys()).unwrap_or_default();
            let deselected: Vec<Key> = self.deselected.lock().iter().cloned().collect();
            parents.into_iter().chain(deselected).filter(is_of_shard).for_each(|key| self.queue.add(key));
        }
    }

    /// Pauses the plugin, or resumes it and requeues every parent.
    pub fn pause(&self, paused: bool) {
        if self.paused.swap(paused, Ordering::Relaxed) && !paused {
            self.deselected.lock().iter().for_each(|key| self.queue.add(key.clone()));
            self.decide_all_again();
        }
    }

    /// Returns whether the plugin is paused.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Activates a revision, ends the canary, and requeues every parent.
    pub fn publish(&self, active: Arc<ActiveRevision>) {
        self.replace(active, None);
    }

    /// Ends the active revision, so that no parent is reconciled until another one is active.
    pub fn retire(&self) {
        self.health.probation.end();
        self.health.breaker.reset([]);
        self.slot.clear();
        self.converter.clear();
        self.needed.retain(|_| false);
        self.decisions.retain(|_| false);
        self.metrics.retired(&self.name);
    }

    /// Replaces the active revision and its canary after a change of `plugin.yaml`, and requeues every parent.
    pub fn redefine(&self, active: Arc<ActiveRevision>, canary: Option<Arc<Canary>>) {
        self.canary.health.breaker.reset([]);
        self.replace(active, canary);
    }

    /// Lets a canary decide for its share of the parents. Requeues every parent; those outside the share have nothing
    /// to do.
    pub fn begin_canary(&self, canary: Arc<Canary>) {
        self.metrics.add_canary(&self.name, &canary.revision.revision);
        self.canary.replace(Some(canary));
        self.decide_all_again();
    }

    /// Ends the canary, so that the active revision decides for all parents again. Returns the canary.
    pub fn end_canary(&self) -> Option<Arc<Canary>> {
        let ended = self.canary.replace(None)?;
        self.canary.health.probation.end();
        self.decide_all_again();
        Some(ended)
    }

    fn replace(&self, active: Arc<ActiveRevision>, canary: Option<Arc<Canary>>) {
        let keys = active.parents.watch.cache.keys();
        self.health.breaker.reset(keys.iter().map(|key| &key.namespace));
        self.atomic_conditions.store(false, Ordering::Relaxed);
        self.metrics.decides(&self.name, &active.revision);
        if self.active().is_some() {
            self.slot.publish(active);
            self.set_canary(canary);
            return self.decide_all_again();
        }
        // At the start all parents are queued alike. In a sweep, parents woken by our own writes would be served before
        // those that were never reconciled.
        self.slot.publish(active);
        self.converter.clear();
        keys.into_iter().for_each(|key| self.queue.add(key));
    }

    fn set_canary(&self, canary: Option<Arc<Canary>>) {
        if canary.is_none() {
            self.canary.health.probation.end();
        }
        self.canary.replace(canary);
    }

    /// Records an answer of a revision. The first answer after its activation ends the measured swap time.
    pub fn answered(&self, revision: &Revision) {
        if let Some(stopwatch) = self.first_decision.decided(revision.digest()) {
            self.metrics.swapped(&self.name, &stopwatch);
        }
    }

    /// Counts an unanswered write against the plugin.
    pub fn count_unanswered_write(&self, error: &ApiError) {
        tracing::warn!(
            written = &*error.target,
            "a write had no answer in time while the API server answers others; it counts against the plugin"
        );
        self.metrics.unanswered(&self.name);
        self.unanswered.lock().add(&error.target, Instant::now());
    }

    fn closed(&self, scope: &Scope) {
        match scope {
            Scope::Plugin => {
                tracing::info!("circuit closed: the plugin is called again");
                self.decide_all_again();
            }
            Scope::Namespace(namespace) => {
                tracing::info!("circuit closed: the plugin is called again for the objects of this namespace");
                self.decide_again_in(namespace);
            }
        }
    }

    /// Records what a pass over a parent showed about the revision that decided, and acts on a circuit that opened or
    /// closed. A canary is compared with what the active revision has done so far.
    pub fn record(&self, decided: &ActiveRevision, parent: &Key, trial: Option<Trial<'_>>, signals: &[Signal]) {
        if signals.is_empty() {
            return;
        }
        let digest = decided.revision.digest();
        if self.canary.is(digest) {
            self.canary.health.probation.compare_with(self.health.probation.known());
        }
        match self.health_of(digest).record(digest, parent, trial, signals) {
            ScopedTransition::No => {}
            ScopedTransition::Closed(scope) => self.closed(&scope),
            ScopedTransition::Open(scope, period) => self.opened(decided, &scope, period),
        }
    }

    /// Returns the health of a revision.
    pub fn health_of(&self, digest: Digest) -> &Health {
        if self.canary.is(digest) { &self.canary.health } else { &self.health }
    }

    fn opened(&self, decided: &ActiveRevision, scope: &Scope, period: Duration) {
        if let Scope::Namespace(_) = scope {
            return tracing::warn!(
                ?period,
                "circuit open: the plugin failed too often for objects of this namespace and is not called for them for a while"
            );
        }
        tracing::error!(?period, "circuit open: the plugin failed too often and is not called for a while");
        self.metrics.opened(&self.name);
        decided.revision.forget_waiting();
    }

    /// Returns what the status of a parent of this kind shows as the observed generation after a pass that wrote all
    /// children.
    pub fn observed_generation(&self, parents: &Kind) -> ObservedGeneration {
        match self.kinds.statuses.has_no_room(parents) {
            true => ObservedGeneration::Absent,
            false => ObservedGeneration::Current,
        }
    }

    /// Requeues every parent.
    pub fn decide_all_again(&self) {
        let Some(active) = self.active() else { return };
        self.queue.sweep(active.parents.watch.cache.keys());
    }

    /// Requeues every parent of a namespace.
    fn decide_again_in(&self, namespace: &Namespace) {
        let Some(active) = self.active() else { return };
        let keys = active.parents.watch.cache.keys().into_iter();
        keys.filter(|key| key.namespace == *namespace).for_each(|key| self.queue.add(key));
    }

    /// Returns the state kept of a parent; a new state if the object was created again under the same name.
    pub fn recall(&self, parent: &Object) -> ParentState {
        let states = self.states.lock();
        let known = states.get(&parent.key).filter(|state| state.uid == parent.uid);
        known.cloned().unwrap_or_else(|| ParentState::new(parent))
    }

    /// Returns what is known of all parents together. Each of them is looked at for that, so it is found out at most once
    /// a second, however often it is asked for.
    pub fn survey(&self) -> Arc<Survey> {
        self.survey.get(Instant::now(), || {
            let (failing, refused) = self.in_trouble();
            Survey { failing, refused, stalled: self.stalled(), deleting: self.deleting() }
        })
    }

    /// Returns the number of failing parents, and the number of other parents with refused child writes.
    pub fn in_trouble(&self) -> (usize, usize) {
        let states = self.states.lock();
        let failing = states.values().filter(|state| state.failures > 0).count();
        let refused = states.values().filter(|state| state.failures == 0 && !state.refused.is_empty()).count();
        (failing, refused)
    }

    /// Returns parents that are in trouble, by name, at most so many: those that fail, and those with refused writes.
    pub fn troubled(&self, most: usize) -> Vec<Key> {
        let states = self.states.lock();
        let is_troubled = |state: &ParentState| state.failures > 0 || !state.refused.is_empty();
        let mut troubled: Vec<Key> =
            states.iter().filter(|(_, state)| is_troubled(state)).map(|(key, _)| key.clone()).collect();
        drop(states);
        troubled.sort_unstable();
        troubled.truncate(most);
        troubled
    }

    fn stalled(&self) -> Option<Stalled> {
        let states = self.states.lock();
        Stalled::of(
            states.iter().filter_map(|(key, state)| Some((key, state.tries.made(), state.tries.stalled()?.reason))),
        )
    }

    fn deleting(&self) -> Option<Deleting> {
        let parents = self.active()?.parents.watch.clone();
        let is_late = LongDeletion::at(unix_seconds())?;
        let late = parents.cache.all(|parent| is_late.has(parent) && self.works_for(&parent.key));
        let awaited = |oldest: &Object| self.recall(oldest).awaited;
        Deleting::of(&late, unix_seconds(), awaited)
    }

    /// Stores the state of a parent.
    pub fn remember(&self, key: &Key, state: ParentState) {
        self.states.lock().insert(key.clone(), state);
    }

    /// Forgets a parent that is gone.
    pub fn forget(&self, key: &Key) {
        self.states.lock().remove(key);
        self.deselected.lock().remove(key);
        self.needed.keep(key, &[]);
        self.decisions.forget(key);
    }

    /// Returns the keys of all parents whose state is kept.
    pub fn remembered(&self) -> Vec<Key> {
        self.states.lock().keys().cloned().collect()
    }

    /// Notes that an object is gone, or has lost the labels that make it a parent.
    pub fn note_deselected(&self, key: Key) {
        self.deselected.lock().insert(key);
    }

    /// Returns whether an object may no longer be a parent, and may still carry what was written while it was one.
    pub fn is_deselected(&self, key: &Key) -> bool {
        self.deselected.lock().contains(key)
    }

    /// Returns whether to log a line with a message of so many bytes. A line that is not logged is counted as dropped.
    pub fn may_log(&self, lines: &LogLines, bytes: usize) -> bool {
        let is_allowed = lines.allows(bytes);
        if !is_allowed {
            self.note_dropped(lines, 1);
        }
        is_allowed
    }

    /// Counts dropped lines, and logs now and then how many there were.
    pub fn note_dropped(&self, lines: &LogLines, count: u32) {
        if count == 0 {
            return;
        }
        self.metrics.lines_dropped(&self.name, count.into());
        if let Some(dropped) = lines.limit.dropped(count.into(), Instant::now()) {
            tracing::warn!(dropped, "{}", lines.excess);
        }
    }
}
