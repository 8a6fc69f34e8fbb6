//! The clean-up: with `spec.finalRun`, a last run before the Backup goes.
//!
//! The last run is scheduled for the time of the deletion, so that its Job has the same name in each call. The clean-up
//! ends in every case: the run has ended, its Job is gone after it was seen, or the namespace is being deleted and
//! accepts no Job any more.

use hotshoe_sdk::apply::batch_v1::Job;
use hotshoe_sdk::{Cleanup, Decision, Failure, Object, Request, Time};

use crate::Backup;
use crate::job::{self, NewRun};
use crate::runs::{self, Run};
use crate::schedule::{Phase, Schedule};
use crate::status::{self, View};
use crate::validate;

/// The reason of a refusal in a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

pub(crate) fn finalize(request: &Request<Backup>) -> Result<Cleanup, Failure> {
    let spec = &request.parent.spec;
    let deleted = request.parent.metadata.deletion_timestamp.filter(|_| spec.final_run && !spec.suspend);
    let Some(deleted) = deleted else { return Ok(Cleanup::Done(Decision::keep())) };
    validate::validate(request)?;
    let runs = runs::observed(request)?;
    let schedule = Schedule::of(request.time()?, &request.parent, &runs);
    let phase = phase(request, deleted, &runs);
    let view = View { request, schedule: &schedule, runs: &runs, phase, next: None };
    let decision = children(request, &schedule, &runs, phase)
        .status(&status::status(&view))?
        .conditions(status::conditions(&view))
        .events(status::event(&view));
    Ok(if phase == Phase::Ended { Cleanup::Done(decision) } else { Cleanup::Waiting(decision) })
}

fn phase<'a>(request: &Request<Backup>, deleted: Time, runs: &'a [Run]) -> Phase<'a> {
    let last = runs.iter().find(|run| run.time == deleted);
    let has_ended = match last {
        Some(run) => !run.is_running(),
        None => request.parent.status.final_job.is_some(),
    };
    let is_refused = || {
        let mut of_jobs = request.refusals.iter().filter(|refusal| refusal.concerns::<Job>());
        of_jobs.any(|refusal| refusal.reason == NAMESPACE_TERMINATING)
    };
    match runs.iter().find(|run| run.is_running()) {
        _ if has_ended || is_refused() => Phase::Ended,
        Some(run) => Phase::Runs(run),
        None => Phase::Starts(deleted),
    }
}

/// Desires the Jobs that run and the one of the last run. Those that are finished go: a clean-up that creates children
/// has few.
fn children(request: &Request<Backup>, schedule: &Schedule, runs: &[Run], phase: Phase<'_>) -> Decision {
    let running = runs.iter().filter(|run| run.is_running());
    let mut jobs: Vec<Object> = running.map(|run| Object::kept::<Job>(&run.name(request.name()))).collect();
    match phase {
        Phase::Ended => return Decision::keep(),
        Phase::Starts(time) => {
            let generation = request.parent.metadata.generation;
            let run = NewRun { backup: request.name(), time, tries: schedule.next_try(), generation };
            jobs.push(job::of(&run, &request.parent.spec).into());
        }
        _ => {}
    }
    Decision::exactly(jobs)
}
