//! A namespace with a Redis in it, as a host would show it, and the little of the StatefulSet controller that rollouts
//! need.

use std::time::Duration;

use hotshoe_sdk::{
    Answer, Children, Condition, Decision, Failure, ObjectRef, Observation, Refusal, Related, ResourceKind, testing,
};
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use redis::Redis;
use serde_json::{Value, json};

/// 2026-01-01T00:00:00Z, when all claims were created and the first Pods became ready.
pub(crate) const CREATED: u64 = 1_767_225_600_000;
/// An hour later, when Pods that are made anew become ready.
pub(crate) const NOW: u64 = CREATED + 3_600_000;

const CREATED_TEXT: &str = "2026-01-01T00:00:00Z";
const NOW_TEXT: &str = "2026-01-01T01:00:00Z";

/// What there is, to be changed by each test.
pub(crate) struct World {
    pub(crate) name: String,
    pub(crate) spec: Value,
    pub(crate) set: Option<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) claims: Vec<Value>,
    pub(crate) quotas: Vec<Value>,
    /// What there is of the class that was asked for; absent where nothing was fetched.
    pub(crate) class: Option<Vec<Value>>,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) now: u64,
}

/// A decision, with its children and its status parsed.
pub(crate) struct Decided {
    decision: Decision,
    children: Vec<Value>,
    status: Value,
}

impl World {
    /// A Redis of which nothing is there yet.
    pub(crate) fn new(spec: Value) -> Self {
        Self {
            name: "redis".to_owned(),
            spec,
            set: None,
            pods: Vec::new(),
            claims: Vec::new(),
            quotas: Vec::new(),
            class: None,
            refusals: Vec::new(),
            now: NOW,
        }
    }

    /// A Redis of which everything is there and ready.
    pub(crate) fn running(spec: Value) -> Self {
        let mut world = Self::new(spec);
        world.apply();
        world.set_is_seen();
        let revision = world.revision();
        for number in 0..world.replicas() {
            world.pods.push(pod(number, &revision, CREATED_TEXT));
            world.claims.push(json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": { "name": format!("redis-data-redis-{number}"), "namespace": "shop", "creationTimestamp": CREATED_TEXT },
                "spec": { "storageClassName": "fast" },
                "status": { "phase": "Bound" },
            }));
        }
        world
    }

    pub(crate) fn decide(&self) -> Decided {
        match self.ask() {
            Ok(Answer::Decided(decision)) => Decided::of(decision),
            other => panic!("{other:?}"),
        }
    }

    /// The name of the class that is asked for.
    pub(crate) fn needs(&self) -> String {
        match self.ask() {
            Ok(Answer::Needs(needs)) => needs[0].name.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn fails(&self) -> Failure {
        self.ask().unwrap_err()
    }

    pub(crate) fn refuse(&mut self, group: &str, kind: &str, name: &str, reason: &str) {
        let kind = ResourceKind::new(group, "v1", kind);
        let reference = ObjectRef { kind, namespace: Some("shop".to_owned()), name: name.to_owned() };
        self.refusals.push(Refusal { reference, code: 409, reason: reason.to_owned(), message: "exists".to_owned() });
    }

    /// Applies the StatefulSet that is desired, as the host does, and returns its partition.
    pub(crate) fn apply(&mut self) -> i64 {
        let mut desired = self.decide().set().clone();
        let before = self.set.take().unwrap_or_else(|| json!({ "metadata": { "generation": 0 } }));
        let changes = before["spec"] != desired["spec"];
        let generation = before["metadata"]["generation"].as_i64().unwrap() + i64::from(changes);
        desired["metadata"]["generation"] = generation.into();
        desired["status"] = before["status"].clone();
        if desired["status"].is_null() {
            desired["status"] = json!({});
        }
        let partition = desired["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap();
        self.set = Some(desired);
        partition
    }

    /// Has the controller see the StatefulSet as it stands.
    pub(crate) fn set_is_seen(&mut self) {
        let (revision, replicas) = (self.revision(), self.replicas());
        let set = self.set.as_mut().unwrap();
        let generation = set["metadata"]["generation"].clone();
        set["status"] = json!({ "observedGeneration": generation, "replicas": replicas, "updateRevision": revision });
    }

    /// Has the controller see it and make the highest Pod anew that the partition lets it; the Pod is ready at once.
    /// Whether there was one.
    pub(crate) fn control(&mut self) -> bool {
        self.set_is_seen();
        let revision = self.revision();
        let set = self.set.as_ref().unwrap();
        let partition = set["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap();
        let outdated = |pod: &&mut Value| pod["metadata"]["labels"]["controller-revision-hash"] != *revision;
        let from = self.pods.iter_mut().skip(usize::try_from(partition).unwrap());
        let Some(highest) = from.filter(outdated).last() else { return false };
        let number = highest["metadata"]["name"].as_str().unwrap().trim_start_matches("redis-").parse().unwrap();
        *highest = pod(number, &revision, NOW_TEXT);
        true
    }

    /// Lets host and controller go on until nothing changes, and returns each state that was seen: the partition, and how
    /// many Pods had the newest revision.
    pub(crate) fn roll_out(&mut self) -> Vec<(i64, usize)> {
        let mut seen = Vec::new();
        loop {
            let before = self.set.clone();
            let partition = self.apply();
            let revision = self.revision();
            let updated = |pods: &[Value]| {
                pods.iter().filter(|pod| pod["metadata"]["labels"]["controller-revision-hash"] == *revision).count()
            };
            seen.push((partition, updated(&self.pods)));
            if self.control() {
                seen.push((partition, updated(&self.pods)));
            } else if before == self.set {
                break;
            }
            assert!(seen.len() < 100, "it does not settle: {seen:?}");
        }
        seen.dedup();
        seen
    }

    /// The revision of the template: as the controller makes one, another for another template.
    fn revision(&self) -> String {
        let set = self.set.as_ref().unwrap();
        let template = &set["spec"]["template"]["metadata"]["annotations"]["cache.example.com/template"];
        format!("redis-{}", template.as_str().unwrap())
    }

    fn replicas(&self) -> i64 {
        self.set.as_ref().unwrap()["spec"]["replicas"].as_i64().unwrap()
    }

    fn ask(&self) -> Result<Answer, Failure> {
        let related = |key: &str, objects: &[Value]| Related {
            key: key.to_owned(),
            objects: objects.iter().map(testing::object).collect(),
        };
        let class = self.class.iter().map(|found| {
            let objects: Vec<Value> = found
                .iter()
                .map(|_| json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "fast" } }))
                .collect();
            related("storageClass", &objects)
        });
        let declared = [related("pods", &self.pods), related("claims", &self.claims), related("quotas", &self.quotas)];
        hotshoe_sdk::reconcile::<Redis>(Observation {
            parent: testing::object(&json!({
                "apiVersion": "cache.example.com/v1alpha1", "kind": "Redis",
                "metadata": { "name": self.name, "namespace": "shop" }, "spec": self.spec,
            })),
            children: self.set.iter().map(testing::object).collect(),
            related: declared.into_iter().chain(class).collect(),
            refusals: self.refusals.clone(),
            config: "{}".to_owned(),
            now: Some(self.now),
            attempt: None,
        })
    }
}

