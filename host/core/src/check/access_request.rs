//! A request for access to one object, like a SubjectAccessReview. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::decision::WriteVerb;
use crate::model::kind::ObjectRef;

/// A verb of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Read one by name.
    Get,
    /// Read all.
    List,
    /// Follow changes.
    Watch,
    /// Create one.
    Create,
    /// Change one.
    Update,
    /// Delete one.
    Delete,
}

impl Verb {
    /// Returns RBAC's name of the verb.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Delete => "delete",
        }
    }

    /// Returns whether it reads.
    pub fn reads(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

impl From<WriteVerb> for Verb {
    fn from(verb: WriteVerb) -> Self {
        match verb {
            WriteVerb::Create => Verb::Create,
            WriteVerb::Update => Verb::Update,
            WriteVerb::Delete => Verb::Delete,
        }
    }
}

/// The access that is requested.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// Show it to the plugin.
    Read,
    /// Apply it in this final form, which creates or changes it.
    Apply(&'a Value),
    /// Create it in this final form, and leave it alone where it is there.
    Create(&'a Value),
    /// Leave it in this form, which an apply and what others set make of it.
    Result(&'a Value),
    /// Delete it.
    Delete,
}

impl<'a> Access<'a> {
    /// Returns what is to be written, if anything is.
    pub fn body(&self) -> Option<&'a Value> {
        match self {
            Access::Apply(body) | Access::Create(body) | Access::Result(body) => Some(body),
            Access::Read | Access::Delete => None,
        }
    }

    /// Returns the verbs that must all be granted.
    pub fn verbs(&self) -> &'static [Verb] {
        match self {
            Access::Read => &[Verb::Get],
            Access::Apply(_) => &[Verb::Create, Verb::Update],
            Access::Create(_) => &[Verb::Create],
            Access::Result(_) => &[Verb::Update],
            Access::Delete => &[Verb::Delete],
        }
    }
}

/// A request for access to one object.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The parent on whose behalf.
    pub parent: &'a ObjectRef,
    /// The object; its namespace is filled in.
    pub object: &'a ObjectRef,
    /// Whether objects of its kind have a namespace, by discovery.
    pub namespaced: bool,
    /// The access.
    pub access: Access<'a>,
}

/// The value of a label of a namespace: namespace, key. Asked only where a rule has a selector.
pub type LabelOf<'a> = dyn Fn(&str, &str) -> Option<String> + Send + Sync + 'a;
