//! Writes a plan for a person, as YAML, as a diff, as Markdown for a pull request, or as JSON. Pure.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::changes::{Action, Change, Changes};
use hotshoe_core::compare::json_diff::Field;
use hotshoe_core::model::kind::{Key, ObjectRef};
use hotshoe_core::model::sanitize::clean;

/// The maximum length of one printed text that a plugin chose, in bytes.
const MAX_TEXT_BYTES: usize = 4_096;

/// How a plan is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// For a person
    #[default]
    Text,
    /// The desired children
    Yaml,
    /// A unified diff of the children
    Diff,
    /// For a pull request
    Markdown,
    /// JSON
    Json,
}

/// What would happen for one parent.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    #[serde(serialize_with = "as_text")]
    pub(super) parent: ObjectRef,
    /// Whether this follows once the plan before it, which writes the status alone, is carried out.
    pub(super) follows: bool,
    /// The defaults that were filled into the parent.
    #[serde(rename = "defaults")]
    pub(super) filled_in: Vec<Field>,
    /// The plugin, as `plugin.yaml` names it, and the digest of its component.
    pub(super) plugin: String,
    pub(super) digest: String,
    #[serde(flatten)]
    pub(super) changes: Changes,
    /// The Events that would be recorded.
    pub(super) events: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requeue_after_seconds: Option<u64>,
}

fn as_text<S: serde::Serializer>(object: &ObjectRef, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(object)
}

impl Output {
    /// Returns the text of plans in this form.
    ///
    /// # Errors
    /// When an object cannot be written as YAML or JSON.
    pub(super) fn of(self, plans: &[Plan]) -> anyhow::Result<String> {
        match self {
            Self::Text => Ok(plans.iter().map(text).collect::<Vec<_>>().join("\n")),
            Self::Yaml => yaml(plans),
            Self::Diff => plans.iter().map(diff).collect(),
            Self::Markdown => {
                changing(plans).map(markdown).collect::<Result<Vec<_>, _>>().map(|pages| pages.join("\n"))
            }
            Self::Json => Ok(serde_json::to_string_pretty(plans)? + "\n"),
        }
    }
}

/// Returns the plans without those that write a status before another one writes children.
fn changing(plans: &[Plan]) -> impl Iterator<Item = &Plan> {
    let next = plans.iter().skip(1).map(Some).chain([None]);
    plans.iter().zip(next).filter(|(_, next)| !next.is_some_and(|next| next.follows)).map(|(plan, _)| plan)
}

fn text(plan: &Plan) -> String {
    let mut text = match plan.follows {
        true => "Once that is written:\n".to_owned(),
        false => format!("{} (component {} of {})\n", named(&plan.parent), plan.digest, plan.plugin),
    };
    plan.filled_in.iter().for_each(|field| write_field(&mut text, "  ", field, " (default)"));
    for change in plan.changes.children.iter().filter(|change| change.action != Action::Keep) {
        let how = if change.may_recreate { " (recreated where it cannot change)" } else { "" };
        let _ = writeln!(text, "  {} {}{how}", sign(change.action), named(&change.child));
        change.fields.iter().for_each(|field| write_field(&mut text, "      ", field, ""));
    }
    plan.changes.metadata.iter().for_each(|field| write_field(&mut text, "  ~ ", field, ""));
    plan.changes.status.iter().for_each(|field| write_field(&mut text, "  ", field, ""));
    for event in &plan.events {
        let _ = writeln!(text, "  event {}", clean(event.clone(), MAX_TEXT_BYTES));
    }
    if let Some(seconds) = plan.requeue_after_seconds {
        let _ = writeln!(text, "  asked again after {seconds} s");
    }
    text + &summary(&plan.changes) + "\n"
}

/// Writes a line about a field, with a remark behind it.
fn write_field(text: &mut String, indent: &str, Field { path, old, new }: &Field, remark: &str) {
    let [path, old, new] =
        [Some(path), old.as_ref(), new.as_ref()].map(|text| text.map(|text| clean(text.clone(), MAX_TEXT_BYTES)));
    let path = path.unwrap_or_default();
    let _ = match (old, new) {
        (Some(old), Some(new)) => writeln!(text, "{indent}{path}: {old} → {new}{remark}"),
        (None, Some(new)) => writeln!(text, "{indent}{path}: {new}{remark}"),
        (Some(old), None) => writeln!(text, "{indent}{path}: {old} → removed{remark}"),
        (None, None) => writeln!(text, "{indent}{path}{remark}"),
    };
}

