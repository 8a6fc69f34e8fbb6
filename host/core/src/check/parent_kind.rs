//! Decides of which kind a plugin's parents may be. A component asks for one kind; only the administrator grants it, by
//! `spec.parent` in `plugin.yaml`.
//!
//! A plugin is shown every object of its parent kind, whatever its grants say, because grants apply relative to the
//! namespace of the parent. So an older file without `spec.parent` allows only a custom kind that no other plugin has:
//! none of Kubernetes itself, and none of another plugin.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::denied;
use crate::model::annotation_selector::AnnotationSelector;
use crate::model::kind::Kind;
use crate::model::label_selector::LabelSelector;
use crate::model::names;

/// A kind in whatever version, and which objects of it are parents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ParentKind {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Kind, for example `Memcached`.
    pub kind: String,
    /// Which of its objects are parents, by their labels; all where it is left out or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Which of its objects are parents, by their annotations; all where it is left out or empty. The host selects by them,
    /// because the API server does not: it watches the other objects, too, and keeps none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation_selector: Option<AnnotationSelector>,
    /// In which namespaces its parents are; in all where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub namespaces: Option<Vec<String>>,
}

/// The maximum number of namespaces that can be named. For more namespaces, administrators use a label.
const MAX_NAMESPACES: usize = 100;

impl ParentKind {
    /// Returns whether objects of this kind are parents, as far as the kind says.
    pub fn is(&self, kind: &Kind) -> bool {
        kind.is(&self.group, &self.kind)
    }

    /// Returns the parents of a plugin that has all objects of a kind.
    pub fn all_of(kind: &Kind) -> Self {
        Self {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            selector: None,
            annotation_selector: None,
            namespaces: None,
        }
    }

    fn as_kind(&self) -> Kind {
        Kind::new(&self.group, "", &self.kind)
    }

    /// Returns whether the kind is a custom one, as opposed to one of Kubernetes itself.
    pub fn is_custom(&self) -> bool {
        is_custom(&self.group)
    }

    /// Returns whether the same object can be a parent according to both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let everything = LabelSelector::default();
        let [mine, theirs] = [self, other].map(|parent| parent.selector.as_ref().unwrap_or(&everything));
        let by_annotations = |parent: &Self| parent.annotation_selector.as_ref().map(AnnotationSelector::comparing);
        let [my_annotations, their_annotations] =
            [self, other].map(|parent| by_annotations(parent).unwrap_or_default());
        let share_a_namespace = match (&self.namespaces, &other.namespaces) {
            (Some(mine), Some(theirs)) => mine.iter().any(|namespace| theirs.contains(namespace)),
            _ => true,
        };
        self.group == other.group
            && self.kind == other.kind
            && mine.overlaps(theirs)
            && my_annotations.overlaps(&their_annotations)
            && share_a_namespace
    }

    /// Checks that plugins may have such parents.
    ///
    /// # Errors
    /// When they may not; the message is for the administrator.
    pub fn validate(&self) -> Result<(), String> {
        match denied::reason(&self.as_kind()) {
            _ if self.kind.is_empty() => Err("it names no kind; add `kind`, or remove it".to_owned()),
            Some((_, reason)) => Err(format!("{self}: {reason}; name another kind")),
            None => self.validate_namespaces(),
        }?;
        self.selector.as_ref().map_or(Ok(()), LabelSelector::validate)?;
        self.annotation_selector.as_ref().map_or(Ok(()), AnnotationSelector::validate)
    }

    fn validate_namespaces(&self) -> Result<(), String> {
        let Some(namespaces) = &self.namespaces else { return Ok(()) };
        if namespaces.is_empty() || namespaces.len() > MAX_NAMESPACES {
            return Err(format!("namespaces: name 1 to {MAX_NAMESPACES}, or leave it out for all"));
        }
        match namespaces.iter().find(|name| !names::is_label(name)) {
            Some(bad) => Err(format!("namespaces: {bad:?} is no name of a namespace")),
            None => Ok(()),
        }
    }

    /// Returns whether all objects of a kind of Kubernetes itself are parents only because neither a selector nor
    /// namespaces are given.
    pub fn selects_all_by_default(&self) -> bool {
        let selects = self.selector.is_some() || self.annotation_selector.is_some() || self.namespaces.is_some();
        !selects && self.as_kind().is_builtin()
    }
}

impl fmt::Display for ParentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_kind().fmt(f)
    }
}

/// The parent kinds of all plugins of one host.
#[derive(Debug, Default)]
pub struct ParentKinds(Mutex<BTreeMap<Arc<str>, Claim>>);

#[derive(Debug, Default)]
struct Claim {
    named: Option<ParentKind>,
    active: Option<Kind>,
}

