//! A model of the API server and of the controllers of Kubernetes, as far as the children of one parent are concerned:
//! decisions are carried out in it until nothing changes, without a cluster. Pure.
//!
//! Workloads have Pods, which are no children: what shows them to a plugin is [`Cluster::made_pods`].
//!
//! The plugin writes by force, as its host does: what it states is its own, and what it no longer states goes, unless another
//! field manager owns it too. Who owns what is known of a child with `managedFields`; of another one, all that is there
//! is another's until the plugin states it.

mod controllers;
mod defaults;
mod kinds;
mod merge;
mod owned;
mod pod;
mod reported;
mod status;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::check::Desired;
use crate::check::parent_metadata::StatedMetadata;
use crate::compare::json_diff::{Field, Rules, compare};
use crate::diff::left;
use crate::model::field_path;
use crate::model::kind::{Kind, ObjectRef};
use crate::model::object::{HOST_PREFIX, metadata_manager, plugin_manager};

pub use merge::{ListKey, list_key, same_element};
use owned::{Owned, prune};
pub use status::status_after;
use workload::{MAX_PODS, Workload};

/// The maximum number of fields of one child that are named as changed.
const MAX_FIELDS: usize = 20;

/// The children of one parent.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    stored: BTreeMap<ObjectRef, Stored>,
    /// How many children were created.
    created: u64,
    /// What was stated last of the parent's metadata; none before the first time.
    stated: Option<Owned>,
    /// The field manager of the parent's metadata.
    metadata_manager: String,
    /// The Pods that were there before as those of workloads.
    taken: Arc<BTreeSet<ObjectRef>>,
}

#[derive(Clone, Debug)]
struct Stored {
    object: Value,
    /// What was applied last; `null` if the child was there before.
    applied: Value,
    owners: Owners,
    /// Its Pods, if it is a workload.
    workload: Workload,
}

/// Who owns the fields of an object.
#[derive(Clone, Debug, Default)]
struct Owners {
    /// What the plugin applied last.
    own: Owned,
    /// What others own.
    others: Owned,
    /// Whether that is guessed: the object does not say who owns what.
    is_guessed: bool,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The child was created.
    Created,
    /// The child was changed.
    Changed,
    /// The child was deleted.
    Deleted,
}

/// A child that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What was done.
    pub action: Action,
    /// The child.
    pub child: ObjectRef,
    /// The fields that changed, at most 20.
    pub fields: Vec<Field>,
}

