//! Lists the fields in which two JSON values differ, for display. Pure.
//!
//! A plugin determines the size of the values, so the length of a shown value and the number of listed fields are
//! bounded. Further fields are only counted.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::field_path::member;

/// The maximum length of a shown value, in characters.
const MAX_VALUE_CHARS: usize = 200;
/// The maximum length of a shown path, in characters.
const MAX_PATH_CHARS: usize = 300;
/// Replaces a value of a Secret.
pub const HIDDEN: &str = "(changed)";
/// Replaces what a component chose after it had been shown Secrets, because it may contain their bytes in any encoding.
pub const TAINTED: &str = "<hidden: this component was shown Secrets>";
/// Replaces a key that such a component chose, in a path, or a namespace, beside a name.
pub const TAINTED_KEY: &str = "<hidden>";

/// A field that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The path, for example `spec.template.spec.containers[memcached].image`.
    pub path: String,
    /// The old value, as JSON text that may be cut; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The new value, as JSON text that may be cut; absent where there would be none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// The fields that differ, up to a maximum number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The listed fields.
    pub listed: Vec<Field>,
    /// The number of fields that are not listed.
    pub more: usize,
}

/// Rules for the members of the compared values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules<'a> {
    /// Top-level members below which no value is shown.
    pub secret: &'a [&'a str],
    /// A member that is ignored, at any depth.
    pub ignored: &'a str,
    /// Whether to hide all values, and the keys in paths that the old value lacks.
    pub tainted: bool,
}

/// Compares two values and lists at most `most` fields.
pub fn compare(old: Option<&Value>, new: Option<&Value>, most: usize, rules: Rules<'_>) -> Fields {
    let mut walk = Walk { found: Fields::default(), most, rules };
    walk.value("", old, new, false);
    walk.found
}

/// Returns a value as JSON text, cut if it is long.
pub fn text(value: &Value) -> String {
    cut(&value.to_string(), MAX_VALUE_CHARS)
}

/// Cuts a text to at most `most` characters; an ellipsis marks the cut.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

struct Walk<'a> {
    found: Fields,
    most: usize,
    rules: Rules<'a>,
}

impl Walk<'_> {
    fn value(&mut self, path: &str, old: Option<&Value>, new: Option<&Value>, hidden: bool) {
        match (old, new) {
            _ if old == new => {}
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.members(path, old, new, hidden),
            (Some(Value::Array(old)), Some(Value::Array(new))) => self.elements(path, old, new, hidden),
            _ => {
                self.list(path, old.map(|value| self.shown(value, hidden)), new.map(|value| self.shown(value, hidden)))
            }
        }
    }

    fn members(&mut self, path: &str, old: &Map<String, Value>, new: &Map<String, Value>, hidden: bool) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys.into_iter().filter(|key| **key != *self.rules.ignored) {
            let secret = path.is_empty() && self.rules.secret.contains(&key.as_str());
            let shown = self.key(key, old.contains_key(key));
            self.value(&member(path, shown), old.get(key), new.get(key), hidden || secret);
        }
    }

    /// Matches elements with names by name, and others by index.
    fn elements(&mut self, path: &str, old: &[Value], new: &[Value], hidden: bool) {
        let (Some(before), Some(after)) = (names(old), names(new)) else {
            for index in 0..old.len().max(new.len()) {
                self.value(&format!("{path}[{index}]"), old.get(index), new.get(index), hidden);
            }
            return;
        };
        let listed = (self.found.listed.len(), self.found.more);
        let find = |list: &'_ [&str], name: &str| list.iter().position(|other| *other == name);
        for name in before.iter().chain(after.iter().filter(|name| !before.contains(name))) {
            let (was, is) = (find(&before, name), find(&after, name));
            let (was, is) = (was.and_then(|at| old.get(at)), is.and_then(|at| new.get(at)));
            let shown = self.key(name, was.is_some());
            self.value(&format!("{path}[{shown}]"), was, is, hidden);
        }
        if listed == (self.found.listed.len(), self.found.more) {
            let order = |names: &[&str]| Some(self.text(cut(&names.join(", "), MAX_VALUE_CHARS)));
            self.list(path, order(&before), order(&after));
        }
    }

    fn key<'k>(&self, key: &'k str, is_known: bool) -> &'k str {
        if self.rules.tainted && !is_known { TAINTED_KEY } else { key }
    }

    fn shown(&self, value: &Value, hidden: bool) -> String {
        if hidden { HIDDEN.to_owned() } else { self.text(text(value)) }
    }

    fn text(&self, text: String) -> String {
        if self.rules.tainted { TAINTED.to_owned() } else { text }
    }

    fn list(&mut self, path: &str, old: Option<String>, new: Option<String>) {
        if self.found.listed.len() < self.most {
            self.found.listed.push(Field { path: cut(path, MAX_PATH_CHARS), old, new });
        } else {
            self.found.more += 1;
        }
    }
}

