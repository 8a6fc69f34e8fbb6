//! Kubernetes objects as host and plugin exchange them: a typed reference and a body of JSON text.

#[cfg(feature = "k8s-openapi")]
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::Failure;

/// The annotation that names the fields which a desired child leaves to others. The host takes it out.
const LEAVE: &str = "hotshoe.dev/leave";

/// The annotation that says what becomes of a desired child that cannot change. The host takes it out.
const UPDATE_STRATEGY: &str = "hotshoe.dev/update-strategy";

/// The kind of a type's objects. The builders in [`apply`](crate::apply) implement it, and, with the feature
/// `k8s-openapi`, the types of that crate; implement it for a type of your own to read or own a kind that neither has.
pub trait Resource {
    /// Empty for the core group.
    const GROUP: &'static str;
    /// For example `v1`.
    const VERSION: &'static str;
    /// For example `Deployment`.
    const KIND: &'static str;
}

#[cfg(feature = "k8s-openapi")]
impl<K: k8s_openapi::Resource> Resource for K {
    const GROUP: &'static str = K::GROUP;
    const VERSION: &'static str = K::VERSION;
    const KIND: &'static str = K::KIND;
}

/// A kind of Kubernetes object.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct ResourceKind {
    /// Empty for the core group.
    pub group: String,
    /// For example `v1`.
    pub version: String,
    /// For example `Deployment`.
    pub kind: String,
}

impl ResourceKind {
    /// The kind with this group, version and name.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    /// The kind of a typed object.
    pub fn of<K: Resource>() -> Self {
        Self::new(K::GROUP, K::VERSION, K::KIND)
    }

    /// The `apiVersion` of manifests, for example `apps/v1`.
    pub fn api_version(&self) -> String {
        let Self { group, version, .. } = self;
        if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
    }

    /// Whether objects of this kind are decoded as `K`.
    pub fn is<K: Resource>(&self) -> bool {
        self.kind == K::KIND && self.group == K::GROUP && self.version == K::VERSION
    }
}

/// The kind, namespace and name of one object.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct ObjectRef {
    /// The kind of the object.
    pub kind: ResourceKind,
    /// Absent for cluster-scoped objects; may be left out for a child of a namespaced parent.
    pub namespace: Option<String>,
    /// Never empty.
    pub name: String,
}

/// One object: observed, where the JSON is the projection that `describe` asked for, or desired,
/// where it holds the fields that the plugin wants to own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Object {
    /// Which object.
    pub reference: ObjectRef,
    /// A JSON object. `apiVersion`, `kind` and the name may be left out.
    pub json: String,
}

impl Object {
    /// Builds a desired child from a type of `k8s-openapi`.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where the object has no name or cannot be written as JSON.
    #[cfg(feature = "k8s-openapi")]
    pub fn of<K>(object: &K) -> Result<Self, Failure>
    where
        K: k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize,
    {
        let metadata = object.metadata();
        let Some(name) = metadata.name.clone() else {
            let generated = metadata
                .generate_name
                .as_ref()
                .map(|_| ", and metadata.generateName would make another object at each decision");
            let (kind, generated) = (<K as Resource>::KIND, generated.unwrap_or_default());
            return Err(Failure::other(format!("a desired {kind} has no name{generated}; set metadata.name")));
        };
        let mut desired = Self::desired::<K>(&name, object)?;
        desired.reference.namespace.clone_from(&metadata.namespace);
        Ok(desired)
    }

    /// Builds a desired child of kind `K` and this name, in the parent's namespace, from its fields: a type of the
    /// plugin's own with just the fields that it sets, or a [`serde_json::Value`]. `apiVersion`, `kind` and the name
    /// may be left out. Nothing checks that Kubernetes knows such fields: write a test that does. A component
    /// with types of its own is half the size of one that builds a typed Deployment.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where the fields cannot be written as JSON.
    pub fn desired<K: Resource>(name: &str, fields: &impl Serialize) -> Result<Self, Failure> {
        let json = serde_json::to_string(fields)
            .map_err(|cause| Failure::other(format!("{} {name} cannot be written as JSON: {cause}", K::KIND)))?;
        let reference = ObjectRef { kind: ResourceKind::of::<K>(), namespace: None, name: name.to_owned() };
        Ok(Self { reference, json })
    }

