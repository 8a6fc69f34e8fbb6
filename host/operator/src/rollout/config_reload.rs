//! Applies `plugin.yaml`, or a `Plugin` object, while the host runs, as soon as it changes.
//!
//! ```text
//! plugin.yaml ─▶ valid? ─▶ it applies to the active revision ─▶ a refused component is offered again
//!                  └ no, or of another plugin or parent: the last valid one stays in effect, and status says so
//! ```
//!
//! If the active revision asks for something that is no longer granted, that is denied at each decision. The revision
//! stays active: an administrator who narrows a grant wants less to be done, and not nothing.

use std::sync::Arc;

use crate::config::PluginConfig;
use crate::reconcile::release;
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::views;
use hotshoe_cluster::shared_watch::Viewer;
use hotshoe_platform::candidate::Candidate;
use hotshoe_platform::followed_file::FileError;

/// Which part of a changed definition was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// Nothing: the definition is the same, or cannot be applied.
    Nothing,
    /// Only the fields that control which revision is active, and whether the plugin is paused.
    Control,
    /// Everything, with the fields that decisions depend on.
    All,
}

impl ManagedPlugin {
    /// Applies `plugin.yaml` or the object, or logs and shows why it cannot be applied.
    pub(crate) async fn apply_definition(&self, offered: Result<Candidate, FileError>) -> Applied {
        let present = self.plugin();
        let changed = match offered {
            Ok(candidate) => present
                .changed(candidate.bytes(), &self.shared.host)
                .map_err(|error| format!("{error:#}"))
                .and_then(|changed| self.keeps_its_parent(changed))
                .and_then(|changed| self.keeps_its_finalizer(changed)),
            Err(error) => Err(unreadable(&present, &error)),
        };
        let definition = present.described_in();
        match changed {
            Ok(changed) if changed.digest == present.digest => {
                if self.state.replace(|state| &mut state.config_refused, None).is_some() {
                    tracing::info!("{definition} is again the same as the one that is applied");
                }
                self.apply_control(&present, changed)
            }
            Ok(changed) => {
                self.controller.pause(changed.wanted.paused);
                self.apply(Arc::new(changed)).await;
                Applied::All
            }
            Err(error) => {
                tracing::error!("{definition} is not applied, and the last valid one stays in effect: {error}");
                self.state.set(|state| &mut state.config_refused, Some(error));
                Applied::Nothing
            }
        }
    }

    /// Applies the fields that control which revision is active, and the pause. No parent is reconciled for that.
    fn apply_control(&self, present: &PluginConfig, changed: PluginConfig) -> Applied {
        if changed.wanted == present.wanted {
            return Applied::Nothing;
        }
        let paused = changed.wanted.paused;
        if paused != present.wanted.paused {
            tracing::info!("{}", if paused { "the plugin is paused" } else { "the plugin goes on" });
        }
        self.note_applied(Arc::new(changed));
        self.controller.pause(paused);
        Applied::Control
    }

    fn note_applied(&self, config: Arc<PluginConfig>) {
        self.state.change(|state| (state.config, state.config_refused) = (config, None));
    }

    /// Refuses another parent kind than that of the active revision, whose children would be left without a host. A
    /// change of the parent kind needs a restart, like a change of the name.
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

    /// Refuses to take away the finalizer of the active revision: parents hold it, and could never be deleted.
    fn keeps_its_finalizer(&self, changed: PluginConfig) -> Result<PluginConfig, String> {
        let Some(active) = self.controller.active() else { return Ok(changed) };
        match changed.finalizer_lacking(active.revision.descriptor()) {
            None => Ok(changed),
            Some(lacking) => Err(format!("the active revision holds {lacking}")),
        }
    }

    /// Applies a valid definition to every decision that begins from now on, and to components that are offered.
    async fn apply(&self, plugin: Arc<PluginConfig>) {
        plugin.parentage.note_named(&plugin.name, plugin.parent.as_ref());
        self.note_applied(plugin.clone());
        let controller = &self.controller;
        controller.writer.set_limits(&plugin.limits);
        if let Some(present) = controller.active() {
            let (watches, viewer) = (&self.shared.watches, Viewer::active(&controller.name));
            let mut active = views::resubscribe(controller, watches, plugin.clone(), &present, viewer).await;
            active.former_finalizers = self.former_finalizers(&active);
            if let Err(error) = self.hold_finalizers(&active) {
                tracing::error!("{error}");
            }
            controller.redefine(Arc::new(active), self.canary_under(&plugin).await);
            self.note_refused(None);
            views::close_unused(controller, &self.shared.watches);
            tokio::spawn(release::find_deselected(controller.clone(), self.shared.watches.clone()));
        }
        tracing::info!("{} has changed and is applied", plugin.described_in());
        warn_of_likely_mistakes(&plugin);
        if let Some(lacking) = self.lacking() {
            // Denials from now on are due to the narrower grant, and must not roll the revision back.
            controller.health.probation.end();
            tracing::warn!("{lacking}");
        }
    }
}

/// Warns of likely mistakes in a definition: variables that are not set, and a parent kind without a selector.
pub(crate) fn warn_of_likely_mistakes(plugin: &PluginConfig) {
    if let Some(parent) = plugin.parent.as_ref().filter(|parent| parent.selects_all_by_default()) {
        tracing::warn!(
            "every {parent} is a parent of this plugin; name those that are by their labels in spec.parent.selector, \
             or say `selector: {{}}` where all are meant"
        );
    }
    for unset in &plugin.unset {
        tracing::warn!("{unset}");
    }
}

/// Describes why the file cannot be read, by the path that the administrator gave.
fn unreadable(plugin: &PluginConfig, error: &FileError) -> String {
    let path = &plugin.origin;
    match error {
        FileError::Unreadable { source, .. } => format!("cannot read {path}: {source}; put it back"),
        FileError::TooLarge { size, limit } => format!("{path} has {size} bytes, more than the {limit} that are read"),
    }
}
