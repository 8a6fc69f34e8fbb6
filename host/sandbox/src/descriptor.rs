//! Validates a plugin's descriptor, once when the plugin is loaded. Whether the plugin may have what it asks for is not
//! checked here, but against its grant.

use std::collections::HashSet;

use hotshoe_core::check::{finalizer, pod};
use hotshoe_core::model::decision::{Descriptor, MatchRule};
use hotshoe_core::model::field_path::{self, WrongPath};
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::limits::SELECTOR_BYTES;
use hotshoe_core::model::names;
use hotshoe_core::model::{json_guard, sanitize};

/// The maximum number of owned kinds, and of read kinds.
const MAX_KINDS: usize = 32;
/// The maximum number of fields of one kind.
const MAX_FIELDS: usize = 128;
/// The maximum length of a name, a version or a key, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// The maximum size of a configuration's schema, in bytes.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Validates a descriptor, and sanitizes its name and version.
///
/// # Errors
/// The first problem, explained to the plugin's author.
pub(super) fn validate(descriptor: Descriptor) -> Result<Descriptor, String> {
    let Descriptor { name, version, .. } = &descriptor;
    ensure(!name.is_empty() && !version.is_empty(), || "it names no name or no version".into())?;
    check_kind(&descriptor.parent)?;
    check_fields(&descriptor.parent.to_string(), &descriptor.parent_fields)?;
    check_owned(&descriptor)?;
    check_reads(&descriptor)?;
    check_finalizer(&descriptor)?;
    check_schema(&descriptor)?;
    Ok(Descriptor {
        name: sanitize::clean(descriptor.name, MAX_NAME_BYTES),
        version: sanitize::clean(descriptor.version, MAX_NAME_BYTES),
        ..descriptor
    })
}

fn check_owned(descriptor: &Descriptor) -> Result<(), String> {
    ensure(descriptor.owns.len() <= MAX_KINDS, || format!("it owns more than {MAX_KINDS} kinds"))?;
    let mut kinds = HashSet::new();
    for owned in &descriptor.owns {
        check_kind(&owned.kind)?;
        check_fields(&owned.kind.to_string(), &owned.fields)?;
        // Each child would be a parent, whose children are parents again. No limit would bound them, since the limits
        // are those of one parent.
        let is_parent = (&owned.kind.group, &owned.kind.kind) == (&descriptor.parent.group, &descriptor.parent.kind);
        ensure(!is_parent, || format!("it owns {}, which is the kind of its own parents; own another", owned.kind))?;
        ensure(kinds.insert((&owned.kind.group, &owned.kind.kind)), || format!("it owns {} twice", owned.kind))?;
    }
    Ok(())
}

fn check_reads(descriptor: &Descriptor) -> Result<(), String> {
    ensure(descriptor.reads.len() <= MAX_KINDS, || format!("it reads more than {MAX_KINDS} kinds"))?;
    let mut keys = HashSet::new();
    for read in &descriptor.reads {
        let key = &read.key;
        check_kind(&read.kind)?;
        // All objects of a kind that is read are watched and stored, with the host's own account.
        let is_secret = read.kind.is("", "Secret");
        ensure(!is_secret, || {
            "it reads Secrets as a kind, but each is read by its name and none is kept; leave them out of `reads`, and answer `needs` with the name".into()
        })?;
        check_fields(key, &read.fields)?;
        ensure(names::is_visible(key, MAX_NAME_BYTES), || format!("{} is no key of a read kind", shown(key)))?;
        ensure(keys.insert(key), || format!("the key {key:?} of a read kind is given twice"))?;
        let selector = &read.selector;
        let is_one = selector.is_empty() || LabelSelector::read(selector).is_ok();
        ensure(selector.len() <= SELECTOR_BYTES && is_one, || format!("{} is no label selector", shown(selector)))?;
        match &read.rule {
            MatchRule::ParentLabel(label) => {
                ensure(label.is_empty() || names::is_qualified(label), || format!("{} is no label key", shown(label)))?;
            }
            MatchRule::ParentField(path) => check_path(key, path)?,
        }
    }
    Ok(())
}

