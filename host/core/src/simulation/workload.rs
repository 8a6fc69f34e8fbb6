//! The Pods of one workload: how many there are, how each is called, and of which template it was made. Pods are there as
//! soon as the controllers have run: none is pending, and one that is replaced is gone at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::{JOB_NAME, Kind, REVISION_HASH, Revision, TEMPLATE_HASH, is_indexed, letters};
use super::pod::Made;
use crate::model::digest::Digest;
use crate::model::kind::ObjectRef;
use crate::model::label_selector::LabelSelector;

/// The maximum number of Pods that are made for the children of one parent. A workload that is larger has the first of
/// its Pods, and its status counts all.
pub(super) const MAX_PODS: usize = 100;
/// The maximum size of the templates of these Pods together, in bytes.
const MAX_BYTES: usize = 8 << 20;
/// The maximum length of the name before the letters that make a Pod's name unique.
const MAX_PREFIX: usize = 58;
/// The Pods of one workload.
#[derive(Clone, Debug, Default)]
pub(super) struct Workload {
    /// What new Pods are made of; none before any was made.
    newest: Option<Arc<Revision>>,
    /// What the Pods were made of that a partition holds back.
    current: Option<Arc<Revision>>,
    /// By ordinal, or by their number where their names have none.
    pods: BTreeMap<u64, Pod>,
}

#[derive(Clone, Debug, PartialEq)]
struct Pod {
    name: Arc<str>,
    revision: Arc<str>,
    /// None for a Pod that was there before.
    made_of: Option<Arc<Revision>>,
    /// Whether it was being deleted before.
    is_ending: bool,
}

/// What the status of a workload says of its Pods.
#[derive(Default)]
pub(super) struct Count {
    /// All of them.
    pub(super) all: u64,
    /// Those of the newest template.
    pub(super) updated: u64,
    /// Those of the current one, which may be the same.
    pub(super) current_ones: u64,
    /// The name of the newest template.
    pub(super) newest: Arc<str>,
    /// The name of the current template: that of before, until all Pods are updated.
    pub(super) current: Arc<str>,
}

impl Workload {
    /// Returns a workload that was there before. Of the Pods that were, those are taken that are its own: from now on they
    /// are replaced and removed as its other Pods are.
    pub(super) fn with(reference: &ObjectRef, object: &Value, pods: &mut Vec<(ObjectRef, &Value)>) -> Self {
        let Some(kind) = Kind::of(reference) else { return Self::default() };
        let Some(template) = template(object) else { return Self::default() };
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let is_own = ownership(kind, reference, object);
        for (pod, value) in pods.drain(..) {
            let is_named = kind != Kind::StatefulSet || ordinal(&reference.name, &pod.name).is_some();
            if is_named && is_own(&pod, value) { own.push((pod, value)) } else { others.push((pod, value)) }
        }
        *pods = others;
        let label_of = |pod: &Value, key: &str| pod.pointer("/metadata/labels")?.get(key)?.as_str().map(Arc::from);
        let status = |member: &str| object.pointer("/status")?.get(member)?.as_str().map(Arc::<str>::from);
        let named = match kind {
            Kind::StatefulSet => status("updateRevision"),
            Kind::Deployment => own.iter().find_map(|(_, pod)| label_of(pod, TEMPLATE_HASH)),
            _ => None,
        };
        let is_named = named.is_some();
        let newest = Arc::new(Revision::new(kind, reference, template, named));
        let current = match status("currentRevision").filter(|name| kind == Kind::StatefulSet && *name != newest.name) {
            Some(name) => Arc::new(Revision { name, template: template.clone(), number: 1, bytes: newest.bytes }),
            None => newest.clone(),
        };
        let mut known = BTreeMap::new();
        for (number, (pod, value)) in own.into_iter().enumerate() {
            let place = match kind {
                Kind::StatefulSet => ordinal(&reference.name, &pod.name),
                _ => u64::try_from(number).ok(),
            };
            let hash = label_of(value, REVISION_HASH).filter(|_| is_named && kind == Kind::StatefulSet);
            let revision = hash.unwrap_or_else(|| newest.name.clone());
            let is_ending = value.pointer("/metadata/deletionTimestamp").is_some();
            if let Some(place) = place {
                known.insert(place, Pod { name: pod.name, revision, made_of: None, is_ending });
            }
        }
        Self { newest: Some(newest), current: Some(current), pods: known }
    }

