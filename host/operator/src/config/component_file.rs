//! The paths at which the component of a plugin may be: a file, or the file into which it is fetched. The file system
//! is not looked at, because a component that is not built or fetched yet may be there later, while the host runs.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::config::folders;
use crate::config::host_settings::{HostSettings, Origin};
use crate::config::manifest::Source;
use hotshoe_core::model::digest::Digest;
use hotshoe_registry::ImageRef;
use hotshoe_registry::connection::check_token_host;

/// Returns the paths at which the component may be.
///
/// # Errors
/// When the source does not name exactly one place, or one that such a plugin cannot have.
pub(super) fn places(
    name: &str,
    source: &Source,
    origin: &Origin,
    host: &HostSettings,
) -> anyhow::Result<Vec<PathBuf>> {
    ensure!(
        source.is_one(),
        "spec.source must name exactly one of file, configMap and oci, and pullSecret, caBundle, plainHttp, tokenHost and verify only beside oci"
    );
    if let Some(image) = &source.oci {
        image.parse::<ImageRef>().context("spec.source.oci")?;
    }
    if let Some(server) = &source.token_host {
        check_token_host(server).map_err(anyhow::Error::msg).context("spec.source.tokenHost")?;
    }
    source.check_interval().context("spec.source")?;
    if let Some(verify) = &source.verify {
        verify.check()?;
    }
    match (origin, &source.file, &host.fetched) {
        (Origin::File(path), Some(file), _) => Ok(candidates(path, file)),
        (Origin::Object { .. }, Some(file), _) => files_of_host(name, file, &host.files),
        (_, None, Some(fetched)) => {
            // The rules, such as who must have signed an image, are part of the name: a component that was fetched by
            // other rules must not be used.
            let mut rules = Digest::of(&serde_json::to_vec(source)?);
            if let Origin::Object { uid, .. } = origin {
                // And neither one that was fetched for a former object of this name.
                rules = rules.and(uid.as_bytes());
            }
            Ok(vec![fetched.join(format!("{name}-{rules}.wasm"))])
        }
        // Without a cache, as for the commands of a plugin's author, the component is the one that is built locally.
        (Origin::File(path), None, None) => Ok(candidates(path, &format!("{name}.wasm"))),
        (Origin::Object { .. }, None, None) => {
            bail!("components cannot be fetched without a cache directory; name one with --cache")
        }
    }
}

/// Returns the paths at which a file of the host may be that a `Plugin` object names.
fn files_of_host(name: &str, file: &str, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let path = Path::new(file);
    let is_plain = !path.components().any(|part| matches!(part, Component::ParentDir));
    ensure!(is_plain, "spec.source.file {file:?} leads out of its folder; name it without ..");
    if path.is_absolute() {
        return Ok(vec![path.to_owned()]);
    }
    let folders = ["", "target/plugins", name, &format!("plugins/{name}")];
    Ok(folders.map(|below| folder.join(below).join(file)).to_vec())
}

/// Returns the paths beside `plugin.yaml` and among the build products of its project.
fn candidates(plugin_yaml: &Path, file: &str) -> Vec<PathBuf> {
    let folder = plugin_yaml.parent().unwrap_or(Path::new(""));
    let mut candidates = vec![folder.join(file)];
    if Path::new(file).is_relative() {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        candidates.push(folders::products_of(&absolute).join(file));
    }
    candidates
}
