//! Objects that must never be written for a plugin, each as the plugin desires it and as a request
//! that would write it without a host in between.

use serde_json::{Value, json};

use crate::kinds::{
    CLAIM, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, CRD, DEPLOYMENT, DOOR, Kind, LEASE, MUTATING_WEBHOOK,
    NAMESPACE, PERSISTENT_VOLUME, PLUGIN, POD, REPLICA_SET, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT,
    STATEFUL_SET, SYSTEM,
};

/// The parent for which an attack is tried.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The parent's namespace.
    pub namespace: &'a str,
    /// The parent's name, which is also the object's unless the row has another.
    pub name: &'a str,
}

/// A forged object.
#[derive(Clone, Debug)]
pub struct Forged {
    /// The kind in the plugin's answer.
    pub kind: Kind,
    /// The namespace in the plugin's answer; absent for the parent's.
    pub namespace: Option<String>,
    /// The name in the plugin's answer.
    pub name: String,
    /// The JSON in the plugin's answer.
    pub body: Value,
    /// The path of a request that would write the object directly.
    pub path: String,
}

impl Forged {
    fn new(kind: Kind, place: &Place<'_>, namespace: Option<&str>, name: &str, body: Value) -> Self {
        let path = kind.path(namespace.unwrap_or(place.namespace), Some(name));
        Self { kind, namespace: namespace.map(str::to_owned), name: name.to_owned(), body, path }
    }

    /// Renders the object for the spec of the fixture's parent, which tells the fixture to desire or to require it.
    pub fn dictated(&self) -> Value {
        json!({
            "group": self.kind.group, "version": self.kind.version, "kind": self.kind.kind,
            "namespace": self.namespace, "name": self.name, "body": self.body.to_string(),
        })
    }

    /// Renders the body of a server-side apply that writes the object directly.
    pub fn applied(&self) -> Value {
        let mut object = self.body.clone();
        object["apiVersion"] = self.kind.api_version().into();
        object["kind"] = self.kind.kind.into();
        object["metadata"]["name"] = self.name.clone().into();
        object
    }
}

/// One object in the parent's namespace, with the parent's name.
fn here(kind: Kind, place: &Place<'_>, body: Value) -> Vec<Forged> {
    vec![Forged::new(kind, place, None, place.name, body)]
}

/// An otherwise valid ConfigMap with this metadata.
fn with_metadata(place: &Place<'_>, metadata: Value) -> Vec<Forged> {
    here(CONFIG_MAP, place, json!({ "metadata": metadata, "data": { "a": "b" } }))
}

// === kinds and places ===

fn everything() -> Value {
    json!({ "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] })
}

fn binding(kind: &str, role: &str) -> Value {
    json!({
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
        "subjects": [{ "kind": "ServiceAccount", "namespace": SYSTEM, "name": "hostile" }],
    })
}

/// Rights to everything.
pub fn cluster_role(place: &Place<'_>) -> Vec<Forged> {
    here(CLUSTER_ROLE, place, everything())
}

/// A cluster-scoped object with a namespace: where a host sets a namespace before it looks up the scope, this would
/// pass as a namespaced object.
pub fn cluster_role_in_namespace(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(CLUSTER_ROLE, place, Some(place.namespace), place.name, everything())]
}

/// The plugin's account as administrator.
pub fn cluster_role_binding(place: &Place<'_>) -> Vec<Forged> {
    here(CLUSTER_ROLE_BINDING, place, binding("ClusterRole", "cluster-admin"))
}

/// A webhook, which would see every object that is written.
pub fn webhook(place: &Place<'_>) -> Vec<Forged> {
    here(MUTATING_WEBHOOK, place, json!({ "webhooks": [] }))
}

/// Another schema for another tenant's objects.
pub fn definition(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(
        CRD,
        place,
        None,
        "memcacheds.cache.example.com",
        json!({ "spec": { "group": "cache.example.com" } }),
    )]
}

/// The node's files, by way of a volume.
pub fn persistent_volume(place: &Place<'_>) -> Vec<Forged> {
    let spec =
        json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/" } });
    here(PERSISTENT_VOLUME, place, json!({ "spec": spec }))
}

