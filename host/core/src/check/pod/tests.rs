use serde_json::json;

use super::*;
use crate::check::pod::containers::{
    HARMLESS_CONTAINER_FIELDS, HARMLESS_CONTAINER_SECURITY_FIELDS, HARMLESS_PROBE_FIELDS,
};
use crate::check::pod::security_context::{CONTAINER_TYPES, HARMLESS_POD_SECURITY_FIELDS, SAFE_SYSCTLS};

fn deployment() -> Kind {
    Kind::new("apps", "v1", "Deployment")
}

/// Returns the first rule that a Pod with this spec breaks under a grant with these items.
fn broken(spec: &Value, open: &Value) -> Option<&'static str> {
    let open: Pods = serde_json::from_value(open.clone()).unwrap();
    let body = json!({ "spec": { "template": { "spec": spec } } });
    check(&deployment(), &body, &open).err().map(|denial| denial.rule())
}

/// Returns the spec of a Pod that asks for nothing.
fn minimal() -> Value {
    let container = json!({ "name": "c", "image": "i", "securityContext": { "allowPrivilegeEscalation": false } });
    json!({ "automountServiceAccountToken": false, "containers": [container] })
}

fn merged(mut onto: Value, more: Value) -> Value {
    match (&mut onto, more) {
        (Value::Object(members), Value::Object(more)) => {
            for (key, value) in more {
                let below = members.remove(&key).unwrap_or(Value::Null);
                members.insert(key, merged(below, value));
            }
            onto
        }
        (_, more) => more,
    }
}

fn pod(more: Value) -> Value {
    merged(minimal(), more)
}

fn container(more: Value) -> Value {
    let container = merged(minimal()["containers"][0].clone(), more);
    pod(json!({ "containers": [container] }))
}

fn volume(more: Value) -> Value {
    pod(json!({ "volumes": [merged(json!({ "name": "v" }), more)] }))
}

fn projection(more: Value) -> Value {
    volume(json!({ "projected": { "sources": [more] } }))
}

fn variable(more: Value) -> Value {
    container(json!({ "env": [{ "name": "A", "valueFrom": more }] }))
}

fn security(more: Value) -> Value {
    container(json!({ "securityContext": more }))
}

