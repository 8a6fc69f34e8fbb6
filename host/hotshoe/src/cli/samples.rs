//! What the API server and the plugin would say of the CRDs and samples of a project.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::cli::api_server::{ApiServer, PLACE, is_custom, joined};
use crate::cli::as_stored::{as_stored, proposal};
use crate::cli::project::shown;
use crate::cli::round_trip;
use crate::cli::schema::files::Files;
use crate::cli::terminal;
use crate::cli::trial::Trial;
use hotshoe_core::model::kind::Kind;
use hotshoe_sandbox::cases::shown_for_admission;
use hotshoe_sandbox::revision::Revision;

/// The name of the file that lists others for kubectl, and that may be no object.
const KUSTOMIZATION: &str = "kustomization";

/// Reviews the CRDs and the samples. Into samples of the version that it is shown, the plugin fills in its defaults with
/// this configuration first, and what the API server admits is validated by the plugin.
pub(super) async fn all(
    files: &Files,
    config: &Value,
    revision: &Arc<Revision>,
    api_server: &mut ApiServer<'_>,
) -> Vec<Trial> {
    let kind = &revision.descriptor().parent;
    let mut trials: Vec<Trial> = files.unreadable().map(|(file, why)| unreadable(file, why)).collect();
    trials.extend(files.stored_versions().filter(|(_, count)| *count != 1).map(|(file, count)| stored(file, count)));
    for (file, object) in files.objects().filter(|(_, object)| is_parent(object, kind)) {
        let Some(verdict) = verdict(object, config, revision, api_server).await else { continue };
        let name = format!("valid by its CRD: {}", shown(file).display());
        trials.push(Trial::new(name, file.clone(), object.clone(), verdict.err()));
    }
    let others = files.samples().filter(|(_, object)| !object.is_null() && !is_parent(object, kind));
    trials.extend(others.filter_map(|(file, object)| other(file, object, kind, files)));
    trials
}

fn unreadable(file: &Path, why: &str) -> Trial {
    let name = format!("is YAML: {}", shown(file).display());
    Trial::new(name, file.to_owned(), Value::Null, Some(why.to_owned()))
}

fn stored(file: &Path, count: usize) -> Trial {
    let name = format!("has one stored version: {}", shown(file).display());
    let why = format!("{count} of spec.versions say `storage: true`; the API server takes a CRD with exactly one");
    Trial::new(name, file.to_owned(), Value::Null, Some(why))
}

fn is_parent(object: &Value, kind: &Kind) -> bool {
    let (group, name) = names_of(object);
    (group, name) == (&kind.group, &kind.kind)
}

/// Returns the group and the kind of an object.
fn names_of(object: &Value) -> (&str, &str) {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    (group, text("kind"))
}

/// Returns whether a sample of the plugin's parents would be stored, or else why not; none if neither a CRD nor the plugin
/// says anything about it.
async fn verdict(
    sample: &Value,
    config: &Value,
    revision: &Arc<Revision>,
    api_server: &mut ApiServer<'_>,
) -> Option<Result<(), String>> {
    let (_, unknown) = api_server.asked(sample);
    if !unknown.is_empty() {
        return Some(Err(format!("the API server would refuse it: {}: unknown field", unknown.join(", "))));
    }
    let asked = match as_stored(sample, config, revision, api_server).await {
        Ok(stored) => stored.object,
        Err(why) => return Some(Err(why)),
    };
    match api_server.refused(&asked, None).await {
        None if !revision.validates() => None,
        Some(refused) if !refused.is_empty() => {
            Some(Err(format!("the API server would refuse it: {}", joined(&refused))))
        }
        _ => Some(invalid(&asked, config, revision).await.map_or(Ok(()), Err)),
    }
}

/// Returns what the plugin finds wrong in an object that the API server admits. The API server converts it first to the
/// version in which the plugin is asked.
async fn invalid(object: &Value, config: &Value, revision: &Arc<Revision>) -> Option<String> {
    if !revision.validates() {
        return None;
    }
    let kind = &revision.descriptor().parent;
    let is_other = object.get("apiVersion").is_some_and(|version| *version != *kind.api_version());
    let object = match is_other && revision.converts() {
        true => round_trip::converted(object, &kind.version, revision).await.ok()?,
        false => object.clone(),
    };
    let shown = shown_for_admission(&object, revision.descriptor()).ok()?;
    let verdict = match revision.validate(proposal(shown, config)).await.map(|outcome| outcome.result) {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(failure)) => return Some(format!("the plugin could not validate it: {failure:?}")),
        Err(aborted) => return Some(format!("the plugin could not validate it: {aborted}")),
    };
    let errors: Vec<String> =
        verdict.errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
    (!errors.is_empty()).then(|| format!("the plugin would refuse it: {}", errors.join("; ")))
}

/// Returns the trial of a sample of another kind, which fails if it is of no kind, or of an unknown one of the plugin's
/// group. That of any other kind without a CRD in the project is not checked, which a warning says.
fn other(file: &Path, object: &Value, kind: &Kind, files: &Files) -> Option<Trial> {
    if file.file_stem().is_some_and(|stem| stem == KUSTOMIZATION) {
        return None;
    }
    let place = shown(file);
    let (group, name) = names_of(object);
    let fails = |why: String| {
        Some(Trial::new(format!("has a known kind: {}", place.display()), file.to_owned(), object.clone(), Some(why)))
    };
    if name.is_empty() || object.get("apiVersion").is_none() {
        return fails("it has no apiVersion or no kind".to_owned());
    }
    if !is_custom(group) || !files.versions(&Kind::new(group, "", name)).is_empty() {
        return None;
    }
    if group == &*kind.group {
        return fails(format!("there is no CRD of {name}.{group} in {PLACE}; correct the kind, or add its CRD"));
    }
    terminal::note(format_args!(
        "warning: there is no CRD of {name}.{group} in {PLACE}, so {} was not checked",
        place.display()
    ));
    None
}
