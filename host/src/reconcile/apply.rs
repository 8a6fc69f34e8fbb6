//! *apply*, seen from one reconcile: the children first, then Events, then status.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster::apply::{Parent, WriteError, Written as Child};
use crate::cluster::error::ApiError;
use crate::cluster::events;
use crate::cluster::events::Note;
use crate::cluster::view::reference;
use crate::config::REQUEUE;
use crate::reconcile::controller::{Controller, Logic, Memory};
use crate::reconcile::decide::LINE;
use crate::reconcile::error::{CONTENDED, Error};
use crate::reconcile::learn::learn_parent;
use crate::reconcile::observe::{Observed, context};
use crate::reconcile::outcome::Next;
use hotshoe_core::check;
use hotshoe_core::check::{Context, Desired};
use hotshoe_core::diff;
use hotshoe_core::diff::{Apply, Plan, Unsettled};
use hotshoe_core::diff::{conflict, status};
use hotshoe_core::flow::rate_limit::Allowance;
use hotshoe_core::model::decision::{Children, Decision, Event, Refusal, Severity};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::limits::{EVENTS, FAILURE_MESSAGE};
use hotshoe_core::model::object::{FieldManager, Key, Object, ObservedChildren};
use hotshoe_core::model::sanitize;

/// So many of the last Events of a parent are not said again: as many as one decision may have.
const REMEMBERED: usize = EVENTS.cap as usize;

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

/// So often Events are tried before what they are about goes on without them.
const TRIES: u32 = 3;
/// So many tries, more than half a minute, is what the garbage collector may need for what an object of the
/// same name has left behind. Then something else holds it.
const COLLECTED: u32 = 20;

/// What remains after the writes.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Whether a write of a child was tried.
    pub children: bool,
    /// Whether the plugin was told of a refusal that is none any more: it has to decide again, as
    /// nothing else may ever tell it.
    pub relieved: bool,
    /// The children that were applied, as the replies showed them.
    applied: ObservedChildren,
    /// The children that were deleted.
    pruned: Vec<Arc<str>>,
    /// The parent as our status write left it.
    pub parent: Option<Arc<Object>>,
    /// Something passed that time mends: look again soon.
    pub again: bool,
    /// The namespace is going away.
    pub terminating: bool,
    /// Something was no object that anybody may have.
    invalid: bool,
}

impl Written {
    /// The children as they are after our writes, as far as we were told.
    fn left(&self, observed: &Observed) -> ObservedChildren {
        let replaced = |kind: &Kind, child: &Object| {
            self.pruned.contains(&child.uid) || self.applied.iter().any(|(k, c)| k == kind && c.key == child.key)
        };
        let stay = observed.children.iter().filter(|(kind, child)| !replaced(kind, child)).cloned();
        let mut left: ObservedChildren = stay.chain(self.applied.iter().cloned()).collect();
        left.sort_by(|(a, x), (b, y)| (a, &x.key).cmp(&(b, &y.key)));
        left
    }
}

/// The requeue that a plugin asked for, within the host's bounds.
pub fn requeue(decision: &Decision) -> Option<Duration> {
    let (soonest, latest) = REQUEUE;
    decision.requeue_after.map(|after| after.clamp(soonest, latest))
}

/// When to look again: at the requeue that the plugin asked for, or for a write that was refused or has to wait.
pub fn next_look(memory: &Memory) -> Next {
    let due = [memory.refused.next_due(), memory.contention.next_due(Instant::now()), memory.requeue];
    match due.into_iter().flatten().min() {
        Some(after) => Next::After(after),
        None => Next::Wait,
    }
}

/// What is worked on: a parent, and who decides.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// The plugin at work.
    pub controller: &'a Controller,
    /// What decides.
    pub logic: &'a Logic,
    /// The parent with its children, as they were decided on.
    pub observed: &'a Observed,
}

