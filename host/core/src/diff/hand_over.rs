//! Hands the fields that one plugin applied over to another, in `managedFields`: what the other then leaves out of an
//! apply is removed, as if it had set it itself. Two field managers of one child would keep alive what either ever set.
//!
//! Pure.

use serde_json::{Map, Value};

use crate::diff::repair::Repair;

const MANAGED_FIELDS: &str = "/metadata/managedFields";

/// Returns `managedFields` in which everything that `from` applied was applied by `to`; nothing where they applied
/// nothing. Updates by `from` are dropped: no apply could remove what an update owns.
pub fn hand_over(live: &Value, from: &[String], to: &str) -> Option<Repair> {
    let entries = live.pointer(MANAGED_FIELDS)?.as_array()?;
    let is_from = |entry: &Value| from.iter().any(|manager| entry["manager"] == **manager);
    if !entries.iter().any(|entry| is_from(entry) && is_apply(entry)) {
        return None;
    }
    let mut kept: Vec<Value> = Vec::with_capacity(entries.len());
    for entry in entries {
        if !is_from(entry) && (entry["manager"] != to || !is_apply(entry)) {
            kept.push(entry.clone());
        } else if is_apply(entry) {
            add(&mut kept, entry, to);
        }
    }
    Some(Repair { pointer: MANAGED_FIELDS.to_owned(), value: kept.into() })
}

fn is_apply(entry: &Value) -> bool {
    entry["operation"] == "Apply"
}

/// Adds an entry to that of `to` for the same subresource; of two of one field manager the API server keeps only one,
/// whatever their versions are.
fn add(kept: &mut Vec<Value>, entry: &Value, to: &str) {
    let is_same =
        |known: &&mut Value| known["manager"] == to && is_apply(known) && known["subresource"] == entry["subresource"];
    match kept.iter_mut().find(is_same) {
        Some(known) => {
            if let Some(fields) = known.get_mut("fieldsV1") {
                unite(fields, &entry["fieldsV1"]);
            }
        }
        None => {
            let mut entry = entry.clone();
            if let Some(members) = entry.as_object_mut() {
                members.insert("manager".to_owned(), to.into());
            }
            kept.push(entry);
        }
    }
}

/// Adds a set of fields to another, as `fieldsV1` writes them: an empty node is the field itself, which among others
/// below it is `.`.
fn unite(fields: &mut Value, others: &Value) {
    let (Value::Object(fields), Value::Object(others)) = (fields, others) else { return };
    let own = |node: &Map<String, Value>| node.is_empty();
    if own(fields) != own(others) {
        fields.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for (key, below) in others {
        match fields.get_mut(key) {
            Some(known) if key != "." => unite(known, below),
            Some(_) => {}
            None => drop(fields.insert(key.clone(), below.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OLD: &str = "hotshoe/nginx";
    const NEW: &str = "hotshoe/web";

    fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> Value {
        let mut entry = json!({ "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields });
        if !subresource.is_empty() {
            entry["subresource"] = subresource.into();
        }
        entry
    }

    fn handed_over(entries: &[Value]) -> Option<Value> {
        let live = json!({ "metadata": { "managedFields": entries } });
        hand_over(&live, &[OLD.to_owned()], NEW).map(|repair| repair.value)
    }

    #[test]
    fn what_one_plugin_applied_is_the_others_and_everybody_elses_stays() {
        let fields = json!({ "f:data": { "f:a": {} } });
        let kubectl = entry("kubectl", "Apply", "", fields.clone());
        let controller = entry("controller", "Update", "status", fields.clone());
        let handed = handed_over(&[
            kubectl.clone(),
            entry(OLD, "Apply", "", fields.clone()),
            entry(OLD, "Update", "", fields.clone()),
            entry(OLD, "Apply", "status", fields.clone()),
            controller.clone(),
        ]);
        let ours = [entry(NEW, "Apply", "", fields.clone()), entry(NEW, "Apply", "status", fields)];
        let [object, status] = ours;
        assert_eq!(handed, Some(json!([kubectl, object, status, controller])));
    }

    #[test]
    fn what_the_other_has_applied_already_is_united_with_it() {
        let old = json!({ "f:data": { "f:a": {}, "f:b": { "f:c": {} }, "f:d": {} } });
        let new = json!({ "f:data": { ".": {}, "f:b": {}, "f:d": { "f:e": {} }, "f:f": {} } });
        let both = json!({ "f:data": {
            ".": {}, "f:a": {}, "f:b": { ".": {}, "f:c": {} }, "f:d": { ".": {}, "f:e": {} }, "f:f": {},
        } });
        for entries in [
            [entry(NEW, "Apply", "", new.clone()), entry(OLD, "Apply", "", old.clone())],
            [entry(OLD, "Apply", "", old.clone()), entry(NEW, "Apply", "", new.clone())],
        ] {
            assert_eq!(handed_over(&entries), Some(json!([entry(NEW, "Apply", "", both.clone())])));
        }
    }

    #[test]
    fn an_object_to_which_the_other_plugin_applied_nothing_stays_as_it_is() {
        let fields = json!({ "f:data": {} });
        assert_eq!(handed_over(&[entry(NEW, "Apply", "", fields.clone()), entry(OLD, "Update", "", fields)]), None);
        assert_eq!(handed_over(&[]), None);
        assert_eq!(hand_over(&json!({}), &[OLD.to_owned()], NEW), None);
    }
}
