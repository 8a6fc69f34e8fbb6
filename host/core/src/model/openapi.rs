//! Reads from the OpenAPI v3 document of a group version whether the status of a kind has room for the observed
//! generation. Nothing else of the document is kept: it may be megabytes long. Pure.
//!
//! A CRD's schema stands in the document as the API server uses it, with all parts inline. Where a schema refers to
//! another one, as those of aggregated API servers do, it is not followed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::kind::Kind;

/// Whether the schema of a status has a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPresence {
    /// It has the field, or keeps fields that it does not name.
    Present,
    /// It has no such field, or one of another type.
    Absent,
    /// The schema is written in a way that the host does not understand.
    Unclear,
}

/// Returns whether `status.observedGeneration` of a kind may hold a number; `None` if the document does not have the
/// kind.
///
/// # Errors
/// If the text is no OpenAPI document.
pub fn room_for_generation(document: &str, kind: &Kind) -> serde_json::Result<Option<FieldPresence>> {
    let document: Document<'_> = serde_json::from_str(document)?;
    let schema = document.components.schemas.values().find(|schema| schema.is_of(kind));
    schema.map(Schema::room).transpose()
}

#[derive(Deserialize)]
struct Document<'d> {
    #[serde(borrow)]
    components: Components<'d>,
}

#[derive(Deserialize)]
struct Components<'d> {
    #[serde(borrow)]
    schemas: BTreeMap<Cow<'d, str>, Schema<'d>>,
}

/// The schema of a kind, or of a type without one. What it says about fields is read only if it is the one sought.
#[derive(Deserialize)]
struct Schema<'d> {
    #[serde(borrow, default, rename = "x-kubernetes-group-version-kind")]
    kinds: Vec<GroupVersionKind<'d>>,
    #[serde(default, rename = "x-kubernetes-preserve-unknown-fields")]
    preserves: bool,
    #[serde(borrow)]
    properties: Option<&'d RawValue>,
}

#[derive(Deserialize)]
struct GroupVersionKind<'d> {
    #[serde(borrow)]
    group: Cow<'d, str>,
    #[serde(borrow)]
    version: Cow<'d, str>,
    #[serde(borrow)]
    kind: Cow<'d, str>,
}

impl Schema<'_> {
    fn is_of(&self, kind: &Kind) -> bool {
        let is_it = |one: &GroupVersionKind<'_>| {
            (&*one.group, &*one.version, &*one.kind) == (&*kind.group, &*kind.version, &*kind.kind)
        };
        self.kinds.iter().any(is_it)
    }

    fn room(&self) -> serde_json::Result<FieldPresence> {
        // Where the API server could not use the schema, it publishes none.
        let Some(properties) = self.properties else { return Ok(FieldPresence::Unclear) };
        let Properties { status } = serde_json::from_str(properties.get())?;
        Ok(match status {
            Some(status) => status.room(),
            None if self.preserves => FieldPresence::Present,
            None => FieldPresence::Absent,
        })
    }
}

#[derive(Deserialize)]
struct Properties<'d> {
    #[serde(borrow)]
    status: Option<Status<'d>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'d> {
    #[serde(borrow, rename = "type")]
    type_: Option<Cow<'d, str>>,
    #[serde(default, rename = "x-kubernetes-preserve-unknown-fields")]
    preserves: bool,
    #[serde(borrow, default)]
    properties: StatusProperties<'d>,
    #[serde(borrow)]
    additional_properties: Option<&'d RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusProperties<'d> {
    #[serde(borrow)]
    observed_generation: Option<Field<'d>>,
}

#[derive(Deserialize)]
struct Field<'d> {
    #[serde(borrow, rename = "type")]
    type_: Option<Cow<'d, str>>,
    #[serde(default, rename = "x-kubernetes-preserve-unknown-fields")]
    preserves: bool,
    #[serde(default, rename = "x-kubernetes-int-or-string")]
    is_int_or_string: bool,
}

impl Status<'_> {
    fn room(&self) -> FieldPresence {
        match &self.properties.observed_generation {
            Some(field) => field.room(),
            None if self.preserves => FieldPresence::Present,
            None if self.additional_properties.is_some() => FieldPresence::Unclear,
            None if self.type_.as_deref() == Some("object") => FieldPresence::Absent,
            None => FieldPresence::Unclear,
        }
    }
}

