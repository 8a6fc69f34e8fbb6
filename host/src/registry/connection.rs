//! A client of one registry, for one image: TLS, proxy, credentials, and how long it may take.

use std::future::Future;

use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, RegistryOperation};
use serde::{Deserialize, Serialize};

use crate::registry::credentials::Credentials;
use crate::registry::error::{self, RegistryError};
use crate::registry::reference::ImageRef;
use hotshoe_core::model::limits::{REGISTRY_CONNECT, REGISTRY_SILENCE, REGISTRY_TIME};

/// How registries are reached. Proxies are those of the environment: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Access {
    /// Who we are.
    pub credentials: Credentials,
    /// Certificates in PEM of further authorities, beside those that the system trusts.
    pub authorities: Option<String>,
    /// Whether registries elsewhere than on this machine are asked without TLS.
    pub plain_http: bool,
}

/// A connection with the registry of an image.
pub(super) struct Connection {
    pub(super) client: Client,
    image: ImageRef,
    /// What an error says of the credentials.
    with: String,
}

impl Connection {
    /// Prepares a client, and gets a token where the registry wants one.
    pub(super) async fn open(image: &ImageRef, access: &Access, to: RegistryOperation) -> Result<Self, RegistryError> {
        let auth = access.credentials.of_image(image)?;
        let with = match &auth {
            RegistryAuth::Basic(user, _) => format!("to the user {user:?}"),
            _ => "without credentials".to_owned(),
        };
        let client = Client::try_from(config(image, access)?)
            .map_err(|error| RegistryError::InvalidAuthority(error::root_cause(&error)))?;
        let connection = Self { client, image: image.clone(), with };
        connection.within(connection.client.auth(&image.as_reference(), &auth, to)).await?;
        Ok(connection)
    }

    /// Waits for an answer about the image, though not for ever.
    pub(super) async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, OciDistributionError>>,
    ) -> Result<T, RegistryError> {
        self.about(&self.image, request).await
    }

    /// Waits for an answer about another image of the same repository.
    pub(super) async fn about<T>(
        &self,
        image: &ImageRef,
        request: impl Future<Output = Result<T, OciDistributionError>>,
    ) -> Result<T, RegistryError> {
        timed(image, request).await?.map_err(|error| error::of_request(image, &self.with, error))
    }
}

/// Waits until it is done, or takes too long.
pub(super) async fn timed<T>(image: &ImageRef, work: impl Future<Output = T>) -> Result<T, RegistryError> {
    let late = |_| RegistryError::TimedOut { registry: image.registry().to_owned(), time: REGISTRY_TIME };
    tokio::time::timeout(REGISTRY_TIME, work).await.map_err(late)
}

fn config(image: &ImageRef, access: &Access) -> Result<ClientConfig, RegistryError> {
    // Registries on this machine have certificates seldom; whoever gives an authority has one.
    let is_plain = access.plain_http || image.is_loopback() && access.authorities.is_none();
    // Fails where it was chosen before. The client wants it chosen even where it speaks no TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(ClientConfig {
        protocol: if is_plain { ClientProtocol::Http } else { ClientProtocol::Https },
        extra_root_certificates: pem(access.authorities.as_deref().unwrap_or_default())?,
        platform_resolver: None,
        read_timeout: Some(REGISTRY_SILENCE),
        connect_timeout: Some(REGISTRY_CONNECT),
        user_agent: concat!("hotshoe/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    })
}

/// Returns the certificates in a text.
fn pem(text: &str) -> Result<Vec<Certificate>, RegistryError> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes())
        .map(|certificate| certificate.map(|certificate| certificate_of(&certificate)))
        .collect();
    let certificates = certificates.map_err(|error| RegistryError::InvalidAuthority(error.to_string()))?;
    if certificates.is_empty() && !text.is_empty() {
        return Err(RegistryError::InvalidAuthority("there is no certificate in it".to_owned()));
    }
    Ok(certificates)
}

fn certificate_of(der: &[u8]) -> Certificate {
    Certificate { encoding: CertificateEncoding::Der, data: der.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(image: &str, access: &Access) -> bool {
        matches!(config(&image.parse().unwrap(), access).unwrap().protocol, ClientProtocol::Http)
    }

    #[test]
    fn only_a_registry_on_this_machine_is_asked_without_tls_unless_more_is_said() {
        let access = Access::default();
        assert!(protocol("oci://localhost:5000/a", &access));
        assert!(protocol("oci://127.0.0.1:5000/a", &access));
        assert!(!protocol("oci://10.0.0.1:5000/a", &access));
        assert!(!protocol("oci://ghcr.io/a", &access));
        assert!(protocol("oci://10.0.0.1:5000/a", &Access { plain_http: true, ..access }));
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        for text in ["words", "-----BEGIN CERTIFICATE-----\nno base64!\n-----END CERTIFICATE-----\n"] {
            assert_eq!(pem(text).unwrap_err().reason(), "InvalidAuthority", "{text}");
        }
        assert!(pem("").is_ok_and(|none| none.is_empty()));
    }
}
