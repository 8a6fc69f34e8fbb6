//! Keeps the Lease of each shard: records the observed Leases, carries out the next step, and updates the permits of
//! the shards accordingly.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::boot_clock;
use crate::client::{ApiCall, Cluster};
use crate::error::ApiError;
use crate::events::Recorder;
use crate::lease_object::{self, Holder, LeaseSettings};
use crate::shards::Shards;
use hotshoe_core::flow::boot_time::BootTime;
use hotshoe_core::flow::lease::{Failure, Lease, RENEW, Sighting, Step};
use hotshoe_core::flow::shards;

/// The timeout of one request: short enough for another request before the Lease ends.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
/// How long to wait until the Events of a shard that is given up are written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a host waits for a shard that it asked for before it asks again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Keeps the Leases of a host.
pub(super) struct Keeper {
    pub(super) cluster: Cluster,
    pub(super) settings: LeaseSettings,
    pub(super) holder: Holder,
    pub(super) shards: Arc<Shards>,
    pub(super) slots: Vec<Slot>,
    /// Leases of the group that belong to no shard of this host: those of hosts that spread the parents differently.
    pub(super) others: Mutex<HashMap<String, (Sighting, String)>>,
    /// What is wrong with the watch.
    pub(super) watch_problem: Mutex<Option<Problem>>,
    /// Changed whenever a Lease is observed.
    pub(super) changes: watch::Sender<()>,
    pub(super) recorder: Recorder,
    /// When this host last asked another for a shard.
    pub(super) last_asked: Mutex<Option<BootTime>>,
}

/// One Lease.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) state: Mutex<State>,
}

/// What is wrong with a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) text: String,
    /// Whether the problem is not transient.
    pub(super) is_permanent: bool,
}

/// The known state of one Lease.
pub(super) struct State {
    pub(super) lease: Lease,
    /// The newest observed version of the object.
    pub(super) object: Option<Object>,
    pub(super) problem: Option<Problem>,
    /// Whether the Lease is being given up.
    pub(super) is_ending: bool,
    /// The other holder that was logged last.
    pub(super) logged_holder: Option<Arc<str>>,
}

impl State {
    /// Records the answer to a read that was sent at `sent`; `None` if there is no Lease.
    fn read(&mut self, object: Option<Object>, sent: BootTime, now: BootTime) {
        if self.lease.read(object.as_ref().map(lease_object::record), sent, now) {
            self.object = object;
        }
    }
}

/// What a keeper does next about one Lease.
pub(super) enum Next {
    Wait(Option<BootTime>),
    /// Give the Lease up, for another host if that has asked for it.
    GiveUp(Option<Arc<str>>),
    Ask(Step),
}

impl Keeper {
    fn slot_of(&self, object: &Object) -> Option<(usize, &Slot)> {
        let name = object.metadata.name.as_deref()?;
        self.slots.iter().enumerate().find(|(_, slot)| slot.name == name)
    }

