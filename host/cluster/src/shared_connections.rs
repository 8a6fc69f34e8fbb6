//! Connections that many watches share, by HTTP/2. Over HTTP/1.1 each watch is a connection of its own, with buffers and
//! a state of TLS on both sides.
//!
//! Only watches go this way, whose events are read as they come. Everything that has a page of a list or a write behind
//! it stays on connections of its own: on a shared one, a reader that is slow holds up all the others.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::{Mutex, Semaphore};
use tower::{BoxError, Service, ServiceExt};

use crate::connector::Connector;
use crate::permitted_body::PermittedBody;
use crate::place::Place;

/// How many watches share a connection: as many as Kubernetes' API server allows by default, and as any server should
/// (RFC 9113, section 6.5.2). One that allows fewer leaves the others waiting, until their time limit.
const STREAMS: usize = 100;
/// How many bytes of one watch, and of all on a connection, may be on their way and unread.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// How often a connection is tried, and how long its answer may take: no watch on it may be silent for longer unnoticed.
const PING: Duration = Duration::from_secs(15);

/// The connections to one API server that watches share.
pub(super) struct SharedConnections {
    connector: Connector,
    /// Sends watches to an API server that does not speak HTTP/2, each on a connection of its own.
    unshared: legacy::Client<Connector, PermittedBody>,
    connections: Mutex<Vec<Shared>>,
    /// Whether the API server speaks HTTP/2, once that is known.
    speaks_http2: OnceLock<bool>,
}

/// A connection, before HTTP is spoken on it.
type Stream = <Connector as Service<Uri>>::Response;

/// A connection with places for watches.
struct Shared {
    sender: SendRequest<PermittedBody>,
    places: Arc<Semaphore>,
}

impl SharedConnections {
    /// `connector` offers both versions of HTTP.
    pub(super) fn new(connector: Connector, unshared: legacy::Client<Connector, PermittedBody>) -> Self {
        Self { connector, unshared, connections: Mutex::default(), speaks_http2: OnceLock::new() }
    }

    /// Returns whether watches share connections: unless it is known that the API server does not speak HTTP/2.
    pub(super) fn are_shared(&self) -> bool {
        self.speaks_http2.get() != Some(&false)
    }

    /// Sends a request. The response, if it came by a shared connection, has a [`Place`] among its extensions.
    pub(super) async fn send(self: Arc<Self>, request: Request<PermittedBody>) -> Result<Response<Incoming>, BoxError> {
        let Some((mut sender, place)) = self.place(request.uri()).await? else {
            return Ok(self.unshared.request(request).await?);
        };
        let mut response = sender.send_request(request).await?;
        response.extensions_mut().insert(place);
        Ok(response)
    }

    /// Returns a place on a connection; none if the API server does not speak HTTP/2. While one connection is made, nothing
    /// else is: otherwise the watches that begin together would make one each.
    async fn place(&self, server: &Uri) -> Result<Option<(SendRequest<PermittedBody>, Place)>, BoxError> {
        if !self.are_shared() {
            return Ok(None);
        }
        let mut connections = self.connections.lock().await;
        connections.retain(|shared| !shared.sender.is_closed());
        if let Some(found) = connections.iter().find_map(Shared::place) {
            return Ok(Some(found));
        }
        let stream = self.connect(server.clone()).await?;
        let is_http2 = stream.connected().is_negotiated_h2();
        self.speaks_http2.get_or_init(|| is_http2);
        if !is_http2 {
            return Ok(None);
        }
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .handshake(stream)
            .await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection that watches shared has ended");
            }
        });
        let shared = Shared { sender, places: Arc::new(Semaphore::new(STREAMS)) };
        let place = shared.place();
        connections.push(shared);
        Ok(place)
    }

    /// Makes a connection. A future with a name, because the compiler cannot show that one of an `async fn` is `Send`.
    fn connect(&self, server: Uri) -> BoxFuture<'static, Result<Stream, BoxError>> {
        self.connector.clone().oneshot(server).boxed()
    }
}

