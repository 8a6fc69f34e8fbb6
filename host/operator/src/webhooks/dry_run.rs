//! Which children a decision would write, as `kubectl apply --dry-run=server` shows it. Names and paths of fields, never
//! values: who may edit a parent may not be allowed to read its children.

use std::collections::HashMap;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::observe::Observed;
use hotshoe_cluster::view;
use hotshoe_core::check::Desired;
use hotshoe_core::diff;
use hotshoe_core::diff::changed_fields::DesiredBefore;
use hotshoe_core::model::kind::ObjectRef;

/// Returns a line for each child that would be created, changed or deleted. `before` is what was desired last.
pub(super) fn changes(
    controller: &Controller,
    active: &ActiveRevision,
    observed: &Observed,
    before: &DesiredBefore,
    desired: Vec<Desired>,
) -> Vec<String> {
    let (_, changed) = before.next(&desired, &controller.hasher);
    let changed: HashMap<ObjectRef, _> = desired.iter().map(|one| one.reference.clone()).zip(changed).collect();
    let (makers, manager) = (active.plugin.makers(), controller.writer.manager());
    let plan = diff::plan(desired, &observed.children, &makers, manager, &controller.associative_lists.read());
    let applied = plan.apply.iter().map(|apply| {
        let child = &apply.desired.reference;
        match (observed.child(child), changed.get(child)) {
            (None, _) => format!("would create {child}"),
            (Some(_), Some(Some(fields))) if !fields.is_empty() => {
                format!("would change {child}: {}", fields.join(", "))
            }
            (Some(_), _) => format!("would change {child}"),
        }
    });
    let pruned = plan.prune.iter().map(|(kind, child)| format!("would delete {}", view::reference(kind, &child.key)));
    applied.chain(pruned).collect()
}
