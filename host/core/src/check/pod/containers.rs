//! What a container of a Pod may ask for. A part of [`pod_policy`](crate::check::pod); pure.

use crate::check::json_cursor::{At, Judged};
use crate::check::pod::grant::Pods;

pub(crate) const CONTAINER: [&str; 17] = [
    "args",
    "command",
    "image",
    "imagePullPolicy",
    "name",
    "resizePolicy",
    "resources",
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

pub(crate) const CONTAINER_SECURITY: [&str; 4] = ["readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot", "runAsUser"];

pub(crate) const PROBE: [&str; 6] = [
    "failureThreshold",
    "initialDelaySeconds",
    "periodSeconds",
    "successThreshold",
    "terminationGracePeriodSeconds",
    "timeoutSeconds",
];

impl Pods {
    pub(crate) fn check_container(&self, container: &At<'_>) -> Judged {
        for (field, value) in container.members()? {
            match field {
                "ports" => value.elements()?.try_for_each(|one| self.check_port(&one))?,
                "env" => value.elements()?.try_for_each(|one| self.check_variable(&one))?,
                "envFrom" => value.elements()?.try_for_each(|one| self.check_variables(&one))?,
                "livenessProbe" | "readinessProbe" | "startupProbe" => self.check_probe(&value)?,
                "lifecycle" => self.check_lifecycle(&value)?,
                "securityContext" => self.check_container_security(&value)?,
                harmless if CONTAINER.contains(&harmless) => {}
                _ => return Err(value.unknown()),
            }
        }
        // What is left out is allowed.
        let security = container.child("securityContext")?;
        let escalates = match security.map(|security| security.child("allowPrivilegeEscalation")).transpose()?.flatten()
        {
            Some(allowed) => allowed.flag()?,
            None => true,
        };
        if escalates && !self.allow_privilege_escalation {
            return Err(container.refuse(
                "pod-escalation",
                "must say securityContext.allowPrivilegeEscalation: false, or be opened with pods.allowPrivilegeEscalation in the grant of plugin.yaml",
            ));
        }
        Ok(())
    }

    fn check_container_security(&self, context: &At<'_>) -> Judged {
        for (field, value) in context.members()? {
            match field {
                // Judged with its absence.
                "allowPrivilegeEscalation" => {}
                "privileged" => value.closed_flag(self.privileged, "pod-privileged", "pods.privileged")?,
                "procMount" => {
                    let masked = value.text()? == "Default";
                    value.ensure(masked || self.proc_mount, "pod-proc-mount", "pods.procMount")?;
                }
                "capabilities" => self.check_capabilities(&value)?,
                harmless if CONTAINER_SECURITY.contains(&harmless) => {}
                _ => self.check_security_field(field, &value)?,
            }
        }
        Ok(())
    }

    fn check_capabilities(&self, capabilities: &At<'_>) -> Judged {
        for (field, value) in capabilities.members()? {
            match field {
                "drop" => {}
                "add" => {
                    for capability in value.elements()? {
                        let name = capability.text()?;
                        let granted = name == "NET_BIND_SERVICE" || self.capabilities.iter().any(|open| open == name);
                        capability.ensure(granted, "pod-capability", "pods.capabilities")?;
                    }
                }
                _ => return Err(value.unknown()),
            }
        }
        Ok(())
    }

    fn check_port(&self, port: &At<'_>) -> Judged {
        for (field, value) in port.members()? {
            match field {
                "containerPort" | "name" | "protocol" => {}
                "hostPort" => value.ensure(value.is_zero()? || self.host_ports, "pod-host-port", "pods.hostPorts")?,
                "hostIP" => {
                    value.ensure(value.text()?.is_empty() || self.host_ports, "pod-host-port", "pods.hostPorts")?
                }
                _ => return Err(value.unknown()),
            }
        }
        Ok(())
    }

    fn check_variable(&self, variable: &At<'_>) -> Judged {
        for (field, value) in variable.members()? {
            match field {
                "name" | "value" => {}
                "valueFrom" => {
                    for (source, reference) in value.members()? {
                        match source {
                            "fieldRef" | "resourceFieldRef" | "fileKeyRef" => {}
                            "secretKeyRef" => self.secret(&reference, "name")?,
                            "configMapKeyRef" => self.config_map(&reference)?,
                            _ => return Err(reference.unknown()),
                        }
                    }
                }
                _ => return Err(value.unknown()),
            }
        }
        Ok(())
    }

    fn check_variables(&self, variables: &At<'_>) -> Judged {
        for (source, reference) in variables.members()? {
            match source {
                "prefix" => {}
                "secretRef" => self.secret(&reference, "name")?,
                "configMapRef" => self.config_map(&reference)?,
                _ => return Err(reference.unknown()),
            }
        }
        Ok(())
    }

    fn check_probe(&self, probe: &At<'_>) -> Judged {
        for (field, value) in probe.members()? {
            if !PROBE.contains(&field) {
                self.check_handler(field, &value)?;
            }
        }
        Ok(())
    }

    fn check_lifecycle(&self, lifecycle: &At<'_>) -> Judged {
        for (field, hook) in lifecycle.members()? {
            match field {
                "stopSignal" => {}
                "postStart" | "preStop" => {
                    for (handler, value) in hook.members()? {
                        self.check_handler(handler, &value)?;
                    }
                }
                _ => return Err(hook.unknown()),
            }
        }
        Ok(())
    }

    /// The kubelet calls from the node, so another host than the Pod may be one that the Pod
    /// itself cannot reach.
    fn check_handler(&self, handler: &str, value: &At<'_>) -> Judged {
        match handler {
            "exec" | "grpc" | "sleep" => Ok(()),
            "httpGet" | "tcpSocket" => {
                for (field, value) in value.members()? {
                    match field {
                        "port" | "path" | "scheme" | "httpHeaders" => {}
                        "host" => {
                            let own = value.text()?.is_empty();
                            value.ensure(own || self.probe_hosts, "pod-probe-host", "pods.probeHosts")?;
                        }
                        _ => return Err(value.unknown()),
                    }
                }
                Ok(())
            }
            _ => Err(value.unknown()),
        }
    }
}
