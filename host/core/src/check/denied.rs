//! What no grant opens, because a plugin could raise its own rights with it, act as another account, or stop the host.
//! Pure.

use serde_json::Value;

use crate::check::Violation;
use crate::check::access_request::{Access, Request};
use crate::model::kind::Kind;

/// Each entry is a group and, unless empty, one kind of it.
const KINDS: [(&str, &str); 12] = [
    ("rbac.authorization.k8s.io", ""),
    ("hotshoe.dev", ""),
    ("coordination.k8s.io", ""),
    ("admissionregistration.k8s.io", ""),
    ("apiextensions.k8s.io", ""),
    ("apiregistration.k8s.io", ""),
    ("certificates.k8s.io", ""),
    ("authentication.k8s.io", ""),
    ("authorization.k8s.io", ""),
    ("authorization.openshift.io", ""),
    // Writes every object of a kind anew.
    ("storagemigration.k8s.io", ""),
    // Puts a Pod on a node past the scheduler.
    ("", "Binding"),
];

/// Kinds of the cluster's administrator that operators read and none writes: what they say holds for all namespaces, or
/// opens one namespace to another.
const WRITTEN_NEVER: [(&str, &str); 8] = [
    ("gateway.networking.k8s.io", "GatewayClass"),
    ("gateway.networking.k8s.io", "ReferenceGrant"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "IPAddress"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "DeviceTaintRule"),
    ("resource.k8s.io", "ResourceSlice"),
];

/// Types of Secrets that are credentials: the API server fills in the first.
const CREDENTIALS: [&str; 2] = ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"];

/// Checks that a grant could open a request at all.
///
/// # Errors
/// Why none can.
pub fn check(request: &Request<'_>, host_namespace: &str) -> Result<(), Violation> {
    let object = request.object;
    let refuse = |(rule, message): (&'static str, &str)| {
        Err(Violation::new(rule, format!("{object}: {message}, whatever is granted")))
    };
    if let Some(why) = why(&object.kind) {
        return refuse(why);
    }
    if object.namespace.as_deref() == Some(host_namespace) {
        return refuse(("host-namespace", "no plugin may see or touch the namespace of the host"));
    }
    let writes = !matches!(request.access, Access::Read);
    if writes && is_never_written(&object.kind) {
        return refuse(("kind-never", "no plugin may write this kind"));
    }
    if writes
        && object.kind.is("", "Namespace")
        && (object.name.starts_with("kube-") || *object.name == *host_namespace)
    {
        return refuse(("namespace-never", "no plugin may write this namespace"));
    }
    match request.access {
        Access::Apply(body) | Access::Create(body) => body_never(&object.kind, body).map_or(Ok(()), refuse),
        // Of what these rules close the API server and its controllers set some: a volume's claim, a namespace's finalizer.
        Access::Read | Access::Delete | Access::Result(_) => Ok(()),
    }
}

/// Returns why a kind is closed to all plugins: rule and reason.
pub fn why(kind: &Kind) -> Option<(&'static str, &'static str)> {
    let word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-');
    // Each part becomes a part of a request's path.
    if !(word(&kind.group) && word(&kind.version) && word(&kind.kind)) {
        return Some(("kind-subresource", "that is no kind, or a subresource, which no plugin may use"));
    }
    let closed = KINDS.iter().any(|(group, name)| *group == &*kind.group && (name.is_empty() || *name == &*kind.kind));
    closed.then_some(("kind-never", "this kind is closed to plugins"))
}

/// Returns whether plugins may read objects of a kind and write none.
pub fn is_never_written(kind: &Kind) -> bool {
    WRITTEN_NEVER.iter().any(|(group, name)| kind.is(group, name))
}

