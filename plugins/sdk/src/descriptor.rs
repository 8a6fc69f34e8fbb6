//! What a plugin is and what it asks for. Only the administrator grants it, in `plugin.yaml`.

use crate::{Resource, ResourceKind};

/// What a plugin is and what it asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// The plugin's name.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// The kind of the parents.
    pub parent: ResourceKind,
    /// The fields of the parent to be shown beside `spec`.
    pub parent_fields: Vec<String>,
    /// The kinds of its children.
    pub owns: Vec<Owned>,
    /// The kinds that it reads and does not own.
    pub reads: Vec<Read>,
    /// The finalizer to hold; absent where the plugin needs no clean-up.
    pub finalizer: Option<String>,
    /// Whether requests carry the time.
    pub wants_now: bool,
    /// Whether requests carry the number of tries.
    pub wants_attempt: bool,
    /// The JSON schema of the configuration: documentation only, no configuration is checked against it.
    pub config_schema: Option<String>,
}

/// A kind of children.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owned {
    /// Which kind.
    pub kind: ResourceKind,
    /// What the plugin wants to do with them.
    pub verbs: Vec<Verb>,
    /// The fields to be shown, as paths such as `spec.replicas`. A key with other characters is quoted, here and
    /// wherever a field is named: `metadata.annotations['example.com/size']`.
    pub fields: Vec<String>,
}

/// What a plugin wants to do with the children of a kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verb {
    /// Create them.
    Create,
    /// Change them. Children of a kind that is owned without this verb are created once and then left as they are,
    /// however they differ from what is desired. That is for kinds that cannot be changed, such as Jobs.
    Update,
    /// Delete those that are no longer desired.
    Delete,
}

/// A kind that is read and not owned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Read {
    /// The key under which the objects come in [`crate::Request::related`].
    pub key: String,
    /// Which kind.
    pub kind: ResourceKind,
    /// The label selector that the objects match; empty selects all.
    pub selector: String,
    /// How an object is matched to a parent.
    pub rule: MatchRule,
    /// The fields to be shown, as paths.
    pub fields: Vec<String>,
}

/// How an object that is read and not owned is matched to a parent in its namespace. A cluster-scoped parent is matched
/// with objects in all namespaces that the grant covers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MatchRule {
    /// The object's label of this key has the value [`parent_label`](crate::parent_label) of the parent's name. An
    /// empty key matches every object in the parent's namespace.
    ParentLabel(String),
    /// The parent's field at this path has the object's name.
    ParentField(String),
}

impl Descriptor {
    /// Describes a plugin of this name and version that has parents of this kind and asks for nothing yet.
    pub fn new(name: &str, version: &str, parent: ResourceKind) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            parent,
            parent_fields: Vec::new(),
            owns: Vec::new(),
            reads: Vec::new(),
            finalizer: None,
            wants_now: false,
            wants_attempt: false,
            config_schema: None,
        }
    }

    /// Asks for these fields of the parent beside `spec`.
    #[must_use]
    pub fn parent_fields(mut self, fields: &[&str]) -> Self {
        self.parent_fields.extend(strings(fields));
        self
    }

    /// Asks to own children of this kind, with these verbs, and to be shown these fields of them.
    #[must_use]
    pub fn owns<K: Resource>(mut self, verbs: &[Verb], fields: &[&str]) -> Self {
        self.owns.push(Owned {
            kind: ResourceKind::of::<K>(),
            verbs: verbs.to_vec(),
            fields: strings(fields).collect(),
        });
        self
    }

    /// Asks to read, under `key`, the objects that match `selector` and, by `rule`, the parent, and to
    /// be shown these fields of them.
    #[must_use]
    pub fn reads<K: Resource>(mut self, key: &str, selector: &str, rule: MatchRule, fields: &[&str]) -> Self {
        self.reads.push(Read {
            key: key.to_owned(),
            kind: ResourceKind::of::<K>(),
            selector: selector.to_owned(),
            rule,
            fields: strings(fields).collect(),
        });
        self
    }

    /// Asks the host to hold this finalizer on every parent and to call `finalize` before a parent goes. The finalizer
    /// has the form `GROUP/NAME`, with the group of the parents and the plugin's name in `plugin.yaml`, or is listed in
    /// `spec.finalizers` there. A host loads no plugin with a finalizer on parents that are Pods or that, like
    /// Deployments, create Pods.
    #[must_use]
    pub fn finalizer(mut self, finalizer: &str) -> Self {
        self.finalizer = Some(finalizer.to_owned());
        self
    }

    /// Asks for the time in each request. Passing time alone causes no call: ask for one with
    /// [`Decision::requeue_after`](crate::Decision::requeue_after).
    #[must_use]
    pub fn wants_now(mut self) -> Self {
        self.wants_now = true;
        self
    }

    /// Asks for the number of tries since the last success in each request.
    #[must_use]
    pub fn wants_attempt(mut self) -> Self {
        self.wants_attempt = true;
        self
    }

    /// Documents the configuration by this JSON schema. The host checks no configuration against it: one that
    /// [`Reconciler::Config`](crate::Reconciler::Config) cannot read is rejected at each call.
    #[must_use]
    pub fn config_schema(mut self, schema: &str) -> Self {
        self.config_schema = Some(schema.to_owned());
        self
    }
}

impl MatchRule {
    /// Matches objects whose label of this key has the value [`parent_label`](crate::parent_label) of the parent's
    /// name.
    pub fn parent_label(key: &str) -> Self {
        Self::ParentLabel(key.to_owned())
    }

    /// Matches every object in the parent's namespace, whatever its labels: a ResourceQuota, for example. A change of
    /// such an object requeues every parent there, so narrow them by the selector where you can.
    pub fn same_namespace() -> Self {
        Self::ParentLabel(String::new())
    }

    /// Matches the object whose name is in the parent's field at this path.
    pub fn parent_field(path: &str) -> Self {
        Self::ParentField(path.to_owned())
    }
}

fn strings(borrowed: &[&str]) -> impl Iterator<Item = String> {
    borrowed.iter().map(|text| (*text).to_owned())
}
