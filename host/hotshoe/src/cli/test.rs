//! `hotshoe test`: runs a plugin's cases on the real component under the limits of production, without any cluster.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use crate::cli::api_server::ApiServer;
use crate::cli::closed_loop::{CounterExamples, Plugin};
use crate::cli::inspect::{load_component, note_names, note_options};
use crate::cli::project;
use crate::cli::project::{CaseFile, Folder, shown};
use crate::cli::schema::files::Files;
use crate::cli::terminal::Output;
use crate::cli::trial::Trial;
use crate::cli::{admit, closed_loop, idempotence, round_trip, samples, sources, terminal};
use hotshoe_operator::config::PluginConfig;
use hotshoe_sandbox::cases::expect::Expect;
use hotshoe_sandbox::cases::{Case, CaseOutcome, Report};
use hotshoe_sandbox::revision::Revision;

/// Run a plugin's cases (cases/*.yaml) on its component, without any cluster
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe test plugins/memcached\n  \
    hotshoe test plugins/memcached resize        # those with `resize` in their name\n  \
    hotshoe test plugins/memcached --accept      # take the answers as expected\n  \
    hotshoe test plugins/memcached --save        # keep what the loop finds\n  \
    hotshoe test plugins/memcached --bench 2000  # how long one decision takes\n\n\
    Where the project has the CRD of the parents in crds/, the samples and the objects of the cases are checked by it, as the \
    API server does before it asks a webhook.\n\n\
    Exit code: 0 when all passed, 1 otherwise.")]
