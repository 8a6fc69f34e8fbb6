//! Checks what Pods ask for, in every kind that makes Pods from a template. Pure.
//!
//! A Pod runs code of the plugin's choice with whatever the Pod asks for, so by default it may ask for nothing: fields
//! that are known to be harmless pass, each other field needs its own item in the grant, and unknown fields are denied
//! by name.

pub mod containers;
pub mod grant;
pub mod resources;
pub mod security_context;
pub mod volumes;

use serde_json::Value;

use crate::check::glob;
use crate::check::json_cursor::Cursor;
use crate::check::pod::grant::Pods;
use crate::check::violation::{Checked, all};
use crate::model::kind::Kind;
use crate::model::object::HOST_PREFIX;

/// The path to the Pod template in each kind that makes Pods.
const TEMPLATES: [(&str, &str, &[&str]); 9] = [
    ("", "Pod", &[]),
    ("", "PodTemplate", &["template"]),
    ("", "ReplicationController", &["spec", "template"]),
    ("apps", "Deployment", &["spec", "template"]),
    ("apps", "ReplicaSet", &["spec", "template"]),
    ("apps", "StatefulSet", &["spec", "template"]),
    ("apps", "DaemonSet", &["spec", "template"]),
    ("batch", "Job", &["spec", "template"]),
    ("batch", "CronJob", &["spec", "jobTemplate", "spec", "template"]),
];

/// The path to the metadata that a CronJob gives to its Jobs. No other of these kinds has a field there.
pub(crate) const JOB_METADATA: [&str; 3] = ["spec", "jobTemplate", "metadata"];

/// Fields of a Pod's spec that are known to be harmless.
const HARMLESS_POD_FIELDS: [&str; 22] = [
    "activeDeadlineSeconds",
    "affinity",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "readinessGates",
    "restartPolicy",
    "schedulerName",
    "schedulingGates",
    "setHostnameAsFQDN",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
];

/// Prefixes of the annotations for security profiles that fields of the security context have replaced.
const LEGACY_PROFILES: [&str; 3] = [
    "seccomp.security.alpha.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "container.apparmor.security.beta.kubernetes.io/",
];

/// Returns whether objects of this kind are Pods or make Pods.
pub fn makes_pods(kind: &Kind) -> bool {
    template_of(kind).is_some()
}

/// Returns the kind that makes Pods and differs from this one only in its group or in case.
pub fn similar_kind(kind: &Kind) -> Option<Kind> {
    let similar = TEMPLATES.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(&kind.kind));
    similar.map(|(group, name, _)| Kind::new(group, "", name)).filter(|similar| !similar.is_served_as(kind))
}

/// Checks that the Pods of an object ask for no more than the grant allows (`open`). Kinds without Pods pass.
///
/// # Errors
/// When a field is not allowed. Lists these fields by their paths.
pub fn check(kind: &Kind, body: &Value, open: &Pods) -> Checked {
    let Some(path) = template_of(kind) else { return Ok(()) };
    let root = Cursor::root(body);
    let job_metadata = root.descendant(&JOB_METADATA)?.map_or(Ok(()), |metadata| open.check_inherited(&metadata, &[]));
    let Some(template) = root.descendant(path)? else { return job_metadata };
    let metadata = match template.child("metadata")? {
        // The metadata of a Pod itself was checked like that of any object, except for its annotations.
        Some(metadata) if path.is_empty() => open.check_annotations(&metadata),
        _ if path.is_empty() => Ok(()),
        _ => open.check_template(&template),
    };
    let spec = template.child("spec")?.map_or(Ok(()), |spec| open.check_spec(&spec));
    all([job_metadata, metadata, spec])
}

/// Returns the path to the Pod template in objects of this kind: `None` for kinds that make no Pods, and empty for
/// Pods.
pub fn template_of(kind: &Kind) -> Option<&'static [&'static str]> {
    let of_kind = TEMPLATES.iter().find(|(group, name, _)| kind.is(group, name));
    of_kind.map(|(_, _, path)| *path)
}

/// Returns whether a program may act on an annotation: its key has a dot or a slash. A slash is not required, because
/// container runtimes act on keys such as `io.kubernetes.cri-o.Devices` and `run.oci.hooks.stdout`. Annotations with
/// the host's prefix do not count: plugins cannot set them.
pub fn addresses_a_program(annotation: &str) -> bool {
    annotation.contains(['/', '.']) && !annotation.starts_with(HOST_PREFIX)
}

/// Returns whether the container runtime of a node may act on an annotation as on a field of the Pod: keys without a
/// slash, and the keys for devices and for security profiles.
pub fn addresses_the_runtime(annotation: &str) -> bool {
    let is_profile = LEGACY_PROFILES.iter().any(|prefix| annotation.starts_with(prefix));
    addresses_a_program(annotation)
        && (!annotation.contains('/') || annotation.starts_with("cdi.k8s.io/") || is_profile)
}

impl Pods {
    /// Checks what a Pod inherits from its template, except for the spec.
    fn check_template(&self, template: &Cursor<'_>) -> Checked {
        all(template.members()?.map(|(field, value)| match field {
            "spec" => Ok(()),
            "metadata" => self.check_inherited(&value, &[]),
            _ => Err(value.unknown()),
        }))
    }

