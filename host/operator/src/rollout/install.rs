//! Turns a component's bytes into the active revision. The checks on the way are in
//! [`verify`](crate::rollout::verify), rolling back in [`rollback`](crate::rollout::rollback).
//!
//! ```text
//! bytes ─▶ Revision::load ─▶ grants ─▶ own cases ─▶ watches synced ─▶ survey of parents ─▶ active
//!              │               │           │             │                  │              all are reconciled again
//!              ▼               ▼           ▼             ▼                  ▼
//!               anything wrong: refused, the active one stays               fails, or deletes much: approval required
//!
//! active ─▶ on probation ─▶ worse than the one before: rolled back
//!
//! with `spec.rollout`, a canary first: see [`canary`](crate::rollout::canary)
//! ```
//!
//! What was rolled back or requires approval is not activated until an administrator approves it, also after a
//! restart.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tracing::Instrument;

use crate::api::history::PluginHistory;
use crate::api::status::RefusedComponent;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::release;
use crate::rollout::fetch::pull_again;
use crate::rollout::history::{Activation, Entry, Event, History};
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::state::Revisions;
use crate::rollout::step::Step;
use crate::rollout::verify::try_carried_cases;
use crate::rollout::views;
use crate::rollout::views::Views;
use crate::telemetry::swap_timer::{Stage, Stopwatch};
use futures::future::join_all;
use hotshoe_cluster::shared_watch::Viewer;
use hotshoe_core::check::grant;
use hotshoe_core::flow::probation::CallStats;
use hotshoe_core::model::decision::Descriptor;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::plugin::earlier;
use hotshoe_core::plugin::offer::{Block, Offer, Running};
use hotshoe_core::plugin::takeover::{self, Start};
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::error::LoadError;
use hotshoe_sandbox::revision::{Loaded, Revision};

impl ManagedPlugin {
    /// Activates what the source offers, or refuses it.
    pub(crate) async fn activate(self: Arc<Self>, offered: Result<Candidate, LoadError>) {
        let (digest, error) = match offered {
            Ok(candidate) => match self.activate_candidate(candidate).await {
                Ok(()) => return,
                Err((digest, error)) => (Some(digest), error),
            },
            Err(error) => (None, error),
        };
        self.refuse(digest, &error).await;
        if self.controller.active().is_none() {
            let start = Start::Return("the component that was offered at the start was refused");
            self.fall_back(digest, start).await;
        }
    }

    /// Activates the last good revision again, because no revision is active and the source offers nothing.
    pub(crate) async fn activate_without_source(self: Arc<Self>) {
        self.fall_back(None, Start::Return("the source could not be read, and no component was active")).await;
    }

    async fn activate_candidate(&self, candidate: Candidate) -> Result<(), (Digest, LoadError)> {
        let digest = candidate.digest();
        if self.controller.active().is_none() {
            self.restore(digest).await;
        }
        match Offer::of(digest, self.history().standing(digest), &self.plugin().wanted, self.running()) {
            Offer::IsActive => {
                self.end_canary("the source has the active component again");
                self.note_refused(None);
                // Its kept file may be damaged, and can be written again from these bytes.
                self.remember(move |history| history.keep(&candidate)).await;
                self.record_signers(digest).await;
                Ok(())
            }
            Offer::IsCanary => {
                self.note_refused(None);
                Ok(())
            }
            Offer::Blocked(block) => Err((digest, self.blocked(digest, block))),
            Offer::Try => self.try_activate(candidate, Start::Swap).await.map_err(|error| (digest, error)),
        }
    }

    /// Returns the revisions that decide.
    fn running(&self) -> Running {
        let active = self.controller.active().map(|active| active.revision.digest());
        Running { active, canary: self.controller.canary.current().map(|canary| canary.digest()) }
    }

    /// Activates again the revision that was active when the host ended, so that the offered component is verified
    /// beside it. A component that was exchanged while no host ran must not break more than one that is exchanged while
    /// a host runs.
    async fn restore(&self, offered: Digest) {
        let is_accepted = |digest| self.is_accepted(digest);
        let Some(last) = earlier::restored(self.history().entries(), offered, is_accepted) else { return };
        let restored = async {
            let kept = self.kept_or_pulled(last).await?;
            self.try_activate(kept, Start::Restore).await.map_err(|error| error.to_string())
        };
        if let Err(why) = self.in_time(restored).await {
            tracing::warn!(
                digest = %last,
                "the revision that was active when the host ended cannot be activated again, \
                 so the offered component is verified without a comparison with it: {why}"
            );
        }
    }

