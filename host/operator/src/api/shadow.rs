//! The output of a shadow run: its lines, of which the last has the results in numbers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::status::RefusedComponent;
use hotshoe_core::compare::finalizers::FinalizerChange;
use hotshoe_core::compare::stored::StoredParents;
use hotshoe_core::compare::{Difference, Side};
use hotshoe_core::model::digest::Digest;
use hotshoe_sandbox::revision::Revision;

/// A line of the output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// A parent for which something would change, or the new revision would fail.
    Parent(Box<Difference>),
    /// The progress of the run.
    Progress {
        /// The number of parents that were compared.
        parents: usize,
        /// The number of all parents.
        of: usize,
    },
    /// The last line.
    Summary(Box<Summary>),
}

/// The summary of a shadow run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The plugin.
    pub plugin: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// How finalizers would change; none if both revisions have the same.
    pub finalizer: Option<FinalizerChange>,
    /// The active revision.
    pub old: Measured,
    /// The revision that was run in the shadow of the active one.
    pub new: Measured,
    /// How long the run took, without loading.
    pub seconds: f64,
    /// Why the run ended before all parents were compared.
    pub stopped: Option<String>,
    /// What admission and conversion would make of the stored parents.
    #[serde(default)]
    pub stored: StoredParents,
    /// Why a reload would not activate the new revision.
    #[serde(default)]
    pub refused: Option<RefusedComponent>,
}

/// The counts of parents, children and failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Parents for which the revisions were compared.
    pub parents: usize,
    /// Parents for which nothing would change.
    pub unchanged: usize,
    /// Parents for which something would change, without those for which only the new revision fails.
    pub changed: usize,
    /// How children would change.
    pub children: ChildCounts,
    /// Parents of which a child would be deleted.
    pub parents_losing_children: usize,
    /// Parents of which the status or a condition would change.
    pub status_changes: usize,
    /// Failures.
    pub failures: FailureCounts,
}

/// How children would change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildCounts {
    /// Children that would be created.
    pub created: usize,
    /// Children that would be written with another content.
    pub changed: usize,
    /// Children that would be deleted.
    pub deleted: usize,
    /// Children that would no longer be desired, but stay.
    pub left: usize,
}

/// Parents for which a revision fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCounts {
    /// Only the new revision fails.
    pub new: usize,
    /// Both revisions fail.
    pub both: usize,
    /// Only the old revision fails.
    pub fixed: usize,
}

impl Counts {
    /// Counts one parent.
    pub fn count(&mut self, old: &Side, new: &Side, difference: Option<&Difference>) {
        self.parents += 1;
        match (old, new) {
            (Side::Failed(_), Side::Failed(_)) => self.failures.both += 1,
            (_, Side::Failed(_)) => self.failures.new += 1,
            (Side::Failed(_), _) => self.failures.fixed += 1,
            _ => {}
        }
        let Some(difference) = difference else { return self.unchanged += 1 };
        // If the new revision fails, nothing would be written.
        if difference.breaks() {
            return;
        }
        self.changed += 1;
        self.children.created += difference.created.len();
        self.children.changed += difference.changed.len();
        self.children.deleted += difference.deleted.len();
        self.children.left += difference.left.len();
        self.parents_losing_children += usize::from(!difference.deleted.is_empty());
        self.status_changes += usize::from(difference.changes_status());
    }
}

/// A revision and the costs of its calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Its digest.
    pub digest: Digest,
    /// The version in its descriptor.
    pub version: String,
    /// The number of calls.
    pub calls: usize,
    /// The median time of a call, in microseconds.
    pub p50_micros: u32,
    /// The 99th percentile of the time of a call, in microseconds.
    pub p99_micros: u32,
    /// The longest time of a call, in microseconds.
    pub max_micros: u32,
    /// The most memory that a call used, in bytes.
    pub memory_bytes: usize,
}

impl Measured {
    /// Summarizes the calls of a revision.
    pub fn of(revision: &Revision, mut times: Times) -> Self {
        times.micros.sort_unstable();
        Self {
            digest: revision.digest(),
            version: revision.descriptor().version.clone(),
            calls: times.micros.len(),
            p50_micros: times.percentile(50),
            p99_micros: times.percentile(99),
            max_micros: times.percentile(100),
            memory_bytes: times.memory,
        }
    }
}

/// The times of calls, 4 bytes for each, and the most memory that one used.
#[derive(Clone, Debug, Default)]
pub struct Times {
    micros: Vec<u32>,
    memory: usize,
}

impl Times {
    /// Adds one call.
    pub fn add(&mut self, elapsed: Duration, memory: usize) {
        self.micros.push(u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX));
        self.memory = self.memory.max(memory);
    }

    /// Returns the time that `percent` of the calls do not exceed. The times must be sorted.
    fn percentile(&self, percent: usize) -> u32 {
        let rank = (self.micros.len() * percent).div_ceil(100);
        self.micros.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hotshoe_core::compare::Failed;

    #[test]
    fn a_parent_on_which_only_the_new_revision_fails_is_counted_as_a_failure_only() {
        let failed = Failed { reason: "Trapped".to_owned(), message: "it trapped".to_owned() };
        let parent = json!({ "kind": "Demo.example.com", "namespace": "n", "name": "a" });
        let difference = json!({ "parent": parent, "newFailure": failed });
        let difference: Difference = serde_json::from_value(difference).unwrap();
        let mut counts = Counts::default();
        counts.count(&Side::Idle, &Side::Failed(failed), Some(&difference));
        let failures = FailureCounts { new: 1, ..FailureCounts::default() };
        assert_eq!(counts, Counts { parents: 1, failures, ..Counts::default() });
    }

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let times = |micros: &[u32]| Times { micros: micros.to_vec(), memory: 0 };
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!([50, 99, 100].map(|percent| times(&hundred).percentile(percent)), [50, 99, 100]);
        assert_eq!([50, 99, 100].map(|percent| times(&[7]).percentile(percent)), [7, 7, 7]);
        assert_eq!(times(&[]).percentile(99), 0);
    }
}