/// Returns everything that needs a grant: the Pod, the rule that denies it, and the one item that allows it.
fn closed() -> Vec<(Value, &'static str, Value)> {
    vec![
        (pod(json!({ "serviceAccountName": "admin" })), "pod-service-account", json!({ "serviceAccounts": ["admin"] })),
        (pod(json!({ "serviceAccount": "admin" })), "pod-service-account", json!({ "serviceAccounts": ["ad*"] })),
        (pod(json!({ "automountServiceAccountToken": true })), "pod-token", json!({ "serviceAccountToken": true })),
        (json!({}), "pod-token", json!({ "serviceAccountToken": true })),
        (
            projection(json!({ "serviceAccountToken": { "path": "t" } })),
            "pod-token",
            json!({ "serviceAccountToken": true }),
        ),
        (pod(json!({ "imagePullSecrets": [{ "name": "s" }] })), "pod-secret", json!({ "secrets": ["s"] })),
        (volume(json!({ "secret": { "secretName": "s" } })), "pod-secret", json!({ "secrets": ["s"] })),
        (projection(json!({ "secret": { "name": "s" } })), "pod-secret", json!({ "secrets": ["s"] })),
        (variable(json!({ "secretKeyRef": { "name": "s", "key": "k" } })), "pod-secret", json!({ "secrets": ["s"] })),
        (
            container(json!({ "envFrom": [{ "prefix": "P", "secretRef": { "name": "s" } }] })),
            "pod-secret",
            json!({ "secrets": ["s"] }),
        ),
        (volume(json!({ "configMap": { "name": "s" } })), "pod-config-map", json!({ "configMaps": ["s"] })),
        (projection(json!({ "configMap": { "name": "s" } })), "pod-config-map", json!({ "configMaps": ["s"] })),
        (
            variable(json!({ "configMapKeyRef": { "name": "s", "key": "k" } })),
            "pod-config-map",
            json!({ "configMaps": ["s"] }),
        ),
        (
            container(json!({ "envFrom": [{ "configMapRef": { "name": "s" } }] })),
            "pod-config-map",
            json!({ "configMaps": ["s"] }),
        ),
        (
            volume(json!({ "persistentVolumeClaim": { "claimName": "s" } })),
            "pod-volume-claim",
            json!({ "persistentVolumeClaims": ["s"] }),
        ),
        (volume(json!({ "hostPath": { "path": "/var/log/x" } })), "pod-host-path", json!({ "hostPath": ["/var/log"] })),
        (volume(json!({ "nfs": { "server": "s", "path": "/" } })), "pod-volume", json!({ "volumes": ["nfs"] })),
        (volume(json!({ "csi": { "driver": "d" } })), "pod-volume", json!({ "volumes": ["csi"] })),
        (volume(json!({ "ephemeral": {} })), "pod-volume", json!({ "volumes": ["ephemeral"] })),
        (
            pod(
                json!({ "volumes": [{ "name": "v", "ephemeral": { "volumeClaimTemplate": { "spec": { "volumeName": "s" } } } }] }),
            ),
            "pod-volume",
            json!({ "volumes": ["ephemeral"], "claimSources": ["s"] }),
        ),
        (volume(json!({ "image": { "reference": "r" } })), "pod-volume", json!({ "volumes": ["image"] })),
        (volume(json!({ "gitRepo": {} })), "pod-volume", json!({ "volumes": ["gitRepo"] })),
        (projection(json!({ "clusterTrustBundle": {} })), "pod-volume", json!({ "volumes": ["clusterTrustBundle"] })),
        (projection(json!({ "podCertificate": {} })), "pod-volume", json!({ "volumes": ["podCertificate"] })),
        (pod(json!({ "hostNetwork": true })), "pod-host-network", json!({ "hostNetwork": true })),
        (pod(json!({ "hostPID": true })), "pod-host-pid", json!({ "hostPID": true })),
        (pod(json!({ "hostIPC": true })), "pod-host-ipc", json!({ "hostIPC": true })),
        (container(json!({ "ports": [{ "hostPort": 80 }] })), "pod-host-port", json!({ "hostPorts": true })),
        (container(json!({ "ports": [{ "hostIP": "0.0.0.0" }] })), "pod-host-port", json!({ "hostPorts": true })),
        (security(json!({ "privileged": true })), "pod-privileged", json!({ "privileged": true })),
        (
            security(json!({ "allowPrivilegeEscalation": true })),
            "pod-escalation",
            json!({ "allowPrivilegeEscalation": true }),
        ),
        (
            pod(json!({ "containers": [{ "name": "c" }] })),
            "pod-escalation",
            json!({ "allowPrivilegeEscalation": true }),
        ),
        (
            pod(json!({ "initContainers": [{ "securityContext": {} }] })),
            "pod-escalation",
            json!({ "allowPrivilegeEscalation": true }),
        ),
        (
            security(json!({ "capabilities": { "add": ["NET_BIND_SERVICE", "SYS_ADMIN"] } })),
            "pod-capability",
            json!({ "capabilities": ["SYS_ADMIN"] }),
        ),
        (security(json!({ "procMount": "Unmasked" })), "pod-proc-mount", json!({ "procMount": true })),
        (
            security(json!({ "seccompProfile": { "type": "Unconfined" } })),
            "pod-unconfined",
            json!({ "unconfined": true }),
        ),
        (
            security(json!({ "appArmorProfile": { "type": "Unconfined" } })),
            "pod-unconfined",
            json!({ "unconfined": true }),
        ),
        (
            pod(json!({ "securityContext": { "seccompProfile": { "type": "Unconfined" } } })),
            "pod-unconfined",
            json!({ "unconfined": true }),
        ),
        (
            pod(json!({ "securityContext": { "seLinuxOptions": { "type": "spc_t" } } })),
            "pod-selinux",
            json!({ "seLinux": true }),
        ),
        (security(json!({ "seLinuxOptions": { "user": "u" } })), "pod-selinux", json!({ "seLinux": true })),
        (security(json!({ "seLinuxOptions": { "role": "r" } })), "pod-selinux", json!({ "seLinux": true })),
        (
            pod(json!({ "securityContext": { "sysctls": [{ "name": "kernel.msgmax", "value": "1" }] } })),
            "pod-sysctl",
            json!({ "sysctls": ["kernel.msg*"] }),
        ),
        (
            security(json!({ "windowsOptions": { "hostProcess": true } })),
            "pod-host-process",
            json!({ "hostProcess": true }),
        ),
        (pod(json!({ "nodeName": "n" })), "pod-node", json!({ "nodeName": true })),
        (
            pod(json!({ "priorityClassName": "system-node-critical" })),
            "pod-priority",
            json!({ "priorityClasses": ["system-*"] }),
        ),
        (pod(json!({ "runtimeClassName": "loose" })), "pod-runtime-class", json!({ "runtimeClasses": ["loose"] })),
        (pod(json!({ "resourceClaims": [] })), "pod-resource-claims", json!({ "resourceClaims": true })),
        (
            container(json!({ "resources": { "claims": [{ "name": "gpu" }] } })),
            "pod-resource-claims",
            json!({ "resourceClaims": true }),
        ),
        (
            container(json!({ "resources": { "limits": { "cpu": 1, "deviceclass.resource.kubernetes.io/any": 1 } } })),
            "pod-resource",
            json!({ "resources": ["deviceclass.resource.kubernetes.io/any"] }),
        ),
        (
            container(json!({ "resources": { "requests": { "nvidia.com/gpu": "1" } } })),
            "pod-resource",
            json!({ "resources": ["nvidia.com/*"] }),
        ),
        (
            pod(json!({ "initContainers": [merged(
                minimal()["containers"][0].clone(),
                json!({ "resources": { "limits": { "devices.kubevirt.io/kvm": 1 } } }),
            )] })),
            "pod-resource",
            json!({ "resources": ["devices.kubevirt.io/kvm"] }),
        ),
        (
            pod(json!({ "resources": { "limits": { "smarter-devices/fuse": 1 } } })),
            "pod-resource",
            json!({ "resources": ["smarter-devices/fuse"] }),
        ),
        (
            pod(json!({ "shareProcessNamespace": true })),
            "pod-shared-processes",
            json!({ "shareProcessNamespace": true }),
        ),
        (
            container(json!({ "livenessProbe": { "httpGet": { "port": 1, "host": "169.254.169.254" } } })),
            "pod-probe-host",
            json!({ "probeHosts": true }),
        ),
        (
            container(json!({ "readinessProbe": { "tcpSocket": { "port": 1, "host": "h" } } })),
            "pod-probe-host",
            json!({ "probeHosts": true }),
        ),
        (
            container(json!({ "startupProbe": { "httpGet": { "host": "h" } } })),
            "pod-probe-host",
            json!({ "probeHosts": true }),
        ),
        (
            container(json!({ "lifecycle": { "postStart": { "httpGet": { "host": "h" } } } })),
            "pod-probe-host",
            json!({ "probeHosts": true }),
        ),
        (
            container(json!({ "lifecycle": { "preStop": { "tcpSocket": { "host": "h" } } } })),
            "pod-probe-host",
            json!({ "probeHosts": true }),
        ),
    ]
}

