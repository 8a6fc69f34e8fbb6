//! A canary: a new revision decides for a share of the parents, as `spec.rollout` says, before it decides for all.
//!
//! ```text
//! verified ─▶ canary ─▶ its time is over, or spec.rollout is gone: active, and on probation as after any swap
//!                ├─▶ worse than the active one, or `hotshoe rollback`: rolled back
//!                └─▶ a newer component, another spec.revision, a rollback of the active one: it ends without blame
//! ```
//!
//! The history has no entry about a canary until it ends. So a host that restarts activates the revision that was
//! active, and the canary begins again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::api::status::RefusedComponent;
use crate::config::PluginConfig;
use crate::config::plugin_resource::{CanaryReviews, CanaryStatus};
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::canary::Canary;
use crate::rollout::history::{Activation, Event};
use crate::rollout::install::remember;
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::rollback::ROLLBACK_TIMEOUT;
use crate::rollout::views;
use crate::rollout::views::Views;
use crate::shadow::impact;
use crate::telemetry::swap_timer::Stopwatch;
use hotshoe_cluster::shared_watch::{Health, Viewer};
use hotshoe_cluster::time;
use hotshoe_core::flow::canary::{PausedTime, Progress, Share, Waits};
use hotshoe_core::flow::circuit::State;
use hotshoe_core::flow::probation::RollbackVerdict;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::plugin::seen;
use hotshoe_core::plugin::takeover::Start;
use hotshoe_core::plugin::wanted::Rollout;
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::error::{LoadError, Reason};

impl ManagedPlugin {
    /// Returns why a revision cannot decide for some parents while the active one decides for the rest.
    pub(crate) fn cannot_be_canary(&self, new: &ActiveRevision) -> Option<String> {
        let active = self.controller.active()?;
        let [old, new] = [&active, new].map(|side| side.revision.descriptor());
        let what = if old.parent != new.parent {
            let named = |kind: &hotshoe_core::model::kind::Kind| format!("{kind} in version {}", kind.version);
            format!("its parents are {} and no longer {}", named(&new.parent), named(&old.parent))
        } else if old.finalizer != new.finalizer {
            let named = |finalizer: &Option<String>| finalizer.clone().unwrap_or_else(|| "none".to_owned());
            format!("its finalizer is {} and no longer {}", named(&new.finalizer), named(&old.finalizer))
        } else {
            return None;
        };
        Some(format!(
            "{what}, so it cannot be the canary that spec.rollout wants, beside the active revision: `hotshoe approve` has it decide for all parents at once"
        ))
    }

    /// Makes a verified revision the canary, in place of an older one.
    pub(crate) async fn begin_canary(
        &self,
        mut new: ActiveRevision,
        component: Option<Candidate>,
        rollout: Rollout,
        views: &Views,
    ) {
        let digest = new.revision.digest();
        self.log_waiting(views.sync_share(&rollout.share, &new.parents)).await;
        let (controller, watches, name) = (&self.controller, &self.shared.watches, &self.controller.name);
        let Some(active) = controller.active() else { return };
        let mut active = ActiveRevision::clone(&active);
        views::merge_owned_kinds(&mut active, &mut new);
        let known = controller.health.probation.known();
        let probation = self.loaded(digest, Start::Swap).probation_beside(known);
        let older = controller.canary.current().map(|older| older.digest());
        controller.canary.health.probation.begin(Instant::now(), digest, probation);
        views::subscribe_queue(controller, watches, &active, Viewer::active(name));
        views::subscribe_queue(controller, watches, &new, Viewer::canary(name));
        let namespaces = views::subscribe_queue_to_share(controller, watches, &rollout.share, &new.parents);
        let version = new.revision.descriptor().version.clone();
        let canary = Canary {
            revision: Arc::new(new),
            share: rollout.share.clone(),
            namespaces,
            began: Instant::now(),
            paused: Arc::new(Mutex::new(PausedTime::begin(Instant::now()))),
            since: time::unix_seconds(),
            counted: Arc::default(),
            reviews: Arc::default(),
        };
        let parents = canary.parents();
        controller.slot.publish(Arc::new(active));
        self.note_refused(None);
        controller.begin_canary(Arc::new(canary));
        views::close_unused(controller, watches);
        self.state.change(|state| (state.revisions.canary, state.revisions.is_restored) = (component, false));
        controller.metrics.revision(name, CANARY);
        let (share, duration) = (&rollout.share, &rollout.duration);
        tracing::info!(version, older = older.map(display), %share, parents, ?duration, "the component is the canary");
    }

    /// Returns what is seen of the canary.
    pub(crate) fn canary_seen(&self) -> Option<seen::Canary> {
        let canary = self.controller.canary.current()?;
        Some(seen::Canary {
            digest: canary.digest(),
            share: canary.share.clone(),
            is_active_elsewhere: self.history().current() == Some(canary.digest()),
            progress: self.progress(&canary),
        })
    }

