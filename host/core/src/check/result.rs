//! Checks the object that results from a write: the plugin's answer together with what others have set in the live
//! object. A Pod runs the plugin's code with all of it, so the same rules apply to the result as to an answer. Pure.
//!
//! The check has two steps, so that ordinary writes cost nothing. [`needs_grant`] lists what a live child has that a
//! plugin may set only with an item of its grant. If the answer has all of that itself, the result cannot have anything
//! that was not checked with the answer. Otherwise ([`may_exceed`]) the host asks the API server what would result, and
//! [`check`] checks it. The whole live object counts, and not only what other field managers own, because what a
//! mutating webhook adds has no owner.
//!
//! What gives nothing to the plugin's code is not checked in a result: what the API server and its controllers fill in,
//! what an apply cannot change or replaces as a whole, and labels and annotations, for which their setters are
//! responsible. Of the annotations only those count on which the container runtime of a node acts as on a field of the
//! Pod.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::check::access_request::{Access, Request};
use crate::check::fix::Fix;
use crate::check::grant::Rule;
use crate::check::json_cursor::{Cursor, UNKNOWN_FIELD};
use crate::check::pod::volumes::names_of_node_paths;
use crate::check::violation::{Checked, Denial, Violation};
use crate::check::{Context, Desired, pod, pvc, service};
use crate::model::kind::{Kind, ObjectRef};
use crate::model::managed_fields::FieldSet;
use crate::model::object::{FieldManager, plugin_manager};

/// The ConfigMaps that are in each namespace, and that admission mounts together with a token.
const TOKEN_CONFIG_MAPS: [&str; 2] = ["kube-root-ca.crt", "openshift-service-ca.crt"];

/// The prefix of the item for a volume of the node's files; the volume's name follows.
const NODE_VOLUME_PREFIX: &str = "the node's files as volume ";

/// Returns whether results of this kind are checked.
pub fn is_checked(kind: &Kind) -> bool {
    pod::makes_pods(kind) || service::is_service(kind) || pvc::is_claim(kind)
}

/// Returns whether the API server gives an object of this kind another generation whenever a field changes that is checked
/// in it: what is checked of a workload lies in its `spec`. The same is not true of Pods, Services and claims.
pub fn changes_with_generation(kind: &Kind) -> bool {
    pod::template_of(kind).is_some_and(|path| path.first() == Some(&"spec"))
}

/// Lists what a live object has that a plugin may set only with an item of its grant. The items are texts that are only
/// compared with each other.
pub fn needs_grant(kind: &Kind, json: &str) -> Box<[Box<str>]> {
    if !is_checked(kind) {
        return Box::default();
    }
    let Ok(object) = Parts::read(json) else { return more_than_listed() };
    let checked = checked_part(kind, object);
    let Err(denial) = check_without_grant(kind, &checked) else { return Box::default() };
    let Some(denial) = without_defaults(denial, json, |manager| !manager.starts_with("hotshoe/")) else {
        return Box::default();
    };
    let mut found = items(kind, &checked, &denial);
    if denial.count() > denial.violations().len() {
        found.extend(more_than_listed());
    }
    found.into()
}

/// Returns an item that no answer has. It stands for an unknown number of further items.
fn more_than_listed() -> Box<[Box<str>]> {
    Box::new(["more than is listed".into()])
}

/// Returns whether the result of applying `desired` may have something that was not checked with the answer: the live
/// object has an item of `needs_grant` that the answer has not, or the answer adds a volume of the node's files, which a
/// container that others have added may mount already.
pub fn may_exceed(needs_grant: &[Box<str>], desired: &Desired) -> bool {
    let kind = &desired.reference.kind;
    if !is_checked(kind) {
        return false;
    }
    let checked = checked_part(kind, Value::clone(&desired.body));
    let asked = match check_without_grant(kind, &checked) {
        Ok(()) => Vec::new(),
        Err(denial) => items(kind, &checked, &denial),
    };
    let is_new_volume =
        |item: &str| item.starts_with(NODE_VOLUME_PREFIX) && needs_grant.iter().all(|known| **known != *item);
    needs_grant.iter().any(|item| !asked.contains(item)) || asked.iter().any(|item| is_new_volume(item))
}

