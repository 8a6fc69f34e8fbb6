//! Labels and annotations of the parent that a decision states. A plugin states them by an object among its desired
//! children that is the parent itself, and may set those keys alone that the administrator grants. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::check::fix::Fix;
use crate::check::grant::{ANNOTATIONS, GrantedMetadata, LABELS, closed};
use crate::check::violation::{Checked, Denial, Violation, Violations};
use crate::check::{Context, check_identity, fields, glob, is_parent, read_members};
use crate::model::decision::Document;
use crate::model::digest::Digest;
use crate::model::kind::ObjectRef;
use crate::model::names::is_qualified;

/// What a decision states of its parent's metadata. What it does not state and has stated before is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatedMetadata {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

impl StatedMetadata {
    /// Returns whether nothing is stated.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }

    /// Returns the digest of what is stated.
    pub fn digest(&self) -> Box<str> {
        Digest::of_json(&self.members()).full().into()
    }

    /// Returns the members of the metadata that are stated.
    pub fn members(&self) -> Map<String, Value> {
        let lists = [(LABELS, &self.labels), (ANNOTATIONS, &self.annotations)];
        let stated = lists.into_iter().filter(|(_, texts)| !texts.is_empty());
        stated.map(|(member, texts)| (member.to_owned(), json!(texts))).collect()
    }
}

/// Separates what is stated of the parent from the children.
pub(super) fn split<'d>(objects: &'d [Document], parent: &ObjectRef) -> (Vec<&'d Document>, Vec<&'d Document>) {
    objects.iter().partition(|object| is_parent(&object.reference, parent))
}

/// Checks what is stated of the parent, by any number of objects, of which one is allowed.
///
/// # Errors
/// When something else than labels and annotations is stated, or a key that is not granted. Lists all of it.
pub(super) fn check(stated: &[&Document], context: &Context<'_>) -> Result<StatedMetadata, Denial> {
    let Some((first, more)) = stated.split_first() else { return Ok(StatedMetadata::default()) };
    let mut violations = Violations::default();
    if !more.is_empty() {
        let message = format!("{}: it is in the answer twice", context.parent);
        violations.add(Violation::new("duplicate-child", message).answer("leave one of the two out"));
    }
    let checked = violations.note(check_one(first, context)).unwrap_or_default();
    violations.finish(checked)
}

fn check_one(stated: &Document, context: &Context<'_>) -> Result<StatedMetadata, Denial> {
    let parent = context.parent;
    let body = read_members(&stated.json, parent)?;
    let mut violations = Violations::default();
    violations.note(fields::check_child(&body, parent, context.most_fields).map_err(Denial::from));
    let named = ObjectRef { namespace: parent.namespace.clone(), ..stated.reference.clone() };
    violations.note(check_identity(&body, &named));
    let is_other = |key: &&String| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata");
    body.keys().filter(is_other).for_each(|key| violations.add(not_stated(key, parent)));
    let stated = violations.note(read_metadata(body.get("metadata"), parent)).unwrap_or_default();
    violations.note(check_granted(&stated, &context.grant.parent_metadata, parent));
    violations.finish(stated)
}

/// Reads the labels and annotations that are stated.
fn read_metadata(metadata: Option<&Value>, parent: &ObjectRef) -> Result<StatedMetadata, Denial> {
    let mut stated = StatedMetadata::default();
    let Some(metadata) = metadata else { return Ok(stated) };
    let no_object = |field: &str| Violation::new(RULE, format!("{parent}: {field} is no object"));
    let metadata = metadata.as_object().ok_or_else(|| no_object("metadata"))?;
    let mut violations = Violations::default();
    for (member, value) in metadata {
        let place = match member.as_str() {
            "name" | "namespace" => continue,
            LABELS => &mut stated.labels,
            ANNOTATIONS => &mut stated.annotations,
            _ => {
                violations.add(not_stated(&format!("metadata.{member}"), parent));
                continue;
            }
        };
        let Some(texts) = value.as_object() else {
            violations.add(no_object(&format!("metadata.{member}")));
            continue;
        };
        for (key, value) in texts {
            match value.as_str() {
                Some(text) => drop(place.insert(key.clone(), text.to_owned())),
                None => {
                    let message = format!("{parent}: metadata.{member}[{key:?}] is no text");
                    violations.add(Violation::new(RULE, message).answer("state a text"));
                }
            }
        }
    }
    violations.finish(stated)
}