    /// Returns the error of a component that is refused without trying it.
    fn blocked(&self, digest: Digest, block: Block) -> LoadError {
        let history = self.history();
        let message = |entry: Option<&Entry>| entry.map(|entry| entry.message.clone()).unwrap_or_default();
        match block {
            Block::RevisionPinned => LoadError::RevisionPinned(
                self.plugin().wanted.revision.as_ref().map(DigestPrefix::hex).unwrap_or_default(),
            ),
            Block::RolledBack => LoadError::RolledBack(message(history.rolled_back(digest))),
            Block::ApprovalRequired => LoadError::ApprovalRequired(message(history.requires_approval(digest))),
        }
    }

    /// Returns the error of a component that was rolled back and not approved since.
    pub(crate) fn rolled_back(&self, digest: Digest) -> Option<LoadError> {
        let history = self.history();
        history.rolled_back(digest).map(|entry| LoadError::RolledBack(entry.message.clone()))
    }

    /// Activates the last good revision again, because no revision is active and the offered component, if there is one,
    /// was refused. If `spec.revision` names a revision that is not available, that may be the offered component.
    async fn fall_back(&self, offered: Option<Digest>, start: Start<'_>) {
        let (refused, plugin) = (self.refused(), self.plugin());
        let is_accepted = |digest| self.is_accepted(digest);
        let earlier = earlier::fall_back(self.history().entries(), offered, &plugin.wanted, is_accepted);
        for digest in earlier {
            let activated = match self.kept_or_pulled(digest).await {
                Ok(kept) => self.try_activate(kept, start).await.map_err(|error| error.to_string()),
                Err(why) => Err(why),
            };
            match activated {
                Ok(()) => return self.note_refused(refused),
                Err(error) => {
                    tracing::warn!(%digest, %error, "an earlier revision cannot be activated either")
                }
            }
        }
    }

    /// Loads a component, runs its cases and installs it.
    ///
    /// # Errors
    /// Why the component is not activated.
    pub(crate) async fn try_activate(&self, candidate: Candidate, start: Start<'_>) -> Result<(), LoadError> {
        let span = self.span_of(candidate.digest());
        self.load_and_install(candidate, start).instrument(span).await
    }

    async fn load_and_install(&self, candidate: Candidate, start: Start<'_>) -> Result<(), LoadError> {
        let mut stopwatch = Stopwatch::start();
        let plugin = self.plugin();
        let _shown = self.show_underway(candidate.digest());
        let shared = &self.shared;
        let (component, limits, memory) = (candidate.clone(), plugin.limits.clone(), &plugin.memory);
        let loaded = Revision::load(&shared.engine, &shared.compiler, component, limits, Purpose::Activation, memory);
        let Loaded { revision, cases } = loaded.await?;
        self.ensure_granted(revision.descriptor()).await?;
        if let Some(names) = plugin.names_differ(&revision.descriptor().name) {
            tracing::warn!("{names}");
        }
        stopwatch.over(Stage::Load);
        self.show_step(Step::Cases);
        try_carried_cases(&revision, cases).await?;
        stopwatch.over(Stage::Cases);
        if self.controller.active().is_none() {
            self.controller.converter.publish(revision.clone());
        }
        tracing::debug!(loaded = ?stopwatch.elapsed(), "the component is good");
        self.install(revision, Some(candidate), start, stopwatch).await
    }

    /// Checks that everything that a component asks for is granted. If it is not, the advice depends on which kinds are in
    /// namespaces, so those are discovered; an API server that does not answer is not waited for.
    async fn ensure_granted(&self, descriptor: &Descriptor) -> Result<(), LoadError> {
        let (plugin, kinds) = (self.plugin(), &self.controller.kinds);
        if plugin.ensure_granted(descriptor, kinds).is_ok() {
            return Ok(());
        }
        let asked = grant::asked(descriptor).into_iter().map(|(kind, _)| kind).chain([descriptor.parent.clone()]);
        join_all(asked.map(async |kind| self.shared.watches.find_kind(&kind).await.ok())).await;
        plugin.ensure_granted(descriptor, kinds)
    }

    /// Activates a revision that was loaded and has passed its cases. `component` is kept for a rollback; none where it
    /// is kept already.
    pub(crate) async fn install(
        &self,
        revision: Arc<Revision>,
        component: Option<Candidate>,
        start: Start<'_>,
        mut stopwatch: Stopwatch,
    ) -> Result<(), LoadError> {
        self.show_step(Step::Watches);
        let plugin = self.plugin();
        let revision = revision.under(&plugin.limits);
        let views = Views::of(self.shared.watches.clone(), Viewer::candidate(&self.controller.name));
        let (digest, owned_before) = (revision.digest(), self.owned_before());
        let mut new = self.log_waiting(views.open(&self.controller, plugin, revision, &owned_before)).await?;
        new.former_finalizers = self.former_finalizers(&new);
        stopwatch.over(Stage::Watches);
        let verdict = self.examine(&new, start).await;
        stopwatch.over(Stage::Survey);
        let rollout = self.takes_over(&new, verdict).await?;
        self.hold_finalizers(&new)?;
        if let Some(rollout) = rollout {
            self.begin_canary(new, component, rollout, &views).await;
            return Ok(());
        }
        let revision = new.revision.clone();
        let gone = self.publish(new, start, stopwatch);
        // The active revision has opened the same watches by now.
        drop(views);
        let (why, before) = (start.why().to_owned(), self.controller.health.probation.before());
        let (source, signed_by) = (self.source_of(digest), self.signed_by(digest));
        self.remember(move |history| {
            let activation = Activation { source, signed_by, before, ..Activation::default() };
            remember(history, &revision, component.as_ref(), &why, activation);
            // Dropped here, on the blocking thread: unmapping native code takes the kernel as long as a decision.
            drop(gone);
        })
        .await;
        Ok(())
    }

