//! Members of JSON objects.

use serde_json::Value;

/// Sets a member of a JSON object.
pub(super) fn insert(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(key.to_owned(), value);
    }
}
