//! What the plugin reads from the Deployment, the Service and the Pods.

use std::collections::BTreeMap;

use hotshoe_sdk::apply::{apps_v1::Deployment, core_v1::Service};
use hotshoe_sdk::{Failure, Metadata, Request};
use serde::{Deserialize, de::IgnoredAny};

use crate::{Memcached, names};

/// The key of the read that shows the Pods.
pub(crate) const PODS: &str = "pods";

/// The fields of [`DeploymentView`].
pub(crate) const DEPLOYMENT_FIELDS: &[&str] = &[
    "spec.replicas",
    "spec.selector",
    "status.observedGeneration",
    "status.readyReplicas",
    "status.replicas",
    "status.updatedReplicas",
];

/// The observed children of one custom resource.
pub(crate) struct Observed {
    /// Absent until the Deployment exists.
    pub(crate) rollout: Option<Rollout>,
    pub(crate) has_service: bool,
    /// The names of the Pods, sorted, without those that are being deleted.
    pub(crate) nodes: Vec<String>,
}

/// How far the rollout of the Deployment is.
pub(crate) struct Rollout {
    selector: SelectorView,
    /// The desired number of servers, from the Deployment's spec.
    pub(crate) desired: i32,
    pub(crate) ready: i32,
    updated: i32,
    /// All servers, those of older generations included.
    total: i32,
    /// Whether the numbers are about the current generation of the Deployment and not an older one.
    is_current: bool,
}

impl Observed {
    pub(crate) fn of(request: &Request<Memcached>) -> Result<Self, Failure> {
        let deployment = request.child_as::<Deployment, DeploymentView>(request.name())?;
        // The Pods of a Deployment of this name that is not our child have the same labels.
        let pods = if deployment.is_some() { request.related(PODS)? } else { Vec::new() };
        Ok(Self {
            rollout: deployment.map(Rollout::of),
            has_service: request.has_child::<Service>(&names::service(request.name())),
            nodes: nodes(pods),
        })
    }

    pub(crate) fn ready(&self) -> i32 {
        self.rollout.as_ref().map_or(0, |rollout| rollout.ready)
    }
}

impl Rollout {
    fn of(deployment: DeploymentView) -> Self {
        let DeploymentView { metadata, spec, status } = deployment;
        Self {
            selector: spec.selector,
            desired: spec.replicas,
            ready: status.ready_replicas,
            updated: status.updated_replicas,
            total: status.replicas,
            is_current: status.observed_generation == metadata.generation,
        }
    }

    /// Whether the Deployment has the selector that the plugin gives it. A selector is set once
    /// and for all when a Deployment is created.
    pub(crate) fn selects(&self, selector: &BTreeMap<String, String>) -> bool {
        self.selector.match_labels == *selector && self.selector.match_expressions.is_empty()
    }

    /// Whether the desired number of servers is ready. The numbers may be those of an older generation: the
    /// last change need not affect the servers that are ready.
    pub(crate) fn is_available(&self, size: i32) -> bool {
        self.ready == size
    }

    pub(crate) fn is_complete(&self, size: i32) -> bool {
        let all = [self.desired, self.ready, self.updated, self.total];
        self.is_current && all.iter().all(|count| *count == size)
    }
}

fn nodes(pods: Vec<PodView>) -> Vec<String> {
    let mut nodes: Vec<String> = pods
        .into_iter()
        .map(|pod| pod.metadata)
        .filter(|metadata| metadata.deletion_timestamp.is_none())
        .map(|metadata| metadata.name)
        .collect();
    nodes.sort_unstable();
    nodes
}

// Views with just the fields that are asked for: the full types would make the component several
// times larger.

#[derive(Deserialize)]
struct PodView {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct DeploymentView {
    metadata: Metadata,
    #[serde(default)]
    spec: SpecView,
    #[serde(default)]
    status: StatusView,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecView {
    replicas: i32,
    selector: SelectorView,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorView {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusView {
    observed_generation: Option<i64>,
    ready_replicas: i32,
    replicas: i32,
    updated_replicas: i32,
}
