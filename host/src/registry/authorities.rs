//! The certificate authorities that a registry's certificate may be signed by: those of the system, and those that are
//! given. Where the system has none, as in an image with nothing but this binary, the public ones that are built in.

use std::env::args_os;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oci_client::client::{Certificate, CertificateEncoding};
use rustix::fs::{MemfdFlags, memfd_create};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::registry::error::RegistryError;

/// The variable that names the file of the system's authorities.
const FILE_VARIABLE: &str = "SSL_CERT_FILE";
/// The directory of the file that [`ensure`] wrote.
const OWN_FILES: &str = "/proc/self/fd/";
/// The length of a line of PEM.
const PEM_LINE_LENGTH: usize = 64;

/// Returns if the system has authorities, and otherwise executes this program again with those that are built in.
/// The client (oci-client 0.18) panics where the system has none, even if others are given: it always creates a second
/// client with the defaults.
///
/// # Errors
/// If the program cannot be executed again.
pub fn ensure() -> io::Result<()> {
    let is_own = std::env::var(FILE_VARIABLE).is_ok_and(|file| file.starts_with(OWN_FILES));
    if is_own || !rustls_native_certs::load_native_certs().certs.is_empty() {
        return Ok(());
    }
    // Without the flag `CLOEXEC`, so that the file stays open in the new program.
    let mut file = File::from(memfd_create("authorities", MemfdFlags::empty())?);
    file.write_all(built_in().as_bytes())?;
    let path = format!("{OWN_FILES}{}", file.as_raw_fd());
    Err(Command::new("/proc/self/exe").args(args_os().skip(1)).env(FILE_VARIABLE, path).exec())
}

/// Returns the public authorities, in PEM.
fn built_in() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let letters = STANDARD.encode(certificate).into_bytes();
        for line in letters.chunks(PEM_LINE_LENGTH) {
            text.extend(line.iter().map(|letter| char::from(*letter)));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// Reads given authorities, in PEM.
///
/// # Errors
/// If there is no certificate in the text, or one that cannot be read.
pub(super) fn given(pem: &str) -> Result<Vec<Certificate>, RegistryError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| RegistryError::InvalidAuthority(error.to_string()))?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(|error| RegistryError::InvalidAuthority(error.to_string()))?;
    }
    if certificates.is_empty() {
        return Err(RegistryError::InvalidAuthority("there is no certificate in it".to_owned()));
    }
    let certificate = |der: &CertificateDer<'_>| Certificate { encoding: CertificateEncoding::Der, data: der.to_vec() };
    Ok(certificates.iter().map(certificate).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_authorities_can_be_read_back() {
        let text = built_in();
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        assert_eq!(read.unwrap(), webpki_root_certs::TLS_SERVER_ROOT_CERTS);
    }

    #[test]
    fn an_authority_that_cannot_be_read_is_refused() {
        let unreadable = ["-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"];
        for text in ["", "words", &unreadable.join("no base64!\n"), &unreadable.join("AAAA\n")] {
            assert_eq!(given(text).unwrap_err().reason(), "InvalidAuthority", "{text}");
        }
        let own = rcgen::generate_simple_self_signed(vec!["registry.test".to_owned()]).unwrap().cert;
        assert_eq!(given(&own.pem()).unwrap()[0].data, own.der().to_vec());
    }
}
