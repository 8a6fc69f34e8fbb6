//! Runs a revision in the shadow of the active one: the revision is called about every parent, and none of its answers
//! is applied.
//!
//! ```text
//!                       ┌─▶ old: observe ─▶ decide ─▶ check ─┐
//! each parent, one time ┤                                    ├─▶ compare ─▶ a line, where they differ
//!                       └─▶ new: observe ─▶ decide ─▶ check ─┘                 …  the summary at last
//! ```
//!
//! Both revisions see the same caches at the same time, so that a difference comes from the component. Neither
//! call is logged, counted or seen by the circuit breaker. Parents are compared one after the
//! other and each line is sent at once, so that ten thousand need no more memory than ten.
//!
//! A kind that only the new revision reads is watched for as long as the run takes. A field that
//! only the new revision reads stays in the caches afterwards, as after a reload.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::api::shadow::{Counts, Line, Measured, Summary, Times};
use crate::api::status::RefusedComponent;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::gate::Gate;
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::verify::{finalizer_change, objection, try_carried_cases};
use crate::rollout::views;
use crate::rollout::views::Views;
use crate::shadow::evaluate::{self, UncheckedAnswer};
use crate::shadow::impact::{self, Found, OVERDUE, Survey};
use crate::shadow::stored::{self, Depth};
use hotshoe_cluster::shared_watch::Viewer;
use hotshoe_cluster::time::unix_millis;
use hotshoe_core::compare::stored::StoredParents;
use hotshoe_core::compare::{self, Difference};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::{Key, ObjectRef};
use hotshoe_core::model::object::Object;
use hotshoe_platform::candidate::Candidate;
use hotshoe_platform::safe_file;
use hotshoe_platform::spans;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::error::LoadError;
use hotshoe_sandbox::revision::{Loaded, Revision};

/// How long the caches of kinds that only the new revision reads may need to fill.
const WATCHES_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the progress of a run is sent.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Why no run was made.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// Another run is in progress.
    #[error("a shadow run of {0} is under way; wait for its end, or end it, and try again")]
    Busy(Arc<str>),
    /// The plugin has no revision yet.
    #[error(
        "{0} has no active revision yet, so there is nothing to compare with; `hotshoe status` says what it waits for"
    )]
    NothingActive(Arc<str>),
    /// No component waits for an approval.
    #[error("no component of {0} waits for an approval; `hotshoe status` says what the host has")]
    NothingWaits(Arc<str>),
    /// The component that waits cannot be had any more.
    #[error("the component that waits cannot be compared: {0}")]
    Gone(&'static str),
    /// The component did not arrive, or is too large.
    #[error("the component cannot be read, or has more than the {limit} bytes that are accepted")]
    NotRead {
        /// The maximum size of a component, in bytes.
        limit: u64,
    },
    /// The component did not arrive within the time limit.
    #[error("the component was not received within {0:?}; send it again")]
    Late(Duration),
    /// The component cannot be loaded, so a reload would refuse it, too.
    #[error("{reason}: {0}", reason = .0.reason())]
    Load(#[from] LoadError),
    /// The new revision reads a kind that cannot be watched.
    #[error("the new revision was not run: {0}")]
    Watches(String),
}

/// The right to run one revision in the shadow of a plugin; there is one at a time.
pub struct ShadowPermit {
    plugin: Arc<ManagedPlugin>,
    _permit: OwnedSemaphorePermit,
}

impl ShadowPermit {
    /// Begins a run.
    ///
    /// # Errors
    /// When a run is under way.
    pub fn begin(plugin: &Arc<ManagedPlugin>) -> Result<Self, NotRun> {
        let permit = plugin.shadow.clone().try_acquire_owned();
        let busy = |_| NotRun::Busy(plugin.controller.name.clone());
        Ok(Self { plugin: plugin.clone(), _permit: permit.map_err(busy)? })
    }

    /// Loads the component that waits for an approval, and activates nothing.
    ///
    /// # Errors
    /// When none waits, or its source has another one by now, or as [`Self::load`].
    pub async fn load_waiting(self) -> Result<Shadow, NotRun> {
        let refused = self.plugin.refused().filter(|refused| refused.can_be_approved());
        let waiting = refused.and_then(|refused| refused.digest);
        let waiting = waiting.ok_or_else(|| NotRun::NothingWaits(self.plugin.controller.name.clone()))?;
        let bytes = waiting_component(&self.plugin, waiting).await.map_err(NotRun::Gone)?;
        self.load(bytes).await
    }

    /// Loads a component as for a reload, up to its watches, and activates nothing.
    ///
    /// # Errors
    /// When a reload would refuse the component, too, or no revision is active yet.
    pub async fn load(self, bytes: Vec<u8>) -> Result<Shadow, NotRun> {
        let (controller, shared) = (self.plugin.controller.clone(), self.plugin.shared.clone());
        let plugin = self.plugin.plugin();
        let old = controller.active().ok_or_else(|| NotRun::NothingActive(plugin.name.clone()))?;
        let candidate = tokio::task::spawn_blocking(move || Candidate::of(bytes)).await;
        let candidate = candidate.map_err(|error| LoadError::LoadFailed(error.to_string()))?;
        let (component, limits, memory) = (candidate, plugin.limits.clone(), &plugin.memory);
        let loaded = Revision::load(&shared.engine, &shared.compiler, component, limits, Purpose::Trial, memory);
        let Loaded { revision, cases } = loaded.await?;
        plugin.ensure_granted(revision.descriptor(), &controller.kinds)?;
        try_carried_cases(&revision, cases).await?;
        let viewer = Viewer::shadow(&plugin.name);
        let views = Views::of(shared.watches.clone(), viewer.clone());
        let wired = views.open(&controller, plugin, revision, &[]);
        let wired = tokio::time::timeout(WATCHES_TIMEOUT, wired).await;
        let late = |_| NotRun::Watches(views::unsynced_reason(&shared.watches, &viewer).unwrap_or_default());
        let mut new = wired.map_err(late)??;
        new.former_finalizers = self.plugin.former_finalizers(&new);
        Ok(Shadow { _views: views, old, new, permit: self })
    }
}

/// Reads the component that waits for approval. Its file may have another component by now.
///
/// # Errors
/// When it cannot be read, or is another one.
pub async fn waiting_component(plugin: &ManagedPlugin, waiting: Digest) -> Result<Vec<u8>, &'static str> {
    let config = plugin.plugin();
    let (path, most) = (config.component_path().to_owned(), config.limits.component_bytes);
    let read = tokio::task::spawn_blocking(move || safe_file::read_whole(&path, most)).await;
    let bytes = read.ok().and_then(Result::ok).flatten().ok_or("the component cannot be read")?;
    let is_it = Candidate::of(bytes.clone()).digest() == waiting;
    is_it.then_some(bytes).ok_or("its source has another component by now")
}

