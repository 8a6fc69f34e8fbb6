//! *decide*: the call of the plugin, in one round for each `needs`, and its log lines.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use std::time::Instant;

use crate::cluster::error::ApiError;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::check::{Check, Checked};
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::fingerprint::{backoff_basis, churn_basis, refusal_basis};
use crate::reconcile::observe::Observed;
use crate::reconcile::pass::Pass;
use crate::reconcile::requirements;
use crate::reconcile::requirements::Room;
use crate::sandbox::call::{Aborted, Outcome};
use crate::sandbox::error::CallError;
use crate::sandbox::{Level, LogLine};
use crate::telemetry::by_revision::End;
use hotshoe_core::check::Inadmissible;
use hotshoe_core::flow::circuit_breaker::{Standing, Trial};
use hotshoe_core::flow::flapping::Intent;
use hotshoe_core::flow::write_verdict::Written;
use hotshoe_core::model::decision::{Answer, Call, Observation, Requirement};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::{Kind, ObjectRef};

/// The bytes of a log line beside its message: time, level, plugin, revision and object.
pub const LINE: usize = 200;

/// A final answer that is admitted.
pub struct Admitted<'a> {
    /// The answer.
    pub checked: Checked,
    /// Settled with the circuit breaker by what becomes of its [writes](settle_written).
    pub trial: Trial<'a>,
}

/// Calls the plugin until it has decided, and checks the answer.
///
/// # Errors
/// When the circuit is open, the call fails, the plugin says that it cannot decide, it needs what it may not see, or
/// its answer is denied.
pub async fn decide<'a>(pass: &mut Pass<'a>, call: Call, observed: &Arc<Observed>) -> Result<Admitted<'a>, Error> {
    let Observed { parent, children, .. } = &**observed;
    let basis = || backoff_basis(pass.controller, pass.active, parent, &parent.finalizers, children);
    // One whose children stay invalid would take the trials of parents that can be served.
    let stays_invalid = || pass.state.refused.stays_invalid(|child| refusal_basis(pass, observed, child));
    let failed = pass.state.backoff.is_some_and(|(_, failed)| failed == basis()) || stays_invalid();
    let mut trial = admit(pass, failed)?;
    let mut decided = call_once(pass, call, observed).await;
    if let Err(Error::Call(CallError::Stopped)) = decided {
        // The circuit opened while it waited, which is no failure of its own.
        drop(trial);
        trial = admit(pass, failed)?;
        decided = call_once(pass, call, observed).await;
    }
    let admitted = decided.and_then(|checked| {
        pass.controller.answered(&pass.active.revision);
        Ok(checked?)
    });
    match admitted {
        Ok(checked) => Ok(Admitted { checked, trial }),
        Err(error) => {
            settle_failed(pass, trial, &error);
            Err(error)
        }
    }
}

/// Asks the circuit breaker for a call.
fn admit<'a>(pass: &mut Pass<'a>, failed: bool) -> Result<Trial<'a>, CallError> {
    let (now, controller) = (Instant::now(), pass.controller);
    let breaker = controller.breaker_of(pass.active.revision.digest());
    let admitted = breaker.admit(now, Standing { failed, place: pass.state.place });
    pass.state.place = admitted.as_ref().err().copied();
    admitted.map_err(|again| CallError::CircuitOpen(again.saturating_duration_since(now)))
}

/// Asks the plugin, checks its answer, and counts and logs each call.
async fn call_once(
    pass: &mut Pass<'_>,
    call: Call,
    observed: &Arc<Observed>,
) -> Result<Result<Checked, Inadmissible>, Error> {
    let check = Arc::new(Check::of(pass, call, observed));
    let (controller, active) = (pass.controller, pass.active);
    let digest = active.revision.digest();
    let heard = |heard: Heard<'_>| {
        let end = if heard.failed { End::Aborted } else { End::Answered };
        controller.metrics.called(&controller.name, digest, end, heard.elapsed);
        controller.judge(digest, |probation| probation.called(Instant::now(), digest, heard.used));
        log(controller, active, &observed.shown.parent.reference, heard.logs);
        note_dropped(controller, digest, heard.dropped);
    };
    let check = move |answer| check.run(answer);
    let mut fetched = Fetched::default();
    let checked = ask(controller, active, (call, check), observed.shown.clone(), &mut fetched, heard).await;
    pass.state.fetched = fetched.any;
    checked
}

