//! Checks what a plugin answers to `convert`: the same objects, in another version of their kind.
//!
//! The API server permits a conversion to change labels and annotations of the metadata. Here only annotations may change,
//! because selectors of others depend on labels. All or nothing: one object that is denied denies the whole answer. Pure.
//!
//! Of an object, only the members and the metadata are parsed: the rest is passed on as it was written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::check::answer::{self, AnswerError};
use crate::model::decision::Document;
use crate::model::kind::{Kind, ObjectRef};
use crate::model::limits::Limits;

/// How many objects a plugin is given at once. Then a call of a plugin with a language runtime, which takes up to a
/// millisecond for an object, ends well within its time.
const MAX_BATCH_OBJECTS: usize = 64;
/// How many bytes of objects a plugin is given at once, unless a single object has more: a quarter of what an answer may
/// have.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// Why a converted answer is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Objects are missing.
    #[error("the plugin returned {returned} of {given} objects; a conversion returns each of them")]
    Dropped {
        /// How many objects there were.
        given: usize,
        /// How many it returned.
        returned: usize,
    },
    /// There are more objects than before.
    #[error("the plugin made {returned} objects of {given}; a conversion adds none")]
    Invented {
        /// How many objects there were.
        given: usize,
        /// How many it returned.
        returned: usize,
    },
    /// An object is at the place of another one.
    #[error("{0} is at the place of another object; a conversion keeps the order")]
    Reordered(String),
    /// An object has another name or namespace.
    #[error("{0}; a conversion keeps name and namespace")]
    Renamed(String),
    /// An object is of another kind or group.
    #[error("{0}; a conversion keeps kind and group")]
    OtherKind(String),
    /// An object is not of the version that was asked for.
    #[error("{0}; a conversion returns the version that was asked for")]
    OtherVersion(String),
    /// A field of the metadata differs.
    #[error("{0} differs; of the metadata a conversion may change annotations only")]
    MetadataChanged(String),
    /// An object is too large, or cannot be used.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

impl Denied {
    /// Returns one PascalCase word for Event, condition and metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Denied::Dropped { .. } => "Dropped",
            Denied::Invented { .. } => "Invented",
            Denied::Reordered(_) => "Reordered",
            Denied::Renamed(_) => "Renamed",
            Denied::OtherKind(_) => "OtherKind",
            Denied::OtherVersion(_) => "OtherVersion",
            Denied::MetadataChanged(_) => "MetadataChanged",
            Denied::Answer(error) => error.reason(),
        }
    }
}

/// The members of a JSON object, as they were written.
type Members<'a> = BTreeMap<String, &'a RawValue>;

/// What names an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: String,
    kind: String,
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
    namespace: Option<String>,
}

/// Returns an object as a plugin is given it: complete but for `apiVersion` and `kind`, which the reference has.
///
/// # Errors
/// If it lacks one of these, or a name.
pub fn shown(object: &str) -> Result<Document, String> {
    let unusable = |error: serde_json::Error| format!("an object cannot be converted: {error}");
    let Head { api_version, kind, metadata } = serde_json::from_str(object).map_err(unusable)?;
    let reference = ObjectRef {
        kind: Kind::of(&api_version, &kind),
        namespace: metadata.namespace.map(Into::into),
        name: metadata.name.into(),
    };
    let mut members: Members<'_> = serde_json::from_str(object).map_err(unusable)?;
    members.remove("apiVersion");
    members.remove("kind");
    let json = serde_json::to_string(&members).map_err(unusable)?;
    Ok(Document { reference, json: json.into() })
}

/// Divides objects so that no call is given too much.
pub fn batches(objects: impl Iterator<Item = Document>) -> Vec<Vec<Document>> {
    let (mut batches, mut bytes) = (Vec::<Vec<Document>>::new(), 0);
    for object in objects {
        bytes += object.json.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_BATCH_OBJECTS && bytes <= MAX_BATCH_BYTES => batch.push(object),
            _ => {
                bytes = object.json.len();
                batches.push(vec![object]);
            }
        }
    }
    batches
}