/// Returns a grant that allows everything.
fn everything() -> Value {
    let named = json!(["*"]);
    let volumes = json!(["nfs", "csi", "ephemeral", "image", "gitRepo", "clusterTrustBundle", "podCertificate"]);
    json!({
        "serviceAccounts": named, "serviceAccountToken": true, "secrets": named, "configMaps": named,
        "persistentVolumeClaims": named, "claimSources": named, "adopt": true, "hostPath": ["/"],
        "hostPathWritable": true, "annotations": named, "volumes": volumes, "hostNetwork": true, "hostPID": true,
        "hostIPC": true, "hostPorts": true, "privileged": true, "allowPrivilegeEscalation": true,
        "capabilities": ["SYS_ADMIN"], "procMount": true, "unconfined": true, "seLinux": true, "sysctls": named,
        "hostProcess": true, "nodeName": true, "priorityClasses": named, "runtimeClasses": named,
        "resourceClaims": true, "probeHosts": true, "resources": named, "shareProcessNamespace": true,
    })
}

#[test]
fn each_privilege_is_denied_until_its_own_item_allows_it() {
    assert_eq!(broken(&minimal(), &json!({})), None);
    for (spec, rule, open) in closed() {
        assert_eq!(broken(&spec, &json!({})), Some(rule), "{spec}");
        assert_eq!(broken(&spec, &open), None, "{spec} with {open}");
        let mut others = everything();
        for item in open.as_object().unwrap().keys() {
            others.as_object_mut().unwrap().remove(item);
        }
        assert_eq!(broken(&spec, &others), Some(rule), "{spec} with all but {open}");
    }
}

/// Items that alone allow nothing in a Pod's spec; each has tests of its own.
const TESTED_SEPARATELY: [&str; 3] = ["adopt", "annotations", "hostPathWritable"];

#[test]
fn every_item_of_a_grant_is_tested() {
    let items: Vec<String> =
        serde_json::to_value(Pods::default()).unwrap().as_object().unwrap().keys().cloned().collect();
    for item in items {
        assert!(
            TESTED_SEPARATELY.contains(&&*item) || closed().iter().any(|(_, _, open)| open.get(&item).is_some()),
            "nothing closed is opened by {item}"
        );
    }
}

#[test]
fn every_kind_that_makes_pods_is_checked() {
    let spec = json!({ "automountServiceAccountToken": false, "hostNetwork": true });
    let template = json!({ "spec": spec });
    for (group, kind, body) in [
        ("", "Pod", template.clone()),
        ("", "PodTemplate", json!({ "template": template })),
        ("", "ReplicationController", json!({ "spec": { "template": template } })),
        ("apps", "Deployment", json!({ "spec": { "template": template } })),
        ("apps", "ReplicaSet", json!({ "spec": { "template": template } })),
        ("apps", "StatefulSet", json!({ "spec": { "template": template } })),
        ("apps", "DaemonSet", json!({ "spec": { "template": template } })),
        ("batch", "Job", json!({ "spec": { "template": template } })),
        ("batch", "CronJob", json!({ "spec": { "jobTemplate": { "spec": { "template": template } } } })),
    ] {
        let of = |group: &str, kind: &str| check(&Kind::new(group, "v1", kind), &body, &Pods::default());
        assert_eq!(of(group, kind).unwrap_err().rule(), "pod-host-network", "{kind}");
        assert!(makes_pods(&Kind::new(group, "v1", kind)));
        assert!(of("example.com", kind).is_ok() && of(group, "Other").is_ok());
    }
}

