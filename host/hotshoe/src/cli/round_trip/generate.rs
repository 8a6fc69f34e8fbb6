//! Objects made from the schema of a version. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Number, Value, json};

use super::choices::Choices;
use super::pattern::{self, NoText};
use crate::cli::schema::keywords::Schema;
use crate::cli::schema::members::identity;
use crate::cli::schema::valid::fits;

/// The maximum depth of a made object. Optional fields below are left out.
const MAX_DEPTH: usize = 12;
/// The number of values in a made object from which on optional fields are left out.
const MANY_VALUES: usize = 1_000;
/// The maximum number of values in a made object. A larger one takes seconds to be made smaller again.
const MAX_VALUES: usize = 3_000;
/// The maximum length of all texts in a made object, in bytes.
const MAX_BYTES: usize = 100_000;
/// The maximum number of values that are made for an object, with those that do not fit and are made anew.
const MAX_WORK: usize = 300_000;
/// The maximum number of elements more than the least.
const MAX_MORE: usize = 3;
/// How often a value is made anew that does not fit what a schema combines.
const MAX_TRIES: usize = 10;
/// The keyword of rules (CEL), which are not evaluated.
const RULES: &str = "x-kubernetes-validations";
/// Texts that are easily mistaken for something else, such as the end of a line.
const TEXTS: [&str; 8] = ["", "a", "b", "0", "true", "two words", "two\nlines", "\"ä\",{}"];

/// A limit that the least value of a schema exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Limit {
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    Depth,
    #[error("it has more than {MAX_VALUES} values")]
    Values,
    #[error("its texts are longer than {MAX_BYTES} bytes")]
    Bytes,
    #[error("no value that fits is found soon")]
    Work,
    #[error("its pattern is too large")]
    Pattern,
}

/// Makes objects of a schema.
pub(super) struct Maker<'a> {
    schema: Schema<'a>,
    choices: Choices,
    /// The optional fields that exceed a limit, by their paths. They are not tried again. An empty path is the object.
    left_out: BTreeMap<String, Limit>,
    /// The path of the value that is being made.
    path: Vec<&'a str>,
    size: Size,
    /// The number of values that were made for the object, also of those that were given up.
    work: usize,
    /// The limit that the value that is being made exceeds. It holds for what contains the value, up to an optional field.
    exceeded: Option<Limit>,
}

/// The size of what was made of an object.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    values: usize,
    bytes: usize,
}

impl<'a> Maker<'a> {
    /// Makes objects of a schema, the same in each run.
    pub(super) fn new(schema: Schema<'a>, choices: Choices) -> Self {
        Self {
            schema,
            choices,
            left_out: BTreeMap::new(),
            path: Vec::new(),
            size: Size::default(),
            work: 0,
            exceeded: None,
        }
    }

    /// Makes the members of an object, but for `apiVersion`, `kind` and `metadata`. None if a field that must be there
    /// cannot be made: that of a pattern that cannot be read, an object or a list with rules (CEL), or what exceeds a limit.
    pub(super) fn members(&mut self) -> Option<Map<String, Value>> {
        if self.schema.get(RULES).is_some() {
            return None;
        }
        (self.size, self.work) = (Size::default(), 0);
        let made = self.optional(self.schema);
        let Value::Object(mut members) = made? else { return None };
        members.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
        Some(members)
    }

    /// Makes annotations, sometimes none.
    pub(super) fn annotations(&mut self) -> Map<String, Value> {
        let mut annotations = Map::new();
        for name in ["example.com/made", "made"] {
            let is_there = self.choices.once_in(2);
            let text = self.choices.of(&TEXTS).filter(|_| is_there);
            annotations.extend(text.map(|text| (name.to_owned(), (*text).into())));
        }
        annotations
    }

    /// Returns the paths of the optional fields that are left out of all objects, each with the limit that it exceeds. An
    /// empty path is that of the object.
    pub(super) fn left_out(self) -> BTreeMap<String, Limit> {
        self.left_out
    }

    /// Makes what may also be left out. What exceeds a limit is left out of all objects.
    fn optional(&mut self, schema: Schema<'a>) -> Option<Value> {
        let path = self.path.join(".");
        if self.left_out.contains_key(&path) {
            return None;
        }
        let before = self.size;
        let made = self.fitting(schema);
        if let Some(limit) = self.exceeded.take() {
            self.size = before;
            self.left_out.insert(path, limit);
            return None;
        }
        made
    }

    /// Makes a value that fits a schema, also what it combines of other schemas.
    fn fitting(&mut self, schema: Schema<'a>) -> Option<Value> {
        let may_differ =
            ["oneOf", "anyOf", "allOf", "not", "minItems"].iter().any(|keyword| schema.get(keyword).is_some());
        let before = self.size;
        for _ in 0..if may_differ { MAX_TRIES } else { 1 } {
            self.size = before;
            let made = self.value(schema).filter(|value| fits(schema, value));
            if made.is_some() || self.exceeded.is_some() {
                return made;
            }
        }
        None
    }

