//! The authorities that are trusted where the system has none, as in an image with nothing but this binary in it.

use std::env::args_os;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{MemfdFlags, memfd_create};

/// Where the client looks for authorities.
const FILE: &str = "SSL_CERT_FILE";
/// Where those are that this wrote.
const OURS: &str = "/proc/self/fd/";
/// The letters in a line of PEM.
const LINE: usize = 64;

/// Goes on if the system has authorities, and otherwise runs this program again with those that are built in: the client
/// takes them from the system alone, and ends without any.
///
/// # Errors
/// If it cannot be run again.
pub fn ensure() -> io::Result<()> {
    let is_ours = std::env::var(FILE).is_ok_and(|file| file.starts_with(OURS));
    if is_ours || !rustls_native_certs::load_native_certs().certs.is_empty() {
        return Ok(());
    }
    // It has no flags, so that it stays open.
    let mut file = File::from(memfd_create("authorities", MemfdFlags::empty())?);
    file.write_all(built_in().as_bytes())?;
    let place = format!("{OURS}{}", file.as_raw_fd());
    Err(Command::new("/proc/self/exe").args(args_os().skip(1)).env(FILE, place).exec())
}

/// Returns the public authorities, in PEM.
fn built_in() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let letters = STANDARD.encode(certificate).into_bytes();
        for line in letters.chunks(LINE) {
            text.extend(line.iter().map(|letter| char::from(*letter)));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn what_is_built_in_is_read_as_it_was() {
        let text = built_in();
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        assert_eq!(read.unwrap(), webpki_root_certs::TLS_SERVER_ROOT_CERTS);
    }
}
