//! Which objects are children of a parent: one definition, for every step of the host.
//!
//! Each user who may write an object chooses its label and its owner references, so both may be forged, and in any namespace.
//! The uid alone is no proof: it can be read in the references of any child. An owner reference names no namespace,
//! because ownership does not cross namespaces, so the namespace of the child is part of what it says.

use crate::model::kind::{Key, Kind};
use crate::model::object::Object;

/// Returns whether an object is a child of the parent of this kind, key and uid: its controller reference names that
/// very object, in any version of its kind, and it is in the parent's namespace, if the parent has one. Children of a
/// parent without a namespace may be anywhere.
pub fn is_child(object: &Object, kind: &Kind, parent: &Key, uid: &str) -> bool {
    let controls = object.controller.as_ref().is_some_and(|controller| *controller.uid == *uid);
    controls && named_parent(object, kind, parent.namespace.is_some()).as_ref() == Some(parent)
}

/// Returns the key of the parent of this kind that the controller reference of an object names. `namespaced` says
/// whether parents of the kind have a namespace. The uid is not compared: the object may be a child of a former parent
/// of this name.
pub fn named_parent(object: &Object, kind: &Kind, namespaced: bool) -> Option<Key> {
    let controller = object.controller.as_ref().filter(|controller| kind.is(controller.group(), &controller.kind))?;
    let namespace = match namespaced {
        true => Some(object.key.namespace.clone()?),
        false => None,
    };
    Some(Key { namespace, name: controller.name.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::object::KeptFields;
    use crate::model::projection::Projection;

    fn cache() -> Kind {
        Kind::new("example.com", "v1", "Cache")
    }

    fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
        json!([{ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true }])
    }

    fn object(namespace: Option<&str>, references: &Value) -> Object {
        let metadata = json!({ "name": "x", "namespace": namespace, "uid": "o", "ownerReferences": references });
        let metadata: Value = metadata
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        Object::read(&json!({ "metadata": metadata }).to_string(), &kept_fields).unwrap()
    }

    #[test]
    fn a_child_names_group_kind_name_and_uid_of_its_parent_as_its_controller() {
        let parent = Key::new(Some("n"), "mine");
        let is_mine = |references: &Value| is_child(&object(Some("n"), references), &cache(), &parent, "me");
        assert!(is_mine(&reference("example.com/v1", "Cache", "mine", "me")));
        assert!(is_mine(&reference("example.com/v2", "Cache", "mine", "me")), "another version of the kind");
        for (api_version, kind, name, uid) in [
            ("example.org/v1", "Cache", "mine", "me"),
            ("v1", "Cache", "mine", "me"),
            ("example.com/v1", "Shop", "mine", "me"),
            ("example.com/v1", "Cache", "yours", "me"),
            ("example.com/v1", "Cache", "mine", "you"),
        ] {
            assert!(!is_mine(&reference(api_version, kind, name, uid)), "{api_version} {kind} {name} {uid}");
        }
        assert!(!is_mine(&json!([])), "it has no controller");
        let mut not_controlling = reference("example.com/v1", "Cache", "mine", "me");
        not_controlling[0]["controller"] = false.into();
        assert!(!is_mine(&not_controlling), "an owner that is not the controller");
    }

    #[test]
    fn a_parent_with_a_namespace_has_children_in_it_and_nowhere_else() {
        let references = reference("example.com/v1", "Cache", "mine", "me");
        let parent = Key::new(Some("n"), "mine");
        let is_mine = |namespace| is_child(&object(namespace, &references), &cache(), &parent, "me");
        assert!(is_mine(Some("n")));
        assert!(!is_mine(Some("evil")) && !is_mine(None));
    }

    #[test]
    fn a_parent_without_a_namespace_has_children_in_any_or_none() {
        let references = reference("v1", "Namespace", "shop", "me");
        let (kind, parent) = (Kind::new("", "v1", "Namespace"), Key::new(None, "shop"));
        for namespace in [Some("shop"), Some("other"), None] {
            let object = object(namespace, &references);
            assert!(is_child(&object, &kind, &parent, "me"), "{namespace:?}");
            assert!(!is_child(&object, &kind, &parent, "former"), "{namespace:?}");
        }
    }

    #[test]
    fn the_parent_that_an_object_names_is_found_without_its_uid() {
        let references = reference("example.com/v1", "Cache", "mine", "former");
        let named = |namespace, namespaced| named_parent(&object(namespace, &references), &cache(), namespaced);
        assert_eq!(named(Some("n"), true), Some(Key::new(Some("n"), "mine")));
        assert_eq!(named(None, true), None, "such a parent has no child without a namespace");
        assert_eq!(named(Some("n"), false), Some(Key::new(None, "mine")));
        assert_eq!(named(None, false), Some(Key::new(None, "mine")));
        let other = Kind::new("example.com", "v1", "Shop");
        assert_eq!(named_parent(&object(Some("n"), &references), &other, true), None);
    }
}
