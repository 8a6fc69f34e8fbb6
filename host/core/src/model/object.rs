//! An object of the cluster as the host caches it: the fields that the host itself needs, typed, and the
//! fields that plugins asked for as pruned JSON text.
//!
//! Part of *observe*: `cluster::watch` makes objects of watch events, `cluster::apply` of the replies to writes.
//! `managedFields` are 40 % of an object's bytes, so of those of other field managers only the setters of finalizers
//! are kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::field_path;
use crate::model::kind::{Key, Kind, ObjectRef};
use crate::model::limits::STATUS_BYTES;
use crate::model::managed_fields::FieldSet;
use crate::model::projection::{self, Members, Opened, Projection};

/// The prefix of labels and annotations that are the host's.
pub const HOST_PREFIX: &str = "hotshoe.dev/";
/// The host's label on every child: the name of the plugin that decided it.
pub const PLUGIN_LABEL: &str = "hotshoe.dev/plugin";
/// The host's annotation on every child: the digest of what was applied last.
pub const APPLIED_ANNOTATION: &str = "hotshoe.dev/applied";

/// The host's annotation on every child: the parent for which it was applied last. By it a child without a controller
/// is recognised, such as one that was restored from a backup. It is added when a child is written for another reason.
pub const PARENT_ANNOTATION: &str = "hotshoe.dev/parent";
/// The annotation of a desired child that names the fields that the plugin leaves to others. It is never written.
pub const LEAVE_ANNOTATION: &str = "hotshoe.dev/leave";
/// The annotation of a desired child that says what becomes of it where it cannot change. It is never written.
pub const UPDATE_STRATEGY_ANNOTATION: &str = "hotshoe.dev/update-strategy";

/// The owner reference with `controller: true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// `apiVersion` of the owner.
    pub api_version: Box<str>,
    /// `kind` of the owner.
    pub kind: Box<str>,
    /// `name` of the owner.
    pub name: Arc<str>,
    /// `uid` of the owner.
    pub uid: Arc<str>,
}

impl Controller {
    /// Returns the API group of the owner; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// An entry of `managedFields`: the fields that one of the host's field managers applied, that a plugin's field manager
/// has by an update, or that were left to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The field manager.
    pub manager: Box<str>,
    /// Whether the entry is about the `status` subresource.
    pub status: bool,
    /// Whether the fields were applied, and not set by an update.
    pub applied: bool,
    /// `fieldsV1` as JSON text.
    pub fields: Box<str>,
}

/// The maximum length of the name of a Kubernetes object, in bytes.
const MAX_NAME_BYTES: usize = 253;

/// A status as JSON text. Where plugins see the whole status, its text is kept only once, in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusText {
    /// A text of its own.
    Own(Box<str>),
    /// This part of the object's body.
    InBody(Range<usize>),
}

impl StatusText {
    fn new(status: &str, body: &str) -> Self {
        // Any occurrence will do: it is the same text. Mostly it is the last member.
        let last = body.strip_suffix('}').and_then(|members| members.strip_suffix(status)).map(str::len);
        match last.or_else(|| body.find(status)) {
            Some(start) => Self::InBody(start..start + status.len()),
            None => Self::Own(status.into()),
        }
    }
}

/// The bytes of the finalizers that are kept of an object without its content.
const MAX_FINALIZER_BYTES: usize = 4096;
/// The maximum length of an annotation of the host's and of each part of a controller reference, in bytes. The host writes
/// shorter ones, and an object with longer ones is no child.
const MAX_REFERENCE_BYTES: usize = 1024;

