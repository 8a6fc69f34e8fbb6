//! What `harmless` of each SDK leaves of a Pod template of a user is admitted without a grant for Pods.

use serde_json::{Value, json};

use crate::denial::{child, denial, grant};

/// Templates with what `harmless` makes of them. The tests of each SDK read the same file.
const EXAMPLES: &str = include_str!("../../../../plugins/sdk/tests/harmless.json");

/// Returns why a Job with this template is denied, if it is.
fn denied(template: &Value) -> Option<String> {
    let job = child("batch", "Job", "one", &json!({ "spec": { "template": template } }));
    let grant = grant(json!([{ "group": "batch", "kind": "Job", "verbs": ["create", "update"] }]), false);
    denial(&[job], &grant).map(|denial| denial.to_string())
}

#[test]
fn what_is_left_of_a_template_is_admitted_and_what_was_removed_is_denied_by_name() {
    let examples: Vec<Value> = serde_json::from_str(EXAMPLES).unwrap();
    assert!(examples.len() > 5);
    for example in &examples {
        let (name, template) = (&example["name"], &example["template"]);
        assert_eq!(denied(example.get("harmless").unwrap_or(template)), None, "{name}");
        for removed in example["removed"].as_array().unwrap() {
            let path = format!("spec.template.{}", removed.as_str().unwrap());
            // Where a field must be false, the denial names what has it.
            let (_, field) = path.rsplit_once('.').unwrap();
            let why = denied(template).unwrap_or_default();
            assert!(why.contains(&path) || why.contains(&format!("{field}: false")), "{name}: {path} is not in\n{why}");
        }
    }
}