    /// Has its Pods made, replaced and removed, as far as there is `room`, of which they leave less. Returns whether that
    /// changed anything.
    pub(super) fn run(&mut self, reference: &ObjectRef, object: &Value, room: &mut usize) -> bool {
        let (Some(kind), Some(template)) = (Kind::of(reference), template(object)) else { return false };
        let before = self.pods.clone();
        if !is_paused(kind, object) {
            self.learn(kind, reference, template);
        }
        // A Deployment that was paused from the beginning has no Pods.
        let (Some(newest), Some(current)) = (self.newest.clone(), self.current.clone()) else { return false };
        let (places, replaced_from) = (kind.places(object), kind.replaced_from(object));
        self.pods.retain(|place, pod| places.contains(place) && !pod.is_ending);
        let is_held = |place: u64| replaced_from.is_some_and(|from| place < from);
        for (place, pod) in &mut self.pods {
            if replaced_from.is_some_and(|from| *place >= from) && pod.revision != newest.name {
                *pod = Pod::made(reference, object, *place, &newest);
            }
        }
        let most = (*room).min(MAX_BYTES / newest.bytes.max(1));
        for place in places {
            if self.pods.len() >= most {
                break;
            }
            let revision = if is_held(place) { &current } else { &newest };
            self.pods.entry(place).or_insert_with(|| Pod::made(reference, object, place, revision));
        }
        while self.pods.len() > most && self.pods.last_key_value().is_some_and(|(_, pod)| pod.made_of.is_some()) {
            self.pods.pop_last();
        }
        *room = room.saturating_sub(self.pods.len());
        if replaced_from.is_some() && self.outdated() == 0 {
            self.current = Some(newest);
        }
        self.pods != before
    }

    /// Learns the template of the Pods that are made from now on. One that was there before has its name again.
    fn learn(&mut self, kind: Kind, reference: &ObjectRef, template: &Value) {
        if self.newest.as_ref().is_some_and(|newest| newest.template == *template) {
            return;
        }
        let mut known = self.current.iter().chain(self.pods.values().filter_map(|pod| pod.made_of.as_ref()));
        let again = known.find(|known| known.template == *template).cloned();
        let number = self.newest.as_ref().map_or(1, |newest| newest.number + 1);
        let made = || Revision { number, ..Revision::new(kind, reference, template, None) };
        let newest = again.unwrap_or_else(|| Arc::new(made()));
        self.current.get_or_insert_with(|| newest.clone());
        self.newest = Some(newest);
    }

    fn outdated(&self) -> u64 {
        self.newest.as_ref().map_or(0, |newest| self.number_of(|revision| *revision != newest.name))
    }

    fn number_of(&self, is_it: impl Fn(&Arc<str>) -> bool) -> u64 {
        self.pods.values().map(|pod| u64::from(is_it(&pod.revision))).sum()
    }

    /// Counts the Pods that an object has, those too for which there was no room.
    pub(super) fn count(&self, reference: &ObjectRef, object: &Value) -> Count {
        let Some(kind) = Kind::of(reference) else { return Count::default() };
        let places = kind.places(object);
        let all = if self.has_begun(kind, object) { places.end - places.start } else { 0 };
        let updated = if self.has_held_back(kind, object) { 0 } else { all.saturating_sub(self.outdated()) };
        let name =
            |revision: &Option<Arc<Revision>>| revision.as_ref().map_or_else(Arc::default, |one| one.name.clone());
        let (newest, current) = (name(&self.newest), name(&self.current));
        let current_ones = if newest == current { updated } else { self.number_of(|revision| *revision == current) };
        Count { all, updated, current_ones, newest, current }
    }

