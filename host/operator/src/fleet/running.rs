//! A plugin that runs for a `Plugin` object: what it knows of its object, and what is known of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::config::PluginConfig;
use crate::fleet::parsed_plugin::ParsedPlugin;
use crate::fleet::status::Known;
use crate::fleet::verdict::Verdicts;
use crate::rollout::history::Entry;
use crate::rollout::managed_plugin::{AdminCommand, ManagedPlugin, Shared};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::plugin::wanted::Wanted;

/// The pause after a failed write of a status or finalizer, and between two lists of the parents of a plugin that
/// cannot be removed yet.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// A plugin that runs.
pub(super) struct Running {
    pub(super) uid: Arc<str>,
    pub(super) plugin: Arc<ManagedPlugin>,
    pub(super) definition: watch::Sender<Arc<[u8]>>,
    /// The digest of the definition, and its fields that control the rollout; `None` if the definition is invalid.
    pub(super) wanted: Option<(Digest, Wanted)>,
    pub(super) verdicts: Verdicts,
    /// The rollback that follows the one of the host that works for the plugin.
    pub(super) following: Option<AbortOnDropHandle<()>>,
}

impl Running {
    /// Learns what the host that works for the plugin did to its revisions. This host must follow a rollback, for it may
    /// have to take over.
    pub(super) async fn follow_history(&mut self, remembered: Vec<Entry>) {
        let Some(earlier) = self.plugin.learn_history(remembered).await else { return };
        if self.following.as_ref().is_some_and(|following| !following.is_finished()) {
            return;
        }
        let plugin = self.plugin.clone();
        let follow = async move {
            let command = AdminCommand::RollBack(Some(earlier.into()));
            if let Some(Err(why)) = plugin.carry_out(command).await {
                tracing::warn!(
                    "the rollback by the host that works for the plugin cannot be followed: {why}; \
                     it is tried again in {RETRY_PAUSE:?}"
                );
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        };
        self.following = Some(AbortOnDropHandle::new(tokio::spawn(follow.in_current_span())));
    }

    /// Passes the description of the object to the rollout, if it has changed.
    pub(super) fn redefine(&mut self, described: &ParsedPlugin, shared: &Shared) {
        if **self.definition.borrow() != *described.json {
            let wanted = PluginConfig::of_object(&described.json, &self.uid, &shared.host).ok();
            self.wanted = wanted.map(|wanted| (wanted.digest, wanted.wanted));
            self.definition.send_replace(described.json.clone());
        }
    }

    /// Computes something of all that is known of the plugin.
    pub(super) fn known<T>(&mut self, compute: impl FnOnce(&Known<'_>) -> T) -> T {
        let plugin = &self.plugin;
        let config = plugin.plugin();
        let wanted = self.wanted.as_ref();
        let is_current = wanted.is_some_and(|(digest, wanted)| (digest, wanted) == (&config.digest, &config.wanted));
        let parent = plugin.controller.active().map(|active| active.revision.descriptor().parent.clone());
        let (status, finalizers) = (plugin.status(), plugin.finalizers().into_iter().collect());
        let verdict = self.verdicts.of(plugin);
        plugin.state.read(|state| compute(&Known { state, status: &status, finalizers, parent, is_current, verdict }))
    }
}
