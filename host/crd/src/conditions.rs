//! The list of conditions in a status.

use serde_json::{Value, json};

/// Returns the schema of a list of `metav1.Condition`, as a map by `type`, so that the host and the plugin can each
/// write their own. It is written out because the published OpenAPI schema of that type has no patterns and no lengths.
pub(super) fn schema(description: &str) -> Value {
    json!({
        "type": "array",
        "description": description,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the current state.",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "The aspect, in CamelCase or in foo.example.com/CamelCase.",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "type": "string",
                    "description": "Whether it holds: True, False or Unknown.",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "description": "The metadata.generation that the condition was found for.",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "The last time that the condition went from one status to another.",
                },
                "reason": {
                    "type": "string",
                    "description": "One CamelCase word for the reason of the last transition.",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "type": "string",
                    "description": "Details for a person. May be empty.",
                    "maxLength": 32768,
                },
            },
        },
    })
}
