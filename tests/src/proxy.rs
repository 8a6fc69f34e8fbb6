//! A proxy before the API server that can keep requests waiting, as a load balancer does that has dropped a connection
//! without a reset, or a server behind the API server that hangs.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::SinkExt;
use futures::channel::mpsc;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::ControlPlane;

/// Returns whether the request with this path and query is to wait.
type Waits = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A proxy that is served until it is dropped. It has the credentials of an account; its clients need none.
pub struct Proxy {
    folder: TempDir,
    shared: Arc<Shared>,
    served: JoinHandle<()>,
}

struct Shared {
    client: kube::Client,
    waits: watch::Sender<Option<Waits>>,
    waiting: AtomicUsize,
    /// Whether the replies to deletions are kept back.
    holds_replies: watch::Sender<bool>,
    /// Changed to end the watches.
    cuts: watch::Sender<()>,
}

type Frames = mpsc::Receiver<Result<Frame<Bytes>, Infallible>>;

impl Proxy {
    /// Serves a proxy before a control plane, for this account.
    pub async fn before(plane: &ControlPlane, namespace: &str, account: &str) -> Self {
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig_of(namespace, account).await).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a usable kubeconfig");
        config.default_retry = false;
        let client = kube::Client::try_from(config).expect("a client");
        let (waits, cuts) = (watch::Sender::new(None), watch::Sender::new(()));
        let holds_replies = watch::Sender::new(false);
        let shared = Arc::new(Shared { client, waits, waiting: AtomicUsize::new(0), holds_replies, cuts });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let folder = TempDir::new().expect("a folder");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{ "name": "proxy", "cluster": { "server": format!("http://{address}") } }],
            "users": [{ "name": "proxy", "user": {} }],
            "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "user": "proxy" } }],
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).expect("a kubeconfig is written");
        let served = tokio::spawn(serve(listener, shared.clone()));
        Self { folder, shared, served }
    }

    /// Returns the kubeconfig of its clients.
    pub fn kubeconfig(&self) -> PathBuf {
        Path::join(self.folder.path(), "kubeconfig")
    }

    /// Keeps the lists of this plural waiting, until the next call of [`Self::answer`].
    pub fn hold_lists(&self, plural: &str) {
        let path = format!("/{plural}");
        let waits = move |uri: &str| {
            let (before, query) = uri.split_once('?').unwrap_or((uri, ""));
            before.ends_with(&path) && !query.contains("watch=true")
        };
        self.shared.waits.send_replace(Some(Arc::new(waits)));
    }

    /// Keeps the replies to deletions back, until the next call of [`Self::answer`]. The API server deletes meanwhile.
    pub fn hold_replies_to_deletions(&self) {
        self.shared.holds_replies.send_replace(true);
    }

    /// Returns how many requests were kept waiting so far.
    pub fn held(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Answers all further requests, and passes on the replies that were kept back. Requests that wait already are never
    /// answered.
    pub fn answer(&self) {
        self.shared.waits.send_replace(None);
        self.shared.holds_replies.send_replace(false);
    }

    /// Ends all watches so that their clients have to list again.
    pub fn end_watches(&self) {
        self.shared.cuts.send_replace(());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.served.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        let service = service_fn(move |request| pass(request, shared.clone()));
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move { drop(connection.await) });
    }
}

async fn pass(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<StreamBody<Frames>>, kube::Error> {
    let uri = request.uri().to_string();
    let waits = shared.waits.borrow().clone();
    if waits.is_some_and(|waits| waits(&uri)) {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        return std::future::pending().await;
    }
    let (is_watch, is_deletion) = (uri.contains("watch=true"), request.method() == Method::DELETE);
    let (mut head, body) = request.into_parts();
    head.headers.remove(header::HOST);
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let cuts = shared.cuts.subscribe();
    let response = shared.client.send(Request::from_parts(head, Body::from(body))).await?;
    if is_deletion {
        drop(shared.holds_replies.subscribe().wait_for(|holds| !*holds).await);
    }
    let (head, body) = response.into_parts();
    let (frames, received) = mpsc::channel(16);
    tokio::spawn(forward(body, frames, is_watch.then_some(cuts)));
    Ok(Response::from_parts(head, StreamBody::new(received)))
}

async fn forward(
    mut body: Body,
    mut frames: mpsc::Sender<Result<Frame<Bytes>, Infallible>>,
    mut cuts: Option<watch::Receiver<()>>,
) {
    let gone = json!({ "type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old",
    } });
    loop {
        let cut = async {
            match &mut cuts {
                Some(cuts) => drop(cuts.changed().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            frame = body.frame() => {
                let Some(Ok(frame)) = frame else { return };
                if frames.send(Ok(frame)).await.is_err() {
                    return;
                }
            }
            () = cut => {
                drop(frames.send(Ok(Frame::data(format!("{gone}\n").into()))).await);
                return;
            }
        }
    }
}
