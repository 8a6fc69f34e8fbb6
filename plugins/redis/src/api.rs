//! The `Redis` resource. The names of its fields are those of a StatefulSet, so that a manifest of one is
//! rewritten line by line (see README.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The group of the resource.
pub const GROUP: &str = "cache.example.com";

/// The version that is stored and watched.
pub const VERSION: &str = "v1alpha1";

/// The kind of the resource.
pub const KIND: &str = "Redis";

/// A number of Redis servers, each with a volume of its own.
#[derive(Clone, Debug, Deserialize)]
pub struct Redis {
    /// The desired state.
    #[serde(default)]
    pub spec: RedisSpec,
}

/// The desired state of a Redis.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase", default)]
pub struct RedisSpec {
    /// The number of servers.
    #[cfg_attr(feature = "crd", schemars(range(min = 0, max = 100)))]
    pub replicas: i32,

    /// The image that the servers run.
    #[cfg_attr(feature = "crd", schemars(length(min = 1)))]
    pub image: String,

    /// What each server may use of its node, and what is set aside for it.
    pub resources: Resources,

    /// The volume of each server.
    pub storage: Storage,

    /// What runs before each server. Without it, the image of the server checks that the volume can be written.
    pub init_container: Option<InitContainer>,

    /// How long a server may take to write its data and end, in seconds.
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub termination_grace_period_seconds: i64,

    /// Whether servers start and end one after the other, in the order of their ordinals.
    pub pod_management_policy: PodManagementPolicy,

    /// How another image, or another change of the Pods, is rolled out.
    pub update_strategy: UpdateStrategy,

    /// What becomes of the claims of servers that are gone.
    pub persistent_volume_claim_retention_policy: RetentionPolicy,
}

/// The API server fills the defaults in; they stand here for the CRD and for objects that were
/// stored before a default existed.
impl Default for RedisSpec {
    fn default() -> Self {
        Self {
            replicas: 3,
            image: "redis:6.0".to_owned(),
            resources: Resources::of_a_server(),
            storage: Storage::default(),
            init_container: None,
            termination_grace_period_seconds: 30,
            pod_management_policy: PodManagementPolicy::default(),
            update_strategy: UpdateStrategy::default(),
            persistent_volume_claim_retention_policy: RetentionPolicy::default(),
        }
    }
}

/// What a container may use and what is set aside for it. Where it is given, it is given as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(default)]
pub struct Resources {
    /// What is set aside on the node.
    pub requests: BTreeMap<String, Amount>,

    /// What the container may use at most.
    pub limits: BTreeMap<String, Amount>,
}

impl Resources {
    fn of_a_server() -> Self {
        let amounts = |memory: &str, cpu: &str| {
            let amount = |name: &str, text: &str| (name.to_owned(), Amount(text.to_owned()));
            BTreeMap::from([amount("memory", memory), amount("cpu", cpu)])
        };
        Self { requests: amounts("256Mi", "250m"), limits: amounts("512Mi", "500m") }
    }
}

/// A quantity, such as `256Mi`, `250m` or 2.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(from = "TextOrNumber")]
pub struct Amount(pub String);

#[derive(Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(i64),
}

impl From<TextOrNumber> for Amount {
    fn from(written: TextOrNumber) -> Self {
        match written {
            TextOrNumber::Text(text) => Self(text),
            TextOrNumber::Number(number) => Self(number.to_string()),
        }
    }
}

/// The volume of each server.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase", default)]
pub struct Storage {
    /// The size of the volume. It cannot shrink.
    #[cfg_attr(
        feature = "crd",
        schemars(length(min = 1, max = 32), regex(pattern = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$"))
    )]
    pub size: String,

    /// The class of the volume; without it, the default class of the cluster. It cannot change.
    #[cfg_attr(feature = "crd", serde(skip_serializing_if = "Option::is_none"))]
    pub storage_class_name: Option<String>,
}

impl Default for Storage {
    fn default() -> Self {
        Self { size: "1Gi".to_owned(), storage_class_name: None }
    }
}

/// What runs before each server, on its volume.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
pub struct InitContainer {
    /// The image.
    #[cfg_attr(feature = "crd", schemars(length(min = 1)))]
    pub image: String,

    /// The command; without it, the one of the image.
    #[serde(default)]
    pub command: Vec<String>,
}

/// Whether servers start and end one after the other.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
pub enum PodManagementPolicy {
    /// One after the other, each once the one before it is ready.
    #[default]
    OrderedReady,
    /// All at once.
    Parallel,
}

impl PodManagementPolicy {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OrderedReady => "OrderedReady",
            Self::Parallel => "Parallel",
        }
    }
}

/// How a change of the Pods is rolled out: from the highest ordinal down, each once the one above it is ready.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// Only servers of this ordinal and above are updated.
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub partition: i32,

    /// For how long an updated server must have been ready before the next one is updated, in seconds.
    #[cfg_attr(feature = "crd", schemars(range(max = 3600)))]
    pub pause_seconds: u32,
}

/// What becomes of the claims of servers that are gone.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(rename_all = "camelCase", default)]
pub struct RetentionPolicy {
    /// Where the Redis is deleted.
    pub when_deleted: Retention,

    /// Where it has fewer servers than before.
    pub when_scaled: Retention,
}

/// Whether claims, and the data behind them, stay.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
pub enum Retention {
    /// They stay.
    #[default]
    Retain,
    /// They go, and the data with them.
    Delete,
}

impl Retention {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retain => "Retain",
            Self::Delete => "Delete",
        }
    }
}

/// The observed state of a Redis.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RedisStatus {
    /// The number of servers that are there.
    pub replicas: i32,

    /// The number of servers that are ready.
    pub ready_replicas: i32,

    /// The number of servers that run what the spec says.
    pub updated_replicas: i32,

    /// The label selector of the servers, as the scale subresource has it.
    pub selector: String,

    /// The ordinal from which on servers are updated at this stage of a rollout.
    pub partition: i32,

    /// Each server, by its ordinal.
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "atomic")))]
    pub ordinals: Vec<OrdinalStatus>,
}

/// How one server is.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct OrdinalStatus {
    /// Its number.
    pub ordinal: i32,

    /// The name of its Pod.
    pub pod: String,

    /// The name of its claim.
    pub claim: String,

    /// Whether it is ready.
    pub ready: bool,

    /// Whether it runs what the spec says.
    pub updated: bool,

    /// One word for how it is: Ready, or what it waits for.
    pub reason: String,

    /// What it waits for, and what to do; empty where it is ready.
    pub message: String,
}
