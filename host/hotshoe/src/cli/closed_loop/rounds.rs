//! Decisions about one parent, each carried out before the next is made.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::related::{Around, cluster};
use super::story::{self, Round};
use crate::cli::admit;
use hotshoe_core::check::Inadmissible;
use hotshoe_core::check::admission::{AdmittedDecision, Stage};
use hotshoe_core::model::decision::{Answer, Call, Failure, Observation};
use hotshoe_core::model::sanitize::clean;
use hotshoe_core::simulation::{Cluster, status_after};
use hotshoe_operator::config::PluginConfig;
use hotshoe_sandbox::cases::Case;
use hotshoe_sandbox::revision::Revision;

/// The maximum length of a printed text that a plugin chose, in bytes.
const MAX_TEXT_BYTES: usize = 2_000;
/// How many of the last decisions are shown of a loop that does not settle.
const MAX_SHOWN: usize = 4;

/// A plugin as it is tested.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Plugin<'a> {
    pub(in crate::cli) revision: &'a Arc<Revision>,
    pub(in crate::cli) config: &'a PluginConfig,
}

/// The decisions about the parent of a case.
pub(super) struct Rounds<'a> {
    pub(super) case: Case,
    pub(super) cluster: Cluster,
    plugin: Plugin<'a>,
    made: Vec<Round>,
    /// Whether the controllers of Kubernetes changed something since the last decision.
    is_awaited: bool,
}

/// Why decisions were not followed to their end.
pub(super) enum Interruption {
    /// A cluster alone knows whether the decision is admitted.
    Unknown,
    /// The plugin does not decide, or a host would deny the decision.
    Refused { decision: usize, why: String },
    /// Decisions go on to change something.
    Endless { decisions: usize, last: String },
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("a host would have to ask the API server"),
            Self::Refused { decision, why } => write!(f, "decision {decision}: {why}"),
            Self::Endless { decisions, last } => {
                write!(f, "after {decisions} decisions something still changes:\n{last}")
            }
        }
    }
}

impl<'a> Rounds<'a> {
    /// Returns the beginning of the decisions about the parent of a case, in a cluster with its children.
    ///
    /// # Errors
    /// If a child of the case is no object with a kind and a name.
    pub(super) fn new(case: Case, plugin: Plugin<'a>) -> Result<Self, String> {
        Ok(Self {
            cluster: cluster(&case, &plugin.config.makers())?,
            case,
            plugin,
            made: Vec::new(),
            is_awaited: false,
        })
    }

    /// Returns the beginning of other decisions, in the same cluster.
    pub(super) fn again(&self, case: Case) -> Self {
        Self { case, cluster: self.cluster.clone(), plugin: self.plugin, made: Vec::new(), is_awaited: false }
    }

    /// Returns what each decision changed, in their order.
    pub(super) fn made(&self) -> &[Round] {
        &self.made
    }

    /// Returns how many decisions were carried out.
    pub(super) fn number(&self) -> usize {
        self.made.len()
    }

    /// Returns the finalizer that the plugin holds.
    pub(super) fn finalizer(&self) -> Option<&str> {
        self.plugin.revision.descriptor().finalizer.as_deref()
    }

    /// Returns whether the last decision kept the children as they were.
    pub(super) fn keeps(&self) -> bool {
        self.made.last().is_some_and(|round| round.keeps)
    }

    /// Carries out decisions until one changes nothing, and the controllers neither. Returns how many changed something.
    ///
    /// # Errors
    /// When more than `limit` do, or one cannot be carried out.
    pub(super) async fn settle(&mut self, limit: u32) -> Result<u32, Interruption> {
        let mut decisions = 0;
        while decisions <= limit {
            let is_empty = self.next().await?.0.is_empty();
            if is_empty && !self.is_awaited {
                return Ok(decisions);
            }
            decisions += u32::from(!is_empty);
        }
        Err(self.endless())
    }

    /// Carries out decisions of a clean-up until it is done.
    ///
    /// # Errors
    /// When more than `limit` decisions are needed, or one cannot be carried out.
    pub(super) async fn clean_up(&mut self, limit: u32) -> Result<(), Interruption> {
        for _ in 0..=limit {
            if self.next().await?.1 == Stage::Done {
                return Ok(());
            }
        }
        Err(self.endless())
    }

    fn endless(&self) -> Interruption {
        let first = self.made.len().saturating_sub(MAX_SHOWN);
        let last = self.made.iter().enumerate().skip(first).map(|(place, round)| story::of(place + 1, round)).collect();
        Interruption::Endless { decisions: self.made.len(), last }
    }

    /// Makes the next decision, and carries it out.
    async fn next(&mut self) -> Result<(&Round, Stage), Interruption> {
        let admitted = self.decide().await?;
        // What was refused is applied now.
        self.case.refusals.clear();
        let keeps = admitted.desired.is_none();
        let children = admitted.desired.as_deref().map(|desired| self.cluster.carry_out(desired)).unwrap_or_default();
        let metadata = self.write_metadata(&admitted)?;
        let status = self.write_status(&admitted);
        self.is_awaited = self.cluster.run_controllers();
        self.made.push(Round { keeps, children, metadata, status });
        let round = self.made.last().unwrap_or_else(|| unreachable!("one was pushed"));
        Ok((round, admitted.stage))
    }