#[test]
fn harmless_fields_pass() {
    for field in HARMLESS_POD_FIELDS {
        assert_eq!(broken(&pod(json!({ field: { "any": "thing" } })), &json!({})), None, "{field}");
    }
    assert_eq!(broken(&pod(json!({ "priority": 5 })), &json!({})), None);
    for field in HARMLESS_POD_SECURITY_FIELDS {
        assert_eq!(broken(&pod(json!({ "securityContext": { field: 1 } })), &json!({})), None, "{field}");
    }
    for field in HARMLESS_CONTAINER_FIELDS {
        assert_eq!(broken(&container(json!({ field: 1 })), &json!({})), None, "{field}");
    }
    for field in HARMLESS_CONTAINER_SECURITY_FIELDS {
        assert_eq!(broken(&security(json!({ field: 1 })), &json!({})), None, "{field}");
    }
    for sysctl in SAFE_SYSCTLS {
        let spec = pod(json!({ "securityContext": { "sysctls": [{ "name": sysctl, "value": "1" }] } }));
        assert_eq!(broken(&spec, &json!({})), None, "{sysctl}");
    }
    for selinux in CONTAINER_TYPES {
        let spec = security(json!({ "seLinuxOptions": { "type": selinux, "level": "s0", "user": "", "role": "" } }));
        assert_eq!(broken(&spec, &json!({})), None, "{selinux}");
    }
    for spec in [
        pod(json!({ "serviceAccountName": "default", "serviceAccount": "" })),
        pod(json!({ "hostNetwork": false, "hostPID": false, "hostIPC": false, "shareProcessNamespace": false })),
        pod(json!({ "resources": { "limits": { "cpu": "1" }, "requests": { "memory": "1Gi", "hugepages-2Mi": 1 } } })),
        container(
            json!({ "resources": { "requests": { "ephemeral-storage": 1, "cpu": 1 }, "limits": { "hugepages-1Gi": 1 } } }),
        ),
        volume(json!({ "emptyDir": {} })),
        volume(json!({ "downwardAPI": {} })),
        volume(json!({ "projected": { "defaultMode": 1, "sources": [{ "downwardAPI": {} }] } })),
        variable(json!({ "fieldRef": {} })),
        variable(json!({ "resourceFieldRef": {} })),
        variable(json!({ "fileKeyRef": {} })),
        container(json!({ "env": [{ "name": "A", "value": "b" }] })),
        container(
            json!({ "ports": [{ "containerPort": 1, "name": "p", "protocol": "TCP", "hostPort": 0, "hostIP": "" }] }),
        ),
        container(json!({ "livenessProbe": { "exec": {}, "failureThreshold": 1, "timeoutSeconds": 2 } })),
        container(json!({ "livenessProbe": { "grpc": {}, "periodSeconds": 1, "initialDelaySeconds": 1 } })),
        container(
            json!({ "livenessProbe": { "httpGet": { "host": "", "port": 1, "path": "/", "scheme": "HTTP", "httpHeaders": [] } } }),
        ),
        container(json!({ "lifecycle": { "stopSignal": "SIGTERM", "preStop": { "sleep": {} } } })),
        security(
            json!({ "privileged": false, "procMount": "Default", "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] } }),
        ),
        security(
            json!({ "seccompProfile": { "type": "RuntimeDefault" }, "windowsOptions": { "hostProcess": false, "runAsUserName": "u" } }),
        ),
        security(json!({ "appArmorProfile": { "type": "Localhost", "localhostProfile": "p" } })),
    ] {
        assert_eq!(broken(&spec, &json!({})), None, "{spec}");
    }
}

#[test]
fn no_field_of_kubernetes_1_36_is_unknown_except_those_that_no_grant_allows() {
    let unknown = |fields: &str, spec: &dyn Fn(&str) -> Value| {
        let unknown = fields.split(' ').filter(|field| broken(&spec(field), &everything()) == Some("field-unknown"));
        unknown.map(str::to_owned).collect::<Vec<_>>()
    };
    let of_pod = "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy \
                  enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname \
                  hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead \
                  preemptionPolicy priority priorityClassName readinessGates resourceClaims resources restartPolicy \
                  runtimeClassName schedulerName schedulingGates schedulingGroup securityContext serviceAccount \
                  serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds \
                  tolerations topologySpreadConstraints volumes";
    assert_eq!(unknown(of_pod, &|field| pod(json!({ field: 1 }))), ["ephemeralContainers", "schedulingGroup"]);
    let of_container = "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports \
                        readinessProbe resizePolicy resources restartPolicy restartPolicyRules securityContext \
                        startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty \
                        volumeDevices volumeMounts workingDir";
    assert_eq!(unknown(of_container, &|field| container(json!({ field: 1 }))), [""; 0]);
    let of_pods_context = "appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser \
                           seLinuxChangePolicy seLinuxOptions seccompProfile supplementalGroups \
                           supplementalGroupsPolicy sysctls windowsOptions";
    assert_eq!(unknown(of_pods_context, &|field| pod(json!({ "securityContext": { field: 1 } }))), [""; 0]);
    let of_containers_context = "allowPrivilegeEscalation appArmorProfile capabilities privileged procMount \
                                 readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seLinuxOptions \
                                 seccompProfile windowsOptions";
    assert_eq!(unknown(of_containers_context, &|field| security(json!({ field: 1 }))), [""; 0]);
    let of_probe = "exec failureThreshold grpc httpGet initialDelaySeconds periodSeconds successThreshold tcpSocket \
                    terminationGracePeriodSeconds timeoutSeconds";
    assert_eq!(unknown(of_probe, &|field| container(json!({ "livenessProbe": { field: 1 } }))), [""; 0]);
}

#[test]
fn an_unknown_field_is_refused_by_name_at_every_level_even_where_everything_is_granted() {
    let odd = json!({ "odd": 1 });
    for spec in [
        pod(odd.clone()),
        pod(json!({ "HostNetwork": true })),
        pod(json!({ "ephemeralContainers": [] })),
        pod(json!({ "securityContext": odd })),
        pod(json!({ "securityContext": { "sysctls": [odd] } })),
        container(odd.clone()),
        container(json!({ "ports": [odd] })),
        container(json!({ "resources": odd })),
        pod(json!({ "resources": odd })),
        container(json!({ "env": [odd] })),
        container(json!({ "envFrom": [odd] })),
        container(json!({ "livenessProbe": odd })),
        container(json!({ "livenessProbe": { "httpGet": odd } })),
        container(json!({ "livenessProbe": { "httpGet": { "Host": "h" } } })),
        container(json!({ "lifecycle": odd })),
        container(json!({ "lifecycle": { "preStop": odd } })),
        variable(odd.clone()),
        security(odd.clone()),
        security(json!({ "Privileged": true })),
        security(json!({ "AllowPrivilegeEscalation": true })),
        security(json!({ "capabilities": odd })),
        security(json!({ "seccompProfile": odd })),
        security(json!({ "seLinuxOptions": odd })),
        security(json!({ "windowsOptions": odd })),
        security(json!({ "windowsOptions": { "gmsaCredentialSpec": "g" } })),
        volume(json!({ "projected": odd })),
        projection(odd),
    ] {
        assert_eq!(broken(&spec, &everything()), Some("field-unknown"), "{spec}");
    }
    assert_eq!(broken(&volume(json!({ "odd": {} })), &everything()), Some("pod-volume"));
}

#[test]
fn a_value_of_the_wrong_type_is_refused_and_not_skipped() {
    for spec in [
        json!("text"),
        json!([]),
        pod(json!({ "automountServiceAccountToken": "false" })),
        pod(json!({ "automountServiceAccountToken": 0 })),
        pod(json!({ "hostNetwork": "true" })),
        pod(json!({ "hostNetwork": null })),
        pod(json!({ "containers": { "0": {} } })),
        pod(json!({ "containers": ["c"] })),
        pod(json!({ "initContainers": null })),
        pod(json!({ "volumes": {} })),
        pod(json!({ "volumes": [[]] })),
        pod(json!({ "serviceAccountName": ["admin"] })),
        pod(json!({ "imagePullSecrets": ["s"] })),
        pod(json!({ "imagePullSecrets": [{}] })),
        pod(json!({ "securityContext": [] })),
        container(json!({ "env": {} })),
        container(json!({ "resources": [] })),
        container(json!({ "resources": { "limits": ["nvidia.com/gpu"] } })),
        pod(json!({ "resources": "1" })),
        pod(json!({ "shareProcessNamespace": "true" })),
        container(json!({ "envFrom": [[]] })),
        container(json!({ "ports": [{ "hostPort": "80" }] })),
        container(json!({ "livenessProbe": "x" })),
        security(json!({ "allowPrivilegeEscalation": "false" })),
        security(json!({ "privileged": 1 })),
        security(json!({ "capabilities": { "add": "SYS_ADMIN" } })),
        security(json!({ "capabilities": { "add": [["SYS_ADMIN"]] } })),
        security(json!({ "procMount": ["Unmasked"] })),
        volume(json!({ "secret": { "name": "s" } })),
        volume(json!({ "secret": "s" })),
        volume(json!({ "configMap": {} })),
        volume(json!({ "persistentVolumeClaim": {} })),
        volume(json!({ "hostPath": {} })),
        volume(json!({ "hostPath": "/" })),
        volume(json!({ "projected": { "sources": {} } })),
    ] {
        assert_eq!(broken(&spec, &everything()), Some("field-shape"), "{spec}");
    }
}

#[test]
fn nothing_on_the_path_to_a_template_is_skipped() {
    for body in [
        json!({ "spec": "x" }),
        json!({ "spec": { "template": [] } }),
        json!({ "spec": { "template": { "spec": null } } }),
        json!({ "spec": { "template": { "metadata": "x" } } }),
        json!({ "spec": { "template": { "metadata": { "annotations": [] } } } }),
    ] {
        assert_eq!(check(&deployment(), &body, &Pods::default()).unwrap_err().rule(), "field-shape", "{body}");
    }
    for body in [
        json!({ "Spec": {} }),
        json!({ "spec": { "Template": {} } }),
        json!({ "spec": { "template": { "Spec": {} } } }),
        json!({ "spec": { "template": { "odd": {} } } }),
    ] {
        assert_eq!(check(&deployment(), &body, &Pods::default()).unwrap_err().rule(), "field-unknown", "{body}");
    }
    for body in [json!({}), json!({ "spec": { "replicas": 1 } }), json!({ "spec": { "template": {} } })] {
        assert_eq!(check(&deployment(), &body, &Pods::default()), Ok(()), "{body}");
    }
    let pod = Kind::new("", "v1", "Pod");
    assert_eq!(check(&pod, &json!({ "SPEC": {} }), &Pods::default()).unwrap_err().rule(), "field-unknown");
    let whole = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "ownerReferences": [] }, "spec": minimal() });
    assert_eq!(check(&pod, &whole, &Pods::default()), Ok(()));
    let bare = json!({ "apiVersion": "v1", "kind": "Pod", "spec": minimal() });
    assert_eq!(check(&pod, &bare, &Pods::default()), Ok(()));
}

