//! The round trip of a plugin that converts: an object that is converted to another version and back has lost nothing.
//! Tried with the parents of the cases, with the samples, and with objects that are made from the schemas of the CRD.
//!
//! | file | contents |
//! |---|---|
//! | `made.rs` | the search for a counter-example among objects that are made |
//! | `generate.rs` | objects made from a schema |
//! | `smaller.rs` | objects that are smaller than another one |
//! | `fits.rs` | whether a value fits a schema |
//! | `schema.rs` | what a schema says |
//! | `pattern.rs` | texts that match a pattern |
//! | `choices.rs` | choices that are the same in every run |

mod choices;
mod fits;
mod generate;
mod made;
mod pattern;
mod schema;
mod smaller;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use self::made::{Found, Version};
use self::schema::Schema;

use crate::cli::project::{CaseFile, Folder, shown};
use crate::cli::terminal;
use hotshoe_core::check::conversion;
use hotshoe_core::compare::json_diff::Field;
use hotshoe_core::compare::round_trip;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::sanitize::clean;
use hotshoe_sandbox::cases::expect::Expect;
use hotshoe_sandbox::revision::Revision;

/// The folder of CRDs in a project, and of samples.
pub(super) const CRDS: [&str; 2] = ["crds", "crds/samples"];
/// The maximum number of lost fields that are printed.
const MAX_LOST: usize = 10;
/// The maximum length of a printed object, in bytes.
const MAX_OBJECT_BYTES: usize = 8_000;

/// One object, converted to another version and back.
pub(super) struct RoundTrip {
    name: String,
    file: PathBuf,
    object: Value,
    /// What was lost, or why it could not be converted; nothing if all is there.
    failure: Option<String>,
}

impl RoundTrip {
    pub(super) fn new(name: String, file: PathBuf, object: Value, failure: Option<String>) -> Self {
        Self { name, file, object, failure }
    }

    pub(super) fn passed(&self) -> bool {
        self.failure.is_none()
    }

    pub(super) fn text(&self) -> String {
        let Some(failure) = &self.failure else { return format!("ok   {}\n", self.name) };
        let mut text = format!("FAIL {}\n", self.name);
        for line in failure.lines() {
            let _ = writeln!(text, "     {line}");
        }
        let _ = writeln!(text, "     the object: {}", clean(self.object.to_string(), MAX_OBJECT_BYTES));
        text
    }

    pub(super) fn record(&self) -> Value {
        json!({
            "name": self.name,
            "file": self.file,
            "passed": self.passed(),
            "error": self.failure,
            "object": self.failure.is_some().then_some(&self.object),
        })
    }
}

