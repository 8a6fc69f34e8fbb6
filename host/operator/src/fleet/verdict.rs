//! Runs a component that waits for approval in the shadow of the active one, and summarizes what would change. Runs it
//! again when the configuration or a parent changes, and after a run that could not be completed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::api::shadow::{Line, Summary};
use crate::config::plugin_resource::ShadowVerdict;
use crate::reconcile::fingerprint::parents_basis;
use crate::rollout::dry_run::{NotRun, ShadowPermit, waiting_component};
use crate::rollout::managed_plugin::ManagedPlugin;
use hotshoe_core::compare::{Difference, Named};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::sanitize;

/// The maximum number of differences in a verdict.
const MAX_SAMPLE: usize = 10;
/// The maximum length of a difference, in bytes.
const MAX_DIFFERENCE_BYTES: usize = 400;
/// How many lines of the run may wait to be read.
const QUEUED_LINES: usize = 16;

/// The time between two runs, at least.
const RUN_PAUSE: Duration = Duration::from_secs(60);

/// The components that are compared, and the result.
#[derive(Default)]
pub(super) struct Verdicts {
    /// The component that waits for approval, and the active one.
    pair: Option<(Digest, Digest)>,
    schedule: Schedule,
    /// The result of the last run that has ended.
    found: Arc<Mutex<Option<ShadowVerdict>>>,
    task: Option<AbortOnDropHandle<()>>,
}

impl Verdicts {
    /// Returns the verdict on the component that waits for approval, if it is known. Starts a run if there was none, or
    /// if the last one is outdated or incomplete; until it ends, the last verdict stays.
    pub(super) fn of(&mut self, plugin: &Arc<ManagedPlugin>) -> Option<ShadowVerdict> {
        let waiting = plugin.refused().filter(|refused| refused.can_be_approved())?.digest?;
        let active = plugin.controller.active()?;
        let pair = (waiting, active.revision.digest());
        if self.pair != Some(pair) {
            *self = Self { pair: Some(pair), ..Self::default() };
        }
        let last = match &self.task {
            None => LastRun::None,
            Some(task) if !task.is_finished() => LastRun::UnderWay,
            Some(_) => LastRun::Ended { complete: is_complete(self.found.lock().as_ref()) },
        };
        let basis = || Basis { config: plugin.plugin().digest, parents: parents_basis(&plugin.controller, &active) };
        if self.schedule.is_due(last, basis, Instant::now()) {
            self.start(plugin, pair);
        }
        self.found.lock().clone()
    }

    fn start(&mut self, plugin: &Arc<ManagedPlugin>, (waiting, active): (Digest, Digest)) {
        let (plugin, found) = (plugin.clone(), self.found.clone());
        let run = async move {
            let verdict = run(&plugin, waiting, active).await;
            *found.lock() = Some(verdict);
        };
        self.task = Some(AbortOnDropHandle::new(tokio::spawn(run)));
    }
}

fn is_complete(verdict: Option<&ShadowVerdict>) -> bool {
    verdict.is_some_and(|verdict| verdict.incomplete.is_none())
}

/// What a verdict depends on beside the two components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basis {
    /// The digest of the plugin's definition.
    config: Digest,
    /// The fingerprint of all parents without their statuses.
    parents: u64,
}

/// The state of the last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastRun {
    /// There was no run.
    None,
    /// The run is under way.
    UnderWay,
    /// It has ended.
    Ended {
        /// Whether all parents were compared.
        complete: bool,
    },
}

/// Decides when two components are compared again. Users change parents at any time, so there is a pause after each
/// run; and because a look at all parents takes time, too, they are looked at no more often.
#[derive(Debug, Default)]
struct Schedule {
    /// What the last run was based on.
    basis: Option<Basis>,
    /// The end of the pause.
    pause_ends: Option<Instant>,
}

