//! One controller per plugin: loads its component, opens the watches that it asks for, starts its
//! workers, and swaps its logic when the component changes.
//!
//! ```text
//! new bytes ─▶ Revision::load ─▶ grants ─▶ watches synced ─▶ first call ─▶ publish ─▶ all decided again
//!                  └──────────────┴── anything wrong: the last good revision goes on
//! ```

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::breaker;
use crate::cluster::apply::Writer;
use crate::cluster::client::Cluster;
use crate::cluster::events::Recorder;
use crate::cluster::identity::Identity;
use crate::cluster::pace::Pace;
use crate::cluster::watch::{Health, Watches};
use crate::config::{CONCURRENCY, PluginConfig};
use crate::controller::{Controller, Logic};
use crate::decision::{Call, Descriptor, Kind};
use crate::error::LoadError;
use crate::grant::Verb;
use crate::metrics::Metrics;
use crate::object::{Key, Object};
use crate::plugin::cases::Case;
use crate::plugin::compile::Compiler;
use crate::plugin::engine::Engine;
use crate::plugin::revision::{Digest, Revision};
use crate::plugin::slot::Refused;
use crate::plugin::source::{self, Source};
use crate::reconcile::{self, Next, Pass};
use crate::wiring;

/// How long a parent rests whose reconcile panicked: a fault of the host, not of the plugin.
const AFTER_PANIC: Duration = Duration::from_secs(30);

/// How long who asked for a reload waits for a component to be taken.
const RELOAD: Duration = Duration::from_secs(60);

/// What all plugins share.
pub struct Shared {
    /// The connection.
    pub cluster: Cluster,
    /// The watches.
    pub watches: Watches,
    /// Where Events go.
    pub recorder: Recorder,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where components run.
    pub engine: Engine,
    /// What makes native code of them.
    pub compiler: Compiler,
    /// The namespace of the plugins' ServiceAccounts.
    pub namespace: String,
}

/// A plugin that is supervised.
pub struct Supervised {
    /// The plugin at work.
    pub controller: Arc<Controller>,
    /// What all plugins share.
    pub shared: Arc<Shared>,
    /// One permit: whoever runs a revision in the shadow of the one that decides holds it.
    pub shadow: Arc<Semaphore>,
    state: Mutex<State>,
    reloads: mpsc::Sender<oneshot::Sender<PluginStatus>>,
}

#[derive(Default)]
struct State {
    loading: Option<String>,
    since: Option<Instant>,
}

/// How a plugin is, for people and scripts.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Its name.
    pub name: String,
    /// The file of its component.
    pub source: String,
    /// Whether it decides.
    pub ready: bool,
    /// What it waits for, if it does not.
    pub waiting: Option<String>,
    /// The revision that decides.
    pub digest: Option<String>,
    /// Its version, as it says.
    pub version: Option<String>,
    /// Since how many seconds.
    pub seconds: Option<u64>,
    /// A newer revision that was not taken.
    pub refused: Option<Refused>,
    /// How many parents there are.
    pub parents: usize,
    /// How many wait for a reconcile.
    pub queued: usize,
    /// How many are being reconciled.
    pub running: usize,
    /// Whether it is called.
    pub breaker: breaker::Shown,
    /// Its watches.
    pub watches: Vec<WatchStatus>,
}

