//! What may result from a write where others have set fields, against an evaluator that shares nothing with the gate:
//! each fragment of an object says by itself what opens it.

use hotshoe_core::check::grant::{Grant, Rule};
use hotshoe_core::check::{Context, Desired, result};
use hotshoe_core::model::decision::Descriptor;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Map, Value, json};

/// Marks a fragment that no item of a grant allows.
const NEVER: &str = "never";
/// Marks a fragment that needs no item of a grant.
const NOTHING: &str = "";
/// The item that allows volumes with files of the node, and the one that allows a container to write to them.
const NODE: &str = "hostPath";
const WRITES: &str = "hostPathWritable";

/// Fragments of a Pod: the part, its JSON, and the item that opens it.
const FRAGMENTS: [(&str, &str, &str); 35] = [
    ("spec", r#"{"hostPID":true}"#, "hostPID"),
    ("spec", r#"{"hostPID":false}"#, NOTHING),
    ("spec", r#"{"hostIPC":true}"#, "hostIPC"),
    ("spec", r#"{"serviceAccountName":"admin","serviceAccount":"admin"}"#, "serviceAccounts"),
    ("spec", r#"{"serviceAccountName":"default","serviceAccount":"default"}"#, NOTHING),
    ("spec", r#"{"volumes":[{"name":"tls","secret":{"secretName":"s","defaultMode":420}}]}"#, "secrets"),
    ("spec", r#"{"volumes":[{"name":"map","configMap":{"name":"m"}}]}"#, "configMaps"),
    ("spec", r#"{"volumes":[{"name":"token","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]}"#, TOKEN),
    (
        "spec",
        r#"{"volumes":[{"name":"root","projected":{"sources":[{"configMap":{"name":"kube-root-ca.crt"}}]}}]}"#,
        NOTHING,
    ),
    ("spec", r#"{"volumes":[{"name":"tmp","emptyDir":{}}]}"#, NOTHING),
    ("spec", r#"{"volumes":[{"name":"node","hostPath":{"path":"/var/log","type":""}}]}"#, NODE),
    ("spec", r#"{"volumes":[{"name":"other","hostPath":{"path":"/var/log","type":""}}]}"#, NODE),
    ("spec", r#"{"dnsPolicy":"ClusterFirst","schedulerName":"default-scheduler","securityContext":{}}"#, NOTHING),
    ("spec", r#"{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists"}]}"#, NOTHING),
    ("spec", r#"{"odd":1}"#, NEVER),
    ("spec", r#"{"filledIn":1}"#, NOTHING),
    ("main", r#"{"volumeMounts":[{"name":"node","mountPath":"/node"}]}"#, WRITES),
    ("main", r#"{"volumeMounts":[{"name":"node","mountPath":"/node","readOnly":true}]}"#, NOTHING),
    ("main", r#"{"volumeMounts":[{"name":"tls","mountPath":"/tls"}]}"#, NOTHING),
    ("main", r#"{"env":[{"name":"P","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}"#, "secrets"),
    ("main", r#"{"securityContext":{"capabilities":{"add":["NET_ADMIN"]}}}"#, "capabilities"),
    ("main", r#"{"ports":[{"containerPort":80,"hostPort":80,"protocol":"TCP"}]}"#, "hostPorts"),
    ("agent", r#"{"image":"agent"}"#, NOTHING),
    ("agent", r#"{"securityContext":{"privileged":true}}"#, "privileged"),
    ("agent", r#"{"securityContext":{"capabilities":{"add":["NET_ADMIN"]}}}"#, "capabilities"),
    ("agent", r#"{"volumeMounts":[{"name":"node","mountPath":"/node"}]}"#, WRITES),
    ("metadata", r#"{"annotations":{"kubectl.kubernetes.io/restartedAt":"now","note":"a"}}"#, NOTHING),
    ("metadata", r#"{"annotations":{"io.kubernetes.cri-o.Devices":"/dev/kvm"}}"#, "annotations"),
    ("metadata", r#"{"labels":{"app":"theirs"}}"#, NOTHING),
    ("metadata", r#"{"labels":{"sidecar.istio.io/inject":"true"}}"#, NOTHING),
    ("spec", r#"{"shareProcessNamespace":true}"#, "shareProcessNamespace"),
    ("spec", r#"{"resources":{"limits":{"smarter-devices/fuse":1}}}"#, "resources"),
    ("main", r#"{"resources":{"limits":{"cpu":1}}}"#, NOTHING),
    ("main", r#"{"resources":{"limits":{"smarter-devices/fuse":1}}}"#, "resources"),
    ("agent", r#"{"resources":{"requests":{"smarter-devices/fuse":1}}}"#, "resources"),
];
const TOKEN: &str = "serviceAccountToken";

/// What a plugin cannot have in its answer, whatever is granted, or only by another item than in what results.
const OF_OTHERS: [usize; 5] = [8, 14, 15, 26, 29];

/// What opens each item.
const ITEMS: [(&str, &str); 15] = [
    ("hostPID", "true"),
    ("hostIPC", "true"),
    ("serviceAccounts", r#"["admin"]"#),
    ("secrets", r#"["s"]"#),
    ("configMaps", r#"["m"]"#),
    (TOKEN, "true"),
    (NODE, r#"["/var/log"]"#),
    (WRITES, "true"),
    ("capabilities", r#"["NET_ADMIN"]"#),
    ("hostPorts", "true"),
    ("privileged", "true"),
    ("annotations", r#"["io.kubernetes.*"]"#),
    ("probeHosts", "true"),
    ("resources", r#"["smarter-devices/*"]"#),
    ("shareProcessNamespace", "true"),
];

/// Where each kind has its Pod, with whether that is the object itself.
const KINDS: [(&str, &str, &[&str]); 3] = [
    ("", "Pod", &[]),
    ("apps", "Deployment", &["spec", "template"]),
    ("batch", "CronJob", &["spec", "jobTemplate", "spec", "template"]),
];

/// Merges as a server-side apply does: objects by member, lists by name.
fn merge(onto: &mut Value, more: &Value) {
    match (onto, more) {
        (Value::Object(onto), Value::Object(more)) => {
            for (key, value) in more {
                merge(onto.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(onto), Value::Array(more)) => {
            for element in more {
                let same = |known: &&mut Value| {
                    ["name", "containerPort", "mountPath"]
                        .iter()
                        .any(|key| known.get(key).is_some() && known.get(key) == element.get(key))
                };
                match onto.iter_mut().find(same) {
                    Some(known) => merge(known, element),
                    None => onto.push(element.clone()),
                }
            }
        }
        (onto, more) => onto.clone_from(more),
    }
}

fn fragment(index: usize) -> Value {
    let (part, json, _) = FRAGMENTS[index];
    let value: Value = serde_json::from_str(json).unwrap();
    match part {
        "main" | "agent" => {
            let mut container = json!({ "name": part, "securityContext": { "allowPrivilegeEscalation": false } });
            merge(&mut container, &value);
            json!({ "spec": { "containers": [container] } })
        }
        part => json!({ part: value }),
    }
}

/// Returns a template with these fragments, and with the field manager `other` for what no API server fills in.
fn object(path: &[&str], name: &str, fragments: &[usize]) -> Value {
    let mut template = json!({ "spec": { "automountServiceAccountToken": false, "containers": [{
        "name": "main", "image": "i", "securityContext": { "allowPrivilegeEscalation": false },
    }] } });
    fragments.iter().for_each(|index| merge(&mut template, &fragment(*index)));
    let mut fields = json!({ "f:spec": { "f:odd": {} } });
    for key in path.iter().rev() {
        template = json!({ *key: template });
        fields = json!({ format!("f:{key}"): fields });
    }
    let managed = json!([{ "manager": "other", "operation": "Update", "fieldsV1": fields }]);
    merge(&mut template, &json!({ "metadata": { "name": name, "namespace": "n", "managedFields": managed } }));
    template
}

/// Whether a grant of these items opens all that is in an object.
fn is_open(fragments: &[usize], items: &[usize]) -> bool {
    let opens = |item: &str| items.iter().any(|index| ITEMS[*index].0 == item);
    let has_node_volume = fragments.contains(&10);
    let writes = |index: &usize| ["agent", "main"].contains(&FRAGMENTS[*index].0) && FRAGMENTS[*index].2 == WRITES;
    // A mount of a volume that is not there, or that another fragment makes read-only, writes nothing.
    let read_only = |index: &usize| FRAGMENTS[*index].0 == "main" && fragments.contains(&17);
    fragments.iter().all(|index| match FRAGMENTS[*index].2 {
        NOTHING => true,
        NEVER => false,
        WRITES if !has_node_volume || read_only(index) => true,
        item => opens(item) && (!writes(index) || opens(NODE)),
    })
}

fn grant(kind: &Kind, items: &[usize]) -> Grant {
    let mut pods = Map::new();
    for index in items {
        let (item, value) = ITEMS[*index];
        pods.insert(item.into(), serde_json::from_str(value).unwrap());
    }
    let rule = json!({ "group": &*kind.group, "kind": &*kind.kind, "verbs": ["create", "update"], "pods": pods });
    let rules: Vec<Rule> = vec![serde_json::from_value(rule).unwrap()];
    Grant {
        rules,
        prune_all: false,
        finalize: Vec::new(),
        parent_metadata: Default::default(),
        host_namespace: "host".into(),
    }
}

fn some_of(most: usize) -> impl Strategy<Value = Vec<usize>> {
    subsequence((0..most).collect::<Vec<_>>(), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn what_may_result_is_what_is_open_of_all_that_was_set_by_whomever(
        (group, name, path) in proptest::sample::select(KINDS.to_vec()),
        theirs in some_of(FRAGMENTS.len()),
        ours in some_of(FRAGMENTS.len()),
        items in subsequence((0..ITEMS.len()).collect::<Vec<_>>(), 0..ITEMS.len()),
    ) {
        let theirs = one_after_the_other(theirs, |theirs| !conflict(theirs));
        // The answer passed the gate, or nothing is written at all.
        let ours = one_after_the_other(ours, |ours| {
            let both: Vec<usize> = theirs.iter().chain(ours).copied().collect();
            is_open(ours, &items) && !ours.iter().any(|index| OF_OTHERS.contains(index)) && !conflict(&both)
        });
        let kind = Kind::new(group, "v1", name);
        let reference = |kind: &Kind, name: &str| ObjectRef { kind: kind.clone(), namespace: Some("n".into()), name: name.into() };
        let (child, parent) = (reference(&kind, "web"), reference(&Kind::new("c", "v1", "Shop"), "web"));
        let live = object(path, "web", &theirs);
        let mut body = object(path, "web", &ours);
        body["metadata"].as_object_mut().unwrap().remove("managedFields");
        let mut result = live.clone();
        merge(&mut result, &body);
        let desired = Desired { reference: child.clone(), body: body.into(), digest: "d".into(), is_created_once: false, left: std::sync::Arc::default(), strategy: Default::default() };
        let context = Context {
            parent: &parent,
            uid: "u",
            plugin: "demo",
            grant: &grant(&kind, &items),
            descriptor: &Descriptor::default(),
            most_children: 10,
            most_fields: 1_000,
            namespaced: Box::new(|_| Some(true)),
            label_of: Box::new(|_, _| None),
        };
        let looks = result::may_exceed(&result::needs_grant(&kind, &live.to_string()), &desired);
        let passes = result::check(&child, &result.to_string(), &context);
        let all: Vec<usize> = (0..FRAGMENTS.len()).filter(|index| theirs.contains(index) || ours.contains(index)).collect();
        prop_assert_eq!(passes.is_ok(), is_open(&all, &items), "{:?}", passes);
        prop_assert!(looks || passes.is_ok(), "it is written without a look: {:?}", passes);
        let is_reason = |index: &usize| !FRAGMENTS[*index].2.is_empty();
        let has_reason = theirs.iter().any(is_reason) || ours.iter().any(|index| FRAGMENTS[*index].2 == NODE);
        prop_assert!(!looks || has_reason, "a look that nothing asks for");
    }
}

/// As many of the fragments as may be together.
fn one_after_the_other(fragments: Vec<usize>, may_be: impl Fn(&[usize]) -> bool) -> Vec<usize> {
    fragments.into_iter().fold(Vec::new(), |kept, next| {
        let more = [&kept[..], &[next]].concat();
        if may_be(&more) { more } else { kept }
    })
}

/// Whether two fragments set one field to different values.
fn conflict(fragments: &[usize]) -> bool {
    [(0, 1), (3, 4), (16, 17)].iter().any(|(one, other)| fragments.contains(one) && fragments.contains(other))
}
