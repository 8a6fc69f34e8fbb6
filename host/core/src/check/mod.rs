//! The gate between *decide* and *apply*: turns an untrusted decision into children that may be written. Pure.
//!
//! All or nothing: one child that breaks a rule denies the whole decision. The host completes each admitted child with
//! its namespace, owner reference, labels and digest.

pub mod access_request;
pub mod admission;
pub mod answer;
pub mod conversion;
pub mod defaulting;
pub mod denied;
pub mod fields;
pub mod finalizer;
pub mod fix;
pub mod foreign_pods;
pub mod glob;
pub mod grant;
pub mod helm_release;
pub mod ignored;
pub mod json_cursor;
pub mod labels;
pub mod leave;
pub mod memory_quota;
pub mod memory_share;
pub mod namespace_share;
pub mod parent_kind;
pub mod parent_metadata;
pub mod parents_claim;
pub mod pod;
pub mod provenance;
pub mod pvc;
pub mod reach;
pub mod remedy;
pub mod result;
pub mod selection;
pub mod selector;
pub mod service;
pub mod snapshot_content;
pub mod status;
pub mod update_strategy;
pub mod validation;
pub mod violation;
pub mod watch_room;
pub mod write_only;

pub use crate::check::admission::{AdmittedDecision, Inadmissible, ObservedState, Stage, admit};
pub use crate::check::violation::{Denial, Violation};

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::check::access_request::{Access, LabelOf, Request};
use crate::check::fix::Fix;
use crate::check::grant::Grant;
use crate::check::reach::IsNamespaced;
use crate::check::update_strategy::UpdateStrategy;

use crate::check::violation::{Checked, Violations, all};
use crate::model::decision::{Children, Decision, Descriptor, Document};
use crate::model::digest::Digest;
use crate::model::kind::{Key, ObjectRef};
use crate::model::names::is_subdomain;
use crate::model::object::{APPLIED_ANNOTATION, HOST_PREFIX, PARENT_ANNOTATION, PLUGIN_LABEL, parent_mark};

/// The maximum nesting depth of a child's JSON.
const MAX_DEPTH: usize = 64;
/// The label that shows which tool manages an object.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// An admitted child, complete except for the precondition of its apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The reference to the child, with its namespace filled in.
    pub reference: ObjectRef,
    /// The object to apply.
    pub body: Arc<Value>,
    /// The digest of the object, including what the host stamped.
    pub digest: Box<str>,
    /// Whether an existing child is left as it is, because `describe` does not ask for the verb `update` on its kind.
    pub is_created_once: bool,
    /// The paths of the fields that the plugin leaves to others.
    pub left: Arc<[Box<str>]>,
    /// What becomes of the child where the API server does not let it change.
    pub strategy: UpdateStrategy,
}

/// The parent of a decision, the plugin that made the decision, and the limits that apply.
pub struct Context<'a> {
    /// The parent.
    pub parent: &'a ObjectRef,
    /// The parent's uid.
    pub uid: &'a str,
    /// The plugin's name, as the administrator gave it.
    pub plugin: &'a str,
    /// The plugin's grant.
    pub grant: &'a Grant,
    /// The plugin's descriptor.
    pub descriptor: &'a Descriptor,
    /// The maximum number of children that a parent may have after a decision that adds one.
    pub most_children: usize,
    /// The maximum number of [fields](fields::count) of a child.
    pub most_fields: usize,
    /// Returns whether the kind of a child is namespaced.
    pub namespaced: Box<IsNamespaced<'a>>,
    /// Returns the value of a namespace's label.
    pub label_of: Box<LabelOf<'a>>,
}

/// Returns the children as they will be written, or `None` if the decision keeps the existing ones. `observed` are the
/// existing children. What the decision states of the parent itself is [checked](parent_metadata) apart from them.
///
/// # Errors
/// When the decision breaks a rule. Lists the broken rules of all children.
pub fn check(
    decision: &Decision,
    observed: &[ObjectRef],
    context: &Context<'_>,
) -> Result<Option<Vec<Desired>>, Denial> {
    let Children::Exactly(objects) = &decision.children else { return Ok(None) };
    let children: Vec<_> = objects.iter().filter(|object| !is_parent(&object.reference, context.parent)).collect();
    check_children(&children, observed, context).map(Some)
}

fn check_children(
    children: &[&Document],
    observed: &[ObjectRef],
    context: &Context<'_>,
) -> Result<Vec<Desired>, Denial> {
    check_prune_all(children, observed, context)?;
    let mut violations = Violations::default();
    let (mut desired, mut fields): (Vec<Desired>, usize) = (Vec::with_capacity(children.len()), 0);
    for child in children {
        let Some((next, more)) = violations.note(check_child(child, context)) else { continue };
        fields += more;
        if desired.iter().any(|other| other.reference == next.reference) {
            let message = format!("{}: it is in the answer twice", next.reference);
            violations.add(violation("duplicate-child", message).answer("leave one of the two out"));
        }
        desired.push(next);
    }
    violations.note(fields::check_total(fields, context.parent).map_err(Denial::from));
    let desired = violations.finish(desired)?;
    check_child_count(&desired, observed, context)?;
    Ok(desired)
}

