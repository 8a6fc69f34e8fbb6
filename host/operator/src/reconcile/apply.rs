//! *apply* of one pass: first the children, then Events, then the status.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::REQUEUE;
use crate::reconcile::audit_log;
use crate::reconcile::audit_log::Change;
use crate::reconcile::check::{CheckedDecision, Planned};
use crate::reconcile::error::{CONDITIONS_NOT_WRITTEN, Error};
use crate::reconcile::events;
use crate::reconcile::fingerprint::refusal_basis;
use crate::reconcile::gate::Gate;
use crate::reconcile::observe::Observed;
use crate::reconcile::pass::Pass;
use crate::reconcile::refused_writes::RECREATING;
use crate::reconcile::rivals;
use crate::reconcile::status_plan::{Comparison, ObservedGeneration, StatusPlan};
use hotshoe_cluster::apply::{ChildWrite, Parent, WriteError, Written};
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::view::reference;
use hotshoe_core::check;
use hotshoe_core::check::parent_metadata::StatedMetadata;
use hotshoe_core::check::{Denial, Desired};
use hotshoe_core::diff;
use hotshoe_core::diff::changed_fields;
use hotshoe_core::diff::{Apply, Plan, Unsettled};
use hotshoe_core::flow::signal::Signal;
use hotshoe_core::model::decision::{Decision, Event, Severity};
use hotshoe_core::model::kind::{Key, Kind, ObjectRef};
use hotshoe_core::model::limits::{FAILURE_MESSAGE, PRUNED};
use hotshoe_core::model::object::{Object, ObservedChildren};
use hotshoe_core::model::sanitize;

/// How often, for more than half a minute, the host waits for the garbage collector to delete the child of an earlier
/// parent of the same name. After that something else keeps the child, and a conflict is reported.
const MAX_COLLECTION_WAITS: u32 = 20;

/// The result of the writes of a pass.
#[derive(Clone, Debug, Default)]
pub struct WriteOutcome {
    /// Whether any write of a child was tried.
    pub children: bool,
    /// Whether a refusal that the plugin was shown has ended. Then the plugin has to decide again, and no watch event
    /// wakes the parent.
    pub refusal_ended: bool,
    /// The children that were applied, as the replies showed them.
    applied: ObservedChildren,
    /// The uids of the deleted children.
    pruned: Vec<Arc<str>>,
    /// The parent as our last write of it left it.
    pub parent: Option<Arc<Object>>,
    /// Whether a write failed for a transient reason, so that the parent is to be retried soon.
    pub retry_soon: bool,
    /// Whether the namespace is being deleted.
    pub terminating: bool,
    /// Whether the next pass has to prune the rest.
    prunes_more: bool,
    /// Whether a child was deleted that is to be made anew. It may be gone before the next pass sees it leave.
    recreates: bool,
    /// The child writes that had no answer in time.
    pub unanswered: Vec<ApiError>,
}

/// A child to be applied, with the changed fields that the log names.
struct LoggedApply {
    desired: Desired,
    fields: Vec<String>,
}

/// Who refused the write of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusedBy {
    /// The API server.
    ApiServer,
    /// The host, because of what the write would result in.
    Check,
    /// The host, because the existing object of this name is not this parent's child.
    Holder,
    /// The API server, because another field manager owns a label or annotation that is stated of the parent.
    Owner,
    /// The host, because the child is to be made anew and has to wait.
    Turn,
    /// The API server, because the namespace is being deleted.
    Namespace,
}

impl RefusedBy {
    fn of(error: &WriteError) -> Self {
        match error {
            WriteError::Api(error) if error.is_namespace_terminating() => Self::Namespace,
            WriteError::Api(_) => Self::ApiServer,
            WriteError::Denied(_) => Self::Check,
            WriteError::Conflict { .. } | WriteError::Collecting => Self::Holder,
            WriteError::Owned(_) => Self::Owner,
            WriteError::Waits { .. } => Self::Turn,
        }
    }
}

impl WriteOutcome {
    /// Returns whether nothing of the plan is left to be written.
    fn is_complete(&self) -> bool {
        !(self.retry_soon || self.terminating || self.prunes_more || self.recreates)
    }

