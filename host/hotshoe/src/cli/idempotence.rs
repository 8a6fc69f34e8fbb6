//! Idempotent defaulting: the defaults of an object that has its defaults are that object. The API server may ask twice,
//! and asks again at each change.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::cli::as_stored::defaulted;
use crate::cli::project::{CaseFile, shown};
use crate::cli::schema::files::Files;
use crate::cli::trial::Trial;
use hotshoe_core::check::defaulting::fields;
use hotshoe_core::model::admission;
use hotshoe_core::model::decision::Document;
use hotshoe_sandbox::cases::shown_for_admission;
use hotshoe_sandbox::revision::Revision;

/// An object that defaults are filled into, twice.
struct Subject {
    file: PathBuf,
    object: Value,
    shown: Document,
    config: Value,
}

/// Fills defaults into the parents of the cases and the samples of the project, and again into what comes of it.
pub(super) async fn all(files: &Files, cases: &[CaseFile], revision: &Arc<Revision>) -> Vec<Trial> {
    if !revision.defaults() {
        return Vec::new();
    }
    let of_cases = cases.iter().map(|file| (file.path.clone(), file.case.parent.clone(), file.case.config.clone()));
    let samples = files.objects().map(|(file, object)| (file.clone(), object.clone(), config_of_samples(cases)));
    let mut subjects: Vec<Subject> = Vec::new();
    for (file, object, config) in of_cases.chain(samples) {
        let Ok(shown) = shown_for_admission(&object, revision.descriptor()) else { continue };
        if subjects.iter().all(|known| (&known.object, &known.config) != (&object, &config)) {
            subjects.push(Subject { file, object, shown, config });
        }
    }
    let mut trials = Vec::new();
    for subject in subjects {
        trials.extend(subject.try_twice(revision).await);
    }
    trials
}

/// Returns a configuration for samples. A sample is applied where any may be, and that of the first case is one with which
/// the plugin works.
pub(super) fn config_of_samples(cases: &[CaseFile]) -> Value {
    cases.first().map_or_else(|| Value::Object(serde_json::Map::new()), |file| file.case.config.clone())
}

impl Subject {
    /// Fills in the defaults twice; none if they cannot be filled in once, which leaves the object as it is.
    async fn try_twice(self, revision: &Arc<Revision>) -> Option<Trial> {
        let kind = &revision.descriptor().parent;
        let once = defaulted(self.shown, &self.config, revision).await.ok()?;
        let twice = defaulted(admission::shown(kind, once.object), &self.config, revision).await;
        let failure = match twice {
            Ok(twice) if twice.patch.is_empty() => None,
            Ok(twice) => Some(format!("the second time changed {}", fields(&twice.patch).join(", "))),
            Err(failure) => Some(format!("the second time failed: {failure}")),
        };
        let name = format!("defaults filled in twice: {}", shown(&self.file).display());
        Some(Trial::new(name, self.file, self.object, failure))
    }
}
