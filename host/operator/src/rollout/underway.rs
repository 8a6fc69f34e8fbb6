//! The revision that is being activated: its present step, and what it waits for.

use std::time::Duration;

use crate::api::status::InProgress;
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::state::{PluginState, Published};
use crate::rollout::step::{Step, Underway};
use crate::rollout::views;
use hotshoe_cluster::shared_watch::Viewer;
use hotshoe_core::model::digest::Digest;

/// A step of an activation that takes longer is logged.
const SLOW_STEP: Duration = Duration::from_secs(2);

/// Shows a revision as being activated until this is dropped, because an activation may be dropped at any time.
pub(crate) struct ShownUnderway<'a>(&'a Published<PluginState>);

impl Drop for ShownUnderway<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.revisions.underway = None);
    }
}

impl ManagedPlugin {
    /// Returns what the revision that is being activated waits for.
    pub(crate) fn awaited(&self) -> String {
        let standby = self.state.read(|state| state.standby.clone());
        let in_progress = || self.in_progress().map(|shown| shown.waits_for);
        let fetching = || {
            let is_fetched = self.plugin().source.file.is_none();
            is_fetched.then(|| self.fetch_failing().unwrap_or_else(|| "the component is being fetched".to_owned()))
        };
        standby.or_else(in_progress).or_else(fetching).unwrap_or_else(|| "its file is still being written".to_owned())
    }

    /// Returns the revision that is being activated, and what it waits for.
    pub(super) fn in_progress(&self) -> Option<InProgress> {
        let Underway { digest, step } = self.state.read(|state| state.revisions.underway)?;
        let (watches, viewer) = (&self.shared.watches, Viewer::candidate(&self.controller.name));
        let waits_for = step.waits_for();
        let waits_for = match views::unsynced_reason(watches, &viewer) {
            Some(why) => format!("{waits_for}: {why}"),
            None => waits_for.to_owned(),
        };
        Some(InProgress { digest, waits_for, needs_change: views::needs_change(watches, &viewer) })
    }

    /// Shows a revision as being activated until the result is dropped.
    pub(crate) fn show_underway(&self, digest: Digest) -> ShownUnderway<'_> {
        self.state.change(|state| state.revisions.underway = Some(Underway { digest, step: Step::Loading }));
        ShownUnderway(&self.state)
    }

    /// Notes the present step of an activation.
    pub(crate) fn show_step(&self, step: Step) {
        self.state.change(|state| state.revisions.underway.iter_mut().for_each(|underway| underway.step = step));
    }

    /// Runs a step of an activation, and logs what the step waits for if it takes long.
    pub(crate) async fn log_waiting<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut work, mut logged) = (std::pin::pin!(work), String::new());
        loop {
            if let Ok(done) = tokio::time::timeout(SLOW_STEP, &mut work).await {
                return done;
            }
            let awaited = self.awaited();
            if awaited != logged {
                tracing::warn!("the component is not active yet: {awaited}");
                logged = awaited;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_activation_is_not_shown_as_in_progress() {
        let state = Published::new(PluginState::of_test());
        state.change(|state| {
            state.revisions.underway = Some(Underway { digest: Digest::of(b"a"), step: Step::Watches })
        });
        drop(ShownUnderway(&state));
        assert!(state.read(|state| state.revisions.underway.is_none()));
    }
}
