//! The query and the body of an apply. The body is JSON with line breaks, which costs the API server less to parse.
//!
//! The API server parses an apply as YAML, of which JSON is a subset. There a `{` or `[` may begin a key as long as
//! its line goes on, for up to 1,024 characters, so in one long line the parser buffers all tokens in between. A line
//! break after each bracket ends that at once: for a Deployment in one line it allocates 158 kB and takes 147 µs, for
//! the same with line breaks 67 kB and 111 µs (`yaml_parser_fetch_more_tokens` and `yaml_simple_key_is_valid` of
//! `go.yaml.in/yaml/v2`).
//!
//! JSON is a subset of YAML except for some characters, which YAML 1.1 rejects or reads as line breaks, even between
//! quotes. A plugin chooses the text, and the written object must be the one that was checked, so these characters are
//! escaped.

use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap};
use serde_json::ser::Formatter;
use serde_json::{Map, Value};

use hotshoe_core::diff::Precondition;

/// Returns the query of a write with this field manager.
pub fn manager_query(manager: &str) -> String {
    format!("fieldManager={}", manager.replace('/', "%2F"))
}

/// Returns the query of an apply. The apply is forced, because a field that we set is ours. It has no
/// `fieldValidation`, because a field that is not in the schema is refused anyway: it could have no owner. The
/// validation would only add a second pass over the body for duplicate keys, which no body of ours has.
pub fn query(manager: &str) -> String {
    manager_query(manager) + "&force=true&fieldValidation=Ignore"
}

/// Returns the query of an apply as a dry run: it changes nothing, and its reply is the object that would result.
pub fn dry_query(manager: &str) -> String {
    query(manager) + "&dryRun=All"
}

/// Returns the query of an apply that fails with a conflict if another field manager owns one of its fields.
pub fn unforced_query(manager: &str) -> String {
    manager_query(manager) + "&fieldValidation=Ignore"
}

/// Returns the body of an apply that the API server carries out only under a precondition.
pub fn conditional(body: &Value, precondition: &Precondition) -> Vec<u8> {
    write(&Conditional { body, precondition })
}

/// Returns the body of an apply.
pub fn write(body: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    // Writing JSON values into memory cannot fail.
    drop(body.serialize(&mut serde_json::Serializer::with_formatter(&mut out, LineBreaks)));
    out
}

/// Serializes an object with its precondition, without a copy of it.
struct Conditional<'a> {
    body: &'a Value,
    precondition: &'a Precondition,
}

impl Serialize for Conditional<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(members) = self.body else { return self.body.serialize(serializer) };
        let mut object = serializer.serialize_map(Some(members.len()))?;
        for (key, value) in members {
            match value {
                Value::Object(metadata) if key == "metadata" => {
                    object.serialize_entry(key, &ConditionalMetadata(metadata, self.precondition))?;
                }
                _ => object.serialize_entry(key, value)?,
            }
        }
        object.end()
    }
}

struct ConditionalMetadata<'a>(&'a Map<String, Value>, &'a Precondition);

impl Serialize for ConditionalMetadata<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut metadata = serializer.serialize_map(None)?;
        for (key, value) in self.0 {
            metadata.serialize_entry(key, value)?;
        }
        match self.1 {
            // Creates the object, and conflicts with an existing one: no existing object still has this version.
            Precondition::Absent => metadata.serialize_entry("resourceVersion", "1")?,
            Precondition::Uid(uid) => metadata.serialize_entry("uid", &**uid)?,
            Precondition::Version(uid, version) => {
                metadata.serialize_entry("uid", &**uid)?;
                metadata.serialize_entry("resourceVersion", &version.to_string())?;
            }
        }
        metadata.end()
    }
}

/// Formats JSON with a line break after each opening bracket.
struct LineBreaks;

impl Formatter for LineBreaks {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"[\n")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"{\n")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return writer.write_all(fragment.as_bytes());
        }
        for part in fragment.split_inclusive(is_special_in_yaml) {
            match part.chars().next_back().filter(|last| is_special_in_yaml(*last)) {
                Some(special) => write!(writer, "{}\\u{:04x}", part.trim_end_matches(special), u32::from(special))?,
                None => writer.write_all(part.as_bytes())?,
            }
        }
        Ok(())
    }
}

/// Returns whether YAML 1.1 reads a character differently or rejects it: line breaks, the byte order mark, and what
/// `yaml_parser_update_buffer` rejects.
fn is_special_in_yaml(letter: char) -> bool {
    matches!(letter, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn line_breaks_keep_the_object_and_follow_each_opening_bracket() {
        let body = json!({ "a": { "b": [1, [], "{[\n\"{"], "c": {} }, "d": null });
        let written = String::from_utf8(write(&body)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), body);
        assert_eq!(written, "{\n\"a\":{\n\"b\":[\n1,[\n],\"{[\\n\\\"{\"],\"c\":{\n}},\"d\":null}");
    }

    #[test]
    fn characters_that_yaml_reads_differently_are_escaped_in_keys_and_values() {
        for special in ('\u{7f}'..='\u{9f}').chain(['\u{2028}', '\u{2029}', '\u{feff}', '\u{fffe}', '\u{ffff}']) {
            let text = format!("{special}a{special}{special}\n\"ä{special}");
            let body = json!({ text.as_str(): [text] });
            let written = String::from_utf8(write(&body)).unwrap();
            assert!(!written.contains(is_special_in_yaml), "{written:?}");
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), body);
        }
        let plain = json!("a\u{a0}ä日\u{2027}\u{202a}\u{fffd}\u{1f600}\u{1fffe}");
        assert_eq!(String::from_utf8(write(&plain)).unwrap(), serde_json::to_string(&plain).unwrap());
    }
}