    /// Makes a value within the limits.
    fn value(&mut self, schema: Schema<'a>) -> Option<Value> {
        self.work += 1;
        self.size.values += 1;
        let limits = [
            (Limit::Depth, self.path.len() > MAX_DEPTH),
            (Limit::Values, self.size.values > MAX_VALUES),
            (Limit::Work, self.work > MAX_WORK),
        ];
        if let Some((limit, _)) = limits.into_iter().find(|(_, is_exceeded)| *is_exceeded) {
            self.exceeded = Some(limit);
            return None;
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let value = self.choices.of(values)?;
            return self.copied(value);
        }
        if schema.says("nullable") && self.choices.once_in(8) {
            return Some(Value::Null);
        }
        if let Some(default) = schema.get("default").filter(|_| self.choices.once_in(8)) {
            return self.copied(default);
        }
        match schema.text("type") {
            "object" => self.object(schema),
            "array" => self.list(schema),
            "string" => self.string(schema).map(Value::String),
            "boolean" => Some(self.choices.once_in(2).into()),
            "integer" => self.whole(schema).map(Value::from),
            "number" => self.number(schema),
            _ if schema.says("x-kubernetes-int-or-string") => self.choices.of(&[json!(1), json!("50%")]).cloned(),
            _ => self.choices.of(&[json!("a"), json!({ "a": 1 }), json!([1])]).cloned(),
        }
    }

    /// Copies a value of the schema.
    fn copied(&mut self, value: &Value) -> Option<Value> {
        self.add(value.to_string().len())?;
        Some(value.clone())
    }

    /// Counts the bytes of a text; none if they exceed the limit.
    fn add(&mut self, bytes: usize) -> Option<()> {
        self.size.bytes = self.size.bytes.saturating_add(bytes);
        if self.size.bytes > MAX_BYTES {
            self.exceeded = Some(Limit::Bytes);
            return None;
        }
        Some(())
    }

    /// Makes a value below the one that is being made.
    fn below<T>(&mut self, name: &'a str, make: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.path.push(name);
        let made = make(self);
        self.path.pop();
        made
    }

    fn object(&mut self, schema: Schema<'a>) -> Option<Value> {
        let alternative = Alternative::choose(schema, &mut self.choices);
        let mut members = Map::new();
        for (name, field) in schema.fields().filter(|(name, _)| !alternative.excluded.contains(name)) {
            let is_required = alternative.required.contains(name);
            let is_far = self.size.values > MANY_VALUES || self.path.len() == MAX_DEPTH;
            if !is_required && (is_far || self.choices.once_in(3)) {
                continue;
            }
            // The rules about an object or a list are about how its fields go together, which only CEL can say.
            let has_rules = ["object", "array"].contains(&field.text("type")) && field.get(RULES).is_some();
            let made = match (has_rules, is_required) {
                (true, _) => None,
                (false, true) => self.below(name, |maker| maker.fitting(field)),
                (false, false) => self.below(name, |maker| maker.optional(field)),
            };
            match made {
                Some(value) => drop(members.insert(name.to_owned(), value)),
                None if is_required => return None,
                None => {}
            }
        }
        if let Some(others) = schema.others() {
            for number in 0..self.count(schema, "minProperties", "maxProperties") {
                let value = self.below("*", |maker| maker.fitting(others))?;
                members.insert(format!("key-{number}"), value);
            }
        } else if schema.says("x-kubernetes-preserve-unknown-fields") && self.choices.once_in(2) {
            members.insert("unknown".to_owned(), json!({ "a": [1] }));
        }
        for (name, values) in alternative.values {
            let value = self.choices.of(values)?;
            members.insert(name.to_owned(), self.copied(value)?);
        }
        Some(members.into())
    }

    fn list(&mut self, schema: Schema<'a>) -> Option<Value> {
        let items = schema.items()?;
        let is_unique = schema.get("x-kubernetes-list-type").is_some_and(|list| list != "atomic");
        let (mut elements, mut seen) = (Vec::new(), BTreeSet::new());
        for _ in 0..self.count(schema, "minItems", "maxItems") {
            let element = self.below("*", |maker| maker.fitting(items))?;
            if seen.insert(identity(schema, &element)) || !is_unique {
                elements.push(element);
            }
        }
        Some(elements.into())
    }

    /// Chooses a number of elements or members.
    fn count(&mut self, schema: Schema<'a>, least: &str, most: &str) -> usize {
        let least = schema.count(least).unwrap_or(0);
        let most = schema.count(most).unwrap_or(usize::MAX).min(least.saturating_add(MAX_MORE));
        let is_far = self.size.values > MANY_VALUES || self.path.len() == MAX_DEPTH;
        if is_far { least } else { self.choices.between(least, most) }
    }

