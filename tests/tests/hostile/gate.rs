//! The same forged objects and the gate alone: no cluster, no sandbox.

use hotshoe::access::Verb;
use hotshoe::check::{self, Context};
use hotshoe::decision::{Children, Decision, Descriptor, Document, Kind, ObjectRef, OwnedKind, WriteVerb};
use hotshoe::grant::{Grant, Namespaces, Rule};
use hotshoe::pod_grant::Pods;
use hotshoe::service_policy::Services;
use hotshoe_tests::attacks::forged::{Forged, Place};
use hotshoe_tests::attacks::{ATTACKS, How, Layer, named};
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::kinds::{self, CLAIM, CONFIG_MAP, DEPLOYMENT, POD, REPLICA_SET, SECRET, SERVICE, STATEFUL_SET};
use serde_json::{Value, json};

/// More than any plugin should be given.
const GRANTED: [kinds::Kind; 8] = [CONFIG_MAP, DEPLOYMENT, POD, SECRET, SERVICE, REPLICA_SET, STATEFUL_SET, CLAIM];
const PLACE: Place<'_> = Place { namespace: "theirs", name: "forged" };

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
        prune_data: false,
        pods: Pods {
            host_path: if *kind.kind == *POD.kind { vec!["/var/log".into()] } else { Vec::new() },
            ..Pods::default()
        },
        services: Services::default(),
    };
    let rules = GRANTED.iter().map(rule).collect();
    Grant { rules, prune_all: false, host_namespace: SYSTEM.into() }
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

/// The rule that is broken by a decision for these children, if any.
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
    let decision = Decision {
        children: Children::Exactly(objects.iter().map(document).collect()),
        status: None,
        conditions: Vec::new(),
        events: Vec::new(),
        requeue_after: None,
    };
    let (grant, descriptor) = (grant(), descriptor());
    let known = |wanted: &Kind| kinds::ALL.iter().find(|known| kind(known) == *wanted);
    let context = Context {
        parent: &parent,
        uid: "uid",
        plugin: "hostile",
        grant: &grant,
        descriptor: &descriptor,
        most_children: 500,
        namespaced: Box::new(move |wanted| Some(known(wanted)?.is_namespaced())),
        label_of: Box::new(|_, _| None),
    };
    check::check(&decision, &[], &context).err().map(|violation| violation.rule)
}

#[test]
fn every_forged_object_breaks_a_rule_of_the_gate() {
    for row in ATTACKS {
        let How::Forged(objects) = row.how else { continue };
        if !row.stopped.contains(&Layer::Gate) {
            continue;
        }
        // Granted here, so that another rule would have to stop it.
        let of_secrets = row.name == "a ServiceAccount's token in a Secret";
        let rule = broken(&objects(&PLACE));
        assert!(rule.is_some() || of_secrets, "{}: nothing stops it", row.name);
    }
}

#[test]
fn what_is_granted_is_stopped_by_a_rule_about_what_stands_in_it() {
    for (name, rule) in [
        ("a Pod that writes where it may read the node's files", "pod-host-path-writable"),
        ("a Pod with an annotation for an add-on", "pod-annotation"),
        ("a Service with an annotation for an add-on", "service-annotation"),
        ("a ReplicaSet that takes somebody's Pods", "pod-adoption"),
        ("a Deployment that takes somebody's ReplicaSet", "pod-adoption"),
        ("a StatefulSet that takes somebody's Pods", "pod-adoption"),
        ("a StatefulSet that takes somebody's claim", "pod-volume-claim"),
        ("a StatefulSet that copies somebody's claim", "claim-source"),
        ("a StatefulSet whose claims have a finalizer", "pod-metadata"),
        ("a StatefulSet that has its claims deleted", "prune-data"),
        ("a copy of somebody's claim", "claim-source"),
        ("a claim of somebody's volume", "claim-source"),
        ("a PersistentVolume with somebody's Secret", "kind-not-owned"),
    ] {
        let How::Forged(objects) = named(name).how else { panic!("{name}") };
        assert_eq!(broken(&objects(&PLACE)), Some(rule), "{name}");
    }
}

fn honest(kind: kinds::Kind, body: Value) -> Forged {
    Forged { path: String::new(), kind, namespace: None, name: "one-redis".into(), body }
}

#[test]
fn what_is_granted_and_honest_breaks_none() {
    let metadata = json!({ "labels": { "app": "a" }, "annotations": { "example.com/a": "b" } });
    let map = honest(CONFIG_MAP, json!({ "metadata": metadata }));
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
        assert_eq!(broken(&[honest(kind, body)]), None, "{}", kind.kind);
    }
}
