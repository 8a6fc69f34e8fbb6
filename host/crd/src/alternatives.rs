//! Enums and optional values. A JSON schema lists alternatives, each with its fields; a structural schema has one list
//! of fields, and alternatives may only say which of these are required.

use serde_json::{Map, Value, json};

use super::Error;
use super::members::insert;

/// The keyword that keeps fields that are not in the schema.
pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// The keywords whose value is a list of schemas.
pub(super) const KEYWORDS: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Merges the alternatives of a schema, which are structural already, into the schema.
///
/// # Errors
/// Where they contradict each other.
pub(super) fn merge(schema: &mut Map<String, Value>, path: &str) -> Result<(), Error> {
    for keyword in KEYWORDS {
        let Some(Value::Array(list)) = schema.remove(keyword) else { continue };
        let list = objects(list);
        let list = without_null(schema, list);
        if let [only] = list.as_slice() {
            copy_missing(schema, only.clone());
        } else if let Some(values) = texts(&list) {
            schema.insert("type".to_owned(), "string".into());
            schema.insert("enum".to_owned(), values.into());
        } else if is_int_or_string(&list) {
            schema.insert("x-kubernetes-int-or-string".to_owned(), true.into());
        } else if !list.is_empty() {
            let required = merge_objects(schema, list, path)?;
            // Every part of `allOf` applies, so that the parts may stay beside the merged fields.
            if !required.is_empty() {
                schema.insert(keyword.to_owned(), required.into());
            }
        }
    }
    Ok(())
}

fn objects(list: Vec<Value>) -> Vec<Map<String, Value>> {
    let schemas = list.into_iter().filter_map(|schema| match schema {
        Value::Object(schema) => Some(schema),
        _ => None,
    });
    schemas.collect()
}

/// Removes the alternative `null`, which `nullable` expresses instead.
fn without_null(schema: &mut Map<String, Value>, list: Vec<Map<String, Value>>) -> Vec<Map<String, Value>> {
    let is_null = |schema: &Map<String, Value>| schema.get("enum") == Some(&json!([null]));
    let (nulls, others): (Vec<_>, Vec<_>) = list.into_iter().partition(is_null);
    if !nulls.is_empty() {
        schema.insert("nullable".to_owned(), true.into());
    }
    others
}

/// Copies the keywords of an alternative that the schema does not have.
fn copy_missing(schema: &mut Map<String, Value>, from: Map<String, Value>) {
    for (keyword, value) in from {
        schema.entry(keyword).or_insert(value);
    }
}

/// Returns the values of an enum whose variants have no data; `None` for other enums. Variants may have comments.
fn texts(list: &[Map<String, Value>]) -> Option<Vec<Value>> {
    let values = list.iter().map(|schema| match (schema.get("type"), schema.get("enum")) {
        (Some(Value::String(type_)), Some(Value::Array(values))) if type_ == "string" => Some(values.clone()),
        _ => None,
    });
    Some(values.collect::<Option<Vec<_>>>()?.concat()).filter(|values| !values.is_empty())
}

fn is_int_or_string(list: &[Map<String, Value>]) -> bool {
    let types: Vec<_> = list.iter().filter_map(|schema| schema.get("type")?.as_str()).collect();
    matches!(types.as_slice(), ["integer", "string"] | ["string", "integer"])
}

/// Merges the fields of alternatives into one list, and returns what remains of each alternative: its required fields,
/// and the values of the field that distinguishes the alternatives.
fn merge_objects(
    schema: &mut Map<String, Value>,
    list: Vec<Map<String, Value>>,
    path: &str,
) -> Result<Vec<Value>, Error> {
    let mut left = Vec::new();
    for mut alternative in list {
        let is_object = alternative.get("type").and_then(Value::as_str) == Some("object");
        if !is_object && alternative.contains_key("type") {
            return Err(Error::schema(
                path,
                "its type is sometimes an object and sometimes none, which no structural schema says; give each variant \
                 of the enum data, or none of them",
            ));
        }
        if alternative.contains_key(PRESERVE) {
            schema.insert(PRESERVE.to_owned(), true.into());
        }
        let fields = alternative.remove("properties");
        let mut rest = Map::new();
        if let Some(required) = alternative.remove("required") {
            rest.insert("required".to_owned(), required);
        }
        for (name, field) in fields.as_ref().and_then(Value::as_object).into_iter().flatten() {
            if let Some(tag) = add_field(schema, name, field, path)? {
                let tags = rest.entry("properties").or_insert_with(|| json!({}));
                insert(tags, name, tag);
            }
        }
        schema.insert("type".to_owned(), "object".into());
        if !rest.is_empty() {
            left.push(rest.into());
        }
    }
    Ok(left)
}

/// Adds a field of an alternative to the schema. For an enum, such as the field that distinguishes variants, it returns
/// the values that this alternative allows.
fn add_field(schema: &mut Map<String, Value>, name: &str, field: &Value, path: &str) -> Result<Option<Value>, Error> {
    let fields = schema.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(fields) = fields else { return Ok(None) };
    let values = field.get("enum").and_then(Value::as_array);
    let tag = values.map(|values| json!({ "enum": values }));
    match (fields.get_mut(name), values) {
        (None, _) => drop(fields.insert(name.to_owned(), field.clone())),
        (Some(known), _) if known == field => {}
        (Some(known), Some(values)) if known.get("type") == field.get("type") && known.get("enum").is_some() => {
            if let Some(Value::Array(all)) = known.get_mut("enum") {
                let new: Vec<_> = values.iter().filter(|value| !all.contains(value)).cloned().collect();
                all.extend(new);
            }
        }
        (Some(_), _) => {
            return Err(Error::schema(
                path,
                format!(
                    "its field {name} has another type in another variant of the enum; name one of them differently"
                ),
            ));
        }
    }
    Ok(tag)
}
