//! What must be written: desired against observed, without schemas.
//!
//! Between *check* and *apply*; pure. The API server already knows what is ours: a foreign edit of
//! a field takes the field out of our server-side-apply entry in `managedFields`, so a child is in
//! sync when that entry covers every leaf of what is desired and the annotation
//! `hotshoe.dev/applied` equals the digest of what is desired. No defaults and no quantities are
//! compared, and what others add stays.

pub mod associative_lists;
pub mod changed_fields;
pub mod conflict;
pub mod emptied;
pub mod hand_over;
pub mod own_edits;
pub mod renamed_elements;
pub mod repair;
pub mod status;

use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::check::Desired;
use crate::diff::associative_lists::{AssociativeLists, Path};
use crate::model::kind::Kind;
use crate::model::managed_fields::{FieldSet, Step};
use crate::model::object::{Object, ObservedChildren, PLUGIN_LABEL};

/// Under which condition a child is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// No object of that name exists.
    Absent,
    /// The object is still this one; it is not made anew.
    Uid(Arc<str>),
    /// The object still has this uid and this resource version.
    Version(Arc<str>, u64),
}

/// A child to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// What is desired.
    pub desired: Desired,
    /// Under which condition.
    pub precondition: Precondition,
}

/// What must be written to the children of one parent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// To be applied.
    pub apply: Vec<Apply>,
    /// To be deleted.
    pub prune: Vec<(Kind, Arc<Object>)>,
}

/// What became of applying a child that the reply did not cover: applying the same again to the
/// same ownership would start a fight with the manager that took the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// Digest of what was applied.
    pub digest: Box<str>,
    /// Our ownership as the reply showed it.
    pub fields: Option<Box<str>>,
}

/// What is desired against what is observed. Only what one of `plugins` made is pruned: the plugin itself, and those
/// whose children it takes over.
pub fn plan(
    desired: Vec<Desired>,
    observed: &ObservedChildren,
    plugins: &[&str],
    manager: &str,
    lists: &AssociativeLists,
) -> Plan {
    let mut plan = Plan::default();
    for (kind, child) in observed {
        let wanted = desired.iter().any(|desired| desired.reference.is(kind, &child.key));
        if !wanted && !child.deleting && child.label(PLUGIN_LABEL).is_some_and(|made_by| plugins.contains(&made_by)) {
            plan.prune.push((kind.clone(), child.clone()));
        }
    }
    for desired in desired {
        let live = observed.iter().find(|(kind, child)| desired.reference.is(kind, &child.key));
        let precondition = match live {
            None => Precondition::Absent,
            Some((_, live)) if live.deleting || in_sync(&desired, live, manager, lists) => continue,
            Some((_, live)) => Precondition::Uid(live.uid.clone()),
        };
        plan.apply.push(Apply { desired, precondition });
    }
    plan
}

/// Whether the child is as desired; one that is created once is, whatever became of it.
pub fn in_sync(desired: &Desired, live: &Object, manager: &str, lists: &AssociativeLists) -> bool {
    if desired.is_created_once {
        return true;
    }
    live.applied.as_deref() == Some(&*desired.digest)
        && live
            .owned_fields(manager, false)
            .is_some_and(|fields| covers(fields, &desired.body, &desired.reference.kind, lists))
}

/// Whether `fieldsV1` holds every leaf of a desired object of this kind that can have an owner.
/// What identifies the object has none.
pub fn covers(fields: &str, desired: &Value, kind: &Kind, lists: &AssociativeLists) -> bool {
    walk_covered(fields, desired, &|path, is_owned| is_owned || lists.has(kind, path))
}

/// What identifies an object.
const OF_OBJECT: [&str; 2] = ["apiVersion", "kind"];
const OF_METADATA: [&str; 2] = ["name", "namespace"];

/// Is asked about each empty list, with whether it has a node of its own: whether it is covered.
type EmptyList<'a> = &'a dyn Fn(&Path<'_>, bool) -> bool;

fn walk_covered(fields: &str, desired: &Value, empty: EmptyList<'_>) -> bool {
    let Some(members) = desired.as_object() else { return false };
    FieldSet::read(fields).is_ok_and(|fields| covers_members(Some(&fields), members, &Path::ROOT, &OF_OBJECT, empty))
}

fn covers_members(
    node: Option<&FieldSet<'_>>,
    members: &Map<String, Value>,
    path: &Path<'_>,
    identity: &[&str],
    empty: EmptyList<'_>,
) -> bool {
    members.iter().filter(|(key, _)| !identity.contains(&key.as_str())).all(|(key, value)| {
        let (below, path) = (node.and_then(|node| node.member(key)), path.member(key));
        match value {
            Value::Object(metadata) if identity == OF_OBJECT && key == "metadata" => {
                below.is_some() && covers_members(below, metadata, &path, &OF_METADATA, empty)
            }
            _ => covers_value(below, value, &path, empty),
        }
    })
}

/// A leaf covers its whole subtree. Where there is no node, nothing is covered but lists that never have one.
fn covers_value(node: Option<&FieldSet<'_>>, desired: &Value, path: &Path<'_>, empty: EmptyList<'_>) -> bool {
    match desired {
        Value::Array(elements) if elements.is_empty() => empty(path, node.is_some()),
        _ if node.is_some_and(FieldSet::is_leaf) => true,
        Value::Object(members) if !members.is_empty() => covers_members(node, members, path, &[], empty),
        Value::Array(elements) => {
            let path = path.element();
            node.is_some_and(|node| {
                node.all_elements(elements, |element, below| covers_value(Some(below), element, &path, empty))
            })
        }
        _ => node.is_some(),
    }
}

/// Whether `fieldsV1` holds a leaf that `desired` has not.
pub fn exceeds(fields: &str, desired: &Value) -> bool {
    FieldSet::read(fields).map_or(true, |fields| node_exceeds(&fields, desired))
}

/// Whether a node covers all that is desired there. A leaf covers its whole subtree: a value, or a map or list that
/// is replaced as one.
pub fn node_covers(node: &FieldSet<'_>, desired: &Value) -> bool {
    covers_value(Some(node), desired, &Path::ROOT, &|_, is_owned| is_owned)
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
    let alone = node.steps().any(|(step, _)| match step {
        Step::Keyed(_) => false,
        Step::Value(value) => !serde_json::from_str::<Value>(value).is_ok_and(|value| values.contains(&value)),
        Step::Member(_) | Step::Other => true,
    });
    alone || {
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