impl Cluster {
    /// Returns a cluster with these children. Of these Pods, those of their workloads live on as those that a workload makes
    /// itself: they are [gone](Self::is_gone) once they are replaced or too many. The plugin has the first of these names, and takes over
    /// the children of the others.
    ///
    /// # Errors
    /// If one of the children is no object with a kind and a name.
    pub fn with<'v>(
        children: &[Value],
        pods: impl IntoIterator<Item = &'v Value>,
        plugins: &[&str],
    ) -> Result<Self, String> {
        let managers: Vec<String> = plugins.iter().map(|plugin| plugin_manager(plugin)).collect();
        let pods = pods.into_iter().filter_map(|pod| Some((ObjectRef::of(pod).ok()?, pod)));
        let pods: BTreeMap<ObjectRef, &Value> = pods.filter(|(pod, _)| pod.kind.is("", "Pod")).collect();
        let (mut taken, mut free) = (pods.keys().cloned().collect::<BTreeSet<_>>(), pods.into_iter().collect());
        let stored = |object: &Value| {
            let reference = ObjectRef::of(object)?;
            let owners = Owners::of(object, |manager| managers.iter().any(|own| own == manager));
            let mut object = object.clone();
            defaults::fill_in(&reference, &mut object);
            let workload = Workload::with(&reference, &object, &mut free);
            Ok((reference, Stored { object, applied: Value::Null, owners, workload }))
        };
        let stored = children.iter().map(stored).collect::<Result<_, String>>()?;
        for (pod, _) in free {
            taken.remove(&pod);
        }
        let metadata_manager = plugins.first().map(|plugin| metadata_manager(plugin)).unwrap_or_default();
        Ok(Self { stored, taken: Arc::new(taken), metadata_manager, ..Self::default() })
    }

    /// Returns whether a Pod was there before as that of a workload.
    pub fn is_taken(&self, pod: &ObjectRef) -> bool {
        self.taken.contains(pod)
    }

    /// Returns whether a Pod was there before as that of a workload, and was replaced or removed since.
    pub fn is_gone(&self, pod: &ObjectRef) -> bool {
        let is_there = |(child, stored): (&ObjectRef, &Stored)| {
            child.namespace == pod.namespace && stored.workload.has_before(&pod.name)
        };
        self.is_taken(pod) && !self.stored.iter().any(is_there)
    }

    /// Returns the Pods that the workloads have made, as the API server returns them: at most 100.
    pub fn made_pods(&self) -> Vec<Value> {
        self.stored.iter().flat_map(|(child, stored)| stored.workload.made(child, &stored.object)).collect()
    }

    /// Returns the children as the API server returns them.
    pub fn children(&self) -> Vec<Value> {
        self.stored.values().map(|stored| stored.object.clone()).collect()
    }

    /// Returns what was applied last, of each child that was applied, but for Jobs and Pods: they have done their work.
    pub fn applied(&self) -> BTreeMap<ObjectRef, Value> {
        let applied = self.stored.iter().filter(|(child, stored)| !stored.applied.is_null() && !is_run(&child.kind));
        applied.map(|(child, stored)| (child.clone(), stored.applied.clone())).collect()
    }

    /// Returns the references of the children.
    pub fn references(&self) -> Vec<ObjectRef> {
        self.stored.keys().cloned().collect()
    }

    /// Removes a child, as a user would.
    pub fn remove(&mut self, child: &ObjectRef) {
        self.stored.remove(child);
    }

    /// Applies the desired children, and deletes the others. Returns what that changed.
    pub fn carry_out(&mut self, desired: &[Desired]) -> Vec<Change> {
        let mut changes: Vec<Change> = desired.iter().filter_map(|desired| self.apply(desired)).collect();
        let is_desired = |child: &ObjectRef| desired.iter().any(|desired| desired.reference == *child);
        let deleted: Vec<ObjectRef> = self.stored.keys().filter(|child| !is_desired(child)).cloned().collect();
        for child in deleted {
            self.stored.remove(&child);
            changes.push(Change { action: Action::Deleted, child, fields: Vec::new() });
        }
        changes
    }

    /// Returns a parent's metadata once what is stated of it is applied. What was stated before and is no longer goes.
    ///
    /// # Errors
    /// Names the first label or annotation that another field manager owns with another value. The API server refuses the apply
    /// then, because it is not forced.
    pub fn carry_out_on(&mut self, metadata: &Value, stated: &StatedMetadata) -> Result<Value, String> {
        let stated = Value::Object(stated.members());
        let before = json!({ "metadata": metadata });
        let Owners { own, others, is_guessed } = Owners::of(&before, |manager| *manager == *self.metadata_manager);
        let (of_metadata, known) = (|owned: &Owned| owned.member("metadata").cloned().unwrap_or_default(), !is_guessed);
        let others = of_metadata(&others);
        if let Some(path) = others.conflict(metadata, &stated).filter(|_| known) {
            return Err(path);
        }
        let own = self.stated.take().unwrap_or_else(|| of_metadata(&own));
        let now = Owned::stated(&stated);
        let others = if known { others } else { others.without(&own, metadata) };
        let mut after = merge::merged(metadata, &stated);
        prune(&mut after, &own, &[&now, &others]);
        self.stated = Some(now);
        Ok(after)
    }

    /// Lets the controllers of Kubernetes do their work: what they wait for in a cluster has happened. Returns whether that
    /// changed anything.
    pub fn run_controllers(&mut self) -> bool {
        let (mut room, mut has_changed) = (MAX_PODS, false);
        for (child, Stored { object, workload, .. }) in &mut self.stored {
            has_changed |= workload.run(child, object, &mut room);
            let pods = workload.count(child, object);
            has_changed |= controllers::run(child, object, &pods);
        }
        has_changed
    }

    fn apply(&mut self, desired: &Desired) -> Option<Change> {
        let body = without_marks(&desired.body);
        let child = desired.reference.clone();
        let Some(stored) = self.stored.get_mut(&child) else {
            self.created += 1;
            let object = created(body.clone(), &child, self.created);
            let owners = Owners { own: Owned::stated(&body), ..Owners::default() };
            self.stored.insert(child.clone(), Stored { object, applied: body, owners, workload: Workload::default() });
            return Some(Change { action: Action::Created, child, fields: Vec::new() });
        };
        if desired.is_created_once {
            return None;
        }
        for path in left::paths(&desired.left, is_scaled(&child.kind), &body) {
            if let Ok(keys) = field_path::keys(path) {
                stored.owners.own.forget(&keys);
            }
        }
        let mut after = stored.owners.apply(&stored.object, &body);
        defaults::fill_in(&child, &mut after);
        let fields = compare(Some(&stored.object), Some(&after), MAX_FIELDS, Rules::default()).listed;
        if after.get("spec") != stored.object.get("spec") {
            let generation = after.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
            set_metadata(&mut after, "generation", json!(generation + 1));
        }
        (stored.object, stored.applied) = (after, body);
        (!fields.is_empty()).then_some(Change { action: Action::Changed, child, fields })
    }
}

