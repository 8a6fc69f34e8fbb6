//! Serves the host's metrics, health, readiness and webhooks on TCP ports, and an administrator's commands on a Unix
//! socket.
//!
//! | file | contents |
//! |---|---|
//! | `about.rs` | what is served |
//! | `public.rs` | the routes for every client of a port |
//! | `turns.rs`, `coding.rs` | answers that cost time, made one after another; gzip |
//! | `readiness.rs` | what the probes answer, found out by the host's thread and read by that of the ports |
//! | `connections.rs` | bounds the connections to the ports |
//! | `misdirected.rs` | answers TLS on a plain port, and plain HTTP on one with TLS |
//! | `authorization.rs`, `certificate.rs` | who may read the metrics, and TLS, if configured |
//! | `webhooks/` | the reviews of the API server |
//! | `admin.rs` | the commands, which change which revision is active and show the content of objects |
//! | `admin_socket.rs` | the socket, in a directory that only the host's user may enter |
//! | `verb.rs` | the paths of the commands, for server and command line |

mod about;
pub mod admin;
pub mod admin_socket;
pub mod authorization;
pub mod certificate;
mod coding;
pub mod connections;
mod misdirected;
pub mod public;
mod readiness;
mod turns;
pub mod verb;
mod webhooks;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use axum::Router;
use futures::future::join_all;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use crate::server::about::About;
use crate::server::admin_socket::AdminSocket;
use crate::server::connections::{Bounds, SHORT, WEBHOOKS};
use crate::server::readiness::Readiness;
use crate::server::webhooks::Webhooks;
use hotshoe_cluster::client::Cluster;
use hotshoe_operator::webhooks::own_certificates::Certified;

/// How metrics are served only to clients that the API server authorizes.
pub struct SecureMetrics {
    /// A connection, used on the thread of the ports alone, to the cluster whose API server is asked.
    pub cluster: Cluster,
    /// The folder with `tls.crt` and `tls.key`; if there is none, the host makes a self-signed certificate.
    pub certificate: Option<PathBuf>,
}

/// The certificate of the webhooks.
pub enum WebhookCertificate {
    /// The one in this folder, with `tls.crt` and `tls.key`.
    Folder(PathBuf),
    /// The one that the host keeps itself.
    Own(watch::Receiver<Certified>),
}

/// The ports of a host.
pub struct Ports {
    listener: TcpListener,
    /// The port of the probes, if they have one of their own. Then a client that fills the other port keeps no probe
    /// waiting.
    probes: Option<TcpListener>,
    /// The port of the webhooks.
    webhooks: Option<TcpListener>,
}