/// Checks that the grant allows the result of a write; `json` is the object as the API server would store it.
///
/// # Errors
/// When the grant does not allow something in the object. Names the field manager that set it, where one is known, and
/// then advises to remove it, not to grant it.
pub fn check(object: &ObjectRef, json: &str, context: &Context<'_>) -> Checked {
    let whole: Value = serde_json::from_str(json)
        .map_err(|error| Violation::new("json", format!("{object}: the resulting object cannot be read: {error}")))?;
    let checked = checked_part(&object.kind, whole);
    let namespaced = object.namespace.is_some();
    let request = Request { parent: context.parent, object, namespaced, access: Access::Result(&checked) };
    let Err(denial) = context.grant.authorise(&request, &*context.label_of) else { return Ok(()) };
    let own = plugin_manager(context.plugin);
    let Some(denial) = without_defaults(denial, json, |manager| manager != own) else { return Ok(()) };
    let owners = Owners::read(json).unwrap_or_default();
    Err(denial.map(|violation| with_owner(violation, object, &owners, &own)))
}

/// Checks the [checked part](checked_part) of an object against a grant without any item.
fn check_without_grant(kind: &Kind, checked: &Value) -> Checked {
    let reference = ObjectRef { kind: kind.clone(), namespace: None, name: "".into() };
    let access = Access::Result(checked);
    let request = Request { parent: &reference, object: &reference, namespaced: true, access };
    Rule::new(kind).check_body(&request, checked)
}

/// Lists the items that a grant needs for an object. Items of a grant apply to all containers, so it does not matter
/// where in the object they are needed. The exception are the node's files, where each mount is checked by the name of
/// its volume.
fn items(kind: &Kind, checked: &Value, denial: &Denial) -> Vec<Box<str>> {
    let item = |violation: &Violation| match &violation.fix {
        Some(Fix::Grant(change)) => format!("{} {:?}", violation.rule, change.items).into(),
        _ => format!("{} {}", violation.rule, violation.message).into(),
    };
    let spec =
        pod::template_of(kind).and_then(|path| checked.pointer(&pointer_to(path))).and_then(|pod| pod.get("spec"));
    let node_volumes = spec.and_then(|spec| names_of_node_paths(&Cursor::root(spec)).ok()).unwrap_or_default();
    let node_volumes = node_volumes.into_iter().map(|name| format!("{NODE_VOLUME_PREFIX}{name}").into());
    denial.violations().iter().map(item).chain(node_volumes).collect()
}

/// Drops the violations for unknown fields that no field manager selected by `counts` has set: a newer API server has
/// filled these fields in.
fn without_defaults(denial: Denial, json: &str, counts: impl Fn(&str) -> bool) -> Option<Denial> {
    let listed = denial.violations();
    if listed.len() < denial.count() || listed.iter().all(|violation| violation.rule != UNKNOWN_FIELD) {
        return Some(denial);
    }
    let Ok(owners) = Owners::read(json) else { return Some(denial) };
    denial.retain(|violation| {
        let pointer = violation.pointer.as_deref();
        violation.rule != UNKNOWN_FIELD || pointer.is_none_or(|pointer| owners.of(pointer).any(&counts))
    })
}

/// Adds to the message of a violation who set the field. What another field manager set may be a user's choice, so it
/// is not to be granted but removed.
fn with_owner(violation: Violation, object: &ObjectRef, owners: &Owners, own: &str) -> Violation {
    let found = violation.pointer.as_deref().into_iter().flat_map(|pointer| owners.of(pointer));
    let mut names: Vec<&str> = found.filter(|name| *name != own).collect();
    names.dedup();
    let (who, fix) = match names.is_empty() {
        true => ("a mutating webhook or another writer that owns no fields".to_owned(), violation.fix),
        false => (format!("the field manager {}", names.join(" and ")), Some(Fix::Answer(removal(object)))),
    };
    let message = format!("{} (in the live object, set by {who}; this plugin's code would get it)", violation.message);
    Violation { message, fix, ..violation }
}

