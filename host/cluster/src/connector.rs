//! How a connection to the API server is made: TCP, through a proxy if there is one, and TLS.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::ConfigExt;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

use crate::proxy::{Dial, Proxy};
use crate::time_limit::SILENCE;

/// The timeout for establishing a connection, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of TCP keep-alive probes on a connection that is idle.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Makes connections to an API server.
pub(super) type Connector = TimeoutConnector<HttpsConnector<Dial>>;

/// Which versions of HTTP are offered to an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    Http1,
    /// Both; it chooses.
    Http1And2,
}

/// Returns what makes connections as the configuration says.
///
/// # Errors
/// If the certificates or the name of the server cannot be used.
pub(super) fn of(config: &kube::Config, proxy: Option<&Proxy>, versions: Versions) -> anyhow::Result<Connector> {
    let dial = proxy.map_or_else(|| BoxCloneSyncService::new(tcp().map_err(BoxError::from)), |proxy| proxy.dial(tcp()));
    let mut https = HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name.clone().try_into()?));
    }
    let https = match versions {
        Versions::Http1 => https.enable_http1().wrap_connector(dial),
        Versions::Http1And2 => https.enable_all_versions().wrap_connector(dial),
    };
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_write_timeout(config.write_timeout);
    Ok(connector)
}

/// Returns the connector for TCP. It notices a connection whose other end is gone, also while no request uses it:
/// otherwise each such connection in the pool would cost a request its whole time limit.
fn tcp() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE));
    connector.set_tcp_user_timeout(Some(SILENCE));
    connector
}
