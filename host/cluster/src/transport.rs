//! HTTP to the API server: connections, TLS and credentials.
//!
//! Built from the layers of kube's client, so that watches and single requests share connections and credentials.
//! Single requests bypass that client's buffer, which is a task with a queue, and its body wrappers. No request is
//! retried here: a permit to write may have ended meanwhile. Every request has a time limit.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, header};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use tower::util::{BoxCloneSyncService, Oneshot};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use crate::credentials::Credentials;
use crate::pages::Pages;
use crate::permitted_body;
use crate::time_limit::{self, LimitedService, SILENCE, TimeLimits};

/// The timeout for establishing a connection, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of TCP keep-alive probes on a connection that is idle.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// The accepted types for the metadata of an object alone. An aggregated API server that does not support that form
/// sends the whole object.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
/// The accepted types for a list of metadata, which has a type of its own.
const METADATA_LIST: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");

/// The default namespace of clients. Each request names its own.
const NAMESPACE: &str = "default";

/// A connection pool to one API server; cheap to clone.
#[derive(Clone)]
pub(super) struct Transport(LimitedService);

impl Transport {
    /// # Errors
    /// If certificates or credentials cannot be used, or a proxy is configured.
    pub(super) fn new(config: &kube::Config, answers: Arc<Credentials>, limits: TimeLimits) -> anyhow::Result<Self> {
        if let Some(proxy) = &config.proxy_url {
            // Only the host of the proxy: its URL may contain a password.
            let proxy = proxy.host().unwrap_or("it");
            anyhow::bail!(
                "a proxy is not supported; remove {proxy} from the kubeconfig (proxy-url) or the environment (HTTPS_PROXY)"
            );
        }
        let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector())?);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_write_timeout(config.write_timeout);
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_request(permitted_body::of)
            .map_err(BoxError::from)
            .service(client);
        let limited = move |request| time_limit::send(service.clone(), request, answers.clone(), limits);
        Ok(Self(BoxCloneSyncService::new(service_fn(limited))))
    }

    /// Returns a client for single objects.
    pub(super) fn client(&self) -> kube::Client {
        kube::Client::new(self.0.clone(), NAMESPACE)
    }

    /// Returns a client for watches, and for lists that are sent one after the other. It asks for whole objects, or
    /// only for their metadata.
    pub(super) fn lister(&self, of_metadata_only: bool) -> kube::Client {
        let (transport, pages) = (self.0.clone(), Pages::default());
        let send = move |request: Request<Body>| {
            let request = if of_metadata_only { of_metadata(request) } else { request };
            pages.clone().send(transport.clone(), request)
        };
        kube::Client::new(service_fn(send), NAMESPACE)
    }

    /// Sends one request, whose URI is a path, and returns the response with an unread body.
    pub(super) fn send(&self, request: Request<Body>) -> Oneshot<LimitedService, Request<Body>> {
        self.0.clone().oneshot(request)
    }
}

/// Returns the connector for TCP. It notices a connection whose other end is gone, also while no request uses it:
/// otherwise each such connection in the pool would cost a request its whole time limit.
fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    connector.set_tcp_user_timeout(Some(SILENCE));
    connector
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

    #[tokio::test]
    async fn a_proxy_is_refused_and_named_without_its_password() {
        let mut config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
        assert!(Transport::new(&config, Arc::default(), TimeLimits::default()).is_ok());
        config.proxy_url = Some("http://me:secret@proxy.example.com:3128".parse().unwrap());
        let error = Transport::new(&config, Arc::default(), TimeLimits::default()).err().unwrap().to_string();
        assert!(error.contains("remove proxy.example.com from") && !error.contains("secret"), "{error}");
    }

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
