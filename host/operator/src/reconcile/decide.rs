//! *decide*: calls the plugin, once more for each answer `needs`, and writes its log lines.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use std::time::Instant;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::check::{Check, CheckedDecision};
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::fingerprint::{backoff_basis, flapping_basis, refusal_basis};
use crate::reconcile::observe::Observed;
use crate::reconcile::pass::Pass;
use crate::reconcile::record::Called;
use crate::reconcile::requirements;
use crate::reconcile::requirements::{FetchBudget, Fetched, is_secret};
use crate::telemetry::by_revision::End;
use hotshoe_core::check::Inadmissible;
use hotshoe_core::flow::circuit::ParentRecord;
use hotshoe_core::flow::flapping::DesiredFingerprint;
use hotshoe_core::flow::signal::Signal;
use hotshoe_core::model::decision::{Answer, Call, Observation, Requirement};
use hotshoe_core::model::kind::Key;
use hotshoe_sandbox::call::{Aborted, Outcome};
use hotshoe_sandbox::error::CallError;
use hotshoe_sandbox::{Level, LogLine};

/// Calls the plugin until it has decided, and checks the answer.
///
/// # Errors
/// When the circuit is open, the call fails, the plugin says that it cannot decide, it needs an object that it may not
/// see, or its answer is denied.
pub async fn decide(pass: &mut Pass<'_>, call: Call, observed: &Arc<Observed>) -> Result<CheckedDecision, Error> {
    let Observed { parent, children, .. } = &**observed;
    let basis = || backoff_basis(pass.controller, pass.active, parent, &parent.finalizers, children);
    // A parent whose children stay invalid would use up the trials of parents that can succeed.
    let stays_invalid = || pass.state.refused.stays_invalid(|child| refusal_basis(pass, observed, child));
    let failed = pass.state.backoff.is_some_and(|(_, failed)| failed == basis()) || stays_invalid();
    admit(pass, failed)?;
    pass.record.call = Some(Called {
        shown: observed.shown.clone(),
        parent: parent.clone(),
        children: children.clone(),
        needed: pass.controller.needed.outdated(&parent.key),
    });
    let mut decided = call_once(pass, call, observed).await;
    if let Err(Error::Call(CallError::Stopped)) = decided {
        // The circuit opened while the call was waiting: not a failure of this call.
        admit(pass, failed)?;
        decided = call_once(pass, call, observed).await;
    }
    let checked = decided.and_then(|checked| {
        pass.controller.answered(&pass.active.revision);
        Ok(checked?)
    });
    let signal = checked.as_ref().err().and_then(|error| error.signal(pass.tainted));
    pass.signals.extend(signal);
    checked
}

/// Asks the circuit breaker for a call. Its trial ends with the pass, or with the next call.
fn admit(pass: &mut Pass<'_>, failed: bool) -> Result<(), CallError> {
    pass.trial = None;
    let now = Instant::now();
    let breaker = &pass.controller.health_of(pass.active.revision.digest()).breaker;
    let admitted = breaker.admit(now, &pass.parent.key, ParentRecord { failed, place: pass.state.place });
    pass.state.place = admitted.as_ref().err().copied();
    pass.trial = Some(admitted.map_err(|again| CallError::CircuitOpen(again.saturating_duration_since(now)))?);
    Ok(())
}

/// Calls the plugin until it answers finally, checks the answer, and counts and logs each call.
async fn call_once(
    pass: &mut Pass<'_>,
    call: Call,
    observed: &Arc<Observed>,
) -> Result<Result<CheckedDecision, Inadmissible>, Error> {
    let check = Arc::new(Check::of(pass, call, observed));
    let (controller, active) = (pass.controller, pass.active);
    let digest = active.revision.digest();
    let on_call = |report: CallReport<'_>| {
        let end = if report.failed { End::Aborted } else { End::Answered };
        controller.metrics.called(&controller.name, digest, end, report.elapsed);
        pass.signals.push(Signal::Called(report.used));
        log(controller, report.logs);
        controller.note_dropped(&controller.lines, report.dropped);
    };
    let check = move |answer| check.run(answer);
    let mut fetched = Fetched::default();
    let key = &observed.parent.key;
    let checked =
        ask(controller, active, (call, check), observed.shown.clone(), Some(key), &mut fetched, on_call).await;
    (pass.state.fetched, pass.state.unwatched) = (fetched.any, fetched.unwatched);
    // Without an answer it is not known what the parent no longer needs. What is no longer granted, or is too much to be
    // shown, is not watched.
    if matches!(checked, Ok(_) | Err(Error::Plugin(_) | Error::Denied(_) | Error::Selection(_))) {
        controller.needed.keep(key, &fetched.wanted);
    }
    pass.tainted |= fetched.secrets || shows_secrets(&observed.shown);
    checked
}

