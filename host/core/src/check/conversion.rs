//! Checks what a plugin answers to `convert`: the same objects, in another version of their kind.
//!
//! The API server permits a conversion to change labels and annotations of the metadata. Here only annotations may change,
//! because selectors of others depend on labels. All or nothing: one object that is denied denies the whole answer. Pure.

use serde_json::{Map, Value};

use crate::check::answer::{self, AnswerError};
use crate::model::decision::Document;
use crate::model::kind::ObjectRef;
use crate::model::limits::Limits;

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

/// Returns an object as a plugin is given it: complete but for `apiVersion` and `kind`, which the reference has.
///
/// # Errors
/// If it lacks one of these, or a name.
pub fn shown(mut object: Value) -> Result<Document, String> {
    let reference = ObjectRef::of(&object)?;
    if let Value::Object(members) = &mut object {
        members.remove("apiVersion");
        members.remove("kind");
    }
    Ok(Document { reference, json: object.to_string().into() })
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
) -> Result<Vec<Value>, Denied> {
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
fn complete(before: &Document, after: &Document) -> Result<Value, Denied> {
    let object = &before.reference;
    let (before, mut whole) = (members(&before.json)?, members(&after.json)?);
    let (api_version, kind) = (after.reference.kind.api_version(), &*after.reference.kind.kind);
    let stated = whole.insert("apiVersion".into(), api_version.as_str().into());
    if let Some(other) = stated.filter(|stated| *stated != *api_version) {
        return Err(Denied::OtherVersion(became(object, &other.to_string())));
    }
    let stated = whole.insert("kind".into(), kind.into());
    if let Some(other) = stated.filter(|stated| *stated != *kind) {
        return Err(Denied::OtherKind(became(object, &other.to_string())));
    }
    check_metadata(object, before.get("metadata"), whole.get("metadata"))?;
    Ok(Value::Object(whole))
}

fn check_metadata(object: &ObjectRef, before: Option<&Value>, after: Option<&Value>) -> Result<(), Denied> {
    let present = |metadata: Option<&Value>, key: &str| metadata?.get(key).filter(|value| !value.is_null()).cloned();
    let keys = [before, after].into_iter().flatten().filter_map(Value::as_object).flat_map(Map::keys);
    let mut changed = keys.filter(|key| *key != "annotations" && present(before, key) != present(after, key));
    if let Some(field) = changed.next() {
        return Err(Denied::MetadataChanged(answer::shown_text(format!("{object}: metadata.{field}"))));
    }
    match present(after, "annotations") {
        None => Ok(()),
        Some(Value::Object(texts)) if texts.values().all(Value::is_string) => Ok(()),
        Some(_) => Err(AnswerError::Invalid(format!("the annotations of {object} are no texts")).into()),
    }
}

fn members(json: &str) -> Result<Map<String, Value>, AnswerError> {
    serde_json::from_str(json).map_err(|error| AnswerError::Invalid(error.to_string()))
}

/// Returns what became of an object, where the plugin chose the words.
fn became(object: &ObjectRef, other: &str) -> String {
    format!("{object} became {}", answer::shown_text(other.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::kind::Kind;

    fn parent(name: &str) -> Document {
        shown(json!({
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
        }))
        .unwrap()
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
        let admitted = admit(&given, "v1", &returned, &Limits::default()).unwrap();
        assert_eq!(admitted[0]["apiVersion"], "example.com/v1");
        assert_eq!(admitted[0]["kind"], "Cache");
        assert_eq!(admitted[0]["spec"], json!({ "replicas": 1 }));
        assert_eq!(admitted[0]["metadata"]["annotations"]["kept"], "size");
        let stated = [converted(&given[0], |whole| {
            whole["apiVersion"] = json!("example.com/v1");
            whole["kind"] = json!("Cache");
            whole["metadata"].as_object_mut().unwrap().remove("annotations");
        })];
        assert!(admit(&given, "v1", &stated, &Limits::default()).is_ok());
        assert_eq!(admit(&[], "v1", &[], &Limits::default()), Ok(Vec::new()));
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
