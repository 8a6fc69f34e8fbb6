//! Asks two revisions about the stored parents where the API server asks the active one: whether each is valid, what is
//! filled into it, and what is left of it after a way through another version.
//!
//! ```text
//! stored parents ─page─▶ whole objects ─▶ validate ─▶ no longer valid
//!                                      ─▶ default  ─▶ filled in otherwise        (in a shadow run)
//!                                      ─▶ convert to another version and back ─▶ fields that are lost
//! ```
//!
//! The objects are read from the API server, because the caches lack the fields that no plugin sees. The active revision is
//! asked only about those with which something is wrong, unless everything is to be compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt, stream};
use serde_json::Value;

use crate::reconcile::active_revision::ActiveRevision;
use crate::shadow::impact::OVERDUE;
use hotshoe_cluster::stored_objects::Page;
use hotshoe_cluster::watch::Watches;
use hotshoe_core::check::conversion;
use hotshoe_core::compare::json_diff::{self, Rules};
use hotshoe_core::compare::round_trip;
use hotshoe_core::compare::stored::StoredParents;
use hotshoe_core::model::admission::{self, Proposal};
use hotshoe_core::model::decision::{Document, Failure};
use hotshoe_core::model::kind::Key;
use hotshoe_sandbox::call::{Aborted, Outcome};
use hotshoe_sandbox::error::CallError;

/// About how many objects a revision is asked at once.
const AT_ONCE: usize = 4;

/// How much is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What speaks against the new revision.
    Objections,
    /// All that is different.
    Everything,
}

/// Finds out what another revision makes of the stored parents.
pub async fn survey(watches: &Watches, present: &ActiveRevision, new: &ActiveRevision, depth: Depth) -> StoredParents {
    let parents = &new.parents.watch;
    let mut found = StoredParents { objects: parents.cache.len(), ..StoredParents::default() };
    let versions = match other_versions(watches, present, new).await {
        Ok(versions) => versions,
        Err(why) => return StoredParents { stopped: Some(why), ..found },
    };
    if !new.revision.converts() {
        found.versions_given_up.clone_from(&versions);
    }
    let asking = Asking::new(present, new, depth, versions);
    if asking.asks_nothing() {
        return StoredParents { looked_at: found.objects, ..found };
    }
    let mut stored = watches.stored(parents, &new.resource());
    loop {
        let page = match stored.next().await {
            Ok(Some(page)) => page,
            // Parents that were created or deleted meanwhile no longer matter.
            Ok(None) => return StoredParents { objects: found.looked_at, ..found },
            Err(why) => return StoredParents { stopped: Some(why), ..found },
        };
        let Some(batches) = asking.batches(page).await else {
            return StoredParents { stopped: Some("the host is shutting down".to_owned()), ..found };
        };
        for batch in batches {
            asking.look_at(&batch, &mut found).await;
            if asking.is_late() {
                let stopped = Some(format!("{OVERDUE} calls ran for longer than they may"));
                return StoredParents { stopped, ..found };
            }
        }
    }
}

/// Returns the versions other than that of the parents in which the API server serves them; none if neither revision
/// converts.
async fn other_versions(
    watches: &Watches,
    present: &ActiveRevision,
    new: &ActiveRevision,
) -> Result<Vec<String>, String> {
    let kind = new.parent_kind();
    if kind.is_builtin() || ![present, new].iter().any(|side| side.revision.converts()) {
        return Ok(Vec::new());
    }
    let mut versions = watches.served_versions(kind).await.map_err(|error| error.to_string())?;
    versions.retain(|version| **version != *kind.version);
    Ok(versions)
}

/// What two revisions are asked.
struct Asking<'a> {
    present: &'a ActiveRevision,
    new: &'a ActiveRevision,
    depth: Depth,
    validates: bool,
    defaults: bool,
    /// The versions to which objects are converted, and back.
    versions: Vec<String>,
    /// How many calls used up their time.
    overdue: AtomicUsize,
}

/// Whether an object is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Validity {
    Valid,
    /// These fields are wrong.
    Invalid(Vec<String>),
    /// The call failed for this reason, so that the object would be admitted.
    Unanswered(&'static str),
}

