//! One watch for each kind and selector, shared by the plugins that subscribe to it.
//!
//! A watch never ends on its own: an API server that does not answer, a kind that is not served yet and a missing
//! right are states of its [`Health`]. Each watch retries independently, with a short, jittered back-off, so that a
//! failing kind does not slow the others. [`SharedWatch`] has its store and its subscribers.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::api::Api;
use kube::client::AuthError;
use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::client::{Cluster, chain};
use crate::credentials::UNAUTHORIZED;
use crate::discovery::{Kinds, Resource};
use crate::error::ApiError;
use crate::raw_object::RawObject;
use crate::shared_watch::{Health, Role, Scope, SharedWatch, Subscriber, Viewer};
use crate::time_limit::{NoAnswer, WATCH_SECONDS};
use hotshoe_core::check::watch_room::WatchRoom;
use hotshoe_core::flow::page_size;
use hotshoe_core::model::kind::{Kind, Namespace};
use hotshoe_core::model::object::{HOST_PREFIX, KeptFields};
use hotshoe_core::model::watched_namespaces::WatchedNamespaces;

const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// Short, so that changes are seen soon after an outage.
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// The time without a failure after which the back-off starts again from the beginning.
const BACKOFF_RESET: Duration = Duration::from_secs(30);

/// How long a watch that leaves objects out goes on without a list. They may have become children of a parent, and there
/// may be room again.
const LEFT_OUT_PAUSE: Duration = Duration::from_secs(600);

/// How many namespaces are listed at once for a watch: each page of a list takes memory.
const LISTS_AT_ONCE: usize = 4;

/// The advice during an outage without a known cause.
const OUTAGE_ADVICE: &str = "it is asked again every 2 s, and what changes meanwhile is acted on when it is back; \
                             if it should be up, check its address in the kubeconfig and the network path to it";

/// The advice on a certificate that is not accepted, by a part of the error message.
const CERTIFICATE_ADVICE: [(&str, &str); 2] = [
    (
        "UnknownIssuer",
        "the server's certificate is not signed by the CA of the kubeconfig; \
         put the CA of this server there (certificate-authority), or name another with --kubeconfig or --context",
    ),
    ("invalid peer certificate", "check the server's address and CA in the kubeconfig, and the clocks"),
];

/// All watches of the process.
pub struct Watches {
    pub(super) cluster: Cluster,
    /// Kinds as the API server serves them.
    pub kinds: Arc<Kinds>,
    namespaces: WatchedNamespaces,
    closed: Arc<str>,
    room: Arc<WatchRoom>,
    open: Mutex<HashMap<Scope, Arc<SharedWatch>>>,
}

impl Watches {
    /// Creates an empty registry of watches in these namespaces. Objects in `closed`, the host's own namespace, are never
    /// stored.
    pub fn new(cluster: Cluster, kinds: Arc<Kinds>, namespaces: WatchedNamespaces, closed: Arc<str>) -> Self {
        Self { cluster, kinds, namespaces, closed, room: Arc::default(), open: Mutex::default() }
    }

    /// Bounds the memory of the objects of all watches.
    #[must_use]
    pub fn within(self, room: WatchRoom) -> Self {
        Self { room: Arc::new(room), ..self }
    }

    /// Returns how many bytes the content of all watched objects may take; none without a limit.
    pub fn most_content(&self) -> Option<usize> {
        self.room.most()
    }

    /// Subscribes as [`Self::subscribe`] does, to the children of these parents, which must be synced. Of other objects
    /// with a plugin's label no content is kept.
    pub fn subscribe_to_children(
        &self,
        scope: &Scope,
        kept_fields: &KeptFields,
        viewer: &Viewer,
        subscriber: Subscriber,
        parents: &Arc<SharedWatch>,
    ) -> Arc<SharedWatch> {
        self.open(scope, kept_fields, (viewer, Role::Child), subscriber, Some(parents))
    }

    /// Replaces the parents whose children a watch shows to a viewer. Lists the objects again if necessary.
    pub fn replace_parents(&self, children: &Arc<SharedWatch>, viewer: &Viewer, parents: &Arc<SharedWatch>) {
        if children.know_parents(viewer, parents) {
            self.start(children);
        }
    }

    /// Lists the objects of a watch again if it has left some out.
    pub fn list_left_out(&self, watch: &Arc<SharedWatch>) {
        if watch.cache.left_out() > 0 {
            self.start(watch);
        }
    }

