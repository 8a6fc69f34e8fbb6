//! The object that results from a write: what a plugin answered, and what others set beside it. A Pod runs the plugin's
//! code with all of it, so it is judged by the same rules as an answer.
//!
//! Two steps, so that ordinary writes cost nothing. [`closed`] lists what a live child has that no plugin may set
//! without an item of its grant. Where the answer has no less ([`may_exceed`]), nothing can result that was not judged with
//! it; otherwise the API server is asked what would result, and [`check`] judges that. What is in the live object counts,
//! and not only what `managedFields` gives to others, for what a mutating webhook adds has no owner.
//!
//! Not judged of a result is what gives the plugin's code nothing: what the API server and its controllers fill in, what
//! an apply cannot change or replaces as a whole, and labels and annotations, which are those of who set them. Only
//! annotations that ask a node for what fields of a Pod ask for count as these do. Pure.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::check::access_request::{Access, Request};
use crate::check::fix::Fix;
use crate::check::grant::Rule;
use crate::check::json_cursor::{Cursor, UNKNOWN};
use crate::check::pod::volumes::names_of_node_paths;
use crate::check::violation::{Checked, Denial, Violation};
use crate::check::{Context, Desired, pod, pvc, service};
use crate::model::kind::{Kind, ObjectRef};
use crate::model::managed_fields::FieldSet;
use crate::model::object::{FieldManager, plugin_manager};

/// ConfigMaps that are in each namespace, and that admission mounts beside a token.
const OF_TOKENS: [&str; 2] = ["kube-root-ca.crt", "openshift-service-ca.crt"];

/// Begins the item of a volume of the node's files, before its name.
const OF_NODE: &str = "the node's files as volume ";

/// Returns whether anything of what results is judged in objects of this kind.
pub fn is_judged(kind: &Kind) -> bool {
    pod::makes_pods(kind) || service::is_service(kind) || pvc::is_claim(kind)
}

/// Returns what an object of the cluster has that no plugin may set without an item of its grant, in words to be compared.
pub fn closed(kind: &Kind, json: &str) -> Box<[Box<str>]> {
    if !is_judged(kind) {
        return Box::default();
    }
    let Ok(object) = serde_json::from_str::<Parts>(json).map(Parts::together) else { return all_of_it() };
    let Err(denial) = judge(kind, &object) else { return Box::default() };
    let Some(denial) = without_defaults(denial, json, &object, |manager| !manager.starts_with("hotshoe/")) else {
        return Box::default();
    };
    let mut found = items(kind, &object, &denial);
    if denial.count() > denial.violations().len() {
        found.extend(all_of_it());
    }
    found.into()
}

/// Stands for more than any answer has.
fn all_of_it() -> Box<[Box<str>]> {
    Box::new(["more than is listed".into()])
}

/// Returns whether something may result that was not judged with the answer: the live object has what is closed and not in
/// the answer, or the answer makes a volume of the node's files that a container of others may mount already.
pub fn may_exceed(closed: &[Box<str>], desired: &Desired) -> bool {
    let (kind, body) = (&desired.reference.kind, &*desired.body);
    if !is_judged(kind) {
        return false;
    }
    let asked = match judge(kind, body) {
        Ok(()) => Vec::new(),
        Err(denial) => items(kind, body, &denial),
    };
    let is_new_volume = |item: &str| item.starts_with(OF_NODE) && closed.iter().all(|known| **known != *item);
    closed.iter().any(|item| !asked.contains(item)) || asked.iter().any(|item| is_new_volume(item))
}

/// Checks that an object may result from a write; `json` is the object as the API server would store it.
///
/// # Errors
/// What is in it that the grant does not open, with the field manager that set it where one is known.
pub fn check(object: &ObjectRef, json: &str, context: &Context<'_>) -> Checked {
    let whole: Value = serde_json::from_str(json)
        .map_err(|error| Violation::new("json", format!("{object}: what would result cannot be read: {error}")))?;
    let asked = asked(&object.kind, &whole);
    let namespaced = object.namespace.is_some();
    let request = Request { parent: context.parent, object, namespaced, access: Access::Result(&asked) };
    let Err(denial) = context.grant.authorise(&request, &*context.label_of) else { return Ok(()) };
    let own = plugin_manager(context.plugin);
    match without_defaults(denial, json, &whole, |manager| manager != own) {
        Some(denial) => Err(denial.map(|violation| with_owner(violation, json, &whole, &own))),
        None => Ok(()),
    }
}

