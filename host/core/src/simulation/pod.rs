//! A Pod of a workload as the API server returns it, once it runs or, of a Job, once it has done its work.

use serde_json::{Map, Value, json};

use super::defaults::fill_pod;
use super::kinds::{JOB_INDEX, JOB_NAME, Kind, REVISION_HASH, Revision, TEMPLATE_HASH, is_indexed};
use super::reported::{TIME, condition, condition_with};
use crate::model::digest::Digest;
use crate::model::kind::ObjectRef;

/// The only node of the model.
const NODE: &str = "node";

/// One Pod that a workload has made.
pub(super) struct Made<'w> {
    pub(super) kind: Kind,
    /// The workload.
    pub(super) owner: &'w ObjectRef,
    pub(super) object: &'w Value,
    /// Its ordinal or number.
    pub(super) place: u64,
    pub(super) name: &'w str,
}

impl Made<'_> {
    /// Returns the Pod of a template.
    pub(super) fn of(&self, revision: &Revision) -> Value {
        let of_template = |pointer: &str| revision.template.pointer(pointer).and_then(Value::as_object).cloned();
        let mut labels = of_template("/metadata/labels").unwrap_or_default();
        let mut annotations = of_template("/metadata/annotations").unwrap_or_default();
        for (key, value) in self.marks(revision) {
            labels.insert(key.to_owned(), value.into());
        }
        if self.kind == Kind::Job && is_indexed(self.object) {
            annotations.insert(JOB_INDEX.to_owned(), self.place.to_string().into());
        }
        let mut spec = of_template("/spec").unwrap_or_default();
        let status = self.status(&spec);
        spec.insert("nodeName".to_owned(), NODE.into());
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), self.name.into());
        if let Some(namespace) = &self.owner.namespace {
            metadata.insert("namespace".to_owned(), (**namespace).into());
        }
        metadata.insert("uid".to_owned(), uid(&[self.owner_uid(), self.name, &revision.name]).into());
        metadata.insert("creationTimestamp".to_owned(), TIME.into());
        metadata.insert("labels".to_owned(), labels.into());
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), annotations.into());
        }
        metadata.insert("ownerReferences".to_owned(), json!([self.controller(revision)]));
        let mut pod =
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status });
        fill_pod(&mut pod);
        pod
    }

    fn owner_uid(&self) -> &str {
        self.object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the labels beside those of the template.
    fn marks(&self, revision: &Revision) -> Vec<(&'static str, String)> {
        let hash = || revision.name.to_string();
        match self.kind {
            Kind::Deployment => vec![(TEMPLATE_HASH, hash())],
            Kind::ReplicaSet => Vec::new(),
            Kind::StatefulSet => vec![
                (REVISION_HASH, hash()),
                ("statefulset.kubernetes.io/pod-name", self.name.to_owned()),
                ("apps.kubernetes.io/pod-index", self.place.to_string()),
            ],
            Kind::DaemonSet => {
                vec![(REVISION_HASH, hash()), ("pod-template-generation", revision.number.to_string())]
            }
            Kind::Job => {
                let (uid, name) = (self.owner_uid().to_owned(), self.owner.name.to_string());
                let mut marks = vec![
                    ("batch.kubernetes.io/controller-uid", uid.clone()),
                    (JOB_NAME, name.clone()),
                    ("controller-uid", uid),
                    ("job-name", name),
                ];
                if is_indexed(self.object) {
                    marks.push((JOB_INDEX, self.place.to_string()));
                }
                marks
            }
        }
    }

    /// Returns the reference to what controls it: of a Deployment, to its ReplicaSet.
    fn controller(&self, revision: &Revision) -> Value {
        let (owner, uid_of_owner) = (self.owner, self.owner_uid());
        let (kind, name, uid) = match self.kind {
            Kind::Deployment => {
                let name = format!("{}-{}", owner.name, revision.name);
                let uid = uid(&[uid_of_owner, &name]);
                ("ReplicaSet", name, uid)
            }
            _ => (&*owner.kind.kind, owner.name.to_string(), uid_of_owner.to_owned()),
        };
        json!({
            "apiVersion": owner.kind.api_version(), "kind": kind, "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    fn status(&self, spec: &Map<String, Value>) -> Value {
        let is_done = self.kind == Kind::Job;
        let ended =
            json!({ "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": TIME, "finishedAt": TIME } });
        let runs = json!({ "running": { "startedAt": TIME } });
        let containers = |member: &str, state: &Value, is_ready: bool| -> Vec<Value> {
            let all = spec.get(member).and_then(Value::as_array).into_iter().flatten();
            let one = |container: &Value| {
                json!({
                    "name": container["name"], "image": container["image"], "imageID": "", "ready": is_ready,
                    "started": is_ready, "restartCount": 0, "state": state,
                })
            };
            all.map(one).collect()
        };
        let ready = |name: &str| match is_done {
            true => condition_with(name, "False", "PodCompleted"),
            false => condition(name, ""),
        };
        let address = format!("10.244.0.{}", self.place % 250 + 2);
        json!({
            "phase": if is_done { "Succeeded" } else { "Running" },
            "conditions": [
                condition("PodScheduled", ""), condition("Initialized", ""), ready("ContainersReady"), ready("Ready"),
            ],
            "initContainerStatuses": containers("initContainers", &ended, true),
            "containerStatuses": containers("containers", if is_done { &ended } else { &runs }, !is_done),
            "hostIP": "10.0.0.1", "podIP": address, "podIPs": [{ "ip": address }], "startTime": TIME,
        })
    }
}

/// Returns a uid that depends on these texts alone.
fn uid(of: &[&str]) -> String {
    let digits = Digest::of(of.join("/").as_bytes()).digits(32);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}