    /// Writes what is stated of the parent's metadata, and returns the fields that this changes.
    fn write_metadata(&mut self, admitted: &AdmittedDecision) -> Result<Vec<String>, Interruption> {
        let (Some(stated), Some(metadata)) = (&admitted.metadata, self.case.parent.get_mut("metadata")) else {
            return Ok(Vec::new());
        };
        match self.cluster.carry_out_on(metadata, stated) {
            Ok(after) => {
                let before = std::mem::replace(metadata, after);
                Ok(story::fields(&before, metadata))
            }
            Err(path) => Err(self.refused(format!(
                "the API server would refuse it: another field manager owns metadata.{path} of the parent, with another value"
            ))),
        }
    }

    /// Writes the status, and returns the fields that this changes.
    fn write_status(&mut self, admitted: &AdmittedDecision) -> Vec<String> {
        if admitted.decision.status.is_none() && admitted.decision.conditions.is_empty() {
            return Vec::new();
        }
        let after = status_after(admitted, &self.case.parent);
        let Some(parent) = self.case.parent.as_object_mut() else { return Vec::new() };
        let before = parent.insert("status".to_owned(), after.clone()).unwrap_or(Value::Null);
        story::fields(&before, &after)
    }

    /// Asks twice for the next decision, in two instances of the component, and returns where the answers differ.
    pub(super) async fn repeated(&self) -> Option<String> {
        let (first, second) = (self.ask().await.ok()?, self.ask().await.ok()?);
        difference(&first.0, &second.0)
    }

    async fn decide(&self) -> Result<AdmittedDecision, Interruption> {
        let (answer, observation) = self.ask().await?;
        self.admit(answer, &observation)
    }

    /// Asks for a decision, with all that the plugin needs. Returns the answer and what it was shown for it.
    async fn ask(&self) -> Result<(Answer, Arc<Observation>), Interruption> {
        let Plugin { revision, config } = self.plugin;
        let around = Around { case: &self.case, cluster: &self.cluster, config };
        let related = around.related(revision.descriptor()).map_err(|why| self.refused(why.to_string()))?;
        let mut shown = Case { children: self.cluster.children(), related, ..self.case.clone() };
        for _ in 0..=config.limits.request_rounds {
            let observation = shown.observation(revision.descriptor()).map_err(|why| self.refused(why))?;
            let observation = Arc::new(observation);
            let outcome = revision.decide(self.call(), observation.clone()).await;
            let outcome = outcome.map_err(|aborted| self.refused(aborted.to_string()))?;
            match outcome.result.map_err(|failure| self.refused(text_of(failure)))? {
                Answer::Needs(needs) => {
                    for need in needs.into_iter().filter(|need| !self.case.related.contains_key(&need.key)) {
                        let needed = around.needed(&need).map_err(|why| self.refused(why.to_string()))?;
                        shown.related.insert(need.key, needed);
                    }
                }
                answer => return Ok((answer, observation)),
            }
        }
        Err(self.refused("the plugin always needs more".to_owned()))
    }

    fn call(&self) -> Call {
        self.case.call.decision().unwrap_or(Call::Reconcile)
    }

    fn admit(&self, answer: Answer, observation: &Observation) -> Result<AdmittedDecision, Interruption> {
        let Plugin { revision, config } = self.plugin;
        let denied = |denied: Inadmissible| match admit::certain(denied, &config.grant) {
            Some(denied) => self.refused(format!("a host would deny it: {}", admit::text(&denied, config))),
            None => Interruption::Unknown,
        };
        let uid = self.case.parent.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        admit::admit(self.call(), answer, uid, observation, revision.descriptor(), config).map_err(denied)
    }

    fn refused(&self, why: String) -> Interruption {
        Interruption::Refused { decision: self.made.len() + 1, why: clean(why, MAX_TEXT_BYTES) }
    }
}

/// Returns the first line in which two answers to the same input differ. A component has neither a clock nor random numbers,
/// so what differs is a mistake of the sandbox, or of what instances share.
fn difference(first: &Answer, second: &Answer) -> Option<String> {
    if first == second {
        return None;
    }
    let (first, second) = (format!("{first:#?}"), format!("{second:#?}"));
    let mut lines = first.lines().zip(second.lines());
    let (first, second) = lines.find(|(first, second)| first != second).unwrap_or((&first, &second));
    let why = format!("the same input gives two answers: {}, and then {}", first.trim(), second.trim());
    Some(clean(why, MAX_TEXT_BYTES))
}

/// Returns what a plugin says instead of a decision.
fn text_of(failure: Failure) -> String {
    match failure {
        Failure::Retry { message, .. } => format!("the plugin asks to be called again later: {message}"),
        Failure::Reject { message, field: None } => format!("the plugin rejects the parent: {message}"),
        Failure::Reject { message, field: Some(field) } => {
            format!("the plugin rejects {field} of the parent: {message}")
        }
        Failure::Other(message) => format!("the plugin fails: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::decision::Decision;

    #[test]
    fn two_answers_that_differ_are_named_by_the_first_line_that_does() {
        let waiting = |seconds| Answer::Waiting(Decision { requeue_after: seconds, ..Decision::default() });
        assert_eq!(difference(&waiting(None), &waiting(None)), None);
        let why = difference(&Answer::Done(Decision::default()), &Answer::Waiting(Decision::default()));
        assert_eq!(why.as_deref(), Some("the same input gives two answers: Done(, and then Waiting("));
    }
}
