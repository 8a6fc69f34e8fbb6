//! The desired children: a headless Service and a StatefulSet.

use hotshoe_sdk::apply::apps_v1::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
    StatefulSetUpdateStrategy,
};
use hotshoe_sdk::apply::core_v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, Service, ServicePort, ServiceSpec, VolumeResourceRequirements,
};
use hotshoe_sdk::apply::meta_v1::LabelSelector;
use hotshoe_sdk::{Failure, Object};
use serde::{Deserialize, Serialize};

use crate::{
    api::{RedisSpec, RetentionPolicy, Storage},
    names,
    template::{PORT, PROTOCOL, REDIS, Template},
};

/// The annotation of the StatefulSet that holds [`Applied`].
pub(crate) const APPLIED: &str = "cache.example.com/applied";

/// The values that the plugin last gave the StatefulSet. A value in the StatefulSet that differs was changed by others.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Applied {
    pub(crate) replicas: i32,
    pub(crate) partition: i32,
    /// The digest of the template.
    pub(crate) template: String,
}

/// Builds the children. `size` is the size of the claims, which may lag behind the spec.
pub(crate) fn desired(
    name: &str,
    spec: &RedisSpec,
    template: Template,
    partition: i32,
    size: &str,
) -> Result<[Object; 2], Failure> {
    let applied = Applied { replicas: spec.replicas, partition, template: template.digest.clone() };
    let applied = serde_json::to_string(&applied)
        .map_err(|cause| Failure::other(format!("the annotation {APPLIED} cannot be written: {cause}")))?;
    let set = StatefulSet::new(name)
        .labels(names::labels(name))
        .annotations([(APPLIED, applied)])
        .spec(set(name, spec, template, partition, size));
    let service = Service::new(names::service(name)).labels(names::labels(name)).spec(service(name));
    Ok([service.into(), set.into()])
}

fn set(name: &str, spec: &RedisSpec, template: Template, partition: i32, size: &str) -> StatefulSetSpec {
    let rolling = RollingUpdateStatefulSetStrategy::new().partition(partition);
    StatefulSetSpec::new()
        .replicas(spec.replicas)
        .service_name(names::service(name))
        .selector(LabelSelector::new().match_labels(names::labels(name)))
        .template(template.pods)
        .pod_management_policy(spec.pod_management_policy.as_str())
        .update_strategy(StatefulSetUpdateStrategy::new().type_("RollingUpdate").rolling_update(rolling))
        .persistent_volume_claim_retention_policy(retention(&spec.persistent_volume_claim_retention_policy))
        .volume_claim_templates([claim(name, &spec.storage, size)])
}

fn retention(policy: &RetentionPolicy) -> StatefulSetPersistentVolumeClaimRetentionPolicy {
    StatefulSetPersistentVolumeClaimRetentionPolicy::new()
        .when_deleted(policy.when_deleted.as_str())
        .when_scaled(policy.when_scaled.as_str())
}

fn claim(name: &str, storage: &Storage, size: &str) -> PersistentVolumeClaim {
    let resources = VolumeResourceRequirements::new().requests([("storage", size)]);
    let claim = PersistentVolumeClaimSpec::new().access_modes(["ReadWriteOnce"]).resources(resources);
    let claim = match &storage.storage_class_name {
        Some(class) => claim.storage_class_name(class),
        None => claim,
    };
    PersistentVolumeClaim::new(names::CLAIM).labels(names::labels(name)).spec(claim)
}

/// Builds the Service that gives each server its own DNS name, `<name>-0.<name>-headless`.
fn service(name: &str) -> ServiceSpec {
    let port = ServicePort::new().name(REDIS).port(PORT).target_port(REDIS).protocol(PROTOCOL);
    ServiceSpec::new().cluster_ip("None").selector(names::labels(name)).ports([port])
}
