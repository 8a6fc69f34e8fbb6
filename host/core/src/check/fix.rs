//! What lifts a violation: lines for `plugin.yaml`, or a change of what the plugin answers.

use std::fmt;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::check::access_request::Verb;
use crate::check::grant::Grant;
use crate::model::kind::Kind;

/// What lifts a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// More rights in `spec.grants` of `plugin.yaml`.
    Grant(Box<Opening>),
    /// A key of `spec` in `plugin.yaml`, such as `pruneAll`, and its value.
    Spec(&'static str, Value),
    /// Another answer of the plugin, or another object, in words.
    Answer(String),
}

/// What a grant of a kind needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The kind that the grant is for.
    pub kind: Kind,
    /// The index of the grant in `spec.grants`; absent where a new one is needed.
    pub rule: Option<usize>,
    /// Paths of items in the grant, such as `pods.hostNetwork`, and for each `true` or a list of what is to be
    /// added.
    pub items: Vec<(&'static str, Value)>,
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fix::Grant(opening) => match opening.rule {
                Some(rule) => {
                    let item = flow(&Value::Object(opening.alone()));
                    write!(f, "to allow it, add to spec.grants[{rule}] in plugin.yaml: {}", unbraced(&item))
                }
                None => {
                    write!(f, "to allow it, add to spec.grants in plugin.yaml: {}", opening.element())
                }
            },
            Fix::Spec(key, value) => write!(f, "to allow it, set in spec of plugin.yaml: {key}: {}", flow(value)),
            Fix::Answer(change) => f.write_str(change),
        }
    }
}

impl Fix {
    /// Returns a new grant of these verbs on a kind. A Secret is granted by name, so the lines have a place for it.
    pub fn new_grant(kind: Kind, verbs: &[Verb]) -> Self {
        let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
        let mut items = vec![("verbs", json!(verbs))];
        if kind.is("", "Secret") {
            items.push(("names", json!(["NAME"])));
        }
        Self::Grant(Box::new(Opening { kind, rule: None, items }))
    }
}

impl Opening {
    /// Returns a new element of `spec.grants`, on one line.
    pub fn element(&self) -> String {
        format!("- {}", flow(&Value::Object(self.new_rule())))
    }

    /// The items by themselves.
    fn alone(&self) -> Map<String, Value> {
        let mut alone = Map::new();
        self.add_to(&mut alone);
        alone
    }

    fn new_rule(&self) -> Map<String, Value> {
        let mut rule = Map::new();
        if !self.kind.group.is_empty() {
            rule.insert("group".into(), (&*self.kind.group).into());
        }
        rule.insert("kind".into(), (&*self.kind.kind).into());
        self.add_to(&mut rule);
        rule
    }

    /// Sets the items in a grant, beside what it has.
    fn add_to(&self, rule: &mut Map<String, Value>) {
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

/// Sets a member; of a list, adds what is new.
fn add(members: &mut Map<String, Value>, key: &str, value: &Value) {
    match (members.get_mut(key), value) {
        (Some(Value::Array(there)), Value::Array(more)) => {
            let new: Vec<_> = more.iter().filter(|value| !there.contains(value)).cloned().collect();
            there.extend(new);
        }
        _ => drop(members.insert(key.to_owned(), value.clone())),
    }
}

/// Identifies a grant: its index in `spec.grants`, if it is there, and its kind.
type GrantId = (Option<usize>, Kind);

/// Returns the part of `plugin.yaml` that lifts all violations which a grant can lift, ready to be pasted;
/// nothing where there are none.
pub fn plugin_yaml<'a>(fixes: impl Iterator<Item = &'a Fix>, grant: &Grant) -> Option<String> {
    let mut keys = String::new();
    let mut rules: Vec<(GrantId, Map<String, Value>)> = Vec::new();
    for fix in fixes {
        match fix {
            Fix::Answer(_) => {}
            Fix::Spec(key, _) if keys.contains(key) => {}
            Fix::Spec(key, value) => drop(writeln!(keys, "  {key}: {}", flow(value))),
            Fix::Grant(opening) => {
                let id = (opening.rule, opening.kind.clone());
                let index = rules.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
                    rules.push((id, present(opening, grant)));
                    rules.len() - 1
                });
                if let Some((_, rule)) = rules.get_mut(index) {
                    opening.add_to(rule);
                }
            }
        }
    }
    rules.sort_by_key(|((index, _), _)| index.unwrap_or(usize::MAX));
    if !rules.is_empty() {
        keys.push_str("  grants:\n");
    }
    for ((index, _), rule) in rules {
        if let Some(index) = index {
            let _ = writeln!(keys, "    # in place of spec.grants[{index}]");
        }
        block(&mut keys, rule);
    }
    (!keys.is_empty()).then(|| format!("spec:\n{keys}"))
}

