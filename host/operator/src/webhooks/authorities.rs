//! The CAs of the webhooks: as the content of a Secret, and as what signs the certificate of a host.
//!
//! The Secret has all certificates in one entry and all keys in another; a key belongs to the certificate that has its
//! public half. All CAs have one name, so that the name says nothing about which of them signed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::pem::{self, LineEnding};
use x509_cert::ext::pkix::BasicConstraints as IsAuthority;

use hotshoe_core::flow::ca_rotation::{self, CA_LIFETIME, Kept, Plan, Validity};

/// The maximum size of the content of the Secret, in bytes. Four CAs with their keys have 4 KiB.
pub const MAX_CONTENT_BYTES: usize = 64 << 10;

/// The name of a CA.
const CA_NAME: &str = "hotshoe webhooks CA";
/// The name of what a CA signs. Clients look at the alternative names only.
const LEAF_NAME: &str = "hotshoe webhooks";
/// The last second that a certificate can name, that of the year 9999 (RFC 5280, 4.1.2.5).
const LAST_SECOND: u64 = 253_402_300_799;

/// The content of the Secret, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The certificates of the CAs, the oldest first.
    pub certificates: Vec<u8>,
    /// The keys of those that sign or will sign.
    pub keys: Vec<u8>,
}

/// A CA.
#[derive(Clone)]
struct Authority {
    certificate: CertificateDer<'static>,
    validity: Validity,
    key: Option<Arc<KeyPair>>,
}

/// The CAs of the webhooks.
#[derive(Clone, Default)]
pub struct Authorities(Vec<Authority>);

/// The certificate of a host, and its key.
pub struct Leaf {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The key.
    pub key: PrivatePkcs8KeyDer<'static>,
    /// When the certificate is valid.
    pub validity: Validity,
    /// The certificate of the CA that signed it.
    issuer: CertificateDer<'static>,
}

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// It cannot be signed or encoded.
    #[error("a certificate of the webhooks cannot be made: {0}; this is a fault of the host, please report it")]
    Refused(#[from] rcgen::Error),
    /// The clock shows no time that a certificate can have.
    #[error("the clock of this machine shows no time that a certificate can have; set it")]
    NoSuchTime,
}

impl Authorities {
    /// Reads what can be read. The second value says what is there and cannot be.
    pub fn read(content: &Content) -> (Self, Vec<String>) {
        let size = content.certificates.len().saturating_add(content.keys.len());
        if size > MAX_CONTENT_BYTES {
            return (Self::default(), vec![format!("it has {size} bytes, and may have {MAX_CONTENT_BYTES}")]);
        }
        let mut problems = Vec::new();
        let keys = PrivatePkcs8KeyDer::pem_slice_iter(&content.keys).filter_map(|key| {
            let key = key.map_err(|error| error.to_string());
            let key = key.and_then(|key| KeyPair::try_from(&key).map_err(|error| error.to_string()));
            key.map_err(|error| problems.push(format!("a key cannot be read: {error}"))).ok()
        });
        let keys: Vec<Arc<KeyPair>> = keys.map(Arc::new).collect();
        let certificates = CertificateDer::pem_slice_iter(&content.certificates);
        let authorities = certificates.filter_map(|certificate| {
            let certificate = certificate.map_err(|error| error.to_string());
            let authority = certificate.and_then(|certificate| Authority::read(certificate, &keys));
            authority.map_err(|error| problems.push(format!("a certificate cannot be used: {error}"))).ok()
        });
        let authorities: Vec<Authority> = authorities.collect();
        if authorities.is_empty() && problems.is_empty() && *content != Content::default() {
            problems.push("it has no certificate".to_owned());
        }
        (Self(authorities), problems)
    }

    /// Returns the content of the Secret.
    pub fn content(&self) -> Content {
        let keys = self.0.iter().filter_map(|authority| authority.key.as_ref());
        let keys: String = keys.map(|key| key.serialize_pem()).collect();
        Content { certificates: self.bundle().into_bytes(), keys: keys.into_bytes() }
    }

    /// Returns the certificates in PEM, by which API servers trust the host.
    pub fn bundle(&self) -> String {
        let encode = |authority: &Authority| pem::encode_string("CERTIFICATE", LineEnding::LF, &authority.certificate);
        // Encoding fails for more bytes than a certificate has.
        self.0.iter().filter_map(|authority| encode(authority).ok()).collect()
    }

    /// Returns what is to be done with these CAs now.
    pub fn plan(&self, now: u64) -> Plan {
        let of = |authority: &Authority| ca_rotation::Authority {
            validity: authority.validity,
            has_key: authority.key.is_some(),
        };
        ca_rotation::plan(&self.0.iter().map(of).collect::<Vec<_>>(), now)
    }

