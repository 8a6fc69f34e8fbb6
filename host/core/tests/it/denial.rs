//! A denied decision reports everything that is wrong with it, with the lines that fix it.

use hotshoe_core::check::grant::{Grant, Rule};
use hotshoe_core::check::{Context, Denial, check, remedy};
use hotshoe_core::model::decision::{Children, Decision, Descriptor, Document, OwnedKind};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use serde_json::{Value, json};

pub(crate) fn grant(rules: Value, prune_all: bool) -> Grant {
    Grant {
        rules: serde_json::from_value(rules).unwrap(),
        prune_all,
        finalize: Vec::new(),
        parent_metadata: Default::default(),
        host_namespace: "host".into(),
    }
}

pub(crate) fn child(group: &str, kind: &str, name: &str, body: &Value) -> Document {
    let kind = Kind::new(group, "v1", kind);
    let reference = ObjectRef { kind, namespace: Some("n".into()), name: name.into() };
    Document { reference, json: body.to_string().into() }
}

/// Why these children of a parent in the namespace `n` are denied.
pub(crate) fn denial(children: &[Document], grant: &Grant) -> Option<Denial> {
    let owned = |child: &Document| OwnedKind { kind: child.reference.kind.clone(), verbs: vec![], fields: vec![] };
    let descriptor = Descriptor {
        name: "demo".into(),
        version: "1".into(),
        parent: Kind::new("example.com", "v1", "Demo"),
        owns: children.iter().map(owned).collect(),
        ..Descriptor::default()
    };
    let parent = child("example.com", "Demo", "one", &json!({})).reference;
    let context = Context {
        parent: &parent,
        uid: "u",
        plugin: "demo",
        grant,
        descriptor: &descriptor,
        most_children: 100,
        most_fields: 1_000,
        namespaced: Box::new(|_| Some(true)),
        label_of: Box::new(|_, _| None),
    };
    let children = Children::Exactly(children.to_vec());
    let decision = Decision { children, ..Decision::default() };
    check(&decision, &[], &context).err()
}

fn greedy_deployment(escalates: bool) -> Document {
    let body = json!({
        "spec": {
            "selector": { "matchLabels": { "app": "other" } },
            "template": {
                "metadata": { "annotations": { "example.com/odd": "x" } },
                "spec": {
                    "automountServiceAccountToken": false,
                    "hostNetwork": true,
                    "containers": [{
                        "name": "c",
                        "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "password", "key": "k" } } }],
                        "securityContext": {
                            "allowPrivilegeEscalation": escalates,
                            "privileged": true,
                            "capabilities": { "add": ["SYS_ADMIN"] },
                        },
                    }],
                    "volumes": [{ "name": "v", "hostPath": { "path": "/var/log" } }],
                },
            },
        },
    });
    child("apps", "Deployment", "web", &body)
}

#[test]
fn everything_that_is_wrong_with_a_decision_is_reported_at_once() {
    let grants = json!([
        { "kind": "Service", "verbs": ["create", "update"] },
        { "group": "apps", "kind": "Deployment", "verbs": ["create", "update"] },
    ]);
    let service = child("", "Service", "web", &json!({ "spec": { "type": "NodePort", "unknownField": 1 } }));
    let children = [greedy_deployment(true), service, child("", "ConfigMap", "settings", &json!({}))];
    let denial = denial(&children, &grant(grants, false)).unwrap();
    let rules: Vec<_> = denial.violations().iter().map(|violation| violation.rule).collect();
    let mut sorted = rules.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            "field-unknown",
            "not-granted",
            "pod-adoption",
            "pod-annotation",
            "pod-capability",
            "pod-escalation",
            "pod-host-network",
            "pod-host-path",
            "pod-privileged",
            "pod-secret",
            "service-type",
        ],
        "{denial}"
    );
    let text = denial.to_string();
    for says in [
        "Deployment.apps n/web: spec.template.spec.hostNetwork is not granted; to allow it, add to spec.grants[1] in plugin.yaml: pods: {hostNetwork: true}",
        "Service n/web: spec.type is not granted; to allow it, add to spec.grants[0] in plugin.yaml: services: {types: [NodePort]}",
        "Service n/web: spec.unknownField is no field that this host knows to be harmless; leave it out",
        "ConfigMap n/settings: `create`, `update` on ConfigMap is not granted; to allow it, \
         add to spec.grants in plugin.yaml: - {kind: ConfigMap, verbs: [get, list, watch, create, update]}",
    ] {
        assert!(text.contains(says), "{says}\n{text}");
    }
}

/// The grants with those of a piece of `plugin.yaml` in the places that it names, or behind them.
fn pasted(grant: &Grant, yaml: &str) -> Grant {
    let piece: Value = serde_saphyr::from_str(yaml).unwrap();
    let places = yaml.lines().filter_map(|line| line.trim().strip_prefix("# in place of spec.grants["));
    let mut places = places.map(|place| place.trim_end_matches(']').parse::<usize>().unwrap());
    let mut rules = grant.rules.clone();
    for rule in piece["spec"]["grants"].as_array().unwrap() {
        let rule: Rule = serde_json::from_value(rule.clone()).unwrap();
        rule.validate().unwrap();
        match places.next() {
            Some(place) => rules[place] = rule,
            None => rules.push(rule),
        }
    }
    Grant { rules, ..grant.clone() }
}

#[test]
fn what_is_printed_for_plugin_yaml_can_be_pasted_and_then_the_decision_passes() {
    let before = grant(
        json!([
            { "kind": "Service", "verbs": ["create", "update"], "names": ["other"], "namespaces": ["n", "m"] },
            { "group": "apps", "kind": "Deployment", "verbs": ["create"], "pods": { "secrets": ["*-key"] } },
        ]),
        false,
    );
    let service = child("", "Service", "web", &json!({ "spec": { "type": "NodePort", "externalIPs": ["1.2.3.4"] } }));
    // The object itself can say that nothing escalates, so no right to that is printed.
    let children = [greedy_deployment(false), service, child("", "ConfigMap", "settings", &json!({}))];
    let mut grant = before;
    // What a name hides the next round shows.
    for _round in 0..2 {
        let yaml = remedy::of_denial(&denial(&children, &grant).unwrap(), &grant).unwrap();
        grant = pasted(&grant, &yaml);
    }
    assert_eq!(denial(&children, &grant).map(|denial| denial.to_string()), None);
}

#[test]
fn a_kind_that_is_not_granted_at_all_is_opened_by_one_piece() {
    let (none, children) = (grant(json!([]), false), [greedy_deployment(false)]);
    let yaml = remedy::of_denial(&denial(&children, &none).unwrap(), &none).unwrap();
    assert_eq!(denial(&children, &pasted(&none, &yaml)).map(|denial| denial.to_string()), None, "{yaml}");
}

#[test]
fn of_thousands_of_violations_twenty_are_listed() {
    let children: Vec<_> = (0..500).map(|n| child("", "ConfigMap", &format!("c{n}"), &json!({}))).collect();
    let denial = denial(&children, &grant(json!([]), false)).unwrap();
    assert_eq!((denial.violations().len(), denial.count()), (20, 500));
    assert!(denial.to_string().ends_with("and 480 more") && denial.to_string().len() < 8_000, "{denial}");
}
