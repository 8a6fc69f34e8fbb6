//! Who undoes what was applied to a child, and in which fields: what the plugin wishes for and owns no more,
//! and who owns it by now, as `managedFields` say.
//!
//! Beside *apply*; pure. It is asked only of a child that is slowed down (see [`contention`](crate::flow::contention)).

use serde_json::Value;

use crate::diff;
use crate::model::managed_fields::Fields;
use crate::model::object::FieldManager;

/// So many fields are named.
const NAMED: usize = 3;
/// In lists with more elements than this, which a plugin chooses, none is looked for.
const ELEMENTS: usize = 32;

/// The fields of `desired` that `manager` applied and owns no more, and who owns them: `spec.replicas by
/// somebody`. Nothing where it owns all of them.
pub fn named(managers: &[FieldManager], manager: &str, desired: &Value) -> Option<String> {
    let mut own = None;
    let mut others = Vec::new();
    for one in managers {
        match Fields::read(&one.fields) {
            Ok(fields) if one.applied && one.manager == manager => own = Some(fields),
            Ok(fields) => others.push((one.manager.as_str(), fields)),
            Err(_) => {}
        }
    }
    let others: Vec<_> = others.iter().map(|(name, fields)| (*name, fields)).collect();
    let mut found = Vec::new();
    find(own.as_ref(), &others, desired, String::new(), &mut found);
    (!found.is_empty()).then(|| found.join(", "))
}

type Others<'f, 'a> = [(&'f str, &'f Fields<'a>)];

fn find(own: Option<&Fields<'_>>, others: &Others<'_, '_>, desired: &Value, path: String, found: &mut Vec<String>) {
    if found.len() >= NAMED {
        return;
    }
    let Some(own) = own else { return find_owned(others, desired, path, found) };
    match desired {
        _ if own.is_leaf() => {}
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| !is_identity(&path, key)) {
                let others = below(others, |fields| fields.member(key));
                find(own.member(key), &others, value, member(&path, key), found);
            }
        }
        Value::Array(elements) if elements.len() <= ELEMENTS => {
            for (index, element) in elements.iter().enumerate() {
                let others = below(others, |fields| fields.element(element));
                find(own.element(element), &others, element, format!("{path}[{index}]"), found);
            }
        }
        desired if !diff::node_covers(own, desired) => found.push(words(&path, others)),
        _ => {}
    }
}

/// Names what others own of a part of which nothing is ours; all of it, where they own it as one, or nobody does.
fn find_owned(others: &Others<'_, '_>, desired: &Value, path: String, found: &mut Vec<String>) {
    let before = found.len();
    if let Value::Object(members) = desired
        && !others.iter().any(|(_, fields)| fields.is_leaf())
    {
        for (key, value) in members {
            let others = below(others, |fields| fields.member(key));
            if !others.is_empty() {
                find(None, &others, value, member(&path, key), found);
            }
        }
    }
    if found.len() == before {
        found.push(words(&path, others));
    }
}

/// What others own of a part of what they own; all, where that is not divided.
fn below<'f, 'a>(
    others: &Others<'f, 'a>,
    part: impl Fn(&'f Fields<'a>) -> Option<&'f Fields<'a>>,
) -> Vec<(&'f str, &'f Fields<'a>)> {
    let narrowed = |(name, fields): &(&'f str, &'f Fields<'a>)| {
        let fields = if fields.is_leaf() { Some(*fields) } else { part(fields) };
        Some((*name, fields?))
    };
    others.iter().filter_map(narrowed).collect()
}

/// What says which object it is has no owner.
fn is_identity(path: &str, key: &str) -> bool {
    matches!((path, key), ("", "apiVersion" | "kind") | ("metadata", "name" | "namespace"))
}

fn member(path: &str, key: &str) -> String {
    match key {
        _ if path.is_empty() => key.to_owned(),
        key if key.contains(['.', '/']) => format!("{path}[{key}]"),
        key => format!("{path}.{key}"),
    }
}

