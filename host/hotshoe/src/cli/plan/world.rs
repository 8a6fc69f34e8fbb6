//! The objects that exist, as the API server returns them, and which of them a plugin is shown for a parent. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use hotshoe_core::model::child;
use hotshoe_core::model::decision::{Descriptor, MatchRule, ReadKind};
use hotshoe_core::model::field_path;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::object::{KeptFields, Object, PLUGIN_LABEL};
use hotshoe_core::model::parent_label::parent_label;
use hotshoe_core::model::projection::Projection;
use hotshoe_core::model::wanted::Selection;

/// Objects, each as the API server returns it.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct World(pub(in crate::cli) Vec<Value>);

impl World {
    /// Returns the children of a parent that have one of the owned kinds.
    pub(super) fn children(&self, parent: &Value, descriptor: &Descriptor) -> Vec<Value> {
        let is_owned = |kind: &Kind| descriptor.owns.iter().any(|owned| owned.kind.is_served_as(kind));
        let is_child = |object: &&Value| {
            ObjectRef::of(object).is_ok_and(|reference| is_owned(&reference.kind))
                && is_child(object, parent, &descriptor.parent)
        };
        self.0.iter().filter(is_child).cloned().collect()
    }

    /// Returns the objects of a declared read that belong to a parent.
    ///
    /// # Errors
    /// If the selector of the read is none.
    pub(in crate::cli) fn related(
        &self,
        read: &ReadKind,
        parent: &ObjectRef,
        parent_object: &Value,
    ) -> anyhow::Result<Vec<Value>> {
        let selector = selector(read)?;
        let matches = |object: &&Value| {
            let Ok(reference) = ObjectRef::of(object) else { return false };
            let label = label_of(object);
            reference.kind.is_served_as(&read.kind)
                && selector.matches(&label)
                && belongs(&read.rule, &reference, &label, parent, parent_object)
        };
        Ok(self.0.iter().filter(matches).cloned().collect())
    }

    /// Returns the object that a decision needs by its name.
    pub(in crate::cli) fn needed(&self, wanted: &ObjectRef) -> Option<&Value> {
        self.0.iter().find(|object| {
            ObjectRef::of(object).is_ok_and(|found| {
                found.kind.is_served_as(&wanted.kind)
                    && found.name == wanted.name
                    && is_in(&found, wanted.namespace.as_ref())
            })
        })
    }

    /// Returns the objects that a decision needs by a label selector, sorted by namespace and name.
    pub(in crate::cli) fn selected(&self, selection: &Selection, selector: &LabelSelector) -> Vec<Value> {
        let selected = self.0.iter().filter_map(|object| {
            let found = ObjectRef::of(object).ok()?;
            let is_selected = found.kind.is_served_as(&selection.kind)
                && is_in(&found, selection.namespace.as_ref())
                && selector.matches(label_of(object));
            is_selected.then_some((found, object))
        });
        let by_name: BTreeMap<ObjectRef, &Value> = selected.collect();
        by_name.into_values().cloned().collect()
    }
}

/// Returns whether an object is in a namespace, or in none.
fn is_in(object: &ObjectRef, namespace: Option<&Arc<str>>) -> bool {
    object.namespace.is_none() || object.namespace.as_ref() == namespace
}

/// Returns the values of an object's labels.
fn label_of<'a>(object: &'a Value) -> impl Fn(&str) -> Option<&'a str> {
    move |key| object.pointer("/metadata/labels")?.get(key)?.as_str()
}

fn selector(read: &ReadKind) -> anyhow::Result<LabelSelector> {
    if read.selector.is_empty() {
        return Ok(LabelSelector::default());
    }
    let selector = LabelSelector::read(&read.selector);
    selector.map_err(|why| anyhow::anyhow!("the selector of the read {:?} cannot be used: {why}", read.key))
}

/// Returns whether an object belongs to a parent by the rule of a read.
fn belongs<'a>(
    rule: &MatchRule,
    object: &ObjectRef,
    label: &dyn Fn(&str) -> Option<&'a str>,
    parent: &ObjectRef,
    parent_object: &Value,
) -> bool {
    let is_beside = object.namespace == parent.namespace;
    match rule {
        MatchRule::ParentLabel(key) if key.is_empty() => is_beside,
        MatchRule::ParentLabel(key) => {
            (is_beside || parent.namespace.is_none()) && label(key) == Some(&*parent_label(&parent.name))
        }
        MatchRule::ParentField(path) => is_beside && text_at(parent_object, path) == Some(&*object.name),
    }
}

fn text_at<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    let keys = field_path::keys(path).ok()?;
    keys.iter().try_fold(object, |value, key| value.get(key)).and_then(Value::as_str)
}

/// Returns whether the controller reference of an object names the parent. In files either may lack its uid.
fn is_child(object: &Value, parent: &Value, kind: &Kind) -> bool {
    let (Some(child), Ok(reference)) = (read(object, false), ObjectRef::of(parent)) else { return false };
    let named = child::named_parent(&child, kind, reference.namespace.is_some());
    let is_named = named.is_some_and(|key| (key.namespace, key.name) == (reference.namespace, reference.name));
    let uid = parent.pointer("/metadata/uid").and_then(Value::as_str);
    let of_controller = child.controller.as_ref().map(|controller| &*controller.uid).filter(|uid| !uid.is_empty());
    is_named && (uid.is_none() || of_controller.is_none() || uid == of_controller)
}

