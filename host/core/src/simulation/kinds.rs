//! The kinds of workloads: how many Pods an object of each has, which of them are replaced, and by what they are known.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::digest::Digest;
use crate::model::kind::ObjectRef;

/// The label by which a Deployment knows the Pods of a template.
pub(super) const TEMPLATE_HASH: &str = "pod-template-hash";
/// The label by which a StatefulSet or DaemonSet knows the Pods of a template.
pub(super) const REVISION_HASH: &str = "controller-revision-hash";
/// The label by which a Job knows its Pods.
pub(super) const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The label and annotation of the Pods of a Job of which each has an index.
pub(super) const JOB_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The letters of names that Kubernetes makes.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many texts of five letters there are.
const ALL: u32 = 27_u32.pow(5);

/// The kinds that have Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
}

impl Kind {
    pub(super) fn of(reference: &ObjectRef) -> Option<Self> {
        match (&*reference.kind.group, &*reference.kind.kind) {
            ("apps", "Deployment") => Some(Self::Deployment),
            ("apps", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps", "StatefulSet") => Some(Self::StatefulSet),
            ("apps", "DaemonSet") => Some(Self::DaemonSet),
            ("batch", "Job") => Some(Self::Job),
            _ => None,
        }
    }

    /// Returns the places of the Pods that an object of this kind is to have. A DaemonSet has one, on the only node.
    pub(super) fn places(self, object: &Value) -> Range<u64> {
        match self {
            Self::Deployment | Self::ReplicaSet => 0..replicas(object),
            Self::StatefulSet => {
                let start = number(object, "/spec/ordinals/start").unwrap_or(0);
                start..start.saturating_add(replicas(object))
            }
            Self::DaemonSet => 0..1,
            Self::Job if object.pointer("/spec/suspend") == Some(&json!(true)) => 0..0,
            Self::Job => 0..completions(object),
        }
    }

    /// Returns the first place of which a Pod is replaced when the template changes; none if no Pod is.
    pub(super) fn replaced_from(self, object: &Value) -> Option<u64> {
        let is_on_delete = object.pointer("/spec/updateStrategy/type") == Some(&json!("OnDelete"));
        match self {
            Self::Deployment => Some(0),
            Self::StatefulSet | Self::DaemonSet if is_on_delete => None,
            Self::DaemonSet => Some(0),
            Self::StatefulSet => {
                let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
                Some(partition.saturating_add(self.places(object).start))
            }
            Self::ReplicaSet | Self::Job => None,
        }
    }
}

/// Returns the number of Pods of which each does the work of a Job once.
pub(super) fn completions(object: &Value) -> u64 {
    number(object, "/spec/completions").or_else(|| number(object, "/spec/parallelism")).unwrap_or(1)
}

pub(super) fn replicas(object: &Value) -> u64 {
    number(object, "/spec/replicas").unwrap_or(1)
}

fn number(object: &Value, pointer: &str) -> Option<u64> {
    object.pointer(pointer).and_then(Value::as_u64)
}

/// A template under a name.
#[derive(Debug, PartialEq)]
pub(super) struct Revision {
    pub(super) name: Arc<str>,
    pub(super) template: Value,
    /// How many there were, with it.
    pub(super) number: u64,
    pub(super) bytes: usize,
}

impl Revision {
    pub(super) fn new(kind: Kind, workload: &ObjectRef, template: &Value, name: Option<Arc<str>>) -> Self {
        let text = template.to_string();
        let name = name.unwrap_or_else(|| {
            let digest = Digest::of(text.as_bytes());
            let hash = letters(digest.remainder(ALL), 5) + &letters(digest.and(b"more").remainder(ALL), 5);
            if kind == Kind::StatefulSet { format!("{}-{hash}", workload.name).into() } else { hash.into() }
        });
        Self { name, template: template.clone(), number: 1, bytes: text.len() }
    }
}

/// Returns whether each Pod of a Job has an index.
pub(super) fn is_indexed(job: &Value) -> bool {
    job.pointer("/spec/completionMode") == Some(&json!("Indexed"))
}

/// Returns a number as so many letters.
pub(super) fn letters(mut number: u32, count: usize) -> String {
    let mut letter = || {
        let place = (number % 27) as usize;
        number /= 27;
        LETTERS.get(place).map_or('b', |letter| char::from(*letter))
    };
    (0..count).map(|_| letter()).collect()
}
