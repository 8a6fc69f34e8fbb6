//! Finds list elements of ours that another writer renamed, such as a container. Pure.
//!
//! To the API server our element is gone and the renamed one belongs to the other writer: an apply would add our
//! element again and leave the renamed one beside it. A renamed element is distinguished from one that others added by
//! everything except its name, so an element with little more than a name never counts as a renamed one of ours.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::diff::repair::Repair;
use crate::model::managed_fields::FieldSet;

const NAME: &str = "name";
/// The minimum number of members, besides the name, by which an element can be recognised.
const MIN_OTHER_MEMBERS: usize = 2;

/// Returns whether we no longer own an element that we applied and that can be recognised.
pub fn is_missing(fields: &str, desired: &Value) -> bool {
    FieldSet::read(fields).is_ok_and(|fields| is_missing_below(Some(&fields), desired))
}

fn is_missing_below(node: Option<&FieldSet<'_>>, desired: &Value) -> bool {
    if node.is_some_and(FieldSet::is_leaf) {
        return false;
    }
    match desired {
        Value::Object(members) => {
            members.iter().any(|(key, value)| is_missing_below(node.and_then(|node| node.member(key)), value))
        }
        Value::Array(elements) => {
            let keyed = node.map(FieldSet::keyed);
            let places = keyed.as_ref().map_or_else(|| vec![None; elements.len()], |keyed| keyed.of_each(elements));
            elements.iter().zip(places).any(|(element, place)| {
                match place.and_then(|place| keyed.as_ref()?.nodes.get(place).copied()) {
                    Some(node) => is_missing_below(Some(node), element),
                    None => named(element).is_some(),
                }
            })
        }
        _ => false,
    }
}

/// Returns the repairs that restore the names of renamed elements in the live object.
pub fn repairs(desired: &Value, live: &Value) -> Vec<Repair> {
    let mut found = Vec::new();
    find_renamed(desired, live, String::new(), &mut found);
    found
}

fn find_renamed(desired: &Value, live: &Value, pointer: String, found: &mut Vec<Repair>) {
    match (desired, live) {
        (Value::Object(members), Value::Object(live_members)) => {
            for (key, value) in members {
                let Some(live) = live_members.get(key) else { continue };
                let key = key.replace('~', "~0").replace('/', "~1");
                find_renamed(value, live, format!("{pointer}/{key}"), found);
            }
        }
        (Value::Array(elements), Value::Array(live_elements)) => {
            let mut taken = HashSet::new();
            for (name, element) in elements.iter().filter_map(named) {
                let same = live_elements.iter().position(|other| other.get(NAME) == Some(name));
                if let Some((index, live)) = same.and_then(|index| Some((index, live_elements.get(index)?))) {
                    find_renamed(&Value::Object(element.clone()), live, format!("{pointer}/{index}"), found);
                    continue;
                }
                let mut renamed = (0..).zip(live_elements).filter(|(_, other)| is_renamed(element, other, elements));
                if let Some((index, _)) = renamed.find(|(index, _)| taken.insert(*index)) {
                    found.push(Repair { pointer: format!("{pointer}/{index}/{NAME}"), value: name.clone() });
                }
            }
        }
        _ => {}
    }
}

/// Returns the name and the members of an element that has enough members to be recognised.
fn named(element: &Value) -> Option<(&Value, &Map<String, Value>)> {
    let members = element.as_object().filter(|members| members.len() > MIN_OTHER_MEMBERS)?;
    Some((members.get(NAME).filter(|name| name.is_string())?, members))
}

/// Returns whether a live element equals one of ours except for the name, and its name is not that of another of ours.
fn is_renamed(element: &Map<String, Value>, live: &Value, all: &[Value]) -> bool {
    let is_another = all.iter().any(|other| other.get(NAME) == live.get(NAME));
    let mut members = element.iter().filter(|(key, _)| *key != NAME);
    !is_another && members.all(|(key, value)| live.get(key).is_some_and(|live| holds(live, value)))
}

