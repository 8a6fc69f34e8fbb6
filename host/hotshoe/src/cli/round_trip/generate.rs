//! Objects made from the schema of a version. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value, json};

use super::choices::Choices;
use super::pattern;
use crate::cli::schema::keywords::Schema;
use crate::cli::schema::members::identity;
use crate::cli::schema::valid::fits;

/// The maximum depth of a made object. Optional fields below are left out.
const MAX_DEPTH: usize = 12;
/// The number of values in a made object from which on optional fields are left out.
const MANY_VALUES: usize = 1_000;
/// The maximum number of values that are made for an object.
const MAX_VALUES: usize = 10_000;
/// The maximum number of elements more than the least.
const MAX_MORE: usize = 3;
/// How often a value is made anew that does not fit what a schema combines.
const MAX_TRIES: usize = 10;
/// The keyword of rules (CEL), which are not evaluated.
const RULES: &str = "x-kubernetes-validations";
/// Texts that are easily mistaken for something else, such as the end of a line.
const TEXTS: [&str; 8] = ["", "a", "b", "0", "true", "two words", "two\nlines", "\"ä\",{}"];

/// Makes the members of an object of this schema, but for `apiVersion`, `kind` and `metadata`. None if a field that must
/// be there cannot be made: that of a pattern that cannot be read, or an object or a list with rules (CEL).
pub(super) fn members(schema: Schema<'_>, choices: &mut Choices) -> Option<Map<String, Value>> {
    if schema.get(RULES).is_some() {
        return None;
    }
    let mut maker = Maker { choices, made: 0 };
    let mut members = maker.fitting(schema, 0)?;
    for known in ["apiVersion", "kind", "metadata"] {
        members.as_object_mut()?.remove(known);
    }
    match members {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

/// Makes annotations, sometimes none.
pub(super) fn annotations(choices: &mut Choices) -> Map<String, Value> {
    let mut annotations = Map::new();
    for name in ["example.com/made", "made"] {
        let is_there = choices.once_in(2);
        annotations.extend(choices.of(&TEXTS).filter(|_| is_there).map(|text| (name.to_owned(), (*text).into())));
    }
    annotations
}

struct Maker<'c> {
    choices: &'c mut Choices,
    /// How many values were made.
    made: usize,
}

impl Maker<'_> {
    /// Makes a value that fits a schema, also what it combines of other schemas.
    fn fitting(&mut self, schema: Schema<'_>, depth: usize) -> Option<Value> {
        let may_differ =
            ["oneOf", "anyOf", "allOf", "not", "minItems"].iter().any(|keyword| schema.get(keyword).is_some());
        let tries = if may_differ { MAX_TRIES } else { 1 };
        (0..tries).find_map(|_| self.value(schema, depth).filter(|value| fits(schema, value)))
    }

    fn value(&mut self, schema: Schema<'_>, depth: usize) -> Option<Value> {
        self.made += 1;
        if depth > MAX_DEPTH || self.made > MAX_VALUES {
            return None;
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return self.choices.of(values).cloned();
        }
        if schema.says("nullable") && self.choices.once_in(8) {
            return Some(Value::Null);
        }
        if let Some(default) = schema.get("default").filter(|_| self.choices.once_in(8)) {
            return Some(default.clone());
        }
        match schema.text("type") {
            "object" => self.object(schema, depth),
            "array" => self.list(schema, depth),
            "string" => self.string(schema).map(Value::String),
            "boolean" => Some(self.choices.once_in(2).into()),
            "integer" => self.whole(schema).map(Value::from),
            "number" => self.number(schema),
            _ if schema.says("x-kubernetes-int-or-string") => self.choices.of(&[json!(1), json!("50%")]).cloned(),
            _ => self.choices.of(&[json!("a"), json!({ "a": 1 }), json!([1])]).cloned(),
        }
    }

    fn object(&mut self, schema: Schema<'_>, depth: usize) -> Option<Value> {
        let alternative = Alternative::choose(schema, self.choices);
        let mut members = Map::new();
        for (name, field) in schema.fields().filter(|(name, _)| !alternative.excluded.contains(name)) {
            let is_required = alternative.required.contains(name);
            if !is_required && (self.made > MANY_VALUES || self.choices.once_in(3)) {
                continue;
            }
            // The rules about an object or a list are about how its fields go together, which only CEL can say.
            let has_rules = ["object", "array"].contains(&field.text("type")) && field.get(RULES).is_some();
            match if has_rules { None } else { self.fitting(field, depth + 1) } {
                Some(value) => drop(members.insert(name.to_owned(), value)),
                None if is_required => return None,
                None => {}
            }
        }
        if let Some(others) = schema.others() {
            for number in 0..self.size(schema, "minProperties", "maxProperties") {
                members.insert(format!("key-{number}"), self.fitting(others, depth + 1)?);
            }
        } else if schema.says("x-kubernetes-preserve-unknown-fields") && self.choices.once_in(2) {
            members.insert("unknown".to_owned(), json!({ "a": [1] }));
        }
        for (name, values) in alternative.values {
            members.insert(name.to_owned(), self.choices.of(values)?.clone());
        }
        Some(members.into())
    }

    fn list(&mut self, schema: Schema<'_>, depth: usize) -> Option<Value> {
        let items = schema.items()?;
        let is_unique = schema.get("x-kubernetes-list-type").is_some_and(|list| list != "atomic");
        let (mut elements, mut seen) = (Vec::new(), BTreeSet::new());
        for _ in 0..self.size(schema, "minItems", "maxItems") {
            let element = self.fitting(items, depth + 1)?;
            if seen.insert(identity(schema, &element)) || !is_unique {
                elements.push(element);
            }
        }
        Some(elements.into())
    }

    /// Chooses a number of elements or members.
    fn size(&mut self, schema: Schema<'_>, least: &str, most: &str) -> usize {
        let least = schema.count(least).unwrap_or(0);
        let most = schema.count(most).unwrap_or(usize::MAX).min(least.saturating_add(MAX_MORE));
        if self.made > MANY_VALUES { least } else { self.choices.between(least, most) }
    }

    fn whole(&mut self, schema: Schema<'_>) -> Option<i64> {
        let (least, most) = schema.whole_bounds();
        let any = i64::try_from(self.choices.next() % 100).unwrap_or(0);
        // A number at an end or near zero is a special case more often than any other.
        let all = [0, 1, 2, 3, any, least, least.saturating_add(1), most.saturating_sub(1), most];
        let all: Vec<i64> = all.into_iter().filter(|number| (least..=most).contains(number)).collect();
        self.choices.of(&all).copied()
    }

    fn number(&mut self, schema: Schema<'_>) -> Option<Value> {
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let all = [Some(0.0), Some(1.0), Some(0.5), Some(-1.25), bound("minimum"), bound("maximum")];
        let all: Vec<f64> = all.into_iter().flatten().filter(|number| schema.bounds(*number)).collect();
        Number::from_f64(*self.choices.of(&all)?).map(Value::Number)
    }

    fn string(&mut self, schema: Schema<'_>) -> Option<String> {
        let pattern = schema.text("pattern");
        if !pattern.is_empty() {
            return pattern::matching(pattern, self.choices);
        }
        if let Some(text) = of_format(schema.text("format")) {
            return Some(text.to_owned());
        }
        let mut text = (*self.choices.of(&TEXTS)?).to_owned();
        let least = schema.count("minLength").unwrap_or(0).min(MANY_VALUES);
        while text.chars().count() < least {
            text.push('x');
        }
        let most = schema.count("maxLength").unwrap_or(usize::MAX);
        Some(text.chars().take(most).collect())
    }
}