/// Judges an object by what is open to every plugin.
fn judge(kind: &Kind, object: &Value) -> Checked {
    let (asked, reference) = (asked(kind, object), ObjectRef { kind: kind.clone(), namespace: None, name: "".into() });
    let access = Access::Result(&asked);
    let request = Request { parent: &reference, object: &reference, namespaced: true, access };
    Rule::new(kind).check_body(&request, &asked)
}

/// Returns what a grant would have to open. Items of a grant are the same for every container, so where in the object they
/// are asked for does not matter; but for the node's files, of which each mount is judged by the name of its volume.
fn items(kind: &Kind, object: &Value, denial: &Denial) -> Vec<Box<str>> {
    let item = |violation: &Violation| match &violation.fix {
        Some(Fix::Grant(opening)) => format!("{} {:?}", violation.rule, opening.items).into(),
        _ => format!("{} {}", violation.rule, violation.message).into(),
    };
    let spec =
        pod::template_of(kind).and_then(|path| object.pointer(&pointer_to(path))).and_then(|pod| pod.get("spec"));
    let of_node = spec.and_then(|spec| names_of_node_paths(&Cursor::root(spec)).ok()).unwrap_or_default();
    let of_node = of_node.into_iter().map(|name| format!("{OF_NODE}{name}").into());
    denial.violations().iter().map(item).chain(of_node).collect()
}

/// Drops fields that are not known to this host and that no such field manager set: a newer API server has filled them in.
fn without_defaults(denial: Denial, json: &str, object: &Value, counts: impl Fn(&str) -> bool) -> Option<Denial> {
    let listed = denial.violations();
    if listed.len() < denial.count() || listed.iter().all(|violation| violation.rule != UNKNOWN) {
        return Some(denial);
    }
    let Ok(managers) = FieldManager::all_of(json) else { return Some(denial) };
    denial.retain(|violation| {
        let pointer = violation.pointer.as_deref();
        violation.rule != UNKNOWN
            || pointer.is_none_or(|pointer| owners(&managers, object, pointer).any(|owner| counts(&owner.manager)))
    })
}

fn with_owner(violation: Violation, json: &str, object: &Value, own: &str) -> Violation {
    let managers = FieldManager::all_of(json).unwrap_or_default();
    let found = violation.pointer.as_deref().into_iter().flat_map(|pointer| owners(&managers, object, pointer));
    let mut names: Vec<&str> = found.map(|owner| owner.manager.as_str()).filter(|name| *name != own).collect();
    names.dedup();
    let who = match names.is_empty() {
        true => "a mutating webhook or another that owns no fields".to_owned(),
        false => format!("the field manager {}", names.join(" and ")),
    };
    let message = format!("{} (in the live object, set by {who}; this plugin's code would get it)", violation.message);
    Violation { message, ..violation }
}

/// Returns the field managers that own a field of an object, or what is around it as one.
fn owners<'m>(managers: &'m [FieldManager], object: &Value, pointer: &str) -> impl Iterator<Item = &'m FieldManager> {
    let owns = |one: &&FieldManager| FieldSet::read(&one.fields).is_ok_and(|fields| fields.has(object, pointer));
    managers.iter().filter(owns).collect::<Vec<_>>().into_iter()
}

/// The parts of an object that are judged; the rest is not parsed.
#[derive(Deserialize)]
struct Parts {
    metadata: Option<Annotations>,
    spec: Option<Value>,
    template: Option<Value>,
}

#[derive(Deserialize)]
struct Annotations {
    annotations: Option<Value>,
}

impl Parts {
    fn together(self) -> Value {
        let annotations = self.metadata.and_then(|metadata| metadata.annotations);
        let metadata = annotations.map(|annotations| json!({ "annotations": annotations }));
        let parts = [("metadata", metadata), ("spec", self.spec), ("template", self.template)];
        let parts = parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?)));
        Value::Object(parts.collect())
    }
}

fn pointer_to(path: &[&str]) -> String {
    path.iter().map(|key| format!("/{key}")).collect()
}

