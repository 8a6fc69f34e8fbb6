//! The lines of `plugin.yaml` that fix violations, joined with the grants that the file has already.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::check::fix::{Fix, GrantChange, flow};
use crate::check::grant::{Grant, Rule};
use crate::check::violation::Denial;
use crate::model::kind::Kind;

/// The identity of a grant: its index in `spec.grants`, absent for a new grant, and its kind.
type GrantId = (Option<usize>, Kind);

/// Returns the part of `plugin.yaml` that fixes all violations that a grant can fix, ready to be pasted into the file
/// with `grant`; `None` if there are none.
pub fn of_denial(denial: &Denial, grant: &Grant) -> Option<String> {
    plugin_yaml(denial.violations().iter().filter_map(|violation| violation.fix.as_ref()), grant)
}

/// Returns the part of `plugin.yaml` that makes all changes that are not the plugin's own, ready to be pasted; `None`
/// if there are none.
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
    let rule = change.rule.and_then(|rule| grant.rules.get(rule)).map(Rule::without_defaults);
    rule.filter(|members| !members.is_empty()).unwrap_or_else(|| change.new_rule())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::violation::Violation;

    fn grant(rules: Value) -> Grant {
        let rules = serde_json::from_value(rules).unwrap();
        Grant {
            rules,
            prune_all: false,
            finalize: Vec::new(),
            parent_metadata: Default::default(),
            host_namespace: "host".into(),
        }
    }

    fn grant_change(rule: Option<usize>, item: &'static str, value: Value) -> Fix {
        let kind = Kind::new("apps", "v1", "Deployment");
        Fix::Grant(Box::new(GrantChange::new(kind, rule, vec![(item, value)])))
    }

    #[test]
    fn the_part_of_plugin_yaml_has_what_fixes_a_violation_and_nothing_for_one_that_no_grant_fixes() {
        let grant = grant(json!([]));
        let fixed = |fix| of_denial(&Violation::new("a", "first").fixed_by(fix).into(), &grant);
        let part = fixed(Fix::Spec("pruneAll", json!(true)));
        assert!(part.is_some_and(|part| part.contains("pruneAll: true")));
        assert_eq!(fixed(Fix::Answer("leave it out".into())), None);
        assert_eq!(of_denial(&Violation::new("a", "first").into(), &grant), None);
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
}
