//! `fieldsV1` of an entry in `managedFields`: which fields a field manager owns, as a tree.
//!
//! Read by [`diff`](crate::diff) and [`status`](crate::diff::status); pure. The format is that of
//! [structured-merge-diff](https://github.com/kubernetes-sigs/structured-merge-diff): `f:NAME` is a
//! member, `k:{…}` an element of a list by its keys, `v:…` one of a set by its value, and a lone
//! `.` the bare existence of an element. A node without members covers its whole subtree.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::model::list_map;
use crate::model::list_map::MAX_LINEAR_SEARCH;

/// The manager of an entry that the API server makes of all that is in an object without entries, before the next apply.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// A node of the tree. Where it has many members or values, they are sorted. Keys are borrowed from the
/// text where they have no escapes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FieldSet<'a>(Vec<(Cow<'a, str>, FieldSet<'a>)>);

/// The step from a node to one below it.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A member of this name.
    Member(&'a str),
    /// A list element with these keys, JSON.
    Keyed(&'a str),
    /// An element of a set, JSON.
    Value(&'a str),
    /// An unknown kind of step.
    Other,
}

impl<'a> FieldSet<'a> {
    /// Reads the tree.
    ///
    /// # Errors
    /// When the text is not a JSON object of JSON objects.
    pub fn read(json: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    /// Returns whether the set has the field at a JSON pointer into an object, or covers a whole subtree around it.
    pub fn has(&self, object: &Value, pointer: &str) -> bool {
        let Some((_, path)) = pointer.split_once('/') else { return true };
        let (key, below) = path.find('/').map_or((path, ""), |end| path.split_at(end));
        let key = key.replace("~1", "/").replace("~0", "~");
        let step = match object {
            Value::Array(elements) => {
                let element = key.parse::<usize>().ok().and_then(|index| elements.get(index));
                element.and_then(|element| Some((element, self.element(element)?)))
            }
            object => object.get(&key).and_then(|member| Some((member, self.member(&key)?))),
        };
        self.is_leaf() || step.is_some_and(|(value, node)| node.has(value, below))
    }

    /// Returns whether the node covers its whole subtree.
    pub fn is_leaf(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the node of a member.
    pub fn member(&self, name: &str) -> Option<&FieldSet<'a>> {
        self.find(("f:", name))
    }

    /// Returns whether each element of a list has a node, found by its keys or, if it is no object, by its value,
    /// and `holds` is true of each element and its node.
    pub fn all_elements(&self, elements: &[Value], holds: impl Fn(&Value, &FieldSet<'a>) -> bool) -> bool {
        if elements.len() * self.0.len() <= MAX_LINEAR_SEARCH {
            return elements.iter().all(|element| self.element(element).is_some_and(|below| holds(element, below)));
        }
        let keyed = self.keyed();
        elements.iter().zip(keyed.of_each(elements)).all(|(element, place)| {
            let below = match element {
                Value::Object(_) => place.and_then(|place| keyed.nodes.get(place).copied()),
                value => self.value(value),
            };
            below.is_some_and(|below| holds(element, below))
        })
    }

    /// Returns the node of an element of a list, found by its keys or, if it is no object, by its value.
    pub fn element(&self, element: &Value) -> Option<&FieldSet<'a>> {
        match element {
            Value::Object(element) => self.0.iter().find(|(key, _)| has_keys(element, key)).map(|(_, below)| below),
            value => self.value(value),
        }
    }

    fn value(&self, value: &Value) -> Option<&FieldSet<'a>> {
        self.find(("v:", &value.to_string()))
    }

    /// Returns the nodes of the elements of an associative list.
    pub fn keyed(&self) -> Keyed<'_, 'a> {
        let mut keyed = Keyed { keys: Vec::new(), nodes: Vec::new() };
        for (step, below) in self.steps() {
            if let Step::Keyed(keys) = step {
                keyed.keys.push(serde_json::from_str(keys).ok());
                keyed.nodes.push(below);
            }
        }
        keyed
    }

    /// Returns all nodes below, except the lone `.` for the bare existence of this one.
    pub fn steps(&self) -> impl Iterator<Item = (Step<'_>, &FieldSet<'a>)> {
        self.0.iter().filter(|(key, _)| key != ".").map(|(key, below)| (step(key), below))
    }

    fn find(&self, wanted: (&str, &str)) -> Option<&FieldSet<'a>> {
        if self.0.len() <= MAX_LINEAR_SEARCH {
            let is_it = |key: &str| key.strip_prefix(wanted.0) == Some(wanted.1);
            return self.0.iter().find(|(key, _)| is_it(key)).map(|(_, below)| below);
        }
        let place = self.0.partition_point(|(key, _)| order(key) < wanted);
        self.0.get(place).filter(|(key, _)| order(key) == wanted).map(|(_, below)| below)
    }
}

/// The nodes of the elements of an associative list, with their keys parsed once.
pub struct Keyed<'f, 'a> {
    /// The keys of each node; none where they cannot be parsed.
    keys: Vec<Option<Map<String, Value>>>,
    /// The nodes, in the same order.
    pub nodes: Vec<&'f FieldSet<'a>>,
}

impl Keyed<'_, '_> {
    /// Returns, for each element of a list, the index of its node: the first one whose keys it has.
    pub fn of_each(&self, elements: &[Value]) -> Vec<Option<usize>> {
        list_map::places(&self.names(), elements.iter().map(Value::as_object), &self.objects())
    }

    /// Returns, for each node, the index of its element in a list: the first one that has its keys.
    pub fn in_list(&self, elements: &[Value]) -> Vec<Option<usize>> {
        let elements: Vec<_> = elements.iter().map(Value::as_object).collect();
        list_map::places(&self.names(), self.objects(), &elements)
    }

    fn objects(&self) -> Vec<Option<&Map<String, Value>>> {
        self.keys.iter().map(Option::as_ref).collect()
    }

    fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for name in self.keys.iter().flatten().flat_map(Map::keys) {
            if !names.contains(&name.as_str()) && names.len() <= list_map::MAX_KEYS {
                names.push(name.as_str());
            }
        }
        names
    }
}