/// The grant as it is, without what it has by default; a new one where there is none.
fn present(opening: &Opening, grant: &Grant) -> Map<String, Value> {
    let rule = opening.rule.and_then(|rule| grant.rules.get(rule));
    match rule.and_then(|rule| serde_json::to_value(rule).ok()).and_then(without_defaults) {
        Some(Value::Object(members)) => members,
        _ => opening.new_rule(),
    }
}

/// Leaves out what a grant has by default.
fn without_defaults(value: Value) -> Option<Value> {
    match value {
        Value::Bool(false) | Value::Null => None,
        Value::String(text) if text.is_empty() || text == "own" => None,
        Value::Array(elements) if elements.is_empty() => None,
        Value::Object(members) => {
            let said = members.into_iter().filter_map(|(key, value)| Some((key, without_defaults(value)?)));
            let said: Map<_, _> = said.collect();
            (!said.is_empty()).then_some(Value::Object(said))
        }
        other => Some(other),
    }
}

/// Writes an element of a list, its members in lines of their own.
fn block(text: &mut String, rule: Map<String, Value>) {
    let mut mark = "-";
    let in_order = ["group", "kind", "verbs"];
    let first = in_order.iter().filter_map(|key| rule.get_key_value(*key));
    for (key, value) in first.chain(rule.iter().filter(|(key, _)| !in_order.contains(&key.as_str()))) {
        let _ = writeln!(text, "    {mark} {key}: {}", flow(value));
        mark = " ";
    }
}

/// Writes a value as YAML on one line.
fn flow(value: &Value) -> String {
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

/// Whether every YAML parser reads a text without quotes as this text.
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

    fn grant(rules: Value) -> Grant {
        let rules = serde_json::from_value(rules).unwrap();
        Grant { rules, prune_all: false, host_namespace: "host".into() }
    }

    fn opening(rule: Option<usize>, item: &'static str, value: Value) -> Fix {
        let kind = Kind::new("apps", "v1", "Deployment");
        Fix::Grant(Box::new(Opening { kind, rule, items: vec![(item, value)] }))
    }

    #[test]
    fn one_line_says_what_to_add_and_where() {
        for (fix, line) in [
            (
                opening(None, "verbs", json!(["create", "update"])),
                "to allow it, add to spec.grants in plugin.yaml: - {group: apps, kind: Deployment, verbs: [create, update]}",
            ),
            (
                opening(Some(1), "pods.hostNetwork", json!(true)),
                "to allow it, add to spec.grants[1] in plugin.yaml: pods: {hostNetwork: true}",
            ),
            (
                opening(Some(0), "pods.secrets", json!(["yes"])),
                r#"to allow it, add to spec.grants[0] in plugin.yaml: pods: {secrets: ["yes"]}"#,
            ),
            (Fix::Spec("pruneAll", json!(true)), "to allow it, set in spec of plugin.yaml: pruneAll: true"),
            (Fix::Answer("leave it out".into()), "leave it out"),
        ] {
            assert_eq!(fix.to_string(), line);
        }
    }

    #[test]
    fn all_that_is_missing_becomes_one_piece_of_yaml_beside_what_is_granted() {
        let grant = grant(json!([
            { "kind": "Service", "verbs": ["create"] },
            { "group": "apps", "kind": "Deployment", "verbs": ["create"], "pods": { "secrets": ["a"] } },
        ]));
        let fixes = [
            opening(Some(1), "pods.hostNetwork", json!(true)),
            opening(Some(1), "pods.secrets", json!(["b"])),
            opening(Some(1), "pods.secrets", json!(["a"])),
            opening(Some(1), "verbs", json!(["update"])),
            Fix::Spec("pruneAll", json!(true)),
            Fix::Spec("pruneAll", json!(true)),
            Fix::Answer("leave it out".into()),
            opening(None, "namespaces", json!(["red"])),
            opening(None, "verbs", json!(["create"])),
        ];
        let yaml = plugin_yaml(fixes.iter(), &grant).unwrap();
        assert_eq!(
            yaml,
            "spec:\n  pruneAll: true\n  grants:\n    # in place of spec.grants[1]\n    - group: apps\n      kind: Deployment\n      \
             verbs: [create, update]\n      pods: {hostNetwork: true, secrets: [a, b]}\n    - group: apps\n      kind: Deployment\n      \
             verbs: [create]\n      namespaces: [red]\n"
        );
        assert_eq!(plugin_yaml([Fix::Answer("x".into())].iter(), &grant), None);
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
