//! What is left of an object once the API server has left out unknown fields and filled in defaults. Pure.

use serde_json::{Map, Value};

use super::keywords::Schema;
use super::members::join;

/// The fields that each object has, whatever its schema says.
const OF_EACH_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// An object as it would be stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) object: Value,
    /// The paths of the fields that were left out, because the schema does not know them.
    pub(super) unknown: Vec<String>,
}

/// Leaves out unknown fields, and fills in the defaults of the schema.
pub(super) fn stored(schema: Schema<'_>, object: &Value) -> Stored {
    let mut stored = Stored { object: object.clone(), unknown: Vec::new() };
    prune(schema, &mut stored.object, "", true, &mut stored.unknown);
    fill_in(schema, &mut stored.object);
    stored
}

fn prune(schema: Schema<'_>, value: &mut Value, path: &str, is_object: bool, unknown: &mut Vec<String>) {
    let is_object = is_object || schema.says("x-kubernetes-embedded-resource");
    match value {
        Value::Object(members) => members.retain(|name, value| {
            let path = join(path, name);
            if is_object && OF_EACH_OBJECT.contains(&name.as_str()) {
                return true;
            }
            match schema.member(name) {
                Some(member) => prune(member, value, &path, false, unknown),
                None if schema.preserves_unknown() => {}
                None => {
                    unknown.push(path);
                    return false;
                }
            }
            true
        }),
        Value::Array(elements) => {
            let Some(items) = schema.items() else { return };
            for (at, element) in elements.iter_mut().enumerate() {
                prune(items, element, &format!("{path}[{at}]"), false, unknown);
            }
        }
        _ => {}
    }
}

/// Fills in defaults, also for a `null` that may not be one, and then leaves out such a `null` that has no default, as
/// the API server does:
/// <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#defaulting-and-nullable>
fn fill_in(schema: Schema<'_>, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, field) in schema.fields() {
                let is_missing = members.get(name).is_none_or(|value| value.is_null() && !field.says("nullable"));
                if let Some(default) = field.get("default").filter(|_| is_missing) {
                    members.insert(name.to_owned(), default.clone());
                }
            }
            for (name, value) in members.iter_mut() {
                if let Some(member) = schema.member(name) {
                    fill_in(member, value);
                }
            }
            members.retain(|name, value| !value.is_null() || may_be_null(schema, name));
        }
        Value::Array(elements) => {
            let Some(items) = schema.items() else { return };
            elements.iter_mut().for_each(|element| fill_in(items, element));
        }
        _ => {}
    }
}

fn may_be_null(schema: Schema<'_>, name: &str) -> bool {
    let fields: Option<&Map<String, Value>> = schema.get("properties").and_then(Value::as_object);
    fields.and_then(|fields| fields.get(name)).is_none_or(|field| Schema::new(field).says("nullable"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: &Value, object: &Value) -> (Value, Vec<String>) {
        let Stored { object, unknown } = stored(Schema::new(schema), object);
        (object, unknown)
    }

    #[test]
    fn fields_that_the_schema_does_not_know_are_left_out_and_named() {
        let schema = json!({ "properties": {
            "spec": { "properties": {
                "size": {},
                "any": { "x-kubernetes-preserve-unknown-fields": true, "properties": { "known": { "properties": {} } } },
                "labels": { "additionalProperties": { "type": "string" } },
                "ports": { "items": { "properties": { "name": {} } } },
                "template": { "x-kubernetes-embedded-resource": true, "properties": { "spec": {} } },
            } },
        } });
        let object = json!({
            "apiVersion": "v1", "kind": "A", "metadata": { "name": "a" }, "extra": 1,
            "spec": {
                "size": 1, "sizee": 2, "labels": { "a": "b" }, "any": { "a": { "b": 1 }, "known": { "c": 1 } },
                "ports": [{ "name": "a" }, { "nam": "b" }],
                "template": { "apiVersion": "v1", "metadata": { "labels": {} }, "spec": 1, "other": 2 },
            },
        });
        let (stored, unknown) = of(&schema, &object);
        assert_eq!(unknown, ["extra", "spec.any.known.c", "spec.ports[1].nam", "spec.sizee", "spec.template.other"]);
        assert_eq!(stored["spec"]["any"], json!({ "a": { "b": 1 }, "known": {} }));
        assert_eq!(stored["metadata"], object["metadata"]);
    }

    #[test]
    fn defaults_are_filled_in_at_every_depth_and_a_null_is_as_if_left_out() {
        let schema = json!({ "properties": {
            "spec": { "default": {}, "properties": {
                "size": { "default": 1 },
                "mode": { "default": "Fast" },
                "none": { "nullable": true, "default": 1 },
                "gone": {},
                "ports": { "items": { "properties": { "port": { "default": 80 } } } },
                "by": { "additionalProperties": { "properties": { "weight": { "default": 1 } } } },
            } },
        } });
        assert_eq!(of(&schema, &json!({})).0["spec"], json!({ "size": 1, "mode": "Fast", "none": 1 }));
        let given = json!({ "spec": {
            "size": 3, "mode": null, "none": null, "gone": null, "ports": [{}], "by": { "a": {} },
        } });
        let expected = json!({
            "size": 3, "mode": "Fast", "none": null, "ports": [{ "port": 80 }], "by": { "a": { "weight": 1 } },
        });
        assert_eq!(of(&schema, &given).0["spec"], expected);
    }
}
