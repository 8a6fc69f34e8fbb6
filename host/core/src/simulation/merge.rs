//! What a server-side apply makes of an object, without a schema: how a list is merged is known by the members of its
//! elements, as the API server's own kinds name them.

use serde_json::{Map, Value};

/// The members by which the API server identifies the elements of its lists.
const LIST_KEYS: [&str; 8] = ["name", "type", "key", "containerPort", "port", "mountPath", "ip", "topologyKey"];
/// Identifies a port beside its number.
const PROTOCOL: &str = "protocol";
const DEFAULT_PROTOCOL: &str = "TCP";

/// Returns the member that identifies the elements of lists; `None` if they are replaced as a whole.
pub fn list_key<'v>(elements: impl Iterator<Item = &'v Value> + Clone) -> Option<&'static str> {
    let mut elements = elements.peekable();
    elements.peek()?;
    LIST_KEYS.into_iter().find(|key| elements.clone().all(|element| element.get(key).is_some()))
}

/// Returns whether two elements of lists with this key are the same one.
pub fn same_element(key: &str, one: &Value, other: &Value) -> bool {
    let protocol = |port: &Value| port.get(PROTOCOL).and_then(Value::as_str).unwrap_or(DEFAULT_PROTOCOL).to_owned();
    let is_port = matches!(key, "containerPort" | "port");
    one.get(key) == other.get(key) && (!is_port || protocol(one) == protocol(other))
}

/// Returns an object after an apply, by a field manager that applied `before` earlier.
pub(super) fn applied(live: &Value, desired: &Value, before: &Value) -> Value {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => members(live, desired, before),
        (Value::Array(live), Value::Array(desired)) => elements(live, desired, before),
        _ => desired.clone(),
    }
}

fn members(live: &Map<String, Value>, desired: &Map<String, Value>, before: &Value) -> Value {
    let mut result = live.clone();
    for (name, before) in before.as_object().into_iter().flatten().filter(|(name, _)| !desired.contains_key(*name)) {
        match result.get(name).and_then(|live| without(live, before)) {
            Some(left) => drop(result.insert(name.clone(), left)),
            None => drop(result.remove(name)),
        }
    }
    for (name, desired) in desired {
        let before = before.get(name).unwrap_or(&Value::Null);
        let value = result.get(name).map_or_else(|| desired.clone(), |live| applied(live, desired, before));
        result.insert(name.clone(), value);
    }
    result.into()
}

fn elements(live: &[Value], desired: &[Value], before: &Value) -> Value {
    let Some(key) = list_key(live.iter().chain(desired)) else { return desired.into() };
    let before = before.as_array().map_or(&[][..], Vec::as_slice);
    let find = |list: &'_ [Value], element: &Value| list.iter().position(|other| same_element(key, other, element));
    let kept = live.iter().filter_map(|live| {
        let was = find(before, live).and_then(|place| before.get(place));
        match find(desired, live).and_then(|place| desired.get(place)) {
            Some(desired) => Some(applied(live, desired, was.unwrap_or(&Value::Null))),
            None => was.is_none().then(|| live.clone()),
        }
    });
    let added = desired.iter().filter(|desired| find(live, desired).is_none()).cloned();
    kept.chain(added).collect()
}

/// Returns what is left of a value without what was applied.
fn without(live: &Value, before: &Value) -> Option<Value> {
    let (Value::Object(live), Value::Object(before)) = (live, before) else { return None };
    let left = live.iter().filter_map(|(name, live)| match before.get(name) {
        Some(before) => without(live, before).map(|left| (name.clone(), left)),
        None => Some((name.clone(), live.clone())),
    });
    let left: Map<String, Value> = left.collect();
    (!left.is_empty()).then(|| left.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_merged_by_their_key_and_those_of_others_stay() {
        let live = json!([{ "name": "a", "image": "1", "stdin": true }, { "name": "theirs" }, { "name": "b" }]);
        let (desired, before) = (json!([{ "name": "a", "image": "2" }]), json!([{ "name": "a" }, { "name": "b" }]));
        let expected = json!([{ "name": "a", "image": "2", "stdin": true }, { "name": "theirs" }]);
        assert_eq!(applied(&live, &desired, &before), expected);
    }

    #[test]
    fn ports_of_one_number_differ_by_protocol() {
        let live = json!([{ "port": 53, "protocol": "UDP" }]);
        let desired = json!([{ "port": 53 }]);
        assert_eq!(applied(&live, &desired, &Value::Null), json!([{ "port": 53, "protocol": "UDP" }, { "port": 53 }]));
        let again = json!([{ "port": 53, "protocol": "TCP" }]);
        assert_eq!(applied(&again, &desired, &Value::Null), again);
    }

    #[test]
    fn a_list_without_a_key_is_replaced() {
        assert_eq!(applied(&json!(["a", "b"]), &json!(["c"]), &Value::Null), json!(["c"]));
        assert_eq!(applied(&json!([{ "x": 1 }]), &json!([]), &Value::Null), json!([]));
    }

    #[test]
    fn a_map_that_was_applied_goes_but_for_what_others_added() {
        let live = json!({ "labels": { "ours": "1", "theirs": "2" }, "only": { "ours": "1" } });
        let before = json!({ "labels": { "ours": "1" }, "only": { "ours": "1" } });
        assert_eq!(applied(&live, &json!({}), &before), json!({ "labels": { "theirs": "2" } }));
    }
}