impl<'a> Work<'a> {
    /// Whether what the plugin wishes for, and every child that is there, are as they were when all
    /// was found in sync. Checking the same wishes and comparing the same fields again would end the
    /// same.
    pub fn stands(self, decision: &Decision, memory: &Memory) -> bool {
        memory.in_sync.is_some()
            && memory.in_sync == self.sync_fingerprint(&self.observed.children, decision)
            // All or nothing: a status that may not be written denies the children too.
            && check::status::check(decision.status.as_deref(), &decision.conditions).is_ok()
    }

    /// Carries out a checked decision.
    ///
    /// # Errors
    /// When the API server is away, or refuses what the host itself writes.
    pub async fn carry_out(self, decision: &Decision, wishes: Wishes, memory: &mut Memory) -> Result<Written, Error> {
        let mut written = Written::default();
        match wishes {
            Wishes::Exactly(desired) => {
                self.write_children(desired, memory, &mut written).await;
                let left = written.left(self.observed);
                let in_sync = memory.refused.is_empty() && memory.unsettled.is_empty() && memory.contention.is_over();
                memory.in_sync = match in_sync && !written.again {
                    true => self.sync_fingerprint(&left, decision),
                    false => None,
                };
                memory.seen = left;
            }
            // Nothing is applied, so nothing is refused, or has to wait.
            Wishes::Keep | Wishes::Fulfilled => {
                memory.refused.clear();
                memory.contention.hold(&mut Plan::default(), Instant::now(), &self.controller.hasher);
            }
        }
        // Before the status: a plugin that reads its own conditions does not say it a second time.
        decision.events.iter().for_each(|event| self.say_once(event, &self.controller.events, memory));
        // A plugin whose children or refusals change at each pass is heard at every other one.
        memory.silent = !memory.silent && self.is_outdated(&written, memory);
        if !memory.silent {
            self.write_status(decision, &mut written).await?;
        }
        Ok(written)
    }

    /// Whether the status was decided on children as they were before they were written just now, or without
    /// knowing of a refusal, or of its end: it would tell what is not so, and the next decision, which comes at
    /// once, would take it back. A first status does no harm, and of a parent that goes there may be no next.
    fn is_outdated(self, written: &Written, memory: &Memory) -> bool {
        let parent = &self.observed.parent;
        let has_status = parent.owned_fields(self.manager(), true).is_some();
        let comes_again = written.children && !written.terminating && !parent.deleting;
        let has_changed = !written.applied.is_empty() || !written.pruned.is_empty();
        has_status && comes_again && (has_changed || memory.refused.told() != self.observed.shown.refusals)
    }

    fn sync_fingerprint(self, children: &ObservedChildren, decision: &Decision) -> Option<u64> {
        let Children::Exactly(wishes) = &decision.children else { return None };
        let wishes: Vec<_> = wishes.iter().map(|child| (&child.reference, &child.json)).collect();
        let manager = self.manager();
        let children: Vec<_> = children
            .iter()
            .map(|(kind, child)| {
                (kind, &child.key, &child.uid, child.deleting, &child.applied, child.owned_fields(manager, false))
            })
            .collect();
        Some(self.controller.hasher.hash_one((self.logic.basis, wishes, children)))
    }

    async fn write_children(self, desired: Vec<Desired>, memory: &mut Memory, written: &mut Written) {
        let mut plan = self.plan(desired, memory, written);
        let held = memory.contention.hold(&mut plan, Instant::now(), &self.controller.hasher);
        self.name_rivals(held, memory).await;
        if plan.apply.is_empty() && plan.prune.is_empty() {
            return;
        }
        written.children = true;
        let wished: Vec<Desired> = plan.apply.iter().map(|apply| apply.desired.clone()).collect();
        let parent = Parent { reference: &self.observed.shown.parent.reference, uid: &self.observed.parent.uid };
        let permit = self.controller.permit();
        for child in self.controller.writer.write(plan, &self.logic.owned, parent, &permit).await {
            let desired = wished.iter().find(|one| one.reference == child.reference);
            self.note_child(child, desired, memory, written);
        }
    }

