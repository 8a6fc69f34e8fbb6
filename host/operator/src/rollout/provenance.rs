//! Whether `spec.source.verify` accepts a component at each activation, and not only when it was pulled.
//!
//! ```text
//! fetched by the present verify ─┐
//! recorded in the history ───────┴▶ accepted ─▶ may be restored, fallen back to, rolled back to
//!            └ by another verify ─▶ its image is pulled and verified again ─▶ accepted, or refused
//!
//! verify changes, and the active component is refused ─▶ no component is active, as after a restart
//! ```
//!
//! Parents, their children and the plugin's finalizers stay as they are while no component is active.

use hotshoe_core::check::provenance::{SignatureRule, Signer};
use hotshoe_core::model::digest::Digest;

use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::state::{PluginState, Revisions};
use crate::rollout::unaccepted::Unaccepted;
use hotshoe_platform::candidate::Candidate;

/// The number of fetched components of which the signers are remembered until they are in the history.
const MAX_REMEMBERED: usize = 8;

impl ManagedPlugin {
    fn signature_rule(&self) -> SignatureRule {
        self.plugin().source.signature_rule()
    }

    /// Remembers that a component meets the rule of these signers, by which it was fetched.
    pub(crate) fn note_signers(&self, digest: Digest, signers: Vec<Signer>) {
        if signers.is_empty() {
            return;
        }
        self.state.change(|PluginState { signed, .. }| {
            signed.retain(|(known, _)| *known != digest);
            if signed.len() == MAX_REMEMBERED {
                signed.remove(0);
            }
            signed.push((digest, signers));
        });
    }

    /// Remembers that the component of the present source meets its rule. Those that met other rules are in another file.
    pub(crate) fn note_offered(&self, component: &Candidate) {
        self.note_signers(component.digest(), self.signature_rule().signers().to_vec());
    }

    /// Returns the signers of whom one has signed the image of a component, as far as is known; none if it was not
    /// required.
    pub(crate) fn signed_by(&self, digest: Digest) -> Vec<Signer> {
        let of_it = |signed: &[(Digest, Vec<Signer>)]| signed.iter().find(|(known, _)| *known == digest).cloned();
        let fetched = self.state.read(|state| of_it(&state.signed)).map(|(_, signers)| signers);
        fetched.unwrap_or_else(|| self.history().signed_by(digest).to_vec())
    }

    /// Returns whether a component is known to be signed as `verify` requires now.
    pub(crate) fn is_accepted(&self, digest: Digest) -> bool {
        let rule = self.signature_rule();
        rule.is_met_by(&self.signed_by(digest)) || rule.is_met_by(self.history().signed_by(digest))
    }

    /// Records by whom the image of a component that was active is signed.
    pub(crate) async fn record_signers(&self, digest: Digest) {
        let signed_by = self.signed_by(digest);
        if self.history().signed_by(digest) != signed_by {
            self.remember(move |history| history.record_signers(digest, signed_by)).await;
        }
    }

    /// Returns why the active component is not accepted, if that was found out.
    pub(crate) fn unaccepted_active(&self) -> Option<Unaccepted> {
        let active = self.controller.active()?.revision.digest();
        self.unaccepted().filter(|unaccepted| unaccepted.digest == active && !self.is_accepted(active))
    }

    /// Returns the component that was active and is not accepted.
    pub fn unaccepted(&self) -> Option<Unaccepted> {
        self.state.read(|state| state.unaccepted.clone())
    }

    /// Ends the active component, which `verify` refuses: no parent is reconciled until another one is active, as after
    /// a restart.
    pub(crate) fn retire(&self, unaccepted: &Unaccepted) {
        let Unaccepted { digest, reason, message } = unaccepted;
        self.end_canary("the active component is not signed as spec.source.verify requires");
        self.controller.retire();
        let gone = self.state.replace(|state| &mut state.revisions, Revisions::default());
        // Unmapping native code takes the kernel as long as a decision.
        drop(tokio::task::spawn_blocking(move || drop(gone)));
        self.controller.metrics.revision(&self.controller.name, reason);
        tracing::error!(
            %digest,
            reason,
            "the active component decides no more, because spec.source.verify refuses it; \
             parents and their children stay as they are: {message}"
        );
    }
}
