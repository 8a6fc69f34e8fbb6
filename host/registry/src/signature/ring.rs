//! Has Sigstore's library use ring for its cryptography, as TLS does.

use std::cell::RefCell;

use ring::digest::{Context, SHA256, SHA384, SHA512, digest};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use sigstore_verify::crypto::{CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider};
use sigstore_verify::types::HashAlgorithm;

thread_local! {
    /// The message of the signature that is being verified: [`CryptoProvider::verify_prehashed`] gets only its digest.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
struct Ring;

struct Hash(Context);

impl HashContext for Hash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

/// Installs ring as the cryptography of Sigstore's library.
pub(super) fn install() {
    // Fails if it was installed before.
    let _ = install_default_provider(&Ring);
}

/// Does work that may verify a signature given only the digest of this message: ring verifies signatures of whole
/// messages only, so the message is kept meanwhile.
pub(super) fn remembering<T>(message: &[u8], work: impl FnOnce() -> T) -> T {
    MESSAGE.set(message.to_vec());
    let done = work();
    MESSAGE.take();
    done
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        Ok(Box::new(Hash(Context::new(hash_algorithm(algorithm)?))))
    }

    fn verify_raw(&self, scheme: SigningScheme, key: &[u8], data: &[u8], signature: &[u8]) -> Result<()> {
        let key = UnparsedPublicKey::new(algorithm(scheme)?, key);
        key.verify(data, signature).map_err(|_| Error::Verification(format!("{} signature invalid", scheme.name())))
    }

    fn verify_prehashed(&self, scheme: SigningScheme, key: &[u8], hash: &[u8], signature: &[u8]) -> Result<()> {
        let unknown = || Error::UnsupportedAlgorithm(format!("{} of a digest alone", scheme.name()));
        let algorithm = hash_algorithm(scheme.hash_algorithm().ok_or_else(unknown)?)?;
        MESSAGE.with_borrow(|message| match digest(algorithm, message).as_ref() == hash {
            true => self.verify_raw(scheme, key, message, signature),
            false => Err(unknown()),
        })
    }
}

fn hash_algorithm(algorithm: HashAlgorithm) -> Result<&'static ring::digest::Algorithm> {
    match algorithm {
        HashAlgorithm::Sha2256 => Ok(&SHA256),
        HashAlgorithm::Sha2384 => Ok(&SHA384),
        HashAlgorithm::Sha2512 => Ok(&SHA512),
        other => Err(Error::UnsupportedAlgorithm(other.to_string())),
    }
}

fn algorithm(scheme: SigningScheme) -> Result<&'static dyn VerificationAlgorithm> {
    match scheme {
        SigningScheme::EcdsaP256Sha256 => Ok(&ECDSA_P256_SHA256_ASN1),
        SigningScheme::EcdsaP256Sha384 => Ok(&ECDSA_P256_SHA384_ASN1),
        SigningScheme::EcdsaP384Sha256 => Ok(&ECDSA_P384_SHA256_ASN1),
        SigningScheme::EcdsaP384Sha384 => Ok(&ECDSA_P384_SHA384_ASN1),
        SigningScheme::Ed25519 => Ok(&ED25519),
        SigningScheme::RsaPssSha256 => Ok(&RSA_PSS_2048_8192_SHA256),
        SigningScheme::RsaPssSha384 => Ok(&RSA_PSS_2048_8192_SHA384),
        SigningScheme::RsaPssSha512 => Ok(&RSA_PSS_2048_8192_SHA512),
        SigningScheme::RsaPkcs1Sha256 => Ok(&RSA_PKCS1_2048_8192_SHA256),
        SigningScheme::RsaPkcs1Sha384 => Ok(&RSA_PKCS1_2048_8192_SHA384),
        SigningScheme::RsaPkcs1Sha512 => Ok(&RSA_PKCS1_2048_8192_SHA512),
        other => Err(Error::UnsupportedAlgorithm(other.name().to_owned())),
    }
}
