//! What the API server would say of the parents of a plugin before any webhook, by the CRD of the project.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::cli::project::shown;
use crate::cli::schema::apart;
use crate::cli::schema::files::{Files, Version};
use crate::cli::schema::keywords::Schema;
use crate::cli::schema::review::{self, Review};
use crate::cli::terminal;
use hotshoe_core::model::kind::Kind;
use hotshoe_sandbox::cases::expect::{Expect, RefusedField};
use hotshoe_sandbox::cases::{Case, CaseOutcome, Function, Report};
use hotshoe_sandbox::revision::Revision;

/// Where the CRD of a kind has to be.
pub(super) const PLACE: &str = "crds/";

/// What is known of the API server without one: the CRD of a kind.
pub(super) struct ApiServer<'a> {
    kind: &'a Kind,
    versions: Vec<Version<'a>>,
    /// What could not be checked, each once.
    unchecked: BTreeSet<String>,
}

impl<'a> ApiServer<'a> {
    /// Takes the CRD of the plugin's parents, if the project has it.
    pub(super) fn of(files: &'a Files, kind: &'a Kind) -> Self {
        Self { kind, versions: files.versions(kind), unchecked: BTreeSet::new() }
    }

    /// Returns the report on a case in which no function is called, because the API server refuses the object or because
    /// the case expects that or rules it out. With `accepts_failures`, a refusal may take the place of another expectation.
    pub(super) async fn judge(&mut self, case: &Case, accepts_failures: bool) -> Option<Report> {
        let expects_refusal = matches!(case.expect, Some(Expect::Refused(_)));
        if expects_refusal && case.call == Function::Default {
            let why = "the API server refuses nothing before `default` is called; have the case call `validate`";
            return Some(failed(why.to_owned()));
        }
        let refused = match object_of(case) {
            Some(object) => self.refused(object, case.old.as_ref()).await,
            None => None,
        };
        let Some(refused) = refused else {
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
        let is_about_answer = case.call == Function::Default;
        if case.expect.is_none() || expects_refusal || (accepts_failures && !is_about_answer) {
            let actual = Expect::Refused(refused).sorted();
            let is_same = case.expect.clone().map(Expect::sorted).as_ref() == Some(&actual);
            return Some(match is_same {
                true => report(CaseOutcome::Passed),
                false => report(CaseOutcome::Differs { actual: Box::new(actual) }),
            });
        }
        let object = if is_about_answer { "the object with these defaults" } else { "this object" };
        Some(failed(format!("the API server would refuse {object}: {}", joined(&refused))))
    }

    /// Runs a case on the component, as it is written. A case of `default` that passes so is also run as the API server
    /// asks: it fills in the defaults of the schema before it asks a webhook.
    pub(super) async fn run(&self, case: &Case, revision: &Arc<Revision>) -> Report {
        let report = case.run(revision).await;
        match self.as_asked(case).filter(|_| matches!(report.verdict, CaseOutcome::Passed)) {
            Some(asked) => with_defaults(asked.run(revision).await),
            None => report,
        }
    }

    /// Returns a case of `default` with the defaults of the schema in what is given and in what is expected; none if it
    /// has them.
    fn as_asked(&self, case: &Case) -> Option<Case> {
        let mut asked = case.clone();
        if let (Function::Default, Some(Expect::Defaulted(expected))) = (case.call, &mut asked.expect) {
            *expected = self.asked(expected).0;
            asked.parent = self.asked(&case.parent).0;
        }
        (asked.parent != case.parent).then_some(asked)
    }

    /// Returns an object as the API server shows it to a webhook, with the paths of the fields that it left out because the
    /// schema does not know them. Without a schema the object stays as it is.
    pub(super) fn asked(&self, object: &Value) -> (Value, Vec<String>) {
        match self.version_of(object).filter(|version| version.has_schema()) {
            Some(version) => review::asked(version, object),
            None => (object.clone(), Vec::new()),
        }
    }

    /// Returns a case with the parent that a host is shown once it is stored: it has the defaults of its schema.
    pub(super) fn as_shown(&self, case: &Case) -> Case {
        Case { parent: self.asked(&case.parent).0, ..case.clone() }
    }

    /// Prints what could not be checked.
    pub(super) fn note_unchecked(&self) {
        if self.versions.is_empty() && is_custom(&self.kind.group) {
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

    /// Returns why the API server refuses an object, nothing if it admits it; none if its CRD does not say.
    pub(super) async fn refused(&mut self, object: &Value, old: Option<&Value>) -> Option<Vec<RefusedField>> {
        let first = self.versions.first()?;
        let Some(version) = self.version_of(object) else {
            let known: Vec<_> = self.versions.iter().map(|version| version.kind.api_version()).collect();
            let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            let message =
                format!("{} has no version {api_version}, only {}", shown(first.file).display(), known.join(", "));
            return Some(vec![RefusedField { field: "apiVersion".to_owned(), message }]);
        };
        // An old object of another version would be converted first.
        let old = old.filter(|old| old.get("apiVersion") == object.get("apiVersion"));
        let file = shown(version.file);
        let Review { mut findings, question } = version.has_schema().then(|| review::review(version, object, old))?;
        if let Some(question) = question {
            findings.add(apart::findings(&question).await);
        }
        self.unchecked.extend(findings.unchecked.into_iter().map(|what| format!("{}: {what}", file.display())));
        Some(findings.problems)
    }

    /// Returns the schema of an object, if its CRD has one.
    pub(super) fn schema_of(&self, object: &Value) -> Option<Schema<'a>> {
        self.version_of(object).filter(|version| version.has_schema()).map(|version| version.schema)
    }

    fn version_of(&self, object: &Value) -> Option<&Version<'a>> {
        let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        self.versions.iter().find(|version| version.kind.api_version() == api_version)
    }
}

/// Says of a report that differs in what it does.
fn with_defaults(report: Report) -> Report {
    let verdict = match report.verdict {
        CaseOutcome::Passed => CaseOutcome::Passed,
        CaseOutcome::Differs { actual } => {
            let answer = actual.to_yaml().unwrap_or_else(|error| error);
            CaseOutcome::Failed(format!(
                "the API server fills in the defaults of the schema first, and then:\n{answer}"
            ))
        }
        CaseOutcome::Failed(why) => CaseOutcome::Failed(format!("with the defaults of the schema: {why}")),
    };
    Report { verdict, ..report }
}

/// Returns whether the kinds of a group have CRDs, and are none of Kubernetes itself.
pub(super) fn is_custom(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

/// Returns the object of a case that the API server would validate. It does so after `default` was called: of such a case
/// that is the object with its defaults, if the case has it.
fn object_of(case: &Case) -> Option<&Value> {
    match (case.call, &case.expect) {
        (Function::Default, Some(Expect::Defaulted(object))) => Some(object),
        (Function::Default, _) => None,
        _ => Some(&case.parent),
    }
}

pub(super) fn joined(refused: &[RefusedField]) -> String {
    let lines: Vec<String> = refused.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

fn failed(why: String) -> Report {
    report(CaseOutcome::Failed(why))
}

fn report(verdict: CaseOutcome) -> Report {
    Report { verdict, logs: Vec::new(), elapsed: Duration::ZERO, memory: 0 }
}