impl Shared {
    fn place(&self) -> Option<(SendRequest<PermittedBody>, Place)> {
        let permit = self.places.clone().try_acquire_owned().ok()?;
        Some((self.sender.clone(), Place::of(permit)))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use futures::future::join_all;
    use hotshoe_core::model::kind::Kind;
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use parking_lot::Mutex;
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::*;
    use crate::client::{ApiCall, Cluster};
    use crate::error::ApiError;
    use crate::identity::Identity;
    use crate::served;
    use crate::time_limit::LimitedBody;

    /// An API server whose watches say nothing, and the connections that were made to it.
    struct Server {
        cluster: Cluster,
        made: Arc<AtomicUsize>,
        open: Arc<Mutex<JoinSet<()>>>,
    }

    impl Server {
        /// Serves with TLS, and offers these protocols.
        async fn offering(protocols: &[&str]) -> Self {
            let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
            let tls = ServerConfig::builder().with_no_client_auth();
            let mut tls = tls.with_single_cert(vec![own.cert.der().clone()], key).unwrap();
            tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
            let (made, open) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<JoinSet<()>>>::default());
            tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), made.clone(), open.clone()));
            let authority = STANDARD.encode(own.cert.pem());
            let cluster = json!({ "server": address, "certificate-authority-data": authority });
            let kubeconfig = served::kubeconfig_of(&cluster);
            let cluster = Cluster::connect(&served::options(&kubeconfig)).await.unwrap();
            Self { cluster, made, open }
        }

        async fn watch(&self) -> Result<LimitedBody, ApiError> {
            let kind = Kind::new("", "v1", "ConfigMap");
            let call = ApiCall::get("watch", &kind, "/api/v1/configmaps?watch=true".to_owned());
            self.cluster.watch(call, &Identity::Host).await
        }

        async fn watches(&self, number: usize) -> Vec<LimitedBody> {
            join_all((0..number).map(async |_| self.watch().await.unwrap())).await
        }

        fn connections(&self) -> usize {
            self.made.load(Ordering::Relaxed)
        }
    }

    async fn serve(listener: TcpListener, tls: TlsAcceptor, made: Arc<AtomicUsize>, open: Arc<Mutex<JoinSet<()>>>) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = tls.accept(stream).await else { continue };
            made.fetch_add(1, Ordering::Relaxed);
            open.lock().spawn(async move {
                let silent = |_| async {
                    let events = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
                    Ok::<_, Infallible>(Response::new(StreamBody::new(events)))
                };
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let (stream, silent) = (TokioIo::new(stream), service_fn(silent));
                drop(match is_http2 {
                    true => {
                        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                            .max_concurrent_streams(u32::try_from(STREAMS).unwrap())
                            .serve_connection(stream, silent)
                            .await
                    }
                    false => hyper::server::conn::http1::Builder::new().serve_connection(stream, silent).await,
                });
            });
        }
    }

    #[tokio::test]
    async fn a_hundred_watches_share_a_connection_even_if_they_begin_together() {
        let server = Server::offering(&["h2", "http/1.1"]).await;
        let first = server.watches(STREAMS).await;
        assert_eq!(server.connections(), 1);
        let more = server.watches(STREAMS + 1).await;
        assert_eq!(server.connections(), 3);
        drop((first, more));
        let _again = server.watches(3 * STREAMS).await;
        assert_eq!(server.connections(), 3, "the places are free again");
        assert!(server.cluster.watches_share());
    }

    #[tokio::test]
    async fn without_http2_each_watch_has_a_connection_and_that_is_known() {
        for protocols in [&["http/1.1"][..], &[]] {
            let server = Server::offering(protocols).await;
            let _first = server.watches(1).await;
            assert!(!server.cluster.watches_share());
            let before = server.connections();
            let _more = server.watches(9).await;
            assert_eq!(server.connections(), before + 9, "no connection is made in vain again");
        }
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_is_replaced() {
        let server = Server::offering(&["h2"]).await;
        let mut watches = server.watches(2).await;
        server.open.lock().abort_all();
        for watch in &mut watches {
            let frame = http_body_util::BodyExt::frame(watch).await;
            assert!(frame.is_none_or(|frame| frame.is_err()), "it ends");
        }
        let _again = server.watches(2).await;
        assert_eq!(server.connections(), 2);
    }
}
