//! The last decisions about each parent, as `hotshoe explain` shows them.
//!
//! What is kept of a parent is bounded, and so is the sum for all parents. A decision that changed nothing is counted with
//! the one before it, so that it does not push out one that did; so is a failure that comes again. One that wrote the
//! status alone, as many do while children start, is forgotten before one that wrote more.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::api::explain::{Act, Cause, Decided, Decider, Ended, Note};
use hotshoe_cluster::time;
use hotshoe_core::diff::changed_inputs::Inputs;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Key;
use hotshoe_core::model::limits::{EXPLAINED_BYTES, EXPLAINED_DECISIONS, EXPLAINED_OF_ALL, EXPLAINED_TEXT};

/// How many revisions are remembered for further decisions of theirs to refer to.
const MAX_DECIDERS: usize = 4;
/// The memory of a parent beside what is counted: its key, its places in the map, and what the allocator adds.
const OVERHEAD_BYTES: usize = 130;

/// The last decisions about the parents of one plugin.
#[derive(Default)]
pub struct Decisions(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    stories: HashMap<Key, Box<Story>>,
    bytes: usize,
    deciders: Vec<Arc<Decider>>,
}

/// What is kept of one parent.
#[derive(Default)]
struct Story {
    uid: Arc<str>,
    known: Option<Known>,
    decisions: Vec<Kept>,
}

/// What the last decision about a parent was based on.
#[derive(Default)]
pub struct Known {
    /// The fingerprint of the component and of `plugin.yaml`.
    pub basis: u64,
    /// What the plugin was shown.
    pub inputs: Inputs,
}

/// What is known before a decision is added.
#[derive(Default)]
pub struct Before {
    /// What the last call of the plugin was based on; none if it was not called yet.
    pub known: Option<Known>,
    /// Which component decided last; none if nothing was decided yet.
    pub digest: Option<Digest>,
    /// Whether it failed.
    pub failed: bool,
}

/// A decision to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// The digest of the component that decided, and its version.
    pub by: Decider,
    /// Why it was decided.
    pub because: Vec<Note<Cause>>,
    /// How many causes are not listed.
    pub more_causes: usize,
    /// How it ended.
    pub ended: Ended,
    /// The reason of a failure or a trouble.
    pub reason: Option<String>,
    /// What that is about.
    pub about: Vec<String>,
    /// What was written.
    pub wrote: Vec<Note<Act>>,
    /// How many writes are not listed.
    pub more_writes: usize,
}

/// A decision as it is kept: all that is of varying length as one text.
struct Kept {
    at: u64,
    by: Arc<Decider>,
    ended: Ended,
    /// Whether nothing but the status was written.
    is_of_status: bool,
    repeated: u32,
    /// The last repetition, in seconds since.
    repeated_after: u32,
    text: Box<str>,
}

/// The text of a decision, as JSON without names of members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Text(Option<String>, Vec<String>, Notes<Cause>, usize, Notes<Act>, usize);

type Notes<What> = Vec<(What, Option<String>, Vec<String>)>;

impl Decisions {
    /// Returns what is known of the last decision about the parent with this uid, and forgets what it was based on:
    /// [`Self::add`] follows.
    pub fn before(&self, key: &Key, uid: &str) -> Before {
        let mut inner = self.0.lock();
        let Some(story) = inner.stories.get_mut(key).filter(|story| *story.uid == *uid) else {
            return Before::default();
        };
        let last = story.decisions.last();
        Before {
            digest: last.map(|last| last.by.digest),
            failed: last.is_some_and(|last| last.ended == Ended::Failed),
            known: story.known.take(),
        }
    }

    /// Adds a decision about the parent with this uid, at this time in seconds since the epoch, and what it was based on.
    pub fn add(&self, key: &Key, uid: &Arc<str>, at: u64, new: New, known: Option<Known>) {
        self.change(key, uid, |story, deciders| {
            story.known = known;
            story.add(at, new, deciders);
        });
    }

    /// Counts a pass over a parent that had nothing to decide.
    pub fn count_unchanged(&self, key: &Key, uid: &str, at: u64) {
        let mut inner = self.0.lock();
        let story = inner.stories.get_mut(key).filter(|story| *story.uid == *uid);
        if let Some(last) = story.and_then(|story| story.decisions.last_mut()).filter(|last| !last.has_failed()) {
            last.repeat(at);
        }
    }