    /// Sets the namespace of this desired child. Each namespaced child of a cluster-scoped parent needs one.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.reference.namespace = Some(namespace.into());
        self
    }

    /// Leaves fields of this desired child to others: when the plugin no longer sets them, their values stay, instead of
    /// being removed. What the scale subresource sets, such as `spec.replicas` of a Deployment, needs no mention. A path
    /// is that of [`Descriptor`](crate::Descriptor)'s fields, such as `spec.paused`; a field that this child sets itself
    /// cannot be left, and the host says so.
    ///
    /// ```
    /// # use hotshoe_sdk::{Object, apply::core_v1::ConfigMap};
    /// let child = Object::from(ConfigMap::new("a").data([("mine", "1")])).leave(["data.theirs"]);
    /// assert!(child.json.contains(r#""hotshoe.dev/leave":"data.theirs""#));
    /// ```
    #[must_use]
    pub fn leave<'f>(self, fields: impl IntoIterator<Item = &'f str>) -> Self {
        self.annotated(LEAVE, fields.into_iter().collect::<Vec<_>>().join(","))
    }

    /// Has this child deleted and made anew where the API server does not let a field change, such as the template of a
    /// Job or the selector of a Deployment. It is gone meanwhile, with all that it owns, so this is for children that hold
    /// no data. A child that can change is changed as any other. Needs `recreate: true` on the rule of its kind in
    /// `plugin.yaml`, and the verb `delete`.
    ///
    /// ```
    /// # use hotshoe_sdk::{Object, apply::core_v1::ConfigMap};
    /// let child = Object::from(ConfigMap::new("a").data([("mine", "1")])).recreate();
    /// assert!(child.json.contains(r#""hotshoe.dev/update-strategy":"Recreate""#));
    /// ```
    #[must_use]
    pub fn recreate(self) -> Self {
        self.annotated(UPDATE_STRATEGY, "Recreate".to_owned())
    }

    fn annotated(mut self, key: &str, text: String) -> Self {
        // What is no object the host refuses, and says why.
        if let Ok(Value::Object(mut members)) = serde_json::from_str(&self.json) {
            let mut inner = &mut members;
            for key in ["metadata", "annotations"] {
                let member = inner.entry(key).or_insert_with(|| Map::new().into());
                let Value::Object(next) = member else { return self };
                inner = next;
            }
            inner.insert(key.to_owned(), text.into());
            self.json = Value::Object(members).to_string();
        }
        self
    }

    /// Names an existing child of kind `K` that stays as it is. For kinds that are owned without
    /// [`Verb::Update`](crate::Verb::Update), whose children are never changed.
    pub fn kept<K: Resource>(name: &str) -> Self {
        let reference = ObjectRef { kind: ResourceKind::of::<K>(), namespace: None, name: name.to_owned() };
        Self { reference, json: "{}".to_owned() }
    }

    /// Returns the JSON of this object with its `apiVersion`, `kind`, name and namespace, which the JSON itself may leave
    /// out. For tests.
    ///
    /// # Errors
    ///
    /// Where the JSON is not an object, or its metadata is not.
    pub fn whole(&self) -> serde_json::Result<Map<String, Value>> {
        let ObjectRef { kind, namespace, name } = &self.reference;
        let mut whole: Map<String, Value> = serde_json::from_str(&self.json)?;
        let metadata = whole.remove("metadata").unwrap_or_else(|| Map::new().into());
        let mut metadata: Map<String, Value> = serde_json::from_value(metadata)?;
        metadata.insert("name".to_owned(), name.as_str().into());
        if let Some(namespace) = namespace {
            metadata.insert("namespace".to_owned(), namespace.as_str().into());
        }
        whole.insert("apiVersion".to_owned(), kind.api_version().into());
        whole.insert("kind".to_owned(), kind.kind.as_str().into());
        whole.insert("metadata".to_owned(), metadata.into());
        Ok(whole)
    }

    /// Reads this observed object as a `K`. Fields that were not asked for are absent or empty.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where the JSON is broken or a field has another type than in `K`.
    pub fn read<K: DeserializeOwned>(&self) -> Result<K, Failure> {
        serde_json::from_str(&self.json).map_err(|cause| {
            Failure::other(format!(
                "the host showed {} {} in a form that this plugin cannot read: {}",
                self.reference.kind.kind,
                self.reference.name,
                without_position(&cause)
            ))
        })
    }
}

/// The metadata that every observed object shows, for views of the plugin's own.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Never empty.
    pub name: String,
    /// Absent for cluster-scoped objects.
    pub namespace: Option<String>,
    /// Distinguishes an object from an earlier one of the same name.
    pub uid: String,
    /// Raised by every change of the object's desired state; absent for kinds without generations.
    pub generation: Option<i64>,
    /// Present while the object is being deleted; a time as in RFC 3339.
    pub deletion_timestamp: Option<String>,
}

/// Returns the message of a parse error without the line and column: the author cannot see the text that the
/// host made, and a message should not change with the fields around the one at fault.
pub(crate) fn without_position(cause: &serde_json::Error) -> String {
    let mut message = cause.to_string();
    if let Some(end) = message.rfind(" at line ") {
        message.truncate(end);
    }
    message
}