/// Another tenant's credentials for a storage system, used by each Pod that mounts the volume.
pub fn persistent_volume_with_secret(place: &Place<'_>) -> Vec<Forged> {
    let secret = json!({ "namespace": SYSTEM, "name": "another-tenants" });
    let source = json!({ "driver": "csi.example.com", "volumeHandle": "any", "nodeStageSecretRef": secret });
    let spec = json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "csi": source });
    here(PERSISTENT_VOLUME, place, json!({ "spec": spec }))
}

/// A namespace without Pod Security; also used for a read.
pub fn namespace(place: &Place<'_>) -> Vec<Forged> {
    here(NAMESPACE, place, json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "privileged" } } }))
}

/// A namespace that could never be deleted.
pub fn namespace_with_finalizer(place: &Place<'_>) -> Vec<Forged> {
    here(NAMESPACE, place, json!({ "spec": { "finalizers": ["example.com/never"] } }))
}

/// An object in another tenant's namespace; also used for a read.
pub fn config_map_elsewhere(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(CONFIG_MAP, place, Some("default"), place.name, json!({ "data": { "a": "b" } }))]
}

/// An object whose JSON names another namespace than its reference.
pub fn config_map_elsewhere_in_json(place: &Place<'_>) -> Vec<Forged> {
    let mut forged = with_metadata(place, json!({ "namespace": "default" }));
    forged.iter_mut().for_each(|one| one.path = CONFIG_MAP.path("default", Some(place.name)));
    forged
}

/// Rights in the parent's namespace.
pub fn role(place: &Place<'_>) -> Vec<Forged> {
    here(ROLE, place, everything())
}

/// The plugin's account as administrator of the parent's namespace.
pub fn role_binding(place: &Place<'_>) -> Vec<Forged> {
    here(ROLE_BINDING, place, binding("ClusterRole", "admin"))
}

/// An account that the plugin could act as.
pub fn service_account(place: &Place<'_>) -> Vec<Forged> {
    here(SERVICE_ACCOUNT, place, json!({}))
}

/// A Secret that the API server would fill with a token that never expires.
pub fn token_secret(place: &Place<'_>) -> Vec<Forged> {
    let annotations = json!({ "kubernetes.io/service-account.name": "default" });
    let kind = "kubernetes.io/service-account-token";
    here(SECRET, place, json!({ "metadata": { "annotations": annotations }, "type": kind }))
}

/// A release of Helm's: the next person who rolls it back applies what a plugin wrote.
pub fn helm_secret(place: &Place<'_>) -> Vec<Forged> {
    let labels = json!({ "owner": "helm", "name": "web", "status": "deployed", "version": "1" });
    here(SECRET, place, json!({ "metadata": { "labels": labels }, "type": "helm.sh/release.v1" }))
}

/// Such a release, where Helm keeps them in ConfigMaps.
pub fn helm_config_map(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "labels": { "owner": "helm", "name": "web", "status": "deployed", "version": "1" } }))
}

/// A token by the subresource of an account.
pub fn token_request(place: &Place<'_>) -> Vec<Forged> {
    let kind = Kind { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest", plural: "" };
    let path = SERVICE_ACCOUNT.path(place.namespace, Some("default/token"));
    vec![Forged { path, ..Forged::new(kind, place, None, "default", json!({ "spec": {} })) }]
}

/// A `Plugin`, which says which plugins there are and what they are granted.
pub fn plugin(place: &Place<'_>) -> Vec<Forged> {
    here(PLUGIN, place, json!({ "spec": { "source": { "file": "/tmp/other.wasm" } } }))
}

/// The Lease that says which host is active.
pub fn lease(place: &Place<'_>) -> Vec<Forged> {
    let lease =
        |namespace| Forged::new(LEASE, place, namespace, "hotshoe", json!({ "spec": { "holderIdentity": "me" } }));
    vec![lease(Some(SYSTEM))]
}

/// The host's own Deployment, whose Pods run under the host's account; also used for a read.
pub fn hosts_deployment(place: &Place<'_>) -> Vec<Forged> {
    let labels = json!({ "app": "hotshoe" });
    let mut pod = harmless_pod();
    pod["serviceAccountName"] = "hotshoe".into();
    let template = json!({ "metadata": { "labels": labels }, "spec": pod });
    let spec = json!({ "replicas": 0, "selector": { "matchLabels": labels }, "template": template });
    vec![Forged::new(DEPLOYMENT, place, Some(SYSTEM), "hotshoe", json!({ "spec": spec }))]
}

/// A Secret of the host.
pub fn hosts_secret(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(SECRET, place, Some(SYSTEM), "hotshoe", json!({ "stringData": { "a": "b" } }))]
}

