//! What tools that wait for objects make of one, by the rules of kstatus: Flux, Argo CD's health checks of custom
//! resources and others use that library, or follow it.

use serde_json::Value;

use crate::scene::condition_parts;

/// What a tool takes an object for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kstatus {
    /// It is as desired.
    Current,
    /// It is on its way, or its last change was not seen yet.
    InProgress,
    /// It does not become as desired before something is changed.
    Failed,
    /// It is being deleted.
    Terminating,
}

/// Reads an object.
pub fn kstatus(object: &Value) -> Kstatus {
    let (generation, observed) = (&object["metadata"]["generation"], &object["status"]["observedGeneration"]);
    let is_true = |condition: &Value, name: &str| condition["type"] == name && condition["status"] == "True";
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Kstatus::Terminating;
    }
    if !observed.is_null() && observed != generation {
        return Kstatus::InProgress;
    }
    // The first of the two in the list decides.
    for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
        if is_true(condition, "Reconciling") {
            return Kstatus::InProgress;
        }
        if is_true(condition, "Stalled") {
            return Kstatus::Failed;
        }
    }
    match condition_parts(object, "Ready").0 {
        "True" | "" => Kstatus::Current,
        _ => Kstatus::InProgress,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(generation: i64, observed: Value, conditions: &[(&str, &str)]) -> Kstatus {
        let conditions: Vec<_> =
            conditions.iter().map(|(name, status)| json!({ "type": name, "status": status })).collect();
        let status = json!({ "observedGeneration": observed, "conditions": conditions });
        kstatus(&json!({ "metadata": { "generation": generation }, "status": status }))
    }

    #[test]
    fn the_generation_comes_first_then_what_is_abnormal_and_then_ready() {
        assert_eq!(read(1, Value::Null, &[]), Kstatus::Current, "which is why a new object needs a default");
        assert_eq!(read(1, json!(-1), &[]), Kstatus::InProgress);
        assert_eq!(read(2, json!(1), &[("Stalled", "True")]), Kstatus::InProgress);
        assert_eq!(read(2, json!(2), &[("Ready", "True"), ("Reconciling", "True")]), Kstatus::InProgress);
        assert_eq!(read(2, json!(2), &[("Ready", "True"), ("Stalled", "True")]), Kstatus::Failed);
        assert_eq!(read(2, json!(2), &[("Stalled", "False"), ("Ready", "False")]), Kstatus::InProgress);
        assert_eq!(read(2, json!(2), &[("Ready", "True")]), Kstatus::Current);
        let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 1 } });
        assert_eq!(kstatus(&going), Kstatus::Terminating);
    }
}
