//! Names what has changed of what a decision is shown since the decision before it, by objects and paths, for people who
//! ask why. Pure.
//!
//! Of what was shown before only hashes are remembered, and only so many that a parent takes a few hundred bytes. So a
//! field that is no longer there is counted and not named, and of an object that is large or has many fields it is only
//! known that it has changed. No value is returned, and of a Secret not even a key.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use serde_json::Value;

use crate::diff::changed_fields::{compared, named, short};
use crate::model::decision::{Document, Observation, Refusal};
use crate::model::kind::ObjectRef;
use crate::model::sanitize;

/// How many objects beside the parent are remembered one by one; of the others, only that any of them has changed.
const MAX_OBJECTS: usize = 6;
/// The maximum number of leaves of all these objects together whose hashes are remembered, 4 bytes each.
const MAX_LEAVES: usize = 64;
/// The maximum length of an object whose fields are compared, in bytes: a larger one takes too long to parse between two
/// reconciles.
const MAX_PARSED_BYTES: usize = 8 * 1024;
/// How many fields of one object are named.
const MAX_FIELDS: usize = 4;
/// The maximum length of a named path, in bytes.
const MAX_PATH_BYTES: usize = 80;
/// Metadata that never changes, or with each change of the specification.
const LEFT_OUT: [&str; 4] = ["name", "namespace", "uid", "generation"];

/// An input of a decision that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedInput {
    /// The parent, in these fields.
    Parent(Vec<String>),
    /// Another object.
    Object {
        /// Which object.
        object: ObjectRef,
        /// What has become of it.
        how: How,
        /// In which fields it has changed; empty if that is not known.
        fields: Vec<String>,
    },
    /// Objects that are not remembered one by one.
    Others,
    /// Which writes are refused, and why.
    Refusals,
}

/// What has become of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It has changed.
    Changed,
    /// It was not there before.
    Appeared,
    /// It is no longer there.
    Gone,
}

/// How much of a path is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// The whole path.
    Whole,
    /// The first member alone, but of the parent's specification the whole path. For a plugin that may be shown Secrets: it
    /// chooses the keys in all that it writes, and may put the bytes of a Secret into them.
    First,
}

impl Paths {
    /// Returns the paths of an object as they may be named: each once, short and printable, and not too many.
    pub fn of(self, fields: Vec<String>) -> Vec<String> {
        self.named(fields, |_| false)
    }

    fn named(self, fields: Vec<String>, is_whole: impl Fn(&str) -> bool) -> Vec<String> {
        let mut shown: Vec<String> = Vec::new();
        for field in fields {
            let field = if self == Self::Whole || is_whole(&field) { field } else { first_member(&field).to_owned() };
            let field = sanitize::clean(field, MAX_PATH_BYTES);
            if !shown.contains(&field) {
                shown.push(field);
            }
        }
        named(shown, MAX_FIELDS)
    }
}

fn first_member(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or_default()
}

/// What a decision is based on.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// What the plugin is shown.
    pub shown: &'a Observation,
    /// A fingerprint of the parent's finalizers.
    pub finalizers: u64,
    /// A fingerprint of the parent's status, which the plugin need not be shown.
    pub status: u64,
    /// A fingerprint of whether a child is as it was applied, which the plugin is not shown. It is asked for of the objects
    /// alone that are remembered one by one.
    pub applied: &'a dyn Fn(&ObjectRef) -> u64,
}

/// Hashes of what a decision was based on.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    parent: Fingerprint,
    finalizers: u64,
    status: u64,
    objects: Box<[(ObjectRef, Fingerprint)]>,
    /// Of the objects that are not remembered one by one; 0 without such objects.
    others: u64,
    refusals: u64,
}

#[derive(Clone, Debug, Default)]
struct Fingerprint {
    text: u32,
    applied: u32,
    /// Of its leaves, if they are few.
    leaves: Option<Arc<[u32]>>,
}

