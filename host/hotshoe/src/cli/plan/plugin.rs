//! The plugin that a plan is made for. Its description is the plugin.yaml of its folder, or the one beside its component.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use serde_json::{Value, json};

use crate::cli::project::{Folder, shown};
use crate::cli::schema::files::Files;
use crate::cli::{admit, inspect, terminal};
use hotshoe_core::check::grant;
use hotshoe_core::model::decision::Descriptor;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::limits::Limits;
use hotshoe_operator::config::{HostSettings, PluginConfig, folders};
use hotshoe_sandbox::revision::Revision;

/// A plugin as a host would run it.
pub(in crate::cli) struct Plugin {
    pub(super) config: PluginConfig,
    pub(super) revision: Arc<Revision>,
    /// The CRDs of its project; none of a component alone.
    pub(super) crds: Files,
    /// Whether what it logs is printed.
    pub(super) prints_logs: bool,
}

impl Plugin {
    /// Returns a plugin that is asked for its decisions only, without what it logs.
    pub(in crate::cli) fn quiet(config: PluginConfig, revision: Arc<Revision>, crds: Files) -> Self {
        Self { config, revision, crds, prints_logs: false }
    }

    /// Opens the plugin that is named, or the only one here. A component is that of the plugin.yaml beside it or, without
    /// one, of a plugin that is granted all that it asks for.
    ///
    /// # Errors
    /// When one of the files cannot be read or used.
    pub(super) async fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let component = path.filter(|path| path.extension().is_some_and(|extension| extension == "wasm"));
        let Some(component) = component else {
            let folder = Folder::named(path)?;
            let config = admit::config(folder.manifest())?;
            let revision = inspect::load_component(&folder, None).await?;
            return Ok(Self { config, revision, crds: Files::of(&folder), prints_logs: true });
        };
        let revision = inspect::load_file(component, &Limits::default()).await?;
        let beside = component.with_file_name(folders::PLUGIN_FILE);
        if beside.is_file() {
            let folder = Folder::open(&beside)?;
            let config = admit::config(&beside)?;
            return Ok(Self { config, revision, crds: Files::of(&folder), prints_logs: true });
        }
        terminal::note(format_args!(
            "note: there is no {} beside {}, so the component counts as granted what it asks for",
            folders::PLUGIN_FILE,
            shown(component).display()
        ));
        let config = granting_all(revision.descriptor(), component)?;
        Ok(Self { config, revision, crds: Files::default(), prints_logs: true })
    }
}

/// Returns the plugin of a component that is granted all that it asks for, in every namespace.
fn granting_all(descriptor: &Descriptor, component: &Path) -> anyhow::Result<PluginConfig> {
    let grant = |(kind, verbs): (Kind, Vec<_>)| {
        // Secrets are granted by name.
        let names: &[&str] = if kind.is("", "Secret") { &["*"] } else { &[] };
        json!({
            "group": &*kind.group, "kind": &*kind.kind, "verbs": verbs, "namespaces": "cluster", "names": names,
        })
    };
    let grants: Vec<Value> = grant::asked(descriptor).into_iter().map(grant).collect();
    let name = &descriptor.name;
    let plugin = json!({
        "apiVersion": "hotshoe.dev/v1alpha1", "kind": "Plugin", "metadata": { "name": name },
        "spec": {
            "source": { "file": component.file_name().unwrap_or_default().to_string_lossy() },
            "grants": grants, "pruneAll": true,
        },
    });
    let config = PluginConfig::of_object(plugin.to_string().as_bytes(), &"".into(), &HostSettings::default());
    match config {
        Ok(config) => Ok(config),
        Err(error) => bail!("the component cannot be run without a plugin.yaml, put one beside it: {error:#}"),
    }
}
