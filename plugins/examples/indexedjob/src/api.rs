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
#[derive(Default, Serialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct IndexedJobStatus {
    /// The number of Pods that have not ended.
    pub active: usize,
    /// The number of Pods that succeeded.
    pub succeeded: usize,
    /// The number of Pods that failed. Delete one to have it made again.
    pub failed: usize,
}
