//! The certificate authorities that a registry's certificate may be signed by: those of the system, and those that are
//! given. Where the system has none, as in an image with nothing but this binary, the public ones that are built in.

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::error::RegistryError;

/// Returns how a registry's certificate is checked. Reads the system's authorities.
///
/// # Errors
/// If the given authorities, in PEM, cannot be used.
pub(super) fn trust(given: Option<&str>) -> Result<ClientConfig, RegistryError> {
    let mut roots = of_system();
    given.map_or(Ok(()), |given| add(&mut roots, given)).map_err(RegistryError::InvalidAuthority)?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(|error| RegistryError::InvalidAuthority(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // A system may have some that cannot be read, beside those that count.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    }
    roots
}

/// Adds authorities, in PEM. At least one is expected.
fn add(roots: &mut RootCertStore, pem: &str) -> Result<(), String> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
        count += 1;
    }
    if count == 0 { Err("there is no certificate in it".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_that_cannot_be_read_is_refused() {
        let unreadable = ["-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"];
        for text in ["", "words", &unreadable.join("no base64!\n"), &unreadable.join("AAAA\n")] {
            assert_eq!(trust(Some(text)).unwrap_err().reason(), "InvalidAuthority", "{text}");
        }
        let own = rcgen::generate_simple_self_signed(vec!["registry.test".to_owned()]).unwrap().cert;
        trust(Some(&own.pem())).unwrap();
        let mut roots = RootCertStore::empty();
        assert_eq!((add(&mut roots, &own.pem()), roots.len()), (Ok(()), 1));
    }

    #[test]
    fn there_are_authorities_on_every_system() {
        assert!(!of_system().is_empty());
    }
}
