//! Which certificate authorities a registry's certificate may be signed by: those of the system, or the public ones that
//! are built in where the system has none, as in an image with nothing but this binary in it; and those that are given.

use std::sync::OnceLock;

use oci_client::client::{Certificate, CertificateEncoding};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::registry::error::RegistryError;

/// Returns the authorities that are trusted without being given. Reads the system's files the first time.
pub(super) fn of_system() -> &'static [CertificateDer<'static>] {
    static FOUND: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut found = rustls_native_certs::load_native_certs().certs;
        // The client is not built with one that it cannot read, and systems have some of those.
        found.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
        if found.is_empty() { webpki_root_certs::TLS_SERVER_ROOT_CERTS.to_vec() } else { found }
    })
}

/// Returns all that are trusted, as the client takes them. `given` is PEM.
///
/// # Errors
/// If there is no certificate in what is given, or one that cannot be read.
pub(super) fn trusted(given: Option<&str>) -> Result<Vec<Certificate>, RegistryError> {
    let given = given.map(read).transpose()?.unwrap_or_default();
    let certificate = |der: &CertificateDer<'_>| Certificate { encoding: CertificateEncoding::Der, data: der.to_vec() };
    Ok(of_system().iter().chain(&given).map(certificate).collect())
}

fn read(pem: &str) -> Result<Vec<CertificateDer<'static>>, RegistryError> {
    let unusable = |why: String| RegistryError::InvalidAuthority(why);
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(|error| unusable(error.to_string()))?;
    }
    if certificates.is_empty() { Err(unusable("there is no certificate in it".to_owned())) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_that_cannot_be_read_is_refused() {
        let unreadable = ["-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"];
        for text in ["", "words", &unreadable.join("no base64!\n"), &unreadable.join("AAAA\n")] {
            assert_eq!(trusted(Some(text)).unwrap_err().reason(), "InvalidAuthority", "{text}");
        }
    }

    #[test]
    fn a_given_authority_is_trusted_beside_the_others() {
        let own = rcgen::generate_simple_self_signed(vec!["registry.test".to_owned()]).unwrap().cert;
        let all = trusted(Some(&own.pem())).unwrap();
        assert_eq!(all.len(), of_system().len() + 1);
        assert!(all.len() > 50, "those of the system, or those that are built in");
        assert_eq!(all.last().unwrap().data, own.der().to_vec());
    }
}