/// Records the desired state. A revision flaps if its answers for an unchanged parent keep changing.
pub fn note_intent(pass: &mut Pass<'_>, observed: &Observed, answer: DesiredFingerprint) {
    let now = Instant::now();
    let basis = flapping_basis(pass.controller, pass.active, &observed.parent);
    let flapping = match pass.is_due {
        true => pass.state.flapping.then_on_time(basis, answer, now),
        false => pass.state.flapping.then(basis, answer, now),
    };
    pass.state.flapping = flapping;
    if flapping.is_new(now) {
        pass.signals.push(Signal::Flapped { endless: flapping.is_endless(now) });
    }
}

/// Returns the pause of a parent on which the plugin flaps.
pub fn flap_pause(pass: &Pass<'_>) -> Option<Duration> {
    let basis = || flapping_basis(pass.controller, pass.active, &pass.parent);
    pass.state.flapping.pause(Instant::now(), basis)
}

/// What is known of one call: its time, its memory and its log lines.
pub struct CallReport<'a> {
    /// The log lines of the plugin.
    pub logs: &'a [LogLine],
    /// The number of lines that were dropped.
    pub dropped: u32,
    /// Whether the call failed without an answer.
    pub failed: bool,
    /// The wall time of the call.
    pub elapsed: Duration,
    /// The processor time of the call, which does not grow when others use the processor.
    pub used: Duration,
    /// The peak memory of the call, in bytes.
    pub memory: usize,
}

impl<'a, T> From<&'a Result<Outcome<T>, Aborted>> for CallReport<'a> {
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

/// The result of one call: a final answer, or the objects that the plugin requires before it can give one.
enum Round<T> {
    Final(T),
    Needs(Vec<Requirement>),
}

/// Calls a revision until it answers finally, and runs `then` on that answer on the thread of the call. Sets `fetched`
/// to the fetched objects that the result is based on, and has them watched for `reader`, if that is a parent to reconcile. Runs `on_call` after each call.
///
/// # Errors
/// When a call fails, the plugin says that it cannot decide, or it needs an object that it may not see.
pub async fn ask<T: Send + 'static>(
    controller: &Controller,
    active: &ActiveRevision,
    (call, then): (Call, impl Fn(Answer) -> T + Clone + Send + 'static),
    mut shown: Arc<Observation>,
    reader: Option<&Key>,
    fetched: &mut Fetched,
    mut on_call: impl FnMut(CallReport<'_>),
) -> Result<T, Error> {
    *fetched = Fetched::default();
    let rounds = active.plugin.limits.request_rounds;
    let mut room = FetchBudget::new(active.plugin.limits.fetched_bytes, &active.plugin.memory);
    for _ in 0..=rounds {
        let then = then.clone();
        let round = move |answer| match answer {
            Answer::Needs(requirements) => Round::Needs(requirements),
            answer => Round::Final(then(answer)),
        };
        let called = active.revision.decide_then(call, shown.clone(), round).await;
        if !matches!(&called, Err(Aborted { error: CallError::Stopped, .. })) {
            on_call(CallReport::from(&called));
        }
        match called?.result.map_err(Error::Plugin)? {
            Round::Needs(requirements) => {
                let reading = (reader, &mut *fetched);
                shown =
                    Arc::new(requirements::fetch(controller, active, &shown, requirements, reading, &mut room).await?);
            }
            Round::Final(done) => return Ok(done),
        }
    }
    Err(CallError::TooManyRounds(usize::try_from(rounds).unwrap_or(usize::MAX)).into())
}

/// Returns whether an observation shows Secrets: as the parent, as children or as related objects.
pub fn shows_secrets(shown: &Observation) -> bool {
    let related = shown.related.iter().flat_map(|related| &related.objects);
    let mut all = iter::once(&shown.parent).chain(&shown.children).chain(related);
    all.any(|document| is_secret(&document.reference.kind))
}

/// Writes the log lines of a plugin.
fn log(controller: &Controller, lines: &[LogLine]) {
    for line in lines {
        let message = &line.message;
        macro_rules! at {
            ($level:ident) => {
                // A line below the log level uses nothing of the rate limit.
                if tracing::enabled!(target: "plugin", tracing::Level::$level)
                    && controller.may_log(&controller.lines, message.len())
                {
                    tracing::event!(target: "plugin", tracing::Level::$level, "{message}");
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

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::decision::Failure;

    #[test]
    fn dropped_log_lines_are_counted_for_answered_and_aborted_calls() {
        let (logs, elapsed, used, memory) = (Vec::new(), Duration::ZERO, Duration::ZERO, 0);
        let result: Result<Answer, _> = Err(Failure::Other(String::new()));
        let well = Ok(Outcome { result, logs: logs.clone(), logs_dropped: 3, elapsed, used, memory });
        let ill = Err(Aborted { error: CallError::Stopped, logs, logs_dropped: 4, elapsed, used, memory });
        for (called, dropped, failed) in [(well, 3, false), (ill, 4, true)] {
            let report = CallReport::from(&called);
            assert_eq!((report.dropped, report.failed), (dropped, failed));
        }
    }
}
