//! Kinds of Kubernetes objects, and references to single objects.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::sanitize;

/// A kind of Kubernetes object. `group` is empty for the core group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Kind {
    /// For example `apps`; empty for the core group.
    #[serde(default)]
    pub group: Arc<str>,
    /// For example `v1`.
    pub version: Arc<str>,
    /// For example `Deployment`.
    pub kind: Arc<str>,
}

impl Kind {
    /// Creates a kind from its three parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Creates a kind from an `apiVersion` and the name of the kind.
    pub fn of(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }

    /// Returns the `apiVersion`: `group/version`, or `version` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns whether it is the kind with this group and name, in any version.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        (&*self.group, &*self.kind) == (group, kind)
    }

    /// Returns whether it is a kind of Kubernetes itself. Controllers of Kubernetes write the status of such kinds.
    pub fn is_builtin(&self) -> bool {
        const GROUPS: [&str; 10] = [
            "discovery.k8s.io",
            "events.k8s.io",
            "flowcontrol.apiserver.k8s.io",
            "internal.apiserver.k8s.io",
            "networking.k8s.io",
            "node.k8s.io",
            "resource.k8s.io",
            "scheduling.k8s.io",
            "storage.k8s.io",
            "storagemigration.k8s.io",
        ];
        // Groups without a dot are reserved for Kubernetes; `*.k8s.io` also has custom kinds, such as Gateways.
        !self.group.contains('.') || GROUPS.contains(&&*self.group)
    }

    /// Returns whether both are the same kind, in any version.
    pub fn is_served_as(&self, other: &Self) -> bool {
        self.is(&other.group, &other.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { write!(f, "{}", self.kind) } else { write!(f, "{}.{}", self.kind, self.group) }
    }
}

/// A namespace; none for objects without one.
pub type Namespace = Option<Arc<str>>;

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Absent for cluster-scoped objects.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl Key {
    /// Creates a key from its parts.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self { namespace: namespace.map(Arc::from), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The name of one object of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Absent for cluster-scoped objects.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectRef {
    /// Returns the reference to an object that is written as the API server returns it.
    ///
    /// # Errors
    /// If it lacks `apiVersion`, `kind` or a name.
    pub fn of(object: &Value) -> Result<Self, String> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let missing = |what: &str| format!("an object has no {what}: {}", sanitize::clean(object.to_string(), 120));
        let api_version = text("/apiVersion").ok_or_else(|| missing("apiVersion"))?;
        let kind = text("/kind").ok_or_else(|| missing("kind"))?;
        let name = text("/metadata/name").ok_or_else(|| missing("metadata.name"))?;
        Ok(Self {
            kind: Kind::of(api_version, kind),
            namespace: text("/metadata/namespace").map(Into::into),
            name: name.into(),
        })
    }

    /// Returns the namespace that the object is in, or, for a Namespace, its own name.
    pub fn own_namespace(&self) -> Option<&Arc<str>> {
        let is_one = self.namespace.is_none() && self.kind.is("", "Namespace");
        self.namespace.as_ref().or(is_one.then_some(&self.name))
    }

    /// Returns the command of kubectl that does this to the object; `verb` may have options.
    pub fn kubectl(&self, verb: &str) -> String {
        let namespace = self.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        format!("kubectl{namespace} {verb} {}/{}", self.kind.to_string().to_lowercase(), self.name)
    }

    /// Returns whether this refers to the object of that kind and key, in any version of the kind.
    pub fn is(&self, kind: &Kind, key: &Key) -> bool {
        self.kind.is(&kind.group, &kind.kind) && self.name == key.name && self.namespace == key.namespace
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_are_recognized_by_their_group() {
        for group in ["", "apps", "batch", "policy", "networking.k8s.io", "storage.k8s.io"] {
            assert!(Kind::new(group, "v1", "Any").is_builtin(), "{group}");
        }
        for group in ["example.com", "gateway.networking.k8s.io", "snapshot.storage.k8s.io", "cluster.x-k8s.io"] {
            assert!(!Kind::new(group, "v1", "Any").is_builtin(), "{group}");
        }
    }

    #[test]
    fn the_own_namespace_of_a_namespace_is_itself() {
        let own = |group: &str, kind: &str, namespace: Option<&str>| {
            let kind = Kind::new(group, "v1", kind);
            let object = ObjectRef { kind, namespace: namespace.map(Into::into), name: "a".into() };
            object.own_namespace().map(|own| own.to_string())
        };
        assert_eq!(own("", "Namespace", None).as_deref(), Some("a"));
        assert_eq!(own("", "ConfigMap", Some("n")).as_deref(), Some("n"));
        assert_eq!(own("example.com", "Namespace", None), None);
        assert_eq!(own("example.com", "Tenant", None), None);
    }
}
