//! What a server-side apply adds to an object, without a schema: how a list is merged is known by the members of its
//! elements, as the API server's own kinds name them.

use serde_json::{Map, Value};

/// The members by which the API server identifies the elements of its lists.
const LIST_KEYS: [&str; 8] = ["name", "type", "key", "containerPort", "port", "mountPath", "ip", "topologyKey"];
/// Identifies a port beside its number.
pub(super) const PROTOCOL: &str = "protocol";
pub(super) const DEFAULT_PROTOCOL: &str = "TCP";

/// Returns the member that identifies the elements of lists; `None` if they are replaced as a whole.
pub fn list_key<'v>(elements: impl Iterator<Item = &'v Value> + Clone) -> Option<&'static str> {
    let mut elements = elements.peekable();
    elements.peek()?;
    LIST_KEYS.into_iter().find(|key| elements.clone().all(|element| element.get(key).is_some()))
}

/// Returns whether two elements of lists with this key are the same one.
pub fn same_element(key: &str, one: &Value, other: &Value) -> bool {
    let protocol = |port: &Value| port.get(PROTOCOL).and_then(Value::as_str).unwrap_or(DEFAULT_PROTOCOL).to_owned();
    one.get(key) == other.get(key) && (!is_port(key) || protocol(one) == protocol(other))
}

/// Returns whether elements with this key are identified by their protocol, too.
pub(super) fn is_port(key: &str) -> bool {
    matches!(key, "containerPort" | "port")
}

/// Returns an object with all that an apply states.
pub(super) fn merged(live: &Value, stated: &Value) -> Value {
    match (live, stated) {
        (Value::Object(live), Value::Object(stated)) => members(live, stated),
        (Value::Array(live), Value::Array(stated)) => elements(live, stated),
        _ => stated.clone(),
    }
}

fn members(live: &Map<String, Value>, stated: &Map<String, Value>) -> Value {
    let mut result = live.clone();
    for (name, stated) in stated {
        let value = result.get(name).map_or_else(|| stated.clone(), |live| merged(live, stated));
        result.insert(name.clone(), value);
    }
    result.into()
}

fn elements(live: &[Value], stated: &[Value]) -> Value {
    let Some(key) = list_key(live.iter().chain(stated)) else { return stated.into() };
    let of = |list: &'_ [Value], element: &Value| list.iter().position(|other| same_element(key, other, element));
    let known = live.iter().map(|live| {
        let stated = of(stated, live).and_then(|place| stated.get(place));
        stated.map_or_else(|| live.clone(), |stated| merged(live, stated))
    });
    let added = stated.iter().filter(|stated| of(live, stated).is_none()).cloned();
    known.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_merged_by_their_key_and_the_others_stay() {
        let live = json!([{ "name": "a", "image": "1", "stdin": true }, { "name": "theirs" }]);
        let stated = json!([{ "name": "new" }, { "name": "a", "image": "2" }]);
        let expected = json!([{ "name": "a", "image": "2", "stdin": true }, { "name": "theirs" }, { "name": "new" }]);
        assert_eq!(merged(&live, &stated), expected);
    }

    #[test]
    fn ports_of_one_number_differ_by_protocol() {
        let live = json!([{ "port": 53, "protocol": "UDP" }]);
        let stated = json!([{ "port": 53 }]);
        assert_eq!(merged(&live, &stated), json!([{ "port": 53, "protocol": "UDP" }, { "port": 53 }]));
        let again = json!([{ "port": 53, "protocol": "TCP" }]);
        assert_eq!(merged(&again, &stated), again);
    }

    #[test]
    fn a_list_without_a_key_is_replaced() {
        assert_eq!(merged(&json!(["a", "b"]), &json!(["c"])), json!(["c"]));
        assert_eq!(merged(&json!([{ "x": 1 }]), &json!([])), json!([]));
    }
}