    fn progress(&self, canary: &Canary) -> Progress {
        let slot = &self.controller.canary;
        let (now, is_paused) = (Instant::now(), self.controller.is_paused());
        let paused = canary.paused.lock().update(now, is_paused);
        Progress {
            lasted: now.saturating_duration_since(canary.began).saturating_sub(paused),
            parents: canary.parents(),
            has_decided: slot.health.probation.has_decided(),
            is_called: slot.health.breaker.state(Instant::now()) == State::Closed,
            is_paused,
        }
    }

    /// Has the canary decide for another share, once it is known which parents belong to that share.
    pub(crate) fn change_share(&self, share: Share) {
        let (controller, watches) = (&self.controller, &self.shared.watches);
        let Some(canary) = controller.canary.current() else { return };
        let namespaces = views::subscribe_queue_to_share(controller, watches, &share, &canary.revision.parents);
        if namespaces.as_ref().is_some_and(|namespaces| namespaces.health() != Health::Synced) {
            // It is not known yet which namespaces match the selector. The driver asks again in a second.
            return;
        }
        let next = Canary { share, namespaces, counted: Arc::default(), ..Canary::clone(&canary) };
        let (digest, share, before) = (canary.digest(), &next.share, &canary.share);
        tracing::info!(%digest, %share, %before, "the canary decides for another share");
        controller.canary.replace(Some(Arc::new(next)));
        views::close_unused(controller, watches);
        controller.decide_all_again();
    }

    /// Activates the canary without verifying it again. It is on probation as after any swap, because it decides for
    /// most parents for the first time now.
    pub(crate) async fn promote_canary(&self, why: &str) {
        let Some(canary) = self.controller.canary.current() else { return };
        let (mut new, digest) = (ActiveRevision::clone(&canary.revision), canary.digest());
        new.former_finalizers = self.former_finalizers(&new);
        tracing::info!(%digest, "the canary is activated: {why}");
        let component = self.state.replace(|state| &mut state.revisions.canary, None);
        let revision = new.revision.clone();
        let gone = self.span_of(digest).in_scope(|| self.publish(new, Start::Swap, Stopwatch::start()));
        let before = self.controller.health.probation.before();
        let (source, signed_by) = (self.source_of(digest), self.signed_by(digest));
        let activation = Activation { source, signed_by, before, ..Activation::default() };
        self.remember(move |history| {
            remember(history, &revision, component.as_ref(), "", activation);
            drop(gone);
        })
        .await;
    }

    /// Ends the canary without recording a rollback.
    pub(crate) fn end_canary(&self, why: &str) {
        if let Some(ended) = self.withdraw_canary() {
            tracing::info!(digest = %ended.digest(), "the canary ends: {why}");
        }
    }

    /// Rolls the canary back because it does worse than the active revision. `offered` is the component that the source
    /// had last.
    pub(crate) async fn roll_back_canary(&self, verdict: RollbackVerdict, offered: Option<Digest>) {
        let (controller, RollbackVerdict { why, failed_on }) = (&self.controller, verdict);
        let (Some(canary), Some(active)) = (controller.canary.current(), controller.active()) else { return };
        let (digest, before) = (canary.digest(), active.revision.digest());
        let is_called = controller.canary.health.breaker.state(Instant::now()) == State::Closed;
        if is_called && self.fails_on_few(&failed_on, canary.parents()) {
            tracing::warn!(%digest, "{why}; but on no more of its parents than spec.swap.maxFailing allows, so it stays the canary");
            return controller.canary.health.probation.excuse();
        }
        let asked = tokio::time::timeout(ROLLBACK_TIMEOUT, impact::fails_on_all(controller, &active, &failed_on));
        if !failed_on.is_empty() && asked.await.unwrap_or(false) {
            tracing::warn!(%digest, active = %before, "{why}; but the active revision fails on the same objects, so it stays the canary");
            return controller.canary.health.probation.excuse();
        }
        tracing::error!(
            %digest,
            active = %before,
            parents = canary.parents(),
            reason = %Reason::RolledBack,
            "the canary does worse than the active revision, which decides for its parents again: {why}"
        );
        self.record_canary_rollback(&why, offered).await;
        tracing::warn!(%digest, "the canary is rolled back; the component stays inactive until it is fixed or `hotshoe approve`");
    }