    /// Adds a subscriber for a revision in a role to the watch of a scope. Opens or widens the watch if necessary, and
    /// returns it.
    pub fn subscribe(
        &self,
        scope: &Scope,
        kept_fields: &KeptFields,
        role: (&Viewer, Role),
        subscriber: Subscriber,
    ) -> Arc<SharedWatch> {
        self.open(scope, kept_fields, role, subscriber, None)
    }

    fn open(
        &self,
        scope: &Scope,
        kept_fields: &KeptFields,
        (viewer, role): (&Viewer, Role),
        subscriber: Subscriber,
        parents: Option<&Arc<SharedWatch>>,
    ) -> Arc<SharedWatch> {
        let mut open = self.open.lock();
        let known = open.get(scope).cloned();
        let new = || SharedWatch::within(self.room_of(scope), scope.clone(), kept_fields.clone(), self.closed.clone());
        let watch = known.clone().unwrap_or_else(new);
        let mut subscribers = watch.subscribers.lock();
        subscribers.insert((viewer.clone(), role), subscriber);
        drop(subscribers);
        let lacks_content = parents.is_some_and(|parents| watch.know_parents(viewer, parents));
        if watch.widen(kept_fields) || lacks_content || known.is_none() {
            self.start(&watch);
            open.insert(scope.clone(), watch.clone());
        }
        watch
    }

    /// Ends the subscriptions of a revision. A watch without subscriptions is closed.
    pub fn unsubscribe(&self, scope: &Scope, viewer: &Viewer) {
        self.keep(scope, viewer, &[]);
    }

    /// Ends the subscriptions of a revision except those in these roles.
    pub fn keep(&self, scope: &Scope, viewer: &Viewer, roles: &[Role]) {
        let mut open = self.open.lock();
        let Some(watch) = open.get(scope) else { return };
        let mut subscribers = watch.subscribers.lock();
        subscribers.retain(|(known, role), _| known != viewer || roles.contains(role));
        if !subscribers.contains_key(&(viewer.clone(), Role::Child)) {
            watch.forget_parents(viewer);
        }
        let is_unused = subscribers.is_empty();
        drop(subscribers);
        if is_unused {
            open.remove(scope);
        }
    }

    /// Returns a kind, and discovers it if it is not known.
    ///
    /// # Errors
    /// If the API server does not serve it (404), or does not answer.
    pub async fn find_kind(&self, kind: &Kind) -> Result<Arc<Resource>, ApiError> {
        self.kinds.find(&self.cluster, kind).await
    }

    /// Discovers a kind again.
    ///
    /// # Errors
    /// If the API server does not serve it (404), or does not answer.
    pub async fn find_kind_anew(&self, kind: &Kind) -> Result<Arc<Resource>, ApiError> {
        self.kinds.find_anew(&self.cluster, kind).await
    }

    /// Reads the schema of the status of a kind of parents, unless it is known.
    pub async fn learn_status_schema(&self, resource: &Resource) {
        // Without the subresource, the status is not written.
        if resource.has_status {
            self.kinds.statuses.look_up(&self.cluster, &resource.kind).await;
        }
    }

    /// Returns the namespaces that are watched.
    pub fn namespaces(&self) -> &WatchedNamespaces {
        &self.namespaces
    }

    /// Returns all open watches.
    pub fn all(&self) -> Vec<Arc<SharedWatch>> {
        self.open.lock().values().cloned().collect()
    }

    /// Returns the room for the objects of a watch. That of the host's own kinds, which only administrators write, has no
    /// limit.
    fn room_of(&self, scope: &Scope) -> Arc<WatchRoom> {
        let is_own = HOST_PREFIX.trim_end_matches('/') == &*scope.kind.group;
        if is_own { Arc::default() } else { self.room.clone() }
    }

    fn start(&self, watch: &Arc<SharedWatch>) {
        watch.begin();
        let task = follow(
            Arc::downgrade(watch),
            watch.scope.clone(),
            self.cluster.clone(),
            self.kinds.clone(),
            self.namespaces.clone(),
        );
        let task = AbortOnDropHandle::new(tokio::spawn(task));
        *watch.task.lock() = Some(task);
    }
}

