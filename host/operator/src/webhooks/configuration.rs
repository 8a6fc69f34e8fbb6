//! The objects that make the API server ask a host about proposed parents.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::webhooks::review::SCALE;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::rbac::{Installation, Served, webhooks};

/// The port of the host's container for webhooks.
pub const PORT: u16 = 9443;
/// The name of the Service of the webhooks.
pub const SERVICE: &str = "hotshoe-webhooks";

/// The namespaces of the system. An object there must stay writable whatever happens to the host.
const SYSTEM: [&str; 3] = ["kube-node-lease", "kube-public", "kube-system"];
/// How long the API server waits for an answer, in seconds. A decision takes a tenth of a second at most.
const TIMEOUT_SECONDS: u32 = 2;

/// Where the API server finds the webhooks.
#[derive(Clone, Debug)]
pub enum Target {
    /// A Service in the namespace of the host.
    Service,
    /// `https://HOST:PORT`, for a host outside of the cluster.
    Url(String),
}

/// What becomes of an object if the host does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It is admitted.
    #[default]
    Ignore,
    /// It is refused.
    Fail,
}

/// How the API server reaches and trusts a host.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where the webhooks are.
    pub target: Target,
    /// The certificates of the authorities that signed that of the host, in PEM.
    pub authorities: Option<Vec<u8>>,
    /// The `NAMESPACE/NAME` of the Certificate from which cert-manager fills the authorities in.
    pub certificate: Option<String>,
    /// What becomes of an object if the host does not answer.
    pub failure_policy: FailurePolicy,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} is a kind of Kubernetes itself: a host that is away would keep its objects from being changed, and with them \
     perhaps itself from starting; use the failure policy Ignore"
)]
pub struct BuiltinFails(Kind);

/// Returns the Service of the webhooks, which leads to the Pods of the host.
pub fn service(installation: &Installation) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": SERVICE,
            "namespace": installation.namespace,
            "labels": { "app.kubernetes.io/name": "hotshoe" },
        },
        "spec": {
            "selector": { "app.kubernetes.io/name": "hotshoe" },
            "ports": [{ "name": "webhooks", "port": 443, "targetPort": PORT }],
            // A host is ready once its watches are synced, and the lists with which they begin may need its conversions.
            "publishNotReadyAddresses": true,
        },
    })
}

/// Returns the ValidatingWebhookConfiguration by which the API server asks about the parents of a plugin.
///
/// # Errors
/// If the parents are of a kind of Kubernetes, and are to be refused while the host does not answer.
pub fn validating(
    plugin: &str,
    parent: &Kind,
    served: &Served,
    access: &Access,
    installation: &Installation,
) -> Result<Value, BuiltinFails> {
    if access.failure_policy == FailurePolicy::Fail && parent.is_builtin() {
        return Err(BuiltinFails(parent.clone()));
    }
    let rules = json!([rule(parent, served), scale_rule(parent, served)]);
    let webhook = webhook(("validate", plugin), (served, rules), access, installation);
    Ok(configuration("ValidatingWebhookConfiguration", plugin, webhook, access, installation))
}

/// Returns the MutatingWebhookConfiguration by which the API server asks for the defaults of a plugin's parents; none for
/// kinds of Kubernetes, of which a plugin sets only what it is granted. It asks once for each change: the answer depends
/// on nothing that later webhooks fill in.
pub fn mutating(
    plugin: &str,
    parent: &Kind,
    served: &Served,
    access: &Access,
    installation: &Installation,
) -> Option<Value> {
    if parent.is_builtin() {
        return None;
    }
    let webhook = webhook(("mutate", plugin), (served, json!([rule(parent, served)])), access, installation);
    let webhook = with(webhook, "reinvocationPolicy", Some("Never".into()));
    Some(configuration("MutatingWebhookConfiguration", plugin, webhook, access, installation))
}

/// Returns a configuration with one webhook.
fn configuration(kind: &str, plugin: &str, webhook: Value, access: &Access, installation: &Installation) -> Value {
    let annotations =
        access.certificate.as_ref().map(|certificate| json!({ "cert-manager.io/inject-ca-from": certificate }));
    let metadata = json!({
        "name": webhooks::registration(plugin, installation),
        "labels": { "app.kubernetes.io/managed-by": "hotshoe", "hotshoe.dev/plugin": plugin },
    });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": with(metadata, "annotations", annotations),
        "webhooks": [webhook],
    })
}

