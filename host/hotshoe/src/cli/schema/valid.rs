//! Whether a value is valid by its schema, but for rules (CEL). Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

use super::findings::Findings;
use super::keywords::Schema;
use super::members::{Member, identity, join};
use super::texts;

/// The maximum depth of a value that is checked.
const MAX_DEPTH: usize = 100;
/// The maximum length of a value in a message, in characters.
const MAX_SHOWN: usize = 100;

/// Returns whether a value fits a schema. Formats and patterns are not looked at, nor are rules (CEL).
pub(in crate::cli) fn fits(schema: Schema<'_>, value: &Value) -> bool {
    let mut check = Check { reads_texts: false, findings: Findings::default() };
    check.value(&Member::root(schema, value, None), 0);
    check.findings.problems.is_empty()
}

/// Finds what the API server does not accept of an object, in the words of the API server.
pub(super) fn findings(root: &Member<'_>) -> Findings {
    let mut check = Check { reads_texts: true, findings: Findings::default() };
    check.value(root, 0);
    check.findings
}

struct Check {
    /// Whether formats and patterns are looked at.
    reads_texts: bool,
    findings: Findings,
}

impl Check {
    fn value(&mut self, member: &Member<'_>, depth: usize) {
        let Member { path, schema, value, .. } = member;
        if member.is_unchanged() || (value.is_null() && schema.says("nullable")) {
            return;
        }
        if depth > MAX_DEPTH {
            return self.findings.unchecked(path, format_args!("it is nested deeper than {MAX_DEPTH} levels"));
        }
        if let Some(type_) = other_type(*schema, value) {
            return self.problem(path, format!("must be of type {type_}, but it is {}", shown(value)));
        }
        let values = schema.get("enum").and_then(Value::as_array);
        if let Some(values) = values.filter(|values| !values.contains(value)) {
            let values: Vec<String> = values.iter().map(shown).collect();
            self.problem(path, format!("Unsupported value: {}: supported values: {}", shown(value), values.join(", ")));
        }
        match value {
            Value::Object(members) => self.object(path, *schema, members),
            Value::Array(elements) => self.list(path, *schema, elements),
            Value::String(text) => self.text(path, *schema, text),
            Value::Number(number) => self.number(path, *schema, number),
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(member, depth);
        for member in member.members() {
            self.value(&member, depth + 1);
        }
    }

    fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.findings.problem(path, message);
    }

    fn object(&mut self, path: &str, schema: Schema<'_>, members: &Map<String, Value>) {
        for name in schema.required().into_iter().filter(|name| !members.contains_key(*name)) {
            self.problem(&join(path, name), "Required value");
        }
        if schema.says("x-kubernetes-embedded-resource") {
            for name in ["apiVersion", "kind"].into_iter().filter(|name| !members.contains_key(*name)) {
                self.problem(&join(path, name), "Required value: must not be empty");
            }
        }
        self.count(path, schema, members.len(), ["minProperties", "maxProperties"], "properties");
    }

    fn list(&mut self, path: &str, schema: Schema<'_>, elements: &[Value]) {
        self.count(path, schema, elements.len(), ["minItems", "maxItems"], "items");
        if !["set", "map"].contains(&schema.text("x-kubernetes-list-type")) {
            return;
        }
        let mut seen = BTreeSet::new();
        for (at, element) in elements.iter().enumerate() {
            let identity = identity(schema, element);
            if seen.contains(&identity) {
                self.problem(&format!("{path}[{at}]"), format!("Duplicate value: {}", shown(element)));
            }
            seen.insert(identity);
        }
    }

    fn count(&mut self, path: &str, schema: Schema<'_>, count: usize, bounds: [&str; 2], what: &str) {
        let [least, most] = bounds.map(|bound| schema.count(bound));
        if let Some(least) = least.filter(|least| count < *least) {
            self.problem(path, format!("should have at least {least} {what}, but it has {count}"));
        }
        if let Some(most) = most.filter(|most| count > *most) {
            self.problem(path, format!("must have at most {most} {what}, but it has {count}"));
        }
    }

