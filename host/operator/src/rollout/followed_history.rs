//! Follows the history of the host that works for a plugin: what that host rolled back is rolled back here, too.

use crate::api::status::RefusedComponent;
use crate::rollout::history::Entry;
use crate::rollout::managed_plugin::ManagedPlugin;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::plugin::earlier;
use hotshoe_sandbox::error::LoadError;

impl ManagedPlugin {
    /// Takes over the history of a host that works for the plugin and therefore decides about its revisions. Where
    /// that host rolled back the canary, the canary ends here, too; where it rolled back the component that was refused
    /// here, that becomes the reason of the refusal. Returns the revision to roll back to, if that host rolled back the
    /// active one.
    pub async fn learn_history(&self, remembered: Vec<Entry>) -> Option<Digest> {
        let canary = self.controller.canary.current().map(|canary| canary.digest());
        let offered = canary.or_else(|| self.refused()?.digest);
        let active = self.controller.active().map(|active| active.revision.digest());
        let has_changed = self.merge_history(remembered, offered.into_iter().chain(active)).await;
        let rolled_back =
            offered.and_then(|digest| Some((digest, self.history().rolled_back(digest)?.message.clone())));
        // A canary may have begun since its rollback was learned.
        if let Some((digest, why)) = rolled_back.filter(|_| has_changed || canary.is_some()) {
            if canary.is_some() {
                self.end_canary("the host that works for the plugin rolled it back");
            }
            self.note_refused(Some(RefusedComponent::new(Some(digest), &LoadError::RolledBack(why))));
        }
        let active = active?;
        self.history().rolled_back(active)?;
        earlier::before(self.history().entries(), Some(active), |digest| self.is_accepted(digest)).first().copied()
    }

    /// Returns the rollback of the component that is refused here, if the remembered history does not have it.
    pub fn unreported_rollback(&self, remembered: &[Entry]) -> Option<Entry> {
        let refused = self.refused()?.digest?;
        self.history().unreported_rollback(remembered, refused)
    }

    /// Takes over a remembered history that is newer, or else the roll-backs of `digests` that this one lacks. Returns
    /// whether the history changed.
    async fn merge_history(&self, remembered: Vec<Entry>, digests: impl Iterator<Item = Digest>) -> bool {
        let (is_later, missed) = {
            let history = self.history();
            (history.is_older_than(&remembered), history.missed_rollbacks(&remembered, digests))
        };
        if is_later {
            self.remember(move |history| *history = std::mem::take(history).or_newer(remembered)).await;
        } else if !missed.is_empty() {
            self.remember(move |history| {
                missed.iter().for_each(|entry| history.note(entry.digest, &entry.version, entry.event, &entry.message));
            })
            .await;
        } else {
            return false;
        }
        true
    }
}
