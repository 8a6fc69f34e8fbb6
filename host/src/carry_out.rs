//! *apply*, seen from one reconcile: the children first, then status, then Events; and what to
//! remember of what the API server refused.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::check::{self, Desired};
use crate::cluster::apply::{Parent, WriteError, Written as Child};
use crate::cluster::events::{self, Note};
use crate::cluster::observe::reference;
use crate::config::REQUEUE;
use crate::controller::{Controller, Logic, Memory, Refused};
use crate::decision::{Children, Decision, Event, Kind, ObjectRef, Refusal, Severity};
use crate::diff::{self, Unsettled};
use crate::error::{ApiError, Error};
use crate::object::Object;
use crate::reconcile::{self, Next, Observed};
use crate::{finalize, status};

/// After a conflict, an overload or a time-out.
const SOON: Duration = Duration::from_millis(250);
/// Low, because what counts after an outage is how soon changes are acted upon.
const SOON_MAX: Duration = Duration::from_secs(2);
/// After a refusal that only a person is likely to mend.
const SLOWLY: Duration = Duration::from_secs(10);
const SLOWLY_MAX: Duration = Duration::from_secs(60);
/// A name that is taken costs one cheap request to try again.
const CONFLICT: Duration = Duration::from_secs(3);
const CONFLICT_MAX: Duration = Duration::from_secs(30);

/// The requeue that a plugin asked for, within the host's bounds.
pub fn requeue(decision: &Decision) -> Option<Duration> {
    let (soonest, latest) = REQUEUE;
    decision.requeue_after.map(|after| after.clamp(soonest, latest))
}

/// How long after so many tries in a row that met something passing.
pub fn soon(tries: u32) -> Duration {
    (SOON * 2u32.saturating_pow(tries.saturating_sub(1).min(8))).min(SOON_MAX)
}

impl Written {
    /// The children as they are after our writes, as far as we were told.
    fn left(&self, observed: &Observed) -> diff::Children {
        let replaced = |kind: &Kind, child: &Object| {
            self.pruned.contains(&child.uid) || self.applied.iter().any(|(k, c)| k == kind && c.key == child.key)
        };
        let stay = observed.children.iter().filter(|(kind, child)| !replaced(kind, child)).cloned();
        let mut left: diff::Children = stay.chain(self.applied.iter().cloned()).collect();
        left.sort_by(|(a, x), (b, y)| (a, &x.key).cmp(&(b, &y.key)));
        left
    }
}

/// What is to become of the children.
pub enum Wishes {
    /// Leave them alone.
    Keep,
    /// They were found to be as the plugin wishes, and neither has changed.
    Fulfilled,
    /// Make them so.
    Exactly(Vec<Desired>),
}

impl From<Option<Vec<Desired>>> for Wishes {
    fn from(checked: Option<Vec<Desired>>) -> Self {
        checked.map_or(Wishes::Keep, Wishes::Exactly)
    }
}

/// Whether what the plugin wishes for, and every child that is there, are as they were when all
/// was found in sync. Checking the same wishes and comparing the same fields again would end the
/// same.
pub fn stands(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    decision: &Decision,
    memory: &Memory,
) -> bool {
    memory.in_sync.is_some() && memory.in_sync == sync_fingerprint(controller, logic, &observed.children, decision)
}

fn sync_fingerprint(
    controller: &Controller,
    logic: &Logic,
    children: &diff::Children,
    decision: &Decision,
) -> Option<u64> {
    let Children::Exactly(wishes) = &decision.children else { return None };
    let wishes: Vec<_> = wishes.iter().map(|child| (&child.reference, &child.json)).collect();
    let fields = |child: &Object| child.owned_fields(controller.writer.manager(), false).map(str::to_owned);
    let children: Vec<_> = children
        .iter()
        .map(|(kind, child)| (kind, &child.key, &child.uid, child.deleting, &child.applied, fields(child)))
        .collect();
    Some(controller.hasher.hash_one((logic.basis, wishes, children)))
}

/// What remains after the writes.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Whether a write of a child was tried.
    pub children: bool,
    /// The children that were applied, as the replies showed them.
    applied: diff::Children,
    /// The children that were deleted.
    pruned: Vec<Arc<str>>,
    /// The parent as our status write left it.
    pub parent: Option<Arc<Object>>,
    /// Something passed that time mends: look again soon.
    pub again: bool,
    /// The namespace is going away.
    pub terminating: bool,
}

