//! Builds a parent's status as it will be written: what the plugin stated, with the times and generations that the host
//! sets. Runs between *check* and *apply*; pure.
//!
//! `lastTransitionTime` is carried over from the newest known version and changes only together with the condition's
//! status. Taken from a stale copy, it would make every write differ.

use serde_json::{Map, Value, json};

use crate::check::Denial;
use crate::check::ignored::CHILDREN_IGNORED;
use crate::check::status::{READY, RECONCILED, RECONCILING, STALLED, check};
use crate::diff;
use crate::model::decision::Condition;
use crate::model::managed_fields::FieldSet;
use crate::model::object::{HOST_MANAGER, Object};

/// Returns the body of a server-side apply of the status: `{"status": {…}}`.
///
/// `parent` is the newest known version, `generation` the one on which the decision is based, and `now` is in RFC 3339
/// with whole seconds. If the plugin states no status, the fields that `manager` owns are repeated, because a
/// server-side apply removes the fields that it leaves out.
///
/// # Errors
/// When the plugin's status is not a JSON object, or states what only the host may state.
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
        members = stated_before(parent, manager);
    }
    let live = live_conditions(parent);
    if !conditions.is_empty() {
        let stated = conditions.iter().map(|condition| stamp(condition, &live, generation, now));
        members.insert("conditions".into(), stated.collect());
    }
    if members.is_empty() && owned(parent, manager).is_some() {
        return Ok(cleared());
    }
    Ok(of_members(members))
}

/// Wraps the members of a status without a copy, which `json!` would make.
fn of_members(status: Map<String, Value>) -> Value {
    Map::from_iter([("status".to_owned(), status.into())]).into()
}

/// Returns a status whose apply removes all fields of its field manager. It contains an empty list, because when an
/// apply removes the last member of an object, the API server turns the object into `null` and then rejects it.
pub fn cleared() -> Value {
    json!({ "status": { "conditions": [] } })
}

/// Returns whether a field manager owns any field of the status.
pub fn owns_any_field(parent: &Object, manager: &str) -> bool {
    let has_fields = |node: &Value| {
        node.as_object()
            .is_some_and(|node| node.iter().any(|(key, below)| key != "f:conditions" || *below != json!({})))
    };
    owned(parent, manager).is_some_and(|fields| has_fields(&fields))
}

/// Returns whether the status has a condition of the host. If the list of conditions is atomic, `fieldsV1` cannot tell
/// it from an associative list in which the host owns nothing; then the list counts as the host's if it has no other
/// conditions than the host's.
pub fn has_host_condition(parent: &Object) -> bool {
    owns_any_field(parent, HOST_MANAGER) || (owned(parent, HOST_MANAGER).is_some() && has_host_conditions_alone(parent))
}

fn has_host_conditions_alone(parent: &Object) -> bool {
    let live = live_conditions(parent);
    let named = |condition: &Value, names: &[&str]| {
        condition.get("type").and_then(Value::as_str).is_some_and(|name| names.contains(&name))
    };
    // Beside these the host states none without the first.
    let is_host = |one: &Value| named(one, &[RECONCILED, CHILDREN_IGNORED]);
    let of_failure = live.iter().any(|one| named(one, &[RECONCILED]));
    let beside: &[&str] = if of_failure { &[READY, RECONCILING, STALLED] } else { &[STALLED] };
    live.iter().any(is_host) && live.iter().all(|one| is_host(one) || named(one, beside))
}

/// Returns whether the host's condition reports a failure. The condition may also exist only to name the deciding
/// revision.
pub fn states_failure(parent: &Object) -> bool {
    let is =
        |condition: &Value, field: &str, expected: &str| condition.get(field).and_then(Value::as_str) == Some(expected);
    has_host_condition(parent)
        && live_conditions(parent).iter().any(|one| is(one, "type", RECONCILED) && is(one, "status", "False"))
}

/// Returns whether there are conditions, and none of them is the host's.
pub fn has_conditions_of_others(parent: &Object) -> bool {
    !live_conditions(parent).is_empty() && !has_host_condition(parent)
}

