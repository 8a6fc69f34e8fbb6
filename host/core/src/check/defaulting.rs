//! Checks what a plugin answers to `default`: the same object, with what its author left out.
//!
//! The object goes on as that of its author, who may be allowed more than the plugin. So the answer may change what the
//! kind means to the plugin, and nothing by which the API server or others know an object. Pure.

pub use json_patch::Patch;
use json_patch::PatchOperation;
use serde_json::{Map, Value};

use crate::check::answer::{self, AnswerError};
use crate::check::is_reserved;
use crate::model::decision::Document;
use crate::model::field_path;
use crate::model::kind::ObjectRef;
use crate::model::limits::Limits;

/// The fields of the metadata that may change.
const TEXTS: [&str; 2] = ["labels", "annotations"];

/// Why defaults are denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The answer is about another object.
    #[error("{0}; defaults are filled into the object that was given")]
    OtherObject(String),
    /// A field of the metadata differs.
    #[error("{0} differs; of the metadata defaults may change labels and annotations only")]
    MetadataChanged(String),
    /// A label or an annotation of the host or of kubectl differs.
    #[error("{0} differs; labels and annotations of the host and of kubectl are not a plugin's to set")]
    Reserved(String),
    /// The status differs.
    #[error("{0}: the status differs; a plugin reports it in `reconcile`")]
    StatusChanged(String),
    /// The object is too large, or cannot be used.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

impl Denied {
    /// Returns one PascalCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Denied::OtherObject(_) => "OtherObject",
            Denied::MetadataChanged(_) => "MetadataChanged",
            Denied::Reserved(_) => "ReservedKey",
            Denied::StatusChanged(_) => "StatusChanged",
            Denied::Answer(error) => error.reason(),
        }
    }
}

/// An object with its defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaulted {
    /// The object, as the plugin was given it.
    pub object: Value,
    /// What was filled in, as in RFC 6902.
    pub patch: Patch,
}

/// Returns the paths of the fields that a patch changes, as they are written elsewhere; an index is a key.
pub fn fields(patch: &Patch) -> Vec<String> {
    patch.iter().map(field).collect()
}

fn field(operation: &PatchOperation) -> String {
    let mut path = String::new();
    operation.path().tokens().for_each(|key| field_path::push_member(&mut path, &key.decoded()));
    answer::shown_text(path)
}

/// Checks the object that a plugin returned for one that it was given.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn admit(given: &Document, returned: &Document, limits: &Limits) -> Result<Defaulted, Denied> {
    check_reference(&given.reference, &returned.reference)?;
    answer::check_body(returned, limits)?;
    let (before, mut after) = (parse(&given.json)?, parse(&returned.json)?);
    leave_out_nulls(Some(&before), &mut after);
    check_stated(&given.reference, &mut after)?;
    check_metadata(&given.reference, before.get("metadata"), after.get("metadata"))?;
    if before.get("status") != after.get("status") {
        return Err(Denied::StatusChanged(given.reference.to_string()));
    }
    let patch = json_patch::diff(&before, &after);
    Ok(Defaulted { object: after, patch })
}

fn check_reference(given: &ObjectRef, returned: &ObjectRef) -> Result<(), Denied> {
    match given == returned {
        true => Ok(()),
        false => Err(other(given, &format!("{} {returned}", returned.kind.api_version()))),
    }
}

/// Checks what the JSON says that the reference has, and removes it.
fn check_stated(object: &ObjectRef, after: &mut Value) -> Result<(), Denied> {
    let Some(members) = after.as_object_mut() else { return Ok(()) };
    for (key, value) in [("apiVersion", object.kind.api_version()), ("kind", object.kind.kind.to_string())] {
        if let Some(stated) = members.remove(key).filter(|stated| *stated != *value) {
            return Err(other(object, &stated.to_string()));
        }
    }
    Ok(())
}

