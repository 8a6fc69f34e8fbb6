//! What a revision would break, asked of it alone before it is activated: children that it would
//! delete, and parents on which it fails. Nothing is compared, so it needs half the time of a run.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;

use crate::cluster::view::reference;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::observe::{context, unix_millis};
use crate::reconcile::parent_state::ParentState;
use crate::shadow::evaluate::{Judgement, Looked, Said, words};
use crate::shadow::summary::Times;
use hotshoe_core::check;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::object::{Key, Object};
use hotshoe_core::model::sanitize;

/// While one parent is decided, the next are observed and the last checked.
const AT_ONCE: usize = 4;
/// Ends a run after so many calls that use up their whole time: ten thousand would last an hour.
pub(crate) const OVERDUE: usize = 20;
/// The most that is said of a parent, bytes.
const WORDS: usize = 500;

/// What a revision would break.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// How many parents there are.
    pub parents: usize,
    /// How many were looked at: fewer only where the revision used up its time again and again.
    pub looked_at: usize,
    /// Parents of which an existing child of the plugin's would be deleted.
    pub losing: Noted,
    /// Parents on which it fails and the active revision does not.
    pub failing: Noted,
}

/// So many parents, and the first in words: the others mostly have the same to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// How many.
    pub count: usize,
    /// The first, for example `default/cache: Service default/cache-service`.
    pub first: Option<String>,
}

impl Noted {
    fn note(&mut self, parent: &Key, words: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| format!("{parent}: {words}"));
    }

    /// The first, and how many more, as the end of a sentence; nothing where the first is not known.
    fn in_words(&self) -> String {
        match (&self.first, self.count.saturating_sub(1)) {
            (None, _) => String::new(),
            (Some(first), 0) => format!(": {first}"),
            (Some(first), more) => format!(": {first}; and {more} more"),
        }
    }
}

/// Why a revision requires approval.
#[derive(Debug, PartialEq, Eq)]
pub struct Objection {
    /// In words.
    pub why: String,
    /// Whether that is because it fails: who approves it all the same knows that it does.
    pub fails: bool,
}

impl Survey {
    /// Returns why the revision requires approval: it fails where the active one does not, deletes children of
    /// more than so many parents of 100, or took too long for all of them to be looked at.
    pub fn objection(&self, max_losing: u8) -> Option<Objection> {
        let Survey { parents, looked_at, losing, failing } = self;
        let fails = failing.count > 0;
        let why = if fails {
            let (count, first) = (failing.count, failing.in_words());
            format!("it fails on {count} of {parents} parents that the active revision serves{first}")
        } else if losing.count * 100 > parents * usize::from(max_losing) {
            let (count, first) = (losing.count, losing.in_words());
            format!(
                "it would delete children of {count} of {parents} parents, more than {max_losing} of 100 (spec.swap.maxLosing){first}"
            )
        } else if looked_at < parents {
            format!(
                "only {looked_at} of {parents} parents could be looked at: {OVERDUE} calls ran for longer than they may"
            )
        } else {
            return None;
        };
        Some(Objection { why, fails })
    }
}

/// What a revision would break about one parent.
pub(crate) struct Found {
    key: Key,
    losing: Option<String>,
    failing: Option<String>,
    overdue: bool,
}

impl Found {
    /// Judges what a new revision answers about a parent. The active revision's part is settled by
    /// [`Self::excuse`].
    pub(crate) fn of(
        controller: &Controller,
        new: &ActiveRevision,
        key: &Key,
        memory: &ParentState,
        answer: &Judgement,
    ) -> Self {
        let mut found = Self { key: key.clone(), losing: None, failing: None, overdue: false };
        match answer {
            None => {}
            Some(Said { answer: Ok(_), .. }) => {
                found.losing = lost(controller, new, answer).first().map(ToString::to_string);
            }
            // What the API server did not answer now says nothing of the revision.
            Some(Said { answer: Err(Error::Api(error)), .. }) if error.is_transient() => {}
            Some(Said { answer: Err(error), tainted, .. }) => {
                found.failing = (memory.failures == 0).then(|| sanitize::clean(words(error, *tainted), WORDS));
            }
        }
        found
    }