/// What became of an object that was converted to another version and back.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trip {
    /// These fields are lost; none if the list is empty.
    Back(Vec<String>),
    /// The conversion failed for this reason.
    Failed(&'static str),
}

impl Trip {
    fn is_whole(&self) -> bool {
        matches!(self, Self::Back(lost) if lost.is_empty())
    }
}

/// How a round trip is worse than by the active revision.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Worse {
    /// These fields are lost.
    Lost(Vec<String>),
    /// It fails for this reason.
    NotConverted(String),
}

impl Worse {
    fn of(version: &str, before: Trip, after: Trip) -> Option<Self> {
        match (before, after) {
            (Trip::Failed(_), Trip::Failed(_)) => None,
            (Trip::Back(_), Trip::Failed(reason)) => Some(Self::NotConverted(format!("in {version}: {reason}"))),
            (before, Trip::Back(mut lost)) => {
                if let Trip::Back(also) = before {
                    lost.retain(|field| !also.contains(field));
                }
                let first = lost.first_mut()?;
                *first = format!("in {version}: {first}");
                Some(Self::Lost(lost))
            }
        }
    }
}

impl<'a> Asking<'a> {
    fn new(present: &'a ActiveRevision, new: &'a ActiveRevision, depth: Depth, versions: Vec<String>) -> Self {
        let asks_all = depth == Depth::Everything;
        let admission = new.plugin.admission;
        let is_asked = if asks_all { !admission.is_off() } else { admission.is_enforced() };
        let is_same_kind = present.parent_kind() == new.parent_kind();
        let either = |does: fn(&ActiveRevision) -> bool| does(new) || (asks_all && does(present));
        Self {
            validates: is_asked && either(|side| side.revision.validates()),
            defaults: is_asked && asks_all && is_same_kind && either(|side| side.revision.defaults()),
            versions: if new.revision.converts() { versions } else { Vec::new() },
            overdue: AtomicUsize::new(0),
            present,
            new,
            depth,
        }
    }

    fn asks_nothing(&self) -> bool {
        !self.validates && !self.defaults && self.versions.is_empty()
    }

    fn is_late(&self) -> bool {
        self.overdue.load(Ordering::Relaxed) >= OVERDUE
    }

    /// Returns objects as a plugin is given them, divided so that no call is given too much; none if the host is
    /// shutting down. They are read on a thread for calls: users choose how large they are.
    async fn batches(&self, objects: Page) -> Option<Vec<Vec<Document>>> {
        let kind = self.new.parent_kind().clone();
        let read = move || {
            let objects = objects.iter().filter_map(|(_, json)| serde_json::from_str(json).ok());
            conversion::batches(objects.map(|object: Value| admission::shown(&kind, object)))
        };
        self.new.revision.work(read).await.ok()
    }

    async fn look_at(&self, objects: &[Document], found: &mut StoredParents) {
        found.looked_at += objects.len();
        // An object that is being deleted may be changed whatever the plugin says.
        let staying: Vec<Document> = objects.iter().filter(|object| !self.is_deleting(object)).cloned().collect();
        if self.validates {
            self.compare_validity(&staying, found).await;
        }
        if self.defaults {
            self.compare_defaults(&staying, found).await;
        }
        if !self.versions.is_empty() {
            self.compare_round_trips(objects, found).await;
        }
    }

    fn is_deleting(&self, object: &Document) -> bool {
        let parent = self.new.parents.watch.cache.get(&key(object));
        parent.is_some_and(|parent| parent.deleting)
    }

    async fn compare_validity(&self, objects: &[Document], found: &mut StoredParents) {
        let pairs = stream::iter(objects.to_vec()).map(|object| self.validities(object)).buffered(AT_ONCE);
        let pairs: Vec<(Validity, Validity)> = pairs.collect().await;
        for (object, (before, after)) in objects.iter().zip(pairs) {
            note_validity(found, &key(object), before, after);
        }
    }

