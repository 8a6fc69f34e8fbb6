//! Keeps the Leases of a host: one for each shard, in the namespace of the host.
//!
//! ```text
//! watch of the Leases ─▶ what was seen ─▶ next step ─▶ request ─▶ the permit of the shard
//! ```
//!
//! [`hotshoe_core::flow::lease`] decides; here are the requests. A Lease that is held here is renewed by one request
//! every three seconds, and one of another host costs none beyond the watch. Where there are several shards, a host
//! that holds at least two fewer than another asks that one for a shard, in an annotation of its Lease, and the other
//! gives one up: it lets what runs in that shard end, and releases the Lease.
//!
//! Deleting or editing a Lease by hand is survived, but the API server knows no fencing: a write that had left in time
//! may arrive late.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::api::Api;
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::client::{ApiCall, Cluster, chain};
use crate::cluster::error::{APPLY_RIGHTS, ApiError};
use crate::cluster::events::Recorder;
use crate::cluster::lease_object::{self, GROUP, Holder};
use crate::cluster::shards::Shards;
use crate::cluster::watch::{Backoff, WATCH_SECONDS, code};
use hotshoe_core::flow::lease::{Failure, Lease, RENEW, Sighting, Step};
use hotshoe_core::flow::shards;
use hotshoe_core::model::parent_label::parent_label;

/// The longest that one request may take, so that there is time for another before the Lease ends.
const REQUEST: Duration = Duration::from_secs(4);
/// The longest that each of the last requests of a host may take.
const LAST: Duration = Duration::from_secs(2);
/// How long Events of a shard that is given up may take to be written.
const LAST_EVENTS: Duration = Duration::from_secs(1);
/// How long a host waits for a shard that it asked for, before it asks again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which Leases a host keeps, and what it writes into them.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// The namespace of the host.
    pub namespace: String,
    /// The name of the Lease, to which the number of the shard is added where there are several.
    pub name: String,
    /// How many shards there are.
    pub shards: usize,
    /// The plugins of this host.
    pub plugins: Vec<String>,
    /// Those whose parents are spread over the shards, each by itself.
    pub spread: Vec<String>,
}

/// The Leases of a host.
pub struct Leases {
    /// None where the host is the only one.
    keeper: Option<Arc<Keeper>>,
    tasks: Mutex<Vec<AbortOnDropHandle<()>>>,
    shards: Arc<Shards>,
}

/// How a Lease is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseStatus {
    /// Its namespace and name.
    pub name: String,
    /// Whether this host holds it, and writes.
    pub held: bool,
    /// Who holds it, this host included.
    pub holder: Option<String>,
    /// The seconds until another host may take it, unless it is renewed.
    pub seconds: Option<u64>,
    /// What is wrong with it, and what to do about that.
    pub problem: Option<String>,
    /// Whether it cannot be used before an administrator does something.
    pub unusable: bool,
}

/// What is wrong with a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    text: String,
    /// Whether it does not pass by itself.
    stays: bool,
}

struct Keeper {
    cluster: Cluster,
    settings: LeaseSettings,
    holder: Holder,
    shards: Arc<Shards>,
    slots: Vec<Slot>,
    /// Leases of the group that are no shard of this host's: of hosts that spread the parents differently.
    others: Mutex<HashMap<String, (Sighting, String)>>,
    /// What is wrong with the watch.
    watch_problem: Mutex<Option<Problem>>,
    /// Changed with everything that is seen.
    news: watch::Sender<()>,
    recorder: Recorder,
    /// When this host last asked another for a shard.
    asked: Mutex<Option<Instant>>,
}

/// One Lease.
struct Slot {
    name: String,
    state: Mutex<State>,
}

struct State {
    lease: Lease,
    /// The object as it was seen last.
    object: Option<Object>,
    problem: Option<Problem>,
    /// Whether it is being given up.
    ends: bool,
    /// The other holder that the log has named.
    named: Option<Arc<str>>,
}

/// What a keeper does next about one Lease.
enum Next {
    Wait(Option<Instant>),
    /// For another host, where that has asked for it.
    GiveUp(Option<Arc<str>>),
    Ask(Step),
}