    /// Rolls the canary back by an administrator's command. With `newer`, the offered component was being activated,
    /// and is recorded as rolled back, too.
    ///
    /// # Errors
    /// When there is no canary any more.
    pub(crate) async fn roll_back_canary_by_command(
        self: Arc<Self>,
        offered: Option<Digest>,
        newer: bool,
    ) -> Result<(), String> {
        let why = "rolled back by command while it was the canary";
        let Some(digest) = self.record_canary_rollback(why, offered).await else {
            return Err("the canary has ended meanwhile; `hotshoe status` shows the active revision".to_owned());
        };
        tracing::info!(%digest, "the canary was rolled back by command; it stays inactive until `hotshoe approve`");
        if let Some(newer) = offered.filter(|offered| newer && *offered != digest) {
            self.roll_back_newer(newer).await;
            self.note_refused(Some(refused(newer, why)));
        }
        Ok(())
    }

    /// Ends the canary and records that it was rolled back. Returns its digest.
    async fn record_canary_rollback(&self, why: &str, offered: Option<Digest>) -> Option<Digest> {
        let ended = self.withdraw_canary()?;
        let digest = ended.digest();
        self.note(&ended.revision.revision, Event::RolledBack, why).await;
        self.controller.metrics.revision(&self.controller.name, Reason::RolledBack.as_str());
        // A newer component in the source may be refused for another reason.
        if offered.is_none_or(|offered| offered == digest) {
            self.note_refused(Some(refused(digest, why)));
        }
        Some(digest)
    }

    /// Ends the canary: the active revision decides for its parents again. It still sees the kinds that only the canary
    /// owned, until no child of them is left.
    fn withdraw_canary(&self) -> Option<Arc<Canary>> {
        let ended = self.controller.end_canary()?;
        drop(self.state.replace(|state| &mut state.revisions.canary, None));
        views::close_unused(&self.controller, &self.shared.watches);
        Some(ended)
    }

    /// Returns the canary under a changed `plugin.yaml`; none where it asks for what that does not grant.
    pub(crate) async fn canary_under(&self, plugin: &Arc<PluginConfig>) -> Option<Arc<Canary>> {
        let canary = self.controller.canary.current()?;
        if let Err(error) = plugin.ensure_granted(canary.revision.revision.descriptor(), &self.controller.kinds) {
            tracing::warn!(digest = %canary.digest(), "the canary ends: {error}");
            drop(self.state.replace(|state| &mut state.revisions.canary, None));
            return None;
        }
        let (controller, viewer) = (&self.controller, Viewer::canary(&self.controller.name));
        let revision =
            views::resubscribe(controller, &self.shared.watches, plugin.clone(), &canary.revision, viewer).await;
        Some(Arc::new(Canary { revision: Arc::new(revision), ..Canary::clone(&canary) }))
    }

    /// Returns a message if the canary is to decide for another share, with what that waits for.
    fn pending_share(&self, canary: &Canary) -> Option<String> {
        let wanted = self.plugin().wanted.rollout.as_ref().map(|rollout| rollout.share.clone())?;
        let why = || {
            let viewer = Viewer::canary(&self.controller.name);
            views::unsynced_reason(&self.shared.watches, &viewer).map(|why| format!(": {why}")).unwrap_or_default()
        };
        (wanted != canary.share).then(|| format!("it is to decide for {wanted}{}", why()))
    }

    /// Returns the status of the canary.
    pub(crate) fn canary_status(&self) -> Option<CanaryStatus> {
        let canary = self.controller.canary.current()?;
        let duration = self.plugin().wanted.rollout.as_ref().map_or(Duration::ZERO, |rollout| rollout.duration);
        let progress = self.progress(&canary);
        let until = duration + canary.paused.lock().of_ended_pauses();
        let time = |seconds| time::at(seconds).unwrap_or_default();
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let counts = canary.reviews.shown(Instant::now());
        let reviews = CanaryReviews {
            same: count(counts.same),
            refused: count(counts.refused),
            admitted: count(counts.admitted),
            other_defaults: count(counts.other_defaults),
            unanswered: count(counts.unanswered),
        };
        Some(CanaryStatus {
            digest: canary.digest().full(),
            source: self.source_of(canary.digest()),
            version: canary.revision.revision.descriptor().version.clone(),
            share: canary.share.to_string(),
            parents: i64::try_from(progress.parents).unwrap_or(i64::MAX),
            since: time(canary.since),
            until: time(canary.since.saturating_add(until.as_secs())),
            waits_for: self
                .pending_share(&canary)
                .or_else(|| progress.waits(duration).and_then(Waits::overdue).map(str::to_owned)),
            reviews: Some(reviews).filter(|reviews| *reviews != CanaryReviews::default()),
        })
    }
}

/// The label value by which the revisions metric counts canaries.
const CANARY: &str = "Canary";

fn refused(digest: Digest, why: &str) -> RefusedComponent {
    RefusedComponent::new(Some(digest), &LoadError::RolledBack(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_that_was_rolled_back_can_be_approved() {
        let refused = refused(Digest::of(b"canary"), "it traps");
        assert_eq!((refused.reason, refused.can_be_approved()), (Reason::RolledBack, true));
        assert!(refused.message.contains("it traps"));
    }
}
