//! What decisions changed, in lines for an author. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use hotshoe_core::compare::json_diff::{Field, Rules, compare};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::sanitize::clean;
use hotshoe_core::simulation::{Action, Change};

/// The maximum number of fields of one object that are named.
const MAX_FIELDS: usize = 8;
/// The maximum length of a printed line, in bytes.
const MAX_LINE_BYTES: usize = 1_000;

/// What a decision changed.
pub(super) struct Round {
    /// Whether it keeps the children as they are.
    pub(super) keeps: bool,
    pub(super) children: Vec<Change>,
    /// The labels and annotations of the parent.
    pub(super) metadata: Vec<String>,
    /// The fields of the status.
    pub(super) status: Vec<String>,
}

impl Round {
    /// Returns whether it changed nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty() && self.metadata.is_empty() && self.status.is_empty()
    }
}

/// Returns the lines of one decision, which is counted from 1.
pub(super) fn of(number: usize, round: &Round) -> String {
    let mut text = format!("decision {number}\n");
    for Change { action, child, fields } in &round.children {
        let sign = match action {
            Action::Created => '+',
            Action::Changed => '~',
            Action::Deleted => '-',
        };
        let _ = writeln!(text, "  {sign} {child}");
        for field in fields.iter().take(MAX_FIELDS) {
            let _ = writeln!(text, "      {}", line(field));
        }
    }
    for (part, fields) in [("metadata", &round.metadata), ("status", &round.status)] {
        if !fields.is_empty() {
            let _ = writeln!(text, "  ~ {part}");
        }
        for field in fields {
            let _ = writeln!(text, "      {field}");
        }
    }
    text
}

/// Returns the fields in which two values differ, a line for each.
pub(super) fn fields(before: &Value, after: &Value) -> Vec<String> {
    compare(Some(before), Some(after), MAX_FIELDS, Rules::default()).listed.iter().map(line).collect()
}

fn line(Field { path, old, new }: &Field) -> String {
    let [old, new] = [old, new].map(|value| value.as_deref().unwrap_or("nothing"));
    clean(format!("{path}: {old} → {new}"), MAX_LINE_BYTES)
}

/// Says in which children two ends differ; none if they are the same.
pub(super) fn difference(one: &BTreeMap<ObjectRef, Value>, other: &BTreeMap<ObjectRef, Value>) -> Option<String> {
    let mut text = String::new();
    for (child, before) in one {
        match other.get(child) {
            None => {
                let _ = writeln!(text, "  - {child}");
            }
            Some(after) if after != before => {
                let _ = writeln!(text, "  ~ {child}");
                for field in fields(before, after) {
                    let _ = writeln!(text, "      {field}");
                }
            }
            Some(_) => {}
        }
    }
    for child in other.keys().filter(|child| !one.contains_key(child)) {
        let _ = writeln!(text, "  + {child}");
    }
    (!text.is_empty()).then(|| format!("other children are there in the end\n{text}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hotshoe_core::model::kind::Kind;

    fn child(name: &str) -> ObjectRef {
        ObjectRef { kind: Kind::new("", "v1", "ConfigMap"), namespace: Some("n".into()), name: name.into() }
    }

    #[test]
    fn a_decision_is_told_by_signs_and_fields() {
        let field = Field { path: "data.a".into(), old: Some("1".into()), new: None };
        let change = |action, name| Change { action, child: child(name), fields: vec![field.clone()] };
        let created = Change { fields: Vec::new(), ..change(Action::Created, "a") };
        let round = Round {
            keeps: false,
            children: vec![created, change(Action::Changed, "b")],
            metadata: fields(&json!({ "labels": {} }), &json!({ "labels": { "tier": "a" } })),
            status: fields(&json!({ "ready": false }), &json!({ "ready": true })),
        };
        let expected = "decision 3\n  + ConfigMap n/a\n  ~ ConfigMap n/b\n      data.a: 1 → nothing\n  ~ metadata\n      labels.tier: nothing → \"a\"\n  ~ status\n      ready: false → true\n";
        assert_eq!(of(3, &round), expected);
    }

    #[test]
    fn ends_differ_by_children_that_are_missing_added_or_other() {
        let end = |names: &[(&str, u32)]| {
            names.iter().map(|(name, size)| (child(name), json!({ "size": size }))).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(difference(&end(&[("a", 1)]), &end(&[("a", 1)])), None);
        let text = difference(&end(&[("a", 1), ("b", 1)]), &end(&[("b", 2), ("c", 1)])).unwrap();
        assert!(text.contains("- ConfigMap n/a") && text.contains("~ ConfigMap n/b\n      size: 1 → 2"), "{text}");
        assert!(text.contains("+ ConfigMap n/c"), "{text}");
    }
}
