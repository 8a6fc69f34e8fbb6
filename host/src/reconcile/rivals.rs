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
        let Some(words) = rivals_of(controller, &desired).await else { continue };
        pass.state.contention.set_message(&desired, &words, &controller.hasher);
        let (plugin, digest) = (&*controller.name, pass.active.revision.digest());
        controller.metrics.failed(plugin, digest, CONTENDED);
        let (object, child, words) = (pass.reference(), &desired.reference, sanitize::clean(words, FAILURE_MESSAGE));
        tracing::warn!(plugin, %digest, %object, %child, reason = CONTENDED, "{words}");
    }
}

/// Returns the field managers that revert a child; none if it is as desired by now.
async fn rivals_of(controller: &Controller, desired: &Desired) -> Option<String> {
    let child = &desired.reference;
    let what = match controller.writer.read_child(child).await {
        Ok(live) => {
            let managers = FieldManager::all_of(&live).ok()?;
            let fields = conflict::reverted_fields(&managers, controller.writer.manager(), &desired.body)?;
            format!("{child} is changed each time after it was put right: {fields}")
        }
        Err(error) if error.is_not_found() => format!("{child} is deleted each time after it was made"),
        Err(error) if error.is_definite() => format!("{child} is changed each time after it was put right"),
        Err(_) => return None,
    };
    Some(format!("{what}; it is put right more and more seldom until that ends, so let only one of both care for it"))
}