    /// Forgets the children that the active revision would delete, too: those of a parent of the canary that it alone
    /// desires. They go with the canary, whatever follows it.
    pub(crate) fn excuse_losing(
        &mut self,
        controller: &Controller,
        (new, said): (&ActiveRevision, &Judgement),
        (present, before): (&ActiveRevision, &Judgement),
    ) {
        let go_anyway = lost(controller, present, before);
        let first = lost(controller, new, said).into_iter().find(|child| !go_anyway.contains(child));
        self.losing = first.map(|child| child.to_string());
    }

    /// Returns whether it would delete children of a parent that the canary decides for.
    pub(crate) fn loses_of_canary(&self, controller: &Controller, parent: &Object) -> bool {
        self.losing.is_some() && controller.canary.current().is_some_and(|canary| canary.has(parent))
    }

    /// Forgets that the new revision fails where the active one fails, too.
    pub(crate) fn excuse(&mut self, active_fails: bool) {
        if active_fails {
            self.failing = None;
        }
    }
}

/// Asks a revision that is not active about every parent that is there.
pub async fn survey(controller: &Controller, present: &ActiveRevision, new: &ActiveRevision) -> Survey {
    let mut keys = new.parents.watch.cache.keys();
    // In one order, so that the same is said of the same.
    keys.sort_unstable();
    let mut survey = Survey::default();
    let (mut running, mut overdue) = (FuturesOrdered::new(), 0);
    let mut parents = keys.iter().filter_map(|key| new.parents.watch.cache.get(key));
    loop {
        while running.len() < AT_ONCE && overdue < OVERDUE {
            let Some(parent) = parents.next() else { break };
            running.push_back(look(controller, present, new, parent));
        }
        let Some(found) = running.next().await else {
            // Those that are gone by now are no parents any more.
            survey.parents = survey.looked_at + parents.count();
            return survey;
        };
        overdue += usize::from(found.overdue);
        survey.add(&found);
    }
}

/// Whether a revision fails, too, on all of these parents that are there; not where none is.
pub async fn fails_on_all(controller: &Controller, revision: &ActiveRevision, parents: &[Key]) -> bool {
    let there: Vec<_> = parents.iter().filter_map(|key| revision.parents.watch.cache.get(key)).collect();
    for parent in &there {
        if !fails(controller, revision, parent.clone()).await {
            return false;
        }
    }
    !there.is_empty()
}

impl Survey {
    /// Adds what the revision would break about one parent.
    pub(crate) fn add(&mut self, found: &Found) {
        self.looked_at += 1;
        if let Some(words) = &found.losing {
            self.losing.note(&found.key, words);
        }
        if let Some(words) = &found.failing {
            self.failing.note(&found.key, words);
        }
    }
}

async fn look(controller: &Controller, present: &ActiveRevision, new: &ActiveRevision, parent: Arc<Object>) -> Found {
    let memory = controller.recall(&parent);
    let looked = Looked::at(controller, new, Some(parent.clone()), &memory, unix_millis(), &mut Times::default()).await;
    let overdue = looked.is_overdue();
    if looked.is_in_place(controller, present, new, &memory) {
        return Found { key: parent.key.clone(), losing: None, failing: None, overdue };
    }
    let said = looked.judged(controller, new).await;
    let mut found = Found::of(controller, new, &parent.key, &memory, &said);
    found.overdue = overdue;
    if found.loses_of_canary(controller, &parent) {
        let before =
            Looked::at(controller, present, Some(parent.clone()), &memory, unix_millis(), &mut Times::default()).await;
        let before = before.judged(controller, present).await;
        found.excuse_losing(controller, (new, &said), (present, &before));
    }
    if found.failing.is_some() {
        // After a start the active revision may not have tried yet.
        found.excuse(fails(controller, present, parent).await);
    }
    found
}

