//! Decides whether a live object with the name of a desired child is that child, and not an object of another owner.
//!
//! An object is a child of the parent in four cases: it [names the parent as its controller](child::is_child) and this
//! plugin made it; it does so, no plugin made it, and the administrator lets this plugin adopt such children; it has no
//! controller any more, and is what was applied for this very parent; it has no controller any more, and by its marks it
//! is the child of a former parent of this name, such as one restored from a backup. A user of the namespace can forge
//! these marks, but only on an object that is the user's to write, and what results from the write is checked.

use serde::Deserialize;

use crate::check;
use crate::diff::Precondition;
use crate::model::child;
use crate::model::kind::ObjectRef;
use crate::model::object::{Object, PARENT_ANNOTATION, PLUGIN_LABEL, parent_mark, plugin_manager};
use crate::model::predecessors::Predecessors;

/// Why an object that this parent controls and no plugin made is not taken for a child.
/// A user may have made such an object too, so the text does not ask for `adopt` before the reader knows who did.
const NOT_ADOPTED: &str = "this object controls it, but no plugin made it; delete it, or, if another operator left \
                           it, take it over: set in spec of plugin.yaml: adopt: true";

/// A parent, and the plugin that writes its children.
#[derive(Clone, Copy)]
pub struct Owner<'a> {
    /// The reference of the parent.
    pub parent: &'a ObjectRef,
    /// The uid of the parent.
    pub uid: &'a str,
    /// The plugin's field manager.
    pub manager: &'a str,
    /// The plugins whose children of this parent are taken over.
    pub predecessors: &'a Predecessors,
    /// Whether children of this parent that no plugin made are taken over.
    pub adopts: bool,
}

/// Why a live object cannot be written as a child of a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAChild {
    /// It is not a child of this parent, or it is one of another plugin.
    Conflict {
        /// Why the object does not belong to this parent, with its owner if it has one.
        holder: String,
    },
    /// It is the child of a former parent of this name, and not garbage-collected yet.
    Collecting,
}

/// Claims a live object as a child of this parent, and returns the precondition to write it. `digest` is that of the
/// desired child.
///
/// # Errors
/// Why the object is not a child of this parent. The caller decides about an object that [`lost_its_controller`]: it is
/// a child if [`is_no_older`].
pub fn claim(live: &Object, digest: &str, owner: Owner<'_>) -> Result<Precondition, NotAChild> {
    let Some(controller) = &live.controller else {
        // The digest covers the owner reference, so no other parent's child has it.
        let is_stripped = live.applied.as_deref() == Some(digest) && has_applied(live, owner.manager);
        let is_ours = is_stripped || is_orphan(live, owner);
        return if is_ours { Ok(as_observed(live)) } else { conflict("it has no controller".to_owned()) };
    };
    let parent = check::key(owner.parent);
    if child::is_child(live, &owner.parent.kind, &parent, owner.uid) {
        return match other_plugin(live, owner) {
            None if is_made_by_plugin(live, owner) || owner.adopts => Ok(as_observed(live)),
            None => conflict(NOT_ADOPTED.to_owned()),
            Some(other) => conflict(format!("it is the child of another plugin, {other}")),
        };
    }
    let named = child::named_parent(live, &owner.parent.kind, parent.namespace.is_some());
    // The reference names another uid, or the branch above had returned.
    if named == Some(parent) {
        return Err(NotAChild::Collecting);
    }
    conflict(format!("its controller is {} {}", controller.kind, controller.name))
}

/// Returns whether an object has the marks of a child of this parent, or of a former one of the same name.
fn is_orphan(live: &Object, owner: Owner<'_>) -> bool {
    let is_of_plugin = |plugin: &str| plugin_manager(plugin) == owner.manager || owner.predecessors.has(plugin);
    live.label(PLUGIN_LABEL).is_some_and(is_of_plugin) && live.orphan_of.as_deref() == Some(&parent_mark(owner.parent))
}

/// Returns the commands by which an administrator lets this parent take over an object that nothing controls, instead
/// of deleting it. `plugin` is the plugin's name.
pub fn way_to_take_over(child: &ObjectRef, plugin: &str, parent: &ObjectRef) -> String {
    format!(
        "to have it taken over as it is, run: {} {PLUGIN_LABEL}={plugin} && {} {PARENT_ANNOTATION}={}",
        child.kubectl("label --overwrite"),
        child.kubectl("annotate --overwrite"),
        parent_mark(parent)
    )
}

/// Returns whether an object may be a child that was desired earlier and has lost its controller reference. Only a
/// writer that can write the child itself can forge that.
pub fn lost_its_controller(live: &Object, manager: &str) -> bool {
    let is_labelled = live.label(PLUGIN_LABEL).is_some_and(|plugin| plugin_manager(plugin) == manager);
    live.controller.is_none() && is_labelled && has_applied(live, manager)
}

