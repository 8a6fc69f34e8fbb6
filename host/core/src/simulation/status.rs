//! The status of a parent after a decision.

use serde_json::{Map, Value, json};

use crate::check::admission::AdmittedDecision;

/// Returns the status of the parent once the decision is carried out.
pub fn status_after(admitted: &AdmittedDecision, parent: &Value) -> Value {
    let decision = &admitted.decision;
    let stated = decision.status.as_deref().and_then(|status| serde_json::from_str(status).ok());
    let mut status: Map<String, Value> = match stated {
        Some(Value::Object(stated)) => stated,
        _ => parent.get("status").and_then(Value::as_object).cloned().unwrap_or_default(),
    };
    let generation = parent.pointer("/metadata/generation").cloned().unwrap_or_else(|| 1.into());
    let conditions = decision.conditions.iter().map(|one| {
        json!({
            "type": one.name, "status": one.status.as_str(), "reason": one.reason, "message": one.message,
            "observedGeneration": generation, "lastTransitionTime": EPOCH,
        })
    });
    status.insert("conditions".to_owned(), conditions.collect());
    status.insert("observedGeneration".to_owned(), generation.clone());
    Value::Object(status)
}

/// The time of conditions that are not written.
const EPOCH: &str = "1970-01-01T00:00:00Z";
