//! A request for access to one object, as a SubjectAccessReview has it: what the gate decides on. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::decision::WriteVerb;
use crate::model::kind::ObjectRef;

/// What may be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Be shown one by name.
    Get,
    /// Be shown those that are there.
    List,
    /// Be called again when one changes.
    Watch,
    /// Make one.
    Create,
    /// Change one.
    Update,
    /// Delete one.
    Delete,
}

impl Verb {
    /// As RBAC has it.
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

    /// Whether it shows something.
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

/// What is to be done with an object.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// Show it to the plugin.
    Read,
    /// Apply it in this final form. That creates it or changes it, as the cluster has it by then.
    Apply(&'a Value),
    /// Create it in this final form, and leave it alone where it is there.
    Create(&'a Value),
    /// Delete it.
    Delete,
}

impl<'a> Access<'a> {
    /// What is to be written, if anything is.
    pub fn body(&self) -> Option<&'a Value> {
        match self {
            Access::Apply(body) | Access::Create(body) => Some(body),
            Access::Read | Access::Delete => None,
        }
    }

    /// Those that must all be granted.
    pub fn verbs(&self) -> &'static [Verb] {
        match self {
            Access::Read => &[Verb::Get],
            Access::Apply(_) => &[Verb::Create, Verb::Update],
            Access::Create(_) => &[Verb::Create],
            Access::Delete => &[Verb::Delete],
        }
    }
}

/// One object, and what is to be done with it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// On behalf of which parent.
    pub parent: &'a ObjectRef,
    /// Which object; its namespace is filled in.
    pub object: &'a ObjectRef,
    /// Whether objects of its kind have a namespace, by discovery.
    pub namespaced: bool,
    /// What is to be done.
    pub access: Access<'a>,
}

/// The value of a label of a namespace: namespace, key. Asked only where a rule has a selector.
pub type LabelOf<'a> = dyn Fn(&str, &str) -> Option<String> + Send + Sync + 'a;