/// Returns the webhook of a plugin at this path of the host.
fn webhook(
    (path, plugin): (&str, &str),
    (served, rules): (&Served, Value),
    access: &Access,
    installation: &Installation,
) -> Value {
    let webhook = json!({
        "name": format!("{plugin}.admission.hotshoe.dev"),
        "admissionReviewVersions": ["v1"],
        "clientConfig": client(&format!("/{path}/{plugin}"), access, installation),
        "rules": rules,
        "matchPolicy": "Equivalent",
        "matchConditions": conditions(installation),
        "failurePolicy": if access.failure_policy == FailurePolicy::Fail { "Fail" } else { "Ignore" },
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    });
    let selector = served.namespaced.then(|| json!({ "matchExpressions": namespaces(installation) }));
    with(webhook, "namespaceSelector", selector)
}

/// Returns what is done to parents that a plugin is asked about.
fn rule(parent: &Kind, served: &Served) -> Value {
    json!({
        "apiGroups": [&*parent.group],
        "apiVersions": [&*parent.version],
        "resources": [served.plural],
        "operations": ["CREATE", "UPDATE"],
        "scope": scope(served),
    })
}

/// Returns the rule for the scale of parents, which is the same object in each of their versions. Where none has a scale,
/// nothing matches it.
fn scale_rule(parent: &Kind, served: &Served) -> Value {
    json!({
        "apiGroups": [&*parent.group],
        "apiVersions": ["*"],
        "resources": [format!("{}/{SCALE}", served.plural)],
        "operations": ["UPDATE"],
        "scope": scope(served),
    })
}

fn scope(served: &Served) -> &'static str {
    if served.namespaced { "Namespaced" } else { "Cluster" }
}

/// Returns the `spec.conversion` of the definition of a plugin's parents, by which the API server has it convert them.
pub fn conversion(plugin: &str, access: &Access, installation: &Installation) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": client(&conversion_path(plugin), access, installation),
        },
    })
}

/// Returns the path at which a plugin converts.
pub fn conversion_path(plugin: &str) -> String {
    format!("/convert/{plugin}")
}

/// Returns the object with one more member, if there is one.
fn with(mut object: Value, key: &str, value: Option<Value>) -> Value {
    if let (Some(members), Some(value)) = (object.as_object_mut(), value) {
        members.insert(key.to_owned(), value);
    }
    object
}

fn client(path: &str, access: &Access, installation: &Installation) -> Value {
    let mut client = Map::new();
    match &access.target {
        Target::Url(url) => client.insert("url".into(), format!("{}{path}", url.trim_end_matches('/')).into()),
        Target::Service => {
            let service = json!({ "name": SERVICE, "namespace": installation.namespace, "path": path, "port": 443 });
            client.insert("service".into(), service)
        }
    };
    if let Some(authorities) = &access.authorities {
        client.insert("caBundle".into(), STANDARD.encode(authorities).into());
    }
    client.into()
}

/// Returns the conditions under which the API server asks. The host's own writes change nothing that is decided about,
/// and an object that is being deleted must be able to go.
fn conditions(installation: &Installation) -> Value {
    let Installation { namespace, account, .. } = installation;
    json!([
        { "name": "not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)" },
        {
            "name": "not-of-the-host",
            "expression": format!("request.userInfo.username != 'system:serviceaccount:{namespace}:{account}'"),
        },
    ])
}

