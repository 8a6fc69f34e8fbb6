//! Keeps a NetworkPolicy in each Namespace with the label `network.example.com/default-deny`. The label's value,
//! `ingress`, `egress` or `all`, says which traffic of the Pods is denied unless another policy allows it.

use std::collections::BTreeMap;

use hotshoe_sdk::apply::meta_v1::LabelSelector;
use hotshoe_sdk::apply::networking_v1::{NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPort, NetworkPolicySpec};
use hotshoe_sdk::{Answer, Decision, Descriptor, Failure, Reconciler, Request, ResourceKind, Verb};
use serde::Deserialize;

const LABEL: &str = "network.example.com/default-deny";

/// The plugin.
pub struct DefaultDeny;

/// The fields of the Namespace that the plugin reads.
#[derive(Deserialize)]
pub struct Namespace {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl Reconciler for DefaultDeny {
    type Parent = Namespace;
    type Config = ();

    fn describe() -> Descriptor {
        let namespaces = ResourceKind::new("", "v1", "Namespace");
        Descriptor::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), namespaces)
            .parent_fields(&["metadata.labels"])
            .owns::<NetworkPolicy>(&[Verb::Create, Verb::Update, Verb::Delete], &[])
    }

    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
        let types: &[&str] = match request.parent.metadata.labels.get(LABEL).map(String::as_str) {
            Some("ingress") => &["Ingress"],
            Some("egress") => &["Egress"],
            Some("all") => &["Ingress", "Egress"],
            other => {
                let message = format!("{:?} is none of ingress, egress and all", other.unwrap_or_default());
                return Err(Failure::reject_field(format!("metadata.labels[{LABEL}]"), message));
            }
        };
        let spec = NetworkPolicySpec::new().pod_selector(LabelSelector::new()).policy_types(types.iter().copied());
        let spec = if types.contains(&"Egress") { spec.egress([name_resolution()]) } else { spec };
        // A child that names no namespace is created in the Namespace that is its parent.
        Ok(Answer::Decided(Decision::exactly([NetworkPolicy::new("default-deny").spec(spec).into()])))
    }
}

/// Allows DNS. Without it, a policy that allows traffic to a host would not help clients that look the host up by name.
fn name_resolution() -> NetworkPolicyEgressRule {
    let ports = ["UDP", "TCP"].map(|protocol| NetworkPolicyPort::new().protocol(protocol).port(53));
    NetworkPolicyEgressRule::new().ports(ports)
}

hotshoe_sdk::export!(DefaultDeny);
