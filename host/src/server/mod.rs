//! Serves the host's metrics, health and readiness on TCP ports, and an administrator's commands on a Unix socket.
//!
//! | file | contents |
//! |---|---|
//! | `public.rs` | the routes for every client of a port |
//! | `connections.rs` | bounds the connections to the ports |
//! | `misdirected.rs` | answers TLS on a plain port, and plain HTTP on one with TLS |
//! | `authorization.rs`, `certificate.rs` | who may read the metrics, and TLS, if configured |
//! | `admin.rs` | the commands, which change which revision is active and show the content of objects |
//! | `admin_socket.rs` | the socket, in a directory that only the host's user may enter |
//! | `verb.rs` | the paths of the commands, for server and command line |

pub mod admin;
pub mod admin_socket;
pub mod authorization;
pub mod certificate;
pub mod connections;
mod misdirected;
pub mod public;
pub mod verb;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::cluster::client::Cluster;
use crate::cluster::credentials::Credentials;
use crate::cluster::lease::Leases;
use crate::fleet::Fleet;
use crate::server::admin_socket::AdminSocket;
use crate::telemetry::metrics::Metrics;

/// What the server serves.
#[derive(Clone)]
pub struct About {
    /// The plugins.
    pub fleet: Arc<Fleet>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The Leases.
    pub leases: Arc<Leases>,
    /// Whether the API server accepts the host's credentials.
    pub credentials: Arc<Credentials>,
    /// The kubeconfig context.
    pub context: String,
}

/// How metrics are served only to clients that the API server authorizes.
pub struct SecureMetrics {
    /// The cluster whose API server is asked.
    pub cluster: Cluster,
    /// The folder with `tls.crt` and `tls.key`; if there is none, the host makes a self-signed certificate.
    pub certificate: Option<PathBuf>,
}

/// The ports of a host.
pub struct Ports {
    listener: TcpListener,
    /// The port of the probes, if they have one of their own. Then a client that fills the other port keeps no probe
    /// waiting.
    probes: Option<TcpListener>,
}

impl Ports {
    /// Begins to listen, before anything is served. A client that connects meanwhile waits.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub async fn bind(listen: SocketAddr, probes: Option<SocketAddr>) -> anyhow::Result<Self> {
        let listener = bind(listen, "--listen").await?;
        let probes = match probes {
            Some(address) => Some(bind(address, "--probes").await?),
            None => None,
        };
        Ok(Self { listener, probes })
    }

    /// Returns the address at which metrics are served.
    ///
    /// # Errors
    /// When the operating system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends. With `secure` metrics every client needs a token. A kubelet has none, so the
    /// probes then need a port of their own.
    ///
    /// # Errors
    /// When there is no certificate, or the operating system does not report an address.
    pub fn serve(self, secure: Option<SecureMetrics>, about: About) -> anyhow::Result<()> {
        let (address, mut served) = (self.address()?, "/metrics");
        let mut routes = public::metrics(about.clone());
        match self.probes {
            Some(listener) => {
                tracing::info!("serving /healthz and /readyz at http://{}", listener.local_addr()?);
                tokio::spawn(connections::serve(listener, None, public::probes(about)));
            }
            None => {
                served = "/metrics, /healthz and /readyz";
                routes = routes.merge(public::probes(about));
            }
        }
        let scheme = if secure.is_some() { "https" } else { "http" };
        let tls = match secure {
            Some(SecureMetrics { cluster, certificate }) => {
                routes = authorization::protect(routes, cluster);
                Some(certificate::acceptor(certificate.as_deref())?)
            }
            None => None,
        };
        tracing::info!("serving {served} on {scheme}://{address}");
        tokio::spawn(connections::serve(self.listener, tls, routes));
        Ok(())
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
