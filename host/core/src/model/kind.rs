//! Kinds of Kubernetes objects, and references to single objects.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::object::Key;

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
    /// A kind from its three parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// `group/version`, or `version` in the core group, as `apiVersion` has it.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether it is this kind, in whatever version.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        (&*self.group, &*self.kind) == (group, kind)
    }

    /// Whether objects of this kind are objects of the other, if in another version.
    pub fn is_served_as(&self, other: &Self) -> bool {
        self.is(&other.group, &other.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { write!(f, "{}", self.kind) } else { write!(f, "{}.{}", self.kind, self.group) }
    }
}

/// The name of one object of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Absent for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectRef {
    /// Whether this is the name of that object, in whatever version.
    pub fn is(&self, kind: &Kind, key: &Key) -> bool {
        self.kind.kind == kind.kind
            && self.kind.group == kind.group
            && self.name == key.name
            && self.namespace == key.namespace
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