/// How a watch is.
#[derive(Clone, Debug, Serialize)]
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
    /// Starts a plugin.
    pub fn start(plugin: PluginConfig, shared: Arc<Shared>) -> Arc<Self> {
        let (reloads, requests) = mpsc::channel(1);
        let identity = Identity::plugin(&shared.namespace, &plugin.name);
        let kinds = shared.watches.kinds.clone();
        let pace = Pace::new(&plugin.name, &plugin.limits, shared.metrics.clone());
        let writer = Writer::new(shared.cluster.clone(), kinds.clone(), &plugin.name, identity, pace);
        let controller = Controller::new(plugin, writer, shared.recorder.clone(), kinds, shared.metrics.clone());
        let supervised = Arc::new(Self {
            controller: Arc::new(controller),
            shared,
            shadow: Arc::new(Semaphore::new(1)),
            state: Mutex::default(),
            reloads,
        });
        tokio::spawn(dispatch(supervised.controller.clone()));
        tokio::spawn(follow(supervised.clone(), requests));
        supervised
    }

    /// Looks at the component now, and says what came of it.
    pub async fn reload(&self) -> Option<PluginStatus> {
        let (reply, status) = oneshot::channel();
        self.reloads.send(reply).await.ok()?;
        status.await.ok()
    }

    /// How it is.
    pub fn status(&self) -> PluginStatus {
        let logic = self.controller.logic();
        let refused = self.controller.slot.refused();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (queued, running) = self.controller.queue.depth();
        let watches = self.watches();
        let failing: Vec<String> = watches.iter().filter_map(|watch| watch.failing.clone()).collect();
        let failing = (!failing.is_empty()).then(|| failing.join("; "));
        PluginStatus {
            name: self.controller.plugin.name.to_string(),
            source: self.controller.plugin.component_path().display().to_string(),
            ready: logic.is_some() && failing.is_none(),
            waiting: failing.or_else(|| match (&logic, &refused, &state.loading) {
                (Some(_), ..) => None,
                (None, Some(refused), _) => Some(refused.message.clone()),
                (None, None, loading) => loading.clone(),
            }),
            digest: logic.as_ref().map(|logic| logic.revision.digest().full()),
            version: logic.as_ref().map(|logic| logic.revision.descriptor().version.clone()),
            seconds: state.since.map(|since| since.elapsed().as_secs()),
            refused,
            parents: logic.map_or(0, |logic| logic.parents.watched.cache.len()),
            queued,
            running,
            breaker: self.controller.breaker.shown(tokio::time::Instant::now()),
            watches,
        }
    }

    fn watches(&self) -> Vec<WatchStatus> {
        let name = &self.controller.plugin.name;
        let mut watches: Vec<_> = self.shared.watches.all().into_iter().filter(|w| w.is_subscribed(name)).collect();
        watches.sort_by(|a, b| a.scope.kind.cmp(&b.scope.kind));
        let status = |watched: &Arc<crate::cluster::watch::Watched>| {
            let health = watched.health();
            WatchStatus {
                kind: watched.scope.kind.to_string(),
                selector: watched.scope.selector.clone(),
                objects: watched.cache.len(),
                synced: health == Health::Synced,
                failing: match health {
                    Health::Failing(why) => Some(why),
                    _ => None,
                },
            }
        };
        watches.iter().map(status).collect()
    }

    fn loading(&self, what: &str) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).loading = Some(what.to_owned());
    }

    /// The last good revision goes on; the reason is in the log, the status and the metrics.
    fn refuse(&self, digest: Option<Digest>, error: &LoadError) {
        let plugin = &*self.controller.plugin.name;
        let short = digest.map(|digest| digest.to_string());
        let kept = self.controller.logic().map(|logic| logic.revision.digest().to_string());
        tracing::error!(
            plugin,
            digest = short,
            keeps = kept,
            reason = error.reason(),
            "the component is not taken: {error}"
        );
        self.controller.metrics.revision(plugin, error.reason());
        self.controller.slot.refuse(Refused::new(digest, error));
    }

    async fn take(self: Arc<Self>, offered: Result<source::Candidate, LoadError>) {
        let source::Candidate { digest, bytes } = match offered {
            Ok(candidate) => candidate,
            Err(error) => return self.refuse(None, &error),
        };
        if self.controller.logic().is_some_and(|logic| logic.revision.digest() == digest) {
            return self.controller.slot.forgive();
        }
        if let Err(error) = self.try_take(bytes).await {
            self.refuse(Some(digest), &error);
        }
    }

    async fn try_take(&self, bytes: Vec<u8>) -> Result<(), LoadError> {
        let began = Instant::now();
        let plugin = &self.controller.plugin;
        self.loading("the component is being compiled");
        let shared = &self.shared;
        let revision = Revision::load(&shared.engine, &shared.compiler, bytes, plugin.limits.clone()).await?;
        check_grants(revision.descriptor(), plugin)?;
        let loaded = began.elapsed();
        self.loading("the caches are being filled");
        let logic = wiring::wire(&self.controller, &shared.watches, Arc::new(revision)).await?;
        first_call(&self.controller, &logic).await?;
        let (digest, version) = (logic.revision.digest().to_string(), logic.revision.descriptor().version.clone());
        let parents = logic.parents.watched.cache.len();
        let before = self.controller.logic().map(|logic| logic.revision.digest().to_string());
        self.controller.publish(Arc::new(logic));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State { since: Some(Instant::now()), ..State::default() };
        drop(state);
        wiring::release(&self.controller, &shared.watches);
        self.controller.metrics.revision(&plugin.name, "Published");
        tracing::info!(plugin = &*plugin.name, digest, version, before, loaded = ?loaded, parents, "the component decides from now on");
        Ok(())
    }
}

/// What `describe` asks for must have been given; asking gives nothing.
///
/// # Errors
/// What is asked for and not given.
pub fn check_grants(descriptor: &Descriptor, plugin: &PluginConfig) -> Result<(), LoadError> {
    let missing = |verb: Verb, kind: &Kind| !plugin.grant.allows(verb, kind);
    let watching = [Verb::Get, Verb::List, Verb::Watch];
    let writing =
        |owned: &crate::decision::OwnedKind| owned.verbs.iter().map(|verb| Verb::from(*verb)).collect::<Vec<_>>();
    let asked = descriptor
        .owns
        .iter()
        .map(|owned| (&owned.kind, [watching.to_vec(), writing(owned)].concat()))
        .chain(descriptor.reads.iter().map(|read| (&read.kind, watching.to_vec())));
    for (kind, verbs) in asked {
        let lacking: Vec<_> = verbs.into_iter().filter(|verb| missing(*verb, kind)).map(Verb::as_str).collect();
        if !lacking.is_empty() {
            return Err(LoadError::NotGranted(format!("{} on {kind}", lacking.join(", "))));
        }
    }
    Ok(())
}

