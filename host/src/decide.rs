//! *decide*: the call of the plugin, in as many rounds as it needs objects for, and its log lines.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::breaker::Trial;
use crate::controller::{Controller, Logic, Memory};
use crate::decision::{Answer, Call, Document, ObjectRef, Observation, Related, Requirement};
use crate::error::{CallError, Error, Violation};
use crate::grant::Verb;
use crate::plugin::call::{Aborted, Outcome};
use crate::plugin::{Level, LogLine};
use crate::reconcile::{self, Next, Observed};

/// How soon a decision that rests on fetched objects is made again. They are not watched, so that
/// a Secret is never in a cache; a look by name every so often is what tells of a change.
const FETCHED: Duration = Duration::from_secs(15);

/// An answer that is final.
pub struct Decided<'a> {
    /// Told to the breaker once the answer is checked.
    pub trial: Trial<'a>,
    /// The answer; never `needs`.
    pub answer: Answer,
    /// Whether it rests on objects that were fetched for it.
    pub fetched: bool,
}

/// Makes sure that a decision on fetched objects is made again soon.
pub fn look_again(next: Next, memory: &mut Memory) -> Next {
    memory.settled = None;
    match next {
        Next::Again => Next::Again,
        Next::Wait => Next::After(FETCHED),
        Next::After(after) => Next::After(after.min(FETCHED)),
    }
}

/// Calls the plugin until it has decided.
///
/// # Errors
/// When the circuit is open, the call fails, the plugin says that it cannot decide, or it needs what
/// it may not see.
pub async fn decide<'a>(
    controller: &'a Controller,
    logic: &Logic,
    call: Call,
    observed: &Observed,
    memory: &Memory,
) -> Result<Decided<'a>, Error> {
    let basis = reconcile::hold_basis(controller, logic, &observed.parent);
    let failed_before = memory.hold.is_some_and(|(_, failed)| failed == basis);
    let admitted = controller.breaker.admit(Instant::now(), failed_before);
    let trial = admitted.map_err(CallError::CircuitOpen)?;
    let parent = &observed.shown.parent.reference;
    let heard = |heard: Heard<'_>| {
        controller.metrics.called(&controller.plugin.name, heard.elapsed);
        log(controller, logic, parent, heard.logs);
    };
    let decided = ask(controller, logic, call, observed.shown.clone(), heard).await;
    match decided {
        Ok((answer, fetched)) => Ok(Decided { trial, answer, fetched }),
        Err(error) => {
            match &error {
                Error::Call(CallError::Stopped) | Error::Api(_) => drop(trial),
                Error::Call(_) | Error::Violation(_) => controller.failed(trial),
                Error::Plugin(_) | Error::Conflict { .. } => controller.passed(trial),
            }
            Err(error)
        }
    }
}

/// What the checks say of an answer, told to the breaker.
///
/// # Errors
/// What the checks say.
pub fn settle<T>(controller: &Controller, trial: Trial<'_>, checked: Result<T, Error>) -> Result<T, Error> {
    match &checked {
        Ok(_) => controller.passed(trial),
        Err(_) => controller.failed(trial),
    }
    checked
}

/// What one call took, and what the plugin said in it.
pub struct Heard<'a> {
    /// Its log lines.
    pub logs: &'a [LogLine],
    /// How long it ran.
    pub elapsed: Duration,
    /// The most memory that it had, bytes.
    pub memory: usize,
}

impl<'a> From<&'a Result<Outcome, Aborted>> for Heard<'a> {
    fn from(called: &'a Result<Outcome, Aborted>) -> Self {
        match called {
            Ok(outcome) => Self { logs: &outcome.logs, elapsed: outcome.elapsed, memory: outcome.memory },
            Err(aborted) => Self { logs: &aborted.logs, elapsed: aborted.elapsed, memory: aborted.memory },
        }
    }
}

/// The answer, and whether it rests on objects that were fetched for it. `heard` is told of each
/// call.
///
/// # Errors
/// When a call fails, the plugin says that it cannot decide, or it needs what it may not see.
pub async fn ask(
    controller: &Controller,
    logic: &Logic,
    call: Call,
    mut shown: Arc<Observation>,
    mut heard: impl FnMut(Heard<'_>),
) -> Result<(Answer, bool), Error> {
    let rounds = controller.plugin.limits.request_rounds;
    for round in 0..=rounds {
        let called = logic.revision.decide(call, shown.clone()).await;
        heard(Heard::from(&called));
        match called?.result.map_err(Error::Plugin)? {
            Answer::Needs(requirements) => shown = Arc::new(fetch(controller, &shown, requirements).await?),
            answer => return Ok((answer, round > 0)),
        }
    }
    Err(CallError::TooManyRounds(usize::try_from(rounds).unwrap_or(usize::MAX)).into())
}

/// A plugin's lines carry its name and digest, so that nobody has to ask which revision spoke.
fn log(controller: &Controller, logic: &Logic, parent: &ObjectRef, lines: &[LogLine]) {
    let plugin = &*controller.plugin.name;
    let digest = logic.revision.digest();
    for line in lines {
        let message = &line.message;
        macro_rules! at {
            ($level:ident) => {
                tracing::$level!(target: "plugin", plugin, %digest, object = %parent, "{message}")
            };
        }
        match line.level {
            Level::Trace => at!(trace),
            Level::Debug => at!(debug),
            Level::Info => at!(info),
            Level::Warn => at!(warn),
            Level::Error => at!(error),
        }
    }
}

async fn fetch(
    controller: &Controller,
    shown: &Observation,
    requirements: Vec<Requirement>,
) -> Result<Observation, Error> {
    let mut next = shown.clone();
    for requirement in requirements {
        let object = fetch_one(controller, &shown.parent.reference, &requirement).await?;
        let related = Related { key: requirement.key, objects: object.into_iter().collect() };
        next.related.retain(|known| known.key != related.key);
        next.related.push(related);
    }
    Ok(next)
}

/// Read under the plugin's own account, so that the API server judges beside the grant, and never
/// put into a cache that another plugin could be shown.
async fn fetch_one(
    controller: &Controller,
    parent: &ObjectRef,
    requirement: &Requirement,
) -> Result<Option<Document>, Error> {
    let namespace = requirement.reference.namespace.clone().or(parent.namespace.clone());
    let reference = ObjectRef { namespace, ..requirement.reference.clone() };
    controller.plugin.grant.authorise(parent, Verb::Get, &reference)?;
    if !crate::check::is_dns_subdomain(&reference.name) {
        return Err(Violation { rule: "name", message: format!("{reference}: that is no valid name") }.into());
    }
    match controller.writer.read_as_plugin(&reference).await {
        Ok(json) => Ok(Some(Document { reference, json: json.into() })),
        Err(error) if error.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}