/// Runs a watch. Holds it by a weak reference: dropping the last strong reference ends the task.
async fn follow(
    watch: Weak<SharedWatch>,
    scope: Scope,
    cluster: Cluster,
    kinds: Arc<Kinds>,
    namespaces: WatchedNamespaces,
) {
    let (mut backoff, mut gone) = (Backoff::default(), false);
    loop {
        let Some(resource) = wait_for_kind(&watch, &scope.kind, gone, &cluster, &kinds).await else { return };
        let parts = namespaces.parts(resource.namespaced);
        let Some(begun) = watch.upgrade() else { return };
        begun.divide(&parts);
        drop(begun);
        let of_kind = OfKind {
            watch: &watch,
            scope: &scope,
            cluster: &cluster,
            resource: &resource,
            lists: Semaphore::new(LISTS_AT_ONCE),
        };
        // Each part goes on by itself, until the kind is gone or the watch is dropped.
        let mut followed: FuturesUnordered<_> =
            parts.iter().map(|part| of_kind.follow(part, parts.len() > 1)).collect();
        gone = match followed.next().await {
            Some(End::Gone) => true,
            Some(End::Dropped) | None => return,
        };
        drop(followed);
        backoff.wait().await;
    }
}

/// Why a part is no longer followed.
enum End {
    /// The kind is no longer served.
    Gone,
    /// The watch is dropped.
    Dropped,
}

/// A watch whose kind is served.
struct OfKind<'a> {
    watch: &'a Weak<SharedWatch>,
    scope: &'a Scope,
    cluster: &'a Cluster,
    resource: &'a Resource,
    /// Bounds how many parts are listed at once.
    lists: Semaphore,
}

impl OfKind<'_> {
    /// Follows a part, which may be one of several.
    async fn follow(&self, part: &Namespace, is_one_of_several: bool) -> End {
        let mut backoff = Backoff::default();
        loop {
            let Some(is_of_metadata) = self.watch.upgrade().map(|watch| watch.is_of_metadata()) else {
                return End::Dropped;
            };
            // The semaphore is never closed.
            let mut permit = self.lists.acquire().await.ok();
            // Metadata alone saves, for example, half of a Pod from being encoded, sent and read.
            let client = self.cluster.lister(is_of_metadata);
            let objects = api(&client, self.resource, part.as_deref());
            let mut events = watcher(objects, config(&self.scope.selector)).boxed();
            let mut listed = Instant::now();
            loop {
                let Ok(event) = tokio::time::timeout_at(listed + LEFT_OUT_PAUSE, events.next()).await else {
                    if self.watch.upgrade().is_some_and(|watch| watch.cache.left_out() > 0) {
                        break;
                    }
                    listed = Instant::now();
                    continue;
                };
                let Some(event) = event else { break };
                let Some(watch) = self.watch.upgrade() else { return End::Dropped };
                let error = match event {
                    Ok(event) => {
                        // A new attempt begins with this event, before any request.
                        if !matches!(event, watcher::Event::Init) {
                            self.cluster.answered();
                        }
                        if matches!(event, watcher::Event::InitDone) {
                            permit = None;
                        }
                        watch.observe(part, event);
                        continue;
                    }
                    Err(error) => error,
                };
                report_error(&watch, (part, is_one_of_several), self.cluster, &error);
                drop(watch);
                if is_gone(&error) {
                    return End::Gone;
                }
                permit = None;
                backoff.wait().await;
                // The client would resume without an event, and the watch would stay `Failing`. A new list ends that.
                if matches!(error, watcher::Error::WatchStartFailed(_)) {
                    break;
                }
            }
            drop(permit);
        }
    }
}

/// Waits until the API server serves the kind; returns `None` once the watch is dropped. A kind that was served before
/// and is `gone` is discovered again: it may come back with another plural or scope.
async fn wait_for_kind(
    watch: &Weak<SharedWatch>,
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
                cluster.unanswered(&error.message);
                watch.upgrade()?.report(Health::Silent(missing_kind(kind, &error)));
            }
            Err(error) if error.after_outage => watch.upgrade()?.report(Health::Silent(missing_kind(kind, &error))),
            Err(error) => {
                cluster.answered();
                watch.upgrade()?.report(Health::Failing(missing_kind(kind, &error)));
            }
        }
        backoff.wait().await;
    }
}