    /// Collects what follows from the past of a component that was loaded.
    pub(crate) fn loaded<'a>(&self, digest: Digest, start: Start<'a>) -> takeover::Loaded<'a> {
        takeover::Loaded::of(self.history().entries(), digest, start, self.running().active)
    }

    /// Returns the kinds that earlier revisions owned before the host started, of which children may be left.
    fn owned_before(&self) -> Vec<Kind> {
        if self.controller.active().is_some() { Vec::new() } else { self.history().owned() }
    }

    /// Reserves a revision's finalizers for the plugin.
    ///
    /// # Errors
    /// If another plugin has one of them: it may have been installed since the revision was loaded.
    pub(crate) fn hold_finalizers(&self, new: &ActiveRevision) -> Result<(), LoadError> {
        let (plugin, descriptor) = (&new.plugin, new.revision.descriptor());
        let held = plugin.holders.hold(&plugin.name, descriptor.finalizer.as_deref(), &new.former_finalizers);
        held.map_err(|_| LoadError::NotGranted(plugin.finalizer_lacking(descriptor).unwrap_or_default()))
    }

    /// Returns the finalizers of earlier revisions: parents keep them until they are deleted. A finalizer that the
    /// plugin may no longer hold is left out; it stays on the parents, and is reported.
    pub(crate) fn former_finalizers(&self, new: &ActiveRevision) -> Vec<String> {
        let mut former = self.history().finalizers();
        if let Some(present) = self.controller.active() {
            former.extend(present.revision.descriptor().finalizer.clone());
            former.extend(present.former_finalizers.iter().cloned());
        }
        let now = new.revision.descriptor().finalizer.as_ref();
        let is_free = |finalizer: &String| new.plugin.holders.other_than(&new.plugin.name, finalizer).is_none();
        former.retain(|finalizer| Some(finalizer) != now && new.plugin.finalizers.has(finalizer) && is_free(finalizer));
        former.into_iter().collect()
    }

    /// Returns a component that was active, if it is kept and intact, and signed as `verify` requires now.
    pub(crate) async fn kept(&self, digest: Digest) -> Option<Candidate> {
        if !self.is_accepted(digest) {
            return None;
        }
        let (history, most) = (self.history(), self.plugin().limits.component_bytes);
        let kept = move || history.component(digest, most);
        tokio::task::spawn_blocking(kept).await.ok().flatten()
    }

    /// Returns a component that was active: the one that is kept, or else the one of its image.
    ///
    /// # Errors
    /// Why neither is available.
    pub(crate) async fn kept_or_pulled(&self, digest: Digest) -> Result<Candidate, String> {
        match self.kept(digest).await {
            Some(kept) => Ok(kept),
            None => pull_again(self, digest).await,
        }
    }

    /// Adds an event of a revision to the history.
    pub(crate) async fn note(&self, revision: &Arc<Revision>, event: Event, why: &str) {
        let (revision, why) = (revision.clone(), why.to_owned());
        self.remember(move |history| history.note(revision.digest(), &revision.descriptor().version, event, &why))
            .await;
    }

    /// Makes the revision the active one. Must be short, because no reconcile runs meanwhile. Returns the state before
    /// it, for the caller to drop.
    #[must_use]
    pub(crate) fn publish(&self, new: ActiveRevision, start: Start<'_>, mut stopwatch: Stopwatch) -> Revisions {
        let revision = new.revision.clone();
        let (digest, version) = (revision.digest(), revision.descriptor().version.clone());
        let parents = new.parents.watch.cache.len();
        let before = self.controller.active().map(|active| active.revision.clone());
        let replaced = before.as_ref().map(|before| before.digest());
        let before = before.filter(|_| matches!(start, Start::Swap));
        let probation = self.loaded(digest, start).probation(self.on_probation_for(digest));
        self.controller.health.probation.begin(std::time::Instant::now(), digest, probation);
        views::subscribe_queue(&self.controller, &self.shared.watches, &new, Viewer::active(&self.controller.name));
        self.controller.publish(Arc::new(new));
        let is_restored = matches!(start, Start::Restore);
        let revisions = Revisions { since: Some(Instant::now()), before, is_restored, ..Revisions::default() };
        let gone = self.state.replace(|state| &mut state.revisions, revisions);
        self.note_refused(None);
        views::close_unused(&self.controller, &self.shared.watches);
        tokio::spawn(release::find_deselected(self.controller.clone(), self.shared.watches.clone()));
        self.controller.metrics.revision(&self.controller.name, "Activated");
        stopwatch.over(Stage::Publish);
        let swapped = stopwatch.elapsed();
        tracing::info!(version, before = replaced.map(display), ?swapped, parents, "the component is active");
        // Without parents, the time to the first decision would not measure the swap.
        if replaced.is_some() && parents > 0 {
            self.controller.first_decision.await_first(digest, stopwatch);
        }
        gone
    }

    /// Returns for how long a revision had been on probation when the host ended, and the call statistics of the one
    /// before it.
    fn on_probation_for(&self, digest: Digest) -> Option<(Duration, CallStats)> {
        let (since, before) = self.history().on_probation_since(digest)?;
        Some((SystemTime::now().duration_since(since).unwrap_or_default(), before))
    }

    /// Refuses a component, and reports the reason in the log, the status, the history and the metrics. The active
    /// revision stays.
    pub(crate) async fn refuse(&self, digest: Option<Digest>, error: &LoadError) {
        // The host that works for the plugin may have rolled the component back while this one verified it.
        let rolled_back = digest.filter(|_| matches!(error, LoadError::ApprovalRequired(_)));
        let rolled_back = rolled_back.and_then(|digest| self.rolled_back(digest));
        let error = rolled_back.as_ref().unwrap_or(error);
        let refused = RefusedComponent::new(digest, error);
        if let Some(digest) = digest.filter(|_| !refused.can_be_approved()) {
            let why = format!("{}: {}", refused.reason, refused.message);
            self.remember(move |history| history.refuse(digest, &why)).await;
        }
        let keeps = self.controller.active().map(|active| active.revision.digest());
        tracing::error!(
            digest = digest.map(display),
            keeps = keeps.map(display),
            reason = %refused.reason,
            "the component is not activated: {}",
            refused.message
        );
        self.controller.metrics.revision(&self.controller.name, refused.reason.as_str());
        self.note_refused(Some(refused));
        self.state.set(|state| &mut state.revisions.is_restored, false);
    }

    /// Returns the history as it is shown.
    pub fn shown_history(&self) -> PluginHistory {
        let current = self.controller.active().map(|active| active.revision.digest());
        let mut kept = self.history().activated();
        kept.retain(|earlier| Some(*earlier) != current && self.is_available(*earlier));
        PluginHistory { current, kept: Some(kept), entries: self.history().entries().to_vec() }
    }

    /// Ends the watches of kinds that are no longer owned, once no child of them is left.
    pub(crate) fn end_pruned_kinds(&self) {
        // A reconcile that began under another revision may still create a child of such a kind.
        let (_, running) = self.controller.queue.depth();
        if self.controller.canary.current().is_some() {
            // The canary may own a kind that the active revision no longer owns, and the other way round.
            return;
        }
        let Some(present) = self.controller.active().filter(|_| running == 0) else { return };
        if let Some(pruned) = views::without_pruned(&self.controller.name, &present) {
            self.controller.slot.publish(Arc::new(pruned));
            views::close_unused(&self.controller, &self.shared.watches);
        }
    }
}

/// Adds that a revision is active, and keeps its component for a rollback.
pub(crate) fn remember(
    history: &mut History,
    revision: &Revision,
    component: Option<&Candidate>,
    why: &str,
    activation: Activation,
) {
    let digest = revision.digest();
    if let Some(component) = component {
        history.keep(component);
    }
    if history.current() == Some(digest) {
        return history.record_signers(digest, activation.signed_by);
    }
    let descriptor = revision.descriptor();
    let owns = descriptor.owns.iter().map(|owned| owned.kind.clone()).collect();
    let activation = Activation { finalizer: descriptor.finalizer.clone(), owns, ..activation };
    history.activate(digest, &descriptor.version, activation, why);
}

/// Returns the error of a component that was rolled back or requires approval, and was not approved since.
pub(crate) fn needs_approval(history: &History, digest: Digest) -> Option<LoadError> {
    let rolled_back = history.rolled_back(digest).map(|entry| LoadError::RolledBack(entry.message.clone()));
    let required = || history.requires_approval(digest).map(|entry| LoadError::ApprovalRequired(entry.message.clone()));
    rolled_back.or_else(required)
}
