//! Objects that a plugin should never get written, each as the plugin desires it and as a request
//! that would write it without any host between.

use serde_json::{Value, json};

use crate::kinds::{
    CLAIM, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, CRD, DEPLOYMENT, Kind, LEASE, MUTATING_WEBHOOK, NAMESPACE,
    PERSISTENT_VOLUME, PLUGIN, POD, REPLICA_SET, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET,
    SYSTEM,
};

/// Where it is tried.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The parent's namespace.
    pub namespace: &'a str,
    /// The parent's name; the object's too, where the row does not say otherwise.
    pub name: &'a str,
}

/// One object.
#[derive(Clone, Debug)]
pub struct Forged {
    /// What the plugin says that it is.
    pub kind: Kind,
    /// What the plugin says where it is; the parent's namespace where it says nothing.
    pub namespace: Option<String>,
    /// What the plugin calls it.
    pub name: String,
    /// Its JSON.
    pub body: Value,
    /// What a client would write that asks the API server directly.
    pub path: String,
}

impl Forged {
    fn new(kind: Kind, place: &Place<'_>, namespace: Option<&str>, name: &str, body: Value) -> Self {
        let path = kind.path(namespace.unwrap_or(place.namespace), Some(name));
        Self { kind, namespace: namespace.map(str::to_owned), name: name.to_owned(), body, path }
    }

    /// As the fixture's parent dictates it, or has it asked for.
    pub fn dictated(&self) -> Value {
        json!({
            "group": self.kind.group, "version": self.kind.version, "kind": self.kind.kind,
            "namespace": self.namespace, "name": self.name, "body": self.body.to_string(),
        })
    }

    /// As the API server would be asked for it directly, by server-side apply.
    pub fn applied(&self) -> Value {
        let mut object = self.body.clone();
        object["apiVersion"] = self.kind.api_version().into();
        object["kind"] = self.kind.kind.into();
        object["metadata"]["name"] = self.name.clone().into();
        object
    }
}

/// In the place of its parent, with its parent's name.
fn here(kind: Kind, place: &Place<'_>, body: Value) -> Vec<Forged> {
    vec![Forged::new(kind, place, None, place.name, body)]
}

/// A ConfigMap that would do, with this in its metadata.
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

/// Where a host forces a namespace before it asks for the scope, this passes for namespaced.
pub fn cluster_role_in_namespace(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(CLUSTER_ROLE, place, Some(place.namespace), place.name, everything())]
}

/// Itself as administrator.
pub fn cluster_role_binding(place: &Place<'_>) -> Vec<Forged> {
    here(CLUSTER_ROLE_BINDING, place, binding("ClusterRole", "cluster-admin"))
}

/// A view of every object that is written.
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

/// The node's files by another way.
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

/// A namespace without Pod Security; also as something to be read.
pub fn namespace(place: &Place<'_>) -> Vec<Forged> {
    here(NAMESPACE, place, json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "privileged" } } }))
}

/// A namespace that would never go.
pub fn namespace_with_finalizer(place: &Place<'_>) -> Vec<Forged> {
    here(NAMESPACE, place, json!({ "spec": { "finalizers": ["example.com/never"] } }))
}

/// Another tenant's namespace; also as something to be read.
pub fn config_map_elsewhere(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(CONFIG_MAP, place, Some("default"), place.name, json!({ "data": { "a": "b" } }))]
}

/// The reference is innocent, the object is not.
pub fn config_map_elsewhere_in_json(place: &Place<'_>) -> Vec<Forged> {
    let mut forged = with_metadata(place, json!({ "namespace": "default" }));
    forged.iter_mut().for_each(|one| one.path = CONFIG_MAP.path("default", Some(place.name)));
    forged
}

/// Rights in the parent's namespace.
pub fn role(place: &Place<'_>) -> Vec<Forged> {
    here(ROLE, place, everything())
}

/// Itself as administrator of the parent's namespace.
pub fn role_binding(place: &Place<'_>) -> Vec<Forged> {
    here(ROLE_BINDING, place, binding("ClusterRole", "admin"))
}

/// An account to act as.
pub fn service_account(place: &Place<'_>) -> Vec<Forged> {
    here(SERVICE_ACCOUNT, place, json!({}))
}

/// The API server fills it with a token that never ends.
pub fn token_secret(place: &Place<'_>) -> Vec<Forged> {
    let annotations = json!({ "kubernetes.io/service-account.name": "default" });
    let kind = "kubernetes.io/service-account-token";
    here(SECRET, place, json!({ "metadata": { "annotations": annotations }, "type": kind }))
}

