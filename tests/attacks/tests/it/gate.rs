//! The forged objects of the table, checked by the gate alone: no cluster, no sandbox.

use hotshoe_attacks::forged::{Forged, Place};
use hotshoe_attacks::kinds::{
    self, CLAIM, CONFIG_MAP, DEPLOYMENT, DOOR, POD, REPLICA_SET, SECRET, SERVICE, STATEFUL_SET, SYSTEM,
};
use hotshoe_attacks::{ATTACKS, How, Layer};
use hotshoe_core::check;
use hotshoe_core::check::Context;
use hotshoe_core::check::access_request::Verb;
use hotshoe_core::check::grant::{Grant, Namespaces, Rule};
use hotshoe_core::check::pod::grant::Pods;
use hotshoe_core::check::service::Services;
use hotshoe_core::model::decision::{Children, Decision, Descriptor, Document, OwnedKind, WriteVerb};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use serde_json::{Value, json};

/// More than any plugin should be given.
const GRANTED: [kinds::Kind; 9] =
    [CONFIG_MAP, DEPLOYMENT, POD, SECRET, SERVICE, REPLICA_SET, STATEFUL_SET, CLAIM, DOOR];
const PLACE: Place<'_> = Place { namespace: "theirs", name: "forged" };

/// The rule that each forged object breaks. An object that is denied only by another rule would pass as soon as that
/// rule's item is granted.
const RULES: [(&str, &str); 75] = [
    ("a ClusterRole", "kind-not-owned"),
    ("a ClusterRole that claims a namespace", "kind-not-owned"),
    ("a ClusterRoleBinding", "kind-not-owned"),
    ("a webhook configuration", "kind-not-owned"),
    ("a CustomResourceDefinition", "kind-not-owned"),
    ("a PersistentVolume", "kind-not-owned"),
    ("a PersistentVolume with another tenant's Secret", "kind-not-owned"),
    ("a Namespace", "kind-not-owned"),
    ("a Namespace with a finalizer", "kind-not-owned"),
    ("another namespace", "foreign-namespace"),
    ("another namespace in the JSON alone", "identity"),
    ("a Role", "kind-not-owned"),
    ("a RoleBinding", "kind-not-owned"),
    ("a ServiceAccount", "kind-not-owned"),
    ("a ServiceAccount's token in a Secret", "secret-type"),
    ("a ServiceAccount's token, where Secrets are granted", "secret-type"),
    ("a release of Helm's in a ConfigMap", "helm-release"),
    ("a release of Helm's, where Secrets are granted", "helm-release"),
    ("a token request", "kind-not-owned"),
    ("a privileged Pod", "pod-privileged"),
    ("a Pod that mounts the node's files", "pod-host-path"),
    ("a Pod in the node's network", "pod-host-network"),
    ("a Pod under another ServiceAccount", "pod-service-account"),
    ("a Pod with the token of its ServiceAccount", "pod-token"),
    ("a Pod that names its node", "pod-node"),
    ("a Pod that mounts a Secret", "pod-secret"),
    ("a Pod that takes a Secret as its environment", "pod-secret"),
    ("a Deployment of privileged Pods", "pod-privileged"),
    ("a Deployment of Pods that mount the node's files", "pod-host-path"),
    ("a Pod that writes where it may read the node's files", "pod-host-path-writable"),
    ("a Pod that makes a folder where it may read the node's files", "pod-host-path-writable"),
    ("a Pod with an annotation for an add-on", "pod-annotation"),
    ("a Pod with a label for an add-on", "label"),
    ("a Deployment of Pods with a label for an add-on", "label"),
    ("a Pod with a device by the name of its class", "pod-resource"),
    ("a Deployment of Pods with a device of a device plugin", "pod-resource"),
    ("a Deployment of Pods whose containers share their processes", "pod-shared-processes"),
    ("a Pod with a device by an annotation of CRI-O", "pod-annotation"),
    ("a Deployment of Pods with a device by an annotation of CRI-O", "pod-annotation"),
    ("a Pod with a file of the node by an annotation of crun", "pod-annotation"),
    ("a Pod with kernel parameters by an annotation of Kata Containers", "pod-annotation"),
    ("a Pod with a flag of gVisor", "pod-annotation"),
    ("a Pod with a setting of a Windows node's virtual machine", "pod-annotation"),
    ("a Service with an annotation for an add-on", "service-annotation"),
    ("containers in a custom kind", "foreign-pods"),
    ("a ReplicaSet that takes another tenant's Pods", "pod-adoption"),
    ("a Deployment that takes another tenant's ReplicaSet", "pod-adoption"),
    ("a StatefulSet that takes another tenant's Pods", "pod-adoption"),
    ("a StatefulSet that takes another tenant's claim", "pod-volume-claim"),
    ("a StatefulSet that copies another tenant's claim", "claim-source"),
    ("a StatefulSet whose claims have a finalizer", "pod-metadata"),
    ("a StatefulSet that has its claims deleted", "prune-data"),
    ("a copy of another tenant's claim", "claim-source"),
    ("a claim of another tenant's volume", "claim-source"),
    ("an owner that is another object", "metadata"),
    ("managedFields", "metadata"),
    ("finalizers", "metadata"),
    ("a uid", "metadata"),
    ("a resourceVersion", "metadata"),
    ("a deletionTimestamp", "metadata"),
    ("a generateName", "metadata"),
    ("the host's label", "metadata"),
    ("the host's annotation", "metadata"),
    ("a last-applied annotation", "metadata"),
    ("the status of a child", "status"),
    ("the scale of a child", "kind-not-owned"),
    ("a command in a Pod", "kind-not-owned"),
    ("a Plugin object", "kind-not-owned"),
    ("a Lease", "kind-not-owned"),
    ("the host's Deployment", "host-namespace"),
    ("the host's Secret", "host-namespace"),
    ("a path in the name", "name"),
    ("another name in the JSON", "identity"),
    ("another kind in the JSON", "identity"),
    ("the same child twice", "duplicate-child"),
];

