//! Decides when a parent is reconciled again, for every way in which a pass may end.

use std::time::Duration;

use crate::reconcile::error::{Error, Retry};
use crate::reconcile::outcome::Outcome;
use crate::reconcile::parent_state::ParentState;
use hotshoe_core::flow::backoff::{SOON, jittered, refused, soon};
use hotshoe_core::flow::retry::{LONGEST_DELAY, RetryPolicy};
use hotshoe_sandbox::error::CallError;

/// The pause after which a decision is repeated that is based on fetched objects of which not all are watched: only reading
/// them again shows a change.
const REFETCH_PAUSE: Duration = Duration::from_secs(15);
/// The pause of a parent whose namespace is being deleted.
const TERMINATING_NAMESPACE_PAUSE: Duration = Duration::from_secs(10);
/// The pause of a clean-up that asks for no requeue.
const CLEAN_UP_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause of a parent whose deletion only this plugin can unblock.
const MAX_DELETION_PAUSE: Duration = Duration::from_secs(300);

/// When to reconcile a parent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When something changes.
    OnChange,
    /// At once.
    AtOnce,
    /// After this time, or when something changes.
    After(Duration),
}

/// The end of a pass, with everything that the requeue depends on.
pub struct Ending<'a> {
    /// How the pass ended.
    pub result: &'a Result<Outcome, Error>,
    /// Whether the Event and the condition are written, or can never be.
    pub is_reported: bool,
    /// Whether the parent is being deleted and has a finalizer that only this plugin removes.
    pub blocks_deletion: bool,
    /// When a failed parent is retried.
    pub policy: &'a RetryPolicy,
    /// Whether the deletion of the parent began during the pass. If the reply to one of our own writes showed that, no
    /// watch event wakes the parent.
    pub was_deleted: bool,
    /// The pause of a parent on which the plugin flaps.
    pub flap_pause: Option<Duration>,
}

/// The result of one reconcile, and when the parent is requeued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconciled {
    /// When to reconcile the parent again.
    pub requeue: Requeue,
    /// Whether the reconcile failed.
    pub failed: bool,
}

impl Requeue {
    /// Returns when a parent is reconciled again after a pass.
    ///
    /// A parent that is being deleted and has our finalizer always has a due time, and not a late one. Otherwise a fault of
    /// the host or a misread answer of the API server would block its deletion for ever.
    pub fn after(ending: &Ending<'_>, state: &ParentState) -> Self {
        let due = match ending.result {
            Ok(outcome) => after_outcome(outcome, state),
            Err(error) => after_failure(error, state, ending),
        };
        let due = if ending.is_reported { due } else { due.no_later_than(refused(state.unreported)) };
        match ending.flap_pause.map_or(due, Self::After) {
            _ if ending.was_deleted => Self::AtOnce,
            due if ending.blocks_deletion => due.no_later_than(MAX_DELETION_PAUSE),
            due => due,
        }
    }

    /// Returns the requeue with its pause up to a tenth longer, so that parents that failed together are not tried
    /// again together.
    pub fn jittered(self, random: u64) -> Self {
        match self {
            Self::After(after) => Self::After(jittered(after, random)),
            due => due,
        }
    }

    fn no_later_than(self, latest: Duration) -> Self {
        match self {
            Self::AtOnce => Self::AtOnce,
            Self::OnChange => Self::After(latest),
            Self::After(after) => Self::After(after.min(latest)),
        }
    }
}

impl From<Option<Duration>> for Requeue {
    fn from(due: Option<Duration>) -> Self {
        due.map_or(Self::OnChange, Self::After)
    }
}

fn after_outcome(outcome: &Outcome, state: &ParentState) -> Requeue {
    match outcome {
        Outcome::Settled if state.unwatched => Requeue::from(state.next_due()).no_later_than(REFETCH_PAUSE),
        Outcome::Settled => state.next_due().into(),
        Outcome::Changed => Requeue::AtOnce,
        Outcome::Overtaken => Requeue::After(SOON),
        Outcome::Stalled => Requeue::After(soon(state.stalls)),
        Outcome::NamespaceTerminating => Requeue::After(TERMINATING_NAMESPACE_PAUSE),
        Outcome::CleaningUp(_) => Requeue::After(clean_up_pause(state)),
        Outcome::Orphaned(_) => state.remaining_until_late().into(),
        Outcome::Released => Requeue::OnChange,
    }
}

/// Returns the pause of a clean-up that is not done: until a write is retried, or until the plugin wants to be called
/// again, but never so long that a deletion hangs on a change that was missed.
fn clean_up_pause(state: &ParentState) -> Duration {
    let stalled = (state.stalls > 0).then(|| soon(state.stalls));
    let unasked = state.timer.is_none().then_some(CLEAN_UP_PAUSE);
    let due = [stalled, unasked, state.next_due(), state.remaining_until_late()];
    due.into_iter().flatten().fold(MAX_DELETION_PAUSE, Duration::min)
}