fn check_finalizer(descriptor: &Descriptor) -> Result<(), String> {
    let Some(finalizer) = &descriptor.finalizer else { return Ok(()) };
    let (prefix, _) = finalizer.split_once('/').unwrap_or_default();
    // With a finalizer of another group, a plugin could block deletions in the name of that group's operator, or
    // unblock those that it blocks. The core group has no domain, and its finalizers are Kubernetes' own.
    let own = finalizer::domain(&descriptor.parent.group);
    ensure(prefix == own && names::is_qualified(finalizer), || {
        format!("the finalizer {} is not of the form {own}/NAME", shown(finalizer))
    })?;
    // The right to add a finalizer is the right to change the whole object, and so the Pods that it runs.
    let parent = &descriptor.parent;
    ensure(!pod::makes_pods(parent), || {
        format!(
            "a parent of the kind {parent} may hold no finalizer: the host's own account would have to be able to change workloads; leave the finalizer out"
        )
    })
}

fn check_schema(descriptor: &Descriptor) -> Result<(), String> {
    let Some(schema) = &descriptor.config_schema else { return Ok(()) };
    ensure(schema.len() <= MAX_SCHEMA_BYTES, || {
        format!("its configuration's schema has more than {MAX_SCHEMA_BYTES} bytes")
    })?;
    json_guard::check_object(schema, 64)
        .map_err(|error| format!("its configuration's schema cannot be read: {}", sanitize::clean(error, 500)))
}

fn check_kind(kind: &Kind) -> Result<(), String> {
    let valid = names::is_group(&kind.group) && names::is_version(&kind.version) && names::is_kind(&kind.kind);
    ensure(valid, || format!("{} {} is no kind", shown(&kind.api_version()), shown(&kind.kind)))
}

fn check_fields(of: &str, fields: &[String]) -> Result<(), String> {
    ensure(fields.len() <= MAX_FIELDS, || format!("it asks for more than {MAX_FIELDS} fields of {of}"))?;
    fields.iter().try_for_each(|field| check_path(of, field))
}