fn annotated(kind: &Kind, key: &str, value: Value, open: &Pods) -> Option<&'static str> {
    let template = json!({ "metadata": { "annotations": { key: value } }, "spec": minimal() });
    let body = if &*kind.kind == "Pod" { template } else { json!({ "spec": { "template": template } }) };
    check(kind, &body, open).err().map(|violation| violation.rule())
}

#[test]
fn legacy_annotations_do_not_remove_a_confinement() {
    let open = Pods { unconfined: true, ..Pods::default() };
    for kind in [deployment(), Kind::new("", "v1", "Pod")] {
        for key in [
            "seccomp.security.alpha.kubernetes.io/pod",
            "container.seccomp.security.alpha.kubernetes.io/c",
            "container.apparmor.security.beta.kubernetes.io/c",
        ] {
            let with = |value: Value, open: &Pods| annotated(&kind, key, value, open);
            assert_eq!(with(json!("unconfined"), &Pods::default()), Some("pod-unconfined"), "{key}");
            assert_eq!(with(json!("unconfined"), &open), None);
            assert_eq!(with(json!(["unconfined"]), &open), Some("field-shape"));
            for confined in ["runtime/default", "docker/default", "localhost/profile"] {
                assert_eq!(with(json!(confined), &Pods::default()), None);
            }
        }
        assert_eq!(annotated(&kind, "a", json!("unconfined"), &Pods::default()), None);
    }
}

