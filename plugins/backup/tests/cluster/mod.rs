//! A cluster with one Backup that does as the plugin says: Jobs that are desired are made, those that are not are
//! deleted, and the status is kept. Its clock is set by the test.

use std::collections::BTreeMap;

use backup::Backup;
use hotshoe_sdk::{
    Answer, Children, Cleanup, Decision, Failure, Object, ObjectRef, Observation, Refusal, ResourceKind, Status, Time,
};
use serde_json::{Value, json};

pub const HOUR: i64 = 3600;
pub const DAY: i64 = 24 * HOUR;
/// `2026-01-01T00:00:00Z`, when the Backup is created.
pub const START: i64 = 1_767_225_600;

pub struct Cluster {
    pub name: String,
    pub now: i64,
    pub millis: u64,
    pub spec: Value,
    pub generation: i64,
    pub status: Value,
    /// When the deletion of the Backup began.
    pub deleted: Option<i64>,
    pub jobs: BTreeMap<String, Value>,
    /// How many Jobs were made.
    pub made: usize,
    /// Reason and words of an API server that refuses to make any.
    pub refusal: Option<(String, String)>,
    refusals: Vec<Refusal>,
    last: Option<Decision>,
    /// The reasons of all Events.
    pub events: Vec<String>,
}

impl Cluster {
    pub fn new() -> Self {
        Self {
            name: "shop".to_owned(),
            now: START,
            millis: 0,
            spec: json!({ "command": ["true"] }),
            generation: 1,
            status: json!({}),
            deleted: None,
            jobs: BTreeMap::new(),
            made: 0,
            refusal: None,
            refusals: Vec::new(),
            last: None,
            events: Vec::new(),
        }
    }

    pub fn change(&mut self, change: &Value) {
        for (key, value) in change.as_object().unwrap() {
            self.spec[key] = value.clone();
        }
    }

    pub fn pass_time(&mut self, seconds: i64) {
        self.now += seconds;
    }

    pub fn refuse(&mut self, reason: &str, words: &str) {
        self.refusal = Some((reason.to_owned(), words.to_owned()));
    }

    /// What the plugin says of what is there.
    pub fn ask(&self) -> Result<Answer, Failure> {
        hotshoe_sdk::reconcile::<Backup>(self.observation())
    }

    fn observation(&self) -> Observation {
        let metadata = json!({
            "name": self.name, "namespace": "ns", "generation": self.generation,
            "creationTimestamp": Time::from_unix(START).to_string(),
            "deletionTimestamp": self.deleted.map(|at| Time::from_unix(at).to_string()),
        });
        let parent = json!({ "metadata": metadata, "spec": self.spec, "status": self.status });
        Observation {
            parent: object("batch.example.com", "v1alpha1", "Backup", &self.name, &parent),
            children: self.jobs.iter().map(|(name, job)| object("batch", "v1", "Job", name, job)).collect(),
            related: Vec::new(),
            refusals: self.refusals.clone(),
            config: "{}".to_owned(),
            now: Some(u64::try_from(self.now).unwrap() * 1000 + self.millis),
            attempt: None,
        }
    }

    pub fn delete(&mut self) {
        self.deleted = Some(self.now);
        self.generation += 1;
    }

    /// Cleans up once, as the plugin says. Returns whether it is done.
    pub fn clean_up(&mut self) -> bool {
        match hotshoe_sdk::finalize::<Backup>(self.observation()).unwrap() {
            Cleanup::Waiting(decision) => {
                self.carry_out(decision);
                false
            }
            Cleanup::Done(decision) => {
                let may_create = children(&decision).iter().any(|child| !self.jobs.contains_key(&child.reference.name));
                assert!(!may_create, "a clean-up that is done creates nothing: {decision:?}");
                if decision.status.is_some() {
                    self.carry_out(decision);
                }
                true
            }
        }
    }