impl LeaseSettings {
    /// Describes how parents are spread, which hosts that work side by side must agree on.
    fn sharding(&self) -> String {
        match self.shards {
            0 | 1 => "1".to_owned(),
            shards => {
                let mut spread = self.spread.clone();
                spread.sort_unstable();
                std::iter::once(shards.to_string()).chain(spread).collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn name_of(&self, shard: usize) -> String {
        if self.shards > 1 { format!("{}-{shard}", self.name) } else { self.name.clone() }
    }
}

/// Returns the name of this process among all hosts: that of its machine, or Pod, and a random part.
fn identity() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = if name.trim().is_empty() { "host" } else { name.trim() };
    format!("{name}_{:08x}", RandomState::new().hash_one(std::process::id()) & 0xffff_ffff)
}

impl Leases {
    /// Returns those of a host that is the only one: none.
    pub fn none() -> Self {
        Self { keeper: None, tasks: Mutex::default(), shards: Arc::new(Shards::alone()) }
    }

    /// Begins to keep Leases.
    pub fn keep(cluster: Cluster, settings: LeaseSettings, recorder: Recorder) -> Self {
        let shards = Arc::new(Shards::new(settings.shards));
        let holder = Holder {
            identity: identity().into(),
            group: parent_label(&settings.name),
            sharding: settings.sharding(),
            plugins: settings.plugins.join(" "),
        };
        let slot = |shard| Slot {
            name: settings.name_of(shard),
            state: Mutex::new(State {
                lease: Lease::new(holder.identity.clone()),
                object: None,
                problem: None,
                ends: false,
                named: None,
            }),
        };
        let slots = (0..shards.count()).map(slot).collect();
        let keeper = Arc::new(Keeper {
            cluster,
            settings,
            holder,
            shards: shards.clone(),
            slots,
            others: Mutex::default(),
            watch_problem: Mutex::default(),
            news: watch::Sender::new(()),
            recorder,
            asked: Mutex::default(),
        });
        let mut tasks = vec![tokio::spawn(follow(keeper.clone()))];
        tasks.extend((0..shards.count()).map(|shard| tokio::spawn(keep(keeper.clone(), shard))));
        if shards.count() > 1 {
            tasks.push(tokio::spawn(balance(keeper.clone())));
        }
        let tasks = tasks.into_iter().map(AbortOnDropHandle::new).collect();
        Self { keeper: Some(keeper), tasks: Mutex::new(tasks), shards }
    }

    /// Returns the shards that they are about.
    pub fn shards(&self) -> Arc<Shards> {
        self.shards.clone()
    }

    /// Returns whether this host knows of others by Leases.
    pub fn are_kept(&self) -> bool {
        self.keeper.is_some()
    }

    /// Returns how each Lease is; nothing where there is none.
    pub fn status(&self) -> Vec<LeaseStatus> {
        let Some(keeper) = &self.keeper else { return Vec::new() };
        (0..keeper.slots.len()).map(|shard| keeper.status(shard)).collect()
    }

    /// Returns who writes for a shard instead of this host; none where it is this one.
    pub fn standing_by(&self, shard: usize) -> Option<String> {
        let status = self.keeper.as_ref().filter(|keeper| shard < keeper.slots.len())?.status(shard);
        let LeaseStatus { name, held, holder, problem, .. } = status;
        if held {
            return None;
        }
        Some(match (problem, holder) {
            (Some(problem), _) => format!("nothing is written: {problem}"),
            (None, Some(holder)) => format!("stands by: {holder} holds the Lease {name}"),
            (None, None) => format!("stands by until it holds the Lease {name}"),
        })
    }

    /// Ends the renewals and gives the Leases up, so that another host has them at once. Only where nothing that was
    /// begun under them still runs.
    pub async fn release(&self) {
        self.tasks.lock().clear();
        let Some(keeper) = &self.keeper else { return };
        join_all((0..keeper.slots.len()).map(|shard| keeper.release(shard, None, LAST))).await;
    }
}

/// Follows all Leases of the group.
async fn follow(keeper: Arc<Keeper>) {
    let api: Api<Object> = Api::namespaced(keeper.cluster.client.clone(), &keeper.settings.namespace);
    let selector = format!("{GROUP}={}", keeper.holder.group);
    let config = watcher::Config::default().labels(&selector).timeout(WATCH_SECONDS);
    let (mut events, mut listed, mut backoff) = (watcher(api, config).boxed(), HashSet::new(), Backoff::default());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if !matches!(event, Event::Init) {
                    *keeper.watch_problem.lock() = None;
                }
                keeper.observe(event, &mut listed);
            }
            Err(error) => {
                keeper.note_watch_problem(&error);
                backoff.wait().await;
            }
        }
        keeper.news.send_replace(());
    }
}

