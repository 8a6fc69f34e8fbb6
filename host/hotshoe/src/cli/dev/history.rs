//! What became of a save, as one line. Pure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::cli::plan::preview::Preview;

/// How many saved files are named.
const MAX_NAMED: usize = 2;

/// What became of a save.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) is_built: bool,
    /// How many cases passed and how many failed; none if they did not run.
    pub(super) cases: Option<Cases>,
    /// What changes on the cluster; none if that is not known.
    pub(super) preview: Option<Preview>,
    pub(super) activation: Activation,
    /// What is wrong, in whole lines.
    pub(super) problem: Option<String>,
}

/// The results of the cases, and of what must hold besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cases {
    pub(super) passed: usize,
    pub(super) failed: usize,
}

/// Whether a host decides with the component now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Activation {
    /// Something was wrong before.
    #[default]
    NotTried,
    /// No host on this machine serves the plugin from this component.
    NoHost,
    /// The component is active.
    Active,
    /// The same component was active already.
    Unchanged,
    /// The component decides for a share of the parents.
    Canary,
    /// The host has refused the component.
    Refused,
}

impl Outcome {
    /// Returns the line: when, what was saved, and what became of it after how long. `is_known` says that the problem is
    /// the same as after the save before, and is not printed again.
    pub(super) fn line(&self, at: SystemTime, saved: &str, took: Duration, is_known: bool) -> String {
        let mut cells = vec![clock(at), saved.to_owned()];
        cells.push(if self.is_built { "built" } else { "build failed" }.to_owned());
        cells.extend(self.cases.map(Cases::text));
        cells.extend(self.preview.as_ref().map(Preview::to_string));
        let end = match self.activation {
            Activation::NotTried if self.is_built => "not activated",
            Activation::NotTried => "",
            Activation::NoHost => "done",
            Activation::Active => "active",
            Activation::Unchanged => "active as before",
            Activation::Canary => "canary",
            Activation::Refused => "refused",
        };
        cells.push(format!("{end} {:.1} s", took.as_secs_f64()).trim_start().to_owned());
        if is_known {
            cells.push("as before".to_owned());
        }
        cells.join("  ")
    }
}

impl Cases {
    fn text(self) -> String {
        match self {
            Self { passed: 0, failed: 0 } => "no cases".to_owned(),
            Self { passed, failed: 0 } => format!("{passed} passed"),
            Self { passed, failed } => format!("{passed} passed, {failed} failed"),
        }
    }
}

/// Returns the time of the day in UTC: neither the program nor its libraries know another zone.
fn clock(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("{:02}:{:02}:{:02}Z", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// Names the saved files, relative to the plugin's folder or to the root of its project.
pub(super) fn named(saved: &BTreeSet<PathBuf>, folder: &Path, root: &Path) -> String {
    let relative = |path: &PathBuf| {
        let path = path.strip_prefix(folder).or_else(|_| path.strip_prefix(root)).unwrap_or(path);
        path.display().to_string()
    };
    let mut names: Vec<String> = saved.iter().take(MAX_NAMED).map(relative).collect();
    if saved.len() > MAX_NAMED {
        names.push(format!("{} more", saved.len() - MAX_NAMED));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(outcome: &Outcome, is_known: bool) -> String {
        let at = UNIX_EPOCH + Duration::from_secs(86_400 + 3_723);
        outcome.line(at, "src/lib.rs", Duration::from_millis(1_440), is_known)
    }

    #[test]
    fn a_line_says_what_was_saved_and_each_step_until_the_component_is_active() {
        let cases = Some(Cases { passed: 12, failed: 0 });
        let preview = Some(Preview::default());
        let mut outcome = Outcome { is_built: true, cases, preview, activation: Activation::Active, problem: None };
        assert_eq!(line(&outcome, false), "01:02:03Z  src/lib.rs  built  12 passed  no changes  active 1.4 s");
        (outcome.preview, outcome.activation) = (None, Activation::NoHost);
        assert_eq!(line(&outcome, false), "01:02:03Z  src/lib.rs  built  12 passed  done 1.4 s");
    }

    #[test]
    fn a_line_ends_with_the_step_that_failed_and_says_if_the_problem_is_known() {
        assert_eq!(line(&Outcome::default(), false), "01:02:03Z  src/lib.rs  build failed  1.4 s");
        assert_eq!(line(&Outcome::default(), true), "01:02:03Z  src/lib.rs  build failed  1.4 s  as before");
        let cases = Some(Cases { passed: 11, failed: 1 });
        let failing = Outcome { is_built: true, cases, ..Outcome::default() };
        assert_eq!(line(&failing, false), "01:02:03Z  src/lib.rs  built  11 passed, 1 failed  not activated 1.4 s");
    }

    #[test]
    fn a_few_saved_files_are_named_and_the_others_counted() {
        let names = |files: &[&str]| {
            named(&files.iter().map(PathBuf::from).collect(), Path::new("/p/plugins/demo"), Path::new("/p"))
        };
        assert_eq!(names(&["/p/plugins/demo/src/lib.rs"]), "src/lib.rs");
        assert_eq!(names(&["/p/Cargo.toml", "/p/plugins/demo/plugin.yaml"]), "Cargo.toml, plugin.yaml");
        assert_eq!(names(&["/p/a", "/p/b", "/p/c", "/p/d"]), "a, b, 2 more");
    }
}
