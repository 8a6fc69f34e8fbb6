//! The page to read first: observe, decide, check, apply.
//!
//! A reconcile works with one revision of the plugin from beginning to end, and never runs twice
//! at once for one parent. It ends with when to look again.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backoff::soon;
use crate::carry_out::{self, Wishes, Work};
use crate::check::{self, Context};
use crate::cluster::observe;
use crate::controller::{Controller, Logic, Memory};
use crate::decide::Final;
use crate::decision::{Answer, Call, Decision, Document, ObjectRef, Observation};
use crate::diff::Children;
use crate::error::{ApiError, CallError, Error};
use crate::grant::{Access, Request};
use crate::object::{Key, Object};
use crate::report;
use crate::{decide, finalize, status};

/// How long a parent rests whose namespace is going away.
const TERMINATING: Duration = Duration::from_secs(10);

/// When to look at a parent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Wait,
    /// At once: our own writes changed what the plugin sees.
    Again,
    /// After this long, or when something changes.
    After(Duration),
}

impl Next {
    /// The same, but after this long at the latest.
    pub fn no_later_than(self, latest: Duration) -> Self {
        match self {
            Next::Again => Next::Again,
            Next::Wait => Next::After(latest),
            Next::After(after) => Next::After(after.min(latest)),
        }
    }
}

/// What came of one pass over a parent that did not fail.
pub enum Ended {
    /// It is looked at again.
    Look(Next),
    /// Its clean-up has waited for long.
    Waits {
        /// What for.
        what: String,
        /// When it is looked at again.
        again: Duration,
    },
}

/// How one pass over a parent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// When to look again.
    pub next: Next,
    /// Whether it failed.
    pub failed: bool,
}

/// What a plugin is shown of one parent, with the objects behind it.
pub struct Observed {
    /// The parent.
    pub parent: Arc<Object>,
    /// Its children, wished for or not yet pruned.
    pub children: Children,
    /// As the plugin sees it.
    pub shown: Arc<Observation>,
}

impl Observed {
    /// Which children are there.
    pub fn references(&self) -> Vec<ObjectRef> {
        self.children.iter().map(|(kind, child)| observe::reference(kind, &child.key)).collect()
    }
}

/// One pass over one parent.
pub async fn reconcile(controller: &Controller, key: &Key) -> Pass {
    let nothing = Pass { next: Next::Wait, failed: false };
    let Some(logic) = controller.logic() else { return nothing };
    let Some(parent) = logic.parents.watched.cache.get(key) else {
        controller.forget(key);
        return nothing;
    };
    let mut memory = controller.recall(&parent);
    if let Some(next) = rests(controller, &logic, &parent, &memory) {
        return Pass { next, failed: false };
    }
    let result = if parent.deleting {
        finalize::finalize(controller, &logic, parent.clone(), &mut memory).await
    } else {
        converge(controller, &logic, parent.clone(), &mut memory).await.map(Ended::Look)
    };
    let failed = result.is_err();
    let next = report::report(controller, &logic, &parent, &mut memory, result).await;
    let next = decide::slow_down(controller, &logic, &parent, &memory, next);
    controller.remember(key, memory);
    Pass { next, failed }
}

async fn converge(
    controller: &Controller,
    logic: &Logic,
    parent: Arc<Object>,
    memory: &mut Memory,
) -> Result<Next, Error> {
    let Some(parent) = hold_finalizer(controller, logic, parent).await? else { return Ok(finalize::OVERTAKEN) };
    let observed = observe(logic, parent, memory);
    if let Some(next) = settled(controller, logic, &observed, memory) {
        return Ok(next);
    }
    let decided = decide::decide(controller, logic, Call::Reconcile, &observed, memory).await?;
    let Final { answer, fetched, trial } = decided;
    let checked = judge(controller, logic, &observed, answer, memory);
    let (decision, wishes) = decide::settle(controller, logic, trial, checked)?;
    decide::note(controller, logic, &observed, &decision, memory);
    let work = Work { controller, logic, observed: &observed };
    let written = work.carry_out(&decision, wishes, memory).await?;
    let next = conclude(controller, logic, &observed, &decision, memory, written);
    Ok(if fetched { decide::look_again(next, memory) } else { next })
}

