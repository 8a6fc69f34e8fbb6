//! Rolls back from the active revision to an earlier one, because it does worse than that one or by an administrator's
//! command. Also approves components that are not activated without an approval.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::api::status::RefusedComponent;
use crate::rollout::fetch::{image_to_pull_again, pull_again};
use crate::rollout::history::{Entry, Event, History};
use crate::rollout::install::needs_approval;
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::views::Views;
use crate::shadow::impact;
use crate::telemetry::swap_timer::Stopwatch;
use hotshoe_cluster::shared_watch::Viewer;
use hotshoe_core::flow::circuit::State;
use hotshoe_core::flow::probation::RollbackVerdict;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_core::model::kind::Key;
use hotshoe_core::plugin::earlier::{self, StillRefused};
use hotshoe_core::plugin::meant::{Approval, Known, Refused, Rollback};
use hotshoe_core::plugin::takeover::Start;
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::error::{LoadError, Reason};
use hotshoe_sandbox::revision::Revision;

/// The time limit of a rollback, during which no file is read. It is shorter than the timeout of an admin command, so
/// that the caller gets the outcome.
pub(super) const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(50);

impl ManagedPlugin {
    /// Rolls back from the active revision, which is not activated again without an approval. A rollback that fails is
    /// tried again while the revision keeps doing worse. `offered` is the component that the file held last.
    pub(crate) async fn roll_back_from(self: Arc<Self>, verdict: RollbackVerdict, offered: Option<Digest>) {
        let Some(bad) = self.controller.active().map(|active| active.revision.clone()) else { return };
        let span = self.span_of(bad.digest());
        self.roll_back_bad(bad, verdict, offered).instrument(span).await;
    }

    async fn roll_back_bad(&self, bad: Arc<Revision>, verdict: RollbackVerdict, offered: Option<Digest>) {
        let RollbackVerdict { why, failed_on } = verdict;
        if self.fails_on_few(&failed_on, self.parents()) {
            tracing::warn!("{why}; but on no more of its parents than spec.swap.maxFailing allows, so it stays active");
            return self.controller.health.probation.excuse();
        }
        let before = match self.predecessor(bad.digest()).await {
            Ok(before) => before,
            Err(lost) => {
                tracing::error!("{why}; but {lost}");
                return self.controller.health.probation.resume(std::time::Instant::now());
            }
        };
        if self.fails_on_the_same(&before, &failed_on).await {
            tracing::warn!(
                before = %before.digest(),
                "{why}; but the one before it fails on the same objects, so it stays active"
            );
            return self.controller.health.probation.excuse();
        }
        tracing::error!(
            to = %before.digest(),
            reason = %Reason::RolledBack,
            "the component does worse than the one before it, which is activated again: {why}"
        );
        let is_noted = self.history().rolled_back(bad.digest()).is_some();
        if !is_noted {
            self.note(&bad, Event::RolledBack, &why).await;
        }
        let (place, path) = (format!("in the place of {}", bad.digest()), (Some(bad.digest()), before.digest()));
        let refused = self.refused();
        let _shown = self.show_underway(before.digest());
        let span = self.span_of(before.digest());
        let installed = self.install(before, None, Start::Return(&place), Stopwatch::start()).instrument(span);
        match self.in_time(installed).await {
            Ok(()) => {
                self.controller.metrics.revision(&self.controller.name, Reason::RolledBack.as_str());
                self.show_what_is_still_refused(offered, path, refused);
                tracing::warn!(
                    to = %path.1,
                    "rolled back; the component stays inactive until it is fixed or `hotshoe approve`"
                );
            }
            Err(failed) => {
                tracing::error!(
                    to = %path.1,
                    "the rollback failed: {failed}; it is tried again while the component keeps failing"
                );
                self.controller.health.probation.resume(std::time::Instant::now());
            }
        }
    }

