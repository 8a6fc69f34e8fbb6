//! Fixes of violations: an addition to `plugin.yaml`, or a change of something else.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::check::access_request::Verb;
use crate::model::kind::Kind;

/// A change that fixes a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// More rights in `spec.grants` of `plugin.yaml`.
    Grant(Box<GrantChange>),
    /// A key of `spec` in `plugin.yaml`, such as `pruneAll`, and its value.
    Spec(&'static str, Value),
    /// Another answer of the plugin, or another object; a sentence for its author. What a user chose has this fix and
    /// never a grant: otherwise an administrator would be advised to grant it.
    Answer(String),
}

/// Items to add to a grant of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantChange {
    /// The kind that the grant is for.
    pub kind: Kind,
    /// The index of the grant in `spec.grants`; absent where a new one is needed.
    pub rule: Option<usize>,
    /// Paths of items in the grant, such as `pods.hostNetwork`, each with the value `true` or with the list elements to
    /// add.
    pub items: Vec<(&'static str, Value)>,
    /// What the grant has now, without default values; empty where a new one is needed.
    pub now: Map<String, Value>,
    /// Whether the message of the violation names a better fix, a change of the plugin's answer.
    pub has_better: bool,
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fix::Grant(change) => match change.rule {
                Some(rule) => {
                    let item = flow(&Value::Object(change.changed_keys()));
                    let how = if change.replaces() { "set in" } else { "add to" };
                    write!(f, "to allow it, {how} spec.grants[{rule}] in plugin.yaml: {}", unbraced(&item))
                }
                None => {
                    write!(f, "to allow it, add to spec.grants in plugin.yaml: {}", change.element())
                }
            },
            Fix::Spec(key, value) => write!(f, "to allow it, set in spec of plugin.yaml: {key}: {}", flow(value)),
            Fix::Answer(change) => f.write_str(change),
        }
    }
}

impl Fix {
    /// Returns a new grant of these verbs on a kind. If the parent's namespace has none of its objects, they are granted
    /// in every namespace. Secrets are granted by name, so a grant of them gets a placeholder for the name.
    pub fn new_grant(kind: Kind, verbs: &[Verb], is_beyond_own: bool) -> Self {
        let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
        let mut items = vec![("verbs", json!(verbs))];
        if kind.is("", "Secret") {
            items.push(("names", json!(["NAME"])));
        }
        if is_beyond_own {
            items.push(("namespaces", json!("cluster")));
        }
        Self::Grant(Box::new(GrantChange::new(kind, None, items)))
    }
}

impl GrantChange {
    /// Builds a change of a grant, or a new one where no `rule` is given.
    pub fn new(kind: Kind, rule: Option<usize>, items: Vec<(&'static str, Value)>) -> Self {
        Self { kind, rule, items, now: Map::new(), has_better: false }
    }

    /// Returns a new element of `spec.grants`, on one line.
    pub fn element(&self) -> String {
        format!("- {}", flow(&Value::Object(self.new_rule())))
    }

    /// Returns the keys of the grant that change, each with the whole value that it is to have.
    fn changed_keys(&self) -> Map<String, Value> {
        let mut keys = self.now.clone();
        keys.retain(|key, _| self.keys().any(|changed| changed == key));
        self.add_to(&mut keys);
        keys
    }

    /// Returns whether the grant has one of the keys already: YAML allows each only once.
    fn replaces(&self) -> bool {
        self.keys().any(|key| self.now.contains_key(key))
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|(item, _)| item.split_once('.').map_or(*item, |(key, _)| key))
    }

    /// Returns the items as a new grant.
    pub(super) fn new_rule(&self) -> Map<String, Value> {
        let mut rule = Map::new();
        if !self.kind.group.is_empty() {
            rule.insert("group".into(), (&*self.kind.group).into());
        }
        rule.insert("kind".into(), (&*self.kind.kind).into());
        self.add_to(&mut rule);
        rule
    }