/// Reports an error that keeps the store from following the API server. A watch that the server closed and a broken
/// connection are no failure: the watch resumes where it was.
fn report_error(
    watch: &SharedWatch,
    (part, is_one_of_several): (&Namespace, bool),
    cluster: &Cluster,
    error: &watcher::Error,
) {
    let kind = &watch.scope.kind;
    match error {
        watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_) => {
            tracing::debug!(%kind, error = %chain(error), "the watch was interrupted");
            if code(error) == 0 {
                cluster.outage.note();
            }
        }
        _ if code(error) == 0 => {
            cluster.unanswered(&chain(error));
            watch.report_part(part, Health::Silent(failing(kind, error)));
        }
        _ if cluster.outage.is_after_outage(code(error)) => {
            watch.report_part(part, Health::Silent(failing(kind, error)));
        }
        _ => {
            cluster.answered();
            let why = failing(kind, error);
            let health = match is_broken(error) {
                true => Health::Broken(why),
                false if is_one_of_several && is_forbidden(error) => Health::Refused(why),
                false => Health::Failing(why),
            };
            watch.report_part(part, health);
        }
    }
}

/// Returns whether the kind itself is no longer served.
fn is_gone(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

/// Returns whether the host has no right to list or to watch.
fn is_forbidden(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(_) | watcher::Error::WatchStartFailed(_)) && code(error) == 403
}

/// Returns whether the API server itself answers, and cannot list the kind or does not end.
fn is_broken(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
        return false;
    };
    code(error) >= 500 || NoAnswer::among(cause).is_some()
}

/// Returns the HTTP status of an error; 0 if there was no answer, and 200 if the failure is another one.
pub(super) fn code(error: &watcher::Error) -> u16 {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        WatchError(status) => status.code,
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => match error {
            kube::Error::Api(status) => status.code,
            // No request was made, because there was no credential: not an outage.
            kube::Error::Service(cause) if cause.is::<AuthError>() => 200,
            // This request hangs, and not the API server.
            kube::Error::Service(cause) if NoAnswer::among(&**cause).is_some_and(|late| late.others_answered) => 200,
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => 0,
            _ => 200,
        },
        NoResourceVersion => 200,
    }
}

impl Cluster {
    /// Records that a watch gets no answer. Logs that once for all watches.
    fn unanswered(&self, error: &str) {
        if self.outage.begins() {
            let advice = advice(error).unwrap_or(OUTAGE_ADVICE);
            tracing::warn!(
                server = self.server,
                context = self.context,
                "the API server does not answer: {error}; {advice}"
            );
        }
    }

    /// Records that a watch gets an answer, which may be an error.
    fn answered(&self) {
        if self.outage.ends() {
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

/// Appends advice to an error message, if there is any.
fn advised(error: String) -> String {
    match advice(&error) {
        Some(advice) => format!("{error}; {advice}"),
        None => error,
    }
}

fn advice(error: &str) -> Option<&'static str> {
    CERTIFICATE_ADVICE.iter().find(|(sign, _)| error.contains(sign)).map(|(_, advice)| *advice)
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

pub(super) fn api(client: &kube::Client, resource: &Resource, namespace: Option<&str>) -> Api<RawObject> {
    let kind = resource.to_api_resource();
    match namespace.filter(|_| resource.namespaced) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    }
}

fn config(selector: &str) -> watcher::Config {
    // How many objects each page of a list really has depends on their size.
    let config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(page_size::FIRST);
    if selector.is_empty() { config } else { config.labels(selector) }
}

/// Exponential back-off with a low cap, and jitter so that watches do not come back in step.
///
/// The back-off restarts once nothing has failed for a while, and not at the first success: each attempt begins with an
/// event of its own, and a successful list says nothing about the watch after it.
pub(super) struct Backoff {
    next: Duration,
    failed: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST_BACKOFF, failed: None }
    }
}

impl Backoff {
    pub(super) async fn wait(&mut self) {
        let pause = self.pause(Instant::now());
        let half = pause / 2;
        let jitter = RandomState::new().hash_one(pause) % u64::try_from(half.as_millis()).unwrap_or(1).max(1);
        tokio::time::sleep(half + Duration::from_millis(jitter)).await;
    }

