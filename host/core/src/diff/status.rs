//! A parent's status as it will be written: what the plugin stated, with the times and generations
//! that are the host's. Between *check* and *apply*; pure.
//!
//! `lastTransitionTime` is carried over from the newest version known and moves only when the
//! status of the condition does; from a stale copy it would make every write differ.

use serde_json::{Map, Value, json};

use crate::check::Denial;
use crate::check::status::{RECONCILED, STALLED, check};
use crate::diff;
use crate::model::decision::Condition;
use crate::model::object::{HOST_MANAGER, Object};

/// The `status` of a server-side apply: `{"status": {…}}`.
///
/// `parent` is the newest version known, `generation` the one that was decided on, and `now` is
/// RFC 3339 in whole seconds. Without a status, the fields that `manager` owns are repeated, for a
/// server-side apply removes those that it leaves out.
///
/// # Errors
/// When the plugin's status is no JSON object, or states what is the host's.
pub fn desired(
    status: Option<&str>,
    conditions: &[Condition],
    parent: &Object,
    manager: &str,
    generation: i64,
    now: &str,
) -> Result<Value, Denial> {
    let mut members = check(status, conditions)?;
    if status.is_none() {
        members = said_before(parent, manager);
    }
    let live = live_conditions(parent);
    if !conditions.is_empty() {
        let stated = conditions.iter().map(|condition| stamp(condition, &live, generation, now));
        members.insert("conditions".into(), stated.collect());
    }
    if members.is_empty() && owned(parent, manager).is_some() {
        return Ok(nothing());
    }
    Ok(of_members(members))
}

/// Without a copy, which `json!` would make.
fn of_members(status: Map<String, Value>) -> Value {
    Map::from_iter([("status".to_owned(), status.into())]).into()
}

/// Returns a status that removes all our fields. It has an empty list, because the API server turns an object into
/// `null` when an apply removes its last member, and then refuses it.
pub fn nothing() -> Value {
    json!({ "status": { "conditions": [] } })
}

/// Returns whether a field manager owns any field of the status.
pub fn says_anything(parent: &Object, manager: &str) -> bool {
    let says = |node: &Value| {
        node.as_object()
            .is_some_and(|node| node.iter().any(|(key, below)| key != "f:conditions" || *below != json!({})))
    };
    owned(parent, manager).is_some_and(|fields| says(&fields))
}

/// Whether a condition of the host's is there. Where conditions are one value, it is the host's when there is no other:
/// `fieldsV1` has that like a list in which the host says nothing.
pub fn has_host_condition(parent: &Object) -> bool {
    says_anything(parent, HOST_MANAGER) || (owned(parent, HOST_MANAGER).is_some() && has_host_conditions_alone(parent))
}

fn has_host_conditions_alone(parent: &Object) -> bool {
    let live = live_conditions(parent);
    let named = |condition: &Value, name| condition.get("type").and_then(Value::as_str) == Some(name);
    live.iter().any(|one| named(one, RECONCILED))
        && live.iter().all(|one| named(one, RECONCILED) || named(one, STALLED))
}

/// Returns whether the host says in its condition that something is wrong. It may also say there which revision decides.
pub fn states_failure(parent: &Object) -> bool {
    let is =
        |condition: &Value, field: &str, expected: &str| condition.get(field).and_then(Value::as_str) == Some(expected);
    has_host_condition(parent)
        && live_conditions(parent).iter().any(|one| is(one, "type", RECONCILED) && is(one, "status", "False"))
}

/// Whether there are conditions, and the host's is not among them.
pub fn has_conditions_of_others(parent: &Object) -> bool {
    !live_conditions(parent).is_empty() && !has_host_condition(parent)
}

/// What a field manager owns of the status.
fn owned(parent: &Object, manager: &str) -> Option<Value> {
    let fields: Value = serde_json::from_str(parent.owned_fields(manager, true)?).ok()?;
    fields.get("f:status").filter(|fields| fields.is_object()).cloned()
}

