//! Which children a decision would write, as `kubectl apply --dry-run=server` shows it. Names and paths of fields, never
//! values: who may edit a parent may not be allowed to read its children.

use std::collections::HashMap;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::observe::Observed;
use hotshoe_cluster::view;
use hotshoe_core::check::AdmittedDecision;
use hotshoe_core::check::update_strategy::UpdateStrategy;
use hotshoe_core::diff;
use hotshoe_core::diff::changed_fields::DesiredBefore;
use hotshoe_core::diff::parent_metadata;
use hotshoe_core::model::kind::{Key, ObjectRef};

/// Returns a line for each child that would be created, changed or deleted, and one for the parent's own labels and
/// annotations. `before` is what was desired last. Only the API server knows whether a child can change.
pub(super) fn changes(
    controller: &Controller,
    active: &ActiveRevision,
    observed: &Observed,
    before: &DesiredBefore,
    decision: AdmittedDecision,
) -> Vec<String> {
    let stated = decision
        .metadata
        .map(|stated| parent_metadata::changed(&stated, &observed.parent, controller.writer.metadata_manager()));
    let stated = stated.filter(|fields| !fields.is_empty());
    let itself =
        stated.map(|fields| format!("would change {}: {}", shown(&observed.shown.parent.reference), fields.join(", ")));
    let desired = decision.desired.unwrap_or_default();
    let (_, changed) = before.next(&desired, &controller.hasher);
    let changed: HashMap<ObjectRef, _> = desired.iter().map(|one| one.reference.clone()).zip(changed).collect();
    let (makers, manager) = (active.plugin.makers(), controller.writer.manager());
    let plan = diff::plan(desired, &observed.children, &makers, manager, &controller.associative_lists.read());
    let applied = plan.apply.iter().map(|apply| {
        let child = &apply.desired.reference;
        let name = shown(child);
        let change = match apply.desired.strategy {
            UpdateStrategy::InPlace => "change",
            UpdateStrategy::Recreate => "change (or recreate)",
        };
        match (observed.child(child), changed.get(child)) {
            (None, _) => format!("would create {name}"),
            (Some(_), Some(Some(fields))) if !fields.is_empty() => {
                format!("would {change} {name}: {}", fields.join(", "))
            }
            (Some(_), _) => format!("would {change} {name}"),
        }
    });
    let pruned =
        plan.prune.iter().map(|(kind, child)| format!("would delete {}", shown(&view::reference(kind, &child.key))));
    applied.chain(pruned).chain(itself).collect()
}

/// Returns the name of a child as a user knows it: a kind of Kubernetes itself needs no group.
fn shown(child: &ObjectRef) -> String {
    let key = Key { namespace: child.namespace.clone(), name: child.name.clone() };
    if child.kind.is_builtin() { format!("{} {key}", child.kind.kind) } else { child.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::kind::Kind;

    #[test]
    fn only_a_kind_that_is_not_of_kubernetes_is_named_with_its_group() {
        let child =
            |group: &str, kind: &str| view::reference(&Kind::new(group, "v1", kind), &Key::new(Some("shop"), "cache"));
        assert_eq!(shown(&child("", "Service")), "Service shop/cache");
        assert_eq!(shown(&child("apps", "Deployment")), "Deployment shop/cache");
        assert_eq!(shown(&child("example.com", "Cache")), "Cache.example.com shop/cache");
    }
}
