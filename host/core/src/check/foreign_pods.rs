//! Checks objects of other operators that say which containers run: a Rollout, a Workflow, a Knative Service. The host
//! does not know which Pods the other operator makes of such an object, so a plugin that describes a container in one is
//! as powerful as that operator. It need not name an image: an apply merges the container into the one of that name that
//! others have set. Pure.

use serde_json::Value;

use crate::check::json_cursor::grant_change;
use crate::check::pod;
use crate::check::violation::{Checked, Violation};
use crate::model::kind::Kind;

/// The fields of a container that say what runs, or with which rights.
const CONTAINER_FIELDS: [&str; 13] = [
    "image",
    "command",
    "args",
    "env",
    "envFrom",
    "workingDir",
    "volumeMounts",
    "volumeDevices",
    "securityContext",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
];

/// Checks that an object describes no container, unless the grant allows it (`open`). Kinds whose Pods are checked by
/// the rules of [`pod`] pass.
///
/// # Errors
/// When the object describes a container.
pub fn check(kind: &Kind, body: &Value, open: bool) -> Checked {
    if open || pod::makes_pods(kind) {
        return Ok(());
    }
    let mut path = String::new();
    if !find(body, &mut path) {
        return Ok(());
    }
    let message = format!(
        "{} describes a container, and the host cannot check the Pods that another component makes of this object",
        shortened(&path)
    );
    Err(Violation::new("foreign-pods", message).fixed_by(grant_change("foreignPods", true.into())).into())
}

/// Returns whether there is a container at any depth, and extends `path` to the first one.
fn find(value: &Value, path: &mut String) -> bool {
    let start = path.len();
    match value {
        Value::Object(members) => members.iter().any(|(key, below)| {
            path.truncate(start);
            path.extend((start > 0).then_some('.'));
            path.push_str(key);
            (may_hold_containers(key) && has_container(below)) || find(below, path)
        }),
        Value::Array(elements) => elements.iter().enumerate().any(|(index, below)| {
            path.truncate(start);
            path.push_str(&format!("[{index}]"));
            find(below, path)
        }),
        _ => false,
    }
}

/// Returns whether a field may hold containers: `containers`, `initContainers`, `sidecarContainers`, or a single one as
/// `container`.
fn may_hold_containers(key: &str) -> bool {
    let key = key.as_bytes();
    key.last_chunk::<10>().is_some_and(|end| end.eq_ignore_ascii_case(b"containers"))
        || key.last_chunk::<9>().is_some_and(|end| end.eq_ignore_ascii_case(b"container"))
}

/// Returns whether a value is a container, or a list with a container.
fn has_container(value: &Value) -> bool {
    is_container(value) || value.as_array().is_some_and(|elements| elements.iter().any(is_container))
}

fn is_container(value: &Value) -> bool {
    let is_field = |key: &String| CONTAINER_FIELDS.iter().any(|field| key.eq_ignore_ascii_case(field));
    value.as_object().is_some_and(|members| members.keys().any(is_field))
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
            (json!({ "spec": { "container": { "command": ["sh"] } } }), "spec.container"),
        ] {
            let denied = message("Rollout", &body, false).unwrap();
            assert!(denied.contains(path) && denied.contains("foreignPods: true"), "{denied}");
            assert_eq!(message("Rollout", &body, true), None);
        }
    }

    #[test]
    fn a_container_without_an_image_is_one_if_it_has_a_field_that_says_what_runs() {
        for field in CONTAINER_FIELDS {
            let container = json!({ "name": "main", field: null });
            let denied = message("Rollout", &json!({ "spec": { "containers": [container] } }), false);
            assert!(denied.is_some_and(|denied| denied.contains("spec.containers")), "{field}");
        }
    }

    #[test]
    fn an_object_without_containers_and_one_that_is_checked_as_a_pod_pass() {
        for body in [
            json!({}),
            json!({ "spec": { "containers": 2, "image": "a" } }),
            json!({ "spec": { "containers": [{ "name": "a" }, "image"] } }),
            json!({ "spec": { "containers": ["command", "args"], "command": ["sh"], "container": "main" } }),
            json!({ "spec": { "containers": [{ "name": "a", "resources": {}, "ports": [] }] } }),
            json!({ "spec": { "containerResource": { "container": "main", "env": [] } } }),
            json!({ "data": { "containers": "[{image: a}]" } }),
        ] {
            assert_eq!(message("Rollout", &body, false), None, "{body}");
        }
        let deployment = json!({ "spec": { "template": { "spec": { "containers": [{ "image": "a" }] } } } });
        assert_eq!(check(&Kind::new("apps", "v1", "Deployment"), &deployment, false), Ok(()));
    }
}
