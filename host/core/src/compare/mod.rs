//! Compares the answers of two revisions for the same parent. Pure.
//!
//! Children are compared after the checks, as they would be written. If the old revision keeps all children or has
//! failed, the existing children are compared by name only.

pub mod finalizers;
pub mod json_diff;
pub mod round_trip;
pub mod stored;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::check::{AdmittedDecision, Desired};
use crate::compare::json_diff::{Field, Rules, TAINTED, TAINTED_KEY, cut};
use crate::model::decision::{Decision, Event};
use crate::model::kind::ObjectRef;
use crate::model::object::APPLIED_ANNOTATION;

/// The maximum number of fields of one object that are listed.
const MAX_FIELDS_PER_OBJECT: usize = 100;
/// The maximum number of fields that are listed for all children of one parent.
const MAX_FIELDS_PER_PARENT: usize = 1_000;
/// The maximum length of a failure's or an Event's message, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// The result of a revision for one parent.
#[derive(Clone, Debug)]
pub enum Side {
    /// The revision is not called: the parent is being deleted and does not have the revision's finalizer.
    Idle,
    /// The revision decided, and the decision is admitted.
    Decided(Box<AdmittedDecision>, Basis),
    /// The revision failed, or its decision is denied.
    Failed(Failed),
}

/// The objects on which a decision is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Only watched objects.
    Watched,
    /// Watched objects, and objects that were fetched for the decision.
    Fetched,
}

/// Why a revision failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The reason, one PascalCase word.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl Failed {
    /// Builds a failure from a reason, one PascalCase word, and a message, which is cut to a length that can be shown.
    pub fn new(reason: &str, message: &str) -> Self {
        Self { reason: reason.to_owned(), message: cut(message, MAX_MESSAGE_CHARS) }
    }
}

/// The name of an object, for display.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Named {
    /// For example `Deployment.apps`.
    pub kind: String,
    /// Absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl From<&ObjectRef> for Named {
    fn from(reference: &ObjectRef) -> Self {
        Self {
            kind: reference.kind.to_string(),
            namespace: reference.namespace.as_deref().map(str::to_owned),
            name: reference.name.to_string(),
        }
    }
}

impl Named {
    /// Hides what the plugin chose: the name, and the namespace unless it is that of the parent.
    fn hide(&mut self, of_parent: Option<&str>) {
        TAINTED.clone_into(&mut self.name);
        if let Some(namespace) = self.namespace.as_mut().filter(|namespace| Some(namespace.as_str()) != of_parent) {
            TAINTED_KEY.clone_into(namespace);
        }
    }
}

/// A child that would be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The child.
    pub object: Named,
    /// The fields that differ.
    pub fields: Vec<Field>,
    /// The number of further fields that differ.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

/// The differences between two revisions for one parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The parent.
    pub parent: Named,
    /// Children that would be created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<Named>,
    /// Children that would be deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<Named>,
    /// Children that would no longer be desired, and stay because their deletion is not granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Named>,
    /// Children that would be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Changed>,
    /// Labels and annotations of the parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<Field>,
    /// Fields of the status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<Field>,
    /// Fields of the conditions, for example `Available.message`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Field>,
    /// Events that only the old revision (old) or only the new one (new) emits; the path is the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Field>,
    /// The requeue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue: Option<Field>,
    /// The kind of answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Field>,
    /// Why the old revision failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_failure: Option<Failed>,
    /// Why the new one would fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_failure: Option<Failed>,
}

impl Difference {
    fn none(parent: &ObjectRef) -> Self {
        Self {
            parent: parent.into(),
            created: Vec::new(),
            deleted: Vec::new(),
            left: Vec::new(),
            changed: Vec::new(),
            metadata: Vec::new(),
            status: Vec::new(),
            conditions: Vec::new(),
            events: Vec::new(),
            requeue: None,
            answer: None,
            old_failure: None,
            new_failure: None,
        }
    }

    /// Hides everything that the new revision's component chose. In the fields of objects that is done already.
    fn hide(&mut self) {
        let hide = |text: &mut Option<String>| text.iter_mut().for_each(|text| TAINTED.clone_into(text));
        self.created.iter_mut().for_each(|child| child.hide(self.parent.namespace.as_deref()));
        for field in self.events.iter_mut().chain(&mut self.requeue) {
            hide(&mut field.old);
            hide(&mut field.new);
        }
        for event in self.events.iter_mut().filter(|event| event.old.is_none()) {
            TAINTED.clone_into(&mut event.path);
        }
        for failed in [&mut self.old_failure, &mut self.new_failure].into_iter().flatten() {
            TAINTED.clone_into(&mut failed.message);
        }
    }

