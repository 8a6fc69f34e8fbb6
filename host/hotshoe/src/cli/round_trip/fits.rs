//! Whether a value fits a schema, but for formats, patterns and rules. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::schema::Schema;

/// Returns whether a value fits a schema. Formats and patterns are not looked at, nor are rules (CEL).
pub(super) fn fits(schema: Schema<'_>, value: &Value) -> bool {
    if value.is_null() && schema.says("nullable") {
        return true;
    }
    has_type(schema, value)
        && schema.get("enum").and_then(Value::as_array).is_none_or(|values| values.contains(value))
        && fits_by_type(schema, value)
        && fits_combined(schema, value)
}

fn has_type(schema: Schema<'_>, value: &Value) -> bool {
    if schema.says("x-kubernetes-int-or-string") {
        return value.is_i64() || value.is_u64() || value.is_string();
    }
    match schema.text("type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    }
}

fn fits_by_type(schema: Schema<'_>, value: &Value) -> bool {
    match value {
        Value::Object(members) => fits_object(schema, members),
        Value::Array(elements) => fits_list(schema, elements),
        Value::String(text) => is_within(schema, "minLength", text.chars().count(), "maxLength"),
        Value::Number(number) => number.as_f64().is_none_or(|number| schema.bounds(number)),
        Value::Null | Value::Bool(_) => true,
    }
}

fn is_within(schema: Schema<'_>, least: &str, count: usize, most: &str) -> bool {
    schema.count(least).is_none_or(|least| count >= least) && schema.count(most).is_none_or(|most| count <= most)
}

fn fits_object(schema: Schema<'_>, members: &Map<String, Value>) -> bool {
    let fit = |(name, value): (&String, &Value)| schema.member(name).is_none_or(|member| fits(member, value));
    schema.required().iter().all(|name| members.contains_key(*name))
        && is_within(schema, "minProperties", members.len(), "maxProperties")
        && members.iter().all(fit)
}

fn fits_list(schema: Schema<'_>, elements: &[Value]) -> bool {
    is_within(schema, "minItems", elements.len(), "maxItems")
        && schema.items().is_none_or(|items| elements.iter().all(|element| fits(items, element)))
        && (!has_unique_elements(schema) || {
            let identities: BTreeSet<String> = elements.iter().map(|element| identity(schema, element)).collect();
            identities.len() == elements.len()
        })
}

fn has_unique_elements(schema: Schema<'_>) -> bool {
    ["set", "map"].contains(&schema.text("x-kubernetes-list-type"))
}

/// Returns what distinguishes an element from the others of its list.
pub(super) fn identity(schema: Schema<'_>, element: &Value) -> String {
    let keys = schema.keys();
    if keys.is_empty() {
        return element.to_string();
    }
    keys.iter().map(|key| element.get(*key).unwrap_or(&Value::Null)).cloned().collect::<Value>().to_string()
}

fn fits_combined(schema: Schema<'_>, value: &Value) -> bool {
    let is_any = |keyword: &str| schema.get(keyword).is_none() || schema.each(keyword).any(|one| fits(one, value));
    schema.each("allOf").all(|one| fits(one, value))
        && is_any("anyOf")
        && (schema.get("oneOf").is_none() || schema.each("oneOf").filter(|one| fits(*one, value)).count() == 1)
        && schema.get("not").is_none_or(|not| !fits(Schema::new(not), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_fits_by_all_that_the_schema_says() {
        let cases = [
            (
                json!({ "type": "integer", "minimum": 1, "maximum": 3 }),
                vec![json!(1), json!(3)],
                vec![json!(0), json!(4), json!("1"), json!(1.5), json!(null)],
            ),
            (json!({ "type": "integer", "minimum": 1, "exclusiveMinimum": true }), vec![json!(2)], vec![json!(1)]),
            (json!({ "type": "number", "multipleOf": 0.5 }), vec![json!(1.5), json!(2)], vec![json!(1.2)]),
            (
                json!({ "type": "string", "maxLength": 2, "nullable": true }),
                vec![json!(""), json!("äö"), json!(null)],
                vec![json!("abc")],
            ),
            (json!({ "type": "string", "enum": ["a"] }), vec![json!("a")], vec![json!("b")]),
            (
                json!({ "type": "array", "minItems": 1, "maxItems": 2, "x-kubernetes-list-type": "set" }),
                vec![json!([1, 2])],
                vec![json!([]), json!([1, 1]), json!([1, 2, 3])],
            ),
            (
                json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] }),
                vec![json!([{ "name": "a" }, { "name": "b" }])],
                vec![json!([{ "name": "a", "x": 1 }, { "name": "a", "x": 2 }])],
            ),
            (
                json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }),
                vec![json!({ "a": "x" })],
                vec![json!({}), json!({ "a": 1 })],
            ),
            (
                json!({ "type": "object", "additionalProperties": { "type": "boolean" } }),
                vec![json!({ "a": true })],
                vec![json!({ "a": 1 })],
            ),
            (
                json!({ "type": "object", "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
                vec![json!({ "a": 1 }), json!({ "b": 1 })],
                vec![json!({}), json!({ "a": 1, "b": 1 })],
            ),
            (
                json!({ "anyOf": [{ "type": "string" }], "not": { "enum": ["no"] } }),
                vec![json!("yes")],
                vec![json!("no"), json!(1)],
            ),
            (json!({ "x-kubernetes-int-or-string": true }), vec![json!(1), json!("1")], vec![json!(true)]),
        ];
        for (schema, fitting, others) in cases {
            let fits = |value: &Value| fits(Schema::new(&schema), value);
            assert!(fitting.iter().all(fits), "{schema} {fitting:?}");
            assert!(!others.iter().any(fits), "{schema} {others:?}");
        }
    }
}
