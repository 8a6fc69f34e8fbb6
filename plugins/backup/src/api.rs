//! The `Backup` resource. The CRD is printed from these types, so their comments are what `kubectl explain` shows.

use hotshoe_sdk::Time;
use serde::{Deserialize, Serialize};

/// The group of the resource.
pub const GROUP: &str = "batch.example.com";

/// The version that is stored and watched.
pub const VERSION: &str = "v1alpha1";

/// The kind of the resource.
pub const KIND: &str = "Backup";

/// A backup that is made every so many seconds.
#[derive(Clone, Debug, Deserialize)]
pub struct Backup {
    /// Of the metadata, what the plugin reads.
    #[serde(default)]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(default)]
    pub spec: BackupSpec,
    /// The status as it was written last.
    #[serde(default)]
    pub status: BackupStatus,
}

/// Of the metadata, what the plugin reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Raised by every change of the spec.
    pub generation: i64,
    /// When it was created: the first run is due at once.
    pub creation_timestamp: Time,
    /// When its deletion began: the time of the last run.
    pub deletion_timestamp: Option<Time>,
}

/// The desired state of a Backup.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase", default)]
pub struct BackupSpec {
    /// A run begins every so many seconds, the first one at once. There is never more than one at a time: one
    /// that takes longer than the interval delays the next.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 31_536_000)))]
    pub interval_seconds: i64,

    /// Whether no run begins. One that is under way goes on.
    pub suspend: bool,

    /// Whether a last run is made when the Backup is deleted: it goes once that run has ended, well or not. Not while
    /// it is suspended, and not in a namespace that is being deleted.
    pub final_run: bool,

    /// The image that a run's container runs.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 1024)))]
    pub image: String,

    /// The command of a run. It finds the variables BACKUP_NAME, the name of the run, and BACKUP_TIME, the time
    /// for which it was scheduled. Left out, the run writes all files of the source into an archive of its name in
    /// the target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "crd", schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic")))]
    pub command: Vec<String>,

    /// What is backed up: mounted at /source, read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "Claim"))]
    pub source: Option<Claim>,

    /// Where the backup goes: mounted at /target.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "Claim"))]
    pub target: Option<Claim>,

    /// The user of a run, by number: one who may read the source and write to the target.
    #[cfg_attr(feature = "crd", schemars(range(min = 0, max = 2_147_483_647)))]
    pub run_as_user: i64,

    /// How many finished runs are kept.
    pub history_limit: HistoryLimit,

    /// What is done about a run that fails.
    pub failure: FailurePolicy,
}

impl Default for BackupSpec {
    fn default() -> Self {
        Self {
            interval_seconds: 3600,
            suspend: false,
            final_run: false,
            image: "busybox:1.37".to_owned(),
            command: Vec::new(),
            source: None,
            target: None,
            run_as_user: 65_534,
            history_limit: HistoryLimit::default(),
            failure: FailurePolicy::default(),
        }
    }
}

/// A PersistentVolumeClaim in the namespace of the Backup.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The name of the PersistentVolumeClaim.
    #[cfg_attr(feature = "crd", schemars(length(min = 1, max = 253)))]
    pub claim_name: String,
}

/// How many finished runs are kept. The last run is always among them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryLimit {
    /// The number of runs that succeeded.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 100)))]
    pub successful: i64,
    /// The number of runs that failed.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 100)))]
    pub failed: i64,
}

impl Default for HistoryLimit {
    fn default() -> Self {
        Self { successful: 3, failed: 1 }
    }
}

/// What is done about a run that fails.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase", default)]
pub struct FailurePolicy {
    /// A run that takes longer has failed. Left out, a run may take as long as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "i64", range(min = 1, max = 31_536_000)))]
    pub deadline_seconds: Option<i64>,
    /// When a run that failed is tried again, and how often.
    pub retry: Retry,
}

/// When a run that failed is tried again, and how often.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase", default)]
pub struct Retry {
    /// Before the second try; twice as long before each later one. The next regular run comes first where it is
    /// due sooner, and counts as a try.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 31_536_000)))]
    pub base_delay_seconds: i64,
    /// The longest that it grows to.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 31_536_000)))]
    pub max_delay_seconds: i64,
    /// After so many tries in a row that failed, no run begins until the spec changes.
    #[cfg_attr(feature = "crd", schemars(range(min = 1, max = 1000)))]
    pub max_tries: i64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { base_delay_seconds: 30, max_delay_seconds: 600, max_tries: 5 }
    }
}

/// The observed state of a Backup.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackupStatus {
    /// The generation that this status is about.
    #[cfg_attr(feature = "crd", schemars(with = "i64"))]
    pub observed_generation: Option<i64>,

    /// The Job of the run that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "String"))]
    pub active: Option<String>,

    /// The Job of the run that was made because the Backup is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "String"))]
    pub final_job: Option<String>,

    /// The time for which the last run was scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "String", extend("format" = "date-time")))]
    pub last_run_time: Option<Time>,

    /// When the last successful run was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "String", extend("format" = "date-time")))]
    pub last_successful_time: Option<Time>,

    /// When the next run is due. Absent while none is: the Backup is suspended or stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "String", extend("format" = "date-time")))]
    pub next_run_time: Option<Time>,

    /// How many tries in a row have failed.
    #[cfg_attr(feature = "crd", schemars(with = "i64"))]
    pub failed_tries: Option<i64>,
}