impl ParentKinds {
    /// Records the parent kind that a plugin's file names, if any.
    pub fn note_named(&self, plugin: &Arc<str>, parent: Option<&ParentKind>) {
        self.0.lock().entry(plugin.clone()).or_default().named = parent.cloned();
    }

    /// Records the parent kind of a plugin's active component.
    pub fn note_active(&self, plugin: &Arc<str>, parent: &Kind) {
        self.0.lock().entry(plugin.clone()).or_default().active = Some(parent.clone());
    }

    /// Removes a plugin.
    pub fn forget(&self, plugin: &str) {
        self.0.lock().remove(plugin);
    }

    /// Returns whether the host has a plugin of this name.
    pub fn has(&self, plugin: &str) -> bool {
        self.0.lock().contains_key(plugin)
    }

    /// Returns the parent kind that a plugin asks for and is not granted, with the reason; `None` where it is granted.
    pub fn lacking(&self, plugin: &str, given: Option<&ParentKind>, asked: &Kind) -> Option<String> {
        let why = match given {
            _ if denied::reason(asked).is_some() => "which no plugin may have".to_owned(),
            Some(given) if given.is(asked) => return None,
            Some(given) => format!("where spec.parent names {given}"),
            None if !is_custom(&asked.group) => {
                "a kind of Kubernetes itself, which spec.parent does not name".to_owned()
            }
            None => self.holder(plugin, asked).map(|other| {
                format!("which is that of the plugin {other}; they share it only where spec.parent of both names it")
            })?,
        };
        Some(format!("{asked} as its parent, {why}"))
    }

    /// Returns another plugin that names this kind or has it as its parent kind.
    fn holder(&self, plugin: &str, kind: &Kind) -> Option<Arc<str>> {
        let has = |claim: &Claim| {
            let active = claim.active.as_ref().is_some_and(|at| at.is_served_as(kind));
            active || claim.named.as_ref().is_some_and(|named| named.is(kind))
        };
        self.0.lock().iter().find(|(other, claim)| ***other != *plugin && has(claim)).map(|(other, _)| other.clone())
    }
}