pub(super) fn sign(action: Action) -> char {
    match action {
        Action::Create => '+',
        Action::Change => '~',
        Action::Delete => '-',
        Action::Keep => '=',
    }
}

/// Returns the name of an object as a user knows it: a kind of Kubernetes itself needs no group.
fn named(object: &ObjectRef) -> String {
    let key = Key { namespace: object.namespace.clone(), name: object.name.clone() };
    if object.kind.is_builtin() { format!("{} {key}", object.kind.kind) } else { object.to_string() }
}

fn summary(changes: &Changes) -> String {
    let [created, changed, deleted] = changes.counts();
    match (changes.is_empty(), changes.counts()) {
        (true, _) => "Nothing would change.".to_owned(),
        (false, [0, 0, 0]) if changes.metadata.is_empty() => "Plan: only the status would change.".to_owned(),
        (false, [0, 0, 0]) => "Plan: only the object itself would change.".to_owned(),
        _ => format!("Plan: {created} to create, {changed} to change, {deleted} to delete."),
    }
}

/// Returns the desired children as documents.
fn yaml(plans: &[Plan]) -> anyhow::Result<String> {
    let desired = plans.iter().flat_map(|plan| &plan.changes.children).filter_map(|change| change.after.as_ref());
    let documents = desired.map(to_yaml).collect::<Result<Vec<_>, _>>()?;
    Ok(documents.join("---\n"))
}

fn to_yaml(object: &Value) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(object)?)
}

fn diff(plan: &Plan) -> anyhow::Result<String> {
    let mut text = String::new();
    for change in plan.changes.children.iter().filter(|change| change.action != Action::Keep) {
        text.push_str(&diff_of(change)?);
    }
    Ok(text)
}

fn diff_of(change: &Change) -> anyhow::Result<String> {
    let side = |object: &Option<Value>| object.as_ref().map(to_yaml).transpose();
    let (before, after) = (side(&change.before)?.unwrap_or_default(), side(&change.after)?.unwrap_or_default());
    let name = named(&change.child);
    let [old, new] = match change.action {
        Action::Create => ["/dev/null", &name],
        Action::Delete => [&name, "/dev/null"],
        Action::Change | Action::Keep => [&*name, &*name],
    };
    Ok(TextDiff::from_lines(&before, &after).unified_diff().header(old, new).to_string())
}

/// The number of backquotes around a block: more than any text in it has in a row at the beginning of a line.
const FENCE: &str = "``````";

fn markdown(plan: &Plan) -> anyhow::Result<String> {
    let mut text = format!("### `{}`: {}\n\n", named(&plan.parent), summary(&plan.changes));
    let changed: Vec<&Change> = plan.changes.children.iter().filter(|change| change.action != Action::Keep).collect();
    if !changed.is_empty() {
        text.push_str("| | child | fields |\n|---|---|---|\n");
    }
    for change in &changed {
        let paths: Vec<String> = change.fields.iter().map(|field| format!("`{}`", cell(&field.path))).collect();
        let _ =
            writeln!(text, "| {} | `{}` | {} |", sign(change.action), cell(&named(&change.child)), paths.join(", "));
    }
    for (what, fields) in [
        ("Of the object itself", &plan.changes.metadata),
        ("Of the status", &plan.changes.status),
        ("Defaults", &plan.filled_in),
    ] {
        let paths: Vec<String> = fields.iter().map(|field| format!("`{}`", cell(&field.path))).collect();
        if !paths.is_empty() {
            let _ = writeln!(text, "\n{what}: {}", paths.join(", "));
        }
    }
    let diff = diff(plan)?.replace(FENCE, "");
    if !diff.is_empty() {
        let _ = write!(text, "\n<details><summary>Diff</summary>\n\n{FENCE}diff\n{diff}{FENCE}\n\n</details>\n");
    }
    Ok(text)
}