/// Carries out a checked decision.
///
/// # Errors
/// When the API server is away, or refuses what the host itself writes.
pub async fn carry_out(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    decision: &Decision,
    wishes: Wishes,
    memory: &mut Memory,
) -> Result<Written, Error> {
    // All or nothing: a status that may not be written refuses the children too.
    status::check(decision.status.as_deref(), &decision.conditions)?;
    let mut written = Written::default();
    match wishes {
        Wishes::Exactly(desired) => {
            write_children(controller, logic, observed, desired, memory, &mut written).await;
            memory.in_sync = match memory.refused.is_empty() && memory.unsettled.is_empty() && !written.again {
                true => sync_fingerprint(controller, logic, &written.left(observed), decision),
                false => None,
            };
        }
        // Nothing is applied, so nothing is refused.
        Wishes::Keep | Wishes::Fulfilled => memory.refused.clear(),
    }
    // Before the status: a plugin that reads its own conditions does not say it a second time.
    say(controller, logic, observed, &decision.events, memory);
    write_status(controller, logic, observed, decision, &mut written).await?;
    Ok(written)
}

async fn write_children(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    desired: Vec<Desired>,
    memory: &mut Memory,
    written: &mut Written,
) {
    let mut plan = diff::plan(desired, &observed.children, &controller.name, controller.writer.manager());
    let context = reconcile::context(controller, logic, observed);
    plan.prune.retain(|(kind, child)| match check::check_prune(&reference(kind, &child.key), &context) {
        Ok(()) => true,
        Err(violation) => {
            controller.metrics.denied(&controller.name, violation.rule);
            false
        }
    });
    memory.refused.retain(|refused| is_still_planned(refused, &plan));
    let basis = controller.hasher.hash_one((observed.parent.generation, logic.basis));
    let due = |reference: &ObjectRef, child: Option<&Object>| {
        is_due(reference, child_basis(controller, basis, child), memory)
    };
    plan.prune.retain(|(kind, child)| due(&reference(kind, &child.key), Some(child)));
    plan.apply.retain(|apply| {
        let child = observed
            .children
            .iter()
            .find(|(kind, child)| apply.desired.is(kind, &child.key))
            .map(|(_, child)| &**child);
        due(&apply.desired.reference, child) && !was_tried_in_vain(&apply.desired, child, controller, memory)
    });
    if plan.apply.is_empty() && plan.prune.is_empty() {
        return;
    }
    written.children = true;
    let applied: Vec<Desired> = plan.apply.iter().map(|apply| apply.desired.clone()).collect();
    let parent = Parent { reference: &observed.shown.parent.reference, uid: &observed.parent.uid };
    let permit = controller.permit();
    for child in controller.writer.write(plan, &logic.owned, parent, &permit).await {
        let live = observed.children.iter().find(|(kind, live)| reference(kind, &live.key) == child.reference);
        let basis = child_basis(controller, basis, live.map(|(_, live)| &**live));
        let desired = applied.iter().find(|one| one.reference == child.reference);
        note_child(controller, logic, observed, child, Tried { desired, basis }, memory, written);
    }
}

/// A refusal is kept until the write goes through, or what is desired changes.
fn is_still_planned(refused: &Refused, plan: &diff::Plan) -> bool {
    let named = &refused.refusal.reference;
    plan.apply.iter().any(|apply| apply.desired.reference == *named && apply.desired.digest == refused.digest)
        || plan.prune.iter().any(|(kind, child)| refused.digest.is_empty() && reference(kind, &child.key) == *named)
}

/// What a refused write is tried again for before its time: the parent, the plugin or the child.
fn child_basis(controller: &Controller, parent: u64, child: Option<&Object>) -> u64 {
    let child = child.map(|child| (&child.uid, &child.applied, child.generation));
    controller.hasher.hash_one((parent, child))
}

fn is_due(reference: &ObjectRef, basis: u64, memory: &Memory) -> bool {
    let refused = memory.refused.iter().find(|refused| refused.refusal.reference == *reference);
    refused.is_none_or(|refused| refused.basis != basis || refused.due <= Instant::now())
}

