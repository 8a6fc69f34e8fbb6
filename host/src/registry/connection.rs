//! A client of one registry, for one image: TLS, proxy, credentials and timeouts.

use std::future::Future;

use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, RegistryOperation};
use serde::{Deserialize, Serialize};

use crate::registry::authorities;
use crate::registry::credentials::Credentials;
use crate::registry::error::{self, RegistryError};
use crate::registry::reference::ImageRef;
use hotshoe_core::model::limits::{REGISTRY_CONNECT, REGISTRY_SILENCE, REGISTRY_TIME};

/// How registries are reached. The proxies are those of the environment: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Access {
    /// The credentials to log in with.
    pub credentials: Credentials,
    /// Certificates in PEM of authorities that are trusted beside those of the system: the registry's CA bundle.
    pub authorities: Option<String>,
    /// Whether registries on other machines are asked without TLS. On this machine, most are anyway.
    pub plain_http: bool,
}

/// A connection with the registry of an image.
pub(super) struct Connection {
    pub(super) client: Client,
    image: ImageRef,
    login: RegistryAuth,
    /// The credentials, as an error describes them.
    with: String,
}

impl Connection {
    /// Prepares a client. Reads the system's authorities, and makes no request yet.
    pub(super) fn prepare(image: &ImageRef, access: &Access) -> Result<Self, RegistryError> {
        let login = access.credentials.of_image(image)?;
        let with = match &login {
            RegistryAuth::Basic(user, _) => format!("to the user {user:?}"),
            _ => "without credentials".to_owned(),
        };
        let client = Client::try_from(config(image, access)?)
            .map_err(|error| RegistryError::InvalidAuthority(error::root_cause(&error)))?;
        Ok(Self { client, image: image.clone(), login, with })
    }

    /// Logs in for this operation, if the registry requires a login.
    pub(super) async fn log_in(&self, to: RegistryOperation) -> Result<(), RegistryError> {
        self.within(self.client.auth(&self.image.as_reference(), &self.login, to)).await.map(drop)
    }

    /// Waits for an answer about the image, within the time limit.
    pub(super) async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, OciDistributionError>>,
    ) -> Result<T, RegistryError> {
        self.about(&self.image, request).await
    }

    /// Waits for an answer about another image of the same repository, within the time limit.
    pub(super) async fn about<T>(
        &self,
        image: &ImageRef,
        request: impl Future<Output = Result<T, OciDistributionError>>,
    ) -> Result<T, RegistryError> {
        timed(image, request).await?.map_err(|error| error::of_request(image, &self.with, error))
    }
}

/// Limits the time of a request.
pub(super) async fn timed<T>(image: &ImageRef, work: impl Future<Output = T>) -> Result<T, RegistryError> {
    let late = |_| RegistryError::TimedOut { registry: image.registry().to_owned(), time: REGISTRY_TIME };
    tokio::time::timeout(REGISTRY_TIME, work).await.map_err(late)
}

/// Returns whether a registry is asked without TLS: where that is allowed, and on this machine, where few registries
/// have a certificate, unless authorities are given.
fn is_plain(image: &ImageRef, access: &Access) -> bool {
    access.plain_http || image.is_loopback() && access.authorities.is_none()
}

fn config(image: &ImageRef, access: &Access) -> Result<ClientConfig, RegistryError> {
    // Fails if a provider was installed before. The client needs one even without TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(ClientConfig {
        protocol: if is_plain(image, access) { ClientProtocol::Http } else { ClientProtocol::Https },
        extra_root_certificates: access.authorities.as_deref().map(authorities::given).transpose()?.unwrap_or_default(),
        platform_resolver: None,
        read_timeout: Some(REGISTRY_SILENCE),
        connect_timeout: Some(REGISTRY_CONNECT),
        user_agent: concat!("hotshoe/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_registry_on_this_machine_is_asked_without_tls_unless_it_is_allowed() {
        let plain = |image: &str, access: &Access| is_plain(&image.parse().unwrap(), access);
        let access = Access::default();
        assert!(plain("oci://localhost:5000/a", &access));
        assert!(plain("oci://127.0.0.1:5000/a", &access));
        assert!(!plain("oci://10.0.0.1:5000/a", &access));
        assert!(!plain("oci://ghcr.io/a", &access));
        assert!(plain("oci://10.0.0.1:5000/a", &Access { plain_http: true, ..access.clone() }));
        assert!(!plain("oci://localhost:5000/a", &Access { authorities: Some(String::new()), ..access }));
    }
}
