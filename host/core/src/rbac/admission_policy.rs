//! An admission policy by which the API server, too, denies plugins to write in the namespace of the host. Pure.
//!
//! RBAC rights are additive: rights in all namespaces include the namespace of the host. An account that may create a
//! workload there can run it under the host's account, which can impersonate every plugin. So an admission policy
//! denies the writes of that namespace's accounts in it. Reads are not subject to admission.

use serde_json::{Value, json};

use crate::rbac::installation::Installation;

/// Returns the `spec` of a ValidatingAdmissionPolicy: of the accounts of this namespace only the host's may write in
/// it.
pub fn policy(installation: &Installation) -> Value {
    let Installation { namespace, account, .. } = installation;
    let accounts = format!("system:serviceaccount:{namespace}:");
    let rule = |groups: &[&str], resources: &[&str], scope: &str| {
        json!({
            "apiGroups": groups,
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE", "CONNECT"],
            "resources": resources,
            "scope": scope,
        })
    };
    json!({
        "failurePolicy": "Fail",
        "matchConditions": [
            { "name": "an-account-of-this-namespace", "expression": format!("request.userInfo.username.startsWith('{accounts}')") },
            { "name": "not-the-host", "expression": format!("request.userInfo.username != '{accounts}{account}'") },
        ],
        "matchConstraints": {
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
            // The selector matches all cluster-scoped objects; only for Namespaces does it look at their labels.
            "resourceRules": [
                rule(&["*"], &["*/*"], "Namespaced"),
                rule(&[""], &["namespaces", "namespaces/*"], "Cluster"),
            ],
        },
        "validations": [{
            "expression": "false",
            "message": format!(
                "the namespace {namespace} is the host's: none of its accounts but {account} may write in it, \
                 for a Pod could run there under the account of the host"
            ),
            "reason": "Forbidden",
        }],
    })
}

/// Returns the `spec` of the binding without which a policy has no effect.
pub fn binding(policy: &str) -> Value {
    json!({ "policyName": policy, "validationActions": ["Deny"] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::watched_namespaces::WatchedNamespaces;

    fn of(namespace: &str, account: &str) -> Value {
        policy(&Installation {
            namespace: namespace.into(),
            account: account.into(),
            watched: WatchedNamespaces::default(),
        })
    }

    #[test]
    fn the_policy_applies_to_every_account_of_the_namespace_except_the_hosts() {
        let policy = of("system", "host");
        let expression = |index: usize| policy["matchConditions"][index]["expression"].clone();
        // The colon excludes the accounts of namespaces whose names only begin with this one's.
        assert_eq!(expression(0), "request.userInfo.username.startsWith('system:serviceaccount:system:')");
        assert_eq!(expression(1), "request.userInfo.username != 'system:serviceaccount:system:host'");
        assert_eq!(policy["validations"][0]["expression"], "false");
        assert_eq!(policy["failurePolicy"], "Fail");
    }

    #[test]
    fn the_policy_applies_to_everything_in_the_namespace_and_to_the_namespace_itself_only() {
        let constraints = of("system", "host")["matchConstraints"].clone();
        let labels = json!({ "kubernetes.io/metadata.name": "system" });
        assert_eq!(constraints["namespaceSelector"], json!({ "matchLabels": labels }));
        let rules: Vec<_> = constraints["resourceRules"].as_array().unwrap().iter().collect();
        let about = |index: usize| (&rules[index]["resources"], &rules[index]["scope"]);
        assert_eq!(about(0), (&json!(["*/*"]), &json!("Namespaced")));
        assert_eq!(about(1), (&json!(["namespaces", "namespaces/*"]), &json!("Cluster")));
        for rule in rules {
            assert_eq!(rule["operations"], json!(["CREATE", "UPDATE", "DELETE", "CONNECT"]));
        }
    }
}
