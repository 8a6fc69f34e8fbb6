//! Finds maps and lists that are desired to be empty and hold what we applied before. Pure.
//!
//! An apply that removes the last member of a map, or the last element of an associative list, leaves `null` or no
//! field at all. A schema rejects that, or fills in a default, which can mean the opposite of empty. So such a map or
//! list is emptied before the apply.

use serde_json::Value;

use crate::diff::repair::Repair;
use crate::model::managed_fields::FieldSet;

/// Returns whether we own something in an object or list that is desired to be empty; `fields` are the fields that we
/// own.
pub fn is_needed(fields: &str, desired: &Value) -> bool {
    FieldSet::read(fields).is_ok_and(|fields| any(&fields, desired, None, &mut |_| true))
}

/// Returns the repairs that empty the objects and lists in which everything is ours. Where others own something, it
/// stays, and the apply removes ours.
pub fn repairs(fields: &str, desired: &Value, live: &Value) -> Vec<Repair> {
    let mut repairs = Vec::new();
    if let Ok(fields) = FieldSet::read(fields) {
        any(&fields, desired, Some((live, String::new())), &mut |repair| {
            repairs.extend(repair);
            false
        });
    }
    repairs
}

/// Calls `found` for each object or list that is desired to be empty and in which something is ours, until `found`
/// returns true; returns whether it did. `found` gets the repair, if everything there is ours in `live`, the live value
/// and its pointer.
fn any(
    node: &FieldSet<'_>,
    desired: &Value,
    live: Option<(&Value, String)>,
    found: &mut impl FnMut(Option<Repair>) -> bool,
) -> bool {
    if node.is_leaf() {
        return false;
    }
    match desired {
        _ if is_empty(desired) => {
            let all_ours = live.filter(|(live, _)| is_same_type(live, desired) && is_all_ours(node, live));
            found(all_ours.map(|(_, pointer)| Repair { pointer, value: desired.clone() }))
        }
        Value::Object(members) => members.iter().any(|(key, value)| {
            let Some(below) = node.member(key) else { return false };
            let live = live.as_ref().and_then(|(live, pointer)| {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                Some((live.get(key)?, format!("{pointer}/{escaped}")))
            });
            any(below, value, live, found)
        }),
        Value::Array(elements) => {
            let keyed = node.keyed();
            let live_elements = live.as_ref().and_then(|(live, _)| live.as_array());
            let indices = live_elements.map(|elements| keyed.in_list(elements)).unwrap_or_default();
            elements.iter().zip(keyed.of_each(elements)).any(|(element, place)| {
                let Some((place, below)) = place.and_then(|place| Some((place, *keyed.nodes.get(place)?))) else {
                    return false;
                };
                let live = live.as_ref().and_then(|(live, pointer)| {
                    let index = (*indices.get(place)?)?;
                    Some((live.get(index)?, format!("{pointer}/{index}")))
                });
                any(below, element, live, found)
            })
        }
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn is_same_type(one: &Value, other: &Value) -> bool {
    (one.is_object() && other.is_object()) || (one.is_array() && other.is_array())
}

fn is_all_ours(node: &FieldSet<'_>, live: &Value) -> bool {
    match live {
        _ if node.is_leaf() => true,
        Value::Object(members) => {
            members.iter().all(|(key, value)| node.member(key).is_some_and(|below| is_all_ours(below, value)))
        }
        Value::Array(elements) => node.all_elements(elements, |_, _| true),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SET: &str = r#"{"f:spec":{"f:hosts":{"v:\"a\"":{}}}}"#;

    fn found(fields: &str, desired: &Value, live: &Value) -> Vec<(String, Value)> {
        let found = repairs(fields, desired, live).into_iter().map(|repair| (repair.pointer, repair.value)).collect();
        assert!(is_needed(fields, desired) || Vec::is_empty(&found));
        found
    }

    #[test]
    fn a_set_a_map_and_an_object_in_which_all_is_ours_are_emptied() {
        let desired = json!({ "spec": { "hosts": [] } });
        let emptied = [("/spec/hosts".to_owned(), json!([]))];
        assert_eq!(found(SET, &desired, &json!({ "spec": { "hosts": ["a"] } })), emptied);
        let map = r#"{"f:spec":{"f:hosts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}"#;
        assert_eq!(found(map, &desired, &json!({ "spec": { "hosts": [{ "name": "a", "port": 1 }] } })), emptied);
        let object = r#"{"f:spec":{"f:a/b":{"f:c":{"f:d":{}}}}}"#;
        let live = json!({ "spec": { "a/b": { "c": { "d": 1 } } } });
        assert_eq!(found(object, &json!({ "spec": { "a/b": {} } }), &live), [("/spec/a~1b".to_owned(), json!({}))]);
        assert_eq!(found(object, &json!({ "spec": {} }), &live), [("/spec".to_owned(), json!({}))]);
    }

    #[test]
    fn an_object_is_emptied_where_a_whole_member_is_ours_and_not_where_another_member_is_of_others() {
        let fields = r#"{"f:spec":{"f:map":{"f:whole":{}}}}"#;
        let desired = json!({ "spec": { "map": {} } });
        let ours = json!({ "spec": { "map": { "whole": { "below": 1 } } } });
        assert_eq!(found(fields, &desired, &ours), [("/spec/map".to_owned(), json!({}))]);
        let of_others = json!({ "spec": { "map": { "whole": 1, "theirs": 2 } } });
        assert_eq!(found(fields, &desired, &of_others), []);
    }

    #[test]
    fn a_map_is_not_replaced_by_a_list() {
        let fields = r#"{"f:spec":{"f:hosts":{"f:a":{}}}}"#;
        let live = json!({ "spec": { "hosts": { "a": 1 } } });
        assert_eq!(found(fields, &json!({ "spec": { "hosts": [] } }), &live), []);
    }

    #[test]
    fn a_list_inside_an_element_is_found() {
        let fields = r#"{"f:list":{"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:set":{"v:1":{}}}}}"#;
        let desired = json!({ "list": [{ "name": "b", "set": [] }] });
        let live = json!({ "list": [{ "name": "a", "set": [1] }, { "name": "b", "set": [1] }] });
        assert_eq!(found(fields, &desired, &live), [("/list/1/set".to_owned(), json!([]))]);
    }

    #[test]
    fn a_list_in_which_others_own_something_is_left_to_the_apply() {
        let desired = json!({ "spec": { "hosts": [] } });
        assert!(is_needed(SET, &desired));
        for live in [json!({ "spec": { "hosts": ["a", "theirs"] } }), json!({ "spec": {} }), json!({})] {
            assert_eq!(found(SET, &desired, &live), [], "{live}");
        }
    }

    #[test]
    fn atomic_lists_and_those_not_desired_to_be_empty_need_no_repair() {
        let atomic = r#"{"f:spec":{"f:hosts":{}}}"#;
        assert!(!is_needed(atomic, &json!({ "spec": { "hosts": [] } })));
        for desired in [json!({ "spec": { "hosts": ["b"] } }), json!({ "other": [] }), json!({ "spec": 1 })] {
            assert!(!is_needed(SET, &desired), "{desired}");
        }
        assert!(!is_needed("no JSON", &json!({})));
    }
}
