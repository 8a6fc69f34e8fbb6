//! Checks structural schemas as the API server does before it accepts a CustomResourceDefinition.
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>

use anyhow::{bail, ensure};
use serde_json::{Map, Value};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// The maximum depth of a schema. The functions that walk it are recursive, and a plugin's author writes it.
const MAX_DEPTH: usize = 64;

/// Keywords that validate a value. They are allowed everywhere, also in `allOf`, `anyOf`, `oneOf` and `not`.
const VALIDATIONS: [&str; 17] = [
    "allOf",
    "anyOf",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
];
/// Further validating keywords, which refer to fields or items or match a text.
const MORE_VALIDATIONS: [&str; 4] = ["items", "pattern", "properties", "required"];
/// Keywords that are not allowed in `allOf`, `anyOf`, `oneOf` and `not`.
const STRUCTURE: [&str; 15] = [
    "additionalProperties",
    "default",
    "description",
    "example",
    "externalDocs",
    "nullable",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    INT_OR_STRING,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    PRESERVE,
    "x-kubernetes-validations",
];
const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Checks the schema of a version.
///
/// # Errors
/// If it is not structural; the error names the first problem and the path of its field.
pub(super) fn check(schema: &Value) -> anyhow::Result<()> {
    ensure!(schema.get("type").and_then(Value::as_str) == Some("object"), "the schema itself needs `type: object`");
    let metadata = schema.pointer("/properties/metadata").and_then(Value::as_object);
    if let Some(more) =
        metadata.and_then(|metadata| metadata.keys().find(|key| !["type", "properties"].contains(&&***key)))
    {
        bail!("metadata: it has `{more}`, but its schema may only restrict `name` and `generateName`");
    }
    structure(schema, "", 0)
}

fn structure(schema: &Value, path: &str, depth: usize) -> anyhow::Result<()> {
    let at = if path.is_empty() { "the schema" } else { path };
    ensure!(depth < MAX_DEPTH, "{at}: it is nested deeper than {MAX_DEPTH} levels");
    let Value::Object(members) = schema else {
        bail!("{at}: its schema is {schema}, where a structural one is an object; use `{PRESERVE}: true` for any value")
    };
    check_keywords(members, at, true)?;
    check_type(members, at)?;
    check_lists(members, at)?;
    for (name, property) in entries(members, "properties") {
        structure(property, &join(path, name), depth + 1)?;
    }
    if let Some(items) = members.get("items") {
        structure(items, &format!("{path}[]"), depth + 1)?;
    }
    match members.get("additionalProperties") {
        None | Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => {
            bail!("{at}: additionalProperties is false; leave it out, for unknown fields are dropped in any case")
        }
        Some(_) if members.contains_key("properties") => {
            bail!("{at}: it has both properties and additionalProperties; a structural schema has one of them")
        }
        Some(values) => structure(values, &format!("{path}{{}}"), depth + 1)?,
    }
    alternatives(members, path, depth)
}

fn check_keywords(schema: &Map<String, Value>, at: &str, is_structure: bool) -> anyhow::Result<()> {
    for (keyword, value) in schema {
        let keyword = keyword.as_str();
        let is_known = VALIDATIONS.contains(&keyword) || MORE_VALIDATIONS.contains(&keyword);
        match keyword {
            _ if is_known || (is_structure && STRUCTURE.contains(&keyword)) => {}
            "uniqueItems" if value == &Value::Bool(false) => {}
            "uniqueItems" => bail!("{at}: uniqueItems is not supported; use `x-kubernetes-list-type: set`"),
            "$ref" => bail!("{at}: it refers to {value}; a structural schema has no references: write the schema here"),
            _ if STRUCTURE.contains(&keyword) => {
                bail!(
                    "{at}: an alternative of allOf, anyOf, oneOf or not has `{keyword}`; put it into the schema of the field itself"
                )
            }
            _ => bail!("{at}: it has `{keyword}`, which a structural schema does not allow"),
        }
    }
    Ok(())
}

fn check_type(schema: &Map<String, Value>, at: &str) -> anyhow::Result<()> {
    let is_true = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    match schema.get("type") {
        Some(Value::String(type_)) => {
            let known = ["array", "boolean", "integer", "number", "object", "string"];
            ensure!(
                known.contains(&type_.as_str()),
                "{at}: its type is {type_:?}, which is none of {}",
                known.join(", ")
            );
            ensure!(!is_true(INT_OR_STRING), "{at}: it has a type beside `{INT_OR_STRING}`; remove one");
            ensure!(type_ != "array" || schema.contains_key("items"), "{at}: it is an array without `items`");
        }
        Some(other) => bail!("{at}: its type is {other}, which is no string"),
        None if is_true(INT_OR_STRING) || is_true(PRESERVE) => {}
        None => bail!("{at}: it has no type; add `type`, or `{PRESERVE}: true` for any value"),
    }
    Ok(())
}

fn check_lists(schema: &Map<String, Value>, at: &str) -> anyhow::Result<()> {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("map") => {
            let items = schema.get("items").and_then(|items| items.get("properties"));
            ensure!(
                keys.is_some_and(|keys| !keys.is_empty()),
                "{at}: a list of the type `map` needs `x-kubernetes-list-map-keys`"
            );
            let missing = keys.into_iter().flatten().filter_map(Value::as_str);
            if let Some(key) = missing.into_iter().find(|key| items.and_then(|items| items.get(key)).is_none()) {
                bail!("{at}: its items have no field {key}, which `x-kubernetes-list-map-keys` names");
            }
        }
        Some("set" | "atomic") | None => {
            ensure!(keys.is_none(), "{at}: only a list of the type `map` has `x-kubernetes-list-map-keys`");
        }
        Some(other) => bail!("{at}: x-kubernetes-list-type is {other:?}; it is map, set or atomic"),
    }
    Ok(())
}