/// Returns the part of an object that is judged, each field where it was.
fn asked(kind: &Kind, object: &Value) -> Value {
    if service::is_service(kind) {
        return asked_of_service(object);
    }
    let Some(path) = pod::template_of(kind) else { return asked_of_claim(object) };
    let template = object.pointer(&pointer_to(path)).map(|template| asked_of_template(template, path.is_empty()));
    let mut asked = template.unwrap_or_else(|| json!({}));
    for key in path.iter().rev() {
        asked = json!({ *key: asked });
    }
    let retention = object.pointer("/spec/persistentVolumeClaimRetentionPolicy");
    if let (Some(retention), Some(Value::Object(spec))) = (retention, asked.get_mut("spec")) {
        spec.insert("persistentVolumeClaimRetentionPolicy".into(), retention.clone());
    }
    asked
}

/// Of a claim where it is filled from. Controllers write which volume it is bound to.
fn asked_of_claim(object: &Value) -> Value {
    let spec = object.get("spec").map(|spec| with(spec, |field| ["dataSource", "dataSourceRef"].contains(&field)));
    json!({ "spec": spec.unwrap_or_else(|| json!({})) })
}

/// Of a Service its spec, without what the API server allocates, and without the class of its load balancer, which nobody
/// changes as long as it has one.
fn asked_of_service(object: &Value) -> Value {
    let filled_in = ["clusterIP", "clusterIPs", "loadBalancerClass"];
    let spec = object.get("spec").map(|spec| with(spec, |field| !filled_in.contains(&field)));
    json!({ "spec": spec.unwrap_or_else(|| json!({})) })
}

fn asked_of_template(template: &Value, is_pod: bool) -> Value {
    let mut asked = Map::new();
    if let Some(annotations) = template.pointer("/metadata/annotations") {
        asked.insert("metadata".into(), json!({ "annotations": with(annotations, pod::addresses_the_runtime) }));
    }
    if let Some(spec) = template.get("spec") {
        // An apply can change none of these: admission and the scheduler set them of a Pod, and people debug in it.
        let filled_in: &[&str] = if is_pod { &["nodeName", "priorityClassName"] } else { &[] };
        // The kubelet uses those for an image, and shows them to no container.
        let unused = ["imagePullSecrets", "ephemeralContainers"];
        let mut spec = with(spec, |field| !unused.contains(&field) && !filled_in.contains(&field));
        settle_defaults(&mut spec);
        asked.insert("spec".into(), spec);
    }
    Value::Object(asked)
}

/// Returns an object with some of its members; anything else as it is.
fn with(value: &Value, keep: impl Fn(&str) -> bool) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    let kept = members.iter().filter(|(key, _)| keep(key));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Puts in what rules demand of each answer and what the containers of others need not say, and takes out what the API
/// server fills in by itself.
fn settle_defaults(spec: &mut Value) {
    let Value::Object(members) = spec else { return };
    members.insert("automountServiceAccountToken".into(), false.into());
    // The old name of the same field, which the API server keeps equal.
    if members.get("serviceAccount") == members.get("serviceAccountName") {
        members.remove("serviceAccount");
    }
    let on_host = members.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in elements(members.get_mut(list)) {
            settle_container(container, on_host);
        }
    }
    for volume in elements(members.get_mut("volumes")) {
        for source in elements(volume.get_mut("projected").and_then(|projected| projected.get_mut("sources"))) {
            let map = source.pointer("/configMap/name").and_then(Value::as_str);
            if map.is_some_and(|name| OF_TOKENS.contains(&name)) {
                source.as_object_mut().map(|source| source.remove("configMap"));
            }
        }
    }
}

fn settle_container(container: &mut Value, on_host: bool) {
    let Value::Object(members) = container else { return };
    if let Value::Object(context) = members.entry("securityContext").or_insert_with(|| json!({})) {
        context.insert("allowPrivilegeEscalation".into(), false.into());
    }
    // In the node's network each port is one of the node, and the API server says so.
    for port in elements(members.get_mut("ports")).filter(|_| on_host) {
        port.as_object_mut().map(|port| port.remove("hostPort"));
    }
}

