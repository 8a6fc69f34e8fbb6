//! *decide*: the call of the plugin, in as many rounds as it needs objects for, and its log lines.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::breaker::{Standing, Trial};
use crate::controller::{Controller, Logic, Memory};
use crate::decision::{Answer, Call, Decision, Document, Failure, ObjectRef, Observation, Related, Requirement};
use crate::error::{CallError, Error};
use crate::grant::{Access, Request, Verb};
use crate::object::Object;
use crate::plugin::call::{Aborted, Outcome};
use crate::plugin::limits::Size;
use crate::plugin::{Level, LogLine};
use crate::reconcile::{self, Next, Observed};
use crate::tally::End;

/// How soon a decision that rests on fetched objects is made again. They are not watched, so that
/// a Secret is never in a cache; a look by name every so often is what tells of a change.
const FETCHED: Duration = Duration::from_secs(15);

/// An answer that is final.
pub struct Final<'a> {
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
    next.no_later_than(FETCHED)
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
    memory: &mut Memory,
) -> Result<Final<'a>, Error> {
    let failed =
        memory.hold.is_some_and(|(_, failed)| failed == reconcile::hold_basis(controller, logic, &observed.parent));
    let mut admit = || {
        let now = Instant::now();
        let admitted = controller.breaker.admit(now, Standing { failed, place: memory.place });
        memory.place = admitted.as_ref().err().copied();
        admitted.map_err(|again| CallError::CircuitOpen(again.saturating_duration_since(now)))
    };
    let mut trial = admit()?;
    let parent = &observed.shown.parent.reference;
    let heard = |heard: Heard<'_>| {
        let end = if heard.failed { End::Aborted } else { End::Answered };
        controller.metrics.called(&controller.name, logic.revision.digest(), end, heard.elapsed);
        controller.probation.called(Instant::now(), logic.revision.digest(), heard.elapsed);
        log(controller, logic, parent, heard.logs);
    };
    let mut decided = ask(controller, logic, call, observed.shown.clone(), heard).await;
    if let Err(Error::Call(CallError::Stopped)) = decided {
        // The circuit opened before its turn came, so it has not failed by that.
        drop(trial);
        trial = admit()?;
        decided = ask(controller, logic, call, observed.shown.clone(), heard).await;
    }
    match decided {
        Ok((answer, fetched)) => {
            controller.answered(&logic.revision);
            Ok(Final { trial, answer, fetched })
        }
        Err(error) => {
            match &error {
                Error::Api(_) | Error::Call(CallError::Stopped) => drop(trial),
                Error::Call(CallError::DeadlineExceeded(_)) => {
                    controller.probation.failed(Instant::now(), logic.revision.digest());
                    controller.overdue(trial);
                }
                Error::Call(_) | Error::Violation(_) => hold_against(controller, logic, trial),
                Error::Plugin(stated) => {
                    // It ran well, so it is called on; that it does not know how is worse than one that does.
                    if matches!(stated, Failure::Other(_)) {
                        controller.probation.failed(Instant::now(), logic.revision.digest());
                    }
                    controller.passed(trial);
                }
            }
            Err(error)
        }
    }
}

/// What the checks say of an answer, told to the breaker and held against the revision.
///
/// # Errors
/// What the checks say.
pub fn settle<T>(
    controller: &Controller,
    logic: &Logic,
    trial: Trial<'_>,
    checked: Result<T, Error>,
) -> Result<T, Error> {
    match &checked {
        Ok(_) => controller.passed(trial),
        Err(_) => hold_against(controller, logic, trial),
    }
    checked
}

fn hold_against(controller: &Controller, logic: &Logic, trial: Trial<'_>) {
    controller.probation.failed(Instant::now(), logic.revision.digest());
    controller.failed(trial);
}

/// Notes what was wished for: a revision that wishes otherwise for the same parent again and again
/// cannot make up its mind.
pub fn note(controller: &Controller, logic: &Logic, observed: &Observed, decision: &Decision, memory: &mut Memory) {
    let (now, digest) = (Instant::now(), logic.revision.digest());
    let basis = reconcile::churn_basis(controller, logic, &observed.parent);
    let wishes = decision.wishes(logic.revision.descriptor().sees_own_status(), &controller.hasher);
    memory.churn = memory.churn.then(basis, wishes, now.into_std());
    if memory.churn.is_endless(now.into_std()) {
        controller.probation.changed_its_mind(now, digest, &observed.parent.key.to_string());
    }
}

/// A parent for which the plugin never comes to an end is decided more and more seldom.
pub fn slow_down(controller: &Controller, logic: &Logic, parent: &Object, memory: &Memory, next: Next) -> Next {
    let basis = || reconcile::churn_basis(controller, logic, parent);
    let Some(pause) = memory.churn.pause(Instant::now().into_std(), basis) else { return next };
    tracing::warn!(plugin = &*controller.name, digest = %logic.revision.digest(), object = %parent.key, ?pause, "the plugin wishes otherwise for this object again and again; it is slowed down");
    Next::After(pause)
}

/// What one call took, and what the plugin said in it.
pub struct Heard<'a> {
    /// Its log lines.
    pub logs: &'a [LogLine],
    /// Whether it came to nothing.
    pub failed: bool,
    /// How long it ran.
    pub elapsed: Duration,
    /// The most memory that it had, bytes.
    pub memory: usize,
}

