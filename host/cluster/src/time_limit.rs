//! The time limits of every request to the API server, lists and watches included. A connection that a load balancer
//! has dropped without a word, and an aggregated API server or a conversion webhook that hangs, answer nothing and
//! report nothing.
//!
//! A reply must begin, and go on, within [`SILENCE`]; so a long list over a slow link is no failure. A watch is silent
//! while nothing changes, until the API server ends it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use crate::credentials::Credentials;
use crate::place::Place;

/// The timeout that a watch names in its request, in seconds: the API server ends the watch then.
pub(super) const WATCH_SECONDS: u32 = 60;
/// How long the API server may take to begin a reply, and to go on with it.
pub(super) const SILENCE: Duration = Duration::from_secs(30);

/// The time limits of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeLimits {
    /// How long the API server may take to begin a reply, and to go on with it.
    silence: Duration,
    /// How long a whole reply may take, however steadily it comes. Each page of a list is a reply of its own.
    whole_reply: Duration,
    /// How long a watch may be silent: the API server ends it before.
    watch_silence: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            silence: SILENCE,
            whole_reply: Duration::from_secs(300),
            watch_silence: Duration::from_secs(u64::from(WATCH_SECONDS) + 10),
        }
    }
}

/// A reply that did not begin, or did not go on, in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer for {} s", .limit.as_secs())]
pub(super) struct NoAnswer {
    limit: Duration,
    /// Whether the API server has answered another request meanwhile, so that it is not away.
    pub(super) others_answered: bool,
}

impl NoAnswer {
    /// Finds such an error among the causes of another one.
    pub(super) fn among(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(*found);
            }
            next = error.source();
        }
        None
    }
}

/// Sends requests, each within its time limits.
pub(super) type LimitedService = BoxCloneSyncService<Request<Body>, Response<LimitedBody>, BoxError>;

/// Sends a request, and limits the time of its reply.
pub(super) async fn send<S>(
    service: S,
    request: Request<Body>,
    answers: Arc<Credentials>,
    limits: TimeLimits,
) -> Result<Response<LimitedBody>, BoxError>
where
    S: Service<Request<Body>, Response = Response<Incoming>, Error = BoxError>,
{
    let is_watch = is_watch(&request);
    let began = Instant::now();
    let Ok(response) = tokio::time::timeout(limits.silence, service.oneshot(request)).await else {
        return Err(NoAnswer { limit: limits.silence, others_answered: answers.has_answered_since(began) }.into());
    };
    let mut response = response?;
    let place = response.extensions_mut().remove();
    answers.note_answer(response.status().as_u16(), Instant::now());
    Ok(response.map(|body| LimitedBody::new(body, place, is_watch, limits, answers)))
}

/// Returns whether a request begins a watch.
pub(super) fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

/// The body of a reply that must go on in time.
pub(super) struct LimitedBody {
    body: Incoming,
    /// Its place on a connection that it shares; dropped with it.
    _place: Option<Place>,
    limits: TimeLimits,
    /// Until when the whole reply must be there; `None` for a watch.
    ends: Option<Instant>,
    went_on: Instant,
    due: Pin<Box<Sleep>>,
    answers: Arc<Credentials>,
}

impl LimitedBody {
    fn new(
        body: Incoming,
        place: Option<Place>,
        is_watch: bool,
        limits: TimeLimits,
        answers: Arc<Credentials>,
    ) -> Self {
        let now = Instant::now();
        let ends = (!is_watch).then(|| now + limits.whole_reply);
        let due = Box::pin(sleep_until(now));
        let mut limited = Self { body, _place: place, limits, ends, went_on: now, due, answers };
        limited.goes_on();
        limited
    }

    fn silence(&self) -> Duration {
        if self.ends.is_some() { self.limits.silence } else { self.limits.watch_silence }
    }

    fn goes_on(&mut self) {
        self.went_on = Instant::now();
        let silent_until = self.went_on + self.silence();
        self.due.as_mut().reset(self.ends.map_or(silent_until, |ends| silent_until.min(ends)));
    }

    fn late(&self) -> BoxError {
        let is_over_time = self.ends.is_some_and(|ends| ends <= Instant::now());
        let limit = if is_over_time { self.limits.whole_reply } else { self.silence() };
        NoAnswer { limit, others_answered: self.answers.has_answered_since(self.went_on) }.into()
    }
}