impl Inputs {
    /// Returns the hashes of what is seen now, and what has changed since these. `hasher` must be the same each time.
    pub fn next(&self, seen: Seen<'_>, paths: Paths, hasher: &RandomState) -> (Self, Vec<ChangedInput>) {
        let Seen { shown, finalizers, status, applied } = seen;
        let (mut changes, mut room) = (Vec::new(), MAX_LEAVES);
        let (parent, fields) = Fingerprint::next(Some(&self.parent), &shown.parent, 0, &mut room, hasher);
        changes.extend(self.parent_change(fields, (finalizers, status), paths));
        let related = shown.related.iter().flat_map(|related| &related.objects);
        let documents: Vec<&Document> = shown.children.iter().chain(related).collect();
        let (listed, rest) = documents.split_at(documents.len().min(MAX_OBJECTS));
        let mut objects = Vec::with_capacity(listed.len());
        for document in listed {
            let object = document.reference.clone();
            let known = self.objects.iter().find(|(known, _)| *known == object).map(|(_, fingerprint)| fingerprint);
            let (fingerprint, fields) = Fingerprint::next(known, document, applied(&object), &mut room, hasher);
            objects.push((object.clone(), fingerprint));
            changes.extend(match (known, fields) {
                (Some(_), Some(fields)) => {
                    Some(ChangedInput::Object { object, how: How::Changed, fields: paths.of(fields) })
                }
                // It may have been one of the others.
                (None, _) if self.others == 0 => {
                    Some(ChangedInput::Object { object, how: How::Appeared, fields: Vec::new() })
                }
                _ => None,
            });
        }
        let is_gone = |object: &&ObjectRef| !documents.iter().any(|document| document.reference == **object);
        let gone = self.objects.iter().map(|(object, _)| object).filter(is_gone).cloned();
        changes.extend(gone.map(|object| ChangedInput::Object { object, how: How::Gone, fields: Vec::new() }));
        let others = if rest.is_empty() { 0 } else { hash_of(rest, hasher) };
        changes.extend((others != self.others).then_some(ChangedInput::Others));
        let refusals = if shown.refusals.is_empty() { 0 } else { hash_of_refusals(&shown.refusals, hasher) };
        changes.extend((refusals != self.refusals).then_some(ChangedInput::Refusals));
        (Self { parent, finalizers, status, objects: objects.into(), others, refusals }, changes)
    }

    /// Returns how the parent has changed: in the fields that the plugin is shown, and beside them.
    fn parent_change(
        &self,
        fields: Option<Vec<String>>,
        (finalizers, status): (u64, u64),
        paths: Paths,
    ) -> Option<ChangedInput> {
        let has_changed = fields.is_some() || self.finalizers != finalizers || self.status != status;
        let mut named = paths.named(fields.unwrap_or_default(), |path| first_member(path) == "spec");
        if self.finalizers != finalizers {
            named.push("metadata.finalizers".to_owned());
        }
        if self.status != status && !named.iter().any(|path| first_member(path) == "status") {
            named.push("status".to_owned());
        }
        has_changed.then_some(ChangedInput::Parent(named))
    }

    /// Returns the memory of the hashes in bytes, without this value itself.
    pub fn bytes(&self) -> usize {
        let of_fingerprint = |one: &Fingerprint| one.leaves.as_ref().map_or(0, |leaves| 16 + size_of_val(&**leaves));
        let objects = self.objects.iter().map(|(_, fingerprint)| of_fingerprint(fingerprint)).sum::<usize>();
        of_fingerprint(&self.parent) + size_of_val(&*self.objects) + objects
    }
}

impl Fingerprint {
    /// Returns the fingerprint of a document, and the fields in which it differs from before, if it does. Its leaves take
    /// of the `room`.
    fn next(
        before: Option<&Self>,
        document: &Document,
        applied: u64,
        room: &mut usize,
        hasher: &RandomState,
    ) -> (Self, Option<Vec<String>>) {
        let (text, applied) = (short(hasher.hash_one(&document.json)), short(applied));
        if let Some(before) = before.filter(|before| before.text == text) {
            let has_changed = (before.applied != applied).then(Vec::new);
            return (Self { text, applied, leaves: within(before.leaves.clone(), room) }, has_changed);
        }
        let is_read = !document.reference.kind.is("", "Secret") && document.json.len() <= MAX_PARSED_BYTES;
        let body: Option<Value> = if is_read { serde_json::from_str(&document.json).ok() } else { None };
        let body = body.map(without_identity);
        let known = before.and_then(|before| before.leaves.as_deref());
        let (leaves, fields) = body.map(|body| compared(known, &body, hasher)).unzip();
        // What is left out may be all that has changed.
        let are_same = leaves.as_deref().is_some_and(|leaves| known == Some(leaves));
        let fields = fields.flatten().filter(|_| !are_same).unwrap_or_default();
        (Self { text, applied, leaves: within(leaves, room) }, Some(fields))
    }
}

fn without_identity(mut body: Value) -> Value {
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        LEFT_OUT.iter().for_each(|key| drop(metadata.remove(*key)));
    }
    body
}

