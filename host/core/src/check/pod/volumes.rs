//! What the volumes of a Pod may show it: Secrets, claims, and the files of its node. A part of
//! [`pod_policy`](crate::check::pod); pure.

use crate::check::Violation;
use crate::check::glob;
use crate::check::json_cursor::{At, Judged};
use crate::check::pod::grant::{Pods, has_parent};
use crate::check::pvc;

/// What `pods.volumes` opens: types of volumes, and of projections.
const TYPES: [&str; 25] = [
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
    /// Whether these types of volumes can be meant.
    ///
    /// # Errors
    /// The one that cannot.
    pub(crate) fn validate_volumes(&self) -> Result<(), String> {
        match self.volumes.iter().find(|open| !TYPES.contains(&open.as_str())) {
            Some(open) => Err(format!("pods.volumes has {open:?}; what can be opened there is {}", TYPES.join(", "))),
            None => Ok(()),
        }
    }

    pub(crate) fn check_volume(&self, volume: &At<'_>) -> Judged {
        for (source, value) in volume.members()? {
            match source {
                "name" | "emptyDir" | "downwardAPI" => {}
                "secret" => self.secret(&value, "secretName")?,
                "configMap" => self.config_map(&value)?,
                "persistentVolumeClaim" => self.claim(&value)?,
                "hostPath" => self.check_host_path(&value)?,
                "projected" => self.check_projected(&value)?,
                _ => {
                    let granted = self.volumes.iter().any(|open| open == source);
                    value.ensure(granted, "pod-volume", "pods.volumes")?;
                    match source {
                        "ephemeral" => self.check_ephemeral(&value)?,
                        _ => self.check_references(&value)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Its claim is named after the Pod, which does not start where that is somebody's.
    fn check_ephemeral(&self, volume: &At<'_>) -> Judged {
        for (field, value) in volume.members()? {
            match field {
                "volumeClaimTemplate" => pvc::check_template(&value, self)?,
                _ => return Err(value.unknown()),
            }
        }
        Ok(())
    }

    fn check_projected(&self, projected: &At<'_>) -> Judged {
        for (field, value) in projected.members()? {
            match field {
                "defaultMode" => {}
                "sources" => value.elements()?.try_for_each(|one| self.check_projection(&one))?,
                _ => return Err(value.unknown()),
            }
        }
        Ok(())
    }

    fn check_projection(&self, projection: &At<'_>) -> Judged {
        for (source, value) in projection.members()? {
            match source {
                "downwardAPI" => {}
                "secret" => self.secret(&value, "name")?,
                "configMap" => self.config_map(&value)?,
                "serviceAccountToken" => {
                    value.ensure(self.service_account_token, "pod-token", "pods.serviceAccountToken")?;
                }
                "clusterTrustBundle" | "podCertificate" => {
                    let granted = self.volumes.iter().any(|open| open == source);
                    value.ensure(granted, "pod-volume", "pods.volumes")?;
                }
                _ => return Err(value.unknown()),
            }
        }
        Ok(())
    }

    fn check_host_path(&self, volume: &At<'_>) -> Judged {
        let path = volume.required("path")?;
        let wanted = path.text()?;
        let granted = !has_parent(wanted) && self.host_path.iter().any(|open| lies_in(wanted, open));
        path.ensure(granted, "pod-host-path", "pods.hostPath")?;
        // What is not there the kubelet makes, as the node's root; and a socket or a device takes what is
        // sent to it, however it is mounted.
        let Some(kind) = volume.child("type")? else { return Ok(()) };
        let reads = ["", "Directory", "File"].contains(&kind.text()?);
        kind.ensure(reads || self.host_path_writable, "pod-host-path-writable", "pods.hostPathWritable")
    }

    /// A link that is made in a path of the node's leads the next mount of it out of that path.
    pub(crate) fn check_mounts(&self, spec: &At<'_>) -> Judged {
        let of_node = if self.host_path_writable { Vec::new() } else { names_of_node_paths(spec)? };
        if of_node.is_empty() {
            return Ok(());
        }
        for containers in ["containers", "initContainers"] {
            let Some(containers) = spec.child(containers)? else { continue };
            for container in containers.elements()? {
                let Some(mounts) = container.child("volumeMounts")? else { continue };
                mounts.elements()?.try_for_each(|mount| check_mount(&mount, &of_node))?;
            }
        }
        Ok(())
    }

    /// Volumes of third parties name the Secrets of their servers in many ways, all of which end
    /// alike, and those of a driver stand as deep as it likes.
    fn check_references(&self, volume: &At<'_>) -> Judged {
        for (field, value) in volume.members()? {
            let field = field.to_ascii_lowercase();
            if field.ends_with("secretref") {
                self.secret(&value, "name")?;
            } else if field.ends_with("secretname") {
                let granted = glob::matches_any(&self.secrets, value.text()?);
                value.ensure(granted, "pod-secret", "pods.secrets")?;
            }
            value.objects().iter().try_for_each(|object| self.check_references(object))?;
        }
        Ok(())
    }

    pub(crate) fn secret(&self, reference: &At<'_>, field: &str) -> Judged {
        let name = reference.required(field)?;
        name.ensure(glob::matches_any(&self.secrets, name.text()?), "pod-secret", "pods.secrets")
    }

    pub(crate) fn config_map(&self, reference: &At<'_>) -> Judged {
        let name = reference.required("name")?;
        name.ensure(glob::matches_any(&self.config_maps, name.text()?), "pod-config-map", "pods.configMaps")
    }

    fn claim(&self, reference: &At<'_>) -> Judged {
        let name = reference.required("claimName")?;
        let granted = glob::matches_any(&self.persistent_volume_claims, name.text()?);
        name.ensure(granted, "pod-volume-claim", "pods.persistentVolumeClaims")
    }
}

fn names_of_node_paths<'a>(spec: &At<'a>) -> Result<Vec<&'a str>, Violation> {
    let mut names = Vec::new();
    let Some(volumes) = spec.child("volumes")? else { return Ok(names) };
    for volume in volumes.elements()? {
        if volume.child("hostPath")?.is_some() {
            names.push(volume.required("name")?.text()?);
        }
    }
    Ok(names)
}

fn check_mount(mount: &At<'_>, of_node: &[&str]) -> Judged {
    if !of_node.contains(&mount.required("name")?.text()?) {
        return Ok(());
    }
    let read_only = match mount.child("readOnly")? {
        Some(read_only) => read_only.flag()?,
        None => false,
    };
    if read_only {
        return Ok(());
    }
    Err(mount.refuse(
        "pod-host-path-writable",
        "must say readOnly: true, as it is of the node's files, or be opened with pods.hostPathWritable in the grant of plugin.yaml, which is as much as the node",
    ))
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// By whole parts, so that `/var/log` does not open `/var/logs`.
fn lies_in(path: &str, folder: &str) -> bool {
    let mut inner = parts(path);
    path.starts_with('/') && parts(folder).all(|part| inner.next() == Some(part))
}