    fn text(&mut self, path: &str, schema: Schema<'_>, text: &str) {
        self.count(path, schema, text.chars().count(), ["minLength", "maxLength"], "characters");
        if !self.reads_texts {
            return;
        }
        let format = schema.text("format");
        match texts::has_format(format, text) {
            Some(true) => {}
            Some(false) => self.problem(path, format!("must be of type {format}, but it is {}", shown(&text.into()))),
            None => self.findings.unchecked(path, format_args!("the format {format} is not checked here")),
        }
        let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else { return };
        match texts::matches(pattern, text) {
            Ok(true) => {}
            Ok(false) => self.problem(path, format!("should match '{pattern}', but it is {}", shown(&text.into()))),
            Err(why) => self.findings.unchecked(path, format_args!("the pattern '{pattern}' was not checked: {why}")),
        }
    }

    fn number(&mut self, path: &str, schema: Schema<'_>, value: &Number) {
        let Some(number) = value.as_f64() else { return };
        // The API server compares a whole number with the whole part of a bound.
        let is_whole = value.is_i64() || value.is_u64();
        let bound = |keyword: &str| {
            let bound = schema.get(keyword).and_then(Value::as_f64)?;
            Some(if is_whole { bound.trunc() } else { bound })
        };
        let is_out = |bound: f64, keyword: &str, beyond: bool| beyond || (number == bound && schema.says(keyword));
        let or_equal = |keyword: &str| if schema.says(keyword) { "" } else { " or equal to" };
        if let Some(least) = bound("minimum").filter(|least| is_out(*least, "exclusiveMinimum", number < *least)) {
            let words = format!("greater than{}", or_equal("exclusiveMinimum"));
            self.problem(path, format!("should be {words} {least}, but it is {number}"));
        }
        if let Some(most) = bound("maximum").filter(|most| is_out(*most, "exclusiveMaximum", number > *most)) {
            let words = format!("less than{}", or_equal("exclusiveMaximum"));
            self.problem(path, format!("should be {words} {most}, but it is {number}"));
        }
        match bound("multipleOf") {
            Some(0.0) => self.problem(path, "multipleOf is below 1, which the API server only takes of a fraction"),
            Some(step) if number % step != 0.0 => {
                self.problem(path, format!("should be a multiple of {step}, but it is {number}"));
            }
            _ => {}
        }
        if schema.text("format") == "int32" && !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
            self.problem(path, format!("must be of type integer with format int32, but it is {number}"));
        }
    }

    /// Checks what a schema combines of others. A problem is named only where each of them must hold.
    fn combined(&mut self, member: &Member<'_>, depth: usize) {
        let (schema, path) = (member.schema, &member.path);
        for one in schema.each("allOf") {
            self.value(&Member { schema: one, ..member.clone() }, depth + 1);
        }
        if schema.get("anyOf").is_some() && self.number_of(schema.each("anyOf"), member, depth) == 0 {
            self.problem(path, "must validate at least one schema (anyOf)");
        }
        if schema.get("oneOf").is_some() {
            let count = self.number_of(schema.each("oneOf"), member, depth);
            if count != 1 {
                self.problem(path, format!("must validate one and only one schema (oneOf), and validates {count}"));
            }
        }
        if self.number_of(schema.get("not").map(Schema::new).into_iter(), member, depth) > 0 {
            self.problem(path, "must not validate the schema (not)");
        }
    }

    /// Returns how many of these schemas a value fits.
    fn number_of<'a>(&mut self, schemas: impl Iterator<Item = Schema<'a>>, member: &Member<'a>, depth: usize) -> usize {
        let fits = |schema: Schema<'a>| {
            let mut check = Check { reads_texts: self.reads_texts, findings: Findings::default() };
            check.value(&Member { schema, ..member.clone() }, depth + 1);
            self.findings.unchecked.append(&mut check.findings.unchecked);
            check.findings.problems.is_empty()
        };
        schemas.map(fits).filter(|fits| *fits).count()
    }
}