#[test]
fn an_annotation_that_other_controllers_act_on_is_opened_by_its_own_item() {
    let everything_else = Pods { annotations: Vec::new(), ..serde_json::from_value(everything()).unwrap() };
    for kind in [deployment(), Kind::new("", "v1", "Pod")] {
        for key in [
            "sidecar.istio.io/userVolume",
            "k8s.v1.cni.cncf.io/networks",
            "vault.hashicorp.com/agent-inject",
            "hotshoe.device/a",
            "/a",
            "io.kubernetes.cri-o.Devices",
            "cpu-quota.crio.io",
            "run.oci.hooks.stdout",
            "io.katacontainers.config.hypervisor.kernel_params",
            "dev.gvisor.flag.debug",
            "io.microsoft.virtualmachine.computetopology.memory.sizeinmb",
            "sidecar.istio.io",
        ] {
            let with = |open: &Pods| annotated(&kind, key, json!("x"), open);
            let opened = |pattern: &str| Pods { annotations: vec![pattern.to_owned()], ..Pods::default() };
            assert_eq!(with(&Pods::default()), Some("pod-annotation"), "{key}");
            assert_eq!(with(&everything_else), Some("pod-annotation"), "{key}");
            assert_eq!(with(&opened(key)), None, "{key}");
            assert_eq!(with(&opened(&format!("{}*", key.split(['/', '.']).next().unwrap()))), None, "{key}");
            assert_eq!(with(&opened("checksum/*")), Some("pod-annotation"), "{key}");
        }
        for key in ["note", "checksum-config", "checksum_config"] {
            assert_eq!(annotated(&kind, key, json!("x"), &Pods::default()), None, "{key}");
        }
    }
    let of_pod = |key| annotated(&Kind::new("", "v1", "Pod"), key, json!("x"), &Pods::default());
    assert_eq!(of_pod("hotshoe.dev/applied"), None, "it is the host that set it");
    let body = json!({ "spec": { "template": { "metadata": { "annotations": { "a.io/b": "c" } } } } });
    let message = check(&deployment(), &body, &Pods::default()).unwrap_err().to_string();
    assert!(message.contains("spec.template.metadata.annotations.a.io/b is not granted"), "{message}");
    assert!(message.contains("pods: {annotations: [a.io/b]}"), "{message}");
}

#[test]
fn a_template_gives_its_pods_labels_and_annotations_and_nothing_else() {
    let with = |metadata: Value| {
        let body = json!({ "spec": { "template": { "metadata": metadata, "spec": minimal() } } });
        check(&deployment(), &body, &Pods::default()).err().map(|violation| violation.rule())
    };
    assert_eq!(with(json!({ "labels": { "a": "b" }, "annotations": { "a": "b" } })), None);
    for field in ["finalizers", "ownerReferences", "name", "generateName", "namespace", "uid"] {
        assert_eq!(with(json!({ field: "x" })), Some("pod-metadata"), "{field}");
    }
    for field in ["labels", "annotations"] {
        assert_eq!(with(json!({ field: { "hotshoe.dev/plugin": "other" } })), Some("pod-metadata"));
    }
}

#[test]
fn a_cron_job_gives_its_jobs_labels_and_annotations_and_nothing_else() {
    let with = |metadata: Value, open: &Pods| {
        let body = json!({ "spec": { "jobTemplate": { "metadata": metadata } } });
        check(&Kind::new("batch", "v1", "CronJob"), &body, open).err().map(|violation| violation.rule())
    };
    let (closed, open) = (Pods::default(), Pods { annotations: vec!["a.io/*".into()], ..Pods::default() });
    assert_eq!(with(json!({ "labels": { "a": "b" }, "annotations": { "a": "b" } }), &closed), None);
    for forged in [
        json!({ "labels": { "hotshoe.dev/plugin": "other" } }),
        json!({ "annotations": { "hotshoe.dev/applied": "x" } }),
        json!({ "finalizers": ["f"] }),
        json!({ "ownerReferences": [] }),
    ] {
        assert_eq!(with(forged.clone(), &open), Some("pod-metadata"), "{forged}");
    }
    let meant = json!({ "annotations": { "a.io/b": "c" } });
    assert_eq!(with(meant.clone(), &closed), Some("pod-annotation"));
    assert_eq!(with(meant, &open), None);
    assert_eq!(with(json!("x"), &open), Some("field-shape"));
}