    /// Returns whether the status or a condition would change.
    pub fn changes_status(&self) -> bool {
        !self.status.is_empty() || !self.conditions.is_empty()
    }

    /// Returns whether the new revision fails where the old one does not.
    pub fn breaks(&self) -> bool {
        self.new_failure.is_some() && self.old_failure.is_none()
    }
}

/// Returns what would change for a parent; `None` if nothing would. `existing` are the plugin's existing children of
/// the parent; `may_prune` returns whether one of them may be deleted. If either revision was shown Secrets, the result
/// is `tainted`: the component may have put bytes of a Secret anywhere, in any encoding. Then nothing is reported that
/// the component chose and that is not known from the old revision's answer: no value, message, key, name or namespace.
pub fn compare(
    parent: &ObjectRef,
    (old, new): (&Side, &Side),
    tainted: bool,
    existing: &[ObjectRef],
    may_prune: impl Fn(&ObjectRef) -> bool,
) -> Option<Difference> {
    let none = Difference::none(parent);
    let mut found = none.clone();
    match (old, new) {
        (Side::Failed(old), Side::Failed(new)) if old == new => return None,
        (_, Side::Failed(failed)) => found.new_failure = Some(failed.clone()),
        (_, Side::Idle) => {}
        (_, Side::Decided(decided, _)) => compare_children(&mut found, (old, decided), tainted, existing, may_prune),
    }
    match old {
        Side::Failed(failed) => found.old_failure = Some(failed.clone()),
        Side::Idle => {}
        Side::Decided(old, _) => {
            if let Side::Decided(new, _) = new {
                compare_statements(&mut found, old, new, tainted);
                if parent.kind.is_builtin() {
                    // They are not written.
                    found.conditions.clear();
                }
            }
        }
    }
    if !matches!(new, Side::Failed(_)) && !matches!(old, Side::Failed(_)) {
        found.answer = changed("answer", old.answer(), new.answer());
    }
    if tainted {
        found.hide();
    }
    (found != none).then_some(found)
}

impl Side {
    /// Describes the kind of answer.
    fn answer(&self) -> Option<String> {
        let Side::Decided(admitted, basis) = self else { return None };
        let children = if admitted.desired.is_some() { "exactly" } else { "keep" };
        let fetched = if *basis == Basis::Fetched { ", after needs" } else { "" };
        Some(format!("{}: {children}{fetched}", admitted.stage.as_str()))
    }

    fn desired(&self) -> Option<&[Desired]> {
        match self {
            Side::Decided(admitted, _) => admitted.desired.as_deref(),
            Side::Idle | Side::Failed(_) => None,
        }
    }
}

type Identity<'a> = (&'a str, &'a str, Option<&'a str>, &'a str);

/// Returns the identity of an object without the API version of its kind.
fn identity(reference: &ObjectRef) -> Identity<'_> {
    (&reference.kind.group, &reference.kind.kind, reference.namespace.as_deref(), &reference.name)
}

fn compare_children(
    found: &mut Difference,
    (old, new): (&Side, &AdmittedDecision),
    tainted: bool,
    existing: &[ObjectRef],
    may_prune: impl Fn(&ObjectRef) -> bool,
) {
    let Some(wanted) = &new.desired else { return };
    let before: BTreeMap<Identity<'_>, (&ObjectRef, Option<&Desired>)> = match old.desired() {
        Some(desired) => desired.iter().map(|one| (identity(&one.reference), (&one.reference, Some(one)))).collect(),
        None => existing.iter().map(|one| (identity(one), (one, None))).collect(),
    };
    let mut remaining = MAX_FIELDS_PER_PARENT;
    for one in wanted {
        match before.get(&identity(&one.reference)) {
            None => found.created.push((&one.reference).into()),
            Some((_, Some(old))) => found.changed.extend(compare_child(old, one, tainted, &mut remaining)),
            Some((_, None)) => {}
        }
    }
    let wanted: BTreeSet<_> = wanted.iter().map(|one| identity(&one.reference)).collect();
    for (identity, (reference, _)) in before {
        if !wanted.contains(&identity) {
            let fate = if may_prune(reference) { &mut found.deleted } else { &mut found.left };
            fate.push(reference.into());
        }
    }
}

