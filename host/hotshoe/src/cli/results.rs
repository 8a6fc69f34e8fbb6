//! What comes of the cases of a plugin on a component, and of what must hold besides.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use crate::cli::api_server::ApiServer;
use crate::cli::closed_loop::{CounterExamples, Plugin};
use crate::cli::project::{CaseFile, Folder, shown};
use crate::cli::schema::files::Files;
use crate::cli::terminal::Output;
use crate::cli::trial::Trial;
use crate::cli::{admit, closed_loop, idempotence, round_trip, samples, terminal};
use hotshoe_operator::config::PluginConfig;
use hotshoe_sandbox::cases::expect::Expect;
use hotshoe_sandbox::cases::{Case, CaseOutcome, Report};
use hotshoe_sandbox::revision::Revision;

/// The answer to a case.
pub(super) struct Answer {
    pub(super) report: Report,
    /// Why a host would deny it.
    pub(super) denied: Option<String>,
}

impl Answer {
    /// Runs a case, and asks whether a host would deny the answer. Where the API server refuses the object, no host is
    /// asked.
    pub(super) async fn to(
        case: &Case,
        Plugin { revision, config }: Plugin<'_>,
        api_server: &mut ApiServer<'_>,
        accepts_failures: bool,
    ) -> Self {
        if let Some(report) = api_server.judge(case, accepts_failures).await {
            return Self { report, denied: None };
        }
        Self { report: api_server.run(case, revision).await, denied: admit::denial(case, revision, config).await }
    }

    /// Returns the report, by which a case fails that answers as expected if a host denies that.
    pub(super) fn judged(self) -> Report {
        let Self { mut report, denied } = self;
        if let (true, Some(why)) = (passed(&report), denied) {
            report.verdict = CaseOutcome::Failed(format!("it answers as expected, but a host denies that: {why}"));
        }
        report
    }
}

/// The results of the cases of a plugin, and of what must hold besides.
pub(super) struct Results {
    pub(super) cases: Vec<(CaseFile, Report)>,
    pub(super) trials: Vec<Trial>,
}

impl Results {
    /// Runs all cases of a folder on a component.
    ///
    /// # Errors
    /// If the cases cannot be read, or the component serves another kind than `plugin.yaml` names.
    pub(super) async fn of(folder: &Folder, config: &PluginConfig, revision: &Arc<Revision>) -> anyhow::Result<Self> {
        config.ensure_parent(&revision.descriptor().parent)?;
        let (files, plugin) = (Files::of(folder), Plugin { revision, config });
        let mut api_server = ApiServer::of(&files, &revision.descriptor().parent);
        let all = folder.cases()?;
        let (trials, _) = trials(&files, &all, plugin, &mut api_server).await;
        let mut cases = Vec::new();
        for file in all {
            let report = Answer::to(&file.case, plugin, &mut api_server, false).await.judged();
            cases.push((file, report));
        }
        Ok(Self { cases, trials })
    }

    /// Returns what each failure has to say.
    pub(super) fn failures(&self) -> Vec<String> {
        let cases = self.cases.iter().filter(|(_, report)| !passed(report)).map(|(file, report)| text(file, report));
        cases.chain(self.trials.iter().filter(|trial| !trial.passed()).map(Trial::text)).collect()
    }

    /// Returns how many passed.
    pub(super) fn passed(&self) -> usize {
        let cases = self.cases.iter().filter(|(_, report)| passed(report)).count();
        cases + self.trials.iter().filter(|trial| trial.passed()).count()
    }

    /// Prints how many passed, or all of it for a script. Returns the exit code.
    ///
    /// # Errors
    /// When it cannot be printed.
    pub(super) fn conclude(&self, output: Output) -> anyhow::Result<ExitCode> {
        let (all, passed) = (self.cases.len() + self.trials.len(), self.passed());
        let records = self.cases.iter().map(|(file, report)| record(file, report));
        let records: Value = records.chain(self.trials.iter().map(Trial::record)).collect();
        output.print(&records, || Ok(format!("{passed} passed, {} failed\n", all - passed)))?;
        Ok(if passed == all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Tries what must hold for the decisions, the samples, the conversion and the defaults of a plugin. Also returns what the
/// closed loops of its cases have shown.
pub(super) async fn trials(
    files: &Files,
    cases: &[CaseFile],
    plugin: Plugin<'_>,
    api_server: &mut ApiServer<'_>,
) -> (Vec<Trial>, CounterExamples) {
    let revision = plugin.revision;
    let samples = samples::all(files, &idempotence::config_of_samples(cases), revision, api_server).await;
    let trips = round_trip::all(files, cases, revision).await;
    let defaults = idempotence::all(files, cases, revision).await;
    let (loops, found) = closed_loop::all(cases, plugin, api_server).await;
    ([loops, samples, trips, defaults].concat(), found)
}

pub(super) fn passed(report: &Report) -> bool {
    matches!(report.verdict, CaseOutcome::Passed)
}

pub(super) fn yaml(expect: &Expect) -> anyhow::Result<String> {
    expect.to_yaml().map_err(anyhow::Error::msg)
}

pub(super) fn text(file: &CaseFile, report: &Report) -> String {
    let mark = if passed(report) { "ok  " } else { "FAIL" };
    let (time, memory) = (report.elapsed.as_micros(), report.memory / 1024);
    let mut text = format!("{mark} {} ({time} µs, {memory} KiB)\n", file.case.name);
    match &report.verdict {
        CaseOutcome::Passed => return text,
        CaseOutcome::Failed(message) => {
            let _ = writeln!(text, "     {message}");
        }
        CaseOutcome::Differs { actual } => {
            text.push_str(&difference(file, actual, terminal::is_coloured(&std::io::stdout())))
        }
    }
    for line in &report.logs {
        let _ = writeln!(text, "     log: {}", line.message);
    }
    text
}

fn difference(file: &CaseFile, actual: &Expect, colour: bool) -> String {
    let written = |expect: &Expect| yaml(expect).unwrap_or_else(|error| error.to_string());
    let Some(expected) = &file.case.expect else {
        return format!("     nothing is expected yet; `--accept` writes this down:\n{}", indented(&written(actual)));
    };
    let (expected, actual) = (written(&expected.clone().sorted()), written(actual));
    let mut text = format!("     {}: - expected, + answered\n", shown(&file.path).display());
    for hunk in TextDiff::from_lines(&expected, &actual).unified_diff().context_radius(3).iter_hunks() {
        for change in hunk.iter_changes() {
            let (sign, code) = match change.tag() {
                ChangeTag::Delete => ("-", "31"),
                ChangeTag::Insert => ("+", "32"),
                ChangeTag::Equal => (" ", "0"),
            };
            let line = change.value().trim_end_matches('\n');
            let _ = match colour {
                true => writeln!(text, "     \u{1b}[{code}m{sign} {line}\u{1b}[0m"),
                false => writeln!(text, "     {sign} {line}"),
            };
        }
    }
    text
}

pub(super) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("       {line}\n")).collect()
}

fn record(file: &CaseFile, report: &Report) -> Value {
    let (error, difference) = match &report.verdict {
        CaseOutcome::Passed => (None, None),
        CaseOutcome::Failed(message) => (Some(message.clone()), None),
        CaseOutcome::Differs { actual } => (None, Some(difference(file, actual, false))),
    };
    json!({
        "name": file.case.name,
        "file": file.path,
        "passed": passed(report),
        "microseconds": micros(report.elapsed),
        "memoryBytes": report.memory,
        "error": error,
        "difference": difference,
        "logs": report.logs,
    })
}

pub(super) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