/// Returns a text of a format that the API server checks: <https://pkg.go.dev/github.com/go-openapi/strfmt>.
fn of_format(format: &str) -> Option<&'static str> {
    Some(match format {
        "date-time" => "2026-01-02T03:04:05Z",
        "date" => "2026-01-02",
        "duration" => "1m30s",
        "email" => "a@example.com",
        "hostname" => "a.example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "cidr" => "192.0.2.0/24",
        "mac" => "00:00:5e:00:53:01",
        "uri" => "https://example.com/a",
        "uuid" | "uuid3" | "uuid4" | "uuid5" => "5f0f6f0e-8f4f-4d0e-9a55-0c1f6a1d9a01",
        "byte" => "YQ==",
        "bsonobjectid" => "507f1f77bcf86cd799439011",
        "creditcard" => "4111111111111111",
        "isbn" | "isbn10" => "0306406152",
        "isbn13" => "9780306406157",
        "ssn" => "111-11-1111",
        "hexcolor" => "#a1b2c3",
        "rgbcolor" => "rgb(1,2,3)",
        _ => return None,
    })
}

/// One of the schemas that an object may fit beside its own.
struct Alternative<'a> {
    required: BTreeSet<&'a str>,
    /// The fields that only other alternatives require.
    excluded: BTreeSet<&'a str>,
    /// The fields of which this alternative lists the values.
    values: Vec<(&'a str, &'a [Value])>,
}