    /// Returns the children after our writes, as far as the replies show them.
    fn remaining_children(&self, observed: &Observed) -> ObservedChildren {
        let replaced = |kind: &Kind, child: &Object| {
            self.pruned.contains(&child.uid) || self.applied.iter().any(|(k, c)| k == kind && c.key == child.key)
        };
        let stay = observed.children.iter().filter(|(kind, child)| !replaced(kind, child)).cloned();
        let mut children: ObservedChildren = stay.chain(self.applied.iter().cloned()).collect();
        children.sort_by(|(a, x), (b, y)| (a, &x.key).cmp(&(b, &y.key)));
        children
    }
}

/// Returns the requeue that a plugin asked for, within the host's bounds.
pub fn requeue(decision: &Decision) -> Option<Duration> {
    let (soonest, latest) = REQUEUE;
    decision.requeue_after.map(|after| after.clamp(soonest, latest))
}

/// Applies a checked decision: its children, its Events, its status.
///
/// # Errors
/// When the API server does not answer, or refuses a write of the host's own.
pub async fn apply(pass: &mut Pass<'_>, observed: &Observed, checked: CheckedDecision) -> Result<WriteOutcome, Error> {
    let CheckedDecision { decision, planned, metadata, status, desired_fingerprint, .. } = checked;
    let mut written = WriteOutcome::default();
    pass.state.set_timer(requeue(&decision));
    match planned {
        Some(planned) => {
            let admitted = planned.admitted.clone();
            write_children(pass, observed, planned, &mut written).await;
            let children = written.remaining_children(observed);
            let state = &mut pass.state;
            let in_sync = state.refused.is_empty() && state.unsettled.is_empty() && state.contention.is_over();
            state.admitted =
                (in_sync && written.is_complete()).then(|| admitted.key(desired_fingerprint.children, &children));
            pass.children = children;
        }
        // Nothing is applied, so earlier refusals and delays are over.
        None => {
            let parent = pass.reference();
            pass.state.refused.keep_planned(&Plan::default(), &parent);
            pass.state.contention.end_due(Instant::now());
        }
    }
    write_metadata(pass, observed, metadata, &mut written).await;
    // Before the status: a plugin that reads its own conditions emits them only once.
    events::emit(pass, &decision.events);
    report_unwritten_conditions(pass, &decision);
    // Skipped at most once in a row: if children or refusals change in each pass, every second pass writes the status.
    pass.state.skipped_status = !pass.state.skipped_status && is_outdated(pass, observed, &written);
    let stated = match pass.state.skipped_status {
        true => Ok(()),
        false => write_status(pass, observed, (&decision, status), &mut written).await,
    };
    pass.record.note_parent(written.parent.as_ref());
    signal_written(pass, &written, &stated);
    stated.map(|()| written)
}

/// Signals what the writes of a decision show about the revision: those of its children, or that of its status if that
/// had no answer in time.
fn signal_written(pass: &mut Pass<'_>, written: &WriteOutcome, stated: &Result<(), Error>) {
    let unanswered = match stated {
        Ok(()) => &written.unanswered[..],
        Err(Error::Api(error)) => std::slice::from_ref(&**error),
        Err(_) => &[],
    };
    let controller = pass.controller;
    let is_blamed = |error: &&ApiError| error.unanswered.is_some_and(|write| controller.writer.is_to_blame(write));
    for error in unanswered.iter().filter(is_blamed) {
        controller.count_unanswered_write(error);
        pass.signals.push(Signal::Unanswered);
    }
    let (tries, is_own_time) = (pass.state.refused.invalid_tries(), pass.is_due);
    pass.signals.extend([Signal::StaysInvalid { tries, is_own_time }, Signal::Good]);
}

/// Reports once that the conditions of a decision are not written, because of the parent's kind.
fn report_unwritten_conditions(pass: &mut Pass<'_>, decision: &Decision) {
    if let Some(message) = check::status::unwritten_conditions(decision, pass.active.parent_kind()) {
        let reason = CONDITIONS_NOT_WRITTEN.to_owned();
        events::warn_once(pass, &Event { severity: Severity::Warning, reason, message });
    }
}

/// Returns whether the status is outdated: it was decided before the child writes of this pass, or before a refusal
/// began or ended. The next decision, which follows at once, would change it. A first status is written anyway, and so
/// is that of a parent that is being deleted, for which there may be no next decision.
fn is_outdated(pass: &Pass<'_>, observed: &Observed, written: &WriteOutcome) -> bool {
    let parent = &observed.parent;
    let has_status = parent.owned_fields(pass.manager(), true).is_some();
    let is_decided_again = written.children && !written.terminating && !parent.deleting;
    let has_changed = !written.applied.is_empty() || !written.pruned.is_empty();
    has_status && is_decided_again && (has_changed || pass.state.refused.shown() != observed.shown.refusals)
}