pub struct Args {
    /// The plugin's folder, or its plugin.yaml [default: this folder, or the only one in plugins/]
    #[arg(value_name = "PLUGIN")]
    plugin: Option<PathBuf>,
    /// Only cases with this in their name
    #[arg(value_name = "NAME")]
    filter: Option<String>,
    /// Read the component from this folder instead of where a host looks for it
    #[arg(long, value_name = "DIR")]
    components: Option<PathBuf>,
    /// Write the answers into the case files as the expected ones, if they are decisions that a host admits
    #[arg(long)]
    accept: bool,
    /// As --accept, and write failures and rejections as well
    #[arg(long)]
    accept_failures: bool,
    /// Write the smallest start from which the decisions never settle, fail later or lose children as a new case
    #[arg(long, conflicts_with_all = ["filter", "bench"])]
    save: bool,
    /// Call each case this many times, each time in a fresh instance, and print how long a call takes
    #[arg(long, value_name = "N", conflicts_with_all = ["accept", "accept_failures"])]
    bench: Option<NonZeroUsize>,
    /// How to print the results
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Runs the cases and prints their results.
    ///
    /// # Errors
    /// If the component cannot be loaded, or there is no case.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let folder = Folder::named(self.plugin.as_deref())?;
        let cases = self.cases(&folder)?;
        let config = admit::config(folder.manifest())?;
        self.note_age(&folder);
        let revision = load_component(&folder, self.components.as_deref()).await?;
        if let Some(calls) = self.bench {
            return bench(&revision, &cases, calls.get()).await;
        }
        config.ensure_parent(&revision.descriptor().parent)?;
        note_options(folder.manifest());
        note_names(&config, &revision);
        let (files, plugin) = (Files::of(&folder), Plugin { revision: &revision, config: &config });
        let mut api_server = ApiServer::of(&files, &revision.descriptor().parent);
        let (trials, found) = match self.filter {
            Some(_) => Default::default(),
            None => trials(&files, &cases, plugin, &mut api_server).await,
        };
        let saved = match self.save {
            true => closed_loop::save(&found, &cases, &folder, plugin, &mut api_server).await?,
            false => Vec::new(),
        };
        let (mut results, mut accepted) = (Vec::new(), Vec::new());
        for mut file in cases {
            let (mut report, denied) = answered(&file.case, plugin, &mut api_server, self.accept_failures).await;
            if self.accept || self.accept_failures {
                accepted.extend(self.accept(&mut file, &mut report, denied.as_deref())?);
            }
            note_denied(&mut report, denied);
            if self.output == Output::Text {
                terminal::print(text(&file, &report))?;
            }
            results.push((file, report));
        }
        note_accepted(&accepted, &folder);
        if self.output == Output::Text {
            trials.iter().try_for_each(|trial| terminal::print(trial.text()))?;
        }
        saved.iter().for_each(terminal::note);
        self.note_save(&found, &folder);
        api_server.note_unchecked();
        self.conclude(&results, &trials)
    }

    /// Writes the answer into the case file as the expected one. A failure is accepted only if the user asks for that
    /// or the case expects one already: a plugin that cannot read its own configuration rejects every parent, and such
    /// answers must not be accepted by mistake.
    fn accept(
        &self,
        file: &mut CaseFile,
        report: &mut Report,
        denied: Option<&str>,
    ) -> anyhow::Result<Option<Accepted>> {
        let CaseOutcome::Differs { actual } = &report.verdict else { return Ok(None) };
        let (is_failure, expected) = (actual.is_failure(), file.case.expect.as_ref().is_some_and(Expect::is_failure));
        let refused = match denied {
            Some(why) => Some(format!("not accepted, because a host denies the answer: {why}")),
            None if is_failure && !expected && !self.accept_failures => Some(format!(
                "not accepted, because the answer is a failure; fix the plugin or the case, or accept it with \
                 --accept-failures:\n{}",
                indented(&yaml(actual)?).trim_end()
            )),
            None => None,
        };
        if let Some(refused) = refused {
            report.verdict = CaseOutcome::Failed(refused);
            return Ok(None);
        }
        let written = write_expectation(file, report)?;
        Ok(written.then_some(if is_failure { Accepted::Failure } else { Accepted::Decision }))
    }

    /// Warns if the component is older than its source: after a build that failed the cases are about what was built
    /// before.
    fn note_age(&self, folder: &Folder) {
        let Ok(component) = folder.component(self.components.as_deref()) else { return };
        if let Some(newer) = sources::newer_than(&component, &folder.dir) {
            terminal::note(format_args!(
                "warning: the component {} is older than its source {}, so these results are about an earlier source; build it again: `{}`",
                shown(&component).display(),
                shown(&newer).display(),
                folder.build_command()
            ));
        }
    }

    /// Says how to keep the counter-examples of the closed loop.
    fn note_save(&self, found: &CounterExamples, folder: &Folder) {
        if !found.is_empty() && !self.save {
            let components = self.components.as_ref().map(|dir| format!(" --components {}", dir.display()));
            terminal::note(format_args!(
                "the smallest start that shows what the closed loop found becomes a case by `hotshoe test {} --save{}`",
                shown(&folder.dir).display(),
                components.unwrap_or_default()
            ));
        }
    }

    fn cases(&self, folder: &Folder) -> anyhow::Result<Vec<CaseFile>> {
        let mut cases = folder.cases()?;
        let place = folder.dir.join("cases");
        ensure!(!cases.is_empty(), "there is no case: write one as {}/NAME.yaml", shown(&place).display());
        if let Some(filter) = &self.filter {
            cases.retain(|file| file.case.name.contains(filter.as_str()));
            ensure!(!cases.is_empty(), "no case in {} has {filter:?} in its name", shown(&place).display());
        }
        Ok(cases)
    }

    fn conclude(&self, results: &[(CaseFile, Report)], trials: &[Trial]) -> anyhow::Result<ExitCode> {
        let passed = results.iter().map(|(_, report)| passed(report)).chain(trials.iter().map(Trial::passed));
        let (all, failed) = (results.len() + trials.len(), passed.filter(|passed| !passed).count());
        let records = results.iter().map(|(file, report)| record(file, report));
        let records: Value = records.chain(trials.iter().map(Trial::record)).collect();
        self.output.print(&records, || Ok(format!("{} passed, {failed} failed\n", all - failed)))?;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Runs a case, and asks whether a host would deny the answer. Where the API server refuses the object, no host is asked.
async fn answered(
    case: &Case,
    Plugin { revision, config }: Plugin<'_>,
    api_server: &mut ApiServer<'_>,
    accepts_failures: bool,
) -> (Report, Option<String>) {
    if let Some(report) = api_server.judge(case, accepts_failures).await {
        return (report, None);
    }
    (api_server.run(case, revision).await, admit::denial(case, revision, config).await)
}

/// Has a case fail that answers as expected, if a host denies that.
fn note_denied(report: &mut Report, denied: Option<String>) {
    if let (true, Some(why)) = (passed(report), denied) {
        report.verdict = CaseOutcome::Failed(format!("it answers as expected, but a host denies that: {why}"));
    }
}

/// The results of all cases of a plugin, and of what must hold besides.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) passed: usize,
    /// What each failure has to say.
    pub(super) failures: Vec<String>,
}

