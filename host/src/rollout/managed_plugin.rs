//! A plugin with all that is known of it: what decides, what decided before, what `plugin.yaml` says; and
//! how it is, for people and scripts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::cluster::client::Cluster;
use crate::cluster::events::Recorder;
use crate::cluster::shared_watch::{Health, SharedWatch};
use crate::cluster::watch::Watches;
use crate::config::{HostSettings, PluginConfig};
use crate::reconcile::controller::{Controller, Deleting};
use crate::reconcile::slot::Refused;
use crate::reconcile::views;
use crate::rollout::history::History;
use crate::sandbox::compile::Compiler;
use crate::sandbox::engine::Engine;
use crate::sandbox::revision::Revision;
use crate::telemetry::metrics::Metrics;
use hotshoe_core::check::grant;
use hotshoe_core::flow::circuit_breaker::BreakerStatus;
use hotshoe_core::model::digest::Digest;

/// How long whoever has a wish waits for what comes of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// What takes longer is told in the log.
const LONG: Duration = Duration::from_secs(2);

/// What all plugins share.
pub struct Shared {
    /// The connection.
    pub cluster: Cluster,
    /// The watches.
    pub watches: Arc<Watches>,
    /// Where Events go.
    pub recorder: Recorder,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where components run.
    pub engine: Engine,
    /// What makes native code of them.
    pub compiler: Compiler,
    /// What is said about all plugins, the namespace of their ServiceAccounts above all.
    pub host: HostSettings,
    /// Where earlier revisions are kept.
    pub kept: Option<PathBuf>,
}

/// A plugin that is supervised.
pub struct Supervised {
    /// The plugin at work.
    pub controller: Arc<Controller>,
    /// What all plugins share.
    pub shared: Arc<Shared>,
    /// One permit: whoever runs a revision in the shadow of the one that decides holds it.
    pub shadow: Arc<Semaphore>,
    pub(crate) state: Mutex<State>,
    pub(crate) plugin_file: Mutex<PluginFile>,
    pub(crate) history: Arc<Mutex<History>>,
    /// What of the history cannot be kept, in a place of its own: whoever writes the history waits for the disk.
    pub(crate) history_failing: Arc<Mutex<Option<String>>>,
    requests: mpsc::Sender<Request>,
}

/// How far a plugin's revisions are.
#[derive(Default)]
pub(crate) struct State {
    /// The revision that is being taken.
    pub(crate) taking: Option<Taking>,
    /// Since when the present revision decides.
    pub(crate) since: Option<Instant>,
    /// The revision that decided before it.
    pub(crate) before: Option<Arc<Revision>>,
    /// It decides only until what was offered at the start is taken or refused.
    pub(crate) is_restored: bool,
}

/// A revision that is being taken, for people and scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taking {
    /// Its digest.
    pub digest: Digest,
    /// What it waits for.
    pub waits_for: String,
}

/// A revision is being taken for as long as this is there: whoever takes it may be stopped at any time.
pub(crate) struct UnderWay<'a>(&'a Mutex<State>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.lock().taking = None;
    }
}

/// `plugin.yaml`, as it was taken last.
pub(crate) struct PluginFile {
    /// What it said then.
    config: Arc<PluginConfig>,
    /// Why the file as it is now is not taken.
    pub(crate) refused: Option<String>,
}

impl PluginFile {
    /// What it says holds.
    pub(crate) fn taken(config: Arc<PluginConfig>) -> Self {
        Self { config, refused: None }
    }
}

/// What a person wants done about a plugin's revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Look at the component now.
    Reload,
    /// Have an earlier revision decide: the one whose digest begins so, or the last.
    RollBack(Option<String>),
    /// Let the component decide that was held or taken back.
    Approve(Option<String>),
}

/// A wish, and who is to be told what came of it.
pub(crate) struct Request {
    pub(crate) wish: Wish,
    pub(crate) reply: Reply,
}

/// To whom is told what came of a wish.
pub(crate) type Reply = oneshot::Sender<Result<PluginStatus, String>>;