/// A field with who owns it; nobody, where it was taken away.
fn words(path: &str, others: &Others<'_, '_>) -> String {
    let mut names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    let path = if path.is_empty() { "all of it" } else { path };
    match names.is_empty() {
        true => path.to_owned(),
        false => format!("{path} by {}", names.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MANAGER: &str = "hotshoe/demo";

    fn manager(name: &str, applied: bool, fields: Value) -> FieldManager {
        FieldManager { manager: name.into(), applied, fields: fields.to_string().into() }
    }

    fn desired() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "a", "annotations": { "deployment.kubernetes.io/revision": "7", "note": "x" } },
            "spec": { "replicas": 1, "containers": [{ "name": "one", "image": "a:1" }] },
        })
    }

    /// Who undid what, where our own entry is this one and another manager has this.
    fn undone(own: Value, other: Value) -> Option<String> {
        named(&[manager("other", false, other), manager(MANAGER, true, own)], MANAGER, &desired())
    }

    fn all() -> Value {
        json!({
            "f:metadata": { "f:annotations": { "f:deployment.kubernetes.io/revision": {}, "f:note": {} } },
            "f:spec": { "f:replicas": {}, "f:containers": { "k:{\"name\":\"one\"}": { ".": {}, "f:name": {}, "f:image": {} } } },
        })
    }

    #[test]
    fn a_field_is_named_with_who_owns_it_by_now() {
        let mut own = all();
        own["f:metadata"]["f:annotations"] = json!({ "f:note": {} });
        let other =
            json!({ "f:metadata": { "f:annotations": { ".": {}, "f:deployment.kubernetes.io/revision": {} } } });
        let words = "metadata.annotations[deployment.kubernetes.io/revision] by other";
        assert_eq!(undone(own, other).as_deref(), Some(words));
    }

    #[test]
    fn one_in_an_element_of_a_list_is_found_and_one_that_was_taken_away_is_nobodys() {
        let mut own = all();
        own["f:spec"]["f:containers"]["k:{\"name\":\"one\"}"] = json!({ ".": {}, "f:name": {} });
        own["f:spec"].as_object_mut().unwrap().remove("f:replicas");
        let other = json!({ "f:spec": { "f:containers": { "k:{\"name\":\"one\"}": { "f:image": {} } } } });
        assert_eq!(undone(own, other).as_deref(), Some("spec.containers[0].image by other, spec.replicas"));
    }

    #[test]
    fn the_only_field_of_ours_in_a_part_is_named_and_not_the_part_unless_that_is_owned_as_one() {
        let mut own = all();
        own["f:metadata"] = json!({ "f:labels": {} });
        let by = |fields: Value| undone(own.clone(), json!({ "f:metadata": { "f:annotations": fields } }));
        assert_eq!(by(json!({ ".": {}, "f:note": {} })).as_deref(), Some("metadata.annotations.note by other"));
        assert_eq!(by(json!({})).as_deref(), Some("metadata.annotations by other"));
    }

    #[test]
    fn where_nothing_is_undone_nothing_is_named() {
        assert_eq!(undone(all(), json!({ "f:spec": { "f:replicas": {} } })), None);
    }

    #[test]
    fn who_applied_under_our_name_otherwise_is_another_and_where_nothing_is_ours_it_is_all() {
        let updated = manager(MANAGER, false, json!({ "f:spec": { "f:replicas": {} } }));
        assert_eq!(named(&[updated], MANAGER, &desired()).as_deref(), Some("spec.replicas by hotshoe/demo"));
        assert_eq!(named(&[], MANAGER, &desired()).as_deref(), Some("all of it"));
    }

    #[test]
    fn however_much_is_undone_a_few_fields_are_named_and_a_long_list_as_one() {
        let members: serde_json::Map<_, _> = (0..50_000).map(|n| (format!("key{n}"), json!("x"))).collect();
        let ports: Vec<_> = (0..20_000).map(|n| json!({ "port": n })).collect();
        let desired = json!({ "data": members, "ports": ports });
        let own = json!({ "f:data": { "f:none": {} }, "f:ports": { "k:{\"port\":1}": {} } });
        let said = named(&[manager(MANAGER, true, own)], MANAGER, &desired).unwrap();
        assert_eq!(said.split(", ").count(), NAMED);
        let own = json!({ "f:data": {}, "f:ports": { "k:{\"port\":1}": {} } });
        assert_eq!(named(&[manager(MANAGER, true, own)], MANAGER, &desired).as_deref(), Some("ports"));
    }
}
