//! Names the fields of a child that a write changes, for the log, which shows no values. Pure.
//!
//! Only one hash is remembered for each leaf that was desired before.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use serde_json::Value;

use crate::check::Desired;
use crate::diff::coverage::is_identity;
use crate::model::field_path::{member, push_member};
use crate::model::managed_fields::FieldSet;

/// The digest over all that is desired. It changes with every field, and the plugin did not ask for it.
const APPLIED_PATH: &str = "metadata.annotations['hotshoe.dev/applied']";
/// The maximum number of fields of a child that are named.
const MAX_NAMED_FIELDS: usize = 10;

/// The hashes of the children that were desired for one parent.
#[derive(Clone, Debug, Default)]
pub struct DesiredBefore(Vec<DesiredChild>);

#[derive(Clone, Debug)]
struct DesiredChild {
    child: u64,
    digest: u64,
    leaves: Arc<[u32]>,
}

impl DesiredBefore {
    /// Returns the hashes of the children that are desired now, and for each child the fields that differ from before;
    /// `None` for a child that was not desired before. `hasher` must be the same each time.
    pub fn next(&self, desired: &[Desired], hasher: &RandomState) -> (Self, Vec<Option<Vec<String>>>) {
        let before: HashMap<u64, &DesiredChild> = self.0.iter().map(|known| (known.child, known)).collect();
        let one = |one: &Desired| {
            let (child, digest) = (hasher.hash_one(&one.reference), hasher.hash_one(&one.digest));
            match before.get(&child) {
                Some(known) if known.digest == digest => (DesiredChild::clone(known), Some(Vec::new())),
                known => {
                    let (leaves, differ) = compared(known.map(|known| &*known.leaves), &one.body, hasher);
                    (DesiredChild { child, digest, leaves }, differ.map(|differ| named(differ, MAX_NAMED_FIELDS)))
                }
            }
        };
        let (known, changed) = desired.iter().map(one).unzip();
        (Self(known), changed)
    }
}

/// Returns the desired leaves that another field manager took over by an edit. Empty lists without an owner are named
/// only if nothing else was taken over, because an empty associative list never has an owner.
pub fn taken_over(fields: Option<&str>, desired: &Value) -> Vec<String> {
    let mut taken = Taken::default();
    if let Some(fields) = fields.and_then(|fields| FieldSet::read(fields).ok()) {
        walk_owned(&fields, desired, "", &mut taken);
    }
    named(if taken.leaves.is_empty() { taken.empty_lists } else { taken.leaves }, MAX_NAMED_FIELDS)
}

#[derive(Default)]
struct Taken {
    leaves: Vec<String>,
    empty_lists: Vec<String>,
}

impl Taken {
    fn add(&mut self, value: &Value, path: String) {
        let is_empty_list = value.as_array().is_some_and(Vec::is_empty);
        if is_empty_list { &mut self.empty_lists } else { &mut self.leaves }.push(path);
    }
}

fn walk_owned(node: &FieldSet<'_>, desired: &Value, path: &str, taken: &mut Taken) {
    if node.is_leaf() || taken.leaves.len() > MAX_NAMED_FIELDS {
        return;
    }
    match desired {
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| !is_identity(path, key)) {
                let below = member(path, key);
                match node.member(key) {
                    Some(node) => walk_owned(node, value, &below, taken),
                    None => name_members(value, below, taken),
                }
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                let below = format!("{path}{}", element_step(index, element));
                match node.element(element) {
                    Some(node) => walk_owned(node, element, &below, taken),
                    None => taken.leaves.push(below),
                }
            }
        }
        _ => {}
    }
}

/// Adds the members of an object of which we own nothing any more, or the field itself if it is not an object.
fn name_members(value: &Value, path: String, taken: &mut Taken) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(key, value)| name_members(value, member(&path, key), taken));
        }
        _ => taken.add(value, path),
    }
}

/// Returns the hashes of the leaves, and which of them are new or have another value than `before`, if that is known.
/// Removed leaves cannot be named, because only their hashes are known.
pub(super) fn compared(
    before: Option<&[u32]>,
    body: &Value,
    hasher: &RandomState,
) -> (Arc<[u32]>, Option<Vec<String>>) {
    // A set, because a plugin determines the number of leaves.
    let before: Option<HashSet<&u32>> = before.map(|before| before.iter().collect());
    let (mut leaves, mut differ) = (Vec::new(), Vec::new());
    walk_leaves(body, &mut String::new(), &mut |leaf, path| {
        if path == APPLIED_PATH {
            return;
        }
        let leaf = short(hasher.hash_one((path, leaf)));
        if before.as_ref().is_some_and(|before| !before.contains(&leaf)) {
            differ.push(path.to_owned());
        }
        leaves.push(leaf);
    });
    let differ = if differ.is_empty() { vec!["fewer fields".to_owned()] } else { differ };
    (leaves.into(), before.map(|_| differ))
}