/// A revision that cannot decide a parent that is there is not published, unless the one before it
/// cannot either. What it answers is not carried out.
async fn first_call(controller: &Controller, logic: &Logic) -> Result<(), LoadError> {
    let parents = &logic.parents.watched.cache;
    let decided = |parent: &Arc<Object>| controller.recall(parent).failures == 0;
    let Some(parent) = parents.keys().iter().filter_map(|key| parents.get(key)).find(decided) else {
        return try_carried_case(logic).await;
    };
    let memory = controller.recall(&parent);
    let call = if parent.deleting { Call::Finalize } else { Call::Reconcile };
    let name = parent.key.to_string();
    let observed = reconcile::observe(controller, logic, parent, &memory);
    let outcome = logic.revision.decide(call, observed.shown).await;
    outcome.map(drop).map_err(|error| LoadError::SelfTestFailed(format!("{name}: {error}")))
}

/// Without a parent, the first case that the component carries is one.
async fn try_carried_case(logic: &Logic) -> Result<(), LoadError> {
    let failed = |message: String| LoadError::SelfTestFailed(message);
    let Some(case) = Case::first_carried(logic.revision.cases()).map_err(failed)? else { return Ok(()) };
    let observation = case.observation(logic.revision.descriptor()).map_err(failed)?;
    let outcome = logic.revision.decide(case.call, Arc::new(observation)).await;
    outcome.map(drop).map_err(|error| failed(format!("case {:?}: {error}", case.name)))
}

/// Follows the component's file, one revision after the other. Taking one may wait long, for a
/// kind that is not there yet; a newer file takes its place.
async fn follow(supervised: Arc<Supervised>, mut requests: mpsc::Receiver<oneshot::Sender<PluginStatus>>) {
    let plugin = &supervised.controller.plugin;
    let mut source = Source::file(plugin.component_path(), plugin.limits.component_bytes);
    let mut taking: Option<Taking> = None;
    loop {
        tokio::select! {
            offered = source.next() => taking = Some(supervised.clone().take(offered).boxed()),
            () = finished(&mut taking) => taking = None,
            Some(reply) = requests.recv() => {
                // A file that was just written is read once it looks the same twice.
                if let Ok(offered) = tokio::time::timeout(4 * source::POLL, source.next()).await {
                    taking = Some(supervised.clone().take(offered).boxed());
                }
                if taking.is_some() && tokio::time::timeout(RELOAD, finished(&mut taking)).await.is_ok() {
                    taking = None;
                }
                // Whoever asked may have gone.
                drop(reply.send(supervised.status()));
            }
        }
    }
}

type Taking = futures::future::BoxFuture<'static, ()>;

/// Ends when what is being taken is; never, where nothing is.
async fn finished(taking: &mut Option<Taking>) {
    match taking {
        Some(taking) => taking.await,
        None => std::future::pending().await,
    }
}

/// Takes parents from the queue, a bounded number at once.
async fn dispatch(controller: Arc<Controller>) {
    let slots = Arc::new(Semaphore::new(CONCURRENCY));
    while let Ok(slot) = slots.clone().acquire_owned().await {
        let key = controller.queue.next().await;
        let controller = controller.clone();
        tokio::spawn(async move {
            let again = work(&controller, &key).await;
            controller.queue.done(&key, again);
            let (waiting, running) = controller.queue.depth();
            controller.metrics.queue(&controller.plugin.name, waiting, running);
            drop(slot);
        });
    }
}

async fn work(controller: &Controller, key: &Key) -> Option<Duration> {
    let began = Instant::now();
    let outcome = AssertUnwindSafe(reconcile::reconcile(controller, key)).catch_unwind().await;
    let (result, again) = match outcome {
        Ok(Pass { failed: true, next }) => ("error", after(next)),
        Ok(Pass { next: next @ Next::Wait, .. }) => ("success", after(next)),
        Ok(Pass { next: next @ Next::Again, .. }) => ("requeue", after(next)),
        Ok(Pass { next: next @ Next::After(_), .. }) => ("requeue_after", after(next)),
        Err(_) => {
            tracing::error!(plugin = &*controller.plugin.name, object = %key, "a reconcile panicked; this is a fault of the host");
            ("panic", Some(AFTER_PANIC))
        }
    };
    controller.metrics.reconciled(&controller.plugin.name, result, began.elapsed());
    again
}

fn after(next: Next) -> Option<Duration> {
    match next {
        Next::Wait => None,
        // Behind the others that wait: writes of one object that follow each other closely find
        // the API server's own cache stale, and cost it a second try each.
        Next::Again => Some(Duration::ZERO),
        Next::After(after) => Some(after),
    }
}
