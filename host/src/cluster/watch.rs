//! One watch for each kind and selector, shared by the plugins that subscribe to it.
//!
//! A watch never ends on its own: a server that is away, a kind that is not there yet and a right
//! that is missing are states of its [`Health`], tried again with a low, jittered back-off, each
//! watch for itself, so that one kind that fails does not slow the others. What it has seen is
//! [`Watched`].

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use kube::api::Api;
use kube::client::AuthError;
use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::client::{Cluster, chain};
use crate::cluster::discovery::{Kinds, Resource};
use crate::cluster::error::ApiError;
use crate::cluster::raw_object::Wire;
use crate::cluster::shared_watch::{Health, Role, Scope, Subscriber, Watched};
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::object::Lens;

/// A dead connection is noticed this long after its last sign of life, plus 5 s.
const WATCH_SECONDS: u32 = 60;
/// Objects in one page of a list: the peak of memory at a start.
const PAGE: u32 = 50;
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// Low, because what counts after an outage is how soon changes are seen again.
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// So long after the last failure the next one is the first again.
const CALM: Duration = Duration::from_secs(30);

const UNAUTHORIZED: &str = "the API server does not accept the host's credentials (401); renew its token or kubeconfig";

const AWAY: &str = "it is asked again every 2 s, and what changes meanwhile is acted on when it is back; if it should be up, check its address in the kubeconfig and the way there";

/// What to do about a certificate that is not accepted, by words of the error.
const CERTIFICATES: [(&str, &str); 2] = [
    (
        "UnknownIssuer",
        "the server's certificate is not signed by the CA of the kubeconfig; put the CA of this server there (certificate-authority), or name another with --kubeconfig or --context",
    ),
    ("invalid peer certificate", "check the server's address and CA in the kubeconfig, and the clocks"),
];

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
async fn follow(watched: Weak<Watched>, scope: Scope, cluster: Cluster, kinds: Arc<Kinds>, namespace: Option<String>) {
    let (mut backoff, mut gone) = (Backoff::default(), false);
    loop {
        let Some(resource) = wait_for_kind(&watched, &scope.kind, gone, &cluster, &kinds).await else { return };
        let Some(lens) = watched.upgrade().map(|watched| watched.lens()) else { return };
        // Half of a Pod, say, is not asked for, encoded, sent and read.
        let client = if lens.is_of_metadata() { &cluster.metadata_client } else { &cluster.client };
        let mut events = watcher(api(client, &resource, namespace.as_deref()), config(&scope.selector)).boxed();
        while let Some(event) = events.next().await {
            let Some(watched) = watched.upgrade() else { return };
            let error = match event {
                Ok(event) => {
                    // A new try begins with an event of its own, before anybody was asked.
                    if !matches!(event, watcher::Event::Init) {
                        cluster.answered();
                    }
                    watched.see(event);
                    continue;
                }
                Err(error) => error,
            };
            report_error(&watched, &cluster, &error);
            drop(watched);
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
    watched: &Weak<Watched>,
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
            Err(error) if error.code == 0 => {
                cluster.is_silent(&error.message);
                watched.upgrade()?.report(Health::Silent(missing_kind(kind, &error)));
            }
            Err(error) if error.waking_up => watched.upgrade()?.report(Health::Silent(missing_kind(kind, &error))),
            Err(error) => {
                cluster.answered();
                watched.upgrade()?.report(Health::Failing(missing_kind(kind, &error)));
            }
        }
        backoff.wait().await;
    }
}

/// A watch that the server closed or a connection that broke is resumed where it was; only what keeps
/// the cache from following the server is a failure.
fn report_error(watched: &Watched, cluster: &Cluster, error: &watcher::Error) {
    let kind = &watched.scope.kind;
    match error {
        watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_) => {
            tracing::debug!(%kind, error = %chain(error), "the watch was interrupted");
            if code(error) == 0 {
                cluster.silence.note();
            }
        }
        _ if code(error) == 0 => {
            cluster.is_silent(&chain(error));
            watched.report(Health::Silent(failing(kind, error)));
        }
        _ if cluster.silence.is_waking_up(code(error)) => watched.report(Health::Silent(failing(kind, error))),
        _ => {
            cluster.answered();
            watched.report(Health::Failing(failing(kind, error)));
        }
    }
}

/// Whether the kind itself is not there any more.
fn is_gone(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

/// The HTTP status of what the API server said, and 0 where it said nothing.
fn code(error: &watcher::Error) -> u16 {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        WatchError(status) => status.code,
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => match error {
            kube::Error::Api(status) => status.code,
            // A credential that cannot be had is asked for before anybody is.
            kube::Error::Service(cause) if cause.is::<AuthError>() => 200,
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => 0,
            _ => 200,
        },
        NoResourceVersion => 200,
    }
}

impl Cluster {
    /// A watch cannot be followed because nobody answers; said once for all of them.
    fn is_silent(&self, error: &str) {
        if self.silence.begins() {
            let advice = advice(error).unwrap_or(AWAY);
            tracing::warn!(
                server = self.server,
                context = self.context,
                "the API server does not answer: {error}; {advice}"
            );
        }
    }

    /// It answers a watch, be it with an error.
    fn answered(&self) {
        if self.silence.ends() {
            tracing::info!(server = self.server, "the API server answers again");
        }
    }
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
    advised(format!("waiting for the API server: {error}"))
}

/// An error in words, and what to do where that is known.
fn advised(error: String) -> String {
    match advice(&error) {
        Some(advice) => format!("{error}; {advice}"),
        None => error,
    }
}

fn advice(error: &str) -> Option<&'static str> {
    CERTIFICATES.iter().find(|(sign, _)| error.contains(sign)).map(|(_, advice)| *advice)
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
        None => advised(format!("cannot watch {kind}: {}; it is tried again", chain(error))),
    }
}

fn api(client: &kube::Client, resource: &Resource, namespace: Option<&str>) -> Api<Wire> {
    let kind = resource.to_api_resource();
    match namespace.filter(|_| resource.namespaced) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
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
    use super::*;

    #[test]
    fn a_certificate_that_is_not_accepted_is_told_with_what_to_do() {
        let told = |message: &str| {
            let error = ApiError::new("discover", "a".into(), 0, "Unreachable", message.to_owned());
            missing_kind(&Kind::new("cache.example.com", "v1", "Memcached"), &error)
        };
        let issuer = told("client error (Connect): invalid peer certificate: UnknownIssuer");
        assert!(issuer.contains("UnknownIssuer; ") && issuer.contains("the CA of the kubeconfig"), "{issuer}");
        let name = told("invalid peer certificate: certificate not valid for name \"localhost\"");
        assert!(name.contains("; check the server's address and CA"), "{name}");
        assert!(!told("connection refused").contains("kubeconfig"));
    }

    #[test]
    fn only_who_was_asked_and_said_nothing_is_silent() {
        let failed = |error| code(&watcher::Error::InitialListFailed(error));
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(failed(kube::Error::Service(refused().into())), 0);
        assert_eq!(failed(kube::Error::ReadEvents(refused())), 0);
        let no_credential = AuthError::AuthExecStart(refused());
        assert_ne!(failed(kube::Error::Service(no_credential.into())), 0, "nobody was asked");
        let no_list = serde_json::from_str::<u8>("no list").unwrap_err();
        assert_ne!(failed(kube::Error::SerdeError(no_list)), 0, "it said something else");
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
}
