//! One watch for each kind and selector, shared by the plugins that subscribe to it.
//!
//! A watch never ends on its own: a server that is away, a kind that is not there yet and a right
//! that is missing are states of its [`Health`], tried again with a low, jittered back-off, each
//! watch for itself, so that one kind that fails does not slow the others.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use kube::api::Api;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::cache::{Applied, Cache};
use crate::cluster::client::{Cluster, chain};
use crate::cluster::discovery::{Kinds, Resource};
use crate::cluster::wire::Wire;
use crate::decision::Kind;
use crate::object::{Lens, Object};

/// A dead connection is noticed this long after its last sign of life, plus 5 s.
const WATCH_SECONDS: u32 = 200;
/// Objects in one page of a list: the peak of memory at a start.
const PAGE: u32 = 50;
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// Low, because what counts after an outage is how soon changes are seen again.
const MAX_BACKOFF: Duration = Duration::from_secs(2);

const UNAUTHORIZED: &str = "the API server does not accept the host's credentials (401); renew its token or kubeconfig";

/// Which objects a watch sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Their kind.
    pub kind: Kind,
    /// A label selector; empty for all.
    pub selector: String,
}

/// How a watch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The first list has not ended.
    Starting,
    /// The cache follows the API server.
    Synced,
    /// What is wrong, and what to do.
    Failing(String),
}

/// Told of every change that is news, on the watch's own task, so it must be quick.
pub type Subscriber = Arc<dyn Fn(&Change) + Send + Sync>;

/// One change of one object.
#[derive(Clone, Debug)]
pub enum Change {
    /// It is new or different.
    Applied(Applied),
    /// It is gone.
    Deleted(Arc<Object>),
}

