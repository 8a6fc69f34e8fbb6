//! The rights that metrics need which are shown to those only whom the API server lets read them.

use std::collections::BTreeMap;

use crate::rbac::Installation;
use crate::rbac::manifest::{Manifest, PolicyRule, RBAC_VERSION, Rules};

/// Returns the host's right to ask whose a token is and what that user may do, and a ClusterRole for those who scrape.
pub fn reviewed(installation: &Installation) -> Vec<Manifest> {
    let asks = |group: &str, resource: &str| PolicyRule {
        api_groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        verbs: vec!["create"],
        ..PolicyRule::default()
    };
    let rules =
        vec![asks("authentication.k8s.io", "tokenreviews"), asks("authorization.k8s.io", "subjectaccessreviews")];
    let comment = "The host asks who wants to read its metrics (--metrics-secure), and whether that account may. Neither is stored.";
    let name = format!("{}-metrics-auth", installation.account);
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
        ..Manifest::new(RBAC_VERSION, "ClusterRole", &format!("{}-metrics-reader", installation.account), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_may_ask_and_who_is_bound_to_the_reader_may_read() {
        let installation = Installation { namespace: "system".into(), account: "host".into(), watched: Vec::new() };
        let printed: Vec<_> = reviewed(&installation).iter().map(|object| object.to_yaml().unwrap()).collect();
        let [role, binding, reader] = &*printed else { panic!("{printed:?}") };
        for part in ["name: host-metrics-auth", "tokenreviews", "subjectaccessreviews", "create"] {
            assert!(role.contains(part), "{role}");
        }
        assert!(!role.contains("nonResourceURLs"), "{role}");
        assert!(binding.contains("name: host\n") && binding.contains("namespace: system"), "{binding}");
        assert!(reader.contains("nonResourceURLs:\n  - /metrics") && !reader.contains("resources:"), "{reader}");
    }
}
