//! Follows the decisions about the parent of a case, and finds what does not hold of them.

use std::fmt;

use serde_json::{Value, json};

use super::related::without_pods_of_children;
use super::rounds::{Interruption, Plugin, Rounds};
use super::story;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_sandbox::cases::{Case, Function};

/// The maximum number of decisions that change something, where a case does not say it.
pub(super) const MOST_DECISIONS: u32 = 10;
/// The maximum number of children that are lost, one at a time.
const MAX_LOST: usize = 16;

/// What was followed.
#[derive(Default)]
pub(super) struct Followed {
    /// How many cases were followed until nothing changed.
    pub(super) settled: usize,
    /// The largest number of decisions that changed something.
    pub(super) most_decisions: u32,
    /// The parents that were followed from nothing, each with the configuration: many cases have the same.
    from_nothing: Vec<(Value, Value)>,
}

/// What must hold for every plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Property {
    /// The plugin decides at all. Its case shows the answer.
    Decides,
    /// The same input gives the same answer.
    Repeats,
    /// In the end a decision changes nothing.
    Settles,
    /// No later decision fails or is denied.
    GoesOn,
    /// Whichever child is lost, the same children are there in the end.
    Restores,
    /// A clean-up is done in the end.
    CleansUp,
    /// No decision of a clean-up fails or is denied.
    CleanUpGoesOn,
}

/// A property that does not hold.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub(super) property: Property,
    /// Whether it holds from where the case begins, but not from where nothing exists.
    pub(super) from_nothing: bool,
    /// The decisions, in lines.
    why: String,
}

/// What does not hold, each with the case from which that was found.
#[derive(Default)]
pub(in crate::cli) struct CounterExamples(pub(super) Vec<(Case, Broken)>);

impl CounterExamples {
    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Broken {
    fn new(property: Property, why: String) -> Self {
        Self { property, from_nothing: false, why }
    }

    /// Names what an interruption breaks: `settles` if decisions went on, `goes_on` if one was refused.
    fn by(interruption: &Interruption, settles: Property, goes_on: Property) -> Self {
        let property = match interruption {
            Interruption::Endless { .. } => settles,
            Interruption::Refused { .. } | Interruption::Unknown => goes_on,
        };
        Self::new(property, interruption.to_string())
    }

    fn since_nothing(self, where_from: &str) -> Self {
        Self { from_nothing: true, why: format!("{where_from}: {}", self.why), ..self }
    }
}

/// Returns how many decisions from a case may change something.
pub(super) fn limit(case: &Case) -> u32 {
    case.steady.map_or(MOST_DECISIONS, |steady| steady.within.get())
}

/// Returns a case whose parent was just created.
pub(super) fn from_nothing(case: &Case) -> Case {
    let related = without_pods_of_children(case);
    let mut case = Case { children: Vec::new(), related, refusals: Vec::new(), ..case.clone() };
    if let Some(parent) = case.parent.as_object_mut() {
        parent.remove("status");
    }
    case
}

impl Followed {
    /// Follows the parent of a case. Returns what does not hold.
    pub(super) async fn follow(&mut self, case: &Case, plugin: Plugin<'_>) -> Option<Broken> {
        let mut rounds = Rounds::new(case.clone(), plugin).ok()?;
        if let Some(difference) = rounds.repeated().await {
            return Some(Broken::new(Property::Repeats, difference));
        }
        match rounds.settle(limit(case)).await {
            Ok(decisions) => {
                self.settled += 1;
                self.most_decisions = self.most_decisions.max(decisions);
                match clean_up(&rounds).await {
                    None => self.follow_from_nothing(case, plugin).await,
                    broken => broken,
                }
            }
            Err(Interruption::Unknown) => None,
            Err(refused) if rounds.number() == 0 => {
                // The case itself shows the first answer, unless it says how soon it settles.
                case.steady.map(|_| Broken::new(Property::Decides, refused.to_string()))
            }
            Err(interruption) => Some(Broken::by(&interruption, Property::Settles, Property::GoesOn)),
        }
    }

    /// Follows the parent of a case from where nothing exists yet, and then from what is left after each loss: what a case
    /// observes may be the middle of a change, to which no loss leads back. Returns what does not hold.
    async fn follow_from_nothing(&mut self, case: &Case, plugin: Plugin<'_>) -> Option<Broken> {
        let case = from_nothing(case);
        let parent = (case.parent.clone(), case.config.clone());
        if self.from_nothing.contains(&parent) {
            return None;
        }
        self.from_nothing.push(parent);
        let mut rounds = Rounds::new(case, plugin).ok()?;
        match rounds.settle(MOST_DECISIONS).await {
            Ok(decisions) => {
                self.most_decisions = self.most_decisions.max(decisions);
                after_losses(&rounds).await
            }
            Err(Interruption::Unknown | Interruption::Refused { .. }) => None,
            Err(endless) => {
                Some(Broken::new(Property::Settles, endless.to_string()).since_nothing("from where nothing exists"))
            }
        }
    }
}

/// Removes each child, and all at once, and follows the decisions until nothing changes. Returns how it ends otherwise than
/// before. A plugin that keeps its children as they are need not make them.
async fn after_losses(settled: &Rounds<'_>) -> Option<Broken> {
    if settled.keeps() {
        return None;
    }
    let all = settled.cluster.references();
    let each = all.iter().take(MAX_LOST).map(std::slice::from_ref);
    let every = (all.len() > 1).then_some(&*all);
    for lost in each.chain(every) {
        let mut rounds = settled.again(settled.case.clone());
        lost.iter().for_each(|child| rounds.cluster.remove(child));
        let broken = match rounds.settle(MOST_DECISIONS).await {
            Ok(_) => story::difference(&settled.cluster.applied(), &rounds.cluster.applied())
                .map(|difference| Broken::new(Property::Restores, difference)),
            Err(Interruption::Unknown) => return None,
            Err(interruption) => Some(Broken::by(&interruption, Property::Settles, Property::GoesOn)),
        };
        if let Some(broken) = broken {
            return Some(broken.since_nothing(&format!("after the loss of {}", names(lost))));
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
async fn clean_up(settled: &Rounds<'_>) -> Option<Broken> {
    let mut case = settled.case.clone();
    let finalizer = settled.finalizer()?;
    let metadata = case.parent.get_mut("metadata")?.as_object_mut()?;
    metadata.insert("finalizers".to_owned(), json!([finalizer]));
    metadata.insert("deletionTimestamp".to_owned(), "2026-01-01T00:00:00Z".into());
    case.call = Function::Finalize;
    let mut rounds = settled.again(case);
    match rounds.clean_up(MOST_DECISIONS).await {
        Ok(()) | Err(Interruption::Unknown) => None,
        Err(interruption) => {
            let broken = Broken::by(&interruption, Property::CleansUp, Property::CleanUpGoesOn);
            Some(Broken { why: format!("the clean-up: {broken}"), ..broken })
        }
    }
}
