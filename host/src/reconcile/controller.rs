//! The controller of one plugin: its active revision, its queue, and what is remembered of each parent between
//! two reconciles.

use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use tracing::field::{DisplayValue, display};

use crate::cluster::apply::Writer;
use crate::cluster::discovery::Kinds;
use crate::cluster::error::ApiError;
use crate::cluster::events;
use crate::cluster::events::Recorder;
use crate::cluster::shards::{Shards, Turn};
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::canary::{Canary, CanarySlot};
use crate::reconcile::judgement::Judgement;
use crate::reconcile::observe::unix_millis;
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::queue::Queue;
use crate::reconcile::slot::Slot;
use crate::sandbox::revision::Revision;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::swap_timer::FirstDecision;
use hotshoe_core::diff::associative_lists::AssociativeLists;
use hotshoe_core::flow::circuit_breaker::{Breaker, Trial, Turned};
use hotshoe_core::flow::probation::Probation;
use hotshoe_core::flow::rate_limit::OutputLimit;
use hotshoe_core::flow::unanswered::Held;
use hotshoe_core::flow::write_verdict::Written;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::{EVENTS_AT_ONCE, EVENTS_PER_SECOND, LOGGED_AT_ONCE, LOGGED_PER_SECOND};
use hotshoe_core::model::object::{Key, Object};

/// The share of a plugin's parents for which this host works.
pub struct Share {
    /// The shards that it holds.
    pub shards: Arc<Shards>,
    /// The shard of all parents of the plugin; none where they are spread over the shards.
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
    /// Where Events go.
    pub recorder: Recorder,
    /// Limits the plugin's Events.
    pub events: OutputLimit,
    /// Limits the host's Events about the plugin: no plugin hides its failures behind its Events.
    pub failures: OutputLimit,
    /// Limits the bytes of its log lines.
    pub lines: OutputLimit,
    /// Limits the bytes of the host's lines about what it does for the plugin.
    pub act_lines: OutputLimit,
    /// Limits the bytes of the host's lines about its failures: no plugin hides these behind its own lines.
    pub failure_lines: OutputLimit,
    /// What is known of kinds.
    pub kinds: Arc<Kinds>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The parents for which this host works.
    pub share: Share,
    /// The active revision.
    pub slot: Slot<ActiveRevision>,
    /// The one that decides for some parents beside it.
    pub canary: CanarySlot,
    /// Whether the active revision has decided yet.
    pub first_decision: FirstDecision,
    /// Whether it may be called.
    pub breaker: Breaker,
    /// Whether the active revision does worse than the one before it.
    pub judgement: Judgement,
    /// Whether an administrator wants nothing to be reconciled.
    paused: AtomicBool,
    /// The writes without an answer that are held against it.
    pub held: Mutex<Held>,
    /// Keys the fingerprints, so that no object of the cluster can be made to collide.
    pub hasher: RandomState,
    /// Whether the parents' conditions are one value to the API server, and so have one owner: what others said
    /// there leaves no room for the host's.
    pub whole_conditions: AtomicBool,
    /// What replies to applies have shown of the lists of children.
    pub associative_lists: Arc<RwLock<AssociativeLists>>,
    /// How often labels of namespaces have changed that a rule of the grant looks at.
    pub relabelled: AtomicU64,
    states: Mutex<HashMap<Key, ParentState>>,
    /// Objects that may no longer be parents, until it is known that nothing of ours is left in them.
    left: Mutex<HashSet<Key>>,
}

impl Controller {
    /// Creates a controller without an active revision.
    pub fn new(
        name: Arc<str>,
        writer: Writer,
        recorder: Recorder,
        kinds: Arc<Kinds>,
        metrics: Arc<Metrics>,
        share: Share,
    ) -> Self {
        Self {
            name,
            share,
            queue: Queue::default(),
            writer,
            recorder,
            events: OutputLimit::new(EVENTS_PER_SECOND, EVENTS_AT_ONCE),
            failures: OutputLimit::new(EVENTS_PER_SECOND, EVENTS_AT_ONCE),
            lines: OutputLimit::new(LOGGED_PER_SECOND, LOGGED_AT_ONCE),
            act_lines: OutputLimit::new(LOGGED_PER_SECOND, LOGGED_AT_ONCE),
            failure_lines: OutputLimit::new(LOGGED_PER_SECOND, LOGGED_AT_ONCE),
            kinds,
            metrics,
            slot: Slot::default(),
            canary: CanarySlot::default(),
            first_decision: FirstDecision::default(),
            breaker: Breaker::default(),
            judgement: Judgement::default(),
            paused: AtomicBool::new(false),
            held: Mutex::default(),
            hasher: RandomState::new(),
            whole_conditions: AtomicBool::new(false),
            associative_lists: Arc::default(),
            relabelled: AtomicU64::new(0),
            states: Mutex::default(),
            left: Mutex::default(),
        }
    }

