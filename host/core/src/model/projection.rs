//! The fields of an object that are kept: the union of the fields that plugins asked for.
//!
//! Part of *observe*. A field that is not kept is neither cached nor passed to a plugin, so a change
//! of it causes no reconcile. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::field_path;

/// Metadata that every plugin is shown. `resourceVersion` is not among it: it changes with every write, so otherwise
/// equal observations would differ.
const ALWAYS: [&str; 5] =
    ["metadata.name", "metadata.namespace", "metadata.uid", "metadata.generation", "metadata.deletionTimestamp"];

/// A set of [paths](field_path) into an object. A path through a list means every element of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    root: Fields,
}

type Fields = BTreeMap<Box<str>, Node>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    /// Everything below the node.
    Whole,
    /// Only these fields.
    Only(Fields),
}

impl Projection {
    /// Creates a projection of the given paths and of the metadata that is always shown.
    pub fn new<P: AsRef<str>>(paths: &[P]) -> Self {
        let mut projection = Self::default();
        for path in ALWAYS {
            projection.add(path);
        }
        for path in paths {
            projection.add(path.as_ref());
        }
        projection
    }

    /// Adds one path. A text that is no path adds nothing.
    pub fn add(&mut self, path: &str) {
        if let Ok(keys) = field_path::keys(path) {
            insert(&mut self.root, &keys);
        }
    }

    /// Adds all fields of another projection.
    pub fn merge(&mut self, other: &Projection) {
        merge(&mut self.root, &other.root);
    }

    /// Returns whether only metadata is kept.
    pub fn is_of_metadata(&self) -> bool {
        self.root.keys().all(|key| **key == *"metadata")
    }

    /// Returns the kept part of a JSON object: its metadata, and then the rest in the order of the original.
    ///
    /// # Errors
    /// When `json` is not a JSON object.
    pub fn project(&self, json: &str) -> serde_json::Result<String> {
        self.project_opened(&serde_json::from_str(json)?)
    }

    /// Returns the kept part of an object that is parsed already.
    pub fn project_opened(&self, object: &Opened<'_>) -> serde_json::Result<String> {
        let mut out = String::with_capacity(512);
        out.push('{');
        if let (Some(metadata), Some(node)) = (&object.metadata, self.root.get("metadata")) {
            out.push_str("\"metadata\":{");
            match node {
                Node::Whole => write_whole(metadata, &mut out)?,
                Node::Only(fields) => write_each(metadata, fields, &mut out)?,
            }
            out.push('}');
        }
        write_each(&object.rest, &self.root, &mut out)?;
        out.push('}');
        Ok(out)
    }
}

fn insert(fields: &mut Fields, keys: &[&str]) {
    let Some((head, rest)) = keys.split_first() else { return };
    let node = fields.entry((*head).into()).or_insert_with(|| Node::Only(Fields::new()));
    match node {
        node if rest.is_empty() => *node = Node::Whole,
        Node::Only(below) => insert(below, rest),
        Node::Whole => {}
    }
}

fn merge(into: &mut Fields, from: &Fields) {
    for (key, node) in from {
        match (into.get_mut(key), node) {
            (None, _) => drop(into.insert(key.clone(), node.clone())),
            (Some(Node::Whole), _) => {}
            (Some(mine), Node::Whole) => *mine = Node::Whole,
            (Some(Node::Only(mine)), Node::Only(theirs)) => merge(mine, theirs),
        }
    }
}

fn write_fields(json: &str, fields: &Fields, out: &mut String) -> serde_json::Result<()> {
    out.push('{');
    write_each(&serde_json::from_str(json)?, fields, out)?;
    out.push('}');
    Ok(())
}

fn write_each(members: &Members<'_>, fields: &Fields, out: &mut String) -> serde_json::Result<()> {
    for (key, value) in &members.0 {
        let Some(node) = fields.get(key.as_ref()) else { continue };
        let before = out.len();
        write_key(key, out)?;
        match node {
            Node::Whole => out.push_str(value.get()),
            Node::Only(below) if !write_below(value.get(), below, out)? => out.truncate(before),
            Node::Only(_) => {}
        }
    }
    Ok(())
}

fn write_whole(members: &Members<'_>, out: &mut String) -> serde_json::Result<()> {
    for (key, value) in &members.0 {
        write_key(key, out)?;
        out.push_str(value.get());
    }
    Ok(())
}

fn write_key(key: &str, out: &mut String) -> serde_json::Result<()> {
    // A text that ends with `{` is an object without members so far: no value ends with it.
    if !out.ends_with('{') {
        out.push(',');
    }
    if key.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(key);
        out.push('"');
    } else {
        out.push_str(&serde_json::to_string(key)?);
    }
    out.push(':');
    Ok(())
}

/// Writes what is kept below a member. Returns false if its value is a scalar, from which nothing can be chosen.
fn write_below(json: &str, fields: &Fields, out: &mut String) -> serde_json::Result<bool> {
    match json.as_bytes().first() {
        Some(b'{') => write_fields(json, fields, out)?,
        Some(b'[') => write_elements(json, fields, out)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn write_elements(json: &str, fields: &Fields, out: &mut String) -> serde_json::Result<()> {
    let elements: Vec<&RawValue> = serde_json::from_str(json)?;
    out.push('[');
    let start = out.len();
    for element in elements {
        let before = out.len();
        if before > start {
            out.push(',');
        }
        if !write_below(element.get(), fields, out)? {
            out.truncate(before);
        }
    }
    out.push(']');
    Ok(())
}

/// The members of an object, with those of its metadata parsed as well. The metadata are half of the text and are
/// always needed, so parsing them at once saves a pass over the text.
pub struct Opened<'a> {
    /// The members of `metadata`.
    pub metadata: Option<Members<'a>>,
    /// All other members.
    pub rest: Members<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Opened<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OpenedVisitor)
    }
}

