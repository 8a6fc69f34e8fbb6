//! Finds what was applied as a field that is only written, such as the `stringData` of a Secret. Pure.
//!
//! The host applies what is stored instead (`check::write_only`). Earlier versions did not: our entry in `managedFields` has
//! keys of `stringData`, and nothing owns the keys of `data` that the API server made of them, so no apply would remove
//! them. They become ours.

use serde_json::Value;

use crate::check::write_only::{DATA, STRING_DATA, has_any};
use crate::diff::applied_entry;
use crate::diff::repair::Repair;
use crate::model::kind::Kind;
use crate::model::managed_fields::FieldSet;

/// Returns whether we own a field that is only written; `fields` are the fields that we own.
pub fn is_needed(kind: &Kind, fields: &str) -> bool {
    has_any(kind) && FieldSet::read(fields).is_ok_and(|fields| fields.member(STRING_DATA).is_some())
}

/// Returns the repair of `managedFields` by which `manager` owns the stored keys (`data`) instead of those that are
/// only written (`stringData`).
pub fn as_stored(live: &Value, manager: &str) -> Option<Repair> {
    applied_entry::changed(live, manager, |fields| {
        let Some(written) = fields.remove(&format!("f:{STRING_DATA}")) else { return false };
        // A lone node would stand for all of `data`, what others have added included.
        if written.as_object().is_some_and(|keys| !keys.is_empty()) {
            match fields.get_mut(&format!("f:{DATA}")) {
                Some(stored) => applied_entry::merge(stored, &written),
                None => drop(fields.insert(format!("f:{DATA}"), written)),
            }
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MANAGER: &str = "hotshoe/demo";

    fn stored(fields: Value) -> Option<Value> {
        let entry = |manager: &str, operation: &str, fields: &Value| json!({ "manager": manager, "operation": operation, "fieldsV1": fields });
        let theirs = entry("kubectl-edit", "Update", &json!({ "f:stringData": { "f:c": {} } }));
        let live = json!({ "metadata": { "managedFields": [theirs, entry(MANAGER, "Apply", &fields)] } });
        let repair = as_stored(&live, MANAGER)?;
        assert_eq!(repair.value[0], theirs);
        Some(repair.value[1]["fieldsV1"].clone())
    }

    #[test]
    fn keys_that_were_applied_as_texts_become_keys_of_the_data() {
        let fields = json!({ "f:metadata": {}, "f:stringData": { "f:a": {}, "f:b": {} } });
        assert!(is_needed(&Kind::new("", "v1", "Secret"), &fields.to_string()));
        assert!(!is_needed(&Kind::new("g", "v1", "Secret"), &fields.to_string()));
        assert_eq!(stored(fields), Some(json!({ "f:metadata": {}, "f:data": { "f:a": {}, "f:b": {} } })));
        let both = json!({ "f:data": { "f:c": {} }, "f:stringData": { "f:a": {} } });
        assert_eq!(stored(both), Some(json!({ "f:data": { "f:a": {}, "f:c": {} } })));
    }

    #[test]
    fn without_such_keys_nothing_changes_and_never_all_data_becomes_ours() {
        let fields = json!({ "f:data": { "f:a": {} } });
        assert!(!is_needed(&Kind::new("", "v1", "Secret"), &fields.to_string()));
        assert_eq!(stored(fields), None);
        assert_eq!(stored(json!({ "f:type": {}, "f:stringData": {} })), Some(json!({ "f:type": {} })));
        assert_eq!(as_stored(&json!({}), MANAGER), None);
    }
}
