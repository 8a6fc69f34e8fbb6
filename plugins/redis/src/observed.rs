//! What the plugin reads from the StatefulSet, the Pods, the claims and the quotas around them.

use std::collections::BTreeMap;

use hotshoe_sdk::apply::apps_v1::StatefulSet;
use hotshoe_sdk::{Failure, Metadata, Request, Time};
use serde::Deserialize;

use crate::{
    Redis,
    children::{APPLIED, Applied},
    template::{REDIS, TEMPLATE},
};

/// The keys of the objects that are read and not owned.
pub(crate) const PODS: &str = "pods";
pub(crate) const CLAIMS: &str = "claims";
pub(crate) const QUOTAS: &str = "quotas";

/// The fields of [`SetView`].
pub(crate) const SET_FIELDS: &[&str] = &[
    "metadata.annotations",
    "spec.replicas",
    "spec.template.metadata.annotations",
    "spec.template.spec.containers",
    "spec.updateStrategy",
    "spec.volumeClaimTemplates",
    "status.observedGeneration",
    "status.replicas",
    "status.updateRevision",
];

/// The fields of [`Pod`].
pub(crate) const POD_FIELDS: &[&str] =
    &["metadata.labels", "status.conditions", "status.containerStatuses", "status.initContainerStatuses"];

/// The fields of [`Claim`].
pub(crate) const CLAIM_FIELDS: &[&str] = &["metadata.creationTimestamp", "spec.storageClassName", "status.phase"];

/// The fields of [`Quota`].
pub(crate) const QUOTA_FIELDS: &[&str] = &["spec.scopes", "spec.scopeSelector", "status.hard", "status.used"];

/// All that the plugin observes.
pub(crate) struct Observed {
    /// Absent until the StatefulSet exists.
    pub(crate) set: Option<Set>,
    /// By name.
    pub(crate) pods: BTreeMap<String, Pod>,
    /// By name.
    pub(crate) claims: BTreeMap<String, Claim>,
    /// All in the namespace.
    pub(crate) quotas: Vec<Quota>,
}

/// The StatefulSet.
#[derive(Default)]
pub(crate) struct Set {
    /// The desired number of servers, from its spec.
    pub(crate) replicas: i32,
    pub(crate) partition: i32,
    pub(crate) image: String,
    /// The digest of its template.
    pub(crate) template: String,
    /// What the plugin last gave it; absent where others removed the annotation.
    pub(crate) applied: Option<Applied>,
    /// The size in its claim template.
    pub(crate) claim_size: Option<String>,
    /// The revision of its template.
    pub(crate) update_revision: String,
    /// The number of existing servers, from its status.
    pub(crate) existing: i32,
    /// Whether its controller has observed the current generation.
    pub(crate) is_current: bool,
}

/// A Pod.
#[derive(Deserialize)]
pub(crate) struct Pod {
    metadata: PodMetadata,
    #[serde(default)]
    status: PodStatus,
}

/// A claim.
#[derive(Deserialize)]
pub(crate) struct Claim {
    metadata: ClaimMetadata,
    #[serde(default)]
    spec: ClaimSpec,
    #[serde(default)]
    status: ClaimStatus,
}

/// A quota.
#[derive(Deserialize)]
pub(crate) struct Quota {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: QuotaSpec,
    #[serde(default)]
    pub(crate) status: QuotaStatus,
}

impl Observed {
    pub(crate) fn of(request: &Request<Redis>) -> Result<Self, Failure> {
        let set = request.child_as::<StatefulSet, SetView>(request.name())?.map(Set::of);
        // The Pods of a StatefulSet of this name that is not our child may have the same labels.
        let pods: Vec<Pod> = if set.is_some() { request.related(PODS)? } else { Vec::new() };
        let claims: Vec<Claim> = request.related(CLAIMS)?;
        Ok(Self {
            set,
            pods: pods.into_iter().map(|pod| (pod.metadata.name.clone(), pod)).collect(),
            claims: claims.into_iter().map(|claim| (claim.metadata.name.clone(), claim)).collect(),
            quotas: request.related(QUOTAS)?,
        })
    }

    /// Returns the StorageClass of a pending claim, where the claim names one.
    pub(crate) fn pending_class(&self) -> Option<&str> {
        let mut pending = self.claims.values().filter(|claim| claim.is_pending());
        pending.find_map(Claim::class).filter(|class| !class.is_empty())
    }
}