impl Results {
    /// Runs all cases of a folder on a component.
    ///
    /// # Errors
    /// If the cases cannot be read, or the component serves another kind than `plugin.yaml` names.
    pub(super) async fn of(folder: &Folder, config: &PluginConfig, revision: &Arc<Revision>) -> anyhow::Result<Self> {
        config.ensure_parent(&revision.descriptor().parent)?;
        let (cases, files) = (folder.cases()?, Files::of(folder));
        let mut api_server = ApiServer::of(&files, &revision.descriptor().parent);
        let plugin = Plugin { revision, config };
        let (trials, _) = trials(&files, &cases, plugin, &mut api_server).await;
        let mut results = Self::default();
        for file in cases {
            let (mut report, denied) = answered(&file.case, plugin, &mut api_server, false).await;
            note_denied(&mut report, denied);
            results.add(passed(&report), || text(&file, &report));
        }
        trials.iter().for_each(|trial| results.add(trial.passed(), || trial.text()));
        Ok(results)
    }

    fn add(&mut self, passed: bool, text: impl FnOnce() -> String) {
        match passed {
            true => self.passed += 1,
            false => self.failures.push(text()),
        }
    }
}

/// Tries what must hold for the decisions, the samples, the conversion and the defaults of a plugin. Also returns what the
/// closed loops of its cases have shown.
async fn trials(
    files: &Files,
    cases: &[CaseFile],
    plugin: Plugin<'_>,
    api_server: &mut ApiServer<'_>,
) -> (Vec<Trial>, CounterExamples) {
    let revision = plugin.revision;
    let samples = samples::all(files, &idempotence::config_of_samples(cases), revision, api_server).await;
    let trips = round_trip::all(files, cases, revision).await;
    let defaults = idempotence::all(files, cases, revision).await;
    let (loops, found) = closed_loop::all(cases, plugin).await;
    ([loops, samples, trips, defaults].concat(), found)
}

fn passed(report: &Report) -> bool {
    matches!(report.verdict, CaseOutcome::Passed)
}

// === --accept ===

/// What kind of answer was written into a case file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepted {
    Decision,
    Failure,
}

/// Prints how many answers were written into case files.
fn note_accepted(accepted: &[Accepted], folder: &Folder) {
    if accepted.is_empty() {
        return;
    }
    let failures = accepted.iter().filter(|accepted| **accepted == Accepted::Failure).count();
    let failures = if failures > 0 { format!(", {failures} of them a failure") } else { String::new() };
    terminal::note(format_args!(
        "accepted: {}{failures}; the component carries them once it is built again: `{}`",
        accepted.len(),
        folder.build_command()
    ));
}

/// Writes the answer into the file, unless the case has passed. The rest of the file stays as it is, comments included.
fn write_expectation(file: &mut CaseFile, report: &mut Report) -> anyhow::Result<bool> {
    let CaseOutcome::Differs { actual } = &report.verdict else { return Ok(false) };
    let text = with_expectation(&file.text, &yaml(actual)?);
    let case = Case::from_yaml(&text).map_err(anyhow::Error::msg);
    let case = case.with_context(|| format!("the answer cannot be written into {}", file.path.display()))?;
    if case.expect.clone().map(Expect::sorted).as_ref() != Some(&**actual) {
        bail!("the answer of {:?} cannot be written as YAML; write it by hand", file.case.name);
    }
    project::write(&file.path, text.as_bytes())?;
    (file.text, file.case) = (text, case);
    report.verdict = CaseOutcome::Passed;
    Ok(true)
}

