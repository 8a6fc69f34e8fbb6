//! CustomResourceDefinitions from Rust types: those of a plugin, and the host's own `Plugin`.
//!
//! ```
//! use hotshoe_crd::{Column, CustomResource, Rule, Scale, Version};
//! use schemars::JsonSchema;
//! use serde::Serialize;
//!
//! /// The desired state of a Cache.
//! #[derive(JsonSchema, Serialize)]
//! #[serde(default)]
//! struct CacheSpec {
//!     /// The number of servers.
//!     size: i32,
//! }
//!
//! impl Default for CacheSpec {
//!     fn default() -> Self {
//!         Self { size: 1 }
//!     }
//! }
//!
//! /// The observed state of a Cache.
//! #[derive(JsonSchema)]
//! #[serde(rename_all = "camelCase")]
//! struct CacheStatus {
//!     /// The number of servers that are ready.
//!     ready_replicas: i32,
//! }
//!
//! let version = Version::of::<CacheSpec, CacheStatus>("v1")
//!     .columns([Column::integer("Size", ".spec.size"), Column::condition("Available"), Column::age()])
//!     .rule("spec.size", Rule::new("self >= 1 && self <= 10").message("Size must be between 1 and 10."))
//!     .scale(Scale::new(".spec.size", ".status.readyReplicas"));
//! let caches = CustomResource::new("example.com", "Cache").short_names(["ca"]).version(version);
//! let definition = caches.definition()?;
//! assert_eq!(definition["metadata"]["name"], "caches.example.com");
//! # Ok::<(), hotshoe_crd::Error>(())
//! ```
//!
//! A binary of the plugin's crate prints the definition; `hotshoe crd` runs that binary:
//!
//! ```no_run
//! # fn definition() -> hotshoe_crd::CustomResource { unimplemented!() }
//! fn main() -> std::process::ExitCode {
//!     hotshoe_crd::print(&definition())
//! }
//! ```
//!
//! The SDK has this crate as `hotshoe_sdk::crd`, behind a feature with which no component is built.

mod alternatives;
mod columns;
mod conditions;
mod error;
mod members;
mod schema;
mod version;

use std::process::ExitCode;

use serde_json::{Value, json};

use members::insert;

pub use columns::Column;
pub use error::Error;
pub use version::{Rule, Scale, Version};

/// The annotation of a definition that names the versions which are served as soon as a host converts them, separated by
/// commas.
pub const SERVED_BY_CONVERSION: &str = "hotshoe.dev/served-by-conversion";

/// A custom resource, from which its definition is made.
#[derive(Clone, Debug)]
#[must_use]
pub struct CustomResource {
    group: String,
    kind: String,
    plural: String,
    singular: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    description: Option<String>,
    is_namespaced: bool,
    versions: Vec<Version>,
}