fn check_prune_all(children: &[&Document], observed: &[ObjectRef], context: &Context<'_>) -> Result<(), Violation> {
    if !children.is_empty() || observed.is_empty() || context.grant.prune_all {
        return Ok(());
    }
    let message = format!("{}: an answer without any child would delete {} children", context.parent, observed.len());
    Err(violation("prune-all", message).fixed_by(Fix::Spec("pruneAll", json!(true))))
}

/// Limits the number of a parent's children. A plugin without the verb `delete` could desire new names each time and
/// leave more and more children behind. A decision that adds no child is never denied here.
fn check_child_count(desired: &[Desired], observed: &[ObjectRef], context: &Context<'_>) -> Result<(), Violation> {
    let wanted: HashSet<_> = desired.iter().map(|one| unversioned_identity(&one.reference)).collect();
    let existing: HashSet<_> = observed.iter().map(unversioned_identity).collect();
    if wanted.is_subset(&existing) {
        return Ok(());
    }
    let stays =
        |child: &&ObjectRef| !wanted.contains(&unversioned_identity(child)) && check_prune(child, context).is_err();
    let (left, most) = (observed.iter().filter(stays).count(), context.most_children);
    if desired.len() + left <= most {
        return Ok(());
    }
    let message = format!(
        "{}: with {left} children that are no longer desired and that may not be deleted it would have {}, \
         more than limits.children ({most}); grant `delete` on them in plugin.yaml (and `pruneData` where they hold \
         data), delete them, or raise the limit",
        context.parent,
        desired.len() + left
    );
    Err(violation("too-many-children", message))
}

fn violation(rule: &'static str, message: String) -> Violation {
    Violation::new(rule, message)
}

/// Returns a child as it will be written, and how many fields it has.
fn check_child(child: &Document, context: &Context<'_>) -> Result<(Desired, usize), Denial> {
    // Comes first, because discovery covers only the kinds that `describe` names as owned.
    let Some(owned) = context.descriptor.owns.iter().find(|owned| owned.kind == child.reference.kind) else {
        let message = format!("{}: describe does not name this kind as owned", child.reference);
        let change = format!("add {} to `owns` of the plugin's describe", child.reference.kind);
        return Err(violation("kind-not-owned", message).answer(change).into());
    };
    let (reference, namespaced) = resolve(&child.reference, context)?;
    check_name(&reference)?;
    let mut violations = Violations::default();
    let ReadChild { body, left, strategy } = read_body(&child.json, &reference, &mut violations)?;
    let fields = fields::check_child(&body, &reference, context.most_fields)?;
    let is_created_once = owned.is_created_once();
    let desired = Desired { is_created_once, left: left.into(), strategy, ..stamp(reference, body, context) };
    let body = &*desired.body;
    let access = if desired.is_created_once { Access::Create(body) } else { Access::Apply(body) };
    violations.note(authorise(&desired.reference, namespaced, access, context));
    if strategy == UpdateStrategy::Recreate {
        violations.note(authorise(&desired.reference, namespaced, Access::Recreate(body), context));
    }
    violations.finish((desired, fields))
}

/// Returns whether a desired object is the parent itself, in whatever version of its kind.
fn is_parent(object: &ObjectRef, parent: &ObjectRef) -> bool {
    let is_in_its_namespace = object.namespace.is_none() || object.namespace == parent.namespace;
    object.kind.is_served_as(&parent.kind) && object.name == parent.name && is_in_its_namespace
}

/// Identifies an object independently of the API version of its reference.
fn unversioned_identity(object: &ObjectRef) -> (&str, &str, Option<&str>, &str) {
    (&object.kind.group, &object.kind.kind, object.namespace.as_deref(), &object.name)
}

/// Checks that the plugin may delete a child that is no longer desired.
///
/// # Errors
/// When a rule forbids the deletion.
pub fn check_prune(child: &ObjectRef, context: &Context<'_>) -> Result<(), Denial> {
    authorise(child, is_namespaced(child, context)?, Access::Delete, context)
}

fn authorise(object: &ObjectRef, namespaced: bool, access: Access<'_>, context: &Context<'_>) -> Result<(), Denial> {
    let request = Request { parent: context.parent, object, namespaced, access };
    context.grant.authorise(&request, &*context.label_of)
}

fn is_namespaced(object: &ObjectRef, context: &Context<'_>) -> Result<bool, Violation> {
    let unknown = || violation("kind-unknown", format!("{object}: the API server has no such kind"));
    (context.namespaced)(&object.kind).ok_or_else(unknown)
}

/// Fills in the namespace of a child and returns whether its kind is namespaced. The scope comes from discovery and is
/// resolved before anything is stamped, because a namespace on a cluster-scoped object has no effect (CVE-2026-22872).
fn resolve(reference: &ObjectRef, context: &Context<'_>) -> Result<(ObjectRef, bool), Violation> {
    let namespaced = is_namespaced(reference, context)?;
    let namespace = match (namespaced, &reference.namespace) {
        (true, Some(namespace)) => Some(namespace.clone()),
        (true, None) => context.parent.own_namespace().cloned(),
        (false, None) => None,
        (false, Some(_)) => {
            let message = format!("{reference}: a cluster-scoped object has no namespace");
            return Err(violation("scope", message).answer("leave its namespace out"));
        }
    };
    if namespaced && namespace.is_none() {
        let message = format!("{reference}: a namespace is missing");
        return Err(violation("scope", message).answer("give it one, as its parent has none"));
    }
    Ok((ObjectRef { namespace, ..reference.clone() }, namespaced))
}

