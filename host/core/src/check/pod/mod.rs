//! What a Pod may ask for, in every kind that makes Pods of a template. A Pod runs code of the
//! plugin's choice with whatever it asks for, so by default that is nothing: fields that are known
//! to be harmless pass, others are opened one by one in a grant, and unknown ones are refused by
//! name. Pure.

pub mod containers;
pub mod grant;
pub mod security_context;
pub mod volumes;

use serde_json::Value;

use crate::check::glob;
use crate::check::json_cursor::Cursor;
use crate::check::pod::grant::Pods;
use crate::check::violation::{Checked, all};
use crate::model::kind::Kind;
use crate::model::object::HOST_PREFIX;

/// Where each kind has its template.
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

/// What a CronJob gives to its Jobs beside their spec; of all these kinds no other has it.
const OF_JOBS: [&str; 3] = ["spec", "jobTemplate", "metadata"];

const POD: [&str; 24] = [
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
    "resources",
    "restartPolicy",
    "schedulerName",
    "schedulingGates",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
];

/// Annotations that fields of the security context have replaced.
const OLD_PROFILES: [&str; 3] = [
    "seccomp.security.alpha.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "container.apparmor.security.beta.kubernetes.io/",
];

/// Whether objects of this kind are Pods or make some.
pub fn makes_pods(kind: &Kind) -> bool {
    template_of(kind).is_some()
}

/// The kind that makes Pods and is alike but for its group or its case.
pub fn alike(kind: &Kind) -> Option<Kind> {
    let alike = TEMPLATES.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(&kind.kind));
    alike.map(|(group, name, _)| Kind::new(group, "", name)).filter(|alike| !alike.is_served_as(kind))
}

/// Whether the Pods of an object ask for no more than is open. Kinds without Pods pass.
///
/// # Errors
/// The first thing that is not open, by its path.
pub fn check(kind: &Kind, body: &Value, open: &Pods) -> Checked {
    let Some(path) = template_of(kind) else { return Ok(()) };
    let root = Cursor::root(body);
    let of_jobs = root.descendant(&OF_JOBS)?.map_or(Ok(()), |metadata| open.check_inherited(&metadata, &[]));
    let Some(template) = root.descendant(path)? else { return of_jobs };
    let metadata = match template.child("metadata")? {
        // A Pod's own was checked as any object's, but for what its annotations mean.
        Some(metadata) if path.is_empty() => open.check_annotations(&metadata),
        _ if path.is_empty() => Ok(()),
        _ => open.check_template(&template),
    };
    let spec = template.child("spec")?.map_or(Ok(()), |spec| open.check_spec(&spec));
    all([of_jobs, metadata, spec])
}

/// Returns the path to the template in objects of this kind; absent where they make no Pods, and empty for Pods.
pub fn template_of(kind: &Kind) -> Option<&'static [&'static str]> {
    let of_kind = TEMPLATES.iter().find(|(group, name, _)| kind.is(group, name));
    of_kind.map(|(_, _, path)| *path)
}

/// Returns whether an annotation may be meant for a program, and not for people alone: its key has a dot or a slash.
/// Container runtimes obey keys without a slash, such as `io.kubernetes.cri-o.Devices` and `run.oci.hooks.stdout`. The
/// host's own is not a plugin's, and was checked as such.
pub fn has_meaning(annotation: &str) -> bool {
    annotation.contains(['/', '.']) && !annotation.starts_with(HOST_PREFIX)
}

/// Returns whether an annotation may ask a node for what fields of a Pod ask for: container runtimes obey keys without a
/// slash, and those of devices and of profiles.
pub fn is_for_nodes(annotation: &str) -> bool {
    let is_profile = OLD_PROFILES.iter().any(|prefix| annotation.starts_with(prefix));
    has_meaning(annotation) && (!annotation.contains('/') || annotation.starts_with("cdi.k8s.io/") || is_profile)
}

impl Pods {
    /// What a Pod inherits from its template beside its spec.
    fn check_template(&self, template: &Cursor<'_>) -> Checked {
        all(template.members()?.map(|(field, value)| match field {
            "spec" => Ok(()),
            "metadata" => self.check_inherited(&value, &[]),
            _ => Err(value.unknown()),
        }))
    }

    /// Metadata that a template gives to what is made of it: labels, annotations, and these fields.
    ///
    /// # Errors
    /// What is not a plugin's to set, or not open, by its path.
    pub fn check_inherited(&self, metadata: &Cursor<'_>, also: &[&str]) -> Checked {
        let fields = all(metadata.members()?.map(|(field, texts)| match field {
            // With our labels it would pass for a plugin's child.
            "labels" | "annotations" => all(texts.members()?.map(|(key, value)| match key.starts_with(HOST_PREFIX) {
                true => Err(value.refuse("pod-metadata", "is the host's to set; leave it out")),
                false => Ok(()),
            })),
            also_harmless if also.contains(&also_harmless) => Ok(()),
            _ => Err(texts.refuse("pod-metadata", "is not a plugin's to set; leave it out")),
        }));
        all([fields, self.check_annotations(metadata)])
    }

    /// Checks annotations, for what they mean to other programs.
    ///
    /// # Errors
    /// The first that is not open, by its path.
    pub fn check_annotations(&self, metadata: &Cursor<'_>) -> Checked {
        let Some(annotations) = metadata.child("annotations")? else { return Ok(()) };
        all(annotations.members()?.map(|(key, value)| self.check_annotation(key, &value)))
    }

    fn check_annotation(&self, key: &str, value: &Cursor<'_>) -> Checked {
        if OLD_PROFILES.iter().any(|prefix| key.starts_with(prefix)) {
            let profile = value.text()?;
            let confined =
                ["runtime/default", "docker/default"].contains(&profile) || profile.starts_with("localhost/");
            return value.ensure(confined || self.unconfined, "pod-unconfined", "pods.unconfined");
        }
        let granted = !has_meaning(key) || glob::matches_any(&self.annotations, key);
        value.ensure_listed(granted, "pod-annotation", "pods.annotations", key)
    }

    fn check_spec(&self, spec: &Cursor<'_>) -> Checked {
        let fields = all(spec.members()?.map(|(field, value)| self.check_pod_field(field, &value)));
        all([fields, self.check_mounts(spec), self.check_token(spec)])
    }

    fn check_token(&self, spec: &Cursor<'_>) -> Checked {
        // What is left out is mounted.
        let mounted = match spec.child("automountServiceAccountToken")? {
            Some(automount) => automount.flag()?,
            None => true,
        };
        if mounted && !self.service_account_token {
            let why = "must say automountServiceAccountToken: false";
            return Err(spec.refuse_unless("pod-token", why, "pods.serviceAccountToken", true.into()));
        }
        Ok(())
    }

    fn check_pod_field(&self, field: &str, value: &Cursor<'_>) -> Checked {
        match field {
            "containers" | "initContainers" => all(value.elements()?.map(|one| self.check_container(&one))),
            "volumes" => all(value.elements()?.map(|one| self.check_volume(&one))),
            "securityContext" => self.check_pod_security(value),
            // Checked with its absence.
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
            "nodeName" => value.ensure(self.node_name, "pod-node", "pods.nodeName"),
            // A number is filled in from the class, or refused.
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
            harmless if POD.contains(&harmless) => Ok(()),
            _ => Err(value.unknown()),
        }
    }
}

#[cfg(test)]
mod tests;
