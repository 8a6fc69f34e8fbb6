//! Which parents of a plugin need which objects, by their names or by a label selector, and what each parent was shown of
//! them. Says which are to be watched, and which parents are due when one of them changes.
//!
//! A watch only says that an object has another version. Its content is read when a parent is reconciled, and is kept
//! nowhere: so a Secret may be watched like any other object, and a watched object takes a few hundred bytes here.
//!
//! A [selection](Wanted::Selection) is treated as one object whose version is that of its list: whatever is in a list is not
//! newer than it, and an object that begins to be selected, changes, or is selected no longer, is in an event that is. Such
//! a list is there even if it is empty.
//!
//! ```text
//! ask ──▶ begin_read ──▶ note_shown ──▶ keep       a pass over a parent
//! stands ──▶ observe … ──▶ fails                   the watch of an object
//! ```

use std::collections::{HashMap, HashSet};

use crate::model::kind::Key;
use crate::model::wanted::Wanted;

/// A version of an object, as an event of its watch shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The object was created or changed, or begins to be selected.
    Present(u64),
    /// The object was deleted, or is selected no longer.
    Gone(u64),
}

impl Seen {
    /// Returns the version.
    pub fn version(self) -> u64 {
        match self {
            Seen::Present(version) | Seen::Gone(version) => version,
        }
    }

    /// Returns the later of this and another one. The events with which a watch begins come in any order.
    #[must_use]
    pub fn or_later(self, other: Option<Self>) -> Self {
        other.filter(|other| other.version() > self.version()).unwrap_or(self)
    }

    /// Returns whether a parent was shown something else: this version of the object, or that there is none.
    fn outdates(self, shown: Option<u64>) -> bool {
        match (shown, self) {
            (None, Seen::Present(_)) => true,
            (None, Seen::Gone(_)) => false,
            (Some(shown), Seen::Present(version) | Seen::Gone(version)) => version > shown,
        }
    }
}

/// One watch of an object, or of a selection. What is needed again after a pause has another watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NeededObject {
    /// What is watched.
    pub wanted: Wanted,
    serial: u64,
}

/// The state of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    Opening,
    Stands,
    Failed,
}

/// What a parent knows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is being read for the parent.
    Reading {
        /// Whether the watch has stood since before the read began.
        watched: bool,
        /// The latest that the watch has shown since then.
        changed: Option<Seen>,
    },
    /// The parent was shown this version, of a selection the version of its list; none if there was no such object.
    Shown(Option<u64>),
    /// The object has changed since the parent was shown it.
    Outdated,
}

struct Needed {
    serial: u64,
    watch: Watch,
    parents: HashMap<Key, Known>,
}

/// Whether a change of an object is noticed after it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Each change is.
    Yes,
    /// The object has changed while it was read.
    Changed,
    /// Its watch did not stand when it was read.
    No,
}

/// The objects that the parents of one plugin need.
#[derive(Default)]
pub struct Needs {
    /// Counts the objects that began or ended to be needed.
    serial: u64,
    objects: HashMap<Wanted, Needed>,
    of_parents: HashMap<Key, HashSet<Wanted>>,
}

