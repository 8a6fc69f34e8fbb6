//! HTTP to the API server: connections, TLS and credentials.
//!
//! Built from the layers of kube's client, so that watches and single requests share connections and credentials.
//! Single requests bypass that client's buffer, which is a task with a queue, and its body wrappers. No request is
//! retried here: a permit to write may have ended meanwhile. Every request has a time limit.

use std::sync::Arc;

use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use tower::util::{BoxCloneSyncService, Oneshot};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::connector::{self, Versions};
use crate::counts::Counts;
use crate::credentials::Credentials;
use crate::pages::Pages;
use crate::permitted_body::{self, PermittedBody};
use crate::proxy::Proxy;
use crate::shared_connections::SharedConnections;
use crate::time_limit::{self, LimitedService, TimeLimits};

/// The accepted types for the metadata of an object alone. An aggregated API server that does not support that form
/// sends the whole object.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
/// The accepted types for a list of metadata, which has a type of its own.
const METADATA_LIST: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");

/// The default namespace of clients. Each request names its own.
const NAMESPACE: &str = "default";

/// A request that is being sent, and then its response with an unread body.
pub(super) type Sending = Oneshot<LimitedService, Request<Body>>;

/// The connections to one API server; cheap to clone.
#[derive(Clone)]
pub(super) struct Transport {
    /// Sends each request on a connection that no other request uses meanwhile.
    requests: LimitedService,
    /// Sends watches on connections that they share.
    watches: LimitedService,
    shared: Arc<SharedConnections>,
}

impl Transport {
    /// # Errors
    /// If certificates or credentials cannot be used.
    pub(super) fn new(
        config: &kube::Config,
        proxy: Option<&Proxy>,
        answers: &Arc<Credentials>,
        limits: TimeLimits,
        counts: &Counts,
    ) -> anyhow::Result<Self> {
        let connector = connector::of(config, proxy, Versions::Http1)?;
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        let connector = connector::of(config, proxy, Versions::Http1And2)?;
        let shared = Arc::new(SharedConnections::new(connector, client.clone()));
        let watches = shared.clone();
        let watches = BoxCloneSyncService::new(service_fn(move |request| watches.clone().send(request)));
        let requests = limited(config, client.map_err(BoxError::from), answers.clone(), limits, counts.clone())?;
        let watches = limited(config, watches, answers.clone(), limits, counts.clone())?;
        Ok(Self { requests, watches, shared })
    }

    /// Returns whether watches share connections, as far as is known.
    pub(super) fn watches_share(&self) -> bool {
        self.shared.are_shared()
    }

    /// Returns a client for single objects.
    pub(super) fn client(&self) -> kube::Client {
        kube::Client::new(self.requests.clone(), NAMESPACE)
    }

    /// Returns a client for watches, and for lists that are sent one after the other. It asks for whole objects, or
    /// only for their metadata.
    pub(super) fn lister(&self, of_metadata_only: bool) -> kube::Client {
        let (transport, pages) = (self.requests.clone(), Pages::default());
        let send = move |request: Request<Body>| {
            let request = if of_metadata_only { of_metadata(request) } else { request };
            pages.clone().send(transport.clone(), request)
        };
        kube::Client::new(service_fn(send), NAMESPACE)
    }

    /// Sends one request, whose URI is a path, and returns the response with an unread body.
    pub(super) fn send(&self, request: Request<Body>) -> Sending {
        self.requests.clone().oneshot(request)
    }

    /// Begins one of many watches whose events are read as they come.
    pub(super) fn watch(&self, request: Request<Body>) -> Sending {
        self.watches.clone().oneshot(request)
    }
}

/// Adds what every request has to one way of sending requests: the address of the API server, credentials and time limits.
fn limited<S>(
    config: &kube::Config,
    send: S,
    answers: Arc<Credentials>,
    limits: TimeLimits,
    counts: Counts,
) -> anyhow::Result<LimitedService>
where
    S: Service<Request<PermittedBody>, Response = Response<Incoming>, Error = BoxError, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(permitted_body::of)
        .service(send);
    let host: Arc<str> = config.cluster_url.authority().map_or("", |authority| authority.as_str()).into();
    let limited = move |request: Request<Body>| {
        let counted = counts.begin(host.clone(), request.method());
        let sent = time_limit::send(service.clone(), request, answers.clone(), limits);
        counted.end_with(sent)
    };
    Ok(BoxCloneSyncService::new(service_fn(limited)))
}

/// Changes a list or watch request to ask for metadata only.
pub(super) fn of_metadata(mut request: Request<Body>) -> Request<Body> {
    let accepted = if time_limit::is_watch(&request) { METADATA } else { METADATA_LIST };
    request.headers_mut().insert(header::ACCEPT, accepted);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_a_watch_of_metadata_each_accept_a_type_of_their_own() {
        let form = |query: &str| {
            let request = Request::get(format!("/api/v1/pods?{query}")).header(header::ACCEPT, "application/json");
            let request = of_metadata(request.body(Body::empty()).unwrap());
            let forms: Vec<_> = request.headers().get_all(header::ACCEPT).iter().cloned().collect();
            forms
        };
        assert_eq!(form("watch=true&labelSelector=a"), [METADATA]);
        assert_eq!(form("labelSelector=a&watch=true"), [METADATA]);
        assert_eq!(form("limit=50&labelSelector=watch=true"), [METADATA_LIST]);
    }
}
