//! The CRD, made from the types in `api.rs`.
//!
//! Both versions have the same fields and differ in the largest `size`, as in the tutorials, so
//! conversion is `None`. Every status is written through v1alpha1, also that of an object whose
//! size only v1 allows: the API server then validates the whole object against v1alpha1 and accepts
//! the size, since it has not changed (ratcheting, `CRDValidationRatcheting`).

use hotshoe_sdk::crd::{Column, CustomResource, Rule, Scale, Version};
use serde_json::json;

use crate::api::{self, MemcachedSpec, MemcachedStatus};

/// The resource `memcacheds.cache.example.com`.
pub fn resource() -> CustomResource {
    // Rules instead of a maximum, because rules have messages.
    let three = "spec.size in body should be less than or equal to 3 in v1alpha1; write apiVersion: cache.example.com/v1, which takes sizes up to 10";
    let up_to_three = version(api::VERSION)
        .overlay("spec.size", json!({ "minimum": 1 }))
        .rule("spec.size", Rule::new("self <= 3").message(three));
    let size = Rule::new("self >= 1 && self <= 10").message("Size must be between 1 and 10.");
    CustomResource::new(api::GROUP, api::KIND)
        .short_names(["mc"])
        .description("A set of Memcached servers, reached through one Service.")
        .version(up_to_three.stored())
        .version(version("v1").rule("spec.size", size))
}

fn version(name: &str) -> Version {
    Version::of::<MemcachedSpec, MemcachedStatus>(name)
        .conditions("What was found when the Memcached was last decided about: Available, Progressing and Degraded, and in Ready, Reconciling and Stalled what tools that wait for it read.")
        .scale(Scale::new(".spec.size", ".status.replicas").selector(".status.selector"))
        .columns([
            Column::integer("Size", ".spec.size").description("The desired number of servers."),
            Column::integer("Ready", ".status.readyReplicas").description("The number of servers that are ready."),
            Column::condition("Available").description("Whether the desired number of servers is ready."),
            Column::age(),
        ])
}