fn after_failure(error: &Error, state: &ParentState, ending: &Ending<'_>) -> Requeue {
    match error {
        Error::Api(api) if api.is_gone() || api.is_namespace_terminating() => {
            Requeue::After(TERMINATING_NAMESPACE_PAUSE)
        }
        Error::Call(CallError::CircuitOpen(left)) => Requeue::After(*left),
        _ => pause(error, state, ending.policy, ending.blocks_deletion).into(),
    }
}

/// Returns the pause of a parent that failed; `None` until something changes. A parent whose deletion is blocked is tried
/// again in five minutes at the latest, whatever the policy says of others.
pub fn pause(error: &Error, state: &ParentState, policy: &RetryPolicy, blocks_deletion: bool) -> Option<Duration> {
    let pause = pause_of_failure(error, state, policy, blocks_deletion)?;
    Some(if blocks_deletion { pause.min(MAX_DELETION_PAUSE) } else { pause })
}

fn pause_of_failure(
    error: &Error,
    state: &ParentState,
    policy: &RetryPolicy,
    blocks_deletion: bool,
) -> Option<Duration> {
    if error.uses_up_try() && policy.is_exhausted(state.tries.made()) {
        return final_pause(blocks_deletion);
    }
    let (failures, tries) = (state.failures, state.tries.made());
    let pause = match error.retry() {
        Retry::Soon => Some(transient_pause(error, failures)),
        Retry::Backoff => Some(policy.delay(tries)),
        Retry::Slowly => Some(policy.slow_delay(tries)),
        // The plugin or the API server chooses the pause, so it is clamped and never shorter than the backoff.
        Retry::After(after) => Some(after.max(transient_pause(error, failures)).min(LONGEST_DELAY.0)),
        Retry::OnChange => final_pause(blocks_deletion),
    };
    match error {
        // The plugin may have failed because a fetched object is missing, and not each of them is watched.
        Error::Plugin(_) if state.fetched => Some(pause.map_or(REFETCH_PAUSE, |pause| pause.min(REFETCH_PAUSE))),
        _ => pause,
    }
}

/// Returns the pause after this many transient failures in a row. What the API server keeps refusing is tried less and
/// less often.
fn transient_pause(error: &Error, failures: u32) -> Duration {
    match error {
        Error::Api(error) => error.pause(failures),
        _ => soon(failures),
    }
}

/// Returns the pause after the last try, or after a rejection. A parent whose deletion is blocked is retried all the
/// same: the user who fixes the cause may not know that the plugin has to be called again.
fn final_pause(blocks_deletion: bool) -> Option<Duration> {
    blocks_deletion.then_some(MAX_DELETION_PAUSE)
}

#[cfg(test)]
mod tests {
    use hotshoe_core::check::Violation;
    use hotshoe_core::check::memory_quota::NoRoom;
    use hotshoe_core::flow::tries::Tries;
    use hotshoe_core::model::decision::Failure;
    use hotshoe_core::model::kind::{Kind, ObjectRef};

    use super::*;
    use crate::reconcile::outcome::Orphan;
    use hotshoe_cluster::error::ApiError;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn outcomes() -> Vec<Outcome> {
        let all = vec![
            Outcome::Settled,
            Outcome::Changed,
            Outcome::Overtaken,
            Outcome::Stalled,
            Outcome::NamespaceTerminating,
            Outcome::CleaningUp("children".to_owned()),
            Outcome::Orphaned(Orphan { finalizer: "example.com/former".to_owned(), set_by: None }),
            Outcome::Released,
        ];
        // Does not compile for a new outcome, which has to be added above, too.
        for outcome in &all {
            match outcome {
                Outcome::Settled | Outcome::Changed | Outcome::Overtaken | Outcome::Stalled => {}
                Outcome::NamespaceTerminating | Outcome::CleaningUp(_) => {}
                Outcome::Orphaned(_) | Outcome::Released => {}
            }
        }
        all
    }

    fn api_errors() -> impl Iterator<Item = Error> {
        let codes = [0, 400, 401, 403, 404, 408, 409, 410, 413, 422, 429, 500, 503, 504];
        let causes = [None, Some("NamespaceTerminating"), Some("FieldManagerConflict"), Some("FieldValueInvalid")];
        let patience = [None, Some(Duration::ZERO), Some(Duration::MAX)];
        codes.into_iter().flat_map(move |code| {
            causes.into_iter().flat_map(move |cause| {
                patience.into_iter().flat_map(move |retry_after| {
                    [false, true].into_iter().flat_map(move |after_outage| {
                        let error = ApiError::new("apply", "a Service".into(), code, "", String::new());
                        let cause = cause.map(str::to_owned);
                        let error = ApiError { cause, retry_after, after_outage, ..error };
                        [error.clone().into(), error.unserved().into()]
                    })
                })
            })
        })
    }

