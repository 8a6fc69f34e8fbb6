//! Finds the entries of `managedFields` that keep the status of a parent from being applied, and that no client needs. Pure.
//!
//! - Of an object whose entries were reset, the API server makes an entry of all that is there, of the manager
//!   `before-first-apply`. What that manager owns stays when its other owners leave it out. So of a condition that they
//!   have changed since, only the fields stay that they have not: half of it, which no schema allows.
//! - An entry in another version of the kind names fields of that version. Once the kind is no longer converted, the
//!   object has none of them in any version, and the API server refuses every apply.

use serde_json::{Value, json};

use crate::diff::applied_entry::MANAGED_FIELDS;
use crate::diff::repair::Repair;
use crate::model::managed_fields::BEFORE_FIRST_APPLY;

/// Returns `managedFields` without what the API server has made itself; `None` if there is nothing of the kind.
pub fn without_first_apply(live: &Value) -> Option<Repair> {
    without(live, |entry| entry["manager"] == BEFORE_FIRST_APPLY)
}

/// Returns `managedFields` without entries in other versions than this one; `None` if there are none.
pub fn without_other_versions(live: &Value, api_version: &str) -> Option<Repair> {
    without(live, |entry| entry["apiVersion"] != api_version)
}

fn without(live: &Value, is_left_out: impl Fn(&Value) -> bool) -> Option<Repair> {
    let entries = live.pointer(MANAGED_FIELDS)?.as_array()?;
    let mut kept: Vec<Value> = entries.iter().filter(|entry| !is_left_out(entry)).cloned().collect();
    if kept.len() == entries.len() {
        return None;
    }
    // An empty list leaves the entries as they are; one empty entry removes all of them.
    if kept.is_empty() {
        kept.push(json!({}));
    }
    Some(Repair { pointer: MANAGED_FIELDS.to_owned(), value: kept.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "g/v1";

    fn entry(manager: &str, api_version: &str) -> Value {
        let fields = json!({ "f:status": { "f:conditions": {} } });
        json!({ "manager": manager, "operation": "Update", "apiVersion": api_version, "fieldsV1": fields })
    }

    fn object(entries: &[Value]) -> Value {
        json!({ "metadata": { "managedFields": entries } })
    }

    fn entries(of: Option<Repair>) -> Option<Value> {
        of.map(|repair| {
            assert_eq!(repair.pointer, "/metadata/managedFields");
            repair.value
        })
    }

    #[test]
    fn what_the_api_server_made_itself_is_left_out_and_the_entries_of_clients_stay() {
        let theirs = [entry("kubectl", V1), entry("hotshoe/demo", V1), entry("kubectl", "g/v2")];
        let live = object(&[&theirs[..], &[entry(BEFORE_FIRST_APPLY, V1)]].concat());
        assert_eq!(entries(without_first_apply(&live)), Some(json!(theirs)));
        assert_eq!(without_first_apply(&object(&theirs)), None);
    }

    #[test]
    fn entries_in_other_versions_are_left_out() {
        let live = object(&[entry("kubectl", "g/v1beta1"), entry("hotshoe/demo", V1)]);
        assert_eq!(entries(without_other_versions(&live, V1)), Some(json!([entry("hotshoe/demo", V1)])));
        assert_eq!(without_other_versions(&object(&[entry("kubectl", V1)]), V1), None);
    }

    #[test]
    fn where_nothing_would_be_left_all_entries_are_removed_as_the_api_server_understands_it() {
        let live = object(&[entry(BEFORE_FIRST_APPLY, V1)]);
        assert_eq!(entries(without_first_apply(&live)), Some(json!([{}])));
        assert_eq!(without_first_apply(&json!({ "metadata": {} })), None);
        assert_eq!(without_other_versions(&object(&[]), V1), None);
    }
}
