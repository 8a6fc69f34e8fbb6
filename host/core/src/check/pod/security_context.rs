//! Checks the security contexts of a Pod and of its containers. A part of [the rules for Pods](crate::check::pod);
//! pure.

use crate::check::glob;
use crate::check::json_cursor::Cursor;
use crate::check::pod::grant::Pods;
use crate::check::violation::{Checked, all};

/// Fields of a Pod's security context that are known to be harmless.
pub(crate) const HARMLESS_POD_SECURITY_FIELDS: [&str; 8] = [
    "fsGroup",
    "fsGroupChangePolicy",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "seLinuxChangePolicy",
    "supplementalGroups",
    "supplementalGroupsPolicy",
];

/// The SELinux types for ordinary containers.
pub(crate) const CONTAINER_TYPES: [&str; 4] =
    ["container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// Kernel parameters that affect only the Pod, according to the Pod Security Standards.
pub(crate) const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

impl Pods {
    pub(crate) fn check_pod_security(&self, context: &Cursor<'_>) -> Checked {
        all(context.members()?.map(|(field, value)| match field {
            "sysctls" => all(value.elements()?.map(|one| self.check_sysctl(&one))),
            field if HARMLESS_POD_SECURITY_FIELDS.contains(&field) => Ok(()),
            _ => self.check_security_field(field, &value),
        }))
    }

    /// Checks a field that the security contexts of Pods and containers have in common.
    pub(crate) fn check_security_field(&self, field: &str, value: &Cursor<'_>) -> Checked {
        match field {
            "seccompProfile" | "appArmorProfile" => self.check_profile(value),
            "seLinuxOptions" => self.check_se_linux(value),
            "windowsOptions" => self.check_windows(value),
            _ => Err(value.unknown()),
        }
    }

    fn check_profile(&self, profile: &Cursor<'_>) -> Checked {
        all(profile.members()?.map(|(field, value)| match field {
            "localhostProfile" => Ok(()),
            "type" => {
                let confined = ["RuntimeDefault", "Localhost"].contains(&value.text()?);
                value.ensure(confined || self.unconfined, "pod-unconfined", "pods.unconfined")
            }
            _ => Err(value.unknown()),
        }))
    }

    fn check_se_linux(&self, options: &Cursor<'_>) -> Checked {
        all(options.members()?.map(|(field, value)| {
            let harmless = match field {
                "level" => true,
                "type" => CONTAINER_TYPES.contains(&value.text()?),
                "user" | "role" => value.text()?.is_empty(),
                _ => return Err(value.unknown()),
            };
            value.ensure(harmless || self.se_linux, "pod-selinux", "pods.seLinux")
        }))
    }

    fn check_windows(&self, options: &Cursor<'_>) -> Checked {
        all(options.members()?.map(|(field, value)| match field {
            "runAsUserName" => Ok(()),
            "hostProcess" => value.ensure_false_or_granted(self.host_process, "pod-host-process", "pods.hostProcess"),
            _ => Err(value.unknown()),
        }))
    }

    fn check_sysctl(&self, sysctl: &Cursor<'_>) -> Checked {
        all(sysctl.members()?.map(|(field, value)| match field {
            "value" => Ok(()),
            "name" => {
                let name = value.text()?;
                let granted = SAFE_SYSCTLS.contains(&name) || glob::matches_any(&self.sysctls, name);
                value.ensure_listed(granted, "pod-sysctl", "pods.sysctls", name)
            }
            _ => Err(value.unknown()),
        }))
    }
}