impl Ports {
    /// Begins to listen, before anything is served. A client that connects meanwhile waits.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub async fn bind(
        listen: SocketAddr,
        probes: Option<SocketAddr>,
        webhooks: Option<SocketAddr>,
    ) -> anyhow::Result<Self> {
        let listener = bind(listen, "--listen").await?;
        let probes = match probes {
            Some(address) => Some(bind(address, "--probes").await?),
            None => None,
        };
        let webhooks = match webhooks {
            Some(address) => Some(bind(address, "--webhooks").await?),
            None => None,
        };
        Ok(Self { listener, probes, webhooks })
    }

    /// Returns the address at which metrics are served.
    ///
    /// # Errors
    /// When the operating system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the port of the webhooks, if they are served.
    ///
    /// # Errors
    /// When the operating system does not report the address.
    pub fn webhooks_port(&self) -> io::Result<Option<u16>> {
        let address = self.webhooks.as_ref().map(TcpListener::local_addr).transpose()?;
        Ok(address.map(|address| address.port()))
    }

    /// Serves until the process ends, on a thread of its own: neither does work on the host's thread keep a kubelet
    /// waiting, nor do clients keep that thread from its work, however many there are. With `secure` metrics every
    /// client needs a token. A kubelet has none, so the probes then need a port of their own.
    ///
    /// # Errors
    /// When there is no certificate, the operating system does not report an address, or it refuses the thread.
    pub fn serve(
        self,
        secure: Option<SecureMetrics>,
        webhooks: Option<WebhookCertificate>,
        about: About,
    ) -> anyhow::Result<()> {
        let readiness = Arc::new(Readiness::new(readiness::unready(&about)));
        tokio::spawn(readiness::keep(about.clone(), readiness.clone()));
        let host = Handle::current();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let served = {
            // What is spawned for the ports, such as the task that follows a certificate, is on their thread, too.
            let _entered = runtime.enter();
            self.services(secure, webhooks, about, readiness, host)
        };
        let services = match served {
            Ok(services) => services,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let serve = move || runtime.block_on(join_all(services.into_iter().map(Service::serve)));
        thread::Builder::new().name("ports".to_owned()).spawn(serve)?;
        Ok(())
    }

    fn services(
        self,
        secure: Option<SecureMetrics>,
        webhooks: Option<WebhookCertificate>,
        about: About,
        readiness: Arc<Readiness>,
        host: Handle,
    ) -> anyhow::Result<Vec<Service>> {
        let (address, mut served, mut services) = (self.address()?, "/metrics", Vec::new());
        let reads = &about.metrics.certificates.clone();
        if let (Some(listener), Some(certificate)) = (self.webhooks, webhooks) {
            tracing::info!("serving webhooks at https://{}", listener.local_addr()?);
            let tls = match certificate {
                WebhookCertificate::Folder(folder) => certificate::acceptor(Some(&folder), reads)?,
                WebhookCertificate::Own(certified) => certificate::own(certified)?,
            };
            let routes = webhooks::routes(Webhooks::new(about.fleet.clone(), about.metrics.clone(), host));
            services.push(Service { bounds: WEBHOOKS, ..Service::of(listener, Some(tls), routes)? });
        }
        let mut routes = public::metrics(about);
        match self.probes {
            Some(listener) => {
                tracing::info!("serving /healthz and /readyz at http://{}", listener.local_addr()?);
                services.push(Service::of(listener, None, public::probes(readiness))?);
            }
            None => {
                served = "/metrics, /healthz and /readyz";
                routes = routes.merge(public::probes(readiness));
            }
        }
        let scheme = if secure.is_some() { "https" } else { "http" };
        let tls = match secure {
            Some(SecureMetrics { cluster, certificate }) => {
                routes = authorization::protect(routes, cluster);
                Some(certificate::acceptor(certificate.as_deref(), reads)?)
            }
            None => None,
        };
        tracing::info!("serving {served} on {scheme}://{address}");
        services.push(Service::of(self.listener, tls, routes)?);
        Ok(services)
    }
}

/// What is served on one port.
struct Service {
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    routes: Router,
    bounds: Bounds,
}

impl Service {
    /// Detaches a listener from the thread on which it was bound.
    fn of(listener: TcpListener, tls: Option<TlsAcceptor>, routes: Router) -> io::Result<Self> {
        Ok(Self { listener: listener.into_std()?, tls, routes, bounds: SHORT })
    }

    async fn serve(self) {
        match TcpListener::from_std(self.listener) {
            Ok(listener) => connections::serve(self.bounds, listener, self.tls, self.routes).await,
            Err(error) => tracing::error!(%error, "a port cannot be served"),
        }
    }
}

async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let why = if error.kind() == io::ErrorKind::AddrInUse { "another host may run; " } else { "" };
        let what = format!("cannot listen on {address}: {why}choose another address with {flag}, 127.0.0.1:0 for any");
        anyhow::Error::new(error).context(what)
    })
}

/// Answers an administrator's commands until the process ends.
pub fn serve_commands(socket: AdminSocket, about: About) {
    tracing::info!("an administrator's commands reach this host on {}", socket.path().display());
    tokio::spawn(async move {
        // Serving never ends, so there is no error.
        drop(axum::serve(socket, admin::routes(about)).await);
    });
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    /// Asks a port, and blocks this thread until the answer is there.
    fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[tokio::test]
    async fn probes_and_metrics_are_answered_while_the_hosts_thread_is_busy() {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        for probes in [None, Some(any)] {
            let ports = Ports::bind(any, probes, None).await.unwrap();
            let metrics = ports.address().unwrap();
            let probes = ports.probes.as_ref().map_or(metrics, |probes| probes.local_addr().unwrap());
            ports.serve(None, None, About::default()).unwrap();
            // From here on this thread, which is that of the host, runs no task: it only waits for the answers.
            for (address, path) in [(probes, "/readyz"), (probes, "/healthz"), (metrics, "/metrics")] {
                let answer = ask(address, path);
                assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            }
        }
    }
}
