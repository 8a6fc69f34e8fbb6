//! Objects and managedFields from the API server.

use serde_json::{Map, Value};

use super::sections;
use hotshoe_core::diff::associative_lists::AssociativeLists;
use hotshoe_core::diff::repair::repairs;
use hotshoe_core::diff::{covers, exceeds};
use hotshoe_core::model::field_path;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::object::{KeptFields, Object};
use hotshoe_core::model::projection::Projection;

/// Fuzzes the projection of an object. Sections: the paths that are asked for, one a line; the object.
pub fn pruning(bytes: &[u8]) {
    let Some(sections) = sections(bytes) else { return };
    let [paths, json] = sections[..] else { return };
    let paths: Vec<&str> = paths.lines().collect();
    let projection = Projection::new(&paths);
    let kept_fields = KeptFields { projection: projection.clone(), labels: vec!["app".into()], status: true };
    let Ok(object) = Object::read(json, &kept_fields) else { return };
    // A plugin is shown a projection of the cached object, so a second projection must change nothing.
    let again = projection.project(&object.body).expect("it is an object");
    assert_eq!(again, *object.body);
    // Texts are kept as they are, even invalid ones such as half a surrogate pair. An API server sends
    // none of these.
    let Ok(whole) = serde_json::from_str::<Value>(json) else { return };
    let kept: Value = serde_json::from_str(&object.body).expect("the kept part is JSON");
    assert!(kept.is_object());
    // Where keys are unique, everything that is kept was there and was asked for.
    if has_unique_keys(json) {
        is_part_of(&kept, &whole);
        let mut asked: Vec<Vec<&str>> = paths.iter().filter_map(|path| field_path::keys(path).ok()).collect();
        asked.push(vec!["metadata"]);
        was_asked_for(&kept, &asked, 0);
    }
}

fn has_unique_keys(json: &str) -> bool {
    serde_json::from_str::<Members>(json).is_ok()
}

/// JSON whose keys are unique at every level.
struct Members(Value);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Unique;
        impl<'de> serde::de::Visitor<'de> for Unique {
            type Value = Value;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON with unique keys")
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
                let mut list = Vec::new();
                while let Some(Members(item)) = items.next_element()? {
                    list.push(item);
                }
                Ok(list.into())
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
                let mut members = Map::new();
                while let Some((key, Members(value))) = entries.next_entry::<String, _>()? {
                    if members.insert(key, value).is_some() {
                        return Err(serde::de::Error::custom("a key is given twice"));
                    }
                }
                Ok(members.into())
            }
        }
        deserializer.deserialize_any(Unique).map(Members)
    }
}

/// Checks that one value is part of another: members may be missing, and list elements without requested fields.
fn is_part_of(part: &Value, whole: &Value) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (key, value) in part {
                is_part_of(value, whole.get(key).unwrap_or_else(|| panic!("{key} was not there")));
            }
        }
        (Value::Array(part), Value::Array(whole)) => assert!(part.len() <= whole.len()),
        (part, whole) => assert_eq!(part, whole),
    }
}

fn was_asked_for(kept: &Value, asked: &[Vec<&str>], at: usize) {
    let Value::Object(members) = kept else { return };
    for (key, value) in members {
        let below: Vec<Vec<&str>> = asked.iter().filter(|path| path.get(at) == Some(&key.as_str())).cloned().collect();
        assert!(!below.is_empty(), "{key} was not asked for");
        if below.iter().all(|path| path.len() > at + 1) {
            was_asked_for(value, &below, at + 1);
        }
    }
}

/// Fuzzes the comparison of field ownership. Sections: `fieldsV1`, the desired object, the live object.
pub fn ownership(bytes: &[u8]) {
    let Some(sections) = sections(bytes) else { return };
    let [fields, desired, live] = sections[..] else { return };
    let read = |json: &str| serde_json::from_str::<Value>(json).ok();
    let (Some(desired), Some(live)) = (read(desired), read(live)) else { return };
    let kind = Kind::new("example.com", "v1", "Demo");
    let covers = |fields: &str, desired: &Value| covers(fields, desired, &kind, &AssociativeLists::default());
    let covered = covers(fields, &desired);
    let exceeding = exceeds(fields, &desired);
    if let Ok(naive) = serde_json::from_str::<Naive>(fields) {
        assert_eq!(covered, naive.covers_object(&desired), "covers");
        assert_eq!(exceeding, naive.exceeds(&desired), "exceeds");
    }
    if covered && let Value::Object(members) = &desired {
        // Fields that cover an object also cover it without one of its members.
        for key in members.keys() {
            let mut less = members.clone();
            less.remove(key);
            assert!(covers(fields, &less.into()), "less without {key} is not covered");
        }
    }
    for repair in repairs(fields, &desired, &live) {
        let there = live.pointer(&repair.pointer).expect("a repair points into the live object");
        let (lists, elements) = (Value::is_array, Value::is_object);
        assert!([lists, elements].iter().any(|is| is(there) && is(&repair.value)), "it puts back {repair:?}");
    }
    // The entry that the API server records for an apply of maps alone covers that object and exceeds nothing.
    if let Some(own) = fields_of(&desired) {
        let own = own.to_string();
        assert!(covers(&own, &desired), "{own} does not cover {desired}");
        assert!(!exceeds(&own, &desired), "{own} exceeds {desired}");
    }
}