/// Checks the schemas in `allOf`, `anyOf`, `oneOf` and `not`: they may only narrow the values of fields that are
/// defined outside of them.
fn alternatives(schema: &Map<String, Value>, path: &str, depth: usize) -> anyhow::Result<()> {
    let is_int_or_string = schema.get(INT_OR_STRING) == Some(&Value::Bool(true));
    for keyword in ALTERNATIVES {
        for alternative in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            if !(is_int_or_string && is_type_alone(alternative)) {
                narrowing(alternative, path, depth + 1)?;
            }
        }
    }
    schema.get("not").map_or(Ok(()), |not| narrowing(not, path, depth + 1))
}

fn narrowing(schema: &Value, path: &str, depth: usize) -> anyhow::Result<()> {
    let at = if path.is_empty() { "the schema" } else { path };
    ensure!(depth < MAX_DEPTH, "{at}: it is nested deeper than {MAX_DEPTH} levels");
    let Value::Object(members) = schema else { bail!("{at}: an alternative is {schema}, which is no schema") };
    check_keywords(members, at, false)?;
    for (name, property) in entries(members, "properties") {
        narrowing(property, &join(path, name), depth + 1)?;
    }
    members.get("items").map_or(Ok(()), |items| narrowing(items, &format!("{path}[]"), depth + 1))?;
    alternatives(members, path, depth)
}

/// Returns whether a schema has a type and nothing else, as in `anyOf: [{type: integer}, {type: string}]`, which is
/// allowed beside `x-kubernetes-int-or-string`.
fn is_type_alone(schema: &Value) -> bool {
    schema.as_object().is_some_and(|members| members.len() == 1 && members.contains_key("type"))
}

fn entries<'a>(schema: &'a Map<String, Value>, keyword: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(keyword).and_then(Value::as_object).into_iter().flatten()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(spec: Value) -> String {
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        check(&schema).unwrap_err().to_string()
    }

    #[test]
    fn a_structural_schema_is_accepted() {
        let schema = json!({ "type": "object", "properties": {
            "metadata": { "type": "object", "properties": { "name": { "type": "string", "maxLength": 20 } } },
            "spec": {
                "type": "object",
                "properties": {
                    "port": { INT_OR_STRING: true, "anyOf": [{ "type": "integer" }, { "type": "string" }] },
                    "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                    "any": { PRESERVE: true },
                    "list": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": { "type": "object", "properties": { "name": { "type": "string" } } },
                    },
                    "a": { "type": "string", "nullable": true, "default": "x" },
                    "b": { "type": "string" },
                },
                "oneOf": [{ "required": ["a"] }, { "properties": { "b": { "enum": ["x"] } }, "required": ["b"] }],
                "not": { "required": ["c"] },
            },
        }});
        check(&schema).unwrap();
    }

    #[test]
    fn what_is_not_structural_is_named_with_its_path() {
        for (spec, words) in [
            (json!({}), "spec: it has no type"),
            (json!(true), "spec: its schema is true"),
            (json!({ "type": "text" }), "spec: its type is \"text\""),
            (json!({ "type": ["object", "null"] }), "which is no string"),
            (json!({ "type": "array" }), "spec: it is an array without `items`"),
            (
                json!({ "type": "object", "properties": { "a": { "items": { "type": "string" } } } }),
                "spec.a: it has no type",
            ),
            (json!({ "type": "array", "items": {} }), "spec[]: it has no type"),
            (json!({ "type": "object", "additionalProperties": {} }), "spec{}: it has no type"),
            (json!({ "type": "object", "additionalProperties": false }), "additionalProperties is false"),
            (
                json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "string" } }),
                "both properties and additionalProperties",
            ),
            (json!({ "type": "object", "$ref": "#/a" }), "it refers to \"#/a\""),
            (json!({ "type": "object", "patternProperties": {} }), "it has `patternProperties`"),
            (
                json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true }),
                "x-kubernetes-list-type: set",
            ),
            (json!({ "type": "object", "oneOf": [{ "type": "object" }] }), "an alternative of allOf"),
            (json!({ "type": "object", "not": { "default": 1 } }), "has `default`"),
            (json!({ "type": "string", INT_OR_STRING: true }), "it has a type beside"),
            (
                json!({ "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "map" }),
                "needs `x-kubernetes-list-map-keys`",
            ),
            (
                json!({ "type": "array", "items": { "type": "object" }, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] }),
                "its items have no field name",
            ),
        ] {
            let error = wrong(spec);
            assert!(error.contains(words), "{words}: {error}");
        }
        let error = check(&json!({ "properties": {} })).unwrap_err().to_string();
        assert!(error.contains("type: object"), "{error}");
        let metadata =
            json!({ "type": "object", "properties": { "metadata": { "type": "object", "required": ["labels"] } } });
        assert!(check(&metadata).unwrap_err().to_string().contains("metadata: it has `required`"));
    }

    #[test]
    fn a_schema_that_is_nested_too_deeply_is_refused() {
        let nested = (0..200).fold(json!({ "type": "string" }), |inner, _| json!({ "type": "array", "items": inner }));
        assert!(wrong(nested).contains("nested deeper"));
        let nested = (0..200).fold(json!({}), |inner, _| json!({ "not": inner }));
        assert!(wrong(json!({ "type": "object", "not": nested })).contains("nested deeper"));
    }
}