/// A Secret to be read.
pub fn secret(place: &Place<'_>) -> Vec<Forged> {
    here(SECRET, place, json!({}))
}

// === Pods ===

/// A Pod that the Pod Security level `restricted` admits.
fn harmless_pod() -> Value {
    let security = json!({
        "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
        "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
    });
    json!({
        "automountServiceAccountToken": false,
        "containers": [{ "name": "main", "image": "registry.example.com/main:1", "securityContext": security }],
    })
}

fn pod(place: &Place<'_>, change: impl FnOnce(&mut Value)) -> Vec<Forged> {
    let mut spec = harmless_pod();
    change(&mut spec);
    here(POD, place, json!({ "spec": spec }))
}

fn deployment(place: &Place<'_>, change: impl FnOnce(&mut Value)) -> Vec<Forged> {
    let mut spec = harmless_pod();
    change(&mut spec);
    let labels = json!({ "app": place.name });
    let template = json!({ "metadata": { "labels": labels }, "spec": spec });
    here(DEPLOYMENT, place, json!({ "spec": { "selector": { "matchLabels": labels }, "template": template } }))
}

fn privilege(spec: &mut Value) {
    spec["containers"][0]["securityContext"] = json!({ "privileged": true });
}

fn mount(spec: &mut Value, source: Value) {
    let mut volume = source;
    volume["name"] = "taken".into();
    spec["volumes"] = json!([volume]);
    spec["containers"][0]["volumeMounts"] = json!([{ "name": "taken", "mountPath": "/taken" }]);
}

/// A privileged Pod, which is equivalent to root on the node.
pub fn privileged_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, privilege)
}

/// A Pod with the node's files, which include the kubelet's keys.
pub fn host_path_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| mount(spec, json!({ "hostPath": { "path": "/" } })))
}

/// A Pod in the node's network, to which no NetworkPolicy applies.
pub fn host_network_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| spec["hostNetwork"] = true.into())
}

/// A Pod with all rights, pull secrets and mountable Secrets of another account.
pub fn other_account_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| spec["serviceAccountName"] = "another-tenants".into())
}

/// A Pod with the rights of the namespace's default account.
pub fn token_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| spec["automountServiceAccountToken"] = true.into())
}

/// A Pod on a node of its choice, beside any other workload.
pub fn node_name_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| spec["nodeName"] = "control-plane".into())
}

/// A Pod that mounts a Secret which the plugin may not read.
pub fn secret_volume_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| mount(spec, json!({ "secret": { "secretName": "another-tenants" } })))
}

/// A Pod with such a Secret in its environment.
pub fn secret_environment_pod(place: &Place<'_>) -> Vec<Forged> {
    let source = json!([{ "secretRef": { "name": "another-tenants" } }]);
    pod(place, |spec| spec["containers"][0]["envFrom"] = source)
}

/// Privileged Pods that another controller would create.
pub fn privileged_deployment(place: &Place<'_>) -> Vec<Forged> {
    deployment(place, privilege)
}

/// Pods with the node's files that another controller would create.
pub fn host_path_deployment(place: &Place<'_>) -> Vec<Forged> {
    deployment(place, |spec| mount(spec, json!({ "hostPath": { "path": "/" } })))
}

/// A writable mount where only reading is granted: a symbolic link in it could lead the next Pod to any file.
pub fn host_path_writing_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| mount(spec, json!({ "hostPath": { "path": "/var/log" } })))
}

/// A read-only mount with a subpath, which the kubelet would create on the node as root.
pub fn host_path_making_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| {
        mount(spec, json!({ "hostPath": { "path": "/var/log" } }));
        let mount = &mut spec["containers"][0]["volumeMounts"][0];
        (mount["readOnly"], mount["subPath"]) = (json!(true), json!("made/by/plugin"));
    })
}