/// Returns the entry that an apply would leave if all lists were atomic; none where some members have no owner.
fn fields_of(desired: &Value) -> Option<Value> {
    let Value::Object(members) = desired else { return None };
    if members.contains_key("apiVersion") || members.contains_key("kind") || members.contains_key("metadata") {
        return None;
    }
    Some(leaves(members))
}

fn leaves(members: &Map<String, Value>) -> Value {
    let leaf = |value: &Value| match value {
        Value::Object(below) => leaves(below),
        _ => Value::Object(Map::new()),
    };
    members.iter().map(|(key, value)| (format!("f:{key}"), leaf(value))).collect::<Map<_, _>>().into()
}

/// The tree of fields, for a naive comparison of all pairs.
struct Naive(Vec<(String, Naive)>);

impl<'de> serde::Deserialize<'de> for Naive {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nodes;
        impl<'de> serde::de::Visitor<'de> for Nodes {
            type Value = Naive;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a node")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut entries: A) -> Result<Naive, A::Error> {
                let mut nodes = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    nodes.push(entry);
                }
                Ok(Naive(nodes))
            }
        }
        deserializer.deserialize_map(Nodes)
    }
}

impl Naive {
    fn node(&self, is_it: impl Fn(&str) -> bool) -> Option<&Naive> {
        self.0.iter().find(|(key, _)| is_it(key)).map(|(_, below)| below)
    }

    fn member(&self, name: &str) -> Option<&Naive> {
        self.node(|key| key.strip_prefix("f:") == Some(name))
    }

    fn element(&self, element: &Value) -> Option<&Naive> {
        match element {
            Value::Object(_) => self.node(|key| key.strip_prefix("k:").is_some_and(|keys| has_keys(element, keys))),
            value => self.node(|key| key.strip_prefix("v:") == Some(&value.to_string())),
        }
    }

    /// Whether the fields cover an object, whose identifying fields have no owner.
    fn covers_object(&self, desired: &Value) -> bool {
        let Value::Object(members) = desired else { return self.covers(desired) };
        let named = |key: &str| key == "apiVersion" || key == "kind";
        members.iter().filter(|(key, _)| !named(key)).all(|(key, value)| {
            self.member(key).is_some_and(|below| match value {
                Value::Object(metadata) if key == "metadata" => {
                    let mut rest = metadata.iter().filter(|(key, _)| *key != "name" && *key != "namespace");
                    rest.all(|(key, value)| below.member(key).is_some_and(|below| below.covers(value)))
                }
                _ => below.covers(value),
            })
        })
    }

    fn covers(&self, desired: &Value) -> bool {
        let covers = |node: Option<&Naive>, value: &Value| node.is_some_and(|node| node.covers(value));
        self.0.is_empty()
            || match desired {
                Value::Object(members) => members.iter().all(|(key, value)| covers(self.member(key), value)),
                Value::Array(elements) => elements.iter().all(|element| covers(self.element(element), element)),
                _ => true,
            }
    }

    fn exceeds(&self, desired: &Value) -> bool {
        self.0.iter().filter(|(key, _)| key != ".").any(|(key, below)| match (key.split_once(':'), desired) {
            (Some(("f", name)), Value::Object(members)) => members.get(name).is_none_or(|value| below.exceeds(value)),
            (Some(("k", keys)), Value::Array(elements)) => {
                let element = elements.iter().find(|element| has_keys(element, keys));
                element.is_none_or(|element| below.exceeds(element))
            }
            (Some(("v", value)), Value::Array(elements)) => {
                !serde_json::from_str(value).is_ok_and(|value: Value| elements.contains(&value))
            }
            _ => true,
        })
    }
}

fn has_keys(element: &Value, keys: &str) -> bool {
    let (Value::Object(element), Ok(keys)) = (element, serde_json::from_str::<Map<String, Value>>(keys)) else {
        return false;
    };
    keys.iter().all(|(key, value)| element.get(key).is_none_or(|mine| mine == value))
}