/// A revision that is ready to be run.
pub struct Shadow {
    // Declared before `permit`, and so dropped before it: afterwards, this would end the watches of the next run.
    _views: Views,
    old: Arc<ActiveRevision>,
    new: ActiveRevision,
    permit: ShadowPermit,
}

impl Shadow {
    /// Runs the revision over every parent. Sends each parent that would change at once, the progress at intervals, and
    /// the summary at the end. Stops early when the receiver is gone.
    pub async fn run(self, lines: mpsc::Sender<Line>) {
        let began = Instant::now();
        let mut keys = self.new.parents.watch.cache.keys();
        // So that the outputs of two runs can be compared.
        keys.sort_unstable();
        let mut run = Run::default();
        let mut sent = began;
        for (number, key) in keys.iter().enumerate() {
            if let Some(difference) = self.compare_parent(key, &mut run).await
                && lines.send(Line::Parent(Box::new(difference))).await.is_err()
            {
                return;
            }
            if run.overdue >= OVERDUE {
                break;
            }
            if sent.elapsed() >= PROGRESS_INTERVAL {
                sent = Instant::now();
                if lines.send(Line::Progress { parents: number + 1, of: keys.len() }).await.is_err() {
                    return;
                }
            }
        }
        let watches = &self.permit.plugin.shared.watches;
        let stored = tokio::select! {
            stored = stored::survey(watches, &self.old, &self.new, Depth::Everything) => stored,
            () = lines.closed() => return,
        };
        let summary = self.summary(run, stored, keys.len(), began.elapsed());
        spans::plugin(&summary.plugin).in_scope(|| self.log(&summary));
        // The receiver may be gone.
        drop(lines.send(Line::Summary(Box::new(summary))).await);
    }

