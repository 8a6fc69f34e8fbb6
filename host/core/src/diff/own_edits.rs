//! Removes what a repair leaves behind in `managedFields`. Pure.
//!
//! A repair is a JSON patch, which makes us the owner of its fields by an *update*. Fields that we own by an update
//! stay when a later apply leaves them out. So our own update entry is dropped, after an apply that owns the same
//! fields. The entries of other field managers are never changed.

use serde_json::Value;

use crate::diff::applied_entry::{MANAGED_FIELDS, is_apply, is_of_object};
use crate::diff::repair::Repair;

/// Returns `managedFields` without the updates by `manager`; `None` if there are no such updates, or if `manager` has
/// applied nothing.
pub fn without_edits(live: &Value, manager: &str) -> Option<Repair> {
    let entries = live.pointer(MANAGED_FIELDS)?.as_array()?;
    let has_applied = entries.iter().any(|entry| entry["manager"] == manager && is_apply(entry));
    let kept: Vec<Value> = entries.iter().filter(|entry| !is_edit(entry, manager)).cloned().collect();
    (has_applied && kept.len() < entries.len())
        .then(|| Repair { pointer: MANAGED_FIELDS.to_owned(), value: kept.into() })
}

/// Returns whether an entry is an update by `manager` of the object itself, and not of a subresource.
fn is_edit(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && !is_apply(entry) && is_of_object(entry)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MANAGER: &str = "hotshoe/demo";

    fn entry(manager: &str, operation: &str, subresource: &str) -> Value {
        json!({ "manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": { "f:spec": {} } })
    }

    fn object(entries: &[Value]) -> Value {
        json!({ "metadata": { "managedFields": entries } })
    }

    #[test]
    fn our_updates_go_and_everything_else_stays() {
        let kept =
            [entry(MANAGER, "Apply", ""), entry("kubectl-edit", "Update", ""), entry(MANAGER, "Update", "status")];
        let with_edit = [&kept[..], &[entry(MANAGER, "Update", "")]].concat();
        let repair = Repair { pointer: MANAGED_FIELDS.into(), value: kept.to_vec().into() };
        assert_eq!(without_edits(&object(&with_edit), MANAGER), Some(repair));
        assert_eq!(without_edits(&object(&kept), MANAGER), None);
    }

    #[test]
    fn an_object_that_we_never_applied_needs_no_repair() {
        assert_eq!(without_edits(&json!({ "metadata": {} }), MANAGER), None);
        assert_eq!(without_edits(&object(&[entry(MANAGER, "Update", "")]), MANAGER), None, "it was never applied");
    }
}
