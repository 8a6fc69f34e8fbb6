//! Decides whether a live object of a desired child's name is that child, and not an object of another owner.

use serde::Deserialize;

use crate::cluster::apply::{Parent, Target, WriteError, Writer};
use crate::cluster::error::ApiError;
use hotshoe_core::check;
use hotshoe_core::diff::Precondition;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::{Controller, Key, Object, PLUGIN_LABEL, plugin_manager};

/// What a child is that this parent controls and no plugin made.
const NOT_ADOPTED: &str = "this object controls it, but no plugin made it; to take it over from the operator that left it, set in spec of plugin.yaml: adopt: true";

impl Writer {
    /// Whether it may be a child whose controller reference was removed before something else was desired. Only a
    /// writer that can write the child itself can forge that.
    pub(super) fn lost_its_controller(&self, live: &Object) -> bool {
        let is_labelled = live.label(PLUGIN_LABEL) == Some(&self.plugin);
        live.controller.is_none() && is_labelled && live.owned_fields(&self.manager, false).is_some()
    }

    /// Whether a child was created while this parent existed. An older one was left behind by a former parent of this
    /// name, maybe on purpose, and would be deleted with this parent.
    pub(super) async fn is_no_older(
        &self,
        child: &Key,
        parent: Parent<'_>,
        target: Target<'_>,
    ) -> Result<bool, ApiError> {
        let Some(kind) = self.kinds.get(&parent.reference.kind) else { return Ok(false) };
        let parent_key = check::key(parent.reference);
        let made = self.get(target.resource, child, target.permit);
        let began = self.get(&kind, &parent_key, target.permit);
        match futures::future::try_join(made, began).await {
            Ok((made, began)) => {
                let (made, began) = (Birth::of(&made), Birth::of(&began));
                Ok(began
                    .is_some_and(|began| began.uid == parent.uid && made.is_some_and(|made| made.time >= began.time)))
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// When an object was created, and its uid.
#[derive(Deserialize)]
struct Birth {
    uid: String,
    /// All have one format and time zone, so that they compare as text.
    #[serde(rename = "creationTimestamp")]
    time: String,
}

impl Birth {
    fn of(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Born {
            metadata: Birth,
        }
        serde_json::from_str(text).ok().map(|Born { metadata }| metadata)
    }
}

/// Whether a live object is a child of this parent. It is if its controller reference has the parent's uid and this plugin
/// made it, or nobody's plugin did and the administrator has this one adopt such children, or if it has no controller any more and is what we applied for this very parent
/// ([`Writer::is_no_older`] decides about what was desired earlier). A child of a former parent of this name will be
/// garbage-collected.
pub(super) fn ours(live: &Object, digest: &str, manager: &str, parent: Parent<'_>) -> Result<Precondition, WriteError> {
    let conflict = |holder: String| Err(WriteError::Conflict { holder });
    let Some(controller) = &live.controller else {
        // The digest covers the owner reference, so no other parent's child has it.
        let stripped = live.applied.as_deref() == Some(digest) && live.owned_fields(manager, false).is_some();
        return if stripped { as_observed(live) } else { conflict("it has no controller".into()) };
    };
    if *controller.uid == *parent.uid {
        // A label may name what is no plugin.
        let other = live.label(PLUGIN_LABEL).filter(|plugin| {
            let other = plugin_manager(plugin);
            let is_rival = other != manager && !parent.predecessors.has(plugin);
            is_rival && live.owned_fields(&other, false).is_some()
        });
        return match other {
            None if is_made_here(live, manager, parent) || parent.adopts => as_observed(live),
            None => conflict(NOT_ADOPTED.to_owned()),
            Some(other) => conflict(format!("it is the child of another plugin, {other}")),
        };
    }
    if is_former_self(controller, parent.reference) {
        return Err(WriteError::Collecting);
    }
    conflict(format!("its controller is {} {}", controller.kind, controller.name))
}

/// Whether this plugin, or one that it takes over from, has applied or labelled a child of the parent. Its own may have lost
/// its label to an edit, or its place in `managedFields`, but hardly all of it at once.
fn is_made_here(live: &Object, manager: &str, parent: Parent<'_>) -> bool {
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

fn is_former_self(controller: &Controller, parent: &ObjectRef) -> bool {
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

    /// Whether an object with this metadata belongs to the plugin `demo` and the parent of uid `me`.
    fn judged(metadata: Value) -> Result<Precondition, String> {
        judged_under(metadata, &Predecessors::default(), false)
    }

    /// The same, where the plugin takes over from others.
    fn judged_after(metadata: Value, predecessors: &Predecessors) -> Result<Precondition, String> {
        judged_under(metadata, predecessors, false)
    }

    /// The same, where it may adopt.
    fn judged_under(metadata: Value, predecessors: &Predecessors, adopts: bool) -> Result<Precondition, String> {
        let mut object = json!({ "metadata": { "name": "a", "namespace": "n", "uid": "live" } });
        object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().cloned().unwrap());
        let lens = Lens { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let live = Object::read(&object.to_string(), &lens).unwrap();
        let reference = ObjectRef {
            kind: Kind::new("example.com", "v1", "Cache"),
            namespace: Some("n".into()),
            name: "mine".into(),
        };
        let parent = Parent { reference: &reference, uid: "me", predecessors, adopts, judge: &|_, _| Ok(()) };
        ours(&live, "digest", MANAGER, parent).map_err(|error| match error {
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
            judged(json!({ "ownerReferences": owner("me", "mine"), "labels": labels, "managedFields": applied }))
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
            assert_eq!(judged(metadata), ours, "{marks}");
        }
        assert_eq!(labelled("other"), Err("it is the child of another plugin, other".to_owned()));
        assert_eq!(labelled("demo-2"), Err("it is the child of another plugin, demo-2".to_owned()));
    }

    #[test]
    fn a_child_that_no_plugin_made_is_ours_only_where_the_administrator_says_so() {
        let by_others = json!([{ "manager": "old-operator", "operation": "Apply", "fieldsV1": { "f:spec": {} } }]);
        for labels in [json!({}), json!({ "hotshoe.dev/plugin": "nobody" })] {
            let left = json!({ "ownerReferences": owner("me", "mine"), "labels": labels, "managedFields": by_others });
            assert_eq!(judged(left.clone()), Err(NOT_ADOPTED.to_owned()));
            let adopted = judged_under(left, &Predecessors::default(), true);
            assert_eq!(adopted, Ok(Precondition::Uid("live".into())));
        }
        let theirs = json!({ "ownerReferences": owner("other", "theirs") });
        assert!(judged_under(theirs, &Predecessors::default(), true).is_err());
        assert!(judged_under(json!({}), &Predecessors::default(), true).is_err());
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
            judged_after(metadata, &predecessors)
        };
        assert_eq!(made_by("former", "me"), Ok(Precondition::Uid("live".into())));
        assert_eq!(made_by("former", "other"), Err("its controller is Cache another".to_owned()));
        assert_eq!(made_by("other", "me"), Err("it is the child of another plugin, other".to_owned()));
    }

    #[test]
    fn what_others_control_is_a_conflict_and_a_former_parents_child_is_waited_for() {
        assert_eq!(
            judged(json!({ "ownerReferences": owner("other", "theirs") })),
            Err("its controller is Cache theirs".to_owned())
        );
        assert_eq!(judged(json!({ "ownerReferences": owner("dead", "mine") })), Err("collecting".to_owned()));
        assert_eq!(judged(json!({})), Err("it has no controller".to_owned()));
        let applied = json!([{ "manager": MANAGER, "operation": "Apply", "fieldsV1": { "f:data": {} } }]);
        let stripped = json!({ "annotations": { "hotshoe.dev/applied": "digest" }, "managedFields": applied });
        assert_eq!(judged(stripped), Ok(Precondition::Uid("live".into())));
    }
}
