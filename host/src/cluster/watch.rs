//! One watch for each kind and selector, shared by the plugins that subscribe to it.
//!
//! A watch never ends on its own: a server that is away, a kind that is not there yet and a right
//! that is missing are states of its [`Health`], tried again with a low, jittered back-off, each
//! watch for itself, so that one kind that fails does not slow the others.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Once};
use std::time::Duration;

use futures::StreamExt;
use kube::api::Api;
use kube::runtime::watcher;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::cache::{Applied, Cache};
use crate::cluster::client::{Cluster, chain};
use crate::cluster::discovery::{Kinds, Resource};
use crate::cluster::wire::Wire;
use crate::decision::Kind;
use crate::error::ApiError;
use crate::object::{Lens, Object};

/// A dead connection is noticed this long after its last sign of life, plus 5 s.
const WATCH_SECONDS: u32 = 200;
/// Objects in one page of a list: the peak of memory at a start.
const PAGE: u32 = 50;
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// Low, because what counts after an outage is how soon changes are seen again.
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// So long after the last failure the next one is the first again.
const CALM: Duration = Duration::from_secs(30);

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

/// What a kind is to a plugin. It may be more than one thing to the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// What it decides about.
    Parent,
    /// What it makes.
    Child,
    /// What it reads, under this key.
    Read(String),
    /// What its grant looks at.
    Namespace,
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
    /// A namespace of which nothing is kept: the host's own, which no plugin may see.
    closed: Arc<str>,
    closed_told: Once,
    lens: RwLock<Arc<Lens>>,
    health: watch::Sender<Health>,
    subscribers: Mutex<HashMap<(Arc<str>, Role), Subscriber>>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Watched {
    fn new(scope: Scope, lens: Lens, closed: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            scope,
            cache: Cache::default(),
            closed,
            closed_told: Once::new(),
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

    /// Waits until the first list has ended, or something is wrong with it.
    pub async fn tried(&self) {
        drop(self.health.subscribe().wait_for(|health| *health != Health::Starting).await);
    }

    /// Whether this plugin is told of changes.
    pub fn is_subscribed(&self, plugin: &str) -> bool {
        let subscribers = self.subscribers.lock();
        subscribers.keys().any(|(name, _)| **name == *plugin)
    }

    /// What it keeps of each object.
    pub fn lens(&self) -> Arc<Lens> {
        self.lens.read().clone()
    }

    /// Takes the reply to a write, which the watch will not show as news any more. Wakes all but the
    /// writer, who knows. Returns the object as the text has it, even where the cache knows a newer
    /// one by now: what a write did is judged by its own reply.
    ///
    /// # Errors
    /// When the text is not a Kubernetes object.
    pub fn learn(&self, json: &str, writer: (&str, Role)) -> serde_json::Result<Arc<Object>> {
        let object = Arc::new(Object::read(json, &self.lens())?);
        if let Some(applied) = self.cache.apply(object.clone()) {
            self.tell_but(&Change::Applied(applied), Some(writer));
        }
        Ok(object)
    }

    /// Takes an object that was read past the watch, with what others did to it.
    pub fn take(&self, live: Object) {
        if let Some(applied) = self.cache.apply(live) {
            self.tell(&Change::Applied(applied));
        }
    }

    /// Takes word that an object is gone, which the watch will not show as news any more.
    pub fn lose(&self, known: &Object) {
        if let Some(gone) = self.cache.delete(known) {
            self.tell(&Change::Deleted(gone));
        }
    }

    fn widen(&self, lens: &Lens) -> bool {
        let mut mine = self.lens.write();
        let mut wider = Lens::clone(&mine);
        wider.projection.merge(&lens.projection);
        wider.status |= lens.status;
        wider.labels.extend(lens.labels.iter().filter(|label| !mine.labels.contains(label)).cloned());
        let widens = wider != **mine;
        *mine = Arc::new(wider);
        widens
    }

    fn tell(&self, change: &Change) {
        self.tell_but(change, None);
    }

    fn tell_but(&self, change: &Change, writer: Option<(&str, Role)>) {
        let subscribers = self.subscribers.lock();
        for ((plugin, role), subscriber) in subscribers.iter() {
            if !writer.as_ref().is_some_and(|(name, wrote)| **plugin == **name && role == wrote) {
                subscriber(change);
            }
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
        let key = wire.key();
        if key.namespace.as_ref() == Some(&self.closed) {
            self.closed_told.call_once(|| {
                tracing::warn!(kind = %self.scope.kind, object = %key, "it is in the namespace of the host, where no plugin may do anything, so it is not served; create it in another one");
            });
            return;
        }
        if self.cache.is_echo(&key, wire.version()) {
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
    closed: Arc<str>,
    open: Mutex<HashMap<Scope, Arc<Watched>>>,
}

impl Watches {
    /// None yet; `namespace` restricts all that will be, and of what is in `closed` they keep nothing.
    pub fn new(cluster: Cluster, kinds: Arc<Kinds>, namespace: Option<String>, closed: Arc<str>) -> Self {
        Self { cluster, kinds, namespace, closed, open: Mutex::default() }
    }

    /// The watch of a scope, opened or widened where need be, with a subscriber for a plugin in a
    /// role.
    pub fn subscribe(
        &self,
        scope: &Scope,
        lens: &Lens,
        (plugin, role): (&Arc<str>, Role),
        subscriber: Subscriber,
    ) -> Arc<Watched> {
        let mut open = self.open.lock();
        let known = open.get(scope).cloned();
        let watched = known.clone().unwrap_or_else(|| Watched::new(scope.clone(), lens.clone(), self.closed.clone()));
        let mut subscribers = watched.subscribers.lock();
        subscribers.insert((plugin.clone(), role), subscriber);
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
    pub fn keep(&self, scope: &Scope, plugin: &str, roles: &[Role]) {
        let mut open = self.open.lock();
        let Some(watched) = open.get(scope) else { return };
        let mut subscribers = watched.subscribers.lock();
        subscribers.retain(|(name, role), _| **name != *plugin || roles.contains(role));
        let deserted = subscribers.is_empty();
        drop(subscribers);
        if deserted {
            open.remove(scope);
        }
    }

    /// A kind as the API server serves it now.
    ///
    /// # Errors
    /// When it has none such (404), or does not answer.
    pub async fn find_kind_anew(&self, kind: &Kind) -> Result<Arc<Resource>, ApiError> {
        self.kinds.find_anew(&self.cluster, kind).await
    }

    /// Every watch that is open.
    pub fn all(&self) -> Vec<Arc<Watched>> {
        self.open.lock().values().cloned().collect()
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
        *watched.task.lock() = Some(task);
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
    let (mut backoff, mut gone) = (Backoff::default(), false);
    loop {
        let Some(resource) = wait_for_kind(&watched, &scope.kind, gone, &cluster, &kinds).await else { return };
        let mut events = watcher(api(&cluster, &resource, namespace.as_deref()), config(&scope.selector)).boxed();
        while let Some(event) = events.next().await {
            let Some(watched) = watched.upgrade() else { return };
            let error = match event {
                Ok(event) => {
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
            gone = is_gone(&error);
            if gone || matches!(error, watcher::Error::WatchStartFailed(_)) {
                break;
            }
        }
    }
}

/// Asks until the API server serves the kind; `None` when nobody wants it any more. What is known of one
/// that was served before and is `gone` holds no longer: it may come back with another plural or scope.
async fn wait_for_kind(
    watched: &std::sync::Weak<Watched>,
    kind: &Kind,
    gone: bool,
    cluster: &Cluster,
    kinds: &Kinds,
) -> Option<Arc<Resource>> {
    let mut backoff = Backoff::default();
    loop {
        let found = match gone {
            true => kinds.find_anew(cluster, kind).await,
            false => kinds.find(cluster, kind).await,
        };
        match found {
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

/// Whether the kind itself is not there any more.
fn is_gone(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

/// Whether there was no answer, rather than one that is no good.
fn is_silence(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    let (InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)) = error else { return false };
    !matches!(error, kube::Error::Api(_))
}

fn missing_kind(kind: &Kind, error: &ApiError) -> String {
    if error.is_not_found() {
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
///
/// It begins anew once nothing has failed for a while, and not with what goes well in between: each
/// try begins with an event of its own, and a list that may be read says nothing of the watch after it.
struct Backoff {
    next: Duration,
    failed: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST_BACKOFF, failed: None }
    }
}

impl Backoff {
    async fn wait(&mut self) {
        let pause = self.pause(Instant::now());
        let half = pause / 2;
        let jitter = RandomState::new().hash_one(pause) % u64::try_from(half.as_millis()).unwrap_or(1).max(1);
        tokio::time::sleep(half + Duration::from_millis(jitter)).await;
    }

    /// After a failure now.
    fn pause(&mut self, now: Instant) -> Duration {
        let calm = self.failed.replace(now).is_none_or(|failed| now.saturating_duration_since(failed) > CALM);
        let pause = if calm { FIRST_BACKOFF } else { self.next };
        self.next = (pause * 2).min(MAX_BACKOFF);
        pause
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::object::Key;
    use crate::projection::Projection;

    fn reply(version: u64) -> String {
        format!(r#"{{"metadata":{{"name":"a","namespace":"n","uid":"1","resourceVersion":"{version}"}}}}"#)
    }

    #[test]
    fn a_write_wakes_all_but_who_wrote_and_what_others_did_wakes_all() {
        let lens = Lens { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let watched = Watched::new(
            Scope { kind: Kind::new("", "v1", "ConfigMap"), selector: String::new() },
            lens,
            "system".into(),
        );
        let woken = ["writer", "other"].map(|plugin| {
            [Role::Parent, Role::Read("parent".into())].map(|role| {
                let count = Arc::new(AtomicUsize::new(0));
                let counted = count.clone();
                let subscriber: Subscriber = Arc::new(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
                watched.subscribers.lock().insert((plugin.into(), role), subscriber);
                count
            })
        });
        let counts = || woken.each_ref().map(|roles| roles.each_ref().map(|count| count.load(Ordering::Relaxed)));
        watched.learn(&reply(1), ("writer", Role::Parent)).unwrap();
        assert_eq!(counts(), [[0, 1], [1, 1]]);
        watched.take(Object::read(&reply(2), &watched.lens()).unwrap());
        assert_eq!(counts(), [[1, 2], [2, 2]]);
        // The watch brings both once more.
        watched.learn(&reply(2), ("writer", Role::Parent)).unwrap();
        assert_eq!(counts(), [[1, 2], [2, 2]]);
        watched.lose(&Object::read(&reply(2), &watched.lens()).unwrap());
        assert_eq!(counts(), [[2, 3], [3, 3]]);
    }

    #[test]
    fn pauses_grow_while_tries_fail_and_begin_anew_after_calm() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let pauses = [0, 1, 2, 4, 6, 8].map(|second| backoff.pause(at(second)).as_millis());
        assert_eq!(pauses, [200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(backoff.pause(at(8) + CALM), MAX_BACKOFF);
        assert_eq!(backoff.pause(at(9) + 2 * CALM), FIRST_BACKOFF);
    }

    #[test]
    fn nothing_is_kept_of_what_is_in_the_closed_namespace() {
        let scope = Scope { kind: Kind::new("example.com", "v1", "Cache"), selector: String::new() };
        let lens = Lens { projection: Projection::new(&["spec"]), labels: Vec::new(), status: false };
        let watched = Watched::new(scope, lens, "system".into());
        let told = Arc::new(Mutex::new(0));
        let counts = told.clone();
        let subscriber: Subscriber = Arc::new(move |_| *counts.lock() += 1);
        watched.subscribers.lock().insert(("demo".into(), Role::Parent), subscriber);
        let wire = |namespace: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"a","namespace":"{namespace}","uid":"{namespace}","resourceVersion":"7"}}}}"#
            );
            serde_json::from_str::<Wire>(&json).unwrap()
        };
        watched.see(watcher::Event::Init);
        watched.see(watcher::Event::InitApply(wire("system")));
        watched.see(watcher::Event::InitApply(wire("systems")));
        watched.see(watcher::Event::InitDone);
        watched.see(watcher::Event::Apply(wire("system")));
        watched.see(watcher::Event::Delete(wire("system")));
        assert_eq!(watched.cache.keys(), [Key::new(Some("systems"), "a")]);
        assert_eq!(*told.lock(), 1);
    }
}