/// Returns whether a live value has at least what is desired: the API server fills in defaults.
fn holds(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(key, value)| live.get(key).is_some_and(|live| holds(live, value)))
        }
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(live, desired)| holds(live, desired))
        }
        _ => live == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(containers: Value) -> Value {
        json!({ "spec": { "template": { "spec": { "containers": containers } } } })
    }

    fn ours() -> Value {
        json!({ "name": "memcached", "image": "i", "ports": [{ "containerPort": 1 }] })
    }

    fn as_served(name: &str) -> Value {
        json!({ "name": name, "image": "i", "ports": [{ "containerPort": 1, "protocol": "TCP" }], "stdin": false })
    }

    #[test]
    fn the_name_of_a_renamed_element_is_restored() {
        let repairs = repairs(&with(json!([ours()])), &with(json!([{ "name": "sidecar" }, as_served("renamed")])));
        let pointer = "/spec/template/spec/containers/1/name".to_owned();
        assert_eq!(repairs, [Repair { pointer, value: json!("memcached") }]);
    }

    #[test]
    fn each_of_two_elements_that_differ_only_in_name_gets_one_name_back() {
        let with_names = |names: [&str; 2]| with(names.map(as_served).into_iter().collect());
        let repairs = repairs(&with_names(["a", "b"]), &with_names(["x", "y"]));
        let expected = ["a", "b"].iter().enumerate().map(|(index, name)| Repair {
            pointer: format!("/spec/template/spec/containers/{index}/name"),
            value: json!(name),
        });
        assert_eq!(repairs, expected.collect::<Vec<_>>());
    }

    #[test]
    fn an_element_that_exists_or_is_foreign_is_not_renamed() {
        let desired = with(json!([ours()]));
        let others = [
            json!([as_served("renamed"), as_served("memcached")]),
            json!([{ "name": "renamed", "image": "other", "ports": [{ "containerPort": 1 }] }]),
            json!([{ "name": "renamed", "image": "i" }]),
            json!([{ "name": "renamed", "image": "i", "ports": [{ "containerPort": 2 }] }]),
            json!([{ "name": "renamed", "image": "i", "ports": [{ "containerPort": 1 }, { "containerPort": 2 }] }]),
            json!([]),
        ];
        for live in others {
            assert_eq!(repairs(&desired, &with(live.clone())), [], "{live}");
        }
        let both = with(
            json!([{ "name": "one", "image": "i", "stdin": true }, { "name": "two", "image": "i", "stdin": true }]),
        );
        let live = with(json!([{ "name": "two", "image": "i", "stdin": true }]));
        assert_eq!(repairs(&both, &live), [], "the live one has its own name");
    }

    #[test]
    fn an_element_with_little_more_than_a_name_is_not_matched() {
        let variable = |name: &str| json!({ "env": [{ "name": name, "value": "1" }] });
        assert_eq!(repairs(&variable("A"), &variable("B")), []);
        assert!(!is_missing(r#"{"f:env":{"k:{\"name\":\"B\"}":{".":{}}}}"#, &variable("A")));
    }

    #[test]
    fn an_element_whose_keys_we_do_not_own_is_missing() {
        let list = |list: &str| format!(r#"{{"f:spec":{{"f:template":{{"f:spec":{{"f:replicas":{{}}{list}}}}}}}}}"#);
        let desired = with(json!([ours()]));
        assert!(is_missing(&list(""), &desired));
        assert!(is_missing(&list(r#","f:containers":{"k:{\"name\":\"other\"}":{".":{}}}"#), &desired));
        assert!(!is_missing(&list(r#","f:containers":{"k:{\"name\":\"memcached\"}":{".":{}}}"#), &desired));
        assert!(!is_missing(&list(r#","f:containers":{}"#), &desired), "an atomic list");
        assert!(!is_missing("nonsense", &desired));
    }
}