    pub(super) fn observe(&self, event: Event<Object>, listed: &mut HashSet<String>) {
        let now = boot_clock::now();
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

    fn see(&self, object: Object, now: BootTime) {
        let record = lease_object::record(&object);
        let Some((shard, slot)) = self.slot_of(&object) else { return self.see_other(&object, now) };
        let mut state = slot.state.lock();
        if state.object.as_ref().is_none_or(|known| lease_object::version(known) < record.version) {
            state.object = Some(object);
        }
        state.lease.watched(record, now);
        self.settle(shard, &mut state, now);
    }

    fn see_other(&self, object: &Object, now: BootTime) {
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

    fn see_deleted(&self, object: &Object, now: BootTime) {
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

    /// Updates the permit of a shard to the state of its Lease, and logs a change of the holder.
    fn settle(&self, shard: usize, state: &mut State, now: BootTime) {
        let name = self.full_name(shard);
        match state.lease.deadline().filter(|_| state.lease.is_held(now)) {
            Some(deadline) => {
                if self.shards.hold(shard, state.lease.term(), deadline) {
                    (state.is_ending, state.logged_holder) = (false, None);
                    tracing::info!(
                        lease = name,
                        host = &*self.holder.identity,
                        "this host holds the Lease and is active"
                    );
                }
            }
            None => {
                if self.shards.lose(shard) {
                    state.is_ending = false;
                    tracing::warn!(
                        lease = name,
                        "this host no longer holds the Lease, so it writes nothing; it stands by with full caches until it holds the Lease again"
                    );
                }
                self.log_holder(&name, state, now);
            }
        }
    }

    pub(super) fn next(&self, shard: usize, now: BootTime) -> Next {
        let (holders, conflicting) = (self.holders(now), self.conflicting(now));
        let Some(slot) = self.slots.get(shard) else { return Next::Wait(None) };
        let mut state = slot.state.lock();
        self.settle(shard, &mut state, now);
        let is_held = state.lease.is_held(now);
        if let Some((name, until, yields)) = conflicting {
            if is_held && yields && !state.is_ending {
                state.is_ending = true;
                return Next::GiveUp(None);
            }
            let text = format!(
                "another host, which holds the Lease {name}, spreads the parents over shards in another way: \
                 stop all hosts before you change --shards, or spec.shardBy of a plugin, and start them again"
            );
            self.note_problem(shard, &mut state, Some(Problem { text, is_permanent: false }));
            if !is_held {
                return Next::Wait(Some(until));
            }
        }
        let wanted_by = state.lease.seen().and_then(Sighting::record).and_then(|record| record.wanted_by.clone());
        if let Some(to) = wanted_by.filter(|_| is_held && !state.is_ending) {
            let holders: Vec<Option<&str>> = holders.iter().map(Option::as_deref).collect();
            if shards::gives_up(&holders, &self.holder.identity, &to) {
                state.is_ending = true;
                return Next::GiveUp(Some(to));
            }
        }
        let held = holders.iter().filter(|holder| holder.as_ref() == Some(&self.holder.identity)).count();
        match state.lease.next(held, now) {
            Step::Wait(until) => Next::Wait(until),
            step => Next::Ask(step),
        }
    }

    /// Returns the holder of each shard, unless its Lease has expired.
    fn holders(&self, now: BootTime) -> Vec<Option<Arc<str>>> {
        let holder = |slot: &Slot| slot.state.lock().lease.seen().and_then(|seen| seen.live_holder(now)).cloned();
        self.slots.iter().map(holder).collect()
    }

    /// Returns the Lease of a host that spreads the parents in another way, when that Lease is free, and whether this
    /// host is the one that yields if both began at once.
    fn conflicting(&self, now: BootTime) -> Option<(String, BootTime, bool)> {
        let others = self.others.lock();
        let mut live = others
            .iter()
            .filter(|(_, (seen, sharding))| *sharding != self.holder.sharding && seen.live_holder(now).is_some());
        let conflicting =
            live.next().map(|(name, (seen, theirs))| (name.clone(), seen.free_from(), *theirs < self.holder.sharding));
        drop(others);
        conflicting.or_else(|| self.conflicting_shard(now))
    }

    /// Looks among the Leases that have the names of this host's shards.
    fn conflicting_shard(&self, now: BootTime) -> Option<(String, BootTime, bool)> {
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
    pub(super) async fn ask(&self, shard: usize, step: Step) {
        let Some(slot) = self.slots.get(shard) else { return };
        let (object, left) = {
            let state = slot.state.lock();
            let left = state.lease.deadline().map(|deadline| deadline.saturating_duration_since(boot_clock::now()));
            (state.object.clone(), left)
        };
        let before = object.as_ref().filter(|_| step != Step::Create);
        let held = lease_object::held(before, &self.settings.namespace, &slot.name, &self.holder);
        // A late renewal is of no use, so the request ends with the Lease. Once the Lease has ended, the request is an
        // attempt to get it again, with the full timeout.
        let timeout = left.filter(|left| !left.is_zero()).map_or(REQUEST_TIMEOUT, |left| left.min(REQUEST_TIMEOUT));
        let sent = boot_clock::now();
        let result = self.send(shard, step, &held, timeout).await;
        let now = boot_clock::now();
        let mut state = slot.state.lock();
        let problem = match result {
            Ok(object) => {
                if step == Step::Read {
                    state.read(Some(object), sent, now);
                } else {
                    state.lease.accepted(step, lease_object::record(&object), sent, now);
                    state.object = Some(object);
                }
                None
            }
            Err(error) if step == Step::Read && error.is_gone() => {
                state.read(None, sent, now);
                None
            }
            Err(error) => {
                if step == Step::Renew {
                    self.cluster.counts.failed_renewals_of(&self.full_name(shard)).inc();
                }
                let failure = failure(step, &error);
                state.lease.failed(failure, now);
                (failure != Failure::Conflict).then(|| self.problem(&error, failure))
            }
        };
        self.settle(shard, &mut state, now);
        self.note_problem(shard, &mut state, problem);
        drop(state);
        self.changes.send_replace(());
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
        let unreadable = |error: serde_json::Error| ApiError::unreadable(verb, target.clone(), &error);
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

    /// Drains a shard, and gives it to the host that asked for it. The Lease is renewed meanwhile.
    pub(super) async fn give_up(&self, shard: usize, to: Option<&str>) {
        if let Some(to) = to {
            tracing::info!(lease = self.full_name(shard), to, "another host holds fewer shards; it gets this one");
        }
        let drained = async {
            self.shards.drain(shard).await;
            drop(tokio::time::timeout(FLUSH_TIMEOUT, self.recorder.flush()).await);
        };
        let mut drained = std::pin::pin!(drained);
        loop {
            let due = match self.next(shard, boot_clock::now()) {
                Next::Ask(step) => {
                    self.ask(shard, step).await;
                    continue;
                }
                Next::Wait(until) => until.map_or(RENEW, |until| until.saturating_duration_since(boot_clock::now())),
                Next::GiveUp(_) => RENEW,
            };
            // The Lease was lost meanwhile, or was acquired again.
            if self.slots.get(shard).is_none_or(|slot| !slot.state.lock().is_ending) {
                return;
            }
            if tokio::time::timeout(due, &mut drained).await.is_ok() {
                break;
            }
        }
        self.release(shard, to, REQUEST_TIMEOUT).await;
        self.changes.send_replace(());
    }

    /// Releases a Lease that this host holds.
    pub(super) async fn release(&self, shard: usize, to: Option<&str>, timeout: Duration) {
        let Some(slot) = self.slots.get(shard) else { return };
        let object = {
            let mut state = slot.state.lock();
            // Not while the previous holder may still write: a release allows another host to write at once, and this
            // host cannot give that permission for the previous holder.
            let is_held = state.lease.is_held(boot_clock::now());
            state.lease.end();
            self.shards.lose(shard);
            state.is_ending = false;
            state.object.clone().filter(|_| is_held)
        };
        let Some(mut object) = object else { return };
        for _ in 0..2 {
            let released = lease_object::released(&object, &self.holder, to);
            let sent = boot_clock::now();
            match self.send_as(shard, ("release", Method::PUT), &released, timeout).await {
                Ok(object) => {
                    slot.state.lock().read(Some(object), sent, boot_clock::now());
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
                    tracing::warn!("{error}; another host has to wait until the Lease expires");
                    return;
                }
            }
        }
    }

    /// Returns the shard to ask another host for.
    pub(super) fn wants(&self, now: BootTime) -> Option<usize> {
        let holders = self.holders(now);
        let holders: Vec<Option<&str>> = holders.iter().map(Option::as_deref).collect();
        let shard = shards::wanted(&holders, &self.holder.identity)?;
        let has_asked =
            self.last_asked.lock().is_some_and(|asked| now.saturating_duration_since(asked) < ASK_AGAIN_AFTER);
        let state = self.slots.get(shard)?.state.lock();
        let asks = state.lease.seen()?.record()?.wanted_by.as_ref();
        (!has_asked || asks.is_none_or(|asks| *asks != self.holder.identity)).then_some(shard)
    }

    /// Asks another host for a shard. If the Lease has changed meanwhile, this has no effect, and is repeated later.
    pub(super) async fn ask_for(&self, shard: usize) {
        let known = self.slots.get(shard).and_then(|slot| slot.state.lock().object.clone());
        let Some(object) = known else { return };
        *self.last_asked.lock() = Some(boot_clock::now());
        let wanted = lease_object::wanted(&object, &self.holder);
        if let Err(error) = self.send_as(shard, ("ask for", Method::PUT), &wanted, REQUEST_TIMEOUT).await {
            tracing::debug!(lease = self.full_name(shard), %error, "another host was not asked for a shard");
        }
    }

    pub(super) fn full_name(&self, shard: usize) -> String {
        let name = self.slots.get(shard).map_or_else(String::new, |slot| slot.name.clone());
        format!("{}/{name}", self.settings.namespace)
    }
}

/// Classifies an error by what to do next.
fn failure(step: Step, error: &ApiError) -> Failure {
    match error.code {
        409 => Failure::Conflict,
        // The Lease to be changed is gone.
        404 if error.is_gone() && step != Step::Create => Failure::Conflict,
        _ if error.is_transient() => Failure::Transient(error.retry_after),
        _ => Failure::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_classified_by_what_to_do_next() {
        let error = |code| ApiError::new("renew", "the Lease system/hotshoe".into(), code, "", "no".into());
        assert_eq!(failure(Step::Renew, &error(409)), Failure::Conflict);
        assert_eq!(failure(Step::Renew, &error(404)), Failure::Conflict);
        assert_eq!(failure(Step::Create, &error(404)), Failure::Refused, "the namespace is missing");
        assert_eq!(failure(Step::Renew, &error(403)), Failure::Refused);
        assert_eq!(failure(Step::Renew, &error(0)), Failure::Transient(None));
        let wait = Some(Duration::from_secs(7));
        assert_eq!(failure(Step::Renew, &ApiError { retry_after: wait, ..error(429) }), Failure::Transient(wait));
    }
}