    /// Returns the best of the components that were active before this one, as far as it is kept or can be pulled.
    async fn first_available(&self, bad: Digest) -> Result<Candidate, String> {
        let mut why = "no other component was active before it; build an earlier one again".to_owned();
        let earlier = earlier::before(self.history().entries(), Some(bad), |digest| self.is_accepted(digest));
        for earlier in earlier {
            match self.kept_or_pulled(earlier).await {
                Ok(kept) => return Ok(kept),
                Err(error) => why = format!("{earlier}, which was active before it, cannot be activated: {error}"),
            }
        }
        Err(why)
    }

    fn parents(&self) -> usize {
        self.controller.active().map_or(0, |active| active.parents.watch.cache.len())
    }

    /// Returns whether so few of so many parents fail that `spec.swap.maxFailing` accepts it. While its circuit is open,
    /// a revision serves no parent.
    pub(crate) fn fails_on_few(&self, failed_on: &[Key], parents: usize) -> bool {
        let (failing, _) = self.controller.in_trouble();
        let max_failing = usize::from(self.plugin().max_failing);
        let is_called = self.controller.health.breaker.state(std::time::Instant::now()) == State::Closed;
        max_failing > 0 && !failed_on.is_empty() && is_called && failing * 100 <= parents * max_failing
    }

    /// Returns the revision that was active before this one: from memory, or else from its kept component.
    async fn predecessor(&self, bad: Digest) -> Result<Arc<Revision>, String> {
        let before = self.state.read(|state| state.revisions.before.clone());
        if let Some(before) = before.filter(|before| self.is_accepted(before.digest())) {
            return Ok(before);
        }
        let kept = self.in_time(self.first_available(bad)).await?;
        let (shared, plugin) = (&self.shared, self.plugin());
        let (limits, memory) = (plugin.limits.clone(), &plugin.memory);
        let loaded = Revision::load(&shared.engine, &shared.compiler, kept, limits, Purpose::Activation, memory);
        let loaded = loaded.await.map_err(|error| format!("the one before it cannot be loaded: {error}"))?;
        Ok(loaded.revision)
    }

    /// Returns whether an earlier revision fails on the same parents, so that a rollback to it would not help.
    async fn fails_on_the_same(&self, before: &Arc<Revision>, failed_on: &[Key]) -> bool {
        if failed_on.is_empty() {
            return false;
        }
        let plugin = self.plugin();
        let views = Views::of(self.shared.watches.clone(), Viewer::candidate(&self.controller.name));
        let asked = async {
            let before = before.under(&plugin.limits);
            let active = views.open(&self.controller, plugin, before, &[]).await.ok()?;
            Some(impact::fails_on_all(&self.controller, &active, failed_on).await)
        };
        tokio::time::timeout(ROLLBACK_TIMEOUT, asked).await.ok().flatten().unwrap_or(false)
    }

    /// Runs a rollback within its time limit.
    pub(crate) async fn in_time<T, E: Display>(
        &self,
        rollback: impl Future<Output = Result<T, E>>,
    ) -> Result<T, String> {
        // Pinned, so that the future still exists, and shows what it waits for, when `awaited` is called.
        let mut rollback = std::pin::pin!(rollback);
        match tokio::time::timeout(ROLLBACK_TIMEOUT, &mut rollback).await {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it is not ready after {ROLLBACK_TIMEOUT:?}: {}", self.awaited())),
        }
    }