struct OpenedVisitor;

impl<'de> Visitor<'de> for OpenedVisitor {
    type Value = Opened<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut metadata, mut rest) = (None, Vec::with_capacity(8));
        while let Some(key) = map.next_key::<Key<'de>>()? {
            match &*key.0 {
                "metadata" => metadata = Some(map.next_value()?),
                _ => rest.push((key.0, map.next_value()?)),
            }
        }
        Ok(Opened { metadata, rest: Members(rest) })
    }
}

/// The members of a JSON object in their order, with their values as text.
pub struct Members<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(12);
        while let Some(key) = map.next_key::<Key<'de>>()? {
            members.push((key.0, map.next_value()?));
        }
        Ok(Members(members))
    }
}

/// A key, borrowed from the text unless it has escapes.
pub struct Key<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor).map(Key)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(paths: &[&str], json: &str) -> String {
        Projection::new(paths).project(json).unwrap()
    }

    #[test]
    fn keeps_the_fields_that_were_asked_for_and_the_name() {
        let json = concat!(
            r#"{"kind":"Deployment","metadata":{"name":"a","resourceVersion":"7","labels":{"x":"y"}},"#,
            r#""spec":{"replicas":2,"paused":true},"status":{"readyReplicas":1}}"#
        );
        assert_eq!(
            project(&["spec.replicas", "status"], json),
            r#"{"metadata":{"name":"a"},"spec":{"replicas":2},"status":{"readyReplicas":1}}"#
        );
    }

    #[test]
    fn metadata_is_enough_where_no_other_field_is_asked_for() {
        for (paths, enough) in [
            (&[][..], true),
            (&["metadata.labels.app", "metadata.annotations"], true),
            (&["metadata"], true),
            (&["metadata.labels", "spec.replicas"], false),
            (&["kind"], false),
            (&["metadata.annotations['example.com/size']"], true),
            (&["metadata['x']", "spec['x']"], false),
        ] {
            assert_eq!(Projection::new(paths).is_of_metadata(), enough, "{paths:?}");
        }
    }

    #[test]
    fn metadata_comes_first_and_whole_where_all_of_it_is_asked_for() {
        let json = r#"{"data":{"a":"{"},"metadata":{"b":[1],"a\"\\":{"name":"x"},"name":"n"},"kind":"A"}"#;
        assert_eq!(
            project(&["metadata", "data"], json),
            r#"{"metadata":{"b":[1],"a\"\\":{"name":"x"},"name":"n"},"data":{"a":"{"}}"#
        );
        assert_eq!(project(&["data.a", "kind"], json), r#"{"metadata":{"name":"n"},"data":{"a":"{"},"kind":"A"}"#);
        assert_eq!(project(&["kind"], r#"{"metadata":{},"kind":"A"}"#), r#"{"metadata":{},"kind":"A"}"#);
        assert_eq!(project(&["kind"], r#"{"kind":"A"}"#), r#"{"kind":"A"}"#);
        for json in ["[]", "3", r#"{"metadata":[]}"#, r#"{"metadata":null}"#] {
            assert!(Projection::new(&["kind"]).project(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_path_through_a_list_means_every_element() {
        let json = r#"{"spec":{"containers":[{"name":"a","image":"i"},{"name":"b","image":"j"}]}}"#;
        assert_eq!(
            project(&["spec.containers.image"], json),
            r#"{"spec":{"containers":[{"image":"i"},{"image":"j"}]}}"#
        );
    }

    #[test]
    fn a_key_with_dots_and_slashes_is_kept_where_it_is_quoted() {
        let json =
            r#"{"metadata":{"annotations":{"example.com/size":"3","example":"x"}},"data":{"a.b":"1","a":{"b":2}}}"#;
        assert_eq!(
            project(&["metadata.annotations['example.com/size']", "data['a.b']"], json),
            r#"{"metadata":{"annotations":{"example.com/size":"3"}},"data":{"a.b":"1"}}"#
        );
        assert_eq!(project(&["metadata.annotations.example.com/size"], json), r#"{"metadata":{}}"#);
    }

    #[test]
    fn a_path_into_a_scalar_shows_nothing() {
        assert_eq!(project(&["spec.replicas.x"], r#"{"spec":{"replicas":2}}"#), r#"{"spec":{}}"#);
    }

    #[test]
    fn a_longer_path_does_not_narrow_a_shorter_one() {
        let mut projection = Projection::new(&["spec"]);
        projection.merge(&Projection::new(&["spec.replicas"]));
        assert_eq!(projection.project(r#"{"spec":{"a":1}}"#).unwrap(), r#"{"spec":{"a":1}}"#);
    }

    #[test]
    fn escaped_keys_are_compared_unescaped() {
        assert_eq!(project(&["spec"], "{\"\\u0073pec\":1}"), r#"{"spec":1}"#);
    }
}