    /// Returns the decisions about a parent, the newest last.
    pub fn of(&self, key: &Key, uid: &str) -> Vec<Decided> {
        let inner = self.0.lock();
        let story = inner.stories.get(key).filter(|story| *story.uid == *uid);
        story.map(|story| story.decisions.iter().map(Kept::shown).collect()).unwrap_or_default()
    }

    /// Forgets a parent.
    pub fn forget(&self, key: &Key) {
        let mut inner = self.0.lock();
        if let Some(story) = inner.stories.remove(key) {
            inner.bytes = inner.bytes.saturating_sub(story.bytes());
        }
    }

    /// Forgets the parents for which this does not hold.
    pub fn retain(&self, is_kept: impl Fn(&Key) -> bool) {
        let mut inner = self.0.lock();
        inner.stories.retain(|key, _| is_kept(key));
        inner.count();
    }

    /// Returns the memory of all that is kept, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    fn change(&self, key: &Key, uid: &Arc<str>, change: impl FnOnce(&mut Story, &mut Vec<Arc<Decider>>)) {
        let mut inner = self.0.lock();
        let Inner { stories, bytes, deciders } = &mut *inner;
        let story = stories.entry(key.clone()).or_default();
        *bytes = bytes.saturating_sub(story.bytes());
        if story.uid != *uid {
            **story = Story { uid: uid.clone(), ..Story::default() };
        }
        change(story, deciders);
        *bytes += story.bytes();
        inner.make_room();
    }
}

impl Inner {
    /// Forgets all but the last decision about each parent if the whole takes too much, and everything if that is not
    /// enough. Either frees a quarter, so it is done seldom.
    fn make_room(&mut self) {
        if self.bytes <= EXPLAINED_OF_ALL.bytes() {
            return;
        }
        self.stories.values_mut().for_each(|story| story.keep(1));
        self.count();
        if self.bytes > EXPLAINED_OF_ALL.bytes() / 4 * 3 {
            *self = Self::default();
        }
    }

    fn count(&mut self) {
        self.bytes = self.stories.values().map(|story| story.bytes()).sum();
    }
}

impl Story {
    fn bytes(&self) -> usize {
        // A story without a uid is not counted yet.
        if self.uid.is_empty() && self.decisions.is_empty() {
            return 0;
        }
        let decisions: usize = self.decisions.iter().map(Kept::bytes).sum();
        let inputs = self.known.as_ref().map_or(0, |known| known.inputs.bytes());
        OVERHEAD_BYTES + size_of::<Self>() + inputs + decisions
    }

    fn add(&mut self, at: u64, new: New, deciders: &mut Vec<Arc<Decider>>) {
        let last = self.decisions.last_mut();
        if let Some(last) = last.filter(|last| last.is_repeated_by(&new)) {
            return last.repeat(at);
        }
        // Nor does a decision of another revision that changes nothing push out one that did.
        self.decisions.pop_if(|last| last.is_quiet() && new.is_quiet());
        self.decisions.reserve_exact(1);
        self.decisions.push(Kept::of(at, new, deciders));
        while self.decisions.len() > EXPLAINED_DECISIONS || self.older_bytes() > EXPLAINED_BYTES {
            let older = self.decisions.iter().rev().skip(1).rev();
            let of_status = older.map(|kept| kept.is_of_status).position(|is_of_status| is_of_status);
            self.decisions.remove(of_status.unwrap_or(0));
        }
    }

    /// Returns the bytes of all decisions but the last.
    fn older_bytes(&self) -> usize {
        self.decisions.iter().rev().skip(1).map(Kept::bytes).sum()
    }

    fn keep(&mut self, most: usize) {
        self.decisions.drain(..self.decisions.len().saturating_sub(most));
        self.decisions.shrink_to_fit();
    }
}

impl New {
    fn is_quiet(&self) -> bool {
        self.ended == Ended::Settled && self.reason.is_none() && self.wrote.is_empty()
    }

    fn is_of_status(&self) -> bool {
        self.reason.is_none() && self.more_writes == 0 && self.wrote.iter().all(|note| note.what == Act::Status)
    }
}

