//! Finds the field managers that conflict with an apply, from `managedFields`: those that keep reverting a child
//! ([`reverted_fields`]), and those whose fields make the desired child invalid ([`blocking_fields`]). Pure.
//!
//! Needed only for a child whose apply is delayed (see [`contention`](crate::flow::contention)) or rejected.

use serde_json::{Map, Value};

use crate::diff::coverage::{is_identity, node_covers};
use crate::model::field_path::member;
use crate::model::managed_fields::{FieldSet, Step};
use crate::model::object::FieldManager;

/// The maximum number of fields that are named.
const MAX_NAMED_FIELDS: usize = 3;
/// The maximum number of other managers' fields that are compared with the API server's error.
pub(super) const MAX_CANDIDATES: usize = 256;
/// The maximum length of a list that is searched. A plugin determines how long its lists are.
pub(super) const MAX_LIST_LENGTH: usize = 32;

/// Returns the fields of `desired` that `manager` applied and no longer owns, each with the field manager that owns
/// it now: `spec.replicas by kubectl-edit`. Returns nothing if `manager` owns all of them.
pub fn reverted_fields(managers: &[FieldManager], manager: &str, desired: &Value) -> Option<String> {
    let (own, others) = read(managers, manager);
    let mut found = Vec::new();
    find_reverted(own.as_ref(), &borrowed(&others), desired, String::new(), &mut found);
    (!found.is_empty()).then(|| found.join(", "))
}

/// Returns the fields of other field managers because of which the API server rejects `desired`, each with its owner.
/// These are fields in the same structs as desired fields that `manager` does not own (any more), and they match one of
/// the paths in the API server's error, `refused`. An example is a union: another manager sets `seccompProfile.type` to
/// `Localhost`, and `localhostProfile` with it. An apply of another type leaves `localhostProfile` in place and is
/// rejected because of it.
pub fn blocking_fields(
    managers: &[FieldManager],
    manager: &str,
    desired: &Value,
    refused: &[String],
) -> Option<String> {
    let (own, others) = read(managers, manager);
    let mut found = Vec::new();
    find_blocking(own.as_ref(), &borrowed(&others), desired, String::new(), &mut found);
    found.retain(|(path, _)| refused.iter().any(|refused| is_about(refused, path)));
    found.truncate(MAX_NAMED_FIELDS);
    let found: Vec<_> = found.into_iter().map(|(path, owner)| format!("{path} by {owner}")).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

/// Returns the fields that `manager` applied, and those that each other field manager owns.
pub(super) fn read<'a>(
    managers: &'a [FieldManager],
    manager: &str,
) -> (Option<FieldSet<'a>>, Vec<(&'a str, FieldSet<'a>)>) {
    let (mut own, mut others) = (None, Vec::new());
    for one in managers {
        match FieldSet::read(&one.fields) {
            Ok(fields) if one.applied && one.manager == manager => own = Some(fields),
            Ok(fields) => others.push((one.manager.as_str(), fields)),
            Err(_) => {}
        }
    }
    (own, others)
}

pub(super) fn borrowed<'f, 'a>(others: &'f [(&'a str, FieldSet<'a>)]) -> Vec<(&'f str, &'f FieldSet<'a>)> {
    others.iter().map(|(name, fields)| (*name, fields)).collect()
}