impl hyper::body::Body for LimitedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // First what is there: a reader that was busy for long must not mistake that for silence.
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let is_over_time = self.ends.is_some_and(|ends| ends <= Instant::now());
            if is_over_time && matches!(frame, Some(Ok(_))) {
                return Poll::Ready(Some(Err(self.late())));
            }
            self.goes_on();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.due.as_mut().poll(context));
        Poll::Ready(Some(Err(self.late())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::extract::RawQuery;
    use axum::response::Response;
    use axum::routing::get;
    use futures::StreamExt;
    use kube::runtime::watcher;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;
    use crate::client::Cluster;
    use crate::discovery::{Kinds, Resource};
    use crate::shared_watch::{Health, Role, Scope, Viewer};
    use crate::watch::{Watches, api};
    use hotshoe_core::model::kind::Kind;
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;
    use hotshoe_core::model::watched_namespaces::WatchedNamespaces;

    const LIMITS: TimeLimits = TimeLimits {
        silence: Duration::from_millis(300),
        whole_reply: Duration::from_secs(3),
        watch_silence: Duration::from_secs(2),
    };
    /// The deadline of a test: a machine may be busy.
    const LONG: Duration = Duration::from_secs(60);

    async fn serving(server: axum::Router) -> Cluster {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, server).await });
        Cluster::at_within(&address, LIMITS).await
    }

    fn widgets() -> Resource {
        let kind = Kind::new("example.com", "v1", "Widget");
        Resource {
            kind,
            plural: "widgets".to_owned(),
            namespaced: true,
            has_status: true,
            has_scale: false,
            is_converted: false,
        }
    }

    fn list(version: u32) -> String {
        let metadata = json!({ "resourceVersion": version.to_string() });
        json!({ "kind": "WidgetList", "apiVersion": "example.com/v1", "metadata": metadata, "items": [] }).to_string()
    }

    /// Returns a reply whose parts come at these intervals, and which then never ends.
    fn in_parts(parts: Vec<String>, pause: Duration) -> Response {
        let parts = futures::stream::iter(parts).then(move |part| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, std::io::Error>(part)
        });
        Response::new(axum::body::Body::from_stream(parts.chain(futures::stream::pending())))
    }

    async fn listed(reply: impl Fn() -> Response + Clone + Send + Sync + 'static) -> kube::Error {
        let cluster = serving(axum::Router::new().fallback(move || std::future::ready(reply()))).await;
        let listed = api(&cluster.client, &widgets(), None);
        let listed = async move { listed.list(&kube::api::ListParams::default()).await };
        tokio::time::timeout(LONG, listed).await.unwrap().err().unwrap()
    }

    #[tokio::test]
    async fn a_list_whose_reply_stops_in_the_middle_has_a_time_limit() {
        let error = listed(|| in_parts(vec!["{".to_owned()], Duration::ZERO)).await;
        let late = NoAnswer::among(&error).unwrap();
        assert_eq!((late.limit, late.others_answered), (LIMITS.silence, false), "{error}");
    }

    #[tokio::test]
    async fn a_list_whose_reply_comes_byte_by_byte_has_a_time_limit_as_a_whole() {
        let error = listed(|| in_parts(vec![" ".to_owned(); 100_000], Duration::from_millis(20))).await;
        assert_eq!(NoAnswer::among(&error).unwrap().limit, LIMITS.whole_reply, "{error}");
    }

    #[tokio::test]
    async fn a_watch_is_silent_for_longer_than_a_list_may_be_and_not_for_ever() {
        let silent = || std::future::ready(in_parts(vec![" ".to_owned()], Duration::ZERO));
        let cluster = serving(axum::Router::new().fallback(silent)).await;
        let widgets = api(&cluster.client, &widgets(), None);
        let began = Instant::now();
        let events = widgets.watch(&kube::api::WatchParams::default(), "1").await.unwrap();
        let event = tokio::time::timeout(LONG, std::pin::pin!(events).next()).await.unwrap();
        let error = event.unwrap().err().unwrap();
        assert!(began.elapsed() >= LIMITS.watch_silence, "{error}");
        let ended = watcher::Error::WatchFailed(error);
        assert_eq!(crate::watch::code(&ended), 0);
    }

    #[tokio::test]
    async fn a_list_that_is_never_answered_is_reported_and_tried_again() {
        let (lists, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = asked.clone();
        let serve = move |RawQuery(query): RawQuery| {
            let number = match query.unwrap_or_default().contains("watch=true") {
                true => usize::MAX,
                false => counted.fetch_add(1, Ordering::Relaxed),
            };
            async move {
                match number {
                    0 => std::future::pending().await,
                    usize::MAX => in_parts(Vec::new(), Duration::ZERO),
                    _ => Response::new(list(7).into()),
                }
            }
        };
        let served = json!({ "resources": [{ "name": "widgets", "kind": "Widget", "namespaced": true }] }).to_string();
        let others = lists.clone();
        let server = axum::Router::new()
            .route("/apis/example.com/v1", get(move || std::future::ready(served.clone())))
            .route("/apis/example.com/v1/widgets", get(serve))
            .fallback(move || {
                others.fetch_add(1, Ordering::Relaxed);
                std::future::ready("{}")
            });
        let cluster = serving(server).await;
        let watches =
            Watches::new(cluster.clone(), Arc::new(Kinds::default()), WatchedNamespaces::default(), "hotshoe".into());
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let (scope, viewer) = (Scope::new(widgets().kind, ""), Viewer::active(&"demo".into()));
        let watch = watches.subscribe(&scope, &kept_fields, (&viewer, Role::Parent), Arc::new(|_| ()));
        // The API server goes on to answer other requests.
        let other = tokio::spawn(async move {
            loop {
                drop(cluster.client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await);
                tokio::time::sleep(LIMITS.silence / 10).await;
            }
        });
        tokio::time::timeout(LONG, watch.tried()).await.unwrap();
        let health = watch.health();
        assert!(matches!(&health, Health::Broken(why) if why.contains("no answer for")), "{health:?}");
        tokio::time::timeout(LONG, watch.synced()).await.unwrap();
        assert!(asked.load(Ordering::Relaxed) >= 2 && lists.load(Ordering::Relaxed) > 0);
        other.abort();
    }
}
