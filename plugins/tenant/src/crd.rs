//! The CRD, made from the types in `lib.rs`. It is cluster-scoped.

use hotshoe_sdk::crd::{Column, CustomResource, Version};
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::{TenantSpec, TenantStatus};

/// The resource `tenants.platform.example.com`.
pub fn resource() -> CustomResource {
    let version = Version::of::<TenantSpec, TenantStatus>("v1alpha1")
        .conditions("What was found when the Tenant was last decided about: Ready.")
        .columns([Column::condition("Ready").description("Whether all its namespaces have both."), Column::age()]);
    CustomResource::new("platform.example.com", "Tenant")
        .description("A tenant, to whom some namespaces belong.")
        .cluster_scoped()
        .version(version)
}

/// Returns the schema of quantities by resource name: numbers, or texts such as `500m`.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "maxProperties": 50, "additionalProperties": { "x-kubernetes-int-or-string": true } })
}
