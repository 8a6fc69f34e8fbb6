//! The certificates of the metrics and of the webhooks: either from files, which are read again when they change, or
//! made by the host. For the webhooks, the API server trusts the CA that signs them. For the metrics, one that is
//! self-signed only encrypts: as with controller-runtime, scrapers do not verify it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use hotshoe_core::model::limits::Size;
use hotshoe_operator::telemetry::metrics::CertificateReads;
use hotshoe_operator::webhooks::own_certificates::Certified;
use hotshoe_platform::safe_file;

/// The names of the files, as cert-manager and `kubectl create secret tls` have them.
const CERTIFICATE_FILE: &str = "tls.crt";
const KEY_FILE: &str = "tls.key";
/// The maximum size of a file, more than a long chain needs.
const MAX_FILE_SIZE: Size = Size(1 << 20);
/// How often the files are read.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; the folder of a certificate has tls.crt and tls.key", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file is not PEM, or has something else in it.
    #[error("{path} cannot be used: {source}; it must be PEM", path = .path.display())]
    NoPem {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: pem::Error,
    },
    /// The key does not belong to the certificate, or TLS cannot use them.
    #[error("the certificate cannot be used: {0}; tls.key must be the key of tls.crt")]
    Unusable(#[from] rustls::Error),
    /// No self-signed certificate could be made.
    #[error("no certificate can be made: {0}; give one with --metrics-cert-dir")]
    NotMade(#[from] rcgen::Error),
}

/// The certificate that is in use; while there is none, every client is refused.
struct Current {
    key: ArcSwapOption<CertifiedKey>,
}

impl Current {
    fn new(key: Option<Arc<CertifiedKey>>) -> Arc<Self> {
        Arc::new(Self { key: key.into() })
    }
}

/// The bytes of both files.
#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Returns a TLS acceptor. It uses the certificate of a folder, which is followed until the process ends, or without a
/// folder a self-signed one.
///
/// # Errors
/// When there is no certificate that can be used.
pub(super) fn acceptor(folder: Option<&Path>, reads: &CertificateReads) -> Result<TlsAcceptor, CertificateError> {
    let provider = Arc::new(ring::default_provider());
    let current = match folder {
        None => Current::new(Some(self_signed(&provider)?)),
        Some(folder) => {
            reads.all.inc();
            let files = Files::read(folder)?;
            let current = Current::new(Some(files.parse(folder, &provider)?));
            let now = (files, current.clone());
            tokio::spawn(follow(folder.to_owned(), now, provider.clone(), reads.clone()));
            current
        }
    };
    accept_with(current, provider)
}

/// Returns a TLS acceptor that uses the certificate that the host keeps itself, from when there is one.
///
/// # Errors
/// When TLS cannot be used at all.
pub(super) fn own(certified: watch::Receiver<Certified>) -> Result<TlsAcceptor, CertificateError> {
    let (provider, current) = (Arc::new(ring::default_provider()), Current::new(None));
    tokio::spawn(follow_own(certified, current.clone(), provider.clone()));
    accept_with(current, provider)
}

fn accept_with(current: Arc<Current>, provider: Arc<CryptoProvider>) -> Result<TlsAcceptor, CertificateError> {
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_cert_resolver(current);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}

/// Uses the certificate that the host keeps whenever it is another one.
async fn follow_own(mut certified: watch::Receiver<Certified>, current: Arc<Current>, provider: Arc<CryptoProvider>) {
    loop {
        let certificates = certified.borrow_and_update().certificates.clone();
        if let Some(leaf) = certificates.map(|certificates| certificates.leaf) {
            let key = PrivateKeyDer::Pkcs8(leaf.key.clone_key());
            match CertifiedKey::from_der(vec![leaf.certificate.clone()], key, &provider) {
                Ok(key) => current.key.store(Some(Arc::new(key))),
                Err(error) => tracing::error!("the certificate of the webhooks cannot be used: {error}"),
            }
        }
        if certified.changed().await.is_err() {
            return;
        }
    }
}

/// Uses the certificate in the files whenever they change. A certificate that cannot be used is reported once, and the
/// last good one stays in use.
async fn follow(
    folder: PathBuf,
    (mut seen, current): (Files, Arc<Current>),
    provider: Arc<CryptoProvider>,
    reads: CertificateReads,
) {
    let mut reported = None;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let place = folder.clone();
        let Ok(read) = tokio::task::spawn_blocking(move || Files::read(&place)).await else { return };
        reads.all.inc();
        let renewed = read.and_then(|files| match files == seen {
            true => Ok(None),
            false => files.parse(&folder, &provider).map(|key| Some((files, key))),
        });
        match renewed {
            Ok(None) => reported = None,
            Ok(Some((files, key))) => {
                tracing::info!("the new certificate in {} is used", folder.display());
                current.key.store(Some(key));
                (seen, reported) = (files, None);
            }
            Err(error) => {
                reads.failed.inc();
                let error = error.to_string();
                if reported.as_ref() != Some(&error) {
                    tracing::warn!("the new certificate cannot be used, the previous one stays in use: {error}");
                }
                reported = Some(error);
            }
        }
    }
}

