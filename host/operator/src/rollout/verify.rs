//! Verifies a component before it is activated: it must pass the cases that it carries, and neither fail on parents
//! that the active revision serves nor delete their children.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::observe::observe_at;
use crate::reconcile::{decide, finalize};
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::step::Step;
use crate::shadow::impact;
use crate::shadow::impact::Survey;
use crate::shadow::stored;
use crate::shadow::stored::Depth;
use hotshoe_cluster::time::unix_millis;
use hotshoe_core::compare::finalizers::FinalizerChange;
use hotshoe_core::compare::stored::StoredParents;
use hotshoe_core::model::decision::Call;
use hotshoe_core::model::object::Object;
use hotshoe_core::plugin::takeover::{Examination, Objection, Start, Verdict};
use hotshoe_core::plugin::wanted::Rollout;
use hotshoe_sandbox::cases::{Case, CaseOutcome};
use hotshoe_sandbox::error::LoadError;
use hotshoe_sandbox::revision::Revision;

/// The number of cases in progress. While the plugin runs one of them, the next are prepared and the last compared, so
/// that neither side waits for the other.
const CONCURRENT_CASES: usize = 16;
/// The time limit of all cases of a component together.
const CASES_TIMEOUT: Duration = Duration::from_secs(30);
/// Why a component requires approval in the mode `Shadow`, even if nothing is wrong with it.
const SHADOW_MODE: &str = "spec.mode is Shadow, so it waits until spec.approve names it";
/// The maximum number of parents that a revision is called about until one call succeeds.
const MAX_FIRST_CALLS: usize = 5;

impl ManagedPlugin {
    /// Finds out what speaks against a revision whose watches are synced, and decides what is done with it.
    pub(crate) async fn examine(&self, new: &ActiveRevision, start: Start<'_>) -> Verdict {
        let (plugin, cannot_be_canary) = (self.plugin(), self.cannot_be_canary(new));
        let loaded = self.loaded(new.revision.digest(), start).which_cannot_be_canary(cannot_be_canary.as_deref());
        let found = match (loaded.examination(&plugin.wanted), self.controller.active()) {
            (Examination::None, _) => None,
            (Examination::AllParents, Some(active)) => {
                self.show_step(Step::Survey);
                examine_beside(self, &active, new).await
            }
            (Examination::AllParents | Examination::FirstParents, _) => {
                first_call(&self.controller, new).await.err().map(|why| Objection { why, fails: true })
            }
        };
        loaded.verdict(&plugin.wanted, found)
    }

    /// Returns the rollout by which a revision takes over after this verdict; none if it does so at once.
    ///
    /// # Errors
    /// Why it does not: it is refused, or requires an approval.
    pub(crate) async fn takes_over(
        &self,
        new: &ActiveRevision,
        verdict: Verdict,
    ) -> Result<Option<Rollout>, LoadError> {
        match verdict {
            Verdict::Refuse(why) => Err(LoadError::SelfTestFailed(why)),
            Verdict::RequireApproval(Objection { why, fails }) => Err(self.require_approval(new, why, fails).await),
            Verdict::Shadow => Err(LoadError::ApprovalRequired(SHADOW_MODE.to_owned())),
            Verdict::Begin(rollout) => Ok(Some(rollout)),
            Verdict::Activate => Ok(None),
        }
    }

    /// Notes that a revision requires approval, and why. Returns the error that says so.
    async fn require_approval(&self, new: &ActiveRevision, why: String, fails: bool) -> LoadError {
        let digest = new.revision.digest();
        let (version, message) = (new.revision.descriptor().version.clone(), why.clone());
        self.remember(move |history| history.require_approval(digest, &version, &message, fails)).await;
        LoadError::ApprovalRequired(why)
    }
}

async fn examine_beside(plugin: &ManagedPlugin, active: &ActiveRevision, new: &ActiveRevision) -> Option<Objection> {
    // In the order of what they cost: the first needs no call, the second one for each parent, the third lists them, too.
    if let Some(why) = orphans(active, new) {
        return Some(Objection { why, fails: false });
    }
    let survey = impact::survey(&plugin.controller, active, new).await;
    if let Some(objection) = survey.objection(new.plugin.max_losing, new.plugin.max_failing) {
        return Some(objection);
    }
    let stored = stored::survey(&plugin.shared.watches, active, new, Depth::Objections).await;
    objection_for(&stored, new)
}

/// Returns why a revision must not replace the active one without an approval.
pub(crate) fn objection(
    active: &ActiveRevision,
    new: &ActiveRevision,
    survey: &Survey,
    stored: &StoredParents,
) -> Option<Objection> {
    let orphans = orphans(active, new).map(|why| Objection { why, fails: false });
    let breaks = || survey.objection(new.plugin.max_losing, new.plugin.max_failing);
    orphans.or_else(breaks).or_else(|| objection_for(stored, new))
}

/// Returns why a revision must not take over the stored parents without an approval. None of it is a failure of its
/// decisions, by which it is judged afterwards.
fn objection_for(stored: &StoredParents, new: &ActiveRevision) -> Option<Objection> {
    stored.objection(new.plugin.admission.is_enforced()).map(|why| Objection { why, fails: false })
}