/// Counts a failure of a call with the circuit breaker, and against the revision.
fn settle_failed(pass: &Pass<'_>, trial: Trial<'_>, error: &Error) {
    let controller = pass.controller;
    if error.is_the_plugins() {
        let digest = pass.active.revision.digest();
        controller.judge(digest, |probation| probation.failed(Instant::now(), digest, &pass.parent.key, error));
    }
    match error {
        Error::Api(_) | Error::NotGranted(_) | Error::Call(CallError::Stopped) => drop(trial),
        Error::Call(CallError::DeadlineExceeded(_)) => controller.overdue(trial),
        Error::Call(_) | Error::Denied(_) => controller.failed(trial),
        // The call itself succeeded, so the circuit stays closed.
        Error::Plugin(_) | Error::NoRoom(_) => controller.passed(trial),
    }
}

/// Counts what became of a decision's writes with the circuit breaker. `unanswered` are those without an answer in time.
pub fn settle_written(pass: &Pass<'_>, trial: Trial<'_>, unanswered: &[ApiError]) {
    let controller = pass.controller;
    let late = unanswered.iter().filter_map(|error| Some((error, error.unanswered?)));
    let held: Vec<&ApiError> =
        late.filter(|(_, write)| controller.writer.is_to_blame(*write)).map(|(error, _)| error).collect();
    held.iter().for_each(|error| controller.hold(error));
    let written =
        Written { is_held: !held.is_empty(), is_own_time: pass.is_due, invalid: pass.state.refused.invalid_tries() };
    controller.written(trial, written);
}

/// Records the desired state: a revision whose answers for an unchanged parent keep changing flaps.
pub fn note(pass: &mut Pass<'_>, observed: &Observed, answer: Intent) {
    let (now, controller, active) = (Instant::now(), pass.controller, pass.active);
    let basis = churn_basis(controller, active, &observed.parent);
    let churn = match pass.is_due {
        true => pass.state.churn.then_on_time(basis, answer, now),
        false => pass.state.churn.then(basis, answer, now),
    };
    pass.state.churn = churn;
    if churn.is_new(now) {
        let (digest, endless) = (active.revision.digest(), churn.is_endless(now));
        let parent = &observed.parent.key;
        controller.judge(digest, |probation| probation.flapped(now, digest, parent, endless));
    }
}

/// Returns the pause of a parent on which the plugin flaps.
pub fn slowed(pass: &Pass<'_>) -> Option<Duration> {
    let basis = || churn_basis(pass.controller, pass.active, &pass.parent);
    pass.state.churn.pause(Instant::now(), basis)
}

/// One call: its time, its memory and its log lines.
pub struct Heard<'a> {
    /// Its log lines.
    pub logs: &'a [LogLine],
    /// The number of lines that were dropped.
    pub dropped: u32,
    /// Whether it failed without an answer.
    pub failed: bool,
    /// How long it ran.
    pub elapsed: Duration,
    /// Its processor time, which does not grow where others need the processor.
    pub used: Duration,
    /// Its peak memory, bytes.
    pub memory: usize,
}

impl<'a, T> From<&'a Result<Outcome<T>, Aborted>> for Heard<'a> {
    fn from(called: &'a Result<Outcome<T>, Aborted>) -> Self {
        match called {
            Ok(Outcome { logs, logs_dropped, elapsed, used, memory, .. }) => {
                Self { logs, dropped: *logs_dropped, failed: false, elapsed: *elapsed, used: *used, memory: *memory }
            }
            Err(Aborted { logs, logs_dropped, elapsed, used, memory, .. }) => {
                Self { logs, dropped: *logs_dropped, failed: true, elapsed: *elapsed, used: *used, memory: *memory }
            }
        }
    }
}

/// A call's result: what is done with a final answer, or what is needed for one.
enum Round<T> {
    Final(T),
    Needs(Vec<Requirement>),
}

/// What an answer or failure is based on beside what is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Objects that were fetched for it.
    pub any: bool,
    /// Secrets among them.
    pub secrets: bool,
}