    /// Returns whether it has had Pods made. A Deployment that was paused from the beginning has not.
    fn has_begun(&self, kind: Kind, object: &Value) -> bool {
        self.newest.is_some() || !is_paused(kind, object)
    }

    /// Returns whether it has a template of which no Pods are made, because it is paused: then no Pod is of the newest one.
    fn has_held_back(&self, kind: Kind, object: &Value) -> bool {
        let made_of = self.newest.as_ref().map(|newest| &newest.template);
        is_paused(kind, object) && made_of.is_some() && made_of != template(object)
    }

    /// Returns the Pods that were made, as the API server returns them.
    pub(super) fn made<'w>(&'w self, owner: &'w ObjectRef, object: &'w Value) -> impl Iterator<Item = Value> + 'w {
        let kind = Kind::of(owner);
        self.pods.iter().filter_map(move |(place, pod)| {
            let made = Made { kind: kind?, owner, object, place: *place, name: &pod.name };
            pod.made_of.as_deref().map(|revision| made.of(revision))
        })
    }

    /// Returns whether a Pod that was there before still is.
    pub(super) fn has_before(&self, name: &str) -> bool {
        self.pods.values().any(|pod| pod.made_of.is_none() && *pod.name == *name)
    }
}

/// Returns whether a workload is a Deployment that does not roll out now.
fn is_paused(kind: Kind, object: &Value) -> bool {
    kind == Kind::Deployment && object.pointer("/spec/paused") == Some(&json!(true))
}

fn template(object: &Value) -> Option<&Value> {
    object.pointer("/spec/template").filter(|template| template.is_object())
}

