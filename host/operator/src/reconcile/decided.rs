//! Keeps what a pass has decided and written, for `hotshoe explain`.
//!
//! No value is kept: of what has changed and of what was written the names and paths alone, and of a failure its reason.
//! Messages are left out, because a plugin and the API server quote values in them.

use std::hash::{BuildHasher, RandomState};

use crate::api::explain::{Cause, Decider, Ended, Note};
use crate::reconcile::decisions::{Before, Known, New};
use crate::reconcile::error::Error;
use crate::reconcile::fingerprint::applied;
use crate::reconcile::naming::Naming;
use crate::reconcile::observe::shown_parent;
use crate::reconcile::outcome::Outcome;
use crate::reconcile::pass::Pass;
use crate::reconcile::record::{Called, name};
use hotshoe_cluster::time::unix_seconds;
use hotshoe_cluster::view;
use hotshoe_core::check::memory_share::Part;
use hotshoe_core::diff::changed_inputs::{ChangedInput, How, Inputs, Paths, Seen};
use hotshoe_core::model::decision::{Failure, Observation, Refusal};
use hotshoe_core::model::field_path;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::{Object, ObservedChildren};
use hotshoe_sandbox::error::CallError;

/// How many causes of a decision are listed.
const MAX_CAUSES: usize = 6;
/// How many broken rules or refused objects are listed.
const MAX_ABOUT: usize = 4;

/// Keeps what a pass has decided and done. A pass in which the plugin may not be called has decided nothing; that it is held
/// back is known otherwise.
pub fn keep(pass: &Pass<'_>, result: &Result<Outcome, Error>) {
    if matches!(result, Err(Error::Call(CallError::CircuitOpen(_) | CallError::Stopped))) {
        return;
    }
    let (controller, parent, now) = (pass.controller, &pass.parent, unix_seconds());
    let decisions = &controller.decisions;
    let (wrote, more_writes) = pass.record.take_acts();
    if pass.record.call.is_none() && wrote.is_empty() && matches!(result, Ok(Outcome::Settled)) {
        return decisions.count_unchanged(&parent.key, &parent.uid, now);
    }
    let before = decisions.before(&parent.key, &parent.uid);
    let naming = Naming::of(pass.active, parent, pass.tainted);
    let (because, known) = because(pass, before, &naming);
    let more_causes = because.len().saturating_sub(MAX_CAUSES);
    let (ended, reason, about) = end(pass, result, &naming);
    let new = New {
        by: decider(pass),
        because: because.into_iter().take(MAX_CAUSES).collect(),
        more_causes,
        ended,
        reason: reason.map(str::to_owned),
        about,
        wrote: wrote.into_iter().map(|written| naming.written(written)).collect(),
        more_writes,
    };
    decisions.add(&parent.key, &parent.uid, now, new, known);
    pass.active.plugin.memory.set(Part::Explained, decisions.bytes());
}

fn decider(pass: &Pass<'_>) -> Decider {
    let revision = &pass.active.revision;
    Decider { digest: revision.digest(), version: name(&revision.descriptor().version) }
}

/// Returns why the plugin was called, and what its decision is based on: what it was shown, and of that what our own
/// writes have left.
fn because(pass: &Pass<'_>, before: Before, naming: &Naming<'_>) -> (Vec<Note<Cause>>, Option<Known>) {
    let Before { known, digest, failed } = before;
    let (hasher, basis, paths) = (&pass.controller.hasher, pass.active.basis, naming.paths());
    let mut causes = Vec::new();
    causes.extend(digest.is_none().then(|| Note::new(Cause::First)));
    if known.as_ref().is_some_and(|known| known.basis != basis) {
        let is_swapped = digest != Some(pass.active.revision.digest());
        causes.push(Note::new(if is_swapped { Cause::Revision } else { Cause::Settings }));
    }
    causes.extend(failed.then(|| Note::new(Cause::Retry)));
    // Without a call, the next one is compared with what the last one was shown.
    let Some(call) = &pass.record.call else { return (causes, known) };
    let nothing = Inputs::default();
    let inputs = known.as_ref().map_or(&nothing, |known| &known.inputs);
    let seen = Seen { applied: &applied_of(hasher, &call.children), ..seen(hasher, &call.shown, &call.parent) };
    let (inputs, changes) = inputs.next(seen, paths, hasher);
    if known.is_some() {
        causes.extend(changes.into_iter().map(|changed| cause(changed, naming)));
    }
    causes.extend(call.needed.iter().map(|needed| Note::new(Cause::Needed).about(naming.wanted(needed))));
    causes.extend(pass.is_due.then(|| Note::new(Cause::Due)));
    if causes.is_empty() {
        causes.push(Note::new(Cause::Again));
    }
    (causes, Some(Known { basis, inputs: inputs_left(pass, call, &inputs, paths) }))
}