/// Checks that all stated keys are granted. Each violation has the same fix, for the whole statement.
fn check_granted(stated: &StatedMetadata, granted: &GrantedMetadata, parent: &ObjectRef) -> Checked {
    let mut wanted = granted.clone();
    let lists = [
        (LABELS, &stated.labels, &granted.labels, &mut wanted.labels),
        (ANNOTATIONS, &stated.annotations, &granted.annotations, &mut wanted.annotations),
    ];
    let mut violations = Violations::default();
    let mut missing = Vec::new();
    for (member, stated, granted, wanted) in lists {
        for key in stated.keys() {
            let at = format!("{parent}: metadata.{member} may not set {key}");
            if let Some(whose) = closed(key) {
                violations
                    .add(Violation::new(RULE, format!("{at}, {whose}")).answer("leave it out, as no grant opens it"));
            } else if !is_qualified(key) {
                violations.add(Violation::new(RULE, at).answer("write the key as DOMAIN/NAME"));
            } else if !glob::matches_any(granted, key) {
                wanted.push(key.clone());
                missing.push(at);
            }
        }
    }
    let fix = Fix::Spec("parentMetadata", json!(wanted));
    missing.into_iter().for_each(|at| violations.add(Violation::new(RULE, at).fixed_by(fix.clone())));
    violations.finish(())
}

/// The rule that a statement about the parent breaks.
const RULE: &str = "parent-metadata";

