//! The items of a grant for Pods: the part of `plugin.yaml` that [the rules for Pods](crate::check::pod) check against.
//! Pure.

use serde::{Deserialize, Serialize};

use crate::check::glob;

/// What Pods may ask for beyond what is harmless. Lists of names take one `*` in each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Pods {
    /// ServiceAccounts other than `default`.
    pub service_accounts: Vec<String>,
    /// A token of the Pod's ServiceAccount. Without it a Pod must say
    /// `automountServiceAccountToken: false`.
    pub service_account_token: bool,
    /// Secrets, as volumes, variables or for pulling images.
    pub secrets: Vec<String>,
    /// ConfigMaps, as volumes or variables.
    pub config_maps: Vec<String>,
    /// PersistentVolumeClaims by name. Those of a StatefulSet's templates are named
    /// `TEMPLATE-SET-NUMBER`; they need none where the StatefulSet has its parent's name, or one that
    /// begins with it and `-`, and the template has no `-` in its name.
    pub persistent_volume_claims: Vec<String>,
    /// Where claims are filled from: names in `dataSource` and `dataSourceRef`, and volumes in
    /// `volumeName`. Of a PersistentVolumeClaim this and `annotations` are the only items.
    pub claim_sources: Vec<String>,
    /// Objects of others: a controller adopts everything that its selector matches, and may delete it. Without this
    /// item its selector must have a label whose value is the name of the parent, or that of the controller if it
    /// begins with the parent's, and a Job may not set `manualSelector`. A Deployment adopts ReplicaSets, the other
    /// controllers adopt Pods.
    pub adopt: bool,
    /// Paths of the node's files that are there, to be read; what lies below them as well. A socket below
    /// them can be connected to though it is mounted read-only, so `/`, `/run` and `/var` are as much as
    /// the node.
    pub host_path: Vec<String>,
    /// Writing to the paths of `hostPath`, having the kubelet create missing ones, and using sockets and devices. It is
    /// as powerful as access to the whole node: through a symbolic link that a Pod creates there, the next Pod can
    /// mount any path.
    pub host_path_writable: bool,
    /// Annotations whose key has a dot or a slash, such as `prometheus.io/scrape`, on Pods and claims and in what those
    /// are made of: they mean something to another component, which may do for them what is denied here.
    pub annotations: Vec<String>,
    /// Other types of volumes, by their field: `csi`, `nfs`, `ephemeral`, `image`…, and the
    /// projected `clusterTrustBundle` and `podCertificate`.
    pub volumes: Vec<String>,
    /// The node's network.
    pub host_network: bool,
    /// The node's processes.
    #[serde(rename = "hostPID")]
    pub host_pid: bool,
    /// The node's inter-process communication.
    #[serde(rename = "hostIPC")]
    pub host_ipc: bool,
    /// Ports of the node.
    pub host_ports: bool,
    /// Everything that the node's root may do.
    pub privileged: bool,
    /// More rights than the container began with. Without it a container must say
    /// `allowPrivilegeEscalation: false`.
    pub allow_privilege_escalation: bool,
    /// Capabilities beside `NET_BIND_SERVICE`, as they are written in a Pod.
    pub capabilities: Vec<String>,
    /// An unmasked `/proc`.
    pub proc_mount: bool,
    /// No seccomp or AppArmor profile.
    pub unconfined: bool,
    /// SELinux users, roles, and types other than the container's own.
    #[serde(rename = "seLinux")]
    pub se_linux: bool,
    /// Kernel parameters beside those that are safe.
    pub sysctls: Vec<String>,
    /// Windows: a process of the node itself.
    pub host_process: bool,
    /// A node of the plugin's choice, past the scheduler.
    pub node_name: bool,
    /// Priority classes.
    pub priority_classes: Vec<String>,
    /// Runtime classes.
    pub runtime_classes: Vec<String>,
    /// Claims of devices.
    pub resource_claims: bool,
    /// Resources in `requests` and `limits` beside `cpu`, `memory`, `ephemeral-storage` and `hugepages-*`, such as
    /// `nvidia.com/gpu`: devices, or what an add-on counts.
    pub resources: Vec<String>,
    /// One list of processes for all containers of a Pod, by which each reaches the files and the variables of the others,
    /// also of those that an add-on adds.
    pub share_process_namespace: bool,
    /// Probes and hooks that the kubelet sends to another host than the Pod.
    pub probe_hosts: bool,
}

impl Pods {
    /// Checks that the items are meaningful.
    ///
    /// # Errors
    /// When one is not; the message is for the administrator.
    pub fn validate(&self) -> Result<(), String> {
        for (field, names) in [
            ("pods.serviceAccounts", &self.service_accounts),
            ("pods.secrets", &self.secrets),
            ("pods.configMaps", &self.config_maps),
            ("pods.persistentVolumeClaims", &self.persistent_volume_claims),
            ("pods.claimSources", &self.claim_sources),
            ("pods.priorityClasses", &self.priority_classes),
            ("pods.runtimeClasses", &self.runtime_classes),
        ] {
            glob::validate_names(field, names)?;
        }
        glob::validate("pods.annotations", &self.annotations)?;
        glob::validate("pods.sysctls", &self.sysctls)?;
        glob::validate("pods.resources", &self.resources)?;
        self.validate_volumes()?;
        self.validate_capabilities()?;
        self.validate_host_path()
    }

    fn validate_host_path(&self) -> Result<(), String> {
        let is_plain = |path: &str| path.starts_with('/') && !has_parent_component(path) && !path.contains('*');
        match self.host_path.iter().find(|path| !is_plain(path)) {
            Some(path) => Err(format!(
                "pods.hostPath has {path:?}; a path begins with / and has no `..`, and no `*`, as it opens everything below it"
            )),
            None => Ok(()),
        }
    }

    fn validate_capabilities(&self) -> Result<(), String> {
        let in_capitals =
            |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        match self.capabilities.iter().find(|name| !in_capitals(name)) {
            Some(name) => Err(format!(
                "pods.capabilities has {name:?}; each is written out as in a Pod, such as NET_ADMIN, with no `*`"
            )),
            None => Ok(()),
        }
    }
}

/// Returns whether a path of the node has a `..` component.
pub fn has_parent_component(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}
