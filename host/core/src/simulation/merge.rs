//! What a server-side apply adds to an object, without a schema: how a list is merged is known by its name, as the API
//! server's own kinds have it.

use serde_json::{Map, Value};

/// The members by which the API server identifies the elements of lists, by the list's name: the `x-kubernetes-list-map-keys`
/// of its own kinds. An apply replaces every other list as a whole. Owners are known by their names here, because a case may
/// leave out their uids.
const LIST_KEYS: [(&str, ListKey); 20] = [
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("env", &["name"]),
    ("volumes", &["name"]),
    ("imagePullSecrets", &["name"]),
    ("secrets", &["name"]),
    ("resourceClaims", &["name"]),
    ("claims", &["name"]),
    ("schedulingGates", &["name"]),
    ("webhooks", &["name"]),
    ("ownerReferences", &["name"]),
    ("conditions", &["type"]),
    ("hostAliases", &["ip"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("ports", &["containerPort", PROTOCOL]),
    ("ports", &["port", PROTOCOL]),
    ("podIPs", &["ip"]),
];
/// Identifies a port beside its number.
pub(super) const PROTOCOL: &str = "protocol";
pub(super) const DEFAULT_PROTOCOL: &str = "TCP";

/// The members that identify the elements of a list, together.
pub type ListKey = &'static [&'static str];

/// Returns the members that identify the elements of a list of this name; `None` if the list is replaced as a whole.
pub fn list_key<'v>(list: &str, elements: impl Iterator<Item = &'v Value> + Clone) -> Option<ListKey> {
    let has_all = |key: ListKey, element: &Value| key.iter().all(|member| key_member(element, member).is_some());
    elements.clone().next()?;
    let mut named = LIST_KEYS.iter().filter(|(name, _)| *name == list).map(|(_, key)| *key);
    named.find(|key| elements.clone().all(|element| has_all(key, element)))
}

/// Returns whether two elements of lists with this key are the same one.
pub fn same_element(key: ListKey, one: &Value, other: &Value) -> bool {
    key.iter().all(|member| key_member(one, member) == key_member(other, member))
}

/// Returns a member of a key. The API server fills in a protocol that is left out.
pub(super) fn key_member(element: &Value, member: &str) -> Option<Value> {
    let is_protocol = member == PROTOCOL && element.is_object();
    element.get(member).cloned().or_else(|| is_protocol.then(|| DEFAULT_PROTOCOL.into()))
}

/// Returns an object with all that an apply states.
pub(super) fn merged(live: &Value, stated: &Value) -> Value {
    merged_at("", live, stated)
}

fn merged_at(name: &str, live: &Value, stated: &Value) -> Value {
    match (live, stated) {
        (Value::Object(live), Value::Object(stated)) => members(live, stated),
        (Value::Array(live), Value::Array(stated)) => elements(name, live, stated),
        _ => stated.clone(),
    }
}

fn members(live: &Map<String, Value>, stated: &Map<String, Value>) -> Value {
    let mut result = live.clone();
    for (name, stated) in stated {
        let value = result.get(name).map_or_else(|| stated.clone(), |live| merged_at(name, live, stated));
        result.insert(name.clone(), value);
    }
    result.into()
}

fn elements(name: &str, live: &[Value], stated: &[Value]) -> Value {
    let Some(key) = list_key(name, live.iter().chain(stated)) else { return stated.into() };
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

    fn merged_list(name: &str, live: &Value, stated: &Value) -> Value {
        merged(&json!({ name: live }), &json!({ name: stated }))[name].clone()
    }

    #[test]
    fn elements_are_merged_by_their_key_and_the_others_stay() {
        let live = json!([{ "name": "a", "image": "1", "stdin": true }, { "name": "theirs" }]);
        let stated = json!([{ "name": "new" }, { "name": "a", "image": "2" }]);
        let expected = json!([{ "name": "a", "image": "2", "stdin": true }, { "name": "theirs" }, { "name": "new" }]);
        assert_eq!(merged_list("containers", &live, &stated), expected);
    }

    #[test]
    fn ports_of_one_number_differ_by_protocol() {
        let live = json!([{ "port": 53, "protocol": "UDP" }]);
        let stated = json!([{ "port": 53 }]);
        assert_eq!(merged_list("ports", &live, &stated), json!([{ "port": 53, "protocol": "UDP" }, { "port": 53 }]));
        let again = json!([{ "port": 53, "protocol": "TCP" }]);
        assert_eq!(merged_list("ports", &again, &stated), again);
    }

    #[test]
    fn a_volume_is_mounted_at_several_paths() {
        let live = json!([{ "name": "v", "mountPath": "/a" }, { "name": "v", "mountPath": "/b", "subPath": "b" }]);
        assert_eq!(merged_list("volumeMounts", &live, &live), live);
        let stated = json!([{ "name": "w", "mountPath": "/b" }]);
        let expected = json!([{ "name": "v", "mountPath": "/a" }, { "name": "w", "mountPath": "/b", "subPath": "b" }]);
        assert_eq!(merged_list("volumeMounts", &live, &stated), expected);
    }

    #[test]
    fn a_list_without_a_key_is_replaced() {
        for list in ["args", "tolerations", "metrics", "matchExpressions", "subjects", "limits"] {
            let (live, stated) = (json!([{ "key": "a", "name": "a", "x": 1 }]), json!([{ "key": "a", "name": "a" }]));
            assert_eq!(merged_list(list, &live, &stated), stated, "{list}");
        }
        assert_eq!(merged_list("containers", &json!([{ "x": 1 }]), &json!([])), json!([]));
    }
}