/// A Pod with an annotation by which an add-on injects a container.
pub fn annotated_pod(place: &Place<'_>) -> Vec<Forged> {
    let volumes = "[{\"name\":\"root\",\"hostPath\":{\"path\":\"/\"}}]";
    pod_with_annotation(place, "sidecar.istio.io/userVolume", volumes)
}

fn pod_with_annotation(place: &Place<'_>, key: &str, value: &str) -> Vec<Forged> {
    let mut forged = pod(place, |_| {});
    forged.iter_mut().for_each(|one| one.body["metadata"]["annotations"] = json!({ key: value }));
    forged
}

/// A Pod with a label by which an add-on mounts a token of its ServiceAccount.
pub fn labelled_pod(place: &Place<'_>) -> Vec<Forged> {
    let mut forged = pod(place, |_| {});
    forged.iter_mut().for_each(|one| one.body["metadata"]["labels"] = json!({ WORKLOAD_IDENTITY: "true" }));
    forged
}

/// A Deployment with that label in its Pod template.
pub fn labelled_deployment(place: &Place<'_>) -> Vec<Forged> {
    let mut forged = deployment(place, |_| {});
    for one in &mut forged {
        one.body["spec"]["template"]["metadata"]["labels"][WORKLOAD_IDENTITY] = "true".into();
    }
    forged
}

const WORKLOAD_IDENTITY: &str = "azure.workload.identity/use";

/// A device by the name of its class, for which the scheduler makes a claim.
pub fn device_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| ask(spec, "deviceclass.resource.kubernetes.io/any"))
}

/// A device of a device plugin.
pub fn device_deployment(place: &Place<'_>) -> Vec<Forged> {
    deployment(place, |spec| ask(spec, "devices.kubevirt.io/kvm"))
}

fn ask(spec: &mut Value, resource: &str) {
    spec["containers"][0]["resources"] = json!({ "limits": { resource: "1" } });
}

/// Processes, and by them files and tokens, of a container that an add-on adds to the Pods.
pub fn shared_processes(place: &Place<'_>) -> Vec<Forged> {
    deployment(place, |spec| spec["shareProcessNamespace"] = true.into())
}

/// A device of the node, where CRI-O admits this annotation.
pub fn pod_with_cri_o_device(place: &Place<'_>) -> Vec<Forged> {
    pod_with_annotation(place, "io.kubernetes.cri-o.Devices", "/dev/kvm")
}

/// A Deployment with that annotation in its Pod template.
pub fn deployment_with_cri_o_device(place: &Place<'_>) -> Vec<Forged> {
    let mut forged = deployment(place, |_| {});
    for one in &mut forged {
        one.body["spec"]["template"]["metadata"]["annotations"] = json!({ "io.kubernetes.cri-o.Devices": "/dev/kvm" });
    }
    forged
}

/// A file of the node that crun writes the output of its hooks to.
pub fn pod_with_crun_hook_output(place: &Place<'_>) -> Vec<Forged> {
    pod_with_annotation(place, "run.oci.hooks.stdout", "/etc/cron.d/hotshoe")
}

/// Parameters of the virtual machine's kernel, where Kata Containers runs the Pod.
pub fn pod_with_kata_parameters(place: &Place<'_>) -> Vec<Forged> {
    pod_with_annotation(place, "io.katacontainers.config.hypervisor.kernel_params", "agent.debug_console")
}

/// A flag of gVisor's own process on the node.
pub fn pod_with_gvisor_flag(place: &Place<'_>) -> Vec<Forged> {
    pod_with_annotation(place, "dev.gvisor.flag.debug", "true")
}

/// A setting of the virtual machine of a Windows node.
pub fn pod_with_hcsshim_setting(place: &Place<'_>) -> Vec<Forged> {
    pod_with_annotation(place, "io.microsoft.virtualmachine.lcow.kernelbootoptions", "init=/bin/sh")
}

