//! The CRD, made from the types in `api.rs`.

use hotshoe_sdk::crd::{Column, CustomResource, Version};
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::api::{self, IndexedJobSpec, IndexedJobStatus};

/// The resource `indexedjobs.batch.example.com`.
pub fn resource() -> CustomResource {
    let version = Version::of::<IndexedJobSpec, IndexedJobStatus>(api::VERSION)
        .conditions("What was found when the IndexedJob was last decided about: Complete.")
        .columns([
            Column::integer("Completions", ".spec.completions").description("The number of indexes."),
            Column::integer("Succeeded", ".status.succeeded").description("The number of Pods that succeeded."),
            Column::condition("Complete").description("Whether all have succeeded."),
            Column::age(),
        ]);
    CustomResource::new(api::GROUP, api::KIND)
        .description("Work that is done once for each index, a few at a time.")
        .version(version)
}

/// Returns the schema of a Pod template, which the API server checks when a Pod is made of it.
pub(crate) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
