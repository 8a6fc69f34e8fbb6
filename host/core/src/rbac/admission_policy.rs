//! The namespace of the host, closed to plugins by the API server as well. Pure.
//!
//! RBAC only adds: rights in every namespace hold in the host's, too, and an account that may write a workload
//! there may run it under the host's account, which may be every plugin. So an admission policy
//! refuses what accounts of that namespace write there. It sees no reads.

use serde_json::{Value, json};

use crate::rbac::Installation;

/// The `spec` of a ValidatingAdmissionPolicy: in this namespace only the host's own account writes.
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
            // The selector lets pass whatever has no namespace, but for Namespaces themselves.
            "resourceRules": [
                rule(&["*"], &["*/*"], "Namespaced"),
                rule(&[""], &["namespaces", "namespaces/*"], "Cluster"),
            ],
        },
        "validations": [{
            "expression": "false",
            "message": format!("the namespace {namespace} is the host's: none of its accounts but {account} may write in it, for a Pod could run there under the account of the host"),
            "reason": "Forbidden",
        }],
    })
}

/// The `spec` of the binding without which a policy of this name does nothing.
pub fn binding(policy: &str) -> Value {
    json!({ "policyName": policy, "validationActions": ["Deny"] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(namespace: &str, account: &str) -> Value {
        policy(&Installation { namespace: namespace.into(), account: account.into(), watched: Vec::new() })
    }

    #[test]
    fn it_is_about_every_account_of_the_namespace_but_the_hosts() {
        let policy = of("system", "host");
        let expression = |index: usize| policy["matchConditions"][index]["expression"].clone();
        // The colon keeps out the accounts of a namespace that only begins like it.
        assert_eq!(expression(0), "request.userInfo.username.startsWith('system:serviceaccount:system:')");
        assert_eq!(expression(1), "request.userInfo.username != 'system:serviceaccount:system:host'");
        assert_eq!(policy["validations"][0]["expression"], "false");
        assert_eq!(policy["failurePolicy"], "Fail");
    }

    #[test]
    fn it_is_about_everything_in_the_namespace_and_the_namespace_itself_and_nothing_else_of_the_cluster() {
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