    /// Adds the items to what a grant already has.
    pub(super) fn add_to(&self, rule: &mut Map<String, Value>) {
        for (item, value) in &self.items {
            match item.split_once('.') {
                None => add(rule, item, value),
                Some((parent, key)) => {
                    if let Value::Object(members) = rule.entry(parent).or_insert_with(|| json!({})) {
                        add(members, key, value);
                    }
                }
            }
        }
    }
}

/// Sets a member; to an existing list, adds the elements that it lacks.
fn add(members: &mut Map<String, Value>, key: &str, value: &Value) {
    match (members.get_mut(key), value) {
        (Some(Value::Array(existing)), Value::Array(more)) => {
            let new: Vec<_> = more.iter().filter(|value| !existing.contains(value)).cloned().collect();
            existing.extend(new);
        }
        _ => drop(members.insert(key.to_owned(), value.clone())),
    }
}

/// Writes a value as YAML on one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::Array(elements) => format!("[{}]", elements.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key}: {}", flow(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

fn unbraced(flow: &str) -> &str {
    flow.strip_prefix('{').and_then(|flow| flow.strip_suffix('}')).unwrap_or(flow)
}

/// Returns whether every YAML parser reads the unquoted text as this string.
fn is_plain(text: &str) -> bool {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "-._/".contains(letter);
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text.chars().all(letters)
        && !words.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant_change(rule: Option<usize>, item: &'static str, value: Value) -> Fix {
        let kind = Kind::new("apps", "v1", "Deployment");
        Fix::Grant(Box::new(GrantChange::new(kind, rule, vec![(item, value)])))
    }

    #[test]
    fn a_key_that_a_grant_has_already_is_written_with_all_that_it_is_to_have() {
        for (now, item, value, line) in [
            (json!({ "names": ["shared-*"] }), "names", json!(["private"]), r#"names: ["shared-*", private]"#),
            (
                json!({ "pods": { "secrets": ["a"] } }),
                "pods.hostNetwork",
                json!(true),
                "pods: {hostNetwork: true, secrets: [a]}",
            ),
        ] {
            let Fix::Grant(mut change) = grant_change(Some(1), item, value) else { unreachable!() };
            change.now = now.as_object().cloned().unwrap();
            let expected = format!("to allow it, set in spec.grants[1] in plugin.yaml: {line}");
            assert_eq!(Fix::Grant(change).to_string(), expected);
        }
    }

    #[test]
    fn one_line_says_what_to_add_and_where() {
        for (fix, line) in [
            (
                grant_change(None, "verbs", json!(["create", "update"])),
                "to allow it, add to spec.grants in plugin.yaml: - {group: apps, kind: Deployment, verbs: [create, update]}",
            ),
            (
                grant_change(Some(1), "pods.hostNetwork", json!(true)),
                "to allow it, add to spec.grants[1] in plugin.yaml: pods: {hostNetwork: true}",
            ),
            (
                grant_change(Some(0), "pods.secrets", json!(["yes"])),
                r#"to allow it, add to spec.grants[0] in plugin.yaml: pods: {secrets: ["yes"]}"#,
            ),
            (Fix::Spec("pruneAll", json!(true)), "to allow it, set in spec of plugin.yaml: pruneAll: true"),
            (Fix::Answer("leave it out".into()), "leave it out"),
        ] {
            assert_eq!(fix.to_string(), line);
        }
    }

    #[test]
    fn a_text_that_yaml_reads_as_another_type_is_quoted() {
        for (text, written) in [
            ("a-b.c_d/e", "a-b.c_d/e"),
            ("/var/log", "/var/log"),
            ("true", r#""true""#),
            ("No", r#""No""#),
            ("1", r#""1""#),
            ("", r#""""#),
            ("*", r#""*""#),
            ("a: b", r#""a: b""#),
            ("a\n- b", r#""a\n- b""#),
        ] {
            assert_eq!(flow(&text.into()), written);
        }
    }
}