/// Returns half of a hash. A change is not named if its hash is that of another leaf, which happens to one in millions.
pub(super) fn short(hash: u64) -> u32 {
    let [a, b, c, d, ..] = hash.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// Returns the first fields, `most` of them, and how many more there are.
pub(super) fn named(mut fields: Vec<String>, most: usize) -> Vec<String> {
    let more = fields.len().saturating_sub(most);
    fields.truncate(most);
    if more > 0 {
        fields.push(format!("and {more} more"));
    }
    fields
}

fn walk_leaves(value: &Value, path: &mut String, visit: &mut impl FnMut(&Value, &str)) {
    let end = path.len();
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                push_member(path, key);
                walk_leaves(value, path, visit);
                path.truncate(end);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for (index, element) in elements.iter().enumerate() {
                path.push_str(&element_step(index, element));
                walk_leaves(element, path, visit);
                path.truncate(end);
            }
        }
        leaf => visit(leaf, path),
    }
}

fn element_step(index: usize, element: &Value) -> String {
    match element.get("name").and_then(Value::as_str) {
        Some(name) => format!("[{name}]"),
        None => format!("[{index}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::kind::{Kind, ObjectRef};
    use crate::model::object::APPLIED_ANNOTATION;

    fn desired(body: Value) -> Desired {
        let kind = Kind::new("apps", "v1", "Deployment");
        let reference = ObjectRef { kind, namespace: Some("n".into()), name: "a".into() };
        let digest = body.to_string().into();
        Desired {
            reference,
            body: Arc::new(body),
            digest,
            is_created_once: false,
            left: Arc::default(),
            strategy: Default::default(),
        }
    }

    fn deployment(replicas: u32, image: &str) -> Desired {
        let containers = json!([{ "name": "main", "image": image, "args": ["-v"] }]);
        desired(json!({ "spec": { "replicas": replicas, "template": { "spec": { "containers": containers } } } }))
    }

    #[test]
    fn fields_that_differ_from_before_are_named() {
        let (mut before, hasher) = (DesiredBefore::default(), RandomState::new());
        let mut changed = |desired: Desired| {
            let (next, mut changed) = before.next(&[desired], &hasher);
            before = next;
            changed.remove(0)
        };
        assert_eq!(changed(deployment(1, "a")), None, "nothing is known yet");
        assert_eq!(changed(deployment(1, "a")), Some(vec![]));
        assert_eq!(changed(deployment(2, "a")), Some(vec!["spec.replicas".to_owned()]));
        assert_eq!(changed(deployment(2, "b")), Some(vec!["spec.template.spec.containers[main].image".to_owned()]));
        assert_eq!(changed(desired(json!({ "spec": { "replicas": 2 } }))), Some(vec!["fewer fields".to_owned()]));
        changed(desired(json!({ "spec": { "hosts": [] } })));
        for empty in [json!({}), json!([])] {
            assert_eq!(changed(desired(json!({ "spec": { "hosts": empty } }))), Some(vec!["spec.hosts".to_owned()]));
        }
        let many: serde_json::Map<_, _> = (0..100).map(|n| (n.to_string(), json!(n))).collect();
        let named = changed(desired(json!({ "data": many }))).unwrap();
        assert_eq!((named.len(), named.last().map(String::as_str)), (11, Some("and 90 more")));
    }

    #[test]
    fn the_digest_over_all_that_is_desired_is_not_named() {
        let (before, hasher) = (DesiredBefore::default(), RandomState::new());
        let child = |digest: &str, replicas: u32| {
            let annotations = json!({ APPLIED_ANNOTATION: digest, "other": "kept" });
            desired(json!({ "metadata": { "annotations": annotations }, "spec": { "replicas": replicas } }))
        };
        let (before, _) = before.next(&[child("one", 1)], &hasher);
        let (_, changed) = before.next(&[child("two", 2)], &hasher);
        assert_eq!(changed, [Some(vec!["spec.replicas".to_owned()])]);
    }

    #[test]
    fn a_child_that_is_no_longer_desired_is_forgotten() {
        let (before, hasher) = (DesiredBefore::default(), RandomState::new());
        let (before, _) = before.next(&[deployment(1, "a")], &hasher);
        assert_eq!(before.0.len(), 1);
        assert!(before.next(&[], &hasher).0.0.is_empty());
    }

    #[test]
    fn fields_that_another_manager_took_over_are_named() {
        let fields = r#"{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:name":{},"f:args":{}}}}}}}"#;
        let desired = deployment(1, "a");
        let taken = ["spec.replicas", "spec.template.spec.containers[main].image"];
        let mut found = taken_over(Some(fields), &desired.body);
        found.sort();
        assert_eq!(found, taken);
        assert!(taken_over(None, &desired.body).is_empty());
    }

    #[test]
    fn an_empty_list_is_named_only_where_nothing_else_was_taken_over() {
        let taken =
            |fields: &str| taken_over(Some(fields), &json!({ "spec": { "args": [], "replicas": 1, "volumes": [] } }));
        assert_eq!(taken(r#"{"f:spec":{"f:args":{}}}"#), ["spec.replicas"]);
        assert_eq!(taken(r#"{"f:spec":{"f:replicas":{}}}"#), ["spec.args", "spec.volumes"]);
    }

    #[test]
    fn an_object_of_which_we_own_nothing_is_named_by_its_members() {
        let desired = serde_json::json!({ "data": { "a": "1", "b": { "c": 2 } }, "immutable": true });
        let mut taken = taken_over(Some(r#"{"f:immutable":{}}"#), &desired);
        taken.sort();
        assert_eq!(taken, ["data.a", "data.b.c"]);
        let desired = serde_json::json!({ "data": {}, "immutable": true });
        assert_eq!(taken_over(Some(r#"{"f:immutable":{}}"#), &desired), ["data"]);
    }
}
