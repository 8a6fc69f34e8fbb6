//! Turns the JSON schema of a type into a structural schema, which the API server requires: each value has a type,
//! there are no references, and no keyword that Kubernetes does not know.
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>

use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Number, Value, json};

use super::Error;
use super::alternatives::{self, PRESERVE};

/// The keywords of a structural schema: those of the API server's `JSONSchemaProps` that are allowed in one.
const KEYWORDS: [&str; 36] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "items",
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
    "nullable",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    PRESERVE,
    "x-kubernetes-validations",
];

/// Keywords that the API server ignores or refuses; they are left out.
const DROPPED_KEYWORDS: [&str; 6] = ["$schema", "title", "deprecated", "readOnly", "writeOnly", "uniqueItems"];

/// Returns the OpenAPI schema of a type, with all references inlined.
pub(super) fn of<T: JsonSchema>(contract: Contract) -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.contract = contract;
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Rewrites a schema, with all its subschemas, to a structural one.
///
/// # Errors
/// Where there is no structural schema for it, with the path of the field.
pub(super) fn make_structural(schema: &mut Value, path: &str) -> Result<(), Error> {
    if let Value::Bool(_) = schema {
        *schema = json!({});
    }
    let Value::Object(members) = schema else {
        return Err(Error::schema(path, "it has no schema; derive JsonSchema for its type"));
    };
    if members.contains_key("$ref") || members.contains_key("$defs") {
        return Err(Error::schema(
            path,
            "its type contains itself, which no structural schema does; make that field a serde_json::Value",
        ));
    }
    if members.get("items").is_some_and(Value::is_array) {
        return Err(Error::schema(path, "it is a tuple, which no structural schema has; make it a list or a struct"));
    }
    DROPPED_KEYWORDS.iter().for_each(|keyword| drop(members.remove(*keyword)));
    tidy(members);
    make_subschemas_structural(members, path)?;
    alternatives::merge(members, path)?;
    give_type(members);
    Ok(())
}

/// Rewrites the keywords of one schema, without its subschemas.
fn tidy(schema: &mut Map<String, Value>) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        // Doc comments are wrapped in the source; kubectl wraps lines itself.
        *description = description.replace('\n', " ");
    }
    // With `nullable`, the API server accepts null although the enum does not list it.
    if let (true, Some(Value::Array(values))) = (schema.contains_key("nullable"), schema.get_mut("enum"))
        && values.len() > 1
    {
        values.retain(|value| !value.is_null());
    }
    // The API server knows signed formats only.
    let format = match schema.get("format").and_then(Value::as_str) {
        Some("int8" | "int16" | "uint8" | "uint16") => Some("int32"),
        Some("uint32" | "uint64" | "int" | "uint") => Some("int64"),
        _ => None,
    };
    if let Some(format) = format {
        schema.insert("format".to_owned(), format.into());
    }
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(bound @ Value::Number(_)) = schema.get(exclusive).cloned() {
            schema.insert(limit.to_owned(), bound);
            schema.insert(exclusive.to_owned(), true.into());
        }
    }
    for limit in ["minimum", "maximum", "multipleOf", "default"] {
        if let Some(value) = schema.get_mut(limit) {
            make_whole(value);
        }
    }
}

/// Writes a whole number as an integer: `3` instead of `3.0`.
fn make_whole(value: &mut Value) {
    let Some(float) = value.as_f64().filter(|_| value.is_f64()) else { return };
    if float.fract() == 0.0 && float.abs() < 9e15 {
        *value = Number::from(float as i64).into();
    }
}

fn make_subschemas_structural(schema: &mut Map<String, Value>, path: &str) -> Result<(), Error> {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            make_structural(property, &join(path, name))?;
        }
    }
    if let Some(items) = schema.get_mut("items") {
        make_structural(items, &format!("{path}[]"))?;
    }
    match schema.remove("additionalProperties") {
        // No other field is allowed: the API server prunes fields that are not in the schema.
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => drop(schema.insert(PRESERVE.to_owned(), true.into())),
        Some(_) if schema.contains_key("properties") => {
            schema.insert(PRESERVE.to_owned(), true.into());
        }
        Some(mut values) => {
            make_structural(&mut values, &format!("{path}{{}}"))?;
            schema.insert("additionalProperties".to_owned(), values);
        }
    }
    for keyword in alternatives::KEYWORDS {
        if let Some(Value::Array(schemas)) = schema.get_mut(keyword) {
            for schema in schemas {
                make_structural(schema, path)?;
            }
        }
    }
    Ok(())
}

/// Sets the type of a schema that has none: `object` if it has fields; otherwise any value is allowed and kept.
fn give_type(schema: &mut Map<String, Value>) {
    let has_one = ["type", "x-kubernetes-int-or-string", PRESERVE].iter().any(|keyword| schema.contains_key(*keyword));
    let is_object = schema.contains_key("properties") || schema.contains_key("additionalProperties");
    if is_object && !schema.contains_key("type") {
        schema.insert("type".to_owned(), "object".into());
    } else if !has_one && !schema.contains_key("enum") {
        schema.insert(PRESERVE.to_owned(), true.into());
    }
}

/// Finds the schema at a path such as `spec.ports[].name`; an empty path is the whole schema.
///
/// # Errors
/// Where there is no such field.
pub(super) fn at<'a>(schema: &'a mut Value, path: &str) -> Result<&'a mut Value, Error> {
    let missing = || Error::schema(path, "there is no such field, so nothing can be said of it; correct the path");
    let mut found = schema;
    for field in path.split('.').filter(|field| !field.is_empty()) {
        let name = field.trim_end_matches("[]");
        found = found.get_mut("properties").and_then(|fields| fields.get_mut(name)).ok_or_else(missing)?;
        for _ in 0..field.matches("[]").count() {
            found = found.get_mut("items").ok_or_else(missing)?;
        }
    }
    Ok(found)
}

/// Merges `over` into `base`: objects are merged member by member, and any other value is replaced.
pub(super) fn lay_over(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                lay_over(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Checks that Kubernetes knows every keyword, because the API server silently drops others.
///
/// # Errors
/// Names the first unknown keyword, with the path of the field.
pub(super) fn check(schema: &Value, path: &str) -> Result<(), Error> {
    let Value::Object(members) = schema else { return Ok(()) };
    if let Some(unknown) = members.keys().find(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
        return Err(Error::schema(
            path,
            format!("its schema says `{unknown}`, which Kubernetes does not know; remove it"),
        ));
    }
    for (name, property) in members.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check(property, &join(path, name))?;
    }
    for (keyword, end) in [("items", "[]"), ("additionalProperties", "{}"), ("not", "")] {
        if let Some(schema) = members.get(keyword) {
            check(schema, &format!("{path}{end}"))?;
        }
    }
    for schema in alternatives::KEYWORDS.iter().filter_map(|keyword| members.get(*keyword)?.as_array()).flatten() {
        check(schema, path)?;
    }
    Ok(())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