    fn whole(&mut self, schema: Schema<'a>) -> Option<i64> {
        let (least, most) = schema.whole_bounds();
        let any = i64::try_from(self.choices.next() % 100).unwrap_or(0);
        // A number at an end or near zero is a special case more often than any other.
        let all = [0, 1, 2, 3, any, least, least.saturating_add(1), most.saturating_sub(1), most];
        let all: Vec<i64> = all.into_iter().filter(|number| (least..=most).contains(number)).collect();
        self.choices.of(&all).copied()
    }

    fn number(&mut self, schema: Schema<'a>) -> Option<Value> {
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let all = [Some(0.0), Some(1.0), Some(0.5), Some(-1.25), bound("minimum"), bound("maximum")];
        let all: Vec<f64> = all.into_iter().flatten().filter(|number| schema.bounds(*number)).collect();
        Number::from_f64(*self.choices.of(&all)?).map(Value::Number)
    }

    fn string(&mut self, schema: Schema<'a>) -> Option<String> {
        let text = self.text(schema)?;
        self.add(text.len())?;
        Some(text)
    }

    fn text(&mut self, schema: Schema<'a>) -> Option<String> {
        let pattern = schema.text("pattern");
        if !pattern.is_empty() {
            let text = pattern::matching(pattern, &mut self.choices);
            self.exceeded = (text == Err(NoText::TooLarge)).then_some(Limit::Pattern);
            return text.ok();
        }
        if let Some(text) = of_format(schema.text("format")) {
            return Some(text.to_owned());
        }
        let least = schema.count("minLength").unwrap_or(0);
        if least > MAX_BYTES {
            self.exceeded = Some(Limit::Bytes);
            return None;
        }
        let text = *self.choices.of(&TEXTS)?;
        let missing = least.saturating_sub(text.chars().count());
        let most = schema.count("maxLength").unwrap_or(usize::MAX);
        Some(text.chars().chain(std::iter::repeat_n('x', missing)).take(most).collect())
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
        made_and_left_out(schema).0
    }

    fn made_and_left_out(schema: &Value) -> (Vec<Value>, Vec<(String, Limit)>) {
        let mut maker = Maker::new(Schema::new(schema), Choices::new(1));
        let made = (0..200).filter_map(|_| maker.members().map(Value::Object)).collect();
        (made, maker.left_out().into_iter().collect())
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
    fn what_is_larger_than_an_object_may_be_is_left_out_and_named() {
        let nested = |depth: usize, least: usize| {
            let leaf = json!({ "type": "string" });
            (0..depth).fold(leaf, |items, _| json!({ "type": "array", "minItems": least, "items": items }))
        };
        for (large, limit) in [
            (json!({ "type": "string", "pattern": "^(((a{1000}){1000}){1000})$" }), Limit::Pattern),
            (json!({ "type": "string", "pattern": "a".repeat(20_000) }), Limit::Pattern),
            (json!({ "type": "string", "minLength": 1_000_000_000 }), Limit::Bytes),
            (json!({ "type": "string", "enum": ["a".repeat(200_000)] }), Limit::Bytes),
            (nested(8, 10), Limit::Values),
            (nested(20, 1), Limit::Depth),
            (json!({ "type": "object", "minProperties": 1_000_000, "additionalProperties": {} }), Limit::Values),
        ] {
            let mut schema = of_spec(json!({ "large": large, "size": { "type": "integer" } }));
            let (objects, left_out) = made_and_left_out(&schema);
            assert_eq!(left_out, [("spec.large".to_owned(), limit)]);
            assert_eq!(objects.len(), 200, "{limit:?}");
            assert!(objects.iter().any(|object| object["spec"]["size"].is_i64()), "the rest is made: {limit:?}");
            schema["required"] = json!(["spec"]);
            schema["properties"]["spec"]["required"] = json!(["large"]);
            assert_eq!(made_and_left_out(&schema), (Vec::new(), vec![(String::new(), limit)]));
        }
    }

    #[test]
    fn what_never_fits_is_given_up() {
        let never = json!({ "type": "integer", "allOf": [{ "enum": [0.5] }] });
        let schema = (0..10).fold(
            never,
            |items, _| json!({ "type": "array", "minItems": 1, "items": items, "anyOf": [{ "minItems": 1 }] }),
        );
        let (objects, left_out) = made_and_left_out(&of_spec(json!({ "never": schema })));
        assert_eq!((objects.len(), left_out), (200, vec![("spec.never".to_owned(), Limit::Work)]));
    }

    #[test]
    fn some_objects_have_annotations() {
        let schema = json!({});
        let mut maker = Maker::new(Schema::new(&schema), Choices::new(1));
        let all: BTreeSet<usize> = (0..50).map(|_| maker.annotations().len()).collect();
        assert!(all.contains(&0) && all.len() > 1, "{all:?}");
    }
}