fn said_before(parent: &Object, manager: &str) -> Map<String, Value> {
    let (Some(live), Some(fields)) = (live(parent), owned(parent, manager)) else { return Map::new() };
    match part(&fields, &live) {
        Value::Object(mut members) => {
            members.remove("conditions");
            members
        }
        _ => Map::new(),
    }
}

/// What of a value a node of `fieldsV1` owns; of a list that has an owner at all, the whole.
fn part(node: &Value, live: &Value) -> Value {
    match (node.as_object().filter(|node| !node.is_empty()), live) {
        (Some(node), Value::Object(members)) => {
            let below =
                |(key, value): (&String, &Value)| Some((key.clone(), part(node.get(&format!("f:{key}"))?, value)));
            members.iter().filter_map(below).collect::<Map<_, _>>().into()
        }
        _ => live.clone(),
    }
}

/// The host's conditions alone, for the host's own field manager.
pub fn host_conditions(conditions: &[Condition], parent: &Object, now: &str) -> Value {
    let live = live_conditions(parent);
    let stamped = conditions.iter().map(|condition| stamp(condition, &live, parent.generation, now));
    of_members(Map::from_iter([("conditions".to_owned(), stamped.collect())]))
}

/// Whether the live status already says so: each desired member is there with this value, and our
/// field manager owns nothing beyond them.
pub fn is_current(desired: &Value, parent: &Object, manager: &str) -> bool {
    let nothing = desired.get("status").and_then(Value::as_object).is_none_or(Map::is_empty);
    let Some(fields) = parent.owned_fields(manager, true) else { return nothing };
    let says = |live: Value| desired.get("status").is_some_and(|desired| holds(&live, desired));
    live(parent).is_some_and(says) && !diff::exceeds(fields, desired)
}

/// The status as it is.
fn live(parent: &Object) -> Option<Value> {
    serde_json::from_str(parent.status()?).ok()
}

fn live_conditions(parent: &Object) -> Vec<Value> {
    let conditions = live(parent).and_then(|mut status| status.get_mut("conditions").map(Value::take));
    match conditions {
        Some(Value::Array(conditions)) => conditions,
        _ => Vec::new(),
    }
}

fn stamp(condition: &Condition, live: &[Value], generation: i64, now: &str) -> Value {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let unchanged = live.iter().find(|other| {
        text(other, "type").as_ref() == Some(&condition.name)
            && text(other, "status").as_deref() == Some(condition.status.as_str())
    });
    let since = unchanged.and_then(|other| text(other, "lastTransitionTime"));
    json!({
        "type": condition.name,
        "status": condition.status.as_str(),
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": generation,
        "lastTransitionTime": since.unwrap_or_else(|| now.to_owned()),
    })
}

/// Whether `live` has at least what `desired` says: others may say more, in an object of ours too.
/// Lists of conditions are compared by type.
fn holds(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, value)| {
            live.get(key).is_some_and(|mine| match value {
                Value::Array(_) if key == "conditions" => holds_all(mine, value),
                _ => holds(mine, value),
            })
        }),
        _ => live == desired,
    }
}

