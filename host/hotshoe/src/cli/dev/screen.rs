//! What the author sees: one line for each save, problems and notes below it, and on a terminal the current step at the
//! bottom.

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use crate::cli::terminal;

/// Prints lines, and repeats no problem and no note.
#[derive(Default)]
pub(super) struct Screen {
    problem: Option<String>,
    /// What was noted last about each topic.
    notes: [Option<String>; 2],
    has_bottom: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { has_bottom: stdout().is_terminal(), ..Self::default() }
    }

    /// Returns whether a problem is the one that was shown last, and takes it as shown.
    pub(super) fn is_known(&mut self, problem: Option<&str>) -> bool {
        let is_known = problem.is_some() && self.problem.as_deref() == problem;
        self.problem = problem.map(str::to_owned);
        is_known
    }

    /// Prints the line of a save.
    ///
    /// # Errors
    /// When it cannot be written, or its reader has gone.
    pub(super) fn line(&self, line: &str) -> anyhow::Result<()> {
        terminal::line(line)
    }

    /// Prints a problem, indented below the line of its save.
    ///
    /// # Errors
    /// When it cannot be written, or its reader has gone.
    pub(super) fn problem(&self, problem: &str) -> anyhow::Result<()> {
        terminal::print(problem.trim_end().lines().map(|line| format!("  {line}\n")).collect::<String>())
    }

    /// Prints notes, each of a topic, unless the last one of that topic was the same.
    ///
    /// # Errors
    /// When one cannot be written, or its reader has gone.
    pub(super) fn notes(&mut self, notes: [Option<String>; 2]) -> anyhow::Result<()> {
        for (known, note) in self.notes.iter_mut().zip(notes) {
            if let Some(note) = note.filter(|note| known.as_ref() != Some(note)) {
                terminal::line(&note)?;
                *known = Some(note);
            }
        }
        Ok(())
    }

    /// Shows at the bottom what is being done, and for how long.
    ///
    /// # Errors
    /// When it cannot be written, or its reader has gone.
    pub(super) fn working(&self, step: &str, since: Duration) -> anyhow::Result<()> {
        self.bottom(&format!("{step} … {:.1} s", since.as_secs_f64()))
    }

    /// Shows at the bottom that a save is waited for.
    ///
    /// # Errors
    /// When it cannot be written, or its reader has gone.
    pub(super) fn waiting(&self, plugin: &str, files: usize) -> anyhow::Result<()> {
        self.bottom(&format!("{plugin}: {files} files are watched; Ctrl-C ends"))
    }

    fn bottom(&self, text: &str) -> anyhow::Result<()> {
        if self.has_bottom { terminal::set_bottom(text) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_known_only_directly_after_it_was_shown() {
        let mut screen = Screen::default();
        assert!(!screen.is_known(Some("a")));
        assert!(screen.is_known(Some("a")));
        assert!(!screen.is_known(Some("b")));
        assert!(!screen.is_known(None));
        assert!(!screen.is_known(Some("b")), "it came back");
    }
}