/// How a plugin is, for people and scripts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Its name.
    pub name: String,
    /// The file of its component.
    pub source: String,
    /// The file that describes it.
    pub plugin_file: PluginFileStatus,
    /// Whether it decides.
    pub ready: bool,
    /// What it waits for, if it does not.
    pub waiting: Option<String>,
    /// The revision that decides.
    pub digest: Option<Digest>,
    /// Its version, as it says.
    pub version: Option<String>,
    /// Since how many seconds.
    pub seconds: Option<u64>,
    /// A newer revision that was not taken.
    pub refused: Option<Refused>,
    /// The revision that is being taken, which another may decide beside.
    pub taking: Option<Taking>,
    /// Why earlier revisions are not kept for going back to them after a restart.
    pub history_failing: Option<String>,
    /// How many parents there are.
    pub parents: usize,
    /// How many of them are in trouble.
    #[serde(default)]
    pub trouble: Trouble,
    /// Parents that have been deleting for longer than a minute.
    #[serde(default)]
    pub deleting: Option<Deleting>,
    /// How many wait for a reconcile.
    pub queued: usize,
    /// How many are being reconciled.
    pub running: usize,
    /// Why the host may not write as its ServiceAccount.
    pub unable: Option<String>,
    /// Whether it is called.
    pub breaker: BreakerStatus,
    /// Its watches.
    pub watches: Vec<WatchStatus>,
}

/// How many parents are not as they should be, by what is known of their last pass.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// The plugin failed, or its decision could not be carried out.
    pub failing: usize,
    /// The API server refuses some of their children.
    pub refused: usize,
}

/// How `plugin.yaml` is, for people and scripts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginFileStatus {
    /// Where it is.
    pub file: String,
    /// Why it is not taken as it is now; what it said before holds.
    pub refused: Option<String>,
    /// What the component at work asks for and is no longer granted.
    pub not_granted: Option<String>,
}

/// How a watch is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchStatus {
    /// The kind.
    pub kind: String,
    /// The label selector.
    pub selector: String,
    /// How many objects it has.
    pub objects: usize,
    /// What is wrong with it.
    pub failing: Option<String>,
    /// Whether it follows the API server.
    pub synced: bool,
}

impl Supervised {
    /// A plugin that nothing decides for yet.
    pub(crate) fn new(
        controller: Controller,
        shared: Arc<Shared>,
        plugin: PluginConfig,
        history: History,
        requests: mpsc::Sender<Request>,
    ) -> Self {
        Self {
            controller: Arc::new(controller),
            shared,
            shadow: Arc::new(Semaphore::new(1)),
            state: Mutex::default(),
            plugin_file: Mutex::new(PluginFile::taken(Arc::new(plugin))),
            history_failing: Arc::new(Mutex::new(history.failing().map(str::to_owned))),
            history: Arc::new(Mutex::new(history)),
            requests,
        }
    }

    /// What the administrator said last.
    pub fn plugin(&self) -> Arc<PluginConfig> {
        self.plugin_file.lock().config.clone()
    }

    /// Does what a person wants, and says what came of it; none while the host is shutting down.
    pub async fn wish(&self, wish: Wish) -> Option<Result<PluginStatus, String>> {
        let (reply, status) = oneshot::channel();
        self.requests.send(Request { wish, reply }).await.ok()?;
        match tokio::time::timeout(PATIENCE, status).await {
            Ok(done) => done.ok(),
            Err(_) => Some(Err(format!(
                "the component of {} is not taken after {PATIENCE:?}: {}; the host goes on trying, and `hotshoe status` says what came of it",
                self.controller.name,
                self.awaited()
            ))),
        }
    }

    /// What is awaited of the revision that is being taken.
    pub(crate) fn awaited(&self) -> String {
        self.taking().map_or_else(|| "its file is still being written".to_owned(), |taking| taking.waits_for)
    }

    /// The revision that is being taken, and what it waits for.
    fn taking(&self) -> Option<Taking> {
        let Taking { digest, waits_for } = self.state.lock().taking.clone()?;
        let waits_for = match views::not_seen(&self.shared.watches, &self.candidate_name()) {
            Some(why) => format!("{waits_for}: {why}"),
            None => waits_for,
        };
        Some(Taking { digest, waits_for })
    }