/// Checks the converted objects, and returns them complete with `apiVersion` and `kind`.
///
/// # Errors
/// The first thing that is wrong with them.
pub fn admit(
    given: &[Document],
    to_version: &str,
    returned: &[Document],
    limits: &Limits,
) -> Result<Vec<Box<RawValue>>, Denied> {
    let counts = (given.len(), returned.len());
    match counts {
        (given, returned) if returned < given => return Err(Denied::Dropped { given, returned }),
        (given, returned) if returned > given => return Err(Denied::Invented { given, returned }),
        _ => {}
    }
    let admitted = given.iter().zip(returned).map(|(before, after)| {
        check_name(given, &before.reference, &after.reference)?;
        check_kind(&before.reference, &after.reference, to_version)?;
        answer::check_object(after, limits)?;
        complete(before, after)
    });
    admitted.collect()
}

fn check_name(given: &[Document], before: &ObjectRef, after: &ObjectRef) -> Result<(), Denied> {
    let is_called_as = |one: &ObjectRef| (&one.namespace, &one.name) == (&after.namespace, &after.name);
    if is_called_as(before) {
        return Ok(());
    }
    match given.iter().any(|other| is_called_as(&other.reference)) {
        true => Err(Denied::Reordered(answer::shown_text(after.to_string()))),
        false => Err(Denied::Renamed(became(before, &after.to_string()))),
    }
}

fn check_kind(before: &ObjectRef, after: &ObjectRef, to_version: &str) -> Result<(), Denied> {
    if !after.kind.is_served_as(&before.kind) {
        return Err(Denied::OtherKind(became(before, &after.kind.to_string())));
    }
    match *after.kind.version == *to_version {
        true => Ok(()),
        false => Err(Denied::OtherVersion(became(before, &after.kind.version))),
    }
}

/// Completes a converted object, whose JSON is known to be an object, and checks its metadata.
fn complete(before: &Document, after: &Document) -> Result<Box<RawValue>, Denied> {
    let object = &before.reference;
    let api_version = text(&after.reference.kind.api_version())?;
    let kind = text(&after.reference.kind.kind)?;
    let (before, mut whole) = (members(&before.json)?, members(&after.json)?);
    let stated = whole.insert("apiVersion".to_owned(), &api_version);
    if let Some(other) = stated.filter(|stated| stated.get() != api_version.get()) {
        return Err(Denied::OtherVersion(became(object, other.get())));
    }
    let stated = whole.insert("kind".to_owned(), &kind);
    if let Some(other) = stated.filter(|stated| stated.get() != kind.get()) {
        return Err(Denied::OtherKind(became(object, other.get())));
    }
    check_metadata(object, &metadata(&before), &metadata(&whole))?;
    Ok(to_raw_value(&whole).map_err(unusable)?)
}

fn check_metadata(object: &ObjectRef, before: &Members<'_>, after: &Members<'_>) -> Result<(), Denied> {
    let mut others = before.keys().chain(after.keys()).filter(|field| *field != "annotations");
    if let Some(field) = others.find(|field| !is_same(present(before, field), present(after, field))) {
        return Err(Denied::MetadataChanged(answer::shown_text(format!("{object}: metadata.{field}"))));
    }
    let annotations = present(after, "annotations").map_or("{}", RawValue::get);
    match serde_json::from_str::<BTreeMap<String, String>>(annotations) {
        Ok(_) => Ok(()),
        Err(_) => Err(AnswerError::Invalid(format!("the annotations of {object} are no texts")).into()),
    }
}

/// Returns the fields of the metadata; none if that is no object.
fn metadata<'a>(object: &Members<'a>) -> Members<'a> {
    object.get("metadata").and_then(|metadata| serde_json::from_str(metadata.get()).ok()).unwrap_or_default()
}

/// Returns a member; a `null` is as if it were left out.
fn present<'a>(members: &Members<'a>, name: &str) -> Option<&'a RawValue> {
    members.get(name).copied().filter(|value| value.get() != "null")
}

/// Returns whether two values are equal. Most are written in the same way.
fn is_same(one: Option<&RawValue>, other: Option<&RawValue>) -> bool {
    match (one.map(RawValue::get), other.map(RawValue::get)) {
        (Some(one), Some(other)) if one != other => {
            let parsed = |json| serde_json::from_str::<Value>(json).ok();
            parsed(one).is_some_and(|one| Some(one) == parsed(other))
        }
        (one, other) => one == other,
    }
}

fn members(json: &str) -> Result<Members<'_>, AnswerError> {
    serde_json::from_str(json).map_err(unusable)
}

