//! Status, conditions and Events: what was observed, never what is desired.

use hotshoe_sdk::apply::batch_v1::Job;
use hotshoe_sdk::{Condition, Event, Request, Status, Time};

use crate::Backup;
use crate::api::BackupStatus;
use crate::runs::{Run, State};
use crate::schedule::{Failing, Phase, Schedule};

const READY: &str = "Ready";
const RUNNING: &str = "Running";
/// The condition type of kstatus, which tools that wait for objects know.
const STALLED: &str = "Stalled";
const RUN_FAILED: &str = "RunFailed";

/// The input of the status, the conditions and the Events.
pub(crate) struct View<'a> {
    pub(crate) request: &'a Request<Backup>,
    pub(crate) schedule: &'a Schedule,
    pub(crate) runs: &'a [Run],
    pub(crate) phase: Phase<'a>,
    pub(crate) next: Option<Time>,
}

pub(crate) fn status(view: &View<'_>) -> BackupStatus {
    let said = &view.request.parent.status;
    BackupStatus {
        observed_generation: Some(view.request.parent.metadata.generation),
        active: match view.phase {
            Phase::Runs(run) => Some(run.name(view.request.name())),
            _ => None,
        },
        final_job: final_job(view).or_else(|| said.final_job.clone()),
        last_run_time: view.schedule.last.or(said.last_run_time),
        last_successful_time: view.runs.iter().filter_map(succeeded).chain(said.last_successful_time).max(),
        next_run_time: view.next,
        failed_tries: Some(failed_tries(view)),
    }
}

/// Returns the Job of the last run, scheduled for the time of the deletion, if it is there.
fn final_job(view: &View<'_>) -> Option<String> {
    let deleted = view.request.parent.metadata.deletion_timestamp?;
    let last = view.runs.iter().find(|run| run.time == deleted)?;
    Some(last.name(view.request.name()))
}

fn succeeded(run: &Run) -> Option<Time> {
    match run.state {
        State::Succeeded { at } => Some(at),
        State::Running | State::Failed { .. } => None,
    }
}

/// Returns how many tries failed in a row since the spec was changed, without a run that is under way.
fn failed_tries(view: &View<'_>) -> i64 {
    match (view.phase, view.schedule.failing) {
        (Phase::Runs(run), _) if run.generation == view.request.parent.metadata.generation => run.tries - 1,
        (_, failing) => failing.map_or(0, |failing| failing.tries),
    }
}

/// Builds the conditions, always in the same order.
pub(crate) fn conditions(view: &View<'_>) -> Vec<Condition> {
    let mut conditions = vec![ready(view), running(view)];
    if view.phase == Phase::Stalled {
        conditions.push(Condition::new(STALLED, Status::True, "TriesExhausted", stalled(view)));
    }
    conditions
}

/// Builds `Ready`: whether the last run that ended succeeded.
fn ready(view: &View<'_>) -> Condition {
    if let (Phase::Starts(_), Some(refusal)) =
        (view.phase, view.request.refusals.iter().find(|refusal| refusal.concerns::<Job>()))
    {
        let message = format!("the API server refused Job {}: {}", refusal.reference.name, refusal.message);
        return Condition::new(READY, Status::False, "JobRefused", message);
    }
    let name = |run: &Run| run.name(view.request.name());
    match (last_ended(view), view.schedule.failing) {
        (_, Some(_)) => Condition::new(READY, Status::False, RUN_FAILED, failed(view) + &afterwards(view)),
        (Some(run), None) if succeeded(run).is_some() => {
            Condition::new(READY, Status::True, "RunSucceeded", format!("the run {} succeeded", name(run)))
        }
        (Some(_), None) => Condition::new(READY, Status::False, RUN_FAILED, failed(view) + &afterwards(view)),
        (None, None) if view.request.parent.status.last_successful_time.is_some() => {
            Condition::new(READY, Status::True, "RunSucceeded", "the last run succeeded")
        }
        (None, None) => Condition::new(READY, Status::Unknown, "NoRunYet", "no run has ended yet"),
    }
}

/// Returns the last run that has ended. Runs from before the clock was set back count as older than all others.
fn last_ended<'a>(view: &View<'a>) -> Option<&'a Run> {
    let ended = view.runs.iter().filter(|run| !run.is_running());
    ended.max_by_key(|run| (run.time <= view.schedule.now, run.time))
}

fn failed(view: &View<'_>) -> String {
    match last_ended(view) {
        Some(run @ Run { state: State::Failed { why, .. }, .. }) => {
            format!("the run {} failed: {why}", run.name(view.request.name()))
        }
        _ => "the last run failed".to_owned(),
    }
}

fn afterwards(view: &View<'_>) -> String {
    match (view.phase, view.next) {
        (Phase::Runs(_) | Phase::Starts(_), _) => "; it is tried again now".to_owned(),
        (Phase::Waits(_), Some(next)) => format!("; it is tried again at {next}"),
        _ => String::new(),
    }
}

fn stalled(view: &View<'_>) -> String {
    let tries = view.schedule.failing.map_or(0, |Failing { tries, .. }| tries);
    format!("{tries} tries in a row failed, and no run begins until the spec changes; {}", failed(view))
}

fn running(view: &View<'_>) -> Condition {
    let not = |reason: &str, message: &str| Condition::new(RUNNING, Status::False, reason, message);
    match view.phase {
        Phase::Runs(run) => under_way(view, run),
        Phase::Starts(_) => not("Starting", "a run is about to begin"),
        Phase::Waits(_) => not("Waiting", "the next run is not due yet"),
        Phase::Suspended => not("Suspended", "no run begins while spec.suspend is true"),
        Phase::Ended => not("Deleted", "no run begins any more, for the Backup is being deleted"),
        Phase::Stalled => not("TriesExhausted", "no run begins until the spec changes"),
    }
}

fn under_way(view: &View<'_>, run: &Run) -> Condition {
    let name = run.name(view.request.name());
    match view.next {
        Some(next) if next <= view.schedule.now => {
            let message = format!("the run {name} takes longer than the interval; the next begins when it ends");
            Condition::new(RUNNING, Status::True, "Overrun", message)
        }
        _ => Condition::new(RUNNING, Status::True, "Running", format!("the run {name} is under way")),
    }
}

/// Builds the Event for a failed run, as long as the status does not count that failure yet.
pub(crate) fn event(view: &View<'_>) -> Option<Event> {
    let Failing { tries, .. } = view.schedule.failing?;
    let is_news = tries > 0 && view.request.parent.status.failed_tries != Some(tries);
    is_news.then(|| match view.phase {
        Phase::Stalled => Event::warning("TriesExhausted", stalled(view)),
        _ => Event::warning(RUN_FAILED, failed(view)),
    })
}
