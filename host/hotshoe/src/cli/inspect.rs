//! Loads plugins with their grants and with what their components ask for, for `hotshoe rbac` and `hotshoe grants`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};

use crate::cli::project::{self, Folder, shown};
use crate::cli::schema::files::Files;
use crate::cli::{sources, terminal};
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::limits::{CACHE_BYTES, Limits};
use hotshoe_core::model::sanitize::clean;
use hotshoe_core::plugin::removal::DeletionPolicy;
use hotshoe_core::rbac::Plugin;
use hotshoe_operator::config::{HostSettings, PluginConfig, missing};
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::engine::Engine;
use hotshoe_sandbox::revision::Revision;

/// The maximum length of a note, in bytes: a component chooses its name.
const MAX_NOTE_BYTES: usize = 500;

/// A plugin and its component.
pub(super) struct LoadedPlugin {
    /// The plugin.yaml.
    pub(super) config: PluginConfig,
    /// The component.
    pub(super) revision: Arc<Revision>,
    /// The CRDs of its project.
    pub(super) files: Files,
}

impl LoadedPlugin {
    /// Returns what the component asks for and is not granted, with the lines of plugin.yaml that grant it.
    pub(super) fn lacking(&self) -> Option<String> {
        let lacking = self.config.lacking(self.revision.descriptor(), &|kind| Some(self.files.is_namespaced(kind)))?;
        let missing = self.missing().unwrap_or_default();
        Some(format!("the plugin {} asks for more than it is granted: {lacking}{missing}", self.config.name))
    }

    /// Returns the lines that are missing in plugin.yaml, below a line that says so.
    pub(super) fn missing(&self) -> Option<String> {
        let lines =
            missing::block(&self.config, self.revision.descriptor(), &|kind| Some(self.files.is_namespaced(kind)))?;
        let path = self.config.origin.file()?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Some(format!("\nadd to {}:\n{lines}", shown(&path).display()))
    }

    /// Returns what the plugin's rights are computed from.
    pub(super) fn as_plugin(&self) -> Plugin<'_> {
        Plugin {
            name: &self.config.name,
            grant: &self.config.grant,
            descriptor: self.revision.descriptor(),
            removes_finalizers: !self.config.predecessors.finalizers().is_empty(),
            deletes_parents: self.config.deletion_policy == DeletionPolicy::Delete,
            converts: self.revision.converts(),
            defaults: self.revision.defaults(),
            shows_user: self.config.shows_user,
            pull_secret: self.config.source.pull_secret.as_deref(),
            selects_namespaces: self
                .config
                .wanted
                .rollout
                .as_ref()
                .is_some_and(|rollout| rollout.share.namespaces().is_some()),
        }
    }
}

/// Prints a note if plugin.yaml, its folder and the component have different names.
pub(super) fn note_names(config: &PluginConfig, revision: &Revision) {
    if let Some(names) = config.names_differ(&revision.descriptor().name) {
        terminal::note(format_args!("note: {}", clean(names, MAX_NOTE_BYTES)));
    }
}

/// Prints a note if a host that is started without options would refuse this plugin.yaml.
pub(super) fn note_options(path: &Path) {
    if let Err(error) = PluginConfig::read(path, &HostSettings::default()) {
        terminal::note(format_args!("note: `hotshoe run` alone would not start with it: {error:#}"));
    }
}

/// Plugins, and where their components are.
#[derive(clap::Args, Debug)]
pub(super) struct Inspected {
    /// Plugins: folders with a plugin.yaml, or such files [default: this folder, or all in plugins/]
    #[arg(value_name = "PLUGIN")]
    pub(super) plugins: Vec<PathBuf>,
    /// Read the components from this folder instead of where a host looks for them
    #[arg(long, value_name = "DIR")]
    pub(super) components: Option<PathBuf>,
}

/// Reads and loads plugins, as a host in this namespace would.
pub(super) async fn load(
    Inspected { plugins: paths, components }: &Inspected,
    namespace: &str,
) -> anyhow::Result<Vec<LoadedPlugin>> {
    // Nothing here depends on variables, so any may be used: a plugin.yaml that names one must not fail.
    let host = HostSettings { namespace: namespace.into(), allow_env: vec!["*".to_owned()], ..HostSettings::default() };
    let mut plugins: Vec<LoadedPlugin> = Vec::new();
    for path in paths {
        let config = PluginConfig::read(path, &host)?;
        let is_first = plugins.iter().all(|other| other.config.name != config.name);
        ensure!(is_first, "two plugins are named {}; name each once", config.name);
        note_options(path);
        let folder = Folder::open(path)?;
        let revision = load_component(&folder, components.as_deref()).await?;
        note_names(&config, &revision);
        host.parentage.note_named(&config.name, config.parent.as_ref());
        // `lacking` reports a finalizer that another plugin holds.
        drop(host.holders.hold(&config.name, revision.descriptor().finalizer.as_deref(), &[]));
        plugins.push(LoadedPlugin { config, revision, files: Files::of(&folder) });
    }
    Ok(plugins)
}

/// Loads the component of a plugin's folder, or the one in `components`, and warns if it is older than its source.
pub(super) async fn load_component(folder: &Folder, components: Option<&Path>) -> anyhow::Result<Arc<Revision>> {
    let component = folder.component(components)?;
    sources::note_age(&component, folder);
    load_file(&component, &folder.limits).await
}

/// Loads a component.
pub(super) async fn load_file(path: &Path, limits: &Limits) -> anyhow::Result<Arc<Revision>> {
    let bytes = project::read(path)?;
    let engine = Engine::new()?;
    let compiler = Compiler::of_this_binary(None, CACHE_BYTES);
    let (component, limits, memory) = (Candidate::of(bytes), limits.clone(), Account::default());
    let loaded = Revision::load(&engine, &compiler, component, limits, Purpose::Trial, &memory).await;
    loaded.map(|loaded| loaded.revision).with_context(|| format!("cannot load {}", shown(path).display()))
}
