//! Applies `plugin.yaml`, or a `Plugin` object, while the host runs, as soon as it changes.
//!
//! ```text
//! plugin.yaml ─▶ valid? ─▶ it applies to the active revision ─▶ what was refused is offered again
//!                  └ no, or of another plugin or parent: the last valid one stays in effect, and status says so
//! ```
//!
//! What the active revision asks for and is no longer granted is denied at each decision. The revision itself goes
//! on, for who narrows a grant wants less done, and not everything left undone.

use std::sync::Arc;

use crate::cluster::shared_watch::Viewer;
use crate::config::PluginConfig;
use crate::reconcile::release;
use crate::reconcile::views;
use crate::rollout::managed_plugin::{ManagedPlugin, PluginFile};
use crate::sandbox::candidate::Candidate;
use crate::sandbox::error::LoadError;

/// What of a definition is applied that was not before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// Nothing: it says the same, or cannot be applied.
    Nothing,
    /// What is wanted of revisions.
    Control,
    /// What a revision decides by.
    All,
}

impl ManagedPlugin {
    /// Applies `plugin.yaml` or the object, or logs and shows why not.
    pub(crate) async fn apply_definition(&self, offered: Result<Candidate, LoadError>) -> Applied {
        let present = self.plugin();
        let changed = match offered {
            Ok(candidate) => present
                .changed(candidate.bytes(), &self.shared.host)
                .map_err(|error| format!("{error:#}"))
                .and_then(|changed| self.keeps_its_parent(changed))
                .and_then(|changed| self.keeps_its_finalizer(changed)),
            Err(error) => Err(unreadable(&present, &error)),
        };
        let (plugin, definition) = (&*present.name, present.described_in());
        match changed {
            Ok(changed) if changed.digest == present.digest => {
                if self.plugin_file.lock().refused.take().is_some() {
                    tracing::info!(plugin, "{definition} says again what is applied");
                }
                self.apply_control(&present, changed)
            }
            Ok(changed) => {
                self.controller.pause(changed.control.paused);
                self.apply(Arc::new(changed)).await;
                self.redefined.notify_one();
                Applied::All
            }
            Err(error) => {
                tracing::error!(plugin, "{definition} is not applied, and what it said before stays in force: {error}");
                self.plugin_file.lock().refused = Some(error);
                Applied::Nothing
            }
        }
    }

    /// Applies what an administrator wants of revisions; nothing is decided again for that.
    fn apply_control(&self, present: &PluginConfig, changed: PluginConfig) -> Applied {
        if changed.control == present.control {
            return Applied::Nothing;
        }
        let paused = changed.control.paused;
        if paused != present.control.paused {
            tracing::info!(
                plugin = &*present.name,
                "{}",
                if paused { "the plugin is paused" } else { "the plugin goes on" }
            );
        }
        *self.plugin_file.lock() = PluginFile::applied(Arc::new(changed));
        self.controller.pause(paused);
        Applied::Control
    }

    /// Refuses another parent kind than the active revision's, whose children would be left without a host. Like another
    /// name, it needs a restart.
    fn keeps_its_parent(&self, changed: PluginConfig) -> Result<PluginConfig, String> {
        let Some(active) = self.controller.active() else { return Ok(changed) };
        let lacking = changed.parent_lacking(&active.revision.descriptor().parent);
        match lacking.filter(|_| changed.parent != active.plugin.parent) {
            None => Ok(changed),
            Some(lacking) => Err(format!(
                "the active revision has {lacking}; start the host again to stop it, or name its parent again"
            )),
        }
    }

    /// Refuses to take the finalizer of the active revision: parents have it, and would never go.
    fn keeps_its_finalizer(&self, changed: PluginConfig) -> Result<PluginConfig, String> {
        let Some(active) = self.controller.active() else { return Ok(changed) };
        match changed.finalizer_lacking(active.revision.descriptor()) {
            None => Ok(changed),
            Some(lacking) => Err(format!("the active revision holds {lacking}")),
        }
    }

    /// Applies a file that is valid: for every decision that begins, and for components that are offered.
    async fn apply(&self, plugin: Arc<PluginConfig>) {
        plugin.parentage.note_named(&plugin.name, plugin.parent.as_ref());
        *self.plugin_file.lock() = PluginFile::applied(plugin.clone());
        let controller = &self.controller;
        controller.writer.rate_limit.set(&plugin.limits);
        if let Some(present) = controller.active() {
            let (watches, viewer) = (&self.shared.watches, Viewer::active(&controller.name));
            let mut active = views::rewire(controller, watches, plugin.clone(), &present, viewer).await;
            active.former_finalizers = self.former_finalizers(&active);
            if let Err(error) = self.hold_finalizers(&active) {
                tracing::error!(plugin = &*plugin.name, "{error}");
            }
            controller.redefine(Arc::new(active), self.canary_under(&plugin).await);
            views::release(controller, &self.shared.watches);
            tokio::spawn(release::find_deselected(controller.clone(), self.shared.watches.clone()));
        }
        tracing::info!(plugin = &*plugin.name, "{} has changed and is applied", plugin.described_in());
        warn_of_doubtful(&plugin);
        if let Some(lacking) = self.lacking() {
            // Denials from now on are caused by the administrator.
            controller.judgement.probation.end();
            tracing::warn!(plugin = &*plugin.name, "{lacking}");
        }
    }
}

/// Warns of what an administrator may not have meant: variables that are not set, and parents that nothing selects.
pub(crate) fn warn_of_doubtful(plugin: &PluginConfig) {
    if let Some(parent) = plugin.parent.as_ref().filter(|parent| parent.selects_all_by_default()) {
        tracing::warn!(
            plugin = &*plugin.name,
            "every {parent} is a parent of this plugin; name those that are by their labels in spec.parent.selector, or say `selector: {{}}` where all are meant"
        );
    }
    for unset in &plugin.unset {
        tracing::warn!(plugin = &*plugin.name, "{unset}");
    }
}

/// Rewords why the file cannot be read: the errors of a source speak of components.
fn unreadable(plugin: &PluginConfig, error: &LoadError) -> String {
    let path = &plugin.origin;
    match error {
        LoadError::Unreadable { source, .. } => format!("cannot read {path}: {source}; put it back"),
        LoadError::TooLarge { size, limit } => format!("{path} has {size} bytes, more than the {limit} that are read"),
        other => other.to_string(),
    }
}