/// Keeps the Lease of one shard.
async fn keep(keeper: Arc<Keeper>, shard: usize) {
    match keep_for_ever(&keeper, shard).await {}
}

async fn keep_for_ever(keeper: &Keeper, shard: usize) -> Infallible {
    let mut news = keeper.news.subscribe();
    loop {
        news.mark_unchanged();
        match keeper.next(shard, Instant::now()) {
            Next::Ask(step) => keeper.ask(shard, step).await,
            Next::GiveUp(to) => keeper.give_up(shard, to.as_deref()).await,
            Next::Wait(until) => {
                let due = async {
                    match until {
                        Some(until) => tokio::time::sleep_until(until.into()).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    // The sender is the keeper's, so it cannot be gone.
                    _ = news.changed() => {}
                    () = due => {}
                }
            }
        }
    }
}

/// Asks other hosts for shards, as long as one of them has at least two more.
async fn balance(keeper: Arc<Keeper>) {
    loop {
        tokio::time::sleep(RENEW).await;
        if let Some(shard) = keeper.wants(Instant::now()) {
            keeper.ask_for(shard).await;
        }
    }
}

impl Keeper {
    fn slot_of(&self, object: &Object) -> Option<(usize, &Slot)> {
        let name = object.metadata.name.as_deref()?;
        self.slots.iter().enumerate().find(|(_, slot)| slot.name == name)
    }

    fn observe(&self, event: Event<Object>, listed: &mut HashSet<String>) {
        let now = Instant::now();
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                listed.extend(object.metadata.name.clone());
                self.see(object, now);
            }
            Event::Apply(object) => self.see(object, now),
            Event::Delete(object) => self.see_deleted(&object, now),
            Event::InitDone => {
                self.others.lock().retain(|name, _| listed.contains(name));
                for (shard, slot) in self.slots.iter().enumerate().filter(|(_, slot)| !listed.contains(&slot.name)) {
                    let mut state = slot.state.lock();
                    state.lease.unlisted(now);
                    self.settle(shard, &mut state, now);
                }
            }
        }
    }

    fn see(&self, object: Object, now: Instant) {
        let record = lease_object::record(&object);
        let Some((shard, slot)) = self.slot_of(&object) else { return self.see_other(&object, now) };
        let mut state = slot.state.lock();
        if state.object.as_ref().is_none_or(|known| lease_object::version(known) < record.version) {
            state.object = Some(object);
        }
        state.lease.watched(record, now);
        self.settle(shard, &mut state, now);
    }

    fn see_other(&self, object: &Object, now: Instant) {
        let (Some(name), Some(sharding)) = (object.metadata.name.clone(), lease_object::sharding(object)) else {
            return;
        };
        let record = Some(lease_object::record(object));
        let mut others = self.others.lock();
        match others.get_mut(&name) {
            Some((seen, said)) => {
                seen.see(record, &self.holder.identity, now);
                sharding.clone_into(said);
            }
            None => drop(others.insert(name, (Sighting::first(record, now), sharding.to_owned()))),
        }
    }

    fn see_deleted(&self, object: &Object, now: Instant) {
        match self.slot_of(object) {
            Some((shard, slot)) => {
                let mut state = slot.state.lock();
                let version = lease_object::version(object);
                if state.object.as_ref().is_none_or(|known| lease_object::version(known) <= version) {
                    state.object = None;
                }
                state.lease.deleted(version, now);
                self.settle(shard, &mut state, now);
            }
            None => drop(object.metadata.name.as_ref().and_then(|name| self.others.lock().remove(name))),
        }
    }

    /// Makes the permit of a shard what its Lease says, and logs who works for it where that has changed.
    fn settle(&self, shard: usize, state: &mut State, now: Instant) {
        let name = self.full_name(shard);
        match state.lease.deadline().filter(|_| state.lease.is_held(now)) {
            Some(deadline) => {
                if self.shards.hold(shard, state.lease.term(), deadline) {
                    (state.ends, state.named) = (false, None);
                    tracing::info!(lease = name, host = &*self.holder.identity, "this host holds the Lease, and works");
                }
            }
            None => {
                if self.shards.lose(shard) {
                    state.ends = false;
                    tracing::warn!(
                        lease = name,
                        "this host no longer holds the Lease, so it writes nothing; it stands by with full caches until it has it again"
                    );
                }
                self.name_holder(&name, state, now);
            }
        }
    }

    /// Logs once that another host works.
    fn name_holder(&self, lease: &str, state: &mut State, now: Instant) {
        let holder = state.lease.seen().and_then(|seen| seen.live_holder(now)).cloned();
        let Some(holder) = holder.filter(|holder| **holder != *self.holder.identity) else { return };
        if state.named.as_ref() == Some(&holder) {
            return;
        }
        tracing::info!(lease, holder = &*holder, "another host holds the Lease; this one stands by");
        if let Some(lacking) = state.object.as_ref().and_then(|object| self.lacking(object)) {
            tracing::warn!(lease, holder = &*holder, "{lacking}");
        }
        state.named = Some(holder);
    }

    /// Returns what to do where the holder of a Lease does not work for all plugins of this host.
    fn lacking(&self, object: &Object) -> Option<String> {
        let theirs: HashSet<&str> = lease_object::plugins(object)?.split(' ').collect();
        let lacking = self.settings.plugins.iter().filter(|plugin| !theirs.contains(plugin.as_str()));
        let lacking: Vec<&str> = lacking.map(String::as_str).collect();
        (!lacking.is_empty()).then(|| {
            format!(
                "the host that holds it does not run {}, so nothing is done for it meanwhile: give all hosts of a Lease the same plugins, or this one a Lease of its own with --lease-name",
                lacking.join(", ")
            )
        })
    }

    fn next(&self, shard: usize, now: Instant) -> Next {
        let (holders, conflicting) = (self.holders(now), self.conflicting(now));
        let Some(slot) = self.slots.get(shard) else { return Next::Wait(None) };
        let mut state = slot.state.lock();
        self.settle(shard, &mut state, now);
        let is_held = state.lease.is_held(now);
        if let Some((name, until, yields)) = conflicting {
            if is_held && yields && !state.ends {
                state.ends = true;
                return Next::GiveUp(None);
            }
            let text = format!(
                "another host spreads the parents over shards in another way, by the Lease {name}: stop all hosts before you change --shards, or spec.shardBy of a plugin, and start them again"
            );
            self.note_problem(shard, &mut state, Some(Problem { text, stays: false }));
            if !is_held {
                return Next::Wait(Some(until));
            }
        }
        let wanted_by = state.lease.seen().and_then(Sighting::record).and_then(|record| record.wanted_by.clone());
        if let Some(to) = wanted_by.filter(|_| is_held && !state.ends) {
            let holders: Vec<Option<&str>> = holders.iter().map(Option::as_deref).collect();
            if shards::gives_up(&holders, &self.holder.identity, &to) {
                state.ends = true;
                return Next::GiveUp(Some(to));
            }
        }
        let held = holders.iter().filter(|holder| holder.as_ref() == Some(&self.holder.identity)).count();
        match state.lease.next(held, now) {
            Step::Wait(until) => Next::Wait(until),
            step => Next::Ask(step),
        }
    }

    /// Returns who holds each shard and has not let it expire.
    fn holders(&self, now: Instant) -> Vec<Option<Arc<str>>> {
        let holder = |slot: &Slot| slot.state.lock().lease.seen().and_then(|seen| seen.live_holder(now)).cloned();
        self.slots.iter().map(holder).collect()
    }

    /// Returns the Lease of a host that spreads the parents in another way, when it is to be looked at again, and
    /// whether it is this host that ends where both began at once.
    fn conflicting(&self, now: Instant) -> Option<(String, Instant, bool)> {
        let others = self.others.lock();
        let mut live = others
            .iter()
            .filter(|(_, (seen, sharding))| *sharding != self.holder.sharding && seen.live_holder(now).is_some());
        let named =
            live.next().map(|(name, (seen, theirs))| (name.clone(), seen.free_from(), *theirs < self.holder.sharding));
        drop(others);
        named.or_else(|| self.conflicting_shard(now))
    }

    /// The same among those that have the names of this host's shards.
    fn conflicting_shard(&self, now: Instant) -> Option<(String, Instant, bool)> {
        self.slots.iter().find_map(|slot| {
            let state = slot.state.lock();
            let seen = state.lease.seen()?;
            seen.live_holder(now)?;
            let theirs = lease_object::sharding(state.object.as_ref()?)?;
            let own = self.holder.sharding.as_str();
            (theirs != own).then(|| (slot.name.clone(), seen.free_from(), theirs < own))
        })
    }

    /// Makes one request about a Lease.
    async fn ask(&self, shard: usize, step: Step) {
        let Some(slot) = self.slots.get(shard) else { return };
        let (object, left) = {
            let state = slot.state.lock();
            let left = state.lease.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
            (state.object.clone(), left)
        };
        let before = object.as_ref().filter(|_| step != Step::Create);
        let held = lease_object::held(before, &self.settings.namespace, &slot.name, &self.holder);
        // A renewal that is late is of no use; but then the next one is an attempt to have the Lease again.
        let timeout = left.filter(|left| !left.is_zero()).map_or(REQUEST, |left| left.min(REQUEST));
        let sent = Instant::now();
        let result = self.send(shard, step, &held, timeout).await;
        let now = Instant::now();
        let mut state = slot.state.lock();
        let problem = match result {
            Ok(object) => {
                let record = lease_object::record(&object);
                match step {
                    Step::Read => state.lease.read(Some(record), now),
                    step => state.lease.accepted(step, record, sent, now),
                }
                state.object = Some(object);
                None
            }
            Err(error) if step == Step::Read && error.is_gone() => {
                state.lease.read(None, now);
                state.object = None;
                None
            }
            Err(error) => {
                let failure = failure(step, &error);
                state.lease.failed(failure, now);
                (failure != Failure::Conflict).then(|| self.problem(&error, failure))
            }
        };
        self.settle(shard, &mut state, now);
        self.note_problem(shard, &mut state, problem);
        drop(state);
        self.news.send_replace(());
    }

    async fn send(&self, shard: usize, step: Step, object: &Object, timeout: Duration) -> Result<Object, ApiError> {
        let (verb, method) = match step {
            Step::Create => ("create", Method::POST),
            Step::Take => ("take", Method::PUT),
            Step::Renew => ("renew", Method::PUT),
            Step::Read | Step::Wait(_) => ("read", Method::GET),
        };
        self.send_as(shard, (verb, method), object, timeout).await
    }

    async fn send_as(
        &self,
        shard: usize,
        (verb, method): (&'static str, Method),
        object: &Object,
        timeout: Duration,
    ) -> Result<Object, ApiError> {
        let target = format!("the Lease {}", self.full_name(shard));
        let unreadable = |error: serde_json::Error| {
            ApiError::new(verb, target.clone(), 0, "Unreadable", format!("the reply cannot be read: {error}"))
        };
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.settings.namespace);
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let call = ApiCall {
            verb,
            target: &target,
            uri: if method == Method::POST { leases } else { format!("{leases}/{name}") },
            body: if method == Method::GET { Vec::new() } else { serde_json::to_vec(object).map_err(unreadable)? },
            method,
            content_type: "application/json",
        };
        let reply = self.cluster.send_for_lease(call, timeout).await?;
        serde_json::from_str(&reply).map_err(unreadable)
    }

    /// Lets what runs in a shard end, and gives it to the host that asked for it. The Lease is renewed meanwhile.
    async fn give_up(&self, shard: usize, to: Option<&str>) {
        if let Some(to) = to {
            tracing::info!(lease = self.full_name(shard), to, "another host holds fewer shards; it gets this one");
        }
        let drained = async {
            self.shards.drain(shard).await;
            drop(tokio::time::timeout(LAST_EVENTS, self.recorder.flush()).await);
        };
        let mut drained = std::pin::pin!(drained);
        loop {
            let due = match self.next(shard, Instant::now()) {
                Next::Ask(step) => {
                    self.ask(shard, step).await;
                    continue;
                }
                Next::Wait(until) => until.map_or(RENEW, |until| until.saturating_duration_since(Instant::now())),
                Next::GiveUp(_) => RENEW,
            };
            // It was lost, or is another one by now.
            if self.slots.get(shard).is_none_or(|slot| !slot.state.lock().ends) {
                return;
            }
            if tokio::time::timeout(due, &mut drained).await.is_ok() {
                break;
            }
        }
        self.release(shard, to, REQUEST).await;
        self.news.send_replace(());
    }

    /// Gives a Lease up that is held.
    async fn release(&self, shard: usize, to: Option<&str>, timeout: Duration) {
        let Some(slot) = self.slots.get(shard) else { return };
        let object = {
            let mut state = slot.state.lock();
            // Where another may still write that had it before, it is no release of that one's.
            let is_held = state.lease.is_held(Instant::now());
            state.lease.end();
            self.shards.lose(shard);
            state.ends = false;
            state.object.clone().filter(|_| is_held)
        };
        let Some(mut object) = object else { return };
        for _ in 0..2 {
            let released = lease_object::released(&object, &self.holder, to);
            let now = Instant::now();
            match self.send_as(shard, ("release", Method::PUT), &released, timeout).await {
                Ok(object) => {
                    let mut state = slot.state.lock();
                    state.lease.read(Some(lease_object::record(&object)), now);
                    state.object = Some(object);
                    tracing::info!(lease = self.full_name(shard), "this host has given up the Lease");
                    return;
                }
                Err(error) if error.code == 409 => match self.send(shard, Step::Read, &released, timeout).await {
                    Ok(read) if lease_object::record(&read).holder.as_ref() == Some(&self.holder.identity) => {
                        object = read;
                    }
                    _ => return,
                },
                Err(error) => {
                    tracing::warn!("{error}; another host has to wait until it expires");
                    return;
                }
            }
        }
    }

    /// Returns the shard to ask another host for.
    fn wants(&self, now: Instant) -> Option<usize> {
        let holders = self.holders(now);
        let holders: Vec<Option<&str>> = holders.iter().map(Option::as_deref).collect();
        let shard = shards::wanted(&holders, &self.holder.identity)?;
        let has_asked = self.asked.lock().is_some_and(|asked| now.saturating_duration_since(asked) < PATIENCE);
        let state = self.slots.get(shard)?.state.lock();
        let asks = state.lease.seen()?.record()?.wanted_by.as_ref();
        (!has_asked || asks.is_none_or(|asks| *asks != self.holder.identity)).then_some(shard)
    }

    /// Asks for a shard. Where the Lease has changed meanwhile, this has no effect, and comes again.
    async fn ask_for(&self, shard: usize) {
        let known = self.slots.get(shard).and_then(|slot| slot.state.lock().object.clone());
        let Some(object) = known else { return };
        *self.asked.lock() = Some(Instant::now());
        let wanted = lease_object::wanted(&object, &self.holder);
        if let Err(error) = self.send_as(shard, ("ask for", Method::PUT), &wanted, REQUEST).await {
            tracing::debug!(lease = self.full_name(shard), %error, "another host was not asked for a shard");
        }
    }

    fn full_name(&self, shard: usize) -> String {
        let name = self.slots.get(shard).map_or_else(String::new, |slot| slot.name.clone());
        format!("{}/{name}", self.settings.namespace)
    }

    fn problem(&self, error: &ApiError, failure: Failure) -> Problem {
        let namespace = &self.settings.namespace;
        let advice = match (error.code, failure) {
            (403, Failure::Refused) => format!(
                "; {APPLY_RIGHTS}: the host may get, list, watch, create and update Leases in the namespace {namespace} then"
            ),
            (404, _) => {
                format!("; create the namespace {namespace}, or name that of the host with --service-account-namespace")
            }
            (429, Failure::Passing(Some(pause))) => {
                format!("; the API server is overloaded and asks to wait {} s, which this host does", pause.as_secs())
            }
            (0 | 429 | 500.., _) => "; it is tried again".to_owned(),
            _ => "; `hotshoe run --no-lease` works without, for a host that is the only one".to_owned(),
        };
        Problem { text: format!("{error}{advice}"), stays: failure == Failure::Refused }
    }

    /// Logs a problem once.
    fn note_problem(&self, shard: usize, state: &mut State, problem: Option<Problem>) {
        if state.problem == problem {
            return;
        }
        let lease = self.full_name(shard);
        match &problem {
            Some(problem) => tracing::warn!(lease, "{}", problem.text),
            None => tracing::info!(lease, "the Lease can be used again"),
        }
        state.problem = problem;
    }

    fn note_watch_problem(&self, error: &watcher::Error) {
        let code = code(error);
        let namespace = &self.settings.namespace;
        let stays = matches!(code, 401 | 403) && !self.cluster.outage.is_after_outage(code);
        let advice = if code == 403 { format!("; {APPLY_RIGHTS}") } else { "; it is tried again".to_owned() };
        let text = format!("the Leases of the namespace {namespace} cannot be watched: {}{advice}", chain(error));
        // An interrupted watch goes on by itself, and that the API server is away is said for all watches at once.
        let is_passing = matches!(error, watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_)) || code == 0;
        let mut known = self.watch_problem.lock();
        if known.as_ref().is_none_or(|known| known.text != text) && !is_passing {
            tracing::warn!("{text}");
        }
        if !is_passing || code == 0 {
            *known = Some(Problem { text, stays });
        }
    }

    fn status(&self, shard: usize) -> LeaseStatus {
        let now = Instant::now();
        let name = self.full_name(shard);
        let Some(slot) = self.slots.get(shard) else { return LeaseStatus { name, ..LeaseStatus::default() } };
        let state = slot.state.lock();
        let seen = state.lease.seen();
        let held = state.lease.is_held(now) && self.shards.permit(shard).is_some();
        let holder = seen.and_then(|seen| seen.live_holder(now)).map(|holder| holder.to_string());
        let until = state.lease.deadline().filter(|_| held).or_else(|| Some(seen?.free_from()));
        let seconds = holder.as_ref().and(until).map(|until| until.saturating_duration_since(now).as_secs());
        let problem = state.problem.clone().or_else(|| self.watch_problem.lock().clone().filter(|_| !held));
        let lacking = || state.object.as_ref().filter(|_| !held && holder.is_some()).and_then(|it| self.lacking(it));
        LeaseStatus {
            unusable: !held && problem.as_ref().is_some_and(|problem| problem.stays),
            problem: problem.map(|problem| problem.text).or_else(lacking),
            name,
            held,
            holder,
            seconds,
        }
    }
}

