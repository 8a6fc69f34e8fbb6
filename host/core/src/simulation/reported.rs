//! What all that controllers report has in common.

use serde_json::{Value, json};

/// The time of what the controllers report: 2026-01-01.
pub(super) const TIME: &str = "2026-01-01T00:00:00Z";

/// Returns a condition that is true.
pub(super) fn condition(name: &str, reason: &str) -> Value {
    condition_with(name, "True", reason)
}

/// Returns a condition with this status.
pub(super) fn condition_with(name: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": name, "status": status, "reason": reason, "message": "", "lastTransitionTime": TIME,
        "lastUpdateTime": TIME,
    })
}
