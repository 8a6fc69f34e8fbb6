//! Fingerprints: each shows in one comparison whether certain things have changed. The table of all of them:
//!
//! | fingerprint | answers | changes when | but not when |
//! |---|---|---|---|
//! | [`fingerprint`] | was exactly this state found settled before? | anything changes that the plugin sees or that our last writes left | only `now` changes |
//! | [`backoff_basis`] | is a failed parent retried early? | the parent, its children, the grant or the revision changes | its status changes |
//! | [`try_basis`] | does the count of its tries restart? | the parent but its status, the grant or the revision changes | other objects change |
//! | [`flapping_basis`] | may the plugin answer differently? | the parent but its status, or the revision changes | what is beside the parent changes |
//! | [`beside_parent`] | what was an answer about, beside the parent? | children, read objects, refusals or the configuration change | the parent changes |
//! | the key of [`Admitted`](super::gate::Admitted) | still admitted? | children, owners, the revision or namespaces' labels change | the parent changes |
//! | of a [`StatusPlan`](super::status_plan::StatusPlan) | is the status still current? | the stated status or the parent's version changes | children change |
//! | [`refusal_basis`] | is a refused write retried before it is due? | the parent's generation or marks, the child or the revision changes | status changes |
//! | [`parents_basis`] | is a shadow run outdated? | a parent is created, deleted or changed but in its status | statuses, children or read objects change |
//! | `basis` in `rollout/views.rs` | is state kept of a parent of this revision? | the component or `plugin.yaml` changes | anything in the cluster changes |

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::observe::Observed;
use crate::reconcile::pass::Pass;
use hotshoe_core::diff::parent_metadata;
use hotshoe_core::model::decision::{Document, Observation};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::Object;
use hotshoe_core::model::object::ObservedChildren;

/// Returns the fingerprint whose change lets a failed parent be reconciled before its retry is due: what the plugin is
/// shown of the parent, and its finalizers and children, because edits of these are reverted even after a failure.
pub fn backoff_basis(
    controller: &Controller,
    active: &ActiveRevision,
    parent: &Object,
    finalizers: &[Box<str>],
    children: &ObservedChildren,
) -> u64 {
    let relabelled = controller.relabelled.load(Ordering::Acquire);
    let shown = (&parent.body, parent.deleting, finalizers);
    controller.hasher.hash_one((shown, as_applied(controller, children), active.basis, relabelled))
}

/// Returns fingerprints of the children that change when a child is no longer as it was applied.
fn as_applied(controller: &Controller, children: &ObservedChildren) -> Vec<u64> {
    children.iter().map(|(_, child)| applied(&controller.hasher, child)).collect()
}

/// Returns the fingerprint of a child that changes when it is no longer as it was applied.
pub fn applied(hasher: &RandomState, child: &Object) -> u64 {
    hasher.hash_one((&child.uid, child.deleting, &child.applied, owned_fields(child)))
}

/// Returns the fingerprint whose change restarts the count of a parent's tries. Leaves out its children: a user who
/// edits one again and again would have the parent tried for ever.
pub fn try_basis(controller: &Controller, active: &ActiveRevision, parent: &Object) -> u64 {
    let relabelled = controller.relabelled.load(Ordering::Acquire);
    controller.hasher.hash_one((flapping_basis(controller, active, parent), relabelled))
}

/// Returns the fingerprint whose change is a reason for a different answer. As long as it stays the same, a different
/// answer counts as flapping. Leaves out the status, which the plugin itself may have written, and the labels and
/// annotations that it states.
pub fn flapping_basis(controller: &Controller, active: &ActiveRevision, parent: &Object) -> u64 {
    let own = parent_metadata::without_own(parent, controller.writer.metadata_manager());
    let members = parent.body_but_status();
    let is_metadata = |key: &str| own.is_some() && key == "metadata";
    let members: Vec<_> = members.iter().filter(|(key, _)| !is_metadata(key)).collect();
    controller.hasher.hash_one((members, own.map(|own| own.to_string()), parent.deleting, active.basis))
}

/// Returns the fingerprint of everything that a reconcile looks at: what the plugin sees, and whether its last decision
/// is still in place in the cluster.
pub fn fingerprint(controller: &Controller, active: &ActiveRevision, observed: &Observed) -> u64 {
    let parent = &observed.parent;
    controller.hasher.hash_one((
        active.basis,
        visible(&controller.hasher, &observed.shown),
        (parent.generation, &parent.finalizers, parent.status(), owned_fields(parent)),
        // A user may change a label or an annotation to have a refused write retried.
        (!observed.shown.refusals.is_empty()).then_some(parent.marks),
        as_applied(controller, &observed.children),
    ))
}

fn owned_fields(object: &Object) -> Vec<&str> {
    object.ownership.iter().map(|entry| &*entry.fields).collect()
}

/// Returns the fingerprint of what the plugin sees, without `now`: that time has passed is no change.
fn visible(hasher: &RandomState, shown: &Observation) -> u64 {
    hasher.hash_one((&shown.parent.json, beside_parent(hasher, shown), shown.attempt))
}