    /// Has it told who undoes, again and again, what has to wait; once for as long as it goes on.
    async fn name_rivals(self, held: Vec<Apply>, memory: &mut Memory) {
        for Apply { desired, .. } in held {
            if memory.contention.is_told(&desired, &self.controller.hasher) {
                continue;
            }
            let Some(words) = self.rivals_of(&desired).await else { continue };
            memory.contention.tell(&desired, &words, &self.controller.hasher);
            let (plugin, digest) = (&*self.controller.name, self.logic.revision.digest());
            self.controller.metrics.failed(plugin, digest, CONTENDED);
            tracing::warn!(plugin, %digest, object = %self.observed.shown.parent.reference, child = %desired.reference, reason = CONTENDED, "{}", sanitize::clean(words, FAILURE_MESSAGE));
        }
    }

    /// Who undoes what was applied to a child; nothing where it is as it should be by now.
    async fn rivals_of(self, desired: &Desired) -> Option<String> {
        let child = &desired.reference;
        let what = match self.controller.writer.read_child(child).await {
            Ok(live) => {
                let managers = FieldManager::all_of(&live).ok()?;
                let fields = conflict::named(&managers, self.manager(), &desired.body)?;
                format!("{child} is changed each time after it was put right: {fields}")
            }
            Err(error) if error.is_not_found() => format!("{child} is deleted each time after it was made"),
            Err(error) if error.is_definite() => format!("{child} is changed each time after it was put right"),
            Err(_) => return None,
        };
        Some(format!(
            "{what}; it is put right more and more seldom until that ends, so let only one of both care for it"
        ))
    }

    /// What is to be written now: nothing that may not be pruned, nothing before its time, and
    /// nothing that was tried in vain.
    fn plan(self, desired: Vec<Desired>, memory: &mut Memory, written: &mut Written) -> Plan {
        let mut plan = diff::plan(desired, &self.observed.children, &self.controller.name, self.manager());
        let context = context(self.controller, self.logic, self.observed);
        plan.prune.retain(|(kind, child)| self.may_prune(&reference(kind, &child.key), &context));
        written.relieved = memory.refused.keep_planned(&plan);
        let is_due = |child: &ObjectRef| memory.refused.is_due(child, || self.basis_of(child));
        plan.prune.retain(|(kind, child)| is_due(&reference(kind, &child.key)));
        plan.apply.retain(|apply| {
            is_due(&apply.desired.reference) && !self.was_tried_in_vain(&apply.desired, &memory.unsettled)
        });
        plan
    }

    fn may_prune(self, child: &ObjectRef, context: &Context<'_>) -> bool {
        let Err(violation) = check::check_prune(child, context) else { return true };
        let (plugin, digest) = (&*self.controller.name, self.logic.revision.digest());
        self.controller.metrics.denied(plugin, violation.rule);
        // Which children it wishes for, and so how many lines this makes, a plugin chooses.
        if self.controller.failure_lines.take(LINE + violation.message.len()) {
            let parent = &self.observed.shown.parent.reference;
            tracing::warn!(plugin, %digest, object = %parent, rule = violation.rule, "a child that is no longer wished for is left alone: {}", violation.message);
        } else {
            self.controller.metrics.lines_dropped(plugin, 1);
        }
        false
    }

    /// What a refused write is tried again for before its time: the parent, the plugin or the child.
    fn basis_of(self, child: &ObjectRef) -> u64 {
        let live = self.live(child).map(|live| (&live.uid, &live.applied, live.generation));
        let parent = &self.observed.parent;
        self.controller.hasher.hash_one((parent.generation, parent.marks, self.logic.basis, live))
    }