/// Checks that name and namespace are DNS subdomains, because they become part of a request's path.
///
/// # Errors
/// When one of them is not.
pub fn check_name(reference: &ObjectRef) -> Result<(), Violation> {
    let valid = is_subdomain(&reference.name) && reference.namespace.as_deref().is_none_or(is_subdomain);
    let message = || format!("{reference}: its name or its namespace is not valid");
    let change = "name it and its namespace with lower-case letters, digits, `-` and `.`";
    if valid { Ok(()) } else { Err(violation("name", message()).answer(change)) }
}

/// A child as it is read.
struct ReadChild {
    body: Map<String, Value>,
    /// The paths of the fields that it leaves to others.
    left: Vec<Box<str>>,
    strategy: UpdateStrategy,
}

/// Reads a child's JSON, and what its annotations say to the host alone. Adds the rules that a readable object breaks to
/// `violations`.
///
/// # Errors
/// When the JSON cannot be read, nests too deep or is not an object.
fn read_body(json: &str, reference: &ObjectRef, violations: &mut Violations) -> Result<ReadChild, Violation> {
    let mut body = read_members(json, reference)?;
    violations.note(check_identity(&body, reference));
    let left = violations.note(leave::take(&mut body, reference)).unwrap_or_default();
    let strategy = violations.note(update_strategy::take(&mut body, reference)).unwrap_or_default();
    violations.note(check_metadata(&body, reference));
    if body.remove("status").is_some() {
        let message = format!("{reference}: the status of a child belongs to its own controller");
        violations.add(violation("status", message).answer("leave `status` out"));
    }
    write_only::replace(&reference.kind, &mut body);
    Ok(ReadChild { body, left, strategy })
}

/// Reads the members of a desired object, without nulls.
///
/// # Errors
/// When the JSON cannot be read, nests too deep or is not an object.
fn read_members(json: &str, reference: &ObjectRef) -> Result<Map<String, Value>, Violation> {
    let value: Value = serde_json::from_str(json)
        .map_err(|error| violation("json", format!("{reference}: its JSON cannot be read: {error}")))?;
    if depth(&value) > MAX_DEPTH {
        return Err(violation("json-depth", format!("{reference}: its JSON nests deeper than {MAX_DEPTH}")));
    }
    match if has_null(&value) { without_nulls(value) } else { value } {
        Value::Object(body) => Ok(body),
        _ => Err(violation("json", format!("{reference}: its JSON is no object"))),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// Removes nulls, which many languages serialise for unset fields: with server-side apply the host would own a field
/// without content. Empty lists and objects stay, because they can mean the opposite of an absent field.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(elements) => {
            elements.into_iter().filter(|element| !element.is_null()).map(without_nulls).collect()
        }
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        other => other,
    }
}

/// Checks that reference and JSON name the same object. Otherwise the gate would check one object, and the host would
/// write another.
fn check_identity(body: &Map<String, Value>, reference: &ObjectRef) -> Checked {
    let metadata = body.get("metadata");
    let in_metadata = |field: &str| metadata.and_then(|metadata| metadata.get(field));
    let api_version = reference.kind.api_version();
    let pairs = [
        ("apiVersion", body.get("apiVersion"), Some(api_version.as_str())),
        ("kind", body.get("kind"), Some(&*reference.kind.kind)),
        ("metadata.name", in_metadata("name"), Some(&*reference.name)),
        ("metadata.namespace", in_metadata("namespace"), reference.namespace.as_deref()),
    ];
    all(pairs.into_iter().map(|(field, found, expected)| match found {
        Some(found) if found.as_str() != expected => {
            let message = format!("{reference}: {field} in its JSON differs from its reference");
            Err(violation("identity", message).answer(format!("leave {field} out, or make both the same")).into())
        }
        _ => Ok(()),
    }))
}

fn check_metadata(body: &Map<String, Value>, reference: &ObjectRef) -> Checked {
    let Some(metadata) = body.get("metadata") else { return Ok(()) };
    let Some(metadata) = metadata.as_object() else {
        return Err(violation("metadata", format!("{reference}: metadata is no object")).into());
    };
    all(metadata.iter().map(|(field, value)| match field.as_str() {
        "name" | "namespace" => Ok(()),
        "labels" | "annotations" => check_string_map(field, value, reference),
        "generateName" => {
            let message = format!("{reference}: metadata.generateName would make another object at each decision");
            Err(violation("metadata", message)
                .answer("leave it out, and derive metadata.name from the parent's")
                .into())
        }
        _ => {
            let message = format!("{reference}: metadata.{field} is not a plugin's to set");
            Err(violation("metadata", message).answer("leave it out").into())
        }
    }))
}

fn check_string_map(field: &str, value: &Value, reference: &ObjectRef) -> Checked {
    let Some(texts) = value.as_object() else {
        return Err(violation("metadata", format!("{reference}: metadata.{field} is no object")).into());
    };
    all(texts.iter().filter(|(key, value)| is_reserved(key) || !value.is_string()).map(|(key, value)| {
        let change = if value.is_string() { "leave it out" } else { "its value must be a text" };
        Err(violation("metadata", format!("{reference}: metadata.{field} may not set {key}")).answer(change).into())
    }))
}

/// Returns whether the label or annotation of this key is that of the host, or of kubectl.
pub(crate) fn is_reserved(key: &str) -> bool {
    key.starts_with(HOST_PREFIX) || key == "kubectl.kubernetes.io/last-applied-configuration"
}

