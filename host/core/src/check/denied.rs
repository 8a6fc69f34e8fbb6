//! Accesses that no grant can allow, because with them a plugin could escalate its own privileges, act as another
//! account, or stop the host. Pure.

use serde_json::Value;

use crate::check::Violation;
use crate::check::access_request::{Access, Request};
use crate::model::kind::Kind;

/// Kinds that no plugin may read or write: a group, and one kind of that group or, if empty, all of them.
const DENIED_KINDS: [(&str, &str); 12] = [
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
    // Its migrations rewrite every object of a kind.
    ("storagemigration.k8s.io", ""),
    // Assigns a Pod to a node, bypassing the scheduler.
    ("", "Binding"),
];

/// Kinds of the cluster administrator that plugins may read and never write: their objects apply to all namespaces, or
/// give one namespace access to another.
const READ_ONLY_KINDS: [(&str, &str); 8] = [
    ("gateway.networking.k8s.io", "GatewayClass"),
    ("gateway.networking.k8s.io", "ReferenceGrant"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "IPAddress"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "DeviceTaintRule"),
    ("resource.k8s.io", "ResourceSlice"),
];

/// The types of Secrets that contain credentials. The API server fills in the token of the first one.
const CREDENTIAL_TYPES: [&str; 2] = ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"];

/// Checks that a request is one that a grant can allow.
///
/// # Errors
/// When no grant can allow the request.
pub fn check(request: &Request<'_>, host_namespace: &str) -> Result<(), Violation> {
    let object = request.object;
    let refuse = |(rule, message): (&'static str, &str)| {
        Err(Violation::new(rule, format!("{object}: {message}, whatever is granted")))
    };
    if let Some(reason) = reason(&object.kind) {
        return refuse(reason);
    }
    if object.namespace.as_deref() == Some(host_namespace) {
        return refuse(("host-namespace", "no plugin may see or touch the namespace of the host"));
    }
    let writes = !matches!(request.access, Access::Read);
    if writes && is_read_only(&object.kind) {
        return refuse(("kind-never", "no plugin may write this kind"));
    }
    if writes
        && object.kind.is("", "Namespace")
        && (object.name.starts_with("kube-") || *object.name == *host_namespace)
    {
        return refuse(("namespace-never", "no plugin may write this namespace"));
    }
    match request.access {
        Access::Apply(body) | Access::Create(body) => denied_body(&object.kind, body).map_or(Ok(()), refuse),
        // A resulting object may have what these rules deny, because the API server and its controllers set some of it:
        // a volume's claim, a namespace's finalizer.
        Access::Read | Access::Delete | Access::Recreate(_) | Access::Result(_) => Ok(()),
    }
}

/// Returns the rule and the message by which a kind is denied to all plugins; `None` if a grant can allow it.
pub fn reason(kind: &Kind) -> Option<(&'static str, &'static str)> {
    let is_safe_in_path = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-');
    // Group, version and kind become parts of a request's path.
    if !(is_safe_in_path(&kind.group) && is_safe_in_path(&kind.version) && is_safe_in_path(&kind.kind)) {
        return Some(("kind-subresource", "that is no kind, or a subresource, which no plugin may use"));
    }
    let is_denied =
        DENIED_KINDS.iter().any(|(group, name)| *group == &*kind.group && (name.is_empty() || *name == &*kind.kind));
    is_denied.then_some(("kind-never", "this kind is denied to plugins"))
}

/// Returns whether plugins may only read objects of a kind.
pub fn is_read_only(kind: &Kind) -> bool {
    READ_ONLY_KINDS.iter().any(|(group, name)| kind.is(group, name))
}

/// Returns the rule and the message by which a body is denied to all plugins.
fn denied_body(kind: &Kind, body: &Value) -> Option<(&'static str, &'static str)> {
    if kind.is("", "Secret") && !is_ordinary_secret(body) {
        return Some(("secret-type", "no plugin may make a Secret of this type"));
    }
    // With a finalizer that no controller removes, the namespace could never be deleted.
    if kind.is("", "Namespace")
        && members_ignoring_case(body, "spec").any(|spec| members_ignoring_case(spec, "finalizers").next().is_some())
    {
        return Some(("namespace-finalizers", "spec.finalizers is not a plugin's to set"));
    }
    if !kind.is("", "PersistentVolume") {
        return None;
    }
    if uses_node_files(body) {
        return Some(("host-path-volume", "no plugin may make a volume of a node's files"));
    }
    // The Secret may be in any namespace, and is used on behalf of each Pod that mounts the volume.
    if members_ignoring_case(body, "spec").any(names_a_secret) {
        return Some(("volume-secret", "no plugin may make a volume that names a Secret"));
    }
    // The volume would be bound to another tenant's claim before one is provisioned for that claim.
    if members_ignoring_case(body, "spec").any(|spec| members_ignoring_case(spec, "claimRef").next().is_some()) {
        return Some(("volume-claim", "no plugin may say whose claim a volume is for"));
    }
    None
}

