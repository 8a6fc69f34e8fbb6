//! The gate.

use serde_json::Value;

use super::{depth, sections};
use hotshoe_core::check::access_request::Verb;
use hotshoe_core::check::grant::{Grant, Namespaces, Rule};
use hotshoe_core::check::pod::grant::Pods;
use hotshoe_core::check::service::Services;
use hotshoe_core::check::{Context, Desired, check};
use hotshoe_core::model::decision::{Children, Decision, Descriptor, Document, OwnedKind, WriteVerb};
use hotshoe_core::model::kind::{Kind, ObjectRef};

/// The kinds that the fuzzer's API server serves: group, version, kind, and whether the kind is namespaced.
const KINDS: [(&str, &str, &str, bool); 8] = [
    ("", "v1", "ConfigMap", true),
    ("", "v1", "Secret", true),
    ("", "v1", "Pod", true),
    ("", "v1", "Namespace", false),
    ("apps", "v1", "Deployment", true),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", false),
    ("coordination.k8s.io", "v1", "Lease", true),
];

/// The kinds that no grant may open, listed independently of the gate, so that an error in the gate's list is found.
const NEVER: [&str; 3] = ["RoleBinding", "ClusterRole", "Lease"];

const UID: &str = "2c5bc8a5-0000-0000-0000-000000000000";

/// Fuzzes the check of a decision against a grant. The first section is the grant: one number a line, each an
/// index into `KINDS`, modulo 8; from 8 on without the verb update. The other sections are children: a line
/// `KIND NAMESPACE NAME` with such an index as the kind, then JSON.
pub fn gate(bytes: &[u8]) {
    let Some(sections) = sections(bytes) else { return };
    let [granted, children @ ..] = &sections[..] else { return };
    let (grant, owns) = granted_by(granted);
    let descriptor = descriptor(owns);
    let parent = ObjectRef {
        kind: Kind::new("example.com", "v1", "Parent"),
        namespace: Some("home".into()),
        name: "parent".into(),
    };
    let decision = Decision {
        children: Children::Exactly(children.iter().filter_map(|section| child(section)).collect()),
        ..Decision::default()
    };
    let context = Context {
        parent: &parent,
        uid: UID,
        plugin: "plugin",
        grant: &grant,
        descriptor: &descriptor,
        most_children: 500,
        most_fields: 10_000,
        namespaced: Box::new(|kind| Some(known(kind)?.3)),
        label_of: Box::new(|_, _| None),
    };
    let Ok(passed) = check(&decision, &[], &context) else { return };
    let passed = passed.expect("the decision is about children");
    let Children::Exactly(desired) = &decision.children else { return };
    assert_eq!(passed.len(), desired.len(), "all or nothing");
    for (index, desired) in passed.iter().enumerate() {
        holds(desired, &grant);
        assert!(!passed.iter().skip(index + 1).any(|other| other.reference == desired.reference));
    }
}

fn known(kind: &Kind) -> Option<&'static (&'static str, &'static str, &'static str, bool)> {
    KINDS.iter().find(|(group, version, name, _)| *kind == Kind::new(group, version, name))
}

fn granted_by(text: &str) -> (Grant, Vec<OwnedKind>) {
    let (mut rules, mut owns) = (Vec::new(), Vec::new());
    for number in text.lines().filter_map(|line| line.trim().parse::<usize>().ok()) {
        let (group, version, kind, _) = KINDS[number % KINDS.len()];
        let verbs = match number < KINDS.len() {
            true => vec![Verb::Get, Verb::Create, Verb::Update, Verb::Delete],
            false => vec![Verb::Get, Verb::Create],
        };
        rules.push(Rule {
            group: group.into(),
            kind: kind.into(),
            verbs,
            namespaces: Namespaces::default(),
            names: Vec::new(),
            holds_data: false,
            prune_data: false,
            recreate: false,
            foreign_pods: false,
            labels: Vec::new(),
            foreign_snapshots: false,
            helm_releases: false,
            pods: Pods::default(),
            services: Services::default(),
        });
        let verbs = vec![WriteVerb::Create, WriteVerb::Update, WriteVerb::Delete];
        owns.push(OwnedKind { kind: Kind::new(group, version, kind), verbs, fields: Vec::new() });
    }
    (
        Grant {
            rules,
            prune_all: false,
            finalize: Vec::new(),
            parent_metadata: Default::default(),
            host_namespace: "host".into(),
        },
        owns,
    )
}