/// Returns the type that a value should have, if it has another one.
fn other_type<'a>(schema: Schema<'a>, value: &Value) -> Option<&'a str> {
    if schema.says("x-kubernetes-int-or-string") {
        let is_one = value.is_i64() || value.is_u64() || value.is_string();
        return (!is_one).then_some("integer or string");
    }
    let type_ = schema.text("type");
    let is_one = match type_ {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    };
    (!is_one).then_some(type_)
}

/// Returns a value as JSON, cut to what a message has room for.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
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
            (json!({ "type": "number", "multipleOf": 0.5 }), vec![json!(1.5), json!(2.0)], vec![json!(1.2), json!(2)]),
            (
                json!({ "type": "number", "maximum": 1.5, "exclusiveMaximum": true }),
                vec![json!(1.4), json!(0)],
                vec![json!(1.5), json!(1)],
            ),
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

    fn problems(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
        let findings = findings(&Member::root(Schema::new(schema), value, old));
        findings.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_problem_names_its_field_and_what_would_be_right() {
        let schema = json!({ "type": "object", "required": ["name"], "properties": {
            "size": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 10, "exclusiveMaximum": true },
            "mode": { "type": "string", "enum": ["Fast", "Slow"] },
            "word": { "type": "string", "pattern": "^[a-z]+$", "maxLength": 3 },
            "when": { "type": "string", "format": "date-time" },
            "names": { "type": "array", "maxItems": 1, "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "either": { "type": "object", "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] },
            "template": { "type": "object", "x-kubernetes-embedded-resource": true },
        } });
        let wrong = json!({
            "size": 10, "mode": "Off", "word": "Long", "when": "today", "names": ["a", "a"], "either": {}, "template": {},
        });
        let mut all = problems(&schema, &wrong, None);
        all.sort();
        let expected = [
            "either: must validate one and only one schema (oneOf), and validates 0",
            "mode: Unsupported value: \"Off\": supported values: \"Fast\", \"Slow\"",
            "name: Required value",
            "names: must have at most 1 items, but it has 2",
            "names[1]: Duplicate value: \"a\"",
            "size: should be less than 10, but it is 10",
            "template.apiVersion: Required value: must not be empty",
            "template.kind: Required value: must not be empty",
            "when: must be of type date-time, but it is \"today\"",
            "word: must have at most 3 characters, but it has 4",
            "word: should match '^[a-z]+$', but it is \"Long\"",
        ];
        assert_eq!(all, expected);
        let large = problems(&schema, &json!({ "name": 1, "size": 3_000_000_000_i64 }), None);
        assert!(large.contains(&"size: must be of type integer with format int32, but it is 3000000000".to_owned()));
    }

    #[test]
    fn what_was_wrong_before_and_did_not_change_may_stay() {
        let schema = json!({ "type": "object", "properties": {
            "size": { "type": "integer", "maximum": 3 },
            "note": { "type": "string" },
        } });
        let old = json!({ "size": 5, "note": "a" });
        assert!(problems(&schema, &json!({ "size": 5, "note": "b" }), Some(&old)).is_empty());
        assert_eq!(problems(&schema, &json!({ "size": 4, "note": "a" }), Some(&old)).len(), 1);
    }

    #[test]
    fn a_value_that_is_nested_too_deeply_is_not_checked_further() {
        let (mut schema, mut value) = (json!({ "type": "string" }), json!(1));
        for _ in 0..MAX_DEPTH + 1 {
            (schema, value) = (json!({ "type": "array", "items": schema }), json!([value]));
        }
        let findings = findings(&Member::root(Schema::new(&schema), &value, None));
        assert!(findings.problems.is_empty());
        assert!(findings.unchecked.concat().contains("nested deeper than 100 levels"), "{:?}", findings.unchecked);
    }
}
