//! Objects that are smaller than another one, for the smallest counter-example. Pure.

use std::iter;

use serde_json::{Map, Number, Value};

use super::keywords::Schema;
use super::valid::fits;

/// What stands for a schema where there is none.
const ANY: Value = Value::Null;

/// Values, made one by one: a large object has more smaller ones than there is memory for.
type Values<'a> = Box<dyn Iterator<Item = Value> + 'a>;

/// Returns objects of this schema that are one step smaller than an object: first those without a field or an element,
/// then those with a smaller number or a shorter text. Each step leads to fewer or simpler values, so that there is an end.
/// The names of the object stay.
pub(in crate::cli) fn objects<'a>(schema: Schema<'a>, object: &'a Value) -> Values<'a> {
    let Value::Object(members) = object else { return Box::new(iter::empty()) };
    let smaller = of_object(schema, members, |name| !is_name(name)).filter(move |smaller| {
        let own = smaller.as_object().into_iter().flatten().filter(|(name, _)| !is_name(name));
        fits(schema, &own.map(owned).collect())
    });
    Box::new(without_annotations(members).into_iter().chain(smaller))
}

fn is_name(member: &str) -> bool {
    ["apiVersion", "kind", "metadata"].contains(&member)
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

/// Returns the object without its annotations, and without each of them.
fn without_annotations(members: &Map<String, Value>) -> Vec<Value> {
    let annotations = members.get("metadata").and_then(|metadata| metadata.get("annotations")?.as_object());
    let Some(annotations) = annotations else { return Vec::new() };
    let with = |annotations: Option<Value>| {
        let mut object = Value::Object(members.clone());
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            match annotations {
                Some(annotations) => metadata.insert("annotations".to_owned(), annotations),
                None => metadata.remove("annotations"),
            };
        }
        object
    };
    let fewer = annotations.keys().filter(|_| annotations.len() > 1).map(|name| with(Some(without(annotations, name))));
    std::iter::once(with(None)).chain(fewer).collect()
}

fn without(members: &Map<String, Value>, name: &str) -> Value {
    members.iter().filter(|(other, _)| *other != name).map(owned).collect()
}

fn smaller<'a>(schema: Option<Schema<'a>>, value: &'a Value) -> Values<'a> {
    let schema = schema.unwrap_or(Schema::new(&ANY));
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Box::new(values.iter().take_while(move |earlier| *earlier != value).cloned());
    }
    match value {
        Value::Object(members) => of_object(schema, members, |_| true),
        Value::Array(elements) => of_list(schema, elements),
        Value::Number(number) => Box::new(of_number(schema, number).into_iter()),
        Value::String(text) => Box::new(of_text(schema, text).into_iter()),
        Value::Bool(true) => Box::new(iter::once(false.into())),
        Value::Bool(false) | Value::Null => Box::new(iter::empty()),
    }
}

/// Returns objects without a member, or with a smaller one, of those members that may change.
fn of_object<'a>(schema: Schema<'a>, members: &'a Map<String, Value>, may_change: fn(&str) -> bool) -> Values<'a> {
    let required = schema.required();
    let own = move || members.iter().filter(move |(name, _)| may_change(name));
    let optional = own().filter(move |(name, _)| !required.contains(name.as_str()));
    let fewer = optional.map(|(name, _)| without(members, name));
    let simpler = own().flat_map(move |(name, value)| {
        smaller(schema.member(name), value).map(|value| {
            let mut members = members.clone();
            members.insert(name.clone(), value);
            Value::Object(members)
        })
    });
    Box::new(fewer.chain(simpler))
}

fn of_list<'a>(schema: Schema<'a>, elements: &'a [Value]) -> Values<'a> {
    let (first, second) = elements.split_at(elements.len() / 2);
    let halves = [first, second].into_iter().filter(|half| half.len() < elements.len());
    let halves = halves.map(|half| Value::from(half.to_vec()));
    let fewer = (0..elements.len()).map(|left_out| {
        let others = elements.iter().enumerate().filter(|(at, _)| *at != left_out);
        others.map(|(_, element)| element.clone()).collect()
    });
    let simpler = elements.iter().enumerate().flat_map(move |(at, element)| {
        smaller(schema.items(), element).map(move |smaller| {
            let mut all = elements.to_vec();
            all.splice(at..=at, [smaller]);
            Value::Array(all)
        })
    });
    Box::new(halves.chain(fewer).chain(simpler))
}

