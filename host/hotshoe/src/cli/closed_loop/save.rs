//! Counter-examples as cases of their own, in the folder of those that were written by hand.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::follow::{CounterExamples, Property};
use super::rounds::Plugin;
use super::smallest::{self, Smallest};
use crate::cli::api_server::ApiServer;
use crate::cli::project::{CaseFile, Folder, shown};
use hotshoe_sandbox::cases::Case;

/// The maximum number of counter-examples of one kind in a folder.
const MAX_NUMBER: u32 = 100;

/// Writes the smallest start of each counter-example as a case. Returns a line about each.
///
/// # Errors
/// When a file cannot be written.
pub(in crate::cli) async fn save<'a>(
    found: &CounterExamples,
    cases: &[CaseFile],
    folder: &Folder,
    plugin: Plugin<'a>,
    api_server: &mut ApiServer<'a>,
) -> anyhow::Result<Vec<String>> {
    let mut known: Vec<(PathBuf, Case)> = cases.iter().map(|file| (file.path.clone(), file.case.clone())).collect();
    let mut lines = Vec::new();
    for (case, broken) in &found.0 {
        if broken.property == Property::Decides {
            continue;
        }
        let Some(smallest) = smallest::search(case, broken, plugin, api_server).await else {
            lines.push(format!("not saved: no case alone shows what {:?} has found", case.name));
            continue;
        };
        if let Some((path, _)) = known.iter().find(|(_, known)| known.begins_as(&smallest.case)) {
            lines.push(format!("not saved: {} is already the smallest start", shown(path).display()));
            continue;
        }
        let (path, case) = write(&case.name, smallest, &folder.dir.join("cases"))?;
        lines.push(format!("saved: {}", shown(&path).display()));
        known.push((path, case));
    }
    Ok(lines)
}

/// Writes a case under a name that is free.
fn write(found_by: &str, found: Smallest, cases: &Path) -> anyhow::Result<(PathBuf, Case)> {
    let (stem, sentence) = names(found.broken.property);
    for number in 1..=MAX_NUMBER {
        let name = format!("found-{stem}-{number}");
        let path = cases.join(format!("{name}.yaml"));
        let mut file = match File::create_new(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
        };
        let case = Case { name: format!("{sentence} ({name})"), ..found.case };
        let written = text(found_by, &found.broken.to_string(), &case)
            .and_then(|text| file.write_all(text.as_bytes()).map_err(anyhow::Error::from));
        if let Err(error) = written {
            // Half a case would make all others unreadable.
            let _ = std::fs::remove_file(&path);
            return Err(error.context(format!("cannot write {}", path.display())));
        }
        return Ok((path, case));
    }
    bail!("{} has found-{stem}-1.yaml to found-{stem}-{MAX_NUMBER}.yaml: remove some of them", cases.display())
}

/// Returns how files are called in which a property does not hold, and the property as a sentence.
fn names(property: Property) -> (&'static str, &'static str) {
    match property {
        Property::Decides => ("never-decides", "the plugin decides"),
        Property::Repeats => ("differs", "the same input gives the same answer"),
        Property::Settles => ("never-settles", "in the end nothing changes"),
        Property::GoesOn => ("fails-later", "no later decision fails"),
        Property::Restores => ("not-restored", "children that are lost are made again"),
        Property::CleansUp => ("clean-up-never-ends", "the clean-up ends"),
        Property::CleanUpGoesOn => ("clean-up-fails", "no decision of the clean-up fails"),
    }
}

/// Returns the text of a case, with what was found as comments.
fn text(found_by: &str, why: &str, case: &Case) -> anyhow::Result<String> {
    let mut text = format!("# Found by `hotshoe test` from the case {found_by:?}:\n");
    for line in why.lines() {
        let _ = writeln!(text, "{}", format!("# {line}").trim_end());
    }
    text.push_str(&case.to_yaml().map_err(anyhow::Error::msg)?);
    let read = Case::from_yaml(&text).map_err(anyhow::Error::msg)?;
    ensure!(
        read.begins_as(case) && read.expect == case.expect,
        "an object of it cannot be written as YAML; write the case by hand"
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_found_case_says_what_was_found_and_reads_as_it_was() {
        let case = Case::from_yaml(
            "name: 'yes'\nparent: {spec: {text: \"two\\nlines\"}}\nsteady: {within: 3}\nexpect: {decided: {children: keep}}\n",
        );
        let case = case.unwrap();
        let text = text("a\nname", "after 11 decisions:\n  ~ ConfigMap a\n", &case).unwrap();
        let comments =
            "# Found by `hotshoe test` from the case \"a\\nname\":\n# after 11 decisions:\n#   ~ ConfigMap a\n";
        assert!(text.starts_with(comments), "{text}");
        let read = Case::from_yaml(&text).unwrap();
        assert!(read.begins_as(&case) && read.steady == case.steady && read.name == case.name, "{text}");
    }
}