/// Asks a revision until it answers finally, and does `then` with that answer on the thread of the call. Sets `fetched`
/// to what the answer or failure is based on; calls `heard` after each call.
///
/// # Errors
/// When a call fails, the plugin says that it cannot decide, or it needs what it may not see.
pub async fn ask<T: Send + 'static>(
    controller: &Controller,
    active: &ActiveRevision,
    (call, then): (Call, impl Fn(Answer) -> T + Clone + Send + 'static),
    mut shown: Arc<Observation>,
    fetched: &mut Fetched,
    mut heard: impl FnMut(Heard<'_>),
) -> Result<T, Error> {
    *fetched = Fetched::default();
    let rounds = active.plugin.limits.request_rounds;
    let mut room = Room::new(active.plugin.limits.fetched_bytes, &active.plugin.memory);
    for _ in 0..=rounds {
        let then = then.clone();
        let round = move |answer| match answer {
            Answer::Needs(requirements) => Round::Needs(requirements),
            answer => Round::Final(then(answer)),
        };
        let called = active.revision.decide_then(call, shown.clone(), round).await;
        if !matches!(&called, Err(Aborted { error: CallError::Stopped, .. })) {
            heard(Heard::from(&called));
        }
        match called?.result.map_err(Error::Plugin)? {
            Round::Needs(requirements) => {
                let secrets = requirements.iter().any(|one| is_secret(&one.reference.kind));
                shown = Arc::new(requirements::fetch(controller, active, &shown, requirements, &mut room).await?);
                *fetched = Fetched { any: true, secrets: fetched.secrets || secrets };
            }
            Round::Final(done) => return Ok(done),
        }
    }
    Err(CallError::TooManyRounds(usize::try_from(rounds).unwrap_or(usize::MAX)).into())
}

/// Returns whether an observation shows Secrets, as a parent, as children or as what was fetched.
pub fn shows_secrets(shown: &Observation) -> bool {
    let related = shown.related.iter().flat_map(|related| &related.objects);
    let mut all = iter::once(&shown.parent).chain(&shown.children).chain(related);
    all.any(|document| is_secret(&document.reference.kind))
}

fn is_secret(kind: &Kind) -> bool {
    kind.is("", "Secret")
}

/// Logs a plugin's lines with its name and digest.
fn log(controller: &Controller, active: &ActiveRevision, parent: &ObjectRef, lines: &[LogLine]) {
    let plugin = &*controller.name;
    let digest = active.revision.digest();
    for line in lines {
        let message = &line.message;
        macro_rules! at {
            ($level:ident) => {
                match tracing::enabled!(target: "plugin", tracing::Level::$level) {
                    // A line that is not logged costs nothing.
                    false => {}
                    true if !controller.lines.allows(LINE + message.len()) => note_dropped(controller, digest, 1),
                    true => tracing::event!(target: "plugin", tracing::Level::$level, plugin, %digest, object = %parent, "{message}"),
                }
            };
        }
        match line.level {
            Level::Trace => at!(TRACE),
            Level::Debug => at!(DEBUG),
            Level::Info => at!(INFO),
            Level::Warn => at!(WARN),
            Level::Error => at!(ERROR),
        }
    }
}

fn note_dropped(controller: &Controller, digest: Digest, lines: u32) {
    if lines == 0 {
        return;
    }
    let plugin = &*controller.name;
    controller.metrics.lines_dropped(plugin, lines.into());
    if let Some(dropped) = controller.lines.dropped(lines.into(), Instant::now()) {
        tracing::warn!(plugin, %digest, dropped, "the plugin logs more than is written; some of its lines were dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::decision::Failure;

    #[test]
    fn the_lines_that_a_call_lost_are_counted_whether_it_ended_well_or_not() {
        let (logs, elapsed, used, memory) = (Vec::new(), Duration::ZERO, Duration::ZERO, 0);
        let result: Result<Answer, _> = Err(Failure::Other(String::new()));
        let well = Ok(Outcome { result, logs: logs.clone(), logs_dropped: 3, elapsed, used, memory });
        let ill = Err(Aborted { error: CallError::Stopped, logs, logs_dropped: 4, elapsed, used, memory });
        for (called, dropped, failed) in [(well, 3, false), (ill, 4, true)] {
            let heard = Heard::from(&called);
            assert_eq!((heard.dropped, heard.failed), (dropped, failed));
        }
    }
}