fn compare_child(old: &Desired, new: &Desired, tainted: bool, remaining: &mut usize) -> Option<Changed> {
    if old.digest == new.digest {
        return None;
    }
    let kind = &new.reference.kind;
    let is_secret = kind.is("", "Secret");
    let secret: &[&str] = if is_secret { &["data", "stringData"] } else { &[] };
    let rules = Rules { secret, ignored: APPLIED_ANNOTATION, tainted };
    let fields = json_diff::compare(Some(&old.body), Some(&new.body), MAX_FIELDS_PER_OBJECT.min(*remaining), rules);
    *remaining = remaining.saturating_sub(fields.listed.len());
    Some(Changed { object: (&new.reference).into(), fields: fields.listed, more: fields.more })
}

/// Compares everything of two decisions except the children: status, conditions, Events and requeue.
fn compare_statements(found: &mut Difference, old: &AdmittedDecision, new: &AdmittedDecision, tainted: bool) {
    let rules = Rules { tainted, ..Rules::default() };
    let stated = |admitted: &AdmittedDecision| admitted.metadata.as_ref().map(|stated| Value::Object(stated.members()));
    if let (Some(was), Some(is)) = (stated(old), stated(new)) {
        found.metadata = json_diff::compare(Some(&was), Some(&is), MAX_FIELDS_PER_OBJECT, rules).listed;
    }
    let (old, new) = (&old.decision, &new.decision);
    let status = |decision: &Decision| decision.status.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let (was, is): (Option<Value>, Option<Value>) = (status(old), status(new));
    found.status = json_diff::compare(was.as_ref(), is.as_ref(), MAX_FIELDS_PER_OBJECT, rules).listed;
    for field in &mut found.status {
        // A status that exists on only one side has an empty path.
        if field.path.is_empty() {
            field.path = "status".to_owned();
        }
    }
    let (was, is) = (conditions(old), conditions(new));
    found.conditions = json_diff::compare(Some(&was), Some(&is), MAX_FIELDS_PER_OBJECT, rules).listed;
    found.events = compare_events(&old.events, &new.events);
    let after = |decision: &Decision| decision.requeue_after.map(|after| format!("{after:?}"));
    found.requeue = changed("requeue", after(old), after(new));
}

/// Returns a field if its values differ.
fn changed(path: &str, old: Option<String>, new: Option<String>) -> Option<Field> {
    (old != new).then(|| Field { path: path.to_owned(), old, new })
}

/// Returns the conditions by type, because their order has no meaning.
fn conditions(decision: &Decision) -> Value {
    let stated = decision.conditions.iter().map(|condition| {
        let members = json!({
            "status": condition.status.as_str(),
            "reason": condition.reason,
            "message": condition.message,
        });
        (condition.name.clone(), members)
    });
    Value::Object(stated.collect::<Map<_, _>>())
}

