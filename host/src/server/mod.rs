//! Serves the host's metrics, health and readiness on TCP ports, and an administrator's commands on a Unix socket.
//!
//! | file | contents |
//! |---|---|
//! | `public.rs` | what every client of a port may ask for |
//! | `connections.rs` | their connections, which are bounded |
//! | `authorization.rs`, `certificate.rs` | who may read the metrics, and TLS, where that is asked for |
//! | `admin.rs` | the commands, which change what is active and show what is in objects |
//! | `admin_socket.rs` | the socket, in a directory of the host's user alone |
//! | `verb.rs` | the commands as paths, for both ends |

pub mod admin;
pub mod admin_socket;
pub mod authorization;
pub mod certificate;
pub mod connections;
pub mod public;
pub mod verb;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use tokio::net::TcpListener;

use crate::cluster::client::Cluster;
use crate::cluster::lease::Leases;
use crate::fleet::Fleet;
use crate::server::admin_socket::AdminSocket;
use crate::server::authorization::Authorizer;
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
    /// The kubeconfig context.
    pub context: String,
}

/// How metrics are served to those only whom the API server lets read them.
pub struct SecureMetrics {
    /// The cluster that is asked.
    pub cluster: Cluster,
    /// The folder of `tls.crt` and `tls.key`; without it, the host makes a certificate.
    pub certificate: Option<PathBuf>,
}

/// The ports of a host.
pub struct Ports {
    listener: TcpListener,
    /// Of probes alone, where they have one: who fills the other port then keeps no probe waiting.
    probes: Option<TcpListener>,
}

impl Ports {
    /// Listens, before anything is served; who connects meanwhile waits.
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

    /// Returns where metrics are served.
    ///
    /// # Errors
    /// When the operating system does not say it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends. What is asked of `secure` metrics a kubelet cannot give, so its probes have a port
    /// of their own then.
    ///
    /// # Errors
    /// When there is no certificate, or the operating system does not say where it listens.
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
                let authorizer = Arc::new(Authorizer::new(cluster));
                routes = routes.layer(from_fn_with_state(authorizer, authorization::required));
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
        // It has no end, and so no error.
        drop(axum::serve(socket, admin::routes(about)).await);
    });
}