impl Needs {
    /// Adds objects that a parent needs from now on, of which `most` are watched for all parents together. Returns whether
    /// there is room for all of them; those without are not watched.
    pub fn ask<'a>(&mut self, parent: &Key, objects: impl IntoIterator<Item = &'a Wanted>, most: usize) -> bool {
        let mut has_room = true;
        for object in objects {
            has_room &= self.ask_one(parent, object, most);
        }
        has_room
    }

    fn ask_one(&mut self, parent: &Key, object: &Wanted, most: usize) -> bool {
        if !self.objects.contains_key(object) {
            if self.objects.len() >= most {
                return false;
            }
            self.serial += 1;
            let new = Needed { serial: self.serial, watch: Watch::Opening, parents: HashMap::new() };
            self.objects.insert(object.clone(), new);
        }
        if let Some(needed) = self.objects.get_mut(object) {
            needed.parents.entry(parent.clone()).or_insert(Known::Reading { watched: false, changed: None });
        }
        self.of_parents.entry(parent.clone()).or_default().insert(object.clone());
        true
    }

    /// Returns whether the watch of one of these objects is still being opened.
    pub fn is_opening<'a>(&self, objects: impl IntoIterator<Item = &'a Wanted>) -> bool {
        let watches = |object| self.objects.get(object).map(|needed| needed.watch);
        objects.into_iter().any(|object| watches(object) == Some(Watch::Opening))
    }

    /// Records that an object is about to be read for a parent.
    pub fn begin_read(&mut self, parent: &Key, object: &Wanted) {
        if let Some((watch, known)) = self.known(parent, object) {
            *known = Known::Reading { watched: watch == Watch::Stands, changed: None };
        }
    }

    /// Records which version of an object a parent is shown, none if there is no such object. Returns whether the next
    /// change will be noticed.
    pub fn note_shown(&mut self, parent: &Key, object: &Wanted, shown: Option<u64>) -> Followed {
        let Some((_, known)) = self.known(parent, object) else { return Followed::No };
        let Known::Reading { watched, changed } = *known else { return Followed::No };
        let is_outdated = changed.is_some_and(|changed| changed.outdates(shown));
        *known = if is_outdated { Known::Outdated } else { Known::Shown(shown) };
        match (watched, is_outdated) {
            (false, _) => Followed::No,
            (true, true) => Followed::Changed,
            (true, false) => Followed::Yes,
        }
    }

    fn known(&mut self, parent: &Key, object: &Wanted) -> Option<(Watch, &mut Known)> {
        let needed = self.objects.get_mut(object)?;
        Some((needed.watch, needed.parents.get_mut(parent)?))
    }

    /// Ends all needs of a parent except these. An object that no parent needs is no longer watched.
    pub fn keep(&mut self, parent: &Key, objects: &[Wanted]) {
        let Some(before) = self.of_parents.remove(parent) else { return };
        let (kept, ended): (HashSet<_>, HashSet<_>) = before.into_iter().partition(|object| objects.contains(object));
        for object in ended {
            let Some(needed) = self.objects.get_mut(&object) else { continue };
            needed.parents.remove(parent);
            if needed.parents.is_empty() {
                self.objects.remove(&object);
                self.serial += 1;
            }
        }
        if !kept.is_empty() {
            self.of_parents.insert(parent.clone(), kept);
        }
    }

    /// Ends the needs of all parents except these.
    pub fn retain(&mut self, is_kept: impl Fn(&Key) -> bool) {
        let ended: Vec<Key> = self.of_parents.keys().filter(|parent| !is_kept(parent)).cloned().collect();
        ended.iter().for_each(|parent| self.keep(parent, &[]));
    }

    /// Returns whether an object that a parent needs has changed since the parent was shown it.
    pub fn is_outdated(&self, parent: &Key) -> bool {
        self.of_parent(parent).any(|(_, is_outdated)| is_outdated)
    }

    /// Returns what a parent needs, and of each whether it has changed since the parent was shown it, in any order.
    pub fn of_parent<'a>(&'a self, parent: &'a Key) -> impl Iterator<Item = (&'a Wanted, bool)> {
        let known = |object: &Wanted| self.objects.get(object).and_then(|needed| needed.parents.get(parent));
        let objects = self.of_parents.get(parent).into_iter().flatten();
        objects.map(move |object| (object, known(object) == Some(&Known::Outdated)))
    }

    /// Returns a number that is another one whenever [other objects](Self::objects) are to be watched.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the objects that are to be watched.
    pub fn objects(&self) -> HashSet<NeededObject> {
        let of = |(wanted, needed): (&Wanted, &Needed)| NeededObject { wanted: wanted.clone(), serial: needed.serial };
        self.objects.iter().map(of).collect()
    }

    /// Records that the watch of an object stands.
    pub fn stands(&mut self, object: &NeededObject) {
        if let Some(needed) = self.needed(object) {
            needed.watch = Watch::Stands;
        }
    }

    /// Records that the watch of an object has ended and that changes may have been missed, or that it cannot be opened.
    /// Returns the parents that need it, which have to read it again.
    pub fn fails(&mut self, object: &NeededObject) -> Vec<Key> {
        let Some(needed) = self.needed(object) else { return Vec::new() };
        let stood = needed.watch == Watch::Stands;
        needed.watch = Watch::Failed;
        let mut due = Vec::new();
        for (parent, known) in &mut needed.parents {
            match known {
                Known::Reading { watched, .. } => *watched = false,
                Known::Shown(_) if stood => {
                    *known = Known::Outdated;
                    due.push(parent.clone());
                }
                Known::Shown(_) | Known::Outdated => {}
            }
        }
        due
    }

    /// Records what the watch of an object shows. Returns the parents that were shown something else, and are not due
    /// already.
    pub fn observe(&mut self, object: &NeededObject, seen: Seen) -> Vec<Key> {
        let Some(needed) = self.needed(object) else { return Vec::new() };
        let mut due = Vec::new();
        for (parent, known) in &mut needed.parents {
            match known {
                Known::Reading { changed, .. } => *changed = Some(seen.or_later(*changed)),
                Known::Shown(shown) if seen.outdates(*shown) => {
                    *known = Known::Outdated;
                    due.push(parent.clone());
                }
                Known::Shown(_) | Known::Outdated => {}
            }
        }
        due
    }

    fn needed(&mut self, object: &NeededObject) -> Option<&mut Needed> {
        self.objects.get_mut(&object.wanted).filter(|needed| needed.serial == object.serial)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::kind::{Kind, ObjectRef};

    const MOST: usize = 9;

    fn parent(name: &str) -> Key {
        Key::new(Some("n"), name)
    }

    /// Returns an object or, if the name begins with `?`, a selection.
    fn object(name: &str) -> Wanted {
        let kind = Kind::new("", "v1", "ConfigMap");
        Wanted::from(ObjectRef { kind, namespace: Some("n".into()), name: name.into() })
    }

    fn watch_of(needs: &Needs, name: &str) -> NeededObject {
        needs.objects().into_iter().find(|needed| needed.wanted == object(name)).expect("it is needed")
    }

    /// Reads an object for a parent, as a pass does.
    fn read(needs: &mut Needs, by: &str, name: &str, shown: Option<u64>) -> Followed {
        needs.ask(&parent(by), [&object(name)], MOST);
        needs.begin_read(&parent(by), &object(name));
        needs.note_shown(&parent(by), &object(name), shown)
    }

    /// Returns needs of one object, whose watch stands, and of which both parents were shown version 5.
    fn of_two_parents() -> (Needs, NeededObject) {
        let mut needs = Needs::default();
        needs.ask(&parent("a"), [&object("x")], MOST);
        let watch = watch_of(&needs, "x");
        needs.stands(&watch);
        assert_eq!(["a", "b"].map(|by| read(&mut needs, by, "x", Some(5))), [Followed::Yes; 2]);
        (needs, watch)
    }

    fn sorted(mut keys: Vec<Key>) -> Vec<Key> {
        keys.sort();
        keys
    }

    #[test]
    fn a_newer_version_and_a_deletion_are_due_once_for_each_parent_that_was_shown_an_older_one() {
        for seen in [Seen::Present(6), Seen::Gone(6)] {
            let (mut needs, watch) = of_two_parents();
            assert!(needs.observe(&watch, Seen::Present(5)).is_empty(), "the version that they were shown");
            assert_eq!(sorted(needs.observe(&watch, seen)), [parent("a"), parent("b")]);
            assert!(needs.is_outdated(&parent("a")));
            assert!(needs.observe(&watch, Seen::Present(7)).is_empty(), "both are due already");
            assert_eq!(read(&mut needs, "a", "x", Some(7)), Followed::Yes);
            assert!(!needs.is_outdated(&parent("a")) && needs.is_outdated(&parent("b")));
            assert_eq!(needs.observe(&watch, Seen::Present(8)), [parent("a")]);
        }
    }

    #[test]
    fn an_object_that_is_absent_is_waited_for() {
        let (mut needs, watch) = of_two_parents();
        assert_eq!(read(&mut needs, "a", "x", None), Followed::Yes);
        assert!(needs.observe(&watch, Seen::Gone(4)).is_empty(), "it was known to be gone");
        assert_eq!(needs.observe(&watch, Seen::Present(5)), [parent("a")]);
    }

    #[test]
    fn whatever_comes_after_the_list_of_a_selection_is_due_and_what_was_before_it_is_not() {
        for seen in [Seen::Present(8), Seen::Gone(8)] {
            let mut needs = Needs::default();
            needs.ask(&parent("a"), [&object("?app=shop")], MOST);
            let watch = watch_of(&needs, "?app=shop");
            needs.stands(&watch);
            assert_eq!(read(&mut needs, "a", "?app=shop", Some(7)), Followed::Yes, "an empty list has a version, too");
            for before in [Seen::Present(3), Seen::Gone(7), Seen::Present(7)] {
                assert!(needs.observe(&watch, before).is_empty(), "{before:?} is in the list");
            }
            assert_eq!(needs.observe(&watch, seen), [parent("a")]);
        }
    }

    #[test]
    fn equal_selectors_share_a_watch_and_others_do_not() {
        let mut needs = Needs::default();
        for (by, selector) in [("a", "?app=shop"), ("b", "?app=shop"), ("c", "?app=bank"), ("d", "?")] {
            needs.ask(&parent(by), [&object(selector)], MOST);
        }
        assert_eq!(needs.objects().len(), 3);
    }

    #[test]
    fn a_change_during_a_read_counts_only_if_the_read_does_not_show_it() {
        for (shown, seen, followed) in [
            (Some(6), Seen::Present(6), Followed::Yes),
            (Some(5), Seen::Present(6), Followed::Changed),
            (Some(5), Seen::Gone(6), Followed::Changed),
            (None, Seen::Gone(6), Followed::Yes),
            (None, Seen::Present(6), Followed::Changed),
        ] {
            let (mut needs, watch) = of_two_parents();
            needs.begin_read(&parent("a"), &object("x"));
            needs.observe(&watch, seen);
            assert_eq!(needs.note_shown(&parent("a"), &object("x"), shown), followed, "{shown:?} {seen:?}");
            assert_eq!(needs.is_outdated(&parent("a")), followed == Followed::Changed);
        }
    }

    #[test]
    fn a_read_before_the_watch_stands_is_not_followed() {
        let mut needs = Needs::default();
        assert_eq!(read(&mut needs, "a", "x", Some(5)), Followed::No);
        let watch = watch_of(&needs, "x");
        assert!(needs.is_opening([&object("x")]));
        needs.begin_read(&parent("a"), &object("x"));
        needs.stands(&watch);
        assert_eq!(needs.note_shown(&parent("a"), &object("x"), Some(5)), Followed::No, "it may have changed before");
        assert!(!needs.is_opening([&object("x")]));
        assert_eq!(read(&mut needs, "a", "x", Some(5)), Followed::Yes);
    }

    #[test]
    fn a_watch_that_fails_is_due_for_those_who_relied_on_it() {
        let (mut needs, watch) = of_two_parents();
        needs.begin_read(&parent("b"), &object("x"));
        assert_eq!(needs.fails(&watch), [parent("a")]);
        assert_eq!(needs.note_shown(&parent("b"), &object("x"), Some(5)), Followed::No);
        assert_eq!(read(&mut needs, "a", "x", Some(5)), Followed::No);
        assert!(needs.fails(&watch).is_empty(), "they read it again by themselves");
        needs.stands(&watch);
        assert_eq!(read(&mut needs, "a", "x", Some(5)), Followed::Yes);
    }

    #[test]
    fn an_object_is_watched_for_as_long_as_a_parent_needs_it() {
        let (mut needs, watch) = of_two_parents();
        needs.ask(&parent("a"), [&object("y")], MOST);
        needs.keep(&parent("a"), &[object("y")]);
        assert_eq!(needs.observe(&watch, Seen::Present(9)), [parent("b")]);
        needs.keep(&parent("b"), &[]);
        assert_eq!(needs.objects(), HashSet::from_iter([watch_of(&needs, "y")]));
        needs.ask(&parent("b"), [&object("x")], MOST);
        assert_ne!(watch_of(&needs, "x"), watch, "it has a new watch");
        needs.stands(&watch);
        assert!(needs.is_opening([&object("x")]), "the end of the one before says nothing about it");
        needs.retain(|kept| *kept == parent("a"));
        assert_eq!(needs.objects(), HashSet::from_iter([watch_of(&needs, "y")]));
    }

    #[test]
    fn beyond_the_bound_objects_are_not_watched_and_those_that_are_known_have_room() {
        let mut needs = Needs::default();
        let all = ["x", "y", "z"].map(object);
        assert!(!needs.ask(&parent("a"), &all, 2));
        assert_eq!(needs.objects().len(), 2);
        assert!(needs.ask(&parent("b"), [&object("x"), &object("y")], 2));
        assert_eq!(read(&mut needs, "a", "z", None), Followed::No);
        needs.keep(&parent("a"), &[]);
        needs.keep(&parent("b"), &[object("x")]);
        assert!(needs.ask(&parent("a"), [&object("z")], 2), "there is room again");
    }

    /// What happens to the object, its watch and its parent.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Change,
        Delete,
        Deliver,
        BeginRead,
        Answer,
        Fail,
        Stand,
    }

    proptest! {
        #[test]
        fn no_change_is_missed_however_events_and_reads_interleave(
            steps in prop::collection::vec(prop::sample::select(vec![
                Step::Change, Step::Delete, Step::Deliver, Step::Deliver, Step::BeginRead, Step::Answer, Step::Fail,
                Step::Stand, Step::Stand,
            ]), 0..80)
        ) {
            let (by, of) = (parent("a"), object("x"));
            let mut needs = Needs::default();
            needs.ask(&by, [&of], MOST);
            let watch = watch_of(&needs, "x");
            // The object, the events that are on their way, and what the parent relies on.
            let (mut version, mut live, mut events, mut stands) = (1, None, Vec::new(), false);
            let (mut answer, mut shown, mut relies, mut due) = (None, None, false, false);
            for step in steps {
                match step {
                    Step::Change | Step::Delete => {
                        version += 1;
                        let is_change = matches!(step, Step::Change);
                        if stands && (is_change || live.is_some()) {
                            events.push(if is_change { Seen::Present(version) } else { Seen::Gone(version) });
                        }
                        live = is_change.then_some(version);
                    }
                    Step::Deliver if !events.is_empty() => due |= !needs.observe(&watch, events.remove(0)).is_empty(),
                    Step::BeginRead => {
                        needs.begin_read(&by, &of);
                        answer = Some(live);
                    }
                    Step::Answer => {
                        if let Some(read) = answer.take() {
                            shown = read;
                            let followed = needs.note_shown(&by, &of, read);
                            (relies, due) = (followed != Followed::No, followed == Followed::Changed);
                        }
                    }
                    Step::Fail => {
                        events.clear();
                        stands = false;
                        due |= !needs.fails(&watch).is_empty();
                    }
                    Step::Stand if !stands => {
                        // A watch begins with the object as it is.
                        stands = true;
                        events.extend(live.map(Seen::Present));
                        needs.stands(&watch);
                    }
                    Step::Deliver | Step::Stand => {}
                }
                let is_seen = due || needs.is_outdated(&by) || !events.is_empty() || answer.is_some();
                prop_assert!(!relies || is_seen || shown == live, "{:?} is shown, {:?} is live", shown, live);
            }
        }

        #[test]
        fn no_change_of_a_selection_is_missed_and_its_own_list_is_no_change(
            steps in prop::collection::vec((prop::sample::select(vec![
                Step::Change, Step::Change, Step::Delete, Step::Deliver, Step::Deliver, Step::BeginRead, Step::Answer,
                Step::Fail, Step::Stand, Step::Stand,
            ]), 0..3_usize), 0..80)
        ) {
            let (by, of) = (parent("a"), object("?app=shop"));
            let mut needs = Needs::default();
            needs.ask(&by, [&of], MOST);
            let watch = watch_of(&needs, "?app=shop");
            // The versions of the objects that are selected, and of the last change of any.
            let (mut version, mut live, mut events, mut stands) = (1, [None; 3], Vec::new(), false);
            let (mut answer, mut shown, mut listed, mut relies, mut due) = (None, [None; 3], 0, false, false);
            for (step, index) in steps {
                match step {
                    Step::Change | Step::Delete => {
                        version += 1;
                        let is_change = matches!(step, Step::Change);
                        if stands && (is_change || live[index].is_some()) {
                            events.push(if is_change { Seen::Present(version) } else { Seen::Gone(version) });
                        }
                        live[index] = is_change.then_some(version);
                    }
                    Step::Deliver if !events.is_empty() => {
                        let event = events.remove(0);
                        let is_due = !needs.observe(&watch, event).is_empty();
                        prop_assert!(!is_due || event.version() > listed, "{:?} was in the list of {}", event, listed);
                        due |= is_due;
                    }
                    Step::BeginRead => {
                        needs.begin_read(&by, &of);
                        answer = Some((version, live));
                    }
                    Step::Answer => {
                        if let Some((of_list, read)) = answer.take() {
                            (listed, shown) = (of_list, read);
                            let followed = needs.note_shown(&by, &of, Some(of_list));
                            (relies, due) = (followed != Followed::No, followed == Followed::Changed);
                        }
                    }
                    Step::Fail => {
                        events.clear();
                        stands = false;
                        due |= !needs.fails(&watch).is_empty();
                    }
                    Step::Stand if !stands => {
                        // A watch begins with the objects as they are, in any order.
                        stands = true;
                        events.extend(live.iter().rev().flatten().copied().map(Seen::Present));
                        needs.stands(&watch);
                    }
                    Step::Deliver | Step::Stand => {}
                }
                let is_seen = due || needs.is_outdated(&by) || !events.is_empty() || answer.is_some();
                prop_assert!(!relies || is_seen || shown == live, "{:?} is shown, {:?} is live", shown, live);
            }
        }
    }
}