/// Returns how a field of a live object is removed.
fn removal(object: &ObjectRef) -> String {
    let is_immutable = [("", "Pod"), ("", "PersistentVolumeClaim"), ("batch", "Job")];
    if is_immutable.iter().any(|(group, kind)| object.kind.is(group, kind)) {
        let command = object.kubectl("delete");
        return format!("the field cannot be removed there, so where the object is not needed, delete it: {command}");
    }
    format!("remove the field there: {}", object.kubectl("edit"))
}

/// An object with its field managers. Read only for a denial, because nearly every object passes.
#[derive(Default)]
struct Owners {
    managers: Vec<FieldManager>,
    object: Value,
}

impl Owners {
    fn read(json: &str) -> serde_json::Result<Self> {
        Ok(Self { managers: FieldManager::all_of(json)?, object: Parts::read(json)? })
    }

    /// Returns the field managers that own a field, or an atomic value that contains the field.
    fn of(&self, pointer: &str) -> impl Iterator<Item = &str> {
        let has = |fields: FieldSet<'_>| fields.has(&self.object, pointer);
        let owns = move |one: &&FieldManager| FieldSet::read(&one.fields).is_ok_and(has);
        self.managers.iter().filter(owns).map(|one| one.manager.as_str())
    }
}

/// The parts of an object that are checked; the rest is not parsed.
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
    fn read(json: &str) -> serde_json::Result<Value> {
        let Self { metadata, spec, template } = serde_json::from_str(json)?;
        let annotations = metadata.and_then(|metadata| metadata.annotations);
        let metadata = annotations.map(|annotations| with_key("annotations", annotations));
        let parts = [("metadata", metadata), ("spec", spec), ("template", template)];
        let parts = parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?)));
        Ok(Value::Object(parts.collect()))
    }
}

/// Wraps a value without a copy, which `json!` would make.
fn with_key(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

fn pointer_to(path: &[&str]) -> String {
    path.iter().map(|key| format!("/{key}")).collect()
}

/// Returns the part of an object that is checked, each field at its original path.
fn checked_part(kind: &Kind, mut object: Value) -> Value {
    if service::is_service(kind) {
        return checked_part_of_service(&mut object);
    }
    let Some(path) = pod::template_of(kind) else { return checked_part_of_claim(&mut object) };
    let retention = object.pointer("/spec/persistentVolumeClaimRetentionPolicy").cloned();
    let template = object.pointer_mut(&pointer_to(path));
    let mut checked =
        template.map_or_else(|| json!({}), |template| checked_part_of_template(template, path.is_empty()));
    for key in path.iter().rev() {
        checked = with_key(key, checked);
    }
    if let (Some(retention), Some(Value::Object(spec))) = (retention, checked.get_mut("spec")) {
        spec.insert("persistentVolumeClaimRetentionPolicy".into(), retention);
    }
    checked
}

/// Returns the part of a PersistentVolumeClaim that is checked: its data sources. `volumeName` is not checked, because
/// controllers set it.
fn checked_part_of_claim(object: &mut Value) -> Value {
    let spec =
        object.get_mut("spec").map(|spec| take_members(spec, |field| ["dataSource", "dataSourceRef"].contains(&field)));
    with_key("spec", spec.unwrap_or_else(|| json!({})))
}

/// Returns the spec of a Service without what the API server allocates, and without the class of its load balancer,
/// which is immutable once set.
fn checked_part_of_service(object: &mut Value) -> Value {
    let filled_in = ["clusterIP", "clusterIPs", "loadBalancerClass"];
    let spec = object.get_mut("spec").map(|spec| take_members(spec, |field| !filled_in.contains(&field)));
    with_key("spec", spec.unwrap_or_else(|| json!({})))
}

fn checked_part_of_template(template: &mut Value, is_pod: bool) -> Value {
    let mut checked = Map::new();
    if let Some(annotations) = template.pointer_mut("/metadata/annotations") {
        let annotations = take_members(annotations, pod::addresses_the_runtime);
        checked.insert("metadata".into(), with_key("annotations", annotations));
    }
    if let Some(spec) = template.get_mut("spec") {
        // Admission and the scheduler set these in a Pod, and an apply cannot change them.
        let filled_in: &[&str] = if is_pod { &["nodeName", "priorityClassName"] } else { &[] };
        // The kubelet pulls images with the Secrets and shows them to no container; an apply cannot change the
        // ephemeral containers, in which users debug.
        let not_checked = ["imagePullSecrets", "ephemeralContainers"];
        let mut spec = take_members(spec, |field| !not_checked.contains(&field) && !filled_in.contains(&field));
        normalise_defaults(&mut spec);
        checked.insert("spec".into(), spec);
    }
    Value::Object(checked)
}

/// Takes an object with those of its members that `keep` selects; any other value unchanged.
fn take_members(value: &mut Value, keep: impl Fn(&str) -> bool) -> Value {
    if let Value::Object(members) = value {
        members.retain(|key, _| keep(key));
    }
    value.take()
}

/// Adds the settings that the rules demand of answers but not of containers that others have added, and removes what
/// the API server fills in by itself.
fn normalise_defaults(spec: &mut Value) {
    let Value::Object(members) = spec else { return };
    members.insert("automountServiceAccountToken".into(), false.into());
    // The API server keeps the deprecated `serviceAccount` equal to `serviceAccountName`.
    if members.get("serviceAccount") == members.get("serviceAccountName") {
        members.remove("serviceAccount");
    }
    let on_host = members.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in elements(members.get_mut(list)) {
            normalise_container(container, on_host);
        }
    }
    for volume in elements(members.get_mut("volumes")) {
        for source in elements(volume.get_mut("projected").and_then(|projected| projected.get_mut("sources"))) {
            let map = source.pointer("/configMap/name").and_then(Value::as_str);
            if map.is_some_and(|name| TOKEN_CONFIG_MAPS.contains(&name)) {
                source.as_object_mut().map(|source| source.remove("configMap"));
            }
        }
    }
}

