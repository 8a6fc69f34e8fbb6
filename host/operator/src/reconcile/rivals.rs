//! Reports field managers that keep reverting a child.

use crate::reconcile::controller::Controller;
use crate::reconcile::error::CONTENDED;
use crate::reconcile::pass::Pass;
use hotshoe_core::check::Desired;
use hotshoe_core::diff::{Apply, conflict};
use hotshoe_core::model::limits::FAILURE_MESSAGE;
use hotshoe_core::model::object::FieldManager;
use hotshoe_core::model::sanitize;

/// Reports, once per contention episode, which field managers keep reverting a child whose apply is being delayed.
pub async fn report(pass: &mut Pass<'_>, delayed: Vec<Apply>) {
    let controller = pass.controller;
    for Apply { desired, .. } in delayed {
        if pass.state.contention.is_reported(&desired, &controller.hasher) {
            continue;
        }
        let Some(message) = rivals_of(controller, &desired).await else { continue };
        pass.state.contention.set_message(&desired, &message, &controller.hasher);
        controller.metrics.failed(&controller.name, pass.active.revision.digest(), CONTENDED);
        let child = &desired.reference;
        let message = sanitize::clean(message, FAILURE_MESSAGE);
        tracing::warn!(%child, reason = CONTENDED, "{message}");
    }
}

/// Returns a message that names the field managers that revert a child; `None` if the child is as desired by now.
async fn rivals_of(controller: &Controller, desired: &Desired) -> Option<String> {
    let child = &desired.reference;
    let change = match controller.writer.read_child(child).await {
        Ok(live) => {
            let managers = FieldManager::all_of(&live).ok()?;
            let fields = conflict::reverted_fields(&managers, controller.writer.manager(), &desired.body)?;
            format!("{child} is reverted each time after it was applied: {fields}")
        }
        Err(error) if error.is_not_found() => format!("{child} is deleted each time after it was created"),
        Err(error) if error.is_definite() => format!("{child} is reverted each time after it was applied"),
        Err(_) => return None,
    };
    Some(format!(
        "{change}; it is applied less and less often until that ends; let only one of the two writers manage it"
    ))
}