impl Schedule {
    /// Returns whether a run is due now, which the caller then starts.
    fn is_due(&mut self, last: LastRun, basis: impl FnOnce() -> Basis, now: Instant) -> bool {
        let is_in_pause = self.pause_ends.is_some_and(|end| now < end);
        if last == LastRun::UnderWay || !is_in_pause {
            self.pause_ends = Some(now + RUN_PAUSE);
        }
        if last == LastRun::UnderWay || is_in_pause {
            return false;
        }
        let before = self.basis.replace(basis());
        before != self.basis || last != LastRun::Ended { complete: true }
    }
}

async fn run(plugin: &Arc<ManagedPlugin>, waiting: Digest, active: Digest) -> ShadowVerdict {
    let mut verdict = ShadowVerdict { compared_with: active.full(), ..ShadowVerdict::default() };
    if let Err(why) = compare(plugin, waiting, &mut verdict).await {
        verdict.incomplete = Some(why);
    }
    verdict
}

async fn compare(plugin: &Arc<ManagedPlugin>, waiting: Digest, verdict: &mut ShadowVerdict) -> Result<(), String> {
    let bytes = waiting_component(plugin, waiting).await?;
    let message = |error: NotRun| error.to_string();
    let shadow = ShadowPermit::begin(plugin).map_err(message)?.load(bytes).await.map_err(message)?;
    let (send, mut lines) = mpsc::channel(QUEUED_LINES);
    let read = async {
        while let Some(line) = lines.recv().await {
            match line {
                Line::Parent(difference) if verdict.sample.len() < MAX_SAMPLE => {
                    verdict.sample.push(in_one_line(&difference))
                }
                Line::Parent(_) | Line::Progress { .. } => {}
                Line::Summary(summary) => add(verdict, &summary),
            }
        }
    };
    tokio::join!(shadow.run(send), read);
    Ok(())
}

fn add(verdict: &mut ShadowVerdict, summary: &Summary) {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let counts = summary.counts;
    verdict.parents = count(counts.parents);
    verdict.changed = count(counts.changed);
    verdict.failing = count(counts.failures.new);
    verdict.created = count(counts.children.created);
    verdict.updated = count(counts.children.changed);
    verdict.deleted = count(counts.children.deleted);
    let stored = summary.stored.in_words().into_iter().map(|line| sanitize::clean(line, MAX_DIFFERENCE_BYTES));
    verdict.sample.extend(stored);
    verdict.incomplete = summary.stopped.clone().or_else(|| summary.stored.stopped.clone());
}

/// Returns in one line what would change for a parent: objects and paths of fields, but no value of a field and no word
/// of the plugin. Who may read the status of a `Plugin` may often not read the namespaces of its parents.
fn in_one_line(difference: &Difference) -> String {
    let mut text = named(&difference.parent);
    for (what, children) in
        [("creates", &difference.created), ("deletes", &difference.deleted), ("leaves", &difference.left)]
    {
        for child in children {
            text += &format!("; {what} {}", named(child));
        }
    }
    for changed in &difference.changed {
        text += &format!("; changes {}", named(&changed.object));
        let paths: Vec<&str> = changed.fields.iter().map(|field| &*field.path).collect();
        text += &format!(" in {}", paths.join(", "));
    }
    if difference.changes_status() {
        text.push_str("; changes its status");
    }
    if let Some(failed) = &difference.new_failure {
        text += &format!("; fails: {}", failed.reason);
    }
    sanitize::clean(text, MAX_DIFFERENCE_BYTES)
}

