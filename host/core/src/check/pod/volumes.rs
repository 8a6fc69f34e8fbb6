//! Checks the volumes of a Pod: Secrets, claims, and files of the node. A part of [the rules for
//! Pods](crate::check::pod); pure.

use crate::check::glob;
use crate::check::json_cursor::Cursor;
use crate::check::pod::grant::{Pods, has_parent_component};
use crate::check::pvc;
use crate::check::violation::{Checked, Denial, Violations, all};

/// The types of volumes and projections that `pods.volumes` can allow.
const GRANTABLE_TYPES: [&str; 25] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "clusterTrustBundle",
    "csi",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "podCertificate",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

impl Pods {
    /// Checks that `pods.volumes` has only types that can be granted.
    ///
    /// # Errors
    /// When it has another type; the message names that type.
    pub(crate) fn validate_volumes(&self) -> Result<(), String> {
        match self.volumes.iter().find(|open| !GRANTABLE_TYPES.contains(&open.as_str())) {
            Some(open) => {
                Err(format!("pods.volumes has {open:?}; what can be opened there is {}", GRANTABLE_TYPES.join(", ")))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn check_volume(&self, volume: &Cursor<'_>) -> Checked {
        all(volume.members()?.map(|(source, value)| match source {
            "name" | "emptyDir" | "downwardAPI" => Ok(()),
            "secret" => self.secret(&value, "secretName"),
            "configMap" => self.config_map(&value),
            "persistentVolumeClaim" => self.claim(&value),
            "hostPath" => self.check_host_path(&value),
            "projected" => self.check_projected(&value),
            _ => {
                let granted = self.volumes.iter().any(|open| open == source);
                let inside = match source {
                    "ephemeral" => self.check_ephemeral(&value),
                    _ => self.check_references(&value),
                };
                all([value.ensure_listed(granted, "pod-volume", "pods.volumes", source), inside])
            }
        }))
    }

    /// Checks an ephemeral volume. The name of its claim needs no check: it is derived from the Pod's name, and the Pod
    /// does not start if a claim with that name belongs to another object.
    fn check_ephemeral(&self, volume: &Cursor<'_>) -> Checked {
        all(volume.members()?.map(|(field, value)| match field {
            "volumeClaimTemplate" => pvc::check_template(&value, self),
            _ => Err(value.unknown()),
        }))
    }

    fn check_projected(&self, projected: &Cursor<'_>) -> Checked {
        all(projected.members()?.map(|(field, value)| match field {
            "defaultMode" => Ok(()),
            "sources" => all(value.elements()?.map(|one| self.check_projection(&one))),
            _ => Err(value.unknown()),
        }))
    }

    fn check_projection(&self, projection: &Cursor<'_>) -> Checked {
        all(projection.members()?.map(|(source, value)| match source {
            "downwardAPI" => Ok(()),
            "secret" => self.secret(&value, "name"),
            "configMap" => self.config_map(&value),
            "serviceAccountToken" => value.ensure(self.service_account_token, "pod-token", "pods.serviceAccountToken"),
            "clusterTrustBundle" | "podCertificate" => {
                let granted = self.volumes.iter().any(|open| open == source);
                value.ensure_listed(granted, "pod-volume", "pods.volumes", source)
            }
            _ => Err(value.unknown()),
        }))
    }

    fn check_host_path(&self, volume: &Cursor<'_>) -> Checked {
        let path = volume.required("path")?;
        let wanted = path.text()?;
        let granted = !has_parent_component(wanted) && self.host_path.iter().any(|open| lies_in(wanted, open));
        let listed = path.ensure_listed(granted, "pod-host-path", "pods.hostPath", wanted);
        // With other types the kubelet creates a missing path as root on the node, or the path is a socket or device,
        // which accepts writes even if mounted read-only.
        let Some(kind) = volume.child("type")? else { return listed };
        let is_readable = ["", "Directory", "File"].contains(&kind.text()?);
        let written =
            kind.ensure(is_readable || self.host_path_writable, "pod-host-path-writable", "pods.hostPathWritable");
        all([listed, written])
    }

    /// Checks that volumes of the node's files are mounted read-only unless writing is granted: a symbolic link that a
    /// Pod creates in such a path leads the next mount out of that path.
    pub(crate) fn check_mounts(&self, spec: &Cursor<'_>) -> Checked {
        let node_volumes = if self.host_path_writable { Vec::new() } else { names_of_node_paths(spec)? };
        if node_volumes.is_empty() {
            return Ok(());
        }
        let mut found = Violations::default();
        for containers in ["containers", "initContainers"] {
            let Some(containers) = spec.child(containers)? else { continue };
            for container in containers.elements()? {
                let Some(mounts) = container.child("volumeMounts")? else { continue };
                mounts
                    .elements()?
                    .filter_map(|mount| check_mount(&mount, &node_volumes).err())
                    .for_each(|denial| found.extend(denial));
            }
        }
        found.finish(())
    }

    /// Checks the Secrets that volumes of third parties name. The fields differ and may be at any depth, but all end in
    /// the same words.
    fn check_references(&self, volume: &Cursor<'_>) -> Checked {
        all(volume.members()?.map(|(field, value)| {
            let field = field.to_ascii_lowercase();
            let named = match () {
                () if field.ends_with("secretref") => self.secret(&value, "name"),
                () if field.ends_with("secretname") => self.ensure_secret(&value),
                () => Ok(()),
            };
            let below = all(value.objects().iter().map(|object| self.check_references(object)));
            all([named, below])
        }))
    }

    pub(crate) fn secret(&self, reference: &Cursor<'_>, field: &str) -> Checked {
        self.ensure_secret(&reference.required(field)?)
    }

    fn ensure_secret(&self, name: &Cursor<'_>) -> Checked {
        let text = name.text()?;
        name.ensure_listed(glob::matches_any(&self.secrets, text), "pod-secret", "pods.secrets", text)
    }

    pub(crate) fn config_map(&self, reference: &Cursor<'_>) -> Checked {
        let name = reference.required("name")?;
        let text = name.text()?;
        name.ensure_listed(glob::matches_any(&self.config_maps, text), "pod-config-map", "pods.configMaps", text)
    }

    fn claim(&self, reference: &Cursor<'_>) -> Checked {
        let name = reference.required("claimName")?;
        let text = name.text()?;
        let granted = glob::matches_any(&self.persistent_volume_claims, text);
        name.ensure_listed(granted, "pod-volume-claim", "pods.persistentVolumeClaims", text)
    }
}

/// Returns the names of a Pod's volumes of the node's files.
///
/// # Errors
/// When the volumes are malformed.
pub fn names_of_node_paths<'a>(spec: &Cursor<'a>) -> Result<Vec<&'a str>, Denial> {
    let mut names = Vec::new();
    let Some(volumes) = spec.child("volumes")? else { return Ok(names) };
    for volume in volumes.elements()? {
        if volume.child("hostPath")?.is_some() {
            names.push(volume.required("name")?.text()?);
        }
    }
    Ok(names)
}

fn check_mount(mount: &Cursor<'_>, node_volumes: &[&str]) -> Checked {
    if !node_volumes.contains(&mount.required("name")?.text()?) {
        return Ok(());
    }
    let read_only = match mount.child("readOnly")? {
        Some(read_only) => read_only.flag()?,
        None => false,
    };
    let refuse = |why| Err(mount.refuse_unless("pod-host-path-writable", why, "pods.hostPathWritable", true.into()));
    if !read_only {
        return refuse(
            "must say readOnly: true, as it is of the node's files; with pods.hostPathWritable it would be as much as the node",
        );
    }
    // The kubelet creates a missing sub path as root on the node, even below a read-only mount.
    if mount.child("subPath")?.is_some() || mount.child("subPathExpr")?.is_some() {
        return refuse(
            "may name no subPath, as the kubelet creates a missing one among the node's files; name the folder in the volume's path",
        );
    }
    Ok(())
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Returns whether a path lies in a folder. Compares whole components, so that `/var/log` does not allow `/var/logs`.
fn lies_in(path: &str, folder: &str) -> bool {
    let mut inner = parts(path);
    path.starts_with('/') && parts(folder).all(|part| inner.next() == Some(part))
}
