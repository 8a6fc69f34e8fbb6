//! The gate against an evaluator that shares nothing with it: all that a grant allows in a small
//! world is written down as a set of tuples, one by one, and what is never allowed is struck out;
//! then the gate must say yes to exactly those.

use std::collections::BTreeSet;

use hotshoe_core::check;
use hotshoe_core::check::Context;
use hotshoe_core::check::access_request::{Access, Request};
use hotshoe_core::check::grant::{Grant, Rule};
use hotshoe_core::model::decision::{Children, Decision, Descriptor, Document, OwnedKind};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Value, json};

/// The kinds of the small world: group, kind, whether it has a namespace.
const KINDS: [(&str, &str, bool); 12] = [
    ("", "ConfigMap", true),
    ("", "Secret", true),
    ("", "Service", true),
    ("", "PersistentVolumeClaim", true),
    ("apps", "Deployment", true),
    ("apps", "StatefulSet", true),
    ("apps", "ReplicaSet", true),
    ("", "Namespace", false),
    ("", "Node", false),
    ("rbac.authorization.k8s.io", "RoleBinding", true),
    ("hotshoe.dev", "Plugin", false),
    ("snapshot.storage.k8s.io", "VolumeSnapshotContent", false),
];
const NAMESPACES: [&str; 4] = ["a", "b", "red", "host"];
/// The first is that of every parent.
const NAMES: [&str; 5] = ["x", "x-1", "y", "kube-x", "host"];
const VERBS: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];
const RULE_NAMESPACES: [&str; 7] =
    [r#""own""#, r#""cluster""#, r#"["a"]"#, r#"["b","host"]"#, r#"["a","b","red"]"#, RED, RED_AND_BIG];
const RED: &str = r#"{"matchLabels":{"colour":"red"}}"#;
const RED_AND_BIG: &str = r#"{"matchLabels":{"colour":"red","size":"big"}}"#;
const RULE_NAMES: [&str; 5] = ["[]", r#"["x"]"#, r#"["x*"]"#, r#"["*-1","y"]"#, r#"["nobody"]"#];

/// What a grant may open: where it stands in a rule, and the value that opens it.
const ITEMS: [(&str, &str, &str); 20] = [
    ("pods", "hostNetwork", "true"),
    ("pods", "hostPID", "true"),
    ("pods", "nodeName", "true"),
    ("pods", "serviceAccountToken", "true"),
    ("pods", "secrets", r#"["s"]"#),
    ("pods", "priorityClasses", r#"["p*"]"#),
    ("pods", "persistentVolumeClaims", r#"["data-*"]"#),
    ("pods", "claimSources", r#"["s"]"#),
    ("pods", "adopt", "true"),
    ("pods", "hostPath", r#"["/var/log"]"#),
    ("pods", "hostPathWritable", "true"),
    ("pods", "annotations", r#"["a.io/*"]"#),
    ("services", "types", r#"["NodePort"]"#),
    ("services", "externalIPs", "true"),
    ("services", "annotations", r#"["a.io/*"]"#),
    ("pods", "resources", r#"["a.io/*"]"#),
    ("pods", "shareProcessNamespace", "true"),
    (OF_RULE, "labels", r#"["a.io/*"]"#),
    (OF_RULE, "helmReleases", "true"),
    (OF_RULE, "foreignSnapshots", "true"),
];

/// Marks a fragment that nothing opens, and one that needs nothing.
const NEVER: &str = "never";
const NOTHING: &str = "";
/// In place of a section: the item stands in the rule itself.
const OF_RULE: &str = "rule";
/// Said of a rule, not of a section in it.
const DATA: &str = "pruneData";
/// After an item: it is not needed for a child whose name is, or begins with, its parent's; nor for
/// one of this name.
const UNLESS_OWN: &str = "pods.persistentVolumeClaims unless own";
/// What every body of a VolumeSnapshotContent needs.
const CONTENT: &str = "rule.foreignSnapshots";
const UNLESS_X_1: &str = "pods.adopt unless x-1";

/// Fragments of bodies: the kind, the place below the root, the value, and the items that open it.
const FRAGMENTS: [(&str, &str, &str, &str); 78] = [
    ("Deployment", "spec.template.spec.hostNetwork", "true", "pods.hostNetwork"),
    ("Deployment", "spec.template.spec.hostPID", "true", "pods.hostPID"),
    ("Deployment", "spec.template.spec.hostPID", "false", NOTHING),
    ("Deployment", "spec.template.spec.hostPID", "null", NOTHING),
    ("Deployment", "spec.template.spec.hostPID", r#""true""#, NEVER),
    ("Deployment", "spec.template.spec.HostPID", "true", NEVER),
    ("Deployment", "spec.template.spec.nodeName", r#""n""#, "pods.nodeName"),
    ("Deployment", "spec.template.spec.automountServiceAccountToken", "true", "pods.serviceAccountToken"),
    ("Deployment", "spec.template.spec.automountServiceAccountToken", "null", "pods.serviceAccountToken"),
    ("Deployment", "spec.template.spec.imagePullSecrets", r#"[{"name":"s"}]"#, "pods.secrets"),
    ("Deployment", "spec.template.spec.imagePullSecrets", "[]", NOTHING),
    ("Deployment", "spec.template.spec.imagePullSecrets", r#"[{"name":"other"}]"#, NEVER),
    ("Deployment", "spec.template.spec.volumes", r#"[{"name":"v","secret":{"secretName":"s"}}]"#, "pods.secrets"),
    ("Deployment", "spec.template.spec.volumes", r#"[{"name":"v","emptyDir":{}}]"#, NOTHING),
    ("Deployment", "spec.template.spec.volumes", r#"[{"name":"v","hostPath":{"path":"/var"}}]"#, NEVER),
    ("Deployment", "spec.template.spec.priorityClassName", r#""p-high""#, "pods.priorityClasses"),
    ("Deployment", "spec.template.spec.ephemeralContainers", "[{}]", NEVER),
    ("Deployment", "spec.template.metadata.annotations", r#"{"a.io/b":"c"}"#, "pods.annotations"),
    ("Deployment", "spec.template.metadata.annotations", r#"{"b.io/a":"c"}"#, NEVER),
    ("Deployment", "spec.template.metadata.annotations", r#"{"b":"c"}"#, NOTHING),
    ("Deployment", "metadata.annotations", r#"{"b.io/a":"c"}"#, NOTHING),
    ("Deployment", "spec.selector.matchLabels", r#"{"app":"theirs"}"#, "pods.adopt"),
    ("Deployment", "spec.selector.matchLabels", r#"{"app":"theirs","of":"x"}"#, NOTHING),
    ("Deployment", "spec.replicas", "3", NOTHING),
    ("StatefulSet", "spec.template.spec", OF_NODE_READ, "pods.hostPath"),
    ("StatefulSet", "spec.template.spec", OF_NODE, "pods.hostPath pods.hostPathWritable"),
    ("StatefulSet", "spec.template.spec", OF_NODE_SOCKET, "pods.hostPath pods.hostPathWritable"),
    ("StatefulSet", "metadata.annotations", r#"{"b.io/a":"c"}"#, NOTHING),
    ("StatefulSet", "spec.selector.matchLabels", r#"{"app":"theirs"}"#, "pods.adopt"),
    ("StatefulSet", "spec.selector.matchLabels", r#"{"app":"x-1"}"#, UNLESS_X_1),
    ("StatefulSet", "spec.volumeClaimTemplates", r#"[{"metadata":{"name":"data"}}]"#, UNLESS_OWN),
    (
        "StatefulSet",
        "spec.volumeClaimTemplates",
        r#"[{"metadata":{"name":"data"},"spec":{"accessModes":["a"]}}]"#,
        UNLESS_OWN,
    ),
    ("StatefulSet", "spec.volumeClaimTemplates", r#"[{"metadata":{"name":"data-b"}}]"#, "pods.persistentVolumeClaims"),
    ("StatefulSet", "spec.volumeClaimTemplates", r#"[{"metadata":{"name":"other-b"}}]"#, NEVER),
    ("StatefulSet", "spec.volumeClaimTemplates", r#"[{"metadata":{"name":"data","finalizers":["a/b"]}}]"#, NEVER),
    ("StatefulSet", "spec.volumeClaimTemplates", r#"[{"metadata":{"name":"data"},"status":{"a":1}}]"#, NEVER),
    (
        "StatefulSet",
        "spec.volumeClaimTemplates",
        r#"[{"metadata":{"name":"data-b"},"spec":{"dataSource":{"name":"s"}}}]"#,
        "pods.persistentVolumeClaims pods.claimSources",
    ),
    ("StatefulSet", "spec.persistentVolumeClaimRetentionPolicy.whenDeleted", r#""Delete""#, DATA),
    ("StatefulSet", "spec.persistentVolumeClaimRetentionPolicy.whenScaled", r#""Retain""#, NOTHING),
    ("PersistentVolumeClaim", "spec.volumeName", r#""s""#, "pods.claimSources"),
    ("PersistentVolumeClaim", "spec.volumeName", r#""other""#, NEVER),
    ("PersistentVolumeClaim", "spec.storageClassName", r#""fast""#, NOTHING),
    ("PersistentVolumeClaim", "spec.odd", "1", NEVER),
    ("PersistentVolumeClaim", "metadata.annotations", r#"{"a.io/b":"c"}"#, "pods.annotations"),
    ("PersistentVolumeClaim", "metadata.annotations", r#"{"b.io/a":"c"}"#, NEVER),
    ("PersistentVolumeClaim", "metadata.annotations", r#"{"b":"c"}"#, NOTHING),
    ("Namespace", "metadata.labels", r#"{"a":"b"}"#, NOTHING),
    ("Namespace", "spec.finalizers", r#"["a/b"]"#, NEVER),
    ("ReplicaSet", "spec.selector.matchLabels", r#"{"app":"theirs"}"#, "pods.adopt"),
    ("ReplicaSet", "spec.selector.matchLabels", r#"{"app":"x-1"}"#, UNLESS_X_1),
    ("ReplicaSet", "spec.selector.matchLabels", r#"{"app":"theirs","of":"x"}"#, NOTHING),
    ("Service", "spec.type", r#""NodePort""#, "services.types"),
    ("Service", "spec.type", r#""ClusterIP""#, NOTHING),
    ("Service", "spec.externalIPs", r#"["192.0.2.1"]"#, "services.externalIPs"),
    ("Service", "spec.odd", "1", NEVER),
    ("Service", "metadata.annotations", r#"{"a.io/b":"c","d":"e"}"#, "services.annotations"),
    ("Secret", "type", r#""Opaque""#, NOTHING),
    ("Secret", "type", r#""kubernetes.io/service-account-token""#, NEVER),
    ("ConfigMap", "data.a", r#""b""#, NOTHING),
    ("ConfigMap", "metadata.finalizers", r#"["a/b"]"#, NEVER),
    ("ConfigMap", "status.a", r#""b""#, NEVER),
    ("Deployment", "spec.template.metadata.labels", r#"{"a.io/b":"c"}"#, "rule.labels"),
    ("Deployment", "spec.template.metadata.labels", r#"{"b.io/a":"c"}"#, NEVER),
    ("Deployment", "spec.template.metadata.labels", r#"{"cache.example.com/a":"b","app":"c"}"#, NOTHING),
    ("Deployment", "metadata.labels", r#"{"b.io/a":"c"}"#, NOTHING),
    ("Deployment", "spec.template.spec.shareProcessNamespace", "true", "pods.shareProcessNamespace"),
    ("Deployment", "spec.template.spec.shareProcessNamespace", "false", NOTHING),
    ("Deployment", "spec.template.spec.resources", r#"{"limits":{"a.io/gpu":1}}"#, "pods.resources"),
    ("Deployment", "spec.template.spec.resources", r#"{"requests":{"b.io/gpu":1}}"#, NEVER),
    ("Deployment", "spec.template.spec.resources", r#"{"limits":{"cpu":1}}"#, NOTHING),
    ("Namespace", "metadata.labels", r#"{"a.io/b":"c"}"#, "rule.labels"),
    ("Namespace", "metadata.labels", r#"{"pod-security.kubernetes.io/enforce":"privileged"}"#, NEVER),
    ("Secret", "type", r#""helm.sh/release.v1""#, "rule.helmReleases"),
    ("Secret", "metadata.labels", r#"{"owner":"helm"}"#, "rule.helmReleases"),
    ("ConfigMap", "metadata.labels", r#"{"owner":"helm"}"#, "rule.helmReleases"),
    ("ConfigMap", "metadata.labels", r#"{"owner":"me","b.io/a":"c"}"#, NOTHING),
    ("VolumeSnapshotContent", "spec.source", r#"{"snapshotHandle":"theirs"}"#, CONTENT),
    ("VolumeSnapshotContent", "spec.driver", r#""d""#, CONTENT),
];

const OF_NODE: &str = concat!(
    r#"{"automountServiceAccountToken":false,"volumes":[{"name":"v","hostPath":{"path":"/var/log"}}],"#,
    r#""containers":[{"securityContext":{"allowPrivilegeEscalation":false},"volumeMounts":[{"name":"v"}]}]}"#
);
const OF_NODE_READ: &str = concat!(
    r#"{"automountServiceAccountToken":false,"volumes":[{"name":"v","hostPath":{"path":"/var/log"}}],"#,
    r#""containers":[{"securityContext":{"allowPrivilegeEscalation":false},"#,
    r#""volumeMounts":[{"name":"v","readOnly":true}]}]}"#
);
const OF_NODE_SOCKET: &str = r#"{"automountServiceAccountToken":false,"volumes":[{"name":"v","hostPath":{"path":"/var/log/s","type":"Socket"}}]}"#;

#[derive(Clone, Debug)]
struct RuleText {
    kind: usize,
    verbs: Vec<&'static str>,
    namespaces: &'static str,
    names: &'static str,
    data: bool,
    items: Vec<(&'static str, &'static str, &'static str)>,
}

impl RuleText {
    fn json(&self) -> Value {
        let (group, kind, _) = KINDS[self.kind];
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let mut rule = json!({
            "group": group, "kind": kind, "verbs": self.verbs, "namespaces": parsed(self.namespaces),
            "names": parsed(self.names), "pruneData": self.data,
        });
        for (section, item, value) in &self.items {
            let at = if *section == OF_RULE { &mut rule } else { &mut rule[*section] };
            at[*item] = parsed(value);
        }
        rule
    }
}

fn rule() -> impl Strategy<Value = RuleText> {
    let verbs = subsequence(VERBS.to_vec(), 2..=VERBS.len());
    let items = subsequence(ITEMS.to_vec(), 0..=ITEMS.len());
    (0..KINDS.len(), verbs, select(RULE_NAMESPACES.to_vec()), select(RULE_NAMES.to_vec()), any::<bool>(), items)
        .prop_map(|(kind, verbs, namespaces, names, data, items)| RuleText {
            kind,
            verbs,
            namespaces,
            names,
            data,
            items,
        })
}

/// Rules of which most are about one kind, so that they meet what is asked for.
fn rules() -> impl Strategy<Value = (usize, Vec<RuleText>)> {
    (0..KINDS.len(), prop::collection::vec((rule(), 0..5u8), 0..5)).prop_map(|(kind, rules)| {
        let about = |(rule, odds): (RuleText, u8)| if odds == 0 { rule } else { RuleText { kind, ..rule } };
        (kind, rules.into_iter().map(about).collect())
    })
}

/// `None` is a parent without a namespace.
fn place() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![1 => Just(None), 4 => select(NAMESPACES.to_vec()).prop_map(Some)]
}

fn grant(rules: &[RuleText]) -> Grant {
    let rules: Vec<Rule> = rules.iter().map(|rule| serde_json::from_value(rule.json()).unwrap()).collect();
    Grant {
        rules,
        prune_all: true,
        finalize: Vec::new(),
        parent_metadata: Default::default(),
        host_namespace: "host".into(),
    }
}

fn reference(kind: usize, namespace: Option<&str>, name: &str) -> ObjectRef {
    let (group, kind, _) = KINDS[kind];
    ObjectRef { kind: Kind::new(group, "v1", kind), namespace: namespace.map(Into::into), name: name.into() }
}

fn parent(namespace: Option<&str>) -> ObjectRef {
    let kind = Kind::new("cache.example.com", "v1", "Memcached");
    ObjectRef { kind, namespace: namespace.map(Into::into), name: "x".into() }
}

/// `red` has one label of two.
fn label_of(namespace: &str, key: &str) -> Option<String> {
    (namespace == "red" && key == "colour").then(|| "red".to_owned())
}

// ─── the other evaluator ───

/// One thing that is allowed for this parent: verb, kind, namespace, name, and what is open.
type Allowed = BTreeSet<(String, usize, Option<String>, String, BTreeSet<String>)>;

/// All of it, counted out.
fn count_out(rules: &[RuleText], parent: Option<&str>) -> Allowed {
    let mut allowed = Allowed::new();
    let everywhere: Vec<Option<&str>> = std::iter::once(None).chain(NAMESPACES.map(Some)).collect();
    for rule in rules {
        let reached: Vec<Option<&str>> = match rule.namespaces {
            r#""own""# => parent.map(Some).into_iter().collect(),
            r#""cluster""# => everywhere.clone(),
            RED => vec![Some("red")],
            RED_AND_BIG => Vec::new(),
            list => serde_json::from_str::<Vec<&str>>(list).unwrap().into_iter().map(Some).collect(),
        };
        let named: Vec<&str> = match rule.names {
            "[]" => NAMES.to_vec(),
            r#"["x"]"# => vec!["x"],
            r#"["x*"]"# => vec!["x", "x-1"],
            r#"["*-1","y"]"# => vec!["x-1", "y"],
            _ => Vec::new(),
        };
        let items = rule.items.iter().map(|(section, item, _)| format!("{section}.{item}"));
        let open: BTreeSet<String> = items.chain(rule.data.then(|| DATA.to_owned())).collect();
        for verb in &rule.verbs {
            for namespace in &reached {
                for name in &named {
                    let namespace = namespace.map(str::to_owned);
                    allowed.insert(((*verb).to_owned(), rule.kind, namespace, (*name).to_owned(), open.clone()));
                }
            }
        }
        // What this very rule does not give after all.
        let (_, kind, _) = KINDS[rule.kind];
        let loses =
            ["Namespace", "PersistentVolumeClaim", "Secret", "VolumeSnapshotContent"].contains(&kind) && !rule.data;
        let unnamed = kind == "Secret" && rule.names == "[]";
        for gone in [loses.then_some("delete"), unnamed.then_some("get")].into_iter().flatten() {
            let others: Vec<RuleText> = rules.iter().filter(|other| !std::ptr::eq(*other, rule)).cloned().collect();
            let kept = count_out(&others, parent);
            allowed.retain(|one| one.0 != gone || one.1 != rule.kind || kept.contains(one));
        }
    }
    allowed.retain(|(verb, kind, namespace, name, _)| {
        let (group, kind, namespaced) = KINDS[*kind];
        let writes = ["create", "update", "delete"].contains(&verb.as_str());
        let never = group.contains("rbac") || group == "hotshoe.dev" || namespace.as_deref() == Some("host");
        let never_written = kind == "Namespace" && (name == "kube-x" || name == "host");
        let elsewhere = parent.is_some() && namespace.as_deref() != parent;
        !never && namespaced == namespace.is_some() && !(writes && (never_written || elsewhere))
    });
    allowed
}

fn is_in(
    allowed: &Allowed,
    verb: &str,
    kind: usize,
    namespace: Option<&str>,
    name: &str,
    needs: &BTreeSet<&str>,
) -> bool {
    allowed.iter().any(|(v, k, ns, n, open)| {
        let opens = needs.iter().all(|need| open.contains(*need));
        v == verb && *k == kind && ns.as_deref() == namespace && n == name && opens
    })
}

// ─── the gate's side ───

/// A body of these fragments for a child of this name, and what it needs.
fn body(kind: usize, name: &str, picks: &[Index]) -> (Value, BTreeSet<&'static str>) {
    let (_, kind, _) = KINDS[kind];
    let mut body = match kind {
        "Deployment" | "StatefulSet" | "ReplicaSet" => json!({ "spec": {
            "selector": { "matchLabels": { "app": "x" } },
            "template": { "spec": { "automountServiceAccountToken": false } },
        } }),
        _ => json!({}),
    };
    let menu: Vec<_> = FRAGMENTS.into_iter().filter(|(of, ..)| *of == kind).collect();
    let mut needs = std::collections::BTreeMap::new();
    for pick in picks.iter().filter(|_| !menu.is_empty()) {
        let (_, path, value, need) = *pick.get(&menu);
        let mut at = &mut body;
        for part in path.split('.') {
            at = &mut at[part];
        }
        *at = serde_json::from_str(value).unwrap();
        // A later fragment takes the place of an earlier one.
        needs.insert(path, need);
    }
    if kind == "VolumeSnapshotContent" {
        needs.insert("", CONTENT);
    }
    let met = |need: &&str| match *need {
        UNLESS_OWN => ["x", "x-1"].contains(&name),
        UNLESS_X_1 => name == "x-1",
        other => other == NOTHING,
    };
    let needs = needs.into_values().filter(|need| !met(need));
    let items = needs.flat_map(|need| need.split(" unless ").next().unwrap().split(' '));
    (body, items.collect())
}

fn descriptor() -> Descriptor {
    let owned = KINDS.map(|(group, kind, _)| OwnedKind {
        kind: Kind::new(group, "v1", kind),
        verbs: Vec::new(),
        fields: Vec::new(),
    });
    Descriptor {
        name: "any".into(),
        version: "1".into(),
        parent: parent(None).kind,
        owns: owned.to_vec(),
        ..Descriptor::default()
    }
}

fn is_namespaced(kind: &Kind) -> Option<bool> {
    let found = KINDS.iter().find(|(group, name, _)| *group == &*kind.group && *name == &*kind.kind);
    found.map(|(_, _, namespaced)| *namespaced)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_read_is_shown_exactly_where_the_grant_says_so(
        (about, rules) in rules(), odds in 0..5u8, other in 0..KINDS.len(),
        of in place(), namespace in place(), name in select(NAMES.to_vec()),
    ) {
        let kind = if odds == 0 { other } else { about };
        let object = reference(kind, namespace, name);
        let parent_ref = parent(of);
        let request = Request { parent: &parent_ref, object: &object, namespaced: KINDS[kind].2, access: Access::Read };
        let expected = is_in(&count_out(&rules, of), "get", kind, namespace, name, &BTreeSet::new());
        let judged = grant(&rules).authorise(&request, &label_of);
        prop_assert_eq!(judged.is_ok(), expected, "{:?}", judged);
    }

    #[test]
    fn a_child_is_deleted_exactly_where_the_grant_says_so(
        (about, rules) in rules(), of in place(), odds in 0..3u8, other in place(), name in select(NAMES.to_vec()),
    ) {
        let namespace = if odds == 0 { other } else { of };
        let object = reference(about, namespace, name);
        let (parent_ref, grant, descriptor) = (parent(of), grant(&rules), descriptor());
        let context = context(&parent_ref, &grant, &descriptor);
        let expected = is_in(&count_out(&rules, of), "delete", about, namespace, name, &BTreeSet::new());
        let judged = check::check_prune(&object, &context);
        prop_assert_eq!(judged.is_ok(), expected, "{:?}", judged);
    }

    #[test]
    fn a_body_passes_exactly_where_the_rule_of_its_kind_opens_it(
        kind in 0..KINDS.len(), items in subsequence(ITEMS.to_vec(), 0..=ITEMS.len()), data in any::<bool>(),
        name in select(NAMES.to_vec()), picks in prop::collection::vec(any::<Index>(), 0..3),
    ) {
        let rules = [RuleText { kind, verbs: VERBS.to_vec(), namespaces: r#""own""#, names: "[]", data, items }];
        let (parent_ref, grant, descriptor) = (parent(Some("a")), grant(&rules), descriptor());
        let (body, needs) = body(kind, name, &picks);
        let document = Document { reference: reference(kind, None, name), json: body.to_string().into() };
        let decision = Decision { children: Children::Exactly(vec![document]), ..Decision::default() };
        let namespace = KINDS[kind].2.then_some("a");
        let expected = !needs.contains(NEVER)
            && is_in(&count_out(&rules, Some("a")), "create", kind, namespace, name, &needs);
        let judged = check::check(&decision, &[], &context(&parent_ref, &grant, &descriptor));
        prop_assert_eq!(judged.is_ok(), expected, "{:?}: {}", judged, body);
    }

    #[test]
    fn a_decision_passes_exactly_where_each_of_its_children_does(
        (about, rules) in rules(), of in place(),
        children in prop::collection::vec(
            (0..8u8, 0..KINDS.len(), 0..3u8, place(), select(NAMES.to_vec()), prop::collection::vec(any::<Index>(), 0..3)), 0..3,
        ),
    ) {
        let (parent_ref, grant, descriptor) = (parent(of), grant(&rules), descriptor());
        let context = context(&parent_ref, &grant, &descriptor);
        let allowed = count_out(&rules, of);
        let mut expected = true;
        let mut seen = BTreeSet::new();
        let mut documents = Vec::new();
        for (odds, other, elsewhere, namespace, name, picks) in children {
            let kind = if odds == 0 { other } else { about };
            let said = if elsewhere == 0 { namespace } else { None };
            let (body, needs) = body(kind, name, &picks);
            documents.push(Document { reference: reference(kind, said, name), json: body.to_string().into() });
            // Without one of its own a child is in the namespace of its parent, if its kind has any.
            let namespace = if KINDS[kind].2 { said.or(of) } else { said };
            expected &= !needs.contains(NEVER)
                && is_in(&allowed, "create", kind, namespace, name, &needs)
                && is_in(&allowed, "update", kind, namespace, name, &needs)
                && seen.insert((kind, namespace, name));
        }
        let decision = Decision { children: Children::Exactly(documents), ..Decision::default() };
        let judged = check::check(&decision, &[], &context);
        prop_assert_eq!(judged.is_ok(), expected, "{:?}", judged);
    }
}

fn context<'a>(parent: &'a ObjectRef, grant: &'a Grant, descriptor: &'a Descriptor) -> Context<'a> {
    Context {
        parent,
        uid: "uid",
        plugin: "any",
        grant,
        descriptor,
        most_children: 500,
        most_fields: 10_000,
        namespaced: Box::new(is_namespaced),
        label_of: Box::new(label_of),
    }
}
