//! The refused child writes of one parent: what the plugin is shown of them, and when each is retried. Kept between
//! reconciles.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use crate::reconcile::error::{MAX_DENIAL_BYTES, MAX_MESSAGE_BYTES};
use hotshoe_cluster::apply::WriteError;
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::view::reference;
use hotshoe_core::check::Desired;
use hotshoe_core::diff::Plan;
use hotshoe_core::flow::backoff::{doubled, jittered, refused, within_reach};
use hotshoe_core::flow::signal::INVALID_REPEATED;
use hotshoe_core::model::decision::Refusal;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::limits::FAILURE_MESSAGE;
use hotshoe_core::model::sanitize;

/// The first pause after a refusal that only a user is likely to fix.
const REFUSAL_PAUSE: Duration = Duration::from_secs(10);
const MAX_REFUSAL_PAUSE: Duration = Duration::from_secs(60);
/// The reason in Event, condition and refusal if the host denies the object that a write would result in.
pub const DENIED: &str = "Denied";
/// The reason of an Event and a refusal about a child that is to be made anew.
pub const RECREATING: &str = "Recreating";
/// The first pause after a conflict. A retry of a name that is in use costs only one cheap request.
const CONFLICT_PAUSE: Duration = Duration::from_secs(3);
const MAX_CONFLICT_PAUSE: Duration = Duration::from_secs(30);
/// How long a conflict, an overload or a missing answer is no refusal: mostly it passes within a moment.
const PASSING_PERIOD: Duration = Duration::from_secs(15);
/// A refusal that should pass by itself is in the condition after this time, or after this many tries.
const REPORTED_AFTER: Duration = Duration::from_secs(10);
const REPORTED_TRIES: u32 = 6;

/// The refused writes, at most one for each child.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    refused: Vec<Refused>,
    /// For each kind with children to be written, the last child that was refused as invalid and is desired otherwise
    /// now, and how often in a row: a plugin that changes a detail of a child each time, or its name, does not begin
    /// anew.
    earlier: BTreeMap<Kind, (ObjectRef, u32)>,
    /// Writes that failed for a reason that mostly passes within a moment, and so are no refusals yet.
    passing: Vec<Passing>,
}

/// A write that failed for a reason that mostly passes within a moment, such as a conflict or an overload.
#[derive(Clone, Debug)]
struct Passing {
    child: ObjectRef,
    since: Instant,
    tries: u32,
}

#[derive(Clone, Debug)]
struct Refused {
    shown: Refusal,
    /// The digest of the desired child; empty if the child was to be deleted.
    digest: Box<str>,
    /// Whether the desired child is invalid: the API server would refuse it from any client and at any time.
    is_invalid: bool,
    /// How often in a row the child was refused as invalid, however it was desired.
    invalid: u32,
    basis: u64,
    /// When the row of refusals began.
    since: Instant,
    due: Instant,
    tries: u32,
    cause: Cause,
}

impl Refused {
    /// Returns whether it has lasted, or will: a user has to know.
    fn is_lasting(&self) -> bool {
        match self.cause {
            Cause::Denied | Cause::Namespace => false,
            Cause::Lasting => true,
            Cause::Transient => self.tries >= REPORTED_TRIES || self.since.elapsed() >= REPORTED_AFTER,
        }
    }
}

/// Why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The host denies the object that would result.
    Denied,
    /// The namespace is being deleted, and accepts no new objects: nothing is wrong.
    Namespace,
    /// It stays refused until an object, a right or the plugin changes.
    Lasting,
    /// It passes by itself.
    Transient,
}

impl Cause {
    fn of(error: &WriteError) -> Self {
        match error {
            WriteError::Denied(_) => Self::Denied,
            WriteError::Conflict { .. } | WriteError::Owned(_) => Self::Lasting,
            WriteError::Api(error) if error.is_namespace_terminating() => Self::Namespace,
            WriteError::Api(error) if !error.is_transient() => Self::Lasting,
            WriteError::Api(_) | WriteError::Collecting | WriteError::Waits { .. } => Self::Transient,
        }
    }
}