impl Owners {
    /// Returns who owns the fields of an object that was there before.
    fn of(object: &Value, is_own: impl Fn(&str) -> bool) -> Self {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let Some(entries) = entries.filter(|entries| !entries.is_empty()) else {
            return Self { others: Owned::stated(object), is_guessed: true, ..Self::default() };
        };
        let mut owners = Self::default();
        for entry in entries {
            let is_of_object = entry["subresource"].as_str().unwrap_or_default().is_empty();
            let is_applied = entry["operation"] == "Apply" && entry["manager"].as_str().is_some_and(&is_own);
            let owned = if is_applied && is_of_object { &mut owners.own } else { &mut owners.others };
            owned.add(Owned::read(&entry["fieldsV1"]));
        }
        // The host's own annotations are not carried out here.
        let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
        for (key, _) in annotations.filter(|(key, _)| key.starts_with(HOST_PREFIX)) {
            owners.own.forget(&["metadata", "annotations", key]);
        }
        owners
    }

    /// Returns an object after an apply by force, and learns who owns what of it then.
    fn apply(&mut self, object: &Value, stated: &Value) -> Value {
        let now = Owned::stated(stated);
        let mut after = merge::merged(object, stated);
        prune(&mut after, &self.own, &[&now, &self.others]);
        self.others = match self.is_guessed {
            true => self.others.without(&now, &after),
            false => self.others.kept(object, &after),
        };
        self.own = now;
        after
    }
}

/// Returns whether the number of replicas of a kind can be set by a subresource. Others set it where the plugin states none.
fn is_scaled(kind: &Kind) -> bool {
    ["Deployment", "ReplicaSet", "StatefulSet"].iter().any(|scaled| kind.is("apps", scaled))
}

/// Returns whether an object of a kind does its work once: if it is lost, what it has done is still done.
fn is_run(kind: &Kind) -> bool {
    kind.is("batch", "Job") || kind.is("", "Pod")
}

/// Returns a child as the API server stores it at first.
fn created(mut object: Value, child: &ObjectRef, number: u64) -> Value {
    set_metadata(&mut object, "uid", json!(format!("00000000-0000-4000-8000-{number:012}")));
    if let Some(namespace) = &child.namespace {
        set_metadata(&mut object, "namespace", json!(namespace));
    }
    defaults::fill_in(child, &mut object);
    if object.get("spec").is_some() {
        set_metadata(&mut object, "generation", json!(1));
    }
    object
}

fn set_metadata(object: &mut Value, member: &str, value: Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert(member.to_owned(), value);
    }
}

