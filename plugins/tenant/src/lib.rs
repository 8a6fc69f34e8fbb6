//! Gives each namespace of a `Tenant` a quota and a NetworkPolicy that admits traffic only from namespaces of the same
//! tenant. A Tenant is cluster-scoped, so each child names its namespace; `plugin.yaml` says which are granted.

use hotshoe_sdk::apply::meta_v1::{LabelSelector, LabelSelectorRequirement};
use hotshoe_sdk::apply::networking_v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use hotshoe_sdk::{
    Answer, Condition, Decision, Descriptor, Failure, Metadata, Object, Reconciler, Request, Resource, ResourceKind,
    Verb,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

#[cfg(feature = "crd")]
pub mod crd;

/// The plugin.
pub struct Tenants;

/// The fields of the parent that the plugin reads.
#[derive(Deserialize)]
pub struct Tenant {
    #[serde(default)]
    spec: TenantSpec,
}

/// The desired state of a Tenant.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema, Serialize))]
#[serde(default)]
pub struct TenantSpec {
    /// The namespaces that belong to it. The plugin writes in those only that its grant covers.
    #[cfg_attr(feature = "crd", schemars(length(max = 100), extend("x-kubernetes-list-type" = "set")))]
    namespaces: Vec<String>,
    /// What each of them may use, as `spec.hard` of a ResourceQuota says it.
    #[cfg_attr(feature = "crd", schemars(schema_with = "crd::quantities"))]
    quota: Map<String, Value>,
}

/// The observed state of a Tenant.
#[derive(Serialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct TenantStatus {
    /// The namespaces that have quota and policy.
    #[cfg_attr(feature = "crd", schemars(extend("x-kubernetes-list-type" = "atomic")))]
    namespaces: Vec<String>,
}

struct ResourceQuota;

impl Resource for ResourceQuota {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ResourceQuota";
}

#[derive(Deserialize)]
struct Observed {
    metadata: Metadata,
}

impl Reconciler for Tenants {
    type Parent = Tenant;
    type Config = ();

    fn describe() -> Descriptor {
        let (kind, verbs) = (
            ResourceKind::new("platform.example.com", "v1alpha1", "Tenant"),
            [Verb::Create, Verb::Update, Verb::Delete],
        );
        Descriptor::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), kind)
            .owns::<NetworkPolicy>(&verbs, &[])
            .owns::<ResourceQuota>(&verbs, &[])
    }

    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
        let TenantSpec { namespaces, quota } = &request.parent.spec;
        let mut children = Vec::with_capacity(2 * namespaces.len());
        for namespace in namespaces {
            let isolation = NetworkPolicy::new(name(request)).spec(admits_only(namespaces));
            let limits = Object::desired::<ResourceQuota>(&name(request), &json!({ "spec": { "hard": quota } }))?;
            children.extend([Object::from(isolation), limits].map(|child| child.in_namespace(namespace)));
        }
        let ready = ready(request)?;
        let missing: Vec<_> = namespaces.iter().filter(|namespace| !ready.contains(namespace)).cloned().collect();
        let message = match missing.as_slice() {
            [] => format!("{} namespaces have quota and policy", ready.len()),
            _ => format!("quota or policy is missing in {}", missing.join(", ")),
        };
        let condition = Condition::new("Ready", missing.is_empty().into(), "Observed", message);
        let decision = Decision::exactly(children).status(&TenantStatus { namespaces: ready })?;
        Ok(Answer::Decided(decision.conditions([condition])))
    }
}

fn name(request: &Request<Tenants>) -> String {
    format!("tenant-{}", request.name())
}

/// Returns the namespaces that have both a NetworkPolicy and a ResourceQuota.
fn ready(request: &Request<Tenants>) -> Result<Vec<String>, Failure> {
    let namespaces = |children: Vec<Observed>| children.into_iter().filter_map(|child| child.metadata.namespace);
    let policies: Vec<_> = namespaces(request.children_as::<NetworkPolicy, Observed>()?).collect();
    let quotas = namespaces(request.children_as::<ResourceQuota, Observed>()?);
    Ok(quotas.filter(|namespace| policies.contains(namespace)).collect())
}

fn admits_only(namespaces: &[String]) -> NetworkPolicySpec {
    let same_tenant =
        LabelSelectorRequirement::new().key("kubernetes.io/metadata.name").operator("In").values(namespaces.iter());
    let from = NetworkPolicyPeer::new().namespace_selector(LabelSelector::new().match_expressions([same_tenant]));
    NetworkPolicySpec::new()
        .pod_selector(LabelSelector::new())
        .policy_types(["Ingress"])
        .ingress([NetworkPolicyIngressRule::new().from([from])])
}

hotshoe_sdk::export!(Tenants);