fn body_never(kind: &Kind, body: &Value) -> Option<(&'static str, &'static str)> {
    if kind.is("", "Secret") && !is_ordinary_secret(body) {
        return Some(("secret-type", "no plugin may make a Secret of this type"));
    }
    // With a finalizer that is never removed, the namespace would never go.
    if kind.is("", "Namespace") && spelt(body, "spec").any(|spec| spelt(spec, "finalizers").next().is_some()) {
        return Some(("namespace-finalizers", "spec.finalizers is not a plugin's to set"));
    }
    if !kind.is("", "PersistentVolume") {
        return None;
    }
    if is_of_the_node(body) {
        return Some(("host-path-volume", "no plugin may make a volume of a node's files"));
    }
    // The secret may lie in any namespace, and each Pod that mounts the volume has it used.
    if spelt(body, "spec").any(names_a_secret) {
        return Some(("volume-secret", "no plugin may make a volume that names a Secret"));
    }
    // It would be bound to another tenant's claim before a volume is provisioned for it.
    if spelt(body, "spec").any(|spec| spelt(spec, "claimRef").next().is_some()) {
        return Some(("volume-claim", "no plugin may say whose claim a volume is for"));
    }
    None
}

/// Storage systems name the Secrets of their servers in many ways, all of which end alike.
fn names_a_secret(value: &Value) -> bool {
    let ends = |key: &str| ["secretref", "secretname"].iter().any(|end| key.to_ascii_lowercase().ends_with(end));
    match value {
        Value::Object(members) => members.iter().any(|(key, value)| ends(key) || names_a_secret(value)),
        Value::Array(elements) => elements.iter().any(names_a_secret),
        _ => false,
    }
}

/// Whether a Secret has no type that gives credentials. A type that is no string is left to the API server.
fn is_ordinary_secret(body: &Value) -> bool {
    spelt(body, "type").all(|kind| kind.as_str().is_some_and(|kind| !CREDENTIALS.contains(&kind)))
}

fn is_of_the_node(body: &Value) -> bool {
    spelt(body, "spec").any(|spec| ["hostPath", "local"].iter().any(|field| spelt(spec, field).next().is_some()))
}