/// Completes an admitted child with what only the host sets.
fn stamp(reference: ObjectRef, mut body: Map<String, Value>, context: &Context<'_>) -> Desired {
    body.insert("apiVersion".into(), reference.kind.api_version().into());
    body.insert("kind".into(), (&*reference.kind.kind).into());
    let metadata = object_at(&mut body, "metadata");
    metadata.insert("name".into(), (&*reference.name).into());
    if let Some(namespace) = &reference.namespace {
        metadata.insert("namespace".into(), (&**namespace).into());
    }
    metadata.insert("ownerReferences".into(), vec![owner_reference(context)].into());
    let labels = object_at(metadata, "labels");
    labels.insert(MANAGED_BY.into(), "hotshoe".into());
    labels.insert(PLUGIN_LABEL.into(), context.plugin.into());
    let digest = digest(&body);
    let annotations = object_at(object_at(&mut body, "metadata"), "annotations");
    annotations.insert(APPLIED_ANNOTATION.into(), (&*digest).into());
    // Not part of the digest: a child that lacks it is not written because of that.
    annotations.insert(PARENT_ANNOTATION.into(), parent_mark(context.parent).into());
    Desired {
        reference,
        body: Arc::new(Value::Object(body)),
        digest,
        is_created_once: false,
        left: Arc::default(),
        strategy: UpdateStrategy::default(),
    }
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

/// Returns the first 128 bits of SHA-256 in hexadecimal. The digest is short because each child carries it as an
/// annotation.
fn digest(body: &Map<String, Value>) -> Box<str> {
    Digest::of_json(body).digits(32).into()
}

/// Returns the cache key of the object that a reference names.
pub fn key(reference: &ObjectRef) -> Key {
    Key { namespace: reference.namespace.clone(), name: Arc::clone(&reference.name) }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::check::grant::Rule;
    use crate::model::decision::{OwnedKind, WriteVerb};
    use crate::model::kind::Kind;
    use crate::model::limits::DECISION_FIELDS;

    const VERBS: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];

    /// A plugin with a grant and a descriptor, and a parent of it.
    struct World {
        parent: ObjectRef,
        grant: Grant,
        descriptor: Descriptor,
        most_children: usize,
        most_fields: usize,
    }

    fn kind(name: &str) -> Kind {
        Kind::new("", "v1", name)
    }

    fn world(rules: Value) -> World {
        let rules: Vec<Rule> = serde_json::from_value(rules).unwrap();
        let owns = ["ConfigMap", "Secret", "Node", "Pod", "Unknown"].map(|name| OwnedKind {
            kind: kind(name),
            verbs: vec![WriteVerb::Create, WriteVerb::Update],
            fields: Vec::new(),
        });
        World {
            parent: ObjectRef {
                kind: Kind::new("c.example.com", "v1", "Memcached"),
                namespace: Some("n".into()),
                name: "parent".into(),
            },
            grant: Grant {
                rules,
                prune_all: false,
                finalize: Vec::new(),
                parent_metadata: Default::default(),
                host_namespace: "host".into(),
            },
            descriptor: Descriptor {
                name: "d".into(),
                version: "1".into(),
                parent: Kind::new("c.example.com", "v1", "Memcached"),
                owns: owns.to_vec(),
                ..Descriptor::default()
            },
            most_children: 500,
            most_fields: 1_000,
        }
    }

    /// A plugin that may do everything with ConfigMaps.
    fn maps() -> World {
        world(json!([{ "kind": "ConfigMap", "verbs": VERBS }]))
    }

    impl World {
        fn context(&self) -> Context<'_> {
            Context {
                parent: &self.parent,
                uid: "u-1",
                plugin: "demo",
                grant: &self.grant,
                descriptor: &self.descriptor,
                most_children: self.most_children,
                most_fields: self.most_fields,
                namespaced: Box::new(|kind| match &*kind.kind {
                    "Unknown" => None,
                    name => Some(name != "Node"),
                }),
                label_of: Box::new(|namespace, key| (namespace == "red" && key == "colour").then(|| "red".to_owned())),
            }
        }

        fn check(&self, children: &[Document], observed: usize) -> Result<Option<Vec<Desired>>, Denial> {
            let decision = decision(Children::Exactly(children.to_vec()));
            let there: Vec<_> = (0..observed).map(|n| child(&format!("old-{n}"), Some("n"), "{}").reference).collect();
            check(&decision, &there, &self.context())
        }

        /// Returns the first rule that this child breaks.
        fn broken(&self, child: &Document) -> Option<&'static str> {
            self.check(from_ref(child), 0).err().map(|denial| denial.rule())
        }

        fn body(&self, child: &Document) -> Value {
            Value::clone(&self.check(from_ref(child), 0).unwrap().unwrap()[0].body)
        }
    }

    fn decision(children: Children) -> Decision {
        Decision { children, ..Decision::default() }
    }

    fn child(name: &str, namespace: Option<&str>, json: &str) -> Document {
        let reference = ObjectRef { kind: kind("ConfigMap"), namespace: namespace.map(Into::into), name: name.into() };
        Document { reference, json: json.into() }
    }

    fn of_kind(name: &str, namespace: Option<&str>) -> Document {
        let mut child = child("a", namespace, "{}");
        child.reference.kind = kind(name);
        child
    }

    fn map(json: &str) -> Document {
        child("a", None, json)
    }

    #[test]
    fn a_decision_that_keeps_its_children_is_not_checked() {
        assert_eq!(check(&decision(Children::Keep), &[map("{}").reference], &maps().context()), Ok(None));
    }

    #[test]
    fn an_answer_without_children_deletes_nothing_unless_that_is_granted() {
        let mut world = maps();
        assert_eq!(world.check(&[], 1).unwrap_err().rule(), "prune-all");
        assert_eq!(world.check(&[], 0), Ok(Some(Vec::new())));
        assert!(world.check(&[map("{}")], 5).is_ok());
        world.grant.prune_all = true;
        assert_eq!(world.check(&[], 1), Ok(Some(Vec::new())));
    }

    #[test]
    fn children_that_nothing_deletes_leave_no_room_for_others() {
        let few =
            |verbs: &[&str]| World { most_children: 3, ..world(json!([{ "kind": "ConfigMap", "verbs": verbs }])) };
        let (may_delete, may_not) = (few(&VERBS), few(&["create", "update"]));
        let (new, old) = (map("{}"), child("old-0", None, "{}"));
        assert!(may_not.check(from_ref(&new), 2).is_ok());
        let violation = may_not.check(from_ref(&new), 3).unwrap_err();
        assert_eq!(violation.rule(), "too-many-children");
        assert!(
            violation.to_string().contains("3 children") && violation.to_string().contains("it would have 4"),
            "{violation}"
        );
        assert!(may_delete.check(from_ref(&new), 3).is_ok(), "the old ones are deleted");
        assert!(may_not.check(&[new.clone(), old.clone()], 2).is_ok(), "one of them is the same");
        assert_eq!(may_not.check(&[new, old.clone()], 3).unwrap_err().rule(), "too-many-children");
        assert!(may_not.check(&[old], 9).is_ok(), "nothing is added");
    }

    #[test]
    fn a_child_of_too_many_fields_denies_the_decision_and_is_checked_no_further() {
        let bulk = |keys: usize| {
            let data: Map<String, Value> = (0..keys).map(|key| (format!("k{key}"), json!(""))).collect();
            map(&json!({ "data": data }).to_string())
        };
        assert!(maps().check(&[bulk(999)], 0).is_ok());
        let denied = maps().check(&[bulk(1_000)], 0).unwrap_err();
        assert_eq!((denied.rule(), denied.count()), ("too-many-fields", 1));
        assert!(denied.to_string().contains("ConfigMap n/a: it has 1001 fields"), "{denied}");
        let world = World { most_fields: usize::MAX, ..maps() };
        let half =
            |name: &str| Document { reference: child(name, None, "").reference, ..bulk(DECISION_FIELDS / 2 - 1) };
        assert!(world.check(&[half("a"), half("b")], 0).is_ok());
        let denied = world.check(&[half("a"), half("b"), child("c", None, r#"{"data":{"k":""}}"#)], 0).unwrap_err();
        assert_eq!(denied.rule(), "too-many-fields");
    }

    #[test]
    fn an_admitted_child_is_completed_by_the_host() {
        let passed =
            maps().check(&[map(r#"{"data":{"k":"v"},"metadata":{"labels":{"l":"m"},"annotations":{"a":"b"}}}"#)], 0);
        let desired = passed.unwrap().unwrap().remove(0);
        assert_eq!(
            desired.reference,
            ObjectRef { kind: kind("ConfigMap"), namespace: Some("n".into()), name: "a".into() }
        );
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "k": "v" },
            "metadata": {
                "name": "a", "namespace": "n",
                "labels": { "l": "m", "app.kubernetes.io/managed-by": "hotshoe", "hotshoe.dev/plugin": "demo" },
                "annotations": {
                    "a": "b", "hotshoe.dev/applied": &*desired.digest,
                    "hotshoe.dev/parent": "Memcached.c.example.com/n/parent",
                },
                "ownerReferences": [{
                    "apiVersion": "c.example.com/v1", "kind": "Memcached", "name": "parent", "uid": "u-1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
        });
        assert_eq!(*desired.body, expected);
    }

    #[test]
    fn what_a_child_leaves_to_others_is_read_and_neither_written_nor_part_of_the_digest() {
        let leaving = map(r#"{"data":{"k":"v"},"metadata":{"annotations":{"hotshoe.dev/leave":"data.other"}}}"#);
        let plain = map(r#"{"data":{"k":"v"},"metadata":{"annotations":{}}}"#);
        let admitted = |child: &Document| maps().check(from_ref(child), 0).unwrap().unwrap().remove(0);
        assert_eq!(*admitted(&leaving).left, ["data.other".into()]);
        assert_eq!(admitted(&leaving).body, admitted(&plain).body);
        assert_eq!(maps().broken(&map(r#"{"metadata":{"annotations":{"hotshoe.dev/leave":"data["}}}"#)), Some("leave"));
    }

    #[test]
    fn a_child_is_made_anew_only_by_grant_and_its_strategy_is_neither_written_nor_part_of_the_digest() {
        let stating = |strategy: &str| {
            map(&json!({ "metadata": { "annotations": { "hotshoe.dev/update-strategy": strategy } } }).to_string())
        };
        let (recreated, in_place) = (stating("Recreate"), stating("InPlace"));
        let granting = |items: Value| {
            let mut rule = json!({ "kind": "ConfigMap", "verbs": VERBS });
            rule.as_object_mut().unwrap().extend(items.as_object().unwrap().clone());
            world(json!([rule]))
        };
        let granted = granting(json!({ "recreate": true }));
        let admitted = |child: &Document| granted.check(from_ref(child), 0).unwrap().unwrap().remove(0);
        assert_eq!(admitted(&recreated).strategy, UpdateStrategy::Recreate);
        assert_eq!(admitted(&in_place).strategy, UpdateStrategy::InPlace);
        assert_eq!(admitted(&recreated).body, admitted(&map(r#"{"metadata":{"annotations":{}}}"#)).body);
        assert_eq!(maps().broken(&in_place), None);
        let denied = maps().check(from_ref(&recreated), 0).unwrap_err();
        assert_eq!(denied.rule(), "recreate");
        assert!(denied.to_string().contains("recreate: true"), "{denied}");
        let keeping = granting(json!({ "recreate": true, "verbs": ["create", "update"] }));
        assert_eq!(keeping.broken(&recreated), Some("not-granted"), "the verb delete is needed, too");
        assert_eq!(maps().broken(&stating("Replace")), Some("update-strategy"));
        let with_data = granting(json!({ "recreate": true, "holdsData": true, "pruneData": true }));
        assert_eq!(with_data.broken(&recreated), Some("recreate-data"));
    }

    #[test]
    fn the_texts_of_a_secret_are_applied_as_its_data() {
        let secret = Document { json: r#"{"stringData":{"a":"1"}}"#.into(), ..of_kind("Secret", None) };
        let world = world(json!([{ "kind": "Secret", "verbs": VERBS, "names": ["a"] }]));
        let body = world.body(&secret);
        assert_eq!((&body["data"], &body["stringData"]), (&json!({ "a": "MQ==" }), &Value::Null));
    }

    #[test]
    fn the_digest_is_of_everything_but_itself() {
        let world = maps();
        let digest = |json: &str| world.check(&[map(json)], 0).unwrap().unwrap()[0].digest.clone();
        assert_eq!(digest("{}").len(), 32);
        assert!(digest("{}").bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(digest(r#"{"data":{}}"#), digest(r#"{ "data": {} }"#));
        assert_ne!(digest("{}"), digest(r#"{"data":{"a":"b"}}"#));
        // The first 16 bytes of SHA-256 of this body before its annotation.
        let mut body = world.body(&map("{}"));
        body["metadata"].as_object_mut().unwrap().remove("annotations");
        let whole = Digest::of(body.to_string().as_bytes()).full();
        assert!(whole.starts_with(&*digest("{}")), "{whole}");
    }

    #[test]
    fn a_desired_child_matches_its_object_in_any_version() {
        let desired = maps().check(&[map("{}")], 0).unwrap().unwrap().remove(0);
        let key = Key::new(Some("n"), "a");
        assert!(desired.reference.is(&Kind::new("", "v2", "ConfigMap"), &key), "whatever the version");
        assert!(!desired.reference.is(&kind("Secret"), &key));
        assert!(!desired.reference.is(&Kind::new("g", "v1", "ConfigMap"), &key));
        assert!(!desired.reference.is(&kind("ConfigMap"), &Key::new(Some("n"), "b")));
        assert!(!desired.reference.is(&kind("ConfigMap"), &Key::new(Some("m"), "a")));
        assert_eq!(super::key(&desired.reference), key);
    }

    #[test]
    fn one_bad_child_refuses_all() {
        let world = maps();
        let children = [map("{}"), child("b", Some("other"), "{}")];
        assert_eq!(world.check(&children, 0).unwrap_err().rule(), "foreign-namespace");
        let twice = [map("{}"), child("a", Some("n"), "{}")];
        assert_eq!(world.check(&twice, 0).unwrap_err().rule(), "duplicate-child");
        assert!(world.check(&[map("{}"), child("b", None, "{}")], 0).is_ok());
    }

    #[test]
    fn scope_is_resolved_before_anything_is_stamped() {
        let world = world(json!([
            { "kind": "Node", "verbs": VERBS, "namespaces": "cluster" },
            { "kind": "Unknown", "verbs": VERBS },
        ]));
        assert_eq!(world.broken(&of_kind("Unknown", None)), Some("kind-unknown"));
        assert_eq!(world.broken(&of_kind("Node", Some("n"))), Some("scope"));
        assert_eq!(world.broken(&of_kind("Node", None)), Some("foreign-namespace"), "no namespace is forced on it");
    }

    #[test]
    fn under_a_parent_without_a_namespace_a_child_names_its_own() {
        let mut world = world(json!([
            { "kind": "Node", "verbs": VERBS, "namespaces": "cluster" },
            { "kind": "ConfigMap", "verbs": VERBS, "namespaces": { "matchLabels": { "colour": "red" } } },
        ]));
        world.parent.namespace = None;
        assert_eq!(world.broken(&map("{}")), Some("scope"));
        assert_eq!(world.broken(&child("a", Some("red"), "{}")), None);
        assert_eq!(world.broken(&child("a", Some("blue"), "{}")), Some("namespace-not-granted"));
        assert_eq!(world.broken(&of_kind("Node", None)), None);
        assert!(world.body(&of_kind("Node", None))["metadata"].get("namespace").is_none());
    }

    #[test]
    fn under_a_parent_that_is_a_namespace_a_child_lies_in_that_one_unless_the_grant_gives_others() {
        let mut world = maps();
        world.parent = ObjectRef { kind: Kind::new("", "v1", "Namespace"), namespace: None, name: "team".into() };
        assert_eq!(world.body(&map("{}"))["metadata"]["namespace"], "team");
        assert_eq!(world.broken(&child("a", Some("team"), "{}")), None);
        for other in ["kube-system", "host", "other"] {
            assert!(world.broken(&child("a", Some(other), "{}")).is_some(), "{other}");
        }
        assert_eq!(world.broken(&child("a", Some("other"), "{}")), Some("namespace-not-granted"));
        world.parent.kind = Kind::new("c.example.com", "v1", "Namespace");
        assert_eq!(world.broken(&map("{}")), Some("scope"), "another kind of this name is no namespace");
    }

    #[test]
    fn an_invalid_name_is_refused_before_it_becomes_part_of_a_path() {
        for name in ["", "A", "a/b", "../a", "a..b", "-a", "a-", "a_b", "a%2f", "ä", &"a".repeat(254)] {
            assert_eq!(maps().broken(&child(name, None, "{}")), Some("name"), "{name}");
            assert_eq!(maps().broken(&child("a", Some(name), "{}")), Some("name"), "{name}");
        }
        for name in ["a", "0", "a-b.c-0", &"a".repeat(253)] {
            assert_eq!(maps().broken(&child(name, None, "{}")), None, "{name}");
        }
    }

    #[test]
    fn a_kind_that_describe_did_not_name_is_not_written() {
        let mut world = maps();
        world.descriptor.owns.retain(|owned| &*owned.kind.kind != "ConfigMap");
        assert_eq!(world.broken(&map("{}")), Some("kind-not-owned"));
        world.descriptor.owns.clear();
        assert_eq!(world.broken(&of_kind("Unknown", None)), Some("kind-not-owned"), "known to the API server or not");
    }

    #[test]
    fn an_owned_kind_without_verbs_still_needs_a_grant() {
        let mut world = world(json!([{ "kind": "ConfigMap", "verbs": ["get", "list", "watch", "create"] }]));
        world.descriptor.owns[0].verbs.clear();
        assert_eq!(world.broken(&map("{}")), Some("not-granted"));
    }

    #[test]
    fn the_gate_checks_the_final_body() {
        let world = world(json!([
            { "kind": "Pod", "verbs": VERBS },
            { "kind": "Secret", "verbs": VERBS },
        ]));
        let mut pod = of_kind("Pod", None);
        pod.json = r#"{"spec":{"automountServiceAccountToken":false,"hostNetwork":true}}"#.into();
        assert_eq!(world.broken(&pod), Some("pod-host-network"));
        pod.json = r#"{"spec":{"automountServiceAccountToken":false,"hostNetwork":null,"volumes":[]}}"#.into();
        assert_eq!(world.broken(&pod), None, "nulls are removed before the body is checked");
        pod.json = r#"{"spec":{"hostNetwork":false,"automountServiceAccountToken":false,"hostNetwork":true}}"#.into();
        assert_eq!(
            world.broken(&pod),
            Some("pod-host-network"),
            "of two members of the same name the last one is sent"
        );
        let mut secret = of_kind("Secret", None);
        secret.json = r#"{"type":"kubernetes.io/service-account-token"}"#.into();
        assert_eq!(world.broken(&secret), Some("secret-type"));
    }

    #[test]
    fn a_kind_that_describe_does_not_ask_to_change_is_created_once_and_needs_no_grant_to_change_it() {
        let mut world = world(json!([{ "kind": "ConfigMap", "verbs": ["create"] }]));
        assert_eq!(world.broken(&map("{}")), Some("not-granted"), "it asks for `update`, too");
        world.descriptor.owns[0].verbs = vec![WriteVerb::Create, WriteVerb::Delete];
        let desired = world.check(&[map("{}")], 0).unwrap().unwrap();
        assert!(desired[0].is_created_once);
        world.descriptor.owns[0].verbs = Vec::new();
        assert_eq!(world.broken(&map("{}")), Some("not-granted"), "a kind without verbs is applied as usual");
    }

    #[test]
    fn the_hosts_namespace_is_closed_to_children_of_parents_in_it() {
        let mut world = maps();
        world.parent.namespace = Some("host".into());
        assert_eq!(world.broken(&map("{}")), Some("host-namespace"));
    }

    #[test]
    fn metadata_that_only_the_host_sets_is_refused() {
        for field in [
            "ownerReferences",
            "finalizers",
            "managedFields",
            "uid",
            "resourceVersion",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "creationTimestamp",
            "generateName",
            "selfLink",
            "odd",
        ] {
            let body = json!({ "metadata": { field: "x" } }).to_string();
            assert_eq!(maps().broken(&map(&body)), Some("metadata"), "{field}");
        }
        for field in ["labels", "annotations"] {
            for key in ["hotshoe.dev/plugin", "hotshoe.dev/x", "kubectl.kubernetes.io/last-applied-configuration"] {
                let body = json!({ "metadata": { field: { key: "x" } } }).to_string();
                assert_eq!(maps().broken(&map(&body)), Some("metadata"), "{key}");
            }
            for wrong in [json!("x"), json!({ "a": 1 })] {
                assert_eq!(maps().broken(&map(&json!({ "metadata": { field: wrong } }).to_string())), Some("metadata"));
            }
            let fine = json!({ "metadata": { field: { "a": "b", "nothotshoe.dev/a": "b" } } }).to_string();
            assert_eq!(maps().broken(&map(&fine)), None);
        }
        assert_eq!(maps().broken(&map(r#"{"metadata":"x"}"#)), Some("metadata"));
        let generated = maps().check(&[map(r#"{"metadata":{"generateName":"a-"}}"#)], 0).unwrap_err().to_string();
        assert!(
            generated.contains("metadata.generateName") && generated.contains("derive metadata.name"),
            "{generated}"
        );
    }

    #[test]
    fn the_body_agrees_with_the_reference() {
        for body in [
            json!({ "apiVersion": "v2" }),
            json!({ "kind": "Secret" }),
            json!({ "kind": 1 }),
            json!({ "metadata": { "name": "b" } }),
            json!({ "metadata": { "namespace": "other" } }),
        ] {
            assert_eq!(maps().broken(&map(&body.to_string())), Some("identity"), "{body}");
        }
        let same = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "n" } });
        assert_eq!(maps().broken(&map(&same.to_string())), None);
    }

    #[test]
    fn the_status_of_a_child_is_not_a_plugins_to_set() {
        assert_eq!(maps().broken(&map(r#"{"status":{}}"#)), Some("status"));
        assert_eq!(maps().broken(&map(r#"{"status":null}"#)), None);
    }

    #[test]
    fn invalid_or_too_deep_json_is_refused() {
        for json in ["", "nonsense", "[]", "1", "null", r#"{"a":NaN}"#] {
            assert_eq!(maps().broken(&map(json)), Some("json"), "{json}");
        }
        let nested =
            |depth: usize, open: &str, close: &str| format!("{{\"d\":{}1{}}}", open.repeat(depth), close.repeat(depth));
        assert_eq!(maps().broken(&map(&nested(MAX_DEPTH - 1, "[", "]"))), None);
        assert_eq!(maps().broken(&map(&nested(MAX_DEPTH, "[", "]"))), Some("json-depth"));
        assert_eq!(maps().broken(&map(&nested(MAX_DEPTH, "{\"a\":", "}"))), Some("json-depth"));
        assert_eq!(maps().broken(&map(&nested(MAX_DEPTH - 1, "{\"a\":", "}"))), None);
    }

    #[test]
    fn nulls_are_left_out_and_what_is_empty_stays() {
        let body = maps().body(&map(
            r#"{"a":null,"b":[],"c":{},"d":[null,1,[],{"e":null,"f":0}],"g":[[[]]],"h":"","i":{"j":[null]}}"#,
        ));
        let mut members = body.as_object().unwrap().clone();
        members.retain(|key, _| !["apiVersion", "kind", "metadata"].contains(&key.as_str()));
        assert_eq!(
            Value::Object(members),
            json!({ "b": [], "c": {}, "d": [1, [], { "f": 0 }], "g": [[[]]], "h": "", "i": { "j": [] } })
        );
        assert_eq!(maps().body(&map(r#"{"c":[1],"d":{"e":[{}]}}"#))["d"], json!({ "e": [{}] }));
    }

    #[test]
    fn nulls_are_found_at_any_depth() {
        for (value, left) in [
            (json!(null), None),
            (json!([]), Some(json!([]))),
            (json!([null]), Some(json!([]))),
            (json!([1, null]), Some(json!([1]))),
            (json!([1, { "a": null }]), Some(json!([1, {}]))),
            (json!({ "a": null }), Some(json!({}))),
            (json!({ "a": [[null]] }), Some(json!({ "a": [[]] }))),
            (json!({ "a": { "b": [] } }), Some(json!({ "a": { "b": [] } }))),
            (json!([0, false, "", {}]), Some(json!([0, false, "", {}]))),
        ] {
            let body = maps().body(&map(&json!({ "field": value }).to_string()));
            assert_eq!(body.get("field"), left.as_ref(), "{value}");
        }
    }

    #[test]
    fn a_child_is_pruned_through_the_same_gate() {
        let world = world(json!([
            { "kind": "ConfigMap", "verbs": ["delete"] },
            { "kind": "Node", "verbs": ["delete"], "namespaces": "cluster" },
            { "kind": "Secret", "verbs": ["create"] },
        ]));
        let prune = |kind: &str, namespace: Option<&str>| {
            check_prune(&of_kind(kind, namespace).reference, &world.context()).err().map(|denial| denial.rule())
        };
        assert_eq!(prune("ConfigMap", Some("n")), None);
        assert_eq!(prune("ConfigMap", Some("other")), Some("foreign-namespace"));
        assert_eq!(prune("ConfigMap", None), Some("scope"));
        assert_eq!(prune("Secret", Some("n")), Some("not-granted"));
        assert_eq!(prune("Node", None), Some("foreign-namespace"));
        assert_eq!(prune("Unknown", None), Some("kind-unknown"));
    }

    #[test]
    fn labels_of_our_own_replace_those_that_a_plugin_sets() {
        let body = maps().body(&map(r#"{"metadata":{"labels":{"app.kubernetes.io/managed-by":"helm"}}}"#));
        assert_eq!(body["metadata"]["labels"]["app.kubernetes.io/managed-by"], "hotshoe");
    }
}