fn step(key: &str) -> Step<'_> {
    match key.split_once(':') {
        Some(("f", name)) => Step::Member(name),
        Some(("k", keys)) => Step::Keyed(keys),
        Some(("v", value)) => Step::Value(value),
        _ => Step::Other,
    }
}

/// Returns whether a list element has the keys of this node. A key that the element leaves out is filled in by the API
/// server, so it is not compared.
fn has_keys(element: &Map<String, Value>, key: &str) -> bool {
    let Some(keys) = key.strip_prefix("k:") else { return false };
    let mut reader = serde_json::Deserializer::from_str(keys);
    let agrees = KeysOf(element).deserialize(&mut reader);
    agrees.is_ok_and(|agrees| agrees && reader.end().is_ok())
}

/// Compares keys with those of an element while they are parsed. Each element is compared with each node, so building a
/// map each time would be too slow.
struct KeysOf<'e>(&'e Map<String, Value>);

impl<'de> DeserializeSeed<'de> for KeysOf<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for KeysOf<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the keys of an element")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut keys: A) -> Result<bool, A::Error> {
        let mut agrees = true;
        while let Some(key) = keys.next_key::<crate::model::projection::Key<'de>>()? {
            let value: Scalar<'de> = keys.next_value()?;
            agrees &= self.0.get(&*key.0).is_none_or(|mine| value == *mine);
        }
        Ok(agrees)
    }
}

/// The value of a key. A text is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Scalar<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(Value),
}

impl PartialEq<Value> for Scalar<'_> {
    fn eq(&self, other: &Value) -> bool {
        match self {
            Scalar::Text(text) => other.as_str() == Some(text),
            Scalar::Other(value) => value == other,
        }
    }
}