#[test]
fn secrets_of_third_party_volumes_need_a_grant() {
    let open = |secrets: Value| json!({ "volumes": ["csi", "rbd", "azureFile"], "secrets": secrets });
    for more in [
        json!({ "csi": { "driver": "d", "nodePublishSecretRef": { "name": "s" } } }),
        json!({ "rbd": { "secretRef": { "name": "s" } } }),
        json!({ "azureFile": { "secretName": "s" } }),
        json!({ "rbd": { "SecretRef": { "name": "s" } } }),
        json!({ "csi": { "driver": "file.csi.azure.com", "volumeAttributes": { "secretName": "s" } } }),
        json!({ "csi": { "volumeAttributes": { "a": [[{ "b": { "userSecretRef": { "name": "s" } } }]] } } }),
    ] {
        assert_eq!(broken(&volume(more.clone()), &open(json!([]))), Some("pod-secret"), "{more}");
        assert_eq!(broken(&volume(more), &open(json!(["s"]))), None);
    }
    let typed = volume(json!({ "azureFile": { "secretName": ["s"] } }));
    assert_eq!(broken(&typed, &open(json!(["*"]))), Some("field-shape"));
}

#[test]
fn files_of_the_node_are_only_read_unless_writing_is_granted() {
    let with = |containers: Value, open: Value| {
        let volumes = json!([{ "name": "v", "hostPath": { "path": "/var/log" } }, { "name": "e", "emptyDir": {} }]);
        let mut spec = pod(json!({ "volumes": volumes }));
        spec.as_object_mut().unwrap().extend(containers.as_object().unwrap().clone());
        broken(&spec, &open)
    };
    let container = |mount: Value| {
        let first = json!({ "name": "e", "mountPath": "/e" });
        json!([
            minimal()["containers"][0],
            merged(minimal()["containers"][0].clone(), json!({ "volumeMounts": [first, mount] }))
        ])
    };
    let reading = json!({ "hostPath": ["/var/log"] });
    let writing = json!({ "hostPath": ["/var/log"], "hostPathWritable": true });
    let mut others = everything();
    others.as_object_mut().unwrap().remove("hostPathWritable");
    for containers in ["containers", "initContainers"] {
        let mounted = |mount: Value, open: &Value| with(json!({ containers: container(mount) }), open.clone());
        assert_eq!(mounted(json!({ "name": "v", "readOnly": true }), &reading), None);
        for mount in [json!({ "name": "v" }), json!({ "name": "v", "readOnly": false })] {
            assert_eq!(mounted(mount.clone(), &reading), Some("pod-host-path-writable"), "{containers} {mount}");
            assert_eq!(mounted(mount.clone(), &others), Some("pod-host-path-writable"), "{containers} {mount}");
            assert_eq!(mounted(mount.clone(), &writing), None, "{containers} {mount}");
        }
        for sub_path in [json!({ "subPath": "a/b" }), json!({ "subPath": "" }), json!({ "subPathExpr": "$(NAME)" })] {
            let mut mount = merged(json!({ "name": "v", "readOnly": true }), sub_path);
            assert_eq!(mounted(mount.clone(), &reading), Some("pod-host-path-writable"), "{containers} {mount}");
            assert_eq!(mounted(mount.clone(), &writing), None, "{containers} {mount}");
            mount["name"] = json!("e");
            assert_eq!(mounted(mount.clone(), &reading), None, "{containers} {mount}: it is not the node's");
        }
        for odd in [json!({ "name": "v", "readOnly": "true" }), json!({ "readOnly": true }), json!("v")] {
            assert_eq!(mounted(odd.clone(), &reading), Some("field-shape"), "{odd}");
        }
        assert_eq!(mounted(json!({ "name": "v", "ReadOnly": true }), &reading), Some("field-unknown"));
    }
    assert_eq!(with(json!({ "volumes": [{ "hostPath": { "path": "/var/log" } }] }), reading), Some("field-shape"));
}

#[test]
fn files_and_sockets_of_the_node_are_not_created_or_used_unless_writing_is_granted() {
    let with = |kind: Value, open: Value| {
        broken(&volume(json!({ "hostPath": { "path": "/var/log/x", "type": kind } })), &open)
    };
    let reading = json!({ "hostPath": ["/var/log"] });
    let writing = json!({ "hostPath": ["/var/log"], "hostPathWritable": true });
    for kind in ["FileOrCreate", "DirectoryOrCreate", "Socket", "CharDevice", "BlockDevice"] {
        assert_eq!(with(json!(kind), reading.clone()), Some("pod-host-path-writable"), "{kind}");
        assert_eq!(with(json!(kind), writing.clone()), None, "{kind}");
    }
    for kind in ["", "Directory", "File"] {
        assert_eq!(with(json!(kind), reading.clone()), None, "{kind}");
    }
    assert_eq!(with(json!(["FileOrCreate"]), writing), Some("field-shape"));
}

#[test]
fn a_path_of_the_node_is_granted_with_everything_below_it() {
    let with = |path: &str, open: &str| {
        broken(&volume(json!({ "hostPath": { "path": path } })), &json!({ "hostPath": [open] }))
    };
    for (path, open) in [
        ("/var/log", "/var/log"),
        ("/var/log/", "/var/log"),
        ("/var/log/pods", "/var/log/"),
        ("//var/log", "/var/log"),
        ("/etc", "/"),
    ] {
        assert_eq!(with(path, open), None, "{path} in {open}");
    }
    for (path, open) in [
        ("/var/logs", "/var/log"),
        ("/var", "/var/log"),
        ("/", "/var/log"),
        ("/var/log/../lib", "/var/log"),
        ("/..", "/"),
        ("var/log", "/var/log"),
        ("", "/"),
    ] {
        assert_eq!(with(path, open), Some("pod-host-path"), "{path} in {open}");
    }
}

