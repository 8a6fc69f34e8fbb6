//! Compares desired with observed children and plans what must be written, without schemas. Runs between *check* and
//! *apply*; pure.
//!
//! The API server tracks the owner of each field: when another writer edits a field, the field disappears from our
//! server-side-apply entry in `managedFields`. So a child is in sync when that entry covers every desired leaf and the
//! annotation `hotshoe.dev/applied` equals the desired digest, and no repair of ours is left there as an update. Defaults
//! and quantities need no comparison, and what others add stays.

mod applied_entry;
pub mod associative_lists;
pub mod changed_fields;
pub mod changed_inputs;
pub mod conflict;
mod coverage;
pub mod emptied;
pub mod hand_over;
pub mod left;
pub mod own_edits;
pub mod ownerless;
pub mod ownership;
pub mod parent_metadata;
pub mod renamed_elements;
pub mod repair;
pub mod status;
pub mod unowned;
pub mod written_only;

use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use crate::check::Desired;
use crate::check::update_strategy::UpdateStrategy;
use crate::diff::associative_lists::AssociativeLists;
use crate::diff::coverage::walk_covered;
use crate::model::kind::Kind;
use crate::model::managed_fields::{FieldSet, Step};
use crate::model::object::{Object, ObservedChildren, PLUGIN_LABEL};

/// The condition under which a child is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// No object with the child's name exists.
    Absent,
    /// The object still has this uid, so that a deleted object is not created again.
    Uid(Arc<str>),
    /// The object still has this uid and this resource version.
    Version(Arc<str>, u64),
}

/// A child to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The desired child.
    pub desired: Desired,
    /// The condition of the apply.
    pub precondition: Precondition,
}

/// The planned writes to the children of one parent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Children to apply.
    pub apply: Vec<Apply>,
    /// Children to delete.
    pub prune: Vec<(Kind, Arc<Object>)>,
    /// Children to be made anew that are still being deleted.
    pub leaving: Vec<(Desired, Arc<Object>)>,
}

impl Plan {
    /// Returns whether another child may be deleted to be made anew: all that have this strategy are there.
    pub fn may_recreate(&self) -> bool {
        let is_absent = |apply: &Apply| {
            apply.precondition == Precondition::Absent && apply.desired.strategy == UpdateStrategy::Recreate
        };
        self.leaving.is_empty() && !self.apply.iter().any(is_absent)
    }
}

/// An apply after which our field manager does not own every desired field, according to the reply. Applying the same
/// again while the ownership is unchanged would start a fight with the manager that took the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// The digest of the applied child.
    pub digest: Box<str>,
    /// The fields that we own according to the reply.
    pub fields: Option<Box<str>>,
}

/// Plans the writes that lead from the observed to the desired children. Only children that one of `plugins` created
/// are pruned: the plugin itself, and those whose children it takes over.
pub fn plan(
    desired: Vec<Desired>,
    observed: &ObservedChildren,
    plugins: &[&str],
    manager: &str,
    lists: &AssociativeLists,
) -> Plan {
    let mut plan = Plan::default();
    for (kind, child) in observed {
        let is_desired = desired.iter().any(|desired| desired.reference.is(kind, &child.key));
        if !is_desired && !child.deleting && child.label(PLUGIN_LABEL).is_some_and(|creator| plugins.contains(&creator))
        {
            plan.prune.push((kind.clone(), child.clone()));
        }
    }
    for desired in desired {
        let live = observed.iter().find(|(kind, child)| desired.reference.is(kind, &child.key));
        let precondition = match live {
            None => Precondition::Absent,
            Some((_, live)) if live.deleting && desired.strategy == UpdateStrategy::Recreate => {
                plan.leaving.push((desired, live.clone()));
                continue;
            }
            Some((_, live)) if live.deleting || in_sync(&desired, live, manager, lists) => continue,
            Some((_, live)) => Precondition::Uid(live.uid.clone()),
        };
        plan.apply.push(Apply { desired, precondition });
    }
    plan
}

/// Returns whether a live child is as desired. A child that is created once is always in sync, however others changed
/// it.
pub fn in_sync(desired: &Desired, live: &Object, manager: &str, lists: &AssociativeLists) -> bool {
    if desired.is_created_once {
        return true;
    }
    live.applied.as_deref() == Some(&*desired.digest)
        && !live.has_update_by(manager)
        && live
            .owned_fields(manager, false)
            .is_some_and(|fields| covers(fields, &desired.body, &desired.reference.kind, lists))
}

/// Returns whether `fieldsV1` holds every leaf of a desired object of this kind that can have an owner. The fields that
/// identify an object have none.
pub fn covers(fields: &str, desired: &Value, kind: &Kind, lists: &AssociativeLists) -> bool {
    walk_covered(fields, desired, &|path, is_owned| is_owned || lists.contains(kind, path))
}

/// Returns whether `fieldsV1` holds a leaf that `desired` lacks.
pub fn exceeds(fields: &str, desired: &Value) -> bool {
    FieldSet::read(fields).map_or(true, |fields| node_exceeds(&fields, desired))
}

fn node_exceeds(node: &FieldSet<'_>, desired: &Value) -> bool {
    match desired {
        Value::Object(members) => node.steps().any(|(step, below)| match step {
            Step::Member(name) => members.get(name).is_none_or(|value| node_exceeds(below, value)),
            _ => true,
        }),
        Value::Array(elements) => list_exceeds(node, elements),
        _ => node.steps().next().is_some(),
    }
}

fn list_exceeds(node: &FieldSet<'_>, elements: &[Value]) -> bool {
    let values = LazyCell::new(|| elements.iter().collect::<HashSet<_>>());
    let has_extra_value = node.steps().any(|(step, _)| match step {
        Step::Keyed(_) => false,
        Step::Value(value) => !serde_json::from_str::<Value>(value).is_ok_and(|value| values.contains(&value)),
        Step::Member(_) | Step::Other => true,
    });
    has_extra_value || {
        let keyed = node.keyed();
        let mut nodes = keyed.nodes.iter().zip(keyed.in_list(elements));
        nodes.any(|(below, place)| {
            let element = place.and_then(|place| elements.get(place));
            element.is_none_or(|element| node_exceeds(below, element))
        })
    }
}

#[cfg(test)]
mod tests;
