//! An element of `spec.finalize`: a kind of which a clean-up may create children.

use serde::{Deserialize, Serialize};

use crate::check::access_request::Verb;
use crate::check::grant::rule::Rule;
use crate::model::kind::Kind;

/// A kind of children that a clean-up may create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CleanUpKind {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind, for example `Job`.
    pub kind: String,
}

impl CleanUpKind {
    /// Returns the element for a kind.
    pub fn of(kind: &Kind) -> Self {
        Self { group: kind.group.to_string(), kind: kind.kind.to_string() }
    }

    /// Checks that a rule grants `create` on the kind: without one, no clean-up could create such a child.
    ///
    /// # Errors
    /// When none does; the message is for the administrator.
    pub fn validate(&self, rules: &[Rule]) -> Result<(), String> {
        let kind = Kind::new(&self.group, "", &self.kind);
        if rules.iter().any(|rule| rule.is_for(Verb::Create, &kind)) {
            return Ok(());
        }
        let shown = kind.to_string();
        let shown = shown.escape_debug();
        Err(format!("no grant has `create` on {shown}; add it to the verbs of one in spec.grants, or remove the kind"))
    }
}