fn compare_events(old: &[Event], new: &[Event]) -> Vec<Field> {
    let text = |event: &Event| Some(format!("{} {}", event.severity.as_str(), cut(&event.message, MAX_MESSAGE_CHARS)));
    let removed = old.iter().filter(|event| !new.contains(event));
    let removed = removed.map(|event| Field { path: event.reason.clone(), old: text(event), new: None });
    let added = new.iter().filter(|event| !old.contains(event));
    let added = added.map(|event| Field { path: event.reason.clone(), old: None, new: text(event) });
    removed.chain(added).collect()
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::check::Stage;
    use crate::model::decision::{Condition, Severity, Truth};
    use crate::model::kind::Kind;

    fn reference(kind: &str, name: &str) -> ObjectRef {
        let group = match kind {
            "Deployment" => "apps",
            "Memcached" => "cache.example.com",
            _ => "",
        };
        ObjectRef { kind: Kind::new(group, "v1", kind), namespace: Some("n".into()), name: name.into() }
    }

    fn child(kind: &str, name: &str, body: Value) -> Desired {
        let digest = body.to_string().into();
        Desired {
            reference: reference(kind, name),
            body: Arc::new(body),
            digest,
            is_created_once: false,
            left: Arc::default(),
            strategy: Default::default(),
        }
    }

    fn decided(decision: Decision, desired: Option<Vec<Desired>>) -> Side {
        Side::Decided(
            Box::new(AdmittedDecision { stage: Stage::Decided, decision, desired, metadata: None }),
            Basis::Watched,
        )
    }

    fn children(desired: Vec<Desired>) -> Side {
        decided(Decision::default(), Some(desired))
    }

    fn deciding(change: impl FnOnce(&mut Decision)) -> Side {
        let mut decision = Decision::default();
        change(&mut decision);
        decided(decision, None)
    }

    fn failed(message: &str) -> Side {
        Side::Failed(Failed { reason: "Trapped".into(), message: message.into() })
    }

    fn found(old: &Side, new: &Side, there: &[ObjectRef]) -> Option<Difference> {
        let may_prune = |child: &ObjectRef| &*child.kind.kind != "PersistentVolumeClaim";
        compare(&reference("Memcached", "m"), (old, new), false, there, may_prune)
    }

    fn names(objects: &[Named]) -> Vec<&str> {
        objects.iter().map(|object| &*object.name).collect()
    }

    fn field(path: &str, old: Option<&str>, new: Option<&str>) -> Field {
        Field { path: path.into(), old: old.map(Into::into), new: new.map(Into::into) }
    }

    #[test]
    fn a_difference_of_conditions_or_of_the_status_alone_changes_the_status() {
        let changes = |change: &dyn Fn(&mut Decision)| {
            let difference = found(&deciding(|_| {}), &deciding(|decision| change(decision)), &[]).unwrap();
            difference.changes_status()
        };
        let condition =
            Condition { name: "Ready".into(), status: Truth::True, reason: "Up".into(), message: String::new() };
        assert!(changes(&|decision| decision.conditions = vec![condition.clone()]));
        assert!(changes(&|decision| decision.status = Some(r#"{"replicas":1}"#.into())));
        assert!(!changes(&|decision| decision.requeue_after = Some(Duration::from_secs(9))));
    }

    #[test]
    fn a_number_of_further_fields_is_only_in_the_json_if_there_are_any() {
        let changed = |more| Changed { object: Named::from(&reference("Service", "a")), fields: Vec::new(), more };
        assert!(serde_json::to_value(changed(0)).unwrap().get("more").is_none());
        assert_eq!(serde_json::to_value(changed(2)).unwrap()["more"], 2);
    }

    #[test]
    fn equal_answers_are_no_difference() {
        let side = children(vec![child("Service", "a", json!({"spec": 1}))]);
        assert_eq!(found(&side, &side, &[]), None);
        assert_eq!(found(&Side::Idle, &Side::Idle, &[]), None);
        assert_eq!(found(&failed("x"), &failed("x"), &[]), None);
    }

    #[test]
    fn children_are_created_deleted_and_changed_by_name() {
        let old = children(vec![child("Service", "a", json!(1)), child("Service", "b", json!({"spec": {"x": 1}}))]);
        let new = children(vec![child("Service", "c", json!(1)), child("Service", "b", json!({"spec": {"x": 2}}))]);
        let found = found(&old, &new, &[]).unwrap();
        assert_eq!((names(&found.created), names(&found.deleted)), (vec!["c"], vec!["a"]));
        assert_eq!(found.changed.len(), 1);
        assert_eq!(found.changed[0].fields, [field("spec.x", Some("1"), Some("2"))]);
    }

    #[test]
    fn another_version_of_a_kind_is_the_same_object() {
        let old = child("Service", "a", json!(1));
        let mut new = old.clone();
        new.reference.kind = Kind::new("", "v2", "Service");
        assert_eq!(found(&children(vec![old]), &children(vec![new]), &[]), None);
    }

    #[test]
    fn a_child_whose_deletion_is_not_granted_stays() {
        let old = children(vec![child("PersistentVolumeClaim", "a", json!(1))]);
        let found = found(&old, &children(vec![]), &[]).unwrap();
        assert_eq!((names(&found.left), found.deleted.len()), (vec!["a"], 0));
    }

    #[test]
    fn where_the_old_answer_keeps_its_children_the_observed_ones_count() {
        let there = [reference("Service", "a"), reference("Service", "b")];
        let new = children(vec![child("Service", "b", json!(1)), child("Service", "c", json!(1))]);
        for old in [deciding(|_| {}), failed("x")] {
            let found = found(&old, &new, &there).unwrap();
            assert_eq!((names(&found.created), names(&found.deleted)), (vec!["c"], vec!["a"]));
            assert!(found.changed.is_empty());
        }
    }

    #[test]
    fn an_answer_that_keeps_deletes_nothing_and_is_another_kind_of_answer() {
        let old = children(vec![child("Service", "a", json!(1))]);
        let found = found(&old, &deciding(|_| {}), &[reference("Service", "a")]).unwrap();
        assert!(found.deleted.is_empty());
        assert_eq!(found.answer, Some(field("answer", Some("decided: exactly"), Some("decided: keep"))));
    }

    #[test]
    fn clean_up_that_is_done_earlier_is_another_kind_of_answer() {
        let cleanup = |stage, basis| {
            Side::Decided(
                Box::new(AdmittedDecision { stage, decision: Decision::default(), desired: None, metadata: None }),
                basis,
            )
        };
        let found =
            found(&cleanup(Stage::Waiting, Basis::Watched), &cleanup(Stage::Done, Basis::Fetched), &[]).unwrap();
        assert_eq!(found.answer, Some(field("answer", Some("waiting: keep"), Some("done: keep, after needs"))));
    }

    #[test]
    fn no_value_of_a_secret_is_reported_but_its_labels_are() {
        let secret = |value: &str| {
            let body = json!({"metadata": {"labels": {"a": value}}, "data": {"k": value}, "stringData": {"l": value}});
            children(vec![child("Secret", "s", body)])
        };
        let found = found(&secret("hunter2"), &secret("hunter3"), &[]).unwrap();
        let fields = &found.changed[0].fields;
        assert_eq!(fields[0], field("data.k", Some("(changed)"), Some("(changed)")));
        assert_eq!(fields[1], field("metadata.labels.a", Some("\"hunter2\""), Some("\"hunter3\"")));
        assert_eq!(fields[2].path, "stringData.l");
        assert!(!format!("{:?}{:?}", fields[0], fields[2]).contains("hunter"));
    }

    #[test]
    fn nothing_is_reported_that_a_component_chose_after_it_was_shown_a_secret() {
        const SECRET: &str = "hunter2";
        let event = |reason: &str| Event { severity: Severity::Normal, reason: reason.into(), message: SECRET.into() };
        let condition = |name: &str| Condition {
            name: name.into(),
            status: Truth::True,
            reason: SECRET.into(),
            message: SECRET.into(),
        };
        let old = |decision: &mut Decision| {
            decision.status = Some(r#"{"ready":1}"#.into());
            decision.conditions = vec![Condition { reason: "R".into(), ..condition("Known") }];
            decision.events = vec![Event { message: "m".into(), ..event("Known") }];
        };
        let new = |decision: &mut Decision| {
            decision.status = Some(format!(r#"{{"ready":"{SECRET}","{SECRET}":1}}"#));
            decision.conditions = vec![condition("Known"), condition(SECRET)];
            decision.events = vec![event(SECRET)];
            decision.requeue_after = Some(Duration::from_secs(0x68_75_6e));
        };
        let with = |change: &dyn Fn(&mut Decision), desired| {
            let mut decision = Decision::default();
            change(&mut decision);
            decided(decision, Some(desired))
        };
        let map = |data: Value| child("ConfigMap", "c", json!({ "data": data }));
        let old = with(&old, vec![map(json!({"k": "1"}))]);
        let mut elsewhere = child("Service", "c", json!(1));
        elsewhere.reference.namespace = Some(SECRET.into());
        let beside = child("Service", SECRET, json!(1));
        let new = with(&new, vec![map(json!({"k": SECRET, SECRET: SECRET})), beside, elsewhere]);
        let parent = reference("Memcached", "m");
        let compare = |old: &Side, new: &Side| compare(&parent, (old, new), true, &[], |_| true).unwrap();
        let found = compare(&old, &new);
        let paths = |fields: &[Field]| fields.iter().map(|field| field.path.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&found.changed[0].fields), ["data['<hidden>']", "data.k"]);
        assert_eq!(paths(&found.status), ["['<hidden>']", "ready"]);
        assert_eq!(paths(&found.events), ["Known", TAINTED]);
        assert_eq!(names(&found.created), [TAINTED, TAINTED]);
        let namespaces: Vec<_> = found.created.iter().map(|child| child.namespace.as_deref()).collect();
        assert_eq!(namespaces, [Some("n"), Some(TAINTED_KEY)]);
        let failed = compare(&failed("no password"), &failed(SECRET));
        for found in [&found, &failed] {
            let text = serde_json::to_string(found).unwrap();
            assert!(!text.contains(SECRET) && !text.contains(&format!("{}", 0x68_75_6e)), "{text}");
            assert!(text.contains(TAINTED), "{text}");
        }
    }

    #[test]
    fn data_of_other_kinds_than_secrets_is_reported() {
        let old = children(vec![child("ConfigMap", "c", json!({"data": {"k": "1"}}))]);
        let new = children(vec![child("ConfigMap", "c", json!({"data": {"k": "2"}}))]);
        let found = found(&old, &new, &[]).unwrap();
        assert_eq!(found.changed[0].fields, [field("data.k", Some("\"1\""), Some("\"2\""))]);
    }

    #[test]
    fn the_hosts_own_digest_is_no_change_of_a_field() {
        let body = |digest: &str, x: u8| json!({"metadata": {"annotations": {APPLIED_ANNOTATION: digest}}, "x": x});
        let old = children(vec![child("Service", "a", body("1", 1))]);
        let new = children(vec![child("Service", "a", body("2", 2))]);
        assert_eq!(found(&old, &new, &[]).unwrap().changed[0].fields, [field("x", Some("1"), Some("2"))]);
    }

    #[test]
    fn the_fields_of_a_parent_are_bounded_in_all() {
        let many = |value: u8| {
            let body = json!((0..150).map(|n| (format!("f{n}"), json!(value))).collect::<Map<_, _>>());
            children((0..20).map(|n| child("Service", &format!("s{n:02}"), body.clone())).collect())
        };
        let found = found(&many(1), &many(2), &[]).unwrap();
        assert_eq!(found.changed.len(), 20);
        assert_eq!(found.changed.iter().map(|changed| changed.fields.len()).sum::<usize>(), MAX_FIELDS_PER_PARENT);
        assert_eq!((found.changed[0].more, found.changed[19].more), (50, 150));
    }

    #[test]
    fn status_and_conditions_are_reported_by_field_and_type() {
        let condition = |name: &str, message: &str| Condition {
            name: name.into(),
            status: Truth::True,
            reason: "R".into(),
            message: message.into(),
        };
        let old = deciding(|decision| {
            decision.status = Some(r#"{"nodes":["a"],"ready":1}"#.into());
            decision.conditions = vec![condition("A", "one"), condition("B", "same")];
        });
        let new = deciding(|decision| {
            decision.status = Some(r#"{"nodes":["a"],"ready":2}"#.into());
            decision.conditions = vec![condition("B", "same"), condition("A", "two")];
        });
        let found = found(&old, &new, &[]).unwrap();
        assert_eq!(found.status, [field("ready", Some("1"), Some("2"))]);
        assert_eq!(found.conditions, [field("A.message", Some("\"one\""), Some("\"two\""))]);
        assert!(found.changes_status());
    }

    #[test]
    fn a_condition_of_a_built_in_kind_is_no_difference_because_it_is_not_written() {
        let stating = |message: &str| {
            let condition =
                Condition { name: "A".into(), status: Truth::True, reason: "R".into(), message: message.into() };
            deciding(|decision| decision.conditions = vec![condition])
        };
        let (old, new) = (stating("one"), stating("two"));
        let found = |kind| compare(&reference(kind, "a"), (&old, &new), false, &[], |_| true);
        assert_eq!(found("Service"), None);
        assert_eq!(found("Memcached").unwrap().conditions.len(), 1);
    }

    #[test]
    fn events_and_the_requeue_are_reported() {
        let event = |message: &str| Event { severity: Severity::Normal, reason: "R".into(), message: message.into() };
        let old = deciding(|decision| decision.events = vec![event("both"), event("old")]);
        let new = deciding(|decision| {
            decision.events = vec![event("new"), event("both")];
            decision.requeue_after = Some(Duration::from_secs(5));
        });
        let found = found(&old, &new, &[]).unwrap();
        assert_eq!(found.events, [field("R", Some("Normal old"), None), field("R", None, Some("Normal new"))]);
        assert_eq!(found.requeue, Some(field("requeue", None, Some("5s"))));
        assert!(!found.changes_status());
    }

    #[test]
    fn a_new_failure_breaks_and_a_fixed_one_does_not() {
        let found_one = found(&deciding(|_| {}), &failed("x"), &[]).unwrap();
        assert!(found_one.breaks() && found_one.answer.is_none());
        let fixed = found(&failed("x"), &deciding(|_| {}), &[]).unwrap();
        assert!(!fixed.breaks() && fixed.old_failure.is_some());
        assert!(!found(&failed("x"), &failed("y"), &[]).unwrap().breaks());
    }
}
