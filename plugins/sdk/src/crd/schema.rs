//! From the JSON schema of a type to a structural schema, as the API server wants it: each value has a type, nothing is
//! referred to, and no word stands there that Kubernetes does not know.
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>

use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Number, Value, json};

use super::{Error, alternatives};

/// Keeps what the schema says nothing of.
pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// What a schema may say, by the API server's `JSONSchemaProps`, but for what no structural schema has.
const WORDS: [&str; 36] = [
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

/// What says nothing to the API server: it is left out.
const SILENT: [&str; 6] = ["$schema", "title", "deprecated", "readOnly", "writeOnly", "uniqueItems"];

/// The schema of a type in OpenAPI's words, with everything that it refers to in its place.
pub(super) fn of<T: JsonSchema>(contract: Contract) -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.contract = contract;
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Rewrites a schema, and all below it, to a structural one.
///
/// # Errors
/// Where that cannot be done, with the path of the field.
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
    SILENT.iter().for_each(|word| drop(members.remove(*word)));
    tidy(members);
    below(members, path)?;
    alternatives::merge(members, path)?;
    give_type(members);
    Ok(())
}

/// Rewrites what is said of one value by itself.
fn tidy(schema: &mut Map<String, Value>) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        // Doc comments are wrapped in the source; kubectl wraps by itself.
        *description = description.replace('\n', " ");
    }
    // `nullable` says it, and the API server holds no null against an enum.
    if let (true, Some(Value::Array(values))) = (schema.contains_key("nullable"), schema.get_mut("enum"))
        && values.len() > 1
    {
        values.retain(|value| !value.is_null());
    }
    // The API server knows signed formats alone.
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

/// `3` stands in a schema, and not `3.0`.
fn make_whole(value: &mut Value) {
    let Some(float) = value.as_f64().filter(|_| value.is_f64()) else { return };
    if float.fract() == 0.0 && float.abs() < 9e15 {
        *value = Number::from(float as i64).into();
    }
}

fn below(schema: &mut Map<String, Value>, path: &str) -> Result<(), Error> {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            make_structural(property, &join(path, name))?;
        }
    }
    if let Some(items) = schema.get_mut("items") {
        make_structural(items, &format!("{path}[]"))?;
    }
    match schema.remove("additionalProperties") {
        // Nothing else may be there: the API server drops what a schema does not say.
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
    for word in alternatives::WORDS {
        if let Some(Value::Array(schemas)) = schema.get_mut(word) {
            for schema in schemas {
                make_structural(schema, path)?;
            }
        }
    }
    Ok(())
}

/// A value that may be anything keeps all of it.
fn give_type(schema: &mut Map<String, Value>) {
    let has_one = ["type", "x-kubernetes-int-or-string", PRESERVE].iter().any(|word| schema.contains_key(*word));
    let is_object = schema.contains_key("properties") || schema.contains_key("additionalProperties");
    if is_object && !schema.contains_key("type") {
        schema.insert("type".to_owned(), "object".into());
    } else if !has_one && !schema.contains_key("enum") {
        schema.insert(PRESERVE.to_owned(), true.into());
    }
}

/// Finds the schema at a path such as `spec.ports[].name`; an empty one is the whole.
///
/// # Errors
/// Where there is none.
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

/// Lays one JSON value over another.
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

/// Holds every word against those that Kubernetes knows; the API server drops others without a word.
///
/// # Errors
/// The first one that it does not know, with the path of the field.
pub(super) fn check(schema: &Value, path: &str) -> Result<(), Error> {
    let Value::Object(members) = schema else { return Ok(()) };
    if let Some(unknown) = members.keys().find(|word| !WORDS.contains(&word.as_str())) {
        return Err(Error::schema(
            path,
            format!("its schema says `{unknown}`, which Kubernetes does not know; remove it"),
        ));
    }
    for (name, property) in members.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check(property, &join(path, name))?;
    }
    for (word, end) in [("items", "[]"), ("additionalProperties", "{}"), ("not", "")] {
        if let Some(schema) = members.get(word) {
            check(schema, &format!("{path}{end}"))?;
        }
    }
    for schema in alternatives::WORDS.iter().filter_map(|word| members.get(*word)?.as_array()).flatten() {
        check(schema, path)?;
    }
    Ok(())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
