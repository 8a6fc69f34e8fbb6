//! Checks the containers of a Pod. A part of [the rules for Pods](crate::check::pod); pure.

use crate::check::json_cursor::Cursor;
use crate::check::pod::grant::Pods;
use crate::check::violation::{Checked, all};

/// Fields of a container that are known to be harmless.
pub(crate) const HARMLESS_CONTAINER_FIELDS: [&str; 16] = [
    "args",
    "command",
    "image",
    "imagePullPolicy",
    "name",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

/// Fields of a container's security context that are known to be harmless.
pub(crate) const HARMLESS_CONTAINER_SECURITY_FIELDS: [&str; 4] =
    ["readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot", "runAsUser"];

/// Fields of a probe that are known to be harmless.
pub(crate) const HARMLESS_PROBE_FIELDS: [&str; 6] = [
    "failureThreshold",
    "initialDelaySeconds",
    "periodSeconds",
    "successThreshold",
    "terminationGracePeriodSeconds",
    "timeoutSeconds",
];

impl Pods {
    pub(crate) fn check_container(&self, container: &Cursor<'_>) -> Checked {
        let fields = all(container.members()?.map(|(field, value)| self.check_container_field(field, &value)));
        all([fields, self.check_escalation(container)])
    }

    fn check_container_field(&self, field: &str, value: &Cursor<'_>) -> Checked {
        match field {
            "ports" => all(value.elements()?.map(|one| self.check_port(&one))),
            "env" => all(value.elements()?.map(|one| self.check_variable(&one))),
            "envFrom" => all(value.elements()?.map(|one| self.check_variables(&one))),
            "livenessProbe" | "readinessProbe" | "startupProbe" => self.check_probe(value),
            "lifecycle" => self.check_lifecycle(value),
            "securityContext" => self.check_container_security(value),
            "resources" => self.check_resources(value),
            field if HARMLESS_CONTAINER_FIELDS.contains(&field) => Ok(()),
            _ => Err(value.unknown()),
        }
    }

    fn check_escalation(&self, container: &Cursor<'_>) -> Checked {
        // Privilege escalation is allowed by default.
        let security = container.child("securityContext")?;
        let escalates = match security.map(|security| security.child("allowPrivilegeEscalation")).transpose()?.flatten()
        {
            Some(allowed) => allowed.flag()?,
            None => true,
        };
        if escalates && !self.allow_privilege_escalation {
            let why = "must say securityContext.allowPrivilegeEscalation: false";
            let item = "pods.allowPrivilegeEscalation";
            return Err(container.refuse_better("pod-escalation", why, item, true.into()));
        }
        Ok(())
    }

    fn check_container_security(&self, context: &Cursor<'_>) -> Checked {
        all(context.members()?.map(|(field, value)| match field {
            // Checked by `check_escalation`, also where the field is absent.
            "allowPrivilegeEscalation" => Ok(()),
            "privileged" => value.ensure_false_or_granted(self.privileged, "pod-privileged", "pods.privileged"),
            "procMount" => {
                let masked = value.text()? == "Default";
                value.ensure(masked || self.proc_mount, "pod-proc-mount", "pods.procMount")
            }
            "capabilities" => self.check_capabilities(&value),
            field if HARMLESS_CONTAINER_SECURITY_FIELDS.contains(&field) => Ok(()),
            _ => self.check_security_field(field, &value),
        }))
    }

    fn check_capabilities(&self, capabilities: &Cursor<'_>) -> Checked {
        all(capabilities.members()?.map(|(field, value)| match field {
            "drop" => Ok(()),
            "add" => all(value.elements()?.map(|capability| {
                let name = capability.text()?;
                let granted = name == "NET_BIND_SERVICE" || self.capabilities.iter().any(|open| open == name);
                capability.ensure_listed(granted, "pod-capability", "pods.capabilities", name)
            })),
            _ => Err(value.unknown()),
        }))
    }

    fn check_port(&self, port: &Cursor<'_>) -> Checked {
        all(port.members()?.map(|(field, value)| match field {
            "containerPort" | "name" | "protocol" => Ok(()),
            "hostPort" => value.ensure(value.is_zero()? || self.host_ports, "pod-host-port", "pods.hostPorts"),
            "hostIP" => value.ensure(value.text()?.is_empty() || self.host_ports, "pod-host-port", "pods.hostPorts"),
            _ => Err(value.unknown()),
        }))
    }

    fn check_variable(&self, variable: &Cursor<'_>) -> Checked {
        all(variable.members()?.map(|(field, value)| match field {
            "name" | "value" => Ok(()),
            "valueFrom" => all(value.members()?.map(|(source, reference)| match source {
                "fieldRef" | "resourceFieldRef" | "fileKeyRef" => Ok(()),
                "secretKeyRef" => self.secret(&reference, "name"),
                "configMapKeyRef" => self.config_map(&reference),
                _ => Err(reference.unknown()),
            })),
            _ => Err(value.unknown()),
        }))
    }

    fn check_variables(&self, variables: &Cursor<'_>) -> Checked {
        all(variables.members()?.map(|(source, reference)| match source {
            "prefix" => Ok(()),
            "secretRef" => self.secret(&reference, "name"),
            "configMapRef" => self.config_map(&reference),
            _ => Err(reference.unknown()),
        }))
    }

    fn check_probe(&self, probe: &Cursor<'_>) -> Checked {
        let handlers = probe.members()?.filter(|(field, _)| !HARMLESS_PROBE_FIELDS.contains(field));
        all(handlers.map(|(field, value)| self.check_handler(field, &value)))
    }

    fn check_lifecycle(&self, lifecycle: &Cursor<'_>) -> Checked {
        all(lifecycle.members()?.map(|(field, hook)| match field {
            "stopSignal" => Ok(()),
            "postStart" | "preStop" => all(hook.members()?.map(|(handler, value)| self.check_handler(handler, &value))),
            _ => Err(hook.unknown()),
        }))
    }

    /// Checks the handler of a probe or hook. The kubelet connects from the node, so it may reach hosts that the Pod
    /// itself cannot reach.
    fn check_handler(&self, handler: &str, value: &Cursor<'_>) -> Checked {
        match handler {
            "exec" | "grpc" | "sleep" => Ok(()),
            "httpGet" | "tcpSocket" => all(value.members()?.map(|(field, value)| match field {
                "port" | "path" | "scheme" | "httpHeaders" => Ok(()),
                "host" => {
                    let own = value.text()?.is_empty();
                    value.ensure(own || self.probe_hosts, "pod-probe-host", "pods.probeHosts")
                }
                _ => Err(value.unknown()),
            })),
            _ => Err(value.unknown()),
        }
    }
}
