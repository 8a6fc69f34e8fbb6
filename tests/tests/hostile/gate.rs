//! The same forged objects and the gate alone: no cluster, no sandbox.

use hotshoe::check::{self, Context};
use hotshoe::decision::{Children, Decision, Descriptor, Document, Kind, ObjectRef, OwnedKind, WriteVerb};
use hotshoe::grant::{Grant, Namespaces, Rule, Verb};
use hotshoe::pod_policy::Pods;
use hotshoe::service_policy::Services;
use hotshoe_tests::attacks::forged::{Forged, Place};
use hotshoe_tests::attacks::{ATTACKS, How, Layer};
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::kinds::{self, CONFIG_MAP, DEPLOYMENT, POD, SECRET};

/// More than any plugin should be given.
const GRANTED: [kinds::Kind; 4] = [CONFIG_MAP, DEPLOYMENT, POD, SECRET];
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
        pods: Pods::default(),
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
        namespaced: Box::new(move |wanted| Some(known(wanted)?.is_namespaced())),
        label_of: Box::new(|_, _| None),
    };
    check::check(&decision, 0, &context).err().map(|violation| violation.rule)
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
fn what_is_granted_and_honest_breaks_none() {
    let honest = |kind: kinds::Kind| Forged {
        path: String::new(),
        kind,
        namespace: None,
        name: "forged".into(),
        body: serde_json::json!({ "metadata": { "labels": { "app": "a" }, "annotations": { "example.com/a": "b" } } }),
    };
    assert_eq!(broken(&[honest(CONFIG_MAP)]), None);
    assert_eq!(broken(&[honest(CONFIG_MAP), Forged { name: "another".into(), ..honest(CONFIG_MAP) }]), None);
}