    fn errors() -> Vec<Error> {
        let text = String::new;
        let retry = |after| Error::Plugin(Failure::Retry { message: text(), after });
        let mut errors: Vec<Error> = vec![
            CallError::Stopped.into(),
            CallError::CircuitOpen(Duration::ZERO).into(),
            CallError::CircuitOpen(Duration::from_secs(60)).into(),
            CallError::DeadlineExceeded(Duration::ZERO).into(),
            CallError::Trapped(text()).into(),
            CallError::TooManyRounds(5).into(),
            retry(None),
            retry(Some(Duration::ZERO)),
            retry(Some(Duration::MAX)),
            Error::Plugin(Failure::Reject { message: text(), field: None }),
            Error::Plugin(Failure::Other(text())),
            Violation::new("status", text()).into(),
            Error::NoRoom(NoRoom::Children { parent: text(), more: 1, held: 1, may: 1, most: 1 }),
            Error::NotGranted(text()),
            Error::Panicked,
            Error::NotKept(text()),
            Error::NotListed(text()),
        ];
        errors.extend(api_errors());
        errors
    }

    fn tried(times: u32) -> Tries {
        let mut tries = Tries::default();
        (0..times).for_each(|_| tries.count());
        tries
    }

    fn policies() -> Vec<RetryPolicy> {
        let long = LONGEST_DELAY.0;
        let of = |base_delay, max_delay, max_tries| RetryPolicy { base_delay, max_delay, max_tries };
        vec![
            RetryPolicy::default(),
            of(Duration::from_millis(100), Duration::from_millis(100), Some(1)),
            of(long, long, Some(7)),
            of(long, long, None),
        ]
    }

    fn states() -> Vec<ParentState> {
        let now = tokio::time::Instant::now();
        let mut states = Vec::new();
        for (failures, tries) in [(0, 0), (1, 1), (7, 7), (u32::MAX, 0), (u32::MAX, 99)] {
            for fetched in [false, true] {
                for timer in [None, Some(now), Some(now + DAY)] {
                    for cleaning_up in [None, Some(now)] {
                        let stalls = failures;
                        states.push(ParentState {
                            failures,
                            stalls,
                            tries: tried(tries),
                            fetched,
                            unwatched: fetched,
                            timer,
                            cleaning_up,
                            ..ParentState::default()
                        });
                    }
                }
            }
        }
        states
    }

