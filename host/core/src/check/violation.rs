//! A broken rule, and all rules that one decision breaks.

use std::fmt;

use crate::check::fix::{self, Fix};
use crate::check::grant::Grant;

/// The most violations of one decision that are kept; the rest are counted.
const KEPT: usize = 20;

/// A rule that a decision breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// A short name for logs and metrics, such as `kind-not-granted`.
    pub rule: &'static str,
    /// What breaks it, and in which object.
    pub message: String,
    /// The change that lifts it, if the message does not name it.
    pub fix: Option<Fix>,
    /// The JSON pointer to the field of the object that breaks it; absent where it is none.
    pub pointer: Option<Box<str>>,
}

impl Violation {
    /// Builds a violation of `rule` whose message says what to do.
    pub fn new(rule: &'static str, message: impl Into<String>) -> Self {
        Self { rule, message: message.into(), fix: None, pointer: None }
    }

    /// Adds the change that lifts it.
    #[must_use]
    pub fn fixed_by(self, fix: Fix) -> Self {
        Self { fix: Some(fix), ..self }
    }

    /// Adds the JSON pointer to the field that breaks it.
    #[must_use]
    pub fn at(self, pointer: String) -> Self {
        Self { pointer: Some(pointer.into()), ..self }
    }

    /// Adds a change of the plugin's answer that lifts it.
    #[must_use]
    pub fn answer(self, change: impl Into<String>) -> Self {
        self.fixed_by(Fix::Answer(change.into()))
    }
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fix {
            Some(fix) => write!(f, "{}; {fix}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The result of a check.
pub type Checked = Result<(), Denial>;

/// Every rule that a decision breaks, at least one. The decision is denied as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    violations: Vec<Violation>,
    more: usize,
}

impl Denial {
    /// Returns the violations that are kept, in the order of the answer.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Returns the part of `plugin.yaml` that lifts all violations which a grant can lift, ready to be pasted
    /// beside what `grant` says; nothing where there are none.
    pub fn plugin_yaml(&self, grant: &Grant) -> Option<String> {
        fix::plugin_yaml(self.violations.iter().filter_map(|violation| violation.fix.as_ref()), grant)
    }

    /// Returns all violations on one line, each with what lifts it.
    pub fn reasons(&self) -> String {
        if let [only] = &*self.violations
            && self.more == 0
        {
            return only.to_string();
        }
        let numbered = self.violations.iter().enumerate();
        let numbered: Vec<_> = numbered.map(|(index, violation)| format!("({}) {violation}", index + 1)).collect();
        let more = if self.more > 0 { format!(" and {} more", self.more) } else { String::new() };
        numbered.join(" ") + &more
    }

    /// Changes each violation.
    #[must_use]
    pub fn map(mut self, change: impl Fn(Violation) -> Violation) -> Self {
        self.violations = self.violations.into_iter().map(change).collect();
        self
    }

    /// Returns the name of the first rule that is broken.
    pub fn rule(&self) -> &'static str {
        self.violations.first().map_or("", |first| first.rule)
    }

    /// Returns the denial without the violations of some rules, if any other is left.
    pub fn without(self, rules: &[&str]) -> Option<Self> {
        self.retain(|violation| !rules.contains(&violation.rule))
    }

    /// Returns the denial with some of its violations, if any is left.
    pub fn retain(mut self, keep: impl FnMut(&Violation) -> bool) -> Option<Self> {
        self.violations.retain(keep);
        (!self.violations.is_empty()).then_some(self)
    }

    /// Counts the violations, those included that are not kept.
    pub fn count(&self) -> usize {
        self.violations.len() + self.more
    }
}

impl std::error::Error for Denial {}

impl From<Violation> for Denial {
    fn from(violation: Violation) -> Self {
        Self { violations: vec![violation], more: 0 }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the decision is denied as a whole: {}", self.reasons())
    }
}

/// Returns all violations of independent checks.
///
/// # Errors
/// When there are any.
pub fn all(checks: impl IntoIterator<Item = Checked>) -> Checked {
    let mut violations = Violations::default();
    checks.into_iter().filter_map(Result::err).for_each(|denial| violations.extend(denial));
    violations.finish(())
}

/// Collects violations; a bounded number is kept, as a plugin chooses how many there are.
#[derive(Debug, Default)]
pub struct Violations {
    kept: Vec<Violation>,
    more: usize,
}

impl Violations {
    /// Adds one, unless the same is there.
    pub fn add(&mut self, violation: Violation) {
        if self.kept.contains(&violation) {
            return;
        }
        match self.kept.len() < KEPT {
            true => self.kept.push(violation),
            false => self.more += 1,
        }
    }

    /// Adds the violations of a failed check and returns what a check that passed found.
    pub fn note<T>(&mut self, checked: Result<T, Denial>) -> Option<T> {
        checked.map_err(|denial| self.extend(denial)).ok()
    }

    /// Adds all violations of a denial.
    pub fn extend(&mut self, denial: Denial) {
        denial.violations.into_iter().for_each(|violation| self.add(violation));
        self.more += denial.more;
    }

    /// Returns true if no rule is broken.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns `passed` if no rule is broken.
    ///
    /// # Errors
    /// All violations otherwise.
    pub fn finish<T>(self, passed: T) -> Result<T, Denial> {
        match self.is_empty() {
            true => Ok(passed),
            false => Err(Denial { violations: self.kept, more: self.more }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_violation_is_printed_as_it_is_and_several_are_numbered() {
        let one = Denial::from(Violation::new("a", "first"));
        assert_eq!(one.to_string(), "the decision is denied as a whole: first");
        let mut violations = Violations::default();
        violations.add(Violation::new("a", "first"));
        violations.add(Violation::new("b", "second"));
        violations.add(Violation::new("a", "first"));
        let denial = violations.finish(()).unwrap_err();
        assert_eq!(denial.to_string(), "the decision is denied as a whole: (1) first (2) second");
        assert_eq!((denial.rule(), denial.count()), ("a", 2));
    }

    #[test]
    fn of_a_flood_of_violations_a_bounded_number_is_kept_and_the_rest_counted() {
        let mut violations = Violations::default();
        (0..10_000).for_each(|number| violations.add(Violation::new("a", format!("child {number}"))));
        let denial = violations.finish(()).unwrap_err();
        assert_eq!((denial.violations().len(), denial.count()), (KEPT, 10_000));
        assert!(denial.to_string().ends_with("(20) child 19 and 9980 more"), "{denial}");
    }

    #[test]
    fn nothing_broken_passes() {
        assert_eq!(Violations::default().finish(7), Ok(7));
    }
}
