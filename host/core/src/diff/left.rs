//! Hands fields that a plugin no longer states to others, so that the values stay. Pure.
//!
//! An apply removes what its field manager applied before and no longer states. So before such an apply the fields
//! become those of another field manager, [`LEFT_MANAGER`], in `managedFields`. Only the ownership changes: whatever
//! value another writer sets at that moment stays, and its next write makes that writer the owner.

use serde_json::{Map, Value, json};

use crate::diff::applied_entry::{MANAGED_FIELDS, is_apply, is_of_object, merge};
use crate::diff::repair::Repair;
use crate::model::field_path;
use crate::model::managed_fields::{FieldSet, Step};
use crate::model::object::LEFT_MANAGER;

/// The field that the scale subresource of a kind sets. A CustomResourceDefinition may name another, which discovery
/// does not show.
const SCALED: &str = "spec.replicas";

/// Returns the paths of the fields that are left to others: those that the plugin names, and the one that the scale
/// subresource sets, unless it is desired.
pub fn paths<'a>(named: &'a [Box<str>], is_scaled: bool, desired: &Value) -> Vec<&'a str> {
    let scaled = (is_scaled && field_path::find(desired, SCALED).is_none()).then_some(SCALED);
    named.iter().map(|path| &**path).chain(scaled).collect()
}

/// Returns whether the ownership of any field has to change: `manager` applied a field that is `left`, or a field that
/// was left before is desired again. `own` are the fields that the manager applied, `others` those that were left.
pub fn is_needed(own: Option<&str>, others: Option<&str>, left: &[&str], desired: &Value) -> bool {
    let read = |fields: &'_ str| FieldSet::read(fields).ok().map(|fields| has_any(&fields, left));
    let is_desired = |fields: &str| FieldSet::read(fields).is_ok_and(|fields| overlaps(&fields, desired));
    own.and_then(read).unwrap_or_default() || others.is_some_and(is_desired)
}

fn has_any(fields: &FieldSet<'_>, left: &[&str]) -> bool {
    left.iter().any(|path| field_path::keys(path).is_ok_and(|keys| has(fields, &keys)))
}

fn has(node: &FieldSet<'_>, keys: &[&str]) -> bool {
    let Some((key, below)) = keys.split_first() else { return true };
    node.steps().any(|(step, node)| match step {
        Step::Member(name) => name == *key && has(node, below),
        Step::Keyed(_) => has(node, keys),
        Step::Value(_) | Step::Other => false,
    })
}

/// Returns whether a desired object has any of the fields.
fn overlaps(node: &FieldSet<'_>, desired: &Value) -> bool {
    node.is_leaf()
        || match desired {
            Value::Object(members) => node.steps().any(|(step, below)| match step {
                Step::Member(name) => members.get(name).is_some_and(|member| overlaps(below, member)),
                _ => false,
            }),
            Value::Array(elements) => {
                elements.iter().any(|element| node.element(element).is_some_and(|below| overlaps(below, element)))
            }
            _ => false,
        }
}

/// Returns `managedFields` in which the fields at the paths `left` are no longer those of `manager`, and those that are
/// desired again are only the manager's; `None` if nothing changes.
pub fn handed_over(live: &Value, manager: &str, left: &[&str], desired: &Value) -> Option<Repair> {
    let mut entries = live.pointer(MANAGED_FIELDS)?.as_array()?.clone();
    let before = entries.clone();
    let own = entries.iter().position(|entry| entry["manager"] == manager && is_apply(entry) && is_of_object(entry))?;
    let mut moved = Map::new();
    if let Some(Value::Object(fields)) = entries.get_mut(own).and_then(|entry| entry.get_mut("fieldsV1")) {
        for keys in left.iter().filter_map(|path| field_path::keys(path).ok()) {
            merge_members(&mut moved, split(fields, &keys));
        }
    }
    let is_of_left = |entry: &Value| entry["manager"] == LEFT_MANAGER && !is_apply(entry) && is_of_object(entry);
    if let Some(Value::Object(fields)) =
        entries.iter_mut().find(|entry| is_of_left(entry)).and_then(|entry| entry.get_mut("fieldsV1"))
    {
        forget(fields, desired);
        merge_members(fields, std::mem::take(&mut moved));
    } else if !moved.is_empty()
        && let Some(Value::Object(mut entry)) = entries.get(own).cloned()
    {
        entry.insert("manager".to_owned(), LEFT_MANAGER.into());
        entry.insert("operation".to_owned(), "Update".into());
        entry.insert("fieldsV1".to_owned(), Value::Object(moved));
        entries.push(entry.into());
    }
    entries.retain(|entry| !is_of_left(entry) || entry["fieldsV1"] != json!({}));
    (entries != before).then(|| Repair { pointer: MANAGED_FIELDS.to_owned(), value: entries.into() })
}