    /// Returns whether the active and the new revision accept an object.
    async fn validities(&self, object: Document) -> (Validity, Validity) {
        let after = self.validity(self.new, object.clone()).await;
        let is_asked = self.depth == Depth::Everything || after != Validity::Valid;
        let before =
            if is_asked && self.same_version() { self.validity(self.present, object).await } else { Validity::Valid };
        (before, after)
    }

    /// Asks about the object as an update that changes nothing: a validation may refuse in a creation what it accepts in
    /// an update, and the next thing that users do with a stored object is to update it.
    async fn validity(&self, revision: &ActiveRevision, object: Document) -> Validity {
        if !revision.revision.validates() {
            return Validity::Valid;
        }
        match self.answer(revision.revision.validate(unchanged(revision, object)).await) {
            Ok(verdict) if verdict.errors.is_empty() => Validity::Valid,
            Ok(verdict) => Validity::Invalid(verdict.errors.into_iter().map(|error| error.field).collect()),
            Err(NoAnswer::Rejected(field)) => Validity::Invalid(field.into_iter().collect()),
            Err(NoAnswer::Failed(reason)) => Validity::Unanswered(reason),
        }
    }

    async fn compare_defaults(&self, objects: &[Document], found: &mut StoredParents) {
        for object in objects {
            let before = self.filled_in(self.present, object).await;
            let after = self.filled_in(self.new, object).await;
            match (before, after) {
                (before, after) if before == after => {}
                (Ok(before), Ok(after)) => found.filled_in_otherwise.note(key(object), differing(&before, &after)),
                (Ok(_), Err(reason)) => found.filled_in_otherwise.note(key(object), [reason.to_owned()]),
                (Err(_), _) => found.filled_in_otherwise.note(key(object), []),
            }
        }
    }