impl Files {
    fn read(folder: &Path) -> Result<Self, CertificateError> {
        let read = |name: &str| {
            let path = folder.join(name);
            let bytes = safe_file::read_whole(&path, MAX_FILE_SIZE)
                .and_then(|bytes| bytes.ok_or_else(|| io::Error::other(format!("it is larger than {MAX_FILE_SIZE}"))));
            bytes.map_err(|source| CertificateError::Unreadable { path, source })
        };
        Ok(Self { certificate: read(CERTIFICATE_FILE)?, key: read(KEY_FILE)? })
    }

    fn parse(&self, folder: &Path, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, CertificateError> {
        let no_pem = |name: &str| {
            let path = folder.join(name);
            move |source| CertificateError::NoPem { path, source }
        };
        let chain = CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(no_pem(CERTIFICATE_FILE))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(no_pem(KEY_FILE))?;
        Ok(Arc::new(CertifiedKey::from_der(chain, key, provider)?))
    }
}

fn self_signed(provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, CertificateError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok(Arc::new(CertifiedKey::from_der(vec![made.cert.der().clone()], key.into(), provider)?))
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.key.load_full()
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Current")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, certificate: &[u8], key: &[u8]) {
        std::fs::write(folder.join(CERTIFICATE_FILE), certificate).unwrap();
        std::fs::write(folder.join(KEY_FILE), key).unwrap();
    }

    /// A certificate in PEM, with its key.
    fn made() -> [Vec<u8>; 2] {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        [made.cert.pem().into_bytes(), made.signing_key.serialize_pem().into_bytes()]
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_that_changes_is_used_and_one_that_cannot_be_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let provider = Arc::new(ring::default_provider());
        let [first, second] = [made(), made()];
        put(dir.path(), &first[0], &first[1]);
        let files = Files::read(dir.path()).unwrap();
        let current = Current::new(Some(files.parse(dir.path(), &provider).unwrap()));
        let used = || current.key.load_full().unwrap().cert.clone();
        let before = used();
        let reads = CertificateReads::default();
        let now = (files, current.clone());
        tokio::spawn(follow(dir.path().to_owned(), now, provider.clone(), reads.clone()));
        // The key of another certificate.
        put(dir.path(), &second[0], &first[1]);
        tokio::time::sleep(3 * POLL_INTERVAL).await;
        assert_eq!(used(), before);
        put(dir.path(), &second[0], &second[1]);
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while used() == before {
            assert!(std::time::Instant::now() < deadline, "the new certificate is not used");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        assert!(reads.failed.get() >= 1 && reads.all.get() > reads.failed.get(), "{reads:?}");
    }

    #[tokio::test]
    async fn a_folder_without_a_usable_certificate_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let reads = CertificateReads::default();
        let refused = |dir: &Path| acceptor(Some(dir), &reads).map(drop).unwrap_err().to_string();
        assert!(refused(dir.path()).contains("tls.crt"));
        let [certificate, key] = made();
        put(dir.path(), &certificate, b"none");
        assert!(refused(dir.path()).contains("tls.key"));
        put(dir.path(), b"", &key);
        assert!(refused(dir.path()).contains("cannot be used"));
        put(dir.path(), &certificate, &key);
        acceptor(Some(dir.path()), &reads).map(drop).unwrap();
        acceptor(None, &reads).map(drop).unwrap();
    }
}
