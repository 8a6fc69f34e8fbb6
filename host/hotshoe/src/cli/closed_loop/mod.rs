//! Carries out the decisions about the parents of cases in a model of the API server until nothing changes, and tries what
//! must hold for every plugin: a decision that is carried out changes nothing when it is made again, whichever child is lost
//! the same children are there in the end, no decision is denied, and a clean-up ends.

mod rounds;
mod story;

use serde_json::{Value, json};

pub(super) use self::rounds::Plugin;
use self::rounds::{Interruption, Rounds};
use crate::cli::project::CaseFile;
use crate::cli::trial::Trial;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::simulation::Cluster;
use hotshoe_sandbox::cases::expect::Expect;
use hotshoe_sandbox::cases::{Case, Function};

/// The maximum number of decisions that change something, where a case does not say it.
const MOST_DECISIONS: u32 = 10;
/// The maximum number of children that are lost, one at a time.
const MAX_LOST: usize = 16;

/// What the closed loops of a plugin's cases have shown.
#[derive(Default)]
struct Shown {
    trials: Vec<Trial>,
    /// How many cases were followed until nothing changed.
    settled: usize,
    /// The largest number of decisions that changed something.
    most_decisions: u32,
    /// The parents that were followed from nothing, each with the configuration: many cases have the same.
    from_nothing: Vec<(Value, Value)>,
}

/// Tries the closed loop from each case in which the plugin decides.
pub(super) async fn all(cases: &[CaseFile], plugin: Plugin<'_>) -> Vec<Trial> {
    let mut shown = Shown::default();
    for file in cases.iter().filter(|file| is_decision(&file.case)) {
        shown.follow(file, plugin).await;
    }
    let failed = shown.trials.iter().any(|trial| !trial.passed());
    if shown.most_decisions > 0 && !failed {
        let name = format!(
            "{} within {}, whichever child is lost",
            counted(shown.settled, "case settles", "cases settle"),
            counted(shown.most_decisions as usize, "decision", "decisions")
        );
        shown.trials.push(Trial::new(name, "cases".into(), Value::Null, None));
    }
    shown.trials
}

fn counted(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

fn is_decision(case: &Case) -> bool {
    let decides = matches!(case.expect, None | Some(Expect::Decided(_) | Expect::Needs(_)));
    case.call == Function::Reconcile && (decides || case.steady.is_some())
}

impl Shown {
    async fn follow(&mut self, file: &CaseFile, plugin: Plugin<'_>) {
        let limit = file.case.steady.map_or(MOST_DECISIONS, |steady| steady.within.get());
        let Ok(cluster) = Cluster::with(&file.case.children) else { return };
        let mut rounds = Rounds::new(file.case.clone(), cluster, plugin);
        let failure = match rounds.settle(limit).await {
            Ok(decisions) => {
                self.settled += 1;
                self.most_decisions = self.most_decisions.max(decisions);
                match clean_up(&rounds).await {
                    None => self.follow_from_nothing(&file.case, plugin).await,
                    failure => failure,
                }
            }
            // The case itself shows the first answer.
            Err(Interruption::Unknown) => return,
            Err(_) if rounds.number() == 0 && file.case.steady.is_none() => return,
            Err(interruption) => Some(interruption.to_string()),
        };
        if failure.is_some() || file.case.steady.is_some() {
            let name = match file.case.steady {
                Some(steady) => {
                    let within = counted(steady.within.get() as usize, "decision", "decisions");
                    format!("steady within {within}: {}", file.case.name)
                }
                None => format!("the closed loop: {}", file.case.name),
            };
            self.trials.push(Trial::new(name, file.path.clone(), Value::Null, failure));
        }
    }

    /// Follows the parent of a case from where nothing exists yet, and then from what is left after each loss: what a case
    /// observes may be the middle of a change, to which no loss leads back. Returns what does not hold.
    async fn follow_from_nothing(&mut self, case: &Case, plugin: Plugin<'_>) -> Option<String> {
        let mut case = Case { children: Vec::new(), refusals: Vec::new(), ..case.clone() };
        case.parent.as_object_mut()?.remove("status");
        let parent = (case.parent.clone(), case.config.clone());
        if self.from_nothing.contains(&parent) {
            return None;
        }
        self.from_nothing.push(parent);
        let mut rounds = Rounds::new(case, Cluster::default(), plugin);
        match rounds.settle(MOST_DECISIONS).await {
            Ok(decisions) => {
                self.most_decisions = self.most_decisions.max(decisions);
                after_losses(&rounds).await
            }
            Err(Interruption::Unknown | Interruption::Refused { .. }) => None,
            Err(interruption) => Some(format!("from where nothing exists: {interruption}")),
        }
    }
}

/// Removes each child, and all at once, and follows the decisions until nothing changes. Returns how it ends otherwise than
/// before. A plugin that keeps its children as they are need not make them.
async fn after_losses(settled: &Rounds<'_>) -> Option<String> {
    if settled.keeps() {
        return None;
    }
    let all = settled.cluster.references();
    let each = all.iter().take(MAX_LOST).map(std::slice::from_ref);
    let every = (all.len() > 1).then_some(&*all);
    for lost in each.chain(every) {
        let mut rounds = settled.again(settled.case.clone());
        lost.iter().for_each(|child| rounds.cluster.remove(child));
        let failure = match rounds.settle(MOST_DECISIONS).await {
            Ok(_) => story::difference(&settled.cluster.applied(), &rounds.cluster.applied()),
            Err(Interruption::Unknown) => return None,
            Err(interruption) => Some(interruption.to_string()),
        };
        if let Some(failure) = failure {
            return Some(format!("after the loss of {}: {failure}", names(lost)));
        }
    }
    None
}

fn names(children: &[ObjectRef]) -> String {
    match children {
        [child] => child.to_string(),
        children => format!("all {} children", children.len()),
    }
}

/// Has the parent deleted. Returns why its clean-up does not end.
async fn clean_up(settled: &Rounds<'_>) -> Option<String> {
    let mut case = settled.case.clone();
    let finalizer = settled.finalizer()?;
    let metadata = case.parent.get_mut("metadata")?.as_object_mut()?;
    metadata.insert("finalizers".to_owned(), json!([finalizer]));
    metadata.insert("deletionTimestamp".to_owned(), "2026-01-01T00:00:00Z".into());
    case.call = Function::Finalize;
    let mut rounds = settled.again(case);
    match rounds.clean_up(MOST_DECISIONS).await {
        Ok(()) | Err(Interruption::Unknown) => None,
        Err(interruption) => Some(format!("the clean-up: {interruption}")),
    }
}