impl Kept {
    fn of(at: u64, new: New, deciders: &mut Vec<Arc<Decider>>) -> Self {
        let by = shared(new.by.clone(), deciders);
        let (ended, is_of_status) = (new.ended, new.is_of_status());
        Self {
            at,
            by,
            ended,
            is_of_status,
            repeated: 0,
            repeated_after: 0,
            text: Text::of(new).within(EXPLAINED_TEXT).into(),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }

    fn text(&self) -> Text {
        // It is JSON that was written here.
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    fn has_failed(&self) -> bool {
        self.ended == Ended::Failed
    }

    fn is_quiet(&self) -> bool {
        let Text(reason, _, _, _, wrote, more) = self.text();
        self.ended == Ended::Settled && reason.is_none() && wrote.is_empty() && more == 0
    }

    /// Returns whether a decision needs no place of its own: it changes nothing, or it fails as this one did.
    fn is_repeated_by(&self, new: &New) -> bool {
        if self.by.digest != new.by.digest || !new.wrote.is_empty() {
            return false;
        }
        if new.is_quiet() && !self.has_failed() {
            let Text(reason, ..) = self.text();
            return reason.is_none();
        }
        let Text(reason, about, _, _, wrote, _) = self.text();
        let Text(new_reason, new_about, ..) = Text::of(new.clone());
        self.ended == new.ended && wrote.is_empty() && (reason, about) == (new_reason, new_about)
    }

    fn repeat(&mut self, at: u64) {
        self.repeated = self.repeated.saturating_add(1);
        self.repeated_after = u32::try_from(at.saturating_sub(self.at)).unwrap_or(u32::MAX);
    }

    fn shown(&self) -> Decided {
        let Text(reason, about, because, more_causes, wrote, more_writes) = self.text();
        Decided {
            at: time::at(self.at).unwrap_or_default(),
            by: Decider::clone(&self.by),
            because: unpacked(because),
            more_causes,
            ended: self.ended,
            reason,
            about,
            wrote: unpacked(wrote),
            more_writes,
            repeated: usize::try_from(self.repeated).unwrap_or(usize::MAX),
            repeated_at: if self.repeated > 0 {
                time::at(self.at.saturating_add(self.repeated_after.into()))
            } else {
                None
            },
        }
    }
}

/// Returns the decider that all decisions of a revision share.
fn shared(by: Decider, deciders: &mut Vec<Arc<Decider>>) -> Arc<Decider> {
    if let Some(known) = deciders.iter().find(|known| ***known == by) {
        return known.clone();
    }
    if deciders.len() >= MAX_DECIDERS {
        deciders.remove(0);
    }
    let by = Arc::new(by);
    deciders.push(by.clone());
    by
}

impl Text {
    fn of(New { because, more_causes, reason, about, wrote, more_writes, .. }: New) -> Self {
        Self(reason, about, packed(because), more_causes, packed(wrote), more_writes)
    }

    /// Returns the JSON, of at most so many bytes: notes that are too many are only counted.
    fn within(mut self, most: usize) -> String {
        loop {
            let text = serde_json::to_string(&self).unwrap_or_default();
            if text.len() <= most {
                return text;
            }
            let Self(_, about, because, more_causes, wrote, more_writes) = &mut self;
            if because.len() > wrote.len() {
                because.pop();
                *more_causes += 1;
            } else if wrote.pop().is_some() {
                *more_writes += 1;
            } else if about.pop().is_none() {
                return "[null,[],[],0,[],0]".to_owned();
            }
        }
    }
}

fn packed<What>(notes: Vec<Note<What>>) -> Notes<What> {
    notes.into_iter().map(|Note { what, object, fields }| (what, object, fields)).collect()
}

fn unpacked<What>(notes: Notes<What>) -> Vec<Note<What>> {
    notes.into_iter().map(|(what, object, fields)| Note { what, object, fields }).collect()
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use serde_json::{Value, json};

    use super::*;
    use hotshoe_core::diff::changed_inputs::{Paths, Seen};
    use hotshoe_core::model::decision::{Document, Observation};
    use hotshoe_core::model::kind::{Kind, ObjectRef};

    fn by(component: &str) -> Decider {
        Decider { digest: Digest::of(component.as_bytes()), version: "0.1.0".to_owned() }
    }

    fn key(name: &str) -> Key {
        Key::new(Some("n"), name)
    }

    fn decided(ended: Ended) -> New {
        New {
            by: by("a"),
            because: vec![Note::new(Cause::Again)],
            more_causes: 0,
            ended,
            reason: None,
            about: Vec::new(),
            wrote: Vec::new(),
            more_writes: 0,
        }
    }

    fn created(child: &str) -> New {
        let wrote = vec![Note::new(Act::Created).about(format!("Deployment.apps n/{child}")), Note::new(Act::Status)];
        New { wrote, ..decided(Ended::Changed) }
    }

    fn failed(reason: &str) -> New {
        New { reason: Some(reason.to_owned()), ..decided(Ended::Failed) }
    }

    fn uid() -> Arc<str> {
        "u".into()
    }

    /// What is shown of a parent after these decisions, one a second.
    fn after(all: impl IntoIterator<Item = New>) -> Vec<Decided> {
        let decisions = Decisions::default();
        for (at, new) in all.into_iter().enumerate() {
            decisions.add(&key("a"), &uid(), at as u64, new, Some(Known::default()));
        }
        decisions.of(&key("a"), "u")
    }

    #[test]
    fn what_was_decided_is_shown_as_it_was_added() {
        let new = New { because: vec![Note::new(Cause::Changed).fields(vec!["spec.size".into()])], ..created("a") };
        let [shown] = &*after([new.clone()]) else { panic!("one decision") };
        assert_eq!((&shown.by, &shown.because, &shown.wrote), (&new.by, &new.because, &new.wrote));
        assert_eq!((&*shown.at, shown.ended, shown.repeated), ("1970-01-01T00:00:00Z", Ended::Changed, 0));
    }

    #[test]
    fn only_the_last_decisions_are_kept_and_what_changed_nothing_pushes_none_of_them_out() {
        let quiet = || (0..100).map(|_| decided(Ended::Settled));
        let names = (0..9).map(|name| created(&format!("c{name}")));
        let shown = after(names.chain(quiet()));
        assert_eq!(shown.len(), EXPLAINED_DECISIONS);
        assert_eq!(shown[4].wrote[0].object.as_deref(), Some("Deployment.apps n/c8"));
        assert_eq!((shown[4].repeated, shown[4].repeated_at.as_deref()), (100, Some("1970-01-01T00:01:48Z")));
        let swapped = after(
            [created("c"), decided(Ended::Settled)]
                .into_iter()
                .chain(["b", "c", "d"].map(|component| New { by: by(component), ..decided(Ended::Settled) })),
        );
        assert_eq!(swapped.len(), 2, "{swapped:#?}");
        assert_eq!((swapped[0].by.clone(), swapped[1].by.clone()), (by("a"), by("d")));
    }

    #[test]
    fn decisions_that_wrote_the_status_alone_push_out_one_another_and_none_that_wrote_a_child() {
        let of_status = || (0..9).map(|_| New { wrote: vec![Note::new(Act::Status)], ..decided(Ended::Settled) });
        let shown = after([created("a")].into_iter().chain(of_status()).chain([created("b")]).chain(of_status()));
        let children: Vec<_> = shown.iter().filter_map(|one| one.wrote.first()?.object.as_deref()).collect();
        assert_eq!((shown.len(), children), (EXPLAINED_DECISIONS, vec!["Deployment.apps n/a", "Deployment.apps n/b"]));
        assert_eq!(shown.last().map(|last| &*last.at), Some("1970-01-01T00:00:19Z"));
    }

    #[test]
    fn a_failure_that_comes_again_is_counted_and_another_one_and_the_recovery_are_not() {
        let trapped = || failed("Trapped");
        let shown = after([created("a"), trapped(), trapped(), trapped(), failed("Denied"), decided(Ended::Settled)]);
        let ends: Vec<_> = shown.iter().map(|one| (one.ended, one.reason.as_deref(), one.repeated)).collect();
        assert_eq!(
            ends,
            [
                (Ended::Changed, None, 0),
                (Ended::Failed, Some("Trapped"), 2),
                (Ended::Failed, Some("Denied"), 0),
                (Ended::Settled, None, 0)
            ]
        );
    }

    #[test]
    fn passes_without_a_decision_are_counted_unless_the_last_one_failed() {
        let decisions = Decisions::default();
        let count = || decisions.count_unchanged(&key("a"), "u", 9);
        count();
        assert!(decisions.of(&key("a"), "u").is_empty());
        decisions.add(&key("a"), &uid(), 1, created("a"), Some(Known::default()));
        count();
        decisions.add(&key("a"), &uid(), 2, failed("Trapped"), Some(Known::default()));
        count();
        let repeated: Vec<_> = decisions.of(&key("a"), "u").iter().map(|one| one.repeated).collect();
        assert_eq!(repeated, [1, 0]);
    }

    #[test]
    fn a_decision_that_is_too_long_keeps_its_first_notes_and_counts_the_rest() {
        let many =
            |count: usize| (0..count).map(|name| Note::new(Act::Created).about("x".repeat(100) + &name.to_string()));
        let shown = after([New { wrote: many(50).collect(), ..created("a") }]);
        let [Decided { wrote, more_writes, because, .. }] = &*shown else { panic!("one decision") };
        assert!(!wrote.is_empty() && wrote.len() + more_writes == 50 && because.len() == 1, "{shown:#?}");
        let endless =
            New { about: vec!["x".repeat(10_000)], reason: Some("y".repeat(10_000)), ..decided(Ended::Failed) };
        let shown = after([endless]);
        assert_eq!((shown[0].ended, shown[0].reason.as_deref()), (Ended::Failed, None));
    }

    #[test]
    fn of_a_new_object_of_the_same_name_and_of_a_forgotten_one_nothing_is_known() {
        let decisions = Decisions::default();
        decisions.add(&key("a"), &uid(), 1, created("a"), Some(Known::default()));
        assert!(decisions.before(&key("a"), "u").known.is_some());
        assert!(decisions.before(&key("a"), "other").known.is_none() && decisions.of(&key("a"), "other").is_empty());
        decisions.add(&key("a"), &"other".into(), 2, created("b"), Some(Known::default()));
        assert_eq!((decisions.of(&key("a"), "u").len(), decisions.of(&key("a"), "other").len()), (0, 1));
        decisions.add(&key("b"), &uid(), 2, created("b"), Some(Known::default()));
        decisions.retain(|kept| *kept == key("b"));
        assert!(decisions.of(&key("a"), "other").is_empty() && decisions.bytes() > 0);
        decisions.forget(&key("b"));
        assert_eq!(decisions.bytes(), 0);
    }

    /// What a Memcached with its Deployment and its Service shows.
    fn shown(parent: usize) -> Observation {
        let document = |kind: Kind, body: Value| Document {
            reference: ObjectRef { kind, namespace: Some("default".into()), name: format!("cache-{parent}").into() },
            json: body.to_string().into(),
        };
        let metadata =
            json!({ "name": format!("cache-{parent}"), "namespace": "default", "uid": "u", "generation": 1 });
        let spec = json!({ "size": 3, "containerPort": 11211, "image": "memcached:1.6-alpine" });
        let status =
            json!({ "readyReplicas": 3, "replicas": 3, "updatedReplicas": 3, "conditions": [{ "type": "Available" }] });
        Observation {
            parent: document(
                Kind::new("cache.example.com", "v1", "Memcached"),
                json!({ "metadata": metadata, "spec": spec }),
            ),
            children: vec![
                document(Kind::new("apps", "v1", "Deployment"), json!({ "metadata": metadata, "status": status })),
                document(Kind::new("", "v1", "Service"), json!({ "metadata": metadata })),
            ],
            related: Vec::new(),
            refusals: Vec::new(),
            config: "{}".into(),
            now: None,
            attempt: None,
        }
    }

    #[test]
    fn ten_thousand_parents_take_ten_megabytes_and_no_number_of_them_more_than_the_bound() {
        let (decisions, hasher) = (Decisions::default(), RandomState::new());
        let fill = |parent: usize| {
            let shown = shown(parent);
            let seen = Seen { shown: &shown, finalizers: 1, status: 1, applied: &|_| 1 };
            let (inputs, _) = Inputs::default().next(seen, Paths::Whole, &hasher);
            let name = key(&format!("cache-{parent}"));
            let child = format!("Deployment.apps default/cache-{parent}");
            let wrote = vec![
                Note::new(Act::FinalizerAdded).fields(vec!["cache.example.com/finalizer".to_owned()]),
                Note::new(Act::Created).about(child.clone()),
                Note::new(Act::Created).about(format!("Service default/cache-{parent}")),
                Note::new(Act::Status),
            ];
            let because = vec![Note::new(Cause::First)];
            decisions.add(&name, &uid(), 1, New { because, wrote, ..created("") }, None);
            let fields = vec!["status.readyReplicas".to_owned(), "status.conditions[Available]".to_owned()];
            let because = vec![Note::new(Cause::Changed).about(child).fields(fields)];
            let wrote = vec![Note::new(Act::Status)];
            let ready = New { because, wrote, ..decided(Ended::Settled) };
            decisions.add(&name, &uid(), 2, ready, Some(Known { basis: 1, inputs }));
        };
        (0..10_000).for_each(fill);
        assert!(decisions.bytes() <= 10_000_000, "{}", decisions.bytes());
        for parent in 10_000..60_000 {
            fill(parent);
            assert!(decisions.bytes() <= EXPLAINED_OF_ALL.bytes(), "{parent}: {}", decisions.bytes());
        }
        assert!(!decisions.of(&key("cache-59999"), "u").is_empty());
    }
}
