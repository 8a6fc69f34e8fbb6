//! Why an image cannot be pulled or pushed, or is not trusted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use hotshoe_core::model::sanitize::clean;
use hotshoe_core::model::scheme_hint;

/// The maximum length of a registry's words in a message, in bytes.
const MAX_CAUSE_BYTES: usize = 500;

/// Why an image cannot be pulled or pushed, or is not trusted. Serialised, because the process that pulls sends it to
/// the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum RegistryError {
    /// The text is no reference to an image.
    #[error(
        "{text:?} is no reference to an image: {why}; write oci://REGISTRY/REPOSITORY:TAG, or @sha256:DIGEST instead of :TAG"
    )]
    InvalidReference { text: String, why: String },
    /// No registry answers at the address.
    #[error(
        "cannot reach the registry {registry}: {why}; check its name, the network, the proxy (HTTPS_PROXY, NO_PROXY) and the authority of its certificate"
    )]
    Unreachable { registry: String, why: String },
    /// The registry takes too long.
    #[error("the registry {registry} was not done within {}s; try again, or use one that is nearer", .time.as_secs())]
    TimedOut { registry: String, time: Duration },
    /// The registry's answer is not as specified.
    #[error("the registry {registry} failed: {why}; try again, and look at its log if that fails too")]
    Failed { registry: String, why: String },
    /// The registry denies access with these credentials.
    #[error(
        "the registry {registry} denies access to {image} {with}; log in with `docker login {registry}`, or name a pull secret that has credentials for it"
    )]
    Unauthorized { registry: String, image: String, with: String },
    /// The registry asks for its credentials at another host.
    #[error(
        "the registry {registry} asks for its user and password at {host}, which is another host, \
         so they are not sent; if they belong there, name it in spec.source.tokenHost, or with --token-host"
    )]
    TokenHost { registry: String, host: String },
    /// The registry does not have this image.
    #[error("{image} is not there; check its name and tag, or push it with `hotshoe push`")]
    ImageNotFound { image: String },
    /// Bytes of the image do not match their digest.
    #[error(
        "{image} is not what its digest says: {why}; nothing of it is used. If it stays so, the registry, or a proxy before it, changes what it serves"
    )]
    WrongDigest { image: String, why: String },
    /// The image is of another kind.
    #[error("{image} is no component: {why}")]
    WrongMediaType { image: String, why: String },
    /// The layer's bytes are no component.
    #[error("{image} holds something else than it says: {why}")]
    NotAComponent { image: String, why: String },
    /// The component is larger than the limit.
    #[error(
        "{image} has {size} bytes, more than the {limit} that are accepted; make it smaller, or raise limits.componentBytes"
    )]
    TooLarge { image: String, size: u64, limit: u64 },
    /// The image has no signature.
    #[error(
        "{image} is not signed, and spec.source.verify wants it to be; sign it with `cosign sign {}`, or use an image that is signed",
        image.trim_start_matches("oci://")
    )]
    SignatureMissing { image: String },
    /// None of the image's signatures is accepted.
    #[error(
        "no signature of {image} is accepted: {why}; have it signed by one of those in spec.source.verify, or correct that list"
    )]
    SignatureInvalid { image: String, why: String },
    /// The description of a signer cannot be used.
    #[error("spec.source.verify cannot be used: {0}")]
    InvalidSigner(String),
    /// The credentials cannot be read.
    #[error(
        "the credentials for registries cannot be read: {0}; `docker login` and `kubectl create secret docker-registry` write what is expected"
    )]
    InvalidCredentials(String),
    /// The certificates of authorities cannot be used.
    #[error("the certificates of registries' authorities cannot be used: {0}; give certificates in PEM")]
    InvalidAuthority(String),
    /// The process that pulls failed.
    #[error("pulling {image} failed: {why}")]
    ProcessFailed { image: String, why: String },
}

impl RegistryError {
    /// Returns what happened in a few words, as part of another message.
    pub(super) fn brief(&self) -> String {
        match self {
            Self::ImageNotFound { .. } => String::from("it is not there"),
            Self::Unauthorized { .. } => String::from("access is denied"),
            Self::Unreachable { why, .. }
            | Self::Failed { why, .. }
            | Self::WrongDigest { why, .. }
            | Self::WrongMediaType { why, .. } => why.clone(),
            other => other.reason().to_owned(),
        }
    }

    /// Returns one PascalCase word for conditions, log and metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidReference { .. } => "InvalidReference",
            Self::Unreachable { .. } => "RegistryUnreachable",
            Self::TimedOut { .. } => "RegistryTimedOut",
            Self::Failed { .. } => "RegistryFailed",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::TokenHost { .. } => "TokenHostUnknown",
            Self::ImageNotFound { .. } => "ImageNotFound",
            Self::WrongDigest { .. } => "WrongDigest",
            Self::WrongMediaType { .. } => "WrongMediaType",
            Self::NotAComponent { .. } => "NotAComponent",
            Self::TooLarge { .. } => "ComponentTooLarge",
            Self::SignatureMissing { .. } => "SignatureMissing",
            Self::SignatureInvalid { .. } => "SignatureInvalid",
            Self::InvalidSigner(_) => "InvalidSigner",
            Self::InvalidCredentials(_) => "InvalidCredentials",
            Self::InvalidAuthority(_) => "InvalidAuthority",
            Self::ProcessFailed { .. } => "PullFailed",
        }
    }
}

/// Builds the error of bytes that have another digest.
pub(super) fn wrong_digest(image: &impl ToString, why: impl ToString) -> RegistryError {
    RegistryError::WrongDigest { image: image.to_string(), why: clean(why.to_string(), MAX_CAUSE_BYTES) }
}

/// Returns the innermost error: the outer ones only repeat what was attempted.
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    scheme_hint::explained(cause.to_string())
}

/// Builds the error of a connection that failed or ended early.
pub(super) fn unreachable(registry: &str, why: String) -> RegistryError {
    RegistryError::Unreachable { registry: registry.to_owned(), why: clean(why, MAX_CAUSE_BYTES) }
}