async fn write_children(pass: &mut Pass<'_>, observed: &Observed, planned: Planned, written: &mut WriteOutcome) {
    let Planned { mut plan, changed, desired, .. } = planned;
    let hasher = &pass.controller.hasher;
    pass.state.desired = desired;
    let gate = Gate::of(pass.active, &observed.parent);
    narrow(pass, observed, &gate, &mut plan, written);
    note_leaving(pass, observed, &plan.leaving);
    let delayed = pass.state.contention.delay(&mut plan, Instant::now(), hasher);
    rivals::report(pass, delayed).await;
    if plan.apply.is_empty() && plan.prune.is_empty() {
        return;
    }
    written.children = true;
    let applies: Vec<LoggedApply> =
        plan.apply.iter().map(|apply| logged_apply(pass, observed, apply, &changed)).collect();
    let reference = pass.reference();
    let plugin = &pass.active.plugin;
    let check_result = |child: &ObjectRef, json: &str| gate.check_result(child, json);
    let parent = Parent {
        reference: &reference,
        uid: &observed.parent.uid,
        predecessors: &plugin.predecessors,
        adopts: plugin.adopts,
        check_result: &check_result,
    };
    let children = pass.controller.writer.execute(plan, &pass.active.owned, parent, pass.permit).await;
    for child in children {
        let apply = applies.iter().find(|one| one.desired.reference == child.reference);
        note_child(pass, observed, child, apply, written);
    }
}

/// Returns a child to apply with the fields that change: those that are desired differently than before, or that
/// another field manager has edited.
fn logged_apply(
    pass: &Pass<'_>,
    observed: &Observed,
    apply: &Apply,
    changed: &[(ObjectRef, Option<Vec<String>>)],
) -> LoggedApply {
    let desired = apply.desired.clone();
    let known = changed.iter().find(|(reference, _)| *reference == desired.reference);
    let mut fields = known.and_then(|(_, fields)| fields.clone()).unwrap_or_default();
    if fields.is_empty() {
        let owned = observed.child(&desired.reference).and_then(|live| live.owned_fields(pass.manager(), false));
        fields = changed_fields::taken_over(owned, &desired.body);
    }
    LoggedApply { desired, fields }
}

/// Removes from the plan the children that may not be pruned, the writes that are not due, the prunes that are left to
/// the next pass, and the applies that had no effect before.
fn narrow(pass: &mut Pass<'_>, observed: &Observed, gate: &Gate, plan: &mut Plan, written: &mut WriteOutcome) {
    plan.prune.retain(|(kind, child)| may_prune(pass, &reference(kind, &child.key), gate));
    written.refusal_ended = pass.state.refused.keep_planned(plan, &pass.reference());
    let is_due = |child: &ObjectRef| pass.state.refused.is_due(child, || refusal_basis(pass, observed, child));
    plan.prune.retain(|(kind, child)| is_due(&reference(kind, &child.key)));
    // The clean-up of a parent has nothing else to write.
    written.prunes_more = !observed.parent.deleting && plan.prune.len() > PRUNED;
    if written.prunes_more {
        plan.prune.truncate(PRUNED);
    }
    plan.apply.retain(|apply| {
        is_due(&apply.desired.reference)
            && !had_no_effect(observed, &apply.desired, &pass.state.unsettled, pass.manager())
    });
}

pub(super) fn may_prune(pass: &Pass<'_>, child: &ObjectRef, gate: &Gate) -> bool {
    let Err(denial) = gate.check_prune(child) else { return true };
    pass.controller.metrics.denied(&pass.controller.name, denial.rule());
    let why = denial.reasons();
    // The plugin chooses its children, and so the number of these lines.
    if pass.controller.may_log(&pass.controller.failure_lines, why.len()) {
        tracing::warn!(rule = denial.rule(), "a child that is no longer desired stays: {why}");
    }
    false
}