/// Returns what says whether a Pod that was there before is one of a workload: its selector, and that nothing else
/// controls it.
fn ownership<'a>(kind: Kind, workload: &'a ObjectRef, object: &'a Value) -> impl Fn(&ObjectRef, &Value) -> bool + 'a {
    let stated = object.pointer("/spec/selector").filter(|_| kind != Kind::Job);
    let labels = || json!({ "matchLabels": object.pointer("/spec/template/metadata/labels")? }).into();
    let of_job = || Some(json!({ "matchLabels": { JOB_NAME: &*workload.name } }));
    let selector = match kind {
        Kind::Job => of_job(),
        _ => stated.cloned().or_else(labels),
    };
    let selector: Option<LabelSelector> = selector.and_then(|selector| serde_json::from_value(selector).ok());
    let selector = selector.filter(|selector| !selector.is_empty());
    move |pod, value| {
        let labels = value.pointer("/metadata/labels");
        let is_selected = selector.as_ref().is_some_and(|selector| {
            selector.matches(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
        });
        pod.namespace == workload.namespace
            && is_selected
            && controller(value).is_none_or(|(of_kind, name)| match kind {
                Kind::Deployment => of_kind == "ReplicaSet" && name.starts_with(&format!("{}-", workload.name)),
                _ => of_kind == &*workload.kind.kind && name == &*workload.name,
            })
    }
}

/// Returns kind and name of what controls a Pod.
fn controller(pod: &Value) -> Option<(&str, &str)> {
    let references = pod.pointer("/metadata/ownerReferences")?.as_array()?;
    let controller = references.iter().find(|reference| reference["controller"] == true)?;
    Some((controller["kind"].as_str()?, controller["name"].as_str()?))
}

/// Returns the ordinal in the name of a Pod of a StatefulSet.
fn ordinal(set: &str, pod: &str) -> Option<u64> {
    pod.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}

impl Pod {
    fn made(workload: &ObjectRef, object: &Value, place: u64, revision: &Arc<Revision>) -> Self {
        let name = &workload.name;
        let name = match Kind::of(workload) {
            Some(Kind::StatefulSet) => format!("{name}-{place}"),
            Some(Kind::Deployment) => unique(&format!("{name}-{}-", revision.name), place, revision),
            Some(Kind::Job) if is_indexed(object) => unique(&format!("{name}-{place}-"), place, revision),
            _ => unique(&format!("{name}-"), place, revision),
        };
        Self { name: name.into(), revision: revision.name.clone(), made_of: Some(revision.clone()), is_ending: false }
    }
}

/// Returns the name of a Pod whose name has no ordinal: the last two of its letters are its place.
fn unique(prefix: &str, place: u64, revision: &Revision) -> String {
    let prefix: String = prefix.chars().take(MAX_PREFIX).collect();
    let random = Digest::of(revision.name.as_bytes()).and(&place.to_be_bytes()).remainder(27_u32.pow(3));
    let place = u32::try_from(place % 27_u64.pow(2)).unwrap_or(0);
    format!("{prefix}{}{}", letters(random, 3), letters(place, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload that gets other specs.
    struct Scene {
        reference: ObjectRef,
        object: Value,
        workload: Workload,
    }

    impl Scene {
        fn new(api_version: &str, kind: &str, spec: Value) -> Self {
            Self::with(api_version, kind, spec, &[])
        }

        /// Returns a workload that is there already, with Pods; without any it is new.
        fn with(api_version: &str, kind: &str, spec: Value, pods: &[Value]) -> Self {
            let metadata = json!({ "name": "a", "namespace": "n", "uid": "u" });
            let status = json!({ "updateRevision": "a-old" });
            let object = json!({
                "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status,
            });
            let reference = ObjectRef::of(&object).unwrap();
            let mut known = pods.iter().map(|pod| (ObjectRef::of(pod).unwrap(), pod)).collect();
            let workload =
                if pods.is_empty() { Workload::default() } else { Workload::with(&reference, &object, &mut known) };
            Self { reference, object, workload }
        }

        /// Sets fields of the spec and runs the controllers. Returns the Pods that are made.
        fn run(&mut self, spec: &Value) -> Vec<Value> {
            let members = self.object["spec"].as_object_mut().unwrap();
            members.extend(spec.as_object().cloned().unwrap());
            self.workload.run(&self.reference, &self.object, &mut { MAX_PODS });
            let is_still = !self.workload.run(&self.reference, &self.object, &mut { MAX_PODS });
            assert!(is_still, "the controllers have nothing more to do");
            self.workload.made(&self.reference, &self.object).collect()
        }

        fn count(&self) -> Count {
            self.workload.count(&self.reference, &self.object)
        }
    }

    fn template(image: &str) -> Value {
        let metadata = json!({ "labels": { "app": "a" }, "annotations": { "note": "x" } });
        json!({ "metadata": metadata, "spec": { "containers": [{ "name": "c", "image": image }] } })
    }

    fn of(pods: &[Value], pointer: &str) -> Vec<String> {
        pods.iter().map(|pod| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()).collect()
    }

    fn names(pods: &[Value]) -> Vec<String> {
        of(pods, "/metadata/name")
    }

    fn images(pods: &[Value]) -> Vec<String> {
        of(pods, "/spec/containers/0/image")
    }

    #[test]
    fn a_stateful_set_has_pods_by_ordinal_with_its_labels_that_are_ready() {
        let mut set = Scene::new("apps/v1", "StatefulSet", json!({ "template": template("1") }));
        let pods = set.run(&json!({ "replicas": 2 }));
        assert_eq!(names(&pods), ["a-0", "a-1"]);
        let metadata = &pods[1]["metadata"];
        assert_eq!(metadata["labels"]["statefulset.kubernetes.io/pod-name"], "a-1");
        assert_eq!((&metadata["labels"]["app"], &metadata["annotations"]["note"]), (&json!("a"), &json!("x")));
        let owner = &metadata["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["name"], &owner["uid"]), (&json!("StatefulSet"), &json!("a"), &json!("u")));
        let ready = pods[1]["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready");
        assert_eq!(ready.unwrap()["status"], "True");
        assert_eq!(names(&set.run(&json!({ "replicas": 3 }))), ["a-0", "a-1", "a-2"]);
        assert_eq!(names(&set.run(&json!({ "replicas": 1, "ordinals": { "start": 5 } }))), ["a-5"]);
        assert_eq!(names(&set.run(&json!({ "replicas": 0 }))), [""; 0]);
    }

    #[test]
    fn pods_below_a_partition_keep_their_template_until_it_is_lowered() {
        let mut set = Scene::new("apps/v1", "StatefulSet", json!({ "replicas": 3 }));
        set.run(&json!({ "template": template("1") }));
        let partition = |at: u32| json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": at } });
        let pods = set.run(&json!({ "template": template("2"), "updateStrategy": partition(2) }));
        assert_eq!(images(&pods), ["1", "1", "2"]);
        let count = set.count();
        assert_eq!((count.all, count.updated), (3, 1));
        assert_ne!(count.newest, count.current);
        assert_eq!(of(&pods, "/metadata/labels/controller-revision-hash")[2], *count.newest);
        let pods = set.run(&json!({ "replicas": 0 }));
        assert_eq!(pods.len(), 0);
        assert_eq!(images(&set.run(&json!({ "replicas": 3, "updateStrategy": partition(0) }))), ["2"; 3]);
        assert_eq!(set.count().newest, set.count().current);
        let on_delete = json!({ "template": template("3"), "replicas": 2, "updateStrategy": { "type": "OnDelete" } });
        assert_eq!(images(&set.run(&on_delete)), ["2", "2"]);
        assert_eq!(images(&set.run(&json!({ "replicas": 3 }))), ["2", "2", "3"]);
    }

    #[test]
    fn a_deployment_has_pods_of_a_replica_set_whose_names_change_with_the_template_alone() {
        let mut deployment = Scene::new("apps/v1", "Deployment", json!({ "template": template("1") }));
        let first = deployment.run(&json!({ "replicas": 3 }));
        let hash = of(&first, "/metadata/labels/pod-template-hash")[0].clone();
        assert!(names(&first).iter().all(|name| name.starts_with(&format!("a-{hash}-"))), "{:?}", names(&first));
        let owner = &first[0]["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["name"]), (&json!("ReplicaSet"), &json!(format!("a-{hash}"))));
        assert_eq!(names(&deployment.run(&json!({ "replicas": 2 }))), names(&first)[..2]);
        let paused = deployment.run(&json!({ "paused": true, "template": template("2"), "replicas": 1 }));
        assert_eq!((names(&paused), deployment.count().updated), (names(&first)[..1].to_vec(), 0));
        let second = deployment.run(&json!({ "paused": false, "replicas": 3 }));
        assert!(names(&second).iter().all(|name| !names(&first).contains(name)) && second.len() == 3);
        assert_eq!(names(&deployment.run(&json!({ "template": template("1") }))), names(&first));
        let mut paused = Scene::new("apps/v1", "Deployment", json!({ "template": template("1"), "replicas": 1 }));
        assert_eq!(paused.run(&json!({ "paused": true })).len(), 0, "nothing has been rolled out");
    }

    #[test]
    fn a_daemon_set_has_one_pod_and_a_replica_set_keeps_what_it_has_made() {
        let mut set = Scene::new("apps/v1", "DaemonSet", json!({}));
        assert_eq!(images(&set.run(&json!({ "template": template("1") }))), ["1"]);
        assert_eq!(images(&set.run(&json!({ "template": template("2") }))), ["2"]);
        let mut set = Scene::new("apps/v1", "ReplicaSet", json!({ "replicas": 1 }));
        let first = set.run(&json!({ "template": template("1") }));
        let both = set.run(&json!({ "template": template("2"), "replicas": 2 }));
        assert_eq!((images(&both), &both[0]), (vec!["1".to_owned(), "2".to_owned()], &first[0]));
    }

    #[test]
    fn the_pods_of_a_job_have_done_their_work() {
        let mut job = Scene::new("batch/v1", "Job", json!({ "template": template("1"), "suspend": true }));
        assert_eq!(job.run(&json!({})).len(), 0);
        let pods = job.run(&json!({ "suspend": false, "completions": 2, "completionMode": "Indexed" }));
        assert_eq!(of(&pods, "/status/phase"), ["Succeeded", "Succeeded"]);
        assert_eq!(pods[1]["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], "1");
        assert!(names(&pods)[1].starts_with("a-1-"), "{:?}", names(&pods));
    }

    #[test]
    fn a_million_replicas_are_counted_and_a_hundred_of_them_made() {
        let spec = json!({ "template": template("1"), "replicas": 1_000_000 });
        for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
            let mut workload = Scene::new("apps/v1", kind, spec.clone());
            let mut unique = names(&workload.run(&json!({})));
            unique.sort();
            unique.dedup();
            assert_eq!((unique.len(), workload.count().all), (MAX_PODS, 1_000_000), "{kind}");
            let large = template(&"x".repeat(MAX_BYTES / 3));
            assert_eq!(workload.run(&json!({ "template": large })).len(), 2, "{kind}");
            workload.run(&json!({ "replicas": u64::MAX, "ordinals": { "start": u64::MAX } }));
        }
        let mut workload = Scene::new("apps/v1", "StatefulSet", spec);
        let mut room = 7;
        workload.workload.run(&workload.reference, &workload.object, &mut room);
        assert_eq!((workload.workload.pods.len(), room), (7, 0));
    }

    #[test]
    fn the_pods_that_were_there_stay_until_they_are_replaced_or_too_many() {
        let pod = |name: &str, labels: Value| {
            let metadata = json!({ "name": name, "namespace": "n", "labels": labels });
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata })
        };
        let mut pods = vec![pod("a-0", json!({ "app": "a" }))];
        pods.push(pod("a-1", json!({ "app": "a", "controller-revision-hash": "a-older" })));
        pods.push(pod("a-2", json!({ "app": "a" })));
        pods[2]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        pods.push(pod("a-3", json!({ "app": "b" })));
        let mut of_another = pod("a-4", json!({ "app": "a" }));
        of_another["metadata"]["ownerReferences"] = json!([{ "kind": "Job", "name": "a", "controller": true }]);
        pods.push(of_another);
        let spec = json!({ "template": template("1"), "replicas": 5, "selector": { "matchLabels": { "app": "a" } } });
        let mut set = Scene::with("apps/v1", "StatefulSet", spec.clone(), &pods);
        let before = |set: &Scene| {
            let there = ["a-0", "a-1", "a-2", "a-3", "a-4"].iter().filter(|name| set.workload.has_before(name));
            there.map(|name| (*name).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(before(&set), ["a-0", "a-1", "a-2"]);
        let mut unnamed = vec![(ObjectRef::of(&pods[0]).unwrap(), &pods[0])];
        unnamed[0].0.name = "a-x".into();
        Workload::with(&set.reference, &set.object, &mut unnamed);
        assert_eq!(unnamed.len(), 1, "its name has no ordinal");
        assert_eq!(names(&set.run(&json!({}))), ["a-1", "a-2", "a-3", "a-4"], "one was old, and one was ending");
        assert_eq!((before(&set), &*set.count().newest), (vec!["a-0".to_owned()], "a-old"));
        assert_eq!(names(&set.run(&json!({ "template": template("2"), "replicas": 1 }))), ["a-0"]);
        assert_eq!(before(&set), [""; 0]);

        let mut deployment = Scene::with("apps/v1", "Deployment", spec, &pods);
        assert_eq!(before(&deployment), ["a-0", "a-1", "a-2"], "whatever their revision is");
        assert_eq!(deployment.run(&json!({ "replicas": 3 })).len(), 1);
        assert_eq!(deployment.run(&json!({ "replicas": 1 })).len(), 0);
        assert_eq!(before(&deployment), ["a-0"]);
    }
}