/// The same by the subresource of an account.
pub fn token_request(place: &Place<'_>) -> Vec<Forged> {
    let kind = Kind { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest", plural: "" };
    let path = SERVICE_ACCOUNT.path(place.namespace, Some("default/token"));
    vec![Forged { path, ..Forged::new(kind, place, None, "default", json!({ "spec": {} })) }]
}

/// Who says which plugins there are, and what they may.
pub fn plugin(place: &Place<'_>) -> Vec<Forged> {
    here(PLUGIN, place, json!({ "spec": { "source": { "file": "/tmp/other.wasm" } } }))
}

/// The object that says which host is active.
pub fn lease(place: &Place<'_>) -> Vec<Forged> {
    let lease =
        |namespace| Forged::new(LEASE, place, namespace, "hotshoe", json!({ "spec": { "holderIdentity": "me" } }));
    vec![lease(Some(SYSTEM))]
}

/// The host itself, whose account any of its Pods has; also as something to be read.
pub fn hosts_deployment(place: &Place<'_>) -> Vec<Forged> {
    let labels = json!({ "app": "hotshoe" });
    let mut pod = harmless_pod();
    pod["serviceAccountName"] = "hotshoe".into();
    let template = json!({ "metadata": { "labels": labels }, "spec": pod });
    let spec = json!({ "replicas": 0, "selector": { "matchLabels": labels }, "template": template });
    vec![Forged::new(DEPLOYMENT, place, Some(SYSTEM), "hotshoe", json!({ "spec": spec }))]
}

/// What the host would be configured with.
pub fn hosts_secret(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(SECRET, place, Some(SYSTEM), "hotshoe", json!({ "stringData": { "a": "b" } }))]
}

/// Something to be read.
pub fn secret(place: &Place<'_>) -> Vec<Forged> {
    here(SECRET, place, json!({}))
}

// === Pods ===

/// A Pod that the level `restricted` admits.
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

/// As good as root on the node.
pub fn privileged_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, privilege)
}

/// Keys of the kubelet among them.
pub fn host_path_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| mount(spec, json!({ "hostPath": { "path": "/" } })))
}

/// Past every NetworkPolicy.
pub fn host_network_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| spec["hostNetwork"] = true.into())
}

/// Whatever is bound to that account, or that it may pull and mount.
pub fn other_account_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| spec["serviceAccountName"] = "another-tenants".into())
}

/// Whatever rights the account has that every Pod may run under.
pub fn token_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| spec["automountServiceAccountToken"] = true.into())
}

/// Beside whom it likes.
pub fn node_name_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| spec["nodeName"] = "control-plane".into())
}

/// To be read without a right to read it.
pub fn secret_volume_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| mount(spec, json!({ "secret": { "secretName": "another-tenants" } })))
}

/// The same by another way.
pub fn secret_environment_pod(place: &Place<'_>) -> Vec<Forged> {
    let source = json!([{ "secretRef": { "name": "another-tenants" } }]);
    pod(place, |spec| spec["containers"][0]["envFrom"] = source)
}

/// Pods that another controller makes.
pub fn privileged_deployment(place: &Place<'_>) -> Vec<Forged> {
    deployment(place, privilege)
}

/// The same.
pub fn host_path_deployment(place: &Place<'_>) -> Vec<Forged> {
    deployment(place, |spec| mount(spec, json!({ "hostPath": { "path": "/" } })))
}

/// A log that can be read, and a link in it that leads the next Pod to wherever it likes.
pub fn host_path_writing_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| mount(spec, json!({ "hostPath": { "path": "/var/log" } })))
}

/// A folder that the kubelet makes on the node as root, although the mount is read-only.
pub fn host_path_making_pod(place: &Place<'_>) -> Vec<Forged> {
    pod(place, |spec| {
        mount(spec, json!({ "hostPath": { "path": "/var/log" } }));
        let mount = &mut spec["containers"][0]["volumeMounts"][0];
        (mount["readOnly"], mount["subPath"]) = (json!(true), json!("made/by/plugin"));
    })
}

/// A container that an add-on puts into the Pod as the annotation says.
pub fn annotated_pod(place: &Place<'_>) -> Vec<Forged> {
    let volumes = "[{\"name\":\"root\",\"hostPath\":{\"path\":\"/\"}}]";
    pod_with_annotation(place, "sidecar.istio.io/userVolume", volumes)
}

fn pod_with_annotation(place: &Place<'_>, key: &str, value: &str) -> Vec<Forged> {
    let mut forged = pod(place, |_| {});
    forged.iter_mut().for_each(|one| one.body["metadata"]["annotations"] = json!({ key: value }));
    forged
}

/// A device of the node, where CRI-O admits this annotation.
pub fn pod_with_cri_o_device(place: &Place<'_>) -> Vec<Forged> {
    pod_with_annotation(place, "io.kubernetes.cri-o.Devices", "/dev/kvm")
}

/// The same in what makes Pods.
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

/// What matches, whichever tenant it belongs to.
fn adopting(kind: Kind, place: &Place<'_>) -> Vec<Forged> {
    let labels = json!({ "app": "ci-runner" });
    let template = json!({ "metadata": { "labels": labels }, "spec": harmless_pod() });
    let spec = json!({ "replicas": 0, "selector": { "matchLabels": labels }, "template": template });
    here(kind, place, json!({ "spec": spec }))
}

/// A ReplicaSet of none deletes all Pods that it adopts, whichever tenant they belong to.
pub fn adopting_replica_set(place: &Place<'_>) -> Vec<Forged> {
    adopting(REPLICA_SET, place)
}