/// Returns whether the same apply had no effect before, and our ownership has not changed since.
fn had_no_effect(observed: &Observed, desired: &Desired, unsettled: &[(Kind, Key, Unsettled)], manager: &str) -> bool {
    let tried = unsettled.iter().find(|(kind, key, _)| desired.reference.is(kind, key));
    tried.is_some_and(|(_, _, tried)| {
        let fields = observed.child(&desired.reference).and_then(|child| child.owned_fields(manager, false));
        tried.digest == desired.digest && tried.fields.as_deref() == fields
    })
}

/// Records the result of the write of a child: of its apply, or of its deletion if there is no `apply`.
fn note_child(
    pass: &mut Pass<'_>,
    observed: &Observed,
    child: ChildWrite,
    apply: Option<&LoggedApply>,
    written: &mut WriteOutcome,
) {
    let (state, reference) = (&mut pass.state, child.reference);
    if let Err(WriteError::Api(error)) = &child.result
        && error.unanswered.is_some()
    {
        written.unanswered.push(ApiError::clone(error));
    }
    match child.result {
        Ok(done) => {
            if state.refused.lift(&reference) {
                state.reported.clear();
            }
            match done {
                Written::Applied(object) => {
                    if let Some(apply) = apply {
                        note_applied(pass, observed, &object, apply);
                    }
                    written.applied.push((reference.kind, object));
                }
                Written::Deleted => note_deleted(pass, observed, &reference, written),
                Written::Recreating(why) => {
                    written.recreates = true;
                    note_deleted(pass, observed, &reference, written);
                    events::emit(pass, &[recreating(&reference, &why)]);
                }
            }
        }
        Err(WriteError::Collecting) if state.stalls < MAX_COLLECTION_WAITS && !state.refused.has(&reference) => {
            written.retry_soon = true;
        }
        // A clean-up is shown it as a refusal: it may have nothing left to wait for.
        Err(WriteError::Api(error)) if error.is_namespace_terminating() && !observed.parent.deleting => {
            written.terminating = true;
        }
        Err(WriteError::Api(error)) if state.refused.passes(&reference, &error) => written.retry_soon = true,
        Err(error) => {
            signal_invalid(pass, &error);
            note_refused(pass, observed, &reference, child.digest, error);
        }
    }
}

fn note_deleted(pass: &Pass<'_>, observed: &Observed, child: &ObjectRef, written: &mut WriteOutcome) {
    audit_log::log(pass, Change::Deleted(child));
    written.pruned.extend(observed.child(child).map(|live| live.uid.clone()));
}

/// Returns the Event about a child that is deleted to be made anew. The API server quotes values, which the plugin chose.
fn recreating(child: &ObjectRef, why: &str) -> Event {
    let message = sanitize::clean(format!("{child} is deleted and made anew: {why}"), FAILURE_MESSAGE);
    Event { severity: Severity::Normal, reason: RECREATING.to_owned(), message }
}

/// Records that children that are to be made anew are still being deleted, and what holds them.
fn note_leaving(pass: &mut Pass<'_>, observed: &Observed, leaving: &[(Desired, Arc<Object>)]) {
    for (Desired { reference, digest, .. }, live) in leaving {
        let basis = refusal_basis(pass, observed, reference);
        if pass.state.refused.is_due(reference, || basis) {
            let why =
                format!("the old one is being deleted, and its finalizers hold it: {}", live.finalizers.join(", "));
            note_refused(pass, observed, reference, digest.clone(), WriteError::Waits { why });
        }
    }
}

/// Records a successful apply. If we do not own every field that the apply set, something such as a webhook rewrites
/// the object, and another apply would only contend with it.
fn note_applied(pass: &mut Pass<'_>, observed: &Observed, object: &Object, apply: &LoggedApply) {
    let LoggedApply { desired, fields } = apply;
    match observed.child(&desired.reference) {
        Some(before) if before.uid == object.uid => {
            if before.resource_version != object.resource_version {
                audit_log::log(pass, Change::Changed(&desired.reference, fields));
            }
        }
        _ => audit_log::log(pass, Change::Created(&desired.reference)),
    }
    let (manager, controller, state) = (pass.manager(), pass.controller, &mut pass.state);
    state.contention.applied(desired, Instant::now(), &controller.hasher);
    let kind = &desired.reference.kind;
    state.unsettled.retain(|(k, n, _)| k != kind || *n != object.key);
    let fields = object.owned_fields(manager, false);
    let mut lists = controller.associative_lists.write();
    if let Some(fields) = fields {
        lists.learn(kind, &desired.body, fields);
    }
    if diff::in_sync(desired, object, manager, &lists) {
        return;
    }
    drop(lists);
    let fields = fields.map(Box::from);
    let tried = Unsettled { digest: desired.digest.clone(), fields };
    state.unsettled.push((kind.clone(), object.key.clone(), tried));
    tracing::warn!(child = %desired.reference, "not every field of the child stays as it was applied: something else rewrites it");
}