    /// Returns the CAs that there should be now.
    ///
    /// # Errors
    /// When a CA is due and cannot be made.
    pub fn next(&self, now: u64) -> Result<Self, MakeError> {
        let plan = self.plan(now);
        let mut next = self.keep(&plan.kept);
        if plan.is_one_due {
            next.0.push(Authority::make(now)?);
            next = next.keep(&next.plan(now).kept);
        }
        Ok(next)
    }

    fn keep(&self, kept: &[Kept]) -> Self {
        let keep = |kept: &Kept| {
            let authority = self.0.get(kept.place)?;
            let key = authority.key.clone().filter(|_| kept.with_key);
            Some(Authority { key, ..authority.clone() })
        };
        Self(kept.iter().filter_map(keep).collect())
    }

    /// Makes a certificate for these names, signed by the CA that signs now; `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn sign(&self, names: &[String], now: u64) -> Result<Option<Leaf>, MakeError> {
        self.signer(now).map(|signer| signer.sign(names, now)).transpose().map(Option::flatten)
    }

    /// Returns whether a leaf is signed by the CA that signs now, and has enough time left.
    pub fn is_current(&self, leaf: &Leaf, now: u64) -> bool {
        let is_of_signer = self.signer(now).is_some_and(|signer| signer.certificate == leaf.issuer);
        is_of_signer && !leaf.validity.is_to_be_renewed(now)
    }

    fn signer(&self, now: u64) -> Option<&Authority> {
        self.0.get(self.plan(now).signer?)
    }
}

impl Authority {
    fn read(certificate: CertificateDer<'static>, keys: &[Arc<KeyPair>]) -> Result<Self, String> {
        let parsed = Certificate::from_der(&certificate).map_err(|error| error.to_string())?.tbs_certificate;
        let constraints = parsed.get::<IsAuthority>().map_err(|error| error.to_string())?;
        if !constraints.is_some_and(|(_, constraints)| constraints.ca) {
            return Err("it is not one of a CA".to_owned());
        }
        // Only with this name does a leaf name its issuer rightly.
        if parsed.subject.to_string() != format!("CN={CA_NAME}") {
            return Err(format!("it is one of {}, and not of {CA_NAME}", parsed.subject));
        }
        let public = parsed.subject_public_key_info.subject_public_key.raw_bytes();
        let key = keys.iter().find(|key| key.public_key_raw() == public).cloned();
        let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
        let not_after = seconds(parsed.validity.not_after);
        let validity = Validity { not_before: seconds(parsed.validity.not_before), not_after };
        Ok(Self { certificate, validity, key })
    }

    fn make(now: u64) -> Result<Self, MakeError> {
        let (validity, key) = (Validity::of_new(now, CA_LIFETIME), KeyPair::generate()?);
        let certificate = parameters_of_ca(validity)?.self_signed(&key)?.der().clone();
        Ok(Self { certificate, validity, key: Some(Arc::new(key)) })
    }

    /// Signs a leaf; `None` without a key.
    fn sign(&self, names: &[String], now: u64) -> Result<Option<Leaf>, MakeError> {
        let Some(signing) = &self.key else { return Ok(None) };
        let (validity, key) = (self.validity.of_leaf(now), KeyPair::generate()?);
        let mut parameters = parameters(LEAF_NAME, names, validity)?;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.use_authority_key_identifier_extension = true;
        let issuer = Issuer::new(parameters_of_ca(self.validity)?, &**signing);
        let certificate = parameters.signed_by(&key, &issuer)?.der().clone();
        let (key, issuer) = (PrivatePkcs8KeyDer::from(key.serialize_der()), self.certificate.clone());
        Ok(Some(Leaf { certificate, key, validity, issuer }))
    }
}

fn parameters_of_ca(validity: Validity) -> Result<CertificateParams, MakeError> {
    let mut parameters = parameters(CA_NAME, &[], validity)?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(parameters)
}

fn parameters(name: &str, alternatives: &[String], validity: Validity) -> Result<CertificateParams, MakeError> {
    let mut parameters = CertificateParams::new(alternatives)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = time(validity.not_before)?.into();
    parameters.not_after = time(validity.not_after)?.into();
    Ok(parameters)
}