fn named(Named { kind, namespace, name }: &Named) -> String {
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_in_one_line_names_objects_and_paths_but_no_value_and_no_word_of_the_plugin() {
        let named = |kind: &str| json!({ "kind": kind, "namespace": "shop", "name": "cache" });
        let field = |path: &str| json!({ "path": path, "old": "hunter2", "new": "hunter3" });
        let difference = json!({
            "parent": named("Memcached"),
            "deleted": [named("Service")],
            "changed": [{ "object": named("ConfigMap"), "fields": [field("data.password"), field("data.user")] }],
            "newFailure": { "reason": "Rejected", "message": "hunter2 is too short" },
        });
        let line = in_one_line(&serde_json::from_value(difference).unwrap());
        let expected = "Memcached shop/cache; deletes Service shop/cache; changes ConfigMap shop/cache in data.password, data.user; fails: Rejected";
        assert_eq!(line, expected);
    }

    const SECOND: Duration = Duration::from_secs(1);
    const COMPLETE: LastRun = LastRun::Ended { complete: true };

    fn basis(config: &str, parents: u64) -> Basis {
        Basis { config: Digest::of(config.as_bytes()), parents }
    }

    /// Returns a schedule whose first run, based on `basis("a", 1)`, began at the returned time.
    fn begun() -> (Schedule, Instant) {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        assert!(schedule.is_due(LastRun::None, || basis("a", 1), now));
        (schedule, now)
    }

    #[test]
    fn a_complete_run_is_not_repeated_while_configuration_and_parents_stay_the_same() {
        let (mut schedule, began) = begun();
        for minutes in 1..100 {
            assert!(!schedule.is_due(COMPLETE, || basis("a", 1), began + RUN_PAUSE * minutes));
        }
    }

    #[test]
    fn a_changed_configuration_or_parent_and_an_incomplete_run_lead_to_another_run_after_a_pause() {
        for (last, changed) in
            [(COMPLETE, basis("b", 1)), (COMPLETE, basis("a", 2)), (LastRun::Ended { complete: false }, basis("a", 1))]
        {
            let (mut schedule, began) = begun();
            assert!(!schedule.is_due(last, || changed, began + RUN_PAUSE - SECOND), "{changed:?}");
            assert!(schedule.is_due(last, || changed, began + RUN_PAUSE), "{changed:?}");
            assert!(!schedule.is_due(last, || basis("c", 3), began + RUN_PAUSE + SECOND), "{changed:?}");
            assert!(!schedule.is_due(COMPLETE, || changed, began + RUN_PAUSE * 2), "{changed:?}");
        }
    }

    #[test]
    fn no_run_is_started_while_one_is_under_way_and_the_pause_begins_at_its_end() {
        let (mut schedule, began) = begun();
        let ended = began + RUN_PAUSE * 10;
        assert!(!schedule.is_due(LastRun::UnderWay, || panic!("no parent is looked at"), ended));
        assert!(!schedule.is_due(COMPLETE, || panic!("no parent is looked at"), ended + RUN_PAUSE - SECOND));
        assert!(schedule.is_due(COMPLETE, || basis("a", 2), ended + RUN_PAUSE));
    }

    #[test]
    fn a_change_that_is_made_while_a_run_is_under_way_leads_to_another_run() {
        let (mut schedule, began) = begun();
        assert!(!schedule.is_due(LastRun::UnderWay, || basis("a", 2), began + SECOND));
        assert!(schedule.is_due(COMPLETE, || basis("a", 2), began + SECOND + RUN_PAUSE));
    }

    #[test]
    fn all_parents_are_looked_at_once_in_a_pause() {
        let (mut schedule, began) = begun();
        assert!(!schedule.is_due(COMPLETE, || basis("a", 1), began + RUN_PAUSE));
        let again = began + RUN_PAUSE * 2 - SECOND;
        assert!(!schedule.is_due(COMPLETE, || panic!("no parent is looked at"), again));
    }

    #[test]
    fn a_run_without_a_verdict_or_not_about_all_parents_is_incomplete() {
        let incomplete =
            ShadowVerdict { incomplete: Some("a shadow run is under way".into()), ..ShadowVerdict::default() };
        assert!(!is_complete(None) && !is_complete(Some(&incomplete)));
        assert!(is_complete(Some(&ShadowVerdict::default())));
    }
}
