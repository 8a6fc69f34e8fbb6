//! The `IndexedJob` resource.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The group of the resource.
pub const GROUP: &str = "batch.example.com";

/// The version of the resource.
pub const VERSION: &str = "v1";

/// The kind of the resource.
pub const KIND: &str = "IndexedJob";

/// Work that is done once for each index.
#[derive(Deserialize)]
pub struct IndexedJob {
    /// The desired state.
    pub spec: IndexedJobSpec,
    /// The observed state, as it was written last.
    #[serde(default)]
    pub status: Stored,
}

/// The desired state of an IndexedJob.
#[derive(Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
pub struct IndexedJobSpec {
    /// The number of indexes, which begin with 0.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 500)))]
    #[serde(default = "one")]
    pub completions: usize,

    /// How many Pods run at the same time.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 500)))]
    #[serde(default = "one")]
    pub parallelism: usize,

    /// The Pod of an index. Each of its containers has the index in the variable JOB_INDEX.
    #[cfg_attr(feature = "crd", schemars(schema_with = "crate::crd::anything"))]
    pub template: Value,
}

fn one() -> usize {
    1
}

/// The observed state of an IndexedJob.
#[derive(Default, Deserialize, Serialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct IndexedJobStatus {
    /// The number of Pods that have not ended.
    pub active: usize,
    /// The number of Pods that succeeded.
    pub succeeded: usize,
    /// The number of Pods that failed. Delete one to have it made again.
    pub failed: usize,
}

/// A stored status with its conditions.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Stored {
    /// What the plugin wrote last.
    #[serde(flatten)]
    pub counted: IndexedJobStatus,
    /// The conditions of the object.
    pub conditions: Vec<StoredCondition>,
}

/// A condition of a stored status.
#[derive(Deserialize)]
pub struct StoredCondition {
    #[serde(rename = "type")]
    name: String,
    status: String,
}

impl Stored {
    /// Returns whether all indexes have succeeded already.
    pub fn is_complete(&self) -> bool {
        self.conditions.iter().any(|condition| condition.name == "Complete" && condition.status == "True")
    }
}