/// Returns the text with another block under the key `expect`, which is at the left margin.
fn with_expectation(text: &str, expectation: &str) -> String {
    let is_next = |line: &str| line.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '#');
    let mut lines = text.lines().peekable();
    let mut result = String::new();
    let mut block = String::from("expect:\n");
    for line in expectation.lines() {
        let _ = writeln!(block, "  {line}");
    }
    while let Some(line) = lines.next() {
        if line.starts_with("expect:") {
            while lines.next_if(|line| !is_next(line)).is_some() {}
            result.push_str(&std::mem::take(&mut block));
        } else {
            let _ = writeln!(result, "{line}");
        }
    }
    result + &block
}

fn yaml(expect: &Expect) -> anyhow::Result<String> {
    expect.to_yaml().map_err(anyhow::Error::msg)
}

// === output ===

fn text(file: &CaseFile, report: &Report) -> String {
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

fn indented(text: &str) -> String {
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

// === --bench ===

/// Measures single calls of each case: the time inside of the call, and the time until the caller has the answer.
async fn bench(revision: &Arc<Revision>, cases: &[CaseFile], calls: usize) -> anyhow::Result<ExitCode> {
    terminal::line(format_args!(
        "{calls} calls of each case, each in a fresh instance, after {} to warm up",
        calls / 10
    ))?;
    let mut floor = Vec::new();
    for call in 0..calls + calls / 10 {
        let elapsed = revision.time_describe().await?;
        if call >= calls / 10 {
            floor.push(elapsed);
        }
    }
    terminal::line(format_args!("floor, `describe`, which looks at no input: call {}", quantiles(floor)))?;
    let decisions = cases.iter().filter_map(|file| Some((file.case.call.decision()?, file)));
    for (function, file) in decisions {
        let observation = file.case.observation(revision.descriptor()).map_err(anyhow::Error::msg)?;
        let observation = Arc::new(observation);
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for call in 0..calls + calls / 10 {
            let start = std::time::Instant::now();
            let outcome = revision.decide(function, Arc::clone(&observation)).await?;
            if call >= calls / 10 {
                outside.push(start.elapsed());
                inside.push(outcome.elapsed);
            }
        }
        let (name, inside, outside) = (&file.case.name, quantiles(inside), quantiles(outside));
        terminal::line(format_args!("{name}: call {inside}; with hand-over {outside}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn quantiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |per_cent: usize| times.get(times.len() * per_cent / 100).copied().map_or(0.0, micros);
    format!("p50 {:.1} µs, p99 {:.1} µs", at(50), at(99))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_is_replaced_and_the_rest_stays() {
        let text = "# why\nname: a\nexpect:\n  decided:\n    children: keep\n\n# about the parent\nparent: {}\n";
        let replaced = with_expectation(text, "other: x\n");
        assert_eq!(replaced, "# why\nname: a\nexpect:\n  other: x\n# about the parent\nparent: {}\n");
        assert_eq!(with_expectation("name: a\n", "other: x\n"), "name: a\nexpect:\n  other: x\n");
    }

    #[test]
    fn strings_that_look_like_other_types_round_trip() {
        for message in
            ["trailing ", "yes", "n", "1.5", "a: b", "- c", "null", "", "It's #1", "ä\u{a0}b", &"long word ".repeat(40)]
        {
            let expect = Expect::Other(message.to_owned());
            let text = with_expectation("name: a\nparent: {}\n", &yaml(&expect).unwrap());
            assert_eq!(Case::from_yaml(&text).unwrap().expect, Some(expect), "{text}");
        }
    }
}