/// Takes the field at a path out of a set of fields, in every element of the lists on the way, and returns it as a set
/// of its own. No node is left without members: it would stand for all that is below it.
fn split(node: &mut Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some((key, below)) = keys.split_first() else { return taken };
    let member = format!("f:{key}");
    if below.is_empty() {
        taken.extend(node.remove_entry(&member));
    } else if let Some(Value::Object(inner)) = node.get_mut(&member) {
        let (of_inner, was_leaf) = (split(inner, below), inner.is_empty());
        if !of_inner.is_empty() {
            taken.insert(member.clone(), Value::Object(of_inner));
            if was_leaf {
                node.remove(&member);
            }
        }
    }
    for (step, element) in node.iter_mut().filter(|(step, _)| step.starts_with("k:")) {
        let Value::Object(element) = element else { continue };
        let of_element = split(element, keys);
        if !of_element.is_empty() {
            taken.insert(step.clone(), Value::Object(of_element));
            if element.is_empty() {
                element.insert(".".to_owned(), json!({}));
            }
        }
    }
    taken
}

/// Removes what is desired from a set of fields.
fn forget(node: &mut Map<String, Value>, desired: &Value) {
    node.retain(|step, below| {
        let desired = match (step.split_at_checked(2), desired) {
            (Some(("f:", name)), Value::Object(members)) => members.get(name),
            (Some(("k:", keys)), Value::Array(elements)) => with_keys(elements, keys),
            _ => None,
        };
        let (Some(desired), Value::Object(inner)) = (desired, below) else { return true };
        if inner.is_empty() {
            return false;
        }
        forget(inner, desired);
        !inner.is_empty()
    });
}

fn with_keys<'v>(elements: &'v [Value], keys: &str) -> Option<&'v Value> {
    let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
    let has_keys = |element: &&Value| keys.iter().all(|(key, value)| element.get(key).is_none_or(|mine| mine == value));
    elements.iter().filter(|element| element.is_object()).find(has_keys)
}