/// Describes the parents that a new revision would leave with the active one's finalizer, because it has another
/// finalizer or none. Where it serves another kind of parents, nothing would ever remove the old finalizer.
fn orphans(present: &ActiveRevision, new: &ActiveRevision) -> Option<String> {
    let change = finalizer_change(present, new)?;
    let finalizer = change.old.as_deref()?;
    let (holding, strands) = (change.kept + change.stranded, change.stranded > 0);
    let what = match (strands, change.new.as_deref()) {
        (true, _) => {
            let [old, next] = [present, new].map(|side| &side.revision.descriptor().parent);
            format!("it serves {next} and no longer {old}")
        }
        (false, Some(other)) => format!("it has the finalizer {other} and no longer {finalizer}"),
        (false, None) => format!("it no longer has the finalizer {finalizer}"),
    };
    let of_them = match strands {
        false => "the active revision would no longer clean up after them",
        true => "nothing would remove it, and they could not be deleted",
    };
    let parents = present.parents.watch.cache.len();
    (holding > 0).then(|| format!("{what}, but {holding} of {parents} parents have {finalizer}: {of_them}"))
}

/// Returns what a new revision would change about the finalizers of parents.
pub(crate) fn finalizer_change(old: &ActiveRevision, new: &ActiveRevision) -> Option<FinalizerChange> {
    FinalizerChange::between((old.revision.descriptor(), parents(old)), (new.revision.descriptor(), parents(new)))
}

/// Lists the parents of a revision lazily.
fn parents(revision: &ActiveRevision) -> impl Iterator<Item = Arc<Object>> {
    let cache = &revision.parents.watch.cache;
    iter::once_with(|| cache.keys()).flatten().filter_map(|key| cache.get(&key))
}

/// Runs the cases that a component carries.
pub(crate) async fn try_carried_cases(
    revision: &Arc<Revision>,
    cases: Result<Vec<Case>, String>,
) -> Result<(), LoadError> {
    let cases = cases.map_err(LoadError::SelfTestFailed)?;
    let runs = cases.into_iter().map(|case| run_case(revision.clone(), case));
    within_timeout(stream::iter(runs).buffered(CONCURRENT_CASES).try_collect()).await
}

/// Limits the time of all cases: a component chooses how many it carries, and each may use the whole time of a call.
async fn within_timeout(runs: impl Future<Output = Result<(), LoadError>>) -> Result<(), LoadError> {
    let late = |_| {
        let message = format!("its cases take longer than {} s together; have it carry fewer", CASES_TIMEOUT.as_secs());
        Err(LoadError::SelfTestFailed(message))
    };
    tokio::time::timeout(CASES_TIMEOUT, runs).await.unwrap_or_else(late)
}

async fn run_case(revision: Arc<Revision>, case: Case) -> Result<(), LoadError> {
    let report = case.run(&revision).await;
    if report.holds(&case) {
        return Ok(());
    }
    let why = match report.verdict {
        CaseOutcome::Failed(message) => message,
        _ => "it answers something else than the case expects".to_owned(),
    };
    Err(LoadError::SelfTestFailed(format!("case {:?}: {why}", case.name)))
}

/// Calls a revision about the first few parents until one call succeeds. Parents on which the revision before it fails
/// are left out. No answer is applied.
///
/// # Errors
/// The first failure, if all calls fail.
pub(crate) async fn first_call(controller: &Controller, new: &ActiveRevision) -> Result<(), String> {
    let parents = &new.parents.watch.cache;
    let is_asked_about = |parent: &Arc<Object>| {
        let is_called = !parent.deleting || finalize::asks_for_clean_up(new, parent);
        is_called && controller.recall(parent).failures == 0
    };
    let first: Vec<Arc<Object>> =
        parents.keys().iter().filter_map(|key| parents.get(key)).filter(is_asked_about).take(MAX_FIRST_CALLS).collect();
    first_success(first.into_iter().map(|parent| call_about(controller, new, parent))).await
}

async fn call_about(controller: &Controller, new: &ActiveRevision, parent: Arc<Object>) -> Result<(), String> {
    let memory = controller.recall(&parent);
    let call = if parent.deleting { Call::Finalize } else { Call::Reconcile };
    let name = parent.key.to_string();
    let observed = observe_at(new, parent, &memory, unix_millis());
    // A missing grant is no fault of the revision, and the parent reports it.
    if observed.denied.is_some() {
        return Ok(());
    }
    let tainted = decide::shows_secrets(&observed.shown);
    let Err(aborted) = new.revision.decide(call, observed.shown).await else { return Ok(()) };
    let why = Error::from(aborted).message_for_strangers(tainted);
    Err(format!("it fails on the first parents that it is asked about: {name}: {why}"))
}

/// Makes one call after the other until one succeeds: a failure on one bad parent proves nothing about a revision.
///
/// # Errors
/// The error of the first call, if no call succeeds.
async fn first_success<E>(calls: impl Iterator<Item = impl Future<Output = Result<(), E>>>) -> Result<(), E> {
    let mut first = None;
    for call in calls {
        match call.await {
            Ok(()) => return Ok(()),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of calls with these results, and how many of them were made.
    async fn of_calls(results: &[Result<(), &'static str>]) -> (Result<(), &'static str>, usize) {
        let mut made = 0;
        let calls = results.iter().map(|result| {
            made += 1;
            std::future::ready(*result)
        });
        (first_success(calls).await, made)
    }

    #[tokio::test(start_paused = true)]
    async fn cases_have_a_bound_on_their_time_together() {
        assert!(within_timeout(async { Ok(()) }).await.is_ok());
        let late = within_timeout(std::future::pending()).await.unwrap_err().to_string();
        assert!(late.contains("longer than 30 s together"), "{late}");
    }

    #[tokio::test]
    async fn one_good_call_is_enough_and_otherwise_the_first_failure_is_reported() {
        assert_eq!(of_calls(&[]).await, (Ok(()), 0));
        assert_eq!(of_calls(&[Ok(()), Err("one")]).await, (Ok(()), 1));
        assert_eq!(of_calls(&[Err("one"), Err("two"), Ok(())]).await, (Ok(()), 3));
        assert_eq!(of_calls(&[Err("one"), Err("two")]).await, (Err("one"), 2));
    }
}
