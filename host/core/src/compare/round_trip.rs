//! What is lost of an object that was written in another version of its kind and back. Pure.

use serde_json::Value;

use crate::compare::json_diff::{self, Field, Rules};

/// Returns the fields that are lost or differ after the way there and back.
pub fn lost(before: &Value, after: &Value) -> Vec<Field> {
    let fields = json_diff::compare(Some(before), Some(after), usize::MAX, Rules::default()).listed;
    fields.into_iter().filter(is_lost).collect()
}

/// Returns whether a field shows a loss: a field may be added, as defaults are, but no element of a list. A `null` is as
/// if left out.
fn is_lost(field: &Field) -> bool {
    let is_element = field.path.ends_with(']') && !field.path.ends_with("']");
    field.old.as_deref().map_or(is_element, |old| old != "null" || field.new.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(before: &Value, after: &Value) -> Vec<String> {
        lost(before, after).into_iter().map(|field| field.path).collect()
    }

    #[test]
    fn what_is_gone_or_differs_is_lost_and_what_is_added_is_not() {
        let before = json!({
            "metadata": { "name": "a" },
            "spec": { "size": 1, "port": 11211, "names": ["a", "b"], "gone": null, "empty": [] },
        });
        assert!(paths(&before, &before).is_empty());
        let added = json!({
            "metadata": { "name": "a", "annotations": { "example.com/kept": "x" } },
            "spec": { "size": 1, "port": 11211, "names": ["a", "b"], "empty": [], "default": 1 },
            "status": {},
        });
        assert!(paths(&before, &added).is_empty());
        let after = json!({ "metadata": { "name": "a" }, "spec": { "size": 2, "names": ["a", "b", "c"], "gone": 1 } });
        assert_eq!(paths(&before, &after), ["spec.empty", "spec.gone", "spec.names[2]", "spec.port", "spec.size"]);
    }
}