/// The memory of an object beside its texts, in bytes.
pub const OBJECT_OVERHEAD_BYTES: usize = 1024;

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Namespace and name.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`: a decimal number in every API server since 1.35.
    pub resource_version: u64,
    /// `metadata.generation`, 0 where the kind has none.
    pub generation: i64,
    /// The controlling owner.
    pub controller: Option<Controller>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.deletionTimestamp`, so that the body need not be parsed to know how long a deletion takes.
    pub deleted_at: Option<Box<str>>,
    /// `metadata.finalizers`.
    pub finalizers: Box<[Box<str>]>,
    /// The labels that the [`KeptFields`] keeps.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The annotation `hotshoe.dev/applied`.
    pub applied: Option<Box<str>>,
    /// The annotation `hotshoe.dev/parent`, where the object has no controller.
    pub orphan_of: Option<Box<str>>,
    /// What the host's own field managers applied, on the object and on its `status` subresource.
    pub ownership: Box<[Ownership]>,
    /// Which field manager set which of the finalizers, by `managedFields`: pairs of manager and finalizer.
    pub setters: Box<[(Box<str>, Box<str>)]>,
    /// `status`, for parents.
    pub status: Option<StatusText>,
    /// A fingerprint of labels and annotations, for parents.
    pub marks: u64,
    /// For children, what the object has that a plugin may only set with an item of its grant (see
    /// [`check::result`](crate::check::result)).
    pub needs_grant: Box<[Box<str>]>,
    /// What plugins see: a JSON object.
    pub body: Arc<str>,
    /// Why the object is kept [without its content](Self::without_content); none if it is whole.
    pub reduced: Option<Reduced>,
}

/// Why an object is kept without its content. Nothing may be decided by such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduced {
    /// It has the label of a plugin, but it is no child of a known parent. Anyone may label objects.
    NoParent,
    /// There is no room for it in the memory of all watches.
    NoRoom,
}

/// The parts of the objects of one kind that the host keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFields {
    /// The fields that plugins see.
    pub projection: Projection,
    /// Labels to keep beside the plugin label.
    pub labels: Vec<String>,
    /// Whether the whole status is kept beside the projection: for parents.
    pub status: bool,
}

impl KeptFields {
    /// Returns whether only metadata is kept.
    pub fn is_of_metadata(&self) -> bool {
        !self.status && self.projection.is_of_metadata()
    }
}

/// A text that `fieldsV1` of every setter of a finalizer contains.
const FINALIZERS: &str = "\"f:finalizers\"";

/// The host's own field manager.
pub const HOST_MANAGER: &str = "hotshoe";

/// The field manager of the fields that plugins have left to others. It owns them by an update, so that the next writer
/// becomes their owner.
pub const LEFT_MANAGER: &str = "hotshoe-left";

/// Returns the value of the annotation that names a parent: `KIND.GROUP/NAMESPACE/NAME`. It has no uid, because it is
/// to recognise the children of a former parent of the same name.
pub fn parent_mark(parent: &ObjectRef) -> String {
    match &parent.namespace {
        Some(namespace) => format!("{}/{namespace}/{}", parent.kind, parent.name),
        None => format!("{}/{}", parent.kind, parent.name),
    }
}

/// Returns the field manager of a plugin.
pub fn plugin_manager(plugin: &str) -> String {
    format!("{HOST_MANAGER}/{plugin}")
}

/// Returns the field manager of what a plugin states of the metadata of its parents. No other write has it, because an
/// apply removes what its field manager has applied before and leaves out.
pub fn metadata_manager(plugin: &str) -> String {
    format!("{HOST_MANAGER}/{plugin}/metadata")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    /// Empty as long as the API server has not made one of `generateName`.
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    generation: i64,
    #[serde(borrow, default)]
    deletion_timestamp: Option<&'a RawValue>,
    #[serde(default)]
    finalizers: Vec<Box<str>>,
    #[serde(borrow, default)]
    labels: Option<Members<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Members<'a>>,
    #[serde(borrow, default)]
    owner_references: Vec<OwnerReference<'a>>,
    #[serde(borrow, default)]
    managed_fields: Vec<ManagedFields<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFields<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default)]
    fields_v1: Option<&'a RawValue>,
}

/// The observed children of one parent, of every watched kind.
pub type ObservedChildren = Vec<(Kind, Arc<Object>)>;

