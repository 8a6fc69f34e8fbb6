//! Of which kind a plugin's parents may be. A component asks for one kind; only the administrator gives
//! it, by `spec.parent` in `plugin.yaml`.
//!
//! A plugin is shown every object of its parent kind, whatever the grants say: they
//! begin with the namespace that the parent is in. So where an older file says nothing, it means a kind
//! of the plugin's own: none of Kubernetes itself, and none of another plugin's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::denied;
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
    /// In which namespaces its parents are; in all where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub namespaces: Option<Vec<String>>,
}

/// The most namespaces that can be named: who means more has a label for them.
const MOST_NAMESPACES: usize = 100;

impl ParentKind {
    fn is(&self, kind: &Kind) -> bool {
        kind.is(&self.group, &self.kind)
    }

    fn as_kind(&self) -> Kind {
        Kind::new(&self.group, "", &self.kind)
    }

    /// Whether it is a custom kind, and none that every cluster has.
    pub fn is_custom(&self) -> bool {
        is_custom(&self.group)
    }

    /// Returns whether an object may be a parent by both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let everything = LabelSelector::default();
        let [mine, theirs] = [self, other].map(|parent| parent.selector.as_ref().unwrap_or(&everything));
        let share_a_namespace = match (&self.namespaces, &other.namespaces) {
            (Some(mine), Some(theirs)) => mine.iter().any(|namespace| theirs.contains(namespace)),
            _ => true,
        };
        self.group == other.group && self.kind == other.kind && mine.overlaps(theirs) && share_a_namespace
    }

    /// Whether some plugin may have such parents.
    ///
    /// # Errors
    /// Why not, in words for the administrator.
    pub fn validate(&self) -> Result<(), String> {
        match denied::reason(&self.as_kind()) {
            _ if self.kind.is_empty() => Err("it names no kind; add `kind`, or remove it".to_owned()),
            Some((_, why)) => Err(format!("{self}: {why}; name another kind")),
            None => self.validate_namespaces(),
        }?;
        self.selector.as_ref().map_or(Ok(()), LabelSelector::validate)
    }

    fn validate_namespaces(&self) -> Result<(), String> {
        let Some(namespaces) = &self.namespaces else { return Ok(()) };
        if namespaces.is_empty() || namespaces.len() > MOST_NAMESPACES {
            return Err(format!("namespaces: name 1 to {MOST_NAMESPACES}, or leave it out for all"));
        }
        match namespaces.iter().find(|name| !names::is_label(name)) {
            Some(bad) => Err(format!("namespaces: {bad:?} is no name of a namespace")),
            None => Ok(()),
        }
    }

    /// Returns whether every object of a kind of Kubernetes itself is a parent only because nothing says which.
    pub fn takes_all_unasked(&self) -> bool {
        self.selector.is_none() && self.namespaces.is_none() && self.as_kind().is_builtin()
    }
}

impl fmt::Display for ParentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_kind().fmt(f)
    }
}

/// The parent kinds of all plugins of one host.
#[derive(Debug, Default)]
pub struct Parentage(Mutex<BTreeMap<Arc<str>, Claim>>);

#[derive(Debug, Default)]
struct Claim {
    named: Option<ParentKind>,
    active: Option<Kind>,
}

impl Parentage {
    /// Notes which kind a plugin's file names, if any.
    pub fn note_named(&self, plugin: &Arc<str>, parent: Option<&ParentKind>) {
        self.0.lock().entry(plugin.clone()).or_default().named = parent.cloned();
    }

    /// Notes the parent kind of a plugin's active component.
    pub fn note_active(&self, plugin: &Arc<str>, parent: &Kind) {
        self.0.lock().entry(plugin.clone()).or_default().active = Some(parent.clone());
    }

    /// Notes that a plugin is removed from the host.
    pub fn forget(&self, plugin: &str) {
        self.0.lock().remove(plugin);
    }

    /// Returns whether the host has a plugin of this name.
    pub fn has(&self, plugin: &str) -> bool {
        self.0.lock().contains_key(plugin)
    }

    /// Returns what a plugin asks for as its parent kind and is not granted; none where it is granted.
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

    /// Another plugin that has this kind.
    fn holder(&self, plugin: &str, kind: &Kind) -> Option<Arc<str>> {
        let has = |claim: &Claim| {
            let active = claim.active.as_ref().is_some_and(|at| at.is_served_as(kind));
            active || claim.named.as_ref().is_some_and(|named| named.is(kind))
        };
        self.0.lock().iter().find(|(other, claim)| ***other != *plugin && has(claim)).map(|(other, _)| other.clone())
    }
}

