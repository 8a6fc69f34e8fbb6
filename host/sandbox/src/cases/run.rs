//! Runs a case on a component, and compares the answer with the expected one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Aborted, Outcome};
use crate::cases::Case;
use crate::cases::expect::Expect;
use crate::revision::Revision;
use crate::store::LogLine;
use hotshoe_core::model::decision::{Answer, Call, Failure, Observation};

/// The report on one run of a case.
#[derive(Debug)]
pub struct Report {
    /// The result.
    pub verdict: CaseOutcome,
    /// The lines that the plugin logged.
    pub logs: Vec<LogLine>,
    /// How long the call ran.
    pub elapsed: Duration,
    /// The peak of the call's linear memory, in bytes.
    pub memory: usize,
}

/// The result of a case.
#[derive(Debug)]
pub enum CaseOutcome {
    /// As expected.
    Passed,
    /// The plugin answered something else, or nothing was expected.
    Differs {
        /// The answer.
        actual: Box<Expect>,
    },
    /// The plugin failed, or the case cannot be used.
    Failed(String),
}

impl Case {
    /// Calls the plugin with the case's observation and compares its answer.
    pub async fn run(&self, revision: &Arc<Revision>) -> Report {
        let Some(call) = self.call.decision() else { return self.run_admission(revision).await };
        let observation = match self.observation(revision.descriptor()) {
            Ok(observation) => Arc::new(observation),
            Err(message) => return Report::unusable(message),
        };
        if let Err(message) = self.check_keys(revision, call, &observation).await {
            return Report::unusable(message);
        }
        let called = revision.decide(call, observation).await;
        self.judge(called, |result| Expect::from(&result).sorted())
    }

    /// Compares the answer to a call, in the form of cases, with the expected one.
    pub(super) fn judge<T>(
        &self,
        called: Result<Outcome<T>, Aborted>,
        written: impl FnOnce(Result<T, Failure>) -> Expect,
    ) -> Report {
        let outcome = match called {
            Ok(outcome) => outcome,
            Err(Aborted { error, logs, elapsed, memory, .. }) => {
                return Report { verdict: CaseOutcome::Failed(error.to_string()), logs, elapsed, memory };
            }
        };
        let actual = written(outcome.result);
        let passed = self.expect.clone().map(Expect::sorted).as_ref() == Some(&actual);
        let verdict = if passed { CaseOutcome::Passed } else { CaseOutcome::Differs { actual: Box::new(actual) } };
        Report { verdict, logs: outcome.logs, elapsed: outcome.elapsed, memory: outcome.memory }
    }

    /// Checks that the plugin reads all related objects of the case: under a declared key, or under one that it asks
    /// for in a requirement. Any other key is a typing error, and its objects would never be seen.
    async fn check_keys(&self, revision: &Arc<Revision>, call: Call, all: &Observation) -> Result<(), String> {
        let declared: Vec<&str> = revision.descriptor().reads.iter().map(|read| read.key.as_str()).collect();
        let mut unread: BTreeSet<&str> = self.related.keys().map(String::as_str).collect();
        unread.retain(|key| !declared.contains(key));
        while let Some(key) = unread.first() {
            let mut shown = all.clone();
            shown.related.retain(|related| !unread.contains(related.key.as_str()));
            let answer = revision.decide(call, Arc::new(shown)).await.map(|outcome| outcome.result);
            let needs = match answer {
                Ok(Ok(Answer::Needs(needs))) => needs,
                _ => Vec::new(),
            };
            let before = unread.len();
            let is_needed = |key: &&str| needs.iter().any(|need| need.key == **key);
            let left: BTreeSet<&str> = unread.iter().copied().filter(|key| !is_needed(key)).collect();
            if left.len() == before {
                return Err(unread_key(key, &declared));
            }
            unread = left;
        }
        Ok(())
    }
}

impl Report {
    /// Returns whether a component may carry the case: the plugin answered, and as expected if something is expected.
    pub fn holds(&self, case: &Case) -> bool {
        match &self.verdict {
            CaseOutcome::Passed => true,
            CaseOutcome::Differs { .. } => case.expect.is_none(),
            CaseOutcome::Failed(_) => false,
        }
    }

    /// Returns whether the plugin has answered a case that expects nothing yet.
    pub fn is_to_be_accepted(&self, case: &Case) -> bool {
        matches!(self.verdict, CaseOutcome::Differs { .. }) && case.expect.is_none()
    }

    /// Returns in one line why the case does not pass; none if it passes.
    pub fn why_not(&self) -> Option<String> {
        match &self.verdict {
            CaseOutcome::Passed => None,
            CaseOutcome::Differs { .. } => Some("the answer is another than expected".to_owned()),
            CaseOutcome::Failed(message) => Some(message.clone()),
        }
    }

    pub(super) fn unusable(message: String) -> Self {
        let verdict = CaseOutcome::Failed(format!("the case cannot be used: {message}"));
        Self { verdict, logs: Vec::new(), elapsed: Duration::ZERO, memory: 0 }
    }
}

fn unread_key(key: &str, declared: &[&str]) -> String {
    let declared = if declared.is_empty() { "no key".to_owned() } else { declared.join(", ") };
    format!("related has the key {key:?}, which the plugin neither declares nor asks for; it declares {declared}")
}