/// Returns whether a child was created while the parent with this uid existed. A former parent of the same name left an
/// older child behind, maybe on purpose, and as a child of this parent it would be deleted together with it. Both
/// objects are JSON; of one that cannot be read the answer is no.
pub fn is_no_older(child: &str, parent: &str, uid: &str) -> bool {
    match (Creation::of(child), Creation::of(parent)) {
        (Some(child), Some(parent)) => parent.uid == uid && child.time >= parent.time,
        _ => false,
    }
}

/// Returns the precondition of a write to an object that was observed.
pub fn as_observed(live: &Object) -> Precondition {
    Precondition::Uid(live.uid.clone())
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
    fn of(json: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Created {
            metadata: Creation,
        }
        serde_json::from_str(json).ok().map(|Created { metadata }| metadata)
    }
}

fn conflict(holder: String) -> Result<Precondition, NotAChild> {
    Err(NotAChild::Conflict { holder })
}

/// Returns the other plugin whose child an object is. A label may name something that is no plugin, so it counts only
/// with fields of that plugin.
fn other_plugin<'a>(live: &'a Object, owner: Owner<'_>) -> Option<&'a str> {
    live.label(PLUGIN_LABEL).filter(|plugin| {
        let other = plugin_manager(plugin);
        other != owner.manager && !owner.predecessors.has(plugin) && has_applied(live, &other)
    })
}

/// Returns whether this plugin or a predecessor has applied or labelled a child of the parent. An edit may remove the
/// label of such a child, or our entry in its `managedFields`, but hardly all marks at once.
fn is_made_by_plugin(live: &Object, owner: Owner<'_>) -> bool {
    let is_labelled = live.label(PLUGIN_LABEL).is_some_and(|plugin| plugin_manager(plugin) == owner.manager);
    is_labelled
        || live.applied.is_some()
        || has_applied(live, owner.manager)
        || owner.predecessors.managers().iter().any(|former| has_applied(live, former))
}