/// Returns the fields of the status that a field manager owns.
fn owned(parent: &Object, manager: &str) -> Option<Value> {
    let mut fields: Value = serde_json::from_str(parent.owned_fields(manager, true)?).ok()?;
    fields.get_mut("f:status").filter(|fields| fields.is_object()).map(Value::take)
}

/// Returns what a field manager owns of the live status, without the conditions.
fn stated_before(parent: &Object, manager: &str) -> Map<String, Value> {
    let (Some(live), Some(fields)) = (live(parent), owned(parent, manager)) else { return Map::new() };
    match part(&fields, &live) {
        Value::Object(mut members) => {
            members.remove("conditions");
            members
        }
        _ => Map::new(),
    }
}

/// Returns the part of a value that a node of `fieldsV1` owns. A list that is owned in part is returned as a whole.
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

/// Returns a status with only the host's conditions, for the host's own field manager.
pub fn host_conditions(conditions: &[Condition], parent: &Object, now: &str) -> Value {
    let live = live_conditions(parent);
    let stamped = conditions.iter().map(|condition| stamp(condition, &live, parent.generation, now));
    of_members(Map::from_iter([("conditions".to_owned(), stamped.collect())]))
}

/// Returns the host's conditions, with the generation of the parent that they are about unless there is no room for it.
pub fn host_status(conditions: &[Condition], parent: &Object, generation: Option<i64>, now: &str) -> Value {
    let mut desired = host_conditions(conditions, parent, now);
    if let Some(generation) = generation {
        observe(&mut desired, generation);
    }
    desired
}

/// The generation of the parent that was decided about, by the convention of Kubernetes. Tools that wait for objects
/// compare it with `metadata.generation`.
const OBSERVED_GENERATION: &str = "observedGeneration";

/// States in a desired status which generation of the parent was decided about.
pub fn observe(desired: &mut Value, generation: i64) {
    if let Some(Value::Object(status)) = desired.get_mut("status") {
        status.insert(OBSERVED_GENERATION.to_owned(), generation.into());
    }
}

/// Returns whether a desired status names the generation already.
pub fn names_generation(desired: &Value) -> bool {
    desired.get("status").is_some_and(|status| status.get(OBSERVED_GENERATION).is_some())
}

/// Returns whether a field manager owns the observed generation. If it does not, another may remove it.
pub fn owns_generation(parent: &Object, manager: &str) -> bool {
    let fields = parent.owned_fields(manager, true).and_then(|fields| FieldSet::read(fields).ok());
    fields.is_some_and(|fields| {
        fields.member("status").is_some_and(|status| status.member(OBSERVED_GENERATION).is_some())
    })
}

/// Returns the generation that the status is about so far; 0, which is before the first, if it says none.
pub fn observed_generation(parent: &Object) -> i64 {
    live(parent).and_then(|status| status.get(OBSERVED_GENERATION)?.as_i64()).unwrap_or_default()
}

/// Returns whether another writer, of which the host knows nothing, states the observed generation. The default of a
/// schema that marks objects which no controller has seen yet is below zero.
pub fn has_foreign_generation(parent: &Object) -> bool {
    let is_known = parent.ownership.iter().any(|entry| entry.status && owns_generation(parent, &entry.manager));
    observed_generation(parent) > 0 && !is_known
}

/// A condition that another than the host states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Whether it holds: `True`, `False` or `Unknown`.
    pub status: String,
    /// Whether one of the plugin's field managers states it, and not another program.
    pub is_of_plugin: bool,
}

/// Returns what others than the host state in a condition.
pub fn stated_by_others(parent: &Object, name: &str) -> Option<Statement> {
    let live = live_conditions(parent);
    let condition = live.iter().find(|one| one.get("type").and_then(Value::as_str) == Some(name))?;
    let key = format!("k:{}", json!({ "type": name }));
    let states = |manager: &str| {
        let fields = owned(parent, manager);
        fields.is_some_and(|fields| fields.get("f:conditions").is_some_and(|list| list.get(&key).is_some()))
    };
    let mut others = parent.ownership.iter().filter(|entry| entry.status && &*entry.manager != HOST_MANAGER);
    let is_of_plugin = others.any(|entry| states(&entry.manager));
    let status = condition.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
    (is_of_plugin || !states(HOST_MANAGER)).then_some(Statement { status, is_of_plugin })
}