/// Signals an invalid child, once in a pass: it is no better than a failed call.
fn signal_invalid(pass: &mut Pass<'_>, error: &WriteError) {
    let is_known = || pass.signals.iter().any(|signal| matches!(signal, Signal::Invalid(_)));
    if let WriteError::Api(error) = error
        && error.is_invalid()
        && !is_known()
    {
        let why = Error::Api(error.clone()).message_for_strangers(pass.tainted);
        pass.signals.push(Signal::Invalid(why));
    }
}

fn note_refused(pass: &mut Pass<'_>, observed: &Observed, child: &ObjectRef, digest: Box<str>, error: WriteError) {
    let refused_by = RefusedBy::of(&error);
    if let WriteError::Denied(denial) = &error {
        denial.violations().iter().for_each(|one| pass.controller.metrics.denied(&pass.controller.name, one.rule));
    }
    let basis = refusal_basis(pass, observed, child);
    // The advice is for users only; the plugin is shown the API server's own message.
    let advice = advice(&error, &pass.controller.name).unwrap_or_default();
    let Some(refusal) = pass.state.refused.add(child, digest, error, basis) else { return };
    let (code, message) = (refusal.code, &refusal.message);
    let message = match refused_by {
        RefusedBy::Namespace => {
            tracing::debug!(%child, "a child is not created, because its namespace is being deleted");
            return;
        }
        RefusedBy::Turn => {
            tracing::debug!(%child, "a child is not written yet: {message}");
            return;
        }
        RefusedBy::Check => {
            tracing::warn!(%child, "a child is not written, because the object that would result is denied: {message}");
            // Reported in Event and condition as any other denial.
            return;
        }
        RefusedBy::Holder => {
            tracing::warn!(%child, "a child is not written, because its name is in use: {message}");
            format!("{message}. Nothing of it was changed; delete or rename it, and this object recovers by itself")
        }
        RefusedBy::Owner => {
            tracing::warn!("the parent is not labelled or annotated as stated: {message}");
            format!("{message}. Nothing was changed; remove the key there, and this object recovers by itself")
        }
        RefusedBy::ApiServer => {
            tracing::warn!(%child, code, "the API server refused a child: {message}{advice}");
            format!("{child} was refused: {message}{advice}")
        }
    };
    events::warn_once(pass, &Event { severity: Severity::Warning, reason: refusal.reason, message });
}

/// Writes what must be written of the parent's labels and annotations, unless it was refused and is not due yet. A
/// refusal does not stop what else the decision has.
async fn write_metadata(
    pass: &mut Pass<'_>,
    observed: &Observed,
    metadata: Option<StatedMetadata>,
    written: &mut WriteOutcome,
) {
    let parent = pass.reference();
    let digest = metadata.as_ref().map(StatedMetadata::digest);
    written.refusal_ended |= pass.state.refused.keep_stated(&parent, digest.as_deref());
    let (Some(stated), Some(digest), Some(live)) = (metadata, digest, pass.live()) else { return };
    if !pass.state.refused.is_due(&parent, || refusal_basis(pass, observed, &parent)) {
        return;
    }
    let (resource, writer) = (pass.active.resource(), &pass.controller.writer);
    let reply = writer.apply_metadata(&resource, &live, &stated, pass.permit).await;
    match writer.store_parent(&pass.active.parents.watch, &resource, &live, reply).await {
        Ok(labelled) => {
            written.refusal_ended |= pass.state.refused.lift(&parent);
            if labelled.resource_version != live.resource_version {
                audit_log::log(pass, Change::MetadataChanged);
            }
            written.parent = Some(labelled);
        }
        Err(error) if error.is_gone() => {}
        Err(error) if error.is_of_ownership() => {
            note_refused(pass, observed, &parent, digest, WriteError::Owned(Box::new(error)));
        }
        Err(error) if pass.state.refused.passes(&parent, &error) => written.retry_soon = true,
        Err(error) => note_refused(pass, observed, &parent, digest, error.into()),
    }
}