/// What a refusal means for what is done next.
fn failure(step: Step, error: &ApiError) -> Failure {
    match error.code {
        409 => Failure::Conflict,
        // What was to be changed is gone.
        404 if error.is_gone() && step != Step::Create => Failure::Conflict,
        _ if error.is_transient() => Failure::Passing(error.retry_after),
        _ => Failure::Refused,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::extract::RawQuery;
    use axum::http::StatusCode;
    use axum::response::AppendHeaders;
    use axum::routing::get;

    use super::*;
    use crate::cluster::client::ConnectOptions;

    fn settings(shards: usize, spread: &[&str]) -> LeaseSettings {
        LeaseSettings {
            namespace: "system".to_owned(),
            name: "hotshoe".to_owned(),
            shards,
            plugins: Vec::new(),
            spread: spread.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn hosts_agree_on_how_parents_are_spread_whatever_the_order_of_their_plugins() {
        assert_eq!(settings(2, &["b", "a"]).sharding(), settings(2, &["a", "b"]).sharding());
        assert_ne!(settings(2, &["a"]).sharding(), settings(2, &[]).sharding());
        assert_ne!(settings(2, &[]).sharding(), settings(3, &[]).sharding());
        assert_eq!(settings(1, &["a"]).sharding(), settings(1, &[]).sharding(), "one shard has all");
        assert_eq!((settings(1, &[]).name_of(0), settings(2, &[]).name_of(1)), ("hotshoe".into(), "hotshoe-1".into()));
    }

    /// An API server that answers every write of a Lease with a status, and counts them.
    async fn keeps_where_writes_are(status: StatusCode, headers: &'static [(&'static str, &'static str)]) -> Trial {
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = writes.clone();
        let listed = |query: RawQuery| async move {
            let is_watch = query.0.is_some_and(|query| query.contains("watch=true"));
            let body = r#"{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
            if is_watch {
                std::future::pending::<()>().await;
            }
            ([("content-type", "application/json")], body)
        };
        let refused = move || async move {
            counted.fetch_add(1, Ordering::Relaxed);
            (status, AppendHeaders(headers.iter().copied()), r#"{"kind":"Status","message":"not now"}"#)
        };
        let path = "/apis/coordination.k8s.io/v1/namespaces/system/leases";
        let server = axum::Router::new().route(path, get(listed).post(refused));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, server).await });
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{}}}}]\n"
        );
        std::fs::write(kubeconfig.path(), text).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().to_owned()), context: Some("a".to_owned()) };
        let cluster = Cluster::connect(&options).await.unwrap();
        let leases = Leases::keep(cluster.clone(), settings(1, &[]), Recorder::start(cluster));
        Trial { leases, writes }
    }

    struct Trial {
        leases: Leases,
        writes: Arc<AtomicUsize>,
    }

    impl Trial {
        async fn problem(&self) -> LeaseStatus {
            let found = async {
                loop {
                    let status = self.leases.status().remove(0);
                    if status.problem.is_some() {
                        return status;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(10), found).await.unwrap()
        }
    }

    #[tokio::test]
    async fn an_overloaded_api_server_is_left_alone_for_as_long_as_it_asks() {
        let trial = keeps_where_writes_are(StatusCode::TOO_MANY_REQUESTS, &[("retry-after", "30")]).await;
        let status = trial.problem().await;
        let problem = status.problem.unwrap();
        assert!(problem.contains("asks to wait 30 s") && problem.contains("not now"), "{problem}");
        assert!(!status.held && !status.unusable, "it passes by itself");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(trial.writes.load(Ordering::Relaxed), 1);
        assert!(trial.leases.shards().enter(0).is_none(), "without a Lease nothing begins");
    }

    #[tokio::test]
    async fn a_right_or_a_namespace_that_is_missing_is_named_and_asked_for_ever_more_seldom() {
        for (code, words) in
            [(StatusCode::FORBIDDEN, "hotshoe rbac"), (StatusCode::NOT_FOUND, "create the namespace system")]
        {
            let trial = keeps_where_writes_are(code, &[]).await;
            let status = trial.problem().await;
            assert!(status.problem.as_ref().is_some_and(|problem| problem.contains(words)), "{status:?}");
            assert!(status.unusable, "it does not pass by itself");
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(trial.writes.load(Ordering::Relaxed) <= 3);
        }
    }

    #[test]
    fn hosts_of_one_machine_have_different_names() {
        assert_ne!(identity(), identity());
    }

    #[test]
    fn what_the_api_server_says_is_told_apart_by_what_helps() {
        let error = |code| ApiError::new("renew", "the Lease system/hotshoe".into(), code, "", "no".into());
        assert_eq!(failure(Step::Renew, &error(409)), Failure::Conflict);
        assert_eq!(failure(Step::Renew, &error(404)), Failure::Conflict);
        assert_eq!(failure(Step::Create, &error(404)), Failure::Refused, "the namespace is missing");
        assert_eq!(failure(Step::Renew, &error(403)), Failure::Refused);
        assert_eq!(failure(Step::Renew, &error(0)), Failure::Passing(None));
        let wait = Some(Duration::from_secs(7));
        assert_eq!(failure(Step::Renew, &ApiError { retry_after: wait, ..error(429) }), Failure::Passing(wait));
    }
}