/// Whether the same was applied before and did not take, and our ownership is as it was left.
fn was_tried_in_vain(desired: &Desired, child: Option<&Object>, controller: &Controller, memory: &Memory) -> bool {
    let fields = child.and_then(|child| child.owned_fields(controller.writer.manager(), false));
    memory.unsettled.iter().any(|(kind, key, tried)| {
        desired.is(kind, key) && tried.digest == desired.digest && tried.fields.as_deref() == fields
    })
}

/// Whether no refused write is waiting to be tried again by now.
pub fn none_due(memory: &Memory) -> bool {
    memory.refused.iter().all(|refused| refused.due > Instant::now())
}

/// When to look again: at the requeue that the plugin asked for, or for a refused write.
pub fn next_look(memory: &Memory) -> Next {
    let now = Instant::now();
    let due = memory.refused.iter().map(|refused| refused.due.saturating_duration_since(now)).min();
    match [due, memory.requeue].into_iter().flatten().min() {
        Some(after) => Next::After(after),
        None => Next::Wait,
    }
}

/// What was tried with a child.
struct Tried<'a> {
    /// What was applied; none where it was deleted.
    desired: Option<&'a Desired>,
    /// What it is tried again for before its time.
    basis: u64,
}

fn note_child(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    child: Child,
    Tried { desired, basis }: Tried<'_>,
    memory: &mut Memory,
    written: &mut Written,
) {
    let tries =
        memory.refused.iter().find(|refused| refused.refusal.reference == child.reference).map_or(0, |r| r.tries);
    let error = match child.result {
        Ok(object) => {
            if tries > 0 {
                memory.said.clear();
            }
            memory.refused.retain(|refused| refused.refusal.reference != child.reference);
            match (object, desired) {
                (Some(object), Some(desired)) => {
                    note_applied(controller, logic, &object, desired, memory);
                    written.applied.push((desired.reference.kind.clone(), object));
                }
                _ => written.pruned.extend(observed_uid(observed, &child.reference)),
            }
            return;
        }
        Err(WriteError::Collecting) => return written.again = true,
        Err(WriteError::Api(error)) if error.is_namespace_terminating() => return written.terminating = true,
        Err(WriteError::Api(error)) if passes_by_itself(&error) => return written.again = true,
        Err(error) => error,
    };
    let (refusal, pause) = judge(&child.reference, error, tries);
    if tries == 0 {
        tracing::warn!(plugin = &*controller.name, digest = %logic.revision.digest(), object = %observed.shown.parent.reference, child = %child.reference, code = refusal.code, "the API server refused a child: {}", refusal.message);
        let event =
            Event { severity: Severity::Warning, reason: refusal.reason.clone(), message: event_text(&refusal) };
        say_once(controller, logic, observed, &event, memory);
    }
    memory.refused.retain(|refused| refused.refusal.reference != child.reference);
    memory.refused.push(Refused {
        refusal,
        digest: child.digest,
        basis,
        due: Instant::now() + pause,
        tries: tries + 1,
    });
}

fn observed_uid(observed: &Observed, child: &ObjectRef) -> Option<Arc<str>> {
    let found = observed.children.iter().find(|(kind, live)| reference(kind, &live.key) == *child);
    found.map(|(_, live)| live.uid.clone())
}

/// Conflicts, overload and silence pass; a 5xx that was said is shown like a refusal, and retried
/// soon.
fn passes_by_itself(error: &ApiError) -> bool {
    matches!(error.code, 0 | 409 | 429)
}

fn judge(reference: &ObjectRef, error: WriteError, tries: u32) -> (Refusal, Duration) {
    let backoff = |first: Duration, most: Duration| (first * 2u32.saturating_pow(tries.min(16))).min(most);
    let (code, reason, message, pause) = match error {
        WriteError::Api(error) => {
            let pause = if error.is_definite() { backoff(SLOWLY, SLOWLY_MAX) } else { soon(tries + 1) };
            (error.code, error.reason, error.message, error.retry_after.unwrap_or(pause))
        }
        WriteError::Conflict { holder } => {
            let message = format!("{reference} exists and is not this object's child: {holder}");
            (409, "Conflict".to_owned(), message, backoff(CONFLICT, CONFLICT_MAX))
        }
        WriteError::Collecting => (409, "Collecting".to_owned(), String::new(), soon(tries + 1)),
    };
    (Refusal { reference: reference.clone(), code, reason, message }, pause)
}

