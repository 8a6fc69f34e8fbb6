//! The CRD, made from the types in `api.rs`.

use hotshoe_sdk::crd::{Column, CustomResource, Version};

use crate::api::{self, NginxServerSpec, NginxServerStatus};

/// The resource `nginxservers.web.example.com`.
pub fn resource() -> CustomResource {
    let version = Version::of::<NginxServerSpec, NginxServerStatus>(api::VERSION)
        .conditions("What was found when the NginxServer was last decided about: Available, and the same as Ready for tools that wait for it.")
        .columns([
            Column::integer("Replicas", ".spec.replicas").description("The desired number of servers."),
            Column::integer("Available", ".status.availableReplicas")
                .description("The number of servers that are available."),
            Column::string("Image", ".spec.image").description("The image that the servers run."),
            Column::age(),
        ]);
    CustomResource::new(api::GROUP, api::KIND)
        .short_names(["nginx"])
        .description("A number of nginx servers.")
        .version(version)
}
