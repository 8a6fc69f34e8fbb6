//! Finds the field managers that conflict with an apply, from `managedFields`: those that revert a child each time
//! ([`undone`]), and those whose fields make the desired child invalid ([`beside`]).
//!
//! Pure. Asked only of a child whose apply is delayed (see [`contention`](crate::flow::contention)) or refused.

use serde_json::{Map, Value};

use crate::diff;
use crate::model::managed_fields::{FieldSet, Step};
use crate::model::object::FieldManager;

/// At most this many fields are named.
const NAMED: usize = 3;
/// At most this many fields of others are compared with what the API server complained about.
const CANDIDATES: usize = 256;
/// Longer lists are not searched: a plugin chooses how long its lists are.
const ELEMENTS: usize = 32;

/// Returns the fields of `desired` that `manager` applied and no longer owns, each with the field manager that owns
/// it now: `spec.replicas by kubectl-edit`. Returns nothing if `manager` owns all of them.
pub fn undone(managers: &[FieldManager], manager: &str, desired: &Value) -> Option<String> {
    let (own, others) = read(managers, manager);
    let mut found = Vec::new();
    find(own.as_ref(), &borrowed(&others), desired, String::new(), &mut found);
    (!found.is_empty()).then(|| found.join(", "))
}

/// Returns the fields that other field managers set beside fields of `desired` that `manager` does not own, or not
/// any more, and about which the API server complained; `refused` are the paths in its complaint. A union shows it:
/// who sets `seccompProfile.type` to `Localhost` sets `localhostProfile` too, and an apply of another type leaves
/// `localhostProfile` there and is refused because of it.
pub fn beside(managers: &[FieldManager], manager: &str, desired: &Value, refused: &[String]) -> Option<String> {
    let (own, others) = read(managers, manager);
    let mut found = Vec::new();
    find_beside(own.as_ref(), &borrowed(&others), desired, String::new(), &mut found);
    found.retain(|(path, _)| refused.iter().any(|refused| is_about(refused, path)));
    found.truncate(NAMED);
    let found: Vec<_> = found.into_iter().map(|(path, owner)| format!("{path} by {owner}")).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

/// What `manager` applied, and what each other field manager owns.
fn read<'a>(managers: &'a [FieldManager], manager: &str) -> (Option<FieldSet<'a>>, Vec<(&'a str, FieldSet<'a>)>) {
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

fn borrowed<'f, 'a>(others: &'f [(&'a str, FieldSet<'a>)]) -> Vec<(&'f str, &'f FieldSet<'a>)> {
    others.iter().map(|(name, fields)| (*name, fields)).collect()
}

type Others<'f, 'a> = [(&'f str, &'f FieldSet<'a>)];

fn find(own: Option<&FieldSet<'_>>, others: &Others<'_, '_>, desired: &Value, path: String, found: &mut Vec<String>) {
    if found.len() >= NAMED {
        return;
    }
    if own.is_none() && is_empty_list(desired) && !others.iter().any(|(_, fields)| fields.is_leaf()) {
        return; // A list whose elements have owners has none itself.
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

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Names what others own of a part of which nothing is ours; all of it, if they own it as one or it has no owner.
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

/// Collects the fields of others in every struct of which a field is not ours.
fn find_beside(
    own: Option<&FieldSet<'_>>,
    others: &Others<'_, '_>,
    desired: &Value,
    path: String,
    found: &mut Vec<(String, String)>,
) {
    if others.is_empty() || own.is_some_and(FieldSet::is_leaf) || found.len() >= CANDIDATES {
        return;
    }
    match desired {
        Value::Object(members) => {
            // Labels and annotations make nothing else invalid.
            for (key, value) in members.iter().filter(|(key, _)| !path.is_empty() || *key != "metadata") {
                let others = below(others, |fields| fields.member(key));
                find_beside(own.and_then(|own| own.member(key)), &others, value, member(&path, key), found);
            }
            if members.keys().any(|key| !is_identity(&path, key) && own.is_none_or(|own| own.member(key).is_none())) {
                add_undesired(others, members, &path, found);
            }
        }
        Value::Array(elements) if elements.len() <= ELEMENTS => {
            for (index, element) in elements.iter().enumerate() {
                let others = below(others, |fields| fields.element(element));
                let own = own.and_then(|own| own.element(element));
                find_beside(own, &others, element, format!("{path}[{index}]"), found);
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
                && found.len() < CANDIDATES
            {
                found.push((member(path, name), (*owner).to_owned()));
            }
        }
    }
}

/// Whether the path in a complaint is that of a field, of what is around it or of what is in it. Places in lists
/// are not compared, for others may have added elements; nor is case, for the API server writes
/// `spec.LoadBalancerSourceRanges`.
fn is_about(refused: &str, path: &str) -> bool {
    let mut names = names(refused).zip(names(path));
    !refused.is_empty() && names.all(|(refused, name)| refused.eq_ignore_ascii_case(name))
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').map(|part| part.split('[').next().unwrap_or(part))
}

/// Returns what others own of a part; all of it, if they own the whole.
fn below<'f, 'a>(
    others: &Others<'f, 'a>,
    part: impl Fn(&'f FieldSet<'a>) -> Option<&'f FieldSet<'a>>,
) -> Vec<(&'f str, &'f FieldSet<'a>)> {
    let narrowed = |(name, fields): &(&'f str, &'f FieldSet<'a>)| {
        let fields = if fields.is_leaf() { Some(*fields) } else { part(fields) };
        Some((*name, fields?))
    };
    others.iter().filter_map(narrowed).collect()
}

/// Whether a field identifies the object: such a field has no owner.
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

/// Formats a field with its owners; it has none if it was removed.
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

    /// What is reported if our own entry is this one and another manager has this.
    fn undone_by(own: Value, other: Value) -> Option<String> {
        undone(&[manager("other", false, other), manager(MANAGER, true, own)], MANAGER, &desired())
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
        let words = "metadata.annotations[deployment.kubernetes.io/revision] by other";
        assert_eq!(undone_by(own, other).as_deref(), Some(words));
    }

    #[test]
    fn one_in_an_element_of_a_list_is_found_and_one_that_was_removed_has_no_owner() {
        let mut own = all();
        own["f:spec"]["f:containers"]["k:{\"name\":\"one\"}"] = json!({ ".": {}, "f:name": {} });
        own["f:spec"].as_object_mut().unwrap().remove("f:replicas");
        let other = json!({ "f:spec": { "f:containers": { "k:{\"name\":\"one\"}": { "f:image": {} } } } });
        assert_eq!(undone_by(own, other).as_deref(), Some("spec.containers[0].image by other, spec.replicas"));
    }

    #[test]
    fn the_only_field_of_ours_in_a_part_is_named_and_not_the_part_unless_that_is_owned_as_one() {
        let mut own = all();
        own["f:metadata"] = json!({ "f:labels": {} });
        let by = |fields: Value| undone_by(own.clone(), json!({ "f:metadata": { "f:annotations": fields } }));
        assert_eq!(by(json!({ ".": {}, "f:note": {} })).as_deref(), Some("metadata.annotations.note by other"));
        assert_eq!(by(json!({})).as_deref(), Some("metadata.annotations by other"));
    }

    #[test]
    fn if_nothing_is_undone_nothing_is_named() {
        assert_eq!(undone_by(all(), json!({ "f:spec": { "f:replicas": {} } })), None);
    }

    #[test]
    fn an_update_under_our_name_is_another_owner_and_if_nothing_is_ours_all_is_named() {
        let updated = manager(MANAGER, false, json!({ "f:spec": { "f:replicas": {} } }));
        assert_eq!(undone(&[updated], MANAGER, &desired()).as_deref(), Some("spec.replicas by hotshoe/demo"));
        assert_eq!(undone(&[], MANAGER, &desired()).as_deref(), Some("all of it"));
    }

    #[test]
    fn an_empty_list_is_undone_where_another_owns_it_as_one_value_and_never_where_its_elements_have_owners() {
        let desired = json!({ "spec": { "args": [], "volumes": [] } });
        let own = manager(MANAGER, true, json!({ "f:spec": { "f:x": {} } }));
        let volume = json!({ "f:spec": { "f:volumes": { "k:{\"name\":\"a\"}": { ".": {}, "f:name": {} } } } });
        let added = manager("other", false, volume);
        assert_eq!(undone(&[own.clone(), added.clone()], MANAGER, &desired), None);
        let edited = manager("editor", false, json!({ "f:spec": { "f:args": {} } }));
        assert_eq!(undone(&[own, added, edited], MANAGER, &desired).as_deref(), Some("spec.args by editor"));
    }

    #[test]
    fn however_much_is_undone_a_few_fields_are_named_and_a_long_list_as_one() {
        let members: serde_json::Map<_, _> = (0..50_000).map(|n| (format!("key{n}"), json!("x"))).collect();
        let ports: Vec<_> = (0..20_000).map(|n| json!({ "port": n })).collect();
        let desired = json!({ "data": members, "ports": ports });
        let own = json!({ "f:data": { "f:none": {} }, "f:ports": { "k:{\"port\":1}": {} } });
        let said = undone(&[manager(MANAGER, true, own)], MANAGER, &desired).unwrap();
        assert_eq!(said.split(", ").count(), NAMED);
        let own = json!({ "f:data": {}, "f:ports": { "k:{\"port\":1}": {} } });
        assert_eq!(undone(&[manager(MANAGER, true, own)], MANAGER, &desired).as_deref(), Some("ports"));
    }

    /// A Deployment with a container that must not gain privileges, and a seccomp profile.
    fn restricted() -> Value {
        let container = json!({ "name": "one", "securityContext": { "allowPrivilegeEscalation": false } });
        let context = json!({ "seccompProfile": { "type": "RuntimeDefault" }, "runAsNonRoot": true });
        json!({ "apiVersion": "apps/v1", "spec": { "replicas": 1, "containers": [container], "securityContext": context } })
    }

    fn blocked(own: Value, other: Value, refused: &str) -> Option<String> {
        let managers = [manager("editor", false, other), manager(MANAGER, true, own)];
        beside(&managers, MANAGER, &restricted(), &[refused.into()])
    }

    const ONE: &str = r#"k:{"name":"one"}"#;

    #[test]
    fn a_field_beside_one_that_we_lost_is_named_with_its_owner() {
        let own = json!({ "f:spec": { "f:replicas": {}, "f:securityContext": { "f:runAsNonRoot": {} } } });
        let profile = json!({ "f:seccompProfile": { "f:type": {}, "f:localhostProfile": {} } });
        let other = json!({ "f:spec": { "f:securityContext": profile, "f:paused": {} } });
        let named = blocked(own, other, "spec.securityContext.seccompProfile.localhostProfile");
        assert_eq!(named.as_deref(), Some("spec.securityContext.seccompProfile.localhostProfile by editor"));
    }

    #[test]
    fn a_complaint_about_a_struct_names_what_others_set_in_it_wherever_in_its_list_it_is() {
        let own = json!({ "f:spec": { "f:replicas": {}, "f:containers": { ONE: { ".": {}, "f:name": {} } } } });
        let context = json!({ "f:allowPrivilegeEscalation": {}, "f:privileged": {} });
        let other = json!({ "f:spec": { "f:containers": { ONE: { "f:securityContext": context } } } });
        let named = blocked(own, other, "spec.containers[3].SecurityContext");
        assert_eq!(named.as_deref(), Some("spec.containers[0].securityContext.privileged by editor"));
    }

    #[test]
    fn what_others_set_beside_what_is_ours_or_elsewhere_than_the_complaint_is_not_named() {
        let context = json!({ "f:seccompProfile": { "f:type": {} }, "f:runAsNonRoot": {} });
        let own = json!({ "f:spec": { "f:replicas": {}, "f:containers": {}, "f:securityContext": context } });
        let other = json!({ "f:spec": { "f:paused": {} } });
        assert_eq!(blocked(own, other.clone(), "spec"), None, "every field that is desired is ours");
        assert_eq!(blocked(json!({ "f:spec": { "f:containers": {} } }), other.clone(), "spec.replicas"), None);
        assert_eq!(blocked(json!({ "f:spec": { "f:containers": {} } }), other, ""), None);
    }

    #[test]
    fn however_much_others_set_a_few_fields_are_named() {
        let many: Map<String, Value> = (0..50_000).map(|n| (format!("f:key{n}"), json!({}))).collect();
        let named = blocked(json!({ "f:metadata": {} }), json!({ "f:spec": many }), "spec").unwrap();
        assert_eq!(named.split(", ").count(), NAMED);
    }
}
