//! Status and conditions: what was observed, never what is desired.

use hotshoe_sdk::{Condition, Status};

use crate::{
    api::RedisStatus,
    names,
    ordinals::{self, Ordinal, Scene},
    stage::Stage,
};

pub(crate) fn status(scene: &Scene<'_>, stage: &Stage, ordinals: &[Ordinal]) -> RedisStatus {
    RedisStatus {
        replicas: scene.observed.set.as_ref().map_or(0, |set| set.existing),
        ready_replicas: count(ordinals, |ordinal| ordinal.status.ready),
        updated_replicas: count(ordinals, |ordinal| ordinal.status.updated),
        selector: names::selector(scene.name),
        partition: stage.partition,
        ordinals: ordinals.iter().map(|ordinal| ordinal.status.clone()).collect(),
    }
}

fn count(ordinals: &[Ordinal], holds: impl Fn(&Ordinal) -> bool) -> i32 {
    ordinals.iter().map(|ordinal| i32::from(holds(ordinal))).sum()
}

pub(crate) fn conditions(
    scene: &Scene<'_>,
    status: &RedisStatus,
    ordinals: &[Ordinal],
    obstacle: Option<Obstacle>,
) -> Vec<Condition> {
    let available = available(scene, status, ordinals);
    let (progressing, degraded) = (progressing(scene, status, ordinals), degraded(ordinals, obstacle));
    // What tools that wait for it read: Reconciling is stated only where it is true.
    let ready = match degraded.status {
        Status::True => Condition { status: Status::False, ..degraded.named("Ready") },
        _ => available.named("Ready"),
    };
    let is_progressing = progressing.status == Status::True;
    let reconciling = is_progressing.then(|| progressing.named("Reconciling"));
    [available, progressing, degraded, ready].into_iter().chain(reconciling).collect()
}

/// A problem that affects all servers.
pub(crate) struct Obstacle {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

fn available(scene: &Scene<'_>, status: &RedisStatus, ordinals: &[Ordinal]) -> Condition {
    let (ready, replicas) = (status.ready_replicas, scene.spec.replicas);
    let count = format!("{ready} of {replicas} servers are ready");
    match ordinals::stuck(ordinals) {
        None => Condition::new("Available", Status::True, "ServersReady", count),
        Some(stuck) => {
            let message = format!("{count}; {} is not: {}: {}", stuck.pod, stuck.reason, stuck.message);
            Condition::new("Available", Status::False, "ServersNotReady", message)
        }
    }
}

fn progressing(scene: &Scene<'_>, status: &RedisStatus, ordinals: &[Ordinal]) -> Condition {
    let (partition, replicas) = (scene.spec.update_strategy.partition, scene.spec.replicas);
    let outdated = |from: i32| ordinals.iter().any(|one| one.status.ordinal >= from && !one.status.updated);
    let (is_progressing, reason, message) = if status.replicas != replicas || status.ready_replicas != replicas {
        (true, "Scaling", format!("there are {} of {replicas} servers", status.replicas))
    } else if outdated(partition) {
        (true, "RollingOut", format!("servers from ordinal {} up are updated", status.partition))
    } else if outdated(0) && partition >= replicas {
        let message = format!(
            "no server is updated: spec.updateStrategy.partition is {partition}, and the highest ordinal is {}",
            replicas - 1
        );
        (false, "PartitionBeyondReplicas", message)
    } else if outdated(0) {
        let message =
            format!("servers below ordinal {partition} stay as they are: spec.updateStrategy.partition is {partition}");
        (false, "PartitionHolds", message)
    } else {
        (false, "RolledOut", "all servers run what the spec says".to_owned())
    };
    Condition::new("Progressing", is_progressing.into(), reason, message)
}

fn degraded(ordinals: &[Ordinal], obstacle: Option<Obstacle>) -> Condition {
    if let Some(Obstacle { reason, message }) = obstacle {
        return Condition::new("Degraded", Status::True, reason, message);
    }
    match ordinals.iter().find(|ordinal| ordinal.is_problem) {
        Some(Ordinal { status, .. }) => {
            Condition::new("Degraded", Status::True, &status.reason, format!("{}: {}", status.pod, status.message))
        }
        None => Condition::new("Degraded", Status::False, "NothingInTheWay", "nothing stands in the way"),
    }
}