/// Returns numbers nearer to zero, as far as the bounds allow.
fn of_number(schema: Schema<'_>, number: &Number) -> Vec<Value> {
    let Some(whole) = number.as_i64() else {
        let rounded = number.as_f64().map(f64::trunc).and_then(Number::from_f64);
        return rounded.filter(|rounded| rounded != number).map(Value::Number).into_iter().collect();
    };
    let (least, most) = schema.whole_bounds();
    let nearest = 0.max(least).min(most);
    let halfway = nearest.saturating_add(whole.saturating_sub(nearest) / 2);
    let next = whole.saturating_sub((whole.saturating_sub(nearest)).signum());
    let mut all = vec![nearest, halfway, next];
    all.dedup();
    all.into_iter().filter(|smaller| *smaller != whole).map(Value::from).collect()
}

/// Returns shorter texts, and one of `a` alone; none of a text with a form of its own.
fn of_text(schema: Schema<'_>, text: &str) -> Vec<Value> {
    if schema.get("pattern").is_some() || schema.get("format").is_some() {
        return Vec::new();
    }
    let count = text.chars().count();
    let first = |count: usize| text.chars().take(count).collect::<String>();
    let mut all = vec![String::new(), first(count / 2), first(count.saturating_sub(1)), "a".repeat(count)];
    all.dedup();
    all.into_iter().filter(|smaller| smaller != text).map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({ "type": "object", "properties": { "spec": { "type": "object", "required": ["size"], "properties": {
            "size": { "type": "integer", "minimum": 2 },
            "names": { "type": "array", "minItems": 1, "items": { "type": "string" } },
            "mode": { "type": "string", "enum": ["Fast", "Slow"] },
            "when": { "type": "string", "format": "date-time" },
            "paused": { "type": "boolean" },
        } } } })
    }

    fn object(annotations: Value, spec: Value) -> Value {
        json!({ "apiVersion": "example.com/v1", "kind": "Test", "metadata": { "name": "a", "annotations": annotations }, "spec": spec })
    }

    /// Returns the smallest object that still fails, one step after the other.
    fn smallest(mut object: Value, fails: impl Fn(&Value) -> bool) -> Value {
        let schema = schema();
        loop {
            let smaller = objects(Schema::new(&schema), &object).find(&fails);
            match smaller {
                Some(smaller) => object = smaller,
                None => return object,
            }
        }
    }

    fn large() -> Value {
        let spec = json!({ "size": 1000, "names": ["one", "other", "third"], "mode": "Slow", "when": "2026-01-02T03:04:05Z", "paused": true });
        object(json!({ "a": "b", "c": "d" }), spec)
    }

    #[test]
    fn what_matters_stays_and_the_rest_goes() {
        let matters =
            |object: &Value| object["spec"]["names"].as_array().is_some_and(|names| names.contains(&json!("third")));
        let mut expected = object(json!({}), json!({ "size": 2, "names": ["third"] }));
        expected["metadata"].as_object_mut().unwrap().remove("annotations");
        assert_eq!(smallest(large(), matters), expected);
        let both = |object: &Value| {
            object["metadata"]["annotations"]["c"] == "d" && object["spec"]["size"].as_i64() >= Some(17)
        };
        assert_eq!(smallest(large(), both), object(json!({ "c": "d" }), json!({ "size": 17 })));
    }

    #[test]
    fn each_smaller_object_fits_and_there_is_an_end() {
        let schema = schema();
        let large = large();
        let all: Vec<Value> = objects(Schema::new(&schema), &large).collect();
        assert!(all.len() > 10 && all.iter().all(|object| fits(Schema::new(&schema), object)), "{all:?}");
        assert!(all.iter().all(|object| *object != large));
        let end = smallest(large, |_| true);
        assert_eq!(end.get("spec"), None);
    }

    #[test]
    fn numbers_and_texts_become_smaller_within_their_bounds() {
        let of = |schema: Value, value: Value| smaller(Some(Schema::new(&schema)), &value).collect::<Vec<Value>>();
        assert_eq!(of(json!({ "type": "integer" }), json!(-8)), [json!(0), json!(-4), json!(-7)]);
        assert_eq!(of(json!({ "type": "integer", "maximum": -5 }), json!(-6)), [json!(-5)]);
        assert_eq!(of(json!({ "type": "integer" }), json!(i64::MIN)).len(), 3);
        assert_eq!(of(json!({ "type": "number" }), json!(1.5)), [json!(1.0)]);
        assert_eq!(of(json!({ "type": "string" }), json!("xyz")), [json!(""), json!("x"), json!("xy"), json!("aaa")]);
        assert!(of(json!({ "type": "string", "pattern": "^x" }), json!("xyz")).is_empty());
        assert_eq!(of(json!({ "enum": ["a", "b"] }), json!("b")), [json!("a")]);
        assert!(of(json!({ "type": "boolean" }), json!(false)).is_empty());
    }
}
