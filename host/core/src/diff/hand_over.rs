//! Hands over the fields that one plugin applied to another plugin, in `managedFields`. Pure.
//!
//! Afterwards a field that the new plugin leaves out of an apply is removed, as if the new plugin had set it. Without
//! the hand-over, a field that the old plugin applied would never be removed.

use serde_json::Value;

use crate::diff::applied_entry::{MANAGED_FIELDS, is_apply, merge};
use crate::diff::repair::Repair;

/// Returns `managedFields` in which `to` has applied everything that the managers `from` applied; `None` if they
/// applied nothing. Updates by `from` are dropped, because no apply could remove fields that are owned by an update.
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

/// Merges an entry into that of `to` for the same subresource, because the API server keeps only one apply entry of a
/// field manager, even if their versions differ.
fn add(kept: &mut Vec<Value>, entry: &Value, to: &str) {
    let is_same =
        |known: &&mut Value| known["manager"] == to && is_apply(known) && known["subresource"] == entry["subresource"];
    match kept.iter_mut().find(is_same) {
        Some(known) => {
            if let Some(fields) = known.get_mut("fieldsV1") {
                merge(fields, &entry["fieldsV1"]);
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
    fn fields_that_one_plugin_applied_go_to_the_other_and_those_of_others_stay() {
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
    fn fields_that_the_new_plugin_has_applied_already_are_merged() {
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
    fn an_object_to_which_the_old_plugin_applied_nothing_stays_as_it_is() {
        let fields = json!({ "f:data": {} });
        assert_eq!(handed_over(&[entry(NEW, "Apply", "", fields.clone()), entry(OLD, "Update", "", fields)]), None);
        assert_eq!(handed_over(&[]), None);
        assert_eq!(hand_over(&json!({}), &[OLD.to_owned()], NEW), None);
    }
}
