//! Whether a child must be applied.

use kube::ResourceExt;
use serde::Serialize;
use serde_json::Value;

/// Whether an observed object lacks something of the desired one. Additions of others are fine.
pub(super) fn differs<K: ResourceExt + Serialize>(desired: &Value, observed: Option<&K>) -> bool {
    let Some(observed) = observed.and_then(|observed| serde_json::to_value(observed).ok()) else { return true };
    !covers(&observed, desired)
}

fn covers(observed: &Value, desired: &Value) -> bool {
    match (observed, desired) {
        (Value::Object(observed), Value::Object(desired)) => {
            desired.iter().all(|(key, value)| observed.get(key).is_some_and(|observed| covers(observed, value)))
        }
        (Value::Array(observed), Value::Array(desired)) => {
            observed.len() == desired.len() && observed.iter().zip(desired).all(|(one, other)| covers(one, other))
        }
        _ => observed == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn additions_of_others_make_no_difference_and_changes_do() {
        let desired = json!({ "spec": { "replicas": 1, "ports": [{ "port": 1 }] } });
        assert!(covers(
            &json!({ "spec": { "replicas": 1, "paused": true, "ports": [{ "port": 1, "name": "a" }] } }),
            &desired
        ));
        assert!(!covers(&json!({ "spec": { "replicas": 2, "ports": [{ "port": 1 }] } }), &desired));
        assert!(!covers(&json!({ "spec": { "replicas": 1, "ports": [] } }), &desired));
    }
}