/// Returns a text for a cell of a table, in backquotes.
fn cell(text: &str) -> String {
    clean(text.to_owned(), MAX_TEXT_BYTES).replace(['`', '|'], "_")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hotshoe_core::model::kind::Kind;

    fn child(kind: &str, name: &str) -> ObjectRef {
        ObjectRef { kind: Kind::new("", "v1", kind), namespace: Some("n".into()), name: name.into() }
    }

    fn plan() -> Plan {
        let config = |value: &str| json!({ "kind": "ConfigMap", "data": { "a": value } });
        let field = Field { path: "data.a".into(), old: Some("\"1\"".into()), new: Some("\"2\"".into()) };
        let change = |action, child, fields, before, after| {
            let may_recreate = action == Action::Change;
            Change { action, child, may_recreate, fields, before, after }
        };
        let children = vec![
            change(Action::Create, child("Service", "new"), Vec::new(), None, Some(json!({ "kind": "Service" }))),
            change(Action::Change, child("ConfigMap", "a"), vec![field], Some(config("1")), Some(config("2"))),
            change(Action::Delete, child("Pod", "old"), Vec::new(), Some(json!({ "kind": "Pod" })), None),
            change(Action::Keep, child("Pod", "same"), Vec::new(), None, None),
        ];
        let metadata =
            vec![Field { path: "metadata.labels.tier".into(), old: Some("1".into()), new: Some("2".into()) }];
        let status = vec![Field { path: "status.size".into(), old: None, new: Some("1".into()) }];
        Plan {
            parent: ObjectRef { kind: Kind::new("example.com", "v1", "Cache"), ..child("", "c") },
            follows: false,
            filled_in: vec![Field { path: "spec.size".into(), old: None, new: Some("1".into()) }],
            plugin: "cache".into(),
            digest: "abc".into(),
            changes: Changes { children, metadata, status },
            events: vec!["Normal Created: made it".into()],
            requeue_after_seconds: Some(60),
        }
    }

    #[test]
    fn a_person_sees_each_child_that_changes_and_each_field() {
        let expected = "Cache.example.com n/c (component abc of cache)\n  spec.size: 1 (default)\n  + Service n/new\n  \
                        ~ ConfigMap n/a (recreated where it cannot change)\n      \
                        data.a: \"1\" → \"2\"\n  - Pod n/old\n  ~ metadata.labels.tier: 1 → 2\n  status.size: 1\n  event Normal Created: made it\n  \
                        asked again after 60 s\nPlan: 1 to create, 1 to change, 1 to delete.\n";
        assert_eq!(Output::Text.of(&[plan()]).unwrap(), expected);
    }

    #[test]
    fn a_diff_has_what_is_there_and_what_would_be() {
        let diff = Output::Diff.of(&[plan()]).unwrap();
        for line in ["--- /dev/null\n+++ Service n/new\n", "-  a: \"1\"\n+  a: \"2\"\n", "+++ /dev/null\n"] {
            assert!(diff.contains(line), "{diff}");
        }
        assert!(!diff.contains("same"), "{diff}");
    }

    #[test]
    fn a_pull_request_gets_a_table_and_the_diff_and_a_plugins_text_cannot_leave_them() {
        let mut plan = plan();
        plan.changes.children[1].fields[0].path = "data.`a|b".into();
        plan.changes.children[1].after = Some(json!({ "data": { "a": format!("{FENCE}\n</details>") } }));
        let page = Output::Markdown.of(&[plan]).unwrap();
        assert!(page.contains("| ~ | `ConfigMap n/a` | `data._a_b` |"), "{page}");
        assert!(page.contains("\nOf the status: `status.size`\n\nDefaults: `spec.size`\n"), "{page}");
        assert_eq!(page.matches(FENCE).count(), 2, "{page}");
    }

    #[test]
    fn yaml_has_the_desired_children_and_json_all_of_it() {
        assert_eq!(Output::Yaml.of(&[plan()]).unwrap().matches("---\n").count(), 1);
        let json: Value = serde_json::from_str(&Output::Json.of(&[plan()]).unwrap()).unwrap();
        assert_eq!(json[0]["parent"], "Cache.example.com n/c");
        assert_eq!(json[0]["defaults"][0]["path"], "spec.size");
        assert_eq!(json[0]["children"][1]["action"], "change");
        assert_eq!(json[0]["children"][1]["fields"][0]["new"], "\"2\"");
    }
}