    /// Returns the revision that a reconcile starting now works with.
    pub fn active(&self) -> Option<Arc<ActiveRevision>> {
        self.slot.current()
    }

    /// Returns the revision that decides about a parent: the active one, or its canary.
    pub fn deciding(&self, key: &Key) -> Option<Arc<ActiveRevision>> {
        // The canary first: once it is activated it is no canary any more, and the active one read before that would
        // decide about its parents once more.
        let canary = self.canary.current();
        let is_its = |canary: &Arc<Canary>| {
            let parent = canary.revision.parents.watch.cache.get(key);
            parent.is_some_and(|parent| canary.has(&parent))
        };
        canary.filter(is_its).map(|canary| canary.revision.clone()).or_else(|| self.active())
    }

    /// Begins a reconcile of a parent; none where another host works for it.
    pub fn enter(&self, key: &Key) -> Option<Turn> {
        self.share.shards.enter(self.shard_of(key))
    }

    /// Returns whether this host works for a parent.
    pub fn works_for(&self, key: &Key) -> bool {
        self.share.shards.permit(self.shard_of(key)).is_some()
    }

    fn shard_of(&self, key: &Key) -> usize {
        self.share.one.unwrap_or_else(|| self.share.shards.of_parent(key))
    }

    /// Follows which shards this host holds, for as long as it runs. All parents of one that it has now are looked at,
    /// and what is remembered of those of another is forgotten: it is not followed any more.
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
                    self.changed_hands(shard, term);
                }
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn changed_hands(&self, shard: usize, term: Option<u64>) {
        let is_of_shard = |key: &Key| self.shard_of(key) == shard;
        self.states.lock().retain(|key, state| !is_of_shard(key) || Some(state.term) == term);
        if term.is_some() {
            let parents = self.active().map(|active| active.parents.watch.cache.keys()).unwrap_or_default();
            let left: Vec<Key> = self.left.lock().iter().cloned().collect();
            parents.into_iter().chain(left).filter(is_of_shard).for_each(|key| self.queue.add(key));
        }
    }

    /// Pauses the plugin, or has it go on with every parent.
    pub fn pause(&self, paused: bool) {
        if self.paused.swap(paused, Ordering::Relaxed) && !paused {
            self.left.lock().iter().for_each(|key| self.queue.add(key.clone()));
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

    /// Replaces what describes the active revision and its canary, and requeues every parent.
    pub fn redefine(&self, active: Arc<ActiveRevision>, canary: Option<Arc<Canary>>) {
        self.canary.breaker.reset();
        self.replace(active, canary);
    }

    /// Has a canary decide for its share, and requeues every parent: one of others has nothing to do.
    pub fn begin_canary(&self, canary: Arc<Canary>) {
        self.metrics.decides_too(&self.name, &canary.revision.revision);
        self.canary.replace(Some(canary));
        self.decide_all_again();
    }

    /// Ends the canary, so that the active revision decides for its parents, too. Returns it.
    pub fn end_canary(&self) -> Option<Arc<Canary>> {
        let ended = self.canary.replace(None)?;
        self.canary.judgement.probation.end();
        self.decide_all_again();
        Some(ended)
    }

    fn replace(&self, active: Arc<ActiveRevision>, canary: Option<Arc<Canary>>) {
        self.breaker.reset();
        self.whole_conditions.store(false, Ordering::Relaxed);
        self.metrics.decides(&self.name, &active.revision);
        if self.active().is_some() {
            self.slot.publish(active);
            self.set_canary(canary);
            return self.decide_all_again();
        }
        // At the start all wait alike. In a sweep, parents that our own writes wake would go before those that
        // were never decided.
        let parents = active.parents.watch.clone();
        self.slot.publish(active);
        parents.cache.keys().into_iter().for_each(|key| self.queue.add(key));
    }

    fn set_canary(&self, canary: Option<Arc<Canary>>) {
        if canary.is_none() {
            self.canary.judgement.probation.end();
        }
        self.canary.replace(canary);
    }

    /// Records an answer of a revision. The first one after its activation ends the swap.
    pub fn answered(&self, revision: &Revision) {
        if let Some(stopwatch) = self.first_decision.decided(revision.digest()) {
            self.metrics.swapped(&self.name, &stopwatch);
        }
    }

    /// Counts a good call with the circuit breaker.
    pub fn passed(&self, trial: Trial<'_>) {
        self.end_trial(trial, Trial::passed);
    }

    /// Counts what became of a decision's writes with the circuit breaker.
    pub fn written(&self, trial: Trial<'_>, written: Written) {
        self.end_trial(trial, |trial| written.verdict().report(trial, Instant::now()));
    }

    /// Holds a write without an answer against the plugin.
    pub fn hold(&self, error: &ApiError) {
        let (plugin, object) = (&*self.name, &*error.target);
        tracing::warn!(
            plugin,
            object,
            "a write had no answer in time while the API server answers others; it counts against the plugin"
        );
        self.metrics.unanswered(plugin);
        self.held.lock().add(object, Instant::now());
    }

    fn closed(&self, decided: Option<&ActiveRevision>) {
        tracing::info!(
            plugin = &*self.name,
            digest = digest_of(decided),
            "the plugin decides again: the circuit is closed"
        );
        self.decide_all_again();
    }

    /// Counts a bad call with the circuit breaker.
    pub fn failed(&self, trial: Trial<'_>) {
        self.end_trial(trial, |trial| trial.failed(Instant::now()));
    }

    /// Counts a call that used up its time with the circuit breaker.
    pub fn overdue(&self, trial: Trial<'_>) {
        self.end_trial(trial, |trial| trial.overdue(Instant::now()));
    }

    fn end_trial<'a>(&self, trial: Trial<'a>, end: impl FnOnce(Trial<'a>) -> Turned) {
        // None where the trial was of a canary that has ended.
        let decided = match trial.is_of(&self.canary.breaker) {
            true => self.canary.current().map(|canary| canary.revision.clone()),
            false => self.active(),
        };
        match end(trial) {
            Turned::No => {}
            Turned::Closed => self.closed(decided.as_deref()),
            Turned::Open(period) => self.opened(decided.as_deref(), period),
        }
    }

    /// Returns the circuit breaker of a revision.
    pub fn breaker_of(&self, digest: Digest) -> &Breaker {
        if self.canary.is(digest) { &self.canary.breaker } else { &self.breaker }
    }

    fn opened(&self, decided: Option<&ActiveRevision>, period: Duration) {
        tracing::error!(
            plugin = &*self.name,
            digest = digest_of(decided),
            ?period,
            "the plugin fails too often and is not called for a while: the circuit is open"
        );
        self.metrics.opened(&self.name);
        if let Some(decided) = decided {
            let digest = decided.revision.digest();
            self.judge(digest, |probation| probation.circuit_opened(Instant::now(), digest));
            decided.revision.forget_waiting();
        }
    }

    /// Notes with the judgement of a revision what it did, and wakes the rollout where that came to a new verdict. A canary is
    /// compared with what the active revision has done until now.
    pub fn judge(&self, digest: Digest, note: impl FnOnce(&Probation) -> bool) {
        if self.canary.is(digest) {
            self.canary.judgement.probation.compare_with(self.judgement.probation.known());
            self.canary.judgement.note(note);
        } else {
            self.judgement.note(note);
        }
    }

    /// Requeues every parent.
    pub fn decide_all_again(&self) {
        let Some(active) = self.active() else { return };
        self.queue.sweep(active.parents.watch.cache.keys());
    }

    /// What is remembered of a parent, as long as it is the same object.
    pub fn recall(&self, parent: &Object) -> ParentState {
        let states = self.states.lock();
        let known = states.get(&parent.key).filter(|state| state.uid == parent.uid);
        known.cloned().unwrap_or_else(|| ParentState::new(parent))
    }

    /// How many parents fail, and of how many others children are refused.
    pub fn in_trouble(&self) -> (usize, usize) {
        let states = self.states.lock();
        let failing = states.values().filter(|state| state.failures > 0).count();
        let refused = states.values().filter(|state| state.failures == 0 && !state.refused.is_empty()).count();
        (failing, refused)
    }

    /// The parents that are stalled: how many, and the first of them.
    pub fn stalled(&self) -> Option<Stalled> {
        let states = self.states.lock();
        let of_state = |(key, state): (&Key, &ParentState)| {
            let stalled = state.tries.stalled()?;
            Some(StalledParent {
                object: key.to_string(),
                tries: state.tries.made(),
                reason: stalled.reason.to_owned(),
            })
        };
        let mut parents: Vec<_> = states.iter().filter_map(of_state).collect();
        drop(states);
        parents.sort_by(|a, b| a.object.cmp(&b.object));
        let count = parents.len();
        parents.truncate(STALLED_SHOWN);
        (count > 0).then_some(Stalled { count, parents })
    }

    /// The parents that have been deleting for longer than a minute: how many, and the oldest.
    pub fn deleting(&self) -> Option<Deleting> {
        let parents = self.active()?.parents.watch.clone();
        let since = |parent: Arc<Object>| Some((deletion_time(&parent)?, parent));
        let is_ours = |parent: &Object| parent.deleting && self.works_for(&parent.key);
        let latest = events::at(unix_seconds() - DELETING)?;
        let deleting: Vec<_> = parents.cache.all(is_ours).into_iter().filter_map(since).collect();
        let late: Vec<_> = deleting.into_iter().filter(|(since, _)| *since <= latest).collect();
        let (since, oldest) = late.iter().min_by(|(a, x), (b, y)| (a, &x.key).cmp(&(b, &y.key)))?;
        let awaited = self.recall(oldest).awaited.as_deref().map_or_else(|| others(oldest), str::to_owned);
        let seconds = u64::try_from(unix_seconds() - events::seconds(since)?).unwrap_or_default();
        Some(Deleting { count: late.len(), oldest: oldest.key.to_string(), seconds, reason: awaited })
    }

    /// Remembers.
    pub fn remember(&self, key: &Key, state: ParentState) {
        self.states.lock().insert(key.clone(), state);
    }

    /// The parent is gone.
    pub fn forget(&self, key: &Key) {
        self.states.lock().remove(key);
        self.left.lock().remove(key);
    }

    /// Returns the keys of all parents of which anything is remembered.
    pub fn remembered(&self) -> Vec<Key> {
        self.states.lock().keys().cloned().collect()
    }

    /// Notes that an object is gone, or has lost the labels that make it a parent.
    pub fn note_left(&self, key: Key) {
        self.left.lock().insert(key);
    }

    /// Returns whether an object may no longer be a parent and still have what was written while it was one.
    pub fn has_left(&self, key: &Key) -> bool {
        self.left.lock().contains(key)
    }
}

/// Returns the digest of a revision, for a log line.
fn digest_of(decided: Option<&ActiveRevision>) -> Option<DisplayValue<Digest>> {
    decided.map(|decided| display(decided.revision.digest()))
}

/// So many parents that are stalled are shown by name.
const STALLED_SHOWN: usize = 10;

/// Parents that are not tried again before something changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stalled {
    /// How many.
    pub count: usize,
    /// The first of them, by name.
    pub parents: Vec<StalledParent>,
}

/// A parent that is not tried again before something changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StalledParent {
    /// Which.
    pub object: String,
    /// How often it was tried.
    pub tries: u32,
    /// Why the last try failed, in one word.
    pub reason: String,
}

/// Deletions that last longer than this are shown, seconds.
const DELETING: i64 = 60;

/// Parents with a long deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleting {
    /// How many.
    pub count: usize,
    /// The one that has been waiting longest.
    pub oldest: String,
    /// For how many seconds.
    pub seconds: u64,
    /// What it waits for.
    pub reason: String,
}

/// When the deletion of a parent began.
fn deletion_time(parent: &Object) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        deletion_timestamp: String,
    }
    serde_json::from_str(&parent.body).ok().map(|Body { metadata }| metadata.deletion_timestamp)
}

fn others(parent: &Object) -> String {
    format!("it was not decided yet; it holds {}", parent.finalizers.join(", "))
}

fn unix_seconds() -> i64 {
    i64::try_from(unix_millis() / 1000).unwrap_or(i64::MAX)
}