fn descriptor(owns: Vec<OwnedKind>) -> Descriptor {
    Descriptor {
        name: "fuzz".into(),
        version: "0".into(),
        parent: Kind::new("example.com", "v1", "Parent"),
        parent_fields: Vec::new(),
        owns,
        reads: Vec::new(),
        finalizer: None,
        wants_now: false,
        wants_attempt: false,
        config_schema: None,
    }
}

fn child(section: &str) -> Option<Document> {
    let (head, json) = section.split_once('\n')?;
    let mut words = head.split(' ');
    let (group, version, kind, _) = KINDS[words.next()?.parse::<usize>().ok()? % KINDS.len()];
    let namespace = words.next().filter(|word| *word != "-").map(Into::into);
    let name = words.next()?.into();
    Some(Document {
        reference: ObjectRef { kind: Kind::new(group, version, kind), namespace, name },
        json: json.into(),
    })
}

/// Checks an admitted object independently of the gate's code.
fn holds(desired: &Desired, grant: &Grant) {
    let reference = &desired.reference;
    let kind = &*reference.kind.kind;
    assert!(!NEVER.contains(&kind), "{reference} was let through");
    let is_granted = |rule: &Rule| {
        *rule.group == *reference.kind.group
            && *rule.kind == *reference.kind.kind
            && [Verb::Create, Verb::Update].iter().all(|verb| rule.verbs.contains(verb))
    };
    assert!(grant.rules.iter().any(is_granted), "{reference} is not granted");
    assert_eq!(reference.namespace.as_deref(), Some("home"), "{reference} is elsewhere");
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    assert!(!reference.name.is_empty() && reference.name.len() <= 253 && reference.name.chars().all(fits));
    let body = &*desired.body;
    let at = |pointer: &str| body.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(at("/apiVersion"), reference.kind.api_version().as_str());
    assert_eq!(at("/kind"), kind);
    assert_eq!(at("/metadata/name"), &*reference.name);
    assert_eq!(at("/metadata/namespace"), "home");
    assert_eq!(at("/metadata/ownerReferences/0/uid"), UID);
    assert_eq!(at("/metadata/ownerReferences").as_array().map(Vec::len), Some(1));
    assert_eq!(at("/metadata/labels/hotshoe.dev~1plugin"), "plugin");
    assert_eq!(at("/metadata/annotations/hotshoe.dev~1applied"), &*desired.digest);
    let ours = ["name", "namespace", "ownerReferences", "labels", "annotations"];
    for (field, _) in at("/metadata").as_object().expect("metadata") {
        assert!(ours.contains(&field.as_str()), "metadata.{field} was let through");
    }
    assert!(body.get("status").is_none() && depth(body) <= 65);
    has_no_null(body);
    let pod = if kind == "Pod" { body.get("spec") } else { body.pointer("/spec/template/spec") };
    if let Some(pod) = pod.filter(|_| matches!(kind, "Pod" | "Deployment")) {
        does_not_escalate(pod);
    }
}

/// Checks that no Pod has these fields anywhere, since no grant opens them.
fn does_not_escalate(value: &Value) {
    const FLAGS: [&str; 6] =
        ["hostNetwork", "hostPID", "hostIPC", "privileged", "hostProcess", "shareProcessNamespace"];
    const OBJECTS: [&str; 6] =
        ["hostPath", "secretKeyRef", "secretRef", "configMapKeyRef", "configMapRef", "projected"];
    match value {
        Value::Array(elements) => elements.iter().for_each(does_not_escalate),
        Value::Object(members) => {
            for (key, value) in members {
                assert!(!(FLAGS.contains(&key.as_str()) && *value == Value::Bool(true)), "{key} was let through");
                assert!(!(OBJECTS.contains(&key.as_str()) && value.is_object()), "{key} was let through");
                does_not_escalate(value);
            }
        }
        _ => {}
    }
}

fn has_no_null(value: &Value) {
    match value {
        Value::Null => panic!("a null was let through"),
        Value::Array(elements) => elements.iter().for_each(has_no_null),
        Value::Object(members) => members.values().for_each(has_no_null),
        _ => {}
    }
}