impl Field<'_> {
    fn room(&self) -> FieldPresence {
        match self.type_.as_deref() {
            Some("integer" | "number") => FieldPresence::Present,
            Some(_) => FieldPresence::Absent,
            None if self.is_int_or_string || self.preserves => FieldPresence::Present,
            None => FieldPresence::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn demo() -> Kind {
        Kind::new("example.com", "v1", "Demo")
    }

    /// Returns the document of a group version with a kind whose schema has these members.
    fn document(schema: Value) -> String {
        let mut schema = schema;
        schema["type"] = "object".into();
        schema["x-kubernetes-group-version-kind"] =
            json!([{ "group": "example.com", "version": "v1", "kind": "Demo" }]);
        let options = json!({
            "properties": { "status": "of another kind, whatever it is" },
            "x-kubernetes-group-version-kind": [{ "group": "", "version": "v1", "kind": "DeleteOptions" }],
        });
        let document = json!({
            "openapi": "3.0.0",
            "paths": { "/apis/example.com/v1/demos": { "get": {} } },
            "components": {
                "schemas": {
                    "com.example.v1.Demo": schema,
                    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions_v2": options,
                    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": { "type": "string", "format": "date-time" },
                },
                "securitySchemes": {},
            },
        });
        document.to_string()
    }

    fn room(schema: Value) -> FieldPresence {
        room_for_generation(&document(schema), &demo()).unwrap().unwrap()
    }

    fn room_of_status(status: Value) -> FieldPresence {
        room(json!({ "properties": { "status": status } }))
    }

    #[test]
    fn a_status_has_room_where_it_has_the_field_or_keeps_unknown_ones() {
        let with = |field: Value| json!({ "type": "object", "properties": { "observedGeneration": field } });
        let preserves = || json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        for status in [
            with(json!({ "type": "integer", "format": "int64" })),
            with(json!({ "type": "number" })),
            with(json!({ "x-kubernetes-int-or-string": true })),
            with(json!({ "x-kubernetes-preserve-unknown-fields": true })),
            preserves(),
            json!({ "x-kubernetes-preserve-unknown-fields": true, "properties": { "word": { "type": "string" } } }),
        ] {
            assert_eq!(room_of_status(status.clone()), FieldPresence::Present, "{status}");
        }
        assert_eq!(
            room(json!({ "properties": {}, "x-kubernetes-preserve-unknown-fields": true })),
            FieldPresence::Present
        );
    }

    #[test]
    fn a_status_has_no_room_where_the_field_or_the_whole_status_is_not_in_the_schema() {
        let of_conditions = json!({ "properties": { "observedGeneration": { "type": "integer" } } });
        for status in [
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": { "conditions": { "items": of_conditions } } }),
            json!({ "type": "object", "properties": { "observedGeneration": { "type": "string" } } }),
            json!({
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": { "observedGeneration": { "type": "string" } },
            }),
        ] {
            assert_eq!(room_of_status(status.clone()), FieldPresence::Absent, "{status}");
        }
        assert_eq!(room(json!({ "properties": { "spec": {} } })), FieldPresence::Absent);
        // What the whole object keeps does not hold for a status that has a schema of its own.
        let whole =
            json!({ "x-kubernetes-preserve-unknown-fields": true, "properties": { "status": { "type": "object" } } });
        assert_eq!(room(whole), FieldPresence::Absent);
    }

    #[test]
    fn a_schema_that_refers_to_another_or_that_is_not_published_is_unclear() {
        let reference = json!({ "$ref": "#/components/schemas/com.example.v1.DemoStatus" });
        for status in [
            reference.clone(),
            json!({ "default": {}, "allOf": [reference] }),
            json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
            json!({ "type": "object", "properties": { "observedGeneration": { "oneOf": [] } } }),
        ] {
            assert_eq!(room_of_status(status.clone()), FieldPresence::Unclear, "{status}");
        }
        assert_eq!(room(json!({})), FieldPresence::Unclear);
    }

    #[test]
    fn a_document_without_the_kind_says_nothing_and_another_text_is_an_error() {
        let document = document(json!({ "properties": {} }));
        for other in [("example.com", "v2", "Demo"), ("example.org", "v1", "Demo"), ("example.com", "v1", "DemoList")] {
            let (group, version, kind) = other;
            assert_eq!(room_for_generation(&document, &Kind::new(group, version, kind)).unwrap(), None, "{other:?}");
        }
        for text in ["", "{}", "[]", "<html>a proxy", r#"{"components":{"schemas":[]}}"#] {
            assert!(room_for_generation(text, &demo()).is_err(), "{text}");
        }
        let deep =
            format!(r#"{{"paths":{}{},"components":{{"schemas":{{}}}}}}"#, "[".repeat(1 << 20), "]".repeat(1 << 20));
        assert_eq!(room_for_generation(&deep, &demo()).unwrap(), None, "what is skipped may be nested deeply");
    }
}