    /// Whether the same was applied before and did not take, and our ownership is as it was left.
    fn was_tried_in_vain(self, desired: &Desired, unsettled: &[(Kind, Key, Unsettled)]) -> bool {
        let tried = unsettled.iter().find(|(kind, key, _)| desired.reference.is(kind, key));
        tried.is_some_and(|(_, _, tried)| {
            let live = self.live(&desired.reference);
            let fields = live.and_then(|child| child.owned_fields(self.manager(), false));
            tried.digest == desired.digest && tried.fields.as_deref() == fields
        })
    }

    /// Notes what became of the write of a child; of a deletion where nothing was desired.
    fn note_child(self, child: Child, desired: Option<&Desired>, memory: &mut Memory, written: &mut Written) {
        match child.result {
            Ok(object) => {
                if memory.refused.lift(&child.reference) {
                    memory.said.clear();
                }
                match (object, desired) {
                    (Some(object), Some(desired)) => {
                        self.note_applied(&object, desired, memory);
                        written.applied.push((desired.reference.kind.clone(), object));
                    }
                    _ => written.pruned.extend(self.live(&child.reference).map(|live| live.uid.clone())),
                }
            }
            Err(WriteError::Collecting) if memory.stalls < COLLECTED && !memory.refused.has(&child.reference) => {
                written.again = true;
            }
            Err(WriteError::Api(error)) if error.is_namespace_terminating() => written.terminating = true,
            Err(WriteError::Api(error)) if passes_by_itself(&error) => written.again = true,
            Err(error) => {
                self.blame(&error, written);
                self.note_refused(&child.reference, child.digest, error, memory);
            }
        }
    }

    /// Where our apply did not take every field that it set, somebody else rewrites the object on its
    /// way in. Applying again would be a fight.
    fn note_applied(self, object: &Object, desired: &Desired, memory: &mut Memory) {
        memory.contention.applied(desired, Instant::now(), &self.controller.hasher);
        let kind = &desired.reference.kind;
        memory.unsettled.retain(|(k, n, _)| k != kind || *n != object.key);
        if diff::in_sync(desired, object, self.manager()) {
            return;
        }
        let fields = object.owned_fields(self.manager(), false).map(Box::from);
        let tried = Unsettled { digest: desired.digest.clone(), fields };
        memory.unsettled.push((kind.clone(), object.key.clone(), tried));
        tracing::warn!(plugin = &*self.controller.name, digest = %self.logic.revision.digest(), child = %desired.reference, "not every field of the child stays as it was applied: something else rewrites it");
    }

    /// Holds what no API server takes against the revision, once in a pass: to answer such a thing is no better
    /// than to answer nothing.
    fn blame(self, error: &WriteError, written: &mut Written) {
        if let WriteError::Api(error) = error
            && error.is_invalid()
            && !std::mem::replace(&mut written.invalid, true)
        {
            let (now, digest) = (Instant::now(), self.logic.revision.digest());
            self.controller.judged(self.controller.probation.failed(now, digest, &self.observed.parent.key, error));
        }
    }

    fn note_refused(self, child: &ObjectRef, digest: Box<str>, error: WriteError, memory: &mut Memory) {
        let basis = self.basis_of(child);
        // For people; the plugin is told the API server's own words.
        let advice = advice(&error, &self.controller.name).unwrap_or_default();
        let Some(refusal) = memory.refused.add(child, digest, error, basis) else { return };
        tracing::warn!(plugin = &*self.controller.name, digest = %self.logic.revision.digest(), object = %self.observed.shown.parent.reference, child = %child, code = refusal.code, "the API server refused a child: {}{advice}", refusal.message);
        let message = event_text(&refusal) + &advice;
        let event = Event { severity: Severity::Warning, reason: refusal.reason, message };
        self.say_once(&event, &self.controller.failures, memory);
    }

