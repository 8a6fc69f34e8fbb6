//! The shape of JSON that a plugin wrote, checked without building it: the first thing that
//! happens to it, so that whoever parses it later cannot be led into deep recursion or a quarrel
//! about which of two equal keys counts.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::limits::JSON_KEY;

/// Below this many keys, comparing each with each is faster than hashing.
const FEW_KEYS: usize = 24;

/// Checks that `text` is one JSON object, nested at most `depth` deep, without duplicate or huge
/// keys and without numbers beyond a double.
///
/// # Errors
/// What is wrong, and where in the text.
pub(super) fn check_object(text: &str, depth: u32) -> Result<(), String> {
    let start = text.trim_ascii_start();
    if !start.starts_with('{') {
        return Err("it is no JSON object".to_owned());
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Shape { depth }.deserialize(&mut deserializer).and_then(|()| deserializer.end()).map_err(|error| error.to_string())
}

/// Visits a value and keeps nothing of it. `depth` is plugin-controlled, hence counted.
#[derive(Clone, Copy)]
struct Shape {
    depth: u32,
}

impl Shape {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Self { depth }),
            None => Err(E::custom("it is nested too deeply")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Shape {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shape {
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
        let inner = self.deeper()?;
        while items.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        let mut seen = Keys::default();
        while let Some(Key(key)) = entries.next_key()? {
            if key.len() > JSON_KEY {
                return Err(A::Error::custom(format_args!("a key has more than {JSON_KEY} bytes")));
            }
            if let Err(key) = seen.insert(key) {
                return Err(A::Error::custom(format_args!("the key {key:?} stands twice in one object")));
            }
            entries.next_value_seed(inner)?;
        }
        Ok(())
    }
}

/// A key, borrowed from the text where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The keys of one object so far.
#[derive(Default)]
struct Keys<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Keys<'de> {
    /// Takes the key, or gives it back where it is there already.
    fn insert(&mut self, key: Cow<'de, str>) -> Result<(), Cow<'de, str>> {
        if self.few.contains(&key) || self.many.contains(&key) {
            return Err(key);
        }
        if self.few.len() < FEW_KEYS {
            self.few.push(key);
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
    fn a_key_that_stands_twice_is_named() {
        let error = check_object(r#"{"a":1,"b":{"x":1,"\u0078":2}}"#, 64).unwrap_err();
        assert!(error.starts_with(r#"the key "x" stands twice in one object"#), "{error}");
        let many: String = (0..200).map(|n| format!("\"k{n}\":0,")).collect();
        assert!(check_object(&format!("{{{many}\"k150\":1}}"), 64).is_err());
        assert_eq!(check_object(&format!("{{{many}\"last\":1}}"), 64), Ok(()));
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
        let text = format!("{{\"{}\":1}}", "k".repeat(JSON_KEY + 1));
        assert!(check_object(&text, 64).is_err());
    }
}
