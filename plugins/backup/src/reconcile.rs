//! From an observation to a decision.

use std::time::Duration;

use hotshoe_sdk::apply::batch_v1::Job;
use hotshoe_sdk::{Answer, Decision, Failure, Object, Request, Time};

use crate::Backup;
use crate::job::{self, NewRun};
use crate::runs::{self, Run};
use crate::schedule::{Phase, Schedule};
use crate::status::{self, View};
use crate::{history, validate};

/// The longest requeue, however far away the next run is: the clock may be set meanwhile.
const MAX_REQUEUE: Duration = Duration::from_secs(300);

pub(crate) fn reconcile(request: &Request<Backup>) -> Result<Answer, Failure> {
    validate::validate(request)?;
    let (backup, runs) = (&request.parent, runs::observed(request)?);
    let schedule = Schedule::of(request.time()?, backup, &runs);
    let phase = schedule.phase(backup.spec.suspend, &runs);
    let next = schedule.next(backup.spec.suspend, phase);
    let view = View { request, schedule: &schedule, runs: &runs, phase, next };
    let decision = children(request, &schedule, &runs, phase)
        .status(&status::status(&view))?
        .conditions(status::conditions(&view))
        .events(status::event(&view));
    Ok(Answer::Decided(match next.filter(|next| *next > schedule.now) {
        Some(next) => decision.requeue_after(until(request, next).min(MAX_REQUEUE)),
        None => decision,
    }))
}

/// Desires the Jobs of the runs that are kept and the Job of a run that begins now.
fn children(request: &Request<Backup>, schedule: &Schedule, runs: &[Run], phase: Phase<'_>) -> Decision {
    let spec = &request.parent.spec;
    let kept = history::kept(schedule.now, &spec.history_limit, runs);
    let mut jobs: Vec<Object> = kept.iter().map(|run| Object::kept::<Job>(&run.name(request.name()))).collect();
    if let Phase::Starts(time) = phase {
        let generation = request.parent.metadata.generation;
        let run = NewRun { backup: request.name(), time, tries: schedule.next_try(), generation };
        jobs.push(job::of(&run, spec).into());
    }
    // An answer without any child would ask for the deletion of all.
    if jobs.is_empty() { Decision::keep() } else { Decision::exactly(jobs) }
}

/// Returns the time until a run is due, to the millisecond, so that it begins when it is due and not up to a second
/// later.
fn until(request: &Request<Backup>, time: Time) -> Duration {
    let part = request.now.unwrap_or_default() % 1000;
    request.time().map_or(MAX_REQUEUE, |now| now.until(time)).saturating_sub(Duration::from_millis(part))
}