    async fn write_status(self, decision: &Decision, written: &mut Written) -> Result<(), Error> {
        let Work { controller, logic, observed } = self;
        let cache = &logic.parents.watched.cache;
        let Some(parent) = cache.get(&observed.parent.key).filter(|parent| parent.uid == observed.parent.uid) else {
            return Ok(());
        };
        let generation = observed.parent.generation;
        let (said, stated) = (decision.status.as_deref(), &decision.conditions);
        let desired = status::desired(said, stated, &parent, self.manager(), generation, &events::now())?;
        if status::is_current(&desired, &parent, self.manager()) {
            return Ok(());
        }
        let permit = controller.permit();
        let reply = controller.writer.apply_status(&logic.resource, &parent, desired, &permit).await;
        match learn_parent(controller, logic, &parent, reply).await {
            Ok(parent) => written.parent = Some(parent),
            Err(Error::Api(error)) if error.code == 409 => written.again = true,
            Err(Error::Api(error)) if error.is_gone() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Records an Event unless it was said before, or too much was said of late; the API server counts
    /// repeats.
    pub fn say_once(self, event: &Event, allowance: &Allowance, memory: &mut Memory) {
        if !self.is_news(event, memory) {
            return;
        }
        if !allowance.take(1) || !self.controller.recorder.record(self.note(event)) {
            self.note_dropped(allowance);
        }
    }

    /// Writes Events before all else that was decided: what a status says was begun, they have said. Where
    /// the API server takes none, they are left to the others' queue after a few tries.
    ///
    /// # Errors
    /// What passes by itself.
    pub async fn say_first(self, events: &[Event], memory: &mut Memory) -> Result<(), Error> {
        for event in events {
            match self.controller.recorder.ensure(&self.note(event)).await {
                Err(error) if memory.failures < TRIES => return Err(error.into()),
                Err(_) => self.say_once(event, &self.controller.events, memory),
                Ok(()) => drop(self.is_news(event, memory)),
            }
        }
        Ok(())
    }

    /// Whether an Event was not said before; it is taken for said from now on.
    fn is_news(self, event: &Event, memory: &mut Memory) -> bool {
        let fingerprint = self.controller.hasher.hash_one((event.severity.as_str(), &event.reason, &event.message));
        if memory.said.contains(&fingerprint) {
            return false;
        }
        // The plugin chooses how many different Events there are, so only the last few are remembered.
        if memory.said.len() >= REMEMBERED {
            memory.said.remove(0);
        }
        memory.said.push(fingerprint);
        true
    }

    fn note(self, event: &Event) -> Note {
        Note {
            about: self.observed.shown.parent.reference.clone(),
            uid: self.observed.parent.uid.to_string(),
            plugin: self.controller.name.clone(),
            digest: self.logic.revision.digest(),
            event: event.clone(),
        }
    }

    fn note_dropped(self, allowance: &Allowance) {
        let plugin = &*self.controller.name;
        self.controller.metrics.event_dropped(plugin);
        if let Some(dropped) = allowance.dropped(1, Instant::now()) {
            tracing::warn!(plugin, digest = %self.logic.revision.digest(), dropped, "there are more Events than are written; some were dropped");
        }
    }

    /// A child as it was observed.
    fn live(self, child: &ObjectRef) -> Option<&'a Arc<Object>> {
        self.observed.children.iter().find(|(kind, live)| child.is(kind, &live.key)).map(|(_, live)| live)
    }

    fn manager(self) -> &'a str {
        self.controller.writer.manager()
    }
}

/// Conflicts, overload, silence and what follows it pass; a 5xx that was said is shown like a refusal,
/// and retried soon.
fn passes_by_itself(error: &ApiError) -> bool {
    error.waking_up || matches!(error.code, 0 | 409 | 429)
}

fn advice(error: &WriteError, plugin: &str) -> Option<String> {
    match error {
        WriteError::Api(error) => error.advice(plugin),
        _ => None,
    }
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
}