fn elements(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::grant::Grant;
    use crate::model::decision::Descriptor;

    fn reference(group: &str, kind: &str) -> ObjectRef {
        ObjectRef { kind: Kind::new(group, "v1", kind), namespace: Some("n".into()), name: "web".into() }
    }

    /// Judges what results under a grant of `more` on its kind.
    fn judged(object: &ObjectRef, body: &Value, more: Value) -> Checked {
        let mut rule = json!({ "group": &*object.kind.group, "kind": &*object.kind.kind, "verbs": ["update"] });
        rule.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let rules = serde_json::from_value(json!([rule])).unwrap();
        let context = Context {
            parent: &reference("c", "Shop"),
            uid: "u",
            plugin: "demo",
            grant: &Grant { rules, prune_all: false, host_namespace: "host".into() },
            descriptor: &Descriptor::default(),
            most_children: 10,
            most_fields: 1_000,
            namespaced: Box::new(|_| Some(true)),
            label_of: Box::new(|_, _| None),
        };
        check(object, &body.to_string(), &context)
    }

    fn broken(object: &ObjectRef, body: &Value, more: Value) -> Option<&'static str> {
        judged(object, body, more).err().map(|denial| denial.rule())
    }

    fn desired(object: &ObjectRef, body: Value) -> Desired {
        Desired { reference: object.clone(), body: body.into(), digest: "d".into(), is_created_once: false }
    }

    fn template(spec: Value) -> Value {
        json!({ "metadata": { "name": "web" }, "spec": { "template": { "spec": spec } } })
    }

    fn owned_by(manager: &str, fields: Value, mut object: Value) -> Value {
        object["metadata"]["managedFields"] =
            json!([{ "manager": manager, "operation": "Update", "fieldsV1": fields }]);
        object
    }

    #[test]
    fn what_is_denied_is_named_with_the_field_manager_that_set_it_and_with_what_opens_it() {
        let deployment = reference("apps", "Deployment");
        let fields = json!({ "f:spec": { "f:template": { "f:spec": { "f:hostPID": {} } } } });
        let body =
            owned_by("old-operator", fields, template(json!({ "hostPID": true, "serviceAccountName": "admin" })));
        let said = judged(&deployment, &body, json!({})).unwrap_err().reasons();
        for words in [
            "spec.template.spec.hostPID is not granted (in the live object, set by the field manager old-operator",
            "pods: {hostPID: true}",
            "spec.template.spec.serviceAccountName is not granted (in the live object, set by a mutating webhook",
            "pods: {serviceAccounts: [admin]}",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        let doubled = template(json!({ "serviceAccountName": "admin", "serviceAccount": "admin" }));
        assert_eq!(judged(&deployment, &doubled, json!({})).unwrap_err().count(), 1, "one field of two names");
        let open = json!({ "pods": { "hostPID": true, "serviceAccounts": ["admin"] } });
        assert_eq!(broken(&deployment, &body, open), None);
    }

    #[test]
    fn what_the_api_server_and_its_controllers_fill_in_is_nobodys_wish() {
        let pod = reference("", "Pod");
        let filled_in = json!({ "spec": {
            "nodeName": "node-1", "priority": 1, "priorityClassName": "default", "serviceAccount": "default",
            "serviceAccountName": "default", "preemptionPolicy": "PreemptLowerPriority", "enableServiceLinks": true,
            "imagePullSecrets": [{ "name": "registry" }], "ephemeralContainers": [{ "name": "debugger" }],
            "hostNetwork": true, "schedulerName": "default-scheduler", "dnsPolicy": "ClusterFirst",
            "containers": [{
                "name": "main", "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "Always",
                "ports": [{ "containerPort": 80, "hostPort": 80, "protocol": "TCP" }],
            }],
            "volumes": [{ "name": "kube-api-access-x", "projected": { "defaultMode": 420, "sources": [
                { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                { "downwardAPI": {} },
            ] } }],
        } });
        let open = json!({ "pods": { "hostNetwork": true, "serviceAccountToken": true } });
        assert_eq!(broken(&pod, &filled_in, open), None);
        assert_eq!(broken(&pod, &filled_in, json!({ "pods": { "hostNetwork": true } })), Some("pod-token"));
        let on_a_node = template(json!({ "nodeName": "node-1" }));
        assert_eq!(broken(&reference("apps", "Deployment"), &on_a_node, json!({})), Some("pod-node"));
    }

    #[test]
    fn a_field_that_this_host_does_not_know_counts_where_a_field_manager_set_it() {
        let deployment = reference("apps", "Deployment");
        let newer = template(json!({ "newDefault": 1 }));
        let fields = json!({ "f:spec": { "f:template": { "f:spec": { "f:newDefault": {} } } } });
        assert_eq!(broken(&deployment, &newer, json!({})), None);
        assert!(closed(&deployment.kind, &newer.to_string()).is_empty());
        let set = owned_by("someone", fields, newer);
        assert_eq!(broken(&deployment, &set, json!({})), Some(UNKNOWN));
        assert!(!closed(&deployment.kind, &set.to_string()).is_empty());
    }

    #[test]
    fn of_a_service_its_spec_counts_but_for_what_is_allocated() {
        let service = reference("", "Service");
        let allocated = json!({ "metadata": { "annotations": { "metallb.universe.tf/address-pool": "a" } }, "spec": {
            "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ports": [{ "port": 80, "nodePort": 30080 }],
            "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "type": "ClusterIP",
        } });
        assert_eq!(broken(&service, &allocated, json!({})), None);
        let mut open_to_all = allocated;
        open_to_all["spec"]["externalIPs"] = json!(["192.0.2.1"]);
        assert_eq!(broken(&service, &open_to_all, json!({})), Some("service-external-ips"));
        let live = closed(&service.kind, &open_to_all.to_string());
        assert!(may_exceed(&live, &desired(&service, json!({ "spec": { "selector": { "app": "web" } } }))));
        assert!(!may_exceed(&live, &desired(&service, json!({ "spec": { "externalIPs": ["192.0.2.1"] } }))));
        assert_eq!(broken(&service, &open_to_all, json!({ "services": { "externalIPs": true } })), None);
    }

    #[test]
    fn claims_count_with_what_fills_them_and_sets_with_whether_they_lose_theirs() {
        let claim = reference("", "PersistentVolumeClaim");
        let bound = json!({ "spec": { "volumeName": "pv-1", "dataSource": null, "odd": 1 } });
        assert_eq!(broken(&claim, &json!({ "spec": { "volumeName": "pv-1" } }), json!({})), None);
        assert_eq!(broken(&claim, &bound, json!({})), Some("field-shape"));
        let filled = json!({ "spec": { "dataSource": { "kind": "PersistentVolumeClaim", "name": "theirs" } } });
        assert_eq!(broken(&claim, &filled, json!({})), Some("claim-source"));
        let set = reference("apps", "StatefulSet");
        let loses =
            json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" }, "template": {} } });
        assert_eq!(broken(&set, &loses, json!({})), Some("prune-data"));
        assert_eq!(broken(&set, &loses, json!({ "pruneData": true })), None);
        let templates =
            json!({ "spec": { "volumeClaimTemplates": [{ "status": {}, "metadata": { "name": "a-b" } }] } });
        assert_eq!(broken(&set, &templates, json!({})), None, "an apply replaces them as a whole");
    }

    #[test]
    fn what_is_ordinary_or_of_another_kind_asks_for_no_look() {
        let secretive = template(json!({ "volumes": [{ "name": "v", "secret": { "secretName": "s" } }] }));
        let map = reference("", "ConfigMap");
        assert!(closed(&map.kind, &secretive.to_string()).is_empty() && !is_judged(&map.kind));
        assert!(!may_exceed(&["anything".into()], &desired(&map, secretive.clone())));
        assert_eq!(broken(&map, &secretive, json!({})), None);
        let deployment = reference("apps", "Deployment");
        let live = closed(&deployment.kind, &secretive.to_string());
        assert!(may_exceed(&live, &desired(&deployment, template(json!({})))));
        assert!(!may_exceed(&live, &desired(&deployment, secretive)));
        assert!(!may_exceed(&[], &desired(&deployment, template(json!({})))));
    }

    #[test]
    fn more_than_is_listed_and_what_cannot_be_read_is_always_looked_at() {
        let deployment = reference("apps", "Deployment");
        let volume =
            |number: u32| json!({ "name": number.to_string(), "secret": { "secretName": number.to_string() } });
        let many = template(json!({ "volumes": (0..30).map(volume).collect::<Vec<_>>() }));
        let live = closed(&deployment.kind, &many.to_string());
        assert!(may_exceed(&live, &desired(&deployment, many)));
        assert!(may_exceed(&closed(&deployment.kind, "{"), &desired(&deployment, json!({}))));
        let told = judged(&deployment, &json!({}), json!({}));
        assert_eq!(told, Ok(()));
    }
}
