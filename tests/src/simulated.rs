//! Children for the model in which `hotshoe test` carries decisions out.

use std::sync::Arc;

use hotshoe_core::check::Desired;
use hotshoe_core::model::kind::ObjectRef;
use serde_json::Value;

/// Returns a child as a decision has it that is to be applied as it is, in place.
pub fn desired(reference: ObjectRef, body: Value) -> Desired {
    Desired {
        reference,
        body: Arc::new(body),
        digest: "d".into(),
        is_created_once: false,
        left: Arc::default(),
        strategy: Default::default(),
    }
}
