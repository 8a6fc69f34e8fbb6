//! Cases of `validate` and `default`: a proposed parent, and what the plugin says of it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cases::expect::Expect;
use crate::cases::run::Report;
use crate::cases::{Case, Function};
use crate::revision::Revision;
use hotshoe_core::model::admission::{self, Proposal};
use hotshoe_core::model::decision::{Descriptor, Document};
use hotshoe_core::model::kind::ObjectRef;

impl Case {
    /// Calls the plugin's code for admission with the case's objects, and compares its answer.
    pub(super) async fn run_admission(&self, revision: &Arc<Revision>) -> Report {
        let proposal = match self.proposal(revision.descriptor()) {
            Ok(proposal) => Arc::new(proposal),
            Err(message) => return Report::unusable(message),
        };
        match self.call {
            Function::Default => {
                let called = revision.default(proposal).await;
                self.judge(called, |result| match result {
                    Ok(defaulted) => Expect::Defaulted(complete(&self.parent, defaulted.object)),
                    Err(failure) => (&failure).into(),
                })
            }
            _ => {
                let called = revision.validate(proposal).await;
                self.judge(called, |result| result.map_or_else(|failure| (&failure).into(), Expect::Verdict))
            }
        }
    }

    /// Returns what a host would show the plugin.
    fn proposal(&self, descriptor: &Descriptor) -> Result<Proposal, String> {
        let unused = [self.children.is_empty(), self.related.is_empty(), self.refusals.is_empty()];
        if unused.contains(&false) || self.now.is_some() || self.attempt.is_some() {
            return Err("`validate` and `default` are shown objects and the configuration only".to_owned());
        }
        Ok(Proposal {
            new: shown(&self.parent, descriptor)?,
            old: self.old.as_ref().map(|old| shown(old, descriptor)).transpose()?,
            config: self.config.to_string().into(),
            dry_run: false,
            user: self.user.clone(),
        })
    }
}

/// Returns an object as a host shows it for admission.
///
/// # Errors
/// If it is not of the version of the parents that the plugin names, as which the API server asks about it.
pub fn shown(object: &Value, descriptor: &Descriptor) -> Result<Document, String> {
    // One without a name is shown before the API server has made it.
    let mut named = object.clone();
    if let Some(metadata) = named.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("name").or_insert_with(|| json!(""));
    }
    let kind = ObjectRef::of(&named)?.kind;
    if kind != descriptor.parent {
        let (is, asked) = (kind.api_version(), descriptor.parent.api_version());
        return Err(format!("the object is a {kind} of {is}, but a host shows {} of {asked}", descriptor.parent));
    }
    Ok(admission::shown(&kind, object.clone()))
}

/// Returns an object with its `apiVersion` and `kind`.
fn complete(given: &Value, mut object: Value) -> Value {
    let members = object.as_object_mut().zip(given.as_object());
    if let Some((members, given)) = members {
        let named = ["apiVersion", "kind"].into_iter().filter_map(|key| given.get_key_value(key));
        members.extend(named.map(|(key, value)| (key.clone(), value.clone())));
    }
    object
}