/// Returns whether a value has a field that names a Secret. The fields of the various storage systems differ, but all
/// end in the same words.
fn names_a_secret(value: &Value) -> bool {
    let ends = |key: &str| ["secretref", "secretname"].iter().any(|end| key.to_ascii_lowercase().ends_with(end));
    match value {
        Value::Object(members) => members.iter().any(|(key, value)| ends(key) || names_a_secret(value)),
        Value::Array(elements) => elements.iter().any(names_a_secret),
        _ => false,
    }
}

/// Returns whether a Secret's type is none of the [`CREDENTIAL_TYPES`]. A type that is not a string counts as one.
fn is_ordinary_secret(body: &Value) -> bool {
    members_ignoring_case(body, "type").all(|kind| kind.as_str().is_some_and(|kind| !CREDENTIAL_TYPES.contains(&kind)))
}

/// Returns whether a PersistentVolume is backed by files of a node.
fn uses_node_files(body: &Value) -> bool {
    members_ignoring_case(body, "spec")
        .any(|spec| ["hostPath", "local"].iter().any(|field| members_ignoring_case(spec, field).next().is_some()))
}

/// Returns the members with this name in any case. The API server compares names case-sensitively, but a webhook that
/// it calls may not.
fn members_ignoring_case<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
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

    fn assert_denied(group: &str, kind: &str) {
        let object = object(group, kind, Some("n"), "a");
        for access in [Access::Read, Access::Apply(&json!({})), Access::Delete] {
            assert_eq!(broken(access, &object), Some("kind-never"), "{group} {kind}");
        }
    }

    #[test]
    fn roles_and_their_bindings_are_closed() {
        for kind in ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"] {
            assert_denied("rbac.authorization.k8s.io", kind);
        }
    }

    /// The groups are those of k8s.io/api 0.36, apiextensions and kube-aggregator.
    #[test]
    fn every_group_of_kubernetes_itself_is_known_as_builtin_or_closed() {
        let groups = "admissionregistration apiextensions apiregistration authentication authorization certificates
            coordination discovery events flowcontrol.apiserver internal.apiserver networking node rbac.authorization
            resource scheduling storage storagemigration";
        for group in groups.split_ascii_whitespace() {
            let kind = Kind::new(&format!("{group}.k8s.io"), "v1", "Any");
            assert!(kind.is_builtin() || reason(&kind).is_some(), "{group}");
        }
    }

    #[test]
    fn plugins_are_closed_to_plugins() {
        assert_denied("hotshoe.dev", "Plugin");
    }

    #[test]
    fn leases_are_closed() {
        assert_denied("coordination.k8s.io", "Lease");
        assert_denied("coordination.k8s.io", "LeaseCandidate");
    }

    #[test]
    fn admission_configuration_is_closed() {
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy"] {
            assert_denied("admissionregistration.k8s.io", kind);
        }
    }

    #[test]
    fn definitions_of_kinds_are_closed() {
        assert_denied("apiextensions.k8s.io", "CustomResourceDefinition");
    }

    #[test]
    fn servers_of_kinds_are_closed() {
        assert_denied("apiregistration.k8s.io", "APIService");
    }

    #[test]
    fn certificates_are_closed() {
        assert_denied("certificates.k8s.io", "CertificateSigningRequest");
    }

    #[test]
    fn token_reviews_are_closed() {
        assert_denied("authentication.k8s.io", "TokenReview");
        assert_denied("authentication.k8s.io", "TokenRequest");
    }

    #[test]
    fn access_reviews_are_closed() {
        assert_denied("authorization.k8s.io", "SubjectAccessReview");
        assert_denied("authorization.k8s.io", "SelfSubjectAccessReview");
    }

    #[test]
    fn rights_and_migrations_of_other_groups_are_closed() {
        assert_denied("authorization.openshift.io", "RoleBinding");
        assert_denied("storagemigration.k8s.io", "StorageVersionMigration");
    }

    #[test]
    fn kinds_that_apply_to_all_namespaces_are_read_and_not_written() {
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
        assert_denied("", "Binding");
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
