//! `fieldsV1` of an entry in `managedFields`: which fields a field manager owns, as a tree.
//!
//! Read by [`diff`](crate::diff) and [`status`](crate::status); pure. The format is that of
//! [structured-merge-diff](https://github.com/kubernetes-sigs/structured-merge-diff): `f:NAME` is a
//! member, `k:{…}` an element of a list by its keys, `v:…` one of a set by its value, and a lone
//! `.` the bare existence of an element. A node without members covers its whole subtree.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// A node of the tree. Keys are borrowed from the text where they have no escapes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, Fields<'a>)>);

/// What a node below another is.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A member of this name.
    Member(&'a str),
    /// A list element with these keys, JSON.
    Keyed(&'a str),
    /// An element of a set, JSON.
    Value(&'a str),
    /// Nothing that is known.
    Other,
}

impl<'a> Fields<'a> {
    /// Reads the tree.
    ///
    /// # Errors
    /// When it is no JSON object of JSON objects.
    pub fn read(json: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    /// Whether the whole subtree is covered.
    pub fn is_leaf(&self) -> bool {
        self.0.is_empty()
    }

    /// The node of a member.
    pub fn member(&self, name: &str) -> Option<&Fields<'a>> {
        self.0.iter().find(|(key, _)| key.strip_prefix("f:") == Some(name)).map(|(_, below)| below)
    }

    /// The node of a list element, found by its keys or, where it is no object, by its value.
    pub fn element(&self, element: &Value) -> Option<&Fields<'a>> {
        if element.is_object() {
            return self.keyed(element).map(|(_, below)| below);
        }
        let value = element.to_string();
        self.0.iter().find(|(key, _)| key.strip_prefix("v:") == Some(&value)).map(|(_, below)| below)
    }

    /// The node of an element of an associative list, with its keys.
    pub fn keyed(&self, element: &Value) -> Option<(&str, &Fields<'a>)> {
        self.0.iter().find_map(|(key, below)| {
            let keys = key.strip_prefix("k:")?;
            has_keys(element, keys).then_some((keys, below))
        })
    }

    /// All nodes but the bare existence of this one.
    pub fn steps(&self) -> impl Iterator<Item = (Step<'_>, &Fields<'a>)> {
        self.0.iter().filter(|(key, _)| key != ".").map(|(key, below)| (step(key), below))
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

/// Whether a list element has these keys, JSON. One that it leaves out was filled in by the API
/// server, such as a port's protocol.
pub fn has_keys(element: &Value, keys: &str) -> bool {
    let Ok(keys) = serde_json::from_str::<Map<String, Value>>(keys) else { return false };
    keys.iter().all(|(key, value)| element.get(key).is_none_or(|mine| mine == value))
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node of fieldsV1")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut nodes: A) -> Result<Self::Value, A::Error> {
        let mut below = Vec::new();
        while let Some(key) = nodes.next_key::<crate::projection::Key<'de>>()? {
            below.push((key.0, nodes.next_value()?));
        }
        Ok(Fields(below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FIELDS: &str = r#"{"f:spec":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:set":{"v:\"a\"":{}}}"#;

    #[test]
    fn members_elements_and_values_are_found() {
        let fields = Fields::read(FIELDS).unwrap();
        assert!(fields.member("spec").unwrap().is_leaf());
        assert!(fields.member("status").is_none());
        let ports = fields.member("ports").unwrap();
        assert!(ports.element(&json!({"port": 80})).is_some(), "the protocol is the API server's to fill in");
        assert!(ports.element(&json!({"port": 80, "protocol": "UDP"})).is_none());
        assert!(fields.member("set").unwrap().element(&json!("a")).is_some());
        assert!(fields.member("set").unwrap().element(&json!("b")).is_none());
    }

    #[test]
    fn the_bare_existence_of_an_element_is_no_step() {
        let fields = Fields::read(r#"{".":{},"f:port":{},"odd":{}}"#).unwrap();
        let steps: Vec<_> = fields.steps().map(|(step, _)| step).collect();
        assert_eq!(steps, [Step::Member("port"), Step::Other]);
    }

    #[test]
    fn what_is_no_tree_is_an_error() {
        for json in ["", "[]", "3", r#"{"f:a":3}"#, r#"{"f:a":null}"#] {
            assert!(Fields::read(json).is_err(), "{json}");
        }
        assert!(Fields::read(&"{\"f:a\":".repeat(10_000)).is_err());
    }
}