/// Finds the members of this name in any case: the API server is strict about it, but a webhook before it may not
/// be.
fn spelt<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    let members = object.as_object().into_iter().flatten();
    members.filter(move |(key, _)| key.eq_ignore_ascii_case(field)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::kind::ObjectRef;

    fn object(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
        ObjectRef { kind: Kind::new(group, "v1", kind), namespace: namespace.map(Into::into), name: name.into() }
    }

    fn broken(access: Access<'_>, object: &ObjectRef) -> Option<&'static str> {
        let parent = self::object("c", "Memcached", None, "parent");
        let namespaced = object.namespace.is_some();
        let violation = check(&Request { parent: &parent, object, namespaced, access }, "host").err()?;
        assert!(violation.message.ends_with(", whatever is granted"), "{}", violation.message);
        Some(violation.rule)
    }

    fn closed(group: &str, kind: &str) {
        let object = object(group, kind, Some("n"), "a");
        for access in [Access::Read, Access::Apply(&json!({})), Access::Delete] {
            assert_eq!(broken(access, &object), Some("kind-never"), "{group} {kind}");
        }
    }

    #[test]
    fn roles_and_their_bindings_are_closed() {
        for kind in ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"] {
            closed("rbac.authorization.k8s.io", kind);
        }
    }

    /// Those of k8s.io/api 0.36, apiextensions and kube-aggregator.
    #[test]
    fn every_group_of_kubernetes_itself_is_known_as_one_or_closed() {
        let groups = "admissionregistration apiextensions apiregistration authentication authorization certificates
            coordination discovery events flowcontrol.apiserver internal.apiserver networking node rbac.authorization
            resource scheduling storage storagemigration";
        for group in groups.split_ascii_whitespace() {
            let kind = Kind::new(&format!("{group}.k8s.io"), "v1", "Any");
            assert!(kind.is_builtin() || why(&kind).is_some(), "{group}");
        }
    }

    #[test]
    fn plugins_are_closed_to_plugins() {
        closed("hotshoe.dev", "Plugin");
    }

    #[test]
    fn leases_are_closed() {
        closed("coordination.k8s.io", "Lease");
        closed("coordination.k8s.io", "LeaseCandidate");
    }

    #[test]
    fn what_judges_writes_is_closed() {
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy"] {
            closed("admissionregistration.k8s.io", kind);
        }
    }

    #[test]
    fn definitions_of_kinds_are_closed() {
        closed("apiextensions.k8s.io", "CustomResourceDefinition");
    }

    #[test]
    fn servers_of_kinds_are_closed() {
        closed("apiregistration.k8s.io", "APIService");
    }

    #[test]
    fn certificates_are_closed() {
        closed("certificates.k8s.io", "CertificateSigningRequest");
    }

    #[test]
    fn token_reviews_are_closed() {
        closed("authentication.k8s.io", "TokenReview");
        closed("authentication.k8s.io", "TokenRequest");
    }

    #[test]
    fn access_reviews_are_closed() {
        closed("authorization.k8s.io", "SubjectAccessReview");
        closed("authorization.k8s.io", "SelfSubjectAccessReview");
    }

    #[test]
    fn rights_and_migrations_of_other_groups_are_closed() {
        closed("authorization.openshift.io", "RoleBinding");
        closed("storagemigration.k8s.io", "StorageVersionMigration");
    }

    #[test]
    fn what_administrators_say_of_all_namespaces_is_read_and_not_written() {
        for (group, kind, namespace) in [
            ("gateway.networking.k8s.io", "GatewayClass", None),
            ("gateway.networking.k8s.io", "ReferenceGrant", Some("n")),
            ("networking.k8s.io", "IngressClass", None),
            ("networking.k8s.io", "IPAddress", None),
            ("networking.k8s.io", "ServiceCIDR", None),
            ("resource.k8s.io", "DeviceClass", None),
            ("resource.k8s.io", "DeviceTaintRule", None),
            ("resource.k8s.io", "ResourceSlice", None),
        ] {
            let object = object(group, kind, namespace, "a");
            assert_eq!(broken(Access::Read, &object), None, "{kind}");
            for access in [Access::Apply(&json!({})), Access::Create(&json!({})), Access::Delete] {
                assert_eq!(broken(access, &object), Some("kind-never"), "{kind}");
            }
        }
        assert_eq!(broken(Access::Delete, &object("networking.k8s.io", "Ingress", Some("n"), "a")), None);
        assert_eq!(broken(Access::Delete, &object("resource.k8s.io", "ResourceClaim", Some("n"), "a")), None);
    }

    #[test]
    fn bindings_of_pods_to_nodes_are_closed() {
        closed("", "Binding");
    }

    #[test]
    fn kinds_of_the_same_name_in_other_groups_are_not() {
        for (group, kind) in [("example.com", "Binding"), ("example.com", "Role"), ("", "Lease"), ("", "ConfigMap")] {
            assert_eq!(broken(Access::Read, &object(group, kind, Some("n"), "a")), None);
        }
    }

    #[test]
    fn a_subresource_is_no_kind() {
        for (group, version, kind) in [
            ("", "v1", "Pod/exec"),
            ("", "v1", "Pod?x"),
            ("", "v1/namespaces/a/pods", "Pod"),
            ("../api", "v1", "Pod"),
            ("a%2fb", "v1", "Pod"),
            ("ä", "v1", "Pod"),
        ] {
            let pod =
                ObjectRef { kind: Kind::new(group, version, kind), namespace: Some("n".into()), name: "a".into() };
            assert_eq!(broken(Access::Read, &pod), Some("kind-subresource"), "{group} {version} {kind}");
        }
        let versions = object("apps-1.example.com", "Kind1", None, "a");
        assert_eq!(broken(Access::Read, &versions), None);
    }

    #[test]
    fn the_hosts_own_namespace_is_closed() {
        for access in [Access::Read, Access::Apply(&json!({})), Access::Delete] {
            assert_eq!(broken(access, &object("", "ConfigMap", Some("host"), "a")), Some("host-namespace"));
            assert_eq!(broken(access, &object("", "ConfigMap", Some("hosts"), "host")), None);
        }
    }

    #[test]
    fn namespaces_of_the_cluster_and_of_the_host_are_not_written() {
        for name in ["kube-system", "kube-public", "kube-node-lease", "kube-x", "host"] {
            for access in [Access::Apply(&json!({})), Access::Delete] {
                assert_eq!(broken(access, &object("", "Namespace", None, name)), Some("namespace-never"), "{name}");
                assert_eq!(broken(access, &object("g", "Namespace", None, name)), None);
                assert_eq!(broken(access, &object("", "Node", None, name)), None);
            }
            assert_eq!(broken(Access::Read, &object("", "Namespace", None, name)), None);
        }
        assert_eq!(broken(Access::Delete, &object("", "Namespace", None, "a-kube-host")), None);
    }

    #[test]
    fn a_namespace_gets_no_finalizer_of_a_plugins_choice() {
        let namespace = object("", "Namespace", None, "a");
        for body in [
            json!({ "spec": { "finalizers": ["example.com/never"] } }),
            json!({ "spec": { "finalizers": ["kubernetes"] } }),
            json!({ "Spec": { "Finalizers": "x" } }),
        ] {
            assert_eq!(broken(Access::Apply(&body), &namespace), Some("namespace-finalizers"), "{body}");
            assert_eq!(broken(Access::Apply(&body), &object("g", "Namespace", None, "a")), None);
        }
        for body in [json!({}), json!({ "spec": {} }), json!({ "metadata": { "labels": { "finalizers": "a" } } })] {
            assert_eq!(broken(Access::Apply(&body), &namespace), None, "{body}");
        }
    }

    #[test]
    fn credentials_are_not_made_as_secrets() {
        let secret = object("", "Secret", Some("n"), "a");
        for body in [
            json!({ "type": "kubernetes.io/service-account-token" }),
            json!({ "type": "bootstrap.kubernetes.io/token" }),
            json!({ "Type": "bootstrap.kubernetes.io/token" }),
            json!({ "type": "Opaque", "tYpe": "bootstrap.kubernetes.io/token" }),
            json!({ "type": ["kubernetes.io/service-account-token"] }),
        ] {
            assert_eq!(broken(Access::Apply(&body), &secret), Some("secret-type"), "{body}");
            assert_eq!(broken(Access::Apply(&body), &object("", "ConfigMap", Some("n"), "a")), None);
        }
        for body in [
            json!({}),
            json!({ "type": "Opaque" }),
            json!({ "data": { "type": "kubernetes.io/service-account-token" } }),
        ] {
            assert_eq!(broken(Access::Apply(&body), &secret), None, "{body}");
        }
    }

    #[test]
    fn volumes_are_not_made_of_the_files_of_a_node() {
        let volume = object("", "PersistentVolume", None, "a");
        for body in [
            json!({ "spec": { "hostPath": { "path": "/" } } }),
            json!({ "spec": { "local": { "path": "/" } } }),
            json!({ "spec": { "HostPath": {} } }),
            json!({ "Spec": { "hostPath": {} } }),
        ] {
            assert_eq!(broken(Access::Apply(&body), &volume), Some("host-path-volume"), "{body}");
            assert_eq!(broken(Access::Apply(&body), &object("", "Node", None, "a")), None);
        }
        assert_eq!(broken(Access::Apply(&json!({ "spec": { "csi": {} } })), &volume), None);
    }

    #[test]
    fn volumes_are_not_made_with_the_secret_or_for_the_claim_of_others() {
        let volume = object("", "PersistentVolume", None, "a");
        for (body, rule) in [
            (json!({ "spec": { "csi": { "driver": "d", "nodeStageSecretRef": { "name": "s" } } } }), "volume-secret"),
            (json!({ "spec": { "rbd": { "SecretRef": { "name": "s" } } } }), "volume-secret"),
            (json!({ "Spec": { "azureFile": { "secretName": "s" } } }), "volume-secret"),
            (json!({ "spec": { "future": [{ "secretRef": {} }] } }), "volume-secret"),
            (json!({ "spec": { "claimRef": { "name": "c" } } }), "volume-claim"),
            (json!({ "spec": { "ClaimRef": {} } }), "volume-claim"),
        ] {
            assert_eq!(broken(Access::Apply(&body), &volume), Some(rule), "{body}");
            assert_eq!(broken(Access::Apply(&body), &object("", "Node", None, "a")), None);
        }
        let plain =
            json!({ "spec": { "csi": { "driver": "d", "volumeHandle": "h" }, "accessModes": ["ReadWriteOnce"] } });
        assert_eq!(broken(Access::Apply(&plain), &volume), None);
    }
}
