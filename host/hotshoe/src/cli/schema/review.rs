//! The review of one object by the schema and the rules of its CRD, as the API server does it before it stores the object.

use serde_json::Value;

use super::files::Version;
use super::findings::Findings;
use super::members::Member;
use super::rules::Question;
use super::stored::{Stored, stored};
use super::valid;
use hotshoe_core::model::names;

/// A review that is not complete before its question is answered.
#[derive(Debug)]
pub(in crate::cli) struct Review {
    pub(in crate::cli) findings: Findings,
    /// Whether the object keeps the rules. Only asked about an object that is valid by its schema, because they rely on that.
    pub(in crate::cli) question: Option<Question>,
}

/// Reviews an object that is created, or that takes the place of an old one. Its defaults are filled in first.
pub(in crate::cli) fn review(version: &Version<'_>, object: &Value, old: Option<&Value>) -> Review {
    let Stored { object, unknown } = stored(version.schema, object);
    let old = old.map(|old| stored(version.schema, old).object);
    let mut findings = valid::findings(&Member::root(version.schema, &object, old.as_ref()));
    for path in unknown {
        findings.problem(&path, "unknown field");
    }
    metadata(&object, &mut findings);
    let is_valid = findings.problems.is_empty();
    let question = is_valid.then(|| Question::about(&version.kind, version.schema, &object, old.as_ref()));
    Review { findings, question: question.flatten() }
}

/// Returns an object as the API server shows it to a webhook: with the defaults of its schema, and without unknown fields,
/// whose paths are returned beside it.
pub(in crate::cli) fn asked(version: &Version<'_>, object: &Value) -> (Value, Vec<String>) {
    let Stored { object, unknown } = stored(version.schema, object);
    (object, unknown)
}

/// Checks the name and the labels. An object whose name the API server is to make has the beginning of one.
fn metadata(object: &Value, findings: &mut Findings) {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if text("name").or(text("generateName")).is_none() {
        findings.problem("metadata.name", "Required value: name or generateName is required");
    }
    if text("name").is_some_and(|name| !names::is_subdomain(name)) {
        findings.problem("metadata.name", "must be a lowercase RFC 1123 subdomain, such as my-name or example.com");
    }
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        let is_value = value.as_str().is_some_and(|value| value.is_empty() || names::is_plain(value));
        if !names::is_qualified(key) || !is_value {
            findings.problem("metadata.labels", format!("{key}={value} is no label"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::super::keywords::Schema;
    use super::super::rules::collected;
    use super::*;
    use hotshoe_core::model::kind::Kind;

    fn found(object: &Value, old: Option<&Value>) -> Vec<String> {
        let schema = json!({ "type": "object", "properties": {
            "metadata": { "type": "object" },
            "spec": {
                "type": "object", "default": {}, "required": ["size"],
                "properties": {
                    "size": { "type": "integer", "default": 1, "minimum": 1 },
                    "most": { "type": "integer", "default": 3 },
                },
                "x-kubernetes-validations": [
                    { "rule": "self.size <= self.most", "message": "too large" },
                    { "rule": "self.most >= oldSelf.most", "message": "may not shrink" },
                ],
            },
        } });
        let kind = Kind::new("example.com", "v1", "Test");
        let version =
            Version { file: Path::new("crds/a.yaml"), kind, is_namespaced: true, schema: Schema::new(&schema) };
        let Review { mut findings, question } = review(&version, object, old);
        if let Some(question) = question {
            let mut said = Vec::new();
            question.answer(&mut |one| said.push(one));
            findings.add(collected(said, "it ended"));
        }
        findings.problems.iter().map(ToString::to_string).collect()
    }

    fn object(spec: Value) -> Value {
        json!({ "apiVersion": "example.com/v1", "kind": "Test", "metadata": { "name": "a" }, "spec": spec })
    }

    #[test]
    fn defaults_are_filled_in_before_anything_is_checked() {
        let without = json!({ "apiVersion": "example.com/v1", "kind": "Test", "metadata": { "name": "a" } });
        assert!(found(&without, None).is_empty());
        assert_eq!(found(&object(json!({ "size": 4 })), None), ["spec: too large"]);
        let old = object(json!({ "size": 1 }));
        assert_eq!(found(&object(json!({ "size": 1, "most": 2 })), Some(&old)), ["spec: may not shrink"]);
    }

    #[test]
    fn rules_are_asked_about_what_is_valid_only() {
        let found = found(&object(json!({ "size": "large", "sise": 1 })), None);
        assert_eq!(found, ["spec.size: must be of type integer, but it is \"large\"", "spec.sise: unknown field"]);
    }

    #[test]
    fn a_name_and_labels_have_their_forms() {
        let mut wrong = object(json!({}));
        wrong["metadata"] = json!({ "name": "A_b", "labels": { "a": "b", "no label": "x", "c": "-" } });
        let found = found(&wrong, None);
        assert!(found[0].starts_with("metadata.name: must be a lowercase"), "{found:?}");
        assert_eq!(found.len(), 3, "{found:?}");
        let named = |metadata: Value| {
            let mut object = object(json!({}));
            object["metadata"] = metadata;
            self::found(&object, None)
        };
        assert_eq!(named(json!({})), ["metadata.name: Required value: name or generateName is required"]);
        assert!(named(json!({ "generateName": "a-" })).is_empty());
    }
}
