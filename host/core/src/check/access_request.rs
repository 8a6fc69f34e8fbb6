//! A request for access to one object, like a SubjectAccessReview. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::decision::WriteVerb;
use crate::model::kind::ObjectRef;

/// What a host needs to watch objects of a kind.
pub const READ_VERBS: [Verb; 3] = [Verb::Get, Verb::List, Verb::Watch];

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
    /// Returns the verb's name in RBAC.
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

    /// Returns whether the verb reads.
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
    /// Show the object to the plugin.
    Read,
    /// Apply the object in this final form, which creates or changes it.
    Apply(&'a Value),
    /// Create the object in this final form; leave an existing object alone.
    Create(&'a Value),
    /// Accept this form of the object, which results from an apply and from what others have set in the live object.
    Result(&'a Value),
    /// Delete the object.
    Delete,
    /// Delete the object and create it again in this final form, where a field would change that may not change.
    Recreate(&'a Value),
}

impl<'a> Access<'a> {
    /// Returns the body to be written, if any.
    pub fn body(&self) -> Option<&'a Value> {
        match self {
            Access::Apply(body) | Access::Create(body) | Access::Result(body) => Some(body),
            // Another request covers the form in which it is created.
            Access::Read | Access::Delete | Access::Recreate(_) => None,
        }
    }

    /// Returns the verbs that must all be granted.
    pub fn verbs(&self) -> &'static [Verb] {
        match self {
            Access::Read => &[Verb::Get],
            Access::Apply(_) => &[Verb::Create, Verb::Update],
            Access::Create(_) => &[Verb::Create],
            Access::Result(_) => &[Verb::Update],
            Access::Delete | Access::Recreate(_) => &[Verb::Delete],
        }
    }
}

/// A request for access to one object.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The parent on whose behalf the access is requested.
    pub parent: &'a ObjectRef,
    /// The object, with its namespace filled in.
    pub object: &'a ObjectRef,
    /// Whether the object's kind is namespaced, according to discovery.
    pub namespaced: bool,
    /// The access.
    pub access: Access<'a>,
}

/// Returns the value of a label, by the namespace's name and the label's key. Called only for rules with a selector.
pub type LabelOf<'a> = dyn Fn(&str, &str) -> Option<String> + Send + Sync + 'a;