    #[tokio::test(start_paused = true)]
    async fn a_parent_whose_deletion_waits_for_our_finalizer_is_due_within_five_minutes_however_a_pass_ended() {
        let endings: Vec<_> = outcomes().into_iter().map(Ok).chain(errors().into_iter().map(Err)).collect();
        let reports = [(true, false), (false, false), (true, true), (false, true)];
        for (result, policy) in endings.iter().flat_map(|result| policies().into_iter().map(move |one| (result, one))) {
            for state in states() {
                for (is_reported, was_deleted) in reports {
                    for flap_pause in [None, Some(Duration::from_secs(60))] {
                        let (blocks_deletion, policy) = (true, &policy);
                        let ending = Ending { result, is_reported, blocks_deletion, policy, was_deleted, flap_pause };
                        match Requeue::after(&ending, &state) {
                            Requeue::OnChange => panic!("{result:?} leaves {state:?} without a due time"),
                            Requeue::After(after) => assert!(after <= MAX_DELETION_PAUSE, "{result:?}: {after:?}"),
                            Requeue::AtOnce => {}
                        }
                    }
                }
            }
        }
        for (error, policy) in errors().iter().flat_map(|error| policies().into_iter().map(move |one| (error, one))) {
            for state in states() {
                let pause = pause(error, &state, &policy, true);
                let is_due = pause.is_some_and(|pause| pause <= MAX_DELETION_PAUSE);
                assert!(is_due, "{error:?} is not tried again: {pause:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clean_up_retries_its_writes_when_they_are_due_and_not_when_the_plugin_asks_for_it() {
        let after = |state: &ParentState| after_outcome(&Outcome::CleaningUp("children".to_owned()), state);
        let late = tokio::time::Instant::now();
        tokio::time::advance(Duration::from_secs(3600)).await;
        let asked = |after| {
            let timer = Some(tokio::time::Instant::now() + after);
            ParentState { timer, cleaning_up: Some(late), ..ParentState::default() }
        };
        assert_eq!(after(&asked(Duration::from_secs(20))), Requeue::After(Duration::from_secs(20)));
        assert_eq!(after(&asked(DAY)), Requeue::After(MAX_DELETION_PAUSE));
        let stalled = ParentState { stalls: 3, ..asked(DAY) };
        assert_eq!(after(&stalled), Requeue::After(soon(3)));
        let mut refused = asked(DAY);
        let error = ApiError::new("delete", "a Service".into(), 403, "Forbidden", String::new());
        let child = ObjectRef { kind: Kind::new("", "v1", "Service"), namespace: Some("n".into()), name: "a".into() };
        refused.refused.add(&child, "".into(), error.into(), 1);
        assert_eq!(after(&refused), Requeue::After(refused.refused.next_due().unwrap()));
        assert!(refused.refused.next_due() < Some(MAX_DELETION_PAUSE));
    }

    #[test]
    fn a_failure_that_is_not_reported_yet_is_retried_soon() {
        for error in errors() {
            let result = Err(error);
            let policy = &RetryPolicy { max_tries: Some(1), ..RetryPolicy::default() };
            let ending = Ending {
                result: &result,
                is_reported: false,
                blocks_deletion: false,
                policy,
                was_deleted: false,
                flap_pause: None,
            };
            let state = ParentState { failures: 3, tries: tried(3), ..ParentState::default() };
            let due = Requeue::after(&ending, &state);
            assert!(matches!(due, Requeue::After(after) if after <= soon(3)), "{result:?}: {due:?}");
            let state = ParentState { unreported: 99, ..state };
            let due = Requeue::after(&ending, &state);
            assert!(matches!(due, Requeue::After(after) if after <= refused(99)), "{result:?}: {due:?}");
        }
    }

    #[test]
    fn a_request_that_the_api_server_keeps_refusing_is_made_less_and_less_often_and_not_in_an_outage() {
        let after = |code, failures| {
            let error = ApiError::new("add the finalizer of", "a Demo".into(), code, "", String::new()).into();
            let state = ParentState { failures, ..ParentState::default() };
            pause(&error, &state, &RetryPolicy::default(), false).unwrap().as_secs()
        };
        assert_eq!([5, 7, 9, 99].map(|failures| after(500, failures)), [4, 16, 60, 60]);
        assert_eq!([5, 7, 9, 99].map(|failures| after(0, failures)), [2, 2, 2, 2]);
    }

    #[test]
    fn a_plugin_that_asks_for_retries_at_once_is_backed_off_as_a_transient_failure() {
        let paused = |after: Duration, failures| {
            let failure = Failure::Retry { message: "now".into(), after: Some(after) };
            let state = ParentState { failures, ..ParentState::default() };
            pause(&Error::Plugin(failure), &state, &RetryPolicy::default(), false).unwrap()
        };
        for failures in [1, 2, 3, 4, 1_000] {
            assert_eq!(paused(Duration::ZERO, failures), soon(failures), "{failures}");
        }
        assert!(paused(Duration::ZERO, u32::MAX) >= Duration::from_secs(2));
        assert_eq!(paused(Duration::from_secs(5), 1_000), Duration::from_secs(5));
        assert_eq!(paused(Duration::MAX, 1), LONGEST_DELAY.0);
    }

    #[test]
    fn after_the_last_try_only_a_transient_failure_is_retried_before_something_changes() {
        let policy = RetryPolicy { max_tries: Some(3), ..RetryPolicy::default() };
        for error in errors() {
            let state = |tries| ParentState { failures: 3, tries: tried(tries), ..ParentState::default() };
            let last = pause(&error, &state(3), &policy, false);
            assert_eq!(last.is_none(), error.uses_up_try(), "{error:?}: {last:?}");
            let other = pause(&error, &state(2), &policy, false);
            assert_eq!(other.is_none(), error.retry() == Retry::OnChange, "{error:?}: {other:?}");
            let fetched = ParentState { fetched: true, ..state(3) };
            assert_eq!(pause(&error, &fetched, &policy, false).is_none(), error.uses_up_try(), "{error:?}");
        }
    }

    #[test]
    fn the_delays_between_tries_are_those_of_the_retry_policy() {
        let (base_delay, max_delay) = (Duration::from_millis(200), Duration::from_secs(1));
        let policy = RetryPolicy { base_delay, max_delay, max_tries: None };
        let after = |error: &Error, tries| {
            let state = ParentState { tries: tried(tries), ..ParentState::default() };
            pause(error, &state, &policy, false).unwrap().as_millis()
        };
        let failed = Error::Plugin(Failure::Other(String::new()));
        assert_eq!([1, 2, 3, 4, 99].map(|tries| after(&failed, tries)), [200, 400, 800, 1_000, 1_000]);
        let denied = Error::from(Violation::new("status", String::new()));
        assert_eq!(after(&denied, 1), 1_000, "ten times as long, and never longer than the longest");
    }
}