pub(super) type Others<'f, 'a> = [(&'f str, &'f FieldSet<'a>)];

fn find_reverted(
    own: Option<&FieldSet<'_>>,
    others: &Others<'_, '_>,
    desired: &Value,
    path: String,
    found: &mut Vec<String>,
) {
    if found.len() >= MAX_NAMED_FIELDS {
        return;
    }
    if own.is_none() && is_empty_list(desired) && !others.iter().any(|(_, fields)| fields.is_leaf()) {
        return; // An empty associative list never has an owner.
    }
    let Some(own) = own else { return find_owned(others, desired, path, found) };
    match desired {
        _ if own.is_leaf() => {}
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| !is_identity(&path, key)) {
                let others = below(others, |fields| fields.member(key));
                find_reverted(own.member(key), &others, value, member(&path, key), found);
            }
        }
        Value::Array(elements) if elements.len() <= MAX_LIST_LENGTH => {
            for (index, element) in elements.iter().enumerate() {
                let others = below(others, |fields| fields.element(element));
                find_reverted(own.element(element), &others, element, format!("{path}[{index}]"), found);
            }
        }
        desired if !node_covers(own, desired) => found.push(describe(&path, others)),
        _ => {}
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Names the fields of others in a part of the object in which we own nothing. Names the whole part if others own it as
/// an atomic value, or if it has no owner.
fn find_owned(others: &Others<'_, '_>, desired: &Value, path: String, found: &mut Vec<String>) {
    let before = found.len();
    if let Value::Object(members) = desired
        && !others.iter().any(|(_, fields)| fields.is_leaf())
    {
        for (key, value) in members {
            let others = below(others, |fields| fields.member(key));
            if !others.is_empty() {
                find_reverted(None, &others, value, member(&path, key), found);
            }
        }
    }
    if found.len() == before {
        found.push(describe(&path, others));
    }
}

/// Collects the undesired fields of other field managers in each object that contains a desired field which this plugin
/// does not own.
fn find_blocking(
    own: Option<&FieldSet<'_>>,
    others: &Others<'_, '_>,
    desired: &Value,
    path: String,
    found: &mut Vec<(String, String)>,
) {
    if others.is_empty() || own.is_some_and(FieldSet::is_leaf) || found.len() >= MAX_CANDIDATES {
        return;
    }
    match desired {
        Value::Object(members) => {
            // Labels and annotations do not make other fields invalid.
            for (key, value) in members.iter().filter(|(key, _)| !path.is_empty() || *key != "metadata") {
                let others = below(others, |fields| fields.member(key));
                find_blocking(own.and_then(|own| own.member(key)), &others, value, member(&path, key), found);
            }
            if members.keys().any(|key| !is_identity(&path, key) && own.is_none_or(|own| own.member(key).is_none())) {
                add_undesired(others, members, &path, found);
            }
        }
        Value::Array(elements) if elements.len() <= MAX_LIST_LENGTH => {
            for (index, element) in elements.iter().enumerate() {
                let others = below(others, |fields| fields.element(element));
                let own = own.and_then(|own| own.element(element));
                find_blocking(own, &others, element, format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn add_undesired(others: &Others<'_, '_>, desired: &Map<String, Value>, path: &str, found: &mut Vec<(String, String)>) {
    for (owner, fields) in others {
        for (step, _) in fields.steps() {
            if let Step::Member(name) = step
                && !desired.contains_key(name)
                && found.len() < MAX_CANDIDATES
            {
                found.push((member(path, name), (*owner).to_owned()));
            }
        }
    }
}

/// Returns whether a path in an error is that of a field, or of something around or inside the field. Indices are not
/// compared, because others may have added elements. Case is ignored, because the API server writes
/// `spec.LoadBalancerSourceRanges`.
fn is_about(refused: &str, path: &str) -> bool {
    let mut names = names(refused).zip(names(path));
    !refused.is_empty() && names.all(|(refused, name)| refused.eq_ignore_ascii_case(name))
}

/// Returns the names of the fields on a path, without indices.
pub(super) fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').map(|part| part.split('[').next().unwrap_or(part))
}

/// Returns what others own of a part of the object: the whole part, if they own something around it as an atomic value.
pub(super) fn below<'f, 'a>(
    others: &Others<'f, 'a>,
    part: impl Fn(&'f FieldSet<'a>) -> Option<&'f FieldSet<'a>>,
) -> Vec<(&'f str, &'f FieldSet<'a>)> {
    let narrowed = |(name, fields): &(&'f str, &'f FieldSet<'a>)| {
        let fields = if fields.is_leaf() { Some(*fields) } else { part(fields) };
        Some((*name, fields?))
    };
    others.iter().filter_map(narrowed).collect()
}

/// Formats a field with its owners; a removed field has none.
fn describe(path: &str, others: &Others<'_, '_>) -> String {
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

    /// Returns the reverted fields if we own `own` and another manager owns `other`.
    fn reverted_by(own: Value, other: Value) -> Option<String> {
        reverted_fields(&[manager("other", false, other), manager(MANAGER, true, own)], MANAGER, &desired())
    }

    fn all() -> Value {
        json!({
            "f:metadata": { "f:annotations": { "f:deployment.kubernetes.io/revision": {}, "f:note": {} } },
            "f:spec": { "f:replicas": {}, "f:containers": { "k:{\"name\":\"one\"}": { ".": {}, "f:name": {}, "f:image": {} } } },
        })
    }

    #[test]
    fn a_field_is_named_with_its_owner() {
        let mut own = all();
        own["f:metadata"]["f:annotations"] = json!({ "f:note": {} });
        let other =
            json!({ "f:metadata": { "f:annotations": { ".": {}, "f:deployment.kubernetes.io/revision": {} } } });
        let words = "metadata.annotations['deployment.kubernetes.io/revision'] by other";
        assert_eq!(reverted_by(own, other).as_deref(), Some(words));
    }

    #[test]
    fn a_field_in_a_list_element_is_found_and_a_removed_field_has_no_owner() {
        let mut own = all();
        own["f:spec"]["f:containers"]["k:{\"name\":\"one\"}"] = json!({ ".": {}, "f:name": {} });
        own["f:spec"].as_object_mut().unwrap().remove("f:replicas");
        let other = json!({ "f:spec": { "f:containers": { "k:{\"name\":\"one\"}": { "f:image": {} } } } });
        assert_eq!(reverted_by(own, other).as_deref(), Some("spec.containers[0].image by other, spec.replicas"));
    }

    #[test]
    fn a_reverted_field_is_named_and_its_parent_only_where_that_is_atomic() {
        let mut own = all();
        own["f:metadata"] = json!({ "f:labels": {} });
        let by = |fields: Value| reverted_by(own.clone(), json!({ "f:metadata": { "f:annotations": fields } }));
        assert_eq!(by(json!({ ".": {}, "f:note": {} })).as_deref(), Some("metadata.annotations.note by other"));
        assert_eq!(by(json!({})).as_deref(), Some("metadata.annotations by other"));
    }

    #[test]
    fn without_reverted_fields_nothing_is_named() {
        assert_eq!(reverted_by(all(), json!({ "f:spec": { "f:replicas": {} } })), None);
    }

    #[test]
    fn an_update_under_our_name_is_another_owner_and_without_own_fields_everything_is_named() {
        let updated = manager(MANAGER, false, json!({ "f:spec": { "f:replicas": {} } }));
        assert_eq!(reverted_fields(&[updated], MANAGER, &desired()).as_deref(), Some("spec.replicas by hotshoe/demo"));
        assert_eq!(reverted_fields(&[], MANAGER, &desired()).as_deref(), Some("all of it"));
    }

    #[test]
    fn an_empty_list_is_reverted_if_it_is_atomic_and_never_if_its_elements_have_owners() {
        let desired = json!({ "spec": { "args": [], "volumes": [] } });
        let own = manager(MANAGER, true, json!({ "f:spec": { "f:x": {} } }));
        let volume = json!({ "f:spec": { "f:volumes": { "k:{\"name\":\"a\"}": { ".": {}, "f:name": {} } } } });
        let added = manager("other", false, volume);
        assert_eq!(reverted_fields(&[own.clone(), added.clone()], MANAGER, &desired), None);
        let edited = manager("editor", false, json!({ "f:spec": { "f:args": {} } }));
        assert_eq!(reverted_fields(&[own, added, edited], MANAGER, &desired).as_deref(), Some("spec.args by editor"));
    }

    #[test]
    fn only_a_few_reverted_fields_are_named_and_a_long_list_as_a_whole() {
        let members: serde_json::Map<_, _> = (0..50_000).map(|n| (format!("key{n}"), json!("x"))).collect();
        let ports: Vec<_> = (0..20_000).map(|n| json!({ "port": n })).collect();
        let desired = json!({ "data": members, "ports": ports });
        let own = json!({ "f:data": { "f:none": {} }, "f:ports": { "k:{\"port\":1}": {} } });
        let named = reverted_fields(&[manager(MANAGER, true, own)], MANAGER, &desired).unwrap();
        assert_eq!(named.split(", ").count(), MAX_NAMED_FIELDS);
        let own = json!({ "f:data": {}, "f:ports": { "k:{\"port\":1}": {} } });
        assert_eq!(reverted_fields(&[manager(MANAGER, true, own)], MANAGER, &desired).as_deref(), Some("ports"));
    }

    #[test]
    fn a_long_list_that_we_own_is_not_named_beside_a_field_that_was_reverted() {
        let ports: Vec<_> = (0..=MAX_LIST_LENGTH).map(|n| json!({ "port": n })).collect();
        let desired = json!({ "args": vec!["x"; MAX_LIST_LENGTH + 1], "ports": ports, "replicas": 1 });
        let port = |n| (format!(r#"k:{{"port":{n}}}"#), json!({ ".": {}, "f:port": {} }));
        let ports: Map<_, _> = (0..=MAX_LIST_LENGTH).map(port).collect();
        let own = manager(MANAGER, true, json!({ "f:args": {}, "f:ports": ports }));
        assert_eq!(reverted_fields(&[own], MANAGER, &desired).as_deref(), Some("replicas"));
    }

    /// Returns a Deployment with a container that must not gain privileges, and a seccomp profile.
    fn restricted() -> Value {
        let container = json!({ "name": "one", "securityContext": { "allowPrivilegeEscalation": false } });
        let context = json!({ "seccompProfile": { "type": "RuntimeDefault" }, "runAsNonRoot": true });
        json!({ "apiVersion": "apps/v1", "spec": { "replicas": 1, "containers": [container], "securityContext": context } })
    }

    fn blocked(own: Value, other: Value, refused: &str) -> Option<String> {
        let managers = [manager("editor", false, other), manager(MANAGER, true, own)];
        blocking_fields(&managers, MANAGER, &restricted(), &[refused.into()])
    }

    const ONE: &str = r#"k:{"name":"one"}"#;

    #[test]
    fn a_field_in_the_same_struct_as_one_that_we_lost_is_named_with_its_owner() {
        let own = json!({ "f:spec": { "f:replicas": {}, "f:securityContext": { "f:runAsNonRoot": {} } } });
        let profile = json!({ "f:seccompProfile": { "f:type": {}, "f:localhostProfile": {} } });
        let other = json!({ "f:spec": { "f:securityContext": profile, "f:paused": {} } });
        let named = blocked(own, other, "spec.securityContext.seccompProfile.localhostProfile");
        assert_eq!(named.as_deref(), Some("spec.securityContext.seccompProfile.localhostProfile by editor"));
    }

    #[test]
    fn an_error_about_a_struct_names_what_others_set_in_it_whatever_its_index() {
        let own = json!({ "f:spec": { "f:replicas": {}, "f:containers": { ONE: { ".": {}, "f:name": {} } } } });
        let context = json!({ "f:allowPrivilegeEscalation": {}, "f:privileged": {} });
        let other = json!({ "f:spec": { "f:containers": { ONE: { "f:securityContext": context } } } });
        let named = blocked(own, other, "spec.containers[3].SecurityContext");
        assert_eq!(named.as_deref(), Some("spec.containers[0].securityContext.privileged by editor"));
    }

    #[test]
    fn fields_of_others_are_not_named_beside_our_own_or_away_from_the_error() {
        let context = json!({ "f:seccompProfile": { "f:type": {} }, "f:runAsNonRoot": {} });
        let own = json!({ "f:spec": { "f:replicas": {}, "f:containers": {}, "f:securityContext": context } });
        let other = json!({ "f:spec": { "f:paused": {} } });
        assert_eq!(blocked(own, other.clone(), "spec"), None, "every field that is desired is ours");
        assert_eq!(blocked(json!({ "f:spec": { "f:containers": {} } }), other.clone(), "spec.replicas"), None);
        assert_eq!(blocked(json!({ "f:spec": { "f:containers": {} } }), other, ""), None);
    }

    #[test]
    fn only_a_few_blocking_fields_are_named() {
        let many: Map<String, Value> = (0..50_000).map(|n| (format!("f:key{n}"), json!({}))).collect();
        let named = blocked(json!({ "f:metadata": {} }), json!({ "f:spec": many }), "spec").unwrap();
        assert_eq!(named.split(", ").count(), MAX_NAMED_FIELDS);
    }
}
