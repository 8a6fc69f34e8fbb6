//! The CRD, made from the types in `api.rs`.

use hotshoe_sdk::crd::{Column, CustomResource, Rule, Scale, Version};

use crate::api::{self, RedisSpec, RedisStatus};

/// The resource `redises.cache.example.com`.
pub fn resource() -> CustomResource {
    let version = Version::of::<RedisSpec, RedisStatus>(api::VERSION)
        .conditions("What was found when the Redis was last decided about: Available, Progressing and Degraded, and in Ready and Reconciling what tools that wait for it read.")
        .columns([
            Column::integer("Replicas", ".spec.replicas").description("The desired number of servers."),
            Column::integer("Ready", ".status.readyReplicas").description("The number of servers that are ready."),
            Column::integer("Updated", ".status.updatedReplicas")
                .description("The number of servers that run what the spec says."),
            Column::string("Image", ".spec.image").description("The image that the servers run."),
            Column::condition("Available").description("Whether all servers are ready."),
            Column::age(),
        ])
        .scale(Scale::new(".spec.replicas", ".status.replicas").selector(".status.selector"))
        .rule("", short_name())
        .rule("spec.podManagementPolicy", fixed("podManagementPolicy"))
        .rule("spec.storage", same_class())
        .rule("spec.storage.size", never_smaller());
    CustomResource::new(api::GROUP, api::KIND)
        .description("A number of Redis servers, each with a volume and a name of its own.")
        .version(version)
}

/// Limits the name, because the Pods' label `controller-revision-hash` consists of it and a hash.
fn short_name() -> Rule {
    Rule::new("self.metadata.name.size() <= 52").message("The name may have 52 characters at most.")
}

fn fixed(field: &str) -> Rule {
    Rule::new("self == oldSelf").message(&format!("{field} cannot change; create another Redis."))
}

fn same_class() -> Rule {
    let both = "has(self.storageClassName) == has(oldSelf.storageClassName)";
    let same = "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)";
    Rule::new(&format!("{both} && {same}")).message("storageClassName cannot change; create another Redis.")
}

fn never_smaller() -> Rule {
    Rule::new("quantity(self).compareTo(quantity(oldSelf)) >= 0")
        .message("The size of a volume cannot shrink; create another Redis with smaller volumes.")
}
