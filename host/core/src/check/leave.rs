//! Fields that a plugin leaves to others: when it no longer states them, their values stay. Pure.
//!
//! A desired child names them in an annotation, which the host reads and never writes to the object.

use serde_json::{Map, Value};

use crate::check::violation::{Checked, Denial, Violation, all};
use crate::model::field_path;
use crate::model::kind::ObjectRef;
use crate::model::limits::LEFT_FIELDS;
use crate::model::object::{HOST_PREFIX, LEAVE_ANNOTATION};

/// Takes the paths of the fields that are left to others out of a child's annotations.
///
/// # Errors
/// When there are too many, one of them is no path of a field that can be left, or the child states one of them.
pub fn take(body: &mut Map<String, Value>, child: &ObjectRef) -> Result<Vec<Box<str>>, Denial> {
    let annotations = body.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let Some(stated) = annotations.and_then(Value::as_object_mut).and_then(|texts| texts.remove(LEAVE_ANNOTATION))
    else {
        return Ok(Vec::new());
    };
    let deny = |what: String, change: &str| {
        Violation::new("leave", format!("{child}: {LEAVE_ANNOTATION}: {what}")).answer(change)
    };
    let Value::String(text) = stated else {
        return Err(deny("it is no text".to_owned(), "name the fields in one text, between commas").into());
    };
    let paths: Vec<&str> = text.split(',').map(str::trim).filter(|path| !path.is_empty()).collect();
    if paths.len() > LEFT_FIELDS {
        return Err(deny(format!("it names more than {LEFT_FIELDS} fields"), "leave a field around them").into());
    }
    all(paths.iter().map(|path| -> Checked {
        let keys = field_path::keys(path).map_err(|error| deny(format!("{path:?}: {error}"), "correct the path"))?;
        if !may_be_left(&keys) {
            return Err(deny(format!("{path} is the host's"), "leave it out there").into());
        }
        if has(&Value::Object(body.clone()), &keys) {
            return Err(deny(format!("the child itself sets {path}"), "set the field or leave it, not both").into());
        }
        Ok(())
    }))?;
    Ok(paths.into_iter().map(Box::from).collect())
}

/// Returns whether others may have a field: not what identifies the object, makes it a child, or reports on it.
fn may_be_left(keys: &[&str]) -> bool {
    match keys {
        ["metadata", "labels" | "annotations", key] => !key.starts_with(HOST_PREFIX),
        ["apiVersion" | "kind" | "metadata" | "status", ..] => false,
        _ => true,
    }
}

/// Returns whether an object has a field, in any element of the lists on the way.
fn has(object: &Value, keys: &[&str]) -> bool {
    match (object, keys) {
        (_, []) => true,
        (Value::Object(members), [key, below @ ..]) => members.get(*key).is_some_and(|member| has(member, below)),
        (Value::Array(elements), keys) => elements.iter().any(|element| has(element, keys)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::kind::Kind;

    fn taken(leave: Value) -> Result<(Vec<Box<str>>, Value), &'static str> {
        let child = ObjectRef { kind: Kind::new("apps", "v1", "Deployment"), namespace: None, name: "a".into() };
        let spec = json!({ "paused": true, "list": [{ "name": "a" }, { "name": "b", "value": 1 }] });
        let metadata = json!({ "annotations": { LEAVE_ANNOTATION: leave, "note": "x" } });
        let Value::Object(mut body) = json!({ "metadata": metadata, "spec": spec }) else { unreachable!() };
        let paths = take(&mut body, &child).map_err(|denial| denial.rule())?;
        assert_eq!(body["spec"], spec);
        Ok((paths, body["metadata"].clone()))
    }

    #[test]
    fn the_named_fields_are_taken_out_of_the_annotations() {
        let rest = json!({ "annotations": { "note": "x" } });
        let several = "spec.replicas, metadata.annotations['example.com/size'],spec.list.port,";
        let paths = ["spec.replicas", "metadata.annotations['example.com/size']", "spec.list.port"].map(Box::from);
        assert_eq!(taken(json!(several)), Ok((paths.to_vec(), rest.clone())));
        assert_eq!(taken(json!("")), Ok((Vec::new(), rest)));
        assert_eq!(
            take(&mut Map::new(), &ObjectRef { kind: Kind::new("", "v1", "A"), namespace: None, name: "a".into() }),
            Ok(Vec::new())
        );
    }

    #[test]
    fn what_is_no_path_or_is_the_hosts_or_is_stated_is_denied() {
        for wrong in ["spec.list[0]", "spec..a", "spec", "spec.paused", "spec.list", "spec.list.value"] {
            assert_eq!(taken(json!(wrong)), Err("leave"), "{wrong}");
        }
        for of_host in [
            "metadata",
            "metadata.ownerReferences",
            "metadata.labels",
            "metadata.labels['hotshoe.dev/plugin']",
            "status",
            "kind",
        ] {
            assert_eq!(taken(json!(of_host)), Err("leave"), "{of_host}");
        }
        assert_eq!(taken(json!(["spec.replicas"])), Err("leave"));
        let number = |count: usize| json!((0..count).map(|n| format!("spec.a{n}")).collect::<Vec<_>>().join(","));
        assert_eq!(taken(number(LEFT_FIELDS)).unwrap().0.len(), LEFT_FIELDS);
        assert_eq!(taken(number(LEFT_FIELDS + 1)), Err("leave"));
    }
}