/// Returns the namespaces about which the API server asks: those that the host watches, without its own and those of
/// the system.
fn namespaces(installation: &Installation) -> Vec<Value> {
    let own = std::iter::once(&*installation.namespace);
    let excluded: Vec<&str> = own.chain(SYSTEM).collect();
    let named = |operator: &str, values: Value| json!({ "key": "kubernetes.io/metadata.name", "operator": operator, "values": values });
    let watched = installation.watched.names();
    let watched = (!installation.watched.is_all())
        .then(|| named("In", json!(watched.iter().map(|name| &**name).collect::<Vec<&str>>())));
    std::iter::once(named("NotIn", json!(excluded))).chain(watched).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::watched_namespaces::WatchedNamespaces;

    fn installation() -> Installation {
        Installation { namespace: "system".into(), account: "host".into(), watched: WatchedNamespaces::default() }
    }

    fn access(target: Target) -> Access {
        Access { target, authorities: None, certificate: None, failure_policy: FailurePolicy::Ignore }
    }

    fn things(access: &Access, installation: &Installation) -> Value {
        let served = Served { plural: "things".into(), namespaced: true };
        validating("demo", &Kind::new("g.example.com", "v1", "Thing"), &served, access, installation).unwrap()
    }

    #[test]
    fn a_host_outside_of_the_cluster_is_found_by_its_url_and_trusted_by_its_authority() {
        let access =
            Access { authorities: Some(b"pem".to_vec()), ..access(Target::Url("https://127.0.0.1:9/".into())) };
        let printed = things(&access, &installation());
        let client = json!({ "url": "https://127.0.0.1:9/validate/demo", "caBundle": "cGVt" });
        assert_eq!(printed["webhooks"][0]["clientConfig"], client);
        assert_eq!(printed["metadata"]["name"], "host-demo");
    }

    #[test]
    fn a_host_in_the_cluster_is_found_by_its_service() {
        let access = Access { certificate: Some("system/webhooks".into()), ..access(Target::Service) };
        let printed = things(&access, &installation());
        let named = &printed["webhooks"][0]["clientConfig"]["service"];
        let service = service(&installation());
        assert_eq!(
            (&named["name"], &named["namespace"]),
            (&service["metadata"]["name"], &service["metadata"]["namespace"])
        );
        assert_eq!(printed["metadata"]["annotations"]["cert-manager.io/inject-ca-from"], "system/webhooks");
    }

    #[test]
    fn objects_of_the_host_and_of_the_system_are_not_asked_about() {
        let watched = WatchedNamespaces::named(&["team-b", "team-a"]).unwrap();
        let watched = Installation { watched, ..installation() };
        let printed = things(&access(Target::Service), &watched);
        let webhook = &printed["webhooks"][0];
        let selector = webhook["namespaceSelector"]["matchExpressions"].as_array().unwrap();
        assert_eq!(selector[0]["values"], json!(["system", "kube-node-lease", "kube-public", "kube-system"]));
        assert_eq!((&selector[1]["operator"], &selector[1]["values"]), (&json!("In"), &json!(["team-a", "team-b"])));
        let own = webhook["matchConditions"][1]["expression"].as_str().unwrap();
        assert!(own.contains("system:serviceaccount:system:host"), "{own}");
    }

    #[test]
    fn a_kind_of_kubernetes_is_never_refused_because_the_host_is_away() {
        let failing = Access { failure_policy: FailurePolicy::Fail, ..access(Target::Service) };
        let served = Served { plural: "namespaces".into(), namespaced: false };
        let namespace = Kind::new("", "v1", "Namespace");
        let refused = validating("demo", &namespace, &served, &failing, &installation()).unwrap_err();
        assert!(refused.to_string().contains("use the failure policy Ignore"), "{refused}");
        assert_eq!(things(&failing, &installation())["webhooks"][0]["failurePolicy"], "Fail");
        let ignoring = access(Target::Service);
        let printed = validating("demo", &namespace, &served, &ignoring, &installation()).unwrap();
        assert!(printed["webhooks"][0].get("namespaceSelector").is_none(), "{printed}");
    }

    #[test]
    fn defaults_are_asked_for_as_validation_is_and_never_for_a_kind_of_kubernetes() {
        let served = Served { plural: "things".into(), namespaced: true };
        let (kind, access) = (Kind::new("g.example.com", "v1", "Thing"), access(Target::Service));
        let mutating = |kind: &Kind| mutating("demo", kind, &served, &access, &installation());
        let mut mutated = mutating(&kind).unwrap();
        let mut validated = things(&access, &installation());
        let scale = validated["webhooks"][0]["rules"].as_array_mut().unwrap().pop().unwrap();
        assert_eq!((&scale["resources"], &scale["operations"]), (&json!(["things/scale"]), &json!(["UPDATE"])));
        assert_eq!(scale["apiVersions"], json!(["*"]), "a scale is the same in all versions");
        let webhook = mutated["webhooks"][0].as_object_mut().unwrap();
        assert_eq!(webhook.remove("reinvocationPolicy"), Some("Never".into()));
        assert_eq!(webhook["clientConfig"]["service"]["path"], "/mutate/demo");
        webhook["clientConfig"]["service"]["path"] = "/validate/demo".into();
        mutated["kind"] = "ValidatingWebhookConfiguration".into();
        assert_eq!(mutated, validated);
        assert_eq!(mutating(&Kind::new("apps", "v1", "Deployment")), None);
    }
}