/// Returns the sort key of a node among its siblings. Nodes of elements keep their order, because of two nodes that
/// match an element the first one counts.
fn order(key: &str) -> (&str, &str) {
    match key.split_at_checked(2) {
        Some(("k:", _)) => ("k:", ""),
        Some(parts) => parts,
        None => (key, ""),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FieldSet<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = FieldSet<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node of fieldsV1")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut nodes: A) -> Result<Self::Value, A::Error> {
        let mut below = Vec::new();
        while let Some(key) = nodes.next_key::<crate::model::projection::Key<'de>>()? {
            below.push((key.0, nodes.next_value()?));
        }
        // The API server sorts them, but not in every case by their bytes.
        if below.len() > MAX_LINEAR_SEARCH {
            below.sort_by(|(one, _), (other, _)| order(one).cmp(&order(other)));
        }
        Ok(FieldSet(below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FIELDS: &str = r#"{"f:spec":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:set":{"v:\"a\"":{}}}"#;

    #[test]
    fn members_elements_and_values_are_found() {
        let fields = FieldSet::read(FIELDS).unwrap();
        assert!(fields.member("spec").unwrap().is_leaf());
        assert!(fields.member("status").is_none());
        let known = |list: &str, element: Value| fields.member(list).unwrap().all_elements(&[element], |_, _| true);
        assert!(known("ports", json!({"port": 80})), "the protocol is the API server's to fill in");
        assert!(!known("ports", json!({"port": 80, "protocol": "UDP"})));
        assert!(known("set", json!("a")));
        assert!(!known("set", json!("b")));
    }

    #[test]
    fn the_keys_of_an_element_are_compared_by_value_except_those_that_it_leaves_out() {
        let element = json!({"text": "a\"ä", "number": 80, "flag": true, "list": [1, {"a": null}], "other": 1});
        let has = |keys: &str| has_keys(element.as_object().unwrap(), keys);
        for keys in [
            r#"k:{"text":"a\"\u00e4","number":80,"flag":true,"list":[1,{"a":null}]}"#,
            r#"k:{"number":80,"absent":"x"}"#,
            r#"k:{"t\u0065xt":"a\"ä"}"#,
            "k:{}",
        ] {
            assert!(has(keys), "{keys}");
        }
        for keys in [
            r#"k:{"number":80,"text":"b"}"#,
            r#"k:{"number":"80"}"#,
            r#"k:{"text":80}"#,
            r#"k:{"flag":false}"#,
            r#"k:{"list":[1]}"#,
            r#"k:{"number":81,"absent":1}"#,
            r#"v:{"number":80}"#,
            r#"k:{"number":80} x"#,
            r#"k:{"number":80"#,
            r#"k:["number"]"#,
            "k:",
        ] {
            assert!(!has(keys), "{keys}");
        }
    }

    #[test]
    fn a_field_is_found_by_its_pointer_also_in_a_subtree_that_is_owned_as_a_whole() {
        let fields = FieldSet::read(FIELDS).unwrap();
        let object = json!({
            "spec": { "a/b": [{ "c": 1 }] }, "set": ["b", "a"], "other": 1,
            "ports": [{ "port": 81 }, { "port": 80, "protocol": "TCP", "name": "web" }],
        });
        for (pointer, has) in [
            ("/spec", true),
            ("/spec/a~1b/0/c", true),
            ("/ports/1/port", true),
            ("/ports/1/name", false),
            ("/ports/0/port", false),
            ("/ports/7", false),
            ("/set/1", true),
            ("/set/0", false),
            ("/other", false),
            ("", true),
        ] {
            assert_eq!(fields.has(&object, pointer), has, "{pointer}");
        }
    }

    #[test]
    fn the_bare_existence_of_an_element_is_no_step() {
        let fields = FieldSet::read(r#"{".":{},"f:port":{},"odd":{}}"#).unwrap();
        let steps: Vec<_> = fields.steps().map(|(step, _)| step).collect();
        assert_eq!(steps, [Step::Member("port"), Step::Other]);
    }

    #[test]
    fn of_duplicate_elements_the_first_counts_in_any_order_and_number() {
        let few = r#""v:9":{},"f:b":{"f:x":{}},"k:{\"a\":9}":{"f:x":{}},"f:a":{},"v:10":{},"k:{\"a\":10}":{},"f:b":{},"k:{\"b\":1}":{}"#;
        let more: String =
            (0..40).map(|n| format!(r#","k:{{\"a\":{}}}":{{}},"f:{n}":{{}},"v:-{n}":{{}}"#, 99 - n)).collect();
        for json in [format!("{{{few}}}"), format!("{{{few}{more}}}")] {
            let fields = FieldSet::read(&json).unwrap();
            assert!(fields.member("a").unwrap().is_leaf());
            assert!(!fields.member("b").unwrap().is_leaf());
            for (element, leaf) in [(json!(9), true), (json!(10), true), (json!({"a": 9}), false), (json!({}), false)] {
                assert!(fields.all_elements(&[element], |_, below| below.is_leaf() == leaf), "{json}");
            }
            let all = [json!({"a": 10}), json!({"a": 11, "b": 1}), json!(9)];
            assert!(fields.all_elements(&all, |_, below| below.is_leaf()));
        }
    }

    #[test]
    fn what_is_no_tree_is_an_error() {
        for json in ["", "[]", "3", r#"{"f:a":3}"#, r#"{"f:a":null}"#] {
            assert!(FieldSet::read(json).is_err(), "{json}");
        }
        assert!(FieldSet::read(&"{\"f:a\":".repeat(10_000)).is_err());
    }
}