impl Object {
    /// Reads an object from the API server's JSON.
    ///
    /// # Errors
    /// When the text is not a Kubernetes object.
    pub fn read(json: &str, kept_fields: &KeptFields) -> serde_json::Result<Self> {
        let object: Opened<'_> = serde_json::from_str(json)?;
        let metadata = Metadata::of(&object)?;
        let status = if kept_fields.status { member(&object.rest, "status") } else { None };
        let body: Arc<str> = kept_fields.projection.project_opened(&object)?.into();
        let controller = metadata.controller();
        Ok(Self {
            key: Key::new(Some(&*metadata.namespace).filter(|namespace| !namespace.is_empty()), &metadata.name),
            uid: metadata.uid.as_ref().into(),
            resource_version: metadata.resource_version.parse().unwrap_or(0),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            deleted_at: metadata.deletion_timestamp.and_then(|time| serde_json::from_str(time.get()).ok()),
            labels: metadata.kept_labels(&kept_fields.labels),
            applied: metadata.annotation(APPLIED_ANNOTATION),
            orphan_of: match &controller {
                Some(_) => None,
                None => metadata.annotation(PARENT_ANNOTATION),
            },
            controller,
            ownership: metadata.managed_fields.iter().filter_map(ManagedFields::ours).collect(),
            setters: metadata.setters(),
            status: status.map(|status| StatusText::new(status, &body)),
            marks: if kept_fields.status { metadata.marks() } else { 0 },
            needs_grant: Box::default(),
            reduced: None,
            body,
            finalizers: metadata.finalizers.into(),
        })
    }

    /// Returns the value of a label that the kept_fields kept.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| &**k == key).map(|(_, v)| &**v)
    }

    /// Returns the memory of the object in bytes, including its places in the indexes.
    pub fn held(&self) -> usize {
        OBJECT_OVERHEAD_BYTES + self.content()
    }

    /// Returns the memory of the object's content in bytes: of what users choose the size of.
    pub fn content(&self) -> usize {
        let texts = |texts: &[Box<str>]| texts.iter().map(|text| text.len()).sum::<usize>();
        let fields: usize = self.ownership.iter().map(|entry| entry.fields.len()).sum();
        let setters: usize = self.setters.iter().map(|(manager, finalizer)| manager.len() + finalizer.len()).sum();
        let status = match &self.status {
            Some(StatusText::Own(status)) => status.len(),
            Some(StatusText::InBody(_)) | None => 0,
        };
        let mark = self.orphan_of.as_ref().map_or(0, |mark| mark.len());
        self.body.len() + status + fields + setters + mark + texts(&self.needs_grant) + texts(&self.finalizers)
    }

    /// Returns the object without its content. Keeps what identifies it, its controller, its finalizers, and the status
    /// of a parent, which only the host and its plugins write; the last two only if they are small. So the object stays
    /// known, and takes little memory.
    #[must_use]
    pub fn without_content(self, why: Reduced) -> Self {
        let status = self.status().filter(|status| status.len() <= STATUS_BYTES.bytes());
        let finalizers: usize = self.finalizers.iter().map(|finalizer| finalizer.len()).sum();
        let finalizers = if finalizers <= MAX_FINALIZER_BYTES { self.finalizers.clone() } else { Box::default() };
        Self {
            status: status.map(|status| StatusText::Own(status.into())),
            finalizers,
            ownership: Box::default(),
            setters: Box::default(),
            needs_grant: Box::default(),
            body: "{}".into(),
            reduced: Some(why),
            ..self
        }
    }

    /// Returns `status` as JSON text, for parents.
    pub fn status(&self) -> Option<&str> {
        match self.status.as_ref()? {
            StatusText::Own(status) => Some(status),
            StatusText::InBody(place) => self.body.get(place.clone()),
        }
    }

    /// Returns the labels by which objects are indexed: all that are kept except the plugin label.
    pub fn indexed_labels(&self) -> impl Iterator<Item = &(Box<str>, Box<str>)> {
        self.labels.iter().filter(|(key, _)| &**key != PLUGIN_LABEL)
    }

    /// Returns the name of another object in the field at this [path](field_path); none if the value is not a string,
    /// or empty, or too long for a name.
    pub fn name_at(&self, path: &str) -> Option<Arc<str>> {
        let mut json = &*self.body;
        for field in field_path::keys(path).ok()? {
            json = member(&serde_json::from_str(json).ok()?, field)?;
        }
        let projection::Key(name) = serde_json::from_str(json).ok()?;
        (!name.is_empty() && name.len() <= MAX_NAME_BYTES).then(|| name.into())
    }

    /// Returns `fieldsV1` of what one of the host's field managers applied, or of what was left to others.
    pub fn owned_fields(&self, manager: &str, status: bool) -> Option<&str> {
        let applied = manager != LEFT_MANAGER;
        let is_it =
            |entry: &&Ownership| &*entry.manager == manager && entry.status == status && entry.applied == applied;
        self.ownership.iter().find(is_it).map(|entry| &*entry.fields)
    }

    /// Returns whether a plugin's field manager owns fields of the object by an update: a repair has set them. They would
    /// stay when a later apply leaves them out.
    pub fn has_update_by(&self, manager: &str) -> bool {
        self.ownership.iter().any(|entry| &*entry.manager == manager && !entry.applied)
    }

    /// Returns the field managers that set a finalizer.
    pub fn setters_of(&self, finalizer: &str) -> impl Iterator<Item = &str> {
        self.setters.iter().filter(move |(_, set)| **set == *finalizer).map(|(manager, _)| &**manager)
    }

    /// Returns the annotations that are kept.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let metadata = serde_json::from_str(&self.body).ok();
        let annotations = metadata.and_then(|body| {
            let metadata: Members<'_> = serde_json::from_str(member(&body, "metadata")?).ok()?;
            serde_json::from_str(member(&metadata, "annotations")?).ok()
        });
        annotations.unwrap_or_default()
    }

    /// Returns the members that plugins see, without the status.
    pub fn body_but_status(&self) -> Vec<(Cow<'_, str>, &str)> {
        let members: Option<Members<'_>> = serde_json::from_str(&self.body).ok();
        let members = members.into_iter().flat_map(|members| members.0);
        members.filter(|(key, _)| key != "status").map(|(key, value)| (key, value.get())).collect()
    }
}

