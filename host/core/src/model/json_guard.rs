//! Checks the shape of JSON that a plugin wrote, without building a value. This is the first thing that happens to such
//! JSON, so that no later parser can be led into deep recursion, and no two parsers can disagree about which of two
//! equal keys counts.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::model::limits::MAX_JSON_KEY_BYTES;

/// Below this many keys, comparing each with each is faster than hashing.
const FEW_KEYS: usize = 24;

/// Checks that `text` is one JSON object, nested at most `depth` deep, without duplicate or huge
/// keys and without numbers beyond a double.
///
/// # Errors
/// What is wrong, and where in the text.
pub fn check_object(text: &str, depth: u32) -> Result<(), String> {
    let start = text.trim_ascii_start();
    if !start.starts_with('{') {
        return Err("it is no JSON object".to_owned());
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let shape = Shape { depth, open: &mut Vec::new() };
    shape.deserialize(&mut deserializer).and_then(|()| deserializer.end()).map_err(|error| error.to_string())
}

/// Visits a value and keeps nothing of it. The plugin controls how deep the value is nested, so `depth` is counted
/// down.
struct Shape<'s, 'de> {
    depth: u32,
    /// The keys so far of this object and of those around it, outermost first.
    open: &'s mut Vec<Cow<'de, str>>,
}

impl<'s, 'de> Shape<'s, 'de> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Self { depth, ..self }),
            None => Err(E::custom("it is nested too deeply")),
        }
    }

    fn reborrow(&mut self) -> Shape<'_, 'de> {
        Shape { depth: self.depth, open: self.open }
    }
}

impl<'de> DeserializeSeed<'de> for Shape<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shape<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut inner = self.deeper()?;
        while items.next_element_seed(inner.reborrow())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut inner = self.deeper()?;
        let mut seen = Keys { first: inner.open.len(), many: HashSet::new() };
        while let Some(Key(key)) = entries.next_key()? {
            if key.len() > MAX_JSON_KEY_BYTES {
                return Err(A::Error::custom(format_args!("a key has more than {MAX_JSON_KEY_BYTES} bytes")));
            }
            if let Err(key) = seen.insert(key, inner.open) {
                return Err(A::Error::custom(format_args!("the key {key:?} is given twice in one object")));
            }
            entries.next_value_seed(inner.reborrow())?;
        }
        inner.open.truncate(seen.first);
        Ok(())
    }
}

/// A key, borrowed from the text where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The keys of one object so far.
struct Keys<'de> {
    /// The index of its first key in the list of all open keys.
    first: usize,
    /// The keys beyond the first [`FEW_KEYS`].
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Keys<'de> {
    /// Adds a key, or returns it if the object has it already.
    fn insert(&mut self, key: Cow<'de, str>, open: &mut Vec<Cow<'de, str>>) -> Result<(), Cow<'de, str>> {
        if open.iter().skip(self.first).any(|other| *other == key) || self.many.contains(&key) {
            return Err(key);
        }
        if open.len() - self.first < FEW_KEYS {
            open.push(key);
        } else {
            self.many.insert(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_objects_pass() {
        for text in [
            "{}",
            r#" {"a":[1,-2,3.5,true,null,"x\ny"],"b":{"a":{}}} "#,
            r#"{"big":18446744073709551616,"__proto__":{"x":1}}"#,
        ] {
            assert_eq!(check_object(text, 4), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_object_is_refused() {
        for text in
            ["", "null", "[]", "3", "{", r#"{"a":NaN}"#, r#"{"a":1e999}"#, "{} {}", "{\"a\":\"\0\"}", r#"{"a":1,}"#]
        {
            assert!(check_object(text, 64).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duplicate_key_is_named() {
        let error = check_object(r#"{"a":1,"b":{"x":1,"\u0078":2}}"#, 64).unwrap_err();
        assert!(error.starts_with(r#"the key "x" is given twice in one object"#), "{error}");
        let many: String = (0..200).map(|n| format!("\"k{n}\":0,")).collect();
        assert!(check_object(&format!("{{{many}\"k150\":1}}"), 64).is_err());
        assert_eq!(check_object(&format!("{{{many}\"last\":1}}"), 64), Ok(()));
    }

    #[test]
    fn a_key_may_repeat_in_nested_and_sibling_objects_but_not_in_one_object() {
        for text in [r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}"#, r#"{"b":{"c":1},"c":{"b":1}}"#] {
            assert_eq!(check_object(text, 64), Ok(()), "{text}");
        }
        for text in [r#"{"a":{"b":1},"a":2}"#, r#"{"x":[{"a":1,"b":{"c":1},"a":2}]}"#, r#"{"a":[{}],"b":{},"a":1}"#] {
            assert!(check_object(text, 64).unwrap_err().starts_with("the key \"a\" is given twice"), "{text}");
        }
        let many: String = (0..100).map(|n| format!("\"k{n}\":{{\"k0\":0,\"k99\":0}},")).collect();
        assert_eq!(check_object(&format!("{{{many}\"last\":1}}"), 64), Ok(()));
        for again in ["k0", "k99"] {
            assert!(check_object(&format!("{{{many}\"{again}\":1}}"), 64).is_err(), "{again}");
        }
    }

    #[test]
    fn depth_is_counted_and_never_overflows_the_stack() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check_object(&nested(63), 64), Ok(()));
        assert!(check_object(&nested(64), 64).unwrap_err().contains("nested too deeply"));
        assert!(check_object(&nested(100_000), 64).is_err());
    }

    #[test]
    fn huge_keys_are_refused() {
        let text = format!("{{\"{}\":1}}", "k".repeat(MAX_JSON_KEY_BYTES + 1));
        assert!(check_object(&text, 64).is_err());
    }
}
