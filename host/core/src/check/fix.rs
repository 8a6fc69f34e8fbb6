//! Fixes of violations: lines for `plugin.yaml`, or a change of the plugin's answer.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::check::access_request::Verb;
use crate::check::grant::Grant;
use crate::model::kind::Kind;

/// A change that fixes a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// More rights in `spec.grants` of `plugin.yaml`.
    Grant(Box<GrantChange>),
    /// A key of `spec` in `plugin.yaml`, such as `pruneAll`, and its value.
    Spec(&'static str, Value),
    /// Another answer of the plugin, or another object; a sentence for the plugin's author.
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
    /// Whether the message of the violation names a better fix, a change of the plugin's answer.
    pub has_better: bool,
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fix::Grant(change) => match change.rule {
                Some(rule) => {
                    let item = flow(&Value::Object(change.items_only()));
                    write!(f, "to allow it, add to spec.grants[{rule}] in plugin.yaml: {}", unbraced(&item))
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
    /// Returns a new grant of these verbs on a kind. Secrets are granted by name, so a grant of them gets a placeholder
    /// for the name.
    pub fn new_grant(kind: Kind, verbs: &[Verb]) -> Self {
        let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
        let mut items = vec![("verbs", json!(verbs))];
        if kind.is("", "Secret") {
            items.push(("names", json!(["NAME"])));
        }
        Self::Grant(Box::new(GrantChange { kind, rule: None, items, has_better: false }))
    }
}

impl GrantChange {
    /// Returns a new element of `spec.grants`, on one line.
    pub fn element(&self) -> String {
        format!("- {}", flow(&Value::Object(self.new_rule())))
    }

    /// Returns the items without the keys that identify the grant.
    fn items_only(&self) -> Map<String, Value> {
        let mut items = Map::new();
        self.add_to(&mut items);
        items
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

    /// Adds the items to what a grant already has.
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

/// The identity of a grant: its index in `spec.grants`, absent for a new grant, and its kind.
type GrantId = (Option<usize>, Kind);

/// Returns the part of `plugin.yaml` that fixes all violations that a grant can fix, ready to be pasted; `None` if
/// there are none.
pub fn plugin_yaml<'a>(fixes: impl Iterator<Item = &'a Fix>, grant: &Grant) -> Option<String> {
    let mut keys = String::new();
    let mut written = BTreeSet::new();
    let mut rules: Vec<(GrantId, Map<String, Value>)> = Vec::new();
    for fix in fixes {
        match fix {
            Fix::Answer(_) => {}
            Fix::Grant(change) if change.has_better => {}
            Fix::Spec(key, _) if !written.insert(key) => {}
            Fix::Spec(key, value) => drop(writeln!(keys, "  {key}: {}", flow(value))),
            Fix::Grant(change) => {
                let id = (change.rule, change.kind.clone());
                let index = rules.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
                    rules.push((id, existing_rule(change, grant)));
                    rules.len() - 1
                });
                if let Some((_, rule)) = rules.get_mut(index) {
                    change.add_to(rule);
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

/// Returns the existing grant without its default values, or a new grant where none exists.
fn existing_rule(change: &GrantChange, grant: &Grant) -> Map<String, Value> {
    let rule = change.rule.and_then(|rule| grant.rules.get(rule));
    match rule.and_then(|rule| serde_json::to_value(rule).ok()).and_then(without_defaults) {
        Some(Value::Object(members)) => members,
        _ => change.new_rule(),
    }
}

/// Removes the values that a grant has by default.
fn without_defaults(value: Value) -> Option<Value> {
    match value {
        Value::Bool(false) | Value::Null => None,
        Value::String(text) if text.is_empty() || text == "own" => None,
        Value::Array(elements) if elements.is_empty() => None,
        Value::Object(members) => {
            let kept = members.into_iter().filter_map(|(key, value)| Some((key, without_defaults(value)?)));
            let kept: Map<_, _> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        other => Some(other),
    }
}

/// Writes an element of a YAML list, each member on a line of its own.
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

    fn grant(rules: Value) -> Grant {
        let rules = serde_json::from_value(rules).unwrap();
        Grant { rules, prune_all: false, host_namespace: "host".into() }
    }

    fn grant_change(rule: Option<usize>, item: &'static str, value: Value) -> Fix {
        let kind = Kind::new("apps", "v1", "Deployment");
        Fix::Grant(Box::new(GrantChange { kind, rule, items: vec![(item, value)], has_better: false }))
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
    fn all_missing_rights_become_one_piece_of_yaml_together_with_the_granted_ones() {
        let grant = grant(json!([
            { "kind": "Service", "verbs": ["create"] },
            { "group": "apps", "kind": "Deployment", "verbs": ["create"], "pods": { "secrets": ["a"] } },
        ]));
        let fixes = [
            grant_change(Some(1), "pods.hostNetwork", json!(true)),
            grant_change(Some(1), "pods.secrets", json!(["b"])),
            grant_change(Some(1), "pods.secrets", json!(["a"])),
            grant_change(Some(1), "verbs", json!(["update"])),
            Fix::Spec("pruneAll", json!(true)),
            Fix::Spec("pruneAll", json!(true)),
            Fix::Answer("leave it out".into()),
            grant_change(None, "namespaces", json!(["red"])),
            grant_change(None, "verbs", json!(["create"])),
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
    fn a_setting_whose_name_is_a_part_of_another_name_is_written_too() {
        let fixes = [Fix::Spec("pruneAll", json!(true)), Fix::Spec("prune", json!(false))];
        let yaml = plugin_yaml(fixes.iter(), &grant(json!([])));
        assert_eq!(yaml.as_deref(), Some("spec:\n  pruneAll: true\n  prune: false\n"));
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