#[test]
fn the_claim_of_an_ephemeral_volume_is_checked_as_a_claim() {
    let open = json!({ "volumes": ["ephemeral"] });
    let with = |template: Value| broken(&volume(json!({ "ephemeral": { "volumeClaimTemplate": template } })), &open);
    assert_eq!(with(json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "accessModes": [] } })), None);
    assert_eq!(with(json!({ "spec": { "dataSource": { "name": "s" } } })), Some("claim-source"));
    assert_eq!(with(json!({ "metadata": { "finalizers": ["f"] } })), Some("pod-metadata"));
    assert_eq!(broken(&volume(json!({ "ephemeral": { "odd": 1 } })), &open), Some("field-unknown"));
    assert_eq!(broken(&volume(json!({ "ephemeral": "x" })), &open), Some("field-shape"));
}

#[test]
fn a_message_names_the_field_and_the_item() {
    let body = json!({ "spec": { "template": { "spec": container(json!({ "ports": [{ "hostPort": 80 }] })) } } });
    let message = check(&deployment(), &body, &Pods::default()).unwrap_err().to_string();
    assert!(
        message.contains("spec.template.spec.containers[0].ports[0].hostPort is not granted")
            && message.contains("pods: {hostPorts: true}"),
        "{message}"
    );
}

#[test]
fn an_item_without_a_sensible_meaning_is_named() {
    let validate = |open: Value| serde_json::from_value::<Pods>(open).unwrap().validate();
    for field in [
        "serviceAccounts",
        "secrets",
        "configMaps",
        "persistentVolumeClaims",
        "claimSources",
        "annotations",
        "resources",
        "sysctls",
        "priorityClasses",
        "runtimeClasses",
    ] {
        assert_eq!(validate(json!({ field: ["a", "b*"] })), Ok(()));
        let error = validate(json!({ field: ["**"] })).unwrap_err();
        assert!(error.starts_with(&format!("pods.{field} has")), "{error}");
    }
    assert_eq!(validate(json!({ "hostPath": ["/", "/a/b"] })), Ok(()));
    assert_eq!(validate(everything()), Ok(()));
    for (field, bad) in [
        ("secrets", "ABC"),
        ("serviceAccounts", "a b"),
        ("volumes", "foo"),
        ("volumes", "*"),
        ("volumes", "secret"),
        ("capabilities", "*"),
        ("capabilities", "net_admin"),
        ("capabilities", ""),
    ] {
        let error = validate(json!({ field: [bad] })).unwrap_err();
        assert!(error.starts_with(&format!("pods.{field} has {bad:?}")), "{error}");
    }
    assert_eq!(validate(json!({ "capabilities": ["NET_ADMIN", "ALL"] })), Ok(()));
    for path in ["", "a", "/a/../b"] {
        let error = validate(json!({ "hostPath": [path] })).unwrap_err();
        assert!(error.contains("pods.hostPath") && error.contains(path), "{error}");
    }
    assert!(serde_json::from_value::<Pods>(json!({ "hostpath": [] })).is_err());
}

#[test]
fn a_container_runtime_may_act_on_keys_without_a_slash_and_on_those_of_devices_and_profiles() {
    for key in [
        "io.kubernetes.cri-o.Devices",
        "run.oci.hooks.stdout",
        "cdi.k8s.io/gpu",
        "container.seccomp.security.alpha.kubernetes.io/web",
        "container.apparmor.security.beta.kubernetes.io/web",
    ] {
        assert!(addresses_the_runtime(key) && addresses_a_program(key), "{key}");
    }
    for key in ["example.com/team", "prometheus.io/scrape", "team", "hotshoe.dev/applied"] {
        assert!(!addresses_the_runtime(key), "{key}");
    }
}

#[test]
fn the_rules_of_harmless_in_the_sdks_leave_each_field_that_is_known_to_be_harmless() {
    let rules = include_str!("../../../../../plugins/sdk/src/harmless.json");
    let rules: Value = serde_json::from_str(rules).unwrap();
    for (path, fields) in [
        ("/spec", &HARMLESS_POD_FIELDS[..]),
        ("/spec/securityContext", &HARMLESS_POD_SECURITY_FIELDS),
        ("/container", &HARMLESS_CONTAINER_FIELDS),
        ("/container/securityContext", &HARMLESS_CONTAINER_SECURITY_FIELDS),
        ("/probe", &HARMLESS_PROBE_FIELDS),
    ] {
        for field in fields {
            assert_eq!(rules.pointer(path).unwrap()[field], "any", "{path}/{field}");
        }
    }
    for (path, texts) in [("/sysctl", &SAFE_SYSCTLS[..]), ("/seLinux/type", &CONTAINER_TYPES)] {
        assert_eq!(
            rules.pointer(path).unwrap().as_array().unwrap()[1..],
            texts.iter().map(|text| json!(text)).collect::<Vec<_>>()
        );
    }
}