fn normalise_container(container: &mut Value, on_host: bool) {
    let Value::Object(members) = container else { return };
    if let Value::Object(context) = members.entry("securityContext").or_insert_with(|| json!({})) {
        context.insert("allowPrivilegeEscalation".into(), false.into());
    }
    // In the network of the node the API server sets the host port of each container port.
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

    /// Checks a result under a grant on its kind with the items `more`.
    fn checked(object: &ObjectRef, body: &Value, more: Value) -> Checked {
        let mut rule = json!({ "group": &*object.kind.group, "kind": &*object.kind.kind, "verbs": ["update"] });
        rule.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let rules = serde_json::from_value(json!([rule])).unwrap();
        let context = Context {
            parent: &reference("c", "Shop"),
            uid: "u",
            plugin: "demo",
            grant: &Grant {
                rules,
                prune_all: false,
                finalize: Vec::new(),
                parent_metadata: Default::default(),
                host_namespace: "host".into(),
            },
            descriptor: &Descriptor::default(),
            most_children: 10,
            most_fields: 1_000,
            namespaced: Box::new(|_| Some(true)),
            label_of: Box::new(|_, _| None),
        };
        check(object, &body.to_string(), &context)
    }

    fn broken(object: &ObjectRef, body: &Value, more: Value) -> Option<&'static str> {
        checked(object, body, more).err().map(|denial| denial.rule())
    }

    fn desired(object: &ObjectRef, body: Value) -> Desired {
        Desired {
            reference: object.clone(),
            body: body.into(),
            digest: "d".into(),
            is_created_once: false,
            left: std::sync::Arc::default(),
            strategy: Default::default(),
        }
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
    fn what_a_field_manager_set_is_to_be_removed_and_what_a_webhook_set_may_be_granted() {
        let deployment = reference("apps", "Deployment");
        let fields = json!({ "f:spec": { "f:template": { "f:spec": { "f:hostPID": {} } } } });
        let body =
            owned_by("kubectl-edit", fields, template(json!({ "hostPID": true, "serviceAccountName": "admin" })));
        let reasons = checked(&deployment, &body, json!({})).unwrap_err().reasons();
        for words in [
            "spec.template.spec.hostPID is not granted (in the live object, set by the field manager kubectl-edit; this \
             plugin's code would get it); remove the field there: kubectl -n n edit deployment.apps/web",
            "spec.template.spec.serviceAccountName is not granted (in the live object, set by a mutating webhook",
            "pods: {serviceAccounts: [admin]}",
        ] {
            assert!(reasons.contains(words), "{words}: {reasons}");
        }
        assert!(!reasons.contains("hostPID: true"), "a user's choice is no reason to grant it: {reasons}");
        let doubled = template(json!({ "serviceAccountName": "admin", "serviceAccount": "admin" }));
        assert_eq!(checked(&deployment, &doubled, json!({})).unwrap_err().count(), 1, "one field of two names");
        let open = json!({ "pods": { "hostPID": true, "serviceAccounts": ["admin"] } });
        assert_eq!(broken(&deployment, &body, open), None);
    }

    #[test]
    fn an_object_whose_spec_cannot_be_changed_is_to_be_deleted() {
        let fields = json!({ "f:spec": { "f:hostPID": {} } });
        let body =
            owned_by("kubectl-create", fields, json!({ "metadata": { "name": "web" }, "spec": { "hostPID": true } }));
        let reasons = checked(&reference("", "Pod"), &body, json!({})).unwrap_err().reasons();
        assert!(reasons.ends_with("delete it: kubectl -n n delete pod/web"), "{reasons}");
    }

    #[test]
    fn no_grant_is_advised_for_anything_in_a_container_that_a_field_manager_added() {
        let agent = json!({
            "name": "agent", "volumeMounts": [{ "name": "run", "mountPath": "/run" }],
            "securityContext": { "runAsUser": 0, "capabilities": { "add": ["NET_ADMIN"] } },
        });
        let volume = json!({ "name": "run", "hostPath": { "path": "/var/run", "type": "" } });
        let fields = json!({ "f:spec": { "f:template": { "f:spec": {
            "f:containers": { "k:{\"name\":\"agent\"}": {
                ".": {}, "f:name": {},
                "f:securityContext": { ".": {}, "f:capabilities": { "f:add": {} }, "f:runAsUser": {} },
                "f:volumeMounts": {
                    ".": {}, "k:{\"mountPath\":\"/run\"}": { ".": {}, "f:mountPath": {}, "f:name": {} },
                },
            } },
            "f:volumes": { "k:{\"name\":\"run\"}": { ".": {}, "f:hostPath": { "f:path": {} }, "f:name": {} } },
        } } } });
        let body = owned_by("injector", fields, template(json!({ "containers": [agent], "volumes": [volume] })));
        let denial = checked(&reference("apps", "Deployment"), &body, json!({})).unwrap_err();
        assert_eq!(denial.count(), 3, "{denial}");
        assert!(!denial.reasons().contains("plugin.yaml"), "{denial}");
    }

    #[test]
    fn fields_that_the_api_server_and_its_controllers_fill_in_are_not_checked() {
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
        assert!(needs_grant(&deployment.kind, &newer.to_string()).is_empty());
        let set = owned_by("someone", fields, newer);
        assert_eq!(broken(&deployment, &set, json!({})), Some(UNKNOWN_FIELD));
        assert!(!needs_grant(&deployment.kind, &set.to_string()).is_empty());
    }

    #[test]
    fn the_spec_of_a_service_is_checked_except_for_allocated_fields() {
        let service = reference("", "Service");
        let allocated = json!({ "metadata": { "annotations": { "metallb.universe.tf/address-pool": "a" } }, "spec": {
            "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ports": [{ "port": 80, "nodePort": 30080 }],
            "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "type": "ClusterIP",
        } });
        assert_eq!(broken(&service, &allocated, json!({})), None);
        let mut open_to_all = allocated;
        open_to_all["spec"]["externalIPs"] = json!(["192.0.2.1"]);
        assert_eq!(broken(&service, &open_to_all, json!({})), Some("service-external-ips"));
        let live = needs_grant(&service.kind, &open_to_all.to_string());
        assert!(may_exceed(&live, &desired(&service, json!({ "spec": { "selector": { "app": "web" } } }))));
        assert!(!may_exceed(&live, &desired(&service, json!({ "spec": { "externalIPs": ["192.0.2.1"] } }))));
        assert_eq!(broken(&service, &open_to_all, json!({ "services": { "externalIPs": true } })), None);
    }

    #[test]
    fn data_sources_of_claims_and_retention_policies_of_sets_are_checked() {
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
    fn ordinary_objects_and_other_kinds_need_no_check() {
        let secretive = template(json!({ "volumes": [{ "name": "v", "secret": { "secretName": "s" } }] }));
        let map = reference("", "ConfigMap");
        assert!(needs_grant(&map.kind, &secretive.to_string()).is_empty() && !is_checked(&map.kind));
        assert!(!may_exceed(&["anything".into()], &desired(&map, secretive.clone())));
        assert_eq!(broken(&map, &secretive, json!({})), None);
        let deployment = reference("apps", "Deployment");
        let live = needs_grant(&deployment.kind, &secretive.to_string());
        assert!(may_exceed(&live, &desired(&deployment, template(json!({})))));
        assert!(!may_exceed(&live, &desired(&deployment, secretive)));
        assert!(!may_exceed(&[], &desired(&deployment, template(json!({})))));
    }

    #[test]
    fn what_an_answer_asks_for_itself_is_no_excess_wherever_it_is_but_for_a_new_volume_of_the_nodes_files() {
        let deployment = reference("apps", "Deployment");
        let exceeds = |live: &Value, answer: &Value| {
            may_exceed(&needs_grant(&deployment.kind, &live.to_string()), &desired(&deployment, answer.clone()))
        };
        let nothing = template(json!({}));
        // The gate has checked the answer, and nothing else is there.
        assert!(!exceeds(&nothing, &template(json!({ "hostPID": true }))));
        let capable = |names: &[&str]| {
            let container =
                |name: &&str| json!({ "name": name, "securityContext": { "capabilities": { "add": ["NET_ADMIN"] } } });
            template(json!({ "containers": names.iter().map(container).collect::<Vec<_>>() }))
        };
        assert!(!exceeds(&capable(&["a", "b"]), &capable(&["b"])));
        let mounted = template(json!({ "volumes": [{ "name": "logs", "hostPath": { "path": "/var/log" } }] }));
        assert!(!exceeds(&mounted, &mounted));
        // A container that others have added may mount a volume of this name already.
        assert!(exceeds(&nothing, &mounted));
        let (in_host, mut both) = (template(json!({ "hostPID": true })), mounted.clone());
        both["spec"]["template"]["spec"]["hostPID"] = json!(true);
        assert!(exceeds(&in_host, &both) && exceeds(&mounted, &in_host) && !exceeds(&both, &both));
    }

    #[test]
    fn fields_that_a_newer_api_server_fills_in_are_no_violation_unless_there_are_too_many_to_list() {
        let deployment = reference("apps", "Deployment");
        let filled = |count: usize| {
            let fields = (0..count).map(|number| (format!("field{number}"), json!(true)));
            template(Value::Object(fields.collect()))
        };
        assert_eq!(broken(&deployment, &filled(3), json!({})), None);
        assert_eq!(broken(&deployment, &filled(30), json!({})), Some(UNKNOWN_FIELD));
        let mut also_denied = filled(3);
        also_denied["spec"]["template"]["spec"]["hostPID"] = json!(true);
        assert_eq!(broken(&deployment, &also_denied, json!({})), Some("pod-host-pid"));
    }

    #[test]
    fn an_object_with_more_items_than_are_listed_or_that_cannot_be_read_is_always_checked() {
        let deployment = reference("apps", "Deployment");
        let volume =
            |number: u32| json!({ "name": number.to_string(), "secret": { "secretName": number.to_string() } });
        let many = template(json!({ "volumes": (0..30).map(volume).collect::<Vec<_>>() }));
        let live = needs_grant(&deployment.kind, &many.to_string());
        assert!(may_exceed(&live, &desired(&deployment, many)));
        assert!(may_exceed(&needs_grant(&deployment.kind, "{"), &desired(&deployment, json!({}))));
        assert_eq!(checked(&deployment, &json!({}), json!({})), Ok(()));
    }
}