/// Converts the parents of the cases, the samples of the project and objects made from the schemas of its CRD to each
/// other version and back.
pub(super) async fn all(folder: &Folder, cases: &[CaseFile], revision: &Arc<Revision>) -> Vec<RoundTrip> {
    if !revision.converts() {
        return Vec::new();
    }
    let kind = &revision.descriptor().parent;
    // The parent of a case that expects a failure may be one that no function can read.
    let of_cases = cases.iter().filter(|file| !file.case.expect.as_ref().is_some_and(Expect::is_failure));
    let of_cases = of_cases.map(|file| (file.path.clone(), file.case.parent.clone()));
    let documents: Vec<_> = CRDS.iter().flat_map(|crds| documents(&folder.root().join(crds))).collect();
    let mut versions = BTreeSet::from([kind.version.to_string()]);
    let defined = documents.iter().flat_map(|(file, document)| versions_of(document, kind).map(move |one| (file, one)));
    let defined: Vec<(&PathBuf, Version<'_>)> = defined.collect();
    versions.extend(defined.iter().map(|(_, version)| version.kind.version.to_string()));
    let mut objects: Vec<(PathBuf, Value)> = Vec::new();
    for (file, object) in of_cases.chain(documents.iter().cloned()) {
        let Ok(reference) = ObjectRef::of(&object) else { continue };
        if reference.kind.is_served_as(kind) && objects.iter().all(|(_, other)| *other != object) {
            versions.insert(reference.kind.version.to_string());
            objects.push((file, object));
        }
    }
    if versions.len() == 1 {
        terminal::note(format_args!(
            "warning: the component converts, but no case, sample or CRD has a version of {kind} other than {}, so no round \
             trip was tried",
            kind.version
        ));
    }
    let mut trips = Vec::new();
    for (file, object) in objects {
        for version in &versions {
            trips.extend(round_trip(&file, &object, version, revision).await);
        }
    }
    for (file, own) in &defined {
        for version in versions.iter().filter(|version| **version != *own.kind.version) {
            trips.push(made_round_trip(file, own, version, revision).await);
        }
    }
    trips
}

/// Converts an object to this version and back; none if it is of this version.
async fn round_trip(file: &Path, object: &Value, version: &str, revision: &Arc<Revision>) -> Option<RoundTrip> {
    let own = ObjectRef::of(object).ok()?.kind.version;
    if *own == *version {
        return None;
    }
    let failure = failure(object, &own, version, revision).await;
    let name = format!("{own} → {version} → {own}: {}", shown(file).display());
    Some(RoundTrip { name, file: file.to_owned(), object: object.clone(), failure })
}

/// Converts objects made from the schema of a version to another one and back. The object of the result is the smallest
/// one that was found to lose something.
async fn made_round_trip(file: &Path, own: &Version<'_>, version: &str, revision: &Arc<Revision>) -> RoundTrip {
    let name = &*own.kind.version;
    let Found { tried, failed } =
        made::search(own, async |object: &Value| failure(object, name, version, revision).await).await;
    if tried == 0 {
        terminal::note(format_args!(
            "warning: no object could be made from the schema of {name}, because it must have what only rules (CEL) or a \
             pattern describe, so only cases and samples of {name} were tried"
        ));
    }
    let name = format!("{name} → {version} → {name}: {tried} objects made from {}", shown(file).display());
    let (object, failure) = failed.unzip();
    RoundTrip { name, file: file.to_owned(), object: object.unwrap_or_default(), failure }
}

/// Returns what an object loses on the way to another version and back, or why it cannot be converted.
async fn failure(object: &Value, own: &str, other: &str, revision: &Arc<Revision>) -> Option<String> {
    match there_and_back(object, own, other, revision).await {
        Ok(back) => lost(object, &back),
        Err(failure) => Some(failure),
    }
}

async fn there_and_back(object: &Value, own: &str, other: &str, revision: &Arc<Revision>) -> Result<Value, String> {
    let there = converted(object, other, revision).await?;
    converted(&there, own, revision).await
}

async fn converted(object: &Value, version: &str, revision: &Arc<Revision>) -> Result<Value, String> {
    let outcome = revision.convert(vec![conversion::shown(&object.to_string())?], version.to_owned()).await;
    let outcome = outcome.map_err(|aborted| format!("to {version}: {}: {aborted}", aborted.error.reason()))?;
    let objects = outcome.result.map_err(|failure| format!("to {version}: {failure:?}"))?;
    let object = objects.into_iter().next().ok_or_else(|| format!("to {version}: nothing was returned"))?;
    serde_json::from_str(object.get()).map_err(|error| format!("to {version}: {error}"))
}

/// Returns the fields that are lost or differ, a line for each.
fn lost(before: &Value, after: &Value) -> Option<String> {
    let lost: Vec<String> = round_trip::lost(before, after).iter().map(line).collect();
    let more = lost.len().saturating_sub(MAX_LOST);
    let mut lines = lost.into_iter().take(MAX_LOST).collect::<Vec<_>>();
    lines.extend((more > 0).then(|| format!("and {more} more")));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn line(field: &Field) -> String {
    let path = &field.path;
    match (&field.old, &field.new) {
        (Some(old), None) => format!("{path}: {old} is lost"),
        (Some(old), Some(new)) => format!("{path}: {old} became {new}"),
        (None, new) => format!("{path}: {} was added", new.as_deref().unwrap_or_default()),
    }
}

/// Returns the documents in the YAML files of a folder; files that cannot be read are left out, because other commands
/// report them.
pub(super) fn documents(folder: &Path) -> Vec<(PathBuf, Value)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_default();
        documents.into_iter().map(move |document| (path.clone(), document))
    };
    paths.into_iter().flat_map(read).collect()
}

/// Returns the versions that a CRD of this kind has.
fn versions_of<'a>(document: &'a Value, kind: &Kind) -> impl Iterator<Item = Version<'a>> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let is_its_crd = (text("/spec/group"), text("/spec/names/kind")) == (Some(&kind.group), Some(&kind.kind));
    let versions = document.pointer("/spec/versions").and_then(Value::as_array).filter(|_| is_its_crd);
    let is_namespaced = text("/spec/scope") != Some("Cluster");
    versions.into_iter().flatten().filter_map(move |version| {
        let schema = Schema::new(version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null));
        let kind = Kind::new(&kind.group, version.get("name")?.as_str()?, &kind.kind);
        Some(Version { kind, is_namespaced, schema })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_that_is_lost_or_differs_has_a_line() {
        let before = json!({
            "metadata": { "name": "a" },
            "spec": { "size": 1, "port": 11211, "names": ["a", "b"], "gone": null, "empty": [] },
        });
        assert_eq!(lost(&before, &before), None);
        let after = json!({ "metadata": { "name": "a" }, "spec": { "size": 2, "names": ["a", "b", "c"], "gone": 1 } });
        assert_eq!(
            lost(&before, &after).unwrap(),
            "spec.empty: [] is lost\nspec.gone: null became 1\nspec.names[2]: \"c\" was added\nspec.port: 11211 is lost\n\
             spec.size: 1 became 2"
        );
        let many = json!((0..12).collect::<Vec<_>>());
        let text = lost(&many, &json!([])).unwrap();
        assert!(text.contains("[9]: 9 is lost\nand 2 more"), "{text}");
    }

    #[test]
    fn the_versions_of_a_kind_are_those_of_its_crd() {
        let crd = json!({ "spec": {
            "group": "example.com",
            "names": { "kind": "Test" },
            "versions": [{ "name": "v1" }, { "name": "v2" }],
        } });
        let names = |kind: &str| -> Vec<String> {
            let kind = Kind::new("example.com", "v1", kind);
            versions_of(&crd, &kind).map(|version| version.kind.version.to_string()).collect()
        };
        assert_eq!(names("Test"), ["v1", "v2"]);
        assert!(names("Other").is_empty());
    }
}
