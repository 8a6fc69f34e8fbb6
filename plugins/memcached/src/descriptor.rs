//! What the plugin asks the host for: only what it needs.

use hotshoe_sdk::apply::{
    apps_v1::Deployment,
    core_v1::{Pod, Service},
};
use hotshoe_sdk::{Descriptor, MatchRule, ResourceKind, Verb};

use crate::{api, names, observed};

const FINALIZER: &str = "cache.example.com/finalizer";

pub(crate) fn describe() -> Descriptor {
    let parent = ResourceKind::new(api::GROUP, api::VERSION, api::KIND);
    Descriptor::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), parent)
        // The second shows whether a status was written before. A field that changes more often would cause more calls.
        .parent_fields(&["metadata.annotations['cache.example.com/ports']", "status.nodes"])
        .owns::<Deployment>(&[Verb::Create, Verb::Update], observed::DEPLOYMENT_FIELDS)
        // No fields: the plugin only needs to know whether the Service exists.
        .owns::<Service>(&[Verb::Create, Verb::Update], &[])
        .reads::<Pod>(
            observed::PODS,
            "app=memcached,app.kubernetes.io/part-of=memcached-operator",
            MatchRule::parent_label(names::INSTANCE),
            &[],
        )
        .finalizer(FINALIZER)
        .config_schema(api::CONFIG_SCHEMA)
}
