//! What is checked and filled in before a Memcached is stored, where the configuration asks for it.

use hotshoe_sdk::{AdmissionContext, ErrorReason, Failure, Verdict};
use serde::{Deserialize, Serialize};

use crate::api::{Config, Memcached, MemcachedSpec, Rule};

/// A Memcached, as far as defaults are filled in.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Sparse {
    /// The desired state.
    pub spec: SparseSpec,
}

/// The desired state, of which the author may leave out each field.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SparseSpec {
    /// The number of servers.
    pub size: Option<i32>,
}

/// Checks the rules of the configuration.
pub(crate) fn validate(new: &Memcached, context: &AdmissionContext<Config>) -> Result<Verdict, Failure> {
    let mut verdict = Verdict::admitted();
    for rule in &context.config.validation {
        if let Some(message) = broken(*rule, new.spec.size) {
            verdict.error("spec.size", ErrorReason::Invalid, message);
        }
    }
    Ok(verdict)
}

/// Says how a size breaks a rule, in the words of the tutorials.
pub(crate) fn broken(rule: Rule, size: i32) -> Option<&'static str> {
    match rule {
        Rule::OddSize => (size % 2 == 0).then_some("Cluster size must be an odd number"),
        Rule::SizeUpTo10 => (!(1..=10).contains(&size)).then_some("Size must be between 1 and 10."),
    }
}

/// Fills in a missing size.
pub(crate) fn default(object: &mut Sparse, context: &AdmissionContext<Config>) -> Result<(), Failure> {
    if context.config.defaulting {
        object.spec.size.get_or_insert(MemcachedSpec::default().size);
    }
    Ok(())
}