    /// Returns an object with the defaults of a revision.
    ///
    /// # Errors
    /// The reason for which nothing is filled in.
    async fn filled_in(&self, revision: &ActiveRevision, object: &Document) -> Result<Value, &'static str> {
        // Nothing is filled into kinds of Kubernetes itself.
        if !revision.revision.defaults() || revision.parent_kind().is_builtin() {
            return Ok(serde_json::from_str(&object.json).unwrap_or_default());
        }
        let answered = revision.revision.default(unchanged(revision, object.clone())).await;
        self.answer(answered).map(|defaulted| defaulted.object).map_err(NoAnswer::reason)
    }

    async fn compare_round_trips(&self, objects: &[Document], found: &mut StoredParents) {
        let mut worse: Vec<Option<Worse>> = vec![None; objects.len()];
        for version in &self.versions {
            let by_way_of = self.worse_by_way_of(version, objects).await;
            worse.iter_mut().zip(by_way_of).for_each(|(known, now)| *known = known.take().or(now));
        }
        for (object, worse) in objects.iter().zip(worse) {
            match worse {
                Some(Worse::Lost(fields)) => found.losing_fields.note(key(object), fields),
                Some(Worse::NotConverted(reason)) => found.not_converted.note(key(object), [reason]),
                None => {}
            }
        }
    }

    /// Returns of each object how the way to a version and back is worse than by the active revision, which is asked only
    /// about those with which something is wrong.
    async fn worse_by_way_of(&self, version: &str, objects: &[Document]) -> Vec<Option<Worse>> {
        let after = self.round_trips(self.new, objects, version).await;
        let wrong = objects.iter().zip(&after).filter(|(_, trip)| !trip.is_whole());
        let wrong: Vec<Document> = wrong.map(|(object, _)| object.clone()).collect();
        let before = match self.present.revision.converts() {
            true => self.round_trips(self.present, &wrong, version).await,
            // What is stored stays as it is then.
            false => vec![Trip::Back(Vec::new()); wrong.len()],
        };
        let mut before = before.into_iter();
        let worse = |after: Trip| match after.is_whole() {
            true => None,
            false => Worse::of(version, before.next()?, after),
        };
        after.into_iter().map(worse).collect()
    }

    async fn round_trips(&self, revision: &ActiveRevision, objects: &[Document], version: &str) -> Vec<Trip> {
        let own = &self.new.parent_kind().version;
        let there = self.converted(revision, objects, version).await;
        let arrived: Vec<Document> = there.iter().filter_map(|one| one.as_ref().ok()).cloned().collect();
        let mut back = self.converted(revision, &arrived, own).await.into_iter();
        let back: Vec<Result<Document, &'static str>> =
            there.into_iter().map(|one| one.and_then(|_| back.next().unwrap_or(Err(NOTHING)))).collect();
        let pairs: Vec<_> = objects.iter().cloned().zip(back).collect();
        let stopped = || vec![Trip::Failed(CallError::Stopped.reason()); objects.len()];
        // Users choose how large the objects are, so they are compared on a thread for calls.
        let compare = move || pairs.iter().map(|(before, after)| trip(before, after.as_ref())).collect();
        self.new.revision.work(compare).await.unwrap_or_else(|_| stopped())
    }

    /// Converts objects to a version, together; if that fails, one after the other. Returns for each one what became of
    /// it.
    async fn converted(
        &self,
        revision: &ActiveRevision,
        objects: &[Document],
        version: &str,
    ) -> Vec<Result<Document, &'static str>> {
        if objects.is_empty() {
            return Vec::new();
        }
        match self.convert(revision, objects.to_vec(), version).await {
            Ok(converted) => return converted.into_iter().map(Ok).collect(),
            Err(reason) if objects.len() == 1 => return vec![Err(reason)],
            Err(_) => {}
        }
        let mut converted = Vec::with_capacity(objects.len());
        for object in objects {
            let one = match self.is_late() {
                true => Err(LATE),
                false => self.convert(revision, vec![object.clone()], version).await,
            };
            converted.push(one.and_then(|one| one.into_iter().next().ok_or(NOTHING)));
        }
        converted
    }

    async fn convert(
        &self,
        revision: &ActiveRevision,
        objects: Vec<Document>,
        version: &str,
    ) -> Result<Vec<Document>, &'static str> {
        let answered = revision.revision.convert(objects, version.to_owned()).await;
        let converted = self.answer(answered).map_err(NoAnswer::reason)?;
        converted.iter().map(|object| conversion::shown(object.get()).map_err(|_| NOTHING)).collect()
    }

    /// Returns the answer of a call, and counts the call if it used up its time.
    fn answer<T>(&self, called: Result<Outcome<T>, Aborted>) -> Result<T, NoAnswer> {
        match called {
            Ok(Outcome { result: Ok(answer), .. }) => Ok(answer),
            Ok(Outcome { result: Err(Failure::Reject { field, .. }), .. }) => Err(NoAnswer::Rejected(field)),
            Ok(Outcome { result: Err(_), .. }) => Err(NoAnswer::Failed("PluginFailed")),
            Err(Aborted { error, .. }) => {
                let is_overdue = matches!(error, CallError::DeadlineExceeded(_));
                self.overdue.fetch_add(usize::from(is_overdue), Ordering::Relaxed);
                Err(NoAnswer::Failed(error.reason()))
            }
        }
    }

    /// Returns whether both revisions have parents of the same version, so that the active one can be asked about the
    /// same objects.
    fn same_version(&self) -> bool {
        self.present.parent_kind() == self.new.parent_kind()
    }
}

/// The reason for an object of which no conversion came.
const NOTHING: &str = "InvalidOutput";
/// The reason for an object that is no longer asked about.
const LATE: &str = "DeadlineExceeded";

/// Why a call has no answer.
enum NoAnswer {
    /// The plugin rejects the object, maybe for this field.
    Rejected(Option<String>),
    /// The call failed, or was denied, for this reason.
    Failed(&'static str),
}

impl NoAnswer {
    fn reason(self) -> &'static str {
        match self {
            Self::Rejected(_) => "Rejected",
            Self::Failed(reason) => reason,
        }
    }
}

/// Returns an object as an update of itself.
fn unchanged(revision: &ActiveRevision, object: Document) -> Arc<Proposal> {
    let config = revision.plugin.config.clone();
    Arc::new(Proposal { old: Some(object.clone()), new: object, config, dry_run: false, user: None })
}