/// Returns whether the kinds of a group are custom ones, and none that every cluster has.
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
        ParentKind { group: group.into(), kind: kind.into(), selector: None, namespaces: None }
    }

    #[test]
    fn what_is_named_is_given_in_whatever_version_and_nothing_else() {
        let (parentage, given) = (Parentage::default(), named("example.com", "Cache"));
        for version in ["v1", "v1alpha1"] {
            assert_eq!(parentage.lacking("a", Some(&given), &Kind::new("example.com", version, "Cache")), None);
        }
        for other in [kind("example.com", "Other"), kind("other.example.com", "Cache"), kind("", "Pod")] {
            let lacking = parentage.lacking("a", Some(&given), &other).unwrap();
            assert_eq!(lacking, format!("{other} as its parent, where spec.parent names Cache.example.com"));
        }
        assert_eq!(parentage.lacking("a", Some(&named("", "Pod")), &kind("", "Pod")), None, "it was meant so");
    }

    #[test]
    fn without_a_name_only_a_custom_kind_is_given() {
        let parentage = Parentage::default();
        for group in ["example.com", "k8s.example.com", "ak8s.io", "k8s.io.example.com"] {
            assert_eq!(parentage.lacking("a", None, &kind(group, "Cache")), None, "{group}");
        }
        for group in ["", "apps", "batch", "k8s.io", "networking.k8s.io", "gateway.networking.k8s.io"] {
            let lacking = parentage.lacking("a", None, &kind(group, "Deployment")).unwrap();
            assert!(lacking.contains("spec.parent does not name"), "{group}: {lacking}");
        }
    }

    #[test]
    fn without_a_name_no_kind_is_given_that_another_plugin_names_or_has() {
        let parentage = Parentage::default();
        let (mine, other): (Arc<str>, Arc<str>) = ("mine".into(), "other".into());
        let cache = kind("example.com", "Cache");
        parentage.note_named(&other, Some(&named("example.com", "Cache")));
        let lacking = parentage.lacking("mine", None, &cache).unwrap();
        assert!(lacking.contains("the plugin other"), "{lacking}");
        assert_eq!(parentage.lacking("mine", Some(&named("example.com", "Cache")), &cache), None, "both say so");
        parentage.note_named(&other, None);
        assert_eq!(parentage.lacking("mine", None, &cache), None);
        parentage.note_active(&other, &Kind::new("example.com", "v1alpha1", "Cache"));
        assert!(parentage.lacking("mine", None, &cache).is_some());
        assert_eq!(parentage.lacking("mine", None, &kind("example.com", "Another")), None);
        parentage.note_active(&mine, &cache);
        assert_eq!(parentage.lacking("other", Some(&named("example.com", "Cache")), &cache), None);
        assert!(parentage.lacking("other", None, &cache).is_some());
        parentage.note_active(&other, &kind("example.com", "Another"));
        assert_eq!(parentage.lacking("mine", None, &cache), None, "its own claim is none against it");
    }

    #[test]
    fn a_kind_that_is_closed_to_plugins_is_no_parent_kind() {
        let role = kind("rbac.authorization.k8s.io", "Role");
        let given = named("rbac.authorization.k8s.io", "Role");
        assert!(Parentage::default().lacking("a", Some(&given), &role).unwrap().contains("no plugin may have"));
        assert!(given.validate().unwrap_err().contains("closed to plugins"));
        assert!(named("hotshoe.dev", "Plugin").validate().is_err());
        assert!(named("", "Pod/exec").validate().unwrap_err().contains("subresource"));
        assert!(named("example.com", "").validate().unwrap_err().contains("no kind"));
        assert_eq!(named("example.com", "Cache").validate(), Ok(()));
    }

    #[test]
    fn a_selector_says_which_objects_are_parents_and_an_empty_one_that_all_are_on_purpose() {
        let with = |selector: serde_json::Value| {
            let parent = serde_json::json!({ "kind": "ConfigMap", "selector": selector });
            serde_json::from_value::<ParentKind>(parent).unwrap()
        };
        let labelled = with(serde_json::json!({ "matchLabels": { "example.com/render": "true" } }));
        assert_eq!((labelled.validate(), labelled.takes_all_unasked()), (Ok(()), false));
        assert!(!with(serde_json::json!({})).takes_all_unasked());
        assert!(named("", "ConfigMap").takes_all_unasked() && !named("example.com", "Cache").takes_all_unasked());
        let error = with(serde_json::json!({ "matchLabels": { "a b": "" } })).validate().unwrap_err();
        assert!(error.contains("no label"), "{error}");
    }

    #[test]
    fn two_that_name_different_namespaces_have_no_parent_in_common() {
        let within = |names: &[&str]| {
            let namespaces = names.iter().map(|&name| name.to_owned()).collect();
            ParentKind { namespaces: Some(namespaces), ..named("", "ConfigMap") }
        };
        let (a, b, both) = (within(&["a"]), within(&["b"]), within(&["a", "b"]));
        assert!(!a.overlaps(&b) && a.overlaps(&both) && both.overlaps(&b) && a.overlaps(&named("", "ConfigMap")));
        assert!(!a.takes_all_unasked());
        assert_eq!(both.validate(), Ok(()));
        let many = vec!["a"; MOST_NAMESPACES + 1];
        for bad in [&[][..], &["A"], &["a.b"], &["a", ""], &many] {
            assert!(within(bad).validate().unwrap_err().contains("namespaces"), "{bad:?}");
        }
    }
}