    fn log(&self, Summary { counts, .. }: &Summary) {
        tracing::info!(
            old = %self.old.revision.digest(),
            new = %self.new.revision.digest(),
            parents = counts.parents,
            changed = counts.changed,
            failing = counts.failures.new,
            "a component was run in the shadow of the active one; nothing was written"
        );
    }

    async fn compare_parent(&self, key: &Key, run: &mut Run) -> Option<Difference> {
        let parent = self.new.parents.watch.cache.get(key)?;
        let before = self.parent_of_old(&parent);
        let controller = &self.permit.plugin.controller;
        let memory = controller.recall(&parent);
        let now = unix_millis();
        // Both at the same time: waking a thread, and being woken by it, takes longer than a short call.
        let (old, new) = tokio::join!(
            UncheckedAnswer::ask(controller, &self.old, before, &memory, now, &mut run.old),
            UncheckedAnswer::ask(controller, &self.new, Some(parent.clone()), &memory, now, &mut run.new),
        );
        run.overdue += usize::from(new.is_overdue());
        let is_same = old.is_same_as(&new) && self.has_the_same_rules();
        let new = new.checked(&self.new, None).await;
        let mut found = Found::of(&self.new, key, &memory, &new);
        if is_same {
            run.survey.add(&found);
            let side = evaluate::side(new);
            run.counts.count(&side, &side, None);
            return None;
        }
        let old = old.checked(&self.old, None).await;
        found.excuse(impact::is_failure(&old, &memory));
        if found.loses_of_canary(controller, &parent) {
            found.excuse_losing((&self.new, &new), (&self.old, &old));
        }
        run.survey.add(&found);
        let tainted = evaluate::is_tainted(&old) || evaluate::is_tainted(&new);
        let (old, new) = (evaluate::side(old), evaluate::side(new));
        let prunable = evaluate::prunable_children(&self.new, &parent);
        let reference = self.new.resource().reference(key);
        let gate = Gate::of(&self.new, &parent);
        let may_prune = |child: &ObjectRef| gate.check_prune(child).is_ok();
        let difference = compare::compare(&reference, (&old, &new), tainted, &prunable, may_prune);
        run.counts.count(&old, &new, difference.as_ref());
        difference
    }

    /// Returns the parent that the old revision is shown: the same object, unless the two revisions watch different
    /// parents.
    fn parent_of_old(&self, parent: &Arc<Object>) -> Option<Arc<Object>> {
        if self.old.parents.watch.scope == self.new.parents.watch.scope {
            return Some(parent.clone());
        }
        self.old.parents.watch.cache.get(&parent.key)
    }

    /// Returns whether the same answer has the same result in the checks of both revisions.
    fn has_the_same_rules(&self) -> bool {
        let (old, new) = (self.old.revision.descriptor(), self.new.revision.descriptor());
        old.parent == new.parent && old.owns == new.owns
    }

    /// Returns why a reload would not activate the revision, with the message that the reload would have.
    fn refused(&self, survey: &Survey, stored: &StoredParents) -> Option<RefusedComponent> {
        let digest = self.new.revision.digest();
        let rolled_back = self.permit.plugin.rolled_back(digest);
        let objection = || objection(&self.old, &self.new, survey, stored);
        let objection = || objection().map(|found| LoadError::ApprovalRequired(found.why));
        rolled_back.or_else(objection).map(|error| RefusedComponent::new(Some(digest), &error))
    }

    fn summary(&self, run: Run, stored: StoredParents, parents: usize, took: Duration) -> Summary {
        let stopped = (run.overdue >= OVERDUE).then(|| {
            format!(
                "{OVERDUE} calls of the new revision ran for longer than they may, so only {} of {parents} parents were looked at",
                run.counts.parents
            )
        });
        let survey = Survey { parents: if stopped.is_some() { parents } else { run.survey.looked_at }, ..run.survey };
        Summary {
            plugin: self.permit.plugin.controller.name.to_string(),
            refused: self.refused(&survey, &stored),
            stored,
            counts: run.counts,
            finalizer: finalizer_change(&self.old, &self.new),
            old: Measured::of(&self.old.revision, run.old),
            new: Measured::of(&self.new.revision, run.new),
            seconds: took.as_secs_f64(),
            stopped,
        }
    }
}

/// The findings of a run so far.
#[derive(Default)]
struct Run {
    counts: Counts,
    old: Times,
    new: Times,
    overdue: usize,
    survey: Survey,
}