/// What the answer would have done, if it may be done.
fn judge(
    controller: &Controller,
    logic: &Logic,
    observed: &Observed,
    answer: Answer,
    memory: &Memory,
) -> Result<(Decision, Wishes), Error> {
    let Answer::Decided(decision) = answer else {
        return Err(CallError::InvalidOutput("reconcile answered as finalize does".into()).into());
    };
    // All or nothing: a status that may not be written refuses the children too.
    status::check(decision.status.as_deref(), &decision.conditions)?;
    if (Work { controller, logic, observed }).stands(&decision, memory) {
        return Ok((decision, Wishes::Fulfilled));
    }
    let context = context(controller, logic, observed);
    let wishes = Wishes::from(check::check(&decision, &observed.references(), &context)?);
    Ok((decision, wishes))
}

/// The finalizer stands before any other write. Nothing where somebody else changed the parent's meanwhile.
async fn hold_finalizer(
    controller: &Controller,
    logic: &Logic,
    parent: Arc<Object>,
) -> Result<Option<Arc<Object>>, Error> {
    let Some(finalizer) = &logic.revision.descriptor().finalizer else { return Ok(Some(parent)) };
    if parent.finalizers.iter().any(|held| **held == **finalizer) {
        return Ok(Some(parent));
    }
    let permit = controller.permit();
    let added = controller.writer.add_finalizer(&logic.resource, &parent, finalizer, &permit).await;
    match finalize::learn_parent(controller, logic, &parent, added).await {
        Err(_) if finalize::was_overtaken(logic, &parent) => Ok(None),
        added => added.map(Some),
    }
}

/// Reads everything that a decision may depend on from the caches, through the grant.
pub fn observe(logic: &Logic, parent: Arc<Object>, memory: &Memory) -> Observed {
    observe_at(logic, parent, memory, report::unix_millis())
}

/// The same at this time, milliseconds since the epoch, for two revisions that are to see the same.
pub fn observe_at(logic: &Logic, parent: Arc<Object>, memory: &Memory, now: u64) -> Observed {
    let document = shown_parent(logic, &parent);
    let children = observe::children(&logic.owned, &parent.uid, &logic.plugin.name);
    let descriptor = logic.revision.descriptor();
    let may_read = |object: &ObjectRef| {
        let namespaced = object.namespace.is_some();
        let request = Request { parent: &document.reference, object, namespaced, access: Access::Read };
        logic.plugin.grant.authorise_watched(&request, &|namespace, key| logic.label_of(namespace, key)).is_ok()
    };
    let shown = Observation {
        children: observe::show_children(&logic.owned, &children, &may_read),
        related: observe::related(&logic.reads, &parent, &may_read),
        parent: document,
        refusals: memory.refused.told(),
        config: logic.plugin.config.clone(),
        now: descriptor.wants_now.then_some(now),
        attempt: descriptor.wants_attempt.then_some(memory.failures),
    };
    Observed { parent, children, shown: Arc::new(shown) }
}

/// The parent as the plugin is shown it.
fn shown_parent(logic: &Logic, parent: &Object) -> Document {
    let document = logic.parents.show(parent);
    Document { json: finalize::with_conditions(parent, document.json), ..document }
}

/// Whether this very state was found settled before.
fn settled(controller: &Controller, logic: &Logic, observed: &Observed, memory: &Memory) -> Option<Next> {
    let same = memory.settled == Some(fingerprint(controller, logic, observed));
    (same && memory.refused.none_due()).then(|| carry_out::next_look(memory))
}

/// Whether a parent that failed, or for which the plugin never comes to an end, rests for now. Such a
/// pass is no success: what the failure said still stands.
fn rests(controller: &Controller, logic: &Logic, parent: &Object, memory: &Memory) -> Option<Next> {
    let now = tokio::time::Instant::now();
    let failed = memory.hold.filter(|(_, basis)| *basis == hold_basis(controller, logic, parent));
    let left = failed.and_then(|(until, _)| until.checked_duration_since(now));
    let slowed = || memory.churn.pause(now.into_std(), || churn_basis(controller, logic, parent));
    left.or_else(slowed).map(Next::After)
}

/// What must change for a failed parent to be decided before its time: what the plugin is shown of it,
/// or what somebody else did to its finalizers or its children, which are cared for all the same.
pub fn hold_basis(controller: &Controller, logic: &Logic, parent: &Object) -> u64 {
    let relabelled = controller.relabelled.load(Ordering::Acquire);
    let children = observe::children(&logic.owned, &parent.uid, &logic.plugin.name);
    let shown = (&parent.body, parent.deleting, &parent.finalizers);
    controller.hasher.hash_one((shown, as_applied(controller, &children), logic.basis, relabelled))
}