/// One that was left by its Deployment, or never had any: of an older template it is scaled to none.
pub fn adopting_deployment(place: &Place<'_>) -> Vec<Forged> {
    adopting(DEPLOYMENT, place)
}

/// Those that are named `SET-NUMBER`, and the plugin names the set.
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

/// One that is there already is used as it is: this is of the set `shop-NAME`.
pub fn claim_of_another_set(place: &Place<'_>) -> Vec<Forged> {
    stateful_set(place, |spec| spec["volumeClaimTemplates"] = json!([claim("data-shop")]))
}

fn filled(mut claim: Value) -> Value {
    claim["spec"]["dataSource"] = json!({ "kind": "PersistentVolumeClaim", "name": "another-tenants" });
    claim
}

/// A copy of what could not be mounted.
pub fn filled_claim_of_set(place: &Place<'_>) -> Vec<Forged> {
    stateful_set(place, |spec| spec["volumeClaimTemplates"] = json!([filled(claim("data"))]))
}

/// The same without a StatefulSet.
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

/// Data that no decision deletes goes with the set.
pub fn claims_deleted_with_set(place: &Place<'_>) -> Vec<Forged> {
    let policy = json!({ "whenDeleted": "Delete", "whenScaled": "Delete" });
    stateful_set(place, |spec| spec["persistentVolumeClaimRetentionPolicy"] = policy)
}

/// Something to run a command in.
pub fn exec(place: &Place<'_>) -> Vec<Forged> {
    let kind = Kind { group: "", version: "v1", kind: "PodExecOptions", plural: "" };
    let path = POD.path(place.namespace, Some(&format!("{}/exec?command=id", place.name)));
    vec![Forged { path, ..Forged::new(kind, place, None, place.name, json!({ "command": ["id"] })) }]
}

// === what belongs to others in an object that may be written ===

/// The garbage collector would hold it to its parent, or collect it with another's.
pub fn foreign_owner(place: &Place<'_>) -> Vec<Forged> {
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": "00000000-0000-0000-0000-000000000000",
        "controller": true, "blockOwnerDeletion": true,
    });
    with_metadata(place, json!({ "ownerReferences": [owner] }))
}

/// It is there in every namespace, and no plugin's.
pub fn taken_name(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(CONFIG_MAP, place, None, "kube-root-ca.crt", json!({ "data": { "ca.crt": "mine" } }))]
}

/// Fields that it never wrote.
pub fn managed_fields(place: &Place<'_>) -> Vec<Forged> {
    let entry = json!({ "manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {} });
    with_metadata(place, json!({ "managedFields": [entry] }))
}

/// An object that cannot be deleted.
pub fn finalizers(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "finalizers": ["example.com/never"] }))
}

/// Another object than the one that was observed.
pub fn uid(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "uid": "00000000-0000-0000-0000-000000000000" }))
}

/// Past the host's precondition.
pub fn resource_version(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "resourceVersion": "0" }))
}

/// Gone before it is there.
pub fn deletion_timestamp(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }))
}

/// A new object at every decision.
pub fn generate_name(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "generateName": "many-" }))
}

/// Another plugin's child.
pub fn our_label(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "labels": { "hotshoe.dev/plugin": "memcached" } }))
}

/// In sync, whatever it is.
pub fn our_annotation(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "annotations": { "hotshoe.dev/applied": "00" } }))
}

/// What kubectl would take for the person's last word.
pub fn last_applied(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" } }))
}

/// What its own controller says.
pub fn status_of_child(place: &Place<'_>) -> Vec<Forged> {
    let path = DEPLOYMENT.path(place.namespace, Some(&format!("{}/status", place.name)));
    let body = json!({ "status": { "readyReplicas": 3 } });
    vec![Forged { path, ..Forged::new(DEPLOYMENT, place, None, place.name, body) }]
}

/// More of it than was decided.
pub fn scale(place: &Place<'_>) -> Vec<Forged> {
    let kind = Kind { group: "autoscaling", version: "v1", kind: "Scale", plural: "" };
    let path = DEPLOYMENT.path(place.namespace, Some(&format!("{}/scale", place.name)));
    vec![Forged { path, ..Forged::new(kind, place, None, place.name, json!({ "spec": { "replicas": 9 } })) }]
}

/// It would become a part of a request's path.
pub fn path_in_name(place: &Place<'_>) -> Vec<Forged> {
    vec![Forged::new(CONFIG_MAP, place, None, "../../default/configmaps/a", json!({ "data": { "a": "b" } }))]
}

/// The gate would judge one object, and the API server write the other.
pub fn other_name_in_json(place: &Place<'_>) -> Vec<Forged> {
    with_metadata(place, json!({ "name": "kube-root-ca.crt" }))
}

/// The same by its kind.
pub fn other_kind_in_json(place: &Place<'_>) -> Vec<Forged> {
    here(CONFIG_MAP, place, json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "b" } }))
}

/// Which of them counts?
pub fn twice(place: &Place<'_>) -> Vec<Forged> {
    let one = with_metadata(place, json!({}));
    [one.clone(), one].concat()
}
