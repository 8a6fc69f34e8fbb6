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
use hotshoe_core::model::kind::{Key, ObjectRef};

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
        let name = shown(child);
        match (observed.child(child), changed.get(child)) {
            (None, _) => format!("would create {name}"),
            (Some(_), Some(Some(fields))) if !fields.is_empty() => {
                format!("would change {name}: {}", fields.join(", "))
            }
            (Some(_), _) => format!("would change {name}"),
        }
    });
    let pruned =
        plan.prune.iter().map(|(kind, child)| format!("would delete {}", shown(&view::reference(kind, &child.key))));
    applied.chain(pruned).collect()
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