impl Refusals {
    /// Returns the refusals that the plugin is shown.
    pub fn shown(&self) -> Vec<Refusal> {
        self.refused.iter().map(|refused| refused.shown.clone()).collect()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    /// Forgets the refusals whose write is no longer planned: a refusal stays until the write succeeds, the child is as
    /// desired without it, or the desired child changes. Returns whether any was forgotten: the plugin was shown it. That of
    /// the parent stays, which is no part of the plan.
    pub fn keep_planned(&mut self, plan: &Plan, parent: &ObjectRef) -> bool {
        let before = self.refused.len();
        let ended = self.refused.extract_if(.., |refused| {
            let child = &refused.shown.reference;
            let leaving = plan.leaving.iter().map(|(desired, _)| desired);
            let mut desired = plan.apply.iter().map(|apply| &apply.desired).chain(leaving);
            let is_applied = desired.any(|desired| desired.reference == *child && desired.digest == refused.digest);
            let is_pruned = || {
                plan.prune.iter().any(|(kind, one)| refused.digest.is_empty() && reference(kind, &one.key) == *child)
            };
            child != parent && !is_applied && !is_pruned()
        });
        for Refused { shown: Refusal { reference, .. }, invalid, .. } in ended.filter(|refused| refused.invalid > 0) {
            let earlier = self.earlier.entry(reference.kind.clone()).or_insert_with(|| (reference.clone(), 0));
            if invalid > earlier.1 {
                *earlier = (reference, invalid);
            }
        }
        let is_planned = |child: &ObjectRef| {
            let is_pruned = || plan.prune.iter().any(|(kind, one)| reference(kind, &one.key) == *child);
            plan.apply.iter().any(|apply| apply.desired.reference == *child) || is_pruned()
        };
        self.passing.retain(|passing| passing.child == *parent || is_planned(&passing.child));
        self.earlier.retain(|kind, _| plan.apply.iter().any(|apply| apply.desired.reference.kind == *kind));
        self.refused.len() < before
    }

    /// Forgets the refusal of what is stated of the parent, unless the same is to be written again. Returns whether it was
    /// forgotten: the plugin was shown it.
    pub fn keep_stated(&mut self, parent: &ObjectRef, digest: Option<&str>) -> bool {
        let before = self.refused.len();
        self.refused.retain(|refused| refused.shown.reference != *parent || Some(&*refused.digest) == digest);
        self.passing.retain(|passing| passing.child != *parent || digest.is_some());
        self.refused.len() < before
    }

    /// Returns whether a child may be written now: it was not refused, its retry is due, or `basis` has changed.
    pub fn is_due(&self, child: &ObjectRef, basis: impl FnOnce() -> u64) -> bool {
        self.of(child).is_none_or(|refused| refused.due <= Instant::now() || refused.basis != basis())
    }

    /// Returns whether no retry is due now.
    pub fn none_due(&self) -> bool {
        self.refused.iter().all(|refused| refused.due > Instant::now())
    }

    /// Returns the time until the next retry.
    pub fn next_due(&self) -> Option<Duration> {
        let now = Instant::now();
        self.refused.iter().map(|refused| refused.due.saturating_duration_since(now)).min()
    }

    /// Records a successful write. Returns whether the previous write of the child was refused.
    pub fn lift(&mut self, child: &ObjectRef) -> bool {
        let before = self.refused.len();
        self.refused.retain(|refused| refused.shown.reference != *child);
        self.earlier.retain(|_, (earlier, _)| earlier != child);
        self.passing.retain(|passing| passing.child != *child);
        self.refused.len() < before
    }

    /// Returns whether a failed write is to be made again soon without a word: in an outage of the API server, and for a
    /// while after another error of those that mostly pass. Counts the latter.
    pub fn passes(&mut self, child: &ObjectRef, error: &ApiError) -> bool {
        if error.is_of_outage() {
            return true;
        }
        if !matches!(error.code, 0 | 409 | 429) || self.has(child) {
            return false;
        }
        let now = Instant::now();
        let Some(passing) = self.passing.iter_mut().find(|passing| passing.child == *child) else {
            self.passing.push(Passing { child: child.clone(), since: now, tries: 1 });
            return true;
        };
        passing.tries = passing.tries.saturating_add(1);
        now.duration_since(passing.since) < PASSING_PERIOD
    }

    /// Records a refused write; a change of `basis` retries it early. Returns the Event to emit if it is the first in a
    /// row.
    pub fn add(&mut self, child: &ObjectRef, digest: Box<str>, error: WriteError, basis: u64) -> Option<Refusal> {
        let passing = self.passing.iter().find(|passing| passing.child == *child);
        let before = self.of(child).map(|refused| (refused.since, refused.tries));
        let is_first = before.is_none();
        let (since, tries) = before
            .or_else(|| passing.map(|passing| (passing.since, passing.tries.saturating_sub(1))))
            .unwrap_or_else(|| (Instant::now(), 0));
        let is_invalid = matches!(&error, WriteError::Api(error) if error.is_invalid());
        let invalid = self.invalid_in_a_row(child) + u32::from(is_invalid);
        let cause = Cause::of(&error);
        let (shown, pause) = classify(child, error, tries);
        self.lift(child);
        let due = Instant::now() + within_reach(pause);
        let first = is_first.then(|| shown.clone());
        let tries = tries.saturating_add(1);
        self.refused.push(Refused { shown, digest, is_invalid, invalid, cause, basis, since, due, tries });
        first
    }

    /// Returns whether the last write of this desired child was refused.
    pub fn has_refused(&self, desired: &Desired) -> bool {
        self.of(&desired.reference).is_some_and(|refused| refused.digest == desired.digest)
    }

    /// Returns the messages of all writes that the host itself refused, if there are any.
    pub fn denied(&self) -> Option<String> {
        let is_denied = |refused: &&Refused| refused.cause == Cause::Denied;
        self.joined(is_denied, MAX_DENIAL_BYTES, |refusal| refusal.message.clone())
    }

    /// Returns which other writes were refused for a reason that does not pass by itself, or for long, and why, if
    /// there are any.
    pub fn lasting(&self) -> Option<String> {
        let is_lasting = |refused: &&Refused| refused.is_lasting();
        self.joined(is_lasting, MAX_MESSAGE_BYTES, |Refusal { reference, code, reason, message }| {
            match (code, reason.as_str()) {
                (409, "Conflict" | RECREATING) if message.starts_with(&reference.to_string()) => {
                    format!("{reason}: {message}")
                }
                (0, _) => format!("{reference} is not written: {reason}: {message}"),
                _ => format!("{reference} is refused: {reason} ({code}): {message}"),
            }
        })
    }

    /// Returns whether a child is refused as invalid: it stays so until it is desired otherwise.
    pub fn has_invalid(&self) -> bool {
        self.refused.iter().any(|refused| refused.is_invalid)
    }

    /// Returns texts about refusals, in a fixed order: each retry moves its refusal, and a text that changes would be
    /// written again.
    fn joined(
        &self,
        is_meant: impl Fn(&&Refused) -> bool,
        most: usize,
        text: impl Fn(&Refusal) -> String,
    ) -> Option<String> {
        let mut texts: Vec<String> = self.refused.iter().filter(is_meant).map(|refused| text(&refused.shown)).collect();
        texts.sort_unstable();
        (!texts.is_empty()).then(|| sanitize::join(&texts, "; ", most))
    }

    /// Returns whether the last write of a child was refused.
    pub fn has(&self, child: &ObjectRef) -> bool {
        self.of(child).is_some()
    }

    /// Returns the highest number of times in a row that any child which is invalid now was refused as invalid.
    pub fn invalid_tries(&self) -> u32 {
        self.refused
            .iter()
            .filter(|refused| refused.is_invalid)
            .map(|refused| refused.invalid)
            .max()
            .unwrap_or_default()
    }

    /// Returns whether a child keeps being refused as invalid, and its `basis` has not changed since.
    pub fn stays_invalid(&self, basis: impl Fn(&ObjectRef) -> u64) -> bool {
        let stays = |refused: &&Refused| refused.is_invalid && refused.invalid >= INVALID_REPEATED;
        self.refused.iter().filter(stays).any(|refused| refused.basis == basis(&refused.shown.reference))
    }

    fn of(&self, child: &ObjectRef) -> Option<&Refused> {
        self.refused.iter().find(|refused| refused.shown.reference == *child)
    }

    fn invalid_in_a_row(&self, child: &ObjectRef) -> u32 {
        let earlier = || self.earlier.get(&child.kind).map(|(_, invalid)| *invalid);
        self.of(child).map(|refused| refused.invalid).or_else(earlier).unwrap_or_default()
    }
}

/// Returns the refusal that the plugin is shown, and the pause before the retry.
fn classify(child: &ObjectRef, error: WriteError, tries: u32) -> (Refusal, Duration) {
    let (code, reason, message, pause) = match error {
        WriteError::Api(error) => {
            let pause = match error.is_transient() {
                true => jittered(error.pause(tries.saturating_add(1)), random()),
                false => doubled(REFUSAL_PAUSE, tries, MAX_REFUSAL_PAUSE).max(error.retry_after.unwrap_or_default()),
            };
            (error.code, error.shown_reason().to_owned(), error.message, pause)
        }
        WriteError::Conflict { holder } => {
            let message = format!("{child} exists and is not this object's child: {holder}");
            (409, "Conflict".to_owned(), message, doubled(CONFLICT_PAUSE, tries, MAX_CONFLICT_PAUSE))
        }
        WriteError::Owned(error) => {
            let message = format!("{child} is not labelled or annotated as stated: {}", error.message);
            (409, "Conflict".to_owned(), message, doubled(CONFLICT_PAUSE, tries, MAX_CONFLICT_PAUSE))
        }
        WriteError::Denied(denial) => {
            (403, DENIED.to_owned(), denial.reasons(), doubled(REFUSAL_PAUSE, tries, MAX_REFUSAL_PAUSE))
        }
        WriteError::Collecting => {
            let message = format!("{child} is still there from an earlier object of this name, and something holds it");
            (409, "Conflict".to_owned(), message, refused(tries.saturating_add(1)))
        }
        WriteError::Waits { why } => {
            let message = format!("{child} is to be made anew: {why}");
            (409, RECREATING.to_owned(), message, doubled(CONFLICT_PAUSE, tries, MAX_CONFLICT_PAUSE))
        }
    };
    // The API server quotes names of fields, which the plugin chose.
    let message = sanitize::clean(message, FAILURE_MESSAGE);
    (Refusal { reference: child.clone(), code, reason, message }, pause)
}

/// Returns a random number for a jitter.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::check::{Denial, Violation};
    use hotshoe_core::diff::{Apply, Precondition};
    use hotshoe_core::model::kind::Kind;

