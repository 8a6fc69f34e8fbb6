//! The rights for secure metrics, which the host serves only to clients that the API server authorises.

use std::collections::BTreeMap;

use crate::rbac::installation::Installation;
use crate::rbac::manifest::{Manifest, PolicyRule, RBAC_VERSION, Rules};

/// The suffixes in the names `ACCOUNT-metrics-auth` and `ACCOUNT-metrics-reader` of the roles. The roles of a plugin
/// are named `ACCOUNT-PLUGIN`, so no plugin may have one of these names: its rights would go to the account that reads
/// the metrics.
pub const AUTH: &str = "metrics-auth";
/// The suffix in the name of the second role; see [`AUTH`].
pub const READER: &str = "metrics-reader";

/// Returns the host's right to review tokens and access, and a ClusterRole for the clients that scrape metrics.
pub fn manifests(installation: &Installation) -> Vec<Manifest> {
    let creates = |group: &str, resource: &str| PolicyRule {
        api_groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        verbs: vec!["create"],
        ..PolicyRule::default()
    };
    let rules =
        vec![creates("authentication.k8s.io", "tokenreviews"), creates("authorization.k8s.io", "subjectaccessreviews")];
    let comment = "The host asks who wants to read its metrics (--metrics-secure), and whether that account may. Neither is stored.";
    let name = format!("{}-{AUTH}", installation.account);
    let mut manifests =
        Rules(BTreeMap::from([(None, rules)])).into_manifests(&name, &installation.account, comment, installation);
    manifests.push(reader(installation));
    manifests
}

fn reader(installation: &Installation) -> Manifest {
    let rule =
        PolicyRule { non_resource_urls: vec!["/metrics".to_owned()], verbs: vec!["get"], ..PolicyRule::default() };
    Manifest {
        comment: "For who reads the metrics: bind it to the account of Prometheus.".into(),
        rules: Some(vec![rule]),
        ..Manifest::new(RBAC_VERSION, "ClusterRole", &format!("{}-{READER}", installation.account), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::watched_namespaces::WatchedNamespaces;

    #[test]
    fn the_host_may_create_reviews_and_an_account_with_the_reader_role_may_read() {
        let installation =
            Installation { namespace: "system".into(), account: "host".into(), watched: WatchedNamespaces::default() };
        let manifests = manifests(&installation);
        let creates = |group: &str, resource: &str| (vec![group.to_owned()], vec![resource.to_owned()], vec!["create"]);
        let rules = manifests[0].rules.iter().flatten();
        assert_eq!(
            rules.map(|rule| (rule.api_groups.clone(), rule.resources.clone(), rule.verbs.clone())).collect::<Vec<_>>(),
            [creates("authentication.k8s.io", "tokenreviews"), creates("authorization.k8s.io", "subjectaccessreviews")]
        );
        let printed: Vec<_> = manifests.iter().map(|object| object.to_yaml().unwrap()).collect();
        let [role, binding, reader] = &*printed else { panic!("{printed:?}") };
        assert!(role.contains("name: host-metrics-auth") && role.starts_with("# The host asks who"), "{role}");
        assert!(!role.contains("nonResourceURLs"), "{role}");
        assert!(binding.contains("name: host\n") && binding.contains("namespace: system"), "{binding}");
        assert!(reader.contains("nonResourceURLs:\n  - /metrics") && !reader.contains("resources:"), "{reader}");
        assert!(reader.contains("verbs:\n  - get") && reader.starts_with("# For who reads the metrics"), "{reader}");
    }
}