impl<'a> Alternative<'a> {
    fn choose(schema: Schema<'a>, choices: &mut Choices) -> Self {
        let mut required = schema.required();
        let all: Vec<Schema<'a>> = schema.each("oneOf").chain(schema.each("anyOf")).collect();
        let Some(chosen) = choices.of(&all).copied() else {
            return Self { required, excluded: BTreeSet::new(), values: Vec::new() };
        };
        required.extend(chosen.required());
        let of_others = all.iter().flat_map(|other| other.required());
        let excluded = of_others.filter(|name| !required.contains(name)).collect();
        let listed = |(name, field): (&'a str, Schema<'a>)| Some((name, field.get("enum")?.as_array()?.as_slice()));
        Self { required, excluded, values: chosen.fields().filter_map(listed).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(schema: &Value) -> Vec<Value> {
        let mut choices = Choices::new(1);
        (0..200).filter_map(|_| members(Schema::new(schema), &mut choices).map(Value::Object)).collect()
    }

    fn of_spec(properties: Value) -> Value {
        json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } })
    }

    #[test]
    fn objects_fit_their_schema_and_differ_and_are_the_same_in_each_run() {
        let schema = of_spec(json!({
            "size": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 3 },
            "share": { "type": "number", "minimum": 0, "maximum": 1 },
            "name": { "type": "string", "minLength": 3, "maxLength": 5 },
            "word": { "type": "string", "pattern": "^[a-z]{1,4}$" },
            "mode": { "type": "string", "enum": ["Fast", "Slow"], "nullable": true },
            "when": { "type": "string", "format": "date-time" },
            "labels": { "type": "object", "additionalProperties": { "type": "string" }, "minProperties": 1 },
            "either": { "x-kubernetes-int-or-string": true },
            "any": { "x-kubernetes-preserve-unknown-fields": true },
            "ports": {
                "type": "array", "minItems": 1, "maxItems": 4,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": { "name": { "type": "string" }, "port": { "type": "integer", "minimum": 1 } },
                },
            },
            "target": {
                "type": "object",
                "properties": { "file": { "type": "string" }, "bucket": { "type": "string" } },
                "oneOf": [{ "required": ["file"] }, { "required": ["bucket"] }],
            },
            "place": {
                "type": "object",
                "properties": { "kind": { "type": "string", "enum": ["Near", "Far"] }, "metres": { "type": "integer" } },
                "required": ["kind"],
                "oneOf": [
                    { "properties": { "kind": { "enum": ["Near"] } }, "required": ["kind", "metres"] },
                    { "properties": { "kind": { "enum": ["Far"] } }, "required": ["kind"] },
                ],
            },
        }));
        let all = made(&schema);
        assert_eq!(all.len(), 200);
        assert_eq!(all, made(&schema));
        assert!(all.iter().all(|object| fits(Schema::new(&schema), object)));
        for name in
            ["size", "share", "name", "word", "mode", "when", "labels", "either", "any", "ports", "target", "place"]
        {
            let values: BTreeSet<String> =
                all.iter().map(|object| object["spec"].get(name).unwrap_or(&Value::Null).to_string()).collect();
            assert!(values.contains("null") && values.len() >= 2, "{name}: {values:?}");
        }
        let sizes: Vec<_> = all.iter().filter_map(|object| object["spec"]["size"].as_i64()).collect();
        assert!([1, 2, 3].iter().all(|size| sizes.contains(size)));
    }

    #[test]
    fn what_only_rules_can_say_is_left_out_and_nothing_is_made_where_it_must_be_there() {
        let rules = json!([{ "rule": "has(self.a) != has(self.b)" }]);
        let ruled =
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "x-kubernetes-validations": rules });
        let mut schema =
            of_spec(json!({ "either": ruled, "size": { "type": "integer", "x-kubernetes-validations": rules } }));
        let all = made(&schema);
        assert!(all.iter().all(|object| object["spec"].get("either").is_none()));
        assert!(all.iter().any(|object| object["spec"].get("size").is_some()), "an object may be older than its rules");
        schema["properties"]["spec"]["required"] = json!(["either"]);
        schema["required"] = json!(["spec"]);
        assert!(made(&schema).is_empty());
    }

    #[test]
    fn a_large_schema_makes_no_large_object() {
        let mut schema = json!({ "type": "array", "items": { "type": "string" } });
        for _ in 0..20 {
            schema =
                json!({ "type": "array", "items": { "type": "object", "properties": { "a": schema, "b": schema } } });
            if schema.to_string().len() > 100_000 {
                break;
            }
        }
        let schema = of_spec(json!({ "deep": schema }));
        let largest = made(&schema).iter().map(|object| object.to_string().len()).max();
        assert!(largest.is_some_and(|bytes| bytes < 100_000), "{largest:?}");
    }

    #[test]
    fn some_objects_have_annotations() {
        let mut choices = Choices::new(1);
        let all: BTreeSet<usize> = (0..50).map(|_| annotations(&mut choices).len()).collect();
        assert!(all.contains(&0) && all.len() > 1, "{all:?}");
    }
}