/// Returns a child without the host's annotations: the digest would name each change a second time.
fn without_marks(body: &Value) -> Value {
    let mut body = body.clone();
    let annotations = body.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.retain(|key, _| !key.starts_with(HOST_PREFIX));
        if annotations.is_empty()
            && let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("annotations");
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn desired(name: &str, spec: Value) -> Desired {
        let kind = Kind::new("apps", "v1", "Deployment");
        let annotations = json!({ "hotshoe.dev/applied": spec.to_string() });
        let metadata = json!({ "name": name, "annotations": annotations });
        let body = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec });
        Desired {
            reference: ObjectRef { kind, namespace: Some("n".into()), name: name.into() },
            body: Arc::new(body),
            digest: "d".into(),
            is_created_once: false,
            left: Arc::default(),
            strategy: Default::default(),
        }
    }

    fn actions(changes: &[Change]) -> Vec<(Action, &str)> {
        changes.iter().map(|change| (change.action, &*change.child.name)).collect()
    }

    #[test]
    fn children_are_created_changed_and_deleted_and_the_same_again_changes_nothing() {
        let mut cluster = Cluster::default();
        let one = [desired("a", json!({ "replicas": 1 }))];
        assert_eq!(actions(&cluster.carry_out(&one)), [(Action::Created, "a")]);
        assert_eq!(cluster.carry_out(&one), []);
        let changes = cluster.carry_out(&[desired("a", json!({ "replicas": 2 })), desired("b", json!({}))]);
        assert_eq!(actions(&changes), [(Action::Changed, "a"), (Action::Created, "b")]);
        assert_eq!(changes[0].fields.iter().map(|field| &*field.path).collect::<Vec<_>>(), ["spec.replicas"]);
        let children = cluster.children();
        assert_eq!(children[0]["metadata"]["generation"], 2);
        assert_ne!(children[0]["metadata"]["uid"], children[1]["metadata"]["uid"]);
        assert_eq!(actions(&cluster.carry_out(&[])), [(Action::Deleted, "a"), (Action::Deleted, "b")]);
    }

    #[test]
    fn a_child_that_is_created_once_stays_as_others_changed_it() {
        let once = |replicas: u32| Desired { is_created_once: true, ..desired("a", json!({ "replicas": replicas })) };
        let mut cluster = Cluster::default();
        cluster.carry_out(&[once(1)]);
        assert_eq!(cluster.carry_out(&[once(2)]), []);
        assert_eq!(cluster.children()[0]["spec"]["replicas"], 1);
    }

    #[test]
    fn what_others_have_set_stays_and_what_was_applied_and_is_left_out_goes() {
        let theirs = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a", "namespace": "n", "uid": "u" },
            "spec": { "paused": true },
        });
        let mut cluster = Cluster::with(&[theirs], [], &["demo"]).unwrap();
        cluster.carry_out(&[desired("a", json!({ "replicas": 1, "minReadySeconds": 5 }))]);
        cluster.carry_out(&[desired("a", json!({ "replicas": 1 }))]);
        let spec = &cluster.children()[0]["spec"];
        assert_eq!((&spec["paused"], &spec["replicas"]), (&json!(true), &json!(1)));
        assert_eq!(spec.get("minReadySeconds"), None);
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({ "manager": manager, "operation": operation, "fieldsV1": fields })
    }

    /// Returns a cluster with a child whose labels `a`, `b` and `c` the plugin applied; others own `b` too, and replicas.
    fn shared() -> Cluster {
        let own = json!({ "f:metadata": { "f:labels": { "f:a": {}, "f:b": {}, "f:c": {} } } });
        let theirs = json!({ "f:metadata": { "f:labels": { "f:b": {} } }, "f:spec": { "f:replicas": {} } });
        let annotations = json!({ "hotshoe.dev/applied": "x" });
        let managers = [entry("hotshoe/demo", "Apply", own), entry("kubectl", "Apply", theirs)];
        let labels = json!({ "a": "1", "b": "1", "c": "1" });
        let metadata = json!({
            "name": "a", "namespace": "n", "labels": labels, "annotations": annotations, "managedFields": managers,
        });
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": { "replicas": 2 },
        });
        Cluster::with(&[object], [], &["demo"]).unwrap()
    }

    fn labelled(labels: Value, spec: Value) -> Desired {
        let mut desired = desired("a", spec);
        let mut body = (*desired.body).clone();
        body["metadata"]["labels"] = labels;
        desired.body = Arc::new(body);
        desired
    }

    #[test]
    fn of_a_child_with_managed_fields_what_others_own_too_stays_and_what_was_only_applied_goes() {
        let mut cluster = shared();
        cluster.carry_out(&[labelled(json!({ "c": "1" }), json!({}))]);
        let metadata = &cluster.children()[0]["metadata"];
        assert_eq!(metadata["labels"], json!({ "b": "1", "c": "1" }));
        assert_eq!(metadata["annotations"], json!({ "hotshoe.dev/applied": "x" }), "the host's own stay as they are");
    }

    #[test]
    fn a_value_that_the_plugin_changes_by_force_is_its_own_and_an_equal_one_stays_that_of_others_too() {
        for (label, expected) in [("2", json!({})), ("1", json!({ "b": "1" }))] {
            let mut cluster = shared();
            cluster.carry_out(&[labelled(json!({ "b": label }), json!({ "replicas": 2 }))]);
            assert_eq!(cluster.children()[0]["metadata"]["labels"], json!({ "b": label }));
            cluster.carry_out(&[labelled(json!({}), json!({}))]);
            let child = &cluster.children()[0];
            assert_eq!((&child["metadata"]["labels"], &child["spec"]["replicas"]), (&expected, &json!(2)));
        }
    }

    #[test]
    fn what_the_plugin_leaves_to_others_keeps_its_value() {
        let mut cluster = Cluster::default();
        let leaving = |spec: Value| Desired { left: [Box::from("spec.paused")].into(), ..desired("a", spec) };
        cluster.carry_out(&[desired("a", json!({ "replicas": 3, "paused": true, "minReadySeconds": 1 }))]);
        cluster.carry_out(&[leaving(json!({}))]);
        let left = |cluster: &Cluster| {
            let spec = cluster.children()[0]["spec"].clone();
            ["replicas", "paused", "minReadySeconds"].map(|member| spec[member].clone())
        };
        assert_eq!(left(&cluster), [json!(3), json!(true), json!(null)]);
        cluster.carry_out(&[desired("a", json!({}))]);
        assert_eq!(left(&cluster), [json!(3), json!(true), json!(null)], "it is no longer its own");
    }

    #[test]
    fn a_default_that_the_plugin_no_longer_states_otherwise_comes_back() {
        let mut cluster = Cluster::default();
        cluster.carry_out(&[desired("a", json!({ "progressDeadlineSeconds": 5 }))]);
        let changes = cluster.carry_out(&[desired("a", json!({}))]);
        assert_eq!(
            changes[0].fields.iter().map(|field| &*field.path).collect::<Vec<_>>(),
            ["spec.progressDeadlineSeconds"]
        );
        assert_eq!(cluster.children()[0]["spec"]["progressDeadlineSeconds"], 600);
        assert_eq!(cluster.carry_out(&[desired("a", json!({}))]), [], "what is filled in is no change");
    }

    #[test]
    fn metadata_of_the_parent_that_another_manager_owns_with_another_value_is_refused() {
        let labels = |value: &str| StatedMetadata {
            labels: [("e.com/a".to_owned(), value.to_owned())].into(),
            ..StatedMetadata::default()
        };
        let theirs = json!({ "f:metadata": { "f:labels": { "f:e.com/a": {} } } });
        let of = |manager: &str| {
            let managed = json!([entry(manager, "Apply", theirs.clone())]);
            json!({ "name": "a", "labels": { "e.com/a": "1" }, "managedFields": managed })
        };
        let mut cluster = Cluster::with(&[], [], &["demo"]).unwrap();
        let refused = cluster.carry_out_on(&of("kubectl"), &labels("2")).unwrap_err();
        assert_eq!(refused, "labels['e.com/a']");
        assert!(cluster.carry_out_on(&of("kubectl"), &labels("1")).is_ok(), "an equal value is shared");
        let none = StatedMetadata::default();
        let after = cluster.carry_out_on(&of("kubectl"), &none).unwrap();
        assert_eq!(after["labels"], json!({ "e.com/a": "1" }), "it stays, because it is another's too");
        let mut cluster = Cluster::with(&[], [], &["demo"]).unwrap();
        let after = cluster.carry_out_on(&of("hotshoe/demo/metadata"), &none).unwrap();
        assert_eq!(after.get("labels"), None, "it was stated before");
    }

    #[test]
    fn of_the_parents_metadata_what_is_stated_is_set_and_what_is_no_longer_stated_goes() {
        let stated = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            StatedMetadata { labels, ..StatedMetadata::default() }
        };
        let mut cluster = Cluster::default();
        let before = json!({ "name": "a", "labels": { "theirs": "1" } });
        let after = cluster.carry_out_on(&before, &stated(&[("e.com/a", "1")])).unwrap();
        assert_eq!(after, json!({ "name": "a", "labels": { "theirs": "1", "e.com/a": "1" } }));
        assert_eq!(cluster.carry_out_on(&after, &stated(&[("e.com/a", "1")])).unwrap(), after);
        assert_eq!(cluster.carry_out_on(&after, &stated(&[])).unwrap(), before);
        assert!(cluster.children().is_empty(), "the parent is no child");
    }

    #[test]
    fn what_the_controllers_report_is_no_part_of_what_was_applied() {
        let mut cluster = Cluster::default();
        cluster.carry_out(&[desired("a", json!({ "replicas": 3 }))]);
        cluster.run_controllers();
        assert_eq!(cluster.children()[0]["status"]["readyReplicas"], 3);
        let applied = cluster.applied();
        assert_eq!(applied.values().map(|body| &body["spec"]).collect::<Vec<_>>(), [&json!({ "replicas": 3 })]);
        assert!(applied.values().all(|body| body.get("status").is_none()));
    }

    #[test]
    fn a_job_that_was_applied_is_not_expected_back() {
        let reference = ObjectRef { kind: Kind::new("batch", "v1", "Job"), ..desired("a", json!({})).reference };
        let mut cluster = Cluster::default();
        cluster.carry_out(&[Desired { reference, ..desired("a", json!({})) }]);
        assert_eq!((cluster.children().len(), cluster.applied().len()), (1, 0));
    }
}