/// Returns whether the live status is as desired: each desired member has its value, and `manager` owns no field beyond
/// them.
pub fn is_current(desired: &Value, parent: &Object, manager: &str) -> bool {
    let is_empty = desired.get("status").and_then(Value::as_object).is_none_or(Map::is_empty);
    let Some(fields) = parent.owned_fields(manager, true) else { return is_empty };
    let is_as_desired = |live: Value| desired.get("status").is_some_and(|desired| holds(&live, desired));
    live(parent).is_some_and(is_as_desired) && !diff::exceeds(fields, desired)
}

/// Returns the live status.
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
    let is = |other: &Value, field: &str, text: &str| other.get(field).and_then(Value::as_str) == Some(text);
    let unchanged =
        live.iter().find(|other| is(other, "type", &condition.name) && is(other, "status", condition.status.as_str()));
    let since = unchanged.and_then(|other| other.get("lastTransitionTime")?.as_str());
    json!({
        "type": condition.name,
        "status": condition.status.as_str(),
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": generation,
        "lastTransitionTime": since.unwrap_or(now),
    })
}

/// Returns whether `live` has at least what is desired: others may have added members, even to objects of ours. Each
/// desired condition must be in the live list.
fn holds(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, value)| {
            live.get(key).is_some_and(|live| match value {
                Value::Array(_) if key == "conditions" => holds_all(live, value),
                _ => holds(live, value),
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
    use crate::model::object::{KeptFields, Object, Ownership};
    use crate::model::projection::Projection;

    const NOW: &str = "2026-01-02T03:04:05Z";
    const NODES: &str = r#""f:nodes":{},"#;

    fn parent(status: &str, fields: &str) -> Object {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: vec![], status: true };
        let entry = r#""manager":"hotshoe/m","operation":"Apply","subresource":"status""#;
        let managers = format!(r#"[{{{entry},"fieldsV1":{fields}}}]"#);
        let metadata = format!(r#"{{"name":"a","generation":2,"managedFields":{managers}}}"#);
        let json = format!(r#"{{"metadata":{metadata},"status":{status}}}"#);
        Object::read(&json, &kept_fields).unwrap()
    }

    fn available(status: Truth) -> Condition {
        Condition { name: "Available".into(), status, reason: "R".into(), message: "m".into() }
    }

    fn live(status: &str, since: &str) -> String {
        let condition = r#""type":"Available","reason":"R","message":"m","observedGeneration":2"#;
        let times = format!(r#""status":"{status}","lastTransitionTime":"{since}""#);
        format!(r#"{{"nodes":[],"conditions":[{{{condition},{times}}}]}}"#)
    }

    /// Returns the fields of conditions of these types, and of what is beside them, as `managedFields` has them.
    fn fields_of(beside: &str, conditions: &[&str]) -> String {
        let fields = r#"".":{},"f:type":{},"f:status":{},"f:reason":{},"f:message":{}"#;
        let times = r#""f:observedGeneration":{},"f:lastTransitionTime":{}"#;
        let of_one = |name: &&str| format!(r#""k:{{\"type\":\"{name}\"}}":{{{fields},{times}}}"#);
        let conditions: Vec<String> = conditions.iter().map(of_one).collect();
        format!(r#"{{"f:status":{{{beside}"f:conditions":{{{}}}}}}}"#, conditions.join(","))
    }

    #[test]
    fn the_time_moves_only_when_the_status_of_the_condition_does() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), &fields_of(NODES, &["Available"]));
        let time = |status| {
            let desired = desired(None, &[available(status)], &parent, "hotshoe/m", 2, NOW).unwrap();
            desired.pointer("/status/conditions/0/lastTransitionTime").unwrap().as_str().unwrap().to_owned()
        };
        assert_eq!(time(Truth::True), "2020-01-01T00:00:00Z");
        assert_eq!(time(Truth::False), NOW);
    }

    #[test]
    fn an_equal_status_is_current_and_a_different_one_is_not() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), &fields_of(NODES, &["Available"]));
        let current = |status: &str, conditions: &[Condition]| {
            is_current(&desired(Some(status), conditions, &parent, "hotshoe/m", 2, NOW).unwrap(), &parent, "hotshoe/m")
        };
        assert!(current(r#"{"nodes":[]}"#, &[available(Truth::True)]));
        assert!(!current(r#"{"nodes":["x"]}"#, &[available(Truth::True)]));
        assert!(!current(r#"{"nodes":[]}"#, &[available(Truth::False)]));
    }

    #[test]
    fn a_status_with_a_condition_that_is_no_longer_stated_is_not_current() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), &fields_of(NODES, &["Available"]));
        let desired = desired(Some(r#"{"nodes":[]}"#), &[], &parent, "hotshoe/m", 2, NOW).unwrap();
        assert!(!is_current(&desired, &parent, "hotshoe/m"));
    }

    #[test]
    fn others_may_add_conditions_and_members_but_no_elements_to_other_lists() {
        let desired = json!({ "conditions": [{ "type": "A" }], "nodes": ["a"], "more": { "b": 1 } });
        let with = |key: &str, value: Value| {
            let mut live = desired.clone();
            live[key] = value;
            holds(&live, &desired)
        };
        assert!(with("conditions", json!([{ "type": "Theirs" }, { "type": "A" }])));
        assert!(with("more", json!({ "b": 1, "theirs": 2 })));
        assert!(!with("conditions", json!([{ "type": "Theirs" }])));
        assert!(!with("nodes", json!(["a", "theirs"])));
        assert!(!with("more", json!({ "b": 2 })));
    }

    #[test]
    fn an_empty_status_where_none_was_written_is_current() {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: vec![], status: true };
        let parent = Object::read(r#"{"metadata":{"name":"a"}}"#, &kept_fields).unwrap();
        assert!(is_current(&desired(None, &[], &parent, "hotshoe/m", 2, NOW).unwrap(), &parent, "hotshoe/m"));
    }

    #[test]
    fn a_status_that_is_left_out_is_repeated_and_conditions_are_removed() {
        let parent = parent(&live("True", "2020-01-01T00:00:00Z"), &fields_of(NODES, &["Available"]));
        let silent = desired(None, &[], &parent, "hotshoe/m", 2, NOW).unwrap();
        assert_eq!(silent, json!({ "status": { "nodes": [] } }));
        let others = desired(None, &[], &parent, "hotshoe/other", 2, NOW).unwrap();
        assert_eq!(others, json!({ "status": {} }));
    }

    #[test]
    fn only_our_own_fields_are_repeated() {
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
        assert_eq!(silent, cleared());
        assert!(owns_any_field(&before, "hotshoe/m") && !is_current(&silent, &before, "hotshoe/m"));
        let after = parent(r#"{"conditions":[]}"#, r#"{"f:status":{"f:conditions":{}}}"#);
        let silent = desired(None, &[], &after, "hotshoe/m", 2, NOW).unwrap();
        assert!(is_current(&silent, &after, "hotshoe/m") && !owns_any_field(&after, "hotshoe/m"));
    }

    #[test]
    fn the_hosts_condition_is_recognised_in_an_associative_and_in_an_atomic_list() {
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
        let ignored = r#"{"type":"ChildrenIgnored","status":"True"}"#;
        for alone in [ignored.to_owned(), format!("{host},{ignored}")] {
            assert!(has_host_condition(&of_host(&list(&alone), whole)), "{alone}");
        }
        assert!(!has_host_condition(&of_host(&list(&format!("{other},{ignored}")), whole)));
        assert!(!states_failure(&of_host(&list(ignored), whole)));
        let named = r#"{"type":"Reconciled","status":"True"}"#;
        assert!(states_failure(&of_host(&list(host), by_type)) && !states_failure(&of_host(&list(named), by_type)));
        assert!(!states_failure(&parent(&list(host), whole)), "another manager states it");
        let stalled = r#"{"type":"Stalled","status":"True"}"#;
        assert!(has_host_condition(&of_host(&list(&format!("{host},{stalled}")), whole)));
        assert!(!has_host_condition(&of_host(&list(stalled), whole)), "a plugin may state that, too");
        let replaced = of_host(&list(other), whole);
        assert!(!has_host_condition(&replaced) && has_conditions_of_others(&replaced));
        let of_plugin = parent(&list(other), whole);
        assert!(!has_host_condition(&of_plugin) && has_conditions_of_others(&of_plugin));
        let empty = of_host(&list(""), whole);
        assert!(!has_host_condition(&empty) && !has_conditions_of_others(&empty));
    }

    #[test]
    fn a_condition_is_of_others_unless_the_host_alone_states_it() {
        let stated = |managers: &[&str]| {
            let fields = r#"{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:type":{}}}}}"#;
            let parent = parent(r#"{"conditions":[{"type":"Ready","status":"Unknown"}]}"#, fields);
            let of = |manager: &&str| {
                parent
                    .ownership
                    .iter()
                    .map(|entry| Ownership { manager: (*manager).into(), ..entry.clone() })
                    .collect::<Vec<_>>()
            };
            let ownership = managers.iter().flat_map(of).collect();
            stated_by_others(&Object { ownership, ..parent }, "Ready")
        };
        let of = |is_of_plugin| Some(Statement { status: "Unknown".into(), is_of_plugin });
        assert_eq!(stated(&[HOST_MANAGER]), None);
        assert_eq!(stated(&["hotshoe/m"]), of(true));
        assert_eq!(stated(&[HOST_MANAGER, "hotshoe/m"]), of(true), "the plugin has taken it over");
        assert_eq!(stated(&[]), of(false), "of another controller");
        assert_eq!(stated_by_others(&parent("{}", "{}"), "Ready"), None);
    }

    #[test]
    fn the_generation_of_another_controller_is_recognised_and_the_default_of_a_schema_is_not_one() {
        let ours = r#"{"f:status":{"f:observedGeneration":{}}}"#;
        let is_foreign = |status: &str, fields: &str| has_foreign_generation(&parent(status, fields));
        assert!(is_foreign(r#"{"observedGeneration":1}"#, "{}"));
        assert!(!is_foreign(r#"{"observedGeneration":1}"#, ours));
        assert!(!is_foreign(r#"{"observedGeneration":-1}"#, "{}") && !is_foreign("{}", "{}"));
        let mut desired = json!({ "status": {} });
        observe(&mut desired, 2);
        assert_eq!(desired, json!({ "status": { "observedGeneration": 2 } }));
        assert!(names_generation(&desired) && !names_generation(&json!({ "status": {} })));
    }

    #[test]
    fn a_condition_that_the_host_no_longer_states_is_not_current() {
        let condition =
            |name: &str, status| Condition { name: name.into(), status, reason: "R".into(), message: "m".into() };
        let both = [condition(RECONCILED, Truth::False), condition(STALLED, Truth::True)];
        let stated = host_conditions(&both, &parent("{}", "{}"), NOW);
        let live = parent(&stated["status"].to_string(), &fields_of("", &[RECONCILED, STALLED]));
        let current =
            |conditions: &[Condition]| is_current(&host_conditions(conditions, &live, NOW), &live, "hotshoe/m");
        assert!(current(&both));
        assert!(!current(&both[..1]), "the parent is retried, so it is no longer stalled");
    }

    #[test]
    fn a_plugin_may_not_state_the_hosts_condition() {
        let parent = parent("{}", "{}");
        let mut condition = available(Truth::True);
        condition.name = RECONCILED.into();
        assert!(desired(None, &[condition], &parent, "hotshoe/m", 2, NOW).is_err());
    }
}