fn check_metadata(object: &ObjectRef, before: Option<&Value>, after: Option<&Value>) -> Result<(), Denied> {
    let denied = |field: &str| answer::shown_text(format!("{object}: metadata.{field}"));
    let mut others = keys(before, after).filter(|key| !TEXTS.contains(key));
    if let Some(field) = others.find(|key| present(before, key) != present(after, key)) {
        return Err(Denied::MetadataChanged(denied(field)));
    }
    for field in TEXTS {
        let (before, after) = (present(before, field), present(after, field));
        let are_texts = |members: &Map<String, Value>| members.values().all(Value::is_string);
        if after.is_some_and(|after| !after.as_object().is_some_and(are_texts)) {
            return Err(AnswerError::Invalid(format!("the {field} of {object} are no texts")).into());
        }
        let mut reserved = keys(before, after).filter(|key| is_reserved(key));
        if let Some(key) = reserved.find(|key| present(before, key) != present(after, key)) {
            return Err(Denied::Reserved(denied(&format!("{field}['{key}']"))));
        }
    }
    Ok(())
}

/// Returns the keys of two objects.
fn keys<'a>(before: Option<&'a Value>, after: Option<&'a Value>) -> impl Iterator<Item = &'a str> {
    let objects = [before, after].into_iter().flatten().filter_map(Value::as_object);
    objects.flat_map(Map::keys).map(String::as_str)
}

/// Returns a member that has a value.
fn present<'a>(object: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    object?.get(key).filter(|value| !value.is_null())
}

/// Removes the members that are null, unless they were before: a `null` is as if left out.
fn leave_out_nulls(before: Option<&Value>, after: &mut Value) {
    match after {
        Value::Object(members) => {
            let was = |key: &str| before.and_then(|before| before.get(key));
            members.retain(|key, value| !value.is_null() || was(key).is_some_and(Value::is_null));
            members.iter_mut().for_each(|(key, value)| leave_out_nulls(was(key), value));
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                leave_out_nulls(before.and_then(|before| before.get(index)), element);
            }
        }
        _ => {}
    }
}

fn parse(json: &str) -> Result<Value, AnswerError> {
    serde_json::from_str(json).map_err(|error| AnswerError::Invalid(error.to_string()))
}