/// What tells whether children are as they were applied.
fn as_applied(controller: &Controller, children: &Children) -> Vec<u64> {
    let of_child =
        |child: &Object| controller.hasher.hash_one((&child.uid, child.deleting, &child.applied, owned_fields(child)));
    children.iter().map(|(_, child)| of_child(child)).collect()
}

/// What must change for other wishes to be no churn. Not the status, which may be the plugin's own words.
pub fn churn_basis(controller: &Controller, logic: &Logic, parent: &Object) -> u64 {
    controller.hasher.hash_one((parent.body_but_status(), parent.deleting, logic.basis))
}

/// Everything that a reconcile looks at, in one number: what the plugin sees, and what tells
/// whether its last decision still stands in the cluster.
pub fn fingerprint(controller: &Controller, logic: &Logic, observed: &Observed) -> u64 {
    let parent = &observed.parent;
    controller.hasher.hash_one((
        logic.basis,
        visible(controller, &observed.shown),
        (parent.generation, &parent.finalizers, &parent.status, owned_fields(parent)),
        as_applied(controller, &observed.children),
    ))
}

fn owned_fields(object: &Object) -> Vec<&str> {
    object.ownership.iter().map(|entry| &*entry.fields).collect()
}

fn visible(controller: &Controller, shown: &Observation) -> u64 {
    let text = |document: &Document| controller.hasher.hash_one((&document.reference, &document.json));
    let texts = |documents: &[Document]| documents.iter().map(text).collect::<Vec<_>>();
    let related: Vec<_> = shown.related.iter().map(|related| texts(&related.objects)).collect();
    let refusals: Vec<_> = shown
        .refusals
        .iter()
        .map(|refusal| (&refusal.reference, refusal.code, &refusal.reason, &refusal.message))
        .collect();
    controller.hasher.hash_one((
        &shown.parent.json,
        texts(&shown.children),
        related,
        refusals,
        (&shown.config, shown.now, shown.attempt),
    ))
}

/// What the checks need to know.
pub fn context<'a>(controller: &'a Controller, logic: &'a Logic, observed: &'a Observed) -> Context<'a> {
    context_of(controller, logic, &observed.shown.parent.reference, &observed.parent.uid)
}

/// The same, of a parent that was not observed.
pub fn context_of<'a>(
    controller: &'a Controller,
    logic: &'a Logic,
    parent: &'a ObjectRef,
    uid: &'a str,
) -> Context<'a> {
    Context {
        parent,
        uid,
        plugin: &controller.name,
        grant: &logic.plugin.grant,
        descriptor: logic.revision.descriptor(),
        most_children: logic.plugin.limits.children as usize,
        namespaced: Box::new(|kind| Some(controller.kinds.get(kind)?.namespaced)),
        label_of: Box::new(|namespace, key| logic.label_of(namespace, key)),
    }
}

/// After the writes: settled, unless they changed what the plugin sees.
///
/// What is remembered as settled is the state that was decided on, with the reply to our own
/// status write in it, and not what the cache holds by now: somebody else's edit that came
/// meanwhile would be taken for settled and never be looked at.
fn conclude(
    controller: &Controller,
    logic: &Logic,
    before: &Observed,
    decision: &Decision,
    memory: &mut Memory,
    written: carry_out::Written,
) -> Next {
    memory.requeue = carry_out::requeue(decision);
    memory.settled = None;
    if written.terminating {
        return Next::After(TERMINATING);
    }
    if written.again {
        memory.stalls = memory.stalls.saturating_add(1);
        return Next::After(soon(memory.stalls));
    }
    memory.stalls = 0;
    if written.children || written.relieved {
        return Next::Again;
    }
    let parent = written.parent.unwrap_or_else(|| before.parent.clone());
    let shown = Observation { parent: shown_parent(logic, &parent), ..Observation::clone(&before.shown) };
    let after = Observed { parent, children: before.children.clone(), shown: Arc::new(shown) };
    if after.shown.parent != before.shown.parent {
        return Next::Again;
    }
    memory.settled = Some(fingerprint(controller, logic, &after));
    carry_out::next_look(memory)
}

/// An error of the API server about the parent itself: gone or changed is no failure.
pub fn parent_is_gone(error: &ApiError) -> bool {
    error.code == 404
}