/// An address that another tenant's traffic goes to.
pub fn annotated_service(place: &Place<'_>) -> Vec<Forged> {
    let annotation = json!({ "metallb.universe.tf/loadBalancerIPs": "192.0.2.1" });
    let spec = json!({ "ports": [{ "port": 80 }], "selector": { "app": place.name } });
    here(SERVICE, place, json!({ "metadata": { "annotations": annotation }, "spec": spec }))
}

/// An object of which another operator makes Pods, under that operator's rights.
pub fn foreign_pods(place: &Place<'_>) -> Vec<Forged> {
    let container = json!({ "name": "main", "image": "registry.example.com/main:1" });
    here(DOOR, place, json!({ "spec": { "containers": [container] } }))
}

/// A workload whose selector matches Pods of any tenant.
fn adopting(kind: Kind, place: &Place<'_>) -> Vec<Forged> {
    let labels = json!({ "app": "ci-runner" });
    let template = json!({ "metadata": { "labels": labels }, "spec": harmless_pod() });
    let spec = json!({ "replicas": 0, "selector": { "matchLabels": labels }, "template": template });
    here(kind, place, json!({ "spec": spec }))
}

/// A ReplicaSet with 0 replicas, which would delete all Pods that it adopts, of any tenant.
pub fn adopting_replica_set(place: &Place<'_>) -> Vec<Forged> {
    adopting(REPLICA_SET, place)
}

/// A Deployment that would adopt an orphaned ReplicaSet, whose template counts as an older one, and scale it to 0.
pub fn adopting_deployment(place: &Place<'_>) -> Vec<Forged> {
    adopting(DEPLOYMENT, place)
}

/// A StatefulSet that would adopt Pods named `SET-NUMBER`; the plugin chooses the name of the set.
pub fn adopting_stateful_set(place: &Place<'_>) -> Vec<Forged> {
    adopting(STATEFUL_SET, place)
}

// === claims ===

fn claim(name: &str) -> Value {
    let storage = json!({ "requests": { "storage": "1Gi" } });
    json!({ "metadata": { "name": name }, "spec": { "accessModes": ["ReadWriteOnce"], "resources": storage } })
}

fn stateful_set(place: &Place<'_>, change: impl FnOnce(&mut Value)) -> Vec<Forged> {
    let labels = json!({ "app": place.name });
    let template = json!({ "metadata": { "labels": labels }, "spec": harmless_pod() });
    let mut spec = json!({
        "replicas": 1, "serviceName": place.name, "selector": { "matchLabels": labels }, "template": template,
    });
    change(&mut spec);
    here(STATEFUL_SET, place, json!({ "spec": spec }))
}

/// A claim template whose claims would have the names of those of the set `shop-NAME`: an existing claim is used as it
/// is.
pub fn claim_of_another_set(place: &Place<'_>) -> Vec<Forged> {
    stateful_set(place, |spec| spec["volumeClaimTemplates"] = json!([claim("data-shop")]))
}

fn filled(mut claim: Value) -> Value {
    claim["spec"]["dataSource"] = json!({ "kind": "PersistentVolumeClaim", "name": "another-tenants" });
    claim
}

/// A copy of a claim that the plugin could not mount.
pub fn filled_claim_of_set(place: &Place<'_>) -> Vec<Forged> {
    stateful_set(place, |spec| spec["volumeClaimTemplates"] = json!([filled(claim("data"))]))
}

/// Such a copy without a StatefulSet.
pub fn filled_claim(place: &Place<'_>) -> Vec<Forged> {
    here(CLAIM, place, json!({ "spec": filled(claim(place.name))["spec"] }))
}

/// Another tenant's volume, before it is claimed.
pub fn claim_of_volume(place: &Place<'_>) -> Vec<Forged> {
    let mut claim = claim(place.name);
    claim["spec"]["volumeName"] = "another-tenants".into();
    here(CLAIM, place, json!({ "spec": claim["spec"] }))
}

/// A claim that cannot be deleted.
pub fn claim_with_finalizer(place: &Place<'_>) -> Vec<Forged> {
    let mut claim = claim("data");
    claim["metadata"]["finalizers"] = json!(["example.com/never"]);
    stateful_set(place, |spec| spec["volumeClaimTemplates"] = json!([claim]))
}