    /// Decides once, and does as the decision says.
    pub fn decide(&mut self) -> Decision {
        let Ok(Answer::Decided(decision)) = self.ask() else { panic!("{:?}", self.ask()) };
        self.carry_out(decision.clone());
        decision
    }

    fn carry_out(&mut self, decision: Decision) {
        if let Children::Exactly(children) = &decision.children {
            self.jobs.retain(|name, _| children.iter().any(|child| child.reference.name == *name));
            children.iter().for_each(|child| self.make(child));
        }
        self.status = serde_json::from_str(decision.status.as_deref().unwrap()).unwrap();
        self.events.extend(decision.events.iter().map(|event| event.reason.clone()));
        self.last = Some(decision);
    }

    /// A Job that is there is left alone.
    fn make(&mut self, child: &Object) {
        let name = &child.reference.name;
        if self.jobs.contains_key(name) {
            return;
        }
        assert_ne!(child.json, "{}", "a Job that is not there cannot be kept");
        if let Some((reason, message)) = self.refusal.clone() {
            self.refusals = vec![Refusal { reference: child.reference.clone(), code: 403, reason, message }];
            return;
        }
        self.refusals.clear();
        let job = child.whole().unwrap();
        self.jobs.insert(name.clone(), Value::Object(job));
        self.made += 1;
        let running = self.jobs.values().filter(|job| job.get("status").is_none()).count();
        assert_eq!(running, 1, "two runs at once");
    }

    /// Decides until nothing changes any more.
    pub fn settle(&mut self) -> Decision {
        for _ in 0..10 {
            let before = (self.status.clone(), self.jobs.clone(), self.refusals.clone());
            let decision = self.decide();
            if before == (self.status.clone(), self.jobs.clone(), self.refusals.clone()) {
                return decision;
            }
        }
        panic!("it comes to no end: {}", self.status);
    }

    /// Has every run end that is under way.
    pub fn finish_all(&mut self, succeeds: bool) {
        let at = Time::from_unix(self.now).to_string();
        for job in self.jobs.values_mut().filter(|job| job.get("status").is_none()) {
            let (name, reason) = if succeeds { ("Complete", "") } else { ("Failed", "BackoffLimitExceeded") };
            let condition = json!({ "type": name, "status": "True", "reason": reason, "lastTransitionTime": at });
            job["status"] = json!({ "conditions": [condition] });
            if succeeds {
                job["status"]["completionTime"] = at.as_str().into();
            }
        }
    }

    /// Has a run begin and end.
    pub fn run_once(&mut self, succeeds: bool) {
        let before = self.made;
        self.settle();
        assert_eq!(self.made, before + 1, "no run began: {}", self.status);
        self.finish_all(succeeds);
    }

    pub fn condition(&self, name: &str) -> (Status, String) {
        let conditions = &self.last.as_ref().unwrap().conditions;
        let found = conditions.iter().find(|condition| condition.name == name);
        let found = found.unwrap_or_else(|| panic!("no condition {name} in {conditions:?}"));
        (found.status, found.reason.clone())
    }

    pub fn has_condition(&self, name: &str) -> bool {
        self.last.as_ref().unwrap().conditions.iter().any(|condition| condition.name == name)
    }

    /// A time in the status, in seconds since the Unix epoch.
    pub fn time(&self, field: &str) -> i64 {
        let text = self.status[field].as_str().unwrap_or_else(|| panic!("no {field} in {}", self.status));
        Time::parse(text).unwrap().unix()
    }
}

pub fn children(decision: &Decision) -> Vec<Object> {
    match &decision.children {
        Children::Exactly(children) => children.clone(),
        Children::Keep => Vec::new(),
    }
}

fn object(group: &str, version: &str, kind: &str, name: &str, json: &Value) -> Object {
    let kind = ResourceKind::new(group, version, kind);
    let reference = ObjectRef { kind, namespace: Some("ns".to_owned()), name: name.to_owned() };
    Object { reference, json: json.to_string() }
}
