//! Limits the number of fields of desired children, because a field costs the API server more than its bytes do.
//!
//! The API server keeps an entry in `managedFields` for each applied field, and compares the field sets of all field
//! managers. A ConfigMap with a hundred thousand two-byte keys is far below any limit on bytes, but takes the API
//! server seconds of processor time and gigabytes of memory.

use serde_json::{Map, Value};

use crate::check::violation::Violation;
use crate::model::kind::ObjectRef;
use crate::model::limits::{DECISION_FIELDS, FIELDS_PER_CHILD};

/// Counts the fields of a value: the members of its objects and the elements of its lists, at every depth.
pub fn count(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.len() + elements.iter().map(count).sum::<usize>(),
        Value::Object(members) => count_members(members),
        _ => 0,
    }
}

fn count_members(members: &Map<String, Value>) -> usize {
    members.len() + members.values().map(count).sum::<usize>()
}

/// Checks the number of fields of one child and returns it.
///
/// # Errors
/// When there are more than `most` fields.
pub(super) fn check_child(body: &Map<String, Value>, reference: &ObjectRef, most: usize) -> Result<usize, Violation> {
    let fields = count_members(body);
    if fields <= most {
        return Ok(fields);
    }
    let cap = FIELDS_PER_CHILD.cap as usize;
    let raise = if fields <= cap { ", or raise the limit" } else { "" };
    let message = format!(
        "{reference}: it has {fields} fields (keys and list elements), more than limits.{} ({most}); \
         each costs the API server time and memory, however short it is: use fewer and longer fields, \
         or several objects{raise}",
        FIELDS_PER_CHILD.name
    );
    Err(Violation::new("too-many-fields", message))
}

/// Checks the total number of fields of a parent's children.
///
/// # Errors
/// When there are more than [`DECISION_FIELDS`] fields.
pub(super) fn check_total(fields: usize, parent: &ObjectRef) -> Result<(), Violation> {
    if fields <= DECISION_FIELDS {
        return Ok(());
    }
    let message = format!(
        "{parent}: its children have {fields} fields (keys and list elements) in all, more than {DECISION_FIELDS}; use fewer and longer fields"
    );
    Err(Violation::new("too-many-fields", message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::kind::Kind;

    fn map() -> ObjectRef {
        ObjectRef { kind: Kind::new("", "v1", "ConfigMap"), namespace: Some("n".into()), name: "bulk".into() }
    }

    fn of(keys: usize) -> Map<String, Value> {
        (0..keys).map(|key| (format!("k{key}"), json!(""))).collect()
    }

    #[test]
    fn members_and_elements_count_at_every_depth() {
        for (value, fields) in [
            (json!("text"), 0),
            (json!({}), 0),
            (json!({ "a": 1 }), 1),
            (json!({ "a": { "b": 1, "c": [] } }), 3),
            (json!([1, [2, { "a": null }]]), 5),
        ] {
            assert_eq!(count(&value), fields, "{value}");
        }
    }

    #[test]
    fn a_child_of_too_many_fields_is_denied_with_its_name_the_count_and_the_limit() {
        assert_eq!(check_child(&of(7), &map(), 7), Ok(7));
        let denied = check_child(&of(8), &map(), 7).unwrap_err();
        assert_eq!(denied.rule, "too-many-fields");
        for part in ["ConfigMap n/bulk", "has 8 fields", "limits.fieldsPerChild (7)", "raise the limit"] {
            assert!(denied.message.contains(part), "{denied}");
        }
        let denied = check_child(&of(110_000), &map(), 7).unwrap_err();
        assert!(!denied.message.contains("raise"), "no limit can be so high: {denied}");
    }

    #[test]
    fn the_fields_of_all_children_together_are_limited() {
        assert_eq!(check_total(DECISION_FIELDS, &map()), Ok(()));
        let denied = check_total(DECISION_FIELDS + 1, &map()).unwrap_err();
        assert!(denied.message.contains(&format!("more than {DECISION_FIELDS}")), "{denied}");
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), "[a-z]{0,3}".prop_map(Value::from)];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{1,3}", inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_text_has_more_fields_than_it_has_separators(value in json_value()) {
            let text = value.to_string();
            let separators = text.matches([',', '{', '[']).count();
            prop_assert!(count(&value) <= separators);
        }
    }
}
