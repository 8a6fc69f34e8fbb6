//! `hotshoe test --accept`: takes the answers of a component as the expected ones, in the files of the cases and in the
//! component.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cli::project::{CaseFile, Folder, shown};
use crate::cli::results::{Answer, Results, indented, passed, yaml};
use crate::cli::{build, project, sources, terminal};
use hotshoe_core::model::digest::Digest;
use hotshoe_sandbox::cases::expect::Expect;
use hotshoe_sandbox::cases::{Case, CaseOutcome, Report};
use hotshoe_sandbox::contract;

/// What kind of answer was written into a case file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepted {
    Decision,
    Failure,
}

/// Writes the answer into the case file as the expected one. A failure is accepted only if the user asks for that or the
/// case expects one already: a plugin that cannot read its own configuration rejects every parent, and such answers must
/// not be accepted by mistake.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn accept(
    file: &mut CaseFile,
    Answer { report, denied }: &mut Answer,
    takes_failures: bool,
) -> anyhow::Result<Option<Accepted>> {
    let CaseOutcome::Differs { actual } = &report.verdict else { return Ok(None) };
    let (is_failure, expected) = (actual.is_failure(), file.case.expect.as_ref().is_some_and(Expect::is_failure));
    let refused = match denied {
        Some(why) => Some(format!("not accepted, because a host denies the answer: {why}")),
        None if is_failure && !expected && !takes_failures => Some(format!(
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

/// Puts the accepted cases into the component that was tested, and prints how many there are.
///
/// # Errors
/// When the component cannot be written.
pub(super) fn finish(
    accepted: &[Accepted],
    results: &Results,
    folder: &Folder,
    components: Option<&Path>,
    tested: Digest,
) -> anyhow::Result<()> {
    if accepted.is_empty() {
        return Ok(());
    }
    let failures = accepted.iter().filter(|accepted| **accepted == Accepted::Failure).count();
    let failures = if failures > 0 { format!(", {failures} of them a failure") } else { String::new() };
    let carried = match carry(results, folder, components, tested)? {
        Some((path, cases)) => {
            format!("{} carries {} now", shown(&path).display(), build::number_of_cases(cases))
        }
        None => format!("the component carries them once it is built again: `{}`", folder.build_command()),
    };
    terminal::note(format_args!("accepted: {}{failures}; {carried}", accepted.len()));
    Ok(())
}

/// Puts the cases that pass into the component, as a build of the same source would. Returns its path and the number of
/// cases that it carries; none where it stays as it is, because `hotshoe build` did not write it, its source is newer, or
/// it is not the one that was tested any more.
fn carry(
    results: &Results,
    folder: &Folder,
    components: Option<&Path>,
    tested: Digest,
) -> anyhow::Result<Option<(PathBuf, usize)>> {
    let path = folder.component(components)?;
    let is_built = components.is_some() || path == folder.product();
    if !is_built || sources::newer_than(&path, &folder.dir).is_some() {
        return Ok(None);
    }
    let bytes = project::read(&path)?;
    if Digest::of(&bytes) != tested {
        return Ok(None);
    }
    let range = contract::inspect(&bytes, &folder.limits)?.cases;
    let before = Case::carried(bytes.get(range).unwrap_or_default()).map_err(anyhow::Error::msg)?;
    let cases = carried_after(before, &results.cases);
    let component = build::carrying(&bytes, &cases, &folder.limits)
        .with_context(|| format!("{} cannot carry the accepted cases", shown(&path).display()))?;
    project::write(&path, &component)?;
    Ok(Some((path, cases.len())))
}

/// Returns the cases that a component is to carry: those that pass, and those that it carries and that were not run. Where
/// the API server refuses the object, no host is asked.
fn carried_after(mut before: Vec<Case>, results: &[(CaseFile, Report)]) -> Vec<Case> {
    before.retain(|case| results.iter().all(|(file, _)| file.case.name != case.name));
    let passing = results.iter().filter(|(_, report)| passed(report)).map(|(file, _)| &file.case);
    let carried = passing.filter(|case| !matches!(case.expect, Some(Expect::Refused(_)))).cloned();
    before.into_iter().chain(carried).collect()
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
