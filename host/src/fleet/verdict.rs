//! Runs a component that waits for approval in the shadow of the active one, once for each pair of components, and
//! summarizes what would change.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::config::plugin_resource::Verdict;
use crate::rollout::dry_run::{Line, NotRun, Turn};
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::sandbox::candidate::Candidate;
use crate::sandbox::safe_file;
use crate::shadow::summary::Summary;
use hotshoe_core::compare::{Difference, Named};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::sanitize;

/// The maximum number of differences in a verdict.
const MAX_SAMPLE: usize = 10;
/// The maximum length of a difference, in bytes.
const MAX_DIFFERENCE_BYTES: usize = 400;
/// How many lines of the run may wait to be read.
const QUEUED_LINES: usize = 16;

/// The components that are compared, and the result.
#[derive(Default)]
pub(super) struct Verdicts {
    /// The component that waits for approval, and the active one.
    pair: Option<(Digest, Digest)>,
    found: Arc<Mutex<Option<Verdict>>>,
    task: Option<AbortOnDropHandle<()>>,
}

impl Verdicts {
    /// Returns the verdict on the component that waits for approval, if it is known. Otherwise starts the run.
    pub(super) fn of(&mut self, plugin: &Arc<ManagedPlugin>) -> Option<Verdict> {
        let waiting = plugin.controller.slot.refused().filter(|refused| refused.can_be_approved())?.digest?;
        let active = plugin.controller.active()?.revision.digest();
        if self.pair != Some((waiting, active)) {
            self.found = Arc::default();
            self.pair = Some((waiting, active));
            let (plugin, found) = (plugin.clone(), self.found.clone());
            let run = async move {
                let verdict = run(&plugin, waiting, active).await;
                *found.lock() = Some(verdict);
            };
            self.task = Some(AbortOnDropHandle::new(tokio::spawn(run)));
        }
        self.found.lock().clone()
    }
}

async fn run(plugin: &Arc<ManagedPlugin>, waiting: Digest, active: Digest) -> Verdict {
    let mut verdict = Verdict { compared_with: active.full(), ..Verdict::default() };
    if let Err(why) = compare(plugin, waiting, &mut verdict).await {
        verdict.incomplete = Some(why);
    }
    verdict
}

async fn compare(plugin: &Arc<ManagedPlugin>, waiting: Digest, verdict: &mut Verdict) -> Result<(), String> {
    let bytes = component(plugin, waiting).await?;
    let message = |error: NotRun| error.to_string();
    let shadow = Turn::begin(plugin).map_err(message)?.load(bytes).await.map_err(message)?;
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

/// Reads the component that waits for approval. Its file may have another component by now.
async fn component(plugin: &ManagedPlugin, waiting: Digest) -> Result<Vec<u8>, String> {
    let config = plugin.plugin();
    let (path, most) = (config.component_path().to_owned(), config.limits.component_bytes);
    let read = tokio::task::spawn_blocking(move || safe_file::read_whole(&path, most)).await;
    let bytes = read.ok().and_then(Result::ok).flatten().ok_or("the component cannot be read")?;
    let is_it = Candidate::of(bytes.clone()).digest() == waiting;
    is_it.then_some(bytes).ok_or_else(|| "its source has another component by now".to_owned())
}

fn add(verdict: &mut Verdict, summary: &Summary) {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let counts = summary.counts;
    verdict.parents = count(counts.parents);
    verdict.changed = count(counts.changed);
    verdict.failing = count(counts.failures.new);
    verdict.created = count(counts.children.created);
    verdict.updated = count(counts.children.changed);
    verdict.deleted = count(counts.children.deleted);
    verdict.incomplete = summary.stopped.clone();
}

/// Returns in one line what would change for a parent. Values that depend on a Secret are already hidden in the
/// difference.
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
        for field in &changed.fields {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
            text += &format!(" {}: {} to {}", field.path, value(&field.old), value(&field.new));
        }
    }
    if difference.changes_status() {
        text.push_str("; changes its status");
    }
    if let Some(failed) = &difference.new_failure {
        text += &format!("; fails: {}: {}", failed.reason, failed.message);
    }
    sanitize::clean(text, MAX_DIFFERENCE_BYTES)
}

fn named(Named { kind, namespace, name }: &Named) -> String {
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}
