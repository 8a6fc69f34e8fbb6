//! The status of the Leases of a host: who holds each, until when, and what is wrong with it.

use std::collections::HashSet;

use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::runtime::watcher;
use serde::{Deserialize, Serialize};

use crate::boot_clock;
use crate::client::chain;
use crate::error::{APPLY_RIGHTS, ApiError};
use crate::lease_keeper::{Keeper, Problem, State};
use crate::lease_object;
use crate::watch::code;
use hotshoe_core::flow::boot_time::BootTime;
use hotshoe_core::flow::lease::Failure;

/// The status of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseStatus {
    /// The namespace and name of the Lease.
    pub name: String,
    /// Whether this host holds the Lease, and writes.
    pub held: bool,
    /// The holder, which may be this host.
    pub holder: Option<String>,
    /// The seconds until another host may take the Lease, unless it is renewed.
    pub seconds: Option<u64>,
    /// What is wrong with the Lease, and what to do about it.
    pub problem: Option<String>,
    /// Whether the Lease cannot be used until an administrator fixes the problem.
    pub unusable: bool,
}

impl Keeper {
    /// Logs once that another host holds the Lease.
    pub(super) fn log_holder(&self, lease: &str, state: &mut State, now: BootTime) {
        let holder = state.lease.seen().and_then(|seen| seen.live_holder(now)).cloned();
        let Some(holder) = holder.filter(|holder| **holder != *self.holder.identity) else { return };
        if state.logged_holder.as_ref() == Some(&holder) {
            return;
        }
        tracing::info!(lease, holder = &*holder, "another host holds the Lease; this one stands by");
        if let Some(advice) = state.object.as_ref().and_then(|object| self.missing_plugins(object)) {
            tracing::warn!(lease, holder = &*holder, "{advice}");
        }
        state.logged_holder = Some(holder);
    }

    /// Returns advice if the holder of a Lease does not run all plugins of this host.
    pub(super) fn missing_plugins(&self, object: &Object) -> Option<String> {
        let theirs: HashSet<&str> = lease_object::plugins(object)?.split(' ').collect();
        let missing = self.settings.plugins.iter().filter(|plugin| !theirs.contains(plugin.as_str()));
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        (!missing.is_empty()).then(|| {
            format!(
                "the host that holds it does not run {}, so nothing is done for them meanwhile: \
                 give all hosts of a Lease the same plugins, or this host a Lease of its own with --lease-name",
                missing.join(", ")
            )
        })
    }

    pub(super) fn problem(&self, error: &ApiError, failure: Failure) -> Problem {
        let namespace = &self.settings.namespace;
        let advice = match (error.code, failure) {
            (403, Failure::Refused) => format!(
                "; {APPLY_RIGHTS}: the host may get, list, watch, create and update Leases in the namespace {namespace} then"
            ),
            (404, _) => {
                format!("; create the namespace {namespace}, or name that of the host with --service-account-namespace")
            }
            (429, Failure::Transient(Some(pause))) => {
                format!("; the API server is overloaded and asks to wait {} s, which this host does", pause.as_secs())
            }
            (0 | 429 | 500.., _) => "; it is tried again".to_owned(),
            _ => "; a host that is the only one can run without a Lease: `hotshoe run --no-lease`".to_owned(),
        };
        Problem { text: format!("{error}{advice}"), is_permanent: failure == Failure::Refused }
    }

    /// Records a problem, and logs it once.
    pub(super) fn note_problem(&self, shard: usize, state: &mut State, problem: Option<Problem>) {
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

    pub(super) fn note_watch_problem(&self, error: &watcher::Error) {
        let code = code(error);
        let namespace = &self.settings.namespace;
        let is_permanent = matches!(code, 401 | 403) && !self.cluster.outage.is_after_outage(code);
        let advice = if code == 403 { format!("; {APPLY_RIGHTS}") } else { "; it is tried again".to_owned() };
        let text = format!("the Leases of the namespace {namespace} cannot be watched: {}{advice}", chain(error));
        // An interrupted watch resumes by itself, and an outage of the API server is logged once for all watches.
        let is_transient = matches!(error, watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_)) || code == 0;
        let mut known = self.watch_problem.lock();
        if known.as_ref().is_none_or(|known| known.text != text) && !is_transient {
            tracing::warn!("{text}");
        }
        if !is_transient || code == 0 {
            *known = Some(Problem { text, is_permanent });
        }
    }

    pub(super) fn status(&self, shard: usize) -> LeaseStatus {
        let now = boot_clock::now();
        let name = self.full_name(shard);
        let Some(slot) = self.slots.get(shard) else { return LeaseStatus { name, ..LeaseStatus::default() } };
        let state = slot.state.lock();
        let seen = state.lease.seen();
        let held = state.lease.is_held(now) && self.shards.permit(shard).is_some();
        let holder = seen.and_then(|seen| seen.live_holder(now)).map(|holder| holder.to_string());
        let until = state.lease.deadline().filter(|_| held).or_else(|| Some(seen?.free_from()));
        let seconds = holder.as_ref().and(until).map(|until| until.saturating_duration_since(now).as_secs());
        let problem = state.problem.clone().or_else(|| self.watch_problem.lock().clone().filter(|_| !held));
        let missing_plugins =
            || state.object.as_ref().filter(|_| !held && holder.is_some()).and_then(|it| self.missing_plugins(it));
        LeaseStatus {
            unusable: !held && problem.as_ref().is_some_and(|problem| problem.is_permanent),
            problem: problem.map(|problem| problem.text).or_else(missing_plugins),
            name,
            held,
            holder,
            seconds,
        }
    }
}