    /// A revision is being taken from now on, until this ends.
    pub(crate) fn begin(&self, digest: Digest) -> UnderWay<'_> {
        let waits_for = "the component is being compiled".to_owned();
        self.state.lock().taking = Some(Taking { digest, waits_for });
        UnderWay(&self.state)
    }

    /// What the revision that is being taken waits for now.
    pub(crate) fn waits_for(&self, what: &str) {
        if let Some(taking) = &mut self.state.lock().taking {
            what.clone_into(&mut taking.waits_for);
        }
    }

    /// Does what a revision needs to be taken, and tells what it waits for where that takes long.
    pub(crate) async fn telling<T>(&self, digest: Digest, work: impl Future<Output = T>) -> T {
        let (mut work, mut told) = (std::pin::pin!(work), String::new());
        loop {
            if let Ok(done) = tokio::time::timeout(LONG, &mut work).await {
                return done;
            }
            let awaited = self.awaited();
            if awaited != told {
                tracing::warn!(plugin = &*self.controller.name, %digest, "the component is not taken yet: {awaited}");
                told = awaited;
            }
        }
    }

    /// Under which a revision has its watches open until it decides.
    pub(crate) fn candidate_name(&self) -> String {
        format!("{} (next)", self.controller.name)
    }

    /// What decided before.
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock()
    }

    /// How it is.
    pub fn status(&self) -> PluginStatus {
        let logic = self.controller.logic();
        let refused = self.controller.slot.refused();
        let taking = self.taking();
        let (since, is_restored) = {
            let state = self.state.lock();
            (state.since, state.is_restored)
        };
        let (queued, running) = self.controller.queue.depth();
        let (failing_on, refused_of) = self.controller.in_trouble();
        let watches = self.watches();
        let failing: Vec<String> = watches.iter().filter_map(|watch| watch.failing.clone()).collect();
        let failing = (!failing.is_empty()).then(|| failing.join("; "));
        PluginStatus {
            name: self.controller.name.to_string(),
            source: self.plugin().component_path().display().to_string(),
            plugin_file: self.plugin_file_status(),
            ready: logic.is_some() && failing.is_none() && !is_restored,
            waiting: failing.or_else(|| match (&logic, &refused, &taking) {
                (Some(_), ..) if is_restored => {
                    let waits_for = taking.as_ref().map_or("the component is being read", |taking| &taking.waits_for);
                    Some(format!("what decided when the host ended goes on until then: {waits_for}"))
                }
                (Some(_), ..) => None,
                (None, Some(refused), _) => Some(refused.message.clone()),
                (None, None, taking) => taking.as_ref().map(|taking| taking.waits_for.clone()),
            }),
            digest: logic.as_ref().map(|logic| logic.revision.digest()),
            version: logic.as_ref().map(|logic| logic.revision.descriptor().version.clone()),
            seconds: since.map(|since| since.elapsed().as_secs()),
            refused,
            taking,
            history_failing: self.history_failing.lock().clone(),
            parents: logic.map_or(0, |logic| logic.parents.watched.cache.len()),
            trouble: Trouble { failing: failing_on, refused: refused_of },
            deleting: self.controller.deleting(),
            queued,
            running,
            unable: self.controller.writer.unable(),
            breaker: self.controller.breaker.shown(std::time::Instant::now()),
            watches,
        }
    }

    fn watches(&self) -> Vec<WatchStatus> {
        // Where nothing decides, the plugin waits for what the first one waits for.
        let name = match self.controller.logic() {
            Some(_) => self.controller.name.to_string(),
            None => self.candidate_name(),
        };
        let mut watches: Vec<_> = self.shared.watches.all().into_iter().filter(|w| w.is_subscribed(&name)).collect();
        watches.sort_by(|a, b| a.scope.kind.cmp(&b.scope.kind));
        let status = |watched: &Arc<SharedWatch>| {
            let health = watched.health();
            WatchStatus {
                kind: watched.scope.kind.to_string(),
                selector: watched.scope.selector.clone(),
                objects: watched.cache.len(),
                synced: health == Health::Synced,
                failing: match health {
                    Health::Failing(why) | Health::Silent(why) => Some(why),
                    _ => None,
                },
            }
        };
        watches.iter().map(status).collect()
    }

    /// How `plugin.yaml` is.
    fn plugin_file_status(&self) -> PluginFileStatus {
        let PluginFile { config: plugin, refused } = &*self.plugin_file.lock();
        PluginFileStatus {
            file: plugin.path.display().to_string(),
            refused: refused.clone(),
            not_granted: self.lacking(),
        }
    }

    /// What the component at work asks for and is no longer granted, and what that means.
    pub(crate) fn lacking(&self) -> Option<String> {
        let logic = self.controller.logic()?;
        let lacking = grant::lacking(logic.revision.descriptor(), &logic.plugin.grant)?;
        Some(format!(
            "the component at work asks for {lacking}, which plugin.yaml grants no longer: it is denied, and after a restart the component would not be taken; grant it again, or give the plugin a component that does without"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_stopped_nothing_is_said_to_be_taken() {
        let taking = Taking { digest: Digest::of(b"a"), waits_for: "its watches".to_owned() };
        let state = Mutex::new(State { taking: Some(taking), ..State::default() });
        drop(UnderWay(&state));
        assert_eq!(state.lock().taking, None);
    }
}
