//! Which labels and annotations of its parents a plugin may set.
//!
//! Labels and annotations of an object are obeyed by other programs, and by the host: so some keys no grant opens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::glob;
use crate::model::names::is_qualified;

/// The maximum number of keys and patterns of each list.
pub(in crate::check) const MAX_KEYS: usize = 32;

/// Domains of keys that no plugin may set, with those below them: the host and Kubernetes act on them, or a tool that
/// deploys, deletes or takes over the objects that carry them.
const CLOSED_DOMAINS: [&str; 9] = [
    "hotshoe.dev",
    "kubernetes.io",
    "k8s.io",
    "argoproj.io",
    "fluxcd.io",
    "helm.sh",
    "k14s.io",
    "cattle.io",
    "openshift.io",
];
/// Keys without a domain by which Kubernetes' own controllers know what is theirs.
const CLOSED_KEYS: [&str; 5] =
    ["pod-template-hash", "pod-template-generation", "controller-revision-hash", "controller-uid", "job-name"];

/// The labels and annotations of its parents that a plugin may set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct GrantedMetadata {
    /// Keys of labels; the part behind the slash may have one `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub labels: Vec<String>,
    /// Keys of annotations; the part behind the slash may have one `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub annotations: Vec<String>,
}

impl GrantedMetadata {
    /// Returns whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }

    /// Checks that each key may be granted.
    ///
    /// # Errors
    /// When one may not; the message is for the administrator.
    pub fn validate(&self) -> Result<(), String> {
        for (member, keys) in self.lists() {
            if keys.len() > MAX_KEYS {
                return Err(format!("{member} has more than {MAX_KEYS} keys; use a `*` behind the slash"));
            }
            keys.iter().try_for_each(|key| validate_key(member, key))?;
        }
        Ok(())
    }

    /// Checks that the plugin cannot change by which keys its parents are selected.
    ///
    /// # Errors
    /// When a granted key is one of those; the message is for the administrator.
    pub fn check_apart_from<'k>(
        &self,
        labels: impl Iterator<Item = &'k str>,
        annotations: impl Iterator<Item = &'k str>,
    ) -> Result<(), String> {
        let of_labels = labels.map(|key| (LABELS, &self.labels, key));
        let of_annotations = annotations.map(|key| (ANNOTATIONS, &self.annotations, key));
        match of_labels.chain(of_annotations).find(|(_, granted, key)| glob::matches_any(granted, key)) {
            Some((member, _, key)) => Err(format!(
                "{member} covers {key}, by which spec.parent selects the parents; name the other keys one by one"
            )),
            None => Ok(()),
        }
    }

    /// Returns the paths of what the host has to know of a parent to compare it with what is stated.
    pub fn paths(&self) -> Vec<String> {
        let path = |(member, keys): (&str, &[String])| match keys.iter().any(|key| key.contains('*')) {
            true => vec![format!("metadata.{member}")],
            false => keys.iter().map(|key| format!("metadata.{member}['{key}']")).collect(),
        };
        self.lists().into_iter().flat_map(path).collect()
    }

    fn lists(&self) -> [(&'static str, &[String]); 2] {
        [(LABELS, &self.labels), (ANNOTATIONS, &self.annotations)]
    }
}

/// The member of the metadata that has the labels.
pub(in crate::check) const LABELS: &str = "labels";
/// The member of the metadata that has the annotations.
pub(in crate::check) const ANNOTATIONS: &str = "annotations";

fn validate_key(member: &str, key: &str) -> Result<(), String> {
    let stars = key.matches('*').count();
    let has_star_in_name = key.split_once('/').is_some_and(|(domain, _)| !domain.contains('*'));
    // A pattern that matches any valid key also matches the one in which `a` replaces the star.
    if stars > 1 || (stars == 1 && !has_star_in_name) || !is_qualified(&key.replace('*', "a")) {
        return Err(format!(
            "{member} has {key:?}; a key is written as DOMAIN/NAME or NAME, and NAME behind a slash may have one `*`"
        ));
    }
    match closed(key) {
        Some(whose) => Err(format!("{member} has {key:?}, {whose}: no plugin may set it; remove it")),
        None => Ok(()),
    }
}

/// Returns whose a key is that no plugin may set; none if it may be granted.
pub(in crate::check) fn closed(key: &str) -> Option<&'static str> {
    let Some((domain, _)) = key.split_once('/') else {
        return CLOSED_KEYS.contains(&key).then_some("by which Kubernetes knows what is its own");
    };
    let is_below =
        |closed: &str| domain.strip_suffix(closed).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    match CLOSED_DOMAINS.into_iter().find(|closed| is_below(closed))? {
        "hotshoe.dev" => Some("which is the host's"),
        "kubernetes.io" | "k8s.io" => Some("which is that of Kubernetes"),
        _ => Some("by which a tool knows what to deploy, to delete or to take over"),
    }
}