    /// Finds out which component an administrator means.
    pub(crate) fn meant<T>(&self, find: impl FnOnce(&Known<'_, Entry>) -> T) -> T {
        let (history, active) = (self.history(), self.controller.active());
        find(&Known {
            program: "hotshoe",
            past: history.entries(),
            active: active.map(|active| active.revision.digest()),
            canary: self.controller.canary.current().map(|canary| canary.digest()),
            refused: self.refused().map(Refused::from),
        })
    }

    /// Returns the rollback that a command means.
    ///
    /// # Errors
    /// Why it is not possible.
    pub(crate) fn rollback(&self, named: Option<&DigestPrefix>) -> Result<Rollback, String> {
        let is_accepted = |digest| self.is_accepted(digest);
        self.meant(|known| match known.rollback(named, is_accepted, |earlier| self.is_available(earlier))? {
            Rollback { to, ended: None } if known.active == Some(to) => Err(format!("{to} is active already")),
            rollback => Ok(rollback),
        })
    }

    /// Returns the component that a command approves.
    ///
    /// # Errors
    /// When no such component waits for an approval.
    pub(crate) fn approval(&self, named: Option<&DigestPrefix>) -> Result<Digest, String> {
        match self.meant(|known| known.approval(named))? {
            Approval { digest, waits: true } => Ok(digest),
            Approval { digest, .. } => Err(format!("{digest} waits for no approval; the source has another component")),
        }
    }

    /// Returns whether a component that was active is kept, on the disk or in memory, or can be pulled again.
    pub(crate) fn is_available(&self, digest: Digest) -> bool {
        (self.is_accepted(digest) && self.history().is_kept(digest))
            || self.in_memory(digest).is_some()
            || image_to_pull_again(self, digest).is_some()
    }

    /// Returns the revision that was active before the present one, if it has this digest and is signed as required.
    fn in_memory(&self, digest: Digest) -> Option<Arc<Revision>> {
        let before = self.state.read(|state| state.revisions.before.clone());
        before.filter(|before| before.digest() == digest && self.is_accepted(digest))
    }

    /// Activates an earlier revision, from its kept component or else from memory.
    async fn activate_again(&self, target: Digest, start: Start<'_>) -> Result<(), String> {
        let message = |error: LoadError| error.to_string();
        let kept = self.kept(target).await;
        let Some(revision) = self.in_memory(target).filter(|_| kept.is_none()) else {
            let component = match kept {
                Some(kept) => kept,
                None => pull_again(self, target).await?,
            };
            return self.try_activate(component, start).await.map_err(message);
        };
        self.plugin().ensure_granted(revision.descriptor(), &self.controller.kinds).map_err(message)?;
        let _shown = self.show_underway(target);
        let span = self.span_of(target);
        self.install(revision, None, start, Stopwatch::start()).instrument(span).await.map_err(message)
    }

    /// Rolls back to an earlier revision by an administrator's command. `offered` is the component that the file held
    /// last. With `newer`, the offered component was being activated, and is recorded as rolled back like the active
    /// one.
    ///
    /// # Errors
    /// Why the rollback is not possible.
    pub(crate) async fn roll_back_to(
        self: Arc<Self>,
        target: Digest,
        offered: Option<Digest>,
        newer: bool,
    ) -> Result<(), String> {
        let refused = self.refused();
        let current = self.controller.active().map(|active| active.revision.clone());
        let canary = self.controller.canary.current();
        self.in_time(self.activate_again(target, Start::Return("rolled back to by command")))
            .await
            .map_err(|why| format!("{target} cannot be activated: {why}"))?;
        if let Some(current) = &current {
            self.note(current, Event::RolledBack, "rolled back by command to another revision").await;
            self.controller.metrics.revision(&self.controller.name, "RolledBack");
            tracing::info!(
                digest = %target,
                left = %current.digest(),
                "rolled back by command; what was active stays inactive until `hotshoe approve`"
            );
        }
        if let Some(canary) = canary.filter(|canary| canary.digest() != target) {
            let why = "rolled back by command to another revision while it was the canary";
            self.note(&canary.revision.revision, Event::RolledBack, why).await;
        }
        let known = [Some(target), current.as_ref().map(|current| current.digest())];
        if let Some(newer) = offered.filter(|offered| newer && !known.contains(&Some(*offered))) {
            self.roll_back_newer(newer).await;
        }
        self.show_what_is_still_refused(offered, (current.map(|current| current.digest()), target), refused);
        Ok(())
    }

    /// Notes that a component was rolled back while it was being activated.
    pub(crate) async fn roll_back_newer(&self, newer: Digest) {
        let why = "rolled back by command to another revision while it was being activated";
        self.remember(move |history| history.note(newer, "", Event::RolledBack, why)).await;
    }

    /// Activates the revision that `spec.revision` names. The revision that was active is not recorded as rolled back,
    /// so it may be activated again once `spec.revision` is removed.
    ///
    /// # Errors
    /// Why the named revision cannot be activated.
    pub(crate) async fn return_to(self: Arc<Self>, target: Digest) -> Result<(), String> {
        self.in_time(self.activate_again(target, Start::Return("spec.revision names it"))).await?;
        tracing::info!(digest = %target, "the revision that spec.revision names is active");
        Ok(())
    }

    fn show_what_is_still_refused(
        &self,
        offered: Option<Digest>,
        path: (Option<Digest>, Digest),
        before: Option<RefusedComponent>,
    ) {
        self.note_refused(still_refused(&self.history(), offered, path, before));
    }

    /// Approves a component that requires approval or was rolled back.
    pub(crate) async fn approve(&self, digest: Digest) {
        self.remember(move |history| history.approve(digest)).await;
        tracing::info!(%digest, "the component was approved");
    }
}

/// Returns which component stays refused, and why, after a rollback along `path`, from the first digest to the second.
fn still_refused(
    history: &History,
    offered: Option<Digest>,
    path: (Option<Digest>, Digest),
    before: Option<RefusedComponent>,
) -> Option<RefusedComponent> {
    let refused = before.as_ref().map(|before| before.digest);
    match earlier::still_refused(history.entries(), offered, path, refused)? {
        StillRefused::ForItsPast(digest) => {
            needs_approval(history, digest).map(|error| RefusedComponent::new(Some(digest), &error))
        }
        StillRefused::AsBefore => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::history::Activation;

    /// Returns a history in which these components were activated, and then had these events.
    fn history_of(activated: &[&str], events: &[(&str, Event)]) -> History {
        let mut history = History::default();
        activated.iter().for_each(|text| history.activate(digest(text), "1", Activation::default(), ""));
        events.iter().for_each(|(text, event)| history.note(digest(text), "1", *event, "so"));
        history
    }

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    /// Returns which component is refused after a rollback, and why.
    fn refused_after(
        history: &History,
        offered: Option<&str>,
        (left, target): (&str, &str),
        before: Option<RefusedComponent>,
    ) -> Option<(Option<Digest>, Reason)> {
        let refused = still_refused(history, offered.map(digest), (Some(digest(left)), digest(target)), before);
        refused.map(|refused| (refused.digest, refused.reason))
    }

    fn refused(text: &str, reason: Reason) -> Option<(Option<Digest>, Reason)> {
        Some((Some(digest(text)), reason))
    }

    #[test]
    fn after_a_rollback_what_the_file_holds_is_what_is_refused() {
        let both = history_of(&["a", "b", "c"], &[("c", Event::RolledBack), ("b", Event::RolledBack)]);
        let c_is_refused = refused("c", Reason::RolledBack);
        assert_eq!(refused_after(&both, Some("c"), ("b", "a"), None), c_is_refused);
        let waiting = history_of(&["b", "c"], &[("h", Event::ApprovalRequired), ("c", Event::RolledBack)]);
        assert_eq!(refused_after(&waiting, Some("h"), ("c", "b"), None), refused("h", Reason::ApprovalRequired));
        assert_eq!(refused_after(&waiting, None, ("c", "b"), None), c_is_refused, "the file was not read");
        assert_eq!(refused_after(&waiting, Some("b"), ("c", "b"), None), None, "the file holds the active one");
    }

    #[test]
    fn after_a_rollback_another_reason_to_refuse_the_component_in_the_file_remains() {
        let history = history_of(&["b", "c"], &[("c", Event::RolledBack)]);
        let before = |text: Option<&str>, error: LoadError| Some(RefusedComponent::new(text.map(digest), &error));
        let lacking = || before(Some("n"), LoadError::NotGranted("much".to_owned()));
        assert_eq!(refused_after(&history, Some("n"), ("c", "b"), lacking()), refused("n", Reason::NotGranted));
        assert_eq!(refused_after(&history, Some("m"), ("c", "b"), lacking()), None, "another component was refused");
        let large = before(None, LoadError::TooLarge { size: 2, limit: 1 });
        assert_eq!(refused_after(&history, None, ("c", "b"), large), Some((None, Reason::ComponentTooLarge)));
    }
}