fn pod(number: i64, revision: &str, ready_since: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("redis-{number}"), "namespace": "shop",
            "labels": { "controller-revision-hash": revision },
        },
        "status": { "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": ready_since }] },
    })
}

impl Decided {
    fn of(decision: Decision) -> Self {
        let Children::Exactly(children) = &decision.children else { panic!("the children are kept") };
        let children = children.iter().map(|child| Value::Object(child.whole().unwrap())).collect();
        let status = serde_json::from_str(decision.status.as_deref().unwrap()).unwrap();
        Self { decision, children, status }
    }

    pub(crate) fn child(&self, kind: &str) -> &Value {
        self.children.iter().find(|child| child["kind"] == kind).unwrap()
    }

    pub(crate) fn set(&self) -> &Value {
        self.child("StatefulSet")
    }

    pub(crate) fn status(&self) -> &Value {
        &self.status
    }

    pub(crate) fn requeue_after(&self) -> Option<Duration> {
        self.decision.requeue_after
    }
}

pub(crate) fn condition<'a>(decided: &'a Decided, name: &str) -> &'a Condition {
    decided.decision.conditions.iter().find(|condition| condition.name == name).unwrap()
}

/// Reason and message of each Event.
pub(crate) fn events(decided: &Decided) -> Vec<(String, String)> {
    decided.decision.events.iter().map(|event| (event.reason.clone(), event.message.clone())).collect()
}

/// Reason and message of one server.
pub(crate) fn ordinal(decided: &Decided, number: usize) -> (&'static str, String) {
    let ordinal = &decided.status["ordinals"][number];
    assert_eq!(ordinal["ordinal"], number);
    let text = |field: &str| ordinal[field].as_str().unwrap().to_owned();
    (text("reason").leak(), text("message"))
}

/// An object after Kubernetes' own types have read it: what they do not know is gone.
pub(crate) fn known<K: Serialize + DeserializeOwned>(object: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<K>(object.clone()).unwrap()).unwrap()
}
