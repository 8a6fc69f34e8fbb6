//! The end to which the decisions about one parent lead, for a person or a script.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::counted;
use super::follow::limit;
use super::rounds::{Plugin, Rounds};
use super::story;
use hotshoe_core::compare::json_diff::Field;
use hotshoe_core::simulation::Action;
use hotshoe_sandbox::cases::{Case, Function};

/// What comes of a start.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Simulated {
    /// Whether a decision changed nothing in the end or, of a clean-up, whether it was done.
    pub(in crate::cli) settled: bool,
    /// Why not.
    why: Option<String>,
    /// The decisions that changed something.
    decisions: Vec<Decision>,
    /// The parent in the end.
    parent: Value,
    /// Its children in the end.
    children: Vec<Value>,
    #[serde(skip)]
    story: String,
}

/// What a decision changed.
#[derive(Debug, Serialize)]
struct Decision {
    children: Vec<Change>,
    /// The fields of the status, in lines.
    status: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    action: &'static str,
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    fields: Vec<Field>,
}

impl Simulated {
    /// Carries out the decisions about the parent of a case until one changes nothing.
    ///
    /// # Errors
    /// If a child of the case has no kind or no name.
    pub(in crate::cli) async fn of(case: &Case, plugin: Plugin<'_>) -> Result<Self, String> {
        let mut rounds = Rounds::new(case.clone(), plugin)?;
        let end = match case.call {
            Function::Finalize => rounds.clean_up(limit(case)).await,
            _ => rounds.settle(limit(case)).await.map(drop),
        };
        let changing = rounds.made().iter().enumerate().filter(|(_, round)| !round.is_empty());
        let story = changing.clone().map(|(place, round)| story::of(place + 1, round)).collect();
        let decisions = changing.map(|(_, round)| Decision::from(round)).collect();
        let why = end.err().map(|interruption| interruption.to_string());
        let children = rounds.cluster.children();
        Ok(Self { settled: why.is_none(), why, decisions, parent: rounds.case.parent, children, story })
    }
}

impl From<&story::Round> for Decision {
    fn from(round: &story::Round) -> Self {
        let change = |change: &hotshoe_core::simulation::Change| Change {
            action: match change.action {
                Action::Created => "created",
                Action::Changed => "changed",
                Action::Deleted => "deleted",
            },
            api_version: change.child.kind.api_version(),
            kind: change.child.kind.kind.to_string(),
            namespace: change.child.namespace.as_deref().map(str::to_owned),
            name: change.child.name.to_string(),
            fields: change.fields.clone(),
        };
        Self { children: round.children.iter().map(change).collect(), status: round.status.clone() }
    }
}

/// For a person.
impl fmt::Display for Simulated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = counted(self.decisions.len(), "decision", "decisions");
        let Some(why) = &self.why else {
            return writeln!(formatter, "{}settled after {number}", self.story);
        };
        writeln!(formatter, "{}not settled: {}", self.story, why.trim_end())
    }
}
