//! The CRD, made from the types in `api.rs`.
//!
//! v1 and v1alpha1 have the same fields and differ in the largest `size`, as in the tutorials, so the API server
//! converts between them by itself. v1beta1 has other fields, which the plugin converts (`conversion.rs`).
//!
//! Every status is written through v1, also that of an object whose size only v1beta1 allows: the API server then
//! validates the whole object against v1 and accepts the size, since it has not changed (ratcheting,
//! `CRDValidationRatcheting`).

use hotshoe_sdk::crd::{Column, CustomResource, Rule, Scale, Version};
use schemars::JsonSchema;
use serde_json::json;

use crate::api::{self, MemcachedSpec, MemcachedStatus, MemcachedV1beta1Spec};

/// The resource `memcacheds.cache.example.com`.
pub fn resource() -> CustomResource {
    CustomResource::new(api::GROUP, api::KIND)
        .short_names(["mc"])
        .description("A set of Memcached servers, reached through one Service.")
        .version(v1alpha1())
        .version(v1beta1().converted())
        .version(v1().stored())
}

// Rules instead of a maximum, because rules have messages.

fn v1alpha1() -> Version {
    let three = "spec.size in body should be less than or equal to 3 in v1alpha1; write apiVersion: cache.example.com/v1, which takes sizes up to 10";
    version::<MemcachedSpec>(api::V1ALPHA1, "Size", ".spec.size")
        .overlay("spec.size", json!({ "minimum": 1 }))
        .rule("spec.size", Rule::new("self <= 3").message(three))
}

fn v1beta1() -> Version {
    version::<MemcachedV1beta1Spec>(api::V1BETA1, "Replicas", ".spec.replicas")
}

fn v1() -> Version {
    let size = Rule::new("self >= 1 && self <= 10").message("Size must be between 1 and 10.");
    version::<MemcachedSpec>(api::VERSION, "Size", ".spec.size").rule("spec.size", size)
}

/// Builds a version whose number of servers has this column and is at this path.
fn version<Spec: JsonSchema>(name: &str, column: &str, path: &str) -> Version {
    Version::of::<Spec, MemcachedStatus>(name)
        .conditions("What was found when the Memcached was last decided about: Available, Progressing and Degraded, and in Ready, Reconciling and Stalled what tools that wait for it read.")
        .scale(Scale::new(path, ".status.replicas").selector(".status.selector"))
        .columns([
            Column::integer(column, path).description("The desired number of servers."),
            Column::integer("Ready", ".status.readyReplicas").description("The number of servers that are ready."),
            Column::condition("Available").description("Whether the desired number of servers is ready."),
            Column::age(),
        ])
}
