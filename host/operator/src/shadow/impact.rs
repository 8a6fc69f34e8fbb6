//! Finds what a revision would break before it is activated: children that it would delete, and parents on which it
//! fails. Only the new revision is called, so this takes half the time of a shadow run.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;

use crate::api::shadow::Times;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::gate::{Admitted, Gate};
use crate::reconcile::parent_state::ParentState;
use crate::shadow::evaluate::{CheckedAnswer, Evaluated, UncheckedAnswer};
use hotshoe_cluster::time::unix_millis;
use hotshoe_cluster::view::reference;
use hotshoe_core::model::kind::{Key, Kind, ObjectRef};
use hotshoe_core::model::object::Object;
use hotshoe_core::plugin::takeover::Objection;

/// How many parents are evaluated at once: while the revision is called for one, the next are observed and the previous
/// ones are checked.
const CONCURRENT_PARENTS: usize = 4;
/// The number of calls that use up their time after which a run ends: ten thousand such calls would take an hour.
pub(crate) const OVERDUE: usize = 20;

/// What a revision would break.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The number of parents.
    pub parents: usize,
    /// The number of parents for which the revision was called. It is less than `parents` only if calls used up their
    /// time again and again.
    pub looked_at: usize,
    /// Parents of which an existing child would be deleted.
    pub losing: Noted,
    /// Parents on which it fails and the active revision does not.
    pub failing: Noted,
}

/// The number of affected parents, and a text about the first: those about the others are mostly the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// The number of parents.
    pub count: usize,
    /// The first parent and what happens to it, for example `default/cache: Service default/cache-service`.
    pub first: Option<String>,
}

impl Noted {
    fn note(&mut self, parent: &Key, text: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| format!("{parent}: {text}"));
    }

    /// Returns the first and the number of further ones as the end of a sentence; nothing if the first is not known.
    fn sentence_end(&self) -> String {
        match (&self.first, self.count.saturating_sub(1)) {
            (None, _) => String::new(),
            (Some(first), 0) => format!(": {first}"),
            (Some(first), more) => format!(": {first}; and {more} more"),
        }
    }
}

