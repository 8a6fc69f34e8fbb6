//! Defines what a plugin may read and write, according to the administrator's grants in `plugin.yaml`.
//!
//! One pure function, [`Grant::authorise`], authorises every read and every write of a plugin. It checks the final
//! object: after its scope has been discovered, its namespace filled in and its body stamped. What no grant can allow
//! is in [`denied`]. The rules for Pods are in [`pod`](crate::check::pod), those for claims in
//! [`pvc`](crate::check::pvc), for selectors in [`selector`](crate::check::selector), and for Services in
//! [`service`](crate::check::service).

mod authorise;
mod clean_up_kind;
mod granted_metadata;
mod list;
mod rule;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::check::access_request::{READ_VERBS, Verb};
use crate::check::denied;
use crate::check::reach::{self, IsNamespaced};
use crate::model::decision::Descriptor;
use crate::model::kind::Kind;

pub use crate::check::grant::authorise::NAMESPACE_NOT_GRANTED;
pub use crate::check::grant::clean_up_kind::CleanUpKind;
pub use crate::check::grant::granted_metadata::GrantedMetadata;
#[cfg(test)]
pub(in crate::check) use crate::check::grant::granted_metadata::MAX_KEYS;
pub(in crate::check) use crate::check::grant::granted_metadata::{ANNOTATIONS, LABELS, closed};
pub use crate::check::grant::rule::{Keyword, Namespaces, Rule, Selector};

/// Everything that a plugin may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The rules, each of which allows something; everything else is denied.
    pub rules: Vec<Rule>,
    /// Whether an answer without any child may delete all existing children.
    pub prune_all: bool,
    /// The kinds of which a clean-up may create children, as far as the rules allow it.
    pub finalize: Vec<CleanUpKind>,
    /// The labels and annotations of its parents that the plugin may set.
    pub parent_metadata: GrantedMetadata,
    /// The namespace of the host and of the plugins' accounts, to which no plugin has access.
    pub host_namespace: Arc<str>,
}

impl Grant {
    /// Returns whether a rule grants the verb for at least some objects of the kind.
    pub fn allows(&self, verb: Verb, kind: &Kind) -> bool {
        self.allows_somewhere(verb, kind, false)
    }

    /// Returns whether a rule grants the verb for at least some objects of the kind, which the namespace of the parent
    /// does not have if they are `beyond_own`.
    pub fn allows_somewhere(&self, verb: Verb, kind: &Kind, beyond_own: bool) -> bool {
        let covers_some = |rule: &Rule| !beyond_own || rule.namespaces != Namespaces::Keyword(Keyword::Own);
        let grants =
            |rule: &Rule| rule.is_for(verb, kind) && rule.can_grant(verb) && covers_some(rule) && !self.is_closed(rule);
        let is_closed = denied::reason(kind).is_some() || (!verb.reads() && denied::is_read_only(kind));
        !is_closed && self.rules.iter().any(grants)
    }

    /// Returns whether a rule applies only in the namespace of the host, to which no plugin has access.
    pub fn is_closed(&self, rule: &Rule) -> bool {
        let Namespaces::Named(names) = &rule.namespaces else { return false };
        names.iter().all(|name| **name == *self.host_namespace)
    }

    /// Returns the label keys by which rules select namespaces; empty where no rule has a selector.
    pub fn namespace_labels(&self) -> BTreeSet<String> {
        let keys = self.rules.iter().filter_map(|rule| match &rule.namespaces {
            Namespaces::Selected(selector) => Some(selector.match_labels.keys().cloned()),
            _ => None,
        });
        keys.flatten().collect()
    }
}

/// Rights on a kind that a plugin asks for and is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The kind.
    pub kind: Kind,
    /// The verbs.
    pub verbs: Vec<Verb>,
    /// Whether a grant in the parent's namespace would cover nothing, because the parents are in none.
    pub is_beyond_own: bool,
}

/// Returns the rights that a plugin asks for and is not granted. Asking alone grants nothing.
pub fn missing(descriptor: &Descriptor, grant: &Grant, is_namespaced: &IsNamespaced<'_>) -> Vec<Missing> {
    let of_kind = |(kind, mut verbs): (Kind, Vec<Verb>)| {
        let is_beyond_own = reach::is_beyond_own(&descriptor.parent, &kind, is_namespaced);
        verbs.retain(|verb| !grant.allows_somewhere(*verb, &kind, is_beyond_own));
        Missing { kind, verbs, is_beyond_own }
    };
    let missing = asked(descriptor).into_iter().map(of_kind);
    missing.filter(|missing| !missing.verbs.is_empty()).collect()
}

/// Describes the rights that a plugin asks for and is not granted, such as `create, delete on Deployment.apps`; `None`
/// where all of them are granted.
pub fn lacking(descriptor: &Descriptor, grant: &Grant, is_namespaced: &IsNamespaced<'_>) -> Option<String> {
    let lacking: Vec<_> = missing(descriptor, grant, is_namespaced).iter().map(ToString::to_string).collect();
    (!lacking.is_empty()).then(|| lacking.join("; "))
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verbs: Vec<_> = self.verbs.iter().copied().map(Verb::as_str).collect();
        write!(f, "{} on {}", verbs.join(", "), self.kind)?;
        if self.is_beyond_own {
            f.write_str(" outside of the parent's namespace, because the parents are in none")?;
        }
        Ok(())
    }
}

/// Returns the verbs that a plugin asks for in its descriptor, for each kind without duplicates.
pub fn asked(descriptor: &Descriptor) -> Vec<(Kind, Vec<Verb>)> {
    let mut asked: Vec<(Kind, Vec<Verb>)> = Vec::new();
    let owned = descriptor.owns.iter().map(|owned| {
        let writing = owned.verbs.iter().map(|verb| Verb::from(*verb));
        (&owned.kind, READ_VERBS.into_iter().chain(writing).collect::<Vec<_>>())
    });
    let read = descriptor.reads.iter().map(|read| (&read.kind, READ_VERBS.to_vec()));
    for (kind, verbs) in owned.chain(read) {
        let place = asked.iter().position(|(known, _)| known.is_served_as(kind));
        match place.and_then(|place| asked.get_mut(place)) {
            Some((_, known)) => {
                let new: Vec<_> = verbs.into_iter().filter(|verb| !known.contains(verb)).collect();
                known.extend(new);
            }
            None => asked.push((kind.clone(), verbs)),
        }
    }
    asked
}

#[cfg(test)]
mod tests;