fn merge_members(fields: &mut Map<String, Value>, others: Map<String, Value>) {
    for (key, below) in others {
        match fields.get_mut(&key) {
            Some(known) => merge(known, &below),
            None => drop(fields.insert(key, below)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANAGER: &str = "hotshoe/demo";

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({ "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields })
    }

    fn live(own: &Value, left: Option<&Value>) -> Value {
        let left = left.map(|fields| entry(LEFT_MANAGER, "Update", fields));
        let entries: Vec<_> = [entry("kubectl", "Update", &json!({ "f:x": {} })), entry(MANAGER, "Apply", own)]
            .into_iter()
            .chain(left)
            .collect();
        json!({ "metadata": { "managedFields": entries } })
    }

    /// Returns our own fields and those that are left, and checks that both ways to decide agree.
    fn handed(own: &Value, before: Option<&Value>, left: &[&str], desired: &Value) -> Option<(Value, Value)> {
        let repair = handed_over(&live(own, before), MANAGER, left, desired);
        let texts = (own.to_string(), before.map(Value::to_string));
        assert_eq!(is_needed(Some(&texts.0), texts.1.as_deref(), left, desired), repair.is_some());
        let entries = repair?.value;
        assert_eq!(entries[0]["manager"], "kubectl");
        assert!(entries[2].is_null() || entries[2]["operation"] == "Update");
        Some((entries[1]["fieldsV1"].clone(), entries[2]["fieldsV1"].clone()))
    }

    #[test]
    fn a_field_that_is_left_goes_to_another_manager_and_no_node_is_left_empty() {
        let own = json!({ "f:metadata": { "f:labels": { "f:a": {} } }, "f:spec": { "f:replicas": {} } });
        let rest = json!({ "f:metadata": { "f:labels": { "f:a": {} } } });
        let left = json!({ "f:spec": { "f:replicas": {} } });
        assert_eq!(handed(&own, None, &["spec.replicas"], &json!({})), Some((rest.clone(), left.clone())));
        assert_eq!(handed(&rest, Some(&left), &["spec.replicas"], &json!({})), None, "it is done once");
        assert_eq!(handed(&own, None, &["spec.other", "other"], &json!({})), None);
        let atomic = json!({ "f:metadata": {}, "f:spec": { "f:selector": {} } });
        assert_eq!(handed(&atomic, None, &["spec.selector.app"], &json!({})), None, "an apply replaces it as a whole");
    }

    #[test]
    fn a_field_of_each_element_and_all_below_a_field_is_left() {
        let own = json!({ "f:spec": { "f:a": { "f:b": {}, "f:c": {} }, "f:list": {
            r#"k:{"name":"x"}"#: { ".": {}, "f:name": {}, "f:size": {} }, r#"k:{"name":"y"}"#: { "f:size": {} },
        } } });
        let (rest, left) = handed(&own, None, &["spec.list.size", "spec.a"], &json!({})).unwrap();
        let expected =
            json!({ "f:list": { r#"k:{"name":"x"}"#: { ".": {}, "f:name": {} }, r#"k:{"name":"y"}"#: { ".": {} } } });
        assert_eq!(rest["f:spec"], expected);
        let expected = json!({ "f:a": { "f:b": {}, "f:c": {} }, "f:list": { r#"k:{"name":"x"}"#: { "f:size": {} }, r#"k:{"name":"y"}"#: { "f:size": {} } } });
        assert_eq!(left["f:spec"], expected);
    }

    #[test]
    fn what_was_left_and_is_desired_again_is_only_ours() {
        let own = json!({ "f:spec": { "f:x": {} } });
        let before = json!({ "f:spec": { "f:replicas": {}, "f:list": { r#"k:{"name":"x"}"#: { "f:size": {} } } } });
        let desired = json!({ "spec": { "replicas": 1, "list": [{ "name": "x" }] } });
        let kept = json!({ "f:spec": { "f:list": { r#"k:{"name":"x"}"#: { "f:size": {} } } } });
        assert_eq!(handed(&own, Some(&before), &[], &desired), Some((own.clone(), kept.clone())));
        let all = json!({ "spec": { "list": [{ "name": "x", "size": 1 }] } });
        assert_eq!(handed(&own, Some(&kept), &[], &all), Some((own.clone(), Value::Null)));
        assert_eq!(handed(&own, Some(&kept), &[], &json!({ "spec": {} })), None);
    }

    #[test]
    fn an_object_that_was_never_applied_is_left_alone() {
        assert_eq!(handed_over(&json!({ "metadata": {} }), MANAGER, &["spec.replicas"], &json!({})), None);
        assert!(!is_needed(None, None, &["spec.replicas"], &json!({})));
        assert!(!is_needed(Some("no JSON"), Some("no JSON"), &["spec.replicas"], &json!({})));
    }

    #[test]
    fn what_the_scale_subresource_sets_is_left_unless_it_is_desired() {
        let named = ["spec.paused".into()];
        assert_eq!(paths(&named, true, &json!({ "spec": {} })), ["spec.paused", "spec.replicas"]);
        assert_eq!(paths(&named, true, &json!({ "spec": { "replicas": 0 } })), ["spec.paused"]);
        assert_eq!(paths(&[], false, &json!({})), [""; 0]);
    }
}
