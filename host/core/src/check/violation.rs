//! A broken rule, and all rules that one decision breaks.

use std::fmt;

use crate::check::fix::Fix;

/// The maximum number of violations of one decision that are kept; further ones are only counted.
const MAX_KEPT: usize = 20;

/// A rule that a decision breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// A short name for logs and metrics, such as `kind-not-granted`.
    pub rule: &'static str,
    /// The object, and what in it breaks the rule.
    pub message: String,
    /// The change that fixes the violation; absent where the message names it.
    pub fix: Option<Fix>,
    /// The JSON pointer to the field of the object that breaks the rule; absent where no single field does.
    pub pointer: Option<Box<str>>,
}

impl Violation {
    /// Builds a violation of `rule` without a fix: the message must say what to do, unless a fix is added.
    pub fn new(rule: &'static str, message: impl Into<String>) -> Self {
        Self { rule, message: message.into(), fix: None, pointer: None }
    }

    /// Adds the change that fixes the violation.
    #[must_use]
    pub fn fixed_by(self, fix: Fix) -> Self {
        Self { fix: Some(fix), ..self }
    }

    /// Notes that the message names a better fix than the grant, so that the grant is not among the lines to paste.
    #[must_use]
    pub fn with_better_fix(mut self) -> Self {
        if let Some(Fix::Grant(change)) = &mut self.fix {
            change.has_better = true;
        }
        self
    }

    /// Adds the JSON pointer to the field that breaks the rule.
    #[must_use]
    pub fn at(self, pointer: String) -> Self {
        Self { pointer: Some(pointer.into()), ..self }
    }

    /// Adds a change of the plugin's answer that fixes the violation.
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

/// The violations of a decision, at least one. The decision is denied as a whole.
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

    /// Returns all violations on one line, each with its fix.
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

    /// Returns the name of the first broken rule.
    pub fn rule(&self) -> &'static str {
        self.violations.first().map_or("", |first| first.rule)
    }

    /// Removes the violations of some rules; returns `None` if no violation is left.
    pub fn without(self, rules: &[&str]) -> Option<Self> {
        self.retain(|violation| !rules.contains(&violation.rule))
    }

    /// Keeps the violations that `keep` selects; returns `None` if no violation is left.
    pub fn retain(mut self, keep: impl FnMut(&Violation) -> bool) -> Option<Self> {
        self.violations.retain(keep);
        (!self.violations.is_empty()).then_some(self)
    }

    /// Returns the number of violations, including those that are not kept.
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

/// Combines the results of independent checks.
///
/// # Errors
/// When one of the checks failed. Lists the violations of all of them.
pub fn all(checks: impl IntoIterator<Item = Checked>) -> Checked {
    let mut violations = Violations::default();
    checks.into_iter().filter_map(Result::err).for_each(|denial| violations.extend(denial));
    violations.finish(())
}

/// Collects violations. Keeps a bounded number of them, because a plugin determines how many there are.
#[derive(Debug, Default)]
pub struct Violations {
    kept: Vec<Violation>,
    more: usize,
}

impl Violations {
    /// Adds a violation, unless an equal one is kept already.
    pub fn add(&mut self, violation: Violation) {
        if self.kept.contains(&violation) {
            return;
        }
        match self.kept.len() < MAX_KEPT {
            true => self.kept.push(violation),
            false => self.more += 1,
        }
    }

    /// Adds the violations of a failed check, or returns the value of a passed one.
    pub fn note<T>(&mut self, checked: Result<T, Denial>) -> Option<T> {
        checked.map_err(|denial| self.extend(denial)).ok()
    }

    /// Adds all violations of a denial.
    pub fn extend(&mut self, denial: Denial) {
        denial.violations.into_iter().for_each(|violation| self.add(violation));
        self.more += denial.more;
    }

    /// Returns whether there are no violations.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns `passed` if there are no violations.
    ///
    /// # Errors
    /// When there are violations. Lists all of them.
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
        assert_eq!((denial.violations().len(), denial.count()), (MAX_KEPT, 10_000));
        assert!(denial.to_string().ends_with("(20) child 19 and 9980 more"), "{denial}");
    }

    #[test]
    fn a_denial_without_some_rules_has_the_others_or_is_none() {
        let mut violations = Violations::default();
        violations.add(Violation::new("a", "first"));
        violations.add(Violation::new("b", "second"));
        let denial = violations.finish(()).unwrap_err();
        assert_eq!(
            denial.clone().without(&["a"]).map(|left| left.to_string()),
            Some("the decision is denied as a whole: second".to_owned())
        );
        assert_eq!(denial.clone().without(&["c"]), Some(denial.clone()));
        assert_eq!(denial.without(&["b", "a"]), None);
    }

    #[test]
    fn nothing_broken_passes() {
        assert_eq!(Violations::default().finish(7), Ok(7));
    }
}
