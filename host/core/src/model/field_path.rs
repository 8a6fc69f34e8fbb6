//! Paths to a field of an object: the keys on the way, between dots, such as `spec.replicas`. A key with other
//! characters is quoted, as in the `fieldPath` of the downward API: `metadata.annotations['example.com/size']`. Pure.

use serde_json::Value;

/// The maximum length of a path, in bytes.
const MAX_PATH_BYTES: usize = 512;
/// The maximum number of keys in a path.
const MAX_KEYS: usize = 16;

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongPath {
    /// The path is too long.
    #[error("a path has at most {MAX_PATH_BYTES} bytes and {MAX_KEYS} keys")]
    TooLong,
    /// A key needs quotes.
    #[error("the key {0:?} needs quotes, as in metadata.annotations['example.com/size']")]
    NotPlain(String),
    /// There is nothing before or after a dot.
    #[error("a key is missing at its end or beside a dot")]
    NoKey,
    /// A bracket has no quoted key in it.
    #[error(
        "brackets hold a key between single quotes, as in metadata.annotations['example.com/size']; a path through a list means every element and has no index"
    )]
    NotQuoted,
}

/// Returns the keys of a path.
///
/// # Errors
/// When the text is not a path.
pub fn keys(path: &str) -> Result<Vec<&str>, WrongPath> {
    if path.len() > MAX_PATH_BYTES {
        return Err(WrongPath::TooLong);
    }
    let (mut keys, mut rest) = (Vec::new(), path);
    loop {
        let (key, after) = if rest.starts_with('[') { quoted(rest)? } else { plain(rest)? };
        keys.push(key);
        rest = match after.strip_prefix('.') {
            Some(next) if next.starts_with('[') => return Err(WrongPath::NoKey),
            Some(next) => next,
            None if after.is_empty() => break,
            None if after.starts_with('[') => after,
            None => return Err(WrongPath::NotQuoted),
        };
    }
    if keys.len() > MAX_KEYS { Err(WrongPath::TooLong) } else { Ok(keys) }
}

/// Returns the path of a member of the object at a path; a key that is not plain is quoted. The empty path is the whole
/// object.
pub fn member(path: &str, key: &str) -> String {
    let mut member = path.to_owned();
    push_member(&mut member, key);
    member
}

/// Extends the path of an object to one of its members, as [`member`] does.
pub fn push_member(path: &mut String, key: &str) {
    match is_plain(key) {
        true if path.is_empty() => path.push_str(key),
        true => path.extend([".", key]),
        false => path.extend(["['", key, "']"]),
    }
}

/// Returns the field of an object at a path, if it is there.
pub fn find<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    keys(path).ok()?.into_iter().try_fold(object, |value, key| value.as_object()?.get(key))
}

fn quoted(rest: &str) -> Result<(&str, &str), WrongPath> {
    let inside = rest.strip_prefix("['").and_then(|rest| rest.split_once("']")).ok_or(WrongPath::NotQuoted)?;
    let is_forbidden = |letter: char| letter.is_control() || letter == '\'';
    if inside.0.is_empty() || inside.0.contains(is_forbidden) { Err(WrongPath::NotQuoted) } else { Ok(inside) }
}

fn plain(rest: &str) -> Result<(&str, &str), WrongPath> {
    let (key, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
    match key {
        "" => Err(WrongPath::NoKey),
        _ if is_plain(key) => Ok((key, after)),
        _ => Err(WrongPath::NotPlain(key.to_owned())),
    }
}

/// Returns whether a key needs no quotes.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_$".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::projection::Projection;

    #[test]
    fn keys_are_between_dots_or_quoted() {
        for (path, expected) in [
            ("status", &["status"][..]),
            ("spec.replicas", &["spec", "replicas"]),
            ("metadata.annotations['example.com/size']", &["metadata", "annotations", "example.com/size"]),
            ("spec['a.b'].c['d']['e f'].g", &["spec", "a.b", "c", "d", "e f", "g"]),
            ("spec.$ref-a_b", &["spec", "$ref-a_b"]),
        ] {
            assert_eq!(keys(path).as_deref(), Ok(expected), "{path}");
        }
    }

    #[test]
    fn a_text_that_is_no_path_is_refused_with_the_reason() {
        for path in ["", ".", ".a", "a..b", "a.", "a.['b']"] {
            assert_eq!(keys(path), Err(WrongPath::NoKey), "{path}");
        }
        for path in ["a[0]", "a[*]", "a['']", "a['b", "a['b'", "a[\"b\"]", "a['b']c", "a['b'c']", "a['\n']", "a["] {
            assert_eq!(keys(path), Err(WrongPath::NotQuoted), "{path}");
        }
        for (path, key) in [("a b", "a b"), ("metadata.annotations.example.com/size", "com/size"), ("a.ä", "ä")] {
            assert_eq!(keys(path), Err(WrongPath::NotPlain(key.to_owned())), "{path}");
        }
        assert_eq!(keys(&"a".repeat(513)), Err(WrongPath::TooLong));
        assert!(keys(&["a"; 16].join(".")).is_ok() && keys(&"a".repeat(512)).is_ok());
        assert_eq!(keys(&["a"; 17].join(".")), Err(WrongPath::TooLong));
    }

    #[test]
    fn a_path_leads_through_objects_only() {
        let object = json!({ "a": { "b.c": [{ "d": 1 }] } });
        assert_eq!(find(&object, "a['b.c']"), Some(&json!([{ "d": 1 }])));
        for path in ["a.b", "a.b.c", "a['b.c'].d", "a['b.c'].0", "x", ""] {
            assert_eq!(find(&object, path), None, "{path}");
        }
    }

    fn written(keys: &[String]) -> String {
        keys.iter().fold(String::new(), |path, key| member(&path, key))
    }

    fn some_keys() -> impl Strategy<Value = Vec<String>> {
        let key = prop_oneof!["[a-z$_-]{1,4}", "[a-z]{1,4}[./][a-z./\\[\\] \"ä~]{0,4}", "\\PC{1,3}"];
        prop::collection::vec(key.prop_filter("no quote", |key| !key.contains('\'')), 1..=16)
    }

    proptest! {
        #[test]
        fn every_list_of_keys_has_a_path(names in some_keys()) {
            let path = written(&names);
            prop_assert_eq!(keys(&path), Ok(names.iter().map(String::as_str).collect()));
        }

        #[test]
        fn the_field_at_a_path_is_found_and_kept_and_nothing_beside_it(names in some_keys()) {
            let (mut object, mut alone) = (json!("value"), json!("value"));
            for key in names.iter().rev() {
                object = json!({ key.as_str(): object, format!("{key}x"): 1 });
                alone = json!({ key.as_str(): alone });
            }
            let path = written(&names);
            prop_assert_eq!(find(&object, &path), Some(&json!("value")));
            prop_assume!(names[0] != "metadata" && names[0] != "metadat");
            let kept = Projection::new(&[path]).project(&object.to_string()).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), alone);
        }

        #[test]
        fn any_text_is_a_path_or_refused(text in "[a-c.\\[\\]'/]{0,12}") {
            if let Ok(names) = keys(&text) {
                let path = written(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
                prop_assert_eq!(keys(&path), Ok(names));
            }
        }
    }
}