/// A field manager of an object, and the fields that it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManager {
    /// The name of the field manager, the host's or another.
    pub manager: String,
    /// Whether it owns them by server-side apply of the object itself, not of a subresource.
    pub applied: bool,
    /// `fieldsV1` as JSON text.
    pub fields: Box<str>,
}

impl FieldManager {
    /// Returns all field managers of an object. An entry for a subresource may own fields outside of it: the Deployment
    /// controller owns annotations by its writes of the status.
    ///
    /// # Errors
    /// When the text is not a Kubernetes object.
    pub fn all_of(json: &str) -> serde_json::Result<Vec<Self>> {
        let metadata = Metadata::of(&serde_json::from_str(json)?)?;
        let manager = |entry: &ManagedFields<'_>| {
            let fields = entry.fields_v1?.get().into();
            let applied = entry.operation == "Apply" && entry.subresource.is_empty();
            Some(Self { manager: entry.manager.as_ref().into(), applied, fields })
        };
        Ok(metadata.managed_fields.iter().filter_map(manager).collect())
    }
}

fn member<'a>(members: &Members<'a>, key: &str) -> Option<&'a str> {
    members.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.get())
}

impl<'a> Metadata<'a> {
    /// # Errors
    /// When a field that the host needs is missing or has the wrong type.
    fn of(object: &Opened<'a>) -> serde_json::Result<Self> {
        let members = object.metadata.as_ref().map_or(&[][..], |members| &members.0);
        Metadata::deserialize(MapDeserializer::new(members.iter().map(|(key, value)| (&**key, *value))))
    }

    fn controller(&self) -> Option<Controller> {
        let owner = self.owner_references.iter().find(|owner| owner.controller == Some(true))?;
        let parts = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
        // Users choose the reference, and it is kept of objects that are no children, too.
        if parts.iter().any(|part| part.len() > MAX_REFERENCE_BYTES) {
            return None;
        }
        Some(Controller {
            api_version: owner.api_version.as_ref().into(),
            kind: owner.kind.as_ref().into(),
            name: owner.name.as_ref().into(),
            uid: owner.uid.as_ref().into(),
        })
    }

    /// Returns the setters of the finalizers. Most objects have no finalizer, and most field managers set none, so both
    /// are skipped early.
    fn setters(&self) -> Box<[(Box<str>, Box<str>)]> {
        let mut setters = Vec::new();
        for entry in self.managed_fields.iter().filter(|_| !self.finalizers.is_empty()) {
            let Some(fields) = entry.fields_v1.map(RawValue::get).filter(|fields| fields.contains(FINALIZERS)) else {
                continue;
            };
            let Ok(fields) = FieldSet::read(fields) else { continue };
            let Some(set) = fields.member("metadata").and_then(|metadata| metadata.member("finalizers")) else {
                continue;
            };
            for finalizer in &self.finalizers {
                if set.element(&Value::from(&**finalizer)).is_some() {
                    setters.push((entry.manager.as_ref().into(), finalizer.clone()));
                }
            }
        }
        setters.into()
    }