/// Reads an object as a host keeps it, with its status if it is a parent.
pub(super) fn read(object: &Value, is_parent: bool) -> Option<Object> {
    let mut object = object.clone();
    // In files, an object may lack what the API server adds.
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    for member in ["uid", "resourceVersion"] {
        metadata.entry(member).or_insert_with(|| "".into());
    }
    for reference in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
        reference.as_object_mut()?.entry("uid").or_insert_with(|| "".into());
    }
    let labels = vec![PLUGIN_LABEL.to_owned()];
    let kept = KeptFields { projection: Projection::new::<&str>(&[]), labels, status: is_parent };
    Object::read(&object.to_string(), &kept).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parent() -> Value {
        json!({
            "apiVersion": "example.com/v1", "kind": "Cache", "metadata": { "name": "a", "namespace": "n", "uid": "1" },
            "spec": { "source": "settings" },
        })
    }

    fn object(kind: &str, namespace: &str, name: &str, extra: Value) -> Value {
        let mut metadata = json!({ "name": name, "namespace": namespace });
        metadata.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap());
        json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata })
    }

    fn owned_by(name: &str, uid: &str) -> Value {
        let reference =
            json!({ "apiVersion": "example.com/v1", "kind": "Cache", "name": name, "uid": uid, "controller": true });
        json!({ "ownerReferences": [reference] })
    }

    fn names(objects: Vec<Value>) -> Vec<String> {
        objects.iter().map(|object| ObjectRef::of(object).unwrap().name.to_string()).collect()
    }

    fn descriptor() -> Descriptor {
        let kind = Kind::new("", "v1", "Service");
        let owns = vec![hotshoe_core::model::decision::OwnedKind { kind, verbs: Vec::new(), fields: Vec::new() }];
        Descriptor { parent: Kind::new("example.com", "v1", "Cache"), owns, ..Descriptor::default() }
    }

    #[test]
    fn children_are_the_objects_of_owned_kinds_that_the_parent_controls() {
        let world = World(vec![
            object("Service", "n", "mine", owned_by("a", "1")),
            object("Service", "n", "of-a-file", owned_by("a", "")),
            object("Service", "n", "of-a-former-parent", owned_by("a", "2")),
            object("Service", "other", "elsewhere", owned_by("a", "1")),
            object("Service", "n", "of-another", owned_by("b", "1")),
            object("Pod", "n", "of-another-kind", owned_by("a", "1")),
            object("Service", "n", "free", json!({})),
        ]);
        assert_eq!(names(world.children(&parent(), &descriptor())), ["mine", "of-a-file"]);
    }

    #[test]
    fn related_objects_are_found_by_each_rule() {
        let world = World(vec![
            object("ConfigMap", "n", "settings", json!({ "labels": { "of": "a", "team": "x" } })),
            object("ConfigMap", "n", "other", json!({ "labels": { "of": "b" } })),
            object("ConfigMap", "m", "settings", json!({ "labels": { "of": "a" } })),
        ]);
        let found = |rule: MatchRule, selector: &str| {
            let kind = Kind::new("", "v1", "ConfigMap");
            let read = ReadKind { key: "k".into(), kind, selector: selector.into(), rule, fields: Vec::new() };
            let parent = parent();
            world.related(&read, &ObjectRef::of(&parent).unwrap(), &parent).map(names)
        };
        assert_eq!(found(MatchRule::ParentLabel("of".into()), "").unwrap(), ["settings"]);
        assert_eq!(found(MatchRule::ParentLabel(String::new()), "").unwrap(), ["settings", "other"]);
        assert_eq!(found(MatchRule::ParentLabel(String::new()), "team=x").unwrap(), ["settings"]);
        assert_eq!(found(MatchRule::ParentField("spec.source".into()), "").unwrap(), ["settings"]);
        assert_eq!(found(MatchRule::ParentLabel("of".into()), "team in (x),of").unwrap(), ["settings"]);
        let refused = found(MatchRule::ParentLabel("of".into()), "team in x").unwrap_err().to_string();
        assert!(refused.contains("the selector of the read \"k\""), "{refused}");
    }

    #[test]
    fn a_needed_object_is_found_by_its_name_in_its_namespace() {
        let world = World(vec![object("ConfigMap", "n", "one", json!({})), object("ConfigMap", "m", "two", json!({}))]);
        let needed = |namespace: &str, name: &str| {
            let kind = Kind::new("", "v1", "ConfigMap");
            let reference = ObjectRef { kind, namespace: Some(namespace.into()), name: name.into() };
            world.needed(&reference).is_some()
        };
        assert!(needed("n", "one") && needed("m", "two"));
        assert!(!needed("m", "one") && !needed("n", "two"));
    }

    #[test]
    fn needed_objects_are_selected_by_their_labels_in_one_namespace_and_sorted() {
        let labelled = |namespace: &str, name: &str, tier: &str| {
            object("ConfigMap", namespace, name, json!({ "labels": { "app": "shop", "tier": tier } }))
        };
        let mut other = labelled("n", "pod", "a");
        other["kind"] = "Pod".into();
        let world = World(vec![
            labelled("n", "z", "a"),
            labelled("n", "y", "b"),
            labelled("n", "x", "c"),
            labelled("m", "w", "a"),
            object("ConfigMap", "n", "bare", json!({})),
            other,
        ]);
        let selected = |selector: &str| {
            let kind = Kind::new("", "v1", "ConfigMap");
            let selection = Selection { kind, namespace: Some("n".into()), selector: selector.into() };
            let selector = hotshoe_core::check::selection::selector_of(&selection).unwrap();
            names(world.selected(&selection, &selector))
        };
        assert_eq!(selected("app=shop,tier in (a,b)"), ["y", "z"]);
        assert_eq!(selected("!app"), ["bare"]);
        assert_eq!(selected(""), ["bare", "x", "y", "z"]);
        assert_eq!(selected("app=bank"), [""; 0]);
    }
}
