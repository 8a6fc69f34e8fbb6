//! A rollout in stages: the partition of the StatefulSet is lowered by one whenever the servers at and above it run the
//! new template and have been ready for long enough. No state is kept: each stage follows from what is observed.

use std::time::Duration;

use crate::{
    api::RedisSpec,
    names,
    observed::{Observed, Pod, Set},
};

/// How far a rollout is.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Stage {
    /// Servers with this ordinal and above get the new template.
    pub(crate) partition: i32,
    /// After how long the next stage may begin although nothing changes.
    pub(crate) look_again: Option<Duration>,
}

impl Stage {
    const fn at(partition: i32) -> Self {
        Self { partition, look_again: None }
    }
}

/// Decides the stage of a rollout of the template with this digest.
pub(crate) fn of(name: &str, spec: &RedisSpec, observed: &Observed, digest: &str, now: u64) -> Stage {
    let last = spec.update_strategy.partition;
    let Some(set) = &observed.set else { return Stage::at(last) };
    let Some(applied) = &set.applied else { return Stage::at(last) };
    if applied.template != digest {
        // Another template: the highest ordinal gets it first. Where a server is missing or broken, all get it at once:
        // no stages could protect them, and a Pod that is recreated below the partition would keep the old template.
        let is_whole = all_ready(name, spec, observed);
        return Stage::at(if is_whole { last.max(spec.replicas - 1) } else { last });
    }
    if !set.is_current {
        // Which servers are up to date is not known yet.
        return Stage::at(last.max(applied.partition));
    }
    if !is_rolling(name, spec, observed, set) {
        return Stage::at(last);
    }
    let (next, look_again) = next(name, spec, observed, set, now);
    // The partition is never raised again: a Pod below a raised partition would be recreated with the old template.
    let partition = last.max(next.min(applied.partition));
    Stage { partition, look_again: look_again.filter(|_| partition > last) }
}

fn all_ready(name: &str, spec: &RedisSpec, observed: &Observed) -> bool {
    let is_ready = |pod: &Pod| pod.ready_since().is_some();
    (0..spec.replicas).all(|ordinal| observed.pods.get(&names::pod(name, ordinal)).is_some_and(is_ready))
}

/// Whether a server exists that is to be updated and has not been.
fn is_rolling(name: &str, spec: &RedisSpec, observed: &Observed, set: &Set) -> bool {
    let ordinals = spec.update_strategy.partition..spec.replicas;
    let mut pods = ordinals.filter_map(|ordinal| observed.pods.get(&names::pod(name, ordinal)));
    pods.any(|pod| !pod.has_revision(&set.update_revision))
}

/// Returns the highest ordinal that is not done, which is the next partition. Where that server is updated and only has
/// to stay ready for the rest of the pause, it also returns how long.
fn next(name: &str, spec: &RedisSpec, observed: &Observed, set: &Set, now: u64) -> (i32, Option<Duration>) {
    let pause = Duration::from_secs(u64::from(spec.update_strategy.pause_seconds));
    for ordinal in (0..spec.replicas).rev() {
        let pod = observed.pods.get(&names::pod(name, ordinal));
        let updated = pod.filter(|pod| pod.has_revision(&set.update_revision));
        match updated.and_then(|pod| left(pod, pause, now)) {
            Some(Duration::ZERO) => {}
            left => return (ordinal, left),
        }
    }
    (0, None)
}

/// Returns how much longer a server has to stay ready; absent where it is not ready. Where the clock jumped back, or
/// differs from the node's, by more than one pause, the pause counts as over, so that a rollout always continues.
fn left(pod: &Pod, pause: Duration, now: u64) -> Option<Duration> {
    let since = pod.ready_since()?;
    let Some(since) = since else { return Some(Duration::ZERO) };
    let due = Duration::from_millis(since).saturating_add(pause);
    let left = due.saturating_sub(Duration::from_millis(now));
    Some(if left > 2 * pause { Duration::ZERO } else { left })
}
