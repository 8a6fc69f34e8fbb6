//! What the review of an object found. Pure.

use std::fmt;

use hotshoe_sandbox::cases::expect::RefusedField;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Findings {
    /// Why the API server refuses the object.
    pub(in crate::cli) problems: Vec<RefusedField>,
    /// What could not be checked here, with the reason.
    pub(in crate::cli) unchecked: Vec<String>,
}

impl Findings {
    /// Adds a problem.
    pub(super) fn problem(&mut self, field: &str, message: impl Into<String>) {
        self.problems.push(RefusedField { field: field.to_owned(), message: message.into() });
    }

    /// Adds what was found in another respect.
    pub(in crate::cli) fn add(&mut self, other: Findings) {
        self.problems.extend(other.problems);
        self.unchecked.extend(other.unchecked);
    }

    /// Adds what could not be checked of a field.
    pub(super) fn unchecked(&mut self, field: &str, what: impl fmt::Display) {
        let field = if field.is_empty() { "the object" } else { field };
        self.unchecked.push(format!("{field}: {what}"));
    }
}