    /// Checks the metadata that objects inherit from a template: labels, annotations, and the fields `also_harmless`.
    ///
    /// # Errors
    /// When a plugin may not set a field or the grant does not allow it. Lists these fields by their paths.
    pub fn check_inherited(&self, metadata: &Cursor<'_>, also_harmless: &[&str]) -> Checked {
        let fields = all(metadata.members()?.map(|(field, texts)| match field {
            // With the host's labels the object would be mistaken for a plugin's child.
            "labels" | "annotations" => all(texts.members()?.map(|(key, value)| match key.starts_with(HOST_PREFIX) {
                true => Err(value.refuse("pod-metadata", "is the host's to set; leave it out")),
                false => Ok(()),
            })),
            field if also_harmless.contains(&field) => Ok(()),
            _ => Err(texts.refuse("pod-metadata", "is not a plugin's to set; leave it out")),
        }));
        all([fields, self.check_annotations(metadata)])
    }

    /// Checks the annotations on which other programs may act.
    ///
    /// # Errors
    /// When an annotation is not allowed. Lists these annotations by their paths.
    pub fn check_annotations(&self, metadata: &Cursor<'_>) -> Checked {
        let Some(annotations) = metadata.child("annotations")? else { return Ok(()) };
        all(annotations.members()?.map(|(key, value)| self.check_annotation(key, &value)))
    }

    fn check_annotation(&self, key: &str, value: &Cursor<'_>) -> Checked {
        if LEGACY_PROFILES.iter().any(|prefix| key.starts_with(prefix)) {
            let profile = value.text()?;
            let confined =
                ["runtime/default", "docker/default"].contains(&profile) || profile.starts_with("localhost/");
            return value.ensure(confined || self.unconfined, "pod-unconfined", "pods.unconfined");
        }
        let granted = !addresses_a_program(key) || glob::matches_any(&self.annotations, key);
        value.ensure_listed(granted, "pod-annotation", "pods.annotations", key)
    }

    fn check_spec(&self, spec: &Cursor<'_>) -> Checked {
        let fields = all(spec.members()?.map(|(field, value)| self.check_pod_field(field, &value)));
        all([fields, self.check_mounts(spec), self.check_token(spec)])
    }

    fn check_token(&self, spec: &Cursor<'_>) -> Checked {
        // The token is mounted by default.
        let mounted = match spec.child("automountServiceAccountToken")? {
            Some(automount) => automount.flag()?,
            None => true,
        };
        if mounted && !self.service_account_token {
            let why = "must say automountServiceAccountToken: false";
            return Err(spec.refuse_better("pod-token", why, "pods.serviceAccountToken", true.into()));
        }
        Ok(())
    }

    fn check_pod_field(&self, field: &str, value: &Cursor<'_>) -> Checked {
        match field {
            "containers" | "initContainers" => all(value.elements()?.map(|one| self.check_container(&one))),
            "volumes" => all(value.elements()?.map(|one| self.check_volume(&one))),
            "securityContext" => self.check_pod_security(value),
            // Checked by `check_token`, also where the field is absent.
            "automountServiceAccountToken" => Ok(()),
            "serviceAccountName" | "serviceAccount" => {
                let name = value.text()?;
                let granted = name.is_empty() || name == "default" || glob::matches_any(&self.service_accounts, name);
                value.ensure_listed(granted, "pod-service-account", "pods.serviceAccounts", name)
            }
            "imagePullSecrets" => all(value.elements()?.map(|one| self.secret(&one, "name"))),
            "hostNetwork" => value.ensure_false_or_granted(self.host_network, "pod-host-network", "pods.hostNetwork"),
            "hostPID" => value.ensure_false_or_granted(self.host_pid, "pod-host-pid", "pods.hostPID"),
            "hostIPC" => value.ensure_false_or_granted(self.host_ipc, "pod-host-ipc", "pods.hostIPC"),
            "shareProcessNamespace" => {
                let item = "pods.shareProcessNamespace";
                value.ensure_false_or_granted(self.share_process_namespace, "pod-shared-processes", item)
            }
            "resources" => self.check_resources(value),
            "nodeName" => value.ensure(self.node_name, "pod-node", "pods.nodeName"),
            // The API server fills the number in from the class, and rejects any other number.
            "priority" => Ok(()),
            "priorityClassName" => {
                let name = value.text()?;
                let granted = glob::matches_any(&self.priority_classes, name);
                value.ensure_listed(granted, "pod-priority", "pods.priorityClasses", name)
            }
            "runtimeClassName" => {
                let name = value.text()?;
                let granted = glob::matches_any(&self.runtime_classes, name);
                value.ensure_listed(granted, "pod-runtime-class", "pods.runtimeClasses", name)
            }
            "resourceClaims" => value.ensure(self.resource_claims, "pod-resource-claims", "pods.resourceClaims"),
            field if HARMLESS_POD_FIELDS.contains(&field) => Ok(()),
            _ => Err(value.unknown()),
        }
    }
}

#[cfg(test)]
mod tests;