fn text(text: &str) -> Result<Box<RawValue>, AnswerError> {
    to_raw_value(text).map_err(unusable)
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed as a function")]
fn unusable(error: serde_json::Error) -> AnswerError {
    AnswerError::Invalid(error.to_string())
}

/// Returns what became of an object, where the plugin chose the words.
fn became(object: &ObjectRef, other: &str) -> String {
    format!("{object} became {}", answer::shown_text(other.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sizes(objects: &[usize]) -> Vec<usize> {
        let object = |bytes: &usize| {
            let text = "x".repeat(*bytes);
            let object = format!(r#"{{"apiVersion":"g/v1","kind":"A","metadata":{{"name":"a"}},"spec":"{text}"}}"#);
            shown(&object).unwrap()
        };
        batches(objects.iter().map(object)).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_call_is_given_neither_too_many_objects_nor_too_many_bytes() {
        assert_eq!(sizes(&[]), [0_usize; 0]);
        assert_eq!(sizes(&[1; 130]), [64, 64, 2]);
        assert_eq!(sizes(&[MAX_BATCH_BYTES / 2 - 100, MAX_BATCH_BYTES / 2 - 100, 1000]), [2, 1]);
        assert_eq!(sizes(&[1, 3 * MAX_BATCH_BYTES, 1, 1]), [1, 1, 2]);
    }
    use crate::model::kind::Kind;

    fn parent(name: &str) -> Document {
        let object = json!({
            "apiVersion": "example.com/v1alpha1",
            "kind": "Cache",
            "metadata": {
                "name": name,
                "namespace": "shop",
                "uid": "1",
                "resourceVersion": "7",
                "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z",
                "labels": { "app": "web" },
                "annotations": { "note": "old" },
                "finalizers": ["example.com/cache"],
                "ownerReferences": [{ "uid": "2" }],
                "managedFields": [{ "manager": "kubectl" }],
            },
            "spec": { "size": 1 },
        });
        shown(&object.to_string()).unwrap()
    }

    fn parsed(json: &RawValue) -> Value {
        serde_json::from_str(json.get()).unwrap()
    }

    /// The object in v1, after a change of its JSON.
    fn converted(object: &Document, change: impl FnOnce(&mut Value)) -> Document {
        let mut whole: Value = serde_json::from_str(&object.json).unwrap();
        whole["spec"] = json!({ "replicas": 1 });
        change(&mut whole);
        let kind = Kind { version: "v1".into(), ..object.reference.kind.clone() };
        Document { reference: ObjectRef { kind, ..object.reference.clone() }, json: whole.to_string().into() }
    }

    fn reason(returned: &[Document]) -> &'static str {
        let given = [parent("a"), parent("b")];
        match admit(&given, "v1", returned, &Limits::default()) {
            Ok(_) => "",
            Err(denied) => denied.reason(),
        }
    }

    /// The reason for which a changed first object is denied.
    fn changed(change: impl FnOnce(&mut Document)) -> &'static str {
        let mut first = converted(&parent("a"), |_| {});
        change(&mut first);
        reason(&[first, converted(&parent("b"), |_| {})])
    }

    #[test]
    fn what_differs_between_versions_may_change_and_annotations_with_it() {
        let given = [parent("a")];
        let returned = [converted(&given[0], |whole| {
            whole["metadata"]["annotations"] = json!({ "note": "new", "kept": "size" });
            whole["metadata"]["selfLink"] = Value::Null;
            whole["status"] = json!({ "ready": true });
        })];
        let admitted = parsed(&admit(&given, "v1", &returned, &Limits::default()).unwrap()[0]);
        assert_eq!(admitted["apiVersion"], "example.com/v1");
        assert_eq!(admitted["kind"], "Cache");
        assert_eq!(admitted["spec"], json!({ "replicas": 1 }));
        assert_eq!(admitted["metadata"]["annotations"]["kept"], "size");
        let stated = [converted(&given[0], |whole| {
            whole["apiVersion"] = json!("example.com/v1");
            whole["kind"] = json!("Cache");
            whole["metadata"].as_object_mut().unwrap().remove("annotations");
        })];
        assert!(admit(&given, "v1", &stated, &Limits::default()).is_ok());
        assert!(admit(&[], "v1", &[], &Limits::default()).unwrap().is_empty());
    }

    #[test]
    fn what_a_plugin_writes_in_its_own_way_is_the_same_and_is_passed_on_as_written() {
        let given = shown(
            r#"{"apiVersion":"example.com/v1alpha1","kind":"Cache","metadata":{"name":"a","labels":{"b":"\u003c","a":"1"}}}"#,
        )
        .unwrap();
        let mut returned = converted(&given, |_| {});
        returned.json =
            r#"{"metadata":{"labels":{"a":"1","b":"<"},"name":"a"},"spec":{"share":1.50,"big":1e2}}"#.into();
        let admitted = admit(&[given], "v1", &[returned], &Limits::default()).unwrap();
        assert_eq!(
            admitted[0].get(),
            r#"{"apiVersion":"example.com/v1","kind":"Cache","metadata":{"labels":{"a":"1","b":"<"},"name":"a"},"spec":{"share":1.50,"big":1e2}}"#
        );
    }

    #[test]
    fn an_object_without_a_name_or_a_kind_is_not_shown() {
        for object in [r#"{"kind":"A","metadata":{"name":"a"}}"#, r#"{"apiVersion":"v1","kind":"A"}"#, "[]", "", "{"] {
            assert!(shown(object).unwrap_err().starts_with("an object cannot be converted: "), "{object}");
        }
    }

    #[test]
    fn each_hostile_answer_is_denied_for_a_reason_of_its_own() {
        let [a, b, c] = ["a", "b", "c"].map(|name| converted(&parent(name), |_| {}));
        assert_eq!(reason(&[a.clone(), b.clone()]), "");
        assert_eq!(reason(std::slice::from_ref(&a)), "Dropped");
        assert_eq!(reason(&[]), "Dropped");
        assert_eq!(reason(&[a.clone(), b.clone(), c.clone()]), "Invented");
        assert_eq!(reason(&[b.clone(), a.clone()]), "Reordered");
        assert_eq!(reason(&[a.clone(), a]), "Reordered");
        assert_eq!(reason(&[c, b]), "Renamed");
        assert_eq!(changed(|first| first.reference.namespace = None), "Renamed");
        assert_eq!(changed(|first| first.reference.kind.kind = "Pod".into()), "OtherKind");
        assert_eq!(changed(|first| first.reference.kind.group = "".into()), "OtherKind");
        assert_eq!(changed(|first| first.reference.kind.version = "v1alpha1".into()), "OtherVersion");
        for json in ["", "[]", "{", "not JSON", r#"{"a":1,"a":2}"#] {
            assert_eq!(changed(|first| first.json = json.into()), "InvalidOutput", "{json}");
        }
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_500_000));
        assert_eq!(changed(|first| first.json = large.into()), "OutputTooLarge");
    }

    #[test]
    fn the_json_may_not_contradict_the_reference() {
        for (member, value, expected) in [
            ("apiVersion", "example.com/v1alpha1", "OtherVersion"),
            ("apiVersion", "v1", "OtherVersion"),
            ("kind", "Pod", "OtherKind"),
        ] {
            assert_eq!(
                changed(|first| *first = converted(&parent("a"), |whole| whole[member] = json!(value))),
                expected
            );
        }
    }

    #[test]
    fn of_the_metadata_nothing_but_annotations_may_change() {
        let given: Value = serde_json::from_str(&parent("a").json).unwrap();
        let fields: Vec<&String> = given["metadata"].as_object().unwrap().keys().collect();
        assert_eq!(fields.len(), 12);
        for field in fields.into_iter().filter(|field| *field != "annotations") {
            let with = |value: Value| {
                changed(|first| *first = converted(&parent("a"), |whole| whole["metadata"][field] = value))
            };
            assert_eq!(with(json!("other")), "MetadataChanged", "{field}");
            assert_eq!(with(Value::Null), "MetadataChanged", "{field}");
        }
        let with = |change: fn(&mut Value)| changed(|first| *first = converted(&parent("a"), change));
        assert_eq!(with(|whole| whole["metadata"]["selfLink"] = json!("/x")), "MetadataChanged");
        assert_eq!(with(|whole| whole["metadata"] = json!("a")), "MetadataChanged");
        assert_eq!(with(|whole| drop(whole.as_object_mut().unwrap().remove("metadata"))), "MetadataChanged");
        assert_eq!(with(|whole| whole["metadata"]["annotations"] = json!({ "size": 1 })), "InvalidOutput");
        assert_eq!(with(|whole| whole["metadata"]["annotations"] = json!([])), "InvalidOutput");
    }
}
