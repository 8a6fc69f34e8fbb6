//! The targets, one function each.

pub(crate) mod answers;
pub(crate) mod gate;
pub(crate) mod objects;

/// The separator between two sections of an input.
const SEPARATOR: &str = "\n---\n";

/// Splits an input into its sections; none where it is not text.
fn sections(bytes: &[u8]) -> Option<Vec<&str>> {
    Some(std::str::from_utf8(bytes).ok()?.split(SEPARATOR).collect())
}

/// Returns the nesting depth of a value.
fn depth(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
