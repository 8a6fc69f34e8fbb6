//! Fields that the API server takes but does not store: it stores the `stringData` of a Secret as its `data`. Pure.
//!
//! An apply of such a field owns what the stored object does not have: a key that is no longer desired would stay, and
//! an edit by others would not be noticed. So the host writes what is stored. It is the only such field of a built-in
//! kind, according to the schemas of the API server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::model::kind::Kind;

/// The field of a Secret that is only written.
pub const STRING_DATA: &str = "stringData";
/// The field as which the API server stores it.
pub const DATA: &str = "data";

/// Returns whether objects of a kind have a field that is only written.
pub fn has_any(kind: &Kind) -> bool {
    kind.is("", "Secret")
}

/// Replaces the `stringData` of a Secret by `data`, as the API server does: of a key that is in both, the text counts.
/// What is no map of texts stays, and the API server refuses it.
pub fn replace(kind: &Kind, body: &mut Map<String, Value>) {
    if !has_any(kind) || body.get(DATA).is_some_and(|data| !data.is_object()) {
        return;
    }
    let Some(encoded) = body.get(STRING_DATA).and_then(encoded) else { return };
    body.remove(STRING_DATA);
    if encoded.is_empty() {
        return;
    }
    match body.get_mut(DATA).and_then(Value::as_object_mut) {
        Some(data) => data.extend(encoded),
        None => drop(body.insert(DATA.to_owned(), Value::Object(encoded))),
    }
}

fn encoded(texts: &Value) -> Option<Map<String, Value>> {
    let encode = |(key, text): (&String, &Value)| Some((key.clone(), STANDARD.encode(text.as_str()?).into()));
    texts.as_object()?.iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replaced(kind: &str, body: Value) -> Value {
        let Value::Object(mut body) = body else { panic!("no object") };
        replace(&Kind::new("", "v1", kind), &mut body);
        body.into()
    }

    #[test]
    fn the_texts_of_a_secret_become_its_data_and_win_over_it() {
        let secret =
            json!({ "type": "Opaque", "data": { "a": "eA==", "c": "eA==" }, "stringData": { "a": "1", "b": "ä" } });
        let stored = json!({ "type": "Opaque", "data": { "a": "MQ==", "b": "w6Q=", "c": "eA==" } });
        assert_eq!(replaced("Secret", secret), stored);
        assert_eq!(replaced("Secret", json!({ "stringData": { "a": "" } })), json!({ "data": { "a": "" } }));
        assert_eq!(replaced("Secret", json!({ "stringData": {} })), json!({}));
    }

    #[test]
    fn other_kinds_and_what_the_api_server_refuses_stay_as_they_are() {
        for body in
            [json!({ "stringData": { "a": 1 } }), json!({ "stringData": [] }), json!({ "data": [], "stringData": {} })]
        {
            assert_eq!(replaced("Secret", body.clone()), body);
        }
        let map = json!({ "stringData": { "a": "1" } });
        assert_eq!(replaced("ConfigMap", map.clone()), map);
    }
}