/// A watch and what it has seen.
pub struct Watched {
    /// Which objects.
    pub scope: Scope,
    /// The newest of them.
    pub cache: Cache,
    lens: RwLock<Arc<Lens>>,
    health: watch::Sender<Health>,
    /// By plugin, and by what the kind is to it: a plugin may see one kind in two roles.
    subscribers: Mutex<HashMap<(Arc<str>, String), Subscriber>>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Watched {
    fn new(scope: Scope, lens: Lens) -> Arc<Self> {
        Arc::new(Self {
            scope,
            cache: Cache::default(),
            lens: RwLock::new(Arc::new(lens)),
            health: watch::Sender::new(Health::Starting),
            subscribers: Mutex::default(),
            task: Mutex::default(),
        })
    }

    /// How it is now.
    pub fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// Waits until the first list has ended.
    pub async fn synced(&self) {
        // The sender lives in self, so the channel is open.
        drop(self.health.subscribe().wait_for(|health| *health == Health::Synced).await);
    }

    /// Whether this plugin is told of changes.
    pub fn is_subscribed(&self, plugin: &str) -> bool {
        let subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.keys().any(|(name, _)| **name == *plugin)
    }

    /// What it keeps of each object.
    pub fn lens(&self) -> Arc<Lens> {
        self.lens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes an object that did not come from the watch: the reply to a write, or a live read.
    /// Wakes nobody: whoever wrote knows. Returns the object as the text has it, even where the
    /// cache knows a newer one by now: what a write did is judged by its own reply.
    ///
    /// # Errors
    /// When the text is not a Kubernetes object.
    pub fn learn(&self, json: &str) -> serde_json::Result<Arc<Object>> {
        let object = Arc::new(Object::read(json, &self.lens())?);
        drop(self.cache.apply(object.clone()));
        Ok(object)
    }

    fn widen(&self, lens: &Lens) -> bool {
        let mut mine = self.lens.write().unwrap_or_else(PoisonError::into_inner);
        let mut wider = Lens::clone(&mine);
        wider.projection.merge(&lens.projection);
        wider.status |= lens.status;
        wider.labels.extend(lens.labels.iter().filter(|label| !mine.labels.contains(label)).cloned());
        let widens = wider != **mine;
        *mine = Arc::new(wider);
        widens
    }

    fn tell(&self, change: &Change) {
        let subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        for subscriber in subscribers.values() {
            subscriber(change);
        }
    }

    fn report(&self, health: Health) {
        self.health.send_if_modified(|known| {
            let changed = *known != health;
            if changed {
                match &health {
                    Health::Failing(why) => tracing::warn!(kind = %self.scope.kind, "{why}"),
                    Health::Synced => {
                        tracing::info!(kind = %self.scope.kind, objects = self.cache.len(), "the watch is up");
                    }
                    Health::Starting => {}
                }
                *known = health;
            }
            changed
        });
    }

    fn see(&self, event: watcher::Event<Wire>) {
        match event {
            watcher::Event::Init => self.cache.begin_list(),
            watcher::Event::InitApply(wire) | watcher::Event::Apply(wire) => self.see_applied(&wire),
            watcher::Event::Delete(wire) => self.see_deleted(&wire),
            watcher::Event::InitDone => {
                for gone in self.cache.end_list() {
                    self.tell(&Change::Deleted(gone));
                }
                self.report(Health::Synced);
            }
        }
    }

    fn see_applied(&self, wire: &Wire) {
        if self.cache.is_echo(&wire.key(), wire.version()) {
            return;
        }
        if let Some(applied) = self.read(wire).and_then(|object| self.cache.apply(object)) {
            self.tell(&Change::Applied(applied));
        }
    }

    fn see_deleted(&self, wire: &Wire) {
        if let Some(gone) = self.read(wire).and_then(|object| self.cache.delete(&object)) {
            self.tell(&Change::Deleted(gone));
        }
    }

    /// An object that cannot be read is skipped and named; it does not stop the others.
    fn read(&self, wire: &Wire) -> Option<Object> {
        match Object::read(wire.json(), &self.lens()) {
            Ok(object) => Some(object),
            Err(error) => {
                let object = wire.key();
                tracing::error!(kind = %self.scope.kind, %object, %error, "an object of the cluster cannot be read; it is skipped");
                None
            }
        }
    }
}

/// All watches of the process.
pub struct Watches {
    cluster: Cluster,
    /// What is known of the kinds.
    pub kinds: Arc<Kinds>,
    namespace: Option<String>,
    open: Mutex<HashMap<Scope, Arc<Watched>>>,
}

impl Watches {
    /// None yet; `namespace` restricts all that will be.
    pub fn new(cluster: Cluster, kinds: Arc<Kinds>, namespace: Option<String>) -> Self {
        Self { cluster, kinds, namespace, open: Mutex::default() }
    }

    /// The watch of a scope, opened or widened where need be, with a subscriber for a plugin in a
    /// role.
    pub fn subscribe(
        &self,
        scope: &Scope,
        lens: &Lens,
        (plugin, role): (&Arc<str>, &str),
        subscriber: Subscriber,
    ) -> Arc<Watched> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.get(scope).cloned();
        let watched = known.clone().unwrap_or_else(|| Watched::new(scope.clone(), lens.clone()));
        let mut subscribers = watched.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.insert((plugin.clone(), role.to_owned()), subscriber);
        drop(subscribers);
        if watched.widen(lens) || known.is_none() {
            self.start(&watched);
            open.insert(scope.clone(), watched.clone());
        }
        watched
    }

    /// Ends the interest of a plugin; a watch without any is closed.
    pub fn unsubscribe(&self, scope: &Scope, plugin: &str) {
        self.keep(scope, plugin, &[]);
    }

    /// The same, but for its interest in these roles.
    pub fn keep(&self, scope: &Scope, plugin: &str, roles: &[&str]) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = open.get(scope) else { return };
        let mut subscribers = watched.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|(name, role), _| **name != *plugin || roles.contains(&&**role));
        let deserted = subscribers.is_empty();
        drop(subscribers);
        if deserted {
            open.remove(scope);
        }
    }

    /// Every watch that is open.
    pub fn all(&self) -> Vec<Arc<Watched>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn start(&self, watched: &Arc<Watched>) {
        watched.health.send_replace(Health::Starting);
        let task = follow(
            Arc::downgrade(watched),
            watched.scope.clone(),
            self.cluster.clone(),
            self.kinds.clone(),
            self.namespace.clone(),
        );
        let task = AbortOnDropHandle::new(tokio::spawn(task));
        *watched.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }
}

