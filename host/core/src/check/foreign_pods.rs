//! Checks objects of other operators that say which containers run: a Rollout, a Workflow, a Knative Service. The host
//! does not know which Pods the other operator makes of such an object, so a plugin that sets an image in one is as
//! powerful as that operator. Pure.

use serde_json::Value;

use crate::check::json_cursor::grant_change;
use crate::check::pod;
use crate::check::violation::{Checked, Violation};
use crate::model::kind::Kind;

/// Checks that an object sets no container image, unless the grant allows it (`open`). Kinds whose Pods are checked by
/// the rules of [`pod`] pass.
///
/// # Errors
/// When the object sets a container image.
pub fn check(kind: &Kind, body: &Value, open: bool) -> Checked {
    if open || pod::makes_pods(kind) {
        return Ok(());
    }
    let Some(path) = find(body, "") else { return Ok(()) };
    let message = format!(
        "{path} names a container image, and the host cannot check the Pods that another component makes of this object"
    );
    Err(Violation::new("foreign-pods", message).fixed_by(grant_change("foreignPods", true.into())).into())
}

/// Returns the path to the first container with an image, at any depth.
fn find(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::Object(members) => members.iter().find_map(|(key, below)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if may_hold_containers(key) && has_container_image(below) {
                Some(shortened(&path))
            } else {
                find(below, &path)
            }
        }),
        Value::Array(elements) => {
            elements.iter().enumerate().find_map(|(index, below)| find(below, &format!("{path}[{index}]")))
        }
        _ => None,
    }
}

/// Returns whether a field may hold containers: `containers`, `initContainers`, `sidecarContainers`, or a single one as
/// `container`.
fn may_hold_containers(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.ends_with("containers") || key.ends_with("container")
}

/// Returns whether a value is a container with an image, or a list with such a container.
fn has_container_image(value: &Value) -> bool {
    let has_image = |one: &Value| {
        one.as_object().is_some_and(|members| members.keys().any(|key| key.eq_ignore_ascii_case("image")))
    };
    has_image(value) || value.as_array().is_some_and(|elements| elements.iter().any(has_image))
}

/// Cuts a path for a message, because the plugin chooses its keys.
fn shortened(path: &str) -> String {
    path.chars().filter(|letter| !letter.is_control()).take(256).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(kind: &str, body: &Value, open: bool) -> Option<String> {
        let denial = check(&Kind::new("argoproj.io", "v1", kind), body, open).err()?;
        assert_eq!(denial.rule(), "foreign-pods");
        Some(denial.to_string())
    }

    #[test]
    fn a_container_in_a_custom_kind_is_found_at_any_depth_and_opened_by_an_item() {
        let image = json!({ "name": "a", "image": "evil" });
        for (body, path) in [
            (json!({ "spec": { "template": { "spec": { "containers": [image] } } } }), "spec.template.spec.containers"),
            (json!({ "spec": { "parts": [{}, { "initContainers": [{}, image] }] } }), "spec.parts[1].initContainers"),
            (json!({ "spec": { "EphemeralContainers": [{ "Image": "evil" }] } }), "spec.EphemeralContainers"),
            (json!({ "spec": { "templates": [{ "container": image }] } }), "spec.templates[0].container"),
        ] {
            let denied = message("Rollout", &body, false).unwrap();
            assert!(denied.contains(path) && denied.contains("foreignPods: true"), "{denied}");
            assert_eq!(message("Rollout", &body, true), None);
        }
    }

    #[test]
    fn an_object_without_containers_and_one_that_is_checked_as_a_pod_pass() {
        for body in [
            json!({}),
            json!({ "spec": { "containers": 2, "image": "a" } }),
            json!({ "spec": { "containers": [{ "name": "a" }, "image"] } }),
            json!({ "data": { "containers": "[{image: a}]" } }),
        ] {
            assert_eq!(message("Rollout", &body, false), None, "{body}");
        }
        let deployment = json!({ "spec": { "template": { "spec": { "containers": [{ "image": "a" }] } } } });
        assert_eq!(check(&Kind::new("apps", "v1", "Deployment"), &deployment, false), Ok(()));
    }
}