fn key(object: &Document) -> Key {
    Key::new(object.reference.namespace.as_deref(), &object.reference.name)
}

fn note_validity(found: &mut StoredParents, object: &Key, before: Validity, after: Validity) {
    match (before, after) {
        (Validity::Valid | Validity::Unanswered(_), Validity::Invalid(fields)) => {
            found.no_longer_valid.note(object, fields);
        }
        (Validity::Invalid(fields), Validity::Valid) => found.valid_again.note(object, fields),
        (Validity::Valid | Validity::Invalid(_), Validity::Unanswered(reason)) => {
            found.not_validated.note(object, [reason.to_owned()]);
        }
        (Validity::Valid | Validity::Unanswered(_), Validity::Valid)
        | (Validity::Invalid(_), Validity::Invalid(_))
        | (Validity::Unanswered(_), Validity::Unanswered(_)) => {}
    }
}

/// Returns what became of an object.
fn trip(before: &Document, after: Result<&Document, &&'static str>) -> Trip {
    let read = |document: &Document| serde_json::from_str::<Value>(&document.json).unwrap_or_default();
    match after {
        Err(reason) => Trip::Failed(reason),
        Ok(after) => {
            let lost = round_trip::lost(&read(before), &read(after));
            Trip::Back(lost.into_iter().map(|field| field.path).collect())
        }
    }
}

fn differing(before: &Value, after: &Value) -> Vec<String> {
    let fields = json_diff::compare(Some(before), Some(after), usize::MAX, Rules::default()).listed;
    fields.into_iter().map(|field| field.path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::compare::stored::Affected;

    #[test]
    fn an_object_counts_as_no_longer_valid_if_it_was_admitted_before() {
        let (valid, invalid) = (|| Validity::Valid, || Validity::Invalid(vec!["spec.size".to_owned()]));
        let unanswered = || Validity::Unanswered("Trapped");
        let counts = |before, after| {
            let mut found = StoredParents::default();
            note_validity(&mut found, &Key::new(Some("n"), "a"), before, after);
            let StoredParents { no_longer_valid, valid_again, not_validated, .. } = found;
            [no_longer_valid, valid_again, not_validated].map(|affected: Affected| affected.count)
        };
        assert_eq!(counts(valid(), invalid()), [1, 0, 0]);
        assert_eq!(counts(unanswered(), invalid()), [1, 0, 0], "what could not be validated was admitted");
        assert_eq!(counts(invalid(), valid()), [0, 1, 0]);
        assert_eq!(counts(valid(), unanswered()), [0, 0, 1]);
        for same in [valid, invalid, unanswered] as [fn() -> Validity; 3] {
            assert_eq!(counts(same(), same()), [0, 0, 0]);
        }
    }

    #[test]
    fn a_round_trip_is_worse_where_it_loses_or_fails_and_the_active_one_does_not() {
        let back = |lost: &[&str]| Trip::Back(lost.iter().map(|&field| field.to_owned()).collect());
        let failed = || Trip::Failed("Trapped");
        let lost = |fields: &[&str]| Some(Worse::Lost(fields.iter().map(|&field| field.to_owned()).collect()));
        let worse = |before, after| Worse::of("v2", before, after);
        assert_eq!(worse(back(&[]), back(&["a", "b"])), lost(&["in v2: a", "b"]));
        assert_eq!(worse(back(&["a"]), back(&["a", "b"])), lost(&["in v2: b"]), "the active one loses the other, too");
        assert_eq!(worse(back(&["a"]), back(&["a"])), None);
        assert_eq!(worse(failed(), back(&["a"])), lost(&["in v2: a"]));
        assert_eq!(worse(back(&["a"]), failed()), Some(Worse::NotConverted("in v2: Trapped".to_owned())));
        assert_eq!(worse(failed(), failed()), None);
    }

    /// The rollout needs this, for it runs on a task of its own.
    #[expect(dead_code, reason = "that it compiles is the test")]
    fn a_survey_can_be_sent(watches: &Watches, active: &ActiveRevision) -> impl Send {
        survey(watches, active, active, Depth::Everything)
    }
}