fn holds_all(live: &Value, desired: &Value) -> bool {
    let (Some(live), Some(desired)) = (live.as_array(), desired.as_array()) else { return false };
    desired.iter().all(|condition| live.contains(condition))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decision::Truth;
    use crate::model::object::{Lens, Object, Ownership};
    use crate::model::projection::Projection;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn parent(status: &str, fields: &str) -> Object {
        let lens = Lens { projection: Projection::new::<&str>(&[]), labels: vec![], status: true };
        let json = format!(
            r#"{{"metadata":{{"name":"a","generation":2,"managedFields":[{{"manager":"hotshoe/m","operation":"Apply","subresource":"status","fieldsV1":{fields}}}]}},"status":{status}}}"#
        );
        Object::read(&json, &lens).unwrap()
    }

    fn available(status: Truth) -> Condition {
        Condition { name: "Available".into(), status, reason: "R".into(), message: "m".into() }
    }

    fn live(status: &str, since: &str) -> String {
        format!(
            r#"{{"nodes":[],"conditions":[{{"type":"Available","status":"{status}","reason":"R","message":"m","observedGeneration":2,"lastTransitionTime":"{since}"}}]}}"#
        )
    }

    const FIELDS: &str = r#"{"f:status":{"f:nodes":{},"f:conditions":{"k:{\"type\":\"Available\"}":{".":{},"f:type":{},"f:status":{},"f:reason":{},"f:message":{},"f:observedGeneration":{},"f:lastTransitionTime":{}}}}}"#;

    #[test]
    fn the_time_moves_only_when_the_status_of_the_condition_does() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), FIELDS);
        let time = |status| {
            let desired = desired(None, &[available(status)], &parent, "hotshoe/m", 2, NOW).unwrap();
            desired.pointer("/status/conditions/0/lastTransitionTime").unwrap().as_str().unwrap().to_owned()
        };
        assert_eq!(time(Truth::True), "2020-01-01T00:00:00Z");
        assert_eq!(time(Truth::False), NOW);
    }

    #[test]
    fn an_equal_status_is_current_and_a_different_one_is_not() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), FIELDS);
        let current = |status: &str, conditions: &[Condition]| {
            is_current(&desired(Some(status), conditions, &parent, "hotshoe/m", 2, NOW).unwrap(), &parent, "hotshoe/m")
        };
        assert!(current(r#"{"nodes":[]}"#, &[available(Truth::True)]));
        assert!(!current(r#"{"nodes":["x"]}"#, &[available(Truth::True)]));
        assert!(!current(r#"{"nodes":[]}"#, &[available(Truth::False)]));
    }

    #[test]
    fn what_is_no_longer_stated_is_not_current() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), FIELDS);
        let desired = desired(Some(r#"{"nodes":[]}"#), &[], &parent, "hotshoe/m", 2, NOW).unwrap();
        assert!(!is_current(&desired, &parent, "hotshoe/m"));
    }

    #[test]
    fn an_empty_status_where_none_was_written_is_current() {
        let lens = Lens { projection: Projection::new::<&str>(&[]), labels: vec![], status: true };
        let parent = Object::read(r#"{"metadata":{"name":"a"}}"#, &lens).unwrap();
        assert!(is_current(&desired(None, &[], &parent, "hotshoe/m", 2, NOW).unwrap(), &parent, "hotshoe/m"));
    }

    #[test]
    fn a_status_that_is_left_out_is_repeated_and_conditions_are_removed() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), FIELDS);
        let silent = desired(None, &[], &parent, "hotshoe/m", 2, NOW).unwrap();
        assert_eq!(silent, json!({ "status": { "nodes": [] } }));
        let others = desired(None, &[], &parent, "hotshoe/other", 2, NOW).unwrap();
        assert_eq!(others, json!({ "status": {} }));
    }

    #[test]
    fn only_fields_of_our_own_are_repeated() {
        let fields = r#"{"f:status":{"f:a":{"f:b":{}},"f:list":{"k:{\"x\":1}":{}}}}"#;
        let parent = parent(r#"{"a":{"b":1,"c":2},"list":[{"x":1}],"theirs":true}"#, fields);
        let silent = desired(None, &[], &parent, "hotshoe/m", 2, NOW).unwrap();
        assert_eq!(silent, json!({ "status": { "a": { "b": 1 }, "list": [{ "x": 1 }] } }));
        assert!(is_current(&silent, &parent, "hotshoe/m"));
    }

    #[test]
    fn the_last_field_is_removed_by_an_empty_list() {
        let before = r#"{"conditions":[{"type":"Available","status":"True"}]}"#;
        let stated =
            r#"{"f:status":{"f:conditions":{"k:{\"type\":\"Available\"}":{".":{},"f:type":{},"f:status":{}}}}}"#;
        let before = parent(before, stated);
        let silent = desired(None, &[], &before, "hotshoe/m", 2, NOW).unwrap();
        assert_eq!(silent, nothing());
        assert!(says_anything(&before, "hotshoe/m") && !is_current(&silent, &before, "hotshoe/m"));
        let after = parent(r#"{"conditions":[]}"#, r#"{"f:status":{"f:conditions":{}}}"#);
        let silent = desired(None, &[], &after, "hotshoe/m", 2, NOW).unwrap();
        assert!(is_current(&silent, &after, "hotshoe/m") && !says_anything(&after, "hotshoe/m"));
    }

    #[test]
    fn the_hosts_condition_is_known_in_a_list_by_type_and_in_one_that_has_one_owner() {
        let of_host = |status: &str, fields: &str| {
            let parent = parent(status, fields);
            let ownership =
                parent.ownership.iter().map(|entry| Ownership { manager: HOST_MANAGER.into(), ..entry.clone() });
            Object { ownership: ownership.collect(), ..parent }
        };
        let (host, other) = (r#"{"type":"Reconciled","status":"False"}"#, r#"{"type":"Ready","status":"True"}"#);
        let list = |conditions: &str| format!(r#"{{"conditions":[{conditions}]}}"#);
        let by_type = r#"{"f:status":{"f:conditions":{"k:{\"type\":\"Reconciled\"}":{".":{},"f:type":{}}}}}"#;
        let whole = r#"{"f:status":{"f:conditions":{}}}"#;
        assert!(has_host_condition(&of_host(&list(&format!("{other},{host}")), by_type)));
        assert!(has_host_condition(&of_host(&list(host), whole)));
        let named = r#"{"type":"Reconciled","status":"True"}"#;
        assert!(states_failure(&of_host(&list(host), by_type)) && !states_failure(&of_host(&list(named), by_type)));
        assert!(!states_failure(&parent(&list(host), whole)), "another says so");
        let stalled = r#"{"type":"Stalled","status":"True"}"#;
        assert!(has_host_condition(&of_host(&list(&format!("{host},{stalled}")), whole)));
        assert!(!has_host_condition(&of_host(&list(stalled), whole)), "a plugin may say that, too");
        let taken_back = of_host(&list(other), whole);
        assert!(!has_host_condition(&taken_back) && has_conditions_of_others(&taken_back));
        let of_plugin = parent(&list(other), whole);
        assert!(!has_host_condition(&of_plugin) && has_conditions_of_others(&of_plugin));
        let empty = of_host(&list(""), whole);
        assert!(!has_host_condition(&empty) && !has_conditions_of_others(&empty));
    }

    #[test]
    fn a_condition_that_the_host_no_longer_states_is_not_current() {
        let condition =
            |name: &str, status| Condition { name: name.into(), status, reason: "R".into(), message: "m".into() };
        let both = [condition(RECONCILED, Truth::False), condition(STALLED, Truth::True)];
        let stated = host_conditions(&both, &parent("{}", "{}"), NOW);
        let fields = r#"{"f:status":{"f:conditions":{"k:{\"type\":\"Reconciled\"}":{".":{},"f:type":{},"f:status":{},"f:reason":{},"f:message":{},"f:observedGeneration":{},"f:lastTransitionTime":{}},"k:{\"type\":\"Stalled\"}":{".":{},"f:type":{},"f:status":{},"f:reason":{},"f:message":{},"f:observedGeneration":{},"f:lastTransitionTime":{}}}}}"#;
        let live = parent(&stated["status"].to_string(), fields);
        let current =
            |conditions: &[Condition]| is_current(&host_conditions(conditions, &live, NOW), &live, "hotshoe/m");
        assert!(current(&both));
        assert!(!current(&both[..1]), "it is tried again, so that it is not stalled any more");
    }

    #[test]
    fn the_hosts_condition_is_not_a_plugins() {
        let parent = parent("{}", "{}");
        let mut condition = available(Truth::True);
        condition.name = RECONCILED.into();
        assert!(desired(None, &[condition], &parent, "hotshoe/m", 2, NOW).is_err());
    }
}