    fn parent() -> ObjectRef {
        ObjectRef { kind: Kind::new("example.com", "v1", "Shop"), namespace: Some("n".into()), name: "shop".into() }
    }

    fn child() -> ObjectRef {
        ObjectRef { kind: Kind::new("", "v1", "Service"), namespace: Some("n".into()), name: "web".into() }
    }

    fn name_in_use() -> WriteError {
        WriteError::Conflict { holder: "another".into() }
    }

    fn invalid() -> WriteError {
        WriteError::Api(Box::new(ApiError::new("apply", "a".into(), 400, "BadRequest", "no".into())))
    }

    /// Returns a plan that applies the child with this digest.
    fn planned(digest: &str) -> Plan {
        planned_as(child(), digest)
    }

    fn planned_as(reference: ObjectRef, digest: &str) -> Plan {
        let body = serde_json::json!({}).into();
        let desired = Desired {
            reference,
            body,
            digest: digest.into(),
            is_created_once: false,
            left: std::sync::Arc::default(),
            strategy: Default::default(),
        };
        Plan { apply: vec![Apply { desired, precondition: Precondition::Absent }], ..Plan::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_write_is_retried_when_it_is_due_or_something_changes() {
        let (mut refusals, child) = (Refusals::default(), child());
        assert!(refusals.is_due(&child, || 1));
        assert!(refusals.add(&child, "digest".into(), name_in_use(), 1).is_some());
        assert!(!refusals.is_due(&child, || 1), "too soon");
        assert!(refusals.is_due(&child, || 2), "something changed");
        assert_eq!(refusals.next_due(), Some(CONFLICT_PAUSE));
        tokio::time::advance(CONFLICT_PAUSE).await;
        assert!(refusals.is_due(&child, || 1) && !refusals.none_due());
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_first_refusal_in_a_row_is_reported_and_the_pauses_grow() {
        let (mut refusals, child) = (Refusals::default(), child());
        assert!(refusals.add(&child, "digest".into(), name_in_use(), 1).is_some());
        assert!(refusals.add(&child, "digest".into(), name_in_use(), 1).is_none());
        assert_eq!(refusals.next_due(), Some(2 * CONFLICT_PAUSE));
        assert_eq!(refusals.shown().len(), 1);
        assert!(refusals.lift(&child));
        assert!(!refusals.lift(&child));
        assert!(refusals.add(&child, "digest".into(), name_in_use(), 1).is_some(), "a new row");
    }

    #[tokio::test(start_paused = true)]
    async fn every_denied_child_is_named_and_in_the_same_order_after_each_retry() {
        let mut refusals = Refusals::default();
        let mut deny = |name: &str| {
            let child = ObjectRef { name: name.into(), ..child() };
            let denial = Denial::from(Violation::new("host-path", format!("{name} may not mount the node")));
            refusals.add(&child, "digest".into(), WriteError::Denied(denial), 1);
            refusals.denied().unwrap()
        };
        assert!(deny("a").contains("a may not"));
        let both = deny("b");
        assert!(both.contains("a may not") && both.contains("; ") && both.contains("b may not"), "{both}");
        assert_eq!([deny("a"), deny("b"), deny("b")], [both.clone(), both.clone(), both]);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_that_do_not_pass_by_themselves_are_named_in_a_fixed_order() {
        let mut refusals = Refusals::default();
        let named = |name: &str| ObjectRef { name: name.into(), ..child() };
        let unanswered = ApiError::new("apply", "a".into(), 0, "Unreachable", "no answer".into());
        refusals.add(&named("c"), "digest".into(), WriteError::Api(Box::new(unanswered)), 1);
        refusals.add(&named("d"), "digest".into(), WriteError::Collecting, 1);
        assert_eq!(refusals.lasting(), None);
        refusals.add(&named("b"), "digest".into(), invalid(), 1);
        refusals.add(&named("a"), "digest".into(), name_in_use(), 1);
        let both = "Conflict: Service n/a exists and is not this object's child: another; Service n/b is refused: BadRequest (400): no";
        assert_eq!(refusals.lasting().as_deref(), Some(both));
        refusals.add(&named("b"), "digest".into(), invalid(), 1);
        assert_eq!(refusals.lasting().as_deref(), Some(both), "after a retry");
        refusals.lift(&named("a"));
        refusals.lift(&named("b"));
        assert_eq!(refusals.lasting(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_creation_in_a_namespace_that_is_being_deleted_is_shown_to_the_plugin_and_is_no_trouble() {
        let (mut refusals, child) = (Refusals::default(), child());
        let forbidden = ApiError::new("apply", "a Service".into(), 403, "Forbidden", "it is being terminated".into());
        let cause = Some("NamespaceTerminating".to_owned());
        let error = ApiError { cause, ..forbidden };
        assert!(!refusals.passes(&child, &error), "a retry soon would change nothing");
        for _ in 0..REPORTED_TRIES {
            refusals.add(&child, "digest".into(), WriteError::Api(Box::new(error.clone())), 1);
            tokio::time::advance(MAX_REFUSAL_PAUSE).await;
        }
        let shown = refusals.shown();
        assert_eq!((shown[0].code, &*shown[0].reason), (403, "NamespaceTerminating"));
        assert_eq!((refusals.lasting(), refusals.denied(), refusals.invalid_tries()), (None, None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_lasts_is_named_whatever_its_code_and_its_pauses_grow() {
        let message = "failed calling webhook \"a\"";
        for (code, reason) in [(500, "InternalError"), (503, "ServiceUnavailable"), (0, "Timeout"), (409, "Conflict")] {
            let (mut refusals, child) = (Refusals::default(), child());
            let (began, mut tries, mut events, mut named) = (Instant::now(), 0, 0, None);
            while began.elapsed() < Duration::from_secs(600) {
                tries += 1;
                let error = ApiError::new("apply", "a".into(), code, reason, message.into());
                let pause = if refusals.passes(&child, &error) {
                    Duration::from_secs(2)
                } else {
                    let first = refusals.add(&child, "digest".into(), error.into(), 1);
                    events += usize::from(first.is_some());
                    refusals.next_due().unwrap()
                };
                named = named.or_else(|| refusals.lasting().map(|text| (began.elapsed(), text)));
                tokio::time::advance(pause).await;
            }
            let (after, text) = named.expect("a condition");
            assert!(after <= Duration::from_secs(20), "{code}: {after:?}");
            assert!(text.starts_with("Service n/web is") && text.contains(reason) && text.ends_with(message), "{text}");
            assert_eq!(events, 1);
            assert!(tries <= 25, "{code}: {tries} tries in ten minutes");
            assert!(refusals.next_due() <= Some(Duration::from_secs(66)));
            assert!(refusals.lift(&child) && refusals.lasting().is_none());
        }
    }

    #[test]
    fn an_answer_that_cannot_be_used_is_reported_and_a_conflict_is_not_at_first() {
        let no_json = serde_json::from_str::<u8>("<html>").unwrap_err();
        assert!(!Refusals::default().passes(&child(), &ApiError::unreadable("write", "a Service".into(), &no_json)));
        let of = |code| ApiError::new("apply", "a Service".into(), code, "", String::new());
        assert!([0, 409, 429].into_iter().all(|code| Refusals::default().passes(&child(), &of(code))));
        assert!([403, 404, 500, 503].into_iter().all(|code| !Refusals::default().passes(&child(), &of(code))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_no_refusal_of_a_child_however_long_it_lasts() {
        let (mut refusals, child) = (Refusals::default(), child());
        for _ in 0..100 {
            let away = ApiError::new("apply", "a".into(), 0, "Unreachable", "no answer".into());
            let waking = ApiError { after_outage: true, ..ApiError::new("apply", "a".into(), 503, "", String::new()) };
            assert!(refusals.passes(&child, &away) && refusals.passes(&child, &waking));
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert!(refusals.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_that_passes_is_no_refusal_and_the_next_one_is_counted_from_the_beginning() {
        let (mut refusals, child) = (Refusals::default(), child());
        let conflict = ApiError::new("apply", "a".into(), 409, "Conflict", "changed".into());
        for _ in 0..10 {
            assert!(refusals.passes(&child, &conflict));
            tokio::time::advance(Duration::from_secs(9)).await;
            assert!(refusals.passes(&child, &conflict));
            refusals.lift(&child);
            tokio::time::advance(Duration::from_secs(9)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn plugin_text_quoted_by_the_api_server_is_sanitized() {
        let message = ".data.a\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J\u{202e}: field not declared".to_owned();
        let error = ApiError::new("apply", "Service n/web".into(), 422, "Invalid", message);
        let refusal = Refusals::default().add(&child(), "digest".into(), WriteError::Api(Box::new(error)), 1).unwrap();
        assert_eq!(refusal.message, ".data.a 2026-01-01T00:00:00Z ERROR forged : field not declared");
    }

    #[tokio::test(start_paused = true)]
    async fn only_refusals_as_invalid_are_counted_as_invalid_tries() {
        let mut refusals = Refusals::default();
        for tries in 1..=3 {
            refusals.add(&child(), "digest".into(), name_in_use(), 1);
            assert_eq!((refusals.invalid_tries(), refusals.stays_invalid(|_| 1)), (0, false));
            refusals.lift(&child());
            for _ in 0..tries {
                refusals.add(&child(), "digest".into(), invalid(), 1);
            }
            assert_eq!(refusals.invalid_tries(), tries);
            assert_eq!(refusals.stays_invalid(|_| 1), tries > 1);
            assert!(!refusals.stays_invalid(|_| 2), "something has changed");
            refusals.lift(&child());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_is_invalid_in_another_way_each_time_is_written_at_once_and_counted_on() {
        let (mut refusals, child) = (Refusals::default(), child());
        for tries in 1..=3 {
            let digest = tries.to_string();
            let is_ended = refusals.keep_planned(&planned(&digest), &parent());
            assert_eq!(is_ended, tries > 1, "the plugin was shown the refusal");
            assert_eq!(refusals.invalid_tries(), 0, "the changed child may be valid");
            assert!(refusals.is_due(&child, || 1) && !refusals.has(&child));
            refusals.add(&child, digest.into(), invalid(), 1);
            assert_eq!((refusals.invalid_tries(), refusals.stays_invalid(|_| 1)), (tries, tries > 1));
        }
        refusals.keep_planned(&planned("valid"), &parent());
        refusals.lift(&child);
        refusals.add(&child, "again".into(), invalid(), 1);
        assert_eq!(refusals.invalid_tries(), 1, "it was valid once");
        refusals.keep_planned(&Plan::default(), &parent());
        refusals.add(&child, "again".into(), invalid(), 1);
        assert_eq!(refusals.invalid_tries(), 1, "it was not desired, or as desired");
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_child_that_has_another_name_each_time_is_counted_on() {
        let mut refusals = Refusals::default();
        for tries in 1..=3 {
            let child = ObjectRef { name: format!("web-{tries}").into(), ..child() };
            refusals.keep_planned(&planned_as(child.clone(), "digest"), &parent());
            refusals.add(&child, "digest".into(), invalid(), 1);
            assert_eq!(refusals.invalid_tries(), tries);
        }
        let of_another_kind = ObjectRef { kind: Kind::new("", "v1", "ConfigMap"), ..child() };
        refusals.add(&of_another_kind, "digest".into(), invalid(), 1);
        assert_eq!(refusals.invalid_in_a_row(&of_another_kind), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn other_refusals_neither_count_as_invalid_nor_begin_the_count_anew() {
        let mut refusals = Refusals::default();
        refusals.add(&child(), "digest".into(), invalid(), 1);
        refusals.add(&child(), "digest".into(), name_in_use(), 1);
        assert_eq!(refusals.invalid_tries(), 0);
        refusals.add(&child(), "digest".into(), invalid(), 1);
        assert_eq!(refusals.invalid_tries(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_forgotten_once_its_write_is_no_longer_planned() {
        let (mut refusals, child) = (Refusals::default(), child());
        refusals.add(&child, "digest".into(), name_in_use(), 1);
        assert!(refusals.keep_planned(&Plan::default(), &parent()));
        assert!(refusals.is_empty());
        assert!(!refusals.keep_planned(&Plan::default(), &parent()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_refusal_of_what_is_stated_of_the_parent_is_forgotten_once_something_else_is_stated() {
        let mut refusals = Refusals::default();
        let conflict = || {
            let message = "conflict with \"kubectl\": .metadata.labels.tier".to_owned();
            WriteError::Owned(Box::new(ApiError::new("apply", "a Shop".into(), 409, "Conflict", message)))
        };
        let first = refusals.add(&parent(), "digest".into(), conflict(), 1).expect("the first in a row");
        assert_eq!((first.code, &*first.reason), (409, "Conflict"));
        assert!(first.message.contains("not labelled or annotated as stated: conflict with"), "{}", first.message);
        assert!(refusals.lasting().is_some_and(|said| said.starts_with("Conflict: ")), "it is said at once");
        assert!(!refusals.keep_planned(&Plan::default(), &parent()), "it is no child");
        assert!(!refusals.keep_stated(&parent(), Some("digest")) && refusals.has(&parent()));
        assert!(!refusals.is_due(&parent(), || 1) && refusals.is_due(&parent(), || 2));
        assert!(refusals.keep_stated(&parent(), Some("other")) && refusals.is_empty());
        refusals.add(&parent(), "digest".into(), conflict(), 1);
        assert!(refusals.keep_stated(&parent(), None) && refusals.is_empty(), "the parent is as stated");
    }
}
