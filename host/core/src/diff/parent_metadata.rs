//! Compares the labels and annotations that a decision states of its parent with those that the parent has. Runs between
//! *check* and *apply*; pure.
//!
//! A field manager of its own applies them, so the API server knows which keys the plugin has stated before: what it no
//! longer states is removed by the next apply, and a key of another field manager is not overwritten.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::check::parent_metadata::StatedMetadata;
use crate::diff::coverage::walk_covered;
use crate::diff::exceeds;
use crate::model::managed_fields::{FieldSet, Step};
use crate::model::object::Object;

/// Returns whether a parent has all that is stated of it, and `manager` owns that and nothing more.
pub fn is_as_stated(stated: &StatedMetadata, parent: &Object, manager: &str) -> bool {
    let Some(fields) = parent.owned_fields(manager, false) else { return stated.is_empty() };
    let desired = json!({ "metadata": stated.members() });
    !exceeds(fields, &desired) && walk_covered(fields, &desired, &|_, is_owned| is_owned) && has_all(parent, stated)
}

/// Returns whether the parent has these labels and annotations with these values.
fn has_all(parent: &Object, stated: &StatedMetadata) -> bool {
    let Some(Value::Object(live)) = metadata_of(parent) else { return stated.is_empty() };
    let has = |member: &str, key: &str| live.get(member)?.get(key)?.as_str();
    stated.labels.iter().all(|(key, value)| has("labels", key) == Some(value))
        && stated.annotations.iter().all(|(key, value)| has("annotations", key) == Some(value))
}

/// Returns the paths of the labels and annotations that an apply would set otherwise than they are, or remove.
pub fn changed(stated: &StatedMetadata, parent: &Object, manager: &str) -> Vec<String> {
    let live = metadata_of(parent).unwrap_or_default();
    let fields = parent.owned_fields(manager, false).and_then(|fields| FieldSet::read(fields).ok());
    let own = fields.as_ref().and_then(|fields| fields.member("metadata"));
    let of_member = |(member, texts): (&str, &BTreeMap<String, String>)| {
        let value = |key: &str| live.get(member)?.get(key)?.as_str();
        let set = texts.iter().filter(|(key, text)| value(key) != Some(text)).map(|(key, _)| key.clone());
        let own = own.and_then(|own| own.member(member)).into_iter().flat_map(FieldSet::steps);
        let removed = own.filter_map(|(step, _)| match step {
            Step::Member(key) if !texts.contains_key(key) => Some(key.to_owned()),
            _ => None,
        });
        set.chain(removed).map(|key| format!("metadata.{member}['{key}']")).collect::<Vec<_>>()
    };
    [("labels", &stated.labels), ("annotations", &stated.annotations)].into_iter().flat_map(of_member).collect()
}

/// Returns the metadata of a parent, as far as it is known, without the labels and annotations that `manager` owns; none
/// if it owns nothing.
pub fn without_own(parent: &Object, manager: &str) -> Option<Value> {
    let fields = FieldSet::read(parent.owned_fields(manager, false)?).ok()?;
    let own = fields.member("metadata")?;
    let mut metadata = metadata_of(parent)?;
    for member in ["labels", "annotations"] {
        if let (Some(own), Some(Value::Object(texts))) = (own.member(member), metadata.get_mut(member)) {
            texts.retain(|key, _| own.member(key).is_none());
        }
    }
    Some(metadata)
}

fn metadata_of(parent: &Object) -> Option<Value> {
    let mut body: Map<String, Value> = serde_json::from_str(&parent.body).ok()?;
    body.remove("metadata")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::object::KeptFields;
    use crate::model::projection::Projection;

    const MANAGER: &str = "hotshoe/demo/metadata";

    fn parent(labels: &Value, owned: Option<&Value>) -> Object {
        let entry = owned.map(|fields| json!({ "manager": MANAGER, "operation": "Apply", "fieldsV1": fields }));
        let managed: Vec<Value> = entry.into_iter().collect();
        let json = json!({ "metadata": { "name": "a", "labels": labels, "managedFields": managed } });
        let projection = Projection::new(&["metadata.labels", "metadata.annotations"]);
        Object::read(&json.to_string(), &KeptFields { projection, labels: Vec::new(), status: false }).unwrap()
    }

    fn owns(keys: &[&str]) -> Value {
        let keys = keys.iter().map(|key| (format!("f:{key}"), json!({})));
        json!({ "f:metadata": { "f:labels": keys.collect::<Map<_, _>>() } })
    }

    fn stated(labels: &[(&str, &str)]) -> StatedMetadata {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        StatedMetadata { labels, ..StatedMetadata::default() }
    }

    #[test]
    fn a_parent_is_as_stated_only_with_these_values_and_this_ownership() {
        let live = json!({ "e.com/a": "1", "theirs": "2" });
        let one = stated(&[("e.com/a", "1")]);
        let own = parent(&live, Some(&owns(&["e.com/a"])));
        assert!(is_as_stated(&one, &own, MANAGER));
        assert!(!is_as_stated(&stated(&[("e.com/a", "2")]), &own, MANAGER), "another value");
        assert!(!is_as_stated(&stated(&[]), &own, MANAGER), "no longer stated");
        assert!(!is_as_stated(&one, &parent(&live, None), MANAGER), "the same label of another manager");
        assert!(!is_as_stated(&one, &parent(&live, Some(&owns(&["e.com/a", "e.com/b"]))), MANAGER), "one more");
        assert!(!is_as_stated(&stated(&[("e.com/a", "1"), ("e.com/b", "1")]), &own, MANAGER), "one less");
        assert!(is_as_stated(&stated(&[]), &parent(&live, None), MANAGER));
    }

    #[test]
    fn what_an_apply_would_set_or_remove_is_named_by_its_path() {
        let own = parent(&json!({ "e.com/a": "1", "e.com/b": "1" }), Some(&owns(&["e.com/a", "e.com/b"])));
        let paths = changed(&stated(&[("e.com/a", "1"), ("e.com/c", "1")]), &own, MANAGER);
        assert_eq!(paths, ["metadata.labels['e.com/c']", "metadata.labels['e.com/b']"]);
        assert!(changed(&stated(&[("e.com/a", "1"), ("e.com/b", "1")]), &own, MANAGER).is_empty());
    }

    #[test]
    fn what_the_plugin_states_itself_is_no_part_of_what_others_have_set() {
        let live = json!({ "e.com/a": "1", "theirs": "2" });
        let left = without_own(&parent(&live, Some(&owns(&["e.com/a"]))), MANAGER).unwrap();
        assert_eq!(left["labels"], json!({ "theirs": "2" }));
        assert_eq!(without_own(&parent(&live, None), MANAGER), None);
    }
}
