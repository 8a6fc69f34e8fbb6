//! What the API server would say of the parents of cases and of samples before any webhook, by the CRD of the project.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::cli::idempotence;
use crate::cli::project::{CaseFile, shown};
use crate::cli::schema::files::{Files, Version};
use crate::cli::schema::findings::Findings;
use crate::cli::schema::review::review;
use crate::cli::terminal;
use crate::cli::trial::Trial;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_sandbox::cases::expect::{Expect, RefusedField};
use hotshoe_sandbox::cases::{Case, CaseOutcome, Function, Report};
use hotshoe_sandbox::revision::Revision;

/// Where the CRD of a kind has to be.
const PLACE: &str = "crds/";

/// What is known of the API server without one: the CRD of a kind.
pub(super) struct ApiServer<'a> {
    files: &'a Files,
    kind: &'a Kind,
    versions: Vec<Version<'a>>,
    /// What could not be checked, each once.
    unchecked: BTreeSet<String>,
}

impl<'a> ApiServer<'a> {
    /// Takes the CRD of the plugin's parents, if the project has it.
    pub(super) fn of(files: &'a Files, kind: &'a Kind) -> Self {
        let mut versions = files.versions(kind);
        versions.retain(|version| version.schema.json().is_object());
        Self { files, kind, versions, unchecked: BTreeSet::new() }
    }

    /// Returns the report on a case in which no function is called, because the API server refuses the object or because
    /// the case expects that or rules it out.
    pub(super) fn judge(&mut self, case: &Case) -> Option<Report> {
        let expects_refusal = matches!(case.expect, Some(Expect::Refused(_)));
        let Some(refused) = object_of(case).and_then(|object| self.refused(object, case.old.as_ref())) else {
            let why = format!("it expects that the object is refused, but there is no CRD of {} in {PLACE}", self.kind);
            return expects_refusal.then(|| failed(why));
        };
        if refused.is_empty() {
            let why = "it says `valid: false`, but the object is valid by the CRD; remove that line";
            return (!case.valid).then(|| failed(why.to_owned()));
        }
        if !case.valid && !expects_refusal {
            return None;
        }
        if case.expect.is_none() || expects_refusal {
            let actual = Expect::Refused(refused).sorted();
            let is_same = case.expect.clone().map(Expect::sorted).as_ref() == Some(&actual);
            return Some(match is_same {
                true => report(CaseOutcome::Passed),
                false => report(CaseOutcome::Differs { actual: Box::new(actual) }),
            });
        }
        let object = if case.call == Function::Default { "the object with these defaults" } else { "this object" };
        Some(failed(format!("the API server would refuse {object}: {}", joined(&refused))))
    }

    /// Reviews the samples of the plugin's parents. Of those of the version that it is shown, the plugin fills in its
    /// defaults first. A file that cannot be read fails.
    pub(super) async fn samples(&mut self, cases: &[CaseFile], revision: &Arc<Revision>) -> Vec<Trial> {
        let unreadable = |(file, why): &(PathBuf, String)| {
            Trial::new(format!("is YAML: {}", shown(file).display()), file.clone(), Value::Null, Some(why.clone()))
        };
        let mut trials: Vec<Trial> = self.files.unreadable().map(unreadable).collect();
        for (file, object) in self.files.objects() {
            let is_parent = ObjectRef::of(object).is_ok_and(|object| object.kind.is_served_as(self.kind));
            if !is_parent {
                continue;
            }
            let defaulted = idempotence::filled_in(object, cases, revision).await;
            let object = defaulted.as_ref().unwrap_or(object);
            let Some(refused) = self.refused(object, None) else { continue };
            let failure =
                (!refused.is_empty()).then(|| format!("the API server would refuse it: {}", joined(&refused)));
            let name = format!("valid by its CRD: {}", shown(file).display());
            trials.push(Trial::new(name, file.clone(), object.clone(), failure));
        }
        trials
    }

    /// Prints what could not be checked.
    pub(super) fn note_unchecked(&self) {
        if self.versions.is_empty() && is_custom(self.kind) {
            let kind = self.kind;
            terminal::note(format_args!(
                "warning: there is no CRD of {kind} in {PLACE}, so whether the API server would refuse its objects was \
                 not checked"
            ));
        }
        for unchecked in &self.unchecked {
            terminal::note(format_args!("warning: not checked as the API server does: {unchecked}"));
        }
    }

    /// Returns why the API server refuses an object, nothing if it admits it; none if there is no CRD of its kind.
    fn refused(&mut self, object: &Value, old: Option<&Value>) -> Option<Vec<RefusedField>> {
        let first = self.versions.first()?;
        let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let version = self.versions.iter().find(|version| version.kind.api_version() == api_version);
        let Some(version) = version else {
            let message = format!("{} has no version {api_version}", shown(first.file).display());
            return Some(vec![RefusedField { field: "apiVersion".to_owned(), message }]);
        };
        // An old object of another version would be converted first.
        let old = old.filter(|old| old.get("apiVersion") == object.get("apiVersion"));
        let Findings { problems, unchecked } = review(version, object, old);
        let file = shown(version.file);
        self.unchecked.extend(unchecked.into_iter().map(|what| format!("{}: {what}", file.display())));
        Some(problems)
    }
}

/// Returns whether a kind has a CRD, and is none of Kubernetes itself.
fn is_custom(kind: &Kind) -> bool {
    kind.group.contains('.') && !kind.group.ends_with(".k8s.io")
}

/// Returns the object of a case that the API server would validate. Before `default` is called it only drops fields, so
/// what counts is the object with its defaults, if the case has that.
fn object_of(case: &Case) -> Option<&Value> {
    match (case.call, &case.expect) {
        (Function::Default, Some(Expect::Defaulted(object))) => Some(object),
        (Function::Default, _) => None,
        _ => Some(&case.parent),
    }
}

fn joined(refused: &[RefusedField]) -> String {
    let lines: Vec<String> = refused.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

fn failed(why: String) -> Report {
    report(CaseOutcome::Failed(why))
}

fn report(verdict: CaseOutcome) -> Report {
    Report { verdict, logs: Vec::new(), elapsed: Duration::ZERO, memory: 0 }
}