/// Returns the fingerprint of everything that is observed beside the parent.
pub fn beside_parent(hasher: &RandomState, shown: &Observation) -> u64 {
    let text = |document: &Document| hasher.hash_one((&document.reference, &document.json));
    let texts = |documents: &[Document]| documents.iter().map(text).collect::<Vec<_>>();
    let related: Vec<_> = shown.related.iter().map(|related| texts(&related.objects)).collect();
    let refusals: Vec<_> = shown
        .refusals
        .iter()
        .map(|refusal| (&refusal.reference, refusal.code, &refusal.reason, &refusal.message))
        .collect();
    hasher.hash_one((texts(&shown.children), related, refusals, &shown.config))
}

/// Returns the fingerprint whose change retries a refused write before it is due: the parent, the plugin and the child.
pub fn refusal_basis(pass: &Pass<'_>, observed: &Observed, child: &ObjectRef) -> u64 {
    let live = observed.child(child).map(|live| (&live.uid, &live.applied, live.generation, &live.needs_grant));
    let parent = &observed.parent;
    pass.controller.hasher.hash_one((parent.generation, parent.marks, pass.active.basis, live))
}

/// Returns the fingerprint of all parents. Leaves out the status of custom kinds, because the plugin writes it: a
/// change of the status is no reason to ask about all parents again.
pub fn parents_basis(controller: &Controller, active: &ActiveRevision) -> u64 {
    let parents = active.parents.watch.cache.all(|_| true);
    all_but_status(&controller.hasher, parents.iter().map(|parent| &**parent), active.parent_kind().is_builtin())
}

/// Returns the fingerprint of objects in any order. Objects of custom kinds have a generation, which is cheaper than
/// their content. Many built-in kinds have none; the host writes no status of theirs.
fn all_but_status<'a>(hasher: &RandomState, objects: impl Iterator<Item = &'a Object>, are_builtin: bool) -> u64 {
    let of = |object: &Object| {
        let content = are_builtin.then_some(&object.body);
        hasher.hash_one((&object.uid, object.generation, object.marks, object.deleting, content))
    };
    objects.map(of).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use hotshoe_core::model::kind::Kind;
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    #[test]
    fn what_is_known_about_all_parents_changes_with_each_of_them_and_not_with_their_order_or_status() {
        let hasher = RandomState::new();
        for is_builtin in [false, true] {
            let kept_fields =
                KeptFields { projection: Projection::new(&["spec", "data"]), labels: Vec::new(), status: !is_builtin };
            let all = |objects: &[Value]| {
                let read = |object: &Value| Object::read(&object.to_string(), &kept_fields).unwrap();
                let objects: Vec<Object> = objects.iter().map(read).collect();
                all_but_status(&hasher, objects.iter(), is_builtin)
            };
            let generation = if is_builtin { 0 } else { 1 };
            let parent =
                |uid: &str| json!({ "metadata": { "name": "a", "uid": uid, "generation": generation }, "data": "1" });
            let with = |pointer: &str, value: Value| {
                let mut changed = parent("2");
                changed
                    .pointer_mut(pointer)
                    .unwrap()
                    .as_object_mut()
                    .unwrap()
                    .extend(value.as_object().cloned().unwrap());
                all(&[parent("1"), changed])
            };
            let before = all(&[parent("1"), parent("2")]);
            assert_eq!(before, all(&[parent("2"), parent("1")]));
            assert_eq!(before, with("", json!({ "status": { "ready": 1 } })));
            assert_eq!(before, with("/metadata", json!({ "resourceVersion": "9", "finalizers": ["example.com/a"] })));
            let edited = with("", json!({ "data": "2", "metadata": { "name": "a", "uid": "2", "generation": 2 } }));
            let deleting = with("/metadata", json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }));
            for changed in [edited, deleting, all(&[parent("1")]), all(&[parent("1"), parent("2"), parent("3")])] {
                assert_ne!(before, changed, "is built-in: {is_builtin}");
            }
            assert!(is_builtin || before != with("/metadata", json!({ "labels": { "a": "b" } })));
        }
    }

    #[test]
    fn a_later_now_is_no_change_but_another_try_or_child_is() {
        let kind = Kind::new("example.com", "v1", "Demo");
        let reference = ObjectRef { kind, namespace: Some("n".into()), name: "a".into() };
        let document = Document { reference, json: "{}".into() };
        let shown = Observation {
            parent: document.clone(),
            children: Vec::new(),
            related: Vec::new(),
            refusals: Vec::new(),
            config: "{}".into(),
            now: Some(1),
            attempt: Some(0),
        };
        let (hasher, later) = (RandomState::new(), Observation { now: Some(2), ..shown.clone() });
        assert_eq!(visible(&hasher, &shown), visible(&hasher, &later));
        let tried = Observation { attempt: Some(1), ..shown.clone() };
        let with_child = Observation { children: vec![document], ..shown.clone() };
        for changed in [tried, with_child] {
            assert_ne!(visible(&hasher, &shown), visible(&hasher, &changed));
        }
    }
}
