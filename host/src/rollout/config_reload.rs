//! `plugin.yaml` while the host runs: what the administrator says holds as soon as it is said.
//!
//! ```text
//! plugin.yaml ─▶ valid? ─▶ what decides goes on under it ─▶ what was not taken is offered again
//!                  └ no, or another plugin's or parent's: the one before it goes on, and that is said
//! ```
//!
//! What a component at work asks for and is no longer granted is denied at each decision; the component
//! itself goes on, for who narrows a grant wants less done and not everything left undone.

use std::sync::Arc;

use crate::config::PluginConfig;
use crate::reconcile::views;
use crate::rollout::managed_plugin::{PluginFile, Supervised};
use crate::sandbox::candidate::Candidate;
use crate::sandbox::error::LoadError;

impl Supervised {
    /// Takes `plugin.yaml` as it is offered, or says why not. Whether it says something new.
    pub(crate) async fn take_plugin_file(&self, offered: Result<Candidate, LoadError>) -> bool {
        let present = self.plugin();
        let changed = match offered {
            Ok(candidate) => present
                .changed(candidate.bytes(), &self.shared.host)
                .map_err(|error| format!("{error:#}"))
                .and_then(|changed| self.keeps_its_parent(changed)),
            Err(error) => Err(unreadable(&present, &error)),
        };
        match changed {
            Ok(changed) if changed.digest == present.digest => {
                if self.plugin_file.lock().refused.take().is_some() {
                    tracing::info!(plugin = &*present.name, "plugin.yaml says again what holds");
                }
                false
            }
            Ok(changed) => {
                self.have_hold(Arc::new(changed)).await;
                true
            }
            Err(error) => {
                tracing::error!(
                    plugin = &*present.name,
                    "plugin.yaml is not taken, and what it said before holds: {error}"
                );
                self.plugin_file.lock().refused = Some(error);
                false
            }
        }
    }

    /// Other parents than those of the component at work would leave the children of the latter to
    /// nobody, so they take a restart, as another name does.
    fn keeps_its_parent(&self, changed: PluginConfig) -> Result<PluginConfig, String> {
        let Some(logic) = self.controller.logic() else { return Ok(changed) };
        let lacking = changed.parent_lacking(&logic.revision.descriptor().parent);
        match lacking.filter(|_| changed.parent != logic.plugin.parent) {
            None => Ok(changed),
            Some(lacking) => Err(format!(
                "the component at work has {lacking}; start the host again to have it stop, or give it its parent back"
            )),
        }
    }

    /// From now on this holds: for every decision that begins, and for components that are offered.
    async fn have_hold(&self, plugin: Arc<PluginConfig>) {
        plugin.parentage.note_named(&plugin.name, plugin.parent.as_ref());
        *self.plugin_file.lock() = PluginFile::taken(plugin.clone());
        let controller = &self.controller;
        controller.writer.rate_limit.set(&plugin.limits);
        if let Some(present) = controller.logic() {
            let logic = views::rewire(controller, &self.shared.watches, plugin.clone(), &present).await;
            controller.publish(Arc::new(logic));
            views::release(controller, &self.shared.watches);
        }
        tracing::info!(plugin = &*plugin.name, "plugin.yaml has changed; what it says holds from now on");
        tell_unset(&plugin);
        if let Some(lacking) = self.lacking() {
            // What is denied from now on is the administrator's doing.
            controller.probation.end();
            tracing::warn!(plugin = &*plugin.name, "{lacking}");
        }
    }
}

/// Tells of what the configuration takes from variables and does not get.
pub(crate) fn tell_unset(plugin: &PluginConfig) {
    for unset in &plugin.unset {
        tracing::warn!(plugin = &*plugin.name, "{unset}");
    }
}

/// The words of a source are about components.
fn unreadable(plugin: &PluginConfig, error: &LoadError) -> String {
    let path = plugin.path.display();
    match error {
        LoadError::Unreadable { source, .. } => format!("cannot read {path}: {source}; put it back"),
        LoadError::TooLarge { size, limit } => format!("{path} has {size} bytes, more than the {limit} that are read"),
        other => other.to_string(),
    }
}