    /// Returns the pause after a failure at `now`.
    fn pause(&mut self, now: Instant) -> Duration {
        let calm = self.failed.replace(now).is_none_or(|failed| now.saturating_duration_since(failed) > BACKOFF_RESET);
        let pause = if calm { FIRST_BACKOFF } else { self.next };
        self.next = (pause * 2).min(MAX_BACKOFF);
        pause
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use axum::extract::{Path, RawQuery};
    use axum::http::StatusCode;
    use axum::response::{IntoResponse, Response};
    use axum::routing::get;
    use serde_json::{Value, json};
    use tokio::sync::Notify;

    use super::*;
    use crate::served;
    use crate::shared_watch::Change;
    use hotshoe_core::model::projection::Projection;

    #[test]
    fn an_error_about_a_certificate_comes_with_advice() {
        let reported = |message: &str| {
            let error = ApiError::new("discover", "a".into(), 0, "Unreachable", message.to_owned());
            missing_kind(&Kind::new("cache.example.com", "v1", "Memcached"), &error)
        };
        let issuer = reported("client error (Connect): invalid peer certificate: UnknownIssuer");
        assert!(issuer.contains("UnknownIssuer; ") && issuer.contains("the CA of the kubeconfig"), "{issuer}");
        let name = reported("invalid peer certificate: certificate not valid for name \"localhost\"");
        assert!(name.contains("; check the server's address and CA"), "{name}");
        assert!(!reported("connection refused").contains("kubeconfig"));
    }

    #[test]
    fn only_a_request_without_an_answer_is_an_outage() {
        let failed = |error| code(&watcher::Error::InitialListFailed(error));
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(failed(kube::Error::Service(refused().into())), 0);
        assert_eq!(failed(kube::Error::ReadEvents(refused())), 0);
        let no_credential = AuthError::AuthExecStart(refused());
        assert_ne!(failed(kube::Error::Service(no_credential.into())), 0, "no request was made");
        let no_list = serde_json::from_str::<u8>("no list").unwrap_err();
        assert_ne!(failed(kube::Error::SerdeError(no_list)), 0, "it said something else");
    }

    #[test]
    fn pauses_grow_while_attempts_fail_and_restart_after_a_time_without_failure() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let pauses = [0, 1, 2, 4, 6, 8].map(|second| backoff.pause(at(second)).as_millis());
        assert_eq!(pauses, [200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(backoff.pause(at(8) + BACKOFF_RESET), MAX_BACKOFF);
        assert_eq!(backoff.pause(at(9) + 2 * BACKOFF_RESET), FIRST_BACKOFF);
    }

    /// The deadline of a test: a machine may be busy.
    const LONG: Duration = Duration::from_secs(60);

    /// An API server that serves Widgets in some namespaces.
    #[derive(Default)]
    struct Served {
        /// The names of the Widgets of each namespace; none where the host may not list them.
        widgets: Mutex<BTreeMap<String, Option<Vec<&'static str>>>>,
        /// How many lists are being answered, and how many were at most.
        lists: Mutex<(usize, usize)>,
        /// Ends the watches, so that the Widgets are listed again.
        expired: Notify,
    }

    impl Served {
        fn set(&self, namespace: &str, widgets: Option<&[&'static str]>) {
            self.widgets.lock().insert(namespace.to_owned(), widgets.map(<[_]>::to_vec));
        }

        async fn answer(self: Arc<Self>, namespace: String, is_watch: bool) -> Response {
            let widgets = self.widgets.lock().get(&namespace).cloned().flatten();
            let failure = |code: u16, reason: &str| {
                let message = format!("widgets is {reason} in the namespace {namespace}");
                json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message })
            };
            let Some(widgets) = widgets else {
                return (StatusCode::FORBIDDEN, failure(403, "Forbidden").to_string()).into_response();
            };
            if is_watch {
                self.expired.notified().await;
                return format!("{}\n", json!({ "type": "ERROR", "object": failure(410, "Expired") })).into_response();
            }
            {
                let (now, most) = &mut *self.lists.lock();
                *now += 1;
                *most = (*most).max(*now);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.lists.lock().0 -= 1;
            let widget = |name: &&str| {
                let uid = format!("{namespace}-{name}");
                json!({ "metadata": { "name": name, "namespace": namespace, "uid": uid, "resourceVersion": "5" } })
            };
            let items: Vec<Value> = widgets.iter().map(widget).collect();
            let metadata = json!({ "resourceVersion": "7" });
            json!({ "kind": "WidgetList", "apiVersion": "example.com/v1", "metadata": metadata, "items": items })
                .to_string()
                .into_response()
        }

        /// Opens a watch of the Widgets in these namespaces, and records which go.
        async fn watched(
            self: &Arc<Self>,
            namespaces: &[&str],
        ) -> (Watches, Arc<SharedWatch>, Arc<Mutex<Vec<String>>>) {
            let served =
                json!({ "resources": [{ "name": "widgets", "kind": "Widget", "namespaced": true }] }).to_string();
            let this = self.clone();
            let widgets = move |Path(namespace): Path<String>, RawQuery(query): RawQuery| {
                this.clone().answer(namespace, query.unwrap_or_default().contains("watch=true"))
            };
            let server = axum::Router::new()
                .route("/apis/example.com/v1", get(move || std::future::ready(served.clone())))
                .route("/apis/example.com/v1/namespaces/{namespace}/widgets", get(widgets));
            let (cluster, named) = (served::by(server).await, WatchedNamespaces::named(namespaces).unwrap());
            let watches = Watches::new(cluster, Arc::new(Kinds::default()), named, "hotshoe".into());
            let kept_fields =
                KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
            let scope = Scope::new(Kind::new("example.com", "v1", "Widget"), "");
            let (gone, viewer) = (Arc::new(Mutex::new(Vec::new())), Viewer::active(&"demo".into()));
            let deleted = gone.clone();
            let subscriber = Arc::new(move |change: &Change| {
                if let Change::Deleted(object) = change {
                    deleted.lock().push(object.key.to_string());
                }
            });
            let watch = watches.subscribe(&scope, &kept_fields, (&viewer, Role::Parent), subscriber);
            (watches, watch, gone)
        }
    }

    /// Waits until this holds.
    async fn until(what: &str, holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(LONG, wait).await.is_ok(), "{what}");
    }

    fn keys(watch: &SharedWatch) -> Vec<String> {
        let mut keys: Vec<String> = watch.cache.keys().iter().map(ToString::to_string).collect();
        keys.sort();
        keys
    }

    #[tokio::test]
    async fn a_namespace_that_may_not_be_listed_is_left_out_until_it_may() {
        let served = Arc::new(Served::default());
        served.set("a", Some(&["x"]));
        served.set("b", Some(&["x", "y"]));
        let (_watches, watch, gone) = served.watched(&["a", "b", "c"]).await;
        tokio::time::timeout(LONG, watch.synced()).await.unwrap();
        assert_eq!(keys(&watch), ["a/x", "b/x", "b/y"]);
        let refused = watch.refused();
        let [(namespace, why)] = refused.as_slice() else { panic!("{refused:?}") };
        assert!(&**namespace == "c" && why.contains("in the namespace c; grant the host"), "{refused:?}");
        let concerned = |namespace: Option<&str>| watch.refusal_of(&namespace.map(Arc::from)).is_some();
        assert_eq!([concerned(Some("a")), concerned(Some("c")), concerned(None)], [false, true, true]);

        served.set("b", Some(&["x"]));
        let relisted = |holds: bool| {
            // A watch that began only now is ended, too.
            served.expired.notify_waiters();
            holds
        };
        until("what is gone is forgotten", || relisted(keys(&watch) == ["a/x", "b/x"])).await;
        assert_eq!(*gone.lock(), ["b/y"], "a list of one namespace removes nothing from others");

        served.set("c", Some(&["z"]));
        until("the namespace is listed", || watch.refused().is_empty()).await;
        assert_eq!(keys(&watch), ["a/x", "b/x", "c/z"]);

        // What was known before a right went is still known, and it is known that it may be old.
        served.set("a", None);
        until("the right is missed", || relisted(!watch.refused().is_empty())).await;
        assert_eq!((watch.health(), keys(&watch).len()), (Health::Synced, 3));
    }

    #[tokio::test]
    async fn a_watch_fails_where_no_namespace_may_be_listed_and_a_kind_in_one_namespace_as_before() {
        for (namespaces, words) in [(&["a", "b"][..], "in all of the 2 namespaces"), (&["a"], "in the namespace a")] {
            let (_watches, watch, _) = Arc::new(Served::default()).watched(namespaces).await;
            let failed = || matches!(watch.health(), Health::Failing(why) if why.contains(words));
            until(words, failed).await;
        }
    }

    #[tokio::test]
    async fn a_few_namespaces_are_listed_at_once() {
        let (served, names) = (Arc::new(Served::default()), ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
        names.iter().for_each(|name| served.set(name, Some(&["x"])));
        let (_watches, watch, _) = served.watched(&names).await;
        tokio::time::timeout(LONG, watch.synced()).await.unwrap();
        assert_eq!(watch.cache.len(), names.len());
        let (_, most) = *served.lists.lock();
        assert!((1..=LISTS_AT_ONCE).contains(&most), "{most} at once");
    }
}
