//! Status and conditions: what was observed, never what is desired. The order of the conditions is
//! always the same.

use hotshoe_sdk::{Condition, Status};

use crate::{
    api::MemcachedStatus,
    names,
    observed::{Observed, Rollout},
    trouble::{RECONCILING, Trouble},
};

pub(crate) const AVAILABLE: &str = "Available";
pub(crate) const PROGRESSING: &str = "Progressing";
pub(crate) const DEGRADED: &str = "Degraded";
/// The conditions of kstatus, which tools that wait for objects know. The last two are stated only where they are true.
const READY: &str = "Ready";
const IN_PROGRESS: &str = "Reconciling";
const STALLED: &str = "Stalled";

const STARTING: &str = "Starting reconciliation";

pub(crate) fn status(name: &str, observed: &Observed) -> MemcachedStatus {
    let selector: Vec<_> = names::selector(name).iter().map(|(key, value)| format!("{key}={value}")).collect();
    MemcachedStatus {
        // Not the Deployment's own count, because each step of a rollout would cost a write.
        replicas: i32::try_from(observed.nodes.len()).unwrap_or(i32::MAX),
        nodes: observed.nodes.clone(),
        ready_replicas: observed.ready(),
        selector: selector.join(","),
    }
}

/// Builds the conditions of a new custom resource, whatever is observed.
pub(crate) fn starting(name: &str) -> Vec<Condition> {
    let available = Condition::new(AVAILABLE, Status::Unknown, RECONCILING, STARTING);
    let progressing = Condition::new(PROGRESSING, Status::True, RECONCILING, STARTING);
    with_summary([available, progressing, degraded(name, None)], false)
}

pub(crate) fn conditions(name: &str, size: i32, observed: &Observed, trouble: Option<&Trouble>) -> Vec<Condition> {
    let available = available(name, size, observed, trouble);
    let progressing = progressing(name, size, observed, trouble);
    with_summary([available, progressing, degraded(name, trouble)], trouble.is_some_and(Trouble::needs_a_person))
}

/// Adds the conditions of kstatus to those that say more.
fn with_summary([available, progressing, degraded]: [Condition; 3], is_stalled: bool) -> Vec<Condition> {
    let (is_progressing, is_degraded) = (progressing.status == Status::True, degraded.status == Status::True);
    let ready = match is_degraded {
        true => Condition { status: Status::False, ..degraded.named(READY) },
        false => available.named(READY),
    };
    let summary = match (is_stalled, is_progressing) {
        (true, _) => Some(degraded.named(STALLED)),
        (false, true) => Some(progressing.named(IN_PROGRESS)),
        (false, false) => None,
    };
    [available, progressing, degraded, ready].into_iter().chain(summary).collect()
}

fn available(name: &str, size: i32, observed: &Observed, trouble: Option<&Trouble>) -> Condition {
    match (trouble, &observed.rollout) {
        (Some(trouble), Some(rollout)) if trouble.spares_the_servers() => serving(name, size, rollout),
        (Some(trouble), _) => Condition::new(AVAILABLE, Status::False, trouble.reason, trouble.message.as_str()),
        (None, Some(rollout)) => serving(name, size, rollout),
        (None, None) => Condition::new(AVAILABLE, Status::Unknown, RECONCILING, STARTING),
    }
}

/// Builds `Available`: whether the desired number of servers is ready.
pub(crate) fn serving(name: &str, size: i32, rollout: &Rollout) -> Condition {
    let is_available = rollout.is_available(size);
    let message = if is_available {
        format!("Deployment for custom resource ({name}) with {size} replicas created successfully")
    } else {
        format!("Deployment for custom resource ({name}) has {} of {size} replicas ready", rollout.ready)
    };
    Condition::new(AVAILABLE, is_available.into(), RECONCILING, message)
}

/// Builds `Progressing`. Its messages carry no numbers: each step of a rollout would cost a write
/// that says no more than `Available` does.
fn progressing(name: &str, size: i32, observed: &Observed, trouble: Option<&Trouble>) -> Condition {
    if let Some(trouble) = trouble.filter(|trouble| trouble.ends_progress()) {
        return Condition::new(PROGRESSING, Status::False, trouble.reason, trouble.message.as_str());
    }
    let (is_progressing, message) = match &observed.rollout {
        None => (true, STARTING.to_owned()),
        Some(rollout) if rollout.is_complete(size) => {
            (false, format!("Deployment for custom resource ({name}) is rolled out"))
        }
        Some(_) => (true, format!("Deployment for custom resource ({name}) is being rolled out")),
    };
    Condition::new(PROGRESSING, is_progressing.into(), RECONCILING, message)
}

fn degraded(name: &str, trouble: Option<&Trouble>) -> Condition {
    match trouble {
        Some(trouble) => Condition::new(DEGRADED, Status::True, trouble.reason, trouble.message.as_str()),
        None => Condition::new(
            DEGRADED,
            Status::False,
            RECONCILING,
            format!("Nothing stands in the way of custom resource ({name})"),
        ),
    }
}