/// A retention policy that deletes data with the set, which no decision could delete directly.
pub fn claims_deleted_with_set(place: &Place<'_>) -> Vec<Forged> {
    let policy = json!({ "whenDeleted": "Delete", "whenScaled": "Delete" });
    stateful_set(place, |spec| spec["persistentVolumeClaimRetentionPolicy"] = policy)
}

/// A command in a Pod.
pub fn exec(place: &Place<'_>) -> Vec<Forged> {
    let kind = Kind { group: "", version: "v1", kind: "PodExecOptions", plural: "" };
    let path = POD.path(place.namespace, Some(&format!("{}/exec?command=id", place.name)));
    vec![Forged { path, ..Forged::new(kind, place, None, place.name, json!({ "command": ["id"] })) }]
}

// === what belongs to others in an object that may be written ===

/// A foreign owner, whose deletion would be blocked or would garbage-collect the object.
pub fn foreign_owner(place: &Place<'_>) -> Vec<Forged> {
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": "00000000-0000-0000-0000-000000000000",
        "controller": true, "blockOwnerDeletion": true,
    });
    with_metadata(place, json!({ "ownerReferences": [owner] }))
}

/// The name of a ConfigMap that exists in every namespace and belongs to no plugin.
pub fn taken_name(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(CONFIG_MAP, place, None, "kube-root-ca.crt", json!({ "data": { "ca.crt": "mine" } }))]
}

/// Ownership of fields that the plugin never wrote.
pub fn managed_fields(place: &Place<'_>) -> Vec<Forged> {
    let entry = json!({ "manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {} });
    with_metadata(place, json!({ "managedFields": [entry] }))
}

/// An object that cannot be deleted.
pub fn finalizers(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "finalizers": ["example.com/never"] }))
}

/// The UID of another object than the one that was observed.
pub fn uid(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "uid": "00000000-0000-0000-0000-000000000000" }))
}

/// A precondition other than the host's.
pub fn resource_version(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "resourceVersion": "0" }))
}

/// An object that would be created as deleted.
pub fn deletion_timestamp(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }))
}

/// A generated name, by which every decision would create another object.
pub fn generate_name(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "generateName": "many-" }))
}

/// The label of another plugin's child.
pub fn our_label(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "labels": { "hotshoe.dev/plugin": "memcached" } }))
}

/// The annotation by which the host would take the object for up to date.
pub fn our_annotation(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "annotations": { "hotshoe.dev/applied": "00" } }))
}

/// The annotation that kubectl would take for the user's last applied configuration.
pub fn last_applied(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" } }))
}

/// A status, which belongs to the child's own controller.
pub fn status_of_child(place: &Place<'_>) -> Vec<Forged> {
    let path = DEPLOYMENT.path(place.namespace, Some(&format!("{}/status", place.name)));
    let body = json!({ "status": { "readyReplicas": 3 } });
    vec![Forged { path, ..Forged::new(DEPLOYMENT, place, None, place.name, body) }]
}

/// A scale that differs from the decision.
pub fn scale(place: &Place<'_>) -> Vec<Forged> {
    let kind = Kind { group: "autoscaling", version: "v1", kind: "Scale", plural: "" };
    let path = DEPLOYMENT.path(place.namespace, Some(&format!("{}/scale", place.name)));
    vec![Forged { path, ..Forged::new(kind, place, None, place.name, json!({ "spec": { "replicas": 9 } })) }]
}

/// A name that would become part of a request's path.
pub fn path_in_name(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(CONFIG_MAP, place, None, "../../default/configmaps/a", json!({ "data": { "a": "b" } }))]
}

/// Another name in the JSON: the gate would check one object, and the API server would write the other.
pub fn other_name_in_json(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "name": "kube-root-ca.crt" }))
}

/// Another kind in the JSON, with the same aim.
pub fn other_kind_in_json(place: &Place<'_>) -> Vec<Forged> {
    here(CONFIG_MAP, place, json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "b" } }))
}

/// The same child twice, so that it is ambiguous which one counts.
pub fn twice(place: &Place<'_>) -> Vec<Forged> {
    let one = with_metadata(place, json!({}));
    [one.clone(), one].concat()
}
