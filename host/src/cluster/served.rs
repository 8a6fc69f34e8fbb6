//! The plural and the scope of kinds, for those who write rights down: from an API server where
//! one answers, otherwise by rule.

use http::Method;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Deserialize;

use crate::cluster::client::{Call, Cluster};
use crate::cluster::discovery::Kinds;
use crate::cluster::error::ApiError;
use crate::cluster::identity::{Identity, Permit};
use hotshoe_core::model::kind::Kind;
use hotshoe_core::rbac::Served;

/// Kinds of Kubernetes itself that have no namespace. A kind of anybody else is taken to have one.
const WITHOUT_NAMESPACE: [&str; 22] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "IPAddress",
    "IngressClass",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "ServiceCIDR",
    "StorageClass",
    "VolumeAttachment",
];

/// What a kind is most likely served as.
pub fn by_rule(kind: &Kind) -> Served {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind));
    let native = !kind.group.contains('.') || kind.group.ends_with(".k8s.io");
    Served { plural: resource.plural, namespaced: !native || !WITHOUT_NAMESPACE.contains(&&*kind.kind) }
}

#[derive(Deserialize)]
struct Group {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

/// What an API server serves a kind as, in whatever version where the kind names none.
///
/// # Errors
/// When it does not answer, or has none such (404).
pub async fn by_discovery(cluster: &Cluster, kinds: &Kinds, kind: &Kind) -> Result<Served, ApiError> {
    let versions = match (&*kind.version, &*kind.group) {
        ("", "") => vec!["v1".to_owned()],
        ("", group) => versions(cluster, group).await?,
        (version, _) => vec![version.to_owned()],
    };
    let mut last = missing(kind);
    for version in versions {
        match kinds.find(cluster, &Kind::new(&kind.group, &version, &kind.kind)).await {
            Ok(found) => return Ok(Served { plural: found.plural.clone(), namespaced: found.namespaced }),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn versions(cluster: &Cluster, group: &str) -> Result<Vec<String>, ApiError> {
    let call = Call {
        verb: "discover",
        target: &group,
        method: Method::GET,
        uri: format!("/apis/{group}"),
        content_type: "application/json",
        body: Vec::new(),
    };
    let text = cluster.send(call, &Identity::Host, &Permit::unlimited()).await?;
    let group: Group = serde_json::from_str(&text).unwrap_or(Group { versions: Vec::new() });
    Ok(group.versions.into_iter().map(|version| version.version).collect())
}

fn missing(kind: &Kind) -> ApiError {
    ApiError::new("discover", kind.to_string(), 404, "NotFound", format!("the API server has no {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_and_scopes_follow_the_rules_of_kubernetes() {
        for (group, kind, plural, namespaced) in [
            ("apps", "Deployment", "deployments", true),
            ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
            ("networking.k8s.io", "Ingress", "ingresses", true),
            ("networking.k8s.io", "IngressClass", "ingressclasses", false),
            ("", "Endpoints", "endpoints", true),
            ("", "Namespace", "namespaces", false),
            ("cache.example.com", "Memcached", "memcacheds", true),
            ("fleet.example.com", "Node", "nodes", true),
        ] {
            let expected = Served { plural: plural.into(), namespaced };
            assert_eq!(by_rule(&Kind::new(group, "v1", kind)), expected, "{group} {kind}");
        }
    }
}