    fn marks(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for members in [&self.labels, &self.annotations] {
            let members = members.iter().flat_map(|members| &members.0);
            members.for_each(|(key, value)| (key, value.get()).hash(&mut hasher));
        }
        hasher.finish()
    }

    fn text(&self, members: Option<&Members<'_>>, key: &str) -> Option<Box<str>> {
        serde_json::from_str(member(members?, key)?).ok()
    }

    /// Returns an annotation of the host's. Users may write others in its place, of any length.
    fn annotation(&self, key: &str) -> Option<Box<str>> {
        self.text(self.annotations.as_ref(), key).filter(|value| value.len() <= MAX_REFERENCE_BYTES)
    }

    fn kept_labels(&self, keys: &[String]) -> Box<[(Box<str>, Box<str>)]> {
        let labels = self.labels.as_ref();
        std::iter::once(PLUGIN_LABEL)
            .chain(keys.iter().map(String::as_str))
            .filter_map(|key| Some((key.into(), self.text(labels, key)?)))
            .collect()
    }
}

impl ManagedFields<'_> {
    /// Returns the entry, if one of the host's field managers applied it, if a plugin's has it by an update, or if it is
    /// about fields that were left. The host's own updates are of finalizers, which no apply of a child sets.
    fn ours(&self) -> Option<Ownership> {
        let rest = self.manager.strip_prefix(HOST_MANAGER)?;
        let (applied, status) = (self.operation == "Apply", self.subresource == "status");
        let is_plugin = rest.starts_with('/');
        let ours = match applied {
            true => rest.is_empty() || is_plugin,
            false => self.manager == LEFT_MANAGER || (is_plugin && !status),
        };
        let fields = self.fields_v1.filter(|_| ours && (status || self.subresource.is_empty()))?;
        Some(Ownership { manager: self.manager.as_ref().into(), status, applied, fields: fields.get().into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_fields() -> KeptFields {
        KeptFields { projection: Projection::new(&["spec.replicas"]), labels: vec!["app".into()], status: false }
    }

    #[test]
    fn reads_what_the_host_needs_and_prunes_the_rest() {
        let json = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"42","generation":3,
            "labels":{"app":"x","other":"y","hotshoe.dev/plugin":"memcached"},"annotations":{"hotshoe.dev/applied":"d"},
            "ownerReferences":[{"apiVersion":"c/v1","kind":"M","name":"a","uid":"p","controller":true}],
            "managedFields":[{"manager":"kubectl","operation":"Apply","fieldsV1":{"f:x":{}}},
              {"manager":"hotshoe/memcached","operation":"Apply","fieldsV1":{"f:spec":{}}},
              {"manager":"hotshoe-not","operation":"Apply","fieldsV1":{"f:y":{}}}]},
            "spec":{"replicas":2,"paused":true},"status":{"replicas":2}}"#;
        let object = Object::read(json, &kept_fields()).unwrap();
        assert_eq!(object.key, Key::new(Some("n"), "a"));
        assert_eq!((object.resource_version, object.generation, object.deleting), (42, 3, false));
        assert_eq!(object.controller.as_ref().map(|owner| &*owner.uid), Some("p"));
        assert_eq!(object.label("app"), Some("x"));
        assert_eq!(object.label(PLUGIN_LABEL), Some("memcached"));
        assert_eq!(object.label("other"), None);
        assert_eq!(object.applied.as_deref(), Some("d"));
        assert_eq!(object.owned_fields("hotshoe/memcached", false), Some(r#"{"f:spec":{}}"#));
        assert_eq!(object.ownership.len(), 1);
        assert_eq!(
            &*object.body,
            r#"{"metadata":{"name":"a","namespace":"n","uid":"u","generation":3},"spec":{"replicas":2}}"#
        );
    }

    #[test]
    fn what_a_plugin_applied_is_distinguished_from_what_it_updated_and_what_was_left() {
        let json = r#"{"metadata":{"name":"a","managedFields":[
            {"manager":"hotshoe/a","operation":"Update","fieldsV1":{"f:spec":{}}},
            {"manager":"hotshoe/a","operation":"Apply","fieldsV1":{"f:x":{}}},
            {"manager":"hotshoe/b","operation":"Update","subresource":"status","fieldsV1":{"f:status":{}}},
            {"manager":"hotshoe","operation":"Update","fieldsV1":{"f:metadata":{"f:finalizers":{}}}},
            {"manager":"hotshoe-left","operation":"Update","fieldsV1":{"f:left":{}}}]}}"#;
        let object = Object::read(json, &kept_fields()).unwrap();
        assert_eq!(object.owned_fields("hotshoe/a", false), Some(r#"{"f:x":{}}"#));
        assert_eq!(object.owned_fields(LEFT_MANAGER, false), Some(r#"{"f:left":{}}"#));
        assert_eq!((object.owned_fields("hotshoe/b", true), object.owned_fields(HOST_MANAGER, false)), (None, None));
        let updated = ["hotshoe/a", "hotshoe/b", HOST_MANAGER].map(|manager| object.has_update_by(manager));
        assert_eq!(updated, [true, false, false]);
    }

    #[test]
    fn an_object_without_its_content_keeps_what_identifies_it_and_little_else() {
        let large = "x".repeat(100_000);
        let json = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"42","deletionTimestamp":"2026-01-01T00:00:00Z",
            "labels":{{"hotshoe.dev/plugin":"memcached"}},"annotations":{{"hotshoe.dev/applied":"{large}"}},"finalizers":["a/b"],
            "ownerReferences":[{{"apiVersion":"c/v1","kind":"M","name":"a","uid":"p","controller":true}}],
            "managedFields":[{{"manager":"hotshoe/memcached","operation":"Apply","fieldsV1":{{"f:{large}":{{}}}}}}]}},
            "spec":{{"replicas":"{large}"}},"status":{{"ready":1}}}}"#
        );
        let whole = Object::read(&json, &KeptFields { status: true, ..kept_fields() }).unwrap();
        assert!(whole.content() > 200_000 && whole.reduced.is_none());
        let reduced = whole.clone().without_content(Reduced::NoParent);
        assert!(reduced.content() < 100 && reduced.held() < OBJECT_OVERHEAD_BYTES + 100);
        let identity = |object: &Object| (object.key.clone(), object.uid.clone(), object.resource_version);
        assert_eq!(identity(&reduced), identity(&whole));
        assert_eq!((&reduced.controller, &reduced.finalizers), (&whole.controller, &whole.finalizers));
        assert_eq!(reduced.status(), Some(r#"{"ready":1}"#));
        assert_eq!(reduced.deleted_at.as_deref(), Some("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn a_controller_reference_that_is_too_long_for_a_parent_is_none() {
        let of = |name: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"a","ownerReferences":[{{"apiVersion":"c/v1","kind":"M","name":"{name}","uid":"p","controller":true}}]}}}}"#
            );
            Object::read(&json, &kept_fields()).unwrap().controller
        };
        assert!(of(&"x".repeat(MAX_NAME_BYTES)).is_some());
        assert!(of(&"x".repeat(MAX_REFERENCE_BYTES + 1)).is_none());
    }

    #[test]
    fn a_name_in_a_field_is_found_by_its_path() {
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        let spec = format!(
            r#"{{"pod":"web-0","deep":{{"\u0065r":"x"}},"example.com/x":"y","count":3,"list":["a"],"none":"","long":"{long}"}}"#
        );
        let kept_fields = KeptFields { projection: Projection::new(&["spec"]), ..kept_fields() };
        let object = Object::read(&format!(r#"{{"metadata":{{"name":"a"}},"spec":{spec}}}"#), &kept_fields).unwrap();
        let found = |path: &str| object.name_at(path).map(|name| name.to_string());
        assert_eq!(found("spec.pod").as_deref(), Some("web-0"));
        assert_eq!(found("spec.deep.er").as_deref(), Some("x"));
        assert_eq!(found("spec['example.com/x']").as_deref(), Some("y"));
        for path in
            ["spec", "spec.count", "spec.list", "spec.list.0", "spec.none", "spec.long", "spec.pod.x", "status.x", ""]
        {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn a_status_that_plugins_see_whole_is_kept_once() {
        let json = r#"{"metadata":{"name":"a"},"spec":{"replicas":1},"status":{"ready":1,"word":"a long one"}}"#;
        let read = |fields: &[&str], status| {
            let kept_fields = KeptFields { projection: Projection::new(fields), labels: Vec::new(), status };
            Object::read(json, &kept_fields).unwrap()
        };
        let status = r#"{"ready":1,"word":"a long one"}"#;
        for (fields, held_twice) in
            [(&["spec", "status"][..], 0), (&["spec"], status.len()), (&["status.word"], status.len())]
        {
            let (parent, other) = (read(fields, true), read(fields, false));
            assert_eq!((parent.status(), other.status()), (Some(status), None), "{fields:?}");
            assert_eq!(parent.held() - other.held(), held_twice, "{fields:?}");
        }
    }

    #[test]
    fn setters_of_finalizers_are_read_from_managed_fields() {
        let fields = |set: &str| format!(r#"{{"f:metadata":{{"f:finalizers":{{".":{{}},{set}}}}}}}"#);
        let (one, both) = (fields(r#""v:\"a/1\"":{}"#), fields(r#""v:\"a/1\"":{},"v:\"a/2\"":{}"#));
        let json = format!(
            r#"{{"metadata":{{"name":"a","finalizers":["a/1","a/2","a/3"],"managedFields":[
            {{"manager":"x","operation":"Update","fieldsV1":{one}}},{{"manager":"y","operation":"Apply","fieldsV1":{both}}},
            {{"manager":"z","operation":"Update","fieldsV1":{{"f:spec":{{}}}}}},{{"manager":"none","operation":"Update"}},
            {{"manager":"odd","operation":"Update","fieldsV1":["f:finalizers"]}}]}}}}"#
        );
        let object = Object::read(&json, &kept_fields()).unwrap();
        let setters = |finalizer| object.setters_of(finalizer).collect::<Vec<_>>();
        assert_eq!((setters("a/1"), setters("a/2"), setters("a/3")), (vec!["x", "y"], vec!["y"], vec![]));
    }

    #[test]
    fn every_field_manager_is_listed_with_whether_it_applied_the_object_itself() {
        let json = r#"{"metadata":{"name":"a","managedFields":[{"manager":"kubectl","operation":"Update","fieldsV1":{"f:x":{}}},
            {"manager":"hotshoe/demo","operation":"Apply","fieldsV1":{"f:y":{}}},{"manager":"no-fields","operation":"Apply"},
            {"manager":"of-status","operation":"Apply","subresource":"status","fieldsV1":{"f:status":{}}}]}}"#;
        let managers = FieldManager::all_of(json).unwrap();
        let listed: Vec<_> = managers.iter().map(|one| (&*one.manager, one.applied, &*one.fields)).collect();
        let of_status = ("of-status", false, r#"{"f:status":{}}"#);
        assert_eq!(listed, [("kubectl", false, r#"{"f:x":{}}"#), ("hotshoe/demo", true, r#"{"f:y":{}}"#), of_status]);
        assert!(FieldManager::all_of(r#"{"metadata":{"name":"a"}}"#).unwrap().is_empty());
    }

    #[test]
    fn marks_of_a_parent_change_with_its_labels_and_annotations() {
        let marks = |metadata: &str, status| {
            let json = format!(r#"{{"metadata":{{"name":"a",{metadata}}}}}"#);
            Object::read(&json, &KeptFields { status, ..kept_fields() }).unwrap().marks
        };
        let (plain, marked) = (r#""resourceVersion":"1""#, r#""annotations":{"a":"b"}"#);
        assert_eq!(marks(plain, true), marks(r#""resourceVersion":"2""#, true));
        assert_ne!(marks(plain, true), marks(marked, true));
        assert_ne!(marks(marked, true), marks(r#""annotations":{"a":"c"}"#, true));
        assert_eq!(marks(marked, false), 0, "a child has no marks");
    }

    #[test]
    fn an_object_with_only_a_name_is_read() {
        let object = Object::read(r#"{"metadata":{"name":"a"}}"#, &kept_fields()).unwrap();
        assert_eq!(object.resource_version, 0);
        assert!(object.controller.is_none());
    }
}
