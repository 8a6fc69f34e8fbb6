//! Edits the entry of `managedFields` that says which fields a field manager has applied. Pure.
//!
//! The content of the object stays the same: only what the next apply removes depends on it.

use serde_json::{Map, Value};

use crate::diff::repair::Repair;

/// The JSON pointer to the entries of all field managers.
pub(super) const MANAGED_FIELDS: &str = "/metadata/managedFields";

/// Returns `managedFields` in which `change` has changed `fieldsV1` of what `manager` applied to the object itself;
/// `None` if the manager applied nothing, or `change` returns false.
pub(super) fn changed(
    live: &Value,
    manager: &str,
    change: impl FnOnce(&mut Map<String, Value>) -> bool,
) -> Option<Repair> {
    let mut entries = live.pointer(MANAGED_FIELDS)?.as_array()?.clone();
    let is_own = |entry: &&mut Value| entry["manager"] == manager && is_apply(entry) && is_of_object(entry);
    let fields = entries.iter_mut().find(is_own)?.get_mut("fieldsV1")?.as_object_mut()?;
    change(fields).then(|| Repair { pointer: MANAGED_FIELDS.to_owned(), value: entries.into() })
}

pub(super) fn is_apply(entry: &Value) -> bool {
    entry["operation"] == "Apply"
}

/// Returns whether an entry is about the object itself, and not about a subresource.
pub(super) fn is_of_object(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or_default().is_empty()
}

/// Merges two sets of fields in the format of `fieldsV1`: an empty node stands for the field itself, which is written
/// as `.` in a node that has others below it.
pub(super) fn merge(fields: &mut Value, others: &Value) {
    let (Value::Object(fields), Value::Object(others)) = (fields, others) else { return };
    let is_leaf = |node: &Map<String, Value>| node.is_empty();
    if is_leaf(fields) != is_leaf(others) {
        fields.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for (key, below) in others {
        match fields.get_mut(key) {
            Some(known) => merge(known, below),
            None => drop(fields.insert(key.clone(), below.clone())),
        }
    }
}