fn other(object: &ObjectRef, became: &str) -> Denied {
    Denied::OtherObject(format!("{object} became {}", answer::shown_text(became.to_owned())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::model::admission::shown;
    use crate::model::kind::Kind;

    fn given() -> Document {
        let metadata = json!({
            "name": "web",
            "namespace": "shop",
            "uid": "1",
            "resourceVersion": "7",
            "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": "web" },
            "annotations": { "hotshoe.dev/note": "a", "note": "b" },
            "finalizers": ["example.com/cache"],
            "ownerReferences": [{ "uid": "2" }],
        });
        let spec = json!({ "ports": [{ "name": "a" }], "gone": null });
        let object = json!({ "metadata": metadata, "spec": spec, "status": { "ready": true } });
        shown(&Kind::new("example.com", "v1", "Cache"), object)
    }

    /// What comes of a changed object.
    fn returned(change: impl FnOnce(&mut Value)) -> Result<Defaulted, Denied> {
        let given = given();
        let mut object: Value = serde_json::from_str(&given.json).unwrap();
        change(&mut object);
        let returned = Document { json: object.to_string().into(), ..given.clone() };
        admit(&given, &returned, &Limits::default())
    }

    fn reason(change: impl FnOnce(&mut Value)) -> &'static str {
        returned(change).map_or_else(|denied| denied.reason(), |_| "")
    }

    #[test]
    fn what_is_filled_in_becomes_a_patch_of_the_object_that_came() {
        let defaulted = returned(|object| {
            object["spec"]["size"] = json!(1);
            object["spec"]["ports"][0]["port"] = json!(80);
            object["spec"]["class"] = Value::Null;
            object["spec"]["storage"] = json!({ "size": "1Gi", "class": null });
            object["metadata"]["labels"]["a/b"] = json!("c");
            object["apiVersion"] = json!("example.com/v1");
            object["kind"] = json!("Cache");
        })
        .unwrap();
        let mut patched: Value = serde_json::from_str(&given().json).unwrap();
        json_patch::patch(&mut patched, &defaulted.patch).unwrap();
        assert_eq!(patched, defaulted.object);
        let spec = json!({
            "size": 1, "ports": [{ "name": "a", "port": 80 }], "storage": { "size": "1Gi" }, "gone": null,
        });
        assert_eq!(patched["spec"], spec);
        let expected = ["metadata.labels['a/b']", "spec.ports.0.port", "spec.size", "spec.storage"];
        let mut filled = fields(&defaulted.patch);
        filled.sort();
        assert_eq!(filled, expected);
    }

    #[test]
    fn an_object_that_stays_as_it_is_needs_no_patch() {
        assert!(returned(|_| {}).unwrap().patch.is_empty());
        let without = |object: &mut Value| drop(object["spec"].as_object_mut().unwrap().remove("gone"));
        assert_eq!(fields(&returned(without).unwrap().patch), ["spec.gone"]);
    }

    #[test]
    fn nothing_by_which_an_object_is_known_may_change() {
        let known: Vec<String> = {
            let object: Value = serde_json::from_str(&given().json).unwrap();
            object["metadata"].as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(known.len(), 10);
        for field in known.iter().filter(|field| !TEXTS.contains(&field.as_str())) {
            assert_eq!(reason(|object| object["metadata"][field] = json!("other")), "MetadataChanged", "{field}");
            let removed = |object: &mut Value| drop(object["metadata"].as_object_mut().unwrap().remove(field));
            assert_eq!(reason(removed), "MetadataChanged", "{field}");
        }
        for field in ["deletionTimestamp", "generateName", "managedFields", "selfLink"] {
            assert_eq!(reason(|object| object["metadata"][field] = json!("x")), "MetadataChanged", "{field}");
        }
        assert_eq!(reason(|object| object["metadata"] = json!("a")), "MetadataChanged");
        assert_eq!(reason(|object| object["status"]["ready"] = json!(false)), "StatusChanged");
        assert_eq!(reason(|object| drop(object.as_object_mut().unwrap().remove("status"))), "StatusChanged");
        assert_eq!(reason(|object| object["apiVersion"] = json!("example.com/v2")), "OtherObject");
        assert_eq!(reason(|object| object["kind"] = json!("Pod")), "OtherObject");
    }

    #[test]
    fn labels_and_annotations_are_texts_and_those_of_the_host_stay() {
        for texts in TEXTS {
            assert_eq!(reason(|object| object["metadata"][texts]["more"] = json!("x")), "");
            assert_eq!(reason(|object| object["metadata"][texts]["more"] = json!(1)), "InvalidOutput");
            assert_eq!(reason(|object| object["metadata"][texts] = json!([])), "InvalidOutput");
            assert_eq!(reason(|object| object["metadata"][texts]["hotshoe.dev/plugin"] = json!("x")), "ReservedKey");
        }
        let annotations =
            |key: &'static str, value: Value| reason(move |object| object["metadata"]["annotations"][key] = value);
        assert_eq!(annotations("kubectl.kubernetes.io/last-applied-configuration", json!("{}")), "ReservedKey");
        assert_eq!(annotations("hotshoe.dev/note", json!("other")), "ReservedKey");
        assert_eq!(annotations("hotshoe.dev/note", Value::Null), "ReservedKey");
        assert_eq!(reason(|object| object["metadata"]["annotations"] = Value::Null), "ReservedKey");
        assert_eq!(reason(|object| object["metadata"]["labels"] = Value::Null), "");
    }

    #[test]
    fn an_answer_about_another_object_or_in_another_form_is_denied() {
        let given = given();
        let reason = |change: fn(&mut Document)| {
            let mut returned = given.clone();
            change(&mut returned);
            admit(&given, &returned, &Limits::default()).map_or_else(|denied| denied.reason(), |_| "")
        };
        assert_eq!(reason(|returned| returned.reference.name = "\u{202e}".into()), "OtherObject");
        assert_eq!(reason(|returned| returned.reference.namespace = None), "OtherObject");
        assert_eq!(reason(|returned| returned.reference.kind.version = "v2".into()), "OtherObject");
        for json in ["", "[]", "{", "not JSON", r#"{"a":1,"a":2}"#] {
            let returned = Document { json: json.into(), ..given.clone() };
            let denied = admit(&given, &returned, &Limits::default()).unwrap_err();
            assert_eq!(denied.reason(), "InvalidOutput", "{json}");
        }
        let deep: Arc<str> = format!("{}{}", r#"{"a":"#.repeat(70), "}".repeat(70)).into();
        let large: Arc<str> = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_500_000)).into();
        for (json, expected) in [(deep, "InvalidOutput"), (large, "OutputTooLarge")] {
            let denied = admit(&given, &Document { json, ..given.clone() }, &Limits::default()).unwrap_err();
            assert_eq!(denied.reason(), expected);
        }
    }
}