fn event_text(refusal: &Refusal) -> String {
    match refusal.reason.as_str() {
        "Conflict" => format!(
            "{}. Nothing of it was changed; delete or rename it, and this object recovers by itself",
            refusal.message
        ),
        _ => format!("{} was refused: {}", refusal.reference, refusal.message),
    }
}

/// Where our apply did not take every field that it set, somebody else rewrites the object on its
/// way in. Applying again would be a fight.
fn note_applied(controller: &Controller, logic: &Logic, object: &Object, desired: &Desired, memory: &mut Memory) {
    let kind = &desired.reference.kind;
    memory.unsettled.retain(|(k, n, _)| k != kind || *n != object.key);
    let manager = controller.writer.manager();
    if !diff::in_sync(desired, object, manager) {
        let fields = object.owned_fields(manager, false).map(Box::from);
        let tried = Unsettled { digest: desired.digest.clone(), fields };
        memory.unsettled.push((kind.clone(), object.key.clone(), tried));
        tracing::warn!(plugin = &*controller.name, digest = %logic.revision.digest(), child = %desired.reference, "not every field of the child stays as it was applied: something else rewrites it");
    }
}

async fn write_status(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    decision: &Decision,
    written: &mut Written,
) -> Result<(), Error> {
    let cache = &logic.parents.watched.cache;
    let Some(parent) = cache.get(&observed.parent.key).filter(|parent| parent.uid == observed.parent.uid) else {
        return Ok(());
    };
    let generation = observed.parent.generation;
    let manager = controller.writer.manager();
    let (said, stated) = (decision.status.as_deref(), &decision.conditions);
    let desired = status::desired(said, stated, &parent, manager, generation, &events::now())?;
    if status::is_current(&desired, &parent, manager) {
        return Ok(());
    }
    let permit = controller.permit();
    let reply = controller.writer.apply_status(&logic.resource, &parent, desired, &permit).await;
    match finalize::learn_parent(controller, logic, &parent, reply).await {
        Ok(parent) => {
            written.parent = Some(parent);
            Ok(())
        }
        Err(Error::Api(error)) if error.code == 409 => {
            written.again = true;
            Ok(())
        }
        Err(Error::Api(error)) if error.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Records the Events of a decision that the decision before did not have.
fn say(controller: &Controller, logic: &Logic, observed: &Observed, events: &[Event], memory: &mut Memory) {
    for event in events {
        say_once(controller, logic, observed, event, memory);
    }
}

/// Records an Event unless it was the last said of its kind; the API server counts repeats.
pub fn say_once(controller: &Controller, logic: &Logic, observed: &Observed, event: &Event, memory: &mut Memory) {
    let fingerprint = controller.hasher.hash_one((event.severity.as_str(), &event.reason, &event.message));
    if memory.said.contains(&fingerprint) {
        return;
    }
    // The plugin chooses how many different Events there are, so only the last few are remembered.
    if memory.said.len() >= 16 {
        memory.said.remove(0);
    }
    memory.said.push(fingerprint);
    controller.recorder.record(Note {
        about: observed.shown.parent.reference.clone(),
        uid: observed.parent.uid.to_string(),
        plugin: controller.name.to_string(),
        digest: logic.revision.digest(),
        event: event.clone(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requeue_is_neither_a_loop_nor_an_overflow() {
        let decision = |after| Decision {
            children: Children::Keep,
            status: None,
            conditions: Vec::new(),
            events: Vec::new(),
            requeue_after: Some(Duration::from_millis(after)),
        };
        assert_eq!(requeue(&decision(0)), Some(REQUEUE.0));
        assert_eq!(requeue(&decision(u64::MAX)), Some(REQUEUE.1));
        assert_eq!(requeue(&decision(5_000)), Some(Duration::from_secs(5)));
    }

    #[test]
    fn tries_after_something_passing_grow_apart_but_stay_close() {
        assert_eq!((soon(1), soon(2), soon(3)), (SOON, 2 * SOON, 4 * SOON));
        assert_eq!(soon(u32::MAX), SOON_MAX);
    }
}