/// Returns whether a revision fails on a parent, or wants what was just refused.
async fn fails(controller: &Controller, revision: &ActiveRevision, parent: Arc<Object>) -> bool {
    let memory = controller.recall(&parent);
    let looked = Looked::at(controller, revision, Some(parent), &memory, unix_millis(), &mut Times::default()).await;
    is_failure(&looked.judged(controller, revision).await, &memory)
}

/// Returns whether an answer is a failure of the revision, or wants what was just refused.
pub(crate) fn is_failure(answer: &Judgement, memory: &ParentState) -> bool {
    match answer {
        None => false,
        Some(Said { answer: Ok((judged, _)), .. }) => {
            judged.desired.iter().flatten().any(|one| memory.refused.has_refused(one))
        }
        Some(Said { answer: Err(error), .. }) => error.is_plugin_fault(),
    }
}

/// The children that would be deleted. Of a parent that is being deleted they all are to go.
fn lost(controller: &Controller, revision: &ActiveRevision, answer: &Judgement) -> Vec<ObjectRef> {
    let Some(Said { observed, answer: Ok((judged, _)), .. }) = answer else { return Vec::new() };
    let Some(desired) = judged.desired.as_ref().filter(|_| !observed.parent.deleting) else { return Vec::new() };
    let context = context(controller, revision, observed);
    let is_gone = |kind: &Kind, child: &Object| {
        !child.deleting
            && check::check_prune(&reference(kind, &child.key), &context).is_ok()
            && !desired.iter().any(|one| one.reference.is(kind, &child.key))
    };
    let gone = observed.children.iter().filter(|(kind, child)| is_gone(kind, child));
    gone.map(|(kind, child)| reference(kind, &child.key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_counted_and_equal_ones_printed_once() {
        let mut noted = Noted::default();
        for (number, words) in [": n/p0: why", ": n/p0: why; and 1 more", ": n/p0: why; and 2 more"].iter().enumerate()
        {
            noted.note(&Key::new(Some("n"), &format!("p{number}")), "why");
            assert_eq!((noted.count, &*noted.in_words()), (number + 1, *words));
        }
        assert_eq!(Noted::default().in_words(), "");
    }

    /// The rollout runs on a task of its own.
    #[expect(dead_code, reason = "that it compiles is the test")]
    fn a_survey_can_be_sent(controller: &Controller, active: &ActiveRevision) -> impl Send {
        survey(controller, active, active)
    }

    fn noted(count: usize) -> Noted {
        Noted { count, first: Some("default/cache: Service default/cache".into()) }
    }

    fn found(losing: usize, failing: usize) -> Survey {
        Survey { parents: 50, looked_at: 50, losing: noted(losing), failing: noted(failing) }
    }

    #[test]
    fn a_revision_that_deletes_children_of_too_many_waits() {
        assert_eq!(found(5, 0).objection(10), None);
        let Objection { why, fails } = found(6, 0).objection(10).unwrap();
        assert!(why.contains("6 of 50") && why.contains("default/cache") && !fails, "{why}");
        assert_eq!(found(50, 0).objection(100), None);
        assert!(found(1, 0).objection(0).is_some());
    }

    #[test]
    fn a_revision_that_fails_where_the_present_one_does_not_waits() {
        let Objection { why, fails } = found(0, 1).objection(100).unwrap();
        assert!(why.starts_with("it fails on 1 of 50") && fails, "{why}");
    }

    #[test]
    fn a_revision_that_could_not_be_asked_about_every_parent_waits() {
        let ended_early = Survey { looked_at: 20, ..found(0, 0) };
        let Objection { why, fails } = ended_early.objection(100).unwrap();
        assert!(why.starts_with("only 20 of 50") && !fails, "{why}");
    }
}