/// Returns whether the kinds of a group are custom ones, as opposed to those of Kubernetes itself.
fn is_custom(group: &str) -> bool {
    group.contains('.') && group != "k8s.io" && !group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, kind: &str) -> Kind {
        Kind::new(group, "v1", kind)
    }

    fn named(group: &str, kind: &str) -> ParentKind {
        ParentKind {
            group: group.into(),
            kind: kind.into(),
            selector: None,
            annotation_selector: None,
            namespaces: None,
        }
    }

    #[test]
    fn only_the_named_kind_is_granted_and_in_any_version() {
        let (parent_kinds, given) = (ParentKinds::default(), named("example.com", "Cache"));
        for version in ["v1", "v1alpha1"] {
            assert_eq!(parent_kinds.lacking("a", Some(&given), &Kind::new("example.com", version, "Cache")), None);
        }
        for other in [kind("example.com", "Other"), kind("other.example.com", "Cache"), kind("", "Pod")] {
            let lacking = parent_kinds.lacking("a", Some(&given), &other).unwrap();
            assert_eq!(lacking, format!("{other} as its parent, where spec.parent names Cache.example.com"));
        }
        assert_eq!(
            parent_kinds.lacking("a", Some(&named("", "Pod")), &kind("", "Pod")),
            None,
            "the administrator named it"
        );
    }

    #[test]
    fn without_a_named_kind_only_a_custom_one_is_granted() {
        let parent_kinds = ParentKinds::default();
        for group in ["example.com", "k8s.example.com", "ak8s.io", "k8s.io.example.com"] {
            assert_eq!(parent_kinds.lacking("a", None, &kind(group, "Cache")), None, "{group}");
        }
        for group in ["", "apps", "batch", "k8s.io", "networking.k8s.io", "gateway.networking.k8s.io"] {
            let lacking = parent_kinds.lacking("a", None, &kind(group, "Deployment")).unwrap();
            assert!(lacking.contains("spec.parent does not name"), "{group}: {lacking}");
        }
    }

    #[test]
    fn without_a_named_kind_none_is_granted_that_another_plugin_names_or_has() {
        let parent_kinds = ParentKinds::default();
        let (mine, other): (Arc<str>, Arc<str>) = ("mine".into(), "other".into());
        let cache = kind("example.com", "Cache");
        parent_kinds.note_named(&other, Some(&named("example.com", "Cache")));
        let lacking = parent_kinds.lacking("mine", None, &cache).unwrap();
        assert!(lacking.contains("the plugin other"), "{lacking}");
        assert_eq!(parent_kinds.lacking("mine", Some(&named("example.com", "Cache")), &cache), None, "both say so");
        parent_kinds.note_named(&other, None);
        assert_eq!(parent_kinds.lacking("mine", None, &cache), None);
        parent_kinds.note_active(&other, &Kind::new("example.com", "v1alpha1", "Cache"));
        assert!(parent_kinds.lacking("mine", None, &cache).is_some());
        assert_eq!(parent_kinds.lacking("mine", None, &kind("example.com", "Another")), None);
        parent_kinds.note_active(&mine, &cache);
        assert_eq!(parent_kinds.lacking("other", Some(&named("example.com", "Cache")), &cache), None);
        assert!(parent_kinds.lacking("other", None, &cache).is_some());
        parent_kinds.note_active(&other, &kind("example.com", "Another"));
        assert_eq!(parent_kinds.lacking("mine", None, &cache), None, "a plugin's own claim does not count against it");
    }

    #[test]
    fn the_kind_of_a_plugin_that_is_gone_is_granted_to_another() {
        let (parent_kinds, gone) = (ParentKinds::default(), "gone".into());
        let cache = kind("example.com", "Cache");
        parent_kinds.note_active(&gone, &cache);
        assert!(parent_kinds.has("gone") && !parent_kinds.has("mine"));
        assert!(parent_kinds.lacking("mine", None, &cache).is_some());
        parent_kinds.forget("gone");
        assert!(!parent_kinds.has("gone"));
        assert_eq!(parent_kinds.lacking("mine", None, &cache), None);
    }

    #[test]
    fn a_kind_is_custom_or_one_of_kubernetes_itself() {
        assert!(named("example.com", "Cache").is_custom());
        assert!(!named("apps", "Deployment").is_custom() && !named("networking.k8s.io", "Ingress").is_custom());
    }

    #[test]
    fn a_kind_that_is_closed_to_plugins_is_no_parent_kind() {
        let role = kind("rbac.authorization.k8s.io", "Role");
        let given = named("rbac.authorization.k8s.io", "Role");
        assert!(ParentKinds::default().lacking("a", Some(&given), &role).unwrap().contains("no plugin may have"));
        assert!(given.validate().unwrap_err().contains("denied to plugins"));
        assert!(named("hotshoe.dev", "Plugin").validate().is_err());
        assert!(named("", "Pod/exec").validate().unwrap_err().contains("subresource"));
        assert!(named("example.com", "").validate().unwrap_err().contains("no kind"));
        assert_eq!(named("example.com", "Cache").validate(), Ok(()));
    }

    #[test]
    fn an_empty_selector_selects_all_objects_on_purpose() {
        let with = |selector: serde_json::Value| {
            let parent = serde_json::json!({ "kind": "ConfigMap", "selector": selector });
            serde_json::from_value::<ParentKind>(parent).unwrap()
        };
        let labelled = with(serde_json::json!({ "matchLabels": { "example.com/render": "true" } }));
        assert_eq!((labelled.validate(), labelled.selects_all_by_default()), (Ok(()), false));
        assert!(!with(serde_json::json!({})).selects_all_by_default());
        assert!(
            named("", "ConfigMap").selects_all_by_default() && !named("example.com", "Cache").selects_all_by_default()
        );
        let error = with(serde_json::json!({ "matchLabels": { "a b": "" } })).validate().unwrap_err();
        assert!(error.contains("no label"), "{error}");
    }

    #[test]
    fn parents_of_different_annotations_do_not_overlap() {
        let with = |value: &str| {
            let selector = serde_json::json!({ "matchAnnotations": { "e.com/by": value } });
            let annotation_selector = Some(serde_json::from_value(selector).unwrap());
            ParentKind { annotation_selector, ..named("", "ConfigMap") }
        };
        assert!(!with("a").overlaps(&with("b")) && with("a").overlaps(&with("a")) && with("/").overlaps(&with("/")));
        assert!(!with("/").overlaps(&with("a")) && with("a").overlaps(&named("", "ConfigMap")));
        assert!(!with("a").selects_all_by_default());
        assert!(with("a\nb").validate().unwrap_err().contains("annotationSelector"));
    }

    #[test]
    fn parent_kinds_in_different_namespaces_do_not_overlap() {
        let within = |names: &[&str]| {
            let namespaces = names.iter().map(|&name| name.to_owned()).collect();
            ParentKind { namespaces: Some(namespaces), ..named("", "ConfigMap") }
        };
        let (a, b, both) = (within(&["a"]), within(&["b"]), within(&["a", "b"]));
        assert!(!a.overlaps(&b) && a.overlaps(&both) && both.overlaps(&b) && a.overlaps(&named("", "ConfigMap")));
        assert!(!a.selects_all_by_default());
        assert_eq!(both.validate(), Ok(()));
        assert_eq!(within(&vec!["a"; MAX_NAMESPACES]).validate(), Ok(()));
        let many = vec!["a"; MAX_NAMESPACES + 1];
        for bad in [&[][..], &["A"], &["a.b"], &["a", ""], &many] {
            assert!(within(bad).validate().unwrap_err().contains("namespaces"), "{bad:?}");
        }
    }
}