fn check_path(of: &str, path: &str) -> Result<(), String> {
    let wrong = |error: WrongPath| {
        format!(
            "{} is no path to a field of {of}: {}",
            shown(path),
            sanitize::clean(error.to_string(), 2 * MAX_NAME_BYTES)
        )
    };
    field_path::keys(path).map(drop).map_err(wrong)
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn shown(text: &str) -> String {
    format!("{:?}", sanitize::clean(text.to_owned(), MAX_NAME_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::decision::{OwnedKind, ReadKind, WriteVerb};

    fn descriptor() -> Descriptor {
        Descriptor {
            name: "memcached".into(),
            version: "0.1.0".into(),
            parent: Kind::new("cache.example.com", "v1alpha1", "Memcached"),
            parent_fields: vec!["metadata.annotations".into()],
            owns: vec![OwnedKind {
                kind: Kind::new("apps", "v1", "Deployment"),
                verbs: vec![WriteVerb::Create],
                fields: vec!["spec.replicas".into()],
            }],
            reads: vec![ReadKind {
                key: "pods".into(),
                kind: Kind::new("", "v1", "Pod"),
                selector: "app=memcached".into(),
                rule: MatchRule::ParentLabel("app.kubernetes.io/instance".into()),
                fields: vec!["status.phase".into()],
            }],
            finalizer: Some("cache.example.com/finalizer".into()),
            config_schema: Some(r#"{"type":"object"}"#.into()),
            ..Descriptor::default()
        }
    }

    fn refused(change: impl FnOnce(&mut Descriptor)) -> String {
        let mut descriptor = descriptor();
        change(&mut descriptor);
        validate(descriptor).unwrap_err()
    }

    #[test]
    fn an_ordinary_descriptor_passes_unchanged() {
        assert_eq!(validate(descriptor()), Ok(descriptor()));
    }

    #[test]
    fn the_finalizer_is_of_the_parents_group() {
        for finalizer in ["other.example.com/finalizer", "finalizer", "cache.example.com/", "cache.example.com/a/b"] {
            let message = refused(|descriptor| descriptor.finalizer = Some(finalizer.into()));
            assert!(message.ends_with("is not of the form cache.example.com/NAME"), "{message}");
        }
    }

    #[test]
    fn the_finalizers_of_kubernetes_itself_are_denied() {
        for (finalizer, valid) in [
            ("kubernetes.io/pvc-protection", false),
            ("/finalizer", false),
            ("finalizer", false),
            ("plugin.hotshoe.dev/memcached", true),
        ] {
            let parent = Kind::new("", "v1", "PersistentVolumeClaim");
            let descriptor = Descriptor { parent, finalizer: Some(finalizer.into()), ..descriptor() };
            assert_eq!(validate(descriptor).is_ok(), valid, "{finalizer}");
        }
    }

    #[test]
    fn a_parent_that_makes_pods_may_have_no_finalizer() {
        for (group, finalizer, kind, valid) in [
            ("apps", "apps/demo", "Deployment", false),
            ("apps", "apps/demo", "StatefulSet", false),
            ("apps", "apps/demo", "DaemonSet", false),
            ("apps", "apps/demo", "ReplicaSet", false),
            ("batch", "batch/demo", "Job", false),
            ("batch", "batch/demo", "CronJob", false),
            ("", "plugin.hotshoe.dev/demo", "Pod", false),
            ("", "plugin.hotshoe.dev/demo", "PodTemplate", false),
            ("", "plugin.hotshoe.dev/demo", "ReplicationController", false),
            ("", "plugin.hotshoe.dev/demo", "ConfigMap", true),
            ("example.com", "example.com/demo", "Deployment", true),
        ] {
            let parent = Kind::new(group, "v1", kind);
            let without = Descriptor { parent: parent.clone(), finalizer: None, owns: Vec::new(), ..descriptor() };
            assert!(validate(without.clone()).is_ok(), "{parent}");
            match validate(Descriptor { finalizer: Some(finalizer.into()), ..without }) {
                Ok(_) => assert!(valid, "{parent}"),
                Err(message) => {
                    assert!(!valid && message.starts_with(&format!("a parent of the kind {parent} ")), "{message}");
                    assert!(message.ends_with("leave the finalizer out"), "{message}");
                }
            }
        }
    }

    #[test]
    fn no_plugin_owns_the_kind_of_its_parents() {
        assert!(refused(|d| d.owns[0].kind = d.parent.clone()).contains("the kind of its own parents"));
    }

    #[test]
    fn each_part_is_checked() {
        assert!(refused(|d| d.name.clear()).contains("no name"));
        assert!(refused(|d| d.parent.kind = "".into()).contains("no kind"));
        assert!(refused(|d| d.parent_fields.push("a..b".into())).contains("a key is missing"));
        let unquoted = "metadata.annotations.example.com/size";
        let message = refused(|d| d.owns[0].fields.push(unquoted.into()));
        assert!(message.contains("the key \"com/size\" needs quotes, as in metadata.annotations['"), "{message}");
        assert!(refused(|d| d.owns.extend(d.owns.clone())).contains("twice"));
        assert!(refused(|d| d.reads.extend(d.reads.clone())).contains("twice"));
        let secrets = Kind::new("", "v1", "Secret");
        assert!(refused(|d| d.reads[0].kind = secrets).contains("`needs`"));
        assert!(refused(|d| d.reads[0].selector = "a=b=c".into()).contains("no label selector"));
        assert!(refused(|d| d.reads[0].rule = MatchRule::ParentLabel("a b".into())).contains("no label key"));
        let mut around = descriptor();
        around.reads[0].rule = MatchRule::ParentLabel(String::new());
        assert!(validate(around).is_ok(), "all in the parent's namespace");
        assert!(refused(|d| d.reads[0].rule = MatchRule::ParentField(String::new())).contains("no path"));
        let mut quoted = descriptor();
        quoted.reads[0].rule = MatchRule::ParentField("metadata.annotations['example.com/pod']".into());
        assert!(validate(quoted).is_ok());
        assert!(refused(|d| d.config_schema = Some("[]".into())).contains("schema"));
        assert!(refused(|d| d.owns = vec![d.owns[0].clone(); 33]).contains("more than 32"));
    }
}