impl Set {
    fn of(view: SetView) -> Self {
        let SetView { metadata, spec, status } = view;
        let redis = spec.template.spec.containers.into_iter().find(|container| container.name == REDIS);
        let claim = spec.volume_claim_templates.into_iter().next();
        Self {
            replicas: spec.replicas,
            partition: spec.update_strategy.rolling_update.partition,
            image: redis.map(|container| container.image).unwrap_or_default(),
            template: spec.template.metadata.annotations.get(TEMPLATE).cloned().unwrap_or_default(),
            applied: metadata.annotations.get(APPLIED).and_then(|text| serde_json::from_str(text).ok()),
            claim_size: claim.and_then(|mut claim| claim.spec.resources.requests.remove("storage")),
            update_revision: status.update_revision,
            existing: status.replicas,
            is_current: status.observed_generation == metadata.generation,
        }
    }
}

impl Pod {
    /// Returns since when the Pod has been ready; the outer option is absent where it is not ready, the inner one where
    /// the time does not parse.
    pub(crate) fn ready_since(&self) -> Option<Option<u64>> {
        let ready = self.condition("Ready").filter(|ready| ready.status == "True" && !self.is_going())?;
        Some(unix_millis(&ready.last_transition_time))
    }

    pub(crate) fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn has_revision(&self, revision: &str) -> bool {
        self.metadata.labels.get("controller-revision-hash").is_some_and(|own| own == revision)
    }

    /// Returns the scheduler's message where no node fits the Pod.
    pub(crate) fn unschedulable(&self) -> Option<&str> {
        let scheduled = self.condition("PodScheduled").filter(|scheduled| scheduled.status == "False")?;
        Some(&scheduled.message)
    }

    /// Returns a container that waits for something, with the reason and the message of its state.
    pub(crate) fn waiting(&self) -> Option<(&str, &str, &str)> {
        let all = self.status.init_container_statuses.iter().chain(&self.status.container_statuses);
        let mut waiting = all.filter_map(|container| Some((container, container.state.waiting.as_ref()?)));
        // A container with one of these reasons only waits for an earlier step.
        let (container, why) =
            waiting.find(|(_, why)| !["PodInitializing", "ContainerCreating"].contains(&why.reason.as_str()))?;
        Some((&container.name, &why.reason, &why.message))
    }

    fn condition(&self, name: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.name == name)
    }
}

impl Claim {
    pub(crate) fn is_pending(&self) -> bool {
        self.status.phase != "Bound"
    }

    pub(crate) fn class(&self) -> Option<&str> {
        self.spec.storage_class_name.as_deref()
    }

    pub(crate) fn created(&self) -> Option<u64> {
        unix_millis(&self.metadata.creation_timestamp)
    }
}

impl Quota {
    /// Whether the quota counts all Pods, and not only those in its scopes.
    pub(crate) fn is_unscoped(&self) -> bool {
        self.spec.scopes.is_empty() && self.spec.scope_selector.is_none()
    }
}

// Views with just the fields that are asked for.

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    name: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    conditions: Vec<PodCondition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodCondition {
    #[serde(rename = "type")]
    name: String,
    status: String,
    message: String,
    last_transition_time: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    name: String,
    state: ContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimMetadata {
    name: String,
    #[serde(default)]
    creation_timestamp: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    storage_class_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QuotaSpec {
    scopes: Vec<String>,
    scope_selector: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct QuotaStatus {
    pub(crate) hard: BTreeMap<String, String>,
    pub(crate) used: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct SetView {
    metadata: SetMetadata,
    #[serde(default)]
    spec: SetSpec,
    #[serde(default)]
    status: SetStatus,
}

#[derive(Deserialize)]
struct SetMetadata {
    generation: Option<i64>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SetSpec {
    replicas: i32,
    template: SetTemplate,
    update_strategy: SetStrategy,
    volume_claim_templates: Vec<SetClaim>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SetTemplate {
    metadata: SetTemplateMetadata,
    spec: SetTemplateSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SetTemplateMetadata {
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SetTemplateSpec {
    containers: Vec<SetContainer>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SetContainer {
    name: String,
    image: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SetStrategy {
    rolling_update: SetRollingUpdate,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SetRollingUpdate {
    partition: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SetClaim {
    spec: SetClaimSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SetClaimSpec {
    resources: SetClaimResources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SetClaimResources {
    requests: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SetStatus {
    observed_generation: Option<i64>,
    replicas: i32,
    update_revision: String,
}

/// Parses a time into milliseconds since the Unix epoch, as `now` counts; absent where the text is not a time since then.
fn unix_millis(text: &str) -> Option<u64> {
    u64::try_from(Time::parse(text)?.unix()).ok()?.checked_mul(1000)
}
