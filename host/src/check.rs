//! Between *decide* and *apply*: from a decision that nobody trusts to what may be written.
//!
//! All or nothing: one child that breaks a rule refuses the whole decision. What passes is
//! complete: the host has stamped namespace, owner reference, labels and digest. Pure.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::decision::{Children, Decision, Descriptor, Document, Kind, ObjectRef, WriteVerb};
use crate::error::Violation;
use crate::grant::{Grant, Verb};
use crate::object::{APPLIED_ANNOTATION, Key, PLUGIN_LABEL};

/// How deep the JSON of a child may nest.
const MAX_DEPTH: usize = 64;
/// The prefix of labels and annotations that are the host's.
const HOST_PREFIX: &str = "hotshoe.dev/";
/// The label that tells people which tool manages an object.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// A child as it will be written, but for the precondition.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Which object; the namespace is filled in.
    pub reference: ObjectRef,
    /// The object to apply.
    pub body: Arc<Value>,
    /// Digest of what the plugin wants and the host stamped.
    pub digest: Box<str>,
}

impl Desired {
    /// Whether this is the desired state of that object.
    pub fn is(&self, kind: &Kind, key: &Key) -> bool {
        self.reference.kind.kind == kind.kind
            && self.reference.kind.group == kind.group
            && self.reference.name == key.name
            && self.reference.namespace == key.namespace
    }
}

/// Whether a kind has a namespace, by discovery.
pub type Scopes<'a> = Box<dyn Fn(&Kind) -> Option<bool> + Send + Sync + 'a>;

/// The parent that a decision is about, and on whose behalf.
pub struct Context<'a> {
    /// The parent.
    pub parent: &'a ObjectRef,
    /// Its uid.
    pub uid: &'a str,
    /// The plugin's name, as the administrator gave it.
    pub plugin: &'a str,
    /// What the plugin may do.
    pub grant: &'a Grant,
    /// What it asked for.
    pub descriptor: &'a Descriptor,
    /// Whether the kind of a child has a namespace; absent where the API server has no such kind.
    pub namespaced: Scopes<'a>,
}

/// The children to be, or `None` where they are to be left alone.
///
/// # Errors
/// The first rule that is broken.
pub fn check(decision: &Decision, observed: usize, context: &Context<'_>) -> Result<Option<Vec<Desired>>, Violation> {
    let Children::Exactly(children) = &decision.children else { return Ok(None) };
    if children.is_empty() && observed > 0 && !context.grant.prune_all {
        return Err(broken(
            "prune-all",
            format!(
                "{}: an answer without any child would delete {observed} children; grant spec.pruneAll in plugin.yaml if that is meant",
                context.parent
            ),
        ));
    }
    let mut desired: Vec<Desired> = Vec::with_capacity(children.len());
    for child in children {
        let next = check_child(child, context)?;
        if desired.iter().any(|other| other.reference == next.reference) {
            return Err(broken("duplicate-child", format!("{}: it is in the answer twice", next.reference)));
        }
        desired.push(next);
    }
    Ok(Some(desired))
}

fn broken(rule: &'static str, message: String) -> Violation {
    Violation { rule, message }
}

fn check_child(child: &Document, context: &Context<'_>) -> Result<Desired, Violation> {
    let reference = resolve(&child.reference, context)?;
    check_name(&reference)?;
    let owned = context.descriptor.owns.iter().find(|owned| owned.kind == reference.kind);
    let Some(owned) = owned else {
        return Err(broken("kind-not-owned", format!("{reference}: describe does not name this kind as owned")));
    };
    for (wanted, verb) in [(WriteVerb::Create, Verb::Create), (WriteVerb::Update, Verb::Update)] {
        if owned.verbs.contains(&wanted) {
            context.grant.authorise(context.parent, verb, &reference)?;
        }
    }
    let body = read_body(&child.json, &reference)?;
    Ok(stamp(reference, body, context))
}

/// Scope comes from discovery before anything is stamped: forcing a namespace on a cluster-scoped
/// object would do nothing (CVE-2026-22872).
fn resolve(reference: &ObjectRef, context: &Context<'_>) -> Result<ObjectRef, Violation> {
    let namespaced = (context.namespaced)(&reference.kind)
        .ok_or_else(|| broken("kind-unknown", format!("{reference}: the API server has no such kind")))?;
    let namespace = match (namespaced, &reference.namespace) {
        (true, Some(namespace)) => Some(namespace.clone()),
        (true, None) => context.parent.namespace.clone(),
        (false, None) => None,
        (false, Some(_)) => {
            return Err(broken("scope", format!("{reference}: a cluster-scoped object has no namespace")));
        }
    };
    if namespaced && namespace.is_none() {
        return Err(broken("scope", format!("{reference}: a namespace is missing")));
    }
    Ok(ObjectRef { namespace, ..reference.clone() })
}

/// The name becomes part of a request's path, so nothing but a DNS subdomain passes.
fn check_name(reference: &ObjectRef) -> Result<(), Violation> {
    let valid = is_dns_subdomain(&reference.name) && reference.namespace.as_deref().is_none_or(is_dns_subdomain);
    if valid { Ok(()) } else { Err(broken("name", format!("{reference}: that is no valid name"))) }
}

/// RFC 1123 subdomain of at most 253 characters, as the API server demands of most names.
pub fn is_dns_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