/// Holds the watch weakly: the task is stopped by dropping the last strong reference.
async fn follow(
    watched: std::sync::Weak<Watched>,
    scope: Scope,
    cluster: Cluster,
    kinds: Arc<Kinds>,
    namespace: Option<String>,
) {
    let Some(resource) = wait_for_kind(&watched, &scope.kind, &cluster, &kinds).await else { return };
    let mut backoff = Backoff::default();
    loop {
        let mut events = watcher(api(&cluster, &resource, namespace.as_deref()), config(&scope.selector)).boxed();
        while let Some(event) = events.next().await {
            let Some(watched) = watched.upgrade() else { return };
            let error = match event {
                Ok(event) => {
                    backoff = Backoff::default();
                    watched.see(event);
                    continue;
                }
                Err(error) => error,
            };
            watched.report_error(&error);
            drop(watched);
            if is_silence(&error) {
                cluster.silence.note();
            }
            backoff.wait().await;
            // The client would resume in silence, and nothing would ever say that all is well
            // again: a new list does.
            if matches!(error, watcher::Error::WatchStartFailed(_)) {
                break;
            }
        }
    }
}

/// Asks until the API server serves the kind; `None` when nobody wants it any more.
async fn wait_for_kind(
    watched: &std::sync::Weak<Watched>,
    kind: &Kind,
    cluster: &Cluster,
    kinds: &Kinds,
) -> Option<Arc<Resource>> {
    let mut backoff = Backoff::default();
    loop {
        match kinds.find(cluster, kind).await {
            Ok(resource) => return Some(resource),
            Err(error) => watched.upgrade()?.report(Health::Failing(missing_kind(kind, &error))),
        }
        backoff.wait().await;
    }
}

impl Watched {
    /// A watch that the server closed or a connection that broke is resumed where it was; only
    /// what keeps the cache from following the server is a failure.
    fn report_error(&self, error: &watcher::Error) {
        match error {
            watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_) => {
                tracing::debug!(kind = %self.scope.kind, error = %chain(error), "the watch was interrupted");
            }
            _ => self.report(Health::Failing(failing(&self.scope.kind, error))),
        }
    }
}

/// Whether there was no answer, rather than one that is no good.
fn is_silence(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    let (InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)) = error else { return false };
    !matches!(error, kube::Error::Api(_))
}

fn missing_kind(kind: &Kind, error: &crate::error::ApiError) -> String {
    if error.code == 404 {
        return format!(
            "waiting for the kind {} of {}: the API server has none such; install its CustomResourceDefinition",
            kind.kind,
            kind.api_version()
        );
    }
    if error.code == 401 {
        return UNAUTHORIZED.to_owned();
    }
    format!("waiting for the API server: {error}")
}

fn failing(kind: &Kind, error: &watcher::Error) -> String {
    let refused = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    };
    match refused {
        Some(status) if status.code == 403 => {
            format!("{}; grant the host get, list and watch on {kind}, as `hotshoe rbac` prints it", status.message)
        }
        Some(status) if status.code == 401 => UNAUTHORIZED.to_owned(),
        Some(status) => format!("cannot watch {kind}: {}; it is tried again", status.message),
        None => format!("cannot watch {kind}: {}; it is tried again", chain(error)),
    }
}

fn api(cluster: &Cluster, resource: &Resource, namespace: Option<&str>) -> Api<Wire> {
    let kind = resource.to_api_resource();
    match namespace.filter(|_| resource.namespaced) {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &kind),
        None => Api::all_with(cluster.client.clone(), &kind),
    }
}

fn config(selector: &str) -> watcher::Config {
    let config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE);
    if selector.is_empty() { config } else { config.labels(selector) }
}

/// Exponential, capped low, with full jitter so that watches do not come back in step.
struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST_BACKOFF)
    }
}

impl Backoff {
    async fn wait(&mut self) {
        let half = self.0 / 2;
        let jitter = RandomState::new().hash_one(self.0) % u64::try_from(half.as_millis()).unwrap_or(1).max(1);
        tokio::time::sleep(half + Duration::from_millis(jitter)).await;
        self.0 = (self.0 * 2).min(MAX_BACKOFF);
    }
}
