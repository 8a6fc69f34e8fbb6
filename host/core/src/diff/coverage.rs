//! Compares a desired object with the fields that a manager owns, leaf by leaf. Pure.

use std::hash::{Hash, Hasher};

use serde_json::{Map, Value};

use crate::model::managed_fields::FieldSet;
use crate::model::object::PARENT_ANNOTATION;

/// The path of a field, the same for all elements of the lists on the path.
#[derive(Clone, Copy)]
pub(super) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    key: &'p str,
}

impl<'p> Path<'p> {
    /// The path of the object itself.
    pub(super) const ROOT: Path<'static> = Path { parent: None, key: "" };

    /// Returns the path of a member.
    pub(super) fn member(&'p self, key: &'p str) -> Path<'p> {
        Path { parent: Some(self), key }
    }

    /// Returns the path of the elements of a list.
    fn element(&'p self) -> Path<'p> {
        self.member("[]")
    }
}

impl Hash for Path<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        if let Some(parent) = self.parent {
            parent.hash(state);
        }
    }
}

/// The top-level fields that identify an object.
const OBJECT_IDENTITY: [&str; 2] = ["apiVersion", "kind"];
/// The fields of `metadata` that identify an object.
const METADATA_IDENTITY: [&str; 2] = ["name", "namespace"];

/// The annotations whose absence is no reason to write.
const UNCOVERED_ANNOTATIONS: [&str; 1] = [PARENT_ANNOTATION];

/// Returns whether a member of the value at a path needs no owner: it identifies the object, or is an annotation that
/// may be absent.
pub(super) fn is_identity(path: &str, key: &str) -> bool {
    match path {
        "" => OBJECT_IDENTITY.contains(&key),
        "metadata" => METADATA_IDENTITY.contains(&key),
        "metadata.annotations" => UNCOVERED_ANNOTATIONS.contains(&key),
        _ => false,
    }
}

/// Returns whether an empty list is covered, by its path and by whether the list has an owner of its own.
pub(super) type EmptyList<'a> = &'a dyn Fn(&Path<'_>, bool) -> bool;

/// Returns whether `fieldsV1` holds every leaf of a desired object that can have an owner; `empty` says so of an empty
/// list.
pub(super) fn walk_covered(fields: &str, desired: &Value, empty: EmptyList<'_>) -> bool {
    let Some(members) = desired.as_object() else { return false };
    FieldSet::read(fields)
        .is_ok_and(|fields| covers_members(Some(&fields), members, &Path::ROOT, &OBJECT_IDENTITY, empty))
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
            Value::Object(metadata) if identity == OBJECT_IDENTITY && key == "metadata" => {
                below.is_some() && covers_members(below, metadata, &path, &METADATA_IDENTITY, empty)
            }
            Value::Object(annotations) if identity == METADATA_IDENTITY && key == "annotations" => {
                covers_members(below, annotations, &path, &UNCOVERED_ANNOTATIONS, empty)
            }
            _ => covers_value(below, value, &path, empty),
        }
    })
}

/// Returns whether a node of `fieldsV1` covers a desired value. A leaf covers its whole subtree. Without a node nothing
/// is covered, except empty lists that never have one.
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

/// Returns whether a node covers the whole desired value. A leaf covers its whole subtree: a scalar, or an atomic map
/// or list.
pub(super) fn node_covers(node: &FieldSet<'_>, desired: &Value) -> bool {
    covers_value(Some(node), desired, &Path::ROOT, &|_, is_owned| is_owned)
}