fn kind(kind: &kinds::Kind) -> Kind {
    Kind::new(kind.group, kind.version, kind.kind)
}

fn grant() -> Grant {
    let verbs = vec![Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Delete];
    let rule = |kind: &kinds::Kind| Rule {
        group: kind.group.into(),
        kind: kind.kind.into(),
        verbs: verbs.clone(),
        namespaces: Namespaces::default(),
        names: Vec::new(),
        holds_data: false,
        prune_data: false,
        recreate: false,
        foreign_pods: false,
        labels: Vec::new(),
        foreign_snapshots: false,
        helm_releases: false,
        pods: Pods {
            host_path: if *kind.kind == *POD.kind { vec!["/var/log".into()] } else { Vec::new() },
            ..Pods::default()
        },
        services: Services::default(),
    };
    let rules = GRANTED.iter().map(rule).collect();
    Grant {
        rules,
        prune_all: false,
        finalize: Vec::new(),
        parent_metadata: Default::default(),
        host_namespace: SYSTEM.into(),
    }
}

fn descriptor() -> Descriptor {
    let verbs = vec![WriteVerb::Create, WriteVerb::Update, WriteVerb::Delete];
    let owned = |granted: &kinds::Kind| OwnedKind { kind: kind(granted), verbs: verbs.clone(), fields: Vec::new() };
    Descriptor {
        name: "hostile".into(),
        version: "0.1.0".into(),
        parent: Kind::new("fixtures.example.com", "v1", "Attack"),
        parent_fields: Vec::new(),
        owns: GRANTED.iter().map(owned).collect(),
        reads: Vec::new(),
        finalizer: None,
        wants_now: false,
        wants_attempt: false,
        config_schema: None,
    }
}

/// Returns the rule that a decision for these children breaks, if any.
fn broken(objects: &[Forged]) -> Option<&'static str> {
    let parent = ObjectRef {
        kind: Kind::new("fixtures.example.com", "v1", "Attack"),
        namespace: Some(PLACE.namespace.into()),
        name: "one".into(),
    };
    let document = |object: &Forged| Document {
        reference: ObjectRef {
            kind: kind(&object.kind),
            namespace: object.namespace.as_deref().map(Into::into),
            name: object.name.as_str().into(),
        },
        json: object.body.to_string().into(),
    };
    let decision =
        Decision { children: Children::Exactly(objects.iter().map(document).collect()), ..Decision::default() };
    let (grant, descriptor) = (grant(), descriptor());
    let known = |wanted: &Kind| kinds::ALL.iter().find(|known| kind(known) == *wanted);
    let context = Context {
        parent: &parent,
        uid: "uid",
        plugin: "hostile",
        grant: &grant,
        descriptor: &descriptor,
        most_children: 500,
        most_fields: 10_000,
        namespaced: Box::new(move |wanted| Some(known(wanted)?.is_namespaced())),
        label_of: Box::new(|_, _| None),
    };
    check::check(&decision, &[], &context).err().map(|denial| denial.rule())
}

#[test]
fn every_forged_object_breaks_the_expected_rule() {
    // A row that is missing in RULES fails as well.
    let forged = ATTACKS.iter().filter(|row| row.stopped.contains(&Layer::Gate));
    let forged = forged.filter_map(|row| match row.how {
        How::Forged(objects) => Some((row.name, broken(&objects(&PLACE)).unwrap_or("none"))),
        _ => None,
    });
    assert_eq!(forged.collect::<Vec<_>>(), RULES);
}

fn harmless(kind: kinds::Kind, body: Value) -> Forged {
    Forged { path: String::new(), kind, namespace: None, name: "one-redis".into(), body }
}

#[test]
fn harmless_objects_that_are_granted_break_no_rule() {
    let metadata = json!({ "labels": { "app": "a" }, "annotations": { "example.com/a": "b" } });
    let map = harmless(CONFIG_MAP, json!({ "metadata": metadata }));
    assert_eq!(broken(std::slice::from_ref(&map)), None);
    assert_eq!(broken(&[map.clone(), Forged { name: "another".into(), ..map }]), None);
    let container = json!({ "name": "c", "securityContext": { "allowPrivilegeEscalation": false } });
    let pod = json!({ "automountServiceAccountToken": false, "containers": [container] });
    let template = json!({ "metadata": { "labels": { "app": "one" }, "annotations": { "note": "b" } }, "spec": pod });
    let selector = json!({ "matchLabels": { "app": "one" } });
    let claim = json!({ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"] } });
    for (kind, body) in [
        (
            STATEFUL_SET,
            json!({ "spec": { "selector": selector, "template": template, "volumeClaimTemplates": [claim] } }),
        ),
        (REPLICA_SET, json!({ "spec": { "selector": selector, "template": template } })),
        (DEPLOYMENT, json!({ "spec": { "selector": selector, "template": template } })),
        (CLAIM, json!({ "spec": claim["spec"] })),
        (SERVICE, json!({ "metadata": { "annotations": { "note": "b" } }, "spec": { "selector": { "app": "one" } } })),
    ] {
        assert_eq!(broken(&[harmless(kind, body)]), None, "{}", kind.kind);
    }
}
