//! A parent's status as it will be written: what the plugin stated, with the times and generations
//! that are the host's. Between *check* and *apply*; pure.
//!
//! `lastTransitionTime` is carried over from the newest version known and moves only when the
//! status of the condition does; taken from a stale copy it would make every write differ.

use serde_json::{Map, Value, json};

use crate::decision::Condition;
use crate::diff;
use crate::error::Violation;
use crate::object::Object;

/// The host's own condition: whether the last decision could be carried out.
pub const RECONCILED: &str = "Reconciled";

/// The `status` of a server-side apply: `{"status": {…}}`.
///
/// `parent` is the newest version known, `generation` the one that was decided on, and `now` is
/// RFC 3339 in whole seconds.
///
/// # Errors
/// When the plugin's status is no JSON object, or states what is the host's.
pub fn desired(
    status: Option<&str>,
    conditions: &[Condition],
    parent: &Object,
    generation: i64,
    now: &str,
) -> Result<Value, Violation> {
    let mut members = check(status, conditions)?;
    let live = live_conditions(parent);
    if !conditions.is_empty() {
        let stated = conditions.iter().map(|condition| stamp(condition, &live, generation, now));
        members.insert("conditions".into(), stated.collect());
    }
    Ok(json!({ "status": members }))
}

/// The plugin's own part of the status, if it may be written.
///
/// # Errors
/// When it is no JSON object, or states what is the host's.
pub fn check(status: Option<&str>, conditions: &[Condition]) -> Result<Map<String, Value>, Violation> {
    let members = read(status)?;
    if members.contains_key("conditions") {
        return Err(violation("conditions belong into the list of conditions, not into the status".into()));
    }
    for (index, condition) in conditions.iter().enumerate() {
        if condition.name == RECONCILED {
            return Err(violation(format!("the condition {RECONCILED} is the host's")));
        }
        if conditions.iter().take(index).any(|other| other.name == condition.name) {
            return Err(violation(format!("the condition {} is stated twice", condition.name)));
        }
    }
    Ok(members)
}

/// The host's condition alone, for the host's own field manager.
pub fn host_condition(condition: &Condition, parent: &Object, now: &str) -> Value {
    let stamped = stamp(condition, &live_conditions(parent), parent.generation, now);
    json!({ "status": { "conditions": [stamped] } })
}

/// Whether the live status already says so: each desired member is there with this value, and our
/// field manager owns nothing beyond them.
pub fn is_current(desired: &Value, parent: &Object, manager: &str) -> bool {
    let nothing = desired.get("status").and_then(Value::as_object).is_none_or(Map::is_empty);
    let Some(fields) = parent.owned_fields(manager, true) else { return nothing };
    let live = parent.status.as_deref().and_then(|status| serde_json::from_str::<Value>(status).ok());
    let says = |live: &Value| desired.get("status").is_some_and(|desired| holds(live, desired));
    live.as_ref().is_some_and(says) && !diff::exceeds(fields, desired)
}

fn violation(message: String) -> Violation {
    Violation { rule: "status", message: format!("the status cannot be written: {message}") }
}

fn read(status: Option<&str>) -> Result<Map<String, Value>, Violation> {
    let Some(status) = status else { return Ok(Map::new()) };
    serde_json::from_str(status).map_err(|error| violation(format!("it is no JSON object: {error}")))
}

fn live_conditions(parent: &Object) -> Vec<Value> {
    let status = parent.status.as_deref().and_then(|status| serde_json::from_str::<Value>(status).ok());
    let conditions = status.and_then(|mut status| status.get_mut("conditions").map(Value::take));
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

/// Whether `live` has at least what `desired` says; lists of conditions are compared by type.
fn holds(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, value)| {
            live.get(key).is_some_and(|mine| if key == "conditions" { holds_all(mine, value) } else { mine == value })
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
    use crate::decision::Truth;
    use crate::object::{Lens, Object};
    use crate::projection::Projection;

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
            let desired = desired(None, &[available(status)], &parent, 2, NOW).unwrap();
            desired.pointer("/status/conditions/0/lastTransitionTime").unwrap().as_str().unwrap().to_owned()
        };
        assert_eq!(time(Truth::True), "2020-01-01T00:00:00Z");
        assert_eq!(time(Truth::False), NOW);
    }

    #[test]
    fn an_equal_status_is_current_and_a_different_one_is_not() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), FIELDS);
        let current = |status: &str, conditions: &[Condition]| {
            is_current(&desired(Some(status), conditions, &parent, 2, NOW).unwrap(), &parent, "hotshoe/m")
        };
        assert!(current(r#"{"nodes":[]}"#, &[available(Truth::True)]));
        assert!(!current(r#"{"nodes":["x"]}"#, &[available(Truth::True)]));
        assert!(!current(r#"{"nodes":[]}"#, &[available(Truth::False)]));
    }

    #[test]
    fn what_is_no_longer_stated_is_not_current() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), FIELDS);
        let desired = desired(Some(r#"{"nodes":[]}"#), &[], &parent, 2, NOW).unwrap();
        assert!(!is_current(&desired, &parent, "hotshoe/m"));
    }

    #[test]
    fn saying_nothing_where_nothing_was_said_is_current() {
        let lens = Lens { projection: Projection::new::<&str>(&[]), labels: vec![], status: true };
        let parent = Object::read(r#"{"metadata":{"name":"a"}}"#, &lens).unwrap();
        assert!(is_current(&desired(None, &[], &parent, 2, NOW).unwrap(), &parent, "hotshoe/m"));
    }

    #[test]
    fn the_hosts_condition_is_not_a_plugins() {
        let parent = parent("{}", "{}");
        let mut condition = available(Truth::True);
        condition.name = RECONCILED.into();
        assert!(desired(None, &[condition], &parent, 2, NOW).is_err());
    }
}