impl CustomResource {
    /// Builds a namespaced resource of this group and kind, without any version. Its plural and singular names are
    /// derived from the kind.
    pub fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            plural: plural(kind),
            singular: kind.to_ascii_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            description: None,
            is_namespaced: true,
            versions: Vec::new(),
        }
    }

    /// Sets the plural name, where it differs from the one that is derived from the kind.
    pub fn plural(mut self, plural: &str) -> Self {
        plural.clone_into(&mut self.plural);
        self
    }

    /// Sets the singular name, where it differs from the kind in lower case.
    pub fn singular(mut self, singular: &str) -> Self {
        singular.clone_into(&mut self.singular);
        self
    }

    /// Adds names that `kubectl` accepts in place of the plural.
    pub fn short_names(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.short_names.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// Adds categories that the resource belongs to, such as `all` of `kubectl get all`.
    pub fn categories(mut self, categories: impl IntoIterator<Item = &'static str>) -> Self {
        self.categories.extend(categories.into_iter().map(str::to_owned));
        self
    }

    /// Sets the description of the resource, for `kubectl explain`.
    pub fn description(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// Makes the resource cluster-scoped.
    pub fn cluster_scoped(mut self) -> Self {
        self.is_namespaced = false;
        self
    }

    /// Adds a version. The version that is [stored](Version::stored), or else the first, is the storage version.
    pub fn version(mut self, version: Version) -> Self {
        self.versions.push(version);
        self
    }

    /// Makes the CustomResourceDefinition, as JSON.
    ///
    /// # Errors
    /// Where Kubernetes would refuse a name, the versions do not fit together, or a type has no structural schema: then
    /// the error names the field.
    pub fn definition(&self) -> Result<Value, Error> {
        self.check_names()?;
        let stored = self.storage_version()?;
        self.check_converted(stored)?;
        let describe = |version: &Version| version.definition(&self.kind, self.description.as_deref(), stored);
        let versions = self.versions.iter().map(describe).collect::<Result<Vec<_>, _>>()?;
        let scope = if self.is_namespaced { "Namespaced" } else { "Cluster" };
        let mut metadata = json!({ "name": format!("{}.{}", self.plural, self.group) });
        let mut spec = json!({ "group": self.group, "names": self.names(), "scope": scope, "versions": versions });
        let converted: Vec<_> = self.versions.iter().filter(|version| version.is_converted).collect();
        if converted.is_empty() {
            // All versions have the same fields, so that the API server converts nothing but `apiVersion`.
            insert(&mut spec, "conversion", json!({ "strategy": "None" }));
        } else {
            // Without `conversion`, so that another apply of the definition leaves it as a host has set it.
            let names: Vec<_> = converted.iter().map(|version| version.name.as_str()).collect();
            insert(&mut metadata, "annotations", json!({ SERVED_BY_CONVERSION: names.join(",") }));
        }
        Ok(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": spec,
        }))
    }

    fn names(&self) -> Value {
        let mut names = json!({
            "kind": self.kind,
            "listKind": format!("{}List", self.kind),
            "plural": self.plural,
            "singular": self.singular,
        });
        for (key, list) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !list.is_empty() {
                insert(&mut names, key, json!(list));
            }
        }
        names
    }

    fn check_names(&self) -> Result<(), Error> {
        let is_group = self.group.contains('.') && self.group.split('.').all(is_label);
        let is_kind = self.kind.starts_with(|first: char| first.is_ascii_uppercase())
            && self.kind.len() <= 63
            && self.kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let names = [("plural", &self.plural), ("singular", &self.singular)];
        let short = self.short_names.iter().map(|name| ("short", name));
        let categories = self.categories.iter().map(|name| ("category", name));
        if !is_group {
            return Err(Error::name("group", &self.group, "a DNS name with a dot in it, such as cache.example.com"));
        }
        if !is_kind {
            return Err(Error::name("kind", &self.kind, "letters and digits that begin with a capital letter"));
        }
        match names.into_iter().chain(short).chain(categories).find(|(_, name)| !is_label(name)) {
            Some((what, name)) => Err(Error::name(what, name, "lower-case letters, digits and `-` between them")),
            None => Ok(()),
        }
    }

    fn check_converted(&self, stored: &str) -> Result<(), Error> {
        match self.versions.iter().any(|version| version.is_converted && version.name == stored) {
            true => Err(Error::Versions(format!(
                "the version {stored} is stored, so it is the one that others are converted to; mark those as converted"
            ))),
            false => Ok(()),
        }
    }

    fn storage_version(&self) -> Result<&str, Error> {
        let names: Vec<_> = self.versions.iter().map(|version| version.name.as_str()).collect();
        if let Some(wrong) = names.iter().find(|name| !is_label(name)) {
            return Err(Error::name("version", wrong, "a DNS label such as v1alpha1"));
        }
        if let Some(twice) = names.iter().find(|name| names.iter().filter(|other| other == name).count() > 1) {
            return Err(Error::Versions(format!("the version {twice} is there twice; remove one")));
        }
        let marked: Vec<_> = self.versions.iter().filter(|version| version.is_stored).collect();
        match (marked.as_slice(), self.versions.first()) {
            ([], None) => Err(Error::Versions("there is no version; add one with `version`".to_owned())),
            ([], Some(first)) => Ok(&first.name),
            ([only], _) => Ok(&only.name),
            ([one, other, ..], _) => Err(Error::Versions(format!(
                "the versions {} and {} are both stored; the API server stores one",
                one.name, other.name
            ))),
        }
    }
}

/// Prints the definition on standard output, as JSON, or the error on standard error.
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "the result of a program that does nothing else")]
pub fn print(resource: &CustomResource) -> ExitCode {
    match resource.definition() {
        Ok(definition) => {
            println!("{definition:#}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the plural of a kind, by the same rule as the host, which uses it where it cannot ask a cluster.
fn plural(kind: &str) -> String {
    let word = kind.to_ascii_lowercase();
    if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) {
        return format!("{word}es");
    }
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{word}s"),
    }
}

fn is_label(name: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

#[cfg(test)]
mod tests;
