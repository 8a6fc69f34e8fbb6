//! What the plugin asks the host for: as little as it can do with.

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
        // Whether anything has been said before; what comes and goes more often would have it asked more often.
        .parent_fields(&["status.nodes"])
        .owns::<Deployment>(&[Verb::Create, Verb::Update], observed::DEPLOYMENT_FIELDS)
        // That a Service is there is all the plugin needs to know of it.
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
