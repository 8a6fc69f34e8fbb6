//! Decides whether a live object with the name of a desired child is that child, and not an object of another owner.

use serde::Deserialize;

use crate::cluster::apply::{Parent, Target, WriteError, Writer};
use crate::cluster::error::ApiError;
use hotshoe_core::check;
use hotshoe_core::diff::Precondition;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::{Controller, Key, Object, PLUGIN_LABEL, plugin_manager};

/// Why an object that this parent controls and no plugin made is not taken for a child.
const NOT_ADOPTED: &str = "this object controls it, but no plugin made it; to take it over from the operator that left it, set in spec of plugin.yaml: adopt: true";

impl Writer {
    /// Returns whether an object may be a child that was desired earlier and has lost its controller reference. Only a
    /// writer that can write the child itself can forge that.
    pub(super) fn lost_controller_reference(&self, live: &Object) -> bool {
        let is_labelled = live.label(PLUGIN_LABEL) == Some(&self.plugin);
        live.controller.is_none() && is_labelled && live.owned_fields(&self.manager, false).is_some()
    }

    /// Returns whether a child was created while this parent existed. A former parent of this name left an older child
    /// behind, maybe on purpose, and as a child of this parent it would be deleted together with it.
    pub(super) async fn is_no_older_than_parent(
        &self,
        child: &Key,
        parent: Parent<'_>,
        target: Target<'_>,
    ) -> Result<bool, ApiError> {
        let Some(kind) = self.kinds.get(&parent.reference.kind) else { return Ok(false) };
        let parent_key = check::key(parent.reference);
        let child = self.get(target.resource, child, target.permit);
        let owner = self.get(&kind, &parent_key, target.permit);
        match futures::future::try_join(child, owner).await {
            Ok((child, owner)) => {
                let (child, owner) = (Creation::of(&child), Creation::of(&owner));
                Ok(owner.is_some_and(|owner| {
                    owner.uid == parent.uid && child.is_some_and(|child| child.time >= owner.time)
                }))
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The uid of an object, and the time of its creation.
#[derive(Deserialize)]
struct Creation {
    uid: String,
    /// All timestamps have one format and time zone, so that they compare as text.
    #[serde(rename = "creationTimestamp")]
    time: String,
}

impl Creation {
    fn of(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Created {
            metadata: Creation,
        }
        serde_json::from_str(text).ok().map(|Created { metadata }| metadata)
    }
}

/// Claims a live object as a child of this parent, and returns the precondition to write it. An object is a child in
/// three cases: its controller reference has the parent's uid and this plugin made it; its controller reference has
/// that uid, no plugin made it, and the administrator lets this plugin adopt such children; it has no controller any
/// more and is what we applied for this very parent ([`Writer::is_no_older_than_parent`] decides about a child that was
/// desired earlier).
///
/// # Errors
/// A conflict if the object has another owner, or that the child of a former parent of this name is not
/// garbage-collected yet.
pub(super) fn claim(
    live: &Object,
    digest: &str,
    manager: &str,
    parent: Parent<'_>,
) -> Result<Precondition, WriteError> {
    let conflict = |holder: String| Err(WriteError::Conflict { holder });
    let Some(controller) = &live.controller else {
        // The digest covers the owner reference, so no other parent's child has it.
        let stripped = live.applied.as_deref() == Some(digest) && live.owned_fields(manager, false).is_some();
        return if stripped { as_observed(live) } else { conflict("it has no controller".into()) };
    };
    if *controller.uid == *parent.uid {
        // A label may name something that is no plugin, so it counts only with fields of that plugin.
        let other = live.label(PLUGIN_LABEL).filter(|plugin| {
            let other = plugin_manager(plugin);
            let is_rival = other != manager && !parent.predecessors.has(plugin);
            is_rival && live.owned_fields(&other, false).is_some()
        });
        return match other {
            None if is_made_by_plugin(live, manager, parent) || parent.adopts => as_observed(live),
            None => conflict(NOT_ADOPTED.to_owned()),
            Some(other) => conflict(format!("it is the child of another plugin, {other}")),
        };
    }
    if is_former_parent(controller, parent.reference) {
        return Err(WriteError::Collecting);
    }
    conflict(format!("its controller is {} {}", controller.kind, controller.name))
}

/// Returns whether this plugin or a predecessor has applied or labelled a child of the parent. An edit may remove the
/// label of such a child, or our entry in its `managedFields`, but hardly all marks at once.
fn is_made_by_plugin(live: &Object, manager: &str, parent: Parent<'_>) -> bool {
    let has_applied = |manager: &str| live.owned_fields(manager, false).is_some();
    let labelled = live.label(PLUGIN_LABEL).is_some_and(|plugin| plugin_manager(plugin) == manager);
    labelled
        || live.applied.is_some()
        || has_applied(manager)
        || parent.predecessors.managers().iter().any(|former| has_applied(former))
}

fn as_observed(live: &Object) -> Result<Precondition, WriteError> {
    Ok(Precondition::Uid(live.uid.clone()))
}

fn is_former_parent(controller: &Controller, parent: &ObjectRef) -> bool {
    let group = controller.api_version.split_once('/').map_or("", |(group, _)| group);
    *controller.kind == *parent.kind.kind && *group == *parent.kind.group && controller.name == parent.name
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use hotshoe_core::model::kind::Kind;
    use hotshoe_core::model::object::Lens;
    use hotshoe_core::model::predecessors::{Predecessor, Predecessors};
    use hotshoe_core::model::projection::Projection;

    const MANAGER: &str = "hotshoe/demo";

    /// Claims an object with this metadata for the plugin `demo` and the parent with the uid `me`.
    fn claimed(metadata: Value) -> Result<Precondition, String> {
        claimed_under(metadata, &Predecessors::default(), false)
    }

    /// Does the same for a plugin with predecessors.
    fn claimed_after(metadata: Value, predecessors: &Predecessors) -> Result<Precondition, String> {
        claimed_under(metadata, predecessors, false)
    }

    /// Does the same for a plugin that may adopt.
    fn claimed_under(metadata: Value, predecessors: &Predecessors, adopts: bool) -> Result<Precondition, String> {
        let mut object = json!({ "metadata": { "name": "a", "namespace": "n", "uid": "live" } });
        object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().cloned().unwrap());
        let lens = Lens { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let live = Object::read(&object.to_string(), &lens).unwrap();
        let reference = ObjectRef {
            kind: Kind::new("example.com", "v1", "Cache"),
            namespace: Some("n".into()),
            name: "mine".into(),
        };
        let parent = Parent { reference: &reference, uid: "me", predecessors, adopts, check_result: &|_, _| Ok(()) };
        claim(&live, "digest", MANAGER, parent).map_err(|error| match error {
            WriteError::Conflict { holder } => holder,
            WriteError::Collecting => "collecting".to_owned(),
            WriteError::Api(error) => error.message,
            WriteError::Denied(denial) => denial.reasons(),
        })
    }

    fn owner(uid: &str, name: &str) -> Value {
        json!([{ "apiVersion": "example.com/v1", "kind": "Cache", "name": name, "uid": uid, "controller": true }])
    }

    #[test]
    fn a_child_of_another_plugin_is_a_conflict_and_our_own_is_ours_whatever_became_of_its_marks() {
        let labelled = |plugin: &str| {
            let applied = json!([{
                "manager": format!("hotshoe/{plugin}"), "operation": "Apply", "fieldsV1": { "f:spec": {} },
            }]);
            let labels = json!({ "hotshoe.dev/plugin": plugin });
            claimed(json!({ "ownerReferences": owner("me", "mine"), "labels": labels, "managedFields": applied }))
        };
        let ours = Ok(Precondition::Uid("live".into()));
        assert_eq!(labelled("demo"), ours);
        let scribbled = json!({ "hotshoe.dev/plugin": "other" });
        let applied = json!([{ "manager": MANAGER, "operation": "Apply", "fieldsV1": { "f:spec": {} } }]);
        for marks in [
            json!({ "labels": scribbled, "managedFields": applied }),
            json!({ "managedFields": applied }),
            json!({ "labels": { "hotshoe.dev/plugin": "demo" } }),
            json!({ "annotations": { "hotshoe.dev/applied": "earlier" } }),
        ] {
            let mut metadata = json!({ "ownerReferences": owner("me", "mine") });
            metadata.as_object_mut().unwrap().extend(marks.as_object().cloned().unwrap());
            assert_eq!(claimed(metadata), ours, "{marks}");
        }
        assert_eq!(labelled("other"), Err("it is the child of another plugin, other".to_owned()));
        assert_eq!(labelled("demo-2"), Err("it is the child of another plugin, demo-2".to_owned()));
    }

    #[test]
    fn a_child_that_no_plugin_made_is_ours_only_where_the_administrator_says_so() {
        let by_others = json!([{ "manager": "old-operator", "operation": "Apply", "fieldsV1": { "f:spec": {} } }]);
        for labels in [json!({}), json!({ "hotshoe.dev/plugin": "nobody" })] {
            let left = json!({ "ownerReferences": owner("me", "mine"), "labels": labels, "managedFields": by_others });
            assert_eq!(claimed(left.clone()), Err(NOT_ADOPTED.to_owned()));
            let adopted = claimed_under(left, &Predecessors::default(), true);
            assert_eq!(adopted, Ok(Precondition::Uid("live".into())));
        }
        let theirs = json!({ "ownerReferences": owner("other", "theirs") });
        assert!(claimed_under(theirs, &Predecessors::default(), true).is_err());
        assert!(claimed_under(json!({}), &Predecessors::default(), true).is_err());
    }

    #[test]
    fn a_child_of_a_plugin_that_is_taken_over_from_is_ours_if_this_parent_controls_it() {
        let former = Predecessor { plugin: "former".to_owned(), finalizer: None };
        let predecessors = Predecessors::new("demo", vec![former]).unwrap();
        let made_by = |plugin: &str, uid: &str| {
            let applied = json!([{
                "manager": format!("hotshoe/{plugin}"), "operation": "Apply", "fieldsV1": { "f:spec": {} },
            }]);
            let labels = json!({ "hotshoe.dev/plugin": plugin });
            let metadata =
                json!({ "ownerReferences": owner(uid, "another"), "labels": labels, "managedFields": applied });
            claimed_after(metadata, &predecessors)
        };
        assert_eq!(made_by("former", "me"), Ok(Precondition::Uid("live".into())));
        assert_eq!(made_by("former", "other"), Err("its controller is Cache another".to_owned()));
        assert_eq!(made_by("other", "me"), Err("it is the child of another plugin, other".to_owned()));
    }

    #[test]
    fn what_others_control_is_a_conflict_and_a_former_parents_child_is_waited_for() {
        assert_eq!(
            claimed(json!({ "ownerReferences": owner("other", "theirs") })),
            Err("its controller is Cache theirs".to_owned())
        );
        assert_eq!(claimed(json!({ "ownerReferences": owner("dead", "mine") })), Err("collecting".to_owned()));
        assert_eq!(claimed(json!({})), Err("it has no controller".to_owned()));
        let applied = json!([{ "manager": MANAGER, "operation": "Apply", "fieldsV1": { "f:data": {} } }]);
        let stripped = json!({ "annotations": { "hotshoe.dev/applied": "digest" }, "managedFields": applied });
        assert_eq!(claimed(stripped), Ok(Precondition::Uid("live".into())));
    }
}