fn time(seconds: u64) -> Result<SystemTime, MakeError> {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    time.filter(|_| seconds <= LAST_SECOND).ok_or(MakeError::NoSuchTime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::flow::ca_rotation::{MAX_AUTHORITIES, REPLACED_BEFORE, TRUSTED_AFTER};

    const NOW: u64 = 1_800_000_000;

    fn first() -> Authorities {
        Authorities::default().next(NOW).unwrap()
    }

    fn read(content: &Content) -> Authorities {
        let (authorities, problems) = Authorities::read(content);
        assert!(problems.is_empty(), "{problems:?}");
        authorities
    }

    fn names() -> [String; 2] {
        ["hotshoe-webhooks.system.svc".to_owned(), "127.0.0.1".to_owned()]
    }

    #[test]
    fn what_was_written_is_read_again_and_signs_for_names_and_addresses() {
        let content = first().content();
        let authorities = read(&content);
        assert_eq!(authorities.content(), content);
        assert_eq!(authorities.next(NOW + 1).unwrap().content(), content, "nothing is due");
        let leaf = authorities.sign(&names(), NOW).unwrap().unwrap();
        let parsed = Certificate::from_der(&leaf.certificate).unwrap().tbs_certificate;
        assert_eq!(parsed.issuer.to_string(), format!("CN={CA_NAME}"));
        assert!(authorities.is_current(&leaf, NOW) && !authorities.is_current(&leaf, leaf.validity.not_after - 1));
        assert!(!first().is_current(&leaf, NOW), "another CA has the same name");
    }

    #[test]
    fn a_second_ca_is_added_in_time_and_the_first_one_keeps_signing_at_first() {
        let one = first();
        let leaf = one.sign(&names(), NOW).unwrap().unwrap();
        let later = NOW + CA_LIFETIME - REPLACED_BEFORE;
        let two = read(&one.next(later).unwrap().content());
        assert_eq!((two.0.len(), two.bundle().matches("BEGIN CERTIFICATE").count()), (2, 2));
        assert_eq!(two.sign(&names(), later).unwrap().unwrap().issuer, leaf.issuer);
        let handed_over = later + TRUSTED_AFTER;
        assert_ne!(two.sign(&names(), handed_over).unwrap().unwrap().issuer, leaf.issuer);
        let after = two.next(handed_over).unwrap();
        assert_eq!(after.bundle(), two.bundle());
        assert_eq!(after.content().keys.len() * 2, two.content().keys.len(), "the key of the first one is gone");
    }

    #[test]
    fn rubbish_beside_a_ca_is_named_and_passed_over() {
        let (good, other) = (first().content(), first().content());
        let leaf = first().sign(&names(), NOW).unwrap().unwrap();
        let leaf = pem::encode_string("CERTIFICATE", LineEnding::LF, &leaf.certificate).unwrap();
        let foreign = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap().cert.pem();
        let cut = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        for rubbish in [&*leaf, &foreign, cut] {
            let certificates = [rubbish.as_bytes(), &good.certificates].concat();
            let (read, problems) = Authorities::read(&Content { certificates, keys: good.keys.clone() });
            assert_eq!((read.content(), problems.len()), (good.clone(), 1), "{problems:?}");
        }
        let without_key = Content { keys: other.keys, ..good.clone() };
        assert!(read(&without_key).sign(&names(), NOW).unwrap().is_none());
        assert_eq!(read(&without_key).next(NOW).unwrap().0.len(), 2, "it is trusted, and another one signs");
        for nothing in [b"rubbish".to_vec(), vec![0xff; 10]] {
            let (read, problems) = Authorities::read(&Content { certificates: nothing.clone(), keys: nothing });
            assert_eq!((read.0.len(), problems.len()), (0, 1), "{problems:?}");
        }
    }

    #[test]
    fn more_than_the_limit_is_not_read_at_all() {
        let mut content = first().content();
        content.keys.resize(MAX_CONTENT_BYTES, b'\n');
        let (read, problems) = Authorities::read(&content);
        assert!(read.0.is_empty() && problems[0].contains("may have 65536"), "{problems:?}");
    }

    #[test]
    fn many_cas_are_reduced_to_a_few() {
        let many: Vec<Content> = (0..10).map(|_| first().content()).collect();
        let all = |part: fn(&Content) -> &Vec<u8>| many.iter().flat_map(part).copied().collect();
        let content = Content { certificates: all(|of| &of.certificates), keys: all(|of| &of.keys) };
        assert_eq!(read(&content).next(NOW).unwrap().0.len(), MAX_AUTHORITIES);
    }

    #[test]
    fn a_clock_beyond_all_calendars_is_an_error() {
        assert!(matches!(Authorities::default().next(u64::MAX / 2), Err(MakeError::NoSuchTime)));
    }
}