async fn write_status(
    pass: &mut Pass<'_>,
    observed: &Observed,
    (decision, planned): (&Decision, StatusPlan),
    written: &mut WriteOutcome,
) -> Result<(), Error> {
    let (writer, watch) = (&pass.controller.writer, &pass.active.parents.watch);
    let Some(parent) = pass.live().filter(|_| pass.active.resource().has_status) else { return Ok(()) };
    let carried_out = observed_generation(pass, written);
    let StatusPlan { fingerprint, body, .. } = match planned.is_about(&parent, carried_out) {
        true => planned,
        false => plan_status_again(pass, observed, decision, (&parent, carried_out)).await?,
    };
    let Some(desired) = body else {
        pass.state.current_status = Some(fingerprint);
        return Ok(());
    };
    let mut reply = writer.apply_status(&pass.active.resource(), &parent, desired, pass.permit).await;
    if reply.as_ref().is_err_and(ApiError::has_no_room_for_generation) {
        pass.controller.kinds.statuses.note_refused(pass.active.parent_kind());
        let without = plan_status_again(pass, observed, decision, (&parent, ObservedGeneration::Absent)).await?;
        let Some(desired) = without.body else { return Ok(()) };
        reply = writer.apply_status(&pass.active.resource(), &parent, desired, pass.permit).await;
    }
    match writer.store_parent(watch, &pass.active.resource(), &parent, reply).await {
        Ok(parent) => {
            audit_log::log(pass, Change::StatusChanged);
            written.parent = Some(parent);
        }
        Err(error) if error.code == 409 => written.retry_soon = true,
        Err(error) if error.is_gone() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Returns what the status says of the generation that was decided about: not that it was, while a child is not written
/// as the decision has it.
fn observed_generation(pass: &Pass<'_>, written: &WriteOutcome) -> ObservedGeneration {
    match pass.controller.observed_generation(pass.active.parent_kind()) {
        ObservedGeneration::Current if written.retry_soon || !pass.state.refused.is_empty() => ObservedGeneration::Kept,
        observed => observed,
    }
}

/// Compares the stated status with a parent that has changed during the pass, on a thread that no other plugin needs.
async fn plan_status_again(
    pass: &Pass<'_>,
    observed: &Observed,
    decision: &Decision,
    (parent, carried_out): (&Arc<Object>, ObservedGeneration),
) -> Result<StatusPlan, Denial> {
    let (decision, parent, generation) = (decision.clone(), parent.clone(), observed.parent.generation);
    let (hasher, manager, current) = (pass.controller.hasher.clone(), pass.manager().to_owned(), None);
    let plan = move || {
        let by = Comparison { hasher: &hasher, manager: &manager, generation, observed: carried_out, current };
        StatusPlan::of(&decision, &parent, by)
    };
    tokio::task::spawn_blocking(plan).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

fn advice(error: &WriteError, plugin: &str) -> Option<String> {
    match error {
        WriteError::Api(error) => error.advice(plugin),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::check::{Denial, Violation};

    #[test]
    fn only_what_the_api_server_refused_is_said_to_be_refused_by_it() {
        let denied = WriteError::Denied(Denial::from(Violation::new("host-path", String::new())));
        let refused = ApiError::new("apply", "a Service".into(), 403, "Conflict", String::new());
        let terminating = ApiError { cause: Some("NamespaceTerminating".to_owned()), ..refused.clone() };
        for (error, by) in [
            (refused.into(), RefusedBy::ApiServer),
            (terminating.into(), RefusedBy::Namespace),
            (denied, RefusedBy::Check),
            (WriteError::Collecting, RefusedBy::Holder),
            (WriteError::Conflict { holder: "another".to_owned() }, RefusedBy::Holder),
        ] {
            assert_eq!(RefusedBy::of(&error), by);
        }
    }

    #[test]
    fn a_requeue_is_neither_a_loop_nor_an_overflow() {
        let decision = |after| Decision { requeue_after: Some(Duration::from_millis(after)), ..Decision::default() };
        assert_eq!(requeue(&decision(0)), Some(REQUEUE.0));
        assert_eq!(requeue(&decision(u64::MAX)), Some(REQUEUE.1));
        assert_eq!(requeue(&decision(5_000)), Some(Duration::from_secs(5)));
    }
}
