//! Requeues the parents that a change concerns.

use std::sync::Arc;

use crate::reconcile::controller::Controller;
use hotshoe_cluster::shared_watch::{Change, SharedWatch};
use hotshoe_core::model::child::named_parent;
use hotshoe_core::model::decision::MatchRule;
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::model::object::Object;
use hotshoe_core::model::parent_label;

/// Returns the object that a change is about.
pub fn object_of(change: &Change) -> &Object {
    match change {
        Change::Applied(applied) => &applied.new,
        Change::Deleted(gone) => gone,
    }
}

/// Returns the object after and before a change: it may have moved from one parent to another.
pub fn objects_of(change: &Change) -> impl Iterator<Item = &Object> {
    let (new, old) = match change {
        Change::Applied(applied) => (Some(&*applied.new), applied.old.as_deref()),
        Change::Deleted(gone) => (None, Some(&**gone)),
    };
    new.into_iter().chain(old)
}

/// Wakes the parent that an object names as its controller. A former parent of this name is none, but the present one
/// may wait until the object is gone.
pub fn wake_owner(controller: &Controller, parent: &Kind, child: &Object) {
    if let Some(owner) = owner_of(controller, parent, child) {
        controller.queue.add_begun(owner);
    }
}

/// Returns the key of the parent that an object names as its controller.
pub fn owner_of(controller: &Controller, parent: &Kind, child: &Object) -> Option<Key> {
    named_parent(child, parent, has_namespaces(controller, parent))
}

/// Returns whether the objects of a kind have a namespace. An unknown kind is assumed to have one.
fn has_namespaces(controller: &Controller, kind: &Kind) -> bool {
    controller.kinds.get(kind).is_none_or(|known| known.namespaced)
}

/// Wakes the parents that read an object. If they name the object in a field, they are indexed by that `field`.
pub fn wake_readers(
    controller: &Controller,
    parents: &SharedWatch,
    (rule, field): (&MatchRule, Option<&Arc<str>>),
    object: &Object,
) {
    match rule {
        MatchRule::ParentLabel(key) if key.is_empty() => {
            wake_all(controller, parents, |parent| parent.key.namespace == object.key.namespace);
        }
        MatchRule::ParentLabel(label) => {
            let Some(value) = object.label(label) else { return };
            let namespace = object.key.namespace.clone().filter(|_| has_namespaces(controller, &parents.scope.kind));
            let key = Key { namespace, name: value.into() };
            if parents.cache.get(&key).is_some() {
                controller.queue.add(key);
            } else if parent_label::is_shortened(value) {
                wake_all(controller, parents, |parent| parent_label::parent_label(&parent.key.name) == value);
            }
        }
        MatchRule::ParentField(_) => {
            let naming = field.map(|field| parents.cache.naming(field, &object.key));
            naming.into_iter().flatten().for_each(|key| controller.queue.add(key));
        }
    }
}

/// Wakes every parent that matches.
pub fn wake_all(controller: &Controller, parents: &SharedWatch, reads: impl Fn(&Object) -> bool) {
    for key in parents.cache.keys() {
        if parents.cache.get(&key).is_some_and(|parent| reads(&parent)) {
            controller.queue.add(key);
        }
    }
}
