//! The existing runs, read from their Jobs. A run is identified by the time for which it was scheduled, and its Job is
//! named after that time, so that beginning the same run twice creates no second Job.

use std::collections::BTreeMap;

use hotshoe_sdk::apply::batch_v1::Job;
use hotshoe_sdk::{Failure, Request, Time};
use serde::Deserialize;

use crate::Backup;

/// The fields of [`JobView`].
pub(crate) const JOB_FIELDS: &[&str] = &["metadata.annotations", "status.completionTime", "status.conditions"];

/// The annotation of a Job with the number of this try: 1 for the first.
pub(crate) const TRY: &str = "batch.example.com/try";
/// The annotation of a Job with the generation of the Backup that it was made for.
pub(crate) const GENERATION: &str = "batch.example.com/generation";

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    /// The time for which it was scheduled.
    pub(crate) time: Time,
    /// The number of this try: one more than the runs in a row that had failed when it began.
    pub(crate) tries: i64,
    /// The generation of the Backup that it was made for.
    pub(crate) generation: i64,
    pub(crate) state: State,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    Running,
    Succeeded { at: Time },
    Failed { at: Time, why: String },
}

impl Run {
    pub(crate) fn name(&self, backup: &str) -> String {
        name(backup, self.time)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state == State::Running
    }
}

/// The name of the Job of a run.
pub(crate) fn name(backup: &str, time: Time) -> String {
    format!("{backup}-{}", time.unix())
}

/// Returns the runs whose Jobs exist, in the order of their times.
pub(crate) fn observed(request: &Request<Backup>) -> Result<Vec<Run>, Failure> {
    let jobs: Vec<JobView> = request.children_as::<Job, JobView>()?;
    let mut runs: Vec<Run> = jobs.into_iter().filter_map(|job| run(request.name(), job)).collect();
    runs.sort_by_key(|run| run.time);
    Ok(runs)
}

/// Reads a run from its Job; none where the Job is finished and being deleted, or its name is not that of a run.
fn run(backup: &str, job: JobView) -> Option<Run> {
    let seconds = job.metadata.name.strip_prefix(backup)?.strip_prefix('-')?;
    let number = |key: &str| job.metadata.annotations.get(key).and_then(|number| number.parse::<i64>().ok());
    let (tries, generation) = (number(TRY).unwrap_or(1), number(GENERATION).unwrap_or_default());
    let run = Run { time: Time::from_unix(seconds.parse().ok()?), tries, generation, state: state(job.status) };
    (run.is_running() || job.metadata.deletion_timestamp.is_none()).then_some(run)
}

fn state(status: StatusView) -> State {
    let mut conditions = status.conditions.into_iter().filter(|condition| condition.status == "True");
    let ended = conditions.find(|condition| matches!(&*condition.name, "Complete" | "Failed"));
    match ended {
        None => State::Running,
        Some(ended) if ended.name == "Complete" => {
            State::Succeeded { at: status.completion_time.unwrap_or(ended.last_transition_time) }
        }
        Some(ended) => State::Failed { at: ended.last_transition_time, why: words(&ended) },
    }
}

fn words(condition: &ConditionView) -> String {
    let ConditionView { reason, message, .. } = condition;
    if message.is_empty() { reason.clone() } else { format!("{reason}: {message}") }
}

// Views with just the fields that are asked for.

#[derive(Deserialize)]
struct JobView {
    metadata: MetadataView,
    #[serde(default)]
    status: StatusView,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataView {
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    deletion_timestamp: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusView {
    completion_time: Option<Time>,
    conditions: Vec<ConditionView>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConditionView {
    #[serde(rename = "type")]
    name: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: Time,
}