/// Returns the names of a list's elements, if all of them have different names.
fn names(list: &[Value]) -> Option<Vec<&str>> {
    let names: Option<Vec<&str>> = list.iter().map(|element| element.get("name")?.as_str()).collect();
    names.filter(|names| names.iter().collect::<BTreeSet<_>>().len() == names.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listed(old: &Value, new: &Value) -> Vec<(String, String, String)> {
        let none = || "-".to_owned();
        let fields =
            compare(Some(old), Some(new), 100, Rules { secret: &["data"], ignored: "ignored", tainted: false });
        let line = |field: Field| (field.path, field.old.unwrap_or_else(none), field.new.unwrap_or_else(none));
        fields.listed.into_iter().map(line).collect()
    }

    fn line(path: &str, old: &str, new: &str) -> (String, String, String) {
        (path.to_owned(), old.to_owned(), new.to_owned())
    }

    #[test]
    fn a_changed_field_is_reported_by_its_path_with_both_values() {
        let (old, new) =
            (json!({"spec": {"replicas": 1, "paused": true}}), json!({"spec": {"replicas": 3, "new": "x"}}));
        let lines = [line("spec.new", "-", "\"x\""), line("spec.paused", "true", "-"), line("spec.replicas", "1", "3")];
        assert_eq!(listed(&old, &new), lines);
    }

    #[test]
    fn elements_with_names_are_reported_by_name_whatever_their_index() {
        let old = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
        let new = json!({"containers": [{"name": "b", "image": "2"}, {"name": "c"}, {"name": "a", "image": "1"}]});
        let lines = [line("containers[b].image", "\"1\"", "\"2\""), line("containers[c]", "-", r#"{"name":"c"}"#)];
        assert_eq!(listed(&old, &new), lines);
    }

    #[test]
    fn another_order_of_the_same_elements_is_reported() {
        let (old, new) = (json!({"l": [{"name": "a"}, {"name": "b"}]}), json!({"l": [{"name": "b"}, {"name": "a"}]}));
        assert_eq!(listed(&old, &new), [line("l", "a, b", "b, a")]);
    }

    #[test]
    fn elements_without_names_are_reported_by_index() {
        let (old, new) = (json!({"args": ["-v", "-m"]}), json!({"args": ["-v", "-n", "x"]}));
        assert_eq!(listed(&old, &new), [line("args[1]", "\"-m\"", "\"-n\""), line("args[2]", "-", "\"x\"")]);
        let (old, new) =
            (json!({"l": [{"name": "a"}, {"name": "a", "x": 1}]}), json!({"l": [{"name": "a"}, {"name": "a"}]}));
        assert_eq!(listed(&old, &new), [line("l[1].x", "1", "-")]);
    }

    #[test]
    fn a_key_with_dots_is_put_in_brackets() {
        let (old, new) = (json!({"labels": {"app.example.com/a": "1"}}), json!({"labels": {"app.example.com/a": "2"}}));
        assert_eq!(listed(&old, &new), [line("labels['app.example.com/a']", "\"1\"", "\"2\"")]);
    }

    #[test]
    fn no_value_of_a_secret_is_reported_however_it_changes() {
        for (old, new) in [
            (json!({"data": {"password": "hunter2"}}), json!({"data": {"password": "hunter3"}})),
            (json!({}), json!({"data": {"password": "hunter2"}})),
            (json!({"data": {"password": "hunter2"}}), json!({})),
            (
                json!({"data": {"password": {"deep": ["hunter2"]}}}),
                json!({"data": {"password": {"deep": ["hunter3"]}}}),
            ),
            (json!({"data": "hunter2"}), json!({"data": ["hunter3"]})),
            (json!({"data": {"a": "hunter2"}}), json!({"data": {"b": "hunter2"}})),
        ] {
            let listed = listed(&old, &new);
            assert!(!listed.is_empty() && !format!("{listed:?}").contains("hunter"), "{listed:?}");
            assert!(
                listed
                    .iter()
                    .all(|(_, old, new)| [old, new].iter().all(|value| ["-", HIDDEN].contains(&value.as_str())))
            );
        }
    }

    #[test]
    fn in_a_tainted_result_only_known_keys_are_reported() {
        let rules = Rules { tainted: true, ..Rules::default() };
        for (old, new, path) in [
            (json!({"a": {"b": 1}}), json!({"a": {"b": "hunter2"}}), "a.b"),
            (json!({"a": {}}), json!({"a": {"hunter2": 1}}), "a['<hidden>']"),
            (json!({"a": "hunter2"}), json!({}), "a"),
            (json!({"a": [1]}), json!({"a": [1, "hunter2"]}), "a[1]"),
            (json!({"a": [{"name": "b"}]}), json!({"a": [{"name": "b"}, {"name": "hunter2"}]}), "a[<hidden>]"),
            (json!({"a": [{"name": "b"}, {"name": "c"}]}), json!({"a": [{"name": "c"}, {"name": "b"}]}), "a"),
            (json!("hunter2"), json!("hunter3"), ""),
        ] {
            let listed = compare(Some(&old), Some(&new), 100, rules).listed;
            assert_eq!(listed.len(), 1, "{listed:?}");
            assert_eq!(listed[0].path, path);
            let values = [&listed[0].old, &listed[0].new];
            assert!(values.into_iter().flatten().all(|value| value == TAINTED), "{listed:?}");
        }
        assert_eq!(compare(Some(&json!({"a": "same"})), Some(&json!({"a": "same"})), 100, rules), Fields::default());
    }

    #[test]
    fn ignored_fields_are_not_reported() {
        assert_eq!(listed(&json!({"a": {"ignored": 1}}), &json!({"a": {"ignored": 2}})), []);
    }

    #[test]
    fn a_long_value_is_cut_on_a_character_boundary() {
        let fields = compare(Some(&json!("é".repeat(500))), Some(&json!(1)), 1, Rules::default());
        let old = fields.listed[0].old.clone().unwrap();
        assert_eq!(old.chars().count(), MAX_VALUE_CHARS + 1);
        assert!(old.ends_with('…'));
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn fields_beyond_the_bound_are_counted() {
        let many = |value: u8| json!((0..150).map(|n| (format!("f{n:03}"), json!(value))).collect::<Map<_, _>>());
        let fields = compare(Some(&many(1)), Some(&many(2)), 100, Rules::default());
        assert_eq!((fields.listed.len(), fields.more), (100, 50));
    }
}