/// Returns the hashes of what the plugin would be shown after our own writes of this pass. Our writes are no cause of the
/// next decision. Nor is the status as it is now, which the report of this pass may have written.
fn inputs_left(pass: &Pass<'_>, call: &Called, inputs: &Inputs, paths: Paths) -> Inputs {
    let hasher = &pass.controller.hasher;
    let parent = pass.record.parent.as_ref();
    let live = pass.live();
    let shown = Observation {
        parent: parent.map_or_else(|| call.shown.parent.clone(), |parent| shown_parent(pass.active, parent)),
        // Those that the plugin may not see are not among the children of a pass.
        children: view::show_children(&pass.active.owned, &pass.children, &|_| true),
        refusals: pass.state.refused.shown(),
        ..Observation::clone(&call.shown)
    };
    let seen = seen(hasher, &shown, live.as_ref().unwrap_or(&call.parent));
    inputs.next(Seen { applied: &applied_of(hasher, &pass.children), ..seen }, paths, hasher).0
}

fn seen<'a>(hasher: &RandomState, shown: &'a Observation, parent: &Object) -> Seen<'a> {
    let (finalizers, status) = (hasher.hash_one(&parent.finalizers), hasher.hash_one(parent.status()));
    Seen { shown, finalizers, status, applied: &|_| 0 }
}

fn applied_of<'a>(hasher: &'a RandomState, children: &'a ObservedChildren) -> impl Fn(&ObjectRef) -> u64 + 'a {
    move |object| {
        let child = children.iter().find(|(kind, child)| object.is(kind, &child.key));
        child.map_or(0, |(_, child)| applied(hasher, child))
    }
}

fn cause(changed: ChangedInput, naming: &Naming<'_>) -> Note<Cause> {
    match changed {
        ChangedInput::Parent(fields) => Note::new(Cause::Changed).fields(fields),
        ChangedInput::Object { object, how, fields } => {
            let what = match how {
                How::Changed => Cause::Changed,
                How::Appeared => Cause::Appeared,
                How::Gone => Cause::Gone,
            };
            Note::new(what).about(naming.object(&object)).fields(fields)
        }
        ChangedInput::Others => Note::new(Cause::Others),
        ChangedInput::Refusals => Note::new(Cause::Refusals),
    }
}

/// Returns how a pass ended, the reason of a failure or trouble, and what that is about.
fn end(
    pass: &Pass<'_>,
    result: &Result<Outcome, Error>,
    naming: &Naming<'_>,
) -> (Ended, Option<&'static str>, Vec<String>) {
    let outcome = match result {
        Err(error) => return (Ended::Failed, Some(error.reason()), about(error, naming)),
        Ok(outcome) => outcome,
    };
    let ended = match outcome {
        Outcome::Settled => Ended::Settled,
        Outcome::Changed => Ended::Changed,
        Outcome::Overtaken => Ended::Overtaken,
        Outcome::Stalled => Ended::Stalled,
        Outcome::NamespaceTerminating => Ended::NamespaceTerminating,
        Outcome::CleaningUp(_) => Ended::CleaningUp,
        Outcome::Orphaned(_) => Ended::Orphaned,
        Outcome::Released => Ended::Released,
    };
    let reason = outcome.trouble(&pass.state).map(|trouble| trouble.reason);
    let refused = pass.state.refused.shown().into_iter().take(MAX_ABOUT);
    let named = |refusal: Refusal| format!("{}: {}", naming.object(&refusal.reference), name(&refusal.reason));
    (ended, reason, refused.map(named).collect())
}

/// Returns what a failure is about, as far as that is no value.
fn about(error: &Error, naming: &Naming<'_>) -> Vec<String> {
    match error {
        Error::Denied(denial) => {
            let mut rules: Vec<String> =
                denial.violations().iter().map(|violation| violation.rule.to_owned()).collect();
            rules.dedup();
            rules.truncate(MAX_ABOUT);
            rules
        }
        // A plugin chooses the fields and the objects that it asks for.
        _ if naming.is_restricted() => Vec::new(),
        Error::Plugin(Failure::Reject { field: Some(field), .. }) if field_path::keys(field).is_ok() => {
            naming.paths().of(vec![field.clone()])
        }
        Error::Api(error) => vec![format!("{} {}: {}", error.verb, name(&error.target), name(&error.reason))],
        _ => Vec::new(),
    }
}