/// Returns the leaves if there is room for them, and takes that room.
fn within(leaves: Option<Arc<[u32]>>, room: &mut usize) -> Option<Arc<[u32]>> {
    let leaves = leaves?;
    *room = room.checked_sub(leaves.len())?;
    Some(leaves)
}

fn hash_of(documents: &[&Document], hasher: &RandomState) -> u64 {
    let texts: Vec<_> = documents.iter().map(|document| (&document.reference, &document.json)).collect();
    hasher.hash_one(texts)
}

fn hash_of_refusals(refusals: &[Refusal], hasher: &RandomState) -> u64 {
    let parts: Vec<_> = refusals.iter().map(|refusal| (&refusal.reference, refusal.code, &refusal.reason)).collect();
    hasher.hash_one(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::decision::Related;
    use crate::model::kind::Kind;

    fn document(kind: &str, name: &str, body: &Value) -> Document {
        let reference = ObjectRef { kind: Kind::new("", "v1", kind), namespace: Some("n".into()), name: name.into() };
        Document { reference, json: body.to_string().into() }
    }

    fn shown(parent: &Value, children: Vec<Document>) -> Observation {
        Observation {
            parent: document("Demo", "a", parent),
            children,
            related: Vec::new(),
            refusals: Vec::new(),
            config: "{}".into(),
            now: None,
            attempt: None,
        }
    }

    /// The changes from one observation to another.
    fn changes(before: &Observation, after: &Observation, paths: Paths) -> Vec<ChangedInput> {
        let hasher = RandomState::new();
        let (known, _) = Inputs::default().next(seen(before), paths, &hasher);
        known.next(seen(after), paths, &hasher).1
    }

    fn seen(shown: &Observation) -> Seen<'_> {
        Seen { shown, finalizers: 0, status: 0, applied: &|_| 0 }
    }

    fn object(document: &Document, how: How, fields: &[&str]) -> ChangedInput {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        ChangedInput::Object { object: document.reference.clone(), how, fields }
    }

    #[test]
    fn fields_of_the_parent_and_of_its_children_are_named_and_what_stays_is_not() {
        let parent = |size: u32| json!({ "metadata": { "generation": size }, "spec": { "size": size, "port": 1 } });
        let child = |ready: u32| document("Pod", "a", &json!({ "status": { "ready": ready } }));
        let before = shown(&parent(1), vec![child(0)]);
        assert_eq!(changes(&before, &before, Paths::Whole), []);
        let both = changes(&before, &shown(&parent(2), vec![child(1)]), Paths::Whole);
        let of_parent = ChangedInput::Parent(vec!["spec.size".to_owned()]);
        assert_eq!(both, [of_parent, object(&child(1), How::Changed, &["status.ready"])]);
        let fewer = shown(&json!({ "metadata": { "generation": 1 }, "spec": { "size": 1 } }), vec![child(0)]);
        let fewer = changes(&before, &fewer, Paths::Whole);
        assert_eq!(fewer, [ChangedInput::Parent(vec!["fewer fields".to_owned()])]);
    }

    #[test]
    fn a_child_that_comes_or_goes_is_named_and_so_is_a_related_object() {
        let parent = json!({ "spec": {} });
        let (a, b) = (document("Pod", "a", &json!({ "x": 1 })), document("Pod", "b", &json!({ "x": 1 })));
        let (one, other) = (shown(&parent, vec![a.clone()]), shown(&parent, vec![b.clone()]));
        let swapped = changes(&one, &other, Paths::Whole);
        assert_eq!(swapped, [object(&b, How::Appeared, &[]), object(&a, How::Gone, &[])]);
        let related = vec![Related { key: "r".to_owned(), objects: vec![b.clone()] }];
        let with_related = Observation { related, ..one.clone() };
        assert_eq!(changes(&one, &with_related, Paths::Whole), [object(&b, How::Appeared, &[])]);
    }

    #[test]
    fn no_key_of_a_secret_is_named_nor_a_key_that_a_plugin_which_sees_secrets_may_have_made_of_one() {
        let secret = |value: &str| document("Secret", "a", &json!({ "data": { "hunter2": value } }));
        let parent = json!({ "spec": {} });
        let of_secret = changes(&shown(&parent, vec![secret("a")]), &shown(&parent, vec![secret("b")]), Paths::Whole);
        assert_eq!(of_secret, [object(&secret("b"), How::Changed, &[])]);
        let made = |value: u32| document("ConfigMap", "a", &json!({ "data": { "hunter2": value, "x": value } }));
        let with = |size: u32| json!({ "spec": { "size": size }, "status": { "hunter2": size } });
        let all = changes(&shown(&with(1), vec![made(1)]), &shown(&with(2), vec![made(2)]), Paths::First);
        let of_parent = ChangedInput::Parent(vec!["spec.size".to_owned(), "status".to_owned()]);
        assert_eq!(all, [of_parent, object(&made(2), How::Changed, &["data"])]);
    }

    #[test]
    fn a_key_that_a_user_chose_forges_no_line_and_a_long_one_is_cut() {
        let parent = |value: u32| {
            let long = "x".repeat(10_000);
            json!({ "spec": { "a\u{1b}[2J\nforged": value, "b": value }, long: value })
        };
        let [ChangedInput::Parent(fields)] =
            &*changes(&shown(&parent(1), Vec::new()), &shown(&parent(2), Vec::new()), Paths::Whole)
        else {
            panic!("the parent has changed")
        };
        assert!(fields.is_empty(), "it is too large to be compared by fields: {fields:?}");
        let parent = |value: u32| json!({ "spec": { "a\u{1b}[2J\nforged": value, "x".repeat(1_000): value } });
        let [ChangedInput::Parent(fields)] =
            &*changes(&shown(&parent(1), Vec::new()), &shown(&parent(2), Vec::new()), Paths::Whole)
        else {
            panic!("the parent has changed")
        };
        assert_eq!(fields.len(), 2, "{fields:?}");
        assert!(fields.iter().all(|field| field.len() <= MAX_PATH_BYTES), "{fields:?}");
        assert!(!fields.concat().contains(|letter: char| letter.is_control()), "{fields:?}");
    }

    #[test]
    fn a_parent_takes_little_memory_however_much_it_shows() {
        let many = |value: usize| -> Value { (0..1_000).map(|key| (format!("f{key}"), json!(value))).collect() };
        let children = |count: usize, value: usize| -> Vec<Document> {
            (0..count).map(|name| document("Pod", &format!("p{name:04}"), &json!({ "x": value }))).collect()
        };
        let hasher = RandomState::new();
        let before = shown(&json!({ "spec": many(1) }), children(500, 1));
        let (known, _) = Inputs::default().next(seen(&before), Paths::Whole, &hasher);
        assert!(known.bytes() < 1_500, "{}", known.bytes());
        // A change of any of them is noticed all the same.
        let mut after = before.clone();
        after.children[499] = document("Pod", "p0499", &json!({ "x": 2 }));
        assert_eq!(known.next(seen(&after), Paths::Whole, &hasher).1, [ChangedInput::Others]);
        let fewer = Observation { children: children(499, 1), ..before };
        assert_eq!(known.next(seen(&fewer), Paths::Whole, &hasher).1, [ChangedInput::Others]);
        let many = shown(&json!({ "spec": { "f": many(1) } }), Vec::new());
        let none = shown(&json!({ "spec": {} }), Vec::new());
        let [ChangedInput::Parent(fields)] = &*changes(&none, &many, Paths::Whole) else { panic!("it has changed") };
        assert!(fields.len() <= MAX_FIELDS + 1, "{fields:?}");
    }

    #[test]
    fn a_change_that_the_plugin_is_not_shown_is_named_too() {
        let (hasher, child) = (RandomState::new(), document("Pod", "a", &json!({})));
        let shown = shown(&json!({ "spec": {} }), vec![child.clone()]);
        let (known, _) = Inputs::default().next(seen(&shown), Paths::Whole, &hasher);
        let edited = Seen { applied: &|_| 1, ..seen(&shown) };
        assert_eq!(known.next(edited, Paths::Whole, &hasher).1, [object(&child, How::Changed, &[])]);
        let held = Seen { finalizers: 1, status: 1, ..seen(&shown) };
        let fields = ["metadata.finalizers", "status"].map(str::to_owned).to_vec();
        assert_eq!(known.next(held, Paths::Whole, &hasher).1, [ChangedInput::Parent(fields)]);
    }

    #[test]
    fn a_refusal_that_begins_or_ends_is_named() {
        let none = shown(&json!({}), Vec::new());
        let refusal = Refusal {
            reference: document("Pod", "a", &json!({})).reference,
            code: 403,
            reason: "Forbidden".to_owned(),
            message: "no".to_owned(),
        };
        let refused = Observation { refusals: vec![refusal], ..none.clone() };
        assert_eq!(changes(&none, &refused, Paths::Whole), [ChangedInput::Refusals]);
        assert_eq!(changes(&refused, &none, Paths::Whole), [ChangedInput::Refusals]);
        assert_eq!(changes(&refused, &refused, Paths::Whole), []);
    }
}