fn read_body(json: &str, reference: &ObjectRef) -> Result<Map<String, Value>, Violation> {
    let value: Value = serde_json::from_str(json)
        .map_err(|error| broken("json", format!("{reference}: its JSON cannot be read: {error}")))?;
    if depth(&value) > MAX_DEPTH {
        return Err(broken("json-depth", format!("{reference}: its JSON nests deeper than {MAX_DEPTH}")));
    }
    let value = if says_nothing_somewhere(&value) { without_empty(value) } else { Some(value) };
    let Some(Value::Object(mut body)) = value else {
        return Err(broken("json", format!("{reference}: its JSON is no object")));
    };
    check_identity(&body, reference)?;
    check_metadata(&body, reference)?;
    if body.remove("status").is_some() {
        return Err(broken("status", format!("{reference}: the status of a child belongs to its own controller")));
    }
    Ok(body)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn says_nothing_somewhere(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty() || elements.iter().any(says_nothing_somewhere),
        Value::Object(members) => members.values().any(says_nothing_somewhere),
        _ => false,
    }
}

/// Nulls and empty lists are dropped: server-side apply would own a field that says nothing.
fn without_empty(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(elements) => {
            let kept: Vec<Value> = elements.into_iter().filter_map(without_empty).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        Value::Object(members) => {
            let kept = members.into_iter().filter_map(|(key, value)| Some((key, without_empty(value)?)));
            Some(Value::Object(kept.collect()))
        }
        other => Some(other),
    }
}

/// What stands in both, reference and JSON, must agree; otherwise the gate would judge another
/// object than the one that is written.
fn check_identity(body: &Map<String, Value>, reference: &ObjectRef) -> Result<(), Violation> {
    let metadata = body.get("metadata");
    let in_metadata = |field: &str| metadata.and_then(|metadata| metadata.get(field));
    let api_version = reference.kind.api_version();
    let pairs = [
        ("apiVersion", body.get("apiVersion"), Some(api_version.as_str())),
        ("kind", body.get("kind"), Some(&*reference.kind.kind)),
        ("metadata.name", in_metadata("name"), Some(&*reference.name)),
        ("metadata.namespace", in_metadata("namespace"), reference.namespace.as_deref()),
    ];
    for (field, found, expected) in pairs {
        if found.is_some_and(|found| found.as_str() != expected) {
            return Err(broken("identity", format!("{reference}: {field} in its JSON says otherwise")));
        }
    }
    Ok(())
}

fn check_metadata(body: &Map<String, Value>, reference: &ObjectRef) -> Result<(), Violation> {
    let Some(metadata) = body.get("metadata") else { return Ok(()) };
    let Some(metadata) = metadata.as_object() else {
        return Err(broken("metadata", format!("{reference}: metadata is no object")));
    };
    for (field, value) in metadata {
        match field.as_str() {
            "name" | "namespace" => {}
            "labels" | "annotations" => check_texts(field, value, reference)?,
            _ => return Err(broken("metadata", format!("{reference}: metadata.{field} is not a plugin's to set"))),
        }
    }
    Ok(())
}

fn check_texts(field: &str, value: &Value, reference: &ObjectRef) -> Result<(), Violation> {
    let Some(texts) = value.as_object() else {
        return Err(broken("metadata", format!("{reference}: metadata.{field} is no object")));
    };
    let reserved =
        |key: &str| key.starts_with(HOST_PREFIX) || key == "kubectl.kubernetes.io/last-applied-configuration";
    match texts.iter().find(|(key, value)| reserved(key) || !value.is_string()) {
        Some((key, _)) => Err(broken("metadata", format!("{reference}: metadata.{field} may not set {key}"))),
        None => Ok(()),
    }
}

fn stamp(reference: ObjectRef, mut body: Map<String, Value>, context: &Context<'_>) -> Desired {
    body.insert("apiVersion".into(), reference.kind.api_version().into());
    body.insert("kind".into(), (&*reference.kind.kind).into());
    let metadata = object_at(&mut body, "metadata");
    metadata.insert("name".into(), (&*reference.name).into());
    if let Some(namespace) = &reference.namespace {
        metadata.insert("namespace".into(), (&**namespace).into());
    }
    metadata.insert("ownerReferences".into(), json!([owner_reference(context)]));
    let labels = object_at(metadata, "labels");
    labels.insert(MANAGED_BY.into(), "hotshoe".into());
    labels.insert(PLUGIN_LABEL.into(), context.plugin.into());
    let digest = digest(&body);
    let annotations = object_at(object_at(&mut body, "metadata"), "annotations");
    annotations.insert(APPLIED_ANNOTATION.into(), (&*digest).into());
    Desired { reference, body: Arc::new(Value::Object(body)), digest }
}

fn object_at<'a>(members: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = members.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    #[expect(clippy::expect_used, reason = "the line above made it an object")]
    value.as_object_mut().expect("an object")
}

fn owner_reference(context: &Context<'_>) -> Value {
    json!({
        "apiVersion": context.parent.kind.api_version(),
        "kind": &*context.parent.kind.kind,
        "name": &*context.parent.name,
        "uid": context.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The first 128 bits of SHA-256 in hexadecimal: an annotation on every child, so short.
fn digest(body: &Map<String, Value>) -> Box<str> {
    let mut hash = Sha256::new();
    // Writing into a hash cannot fail, and a map of JSON values is always JSON.
    drop(serde_json::to_writer(&mut hash, body));
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// The key of an object of a reference.
pub fn key(reference: &ObjectRef) -> Key {
    Key { namespace: reference.namespace.clone(), name: Arc::clone(&reference.name) }
}