fn not_stated(field: &str, parent: &ObjectRef) -> Violation {
    let message = format!("{parent}: a plugin states labels and annotations of its parent, and not {field}");
    Violation::new(RULE, message).answer("leave it out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::grant::{Grant, MAX_KEYS};
    use crate::model::decision::Descriptor;
    use crate::model::kind::Kind;

    fn granted(labels: &[&str], annotations: &[&str]) -> GrantedMetadata {
        let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        GrantedMetadata { labels: owned(labels), annotations: owned(annotations) }
    }

    /// Checks what these texts state of the ConfigMap `n/web`.
    fn checked(json: &[&str], parent_metadata: GrantedMetadata) -> Result<StatedMetadata, Denial> {
        let parent =
            ObjectRef { kind: Kind::new("", "v1", "ConfigMap"), namespace: Some("n".into()), name: "web".into() };
        let grant = Grant {
            rules: Vec::new(),
            prune_all: false,
            finalize: Vec::new(),
            parent_metadata,
            host_namespace: "host".into(),
        };
        let descriptor = Descriptor { parent: parent.kind.clone(), ..Descriptor::default() };
        let context = Context {
            parent: &parent,
            uid: "u",
            plugin: "demo",
            grant: &grant,
            descriptor: &descriptor,
            most_children: 10,
            most_fields: 20,
            namespaced: Box::new(|_| Some(true)),
            label_of: Box::new(|_, _| None),
        };
        let stated: Vec<_> =
            json.iter().map(|json| Document { reference: parent.clone(), json: (*json).into() }).collect();
        check(&stated.iter().collect::<Vec<_>>(), &context)
    }

    fn denial(json: &str) -> String {
        let all = granted(&["e.com/*", "plain"], &["e.com/*"]);
        let denial = checked(&[json], all).unwrap_err();
        assert!(denial.violations().iter().all(|one| one.rule == RULE || one.rule == "identity"), "{denial}");
        denial.to_string()
    }

    #[test]
    fn granted_labels_and_annotations_are_stated_and_nothing_is_where_the_parent_is_not_in_the_answer() {
        let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"n",
            "labels":{"e.com/tier":"gold","plain":"1","gone":null},"annotations":{"e.com/note-1":"a b"}}}"#;
        let stated = checked(&[json], granted(&["e.com/tier", "plain"], &["e.com/note-*"])).unwrap();
        assert_eq!(
            stated.labels.iter().collect::<Vec<_>>(),
            [(&"e.com/tier".to_owned(), &"gold".to_owned()), (&"plain".to_owned(), &"1".to_owned())]
        );
        assert_eq!(stated.annotations["e.com/note-1"], "a b");
        for empty in [&[][..], &["{}"], &[r#"{"metadata":{}}"#], &[r#"{"metadata":{"labels":{}}}"#]] {
            assert_eq!(checked(empty, GrantedMetadata::default()), Ok(StatedMetadata::default()), "{empty:?}");
        }
    }

    #[test]
    fn every_other_field_of_the_parent_is_denied_by_its_name() {
        for (field, json) in [
            ("spec", r#"{"spec":{}}"#),
            ("data", r#"{"data":{"a":"b"}}"#),
            ("status", r#"{"status":{}}"#),
            ("metadata.finalizers", r#"{"metadata":{"finalizers":[]}}"#),
            ("metadata.ownerReferences", r#"{"metadata":{"ownerReferences":[]}}"#),
            ("metadata.generateName", r#"{"metadata":{"generateName":"a-"}}"#),
            ("metadata.uid", r#"{"metadata":{"uid":"u"}}"#),
            ("metadata.resourceVersion", r#"{"metadata":{"resourceVersion":"1"}}"#),
            ("metadata.managedFields", r#"{"metadata":{"managedFields":[]}}"#),
            ("metadata.deletionTimestamp", r#"{"metadata":{"deletionTimestamp":"x"}}"#),
        ] {
            let denied = denial(json);
            assert!(denied.contains(&format!("and not {field}; leave it out")), "{field}: {denied}");
        }
        for (json, words) in [
            (r#"{"metadata":[]}"#, "metadata is no object"),
            (r#"{"metadata":{"labels":["a"]}}"#, "metadata.labels is no object"),
            (r#"{"metadata":{"labels":{"e.com/a":1}}}"#, "is no text"),
            (r#"{"metadata":{"name":"other"}}"#, "differs from its reference"),
            (r#"{"metadata":{"namespace":"other"}}"#, "differs from its reference"),
        ] {
            let denied = denial(json);
            assert!(denied.contains(words), "{json}: {denied}");
        }
    }

    #[test]
    fn a_key_that_no_grant_opens_is_neither_granted_nor_stated() {
        for key in [
            "hotshoe.dev/plugin",
            "a.hotshoe.dev/x",
            "kubernetes.io/metadata.name",
            "app.kubernetes.io/instance",
            "pod-security.kubernetes.io/enforce",
            "kubectl.kubernetes.io/last-applied-configuration",
            "k8s.io/x",
            "autoscaling.k8s.io/x",
            "argocd.argoproj.io/sync-options",
            "kustomize.toolkit.fluxcd.io/prune",
            "helm.sh/resource-policy",
            "meta.helm.sh/release-name",
            "kapp.k14s.io/app",
            "objectset.rio.cattle.io/id",
            "openshift.io/sa.scc.uid-range",
            "pod-template-hash",
            "controller-uid",
        ] {
            for member in ["labels", "annotations"] {
                let denied = denial(&format!(r#"{{"metadata":{{"{member}":{{"{key}":"x"}}}}}}"#));
                assert!(denied.contains(&format!("metadata.{member} may not set {key}")), "{denied}");
                assert!(denied.contains("no grant opens it") && !denied.contains("plugin.yaml"), "{denied}");
            }
            for grant in [granted(&[key], &[]), granted(&[], &[key])] {
                let refused = grant.validate().unwrap_err();
                assert!(refused.contains(key) && refused.contains("no plugin may set it"), "{refused}");
            }
        }
        assert!(granted(&["kubernetes.io/*"], &[]).validate().is_err());
        for fine in ["e.com/a", "e.com/*", "e.com/a-*", "mykubernetes.io/a", "kubernetes.io.e.com/a", "team"] {
            assert_eq!(granted(&[fine], &[fine]).validate(), Ok(()), "{fine}");
        }
        for bad in ["*", "*/a", "team-*", "e.com/**", "e.com/", "a b", "", "e.com/a/b", "E.com/a"] {
            assert!(granted(&[bad], &[]).validate().unwrap_err().contains("DOMAIN/NAME"), "{bad}");
        }
        let many: Vec<String> = (0..=MAX_KEYS).map(|number| format!("e.com/a{number}")).collect();
        assert!(GrantedMetadata { labels: many, annotations: Vec::new() }.validate().is_err());
    }

    #[test]
    fn a_key_that_is_not_granted_is_denied_with_the_grant_of_the_whole_statement() {
        let json = r#"{"metadata":{"labels":{"e.com/a":"1","other.com/b":"2"},"annotations":{"e.com/c":"3"}}}"#;
        let denied = checked(&[json], granted(&["e.com/*"], &[])).unwrap_err();
        assert_eq!(denied.count(), 2);
        let fix =
            "set in spec of plugin.yaml: parentMetadata: {annotations: [e.com/c], labels: [\"e.com/*\", other.com/b]}";
        assert!(denied.violations().iter().all(|one| one.to_string().contains(fix)), "{denied}");
    }

    #[test]
    fn the_parent_is_stated_once_and_within_the_limit_of_fields() {
        let twice = checked(&["{}", "{}"], GrantedMetadata::default()).unwrap_err();
        assert_eq!(twice.rule(), "duplicate-child");
        let labels: Vec<String> = (0..30).map(|number| format!(r#""e.com/a{number}":"x""#)).collect();
        let many = format!(r#"{{"metadata":{{"labels":{{{}}}}}}}"#, labels.join(","));
        assert_eq!(checked(&[&many], granted(&["e.com/*"], &[])).unwrap_err().rule(), "too-many-fields");
    }

    #[test]
    fn a_plugin_cannot_change_by_which_keys_its_parents_are_selected() {
        let grant = granted(&["e.com/*"], &["e.com/on"]);
        let apart = |label: &'static str, annotation: &'static str| {
            grant.check_apart_from([label].into_iter(), [annotation].into_iter())
        };
        assert_eq!(apart("other.com/a", "e.com/off"), Ok(()));
        assert!(apart("e.com/a", "e.com/off").unwrap_err().contains("labels covers e.com/a"));
        assert!(apart("other.com/a", "e.com/on").unwrap_err().contains("annotations covers e.com/on"));
    }

    #[test]
    fn the_host_has_to_know_each_granted_key_or_all_where_there_is_a_pattern() {
        assert_eq!(granted(&["e.com/a"], &["e.com/*"]).paths(), ["metadata.labels['e.com/a']", "metadata.annotations"]);
        assert!(GrantedMetadata::default().paths().is_empty());
    }

    #[test]
    fn the_parent_is_known_in_any_version_and_with_or_without_its_namespace() {
        let object = |kind: Kind, namespace: Option<&str>, name: &str| ObjectRef {
            kind,
            namespace: namespace.map(Into::into),
            name: name.into(),
        };
        let kind = |version: &str| Kind::new("e.com", version, "Shop");
        let parent = object(kind("v1"), Some("n"), "a");
        assert!(is_parent(&parent, &parent) && is_parent(&object(kind("v2"), None, "a"), &parent));
        for other in [
            object(kind("v1"), Some("m"), "a"),
            object(kind("v1"), None, "b"),
            object(Kind::new("e.com", "v1", "Cart"), None, "a"),
            object(Kind::new("", "v1", "Shop"), None, "a"),
        ] {
            assert!(!is_parent(&other, &parent), "{other}");
        }
        let cluster = object(kind("v1"), None, "a");
        assert!(is_parent(&cluster, &cluster) && !is_parent(&parent, &cluster));
    }
}