impl<'a> From<&'a Result<Outcome, Aborted>> for Heard<'a> {
    fn from(called: &'a Result<Outcome, Aborted>) -> Self {
        match called {
            Ok(outcome) => {
                Self { logs: &outcome.logs, failed: false, elapsed: outcome.elapsed, memory: outcome.memory }
            }
            Err(aborted) => {
                Self { logs: &aborted.logs, failed: true, elapsed: aborted.elapsed, memory: aborted.memory }
            }
        }
    }
}

/// The answer, and whether it rests on objects that were fetched for it. `heard` is told of each
/// call that was made.
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
    let rounds = logic.plugin.limits.request_rounds;
    let mut room = Room::new(logic.plugin.limits.fetched_bytes);
    for round in 0..=rounds {
        let called = logic.revision.decide(call, shown.clone()).await;
        if !matches!(&called, Err(Aborted { error: CallError::Stopped, .. })) {
            heard(Heard::from(&called));
        }
        match called?.result.map_err(Error::Plugin)? {
            Answer::Needs(requirements) => {
                shown = Arc::new(fetch(controller, logic, &shown, requirements, &mut room).await?);
            }
            answer => return Ok((answer, round > 0)),
        }
    }
    Err(CallError::TooManyRounds(usize::try_from(rounds).unwrap_or(usize::MAX)).into())
}

/// A plugin's lines carry its name and digest, so that nobody has to ask which revision spoke.
fn log(controller: &Controller, logic: &Logic, parent: &ObjectRef, lines: &[LogLine]) {
    let plugin = &*controller.name;
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

/// How many bytes may still be fetched for a decision.
struct Room {
    left: usize,
    limit: Size,
}

impl Room {
    fn new(limit: Size) -> Self {
        Self { left: limit.bytes(), limit }
    }

    /// Counts by what is shown: an object that is read once can be asked for under a hundred keys.
    fn take(&mut self, object: Option<&Document>) -> Result<(), CallError> {
        let bytes = object.map_or(0, |object| object.json.len());
        let exceeded = || CallError::LimitExceeded(format!("fetched bytes ({}, limits.fetchedBytes)", self.limit));
        self.left = self.left.checked_sub(bytes).ok_or_else(exceeded)?;
        Ok(())
    }
}

/// What is shown with what was asked for; each object is read once a round.
async fn fetch(
    controller: &Controller,
    logic: &Logic,
    shown: &Observation,
    requirements: Vec<Requirement>,
    room: &mut Room,
) -> Result<Observation, Error> {
    let mut next = shown.clone();
    let mut read = HashMap::new();
    for Requirement { key, reference } in requirements {
        let object = match read.entry(reference) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let object = fetch_one(controller, logic, &shown.parent.reference, new.key()).await?;
                new.insert(object)
            }
        };
        room.take(object.as_ref())?;
        next.related.retain(|known| known.key != key);
        next.related.push(Related { key, objects: object.iter().cloned().collect() });
    }
    Ok(next)
}

/// Read under the plugin's own account, so that the API server judges beside the grant, and never
/// put into a cache that another plugin could be shown.
async fn fetch_one(
    controller: &Controller,
    logic: &Logic,
    parent: &ObjectRef,
    needed: &ObjectRef,
) -> Result<Option<Document>, Error> {
    let grant = &logic.plugin.grant;
    let kind = &needed.kind;
    // Of a kind that is closed anyway the API server is not even asked for its scope.
    let namespaced = match grant.allows(Verb::Get, kind) {
        true => match controller.writer.find_kind(kind).await {
            Ok(resource) => resource.namespaced,
            Err(error) if error.code == 404 => return Ok(None),
            Err(error) => return Err(error.into()),
        },
        false => true,
    };
    let namespace = needed.namespace.clone().or_else(|| parent.namespace.clone().filter(|_| namespaced));
    let reference = ObjectRef { namespace, ..needed.clone() };
    crate::check::check_name(&reference)?;
    let request = Request { parent, object: &reference, namespaced, access: Access::Read };
    grant.authorise(&request, &|namespace, key| logic.label_of(namespace, key))?;
    match controller.writer.read_as_plugin(&reference).await {
        Ok(json) => Ok(Some(Document { reference, json: json.into() })),
        Err(error) if error.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fetched_for_a_decision_has_a_limit_over_all_rounds() {
        let reference = ObjectRef {
            kind: crate::decision::Kind::new("", "v1", "ConfigMap"),
            namespace: Some("n".into()),
            name: "large".into(),
        };
        let large = Document { reference, json: "x".repeat(1 << 20).into() };
        let limits = crate::plugin::limits::Limits::default();
        let mut room = Room::new(limits.fetched_bytes);
        assert_eq!(room.take(None), Ok(()));
        let taken = (0..100).take_while(|_| room.take(Some(&large)).is_ok()).count();
        assert_eq!(taken, 8);
        let refused = room.take(Some(&large)).unwrap_err().to_string();
        assert_eq!(refused, "the plugin reached its limit on fetched bytes (8Mi, limits.fetchedBytes)");
    }
}
