//! `hotshoe push`: pushes a component to a registry.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use crate::cli::project::{self, Folder, shown};
use crate::cli::registry_access::AccessOptions;
use crate::cli::sources;
use crate::cli::terminal::{self, Output};
use hotshoe_core::model::limits::Limits;
use hotshoe_registry::ImageRef;
use hotshoe_registry::push::Image;
use hotshoe_registry::reference::sha256;
use hotshoe_sandbox::contract;

/// Push a plugin's component to a registry, and print the reference by its digest
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe push plugins/memcached oci://ghcr.io/org/memcached:1.0\n  \
    hotshoe push memcached.wasm oci://localhost:5000/memcached:1.0\n  \
    hotshoe push memcached.wasm oci://localhost:5000/web:1 -o json | jq -r .digest\n\n\
    Nothing is built: run `hotshoe build` before. The same component has the same digest each time. Credentials are those \
    of `docker login` ($DOCKER_CONFIG/config.json, or ~/.docker/config.json), and a proxy is that of HTTPS_PROXY and \
    NO_PROXY. A registry on this machine is asked without TLS, unless --registry-ca is given.")]
pub struct Args {
    /// The plugin's folder, its plugin.yaml, or a component
    #[arg(value_name = "PLUGIN|FILE")]
    plugin: PathBuf,
    /// Where to push it: oci://REGISTRY/REPOSITORY:TAG
    #[arg(value_name = "REFERENCE")]
    image: ImageRef,
    #[command(flatten)]
    access: AccessOptions,
    /// How to print what was pushed
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// What was pushed.
#[derive(Serialize)]
struct Pushed {
    reference: String,
    digest: String,
    bytes: usize,
}

impl Args {
    /// Pushes the component, and prints the reference by digest.
    ///
    /// # Errors
    /// If there is no component, or a host would refuse it, or the registry refuses it.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let (path, limits) = component(&self.plugin)?;
        let bytes = project::read(&path)?;
        let size = bytes.len();
        let image = image(&path, bytes, &limits)?;
        let digest = sha256(image.digest());
        if terminal::is_watched() {
            terminal::note(format_args!("pushing {size} bytes to {}", self.image));
        }
        let reference = image.push(&self.image, &self.access.read()?).await?.to_string();
        let pushed = Pushed { reference, digest, bytes: size };
        self.output.print(&pushed, || Ok(format!("{}\n", pushed.reference)))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the path of the component, and the limits under which a host would load it.
fn component(plugin: &Path) -> anyhow::Result<(PathBuf, Limits)> {
    let is_plugin = plugin.is_dir() || plugin.extension().is_some_and(|extension| extension == "yaml");
    if !is_plugin {
        return Ok((plugin.to_owned(), Limits::default()));
    }
    let folder = Folder::open(plugin)?;
    let component = folder.component(None)?;
    sources::note_age(&component, &folder);
    Ok((component, folder.limits))
}

/// Builds the image of a component, after checking that a host would load it.
fn image(path: &Path, bytes: Vec<u8>, limits: &Limits) -> anyhow::Result<Image> {
    let refused = || format!("cannot push {}", shown(path).display());
    let interface = contract::inspect(&bytes, limits).with_context(refused)?;
    let title = path.file_name().unwrap_or_default().to_string_lossy();
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let (exports, imports) = (owned(interface.exports), owned(interface.imports));
    Image::of(bytes, &title, exports, imports).with_context(refused)
}
