//! The round trip of a plugin that converts: an object that is converted to another version and back has lost nothing.
//! Tried with the parents of the cases, with the samples, and with objects that are made from the schemas of the CRD.
//!
//! | file | contents |
//! |---|---|
//! | `made.rs` | the search for a counter-example among objects that are made |
//! | `generate.rs` | objects made from a schema |
//! | `pattern.rs` | texts that match a pattern |
//! | `choices.rs` | choices that are the same in every run |

mod choices;
mod generate;
mod made;
mod pattern;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use self::generate::Limit;
use self::made::Found;
use crate::cli::project::{CaseFile, shown};
use crate::cli::schema::files::{Files, Version};
use crate::cli::terminal;
use crate::cli::trial::Trial;
use hotshoe_core::check::conversion;
use hotshoe_core::compare::json_diff::Field;
use hotshoe_core::compare::round_trip;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_sandbox::cases::expect::Expect;
use hotshoe_sandbox::revision::Revision;

/// The maximum number of lost fields that are printed.
const MAX_LOST: usize = 10;

/// Converts the parents of the cases, the samples of the project and objects made from the schemas of its CRD to each
/// other version and back.
pub(super) async fn all(files: &Files, cases: &[CaseFile], revision: &Arc<Revision>) -> Vec<Trial> {
    if !revision.converts() {
        return Vec::new();
    }
    let kind = &revision.descriptor().parent;
    // The parent of a case that expects a failure may be one that no function can read.
    let of_cases = cases.iter().filter(|file| !file.case.expect.as_ref().is_some_and(Expect::is_failure));
    let of_cases = of_cases.map(|file| (file.path.clone(), file.case.parent.clone()));
    let mut versions = BTreeSet::from([kind.version.to_string()]);
    let defined = files.versions(kind);
    versions.extend(defined.iter().map(|version| version.kind.version.to_string()));
    let mut objects: Vec<(PathBuf, Value)> = Vec::new();
    for (file, object) in of_cases.chain(files.objects().cloned()) {
        let Ok(reference) = ObjectRef::of(&object) else { continue };
        // An object of a version that the CRD does not have is an error of its own.
        let is_known = defined.is_empty() || versions.contains(&*reference.kind.version);
        if reference.kind.is_served_as(kind) && is_known && objects.iter().all(|(_, other)| *other != object) {
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
    let (mut trips, mut left_out) = (Vec::new(), BTreeSet::new());
    for (file, object) in objects {
        for version in &versions {
            trips.extend(round_trip(&file, &object, version, revision).await);
        }
    }
    for own in &defined {
        for version in versions.iter().filter(|version| **version != *own.kind.version) {
            let (trip, not_made) = made_round_trip(own, version, revision).await;
            trips.push(trip);
            left_out.extend(not_made);
        }
    }
    left_out.iter().for_each(|warning| terminal::note(format_args!("warning: {warning}")));
    trips
}

/// Converts an object to this version and back; none if it is of this version.
async fn round_trip(file: &Path, object: &Value, version: &str, revision: &Arc<Revision>) -> Option<Trial> {
    let own = ObjectRef::of(object).ok()?.kind.version;
    if *own == *version {
        return None;
    }
    let failure = failure(object, &own, version, revision).await;
    let name = format!("{own} → {version} → {own}: {}", shown(file).display());
    Some(Trial::new(name, file.to_owned(), object.clone(), failure))
}

/// Converts objects made from the schema of a version to another one and back. The object of the result is the smallest
/// one that was found to lose something. Also returns what the objects lack that the schema allows.
async fn made_round_trip(own: &Version<'_>, version: &str, revision: &Arc<Revision>) -> (Trial, Vec<String>) {
    let name = &*own.kind.version;
    let found = made::search(own, async |object: &Value| failure(object, name, version, revision).await).await;
    let not_made = not_made(name, &found);
    let name = format!("{name} → {version} → {name}: {} objects made from {}", found.tried, shown(own.file).display());
    let (object, failure) = found.failed.unzip();
    (Trial::new(name, own.file.to_owned(), object.unwrap_or_default(), failure), not_made)
}

/// Returns a line for each part of the schema of a version of which no object was made.
fn not_made(version: &str, Found { tried, left_out, .. }: &Found) -> Vec<String> {
    let field = |(path, limit): (&String, &Limit)| match path.as_str() {
        "" => format!("no object could be made from the schema of {version}, because {limit}"),
        path => format!("the objects made from the schema of {version} have no {path}, because {limit}"),
    };
    let mut lines: Vec<String> = left_out.iter().map(field).collect();
    if *tried == 0 && lines.is_empty() {
        lines.push(format!(
            "no object could be made from the schema of {version}, because it must have what only rules (CEL) or a pattern \
             describe, so only cases and samples of {version} were tried"
        ));
    }
    lines
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

/// Converts an object to this version.
///
/// # Errors
/// What went wrong, as a text.
pub(super) async fn converted(object: &Value, version: &str, revision: &Arc<Revision>) -> Result<Value, String> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
}