fn has_applied(live: &Object, manager: &str) -> bool {
    live.owned_fields(manager, false).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::kind::Kind;
    use crate::model::object::KeptFields;
    use crate::model::predecessors::{Predecessor, Predecessors};
    use crate::model::projection::Projection;

    const MANAGER: &str = "hotshoe/demo";

    fn live(metadata: Value) -> Object {
        let mut object = json!({ "metadata": { "name": "a", "namespace": "n", "uid": "live" } });
        object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().cloned().unwrap());
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        Object::read(&object.to_string(), &kept_fields).unwrap()
    }

    /// Claims an object with this metadata for the plugin `demo` and the parent with the uid `me`.
    fn claimed(metadata: Value) -> Result<Precondition, String> {
        claimed_under(metadata, &Predecessors::default(), false)
    }

    /// Does the same for a plugin with predecessors that may adopt.
    fn claimed_under(metadata: Value, predecessors: &Predecessors, adopts: bool) -> Result<Precondition, String> {
        let parent = ObjectRef {
            kind: Kind::new("example.com", "v1", "Cache"),
            namespace: Some("n".into()),
            name: "mine".into(),
        };
        let owner = Owner { parent: &parent, uid: "me", manager: MANAGER, predecessors, adopts };
        claim(&live(metadata), "digest", owner).map_err(|error| match error {
            NotAChild::Conflict { holder } => holder,
            NotAChild::Collecting => "collecting".to_owned(),
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
        for labels in [json!({}), json!({ "hotshoe.dev/plugin": "unknown" })] {
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
            let metadata = json!({ "ownerReferences": owner(uid, "mine"), "labels": labels, "managedFields": applied });
            claimed_under(metadata, &predecessors, false)
        };
        assert_eq!(made_by("former", "me"), Ok(Precondition::Uid("live".into())));
        assert_eq!(made_by("former", "other"), Err("collecting".to_owned()));
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

    #[test]
    fn an_object_with_the_uid_of_this_parent_and_another_name_or_kind_is_no_child_of_it() {
        let labels = json!({ "hotshoe.dev/plugin": "demo" });
        let by = |api_version: &str, kind: &str, name: &str| {
            let controller =
                json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": "me", "controller": true });
            claimed(json!({ "ownerReferences": [controller], "labels": labels }))
        };
        assert_eq!(by("example.com/v2", "Cache", "mine"), Ok(Precondition::Uid("live".into())));
        for other in [("v1", "Cache", "mine"), ("example.com/v1", "Shop", "mine"), ("example.com/v1", "Cache", "a")] {
            let conflict = format!("its controller is {} {}", other.1, other.2);
            assert_eq!(by(other.0, other.1, other.2), Err(conflict), "{other:?}");
        }
    }

    #[test]
    fn only_a_parent_of_the_same_group_kind_and_name_is_a_former_one() {
        let by = |api_version: &str, kind: &str, name: &str| {
            let controller =
                json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": "dead", "controller": true });
            claimed(json!({ "ownerReferences": [controller] }))
        };
        assert_eq!(by("example.com/v2", "Cache", "mine"), Err("collecting".to_owned()));
        for other in [("v1", "Cache", "mine"), ("example.com/v1", "Shop", "mine"), ("example.com/v1", "Cache", "a")] {
            let conflict = format!("its controller is {} {}", other.1, other.2);
            assert_eq!(by(other.0, other.1, other.2), Err(conflict), "{other:?}");
        }
    }

    #[test]
    fn a_stripped_object_is_a_child_only_with_our_fields_and_the_digest_that_is_desired() {
        let applied = json!([{ "manager": MANAGER, "operation": "Apply", "fieldsV1": { "f:data": {} } }]);
        for stripped in [
            json!({ "annotations": { "hotshoe.dev/applied": "digest" } }),
            json!({ "annotations": { "hotshoe.dev/applied": "former" }, "managedFields": applied }),
        ] {
            assert_eq!(claimed(stripped.clone()), Err("it has no controller".to_owned()), "{stripped}");
        }
    }

    #[test]
    fn an_object_without_a_controller_that_names_this_parent_and_this_plugin_is_taken_over() {
        let orphan = |plugin: &str, parent: &str| json!({ "labels": { PLUGIN_LABEL: plugin }, "annotations": { PARENT_ANNOTATION: parent } });
        let mark = "Cache.example.com/n/mine";
        let ours = Ok(Precondition::Uid("live".into()));
        assert_eq!(claimed(orphan("demo", mark)), ours);
        let former = Predecessor { plugin: "former".to_owned(), finalizer: None };
        let predecessors = Predecessors::new("demo", vec![former]).unwrap();
        assert_eq!(claimed_under(orphan("former", mark), &predecessors, false), ours);
        let none = Err("it has no controller".to_owned());
        for (plugin, parent) in [
            ("former", mark),
            ("demo", "Cache.example.com/n/other"),
            ("demo", "Cache.example.com/other/mine"),
            ("demo", "Cache/n/mine"),
        ] {
            assert_eq!(claimed(orphan(plugin, parent)), none, "{plugin} {parent}");
        }
        assert_eq!(claimed(json!({ "annotations": { PARENT_ANNOTATION: mark } })), none);
        let mut controlled = orphan("demo", mark);
        controlled["ownerReferences"] = owner("other", "theirs");
        assert!(claimed(controlled).is_err());
    }

    #[test]
    fn the_way_to_take_an_object_over_names_both_marks() {
        let of = |group: &str, kind: &str, namespace: Option<&str>, name: &str| ObjectRef {
            kind: Kind::new(group, "v1", kind),
            namespace: namespace.map(Into::into),
            name: name.into(),
        };
        let parent = of("example.com", "Cache", Some("n"), "mine");
        let way = way_to_take_over(&of("apps", "Deployment", Some("n"), "web"), "demo", &parent);
        let commands = [
            "kubectl -n n label --overwrite deployment.apps/web hotshoe.dev/plugin=demo && ",
            "kubectl -n n annotate --overwrite deployment.apps/web hotshoe.dev/parent=Cache.example.com/n/mine",
        ];
        assert!(way.ends_with(&commands.concat()), "{way}");
        let way =
            way_to_take_over(&of("", "Namespace", None, "red"), "demo", &of("example.com", "Tenant", None, "red"));
        assert!(way.contains("kubectl label --overwrite namespace/red"), "{way}");
        assert!(way.ends_with("hotshoe.dev/parent=Tenant.example.com/red"), "{way}");
    }

    #[test]
    fn an_object_has_lost_its_controller_if_it_has_our_label_and_our_fields_and_no_controller() {
        let applied = json!([{ "manager": MANAGER, "operation": "Apply", "fieldsV1": { "f:data": {} } }]);
        let ours = json!({ "hotshoe.dev/plugin": "demo" });
        let lost = |metadata: Value| lost_its_controller(&live(metadata), MANAGER);
        assert!(lost(json!({ "labels": ours, "managedFields": applied })));
        assert!(!lost(json!({ "labels": ours })));
        assert!(!lost(json!({ "managedFields": applied })));
        assert!(!lost(json!({ "labels": { "hotshoe.dev/plugin": "other" }, "managedFields": applied })));
        let controlled = owner("other", "theirs");
        assert!(!lost(json!({ "labels": ours, "managedFields": applied, "ownerReferences": controlled })));
    }

    #[test]
    fn a_child_that_is_older_than_its_parent_is_that_of_a_former_one() {
        let created = |uid: &str, time: &str| json!({ "metadata": { "uid": uid, "creationTimestamp": time } });
        let parent = created("me", "2026-01-02T00:00:00Z").to_string();
        let is_young = |child: &str, uid: &str| is_no_older(child, &parent, uid);
        assert!(is_young(&created("c", "2026-01-02T00:00:00Z").to_string(), "me"));
        assert!(is_young(&created("c", "2026-01-03T00:00:00Z").to_string(), "me"));
        assert!(!is_young(&created("c", "2026-01-01T23:59:59Z").to_string(), "me"));
        assert!(!is_young(&created("c", "2026-01-03T00:00:00Z").to_string(), "another parent of this name"));
        assert!(!is_young("{", "me"));
        assert!(!is_no_older(&parent, "{", "me"));
    }
}