impl Survey {
    /// Returns why the revision requires approval: it fails where the active one does not on more than `max_failing`
    /// percent of the parents, would delete children of more than `max_losing` percent of them, or took so long that it
    /// was not called for all of them.
    pub fn objection(&self, max_losing: u8, max_failing: u8) -> Option<Objection> {
        let Survey { parents, looked_at, losing, failing } = self;
        let is_more = |noted: &Noted, percent: u8| noted.count * 100 > parents * usize::from(percent);
        let fails = is_more(failing, max_failing);
        let why = if fails {
            let (count, first) = (failing.count, failing.sentence_end());
            let bound = match max_failing {
                0 => String::new(),
                percent => format!(", more than {percent} of 100 (spec.swap.maxFailing)"),
            };
            format!("it fails on {count} of {parents} parents that the active revision serves{bound}{first}")
        } else if is_more(losing, max_losing) {
            let (count, first) = (losing.count, losing.sentence_end());
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

/// What a revision would break for one parent.
pub(crate) struct Found {
    key: Key,
    losing: Option<String>,
    failing: Option<String>,
    overdue: bool,
}

impl Found {
    /// Evaluates the answer of a new revision for a parent. Failures that the active revision has as well are removed
    /// later by [`Self::excuse`].
    pub(crate) fn of(new: &ActiveRevision, key: &Key, memory: &ParentState, answer: &CheckedAnswer) -> Self {
        let mut found = Self { key: key.clone(), losing: None, failing: None, overdue: false };
        match answer {
            None => {}
            Some(Evaluated { answer: Ok(_), .. }) => {
                found.losing = lost(new, answer).first().map(ToString::to_string);
            }
            // A transient error of the API server is no fault of the revision.
            Some(Evaluated { answer: Err(Error::Api(error)), .. }) if error.is_transient() => {}
            // Nor is a right that the host does not have.
            Some(Evaluated { answer: Err(Error::NotListed(_)), .. }) => {}
            // Only the reason: who may read the status of a `Plugin` may often not read its parents. The words are in
            // the parent's own condition, and `hotshoe shadow` shows them.
            Some(Evaluated { answer: Err(error), tainted, .. }) => {
                found.failing = (memory.failures == 0).then(|| error.message_for_strangers(*tainted));
            }
        }
        found
    }

    /// Removes from the losses the children that the active revision would delete as well. Only the canary desires
    /// them, so they are deleted when the canary ends, whichever revision follows.
    pub(crate) fn excuse_losing(
        &mut self,
        (new, answer): (&ActiveRevision, &CheckedAnswer),
        (present, before): (&ActiveRevision, &CheckedAnswer),
    ) {
        let go_anyway = lost(present, before);
        let first = lost(new, answer).into_iter().find(|child| !go_anyway.contains(child));
        self.losing = first.map(|child| child.to_string());
    }

    /// Returns whether the revision would delete children of a parent that the canary decides for.
    pub(crate) fn loses_of_canary(&self, controller: &Controller, parent: &Object) -> bool {
        self.losing.is_some() && controller.canary.current().is_some_and(|canary| canary.has(parent))
    }

    /// Removes the failure of the new revision if the active one fails as well.
    pub(crate) fn excuse(&mut self, active_fails: bool) {
        if active_fails {
            self.failing = None;
        }
    }
}

/// Calls a revision that is not active for every parent.
pub async fn survey(controller: &Controller, present: &ActiveRevision, new: &ActiveRevision) -> Survey {
    let mut keys = new.parents.watch.cache.keys();
    // Sorted, so that the text about the first parent is the same each time.
    keys.sort_unstable();
    let mut survey = Survey::default();
    let (mut running, mut overdue) = (FuturesOrdered::new(), 0);
    let mut parents = keys.iter().filter_map(|key| new.parents.watch.cache.get(key));
    loop {
        while running.len() < CONCURRENT_PARENTS && overdue < OVERDUE {
            let Some(parent) = parents.next() else { break };
            running.push_back(look(controller, present, new, parent));
        }
        let Some(found) = running.next().await else {
            // Parents that were deleted meanwhile no longer count.
            survey.parents = survey.looked_at + parents.count();
            return survey;
        };
        overdue += usize::from(found.overdue);
        survey.add(&found);
    }
}

/// Returns whether a revision fails on all of these parents that still exist; false if none does.
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
    /// Adds what the revision would break for one parent.
    pub(crate) fn add(&mut self, found: &Found) {
        self.looked_at += 1;
        if let Some(text) = &found.losing {
            self.losing.note(&found.key, text);
        }
        if let Some(text) = &found.failing {
            self.failing.note(&found.key, text);
        }
    }
}

async fn look(controller: &Controller, present: &ActiveRevision, new: &ActiveRevision, parent: Arc<Object>) -> Found {
    let memory = controller.recall(&parent);
    let unchecked =
        UncheckedAnswer::ask(controller, new, Some(parent.clone()), &memory, unix_millis(), &mut Times::default())
            .await;
    let overdue = unchecked.is_overdue();
    // Where both revisions have the same rules, what was admitted for the active one is admitted for the new one.
    let has_same_rules = present.plugin.digest == new.plugin.digest
        && present.revision.descriptor().owns == new.revision.descriptor().owns;
    let admitted = has_same_rules.then(|| Admitted::of(controller, present, memory.admitted));
    let answer = unchecked.checked(new, admitted).await;
    let mut found = Found::of(new, &parent.key, &memory, &answer);
    found.overdue = overdue;
    if found.loses_of_canary(controller, &parent) {
        let before = UncheckedAnswer::ask(
            controller,
            present,
            Some(parent.clone()),
            &memory,
            unix_millis(),
            &mut Times::default(),
        )
        .await;
        let before = before.checked(present, None).await;
        found.excuse_losing((new, &answer), (present, &before));
    }
    if found.failing.is_some() {
        // After a start of the host, the active revision may not have been called for this parent yet.
        found.excuse(fails(controller, present, parent).await);
    }
    found
}

/// Returns whether a revision fails on a parent, or desires a child that was just refused.
async fn fails(controller: &Controller, revision: &ActiveRevision, parent: Arc<Object>) -> bool {
    let memory = controller.recall(&parent);
    let unchecked =
        UncheckedAnswer::ask(controller, revision, Some(parent), &memory, unix_millis(), &mut Times::default()).await;
    is_failure(&unchecked.checked(revision, None).await, &memory)
}

/// Returns whether an answer is a failure of the revision, or desires a child that was just refused.
pub(crate) fn is_failure(answer: &CheckedAnswer, memory: &ParentState) -> bool {
    match answer {
        None => false,
        Some(Evaluated { answer: Ok((judged, _)), .. }) => {
            judged.desired.iter().flatten().any(|one| memory.refused.has_refused(one))
        }
        Some(Evaluated { answer: Err(error), .. }) => error.is_plugin_fault(),
    }
}

/// Returns the children that would be deleted; none for a parent that is being deleted, as all of its children go
/// anyway.
fn lost(revision: &ActiveRevision, answer: &CheckedAnswer) -> Vec<ObjectRef> {
    let Some(Evaluated { observed, answer: Ok((judged, _)), .. }) = answer else { return Vec::new() };
    let Some(desired) = judged.desired.as_ref().filter(|_| !observed.parent.deleting) else { return Vec::new() };
    let gate = Gate::of(revision, &observed.parent);
    let is_gone = |kind: &Kind, child: &Object| {
        !child.deleting
            && gate.check_prune(&reference(kind, &child.key)).is_ok()
            && !desired.iter().any(|one| one.reference.is(kind, &child.key))
    };
    let gone = observed.children.iter().filter(|(kind, child)| is_gone(kind, child));
    gone.map(|(kind, child)| reference(kind, &child.key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parents_are_counted_and_the_first_is_named() {
        let mut noted = Noted::default();
        for (number, text) in [": n/p0: why", ": n/p0: why; and 1 more", ": n/p0: why; and 2 more"].iter().enumerate() {
            noted.note(&Key::new(Some("n"), &format!("p{number}")), "why");
            assert_eq!((noted.count, &*noted.sentence_end()), (number + 1, *text));
        }
        assert_eq!(Noted::default().sentence_end(), "");
    }

    /// The rollout needs this, for it runs on a task of its own.
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
    fn a_revision_that_deletes_children_of_too_many_parents_waits() {
        assert_eq!(found(5, 0).objection(10, 0), None);
        let Objection { why, fails } = found(6, 0).objection(10, 0).unwrap();
        assert!(why.contains("6 of 50") && why.contains("default/cache") && !fails, "{why}");
        assert_eq!(found(50, 0).objection(100, 0), None);
        assert!(found(1, 0).objection(0, 0).is_some());
    }

    #[test]
    fn a_revision_that_fails_where_the_active_one_does_not_waits() {
        let Objection { why, fails } = found(0, 1).objection(100, 0).unwrap();
        assert!(why.starts_with("it fails on 1 of 50") && fails, "{why}");
    }

    #[test]
    fn so_many_parents_as_max_failing_says_hold_no_revision_up() {
        assert_eq!(found(0, 1).objection(10, 2), None);
        let Objection { why, fails } = found(0, 2).objection(10, 2).unwrap();
        assert!(why.contains("on 2 of 50") && why.contains("more than 2 of 100 (spec.swap.maxFailing)"), "{why}");
        assert!(fails);
        let Objection { fails, .. } = found(6, 1).objection(10, 2).unwrap();
        assert!(!fails, "what it deletes is looked at all the same");
        assert_eq!(Survey::default().objection(0, 0), None);
    }

    #[test]
    fn a_revision_that_could_not_be_called_for_every_parent_waits() {
        let ended_early = Survey { looked_at: 20, ..found(0, 0) };
        let Objection { why, fails } = ended_early.objection(100, 0).unwrap();
        assert!(why.starts_with("only 20 of 50") && !fails, "{why}");
    }
}
